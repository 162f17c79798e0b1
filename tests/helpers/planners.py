"""Tiny planning players, and the first steps of games that they play in all seats."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax import Array

from omg.config import Config
from omg.controllers import build_mac
from omg.controllers.hop import HOPMac
from omg.envs import make_env

GAME: dict[str, Any] = {"size": 4, "players": 3, "hares": 1, "stags": 1, "blocks": 0, "episode_limit": 6}
GAMES = 5
KEY = jax.random.PRNGKey(5)


class Step(NamedTuple):
    """One step of `GAMES` games."""

    world: Any
    seen: Any
    actions: Any
    record: Any
    before: Any
    """The player's memory before the step."""
    after: Any
    """And behind it."""


def build_player(config: Config) -> HOPMac:
    built: HOPMac = jax.jit(lambda key: build_mac(config, make_env("stag_hunt", **GAME).spec, key))(KEY)
    return built


@jax.jit
def act(mac: HOPMac, seen: Any, memory: Any, key: Array) -> Any:
    return mac.act(seen, memory, key, 0.0)


def first_steps(mac: HOPMac) -> list[Step]:
    """The first two steps, as NumPy arrays."""
    env, key = mac.game, jax.random.PRNGKey(3)
    world, seen = jax.jit(env.reset, static_argnums=1)(key, GAMES)
    memory = jax.jit(lambda: mac.initial(GAMES))()
    step = jax.jit(env.step)
    steps = []
    for number in range(2):
        actions, after, record = act(mac, seen, memory, jax.random.fold_in(key, number))
        steps.append(Step(*jax.device_get((world, seen, actions, record, memory, after))))
        memory = after
        world, seen, _ = step(key, world, actions)
    return steps
