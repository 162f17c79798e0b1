"""How much longer the tests of a run take when their games are recorded (`save_replay`).

    python tools/recording_cost.py --config=qmix --env-config=sc2 with env_args.map_name=8m

plays the tests of three programs in turns, a few in a row: without `save_replay`, with it and `replay_tests: last`
(games are filmed), and with `replay_tests: all` (they are written as well, beside the next test; the last one of a row
is waited for). Printed are the medians of the time and of the processor time of a test, which other work of the machine
disturbs less, and the size of the largest file.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from omg.components import Count
from omg.config import adjust, change_config, resolve
from omg.config.overrides import translate
from omg.recordings.runs import Recorder
from omg.training.device import prepare
from omg.training.program import Program, build_program

ROUNDS = 15
TESTS = 8
"""In a row."""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a test, and seconds of the processor."""
    began, busy = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - began) / TESTS, (time.process_time() - busy) / TESTS


def main() -> None:
    """Measures the configuration of the command line."""
    line = translate(sys.argv[1:])
    has_gpu = prepare(use_cuda=True)
    config, _ = adjust(resolve(line.config, line.env_config, line.overrides).config, has_gpu)
    plain = build_program(change_config(config, save_replay=False))
    filming = build_program(change_config(config, save_replay=True, replay_tests="last"))
    writing = build_program(change_config(config, save_replay=True, replay_tests="all"))
    state = plain.init(jnp.arange(config.seeds, dtype=jnp.uint32))
    everybody = list(range(config.seeds))
    number = itertools.count(1)

    def tests(program: Program, recorder: Recorder | None) -> None:
        for _ in range(TESTS):
            reached = state._replace(t_env=Count.of(next(number), (config.seeds,)))
            stats, _, film = jax.device_get(program.test(reached))
            if recorder is not None:
                recorder.keep(reached, film, stats, everybody)
        if recorder is not None:
            recorder.wait()

    with tempfile.TemporaryDirectory() as folder:
        works: dict[str, Callable[[], object]] = {
            "plain": partial(tests, plain, None),
            "last": partial(tests, filming, Recorder(filming, Path(folder) / "last")),
            "all": partial(tests, writing, Recorder(writing, Path(folder) / "all")),
        }
        for work in works.values():
            work()
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                taken[name].append(timed(work))
        sizes = [file.stat().st_size for file in Path(folder).rglob("*.omgrec")]
    print(f"{config.name} in {config.env} {plain.spec.scenario}, {config.test_nepisode} games, {jax.devices()[0]}")
    for name, times in taken.items():
        shown = [name.ljust(6)]
        for at, what in enumerate(("time", "processor")):
            middle, base = (statistics.median(each[at] for each in of) for of in (times, taken["plain"]))
            shown.append(f"{what} {1000 * middle:.0f} ms ({100 * (middle / base - 1):+.1f} %)")
        print(", ".join(shown))
    print(f"{len(sizes)} recordings, the largest {max(sizes) / 1000:.1f} kB")


if __name__ == "__main__":
    main()
