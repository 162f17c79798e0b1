"""What all pages have in common: the answer on top, where what stands, the parts; and how they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from omg.components.files import write_text
from omg.errors import UserError
from omg.report.markup import html_text


class _Section(NamedTuple):
    """A part of a page, and what leads to it."""

    title: str
    content: str

    @property
    def place(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def markup(self) -> str:
        heading = f'<h2 id="{self.place}">{html_text(self.title)}</h2>'
        return f"<section>{heading}{self.content}</section>"


def page_body(verdict: str, sections: Sequence[tuple[str, str]]) -> str:
    """The body of a page: the answer, then where what stands, then the parts.

    Args:
        verdict: markup.
        sections: title (text) and content (markup) of each.
    """
    parts = [_Section(*section) for section in sections]
    places = "".join(f'<a href="#{part.place}">{html_text(part.title)}</a>' for part in parts)
    return "\n".join(
        [
            f'<nav class="places" aria-label="parts of this page">{places}</nav>',
            f"<main>{verdict}",
            "<noscript><p>Charts and long tables need JavaScript, which is part of this page.</p></noscript>",
            *(part.markup() for part in parts),
            "</main>",
        ]
    )


def write_document(path: str | Path, text: str) -> Path:
    """Writes a page.

    Raises:
        UserError: the disk does not take it.
    """
    target = Path(path)
    try:
        write_text(target, text)
    except OSError as error:
        raise UserError(f"report: cannot write '{target}' ({error.strerror}).") from None
    return target
