"""What a launcher adds to a part: parts that do nothing, one after another, beside their processes alone.

    python benchmarks/launcher_overhead.py --output benchmarks/results/launcher_overhead_cpu.json

A part is handed over when the one before it has ended. Of its seconds, from being handed over until its end is heard,
those of the same process started by hand are taken away. Slurm is submitit's local executor: it starts its jobs at
once, and a real queue takes what it takes. Ray is a cluster of this machine's own; its start is counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from omg.launchers import Job, JobEnd, LauncherSettings, Site, opened
from omg.launchers.process import ENVIRONMENT, command
from omg.launchers.serving import Tie, serve

LAUNCHERS = {
    "local": {"launcher": "local", "jobs": 1},
    "ray": {"launcher": "ray", "jobs": 1},
    "slurm, submitit's local executor": {"launcher": "slurm", "jobs": 1, "executor": "local"},
}


def nothing(number: int) -> Job:
    """A part that does nothing."""
    return Job(f"part {number}", Path(__file__).stem, ("part",))


def alone(folder: Path, parts: int) -> list[float]:
    """Seconds of each of some parts' processes without a launcher."""
    found = []
    for number in range(parts):
        words = command(nothing(number), folder, Tie(os.getpid()), sys.executable)
        began = time.perf_counter()
        subprocess.run(words, check=True, env={**os.environ, **ENVIRONMENT})
        found.append(time.perf_counter() - began)
    return found


def launched(settings: LauncherSettings, folder: Path, parts: int) -> tuple[float, list[float]]:
    """Seconds until a launcher is there, and those of each of some parts with it."""
    folder.mkdir()
    numbers = iter(range(parts))
    begins: list[float] = []
    ends: list[float] = []

    def next_job() -> Job | None:
        if len(begins) > len(ends) or (number := next(numbers, None)) is None:
            return None
        begins.append(time.perf_counter())
        return nothing(number)

    def ended(end: JobEnd) -> None:
        assert end.done, end
        ends.append(time.perf_counter())

    began = time.perf_counter()
    with opened(settings, Site(folder, folder / "logs", folder / "leases", print)) as launcher:
        there = time.perf_counter() - began
        launcher.run(next_job, ended)
    return there, [end - begin for begin, end in zip(begins, ends, strict=True)]


def main() -> None:
    """Measures all launchers, prints and stores what came out."""
    from machine import machine

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    with tempfile.TemporaryDirectory(prefix="omg-launchers-") as place:
        root = Path(place)
        process = alone(root, arguments.parts)
        found = {}
        for name, words in LAUNCHERS.items():
            there, parts = launched(
                LauncherSettings.model_validate(words), root / str(words["launcher"]), arguments.parts
            )
            own = statistics.median(process)
            found[name] = {
                "start_s": round(there, 3),
                "first_part_s": round(parts[0] - own, 3),
                "part_s": round(statistics.median(parts[1:]) - own, 3),
                "slowest_part_s": round(max(parts[1:]) - own, 3),
            }
    result = {
        "command": " ".join(["python", "benchmarks/launcher_overhead.py", *sys.argv[1:]]),
        "machine": machine(),
        "parts": arguments.parts,
        "process_alone_s": round(statistics.median(process), 3),
        "added": found,
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if arguments.output is not None:
        arguments.output.write_text(text)


if __name__ == "__main__":
    if sys.argv[2:3] == ["part"]:
        sys.exit(serve(lambda: None, sys.argv[3]))
    main()
