"""How episodes are played. A runner turns a game and a policy into whole episodes and their statistics.

`vector` plays JAX games inside a compiled program, whatever their number. `host` plays all other games: `episode` in
this process, `parallel` in worker processes. `RUNNERS` has them by name; `register_runner` adds another one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omg.runners.host import HostRunner, Played, default_workers, episode_seed
    from omg.runners.registry import RUNNERS, RunnerKind, register_runner
    from omg.runners.vector import OWN_RETURN, EpisodeStats, Rollout, any_over, play_episodes
    from omg.runners.workers import GamesFailedError, Patience

__all__ = [
    "OWN_RETURN",
    "RUNNERS",
    "EpisodeStats",
    "GamesFailedError",
    "HostRunner",
    "Patience",
    "Played",
    "Rollout",
    "RunnerKind",
    "any_over",
    "default_workers",
    "episode_seed",
    "play_episodes",
    "register_runner",
]

_HOME = {"HostRunner": "host", "Played": "host", "default_workers": "host", "episode_seed": "host"}
_HOME |= dict.fromkeys(("RUNNERS", "RunnerKind", "register_runner"), "registry")
_HOME |= {"GamesFailedError": "workers", "Patience": "workers"}


def __getattr__(name: str) -> Any:
    """Loads runners on first use: worker processes import this package and must not wait for JAX."""
    if name not in __all__:
        raise AttributeError(f"module 'omg.runners' has no attribute '{name}'")
    return getattr(import_module(f"omg.runners.{_HOME.get(name, 'vector')}"), name)
