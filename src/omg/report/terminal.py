"""What people see who look at a terminal: tables, and curves as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from omg.report.curves import Curve

_BLOCKS = " ▏▎▍▌▋▊▉█"


class ScreenTable(NamedTuple):
    """A table under a title."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[object]]


Screen = Sequence[ScreenTable | str]
"""Tables and lines, one below the other."""


def bar_lines(curve: Curve, *, width: int = 40, rows: int = 20) -> list[str]:
    """A curve of shares (0 to 1) as lines `steps  percent  bar`.

    Args:
        curve: what to show; values outside 0 to 1 are drawn at the edge.
        width: characters of a full bar.
        rows: most lines; of longer curves evenly spaced points are shown, always with the first and the last.
    """
    count = len(curve.t_env)
    shown = range(count) if count <= rows else [round(i * (count - 1) / (rows - 1)) for i in range(rows)]
    return [f"{curve.t_env[i]:>9,}  {100 * curve.mean[i]:4.0f} %  {_bar(float(curve.mean[i]), width)}" for i in shown]


def _bar(share: float, width: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_BLOCKS[part] if part else "")).rstrip()
