"""The ledger of a pipeline: what is done, what was begun and goes on, and what is made anew."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from helpers.plans import changed
from helpers.refusing import refusal
from omg.experiments.ledger import Ledger, Task
from omg.experiments.pipeline import plan_tasks
from omg.experiments.plan import SECTIONS, STAGES, parse_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.results import read_rows, write_rows
from omg.experiments.stages import Workplace


def task(folder: Path, name: str, calls: list[str], *needs: Task, setting: int = 1, costly: bool = False) -> Task:
    def work() -> None:
        calls.append(name)
        (folder / name).write_text(str(setting))

    return Task(name, "", {"setting": setting}, (folder / name,), work, needs, costly)


def test_a_task_is_done_once_and_again_when_it_changes_or_what_it_needs(tmp_path: Path) -> None:
    calls: list[str] = []
    for setting, expected in ((1, ["a", "b"]), (1, []), (2, ["a", "b"])):
        calls.clear()
        ledger = Ledger(tmp_path)
        first = task(tmp_path, "a", calls, setting=setting, costly=True)
        second = task(tmp_path, "b", calls, first)
        assert [ledger.run(first), ledger.run(second)] == [bool(expected)] * 2
        assert calls == expected
    assert (tmp_path / "replaced" / "a-1").read_text() == "1"
    assert (tmp_path / "a").read_text() == "2"
    assert not (tmp_path / "replaced" / "b-1").exists()
    # A result that is gone is made again, and so is what was made from it.
    (tmp_path / "a").unlink()
    calls.clear()
    ledger = Ledger(tmp_path)
    ledger.run(first)
    ledger.run(second)
    assert calls == ["a", "b"]
    damaged = tmp_path / "stages" / "a.json"
    damaged.write_text("{")
    assert not Ledger(tmp_path).is_done(first)
    assert (
        refusal(lambda: Ledger(tmp_path).require(first, "Do it."))
        == f"{tmp_path}: the stage 'a' is not done yet. Do it."
    )


def test_a_task_that_was_interrupted_goes_on_and_its_time_adds_up(tmp_path: Path) -> None:
    def half() -> None:
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{len(list((tmp_path / 'a').iterdir()))}").touch()
        if len(list((tmp_path / "a").iterdir())) < 3:
            raise KeyboardInterrupt

    half_done = Task("a", "", {}, (tmp_path / "a",), half, costly=True)
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Ledger(tmp_path, said.append).run(half_done)
        note = Ledger(tmp_path).note(half_done)
        assert note is not None
        assert note.status == "begun"
    assert Ledger(tmp_path, said.append).run(half_done)
    assert said == ["a: begun", "a: continued", "a: continued"]
    assert len(list((tmp_path / "a").iterdir())) == 3
    assert not (tmp_path / "replaced").exists()
    whole = Ledger(tmp_path).note(half_done)
    assert whole is not None
    assert whole.seconds > note.seconds > 0


def test_a_stage_that_is_killed_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The process dies while a table is on its way to the disk."""
    script = f"""
import os, signal
from pathlib import Path
from omg.experiments.ledger import Ledger, Task
from omg.experiments.results import write_rows

folder = Path({str(tmp_path)!r})
table = folder / "scores.csv"

def work():
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    write_rows(table, [{{"mean": index}} for index in range(1000)], ("mean",))

Ledger(folder).run(Task("evaluate", "scores omg", {{}}, (table,), work))
"""
    killed = subprocess.run([sys.executable, "-c", script], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    table = tmp_path / "scores.csv"
    assert not table.exists()
    calls: list[str] = []

    def work() -> None:
        calls.append("again")
        write_rows(table, [{"mean": 1.5}], ("mean",))

    again = Task("evaluate", "scores omg", {}, (table,), work)
    note = Ledger(tmp_path).note(again)
    assert note is not None
    assert note.status == "begun"
    assert Ledger(tmp_path).run(again)
    assert read_rows(table) == [{"mean": 1.5}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.csv", "stages"]


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        (("agents.d3qn.self_play=true",), {"tune"}),
        (("tune={trials: 2, space: {lr: [0.1, 0.2]}}", "pool.scripted.own_level=validation"), set()),
    ],
)
def test_every_stage_keeps_to_its_files_and_needs_only_what_is_before_it(
    words: tuple[str, ...], left_out: set[str], tmp_path: Path
) -> None:
    assert list(STAGES) == ["pool", "room", "prior", "tune", "train", "evaluate", "adapt", "report"]
    for section in SECTIONS.values():
        assert all(field.description for field in section.model_fields.values())
    plan = parse_plan(changed("adaptation.episodes=4", "room.steps=0", "evaluation.at=[0.5, 1.0]", *words))
    checked = check_plan(plan, tmp_path)
    tasks = plan_tasks(Workplace(checked, tmp_path, Ledger(tmp_path), Console(), quiet=True))
    assert list(dict.fromkeys(task.stage for task in tasks)) == [name for name in STAGES if name not in left_out]
    assert len({task.title for task in tasks}) == len(tasks)
    for index, task in enumerate(tasks):
        assert task.makes
        assert {path.relative_to(tmp_path).parts[0] for path in task.makes} <= set(STAGES[task.stage].entries)
        assert all(need in tasks[:index] for need in task.needs)
    # Everything is shown in the end: a change anywhere reaches the report, or what reaches it.
    reached = {task.title for task in tasks[-1].needs}
    for task in reversed(tasks[:-1]):
        if task.title in reached:
            reached |= {need.title for need in task.needs}
    assert reached == {task.title for task in tasks[:-1]}
