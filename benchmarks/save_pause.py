"""How long saving stops training: 8m with a full replay buffer of 5,000 episodes (1 GB).

The same steps are trained twice from the same checkpoint, without any save and with several, by the loop that trains
every run. `pause_s` is what each save kept the loop from training; `cost_s` is by how much the steps took longer in
all, for each save. The steps between two saves are chosen so that they take `--seconds`.

    python benchmarks/save_pause.py --output benchmarks/results/save_pause_cpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from machine import machine

from omg.components.replay import Storage
from omg.config import Config, adjust, resolve
from omg.training.checkpoint import save_checkpoint
from omg.training.device import prepare
from omg.training.loop import Trainer
from omg.training.program import Program
from omg.training.progress import Progress
from omg.training.state import RunState

SETTINGS = {"env_args.map_name": "8m", "updates_per_episode": 0.125, "log_interval": 1, "test_interval": 10**9}
"""One round of play and four updates are a chunk; no tests."""
LENGTH = 40
"""Steps of the episodes that the buffer is filled with."""


class Silent:
    """A reporter that nobody hears."""

    def say(self, message: str) -> None: ...

    def step(self, title: str) -> None: ...

    def busy(self, title: str) -> None: ...

    def rows(self, rows: object) -> None: ...

    def speed(self, speed: object, headline: object) -> None: ...

    def tested(self, t_env: int, headline: object) -> None: ...

    def position(self) -> int:
        return 0

    def rewind(self, position: int) -> None: ...


class Timed(Trainer):
    """Notes when it saves, and when it has trained all its steps."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.pauses: list[float] = []
        self.began = self.ended = 0.0

    def _compile(self, state: RunState) -> Any:
        found = super()._compile(state)
        self._compiled()  # The clock begins when there is nothing left to compile.
        self.began = time.perf_counter()
        return found

    def _save(self, *args: Any, **how: bool) -> None:
        began = time.perf_counter()
        super()._save(*args, **how)
        self.pauses.append(time.perf_counter() - began)

    def _finish(self, *args: Any) -> None:
        self.ended = time.perf_counter()
        saves = len(self.pauses)
        super()._finish(*args)
        self.last = self.pauses[saves:]
        del self.pauses[saves:]


def filled(storage: Storage, key: jax.Array) -> Storage:
    """A replay buffer full of noise: what was never written to takes no memory yet."""

    def noise(leaf: jax.Array) -> jax.Array:
        if leaf.dtype == bool:
            return jnp.ones_like(leaf)
        return jax.random.normal(key, leaf.shape, jnp.float16).astype(leaf.dtype)

    full = jax.tree.map(noise, storage)
    there = jnp.broadcast_to(jnp.arange(full.filled.shape[2]) < LENGTH, full.filled.shape)
    return full._replace(filled=there, terminated=jnp.zeros_like(full.terminated), actions=full.actions * 0)


def timed(config: Config, begun: Path, work: Path) -> dict[str, Any]:
    """How long a run took that went on from the checkpoints in `begun`."""
    shutil.copytree(begun, work, copy_function=os.link)
    run = Timed(Program(config), work, Silent(), lambda *_: None)
    run.run()
    row = {"steps": config.t_max, "seconds": run.ended - run.began, "pauses_s": run.pauses, "last_save_s": run.last}
    return {**row, "save_model_interval": config.save_model_interval}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buffer", type=int, default=5000, help="episodes")
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of training between two saves")
    parser.add_argument("--folder", type=Path, help="where checkpoints are written; the system's temporary folder")
    parser.add_argument("--label", default="", help="a word that the result is to carry")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)

    def config(**keys: object) -> Config:
        return adjust(resolve("iql", "sc2", {**SETTINGS, "buffer_size": args.buffer, **keys}).config, has_gpu)[0]

    probe = config()
    program = Program(probe)
    state = program.init(jnp.asarray([probe.seed], jnp.uint32))
    storage = jax.jit(filled, donate_argnums=0)(state.storage, jax.random.PRNGKey(0))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(storage))
    state = state._replace(storage=storage, episodes=jnp.int32(args.buffer), stored=jnp.int32(args.buffer))
    rows: dict[str, Any] = {"machine": machine(), "label": args.label, "buffer_bytes": size, "settings": SETTINGS}
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        begun = Progress(last_test=0, last_log=0, last_save=0, tested_at=[0], newest_test=[{}])
        save_checkpoint(Path(scratch) / "begun", state, asdict(begun), with_buffer=True, keep=2)
        chunk = program.chunk.lower(state).compile()  # type: ignore[attr-defined]
        state, _ = chunk(state)
        before, began = int(state.t_env.numpy().sum()), time.perf_counter()
        while (taken := time.perf_counter() - began) < args.seconds:
            state, log = chunk(state)
            jax.block_until_ready(log)
        interval = int((int(state.t_env.numpy().sum()) - before) / taken * args.seconds)
        del state, chunk, program, storage
        steps = interval * (args.saves + 1)
        for name, every in (("without", steps * 2), ("with", interval)):
            run = config(t_max=steps, save_model_interval=every)
            rows[name] = timed(run, Path(scratch) / "begun", Path(scratch) / name)
            print(name, rows[name], flush=True)
    pauses = rows["with"]["pauses_s"]
    rows["pause_s"] = median(pauses)
    rows["cost_s"] = (rows["with"]["seconds"] - rows["without"]["seconds"]) / len(pauses)
    print(f"{size / 1e9:.2f} GB: a save stops training for {rows['pause_s']:.3f} s and costs {rows['cost_s']:.2f} s")
    if args.output:
        args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
