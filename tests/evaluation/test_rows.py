"""Typed rows: columns, files, the tables that people read, and the page that lists all columns."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from helpers.refusing import refusal
from omg.evaluation import probes, subgoals
from omg.evaluation.overview_tables import OVERVIEW_TABLES
from omg.evaluation.report_tables import REPORT_TABLES
from omg.evaluation.rows import Field, TableRow, read_rows, real, text, whole, write_rows
from omg.evaluation.suite_tables import SUITE_TABLES
from omg.evaluation.tables import TABLES, ComparisonRow, MetricRow, ScoreRow, SetScoreRow, SummaryRow
from omg.learners import subgoal_measures
from omg.report.tables import SCORES, SHORT_DIFFERENCES, SHORT_SCORES, differences, screen_table_of, table_of
from omg.tracking import Table

ROOT = Path(__file__).parents[2]
SUMMARY = SummaryRow(
    agent="iql",
    group="7_homologue",
    metric="battle_won",
    seeds=3,
    teams=1200,
    episodes=3600,
    mean=0.5,
    low=0.25,
    high=0.75,
    iqm=0.5,
    iqm_low=math.nan,
    iqm_high=math.nan,
    worst_team="7xvdn_s1",
    worst=0.125,
)


class TinyRow(TableRow):
    """A row with a column that is called otherwise in files."""

    who: Field[str] = text("player", "who", name="agent")
    tries: Field[int] = whole("tries", "how many")
    share: Field[float] = real("share", "of all")


class LaterRow(TinyRow):
    """The same with a column before the others and one behind them."""

    order: Field[str] = text("order", "when", first=True)
    more: Field[float] = real("more", "of it")


def test_a_row_is_a_dictionary_with_typed_attributes() -> None:
    row = TinyRow(share=0.5, tries=2, who="a")
    assert (row.who, row.tries, row.share) == ("a", 2, 0.5)
    assert row == {"agent": "a", "tries": 2, "share": 0.5}
    assert json.loads(json.dumps(row)) == dict(row)
    assert list(row) == TinyRow.names() == ["agent", "tries", "share"]
    row.tries = 3
    assert row["tries"] == 3
    assert (TinyRow.who.heading, TinyRow.who.name, LaterRow.who is TinyRow.who) == ("player", "agent", True)


def test_columns_are_added_before_and_behind() -> None:
    assert LaterRow.names() == ["order", "agent", "tries", "share", "more"]
    row = LaterRow.extended(TinyRow(who="a", tries=1, share=0.0), order="first", more=2.0)
    assert dict(row) == {"order": "first", "agent": "a", "tries": 1, "share": 0.0, "more": 2.0}
    with pytest.raises(KeyError):
        LaterRow.extended(TinyRow(who="a", tries=1, share=0.0), order="first")


def test_a_missing_or_unknown_column_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="TinyRow has the columns agent, tries, share: share"):
        TinyRow(who="a", tries=1)  # type: ignore[call-arg]


def test_given_rows_have_numbers_as_numbers() -> None:
    row = ScoreRow.of({"agent": 3, "seed": "7", "mean": "0.5", "other": "x"})
    assert dict(row) == {"agent": "3", "seed": 7, "mean": 0.5, "other": "x"}
    assert ScoreRow.of({"seed": "a"}).seed == "a"
    assert math.isnan(ScoreRow.of({"mean": None}).mean)
    assert ScoreRow.of(row) is row
    with pytest.raises(ValueError, match="invalid literal"):
        ScoreRow.of({"episodes": "many"})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "table.csv"
    row = SetScoreRow(
        set="heldout", agent="=iql", seed=1, group="g", team="a,b", episodes=4, metric="return", mean=1 / 3
    )
    write_rows(path, [row], SetScoreRow.names())
    assert path.read_text() == (
        'set,agent,seed,group,team,episodes,metric,mean\nheldout,\'=iql,1,g,"a,b",4,return,0.3333333333333333\n'
    )
    (found,) = read_rows(path, SetScoreRow)
    assert (found.mean, found.seed, found.team) == (1 / 3, 1, "a,b")
    assert read_rows(path) == [found]
    write_rows(path, [], TinyRow.names())
    assert read_rows(path, TinyRow) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("agent,share\na,0.5\n", "it has no column 'tries'"),
        ("", "it has no column 'agent'"),
        ("agent,tries,share\na,b,0.5\n", "invalid literal for int() with base 10: 'b'"),
        ("agent,tries,share\na,1\n", "line 2 has not as many cells as the first"),
        ("agent,tries,share\na,1,0.5,9\n", "line 2 has not as many cells as the first"),
    ],
)
def test_what_is_no_such_table_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert refusal(lambda: read_rows(path, TinyRow)) == f"{path} cannot be read: {reason}."


def test_a_table_gives_columns_by_name_and_by_kind() -> None:
    table = Table([MetricRow(seed=1, t_env=10, name="loss", value=0.5)])
    assert table.column(MetricRow.value) == table.column("value") == [0.5]
    assert table.where(name="loss")[0].t_env == 10


def test_page_and_screen_show_the_same_columns() -> None:
    assert table_of([SUMMARY], SCORES, {"iql": "Mine"}) == (
        [
            "agent",
            "battles won",
            "95 % interval",
            "IQM",
            "95 % interval",
            "worst team",
            "seeds",
            "teams",
            "episodes",
        ],
        [["Mine", "50.0 %", "25.0 to 75.0", "50.0 %", "\N{EN DASH}", "12.5 % (7xvdn_s1)", "3", "1,200", "3,600"]],
    )
    assert screen_table_of([SUMMARY], SHORT_SCORES) == (
        ["agent", "group", "battles won [95 %]", "IQM", "worst team", "seeds", "teams"],
        [["iql", "7 homologue", "50.0 % [25.0, 75.0]", "50.0 %", "12.5 % (7xvdn_s1)", 3, 1200]],
    )


def test_differences_name_the_agent_where_there_are_several() -> None:
    values = {"group": "g", "metric": "return", "difference": 0.5, "low": -1.0, "high": 2.0, "p_improvement": 0.625}
    values |= {"p_low": 0.5, "p_high": 0.75, "verdict": "no difference shown"}
    one, other = (ComparisonRow.of({**values, "agent": agent, "baseline": "iql"}) for agent in ("a", "b"))
    head, lines = table_of([one], differences([one]))
    assert head == ["group", "baseline", "difference", "95 % interval", "P(improvement)", "verdict"]
    assert lines == [["g", "IQL", "+0.50", "\N{MINUS SIGN}1.00 to +2.00", "0.62 (0.50 to 0.75)", "no difference shown"]]
    assert table_of([one, other], differences([one, other]))[0][:3] == ["group", "agent", "baseline"]
    assert screen_table_of([one], SHORT_DIFFERENCES)[1][0][2:4] == ["+0.50 [\N{MINUS SIGN}1.00, +2.00]", 0.625]


def test_the_page_lists_every_column_and_every_measure() -> None:
    parts = []
    for file, kind in {**TABLES, **SUITE_TABLES, **OVERVIEW_TABLES, **REPORT_TABLES}.items():
        lines = [f"| `{column.name}` | {column.meaning} |" for column in kind.columns()]
        parts.append("\n".join([f"## {file}", "", str(kind.__doc__), "", "| column | meaning |", "|---|---|", *lines]))
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    first, last = page.index("## "), page.index("## Measures of subgoals")
    assert page[first:last] == "\n\n".join(parts) + "\n\n"
    diagnostics = [(one.name, one.meaning, one.chance) for one in subgoals.MEASURES]
    diagnostics += [(one.name, one.meaning, one.chance) for one in probes.PROBES]
    for name, meaning, chance in diagnostics:
        shown = re.sub(r"\{(\w+)\}", r"*\1*", meaning)
        assert f"\n| {name} | {shown} | {chance} |\n" in page[last:]
    for tested in subgoal_measures.MEASURES:
        assert f"\n| `test_{tested.name}` | {tested.meaning} | {tested.chance} |\n" in page[last:]
    assert page[last:].count("\n| ") == len(diagnostics) + len(subgoal_measures.MEASURES) + 3
