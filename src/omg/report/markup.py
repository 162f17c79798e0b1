"""Pieces of HTML and Markdown: a whole document, tables, figures, badges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

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
_NUMBER = re.compile(r"[+\u2212-]?\d[\d,]*(\.\d+)?( %)?( \(.*\))?|\u2013|.*\d to [+\u2212-]?\d.*")


def document(title: str, body: str) -> str:
    """A whole page with its styles; it asks for no other file."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def badge(word: str) -> str:
    """A word in a coloured frame: green for good, red for bad, grey for anything else."""
    return f'<span class="badge {_KINDS.get(word, "plain")}">{escape(word)}</span>'


def figure_block(picture: str, caption: str) -> str:
    """A picture (markup) with its caption (text)."""
    return f'<figure><div class="wide">{picture}</div><figcaption>{escape(caption)}</figcaption></figure>'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; columns of numbers are aligned to the right, long texts may wrap, verdicts become badges."""
    classes = [_column_class([row[column] for row in rows]) for column in range(len(head))]
    top = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, classes, strict=True))
    lines = (
        "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, classes, strict=True)) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _column_class(cells: Sequence[str]) -> str:
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return ' class="number"'
    return ' class="short"' if all(len(cell) <= _LONGEST_SHORT for cell in cells) else ""


def _cell(value: str) -> str:
    return badge(value) if value in ("better", "worse", "no difference shown") else escape(value)
