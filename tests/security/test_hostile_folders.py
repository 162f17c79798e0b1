"""Hostile folders through every command that reads them: nothing runs, nothing outside changes, one line, exit 2."""

from __future__ import annotations

import re
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import HOSTILE, MEMBER, READ_BY, Kit, make_kit

import omg
from helpers.tiny import GAME
from omg.cli import main
from omg.errors import UserError
from omg.registry import Entry
from omg.training.program import Program

LINUX = sys.platform == "linux"
LOAD = "load"
TEAM = ("train", "--config=1pool1iql", "--env-config=foraging")
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "agent": (
        (LOAD, "IT"),
        ("evaluate", "IT", "--episodes", "2"),
        ("evaluate", "IT", "--pool", "POOL", "--set", "training", "--episodes", "2"),
        ("adapt", "IT", "--pool", "POOL", "--set", "training", "--episodes", "2"),
        ("versus", "IT", "IT", "--episodes", "2"),
        ("train", "--config=iql", "--env-config=foraging", "GAME", "init_from=IT"),
        ("export", "IT", "--to", "pymarl", "--output", "exported"),
        ("runs", "IT"),
    ),
    "run": (
        (LOAD, "IT"),
        ("evaluate", "IT", "--episodes", "2"),
        ("evaluate", "IT", "--step", "0", "--episodes", "2"),
        ("resume", "IT"),
        ("resume", "IT", "t_max=5000"),
        ("export", "IT", "--to", "torch", "--output", "exported"),
        ("train", "--config=iql", "--env-config=foraging", "GAME", "checkpoint_path=IT"),
        ("plot", "IT", "--output", "curves.png"),
        ("adapt", "IT", "--pool", "POOL", "--set", "training", "--episodes", "2"),
        ("train", "--config=iql", "--env-config=foraging", "GAME", "init_from=IT"),
        ("runs", "IT"),
        ("tail", "IT"),
    ),
    "pool": (
        ("runs", "IT", "--json"),
        ("pool", "list", "IT"),
        ("pool", "show", "IT", MEMBER),
        ("crossplay", "IT", "--set", "training", "--episodes", "2", "--output", "crossplay"),
        ("pretrain", "IT"),
        ("evaluate", "AGENT", "--pool", "IT", "--set", "training", "--episodes", "2"),
        ("adapt", "AGENT", "--pool", "IT", "--set", "training", "--episodes", "2"),
        ("versus", f"IT:{MEMBER}", f"IT:{MEMBER}", "--episodes", "2"),
        (*TEAM, "GAME", "init_param_path=IT"),
        ("train", "--config=iql", "--env-config=foraging", "GAME", "init_from=IT"),
        ("pipeline", "PLAN", "pool.path=IT", "--output", "experiment"),
    ),
    "plan": (("pipeline", "IT", "--output", "experiment"),),
    "prior": (
        ("train", "--config=1pool1iql_omg", "--env-config=foraging", "GAME", "init_param_path=POOL", "prior_path=IT"),
    ),
}
SHOWING = ("plot", "pool list", "pool show", "runs", "tail")
"""What only shows opens no game, and may well show what is there."""
MOST_BYTES, MOST_SECONDS = 1e9, 60


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return make_kit(tmp_path_factory.mktemp("kit"))


def words(template: tuple[str, ...], kit: Kit, path: Path) -> list[str]:
    game = [f"env_args.{key}={value}" for key, value in GAME.items()]
    found: list[str] = []
    for word in template:
        places = {"AGENT": kit.path("agent"), "POOL": kit.path("pool"), "PLAN": kit.path("plan"), "IT": path}
        for name, place in places.items():
            word = (
                str(place) if word == name else word.replace(f"={name}", f"={place}").replace(f"{name}:", f"{place}:")
            )
        found += game if word == "GAME" else [word]
    return found


def begin_peak() -> float:
    """Forgets how much memory this process has had at most (other tests run in it, too); what it has now, in bytes."""
    if LINUX:
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> float:
    """The most memory that this process has had since `begin_peak`, or where nobody can say that ever, in bytes."""
    if not LINUX:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024.0 * int(found[1])


@pytest.mark.skipif(not LINUX, reason="elsewhere a peak cannot be forgotten")
def test_memory_that_is_taken_is_noticed() -> None:
    before = begin_peak()
    np.ones(40_000_000)
    assert 2.5e8 < peak() - before < MOST_BYTES


def contents(folder: Path) -> dict[str, Any]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in HOSTILE.items() for kind in kinds])
def test_a_hostile_folder_does_nothing(
    name: str, kind: str, kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "downloaded" / kit.path(kind).name
    path.parent.mkdir()
    shutil.copy(kit.path(kind), path) if kind == "plan" else shutil.copytree(kit.path(kind), path)
    HOSTILE[name][kind](path, kit)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(str(path))  # As if the downloaded folder were on PYTHONPATH.
    monkeypatch.setattr(Program, "compile", _never)
    built: list[str] = []
    build = Entry.build.fget
    assert build is not None
    monkeypatch.setattr(Entry, "build", property(lambda entry: built.append(entry.implementation) or build(entry)))
    before, honest = contents(kit.victim), contents(kit.path("pool"))
    for template in COMMANDS[kind]:
        if template[0] not in READ_BY.get((name, kind), template):
            continue
        built.clear()
        memory, started = begin_peak(), time.monotonic()
        code = _load(path) if template[0] == LOAD else main(words(template, kit, path))
        said = capsys.readouterr()
        shows = " ".join(template).startswith(SHOWING)
        assert code == 2 or (code == 0 and shows), f"{template}: {said.out}{said.err}"
        assert "Traceback" not in said.out + said.err
        assert not set(said.out + said.err) & {"\x1b", "\u202e"}
        assert "precious" not in said.out, template
        assert code == 0 or said.err.startswith("error: ")
        assert said.err.count("\n") == (1 if code else 0), said.err
        assert not shows or not built, f"{template} opened {built}"
        assert not any("adapters.gymma" in module or "zoo" in module for module in built), template
        assert not kit.canary.exists(), template
        assert contents(kit.victim) == before, template
        assert peak() - memory < MOST_BYTES, template
        assert time.monotonic() - started < MOST_SECONDS, template
    assert contents(kit.path("pool")) == honest
    assert not list(work.rglob("*precious*"))


def _load(path: Path) -> int:
    try:
        omg.load(path)
    except UserError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def _never(program: Program, *_: Any) -> None:
    raise AssertionError("a hostile folder was trained with")


def test_there_are_enough_of_them() -> None:
    assert len(HOSTILE) >= 25
