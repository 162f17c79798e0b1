"""The stage `room`: what there is to gain from knowing the pool's partners, measured before any agent is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from omg.config import Config
from omg.envs.adapters.host import is_hosted
from omg.errors import UserError, unknown_name
from omg.evaluation import group_names
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import RoomRow
from omg.experiments.ledger import Task
from omg.experiments.pool import say_on
from omg.experiments.room.keeping import ROOM, ROOM_FILE, TABLE_FILES, checked_metric
from omg.experiments.room.knowing import STARTS
from omg.experiments.room.measuring import RoomRules, measure_room, write_room
from omg.experiments.stages.base import Earlier, Section, Stage, refused_in
from omg.experiments.stages.pool import POOL_FOLDER, PoolStage
from omg.pools.members import SetName
from omg.report.room import room_screen
from omg.report.terminal import Screen

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


class RoomSection(Section):
    """How the room of the pool is measured."""

    set: SetName = Field("heldout", description="Set of the pool that the partners are made of")
    groups: list[str] | None = Field(None, description="Groups of teams; None: all team-mates alike")
    episodes: int = Field(256, ge=4, description="Episodes of each responder with each partner")
    seeds: int = Field(3, ge=1, description="Restarts of every training")
    steps: int = Field(1_000_000, ge=0, description="Most steps of every training; 0: train nothing, use what is kept")
    seed: int = Field(0, ge=0, description="Seed of teams, games and trainings")
    metric: str | None = Field(None, description="What counts; the metric of the report unless given")
    exact_starts: int = Field(STARTS, ge=1, le=4096, description="Starts for which a small game is solved exactly")


class RoomStage(Stage):
    """Measures the pool where a plan has its section; trained responses stay in the pool's folder."""

    name = "room"
    entries = (POOL_FOLDER,)

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        section, env = checked.plan.room, checked.env
        if section is None:
            return {}
        if section.set not in checked.plan.pool.sets:
            raise UserError(f"room.set: got '{section.set}', but the pool has nobody in that set.")
        known = group_names(env.spec.n_agents)
        for group in section.groups or ():
            if group not in known:
                raise unknown_name(f"group (room.groups) of a game with {env.spec.n_agents} seats:", group, known)
        if is_hosted(env):
            raise UserError(f"room: {env.spec.name} is no JAX program; room is measured in compiled games only.")
        refused_in("room", lambda: checked_metric(env.spec, section.metric or checked.metric))
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        section = self.plan.room
        if section is None:
            return []
        folder = self.checked.pool / ROOM
        settings = {**section.fingerprinted(), "metric": section.metric or self.checked.metric}
        makes = tuple(folder / name for name in TABLE_FILES)
        needs = (earlier.of(PoolStage)[""],)
        return [Task(self.name, "", settings, makes, self.measure, needs, apart=True, reported=True)]

    @classmethod
    def shows(cls, checked: CheckedPlan) -> Screen:
        """See `Stage`."""
        file = checked.pool / ROOM / ROOM_FILE
        if checked.plan.room is None or not file.is_file():
            return ()
        return room_screen(
            f"{checked.env.spec.name} {checked.env.spec.scenario}", read_rows(file, RoomRow), trained=None
        )

    def measure(self) -> None:
        """Measures what is missing and writes the tables."""
        section = self.plan.room
        assert section is not None
        groups = None if section.groups is None else tuple(section.groups)
        numbers = (section.episodes, section.seeds, section.steps, section.seed)
        rules = RoomRules(section.set, groups, *numbers, section.metric or self.checked.metric, section.exact_starts)

        def say(line: str) -> None:
            say_on(self.place.screen, f"room: {line}")

        found = measure_room(self.checked.pool, rules, say)
        write_room(self.checked.pool / ROOM, found)
