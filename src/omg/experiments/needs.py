"""What a plan says about the machines of its parts: cores, GPUs, memory, time. No result depends on it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from omg.errors import unknown_name
from omg.experiments.stages.base import Section
from omg.launchers import Needs
from omg.launchers.settings import Machine


class StageMachineSection(Section):
    """What the parts of one stage get."""

    cpus: float | None = Field(None, gt=0, le=4096, description="Processor cores of each part")
    gpus: float | None = Field(None, ge=0, le=64, description="GPUs of each part; with Ray also a share of one")
    memory_gb: float | None = Field(None, gt=0, le=100_000, description="Main memory of each part")
    minutes: int | None = Field(None, ge=1, le=100_000, description="Longest time of a part at a stretch")

    def over(self, needs: Needs) -> Needs:
        """Needs, with what stands here in their place."""
        return Machine(cpus=self.cpus, gpus=self.gpus, memory_gb=self.memory_gb, minutes=self.minutes).over(needs)


class MachineSection(StageMachineSection):
    """What every part gets on a cluster, and those of single stages instead."""

    stages: dict[str, StageMachineSection] = Field({}, description="Stage -> what its parts get instead")

    def of(self, stage: str) -> Needs:
        """What the parts of a stage get."""
        own = self.stages.get(stage)
        everywhere = self.over(Needs())
        return everywhere if own is None else own.over(everywhere)

    def check(self, stages: Iterable[str]) -> None:
        """Refuses stages that there are not.

        Raises:
            UserError: names the nearest that there is.
        """
        known = list(stages)
        for stage in self.stages:
            if stage not in known:
                raise unknown_name("stage (machine.stages)", stage, known)
