"""The runners by name. Another one is added with `register_runner`, from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from omg.config.runner_rules import RUNNER_RULES, RunnerRules
from omg.errors import UserError
from omg.runners.host import HostRunner
from omg.runners.vector import play_episodes
from omg.runners.workers import Patience

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.adapters.host import HostEnv

Say = Callable[[str], None]


class RunnerKind(NamedTuple):
    """What a word of the key `runner` means."""

    summary: str
    """One line."""
    rules: RunnerRules
    """How it limits other keys."""
    play: Callable[..., Any] = play_episodes
    """Plays games that are JAX programs, inside a compiled one; called and answering as `play_episodes`."""
    open: Callable[[HostEnv, Config, Say], Any] | None = None
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


RUNNERS: dict[str, RunnerKind] = {
    "vector": RunnerKind("any number of games in one compiled program", RUNNER_RULES["vector"]),
    "episode": RunnerKind("one game at a time, by PyMARL's rules", RUNNER_RULES["episode"], open=_open_here),
    "parallel": RunnerKind("rounds of games, by PyMARL's rules", RUNNER_RULES["parallel"], open=_open_workers),
}
"""Word of the key `runner` -> what it means."""


def register_runner(name: str, kind: RunnerKind) -> None:
    """Makes `name` a value of the key `runner`.

    Raises:
        UserError: there is a runner of that name.
    """
    if name in RUNNERS:
        raise UserError(f"runner: there is a runner '{name}' already.")
    RUNNERS[name] = kind
    RUNNER_RULES[name] = kind.rules
