"""The stage `adapt`: the agents' first episodes with co-players they have never met, and the ends of the scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from omg.config import Config
from omg.controllers.scripted import scripted_names
from omg.errors import UserError, unknown_name
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import AdaptationRow, EpisodeRow
from omg.experiments.adaptation.drawing import adaptation_screen
from omg.experiments.adaptation.meeting import Meeting, Rules
from omg.experiments.adaptation.scores import BEST_RESPONSE, RANDOM, adaptation_summary
from omg.experiments.adaptation.setup import (
    adaptation_config,
    check_learner,
    check_seat,
    check_settings,
    gather_teams,
    load_entrant,
)
from omg.experiments.evaluation import UNTRAINED
from omg.experiments.ledger import Task
from omg.experiments.results import adaptation_files, adaptation_rows
from omg.experiments.runs import finished_run
from omg.experiments.stages.base import Earlier, Section, SettingsSection, Stage, chosen, refused_in, with_pool
from omg.experiments.stages.pool import PoolStage, check_scripts
from omg.experiments.stages.train import TrainStage
from omg.names import file_name
from omg.pools import Pool
from omg.pools.members import SetName
from omg.report.terminal import Screen

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

_GAMES = ("set", "players", "mixtures", "episodes", "games", "seeds", "seed", "seat")
"""Keys of the section that everybody's episodes depend on."""


class VariantSection(SettingsSection):
    """An agent that adapts with other settings than those it was trained with, e.g. an ablation."""

    own: ClassVar[Mapping[str, str]] = dict.fromkeys(("seed", "seeds"), "the section adaptation says it")
    agent: str = Field(description="Label of the agent that was trained")
    frozen: bool | None = Field(None, description="Whether it does not learn any more; as the section unless given")


class Adapting(NamedTuple):
    """Who adapts under a label."""

    agent: str
    """Label of the agent that was trained."""
    settings: dict[str, object]
    """Configuration keys that differ from its training."""
    frozen: bool


class AdaptationSection(Section):
    """Whom the agents come to terms with in their first episodes, and for how long."""

    set: SetName = Field("heldout", description="Set of the pool that is met")
    players: list[str] = Field([], description="Scripted co-players besides")
    mixtures: bool = Field(False, description="Also teams of different co-players")
    episodes: int = Field(64, ge=1, description="Episodes with each co-player")
    games: int = Field(4, ge=1, description="Games of a round; agents learn after each round")
    seeds: int | None = Field(None, ge=1, description="Repetitions; None: one for each training seed")
    seed: int = Field(0, ge=0, description="Seed of the games")
    seat: int | None = Field(None, ge=0, description="Seat of the agents; None: the first that a learner can have")
    which: Literal["last", "best"] = Field("last", description="Which agent of each training seed adapts")
    frozen: bool = Field(False, description="Agents do not learn, they only infer")
    best_response_steps: int = Field(0, ge=0, description="Steps of training a best response to each; 0: none")
    agents: list[str] | None = Field(None, description="Labels of the agents; all unless given")
    variants: dict[str, VariantSection] = Field({}, description="Label -> agent with other settings")

    def entrants(self, agents: Iterable[str]) -> dict[str, Adapting]:
        """Label -> who adapts under it."""
        found = {label: Adapting(label, {}, self.frozen) for label in (agents if self.agents is None else self.agents)}
        for label, own in self.variants.items():
            found[label] = Adapting(own.agent, own.settings, self.frozen if own.frozen is None else own.frozen)
        return found


class AdaptStage(Stage):
    """A task for each agent, for the ends of the scale, and for the tables; none without the section."""

    name = "adapt"
    entries = ("adaptation",)

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        section, env, agents = checked.plan.adaptation, checked.env, checked.agents
        if section is None:
            return {}
        if section.set not in checked.plan.pool.sets:
            raise UserError(f"adaptation.set: got '{section.set}', but the pool has nobody in that set.")
        if section.mixtures and env.spec.n_agents < 3:
            raise UserError("adaptation.mixtures: got True, but there is one other seat; nobody can be mixed there.")
        refused_in("adaptation", lambda: check_seat(env, section.seat))
        check_scripts("adaptation.players", section.players, env)
        for label in section.agents or ():
            if label not in agents:
                raise unknown_name("agent (adaptation.agents)", label, agents)
        taken = (*agents, BEST_RESPONSE, UNTRAINED, *scripted_names(env.spec.name))
        for label, variant in section.variants.items():
            if label in taken:
                raise UserError(f"adaptation.variants.{label}: that name is taken; choose another label.")
            if variant.agent not in agents:
                raise unknown_name(f"agent (adaptation.variants.{label}.agent)", variant.agent, agents)
        for label, entry in section.entrants(agents).items():
            where = f"adaptation.{label}"
            check_settings(where, entry.settings)
            given = (agents[entry.agent], env.spec.n_agents, section.games, section.episodes, entry.settings)
            config = refused_in(where, partial(adaptation_config, *given))
            refused_in(where, partial(check_learner, config, env.spec))
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        if self.plan.adaptation is None:
            return []
        pool, trained = earlier.of(PoolStage)[""], earlier.of(TrainStage)
        games = chosen(self.section, _GAMES) | {"repetitions": self._repetitions()}
        tasks = []
        for label, entry in self.entrants.items():
            own = {"label": label, "settings": entry.settings, "frozen": entry.frozen, "which": self.section.which}
            needs = with_pool(trained[entry.agent], pool)
            tasks.append(self._task(label, {**games, **own}, needs, partial(self.agent_rows, label)))
        tasks.append(self._task(RANDOM, games, (pool,), lambda: self.meeting.random_rows()))
        if steps := self.section.best_response_steps:
            best = partial(self._best_rows, steps)
            tasks.append(self._task(BEST_RESPONSE, {**games, "steps": steps}, (pool,), best))
        files = adaptation_files(self.checked)
        return [*tasks, Task(self.name, "tables", {}, files, self.write_tables, tuple(tasks), reported=True)]

    @classmethod
    def shows(cls, checked: CheckedPlan) -> Screen:
        """See `Stage`."""
        rows = adaptation_rows(checked)
        title, names = "First episodes with new co-players", checked.plan.report.names
        return adaptation_screen(title, adaptation_summary(rows), names) if rows else ()

    def _task(
        self, label: str, settings: Mapping[str, object], needs: tuple[Task, ...], rows: Callable[[], list[EpisodeRow]]
    ) -> Task:
        file = self._file(label)
        return Task(
            self.name, label, settings, (file,), lambda: write_rows(file, rows(), EpisodeRow.names()), needs, apart=True
        )

    def _file(self, label: str) -> Path:
        return self.checked.folder / "adaptation" / "parts" / f"{file_name('label', label)}.csv"

    # ------------------------------------------------------------------------------------------- how a task is done

    @property
    def section(self) -> AdaptationSection:
        """The plan's; there must be one."""
        assert self.plan.adaptation is not None
        return self.plan.adaptation

    @property
    def entrants(self) -> dict[str, Adapting]:
        """Label -> who adapts under it."""
        return self.section.entrants(self.checked.agents)

    @cached_property
    def meeting(self) -> Meeting:
        """The co-players, loaded when they are first needed."""
        section, env = self.section, self.checked.env
        seat = check_seat(env, section.seat)
        rules = Rules(section.episodes, section.games, section.seeds, section.seed, seat)
        pool = Pool.open(self.checked.pool)
        teams = gather_teams(
            env, pool, section.set, section.players, mixtures=section.mixtures, seat=seat, seed=section.seed
        )
        return Meeting(self.checked.first_config, env, teams, rules, self._repetitions())

    def _repetitions(self) -> int:
        trained = [self.checked.agents[entry.agent].seeds for entry in self.entrants.values()]
        return self.section.seeds or max(trained)

    def agent_rows(self, label: str) -> list[EpisodeRow]:
        """All episodes of one agent."""
        entry = self.entrants[label]
        run = finished_run(self.checked.runs(entry.agent)).path
        entrant = load_entrant(label, run, entry.settings, frozen=entry.frozen, which=self.section.which)
        return self.meeting.agent_rows(entrant)

    def _best_rows(self, steps: int) -> list[EpisodeRow]:
        return self.meeting.trained_best_rows(steps)

    def write_tables(self) -> None:
        """Makes the tables from those of the tasks."""
        best = [BEST_RESPONSE] if self.section.best_response_steps else []
        rows = [row for label in (*self.entrants, RANDOM, *best) for row in read_rows(self._file(label), EpisodeRow)]
        table, summary = adaptation_files(self.checked)
        write_rows(table, rows, EpisodeRow.names())
        write_rows(summary, adaptation_summary(rows), AdaptationRow.names())
