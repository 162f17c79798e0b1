"""Scripts as members of pools: one structure for all of a game, and each acts as it does alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.controllers.scripted import build_scripted, scripted_names
from omg.controllers.scripted.cast import build_cast
from omg.controllers.team import build_squad
from omg.envs import make_env
from omg.errors import UserError

GAMES: dict[str, dict[str, Any]] = {
    "rendezvous": {},
    "foraging": {},
    "stag_hunt": {},
    "snowdrift": {},
    "toy_grid": {},
    "sc2": {"map_name": "3m"},
}


@pytest.mark.parametrize("game", GAMES)
def test_every_script_acts_in_a_cast_as_it_does_alone(game: str) -> None:
    env = make_env(game, **GAMES[game])
    key = jax.random.PRNGKey(0)
    _, seen = env.reset(key, 4)
    seats = jnp.broadcast_to(jnp.arange(env.spec.n_agents), seen.avail.shape[:2])
    casts = []
    for name in scripted_names(game):
        try:
            alone = build_scripted(name, env)
        except UserError:
            continue
        cast = build_cast(name, env)
        casts.append(cast)
        expected = alone.choose(seen.obs, seen.avail, seats, key)
        assert cast.choose(seen.obs, seen.avail, seats, key).tolist() == expected.tolist()
        np.testing.assert_array_equal(
            cast.probabilities(seen.obs, seen.avail, seats), alone.probabilities(seen.obs, seen.avail, seats)
        )
    assert len(casts) > 1
    assert len(build_squad(casts)[0].kinds) == 1, "other scripts would need another compilation"


def test_an_unknown_script_is_refused() -> None:
    with pytest.raises(UserError, match="plays rendezvous"):
        build_cast("corner_nw", make_env("toy_grid"))
