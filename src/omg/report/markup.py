"""Pieces of HTML and Markdown: a whole document, its charts, tables, figures, badges."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from importlib.resources import files
from typing import Any

from omg.names import inert
from omg.report.charts import Chart

_LONGEST_SHORT = 24
_KINDS = {"Yes": "good", "better": "good", "No": "bad", "worse": "bad"}
_STYLE_ELEMENT = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_TAG = re.compile(r"<[a-z][^<>]*>")
_STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')
# Left as they are: underscores within words, brackets that make no link, what means something at the start of a line.
_MARKDOWN = re.compile(r"[\\`*|~$#]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\.")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_NUMBER = re.compile(r"[+\u2212-]?\d[\d,]*(\.\d+)?( ?%)?( \(.*\))?|\u2013|.*\d to [+\u2212-]?\d.*")


def document(title: str, body: str, script: str = "", data: PageData | None = None) -> str:
    """A whole page with its styles; it asks for no other file, and the browser is told to refuse any other.

    Args:
        title: text.
        body: markup. Styles in it are moved to the page's own, the only ones that it allows.
        script: what the page runs when it is there, of our own; no other script is allowed.
        data: charts and tables that are placed in the body; the script that shows them comes with them.
    """
    body, style = _gather_styles(body)
    if data is not None:
        body += f'\n<script id="page-data" type="text/plain">{data.packed()}</script>'
        script = asset("chart.js", "lines.js", "marks.js", "page.js") + script
    styles, scripts = (" ".join(["", *([] if data is None else data.allowed[kind])]) for kind in ("style", "script"))
    runs = f" script-src {_digest(script)}{scripts};" if script else ""
    own = f"style-src {_digest(style)}{styles};{runs}"
    policy = f"default-src 'none'; {own} img-src data:; base-uri 'none'; form-action 'none'"
    body += f"\n<script>{script}</script>" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def asset(*names: str) -> str:
    """The text of files that come with the program, one after the other."""
    folder = files("omg.report").joinpath("assets")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


class PageData:
    """Charts and long tables of a page: kept once, compressed, and shown by the page's script."""

    def __init__(self) -> None:
        self._charts: list[dict[str, Any]] = []
        self._tables: list[dict[str, Any]] = []
        self._pages: list[str] = []
        self.allowed: dict[str, list[str]] = {"style": [], "script": []}
        """Styles and scripts of pages inside this one, as its Content-Security-Policy names them."""

    def chart(self, chart: Chart, caption: str) -> str:
        """The place of a chart, with its caption (text)."""
        self._charts.append(chart.data())
        place = f'<div data-chart="{len(self._charts) - 1}"></div>'
        return f'<figure class="chart">{place}<figcaption>{html_text(caption)}</figcaption></figure>'

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        choices: Sequence[int] = (),
        preset: Mapping[int, str] | None = None,
    ) -> str:
        """The place of a table of texts with many rows.

        Args:
            head: of its columns.
            rows: a text for each column.
            choices: columns by one of whose texts rows can be chosen.
            preset: column -> text that is chosen in the beginning.
        """
        lines = [[inert(value) for value in row] for row in rows]
        self._tables.append({"rows": lines, "choices": list(choices), "preset": dict(preset or {})})
        kinds = [_column_class([row[column] for row in rows]) for column in range(len(head))]
        return _table(_head(head, kinds), "", str(len(self._tables) - 1))

    def inner_page(self, title: str, page: str) -> str:
        """The place of another page inside this one, which is there once it is opened.

        Args:
            title: text.
            page: a `document` of our own.
        """
        (policy,) = _POLICY.findall(page)
        for kind, hashes in self.allowed.items():
            own = re.search(rf"{kind}-src ('sha256-[^']*')", policy)
            hashes += [own[1]] if own and own[1] not in hashes else []
        self._pages.append(page)
        frame = f'<iframe data-page="{len(self._pages) - 1}" title="{html_text(title)}"></iframe>'
        return f'<details class="inner"><summary>{html_text(title)}</summary>{frame}</details>'

    def packed(self) -> str:
        """All of it as text: JSON, compressed by gzip, in base64."""
        data = {"charts": self._charts, "tables": self._tables, "pages": self._pages}
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _digest(text: str) -> str:
    """A style or script as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _gather_styles(body: str) -> tuple[str, str]:
    """The body with classes instead of style attributes and without style elements, and all styles of the page."""
    sheets = list(dict.fromkeys(_STYLE_ELEMENT.findall(body)))
    body = _STYLE_ELEMENT.sub("", body)
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return f' class="{names.setdefault(unescape(found[1]), f"f{len(names)}")}"'

    # In tags only: a text that looks like an attribute must not become a style.
    body = _TAG.sub(lambda tag: _STYLE_ATTRIBUTE.sub(name, tag[0]), body)
    return body, "".join([asset("page.css"), *sheets, *(f".{label} {{ {rules} }}\n" for rules, label in names.items())])


def html_text(text: str, *, lines: bool = False) -> str:
    """A text for a page: nothing in it is markup or turns the line; `lines` as in `omg.names.inert`."""
    return escape(inert(text, lines=lines))


def markdown_text(text: str) -> str:
    """A text for Markdown, in one line: nothing in it is markup."""
    text = _MARKDOWN.sub(r"\\\g<0>", inert(text))
    return _ENTITY.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def markdown_code(lines: Sequence[str]) -> str:
    """Lines as a block of code."""
    text = "\n".join(inert(line) for line in lines)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def badge(word: str) -> str:
    """A word in a coloured frame: green for good, red for bad, grey for anything else."""
    return f'<span class="badge {_KINDS.get(word, "plain")}">{html_text(word)}</span>'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; columns of numbers are aligned to the right, long texts may wrap, verdicts become badges."""
    classes = [_column_class([row[column] for row in rows]) for column in range(len(head))]
    lines = (
        "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, classes, strict=True)) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return _table(_head(head, classes), body, "")


def _head(head: Sequence[str], classes: Sequence[str]) -> str:
    return "".join(f'<th scope="col"{kind}>{html_text(name)}</th>' for name, kind in zip(head, classes, strict=True))


def _table(top: str, body: str, number: str) -> str:
    """A table that the script of a page lets people sort and filter; `number` is that of its rows, if not here."""
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="group" aria-label="table" data-table="{number}">{table}</div>'


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table in Markdown."""
    top, *rest = (" | ".join(map(markdown_text, line)) for line in [head, *rows])
    return "\n".join(f"| {line} |" for line in (top, " | ".join(["---"] * len(head)), *rest))


def _column_class(cells: Sequence[str]) -> str:
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return ' class="number"'
    return ' class="short"' if all(len(cell) <= _LONGEST_SHORT for cell in cells) else ""


def _cell(value: str) -> str:
    return badge(value) if value in ("better", "worse", "no difference shown") else html_text(value)
