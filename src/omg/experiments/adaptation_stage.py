"""The stage `adapt` of a pipeline: a part for each agent, for the ends of the scale, and for the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omg.evaluation.adaptation import BEST_RESPONSE, COLUMNS, RANDOM, adaptation_summary
from omg.experiments.adaptation import Meeting, Row, Rules
from omg.experiments.adaptation_setup import check_seat, gather_teams, load_entrant
from omg.experiments.plan import AdaptationSection
from omg.experiments.plan_check import CheckedPlan
from omg.experiments.results import adaptation_files, finished_run, read_rows, write_rows
from omg.experiments.stages import Part, with_pool
from omg.names import file_name
from omg.pools import Pool

STAGE = "adapt"
_GAMES = ("set", "players", "mixtures", "episodes", "games", "seeds", "seed", "seat")
"""Keys of the section that everybody's episodes depend on."""


class AdaptationStage:
    """The parts of one plan's adaptation, and how each is done."""

    def __init__(self, checked: CheckedPlan, section: AdaptationSection) -> None:
        self.checked, self.section = checked, section
        self.entrants = section.entrants(checked.agents)
        self._meeting: Meeting | None = None

    def parts(self, pool: Part, trained: Mapping[str, Part]) -> list[Part]:
        """All parts, the tables last.

        Args:
            pool: what the co-players come from.
            trained: agent -> its training.
        """
        values = self.section.model_dump(mode="json")
        games = {key: values[key] for key in _GAMES} | {"repetitions": self._repetitions()}
        parts = []
        for label, (source, settings, frozen) in self.entrants.items():
            own = {"label": label, "settings": settings, "frozen": frozen, "which": self.section.which}
            needs = with_pool(trained[source], pool)
            parts.append(self._part(label, {**games, **own}, needs, self._agent(label)))
        parts.append(self._part(RANDOM, games, (pool,), lambda: self.meeting.random_rows()))
        if steps := self.section.best_response_steps:
            parts.append(
                self._part(
                    BEST_RESPONSE,
                    {**games, "steps": steps},
                    (pool,),
                    lambda: self.meeting.trained_best_rows(steps),
                )
            )
        tables = Part(STAGE, "tables", {}, adaptation_files(self.checked), self._write_tables, tuple(parts))
        return [*parts, tables]

    @property
    def meeting(self) -> Meeting:
        """The co-players, loaded when they are first needed."""
        if self._meeting is None:
            section, env = self.section, self.checked.env
            seat = check_seat(env, section.seat)
            rules = Rules(section.episodes, section.games, section.seeds, section.seed, seat)
            pool = Pool.open(self.checked.pool)
            teams = gather_teams(
                env, pool, section.set, section.players, mixtures=section.mixtures, seat=seat, seed=section.seed
            )
            config = next(iter(self.checked.agents.values()))
            self._meeting = Meeting(config, env, teams, rules, self._repetitions())
        return self._meeting

    def _repetitions(self) -> int:
        trained = [self.checked.agents[source].seeds for source, _, _ in self.entrants.values()]
        return self.section.seeds or max(trained)

    def _agent(self, label: str) -> Callable[[], list[Row]]:
        def work() -> list[Row]:
            source, settings, frozen = self.entrants[label]
            run = finished_run(self.checked.runs(source)).path
            entrant = load_entrant(label, run, settings, frozen=frozen, which=self.section.which)
            return self.meeting.agent_rows(entrant)

        return work

    def _part(
        self, label: str, settings: dict[str, Any], needs: tuple[Part, ...], rows: Callable[[], list[Row]]
    ) -> Part:
        file = self._file(label)
        return Part(STAGE, label, settings, (file,), lambda: write_rows(file, rows(), COLUMNS), needs, apart=True)

    def _file(self, label: str) -> Path:
        return self.checked.folder / "adaptation" / "parts" / f"{file_name('label', label)}.csv"

    def _write_tables(self) -> None:
        best = [BEST_RESPONSE] if self.section.best_response_steps else []
        rows = [row for label in (*self.entrants, RANDOM, *best) for row in read_rows(self._file(label))]
        table, summary = adaptation_files(self.checked)
        write_rows(table, rows, COLUMNS)
        found = adaptation_summary(rows)
        write_rows(summary, found, list(found[0]))
