"""Other people's interfaces over the built-in games.

A new one is a class made from `(env, seed)` in its own module, and one line in `ADAPTERS`; words that it takes besides
are named in `OPTIONS`. Modules are imported when asked for, so that the packages they need stay optional.
"""

from __future__ import annotations

import importlib
from typing import Any

from omg.envs.base import AnyEnv
from omg.errors import unknown_name

__all__ = ["ADAPTERS", "OPTIONS", "adapt"]

ADAPTERS: dict[str, str] = {
    "epymarl": "omg.envs.adapters.epymarl:EPyMARLEnv",
    "pettingzoo": "omg.envs.adapters.pettingzoo:PettingZooEnv",
    "pymarl": "omg.envs.adapters.pymarl:PyMARLEnv",
}
"""Name of the interface -> module and class."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "epymarl": ("common_reward", "reward_scalarisation"),
    "pettingzoo": ("render_mode",),
}
"""Words that an interface takes besides the game and the seed."""


def adapt(env: AnyEnv, api: str = "jax", seed: int = 0, **options: bool | str) -> Any:
    """Offers a built-in game under another interface.

    Args:
        env: a built-in game.
        api: `jax` (the game itself, unchanged), `pettingzoo` (a `ParallelEnv`), `pymarl` (PyMARL's `MultiAgentEnv`)
            or `epymarl` (EPyMARL's).
        seed: all randomness of the adapted game; without effect for `jax`, whose users bring their own keys.
        options: words of the interface, those in `OPTIONS`.

    Returns:
        the game itself or the adapter around it.
    """
    if api == "jax":
        return env
    if api not in ADAPTERS:
        raise unknown_name("env interface (api)", api, ["jax", *ADAPTERS])
    module, name = ADAPTERS[api].split(":")
    return getattr(importlib.import_module(module), name)(env, seed, **options)
