"""The agents that a run has left."""

from __future__ import annotations

from pathlib import Path

from omg.errors import unknown_name
from omg.pools import Agent, load_agent
from omg.pools.agents import CARD
from omg.tracking.folder import RunFolder
from omg.training.device import prepare

WHICH = ("last", "best")
"""The agents that a run keeps of every seed."""


def is_agent(path: str | Path) -> bool:
    """Whether a folder is that of one agent, which leaves nothing to choose."""
    return (Path(path) / CARD).is_file()


def load_seeds(path: str | Path, which: str = "last") -> list[Agent]:
    """Loads the agents of all seeds of a run, or the one agent of an agent folder.

    Args:
        path: folder of a run, of one of its seeds, or of an agent.
        which: `last` or `best` agent of each seed; an agent folder is what it is.

    Raises:
        UserError: there is no such agent.
    """
    if which not in WHICH:
        raise unknown_name("agent (which)", which, WHICH)
    folder = Path(path)
    prepare(use_cuda=True)
    if (folder / "config.yaml").is_file():
        run = RunFolder.open(folder)
        config = run.config()
        return [load_agent(run.agent(seed, which)) for seed in range(config.seed, config.seed + config.seeds)]
    return [load_agent(folder / which if (folder / which).is_dir() else folder)]
