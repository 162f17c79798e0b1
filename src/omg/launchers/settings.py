"""Which launcher does the parts, and what it is told."""

from __future__ import annotations

import re
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omg.errors import UserError, abridged, unknown_name
from omg.launchers.base import Needs

MOST_JOBS = 1000
Files = Literal["auto", "shared", "copied"]
FILES = get_args(Files)
HERE = "local"
"""The launcher whose processes run on this machine."""
_WORD = r"^[A-Za-z0-9_][A-Za-z0-9_.,:@=+-]{0,99}$"
"""What may stand in a batch script: nothing that a shell reads."""


class Machine(BaseModel):
    """What a part's machine is to give it; None leaves it to the plan, or to the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float | None = Field(None, gt=0, le=4096, description="Processor cores")
    gpus: float | None = Field(None, ge=0, le=64, description="GPUs; with Ray also a share of one, such as 0.25")
    memory_gb: float | None = Field(None, gt=0, le=100_000, description="Main memory")
    minutes: int | None = Field(None, ge=1, le=100_000, description="Longest time at a stretch; Slurm wants to know")

    def over(self, needs: Needs) -> Needs:
        """Needs, with what stands here in their place."""
        return Needs(
            needs.cpus if self.cpus is None else self.cpus,
            needs.gpus if self.gpus is None else self.gpus,
            needs.memory_gb if self.memory_gb is None else self.memory_gb,
            needs.minutes if self.minutes is None else self.minutes,
        )


class Slurm(BaseModel):
    """What is said to Slurm about every part."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: str | None = Field(None, pattern=_WORD, description="Partition")
    account: str | None = Field(None, pattern=_WORD, description="Account that is charged")
    qos: str | None = Field(None, pattern=_WORD, description="Quality of service")
    constraint: str | None = Field(None, pattern=_WORD, description="Features that the nodes must have")
    signal_seconds: int = Field(120, ge=1, le=3600, description="Time to save in before the time is over")


class LauncherSettings(BaseModel):
    """What the user says about who does the parts; it can be handed on to a process as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    launcher: str = Field(HERE, description="Who does the parts: a word of `LAUNCHERS`")
    jobs: int | None = Field(
        None, ge=1, le=MOST_JOBS, description="Most parts at once; here 1, on clusters as many as can be begun"
    )
    machine: Machine = Machine()
    address: str | None = Field(None, description="Ray: the cluster; one of this machine's own unless given")
    retries: int = Field(3, ge=0, le=1000, description="How often a part is begun again when its machine fails it")
    files: Files = Field("auto", description="Ray: whether the machines see the results folder; looked up, or said")
    slurm: Slurm = Slurm()
    executor: Literal["slurm", "local"] = Field("slurm", description="submitit's; `local` is for trying it out here")

    @property
    def at_once(self) -> bool:
        """Whether parts are done in processes of their own, here or elsewhere."""
        return self.launcher != HERE or (self.jobs or 1) > 1


_Words = TypeVar("_Words", Machine, Slurm)


def read_machine(option: str, text: str) -> Machine:
    """What a part's machine is to give it: `cpus=4,gpus=1,memory_gb=16`.

    Raises:
        UserError: a key that there is not, or a value that is none.
    """
    return _read(option, text, Machine)


def read_slurm(option: str, text: str) -> Slurm:
    """What is said to Slurm: `partition=gpu,account=mine`.

    Raises:
        UserError: a key that there is not, or a value that could mean something to a shell.
    """
    return _read(option, text, Slurm)


def _read(option: str, text: str, kind: type[_Words]) -> _Words:
    values: dict[str, str] = {}
    # A comma also stands within a value: `constraint=a100,ib`.
    for word in re.split(r",(?=[a-z_]+=)", text):
        key, _, value = word.partition("=")
        if key.strip() not in kind.model_fields:
            raise unknown_name(f"word of {option}", key.strip(), kind.model_fields)
        values[key.strip()] = value.strip()
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise UserError(
            f"{option}: {key}: got {abridged(first['input'])}. {first['msg']}. "
            f"Expected: {kind.model_fields[key].description}."
        ) from None
