"""How episodes are played. A runner turns a game and a policy into whole episodes and their statistics.

`vector` plays JAX games inside a compiled program, whatever their number. `host` plays all other games: `episode` in
this process, `parallel` in worker processes. A new one is a `kinds.RunnerKind` and a line in RUNNERS, or
`register_runner` from anywhere. Worker processes import this package and must not wait for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omg.registry import Entry, Registry, RunnerTraits
from omg.runners.keys import FailureKeys, WorkerKeys

if TYPE_CHECKING:
    from omg.runners.kinds import RunnerKind

RUNNERS: Registry[RunnerKind, RunnerTraits] = Registry(
    "runner",
    {
        "vector": Entry(
            "omg.runners.kinds:VECTOR",
            RunnerTraits(tests_in_rounds=False, stand_in="parallel"),
            "any number of games in one compiled program",
        ),
        "episode": Entry(
            "omg.runners.kinds:EPISODE",
            RunnerTraits(sections=(FailureKeys,), one_game=True),
            "one game at a time, by PyMARL's rules",
        ),
        "parallel": Entry(
            "omg.runners.kinds:PARALLEL",
            RunnerTraits(sections=(WorkerKeys, FailureKeys)),
            "rounds of games, by PyMARL's rules",
        ),
    },
)
"""Word of the key `runner` -> what it means. Its sections are read where the game is no JAX program."""


def register_runner(name: str, kind: RunnerKind, traits: RunnerTraits, summary: str = "") -> None:
    """Makes `name` a value of the key `runner`.

    Args:
        name: the word.
        kind: how it plays.
        traits: how it limits other keys, and which it reads.
        summary: one line for lists.

    Raises:
        UserError: there is a runner of that name.
    """
    RUNNERS.add(name, Entry(kind, traits, summary))
