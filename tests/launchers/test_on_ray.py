"""The real Ray: a cluster of three nodes on this machine, parts that are killed, a node that is."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.parts import offer_parts, part
from helpers.plans import PLAN as SMALL
from helpers.plans import RUN
from helpers.refusing import refusal
from omg.experiments.pipeline import run_pipeline
from omg.experiments.plan import parse_plan
from omg.experiments.results import self_play_files, table_files
from omg.experiments.runs import known_runs
from omg.launchers import Job, JobEnd, LauncherSettings, Site, opened
from omg.launchers.lease import look

ray = pytest.importorskip("ray")

PLAN: dict[str, Any] = {
    "name": "scattered",
    "game": SMALL["game"],
    "pool": {"scripted": {"random": "heldout"}, "episodes": 8},
    # Both agents learn by the same program: one compilation serves all processes.
    "train": {**RUN, "t_max": 2500, "save_model_interval": 200, "self_play": True, "seeds": 2},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 11}},
    "evaluation": {"groups": ["1_partner"], "episodes": 2, "untrained": False, "crossplay_episodes": 0},
    "machine": {"cpus": 0.5, "stages": {"train": {"cpus": 1, "memory_gb": 0.1}}},
    "report": {"agent": "other"},
}


class Nodes:
    """Three nodes of a cluster, and a head without cores of its own."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        few = {"object_store_memory": 80 * 1024**2}
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **few})
        self.nodes = [self.cluster.add_node(wait=False, num_cpus=1, **few) for _ in range(3)]
        self.cluster.wait_for_nodes()

    def kill_with(self, pid: int) -> None:
        """Kills a part's process and the node that it runs on, without a word to anybody."""
        worker = parent_of(pid)
        raylet = parent_of(worker)
        node = next(one for one in self.nodes if one.all_processes["raylet"][0].process.pid == raylet)
        os.kill(pid, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.cluster.shutdown()


def do(nodes: Nodes, folder: Path, jobs: list[Job], **settings: Any) -> tuple[dict[str, JobEnd], list[str]]:
    """Does jobs; how each ended, and what was said."""
    folder.mkdir(exist_ok=True)
    endings: dict[str, JobEnd] = {}
    said: list[str] = []

    def ended(ending: JobEnd) -> None:
        endings[ending.label] = ending

    site = Site(folder, folder / "logs", folder / "leases", said.append)
    with opened(LauncherSettings(launcher="ray", address=nodes.cluster.address, **settings), site) as launcher:
        try:
            launcher.run(lambda: jobs.pop(0) if jobs else None, ended)
        except Exception as error:
            said.append(str(error))
    assert not ray.is_initialized()
    return endings, said


def test_parts_that_their_machines_fail_are_begun_again_and_others_are_told(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_parts(tmp_path, monkeypatch)
    folder = tmp_path / "results"
    endings, said = do(nodes, folder, [part(how) for how in ("killed", "full", "well", "refused")])
    assert {label: ending.done for label, ending in endings.items()} == {
        **{"killed": True, "full": True, "well": True},
        "refused": False,
    }
    assert all(ending.where and ending.seconds > 0 for ending in endings.values())
    assert said[-1] == "refused: lr: got -1"
    text = "\n".join(said)
    assert re.search(r"killed: the process was ended by signal 9; .*; begun again \(1 of at most 3\)", text)
    assert "full: /scratch/x: No space left on device; begun again (1 of at most 3)" in text
    assert re.search(r"well: running on \S+, process \d+, see ", text)
    assert f"{folder}: seen by 4 nodes of the cluster on 1 machines" in text
    # The one that was killed went on from where it was.
    assert (folder / "logs" / "killed.log").read_text().split("\n")[:2] == ["from 0", "from 5"]
    assert look(folder / "leases", "killed").number == 2
    # The one whose disk was full went elsewhere.
    first, second = (folder / "made" / "full.nodes").read_text().split()
    assert first != second


def test_files_travel_where_the_folder_is_not_shared(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_parts(tmp_path, monkeypatch)
    monkeypatch.setenv("OMG_SCRATCH", str(tmp_path / "scratch"))
    folder = tmp_path / "results"
    endings, said = do(nodes, folder, [part("killed")], files="copied", retries=1)
    assert endings["killed"].done
    assert (folder / "made" / "killed.txt").read_text() == "10"
    assert "begun again (1 of at most 1)" in "\n".join(said)
    assert not list(folder.glob("leases/killed*")), "it was leased where it was done"


def test_a_node_dies_in_the_middle_of_training_and_no_table_differs(nodes: Nodes, tmp_path: Path) -> None:
    here = run_pipeline(parse_plan(PLAN), tmp_path / "here", quiet=True)
    place = tmp_path / "scattered"
    killed: list[int] = []

    def kill() -> None:
        end = time.monotonic() + 120
        log = place / "logs" / "train-other.log"
        while time.monotonic() < end and not (log.exists() and "steps/s" in log.read_text()):
            time.sleep(0.02)
        holder = look(place / "leases", "train-other").holder
        assert holder is not None
        nodes.kill_with(holder.pid)
        killed.append(holder.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    settings = LauncherSettings(launcher="ray", address=nodes.cluster.address, jobs=2)
    there = run_pipeline(parse_plan(PLAN), place, quiet=True, launcher=settings)
    killer.join()
    assert len(killed) == 1
    assert look(place / "leases", "train-other").number == 2
    # The run was not begun again: it went on.
    assert len(known_runs(there.checked.runs("other"))) == 1
    for files in (table_files, self_play_files):
        for one, other in zip(files(here.checked), files(there.checked), strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name
    assert sorted(there.done) == sorted(here.done)


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, tmp_path / "logs", tmp_path / "leases", lambda line: None)

    def open_at(address: str) -> str:
        def work() -> None:
            with opened(LauncherSettings(launcher="ray", address=address), site):
                raise AssertionError

        return refusal(work)

    assert "which is for clients from outside" in open_at("ray://127.0.0.1:1")
    said = open_at("nowhere")
    assert said.startswith("--address: got 'nowhere'; Ray cannot be reached there: ")
    assert "\n" not in said
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    assert open_at("auto") == "--launcher ray: Ray is not installed. Install it with: pip install 'omg-marl[ray]'"
