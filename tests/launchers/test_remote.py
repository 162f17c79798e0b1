"""What a worker of a cluster does for a part, without a cluster: begin, watch, end with the head, carry files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.parts import offer_parts, part
from omg.errors import UserError
from omg.launchers.carrying import collect, scratch, spread
from omg.launchers.lease import HEAD, Lease, here, look
from omg.launchers.process import carried, may_go_better
from omg.launchers.remote import UNSEEN_CODE, Began, Brought, Order, Over, do_part
from omg.launchers.serving import DISK_CODE, LOST_CODE


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lease]:
    """The lease of this process, which hands out parts of an experiment."""
    offer_parts(tmp_path, monkeypatch)
    with Lease.take(tmp_path / "results" / "leases", HEAD, lost=lambda: None) as lease:
        yield lease


@pytest.fixture
def order(head: Lease) -> Order:
    """An endless part."""
    folder = head.place.parent
    places = (str(folder), str(folder / "logs"), str(head.place))
    return Order(part("endless"), *places, here(), carried(os.environ), copied=False)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_part_ends_with_the_head_wherever_that_is(head: Lease, order: Order) -> None:
    words = do_part(order, {})
    began = next(words)
    assert isinstance(began, Began)
    counted = Path(order.folder, "made", "endless.txt")
    wait_for(counted)
    seen = look(head.place, "endless")
    assert seen.holder is not None
    assert (seen.holder.pid, seen.state) == (began.pid, "held")
    # There is nothing else that ties the two: on another machine it would be the same.
    head.stop()
    over = next(words)
    assert isinstance(over, Over)
    assert over.code == 130
    assert may_go_better(over.code)
    # It gave its lease back when it had saved.
    assert look(head.place, "endless").state == "released"
    assert int(counted.read_text()) > 0


def test_a_machine_that_does_not_see_the_folder_says_so_and_begins_nothing(order: Order, tmp_path: Path) -> None:
    away = tmp_path / "elsewhere"
    for one in (
        replace(order, folder=str(away), leases=str(away / "leases")),
        # The same folder, but the head that asked for the part is not the one that is there now.
        replace(order, head=replace(order.head, pid=1)),
    ):
        (over,) = do_part(one, {}, seconds=0.1)
        assert isinstance(over, Over)
        assert over.code == UNSEEN_CODE
        assert f"does not see {one.folder}" in over.reason
    assert not away.exists()
    assert not Path(order.folder, "made").exists()


def test_files_travel_there_and_back(order: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMG_SCRATCH", str(tmp_path / "scratch"))
    told = replace(order, job=part("well"), copied=True, snapshot_seconds=0.05)
    words = list(do_part(told, {"made/well.txt": b"4", "made/other.txt": b"left alone"}))
    assert isinstance(words[0], Began)
    assert all(isinstance(word, Brought) for word in words[1:-1])
    over = words[-1]
    assert isinstance(over, Over)
    assert (over.code, over.files["made/well.txt"]) == (0, b"10")
    assert b"from 4" in over.log
    # Nothing of it is left there, and nothing was written where the head is.
    assert not list((tmp_path / "scratch").glob("*/*"))
    assert not Path(order.folder, "made").exists()
    spread(Path(order.folder), over.files)
    assert Path(order.folder, "made", "well.txt").read_text() == "10"


def test_checkpoints_travel_first_and_no_path_leads_out(tmp_path: Path) -> None:
    run = tmp_path / "here" / "runs" / "a"
    (run / "checkpoints" / "step_5").mkdir(parents=True)
    (run / "checkpoints" / "step_5" / "state").write_bytes(b"x")
    (run / "agents").mkdir()
    for name in ("agents/card.json", "metrics.csv", ".writing-metrics.csv"):
        (run / name).write_bytes(b"y")
    files = collect(tmp_path / "here", ["runs/a", "missing"])
    assert list(files) == ["runs/a/checkpoints/step_5/state", "runs/a/agents/card.json", "runs/a/metrics.csv"]
    assert "runs/a/checkpoints/step_5/state" not in collect(tmp_path / "here", ["runs"], whole=False)
    there = tmp_path / "there"
    (there / "runs" / "a").mkdir(parents=True)
    (there / "runs" / "a" / "old.csv").write_bytes(b"z")
    (there / "kept.csv").write_bytes(b"z")
    spread(there, files, replaced=["runs/a"])
    assert collect(there, ["runs", "kept.csv"]) == {**files, "kept.csv": b"z"}
    for name in ("../x", "/tmp/x"):
        with pytest.raises(UserError, match="leads to"):
            spread(there, {name: b""})
    with pytest.raises(UserError, match="leads to"):
        collect(there, ["../here"])


def test_scratch_folders_are_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMG_SCRATCH", str(tmp_path))
    assert scratch("a", "/x", "train omg") == scratch("a", "/x", "train omg") != scratch("b", "/x", "train omg")
    (root,) = tmp_path.iterdir()
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("code", "expected"),
    [(-9, True), (130, True), (143, True), (DISK_CODE, True), (LOST_CODE, True), (1, False), (2, False)],
)
def test_what_its_machine_has_failed_is_begun_again(code: int, expected: bool) -> None:
    assert may_go_better(code) is expected
