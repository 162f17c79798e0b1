"""A position on a board as a picture: one self-contained SVG document, written by hand so that nothing is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from omg.envs.grid.board import Board

CELL, MARGIN, CAPTION = 48, 8, 30
"""Pixels: a cell, the margin around the board, the line below it."""
COLOURS = ("#0b6fb8", "#d9570d", "#2a8c4a", "#a23b8f", "#8a6d00", "#c02f3a", "#3f51b5", "#00838f")
"""Of the players, in the order of their seats; after the last they repeat."""
_ICONS: dict[str, str] = {
    # Drawn in a cell of 48 x 48 with the corner at the origin.
    "stag": '<path d="M20 21C10 19 8 12 9 5M14 16C9 16 6 13 5 9M28 21C38 19 40 12 39 5M34 16C39 16 42 13 43 9" '
    'fill="none" stroke="#6b4423" stroke-width="2.6" stroke-linecap="round"/>'
    '<path d="M15 20Q24 14 33 20Q32 34 24 42Q16 34 15 20Z" fill="#a5713f" stroke="#6b4423" stroke-width="1.5"/>'
    '<circle cx="20" cy="25" r="1.8" fill="#2d1b0c"/><circle cx="28" cy="25" r="1.8" fill="#2d1b0c"/>'
    '<ellipse cx="24" cy="38" rx="3" ry="2.2" fill="#2d1b0c"/>',
    "hare": '<ellipse cx="19" cy="13" rx="3.6" ry="10" fill="#d8cbb8" stroke="#8b7a63" stroke-width="1.5"/>'
    '<ellipse cx="29" cy="13" rx="3.6" ry="10" fill="#d8cbb8" stroke="#8b7a63" stroke-width="1.5"/>'
    '<circle cx="24" cy="30" r="11" fill="#e6dccd" stroke="#8b7a63" stroke-width="1.5"/>'
    '<circle cx="20" cy="28" r="1.6" fill="#3d3428"/><circle cx="28" cy="28" r="1.6" fill="#3d3428"/>'
    '<path d="M22.4 33L25.6 33L24 35.2Z" fill="#c47a7a"/>',
    "drift": '<path d="M4 41Q8 27 16 29Q20 14 28 21Q35 17 38 29Q43 31 44 41Z" '
    'fill="#eef6fc" stroke="#7fa8c4" stroke-width="1.8" stroke-linejoin="round"/>'
    '<path d="M12 36Q17 31 22 36M26 31Q31 26 35 32" fill="none" stroke="#b5d0e2" stroke-width="1.6"/>',
}


def draw_board(
    board: Board,
    blocks: Sequence[int],
    pieces: Mapping[str, Sequence[int]],
    players: Sequence[int | None],
    caption: str,
) -> str:
    """Draws one position.

    Args:
        board: the field.
        blocks: cells with obstacles.
        pieces: kind (`stag`, `hare` or `drift`) -> the cells where one stands.
        players: the cell of every seat; None for one that has left the game.
        caption: the line below the board; who has left is added to it.

    Returns:
        An SVG document. Players are numbered from 1.
    """
    width, height = board.width * CELL + 2 * MARGIN, board.height * CELL + 2 * MARGIN + CAPTION
    gone = [str(seat + 1) for seat, cell in enumerate(players) if cell is None]
    text = caption + (f" · left: {', '.join(gone)}" if gone else "")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif">',
        f"<title>{text}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_cell(board, cell, cell in set(blocks)) for cell in range(board.cells)),
    ]
    for kind, cells in pieces.items():
        for cell in cells:
            left, top = _corner(board, cell)
            parts.append(f'<g transform="translate({left} {top})"><title>{kind}</title>{_ICONS[kind]}</g>')
    occupied = {cell for cells in pieces.values() for cell in cells}
    for cell in sorted({cell for cell in players if cell is not None}):
        seats = [seat for seat, where in enumerate(players) if where == cell]
        parts.extend(_players(board, cell, seats, cell in occupied))
    parts.append(f'<text x="{MARGIN}" y="{height - 14}" font-size="15" fill="#333333">{text}</text></svg>')
    return "\n".join(parts)


def _corner(board: Board, cell: int) -> tuple[int, int]:
    row, col = divmod(cell, board.width)
    return MARGIN + col * CELL, MARGIN + row * CELL


def _cell(board: Board, cell: int, blocked: bool) -> str:
    left, top = _corner(board, cell)
    fill, edge = ("#4a4f57", "#4a4f57") if blocked else ("#f4f5f0", "#c9ccc4")
    title = "<title>block</title>" if blocked else ""
    return f'<rect x="{left}" y="{top}" width="{CELL}" height="{CELL}" fill="{fill}" stroke="{edge}">{title}</rect>'


def _players(board: Board, cell: int, seats: list[int], on_piece: bool) -> list[str]:
    """Circles with numbers, side by side in one cell; one alone on a piece stands in the corner to show it."""
    left, top = _corner(board, cell)
    side = max(math.ceil(math.sqrt(len(seats))), 2 if on_piece else 1)
    slot = CELL / side
    radius = 0.33 * slot if side == 1 else 0.43 * slot
    # Filled from the bottom right corner.
    places = [(side - 1 - index % side, side - 1 - index // side) for index in range(side * side)]
    circles = []
    for seat, (right, down) in zip(seats, places, strict=False):
        x, y = left + (right + 0.5) * slot, top + (down + 0.5) * slot
        circles.append(
            f'<g><title>player {seat + 1}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="{COLOURS[seat % len(COLOURS)]}" stroke="#ffffff" stroke-width="1.5"/>'
            f'<text x="{x:.1f}" y="{y + 0.36 * radius * 1.1:.1f}" font-size="{1.15 * radius:.1f}" font-weight="bold" '
            f'text-anchor="middle" fill="#ffffff">{seat + 1}</text></g>'
        )
    return circles
