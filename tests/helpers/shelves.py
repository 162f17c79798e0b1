"""Folders as runs, pipelines and pools leave them, without training anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from helpers.tiny import SPEC, tiny_config
from omg.components.files import write_json, write_text
from omg.tracking import RunFolder

TESTS = [(1, 0, 0.5), (2, 0, 0.25), (1, 400, 0.875), (2, 400, 0.5), (1, 600, 0.75), (2, 600, 0.5)]
"""Seed, t_env and value of the tests of `made_run`."""


def made_run(results: Path, status: str = "finished", *, t_env: int = 600, **about: str) -> RunFolder:
    """A run of two seeds and 1000 steps whose files say that it is `status` and has made `t_env` steps."""
    folder = RunFolder.create(tiny_config(results, seeds=2), SPEC)
    write_tests(folder, TESTS)
    write_text(
        folder.speed_file, f"t_env,env_steps_per_second,updates_per_second,host_share\n{t_env},200.0,5.00,0.0100\n"
    )
    write_text(folder.console_file, "".join(f"2026-01-31 12:00:0{line} line {line}\n" for line in range(5)))
    folder.set_status(status, **about)
    (folder.path / ".lock").touch()
    return folder


def write_tests(folder: RunFolder, tests: Iterable[tuple[int, int, float]], metric: str = "return") -> None:
    """Metrics with a test value for each seed and step."""
    lines = [f"{seed},{t_env},test_{metric}_mean,{value!r}\n" for seed, t_env, value in tests]
    write_text(folder.metrics_file, "".join(["seed,t_env,name,value\n", *lines]))


def made_pipeline(folder: Path, done: int = 2, tasks: int = 4, *, page: str = "") -> Path:
    """A pipeline with some of its tasks done and one begun."""
    (folder / "stages" / "train").mkdir(parents=True)
    write_text(folder / "pipeline.yaml", "name: tiny\ngame:\n  env_config: foraging\n")
    titles = ["pool", *(f"train agent{index}" for index in range(tasks - 2)), "report"]
    write_json(folder / "tasks.json", {"tasks": [[title, f"mark {title}"] for title in titles]})
    for index, title in enumerate(titles[: done + 1]):
        note = {"fingerprint": f"mark {title}", "status": "done" if index < done else "begun", "seconds": 1.0}
        write_json((folder / "stages").joinpath(*title.split()).with_suffix(".json"), note)
    if page:
        write_text(folder / "report.html", page)
    return folder
