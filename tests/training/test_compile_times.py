"""What compiling took last time."""

from __future__ import annotations

from pathlib import Path

from helpers.tiny import tiny_config
from omg.training.compile_times import CompileTimes


def test_how_long_a_program_took_is_a_hint(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    times = CompileTimes(str(tmp_path / "compiled"), config, "cpu")
    assert times.last("tests") is None
    times.keep("tests", 12.34)
    times.keep("play with learning", 0.5)  # Out of the cache: not how long it takes.
    assert (times.last("tests"), times.last("play with learning")) == (12.3, None)
    assert CompileTimes(str(tmp_path / "compiled"), config, "NVIDIA H200").last("tests") is None
    (found,) = tmp_path.glob("*.json")
    for damaged in ("{", "[]", found.read_text().replace("12.3", '"long"'), found.read_text().replace("12.3", "-1")):
        found.write_text(damaged)
        assert times.last("tests") is None
        times.keep("tests", 20.0)
        assert times.last("tests") == 20.0
    CompileTimes(None, config, "cpu").keep("tests", 12.0)
