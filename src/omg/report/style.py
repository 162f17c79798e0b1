"""How figures look, on paper and in every report: colours, sizes, and which agent has which colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from omg.types import Json, Row, Tree

INK = "#24292f"
"""Colour of text and lines."""

PALETTE = ("#0072b2", "#c2500a", "#007a5e", "#a9447f", "#8a6a00", "#6a51a3", "#5f6b76", "#2b8cc4")
"""Colours of agents in the order in which they appear, those of `assets/page.css` in the light: all of them can be told
from white, and the first ones from each other by those who see no red or no green."""


SHAPES = ("o", "s", "^", "D")
"""Marks of agents in that order: who sees no colours tells them apart by these."""
_MARKED = 8
"""Marks on a long line."""


def marks_of(place: int, points: int, *, all_up_to: int = 40) -> Tree:
    """Marks of the agent at a place, as matplotlib names them: on all points of a short line, else on some of its own.

    Args:
        place: of the agent, from 0.
        points: of its line.
        all_up_to: points of a line that is short.
    """
    every = 1 if points <= all_up_to else -(-points // _MARKED)
    return {"marker": SHAPES[place % len(SHAPES)], "markevery": (2 * place % every, every)}


@contextmanager
def figure_style(colours: Sequence[str] = PALETTE) -> Iterator[None]:
    """Colours and sizes shared by all figures, while they are drawn and while they are saved.

    Args:
        colours: of the lines of a figure that chooses none by itself, in order.
    """
    import matplotlib as mpl
    from cycler import cycler

    ink = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor"), INK
    )
    settings: Json = {
        **ink,
        "axes.prop_cycle": cycler(color=list(colours)),
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 9,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "omg",
        "text.parse_math": False,  # A label is text, whatever dollars are in it.
    }
    with mpl.rc_context(settings):
        yield


def agent_colours(rows: Iterable[Row]) -> dict[str, str]:
    """A colour for every agent among rows with the column `agent`, to be the same in all figures of a report."""
    return {agent: PALETTE[index % len(PALETTE)] for index, agent in enumerate(agent_order(rows))}


def agent_order(rows: Iterable[Row]) -> list[str]:
    """The agents among rows with the column `agent`, in the order of their colours."""
    return list(dict.fromkeys(str(row["agent"]) for row in rows))
