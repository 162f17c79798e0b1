"""Played episodes of a tiny stag hunt, with made-up search policies: what tests of planning learners start from."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from omg.components import EpisodeBatch
from omg.envs import make_env

GAMES, STEPS, SEATS = 12, 7, 3
OTHERS = np.array([[1, 2], [0, 2], [0, 1]])
"""The co-players of each seat."""
GAME: dict[str, Any] = {
    "size": 3, "players": SEATS, "hares": 2, "stags": 1, "blocks": 0, "episode_limit": STEPS
}  # fmt: skip


@cache
def episodes() -> EpisodeBatch:
    """Episodes of players who do anything legal, with made-up search policies."""
    env = make_env("stag_hunt", **GAME)
    rng = np.random.default_rng(0)
    world, seen = jax.jit(env.reset, static_argnums=1)(jax.random.PRNGKey(1), GAMES)
    step = jax.jit(env.step)
    alive = np.ones(GAMES, bool)
    slots: list[dict[str, Any]] = []
    for time in range(STEPS + 1):
        avail = np.asarray(seen.avail)
        chance = avail * rng.random(avail.shape)
        # Hunting is liked, so that goals are reached.
        actions = (chance * np.array([1, 1, 1, 1, 0.3, 9, 9])).argmax(axis=-1)
        policy = (chance / chance.sum(axis=-1, keepdims=True)).astype(np.float32)
        slot = {"obs": seen.obs, "state": seen.state, "avail": avail, "actions": actions, "policy": policy}
        world, seen, outcome = step(jax.random.PRNGKey(time), world, jnp.asarray(actions))
        slot["reward"] = np.where(alive[:, None], outcome.reward, 0.0)
        slot["terminated"], slot["filled"] = np.asarray(outcome.terminated) & alive, alive & (time < STEPS)
        alive = alive & ~(np.asarray(outcome.terminated) | np.asarray(outcome.truncated))
        slots.append(slot)
    arrays = {name: np.stack([np.asarray(slot[name]) for slot in slots], axis=1) for name in slots[0]}
    policy = arrays.pop("policy")
    return EpisodeBatch(**arrays, seat=None, records={"search_policy": policy})  # type: ignore[arg-type]


@cache
def there() -> np.ndarray:
    """[B, T, A], who was in the game in the steps that were played."""
    game: Any = make_env("stag_hunt", **GAME)
    batch = episodes()
    state = jax.jit(game.from_world)(batch.state[:, :-1].reshape(GAMES * STEPS, -1))
    return np.asarray(game.there(state)).reshape(GAMES, STEPS, -1) & np.asarray(batch.filled[:, :-1])[..., None]


@cache
def last_there() -> np.ndarray:
    """[B, A], the last slot of an episode in which each player was in the game."""
    game: Any = make_env("stag_hunt", **GAME)
    batch = episodes()
    state = jax.jit(game.from_world)(batch.state.reshape(GAMES * (STEPS + 1), -1))
    standing = np.asarray(game.there(state)).reshape(GAMES, STEPS + 1, -1)
    length = np.asarray(batch.filled).sum(axis=1)
    found = np.zeros((GAMES, standing.shape[2]), int)
    for one, seat in np.ndindex(*found.shape):
        found[one, seat] = max(slot for slot in range(length[one] + 1) if standing[one, slot, seat])
    return found
