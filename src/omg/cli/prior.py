"""`omg pretrain`: the subgoal prior of a pool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.lists import TrustOption, read_words, say_old_words
from omg.cli.runs import final_tests
from omg.cli.tables import print_lines, print_table, shown
from omg.errors import UserError
from omg.stopping import exit_code

if TYPE_CHECKING:
    from omg.api import Run

MEASURES = {
    "prior_loss": "reconstruction and divergence, normalised units",
    "prior_rmse": "error of the decoded view, original units",
    "prior_explained": "share of the views' variance that is decoded",
    "prior_active": "subgoal features in use",
}
"""Metric of the last test -> what it says."""


def pretrain(
    context: typer.Context,
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="Folder of the pool.")],
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    trust: TrustOption = False,
) -> None:
    """Train the subgoal prior on the games of a pool's training set.

    The game is the pool's. Further words set keys of the configuration, as for `omg train`: subgoal_dim=32. The prior
    goes to POOL/prior, where training with init_param_path=POOL finds it.
    """
    if "=" in pool.name or pool.name == "with":
        raise UserError(f"POOL: got '{pool}'; the folder of the pool comes first, then the settings.")
    line = read_words(None, None, context.args)
    say_old_words(line)
    for option, given in (("--config", line.config), ("--env-config", line.env_config)):
        if given is not None:
            raise UserError(f"{option}: got '{given}', but a prior has no algorithm and its game is the pool's.")

    from omg.experiments import pretrain as run_pretraining
    from omg.pools import prior_folder
    from omg.tracking import RunFolder

    run = run_pretraining(pool, line.overrides, console=Console(), quiet=quiet)
    folder = RunFolder.open(run.folder)
    config = folder.config()
    _print_measures(run, config.subgoal_dim)
    beside = pool / prior_folder(config.subgoal_of)
    print_lines(f"Prior: {beside}", f"and {folder.agent(config.seed, 'last')}", f"Run folder: {run.folder}")
    if run.status == "interrupted" or run.signal is not None:
        raise typer.Exit(exit_code(run.signal))


def _print_measures(run: Run, subgoal_dim: int) -> None:
    last = {name.removeprefix("test_"): mean for name, _, mean, _, _ in final_tests(run.metrics)}
    rows = []
    for name, meaning in MEASURES.items():
        if name in last:
            value = f"{last[name]:.0f} of {subgoal_dim}" if name == "prior_active" else shown(last[name])
            rows.append((name, value, meaning))
    print_table("The prior in games that it was not trained on", ("measure", "value", "meaning"), rows)
