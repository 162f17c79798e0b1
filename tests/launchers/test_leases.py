"""Leases: one holder at a time, taken over when it is gone, on whatever machine it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from omg.errors import UserError
from omg.launchers import lease
from omg.launchers.lease import Lease, Watch, here, look


def nobody() -> None:
    raise AssertionError("nothing was lost")


def elsewhere(place: Path, name: str, number: int = 1, **changes: Any) -> Path:
    """The file of a holder on another machine."""
    place.mkdir(exist_ok=True)
    path = place / f"{name}.{number}.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**asdict(here()), "host": "node-7", "state": "held", "beat": 3} | changes))
    fresh.replace(path)  # Whoever looks meanwhile sees the one or the other, as with a real one.
    return path


def test_one_holds_it_and_the_next_number_follows(tmp_path: Path) -> None:
    with Lease.take(tmp_path, "train-omg", lost=nobody) as first:
        seen = look(tmp_path, "train-omg")
        assert (seen.number, seen.holder, seen.state) == (1, here(), "held")
        with pytest.raises(UserError, match=rf"process {os.getpid()} on .* is at work here"):
            Lease.take(tmp_path, "train-omg", lost=nobody)
        with Lease.take(tmp_path, "train", lost=nobody) as other:
            assert (first.number, other.number) == (1, 1)
    assert look(tmp_path, "train-omg").is_free
    with Lease.take(tmp_path, "train-omg", lost=nobody) as second:
        assert second.number == 2


def test_a_holder_of_this_machine_that_is_gone_is_replaced_at_once(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from omg.launchers.lease import Lease\n"
        "Lease.take(Path(sys.argv[1]), 'part', lost=print); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert look(tmp_path, "part").state == "held"
    with Lease.take(tmp_path, "part", lost=nobody, patience=60) as taken:
        assert taken.number == 2
    # Another process has got its number by now.
    elsewhere(tmp_path, "part", 3, host=here().host, born="1")
    assert look(tmp_path, "part").is_free


def test_a_holder_elsewhere_is_judged_by_its_beats(tmp_path: Path) -> None:
    path = elsewhere(tmp_path, "part")
    watch = Watch(tmp_path, "part", patience=0.3)
    for beat in range(4, 8):
        assert not watch.is_free()
        elsewhere(tmp_path, "part", beat=beat)
        time.sleep(0.15)
    assert not watch.is_free()
    # It beats: whoever does not wait is told so.
    beating = threading.Thread(target=lambda: [(time.sleep(0.1), elsewhere(tmp_path, "part", beat=n)) for n in (8, 9)])
    beating.start()
    with pytest.raises(UserError, match="on node-7 is at work here"):
        Lease.take(tmp_path, "part", lost=nobody, patience=5)
    beating.join()
    told: list[lease.LeaseView] = []
    began = time.monotonic()
    with Lease.take(tmp_path, "part", lost=nobody, patience=0.5, wait=told.append) as taken:
        assert time.monotonic() - began >= 0.5
        assert taken.number == 2
    assert [seen.holder.host for seen in told if seen.holder] == ["node-7"]
    assert json.loads(path.read_text())["beat"] == 9


def test_only_one_of_many_takes_over(tmp_path: Path) -> None:
    elsewhere(tmp_path, "part", state="released")
    taken: list[Lease] = []
    barrier = threading.Barrier(8)

    def take() -> None:
        barrier.wait()
        try:
            taken.append(Lease.take(tmp_path, "part", lost=nobody))
        except UserError:
            refused.append(1)

    refused: list[int] = []
    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ([one.number for one in taken], len(refused)) == ([2], 7)
    taken[0].release()


def test_a_holder_that_slept_learns_that_it_has_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.05)
    lost = threading.Event()
    held = Lease.take(tmp_path, "part", lost=lost.set)
    elsewhere(tmp_path, "part", 2)
    assert lost.wait(10)
    before = (tmp_path / "part.1.json").read_text()
    held.release()
    # It says nothing more: the lease is another's.
    assert (tmp_path / "part.1.json").read_text() == before
    assert look(tmp_path, "part").number == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"host": 1}', '{"pid": "x"}', "[" * 99])
def test_a_file_that_cannot_be_read_is_a_holder_until_it_has_been_still_for_long(text: str, tmp_path: Path) -> None:
    (tmp_path / "part.1.json").write_text(text)
    assert not look(tmp_path, "part").is_free
    with Lease.take(tmp_path, "part", lost=nobody, patience=0.1) as taken:
        assert taken.number == 2
