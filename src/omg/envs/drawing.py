"""Pictures of a game at one moment, drawn by matplotlib: for `render()` of the adapters, and for films of recordings.

Letters in shapes: P pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omg.envs.scenes import Piece, Scene
from omg.names import inert
from omg.types import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUND, LINES, INK, FAINT = "#f1f3ee", "#c5cabf", "#24292f", "#59636e"
BELIEF, TRUTH, SHOT, PICKED = "#8a3b78", "#00694c", "#b34700", "#b34700"
WELL, HURT, SHIELD, EMPTY = "#009e73", "#d55e00", "#56b4e9", "#dde2e7"
_DOTS = 100
"""Pixels of an inch of a figure."""
_STRIP, _ROW = 14, 17
"""Pixels below a picture: around the lines of words, and of each."""


@dataclass(frozen=True)
class Floor:
    """Where pieces stand: left, top, width and height of what is shown, and of the whole."""

    view: tuple[float, float, float, float]
    whole: tuple[float, float, float, float]
    cells: bool
    """Whether it is a board of cells of size 1."""


@dataclass(frozen=True)
class Pose:
    """How pieces stand, each [P]; `written` is NaN for a piece's own label, `cooldown` a share of its longest."""

    x: np.ndarray
    y: np.ndarray
    there: np.ndarray
    health: np.ndarray
    shield: np.ndarray
    cooldown: np.ndarray
    written: np.ndarray


@dataclass(frozen=True)
class Stroke:
    """A line over or under the pieces, `strong` from 0 to 1."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: str
    strong: float = 0.3
    dashed: bool = False


@dataclass(frozen=True)
class Overlay:
    """What is drawn besides the pieces."""

    chosen: int | None = None
    """The piece of the seat that is spoken of."""
    ranges: tuple[float, ...] = ()
    """Radii around it."""
    lines: tuple[Stroke, ...] = ()
    """Under the pieces: shots, and what others are after."""
    arrows: tuple[Stroke, ...] = ()
    """Over them: where a search went."""
    believed: tuple[tuple[int, float, float], ...] = ()
    """Piece, and where it is thought to be heading."""
    real: tuple[tuple[int, float, float], ...] = ()
    """Piece, and where it really was."""
    fights: bool = False
    """Whether health is always shown, not only where it is not whole."""
    words: tuple[str, ...] = ()
    """Lines below the picture."""


def pose_of(scene: Scene) -> Pose:
    """A scene without its axis of games, arrays [P]. A weapon that is ready in a second or later looks the same."""
    x, y, there, health, written, shield, cooldown = (np.asarray(values) for values in scene)
    return Pose(x, y, there, health, shield, np.minimum(cooldown, 1), written)


def draw_moment(field: Floor, pieces: Sequence[Piece], moment: Pose, marks: Overlay, width: int = 640) -> Figure:
    """A figure of a game at one moment, `width` pixels wide at 100 pixels an inch."""
    from matplotlib.figure import Figure

    left, top, wide, high = field.view
    strip = 2 * ((_STRIP + _ROW * len(marks.words)) // 2) if marks.words else 0
    # Even numbers of pixels, as films need them.
    width = 2 * max(width // 2, 60)
    height = 2 * max(round(width * high / max(wide, 1e-6) / 2), 30) + strip
    figure = Figure(figsize=(width / _DOTS, height / _DOTS), dpi=_DOTS, facecolor="#ffffff")
    axes = figure.add_axes((0, strip / height, 1, 1 - strip / height))
    axes.set_xlim(left, left + wide)
    axes.set_ylim(top + high, top)
    axes.set_axis_off()
    pixel = wide / width
    _draw_ground(axes, field)
    for radius in marks.ranges:
        _draw_range(axes, moment, marks.chosen, radius)
    for line in marks.lines:
        _draw_line(axes, line)
    shown = [number for number in range(len(pieces)) if moment.there[number]]
    for number in sorted(shown, key=lambda number: not pieces[number].square):
        _draw_piece(axes, pieces[number], moment, number, marks, _radius(field, pieces[number]), pixel)
    _draw_belief(axes, field, pieces, marks, pixel)
    for line in marks.arrows:
        _draw_arrow(axes, line)
    size = min(10.0, 1.25 * width / max((len(words) for words in marks.words), default=1))
    for row, words in enumerate(marks.words):
        middle = (strip - _STRIP / 2 - _ROW * (row + 0.5)) / height
        figure.text(0.015, middle, inert(words), va="center", fontsize=size, color=INK, parse_math=False)
    return figure


def pixels_of(figure: Figure) -> np.ndarray:
    """A figure as an image, [height, width, 3] uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def letters(field: Floor, pieces: Sequence[Piece], moment: Pose) -> str:
    """A board of cells as text, a line for each row: of every cell what is on top of it, two letters wide.

    A player is its number, other pieces the first letter of their name or the number written on them.
    """
    _, _, wide, high = field.whole
    rows = [["." for _ in range(round(wide))] for _ in range(round(high))]
    shown = [number for number in range(len(pieces)) if moment.there[number]]
    for number in sorted(shown, key=lambda number: not pieces[number].square):
        row, col = int(moment.y[number]), int(moment.x[number])
        if 0 <= row < len(rows) and 0 <= col < len(rows[0]):
            piece = pieces[number]
            own = "" if np.isnan(moment.written[number]) else f"{int(moment.written[number])}"
            rows[row][col] = inert(piece.label or f"{piece.name[:1]}{own}")[:3]
    return "\n".join(" ".join(f"{cell:<2}" for cell in row).rstrip() for row in rows) + "\n"


def _radius(field: Floor, piece: Piece) -> float:
    """By which a piece is drawn: its own, but never too small to be seen."""
    return piece.size if field.cells else max(piece.size, field.view[2] / 64)


def _draw_ground(axes: Axes, field: Floor) -> None:
    from matplotlib.patches import Rectangle

    left, top, wide, high = field.whole
    axes.add_patch(Rectangle((left, top), wide, high, facecolor=GROUND, edgecolor="none", zorder=0))
    if field.cells:
        for col in range(1, math.ceil(wide)):
            axes.plot([left + col] * 2, [top, top + high], color=LINES, linewidth=0.8, zorder=0.5)
        for row in range(1, math.ceil(high)):
            axes.plot([left, left + wide], [top + row] * 2, color=LINES, linewidth=0.8, zorder=0.5)


def _draw_range(axes: Axes, moment: Pose, chosen: int | None, radius: float) -> None:
    from matplotlib.patches import Circle

    if chosen is not None and moment.there[chosen]:
        place = (moment.x[chosen], moment.y[chosen])
        axes.add_patch(Circle(place, radius, fill=False, edgecolor=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1))


def _draw_line(axes: Axes, line: Stroke) -> None:
    axes.plot(
        *zip(line.start, line.end, strict=True),
        color=line.colour,
        linewidth=1 + 4 * line.strong,
        alpha=0.35 + 0.65 * line.strong,
        linestyle=(0, (2, 2)) if line.dashed else "-",
        zorder=2,
    )


def _draw_arrow(axes: Axes, line: Stroke) -> None:
    look = {"arrowstyle": "->", "color": line.colour, "linewidth": 1 + 4 * line.strong, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=line.end, xytext=line.start, arrowprops=look, zorder=8)


def _draw_piece(axes: Axes, piece: Piece, moment: Pose, number: int, marks: Overlay, size: float, pixel: float) -> None:
    from matplotlib.patches import Arc, Circle, FancyBboxPatch

    x, y = float(moment.x[number]), float(moment.y[number])
    paint: Json = {
        "facecolor": piece.colour,
        "edgecolor": "#ffffff",
        "linewidth": 1,
        "zorder": 3 if piece.square else 4,
    }
    if marks.chosen == number:
        axes.add_patch(Circle((x, y), 1.3 * size, fill=False, edgecolor=INK, linewidth=2, zorder=4))
    if piece.square:
        box = f"round,pad=0,rounding_size={size / 6}"
        axes.add_patch(FancyBboxPatch((x - size, y - size), 2 * size, 2 * size, boxstyle=box, **paint))
    else:
        axes.add_patch(Circle((x, y), size, **paint))
    own = moment.written[number]
    _write(axes, piece.label if np.isnan(own) else f"{own:g}", x, y, size / pixel, "#ffffff", 5)
    if moment.cooldown[number] > 0:
        turn = 360 * min(float(moment.cooldown[number]), 1.0)
        # The axis points downwards, so that angles run clockwise.
        arc = Arc((x, y), 2.2 * size, 2.2 * size, theta1=-90, theta2=-90 + turn, color=FAINT, linewidth=1.5, zorder=4)
        axes.add_patch(arc)
    bars = []
    if marks.fights or moment.health[number] < 1:
        bars.append((float(moment.health[number]), WELL if moment.health[number] > 0.4 else HURT))
    if moment.shield[number] > 0:
        bars.append((float(moment.shield[number]), SHIELD))
    for place, (share, colour) in enumerate(bars):
        _draw_bar(axes, x, y, size, place, share, colour)


def _draw_bar(axes: Axes, x: float, y: float, size: float, place: int, share: float, colour: str) -> None:
    from matplotlib.patches import Rectangle

    # On the piece, so that it covers no neighbour.
    high, side = size / 4, 0.75 * size
    top = y - 0.5 * size - (place + 1) * 1.2 * high
    for length, paint in ((1.0, EMPTY), (min(max(share, 0.0), 1.0), colour)):
        axes.add_patch(Rectangle((x - side, top), 2 * side * length, high, facecolor=paint, edgecolor="none", zorder=6))


def _draw_belief(axes: Axes, field: Floor, pieces: Sequence[Piece], marks: Overlay, pixel: float) -> None:
    from matplotlib.patches import Circle, Polygon

    real = {piece: (x, y) for piece, x, y in marks.real}
    for piece, (x, y) in real.items():
        r = 0.5 * _radius(field, pieces[piece])
        corners = [(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
        axes.add_patch(Polygon(corners, facecolor=TRUTH, edgecolor="#ffffff", linewidth=0.8, zorder=7))
    for piece, x, y in marks.believed:
        size = 0.85 * _radius(field, pieces[piece])
        if piece in real:
            axes.plot([x, real[piece][0]], [y, real[piece][1]], color=FAINT, linewidth=1, zorder=6.5)
        ghost = Circle((x, y), size, facecolor=f"{BELIEF}28", edgecolor=BELIEF, linewidth=1.6, linestyle=(0, (3, 2)))
        ghost.set_zorder(7)
        axes.add_patch(ghost)
        _write(axes, pieces[piece].label, x, y, size / pixel, BELIEF, 7.5)


def _write(axes: Axes, text: str, x: float, y: float, radius: float, colour: str, zorder: float) -> None:
    """A short text in the middle of a piece of `radius` pixels."""
    if text:
        size = min(1.05 * radius, 2.6 * radius / max(len(text), 1)) * 72 / _DOTS
        axes.text(
            x, y, inert(text), ha="center", va="center_baseline", fontsize=size, fontweight="bold", color=colour,
            zorder=zorder, clip_on=True, parse_math=False,
        )  # fmt: skip
