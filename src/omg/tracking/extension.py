"""A run that is to take longer: its end is taken back, so that it goes on as if it had never been meant to stop there.

What only the old end has made is not what a longer run makes at that point: the rows of its last log and test, the
rounds after a seed had its steps, and a best agent that only the last test has found. So the run goes on from the last
checkpoint at which no seed had reached the old `t_max`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from omg.config import Config, change_config
from omg.envs import make_stored_env
from omg.errors import UserError
from omg.pools.bundles import change_card
from omg.pools.cards import CARD
from omg.tracking.folder import RunFolder
from omg.training.checkpoint import list_checkpoints, state_counters, whole_checkpoint
from omg.training.collecting import iterations_per_chunk

BEFORE_END = "best_before_end"
"""The best agent of the tests before the end, where the last test has found a better one."""


def extend_run(folder: RunFolder, t_max: object) -> tuple[Config, str]:
    """Gives a run a later end and takes back its old one.

    Args:
        folder: of the run.
        t_max: steps of the whole run.

    Returns:
        The configuration that the run goes on with, and one sentence about where from.

    Raises:
        UserError: the run cannot take longer.
    """
    config = folder.config()
    longer = change_config(config, t_max=t_max)
    if longer.t_max <= config.t_max:
        raise UserError(
            f"t_max: got {longer.t_max}, but {folder.path} has {config.t_max}. Allowed: more, or no t_max to resume."
        )
    if folder.status() == "stopped":
        raise UserError(f"t_max: {folder.path} was ended by its early stop, not by t_max={config.t_max}.")
    if config.evaluate:
        raise UserError(f"t_max: {folder.path} only tested a run (evaluate=True); there is nothing to go on with.")
    limit = make_stored_env(folder.config_file, config.env, config.env_args).spec.episode_limit
    same_rhythm = iterations_per_chunk(config, limit) == iterations_per_chunk(longer, limit)
    with folder.lock():
        kept = _take_back(folder.checkpoints, config.t_max if same_rhythm else 0)
        folder.set_status("running")
        _restore_best(folder, config, longer)
        folder.write_config(longer)
    if kept is None:
        return longer, f"t_max: {config.t_max} -> {longer.t_max}; no checkpoint before the old end, so it starts anew."
    return longer, f"t_max: {config.t_max} -> {longer.t_max}; goes on from the last checkpoint before the old end."


def keep_former_best(folder: RunFolder, seed: int) -> None:
    """Sets the best agent so far aside, once, before one that only the end has found takes its place."""
    best, aside = folder.agent(seed, "best"), folder.agent(seed, BEFORE_END)
    if best.is_dir() and not aside.exists():
        best.rename(aside)


def _take_back(checkpoints: Path, old_end: int) -> Path | None:
    """Deletes the checkpoints in which some seed had reached the old end; returns the newest that is left.

    Raises:
        UserError: all of them are damaged; nothing is deleted then, for somebody may know more about them.
    """
    kept, reached = None, {path: _steps(path) for path in list_checkpoints(checkpoints)}
    if reached and all(steps is None for steps in reached.values()):
        raise UserError(f"All {len(reached)} checkpoints in {checkpoints} are damaged; the run cannot take longer.")
    for path, steps in reached.items():
        if steps is not None and steps < old_end:
            kept = path
    for path in list_checkpoints(checkpoints):
        if kept is None or path.name > kept.name:
            shutil.rmtree(path)
    return kept


def _steps(checkpoint: Path) -> int | None:
    """Steps of the seed that had the most at a checkpoint; None of a damaged one."""
    try:
        return int(state_counters(checkpoint)[0].max()) if whole_checkpoint(checkpoint) else None
    except (OSError, ValueError):
        return None


def _restore_best(folder: RunFolder, config: Config, longer: Config) -> None:
    """The best agents as they were before the end; their cards name the new `t_max`, as all later ones will."""
    for seed in range(config.seed, config.seed + config.seeds):
        best, aside = folder.agent(seed, "best"), folder.agent(seed, BEFORE_END)
        if aside.is_dir():
            if best.is_dir():
                shutil.rmtree(best)
            aside.rename(best)
        if (best / CARD).is_file():
            change_card(best / CARD, config=longer.model_dump())
