"""A turned board is the same game."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.components.selectors import random_legal
from omg.envs import make_env
from omg.envs.grid.symmetry import symmetries


@pytest.mark.parametrize(("shape", "ways"), [((4, 4), 8), ((3, 5), 4)])
def test_tables_are_each_others_inverse_and_all_different(shape: tuple[int, int], ways: int) -> None:
    tables = symmetries(*shape, 7)
    assert len(np.unique(tables.cell_from, axis=0)) == ways == len(tables.cell_from)
    for there, back in ((tables.cell_from, tables.cell_to), (tables.action_from, tables.action_to)):
        np.testing.assert_array_equal(
            np.take_along_axis(there, back, axis=1), np.tile(np.arange(there.shape[1]), (ways, 1))
        )
    np.testing.assert_array_equal(tables.cell_from[0], np.arange(shape[0] * shape[1]))
    np.testing.assert_array_equal(tables.action_to[0], np.arange(7))
    assert (tables.action_to[:, 4:] == np.arange(4, 7)).all()


@pytest.mark.parametrize(("name", "places"), [("stag_hunt", ("player", "prey")), ("snowdrift", ("player", "drift"))])
def test_playing_and_turning_can_be_exchanged(name: str, places: tuple[str, ...]) -> None:
    env: Any = make_env(name, size=4, players=3, blocks=0, **({"hares": 3} if name == "stag_hunt" else {"drifts": 4}))
    games, tables = 64, symmetries(4, 4, env.spec.n_actions)
    way = jnp.arange(games) % 8
    cell_to, action_to = jnp.asarray(tables.cell_to)[way], jnp.asarray(tables.action_to)[way]

    def turn(state: Any) -> Any:
        cells = {each: jnp.take_along_axis(cell_to, getattr(state, each).astype(jnp.int32), axis=1) for each in places}
        last = jnp.take_along_axis(action_to, jnp.maximum(state.last_action, 0).astype(jnp.int32), axis=1)
        last = jnp.where(state.last_action < 0, state.last_action, last)
        kept = {each: value.astype(getattr(state, each).dtype) for each, value in cells.items()}
        return state._replace(**kept, last_action=last.astype(jnp.int8))

    @jax.jit
    def play(key: jax.Array) -> Any:
        def step(state: Any, key: jax.Array) -> tuple[Any, Any]:
            actions = random_legal(env.legal(state), key)
            after, rewards, over = env.advance(state, actions)
            also = env.advance(turn(state), jnp.take_along_axis(action_to, actions.astype(jnp.int32), axis=1))
            return after, ((turn(after), rewards, over), also)

        return jax.lax.scan(step, env.start(key, games), jax.random.split(key, 20))[1]

    expected, found = jax.device_get(play(jax.random.key(0)))
    assert (expected[1] != 0).sum() > 20
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
