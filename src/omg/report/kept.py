"""A report as a folder of tidy tables, from which all of its figures and its page can be made again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from omg.components.files import read_json, write_json
from omg.components.headers import DamagedFileError
from omg.errors import UserError
from omg.evaluation.parquet import read_parquet, write_parquet
from omg.evaluation.report_tables import REPORT_TABLES, CurveRow, SettingRow, TrainingRow
from omg.evaluation.rows import R, TableRow, read_rows, write_rows
from omg.evaluation.suite_tables import BudgetRow, ImportanceRow, SliceRow, TrialRow
from omg.evaluation.tables import (
    ClosedRow,
    ComparisonRow,
    CrossPlayRow,
    EpisodeRow,
    MeasureRow,
    OffsetRow,
    RoomRow,
    ScoreRow,
    SelfPlayScoreRow,
    SummaryRow,
)
from omg.report.derived import curve_rows, curves_of, profile_rows, team_rows
from omg.report.inputs import ReportInput
from omg.types import Json, Tree

FACTS_FILE = "report.json"
TableFormat = Literal["csv", "parquet"]
KEPT: Mapping[str, type[TableRow]] = {
    "scores": ScoreRow,
    "summary": SummaryRow,
    "comparison": ComparisonRow,
    "curves": CurveRow,
    "crossplay": CrossPlayRow,
    "self_play_scores": SelfPlayScoreRow,
    "offsets": OffsetRow,
    "diagnostics": MeasureRow,
    "room": RoomRow,
    "closed": ClosedRow,
    "budget": BudgetRow,
    "trials": TrialRow,
    "slices": SliceRow,
    "importance": ImportanceRow,
    "adaptation": EpisodeRow,
    "trainings": TrainingRow,
    "settings": SettingRow,
    **{name.removesuffix(".csv"): kind for name, kind in REPORT_TABLES.items()},
}
"""Name of a table -> what its rows are."""
_WORDS = ("title", "metric", "lead", "question", "answer", "remark", "machine")
_LISTS = ("warnings", "trainings", "commands", "notes")
_MAPPINGS = ("names", "versions")


def write_tables(folder: Path, report: ReportInput, kind: TableFormat = "csv") -> list[Path]:
    """Writes the tables of a report, and the words that are in none of them.

    Args:
        folder: where they go; it is made if need be.
        report: whose tables.
        kind: csv or parquet.

    Returns:
        The files.

    Raises:
        UserError: they cannot be written, or pyarrow is wanted and not installed.
    """
    written = []
    for name, rows in _tables(report).items():
        if rows:
            path = folder / f"{name}.{kind}"
            if kind == "parquet":
                write_parquet(path, rows, KEPT[name])
            else:
                write_rows(path, rows, KEPT[name].names())
            written.append(path)
    facts: Tree = {key: getattr(report, key) for key in _WORDS}
    facts |= {key: list(getattr(report, key)) for key in _LISTS}
    facts |= {key: dict(getattr(report, key)) for key in _MAPPINGS}
    facts["levels"] = {group: _known(levels) for group, levels in report.levels.items()}
    facts["curves_levels"] = _known(report.curves_levels)
    path = folder / FACTS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, facts)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None
    return [*written, path]


def _tables(report: ReportInput) -> dict[str, Sequence[TableRow]]:
    """Name -> rows."""
    crossed = [{"mate": row["team"], "metric": report.metric, "episodes": 0, **row} for row in report.cross_play]
    tables: dict[str, Sequence[TableRow]] = {
        "scores": _rows(report.scores, ScoreRow),
        "summary": _rows(report.summary, SummaryRow),
        "comparison": _rows(report.comparison, ComparisonRow),
        "curves": curve_rows(report.curves),
        "crossplay": _rows(crossed, CrossPlayRow),
        "self_play_scores": _rows(report.self_play, SelfPlayScoreRow),
        "offsets": _rows(report.offsets, OffsetRow),
        "diagnostics": _rows(report.diagnostics, MeasureRow),
        "trainings": report.runs,
        "settings": report.settings,
        "profiles": profile_rows(report.scores, report.metric) if report.scores else (),
        "teams": team_rows(report.scores),
    }
    for chapter in (*report.chapters, *([] if report.adaptation is None else [report.adaptation])):
        tables |= {file.removesuffix(".csv"): rows for file, rows in chapter.tables.items()}
    return tables


def _rows(rows: Iterable[Mapping[str, Any]], kind: type[R]) -> list[R]:
    return [kind.of({name: row[name] for name in kind.names() if name in row}) for row in rows]


def _known(levels: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in levels.items() if not math.isnan(value)}


def is_kept(folder: Path) -> bool:
    """Whether a folder holds the tables of a report."""
    return (folder / FACTS_FILE).is_file()


def read_table(folder: Path, name: str, kind: type[R]) -> list[R]:
    """The rows of a table, from the CSV file or else from the Parquet file; none where there is neither.

    Raises:
        UserError: it is damaged.
    """
    if (folder / f"{name}.csv").is_file():
        return read_rows(folder / f"{name}.csv", kind)
    return read_parquet(folder / f"{name}.parquet", kind) if (folder / f"{name}.parquet").is_file() else []


def read_tables(folder: Path) -> ReportInput:
    """A report again, from what `write_tables` wrote; without its chapters, which other rooms make.

    Raises:
        UserError: a file is damaged.
    """
    path = folder / FACTS_FILE
    try:
        facts = read_json(path)
        if not isinstance(facts, dict):
            raise DamagedFileError("it holds no words")
        said: dict[str, Any] = {key: _text(facts.get(key, "")) for key in _WORDS}
        said |= {key: [_text(one) for one in facts.get(key, [])] for key in _LISTS}
        said |= {key: {str(one): _text(other) for one, other in facts.get(key, {}).items()} for key in _MAPPINGS}
        levels = {str(group): _levels(own) for group, own in facts.get("levels", {}).items()}
        curves_levels = _levels(facts.get("curves_levels", {}))
    except (OSError, DamagedFileError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    crossed = read_table(folder, "crossplay", CrossPlayRow)
    return ReportInput(
        summary=read_table(folder, "summary", SummaryRow),
        comparison=read_table(folder, "comparison", ComparisonRow),
        scores=read_table(folder, "scores", ScoreRow),
        curves=curves_of(read_table(folder, "curves", CurveRow)),
        cross_play=[{**row, "team": row.mate} for row in crossed],
        self_play=read_table(folder, "self_play_scores", SelfPlayScoreRow),
        offsets=read_table(folder, "offsets", OffsetRow),
        diagnostics=read_table(folder, "diagnostics", MeasureRow),
        runs=read_table(folder, "trainings", TrainingRow),
        settings=read_table(folder, "settings", SettingRow),
        levels=levels,
        curves_levels=curves_levels,
        **said,
    )


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError(f"got {value!r}, expected a text")
    return value


def _levels(value: Json) -> dict[str, float]:
    return {str(name): float(one) for name, one in value.items()}
