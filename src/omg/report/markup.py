"""Pieces of HTML and Markdown: a whole document, tables, figures, badges."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape, unescape

from omg.names import inert

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #24292f; --faint: #59636e; --line: #d8dee4;
  --panel: #f6f8fa; --good: #1a7f5a; --bad: #b3364a; --plain: #59636e; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e6e9ec; --faint: #9aa4ae; --line: #343b43;
  --panel: #1d2127; --good: #4cc79a; --bad: #f0808f; --plain: #9aa4ae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0 0 .3rem; font-size: 1.7rem; line-height: 1.25; }
h2 { margin: 2.8rem 0 .8rem; padding-bottom: .3rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.6rem 0 .1rem; font-size: 1rem; }
.verdict { padding: 1.5rem 1.6rem 1.1rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: 12px; }
.question { margin: 0 0 1rem; color: var(--faint); font-size: 1.1rem; }
.answer { margin: 0 0 .6rem; font-size: 1.25rem; font-weight: 600; line-height: 1.4; }
.small { margin: .3rem 0; color: var(--faint); font-size: .875rem; }
.badge { display: inline-block; margin-right: .35rem; padding: .02em .6em; border: 1.5px solid; border-radius: 99px;
  font-size: .88em; font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .plain { color: var(--plain); }
ul { margin: .4rem 0 .8rem; padding-left: 1.3rem; } li { margin: .3rem 0; }
details { margin: .5rem 0; } summary { cursor: pointer; }
figure { margin: 1.2rem 0; } figure svg { display: block; max-width: 100%; height: auto; }
figcaption { margin-top: .4rem; color: var(--faint); font-size: .875rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline; }
th { color: var(--faint); font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; } .number, .short { white-space: nowrap; }
pre { padding: .9rem 1rem; overflow-x: auto; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; font-size: .82rem; line-height: 1.5; }
@media (max-width: 40rem) { figure svg { max-width: none; } }
@media print { body { max-width: none; padding: 0; } .verdict, figure, table { break-inside: avoid; } }
"""

_LONGEST_SHORT = 24
_KINDS = {"Yes": "good", "better": "good", "No": "bad", "worse": "bad"}
_STYLE_ELEMENT = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_TAG = re.compile(r"<[a-z][^<>]*>")
_STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')
# Left as they are: underscores within words, brackets that make no link, what means something at the start of a line.
_MARKDOWN = re.compile(r"[\\`*|~$#]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\.")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_NUMBER = re.compile(r"[+\u2212-]?\d[\d,]*(\.\d+)?( %)?( \(.*\))?|\u2013|.*\d to [+\u2212-]?\d.*")


def document(title: str, body: str, script: str = "") -> str:
    """A whole page with its styles; it asks for no other file, and the browser is told to refuse any other.

    Args:
        title: text.
        body: markup. Styles in it, of figures, are moved to the page's own, the only ones that it allows.
        script: what the page runs when it is there, of our own; no other script is allowed.
    """
    body, style = _gather_styles(body)
    runs = f" script-src {_digest(script)};" if script else ""
    policy = f"default-src 'none'; style-src {_digest(style)};{runs} img-src data:; base-uri 'none'; form-action 'none'"
    body += f"\n<script>{script}</script>" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


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
    return body, "".join([_STYLE, *sheets, *(f".{label} {{ {rules} }}\n" for rules, label in names.items())])


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


def figure_block(picture: str, caption: str) -> str:
    """A picture (markup) with its caption (text)."""
    return f'<figure><div class="wide">{picture}</div><figcaption>{html_text(caption)}</figcaption></figure>'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; columns of numbers are aligned to the right, long texts may wrap, verdicts become badges."""
    classes = [_column_class([row[column] for row in rows]) for column in range(len(head))]
    top = "".join(f"<th{kind}>{html_text(name)}</th>" for name, kind in zip(head, classes, strict=True))
    lines = (
        "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, classes, strict=True)) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


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
