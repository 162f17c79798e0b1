"""What Slurm would be handed for a plan, to look at before anything is."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from omg.errors import UserError
from omg.experiments.ledger import LEASES, Ledger
from omg.experiments.pipeline import plan_tasks
from omg.experiments.plan import Plan
from omg.experiments.plan_check import check_plan
from omg.experiments.stages import Workplace
from omg.experiments.stages.pool import PoolStage
from omg.launchers import LauncherSettings
from omg.launchers.on_slurm import SLURM, batch_text


def batch_texts(plan: Plan, folder: Path, settings: LauncherSettings) -> list[tuple[str, str]]:
    """Stage -> the text that sbatch would be given for each of its parts; nothing is handed over or written.

    Args:
        plan: what would be done.
        folder: where.
        settings: what the user says about Slurm and its machines.

    Raises:
        UserError: the plan cannot be run, or another launcher was asked for.
    """
    if settings.launcher != SLURM:
        raise UserError(f"--show-sbatch: needs --launcher {SLURM}; got --launcher {settings.launcher}.")
    checked = check_plan(plan, folder)
    place = Workplace(checked, folder, Ledger(checked.folder), Console(quiet=True), quiet=True)
    trained = [PoolStage.name] if plan.pool.counts and plan.pool.path is None else []
    stages = dict.fromkeys([*trained, *(task.stage for task in plan_tasks(place) if task.apart)])
    leases = checked.folder / LEASES
    return [(stage, batch_text(stage, plan.machine.of(stage), settings, leases)) for stage in stages]
