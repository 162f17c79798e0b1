"""Runs generated input until the counts or the time are reached: `PYTHONPATH=tests python -m fuzz`, or `make fuzz`.

Every case has a number and comes from `FUZZ_SEED` and that number alone, so a failure is repeated by itself.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from random import Random
from typing import Any

from .cases import COUNTS, PARTS, begin, work
from .harness import scratch_root

_BATCH = 10


def main() -> int:
    """Returns 0 when no case failed."""
    parser = argparse.ArgumentParser(description="Generated command lines, plans and damaged files.")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "1500")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FUZZ_SEED", "1")))
    parser.add_argument("--part", choices=list(PARTS), help="Only this part.")
    parser.add_argument("--case", type=int, help="Only this case, with its details.")
    parser.add_argument("--count", type=int, help="Cases of each part instead of the usual number.")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omg-fuzz-material-", dir=scratch_root()) as scratch:
        if given.case is not None:
            begin(scratch)
            found = work((given.part, given.seed, [given.case]))[2]
            print("".join(found) or "no failure")
            return bool(found)
        return _run_all(given, scratch)


def _run_all(given: Any, scratch: str) -> int:
    parts = [given.part] if given.part else list(PARTS)
    tasks = [
        (part, given.seed, list(range(first, min(first + _BATCH, given.count or COUNTS[part]))))
        for part in parts
        for first in range(0, given.count or COUNTS[part], _BATCH)
    ]
    # Mixed, so that whatever the time allows is something of everything.
    Random(given.seed).shuffle(tasks)
    print(f"seed {given.seed}, at most {given.seconds:.0f} s, {given.workers} processes", flush=True)
    done, failed, began = dict.fromkeys(parts, 0), 0, time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.workers, context, begin, (scratch,)) as pool:
        waiting = {pool.submit(work, task): task for task in tasks}
        for ended in as_completed(waiting):
            try:
                part, count, found = ended.result()
            except BrokenProcessPool:
                print(f"FAILED: a process was killed, perhaps for its memory, near {waiting[ended]}", flush=True)
                failed += 1
                break
            done[part] += count
            failed += len(found)
            for text in found:
                print(f"FAILED {part}: {text}", flush=True)
            if time.monotonic() - began > given.seconds:
                print("the time is up", flush=True)
                break
        pool.shutdown(wait=True, cancel_futures=True)
    counts = ", ".join(f"{count} {part}" for part, count in done.items())
    print(f"{counts} in {time.monotonic() - began:.0f} s: {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
