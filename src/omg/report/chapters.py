"""A part of the report that another room makes: the report places it and knows nothing of what it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omg.evaluation.rows import TableRow
from omg.report.charts import Chart
from omg.report.curves import figure_path, save_figure
from omg.report.markup import PageData, html_table, html_text, markdown_table, markdown_text
from omg.report.style import figure_style
from omg.types import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Chapter:
    """A figure, words and a table under one heading."""

    title: str
    draw: Callable[[Mapping[str, str]], Figure]
    """Draws the figure; given label -> colour of agents, which may be empty."""
    caption: str
    words: str
    """What the numbers are."""
    lead: str
    """Leads from the words to the table, where the table follows them."""
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    chart: Callable[[Mapping[str, int]], Chart]
    """The same for a page; given label -> number of the colour of agents, which may be empty."""
    tables: Mapping[str, Sequence[TableRow]]
    """File -> rows that all of this is made of."""
    scores: Sequence[Row] = ()
    """Score rows, see `omg.evaluation.comparison`, by which agents are compared that are not evaluated with teams."""

    def html(self, data: PageData, colours: Mapping[str, int]) -> str:
        """What stands under the heading on a page."""
        words = f'<p class="small">{html_text(self.words)} {html_text(self.lead)}</p>'
        return data.chart(self.chart(colours), self.caption) + words + html_table(self.head, self.lines)

    def markdown(self) -> list[str]:
        """Heading, table and words."""
        return [f"## {self.title}", markdown_table(self.head, self.lines), markdown_text(self.words)]

    def plot(self, path: str | Path) -> Path:
        """Draws the figure into a png, svg or pdf file."""
        target = figure_path(path)
        with figure_style():
            save_figure(self.draw({}), target)
        return target
