"""Games that are not JAX programs: what the host runners need of them.

A `HostEnv` is known by its `spec` and opened as often as games are played side by side. A `HostGame` is one of those
games, stepped from Python, without a batch axis. Letters in shapes: A seats, O observation features, S state features,
U actions.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, TypeGuard, runtime_checkable

import numpy as np

from omg.envs.base import EnvSpec
from omg.errors import UserError

if TYPE_CHECKING:
    from jax import Array


class Seen(NamedTuple):
    """What the seats of one game see, as arrays of their own that may be changed."""

    obs: np.ndarray
    """[A, O] float32."""
    state: np.ndarray
    """[S] float32."""
    avail: np.ndarray
    """[A, U] bool."""


class GameFaultError(Exception):
    """A game did what no game may do (it crashed, or returned numbers of the wrong shape); its episode is lost."""


class HostStep(NamedTuple):
    """What one step of one game brought."""

    seen: Seen
    reward: np.ndarray | float
    """[A] where `spec.reward_per_agent`, else one number for the team."""
    terminated: bool
    """A real end of the game."""
    truncated: bool
    """Cut by the time limit; never true together with `terminated`."""
    metrics: Sequence[float]
    """The values of `spec.metrics`, in that order."""


class HostGame(Protocol):
    """One game. Any exception from it counts as a fault: the game is closed and opened anew."""

    def reset(self, seed: int) -> Seen:
        """Starts an episode that, where the game allows it, depends on `seed` (0 … 2^31 - 1) and nothing else."""
        ...

    def step(self, actions: np.ndarray) -> HostStep:
        """Plays one step. `actions`: [A] int32, legal by the last `Seen.avail`."""
        ...

    def close(self) -> None:
        """Frees what the game holds outside Python."""
        ...


@runtime_checkable
class SavesReplays(Protocol):
    """A `HostGame` that can write replays."""

    def save_replay(self) -> None:
        """Writes the replay of the episode just played."""
        ...


class HostEnv:
    """A configured game that runs in Python processes and can be no part of a compiled program.

    Subclasses set `spec` and define `open`.
    """

    saves_replays = False
    """Whether its games are `SavesReplays`."""
    instead = "take a built-in game"
    """What those who want to play it in a compiled program can do."""
    about = ""
    """One line for the user at the start of a run."""
    spec: EnvSpec

    def open(self) -> HostGame:
        """One more game."""
        raise NotImplementedError

    def reset(self, key: Array, num_envs: int) -> NoReturn:
        """Refused: this game is no JAX program."""
        self._refuse()

    def step(self, key: Array, state: object, actions: Array) -> NoReturn:
        """Refused: this game is no JAX program."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UserError(
            f"'{self.spec.name}' ({self.spec.scenario}) is no JAX program and cannot be played inside a compiled one. "
            f"Train and test it with runner=parallel or runner=episode; for evaluation, cross-play, pools and other "
            f"interfaces (api) {self.instead}."
        )


def is_hosted(env: object) -> TypeGuard[HostEnv]:
    """Whether a game must be played by a host runner."""
    return isinstance(env, HostEnv)


def load_module(option: str, given: str, module: str, install: str) -> ModuleType:
    """Imports the module that a game comes from.

    Args:
        option: the option that names the game.
        given: its value.
        module: the part of it that is a module.
        install: how the module is installed; empty when nobody but the user can know.

    Raises:
        UserError: it cannot be imported; names what is missing and how to install it.
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # Importing runs the module, which may fail in any way.
        if not isinstance(error, ImportError):
            said = " ".join(str(error).split())[:500]
            raise UserError(f"{option}: got '{given}', but '{module}' fails when imported: {said}") from error
        missing = error.name or module
        hint = f" Install it with: {install}" if install else " Is its folder on PYTHONPATH?"
        raise UserError(f"{option}: got '{given}', but '{missing}' cannot be imported.{hint}") from error


def shared_reward(rewards: np.ndarray, scalarisation: str) -> float:
    """One team reward out of the seats' rewards [A]: their `sum` or `mean`."""
    return float(rewards.sum() if scalarisation == "sum" else rewards.mean())
