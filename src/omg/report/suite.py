"""The page of a suite: game by game, who closes how much of the room, and whether modelling and subgoals help."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from omg.evaluation.room import RANDOM
from omg.evaluation.rows import TableRow
from omg.evaluation.suite import ALL_DRAWS
from omg.evaluation.suite_tables import SuiteDifferenceRow, SuiteGameRow, SuiteProbeRow, SuiteRow
from omg.report.charts import Axis, Chart, Line, marks, panel, series
from omg.report.curves import figure_path, save_figure
from omg.report.derived import curve_from
from omg.report.frame import page_body, write_document
from omg.report.markup import (
    PageData,
    badge,
    document,
    html_table,
    html_text,
    markdown_code,
    markdown_table,
    markdown_text,
)
from omg.report.style import INK, PALETTE, SHAPES, agent_colours, agent_order, figure_style
from omg.report.suite_words import BELOW, GameAnswer, game_answers, range_words
from omg.report.tables import Cells, ShownColumn, table_of
from omg.report.terminal import Screen, ScreenTable
from omg.report.words import agent_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAMES = (
    ShownColumn(SuiteGameRow.game),
    ShownColumn(SuiteGameRow.floor),
    ShownColumn(SuiteGameRow.best_fixed),
    ShownColumn(SuiteGameRow.optimum),
    ShownColumn(SuiteGameRow.ceiling),
    ShownColumn(SuiteGameRow.room),
    ShownColumn(SuiteGameRow.room_share),
)
_DIFFERENCES = (
    ShownColumn(SuiteDifferenceRow.question),
    ShownColumn(SuiteDifferenceRow.agent),
    ShownColumn(SuiteDifferenceRow.baseline),
    ShownColumn(SuiteDifferenceRow.share),
    ShownColumn(SuiteDifferenceRow.difference, "inside"),
    ShownColumn(SuiteDifferenceRow.verdict),
)
_DIFFERENCE_CAPTION = "After the whole training, with 95 % intervals; an interval that includes 0 shows no difference."
_PROBED = {"policy": "partner named", "step": "partner's coming step named"}
_SOURCES = {
    "from the model": "model",
    "from the memory": "recurrent state",
    "from the running mean": "running mean of views",
    "from the observation": "present view",
    "by chance": "chance",
}
_PROBES_CAPTION = (
    "Accuracy of linear probes on games with the held-out partners, means over draws and seeds: which of them it is, "
    "and what it will do at the end of the round, or as many steps ahead as subgoals look. What the model says is "
    "worth something where it is ahead of the agent's own recurrent state and of the running mean of what was seen."
)
_COLUMNS = 3
_GameRow = TypeVar("_GameRow", bound=TableRow)
_READING = (
    "Room is what there is to gain from knowing the others: ceiling (the best answer to each partner) minus best fixed "
    "(the best single strategy, chosen on the validation partners). Room closed is 0 at best fixed and 1 at the "
    "ceiling.",
    "Optimum is the exact value of answering a partner that is not known beforehand, where the game is small enough.",
    "A draw deals the kinds of partners anew to training, validation and held-out. With three draws or more, intervals "
    "are Student's over draws and stand for other partners of these kinds; with fewer they are over seeds and stand "
    "for these draws only.",
    "The modelling agent that is compared with the same-information agent is the one that did best with the validation "
    "partners, so that it is not chosen by what it is judged by.",
    "Many comparisons are made: of twenty without any difference one is expected to exclude 0 by chance.",
)


@dataclass(frozen=True)
class SuitePage:
    """Everything the page of a suite is made of."""

    title: str
    games: Sequence[SuiteGameRow]
    agents: Sequence[SuiteRow]
    differences: Sequence[SuiteDifferenceRow]
    probes: Sequence[SuiteProbeRow] = ()
    """Of the held-out partners, read off agents; empty where nothing was probed."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Label -> name of agents."""
    lacking: Sequence[str] = ()
    """Parts that are not done yet and so not in here."""
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()

    @property
    def answers(self) -> list[GameAnswer]:
        """What was found, game by game."""
        return game_answers(self.games, self.agents, self.differences, self.names)

    @property
    def unfinished(self) -> str:
        """That parts are missing, and which; empty where all are there."""
        return f"Not complete. Still to come: {', '.join(self.lacking)}." if self.lacking else ""

    def plot(self, path: str | Path) -> Path:
        """Draws the figure into a png, svg or pdf file."""
        target = figure_path(path)
        save_figure(draw_suite(self), target)
        return target


def suite_tables(page: SuitePage) -> tuple[Cells, Cells]:
    """What every game allows, and what every agent closes of it at each share of the training."""
    whole = [row for row in page.games if row.draw == ALL_DRAWS]
    return table_of(whole, _GAMES), _closed_table(page)


def suite_screen(page: SuitePage) -> Screen:
    """What a terminal shows: the answers first, then what the games allow and who closes how much of it."""
    lines: list[str | ScreenTable] = [page.unfinished] if page.lacking else []
    for one in page.answers:
        lines += [f"{one.game}: {one.headline}", *(f"  {word}: {text}" for word, text in one.sentences)]
    games, closed = suite_tables(page)
    return [*lines, ScreenTable("What the games allow", *games), ScreenTable("Room closed", *closed)]


def write_suite_page(path: Path, page: SuitePage) -> Path:
    """Writes the page as one HTML file that needs nothing else."""
    answers = page.answers
    heads = [f"{one.game}: {one.headline}" for one in answers]
    lead = f"<p>{html_text(page.unfinished)}</p>" if page.lacking else ""
    lead += "".join(
        f'<p class="answer">{html_text(head)}</p>{_sentences(one)}' for head, one in zip(heads, answers, strict=True)
    )
    games, closed = suite_tables(page)
    data = PageData()
    sections = [
        ("What the games allow", html_table(*games) + _draws_table(page)),
        ("Room closed", data.chart(suite_chart(page), _caption(page)) + html_table(*closed)),
        ("Differences, in shares of the room", data.chart(_differences_chart(page), _DIFFERENCE_CAPTION)
         + "".join(_difference_blocks(page))),
        *([("What can be read off the agents", _probe_blocks(page))] if page.probes else []),
        ("How to read this", "<ul>" + "".join(f"<li>{html_text(line)}</li>" for line in _READING) + "</ul>"),
        ("How it was run", "".join(f"<p>{html_text(note)}</p>" for note in page.notes)
         + f"<pre>{html_text(chr(10).join(page.commands), lines=True)}</pre>"),
    ]  # fmt: skip
    verdict = f'<header class="verdict"><h1>{html_text(page.title)}</h1>{lead}</header>'
    return write_document(path, document(page.title, page_body(verdict, sections), data=data))


def suite_chart(page: SuitePage) -> Chart:
    """A panel for each game: the share of the room that every agent closes against the share of its training."""
    agents = [row for row in page.agents if row.agent != RANDOM]
    order, panels = agent_order(agents), []
    for game in (row for row in page.games if row.draw == ALL_DRAWS):
        lines = []
        for agent in order:
            own = [row for row in agents if (row.game, row.agent) == (game.game, agent)]
            if own:
                seeds = max(row.seeds for row in own)
                curve = curve_from(own, ("share", "closed", "closed_low", "closed_high"), seeds)
                lines.append(series(agent_name(agent, page.names), order.index(agent), curve))
        known = math.nan if not game.room > 0 else (game.optimum - game.best_fixed) / game.room
        levels = marks({"best fixed": 0.0, "partner known": 1.0, "exact optimum": known})
        panels.append({"title": _game_name(game.game), "series": lines, "marks": levels})
    across = Axis(title="share of the training", short="of the training", factor=100.0, digits=0, unit=" %", low=0.0)
    label = "share of the room closed against the length of training, game by game"
    return Chart("lines", label, [{"x": across, "y": Axis(title="room closed", digits=2), "panels": panels}])


def _differences_chart(page: SuitePage) -> Chart:
    """The differences at the end of the training, game by game."""
    panels = []
    for game, rows in _by_game(page.differences).items():
        lines = [
            Line(
                f"{agent_name(row.agent, page.names)} against {agent_name(row.baseline, page.names)}",
                row.difference,
                row.low,
                row.high,
                look={"better": "better", "worse": "worse"}.get(row.verdict, "unshown"),
                note=(row.question, row.verdict),
            )
            for row in rows
            if row.share == 1.0
        ]
        panels.append(panel(lines, _game_name(game)))
    axis = Axis(title="difference in shares of the room", short="difference", digits=2)
    return Chart("intervals", "differences in shares of the room", [{"x": axis, "panels": panels}])


def _game_name(game: str) -> str:
    return game.removeprefix("suite_").replace("_", " ")


def write_suite_markdown(path: Path, page: SuitePage) -> Path:
    """The sentences and tables of the page, without its figure."""
    games, closed = suite_tables(page)
    parts = [f"# {markdown_text(page.title)}", *([markdown_text(page.unfinished)] if page.lacking else [])]
    for one in page.answers:
        parts.append(f"**{markdown_text(one.game)}: {markdown_text(one.headline)}**")
        parts.append("\n".join(f"- {word}: {markdown_text(text)}" for word, text in one.sentences))
    parts += ["## What the games allow", markdown_table(*games), "## Room closed", markdown_table(*closed)]
    parts += ["## Differences, in shares of the room"]
    for game, rows in _by_game(page.differences).items():
        parts += [f"### {markdown_text(game)}", markdown_table(*table_of(rows, _DIFFERENCES, page.names))]
    if page.probes:
        tables = probe_tables(page).items()
        parts += ["## What can be read off the agents", _PROBES_CAPTION]
        parts += [block for what, table in tables for block in (f"### {what.capitalize()}", markdown_table(*table))]
    parts += ["## How to read this", "\n".join(f"- {line}" for line in _READING), "## How it was run"]
    parts += [*map(markdown_text, page.notes), markdown_code(page.commands)]
    return write_document(path, "\n\n".join(parts) + "\n")


def draw_suite(page: SuitePage) -> Figure:
    """A panel for each game: the share of the room that every agent closes against the share of its training.

    0 is the best fixed strategy and 1 the ceiling; the exact optimum is drawn where it is known.
    """
    from matplotlib.figure import Figure

    games = [row for row in page.games if row.draw == ALL_DRAWS]
    colours = agent_colours(row for row in page.agents if row.agent != RANDOM)
    columns = min(len(games), _COLUMNS)
    lines = -(-len(games) // columns)
    with figure_style():
        figure = Figure(figsize=(max(3.4 * columns, 6.0), 0.9 + 2.7 * lines), dpi=150, layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False)
        for axes in grid.flat[len(games) :]:
            axes.set_visible(False)
        for game, axes in zip(games, grid.flat, strict=False):
            _draw_game(axes, game, [row for row in page.agents if row.game == game.game], colours, page.names)
        legends = [axes.get_legend_handles_labels() for axes in grid.flat]
        handles = dict(pair for handles, labels in legends for pair in zip(labels, handles, strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def _draw_game(
    axes: Axes, game: SuiteGameRow, rows: Sequence[SuiteRow], colours: Mapping[str, str], names: Mapping[str, str]
) -> None:
    for height, text in ((0.0, "best fixed"), (1.0, "partner known")):
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.6)
        named = axes.annotate(text, (0.02, height), xycoords=("axes fraction", "data"), xytext=(0, 2),
                      textcoords="offset points", fontsize="x-small", color=INK)  # fmt: skip
        named.set_in_layout(False)  # Whoever is far below would leave it no place, and the axes no size.
    if not math.isnan(game.optimum) and game.room > 0:
        axes.axhline((game.optimum - game.best_fixed) / game.room, color=INK, linewidth=1.0, alpha=0.8)
    # The random player is the floor, and would only make the others' lines flat.
    rows = [row for row in rows if row.agent != RANDOM]
    agents = list(dict.fromkeys(row.agent for row in rows))
    lowest = min((row.closed for row in rows if not math.isnan(row.closed)), default=0.0)
    for place, agent in enumerate(agents):
        own = [row for row in rows if row.agent == agent]
        # With more agents than colours those of one colour have other marks.
        shape = SHAPES[(place + place // len(PALETTE)) % len(SHAPES)]
        # Side by side, so that intervals can be told apart.
        moved = [row.share + 0.008 * (place - len(agents) / 2) for row in own]
        below = [0.0 if math.isnan(row.closed_low) else row.closed - row.closed_low for row in own]
        above = [0.0 if math.isnan(row.closed_high) else row.closed_high - row.closed for row in own]
        axes.errorbar(moved, [row.closed for row in own], yerr=[below, above], color=colours[agent], marker=shape,
                      markersize=3.5, linewidth=1.4, elinewidth=0.8, label=agent_name(agent, names))  # fmt: skip
    # One agent far below everything would leave the others a line.
    axes.set_ylim(max(lowest - 0.2, -2.0), 1.25)
    axes.set_xticks(sorted({row.share for row in rows}))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(_game_name(game.game), loc="left", fontweight="bold")
    axes.set_xlabel("share of the training")
    axes.set_ylabel("room closed")


def _sentences(answer: GameAnswer) -> str:
    """Who is below best fixed stands open, the single comparisons behind a click."""
    items = [(word, f"<li>{badge(word)} {html_text(text)}</li>") for word, text in answer.sentences]
    first, rest = ("".join(item for word, item in items if (word == BELOW) == below) for below in (True, False))
    return (f"<ul>{first}</ul>" if first else "") + f"<details><summary>Comparisons</summary><ul>{rest}</ul></details>"


def _closed_table(page: SuitePage) -> Cells:
    """Agents as lines, shares of the training as columns, game by game."""
    shares = sorted({row.share for row in page.agents})
    lines: list[Sequence[str]] = []
    for game, rows in _by_game(page.agents).items():
        for agent in dict.fromkeys(row.agent for row in rows):
            own = {row.share: row for row in rows if row.agent == agent}
            cells = [range_words(own[share].closed, own[share].closed_low, own[share].closed_high) for share in shares]
            lines.append((game, agent_name(agent, page.names), *cells))
    return ("game", "agent", *(f"room closed at {share:.0%}" for share in shares)), lines


def probe_tables(page: SuitePage) -> dict[str, Cells]:
    """What is named -> a table of how well it can be read off what, agent by agent and game by game."""
    found: dict[str, Cells] = {}
    for what, title in _PROBED.items():
        measures = {f"{what} {source}": heading for source, heading in _SOURCES.items()}
        lines: list[Sequence[str]] = []
        for game, rows in _by_game([row for row in page.probes if row.measure in measures]).items():
            for agent in dict.fromkeys(row.agent for row in rows):
                own = {row.measure: row for row in rows if row.agent == agent}
                lines.append((game, agent_name(agent, page.names), *(_accuracy(own.get(one)) for one in measures)))
        if lines:
            found[title] = (("game", "agent", *measures.values()), lines)
    return found


def _accuracy(row: SuiteProbeRow | None) -> str:
    """`0.61 [0.55, 0.67]`; a dash of what an agent does not have."""
    if row is None:
        return "\N{EN DASH}"
    return f"{row.value:.2f}" + ("" if math.isnan(row.low) else f" [{row.low:.2f}, {row.high:.2f}]")


def _probe_blocks(page: SuitePage) -> str:
    tables = (f"<h3>{html_text(what)}</h3>{html_table(*table)}" for what, table in probe_tables(page).items())
    return f"<p>{html_text(_PROBES_CAPTION)}</p>{''.join(tables)}"


def _draws_table(page: SuitePage) -> str:
    single = [row for row in page.games if row.draw != ALL_DRAWS]
    table = html_table(*table_of(single, (_GAMES[0], ShownColumn(SuiteGameRow.draw), *_GAMES[1:])))
    return f"<details><summary>Draw by draw</summary>{table}</details>"


def _difference_blocks(page: SuitePage) -> list[str]:
    shown = {game: table_of(rows, _DIFFERENCES, page.names) for game, rows in _by_game(page.differences).items()}
    tables = {game: html_table(*table) for game, table in shown.items()}
    return [f"<details><summary>{html_text(game)}</summary>{table}</details>" for game, table in tables.items()]


def _caption(page: SuitePage) -> str:
    over = " or ".join(sorted({row.interval_over for row in page.agents}))
    return (
        f"0 is the best fixed strategy, 1 answers everybody as if known; a thin line is the exact optimum. 95 % "
        f"intervals over {over}."
    )


def _by_game(rows: Sequence[_GameRow]) -> dict[str, list[_GameRow]]:
    found: dict[str, list[_GameRow]] = {}
    for row in rows:
        found.setdefault(str(row["game"]), []).append(row)
    return found
