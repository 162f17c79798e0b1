"""How much longer the tests of a run take when their games are recorded (`save_replay`).

    python tools/recording_cost.py --config=qmix --env-config=sc2 with env_args.map_name=8m

plays the tests of two programs in turns, one with `save_replay` and one without, and prints the median times of a test,
what the film adds to it, and what it takes to keep it (`replay_tests: last`) or to write it (`all`), with the size of
the files.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from omg.config import adjust, change_config, resolve
from omg.config.overrides import translate
from omg.recordings.runs import Recorder
from omg.training.device import prepare
from omg.training.program import Tested, build_program

ROUNDS = 15


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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

    def test(program: object) -> Tested:
        tested: Tested = jax.device_get(program.test(state))
        return tested

    with tempfile.TemporaryDirectory() as folder:
        keeper, writer = Recorder(filming, Path(folder) / "last"), Recorder(writing, Path(folder) / "all")

        def recorded(program: object, recorder: Recorder) -> None:
            stats, _, film = test(program)
            assert film is not None
            recorder.keep(state, film, stats, everybody)

        works: dict[str, Callable[[], object]] = {
            "plain": lambda: test(plain),
            "last": lambda: recorded(filming, keeper),
            "all": lambda: recorded(writing, writer),
        }
        for work in works.values():
            work()
        taken = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                taken[name].append(timed(work))
        sizes = [file.stat().st_size for file in Path(folder).rglob("*.omgrec")]
    base = statistics.median(taken["plain"])
    print(f"{config.name} in {config.env} {plain.spec.scenario}, {config.test_nepisode} games, {jax.devices()[0]}")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(
            f"{name:6} {1000 * middle:8.1f} ms, best {1000 * min(seconds):8.1f} ms, {100 * (middle / base - 1):+.1f} %"
        )
    print(f"{len(sizes)} recordings, the largest {max(sizes) / 1000:.1f} kB")


if __name__ == "__main__":
    main()
