"""The files around the code: what they promise is there, and what stands in several of them is the same."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import omg
from fast import DOCUMENTS, FILES, ROOMS

ROOT = Path(__file__).parents[2]
TESTS = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
PACKAGE = ROOT / "src" / "omg"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    return [line.strip() for line in found[1].splitlines()]


def test_one_version_everywhere() -> None:
    assert PROJECT["project"]["version"] == omg.__version__ == read_yaml("CITATION.cff")["version"]


def test_the_citation_can_be_used() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert (citation["type"], citation["license"]) == ("software", PROJECT["project"]["license"])
    papers = {paper["notes"]: paper for paper in citation["references"]}
    assert sorted(papers) == ["HOP", "OMG"]
    for paper in papers.values():
        assert {"type", "title", "authors", "year", "conference"} <= set(paper)
        assert paper["year"] == 2024
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_the_workflow_runs_the_tests_on_every_version() -> None:
    (job,) = read_yaml(".github/workflows/test.yml")["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [shlex.split(command)[:2] for command in commands] == [["make", "test"]]
    versions = job["strategy"]["matrix"]["python"]
    assert all(isinstance(version, str) for version in versions), "3.10 without quotes is 3.1"
    assert f">={versions[0]}" == PROJECT["project"]["requires-python"]
    assert {"3.11", "3.12", "3.13"} <= set(versions)


def test_hooks_are_the_programs_of_make_check() -> None:
    (source,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert source["repo"] == "local"
    assert all(hook["language"] == "system" for hook in source["hooks"])
    hooks = [shlex.split(hook["entry"]) for hook in source["hooks"]]
    assert [program.rpartition("/")[0] for program, *_ in hooks] == [".venv/bin"] * len(hooks)
    # The words that say what a program does, without its options.
    called = [[Path(program).name, *(word for word in words if word[0] != "-")] for program, *words in hooks]
    checked = [
        line.removeprefix("$(BIN)/").replace(" --check", "").replace(" .", "").split() for line in recipe("check")
    ]
    assert called == checked
    assert [name for name, *_ in called if not (Path(sys.executable).parent / name).exists()] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_forms_can_be_read(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= set(form)
    names = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(names)) == len(names) > 0
    assert all("label" in field["attributes"] for field in form["body"] if field["type"] != "markdown")


def test_what_asks_for_evidence_says_where_it_is_explained() -> None:
    heading = "What a result needs"
    assert f"\n## {heading}\n" in (ROOT / "CONTRIBUTING.md").read_text()
    for path in (".github/pull_request_template.md", ".github/ISSUE_TEMPLATE/question.yml"):
        assert f'"{heading}"' in (ROOT / path).read_text(), path


def test_the_package_says_that_it_has_types() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/omg"]
    assert (PACKAGE / "py.typed").read_bytes() == b""


def test_contributing_names_what_there_is() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tests = set(re.findall(r"`(test_\w+)`", text))
    assert len(tests) > 10
    assert [name for name in sorted(tests) if name not in TESTS] == []
    targets = set(re.findall(r"`make ([\w-]+)`", text))
    assert "test-fast" in targets
    assert [target for target in sorted(targets) if not re.search(rf"^{target}:.*## ", MAKEFILE, re.MULTILINE)] == []
    table = text.partition("## Adding a part")[2].partition("\n## ")[0]
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    registries = re.findall(r"`([A-Z_]{4,})`", table)
    assert len(registries) > 6
    assert [name for name in registries if not re.search(rf"^{name}: ", code, re.MULTILINE)] == []
    places = re.findall(r"`([a-z_]+/[\w/.]*)`", table)
    assert [place for place in places if not ((PACKAGE / place).exists() or (ROOT / place).exists())] == []


def test_the_glossary_names_places_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    places = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", text))
    assert len(places) > 20
    assert [place for place in sorted(places) if not (PACKAGE / place).exists()] == []


def test_no_two_classes_share_a_name() -> None:
    names = [
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a test file imports from; what it imports from `omg` itself comes from `omg.api`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "omg":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("omg."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import) and any(alias.name == "omg" for alias in node.names):
            names.add("api")
    return names


def test_fast_tests_check_every_room() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"} - {
        "__pycache__",
        "__init__",
        "types",  # Names, nothing to run.
    }
    assert set(ROOMS) == rooms
    assert [room for room, names in ROOMS.items() if not names] == []
    for room, names in ROOMS.items():
        for name in names:
            assert room in imported_rooms(TESTS[name]), f"{name} does not import omg.{room}"
    assert all(name in TESTS for name in DOCUMENTS)
    assert {*DOCUMENTS, *ROOMS["cli"], *ROOMS["stopping"]} <= FILES


def test_tests_stand_in_the_rooms_of_what_they_test() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir()} | {"browser", "project", "security"}
    assert sorted(name for name, path in TESTS.items() if path.parent.name not in rooms) == []
    assert len(TESTS) == len(list((ROOT / "tests").rglob("test_*.py")))
    assert {path.name for path in (ROOT / "tests").glob("*.py")} == {"conftest.py", "fast.py"}


def test_make_says_what_it_can_do() -> None:
    targets = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert targets
    pattern = re.search(r"grep -E '(\^\S+)'", MAKEFILE)
    assert pattern
    shown = {line.partition(":")[0] for line in MAKEFILE.splitlines() if re.match(pattern[1], line)}
    assert shown == set(targets[1].split())
    assert recipe("test-fast") == [recipe("test")[0] + " --fast"]


def documented(folder: Path) -> list[tuple[str, str]]:
    """The file and the text of every docstring in a folder, those of fields included."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                found.append((str(path.relative_to(PACKAGE)), node.value.value))
    return found


@pytest.mark.parametrize(
    "room", ["components", "controllers", "learners", "modules", "planning", "runners", "training"]
)
def test_letters_in_shapes_are_those_of_the_glossary(room: str) -> None:
    section = (ROOT / "docs" / "glossary.md").read_text().partition("## Letters in shapes")[2].partition("\n## ")[0]
    letters = re.findall(r"^\| (\w) \|", section, re.MULTILINE)
    assert len(letters) == len(set(letters)) > 20
    used = set()
    for file, text in documented(PACKAGE / room):
        # Brackets behind a name are an index, those around a formula its own.
        for shape in re.findall(r"(?<![\w\])])\[([^\[\]()]*)\]", text):
            used |= {(letter, file, shape) for letter in re.findall(r"(?<![\w.])([A-Za-z])\d?(?!\w)", shape)}
    assert len(used) > 10, "shapes were looked for"
    assert sorted(one for one in used if one[0] not in letters) == []
