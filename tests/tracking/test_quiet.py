"""What XLA says about itself does not break the progress bar, and nothing else is kept from the screen."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

from omg.tracking.quiet import quiet_compiler, sort_messages

LOADER = b"E1118 01:40:03.123456  999 cpu_aot_loader.cc:195] Loading XLA:CPU AOT result. Target machine feature +x\n"
ALARM = (
    b"2026-11-18 01:40:03.694439: E external/xla/xla/service/slow_operation_alarm.cc:65] Constant folding an "
    b"instruction is taking > 1s:\n\n  %reduce.8 = f32[2]{0} reduce(...)\n\nThis isn't necessarily a bug\n"
)
REAL = b"E1118 01:40:04.000001  999 cuda_executor.cc:12] failed to allocate 3.1GiB\n"
SAID = "import os, sys; from pathlib import Path; from omg.tracking.quiet import quiet_compiler\n"


class Chunks(io.RawIOBase):
    """Hands over one chunk per read, as a pipe does."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    def read1(self, _size: int) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""


def sorted_out(*chunks: bytes) -> tuple[bytes, bytes]:
    screen, log = io.BytesIO(), io.BytesIO()
    sort_messages(Chunks(*chunks), screen, log)  # type: ignore[arg-type]
    return screen.getvalue(), log.getvalue()


def test_remarks_are_told_from_everything_else() -> None:
    assert sorted_out(LOADER + REAL + ALARM) == (REAL, LOADER + ALARM)
    assert sorted_out(ALARM, b"Fatal Python error: Aborted\n") == (b"Fatal Python error: Aborted\n", ALARM)
    assert sorted_out(ALARM[:150], ALARM[150:], REAL) == (REAL, ALARM), "a remark may come in two pieces"
    assert sorted_out(b"words\n", LOADER, b"more words") == (b"words\nmore words", LOADER)


def run(tmp_path: Path, body: str) -> tuple[int, bytes, bytes]:
    """Exit code, standard error and log of a process that works inside `quiet_compiler`."""
    log = tmp_path / "console.log"
    log.write_bytes(b"before\n")
    code = f"{SAID}with quiet_compiler(Path({str(log)!r})):\n    {body}\nprint('after', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    return done.returncode, done.stderr, log.read_bytes()


def test_a_process_keeps_its_own_words_on_the_screen(tmp_path: Path) -> None:
    body = f"os.write(2, {LOADER!r}); os.write(2, {REAL!r}); print('from Python', file=sys.stderr)"
    code, screen, log = run(tmp_path, body)
    assert code == 0
    assert sorted(screen.splitlines()) == sorted([REAL.rstrip(), b"from Python", b"after"])
    assert log == b"before\n" + LOADER


def test_the_last_words_of_a_dying_process_are_seen(tmp_path: Path) -> None:
    code, screen, log = run(tmp_path, f"os.write(2, {LOADER!r}); os.write(2, b'F0000 check failed\\n'); os.abort()")
    assert code == -signal.SIGABRT
    assert screen == b"F0000 check failed\n"
    assert log == b"before\n" + LOADER


def test_a_captured_standard_error_is_left_alone(tmp_path: Path) -> None:
    inside = sys.stderr
    with quiet_compiler(tmp_path / "console.log"):
        assert sys.stderr is inside
    assert not (tmp_path / "console.log").exists()
