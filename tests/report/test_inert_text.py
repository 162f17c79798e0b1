"""Texts of strangers in terminals, logs, tables and reports: they are shown, and do nothing."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from helpers.reported import difference, outline, page_data, scores
from helpers.tiny import SPEC, tiny_config
from omg.cli import main, tables
from omg.cli.progress import show_progress
from omg.errors import UserError
from omg.experiments.results import read_rows, write_rows
from omg.launchers.serving import Tie, serve
from omg.names import cell, inert
from omg.report.markup import document, markdown_code, markdown_table, markdown_text
from omg.report.page import report_input, write_markdown, write_page
from omg.report.verdict import difference_sentence
from omg.tracking import RunFolder, RunReporter, Table

STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\u202edne\u2066\r\nforged\u2028line\u200b\x7f"
SHOWN = r"\x1b[2J\x1b]0;title\x07\x9b31m\u202edne\u2066\r\nforged\u2028line\u200b\x7f"
MARKUP = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>"\'> style="} * { display: none } " [red]a[/blue] '
    "[b](javascript:alert(1)) ![c](http://d.e/f) `g` *h* __i__ | j | <!-- --> &lt; \\ ~~k~~ # l http://m.n www.o.p"
)
HOSTILE = {"iql": MARKUP, "iql_omg": STEERING}


@pytest.mark.parametrize(
    "text", ["OMG (optimistic)", "\u2212 95 % \u2013 \u201ca\u201d", "\u65e5\u672c \u00e9 \u00a0", ""]
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert inert(text) == text


def test_characters_that_steer_are_written_out() -> None:
    assert inert(STEERING) == SHOWN
    assert inert("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert inert("\ud800") == "\\ud800"


# --------------------------------------------------------------------------------------------------------- terminals


def test_tables_lines_and_progress_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    name = STEERING + "[red]x[/blue]"
    tables.print_table(name, ("agent", name), [(name, 1)])
    tables.print_lines(f"Folder: {name}")
    with show_progress("loading") as say:
        say(name)
    said = "".join(capsys.readouterr())
    assert not set(said) - set("\n") & {chr(code) for code in (*range(32), *range(127, 160), 0x202E)}
    assert said.replace("\n", "").count("[red]x[/blue]") >= 4
    assert f"Folder: {SHOWN}" in said


def test_an_error_is_one_line_whatever_it_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["resume", str(tmp_path / "\x1b]0;x\x07\nerror: forged")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert r"\x1b]0;x\x07 error: forged" in said


def test_logs_of_processes_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise UserError(STEERING)

    def broken() -> None:
        raise ValueError(STEERING)

    for work, status in ((refused, 2), (broken, 1)):
        assert serve(work, Tie(os.getppid()).word) == status
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert r"\x1b[2J" in said.splitlines()[-1]


def test_the_console_log_of_a_run_has_whole_lines(tmp_path: Path) -> None:
    folder, screen = RunFolder.create(tiny_config(tmp_path), SPEC), io.StringIO()
    with RunReporter(folder, folder.config(), Console(file=screen, width=40)) as reporter:
        reporter.say(STEERING)
    assert screen.getvalue() == f"{SHOWN}\n"
    assert folder.console_file.read_text(encoding="utf-8").endswith(f" {SHOWN}\n")


# ------------------------------------------------------------------------------------------------------------ tables


def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    rows = [
        {"agent": "=1+cmd|' /C calc'!A0", "mean": -0.5, "team": "-1.5e3"},
        {"agent": "@x", "mean": 2.0, "team": "-y"},
    ]
    for write in (lambda path: write_rows(path, rows, list(rows[0])), Table(rows).write_csv):
        write(tmp_path / "table.csv")
        first, second = csv.DictReader((tmp_path / "table.csv").open(newline=""))
        assert first == {"agent": "'=1+cmd|' /C calc'!A0", "mean": "-0.5", "team": "-1.5e3"}
        assert second == {"agent": "'@x", "mean": "2.0", "team": "'-y"}
        assert [row["mean"] for row in read_rows(tmp_path / "table.csv")] == [-0.5, 2.0]
    assert cell("iql_s1") == "iql_s1"
    assert cell("a\nb\x1b") == r"a\nb\x1b"


# ----------------------------------------------------------------------------------------------------------- reports


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{**row, "team": f"{row['team']}{MARKUP}{STEERING}"} for row in scores()]
    report = report_input(
        MARKUP,
        rows,
        "battle_won",
        "iql_omg",
        ["iql"],
        question=STEERING,
        names=HOSTILE,
        cross_play=[{"agent": "iql", "team": MARKUP, "mean": 0.5}, {"agent": STEERING, "team": "iql", "mean": 0.5}],
        diagnostics=[{"agent": "iql", "measure": MARKUP, "value": 1.0, "low": None, "high": None, "meaning": STEERING}],
        commands=["omg x ```\n" + STEERING],
        versions={MARKUP: STEERING},
        machine=MARKUP,
        notes=[MARKUP, STEERING],
    )
    folder = tmp_path_factory.mktemp("report")
    write_markdown(folder / "report.md", report)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        target = write_page(folder / "report.html", report)
    assert [str(warning.message) for warning in said if not str(warning.message).isprintable()] == []
    return target


def test_a_page_shows_hostile_names_and_allows_only_itself(page: Path) -> None:
    parser, words = outline(page)
    markup = page.read_text(encoding="utf-8")
    written = {"h1", "h2", "h3", "p", "span", "ul", "li", "figure", "figcaption", "div", "pre", "details", "summary"}
    framed = {"html", "head", "meta", "title", "style", "body", "header", "section", "nav", "a", "main", "noscript"}
    assert parser.tags <= written | framed | {"table", "thead", "tbody", "tr", "th", "td", "script"}
    assert " ".join(MARKUP.split()) in words
    assert SHOWN in words
    assert not set(markup) - {"\n"} & {chr(code) for code in (*range(32), *range(127, 160), 0x202E, 0x2028)}
    # Styles are those of the page alone, named by their hash.
    (style,) = re.findall(r"<style>(.*?)</style>", markup, re.DOTALL)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', markup)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in policy
    # So is the script; the only other one is a text that no browser runs.
    data, script = re.findall(r"<script([^>]*)>(.*?)</script>", markup, re.DOTALL)
    assert data[0] == ' id="page-data" type="text/plain"'
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data[1])
    assert script[0] == ""
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()}';" in policy
    drawn = json.dumps(page_data(page), ensure_ascii=False)
    assert not set(drawn) & {chr(code) for code in (*range(32), *range(127, 160), 0x202E, 0x2028)}
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "* { display" not in style
    assert markup.index("Content-Security-Policy") < markup.index("<style>")
    assert not re.search(r"<[a-z][^<>]* (style|on\w+)=", markup)


def test_styles_of_figures_become_classes() -> None:
    sheet, path = '<style type="text/css">*{a: b}</style>', '<path style="fill: none"/>'
    svg = f'<svg>{sheet}{path}<text style="fill: none">style="c"</text></svg>'
    markup = document("t", svg)
    assert '<svg><path class="f0"/><text class="f0">style="c"</text></svg>' in markup
    assert "*{a: b}.f0 { fill: none }\n</style>" in markup


def test_markdown_shows_hostile_names(page: Path) -> None:
    text = (page.parent / "report.md").read_text(encoding="utf-8")
    shown = markdown_text(MARKUP)
    assert text.startswith(f"# {shown}\n\n## {markdown_text(STEERING)}\n\n**In part.** ")
    body, _, code = text.partition("````\n")
    assert code.startswith("omg x ```\\n\\x1b[2J")
    for mark in ("<script", "<img", "[b](", "![c](", " `g` ", " *h* ", " __i__ ", "~~k", "://m", "www.o"):
        assert mark not in body
    assert not set(text) - {"\n"} & {chr(code) for code in (*range(32), *range(127, 160), 0x202E, 0x2028)}
    # Every line of a table has its columns, whatever the cells say.
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_what_is_no_markup_stays_readable() -> None:
    plain = "7 homologue: iql_omg wins 3.1 % [95 %: \u22121.0 to 5.0], a & b."
    assert markdown_text(plain) == plain
    assert markdown_table(("a", "b|c"), [("1", "_x_")]) == "| a | b\\|c |\n| --- | --- |\n| 1 | \\_x\\_ |"
    assert markdown_code(["a", "b"]) == "```\na\nb\n```"
    assert "in {odd} 0 than" in difference_sentence(difference(metric="{odd} 0"))
