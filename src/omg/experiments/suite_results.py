"""What the parts of a suite came to, gathered into the suite's tables, figures and pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omg.evaluation.budget import Marks
from omg.evaluation.probes import PROBES
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite import (
    Comparisons,
    PartResult,
    Probe,
    agent_rows,
    difference_rows,
    game_rows,
    probe_rows,
)
from omg.evaluation.suite_tables import (
    BudgetScoreRow,
    SuiteDifferenceRow,
    SuiteGameRow,
    SuiteProbeRow,
    SuiteRow,
)
from omg.evaluation.tables import MeasureRow, SetScoreRow
from omg.experiments.budget import budget_files, marks_of
from omg.experiments.plan_check import check_plan
from omg.experiments.results import evaluation_folder
from omg.report.suite import SuitePage, write_suite_markdown, write_suite_page

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan
    from omg.experiments.suite import ReadSuite, SuitePart

_VALIDATION = "validation"
_PROBES = {measure.name for measure in PROBES}


def suite_files(folder: Path) -> tuple[Path, ...]:
    """Everything that `write_suite` makes."""
    return (folder / "report.html", folder / "report.md", folder / "suite", folder / "figures")


def load_suite(read: ReadSuite, folder: Path) -> SuitePage:
    """What the parts of a suite came to; of one that is not complete those that are done (`suite.done_so_far`)."""
    parts = [load_part(part, part.folder(folder)) for part in read.parts]
    verdict = read.suite.verdict
    compared = Comparisons(verdict.same_information, verdict.modelling, verdict.subgoals, verdict.against)
    names: dict[str, str] = {}
    for part in read.parts:
        names |= part.plan.report.names
    return SuitePage(
        title=read.suite.title,
        games=game_rows(parts),
        agents=agent_rows(parts),
        differences=difference_rows(parts, compared),
        probes=probe_rows(parts),
        names=names,
        lacking=read.lacking,
        notes=_notes(read),
        commands=(f"omg pipeline {read.suite.name} --output FOLDER --jobs 8",),
    )


def write_suite(read: ReadSuite, folder: Path) -> None:
    """Makes the suite's tables and pages from those of its parts."""
    page = load_suite(read, folder)
    html, text, tables, figures = suite_files(folder)
    write_rows(tables / "games.csv", page.games, SuiteGameRow.names())
    write_rows(tables / "agents.csv", page.agents, SuiteRow.names())
    write_rows(tables / "differences.csv", page.differences, SuiteDifferenceRow.names())
    write_rows(tables / "probes.csv", page.probes, SuiteProbeRow.names())
    figures.mkdir(exist_ok=True)
    page.plot(figures / "room.png")
    write_suite_markdown(text, page)
    write_suite_page(html, page)


def load_part(part: SuitePart, folder: Path) -> PartResult:
    """What one game with one draw came to, with the first group of teams of the first set."""
    checked = check_plan(part.plan, folder)
    rows = read_rows(evaluation_folder(checked) / "scores.csv", SetScoreRow)
    rows = [row for row in rows if row.metric == checked.metric]
    group = rows[0].group
    first = [row for row in rows if row.set == checked.plan.evaluation.sets[0] and row.group == group]
    reached = _reached(checked, first)
    validated = [row for row in rows if row.set == _VALIDATION and row.group == group]
    return PartResult(
        part.plan.name,
        part.draw,
        checked.metric,
        len({row.team for row in first}),
        marks_of(checked).get(group, Marks()),
        reached,
        {agent: float(scores.mean()) for agent, scores in _by_agent(validated).items()},
        _probed(checked),
    )


def _probed(checked: CheckedPlan) -> dict[tuple[str, str], Probe]:
    """(agent, measure) -> what a probe named, of the probes in the order of their table."""
    rows = read_rows(evaluation_folder(checked) / "diagnostics.csv", MeasureRow)
    return {(row.agent, row.measure): Probe(row.value, row.seeds) for row in rows if row.measure in _PROBES}


def _reached(checked: CheckedPlan, last: list[SetScoreRow]) -> dict[tuple[str, float], np.ndarray]:
    """(agent, share) -> [R] scores; who was not trained has the same ones after every share."""
    files, shares = budget_files(checked), checked.plan.evaluation.at or [1.0]
    kept = {(row.set, row.group, row.metric) for row in last}
    rows = read_rows(files[0], BudgetScoreRow) if files else []
    rows = [row for row in rows if (row.set, row.group, row.metric) in kept]
    found = {
        (agent, share): scores
        for share in shares
        for agent, scores in _by_agent(row for row in rows if row.share == share).items()
    }
    for agent, scores in _by_agent(last).items():
        for share in shares:
            found.setdefault((agent, share), scores)
    order = list(dict.fromkeys(row.agent for row in last))
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def _by_agent(rows: Iterable[SetScoreRow]) -> dict[str, np.ndarray]:
    """Agent -> [R] mean over teams of each seed."""
    cells: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        cells.setdefault(row.agent, {}).setdefault(str(row.seed), []).append(row.mean)
    return {agent: np.asarray([np.mean(own) for own in seeds.values()]) for agent, seeds in cells.items()}


def _notes(read: ReadSuite) -> list[str]:
    first = read.parts[0].plan
    names = list(dict.fromkeys(part.plan.name for part in read.parts))
    draws = ", ".join(map(str, read.suite.draws))
    return [
        f"Games: {', '.join(names)}; draws of partners: {draws}.",
        f"Every part has a folder and a page of its own, e.g. {first.name}/draw_{read.suite.draws[0]}/report.html.",
        "All numbers are in the folder suite, and what they were made from is in evaluation/ of every part.",
    ]
