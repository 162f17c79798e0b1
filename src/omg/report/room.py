"""A measured room in words, on the screen, as a picture and as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omg.evaluation.room import ALL_POOLS, LARGE, MIXTURE, share_closed
from omg.evaluation.tables import ClosedRow, ResponseRow, RoomRow, TrainedResponseRow
from omg.report.chapters import Chapter
from omg.report.charts import Chart, Line, cross_play_chart, marks, metric_axis, panel, span
from omg.report.curves import figure_path, save_figure
from omg.report.figures import draw_cross_play
from omg.report.frame import page_body, write_document
from omg.report.markup import PageData, document, html_table, html_text
from omg.report.style import INK, PALETTE, figure_style
from omg.report.tables import ShownColumn, cells, table_of
from omg.report.terminal import Screen, ScreenTable
from omg.report.words import agent_name, counted, group_name, metric_words
from omg.types import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PARTNERS = 10
"""Widest response matrix that a terminal shows."""
_BELOW, _ROOM = "#c9ced4", "#c3e4d6"
"""Pale, so that agents in any colour stand out from the bars."""
_SPREAD = 0.4
"""Of a bar's height, over which agents are spread so that equal ones are seen."""
_MOST_NAMED = 6
"""Partners that a line names."""
MEASURE_HINT = "Room: not measured. {command} says what there is to gain from knowing the others."

SHARES = (
    ShownColumn(ClosedRow.agent),
    ShownColumn(ClosedRow.group),
    ShownColumn(ClosedRow.standing),
    ShownColumn(ClosedRow.mean),
    ShownColumn(ClosedRow.floor),
    ShownColumn(ClosedRow.best_fixed),
    ShownColumn(ClosedRow.ceiling),
    ShownColumn(ClosedRow.closed, "inside"),
)
"""How much of the room each agent closes."""


def room_sentence(row: RoomRow) -> str:
    """Whether there is room, in one sentence."""
    words = metric_words(row.metric)
    share = _percent(row, "share")
    claim = f"{words.bare(row.best_fixed)} for the best fixed player, {words.bare(row.ceiling)} for the best responders"
    if row.share >= LARGE:
        return f"There is room: {claim}; that is {share} of what lies above a random player ({words.bare(row.floor)})."
    return (
        f"There is little room: {claim}; that is {share} of what lies above a random player "
        f"({words.bare(row.floor)}), and {100 * LARGE:.0f} % is wanted."
    )


def _percent(row: RoomRow, name: str) -> str:
    value, low, high = (100 * float(row[key]) for key in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.0f} %" + ("" if math.isnan(low) else f" [{low:.0f}, {high:.0f}]")


def room_lines(row: RoomRow) -> list[tuple[str, str, str]]:
    """What is measured, its value with its interval, and whose it is."""
    own = row.mixture
    closed = share_closed(own, row.best_fixed, row.ceiling)
    chosen = f"chosen on {row.chosen_on} partners" + ("" if row.chosen_on != row.set else ", the same ones")
    lines = [
        ("floor", _cell(row, RoomRow.floor), "a random player"),
        ("best fixed", _cell(row, RoomRow.best_fixed), f"{row.best_fixed_is}, {chosen}"),
        ("ceiling", _cell(row, RoomRow.ceiling), "the best responder to each partner"),
        ("room", _cell(row, RoomRow.room), f"{_percent(row, 'share')} of ceiling minus floor"),
    ]
    if not math.isnan(own):
        share = "" if math.isnan(closed) else f"; closes {closed:.2f} of the room"
        lines.append(("mixture", metric_words(row.metric).value(own), f"trained on the training partners{share}"))
    if not math.isnan(row.exact):
        lines.append(("exact optimum", f"{row.exact:.3f}", "return of the best answer to a partner who is not known"))
        lines.append(
            ("worth of knowing", f"{row.worth:.3f}", "exact: told the partner minus going by the position alone")
        )
    if not math.isnan(row.told_share):
        after = "never" if math.isnan(row.told_apart) else f"{row.told_apart:.1f} steps"
        whose = f"until the true partner has a posterior of 0.9, in {100 * row.told_share:.0f} % of the games"
        lines.append(("told apart after", after, whose))
    return lines


def _cell(row: RoomRow, column: object) -> str:
    (text,) = cells(row, ShownColumn(column, "inside"))  # type: ignore[arg-type]
    return str(text)


def room_screen(
    where: str,
    rows: Sequence[RoomRow],
    responses: Sequence[ResponseRow] = (),
    trained: Sequence[TrainedResponseRow] | None = (),
) -> Screen:
    """What a terminal shows of a measured pool, or of several pools.

    Args:
        where: the game.
        rows: one for each group, or for each group and pool.
        responses: of one pool, its response matrix; it is shown where it fits.
        trained: of one pool, how the trainings went; None: not said.
    """
    screen: list[ScreenTable | str] = []
    for row in rows:
        over = "pools" if row.pool == ALL_POOLS else "partners"
        whose = f"{row.pool}: " if len({one.pool for one in rows}) > 1 else ""
        title = (
            f"{whose}{where}, {group_name(row.group)}, set {row.set}: {row.partners} partners, {row.responders} "
            f"responders, {row.episodes} episodes each"
        )
        noun = metric_words(row.metric).noun
        screen.append(ScreenTable(title, ("", f"{noun} [95 % over {over}]", "whose"), room_lines(row)))
        screen.append(room_sentence(row))
        matrix = [cell for cell in responses if (cell.group, cell.set) == (row.group, row.set)]
        if matrix and row.partners <= _MOST_PARTNERS:
            screen.append(_matrix_table(matrix))
    return [*screen, *(() if trained is None else training_lines(trained))]


def _matrix_table(matrix: Sequence[ResponseRow]) -> ScreenTable:
    words = metric_words(matrix[0].metric)
    partners = list(dict.fromkeys(cell.partner for cell in matrix))
    by_cell = {(cell.responder, cell.partner): cell.mean for cell in matrix}
    lines = [
        [name, *(words.bare(by_cell[name, partner]) for partner in partners), words.bare(mean)]
        for name, mean in _by_mean(matrix)
    ]
    return ScreenTable("Responses, best row first", ("responder", *map(short_partner, partners), "mean"), lines)


def _by_mean(matrix: Sequence[ResponseRow]) -> list[tuple[str, float]]:
    """Responders and their means over partners, the best first."""
    found: dict[str, list[float]] = {}
    for cell in matrix:
        found.setdefault(cell.responder, []).append(cell.mean)
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return sorted(means.items(), key=lambda item: -item[1])


def short_partner(team: str) -> str:
    """A team by the name of its only member, where there is one."""
    count, _, member = team.partition("x")
    return member if count.isdecimal() and "+" not in team else team


def training_lines(trained: Sequence[TrainedResponseRow]) -> list[str]:
    """How the trainings went: who has converged, and who is beaten by whom."""
    if not trained:
        return ["No response was trained: the ceiling is that of players who were there already."]
    unfinished = [short_partner(row.partner) for row in trained if row.curve != "flat"]
    lines = [
        f"{counted(len(trained), 'training')} of {trained[0].restarts} restarts each, {len(trained) - len(unfinished)} "
        f"with flat curves."
    ]
    if unfinished:
        lines.append(f"Not converged when the budget ended: {_named(unfinished)}.")
    beaten = [f"{short_partner(row.partner)} ({row.stand_in})" for row in trained if row.stand_in]
    if beaten:
        lines.append(f"Trained responses that somebody else beats, who stands in: {_named(beaten)}.")
    return lines


def _named(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def below_lines(rows: Sequence[ClosedRow], names: Mapping[str, str] | None = None) -> list[str]:
    """One line for every agent that ends below best fixed."""
    return [
        f"{agent_name(row.agent, names)} ends below the best fixed player {_where(row)}: "
        f"{metric_words(row.metric).value(row.mean)} against {metric_words(row.metric).value(row.best_fixed)}"
        f"{'' if row.standing == 'below best fixed' else ' (not shown to be more than chance)'}."
        for row in rows
        if row.standing.startswith("below")
    ]


def _where(row: ClosedRow) -> str:
    return f"with teams of {group_name(row.group)}" if row.group != "1_partner" else "with these partners"


def closed_screen(rows: Sequence[ClosedRow], names: Mapping[str, str] | None = None) -> Screen:
    """The table of how much of the room agents close; nothing without any."""
    return [ScreenTable("Share of the room closed", *table_of(rows, SHARES, names))] if rows else ()


@figure_style()
def draw_room(
    rows: Sequence[RoomRow],
    names: Mapping[str, str] | None = None,
    agents: Sequence[ClosedRow] = (),
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Bars from floor over best fixed to ceiling for each row, with the agents' means as marks.

    Args:
        rows: of the groups, or of the pools.
        names: label -> name of agents.
        agents: whose means are marked, in the bars of their groups.
        colours: label -> colour of agents.
    """
    from matplotlib.figure import Figure

    words = metric_words(rows[0].metric)
    figure = Figure(figsize=(7.2, 1.3 + 0.55 * len(rows)), dpi=150, layout="constrained")
    axes = figure.subplots()
    for line, row in enumerate(rows):
        floor, fixed, ceiling = (words.factor * value for value in (row.floor, row.best_fixed, row.ceiling))
        axes.barh(line, fixed - floor, left=floor, height=0.5, color=_BELOW, label="" if line else "below best fixed")
        axes.barh(line, ceiling - fixed, left=fixed, height=0.5, color=_ROOM, label="" if line else "room")
        if not math.isnan(row.mixture):
            axes.plot(
                words.factor * row.mixture, line, "D", color=INK, ms=5, lw=0, label="" if line else agent_name(MIXTURE)
            )
    labels = list(dict.fromkeys(row.agent for row in agents))
    places = {row.group: line for line, row in enumerate(rows)}
    for number, label in enumerate(labels):
        own = [row for row in agents if row.agent == label and row.group in places]
        axes.plot(
            [words.factor * row.mean for row in own],
            [places[row.group] + _SPREAD * ((number + 0.5) / len(labels) - 0.5) for row in own],
            "o",
            color=(colours or {}).get(label, PALETTE[number % len(PALETTE)]),
            ms=7,
            mec="white",
            lw=0,
            label=agent_name(label, names),
        )
    several = len({row.pool for row in rows}) > 1
    axes.set_yticks(range(len(rows)), [row.pool if several else group_name(row.group) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{words.noun}{', %' if words.share else ''}: floor, best fixed, ceiling")
    figure.legend(loc="outside upper left", ncols=4)
    return figure


def room_chapter(
    rows: Sequence[RoomRow], closed: Sequence[ClosedRow], names: Mapping[str, str] | None = None
) -> Chapter:
    """A part of a report: the bars from floor to ceiling with the agents in them, and what each closes.

    Args:
        rows: of the groups that agents were evaluated with.
        closed: of the agents.
        names: label -> name of agents.
    """
    return Chapter(
        "What there is to gain",
        lambda colours: draw_room(rows, names, closed, colours),
        "From the floor (a random player) over the best fixed player to the ceiling (the best responder to each team).",
        " ".join(map(room_sentence, rows)),
        "Share closed: 0 is the best fixed player, 1 the best responder to each team. Its interval is over seeds and "
        "teams.",
        *table_of(closed, SHARES, names),
        lambda colours: room_chart(rows, closed, names or {}, colours),
        {"room.csv": rows, "closed.csv": closed},
    )


def room_chart(
    rows: Sequence[RoomRow], closed: Sequence[ClosedRow], names: Mapping[str, str], colours: Mapping[str, int]
) -> Chart:
    """Floor, best fixed and ceiling of each group, with the agents between them; `colours` are label -> number."""
    words, panels = metric_words(rows[0].metric), []
    several = len({row.pool for row in rows}) > 1
    for row in rows:
        lines = [
            Line(
                agent_name(own.agent, names),
                own.mean,
                colour=colours.get(own.agent, 0),
                note=(f"share closed {own.closed:.2f}", own.standing),
            )
            for own in closed
            if own.group == row.group
        ]
        mixture = [] if math.isnan(row.mixture) else [Line(agent_name(MIXTURE), row.mixture, look="unshown")]
        spans = [span("below", row.floor, row.best_fixed), span("room", row.best_fixed, row.ceiling)]
        title = Path(row.pool).name if several else group_name(row.group)
        panels.append(panel([*lines, *mixture], title, marks(room_levels(row)), spans))
    label = "floor, best fixed and ceiling, with the means of the agents"
    return Chart("intervals", label, [{"x": metric_axis(words), "panels": panels}])


def room_levels(row: RoomRow) -> dict[str, float]:
    """Name and height of what a game allows; NaN where that is not known."""
    return {"floor": row.floor, "best fixed": row.best_fixed, "ceiling": row.ceiling, "exact optimum": row.exact}


def matrix_chart(matrix: Sequence[ResponseRow]) -> Chart:
    """The responses as a map, the best row first; the cells of one set and group."""
    order = [name for name, _ in _by_mean(matrix)]
    ranked = sorted(matrix, key=lambda cell: order.index(cell.responder))
    rows: list[Row] = [
        {
            "agent": cell.responder,
            "team": short_partner(cell.partner),
            "mean": cell.mean,
            "note": f"standard error {cell.error:.3f}, {counted(cell.episodes, 'episode')}",
        }
        for cell in ranked
    ]
    return cross_play_chart(rows, matrix[0].metric, {}, "response matrix")


def draw_matrix(matrix: Sequence[ResponseRow]) -> Figure:
    """Heat map of the responses, the best row first; the cells of one set and group."""
    order = [name for name, _ in _by_mean(matrix)]
    ranked = sorted(matrix, key=lambda cell: order.index(cell.responder))
    rows: list[Row] = [
        {"agent": cell.responder, "team": short_partner(cell.partner), "mean": cell.mean} for cell in ranked
    ]
    return draw_cross_play(rows, metric=matrix[0].metric, labels=("responder", "partner"))


def plot_room(folder: Path, rows: Sequence[RoomRow], responses: Sequence[ResponseRow]) -> list[Path]:
    """Writes `room.png` and, for each group, `responses_GROUP.png`; returns their paths."""
    paths = [figure_path(folder / "room.png")]
    with figure_style():
        save_figure(draw_room(rows), paths[0])
        for row in rows:
            matrix = [cell for cell in responses if (cell.group, cell.set) == (row.group, row.set)]
            if matrix:
                paths.append(figure_path(folder / f"responses_{row.group}.png"))
                save_figure(draw_matrix(matrix), paths[-1])
    return paths


def write_room_page(
    path: Path,
    title: str,
    rows: Sequence[RoomRow],
    responses: Sequence[ResponseRow],
    trained: Sequence[TrainedResponseRow],
) -> Path:
    """Writes all of it as one HTML file that needs nothing else."""
    data = PageData()
    said = "".join(f'<p class="answer">{html_text(room_sentence(row))}</p>' for row in rows)
    sections = [("From floor to ceiling", data.chart(room_chart(rows, (), {}, {}), "From floor to ceiling."))]
    for row in rows:
        content = html_table(("what", metric_words(row.metric).noun, "whose"), room_lines(row))
        matrix = [cell for cell in responses if (cell.group, cell.set) == (row.group, row.set)]
        if matrix:
            caption = "Every responder (row) with every partner (column), the best row first."
            content += data.chart(matrix_chart(matrix), caption)
        sections.append((f"{Path(row.pool).name}: {group_name(row.group)}, set {row.set}", content))
    notes = training_lines(trained) if responses else []
    lines = "".join(f"<p>{html_text(line)}</p>" for line in (*notes, *READING))
    sections.append(("How to read this", lines))
    body = page_body(f'<header class="verdict"><h1>{html_text(title)}</h1>{said}</header>', sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_document(path, document(title, body, data=data))


READING = (
    "Floor: a random player. Best fixed: the one responder that does best with the partners it was chosen on. Ceiling: "
    "the mean over partners of the best responder to each. Room: ceiling minus best fixed.",
    "The best responder to a partner is chosen on one half of the episodes and scored on the other, both ways round: "
    "the largest of several noisy means would be too large.",
    "An agent that was trained on the mixture of partners counts for the ceiling and not as best fixed: it may tell "
    "partners apart.",
)
