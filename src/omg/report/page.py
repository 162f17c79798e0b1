"""The report: one page that says whether modelling the others helps, by how much, and how sure we are.

It is about an evaluation with teams. Without one it is about what else was measured: self-play, and first episodes with
new co-players.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omg.components.files import write_text
from omg.errors import UserError
from omg.evaluation.comparison import compare, summarise
from omg.evaluation.tables import ComparisonRow, MeasureRow, SummaryRow
from omg.report.chapters import Chapter
from omg.report.curves import draw_curves, mean_curve
from omg.report.figures import (
    PALETTE,
    agent_colours,
    draw_cross_play,
    draw_differences,
    draw_groups,
    draw_offsets,
    figure_style,
    inline_svg,
)
from omg.report.markup import (
    badge,
    document,
    figure_block,
    html_table,
    html_text,
    markdown_code,
    markdown_table,
    markdown_text,
)
from omg.report.self_play import compare_without_teams, self_play_summary, self_play_table
from omg.report.tables import MEASURES, SCORES, Cells, differences, table_of
from omg.report.verdict import answers, caution
from omg.report.words import agent_name, group_name, group_words, metric_words
from omg.types import Row

_SELF_PLAY_WORDS = (
    "Agents that learned in all seats: mean over seeds of what the last test of each found, its 95 % interval over "
    "seeds, the lowest and the highest seed."
)


@dataclass(frozen=True)
class ReportInput:
    """Everything a report is made of; only the first four fields are needed, and parts that are empty are left out."""

    title: str
    metric: str
    """The metric that the verdict is about, e.g. `battle_won`."""
    summary: Sequence[Row]
    """Columns of `SummaryRow`, as `omg.evaluation.summarise` returns them; empty without an evaluation."""
    comparison: Sequence[Row]
    """Columns of `ComparisonRow`, as `omg.evaluation.compare` returns them.

    The first pair of agent and baseline is the one in the headline.
    """
    lead: str = ""
    """A sentence that stands before everything else, also before the title."""
    question: str = "Does modelling the others help here?"
    names: Mapping[str, str] = field(default_factory=dict)
    """Label -> name of agents."""
    curves: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Label -> training metrics, columns of `MetricRow`."""
    curves_metric: str = "test_battle_won_mean"
    self_play: Sequence[Row] = ()
    """Rows of agents that learned in all seats; see `omg.report.self_play`."""
    cross_play: Sequence[Row] = ()
    """Rows with `agent`, `team` and `mean` of `metric`."""
    offsets: Sequence[Row] = ()
    """Columns of `OffsetRow`."""
    diagnostics: Sequence[Row] = ()
    """Columns of `MeasureRow`; ends of an interval that are None or NaN: there is none."""
    warnings: Sequence[str] = ()
    """Sentences that must be read before the answer."""
    chapters: Sequence[Chapter] = ()
    """Further parts, which stand before who is better."""
    adaptation: Chapter | None = None
    """First episodes with new co-players."""
    commands: Sequence[str] = ()
    """The commands that repeat all this, in order."""
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    notes: Sequence[str] = ()
    """Further paragraphs about how it was run, in plain text."""


def report_input(
    title: str,
    scores: Sequence[Row],
    metric: str,
    agent: str,
    baselines: Sequence[str],
    *,
    lower_is_better: bool = False,
    **parts: Any,
) -> ReportInput:
    """The input of a report from tidy rows: summary and comparison are worked out here.

    Args:
        title: heading of the page.
        scores: tidy score rows; see `omg.evaluation.comparison`. Without any the agents are compared by the parts
            `self_play` and `adaptation`.
        metric: what the verdict is about.
        agent: the agent in question.
        baselines: what it is compared with, the most important one first.
        lower_is_better: for metrics such as the number of steps.
        parts: further fields of `ReportInput`.
    """
    if not scores:
        chapter = parts.get("adaptation")
        played = parts.get("self_play", ()), () if chapter is None else chapter.scores
        comparison = compare_without_teams(agent, baselines, *played, lower_is_better=lower_is_better)
        return ReportInput(title, metric, [], comparison, **parts)
    summary = summarise(scores, metric, lower_is_better=lower_is_better)
    comparison = compare(scores, metric, agent, baselines, lower_is_better=lower_is_better)
    return ReportInput(title, metric, summary, comparison, **parts)


def write_page(path: str | Path, report: ReportInput) -> Path:
    """Writes the report as one HTML file that needs nothing else: styles and figures are inside it.

    Returns:
        The path.

    Raises:
        UserError: the file cannot be written, or there is no comparison to report.
    """
    return _write(path, document(report.title, _body(report)))


def write_markdown(path: str | Path, report: ReportInput) -> Path:
    """Writes the sentences and tables of the report, without its figures, as Markdown."""
    _require(report)
    parts = [f"**{markdown_text(report.lead)}**"] if report.lead else []
    parts += [f"# {markdown_text(report.title)}", f"## {markdown_text(report.question)}"]
    parts += [f"**{markdown_text(line)}**" for line in report.warnings]
    for answer in answers(report.comparison, report.names):
        parts.append(f"**{answer.word}.** {markdown_text(answer.headline)}")
        parts.append("\n".join(f"- {markdown_text(sentence)}" for sentence in answer.sentences))
    parts += filter(None, [caution(report.comparison)])
    parts += ["## Scores"] if report.summary else []
    for group in _groups(report):
        parts.append(f"### {markdown_text(group_name(group))}")
        parts.append(markdown_table(*_score_table(report, group)))
    parts += [part for chapter in report.chapters for part in chapter.markdown()]
    parts += ["## Differences", markdown_table(*_difference_table(report))]
    if report.self_play:
        table = markdown_table(*self_play_table(self_play_summary(report.self_play), names=report.names))
        parts += ["## Self-play", table, _SELF_PLAY_WORDS]
    parts += [] if report.adaptation is None else report.adaptation.markdown()
    if report.diagnostics:
        parts += ["## Diagnostics", markdown_table(*_diagnostic_table(report))]
    parts += ["## How to read this", "\n".join(f"- {line}" for line in _reading(report))]
    if report.commands or report.versions or report.machine or report.notes:
        parts += ["## How it was run", *map(markdown_text, report.notes)]
        parts += [markdown_code(report.commands)] if report.commands else []
        parts += [f"Machine: {markdown_text(report.machine)}"] if report.machine else []
        parts += [markdown_table(("package", "version"), list(report.versions.items()))] if report.versions else []
    return _write(path, "\n\n".join(parts) + "\n")


def _body(report: ReportInput) -> str:
    _require(report)
    further = [_section(chapter.title, chapter.html(_colours(report))) for chapter in report.chapters]
    sections = [_verdict_section(report), _scores_section(report), *further, _differences_section(report)]
    sections += [_self_play_section(report), _curves_section(report), _cross_play_section(report)]
    sections += [_adaptation_section(report), _diagnostics_section(report)]
    sections += [_reading_section(report), _run_section(report)]
    return "\n".join(filter(None, sections))


def _verdict_section(report: ReportInput) -> str:
    first, *others = answers(report.comparison, report.names)
    parts = [
        *([f'<p class="answer">{html_text(report.lead)}</p>'] if report.lead else []),
        f"<h1>{html_text(report.title)}</h1>",
        f'<p class="question">{html_text(report.question)}</p>',
        *(f"<p><strong>{html_text(line)}</strong></p>" for line in report.warnings),
        f'<p class="answer">{badge(first.word)} {html_text(first.headline)}</p>',
        _list(first.sentences),
    ]
    for answer in others:
        rest = f"<summary>{badge(answer.word)} {html_text(answer.headline)}</summary>{_list(answer.sentences)}"
        parts.append(f"<details>{rest}</details>")
    if caution(report.comparison):
        parts.append(f'<p class="small">{html_text(caution(report.comparison))}</p>')
    return f'<header class="verdict">{"".join(parts)}</header>'


def _scores_section(report: ReportInput) -> str:
    if not report.summary:
        return ""
    words = metric_words(report.metric)
    drawn = draw_groups(report.summary, names=report.names, colours=_colours(report))
    picture = inline_svg(drawn, f"{words.noun} of every agent by group")
    caption = "Mean over all seeds and teams, its 95 % interval over seeds, and the team each agent does worst with."
    tables = [
        f"<h3>{html_text(group_name(group).capitalize())}</h3>"
        f'<p class="small">Played {html_text(group_words(group))}.</p>{html_table(*_score_table(report, group))}'
        for group in _groups(report)
    ]
    return _section("How each agent does", figure_block(picture, caption) + "".join(tables))


def _differences_section(report: ReportInput) -> str:
    where = "on the same teams, " if report.summary else ""
    caption = f"Differences {where}with 95 % intervals. An interval that includes 0 shows no difference."
    blocks = []
    for metric, rows in by_metric(report.comparison).items():
        about = f"paired differences of {metric_words(metric).noun} with intervals"
        blocks.append(figure_block(inline_svg(draw_differences(rows, names=report.names), about), caption))
    return _section("Who is better", "".join(blocks) + html_table(*_difference_table(report)))


def _self_play_section(report: ReportInput) -> str:
    if not report.self_play:
        return ""
    table = html_table(*self_play_table(self_play_summary(report.self_play), names=report.names))
    return _section("Self-play", f'<p class="small">{_SELF_PLAY_WORDS}</p>{table}')


def _curves_section(report: ReportInput) -> str:
    if not report.curves:
        return ""
    curves = {
        agent_name(label, report.names): mean_curve(rows, report.curves_metric, "interval")
        for label, rows in report.curves.items()
    }
    colours = _colours(report)
    with figure_style([colours.get(label, PALETTE[-1]) for label in report.curves]):
        picture = inline_svg(draw_curves(curves, report.curves_metric, "interval"), "learning curves")
    alone = {str(row["agent"]) for row in report.self_play}
    seats = {True: "in all seats", False: "with the training team-mates"}
    kinds = [seats[kind] for kind in (True, False) if any((label in alone) == kind for label in report.curves)]
    return _section("Learning curves", figure_block(picture, f"Tests during training, {' or '.join(kinds)}."))


def _cross_play_section(report: ReportInput) -> str:
    if not report.cross_play:
        return ""
    drawn = draw_cross_play(report.cross_play, metric=report.metric, names=report.names)
    caption = "Every agent (row) with every kind of team-mates (column)."
    return _section("Cross-play", figure_block(inline_svg(drawn, "cross-play matrix"), caption))


def _adaptation_section(report: ReportInput) -> str:
    chapter = report.adaptation
    return "" if chapter is None else _section(chapter.title, chapter.html(_colours(report)))


def _diagnostics_section(report: ReportInput) -> str:
    parts = []
    if report.offsets:
        drawn = draw_offsets(report.offsets, names=report.names, colours=_colours(report))
        picture = inline_svg(drawn, "histogram of selected offsets")
        parts.append(figure_block(picture, "How many steps ahead the states lie that were selected as subgoals."))
    if report.diagnostics:
        parts.append(html_table(*_diagnostic_table(report)))
    return _section("What the subgoals know", "".join(parts)) if parts else ""


def _reading_section(report: ReportInput) -> str:
    return _section("How to read this", _list(_reading(report)))


def _run_section(report: ReportInput) -> str:
    parts = [f"<p>{html_text(note)}</p>" for note in report.notes]
    if report.commands:
        parts.append(f"<pre>{html_text(chr(10).join(report.commands), lines=True)}</pre>")
    if report.machine:
        parts.append(f"<p>Machine: {html_text(report.machine)}</p>")
    if report.versions:
        parts.append(html_table(("package", "version"), list(report.versions.items())))
    return _section("How it was run", "".join(parts)) if parts else ""


def _score_table(report: ReportInput, group: str) -> Cells:
    rows = [SummaryRow.of(row) for row in report.summary if row["group"] == group]
    return table_of(rows, SCORES, report.names, report.metric)


def _difference_table(report: ReportInput) -> Cells:
    rows = [ComparisonRow.of(row) for rows in by_metric(report.comparison).values() for row in rows]
    return table_of(rows, differences(rows), report.names)


def _diagnostic_table(report: ReportInput) -> Cells:
    return table_of([MeasureRow.of(row) for row in report.diagnostics], MEASURES, report.names)


def _reading(report: ReportInput) -> list[str]:
    over = {str(row["interval_over"]) for row in report.comparison}
    if not report.summary:
        lines = [
            "A seed is one training of an agent. Intervals of self-play resample seeds: another set of trainings.",
            "P(improvement) is how often a training of the agent does better than a training of the baseline, with its "
            "95 % interval; 0.5 means neither.",
        ]
        if report.adaptation:
            others = "seeds and co-players" if "seeds and teams" in over else "seeds: these co-players only"
            lines.append(
                f"In the first episodes all agents meet the same co-players, from the same starts; intervals of "
                f"differences resample {others}."
            )
        return lines
    lines = [
        "A seed is one training of an agent. A team is one choice of team-mates that the agent has never met in "
        "training. All agents play with the same teams, from the same starts.",
        "IQM is the interquartile mean: the mean of the middle half of all seeds and teams.",
        "P(improvement) is how often a training of the agent does better than a training of the baseline with the same "
        "team, with its 95 % interval; 0.5 means neither.",
        "Intervals of scores resample seeds: another set of trainings, the same teams.",
    ]
    if "seeds and teams" in over:
        lines.append(
            "Intervals of differences resample seeds and teams: other trainings, other teams of the same kind."
        )
    if "seeds" in over:
        lines.append("Where it says “these teams only”, too few teams were played to say anything about other teams.")
    return lines


def _colours(report: ReportInput) -> dict[str, str]:
    """One colour per agent throughout the page."""
    return agent_colours([*report.summary, *({"agent": label} for label in report.curves), *report.offsets])


def by_metric(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their metric, in the order in which these first appear: each has a figure of its own."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["metric"]), []).append(row)
    return found


def _groups(report: ReportInput) -> list[str]:
    return list(dict.fromkeys(str(row["group"]) for row in report.summary))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html_text(title)}</h2>{content}</section>"


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html_text(line)}</li>" for line in lines) + "</ul>"


def _require(report: ReportInput) -> None:
    if not report.comparison:
        raise UserError("report: there are no scores to compare. Evaluate at least two agents with the same teams.")


def _write(path: str | Path, text: str) -> Path:
    target = Path(path)
    try:
        write_text(target, text)
    except OSError as error:
        raise UserError(f"report: cannot write '{target}' ({error.strerror}).") from None
    return target
