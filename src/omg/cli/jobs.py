"""The options of commands that have several things done at once, here or elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from omg.errors import UserError, unknown_name

if TYPE_CHECKING:
    from omg.launchers.settings import LauncherSettings

MOST_SEED = 2**31 - 1
MOST_EPISODES = 1_000_000
"""That a command plays, with each partner or in all."""

JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        show_default="1; on a cluster as many as can be begun",
        help="Runs trained at once, each in its own process; more than 1 for a large GPU.",
    ),
]
TasksOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        show_default="1; on a cluster as many as can be begun",
        help="Runs, evaluations and adaptations done at once, each in its own process; more than 1 for a large GPU.",
    ),
]
TrialsAtOnceOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        show_default="1; on a cluster as many as can be begun",
        help="Trials done at once, each in its own process; more than 1 for a large GPU.",
    ),
]
EvaluationsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        show_default="1; on a cluster as many as can be begun",
        help="With --pool: runs evaluated at once, each in its own process.",
    ),
]
LauncherOption = Annotated[
    str, typer.Option("--launcher", metavar="local|ray|slurm", help="Who does them: this machine or a cluster.")
]
AddressOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT|auto", help="Ray: a cluster that is there, instead of one's own.")
]
MachineOption = Annotated[
    str | None,
    typer.Option(metavar="KEY=N,...", help="Cluster: what each gets: cpus, gpus, memory_gb, minutes."),
]
SlurmOption = Annotated[
    str | None,
    typer.Option(metavar="KEY=WORD,...", help="Slurm: partition, account, qos, constraint, signal_seconds."),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(min=0, max=1000, show_default="3", help="Cluster: how often one is begun again that its node failed."),
]
FilesOption = Annotated[
    str | None,
    typer.Option(
        metavar="auto|shared|copied",
        show_default="auto",
        help="Ray: whether its machines see the results folder; copied: files travel through Ray.",
    ),
]


def launcher_settings(
    launcher: str,
    jobs: int | None,
    *,
    address: str | None = None,
    machine: str | None = None,
    slurm: str | None = None,
    retries: int | None = None,
    files: str | None = None,
) -> LauncherSettings:
    """What the options of a command say about who does its parts.

    Raises:
        UserError: there is no such launcher, or an option is for another one.
    """
    from omg.launchers import LAUNCHERS
    from omg.launchers.settings import FILES, HERE, LauncherSettings, read_machine, read_slurm

    if launcher not in LAUNCHERS:
        raise unknown_name("launcher (--launcher)", launcher, LAUNCHERS)
    options: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("--address", address, ("ray",)),
        ("--files", files, ("ray",)),
        ("--slurm", slurm, ("slurm",)),
        ("--machine", machine, ("ray", "slurm")),
        ("--retries", retries, ("ray", "slurm")),
    )
    for option, value, of in options:
        if value is not None and launcher not in of:
            needed = " or ".join(f"--launcher {name}" for name in of)
            raise UserError(f"{option}: got '{value}', but it needs {needed}; got --launcher {launcher}.")
    if files is not None and files not in FILES:
        raise unknown_name("word of --files", files, FILES)
    share_gpu(1 if launcher != HERE else jobs or 1)
    given = {
        "jobs": jobs,
        "address": address,
        "retries": retries,
        "files": files,
        "machine": None if machine is None else read_machine("--machine", machine),
        "slurm": None if slurm is None else read_slurm("--slurm", slurm),
    }
    said = {name: value for name, value in given.items() if value is not None}
    return LauncherSettings.model_validate({"launcher": launcher, **said})


def share_gpu(jobs: int) -> None:
    """Leaves the GPU's memory to the other processes, too; JAX reads this once, when it starts."""
    if jobs > 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
