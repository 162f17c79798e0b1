"""How each runner plays: the implementations behind the registry `omg.runners.RUNNERS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from omg.runners.host import HostRunner
from omg.runners.vector import Rollout, play_episodes
from omg.runners.workers import Patience

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.adapters.host import HostEnv

Say = Callable[[str], None]


class RunnerKind(NamedTuple):
    """What a word of the key `runner` means."""

    play: Callable[..., Rollout] = play_episodes
    """Plays games that are JAX programs, inside a compiled one; called and answering as `play_episodes`."""
    open: Callable[[HostEnv, Config, Say], HostRunner] | None = None
    """(game, configuration, receiver of messages) -> what plays `seeds * batch_size_run` games that are no JAX
    programs, a `HostRunner` or like one; None: it plays none."""


def _open_here(env: HostEnv, config: Config, say: Say) -> HostRunner:
    return _open(env, config, say, 0)


def _open_workers(env: HostEnv, config: Config, say: Say) -> HostRunner:
    return _open(env, config, say, config.workers)


def _open(env: HostEnv, config: Config, say: Say, workers: int | None) -> HostRunner:
    patience = Patience(config.worker_timeout, config.worker_failures)
    games = config.seeds * config.batch_size_run
    return HostRunner(env, config.env, config.env_args, games, workers=workers, patience=patience, say=say)


VECTOR = RunnerKind()
"""Any number of games in one compiled program."""
EPISODE = RunnerKind(open=_open_here)
"""One game at a time."""
PARALLEL = RunnerKind(open=_open_workers)
"""Rounds of games."""
