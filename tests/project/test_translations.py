"""Pages in Chinese say what the English ones say: the same blocks, commands, code words, figures, names and links.

A page `NAME.zh-CN.md` is compared with `NAME.md` block by block. A block is a heading, a paragraph, an item of a list,
a cell of a table or a fenced block of code. Words may stand in another order in another language, so code words, links
and names (`IQL`, `H200`) are compared without order within their block. Figures keep their order. Fenced blocks are
equal. Numbers written as words, "two cores", are not compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRANSLATED = sorted([*ROOT.glob("*.zh-CN.md"), *(ROOT / "docs").rglob("*.zh-CN.md")])

CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)]+)\)")
# With its unit, so that 29 k is not 29 M. The digits within names, as in D3QN, are no figures.
FIGURE = re.compile(r"(?<![A-Za-z\d.])(\d+(?:[.,:]\d+)*)(?: ?([%kM])(?![A-Za-z]))?")
LATIN = re.compile(r"[A-Za-z](?:(?!(?<=[A-Z])s\b)[A-Za-z\d])*\+?")  # of GPUs, GPU
CHINESE = "[\u4e00-\u9fff]"
BADLY_SET = (
    ("no space between Chinese and Latin", re.compile(rf"{CHINESE}[A-Za-z\d]|[A-Za-z\d%]{CHINESE}")),
    ("narrow punctuation beside Chinese", re.compile(rf"{CHINESE} ?[,.;:!?()]|[,.;:!?()] ?{CHINESE}")),
    ("a space beside wide punctuation", re.compile(r" [\u3001-\u3011\uff01-\uff1f]|[\u3001-\u3011\uff01-\uff1f] ")),
)


@dataclass(frozen=True)
class Block:
    """A piece of a page: what it is, where it starts, and its text."""

    kind: str
    line: int
    text: str

    def facts(self) -> dict[str, object]:
        """What must be the same in every language."""
        if self.kind == "code":
            return {"code": self.text}
        prose = LINK.sub("]", CODE.sub("", self.text))
        return {
            "kind": self.kind,
            "code words": sorted(CODE.findall(self.text)),
            "links": sorted(target.replace(".zh-CN.md", ".md") for target in LINK.findall(self.text)),
            "figures": ["".join(found) for found in FIGURE.findall(prose)],
            "names": {word for word in LATIN.findall(prose) if re.search(r"\d|\+|.[A-Z]", word)},
        }


def blocks(text: str) -> list[Block]:
    """A page in pieces."""
    found: list[Block] = []
    opened = False  # whether the next line of prose belongs to the last piece
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("```"):
            body = [line]
            while body[-1] != "```" or len(body) == 1:
                body.append(next(lines)[1])
            found.append(Block("code", number, "\n".join(body)))
            opened = False
        elif line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
            found.append(Block(f"row of {len(cells)}", number, ""))
            found += [Block("cell", number, cell.strip()) for cell in cells]
            opened = False
        elif mark := re.match(r"(#+|-|\d+\.) +", line):
            found.append(Block(mark[1], number, line[mark.end() :]))
            opened = not line.startswith("#")
        elif opened and line.strip():
            found[-1] = Block(found[-1].kind, found[-1].line, f"{found[-1].text}\n{line.strip()}")
        else:
            opened = bool(line.strip())
            found += [Block("prose", number, line)] if opened else []
    return found


def differences(english: str, chinese: str) -> list[str]:
    """What one page says and the other does not, the first such block only: all that follow may be shifted."""
    ours, theirs = blocks(english), blocks(chinese)
    for one, other in zip(ours, theirs, strict=False):
        here, there = one.facts(), other.facts()
        if here != there:
            return [
                f"{what}: {here.get(what)} in English line {one.line}, {there.get(what)} in Chinese line {other.line}"
                for what in {**here, **there}
                if here.get(what) != there.get(what)
            ]
    return [] if len(ours) == len(theirs) else [f"{len(ours)} blocks in English, {len(theirs)} in Chinese"]


def original(path: Path) -> Path:
    return path.with_name(path.name.replace(".zh-CN.md", ".md"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_first_pages_are_translated() -> None:
    assert {"README.zh-CN.md", "docs/getting-started.zh-CN.md"} <= {name(path) for path in TRANSLATED}


@pytest.mark.parametrize("path", TRANSLATED, ids=name)
def test_both_languages_say_the_same(path: Path) -> None:
    assert differences(original(path).read_text(), path.read_text()) == []


@pytest.mark.parametrize("path", TRANSLATED, ids=name)
def test_each_language_links_to_the_other(path: Path) -> None:
    assert blocks(original(path).read_text())[1].text == f"English · [简体中文]({path.name})"
    assert blocks(path.read_text())[1].text == f"[English]({original(path).name}) · 简体中文"


@pytest.mark.parametrize("path", TRANSLATED, ids=name)
def test_a_translated_page_links_to_translated_pages(path: Path) -> None:
    targets = [target for block in blocks(path.read_text())[2:] for target in LINK.findall(block.text)]
    translated = {other.resolve() for other in map(original, TRANSLATED)}
    assert [target for target in targets if (path.parent / target).resolve() in translated] == []


@pytest.mark.parametrize("path", TRANSLATED, ids=name)
def test_chinese_is_set_as_usual(path: Path) -> None:
    mistakes = []
    for block in blocks(path.read_text()):
        prose = re.sub(r"!?\[|\]|\*", "", LINK.sub("]", CODE.sub("x", block.text)))
        for mistake, pattern in BADLY_SET if block.kind != "code" else ():
            mistakes += [f"{mistake}, line {block.line}: {found}" for found in pattern.findall(prose)]
    assert mistakes == []


@pytest.mark.parametrize("path", TRANSLATED, ids=name)
def test_a_change_of_any_figure_is_noticed(path: Path) -> None:
    english, chinese = original(path).read_text(), path.read_text()
    assert not differences(english, chinese)
    figures = list(re.finditer(r"\d+", chinese))
    assert len(figures) > 20
    for found in figures:
        changed = f"{chinese[: found.start()]}{int(found[0]) + 1}{chinese[found.end() :]}"
        assert differences(english, changed), f"{found[0]} at {chinese[: found.start()][-40:]!r}"


@pytest.mark.parametrize(
    ("english", "chinese", "what"),
    [
        ("```\nomg demo\n```", "```\nomg toy\n```", "code"),
        ("```\nomg demo\n```", "```\nomg demo\n```\n\n```\nomg toy\n```", "blocks"),
        ("| `a` | 1 k |", "| `a` | 1 M |", "figures"),
        ("| `a` | one |", "| `a` | 一 | |", "kind"),
        ("| `a` | one |\n| `b` | two |", "| `a` | 一 |", "blocks"),
        ("- with `key=1`", "- 用 `key=2`", "code words"),
        ("## Fast", "### 速度", "kind"),
        ("from 3 to 5", "从 5 到 3", "figures"),
        ("ahead of IQL", "领先于 VDN", "names"),
        ("[here](a.md#x)", "[这里](a.md#y)", "links"),
        ("![wins](a.png)", "![胜率](b.png)", "links"),
    ],
)
def test_differences_are_named(english: str, chinese: str, what: str) -> None:
    assert what in " ".join(differences(english, chinese))
    assert differences(english, english) == differences(chinese, chinese) == []
