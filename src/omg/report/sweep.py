"""The page of a sweep: what was found, every trial, and what each setting is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from omg.evaluation.suite_tables import ImportanceRow, TrialRow
from omg.report.chapters import Chapter
from omg.report.frame import page_body, write_document
from omg.report.markup import PageData, document, html_text
from omg.report.tables import table_of
from omg.report.terminal import Screen, ScreenTable
from omg.report.trials import TRIALS
from omg.report.words import agent_name, metric_words

_MOST_SHOWN = 12
"""Trials of one agent in the terminal, the best ones."""


def sweep_answers(rows: Sequence[TrialRow], names: Mapping[str, str] | None = None) -> list[str]:
    """One sentence for each agent: its best settings, and what they reached beside those it had."""
    found = []
    for label in dict.fromkeys(row.agent for row in rows):
        own = [row for row in rows if row.agent == label]
        best = next(row for row in own if row.chosen == "yes")
        words, first = metric_words(best.metric), own[0]
        counts = {word: sum(row.chosen == word for row in own) for word in ("stopped", "diverged")}
        without = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
        beside = f"the settings it had: {words.value(first.mean)}" if first is not best else "the settings it had"
        found.append(
            f"{agent_name(label, names)}: {words.value(best.mean)} {words.noun} with validation partners by trial "
            f"{best.trial} of {len(own)} ({best.settings}); {beside}."
            + (f" Without a score: {without}." if without else "")
        )
    return found


def sweep_screen(
    rows: Sequence[TrialRow], importance: Sequence[ImportanceRow], names: Mapping[str, str] | None = None
) -> Screen:
    """What a terminal shows: the best trials of every agent, and what matters."""
    screen: list[ScreenTable | str] = []
    for label in dict.fromkeys(row.agent for row in rows):
        own = [row for row in rows if row.agent == label]
        shown = _best_first(own)[:_MOST_SHOWN]
        title = f"{agent_name(label, names)}: best {len(shown)} of {len(own)} trials"
        screen.append(ScreenTable(title, *table_of(shown, TRIALS, names)))
        matters = [f"{row.key} {100 * row.importance:.0f} %" for row in importance if row.agent == label]
        if matters:
            screen.append(f"Importance: {', '.join(matters)}")
    return [*screen, *sweep_answers(rows, names)]


def _best_first(rows: Sequence[TrialRow]) -> list[TrialRow]:
    """The chosen trial, then those on its side of the others; those without a score last."""
    best = next(row.mean for row in rows if row.chosen == "yes")
    scored = [row for row in rows if row.mean == row.mean]
    return [*sorted(scored, key=lambda row: abs(row.mean - best)), *(row for row in rows if row.mean != row.mean)]


def write_sweep_page(
    path: Path,
    title: str,
    rows: Sequence[TrialRow],
    chapters: Sequence[Chapter],
    notes: Sequence[str],
    names: Mapping[str, str] | None = None,
) -> Path:
    """Writes all of it as one HTML file that needs nothing else.

    Args:
        path: of the page.
        title: its heading.
        rows: all trials.
        chapters: about the trials and their settings.
        notes: how it was run.
        names: label -> name of agents.
    """
    data = PageData()
    said = "".join(f'<p class="answer">{html_text(line)}</p>' for line in sweep_answers(rows, names))
    sections = [(chapter.title, chapter.html(data, {})) for chapter in chapters]
    sections.append(("How it was run", "".join(f"<p>{html_text(line)}</p>" for line in notes)))
    body = page_body(f'<header class="verdict"><h1>{html_text(title)}</h1>{said}</header>', sections)
    return write_document(path, document(title, body, data=data))
