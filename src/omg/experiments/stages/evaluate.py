"""The stage `evaluate`: agents with teams of the pool, what their subgoals know, and how they do with themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from omg.config import Config
from omg.envs.adapters.host import is_hosted
from omg.errors import UserError, unknown_name
from omg.evaluation import group_names
from omg.evaluation.rows import R, read_rows, write_rows
from omg.evaluation.suite_tables import BudgetScoreRow
from omg.evaluation.tables import (
    AnswerRow,
    ComparisonRow,
    CrossPlayRow,
    MeasureRow,
    SelfPlayRow,
    SelfPlayScoreRow,
    SetScoreRow,
    SetSummaryRow,
)
from omg.experiments.beliefs import belief_scores, check_beliefs, find_answers
from omg.experiments.evaluation import UNTRAINED, Arena, Contestants, cross_play_arena, load_contestants, untrained
from omg.experiments.inference import control_rows, inference_rows
from omg.experiments.ledger import Task
from omg.experiments.results import (
    comparison_rows,
    evaluation_folder,
    finished_run,
    run_metrics,
    self_play_files,
    table_files,
    write_tables,
)
from omg.experiments.room import RoomRules, measure_room
from omg.experiments.stages.base import Earlier, Section, Stage, chosen, with_pool
from omg.experiments.stages.pool import PoolStage, check_scripts
from omg.experiments.stages.room import RoomStage
from omg.experiments.stages.train import TrainStage, steps_at
from omg.pools import Pool
from omg.pools.members import SetName
from omg.report.self_play import self_play_rows, self_play_summary, self_play_table
from omg.report.tables import SHORTEST_SCORES, ShownColumn, cells, table_of
from omg.report.terminal import Screen, ScreenTable
from omg.report.verdict import answers
from omg.report.words import agent_name, group_name

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

_VERDICTS = {"better": "better", "worse": "worse", "no difference shown": "not shown"}
"""Verdicts in words that fit a narrow terminal."""


class EvaluationSection(Section):
    """With whom and how long the agents are evaluated."""

    sets: list[SetName] = Field(["heldout"], min_length=1, description="Sets of the pool; the report is on the first")
    groups: list[str] | None = Field(None, description="Groups of teams; None for all, an empty list for none")
    episodes: int = Field(100, ge=1, description="Episodes per team")
    seed: int = Field(0, ge=0, description="Seed of teams and games")
    which: Literal["last", "best"] = Field("last", description="Which agent of each training seed plays")
    at: list[float] = Field([], max_length=50, description="Also evaluate agents after these shares of their training")
    untrained: bool = Field(True, description="Also evaluate the first agent as it is before training")
    scripted: list[str] = Field([], description="Scripted players to evaluate as well")
    beliefs: list[str] = Field(
        [], description="Methods to evaluate as well that need no training: plastic, bayes, belief_mixture"
    )
    crossplay_episodes: int = Field(32, ge=0, description="Cross-play of the first set, episodes per pair; 0: none")
    inference_episodes: int = Field(240, ge=0, description="Episodes for what the subgoals know; 0: none")

    @field_validator("at")
    @classmethod
    def _shares(cls, given: list[float]) -> list[float]:
        if not all(0 < share <= 1 for share in given) or sorted(set(given)) != given:
            raise ValueError("Shares are above 0, at most 1, and rise")
        return given

    @property
    def plays_groups(self) -> bool:
        """Whether agents are evaluated with any teams."""
        return self.groups is None or bool(self.groups)

    def evaluated(self, agents: Iterable[str]) -> tuple[str, ...]:
        """Labels of everybody who is evaluated with teams, in the order of the tables."""
        if not self.plays_groups:
            return ()
        return (*agents, *((UNTRAINED,) if self.untrained else ()), *self.scripted, *self.beliefs)


class EvaluateStage(Stage):
    """A task for the scores of everybody, for cross-play, for each agent's diagnostics, and for the tables."""

    name = "evaluate"
    entries = ("evaluation", "self_play.csv")

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        section, pool, seats = checked.plan.evaluation, checked.plan.pool, checked.env.spec.n_agents
        for name in section.sets:
            if name not in pool.sets:
                raise UserError(f"evaluation.sets: got '{name}', but the pool has nobody in that set.")
        if section.crossplay_episodes and not pool.counts.get(section.sets[0]):
            raise UserError(
                f"evaluation.crossplay_episodes: got {section.crossplay_episodes}, but the set '{section.sets[0]}' has "
                f"no learned members to play it. Give 0."
            )
        known = group_names(seats)
        for group in section.groups or ():
            if group not in known:
                raise unknown_name(f"group (evaluation.groups) of a game with {seats} seats:", group, known)
        check_scripts("evaluation.scripted", section.scripted, checked.env)
        check_beliefs("evaluation.beliefs", section.beliefs)
        if section.beliefs and "training" not in pool.sets:
            raise UserError("evaluation.beliefs: the pool has nobody in the set training to believe in.")
        if section.beliefs and is_hosted(checked.env):
            raise UserError(f"evaluation.beliefs: {checked.env.spec.name} is no JAX program; give none.")
        if section.at and (section.which == "best" or not section.plays_groups):
            given = "which: best" if section.which == "best" else "no groups"
            raise UserError(f"evaluation.at: got {section.at} and {given}; shares are of agents as they were.")
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        pool, trained = earlier.of(PoolStage)[""], earlier.of(TrainStage)
        answers = self._answer_tasks(pool, earlier)
        tasks = [
            *answers,
            *(scores := self._score_tasks(pool, trained, answers)),
            *self._budget_tasks(scores),
            *self._cross_play_tasks(pool),
            *self._diagnostic_tasks(pool, trained),
        ]
        if tasks:
            settings = {
                "metric": self.checked.metric,
                "agent": self.checked.agent,
                "baselines": self.checked.baselines,
                "lower_is_better": self.plan.report.lower_is_better,
            }
            files = table_files(self.checked)
            # What a score is worth shows in the room of the pool, where that is measured.
            needs = (*tasks, *(earlier.of(RoomStage).values() if self.plan.evaluation.at else ()))
            tasks.append(Task(self.name, "tables", settings, files, self.write_tables, needs, reported=True))
        if self.checked.self_play:
            needs = tuple(trained[label] for label in self.checked.self_play)
            files = self_play_files(self.checked)
            tasks.append(Task(self.name, "self-play", {}, files, self.write_self_play, needs, reported=True))
        return tasks

    @classmethod
    def shows(cls, checked: CheckedPlan) -> Screen:
        """See `Stage`."""
        names, compared = checked.plan.report.names, comparison_rows(checked)
        alone = self_play_rows_of(checked)
        return [
            *_group_tables(checked, compared),
            *([ScreenTable("Self-play", *self_play_table(alone, names))] if alone else []),
            *(f"{answer.word}: {answer.headline}" for answer in answers(compared, names)),
        ]

    def _answer_tasks(self, pool: Task, earlier: Earlier) -> list[Task]:
        if not self.checked.evaluated or not self.plan.evaluation.beliefs:
            return []
        room = self.plan.room
        settings = {} if room is None else chosen(room, ("episodes", "seeds", "steps", "seed"))
        file = evaluation_folder(self.checked) / "answers.csv"
        needs = (pool, *earlier.of(RoomStage).values())
        return [self._task("answers", settings, file, partial(self.write_answers, file), needs)]

    def _score_tasks(self, pool: Task, trained: Mapping[str, Task], answers: Sequence[Task]) -> list[Task]:
        games = chosen(self.plan.evaluation, ("sets", "groups", "episodes", "seed", "which"))
        first = next(iter(trained.values()))
        tasks = []
        for label in self.checked.evaluated:
            # Those who never learned still depend on the first agent's networks and number of seeds.
            own = trained.get(label, first if label == UNTRAINED else pool)
            file = self._table(f"scores-{label}")
            work = partial(self.write_scores, label, file)
            settings = {"label": label, **games}
            needs = (*with_pool(own, pool), *(answers if label in self.plan.evaluation.beliefs else ()))
            tasks.append(self._task(f"scores {label}", settings, file, work, needs))
        return tasks

    def _budget_tasks(self, scores: Sequence[Task]) -> list[Task]:
        """Agents after shares of their training; what they reach at its end is played already."""
        if not self.plan.evaluation.at:
            return []
        tasks = []
        for label, played in zip(self.checked.agents, scores, strict=False):
            file = self._table(f"budget-{label}")
            work = partial(self.write_budget, label, file)
            settings = {"at": self.plan.evaluation.at}
            tasks.append(self._task(f"budget {label}", settings, file, work, (played,)))
        return tasks

    def _cross_play_tasks(self, pool: Task) -> list[Task]:
        if not self.plan.evaluation.crossplay_episodes:
            return []
        settings = chosen(self.plan.evaluation, ("sets", "seed", "crossplay_episodes"))
        file = self._table("crossplay")
        return [self._task("cross-play", settings, file, partial(self.write_cross_play, file), (pool,))]

    def _diagnostic_tasks(self, pool: Task, trained: Mapping[str, Task]) -> list[Task]:
        settings = chosen(self.plan.evaluation, ("sets", "seed", "which", "inference_episodes"))
        settings["metric"] = self.checked.metric
        tasks = []
        for label in self.checked.with_models:
            file = self._table(f"diagnostics-{label}")
            work = partial(self.write_diagnostics, label, file)
            tasks.append(self._task(f"diagnostics {label}", settings, file, work, with_pool(trained[label], pool)))
        return tasks

    def _task(
        self, name: str, settings: Mapping[str, object], file: Path, work: partial[None], needs: tuple[Task, ...]
    ) -> Task:
        return Task(self.name, name, settings, (file,), work, needs, apart=True)

    def _table(self, name: str) -> Path:
        return evaluation_folder(self.checked) / "parts" / f"{name}.csv"

    def _rows(self, names: Iterable[str], kind: type[R]) -> list[R]:
        return [row for name in names for row in read_rows(self._table(name), kind)]

    # ------------------------------------------------------------------------------------------- how a task is done

    @cached_property
    def arena(self) -> Arena:
        """The pool, loaded when it is first needed."""
        return Arena(self.checked.pool, self.checked.env)

    def _contestants(self, label: str) -> Contestants:
        if label == UNTRAINED:
            config = self.checked.first_config
            # In all seats there is nobody else to be told apart.
            partners = 0 if config.team is None else len(Pool.open(self.checked.pool).members("training"))
            return untrained(config, self.checked.env, partners)
        run = finished_run(self.checked.runs(label)).path
        return load_contestants(label, run, self.plan.evaluation.which)

    def write_answers(self, file: Path) -> None:
        """Finds the best answer to every training partner; with a section `room` some are trained for it."""
        room = self.plan.room
        if room is not None:
            numbers = (room.episodes, room.seeds, room.steps, room.seed)
            measure_room(self.checked.pool, RoomRules("training", None, *numbers))
        answers = find_answers(self.arena.pool, self.arena.env, self.checked.first_config)
        write_rows(file, answers.rows(), AnswerRow.names())

    def write_scores(self, label: str, file: Path) -> None:
        """Plays one agent, a script or a method that needs no training with all teams."""
        section = self.plan.evaluation
        if label in section.beliefs:
            games = (section.sets, section.groups, section.episodes, section.seed)
            rows = belief_scores([label], self.arena, self.checked.first_config, *games)
        else:
            rows = self._scores(label, None if label in section.scripted else self._contestants(label))
        write_rows(file, rows, SetScoreRow.names())

    def _scores(self, label: str, contestants: Contestants | None) -> list[SetScoreRow]:
        """Of agents, or of the script of that name, with all teams of all sets."""
        section = self.plan.evaluation
        games = (section.groups, section.episodes, section.seed)
        rows: list[SetScoreRow] = []
        for name in section.sets:
            if contestants is None:
                found = self.arena.scripted_scores(label, self.checked.first_config, name, *games)
            else:
                found = self.arena.scores(contestants, name, *games)
            rows += [SetScoreRow.extended(row, set=name) for row in found]
        return rows

    def write_budget(self, label: str, file: Path) -> None:
        """Plays one agent as it was after shares of its training, with all teams."""
        run, t_max = finished_run(self.checked.runs(label)).path, self.checked.agents[label].t_max
        rows: list[BudgetScoreRow] = []
        for share in self.plan.evaluation.at:
            then = load_contestants(label, run, step=steps_at(share, t_max) if share < 1 else None)
            played = self._scores(label, then) if share < 1 else self._rows([f"scores-{label}"], SetScoreRow)
            steps = {agent.card.seed: agent.card.t_env for agent in then.agents}
            rows += [BudgetScoreRow.extended(row, share=share, steps=steps[int(row.seed)]) for row in played]
        write_rows(file, rows, BudgetScoreRow.names())

    def write_cross_play(self, file: Path) -> None:
        """Plays the members of the first set with each other."""
        section = self.plan.evaluation
        rows = cross_play_arena(self.arena, section.sets[0], section.crossplay_episodes, section.seed)
        write_rows(file, rows, CrossPlayRow.names())

    def write_diagnostics(self, label: str, file: Path) -> None:
        """Measures what one agent's opponent model knows."""
        section = self.plan.evaluation
        rows: list[MeasureRow] = []
        if section.inference_episodes:
            rows += inference_rows(
                self._contestants(label),
                self.arena,
                section.sets[0],
                episodes=section.inference_episodes,
                seed=section.seed,
            )
        rows += control_rows(label, run_metrics(self.checked, label), self.checked.metric)
        write_rows(file, rows, MeasureRow.names())

    def write_tables(self) -> None:
        """Makes the tables of the evaluation from those of its tasks."""
        played = self.plan.evaluation.crossplay_episodes > 0
        write_tables(
            self.checked,
            self._rows([f"scores-{label}" for label in self.checked.evaluated], SetScoreRow),
            self._rows(["crossplay"] if played else [], CrossPlayRow),
            self._rows([f"diagnostics-{label}" for label in self.checked.with_models], MeasureRow),
            self._rows([f"budget-{label}" for label in self.checked.agents if self.plan.evaluation.at], BudgetScoreRow),
        )

    def write_self_play(self) -> None:
        """Tables what the last test of each seed found, of the agents that learn in all seats."""
        rows: list[SelfPlayScoreRow] = []
        for label in self.checked.self_play:
            run = finished_run(self.checked.runs(label))
            metric = self.checked.env.spec.success_metric
            rows += self_play_rows(label, run.metrics(), metric, run.config().test_nepisode)
        summary, seeds = self_play_files(self.checked)
        write_rows(seeds, rows, SelfPlayScoreRow.names())
        write_rows(summary, self_play_summary(rows), SelfPlayRow.names())


def summary_rows(checked: CheckedPlan) -> list[SetSummaryRow]:
    """The verdict's metric for every agent and group of the first set; nothing without groups."""
    if not checked.evaluated:
        return []
    rows = read_rows(evaluation_folder(checked) / "summary.csv", SetSummaryRow)
    return [row for row in rows if row.set == checked.plan.evaluation.sets[0] and row.metric == checked.metric]


def self_play_rows_of(checked: CheckedPlan) -> list[SelfPlayRow]:
    """How agents that learned in all seats do with themselves; nothing where there are none."""
    return read_rows(self_play_files(checked)[0], SelfPlayRow) if checked.self_play else []


def _group_tables(checked: CheckedPlan, compared: Sequence[ComparisonRow]) -> Iterator[ScreenTable]:
    """A table for each group of teams: how everybody does, and the agent in question against each baseline."""
    names, summary = checked.plan.report.names, summary_rows(checked)
    against = {(row.group, row.baseline): row for row in compared}
    main = agent_name(checked.agent, names)
    difference = ShownColumn(ComparisonRow.difference, "inside")
    for group in dict.fromkeys(row.group for row in summary):
        scored = [row for row in summary if row.group == group]
        head, lines = table_of(scored, SHORTEST_SCORES, names)
        rows = []
        for row, line in zip(scored, lines, strict=True):
            other = against.get((group, row.agent))
            beside = ("", "") if other is None else (*cells(other, difference), _VERDICTS[other.verdict])
            rows.append((*line, *beside))
        columns = (*head, f"{main} minus it [95 %]", f"{main} is")
        yield ScreenTable(f"{checked.plan.name}: {group_name(group)}", columns, rows)
