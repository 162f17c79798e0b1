"""The agents that a run has left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omg.components.files import given_path
from omg.errors import UserError, unknown_name
from omg.pools import Agent
from omg.pools.cards import CARD
from omg.tracking.folder import RunFolder
from omg.training.adapting import load_adapted
from omg.training.device import prepare
from omg.training.saved import agent_at, kept_at

WHICH = ("last", "best")
"""The agents that a run keeps of every seed."""


def is_agent(path: str | Path) -> bool:
    """Whether a folder is that of one agent, which leaves nothing to choose."""
    return (given_path(path) / CARD).is_file()


def check_step(obs_adapter: str) -> None:
    """Refuses to adapt agents of a saved step: a map is kept beside the agent it was fitted for."""
    if obs_adapter != "none":
        raise UserError("obs_adapter: is fitted for agents that were saved, not for those of a step. Leave step out.")


def load_seeds(
    path: str | Path,
    which: str = "last",
    *,
    step: int | None = None,
    obs_adapter: str = "none",
    say: Callable[[str], None] = lambda message: None,
) -> list[Agent]:
    """Loads the agents of all seeds of a run, or the one agent of an agent folder.

    Args:
        path: folder of a run, of one of its seeds, or of an agent.
        which: `last` or `best` agent of each seed; an agent folder is what it is.
        step: of a run: its agents at that step of `save_agents_at`, at that checkpoint, or at the last checkpoint
            before it, instead; 0: the newest.
        obs_adapter: `learn`: an agent that was trained with `obs_is_state` plays from observations; see `omg.load`.
        say: told how well the maps fit.

    Raises:
        UserError: there is no such agent.
    """
    if which not in WHICH:
        raise unknown_name("agent (which)", which, WHICH)
    folder = given_path(path)
    prepare(use_cuda=True)
    if (folder / "config.yaml").is_file():
        run = RunFolder.open(folder)
        config = run.config()
        if step is not None:
            check_step(obs_adapter)
            kept = [run.agent(seed, kept_at(step)) for seed in range(config.seed, config.seed + config.seeds)]
            if all(map(is_agent, kept)):
                return [load_adapted(path, obs_adapter, say) for path in kept]
            return [agent_at(folder, step, index) for index in range(config.seeds)]
        seeds = range(config.seed, config.seed + config.seeds)
        return [load_adapted(run.agent(seed, which), obs_adapter, say) for seed in seeds]
    if step is not None:
        raise UserError(f"step: got {step}, but {folder} is no run folder, and an agent has one step.")
    return [load_adapted(folder / which if (folder / which).is_dir() else folder, obs_adapter, say)]
