"""The report's sentences and tables as Markdown."""

from __future__ import annotations

from pathlib import Path

from omg.report.frame import write_document
from omg.report.inputs import ReportInput
from omg.report.markup import markdown_code, markdown_table, markdown_text
from omg.report.page_tables import (
    SELF_PLAY_WORDS,
    diagnostic_table,
    difference_table,
    reading,
    run_table,
    score_table,
    setting_table,
)
from omg.report.self_play import self_play_summary, self_play_table
from omg.report.verdict import answers, caution
from omg.report.words import group_name


def write_markdown(path: str | Path, report: ReportInput) -> Path:
    """Writes the sentences and tables of the report, without its figures, as Markdown."""
    report.require()
    parts = [f"**{markdown_text(report.lead)}**"] if report.lead else []
    parts += [f"# {markdown_text(report.title)}", f"## {markdown_text(report.question)}"]
    parts += [f"**{markdown_text(line)}**" for line in report.warnings]
    for answer in answers(report.comparison, report.names):
        parts.append(f"**{answer.word}.** {markdown_text(answer.headline)}")
        parts.append("\n".join(f"- {markdown_text(sentence)}" for sentence in answer.sentences))
    parts += [f"**{markdown_text(report.answer)}**"] if report.answer else []
    parts += filter(None, [caution(report.comparison), markdown_text(report.remark)])
    parts += ["## Scores"] if report.summary else []
    for group in report.groups:
        parts.append(f"### {markdown_text(group_name(group))}")
        parts.append(markdown_table(*score_table(report, group)))
    parts += [part for chapter in report.chapters for part in chapter.markdown()]
    parts += ["## Differences", markdown_table(*difference_table(report))] if report.comparison else []
    if report.self_play:
        table = markdown_table(*self_play_table(self_play_summary(report.self_play), names=report.names))
        parts += ["## Self-play", table, SELF_PLAY_WORDS]
    parts += [] if report.adaptation is None else report.adaptation.markdown()
    if report.diagnostics:
        parts += ["## Diagnostics", markdown_table(*diagnostic_table(report))]
    if report.runs:
        parts += ["## Speed and memory", markdown_table(*run_table(report))]
        parts += ["## Settings", markdown_table(*setting_table(report))]
    parts += ["## How to read this", "\n".join(f"- {line}" for line in reading(report))]
    if report.commands or report.versions or report.machine or report.notes:
        parts += ["## How it was run", *map(markdown_text, report.notes)]
        parts += [markdown_code(report.commands)] if report.commands else []
        parts += [f"Machine: {markdown_text(report.machine)}"] if report.machine else []
        parts += [markdown_table(("package", "version"), sorted(report.versions.items()))] if report.versions else []
    return write_document(path, "\n\n".join(parts) + "\n")
