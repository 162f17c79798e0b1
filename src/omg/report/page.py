"""The report: one page that says whether modelling the others helps, by how much, and how sure we are.

It is about an evaluation with teams, or about runs as their own tests saw them. Without either it is about what else
was measured: self-play, and first episodes with new co-players.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omg.evaluation.tables import ComparisonRow, SummaryRow
from omg.report.charts import (
    cross_play_chart,
    curves_chart,
    differences_chart,
    groups_chart,
    measures_chart,
    offsets_chart,
    profiles_chart,
)
from omg.report.derived import foresight_sentences, profile_rows, referred
from omg.report.frame import page_body, write_document
from omg.report.inputs import ReportInput, by_metric, report_input
from omg.report.markup import PageData, badge, document, html_table, html_text
from omg.report.page_markdown import write_markdown
from omg.report.page_tables import (
    SELF_PLAY_WORDS,
    diagnostic_table,
    difference_table,
    gap_table,
    reading,
    run_table,
    score_table,
    setting_table,
    team_table,
)
from omg.report.self_play import self_play_summary, self_play_table
from omg.report.verdict import answers, caution
from omg.report.words import LAST_TEST, group_name, group_words, metric_words

__all__ = ["ReportInput", "by_metric", "report_input", "write_markdown", "write_page"]

_MOST_COMPARED = 60
"""Lines of a figure of differences that can still be read."""
_MOST_NOTED = 3
"""Answers that stand open; the others are behind a click."""


def write_page(path: str | Path, report: ReportInput) -> Path:
    """Writes the report as one HTML file that needs nothing else: styles, script and data are inside it.

    Returns:
        The path.

    Raises:
        UserError: the file cannot be written, or there is nothing to report.
    """
    report.require()
    data = PageData()
    sections = [(title, content) for title, content in _sections(report, data) if content]
    body = page_body(_verdict(report), sections)
    return write_document(path, document(report.title, body, data=data))


def _sections(report: ReportInput, data: PageData) -> Iterator[tuple[str, str]]:
    colours = {label: place for place, label in enumerate(report.agents)}
    yield "How each agent does", _scores(report, data, colours)
    for chapter in report.chapters:
        yield chapter.title, chapter.html(data, colours)
    yield "Who is better", _differences(report, data)
    yield "Self-play", _self_play(report)
    yield "Learning curves", _curves(report, data, colours)
    yield "Cross-play", _cross_play(report, data)
    if report.adaptation is not None:
        yield report.adaptation.title, report.adaptation.html(data, colours)
    yield "What the subgoals know", _diagnostics(report, data, colours)
    yield "Games", "".join(data.inner_page(game.title, game.page) for game in report.games)
    yield "Partner by partner", _teams(report, data)
    yield "Speed and memory", html_table(*run_table(report)) if report.runs else ""
    yield "Settings", _settings(report)
    yield "How to read this", _list(reading(report))
    yield "How it was run", _run(report)


def _verdict(report: ReportInput) -> str:
    found = answers(report.comparison, report.names)
    parts = [
        *([f'<p class="answer">{html_text(report.lead)}</p>'] if report.lead else []),
        f"<h1>{html_text(report.title)}</h1>",
        f'<p class="question">{html_text(report.question)}</p>',
        *(f"<p><strong>{html_text(line)}</strong></p>" for line in report.warnings),
        *([f'<p class="answer">{html_text(report.answer)}</p>'] if report.answer else []),
    ]
    for place, one in enumerate(found):
        headline = f"{badge(one.word)} {html_text(one.headline)}"
        if place == 0 and not report.answer:
            parts.append(f'<p class="answer">{headline}</p>{_list(one.sentences)}')
        else:
            parts.append(f"<details><summary>{headline}</summary>{_list(one.sentences)}</details>")
    rest = parts[-(len(found) - _MOST_NOTED) :] if len(found) > _MOST_NOTED else []
    if rest:
        parts = [
            *parts[: -len(rest)],
            f"<details><summary>{len(rest)} more comparisons</summary>{''.join(rest)}</details>",
        ]
    for line in filter(None, (caution(report.comparison), report.remark)):
        parts.append(f'<p class="small">{html_text(line)}</p>')
    return f'<header class="verdict">{"".join(parts)}</header>'


def _scores(report: ReportInput, data: PageData, colours: Mapping[str, int]) -> str:
    if not report.summary:
        return ""
    rows = [SummaryRow.of(row) for row in report.summary]
    tests = report.groups == [LAST_TEST]
    over = "seeds" if tests else "seeds and teams"
    caption = f"Mean over all {over} and its 95 % interval over seeds"
    caption += "." if tests else "; the diamond is the team each agent does worst with."
    caption += " Dashed: what the game allows." if report.levels else ""
    tables = [
        f"<h3>{html_text(group_name(group).capitalize())}</h3>"
        f'<p class="small">{"Tested" if group == LAST_TEST else "Played"} {html_text(group_words(group))}.</p>'
        f"{html_table(*score_table(report, group))}"
        for group in report.groups
    ]
    chart = groups_chart(rows, report.names, colours, report.levels, worst=not tests)
    return data.chart(chart, caption) + "".join(tables) + _profiles(report, data, colours)


def _profiles(report: ReportInput, data: PageData, colours: Mapping[str, int]) -> str:
    if not report.scores:
        return ""
    rows = profile_rows(report.scores, report.metric)
    caption = (
        f"Performance profile: the share of all trainings and teams that reach more than each value of "
        f"{metric_words(report.metric).noun}, with 95 % intervals over seeds. Higher is better everywhere."
    )
    return data.chart(profiles_chart(rows, report.names, colours), caption)


def _differences(report: ReportInput, data: PageData) -> str:
    if not report.comparison:
        return ""
    where = "on the same teams, " if report.summary and report.groups != [LAST_TEST] else ""
    caption = (
        f"Differences {where}with 95 % intervals; an interval that includes 0 shows no difference. Probability of "
        f"improvement: how often a training of one does better than a training of the other; 0.5 is neither."
    )
    blocks = [
        data.chart(differences_chart([ComparisonRow.of(row) for row in rows[:_MOST_COMPARED]], report.names), caption)
        for rows in by_metric(report.comparison).values()
    ]
    return "".join(blocks) + html_table(*difference_table(report))


def _self_play(report: ReportInput) -> str:
    if not report.self_play:
        return ""
    table = html_table(*self_play_table(self_play_summary(report.self_play), names=report.names))
    return f'<p class="small">{SELF_PLAY_WORDS}</p>{table}'


def _curves(report: ReportInput, data: PageData, colours: Mapping[str, int]) -> str:
    if not report.curves:
        return ""
    alone = {str(row["agent"]) for row in report.self_play}
    labels = {label for found in report.curves.values() for label in found}
    seats = {True: "in all seats", False: "with the training team-mates"}
    kinds = [seats[kind] for kind in (True, False) if any((label in alone) == kind for label in labels)]
    played = "" if report.groups == [LAST_TEST] else f", {' or '.join(kinds)}"
    caption = f"Tests during training{played}. Mean over seeds and its 95 % interval."
    return data.chart(curves_chart(report.curves, report.names, colours, report.curves_levels), caption)


def _cross_play(report: ReportInput, data: PageData) -> str:
    if not report.cross_play:
        return ""
    drawn = cross_play_chart(report.cross_play, report.metric, report.names)
    markup = data.chart(drawn, "Every agent (row) with every kind of team-mates (column).")
    gaps = gap_table(report)
    if gaps is None:
        return markup
    words = (
        "Self-play gap: how much more a player reaches among copies of itself than among copies of each other one, "
        "mean over the others with its 95 % interval over them."
    )
    return f'{markup}<p class="small">{words}</p>{html_table(*gaps)}'


def _diagnostics(report: ReportInput, data: PageData, colours: Mapping[str, int]) -> str:
    parts = []
    if report.diagnostics:
        said = foresight_sentences(report.diagnostics, report.names)
        parts.append(_list(said) if said else "")
        chart = measures_chart(referred(report.diagnostics), report.names, colours)
        if chart is not None:
            caption = "Each measure with its 95 % interval over seeds; grey is what it would be otherwise."
            parts.append(data.chart(chart, caption))
    if report.far_offsets:
        drawn = offsets_chart(report.far_offsets, report.names, colours)
        parts.append(data.chart(drawn, "How many steps ahead the states lie that were selected as subgoals."))
    if report.diagnostics:
        parts.append(html_table(*diagnostic_table(report)))
    return "".join(parts)


def _teams(report: ReportInput, data: PageData) -> str:
    if not report.scores or report.groups == [LAST_TEST]:
        return ""
    head, lines = team_table(report)
    return data.table(head, lines, (0, 1, 3), {3: report.metric})


def _settings(report: ReportInput) -> str:
    if not report.runs:
        return ""
    head, lines = setting_table(report)
    words = "What is not as its default, and first of all what is not the same in all of these runs."
    table = html_table(head, lines) if lines else "<p>Everything is as its default.</p>"
    block = f'<pre tabindex="0">{html_text(chr(10).join(report.trainings), lines=True)}</pre>'
    again = f"<details open><summary>To repeat the trainings</summary>{block}</details>" if report.trainings else ""
    return f'<p class="small">{words}</p>{table}{again}'


def _run(report: ReportInput) -> str:
    parts = [f"<p>{html_text(note)}</p>" for note in report.notes]
    if report.commands:
        parts.append(f'<pre tabindex="0">{html_text(chr(10).join(report.commands), lines=True)}</pre>')
    if report.machine:
        parts.append(f"<p>Machine: {html_text(report.machine)}</p>")
    if report.versions:
        parts.append(html_table(("package", "version"), sorted(report.versions.items())))
    return "".join(parts)


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html_text(line)}</li>" for line in lines) + "</ul>"
