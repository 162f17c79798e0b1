"""Training of EPyMARL, by its own `run`, beside ours on the same games of `lbforaging`: in turns, with equal work.

Nothing of EPyMARL is in this repository: it is loaded from a checkout, whose path is given, by a Python that has
PyTorch and Sacred. Its own algorithm and environment files count, but for what `WORK` says. Both play the games of the
package `lbforaging` in worker processes; the rate is read off what each logs while it trains, after the first quarter
of the run, so that neither starting nor compiling counts.

    git clone https://github.com/uoe-agents/epymarl PEER
    pip install torch 'omg-marl[envs,sacred]'
    python benchmarks/peers/beside_epymarl.py --checkout PEER --output benchmarks/results/beside_epymarl_cpu.json

On a machine with a GPU, `--cuda` lets both learn there; the games stay on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

KEY, LIMIT = "lbforaging:Foraging-8x8-2p-3f-v3", 50
WORK = f"""\
game        {KEY}, {LIMIT} steps at most, one reward for all seats, from the same package
games       {{games}} a round; theirs in a process each, ours in {{workers}} worker processes
network     input layer 64, GRU 64, output layer, one for all seats; reads last action and number of the seat
updates     one for every {{games}} episodes, from 32 episodes of a buffer of 5000; double Q, target network
QMIX        mixing width 32; theirs and ours with hypernetworks of two layers, 64 wide
threads     PyTorch: one, as EPyMARL's own main.py has it; JAX: its own choice
tests       none but the first, before the clock starts"""
"""Equal work, line by line."""
_THEIRS: dict[str, Any] = {
    "runner": "parallel",
    "hidden_dim": 64,
    "obs_last_action": True,
    "obs_agent_id": True,
    "batch_size": 32,
    "buffer_size": 5000,
    "mixing_embed_dim": 32,
    "hypernet_layers": 2,
    "hypernet_embed": 64,
    "log_interval": 1000,
    "runner_log_interval": 1000,
    "learner_log_interval": 1000,
    "save_model": False,
}


class Moment(NamedTuple):
    """When so many steps were done."""

    steps: int
    seconds: float


def rate(moments: list[Moment]) -> float:
    """Env steps per second after the first quarter of the steps."""
    last = moments[-1]
    first = next(one for one in moments if one.steps >= last.steps / 4)
    return (last.steps - first.steps) / (last.seconds - first.seconds)


class _Watch(logging.Handler):
    """Notes when EPyMARL says how far it is."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Moment] = []

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"Recent Stats \| t_env:\s+(\d+)", record.getMessage()):
            self.moments.append(Moment(int(found[1]), time.perf_counter()))


def train_theirs(checkout: Path, algorithm: str, games: int, steps: int, cuda: bool) -> list[Moment]:
    """One run of theirs, in this process, which has PyTorch."""
    import torch
    import yaml

    sys.path.insert(0, str(checkout / "src"))
    for missing in ("smaclite", "tensorboard_logger"):  # Imported whether they are used or not.
        if importlib.util.find_spec(missing) is None:
            sys.modules[missing] = ModuleType(missing)
    torch.set_num_threads(1)  # As EPyMARL's main.py does in processes of its own.
    config: dict[str, Any] = {}
    for name in ("default", "envs/gymma", f"algs/{algorithm}"):
        config |= yaml.safe_load((checkout / "src" / "config" / f"{name}.yaml").read_text())
    config |= {**_THEIRS, "batch_size_run": games, "t_max": steps, "test_interval": 10 * steps, "seed": 1}
    config |= {"test_nepisode": games, "use_cuda": cuda}
    config["env_args"] = {**config["env_args"], "key": KEY, "time_limit": LIMIT, "seed": 1}
    run = importlib.import_module("run")
    log, watch = logging.getLogger("epymarl"), _Watch()
    log.setLevel(logging.INFO)
    log.addHandler(watch)
    with tempfile.TemporaryDirectory() as results:
        config["local_results_path"] = results
        _until_exit(lambda: run.run(SimpleNamespace(info={}, log_scalar=lambda *_: None), config, log))
    return watch.moments


def _until_exit(work: Any) -> None:
    """Their `run` ends its process with `os._exit`; here it comes back instead."""
    import os

    class _EndedError(Exception):
        pass

    def ended(_: int) -> None:
        raise _EndedError

    leave, os._exit = os._exit, ended  # type: ignore[assignment]
    try:
        work()
    except _EndedError:
        pass
    finally:
        os._exit = leave


def train_ours(algorithm: str, games: int, workers: int, steps: int, cuda: bool) -> list[Moment]:
    """One run of ours."""
    import host_speed

    from omg.training.device import prepare

    has_gpu = prepare(use_cuda=cuda, on_host=True)
    return [Moment(*one) for one in host_speed.train(algorithm, workers, games, steps, has_gpu and cuda)]


def child(side: str, args: argparse.Namespace, algorithm: str) -> list[Moment]:
    """One run in a process of its own."""
    python = args.python if side == "theirs" else sys.executable
    told = [f"--side={side}", f"--algorithms={algorithm}", f"--games={args.games}", f"--steps={args.steps}"]
    told += [f"--workers={args.workers}", f"--checkout={args.checkout}", *(["--cuda"] if args.cuda else [])]
    done = subprocess.run([python, __file__, *told], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}, {algorithm}:\n{done.stderr[-3000:]}")
    return [Moment(*one) for one in json.loads(done.stdout.splitlines()[-1])]


def measure(algorithm: str, args: argparse.Namespace) -> dict[str, Any]:
    """One algorithm, in turns; prints and returns its row."""
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(args.rounds):
        for side in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            rates[side].append(rate(child(side, args, algorithm)))
    ratios = [own / other for own, other in zip(rates["ours"], rates["theirs"], strict=True)]
    row = {"algorithm": algorithm, "ratio": median(ratios), "ratios": ratios, **rates}
    mine, other = (median(rates[side]) for side in ("ours", "theirs"))
    print(f"{algorithm}: {row['ratio']:.2f} ({mine:,.0f} and {other:,.0f} env steps/s)", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="their repository")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch, for their side")
    parser.add_argument("--algorithms", default="iql,qmix")
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2, help="worker processes of ours")
    parser.add_argument("--steps", type=int, default=40_000, help="of each run")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--cuda", action="store_true", help="learn on the GPU, on both sides")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--side", choices=("ours", "theirs"), help="one run alone; prints its moments")
    args = parser.parse_args()
    if args.side == "theirs":
        print(json.dumps(train_theirs(args.checkout, args.algorithms, args.games, args.steps, args.cuda)))
        return
    if args.side == "ours":
        print(json.dumps(train_ours(args.algorithms, args.games, args.workers, args.steps, args.cuda)))
        return
    from machine import machine

    rows = [measure(name, args) for name in args.algorithms.split(",")]
    revision = subprocess.run(
        ["git", "-C", str(args.checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    asked = "import torch, sys; print(torch.__version__, sys.version.split()[0])"
    theirs = subprocess.run([args.python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    result = {"command": sys.argv, "machine": machine(), "epymarl": revision, "torch": theirs[0], "python": theirs[1]}
    result |= {"lbforaging": version("lbforaging"), "rows": rows}
    result["work"] = WORK.format(games=args.games, workers=args.workers).splitlines()
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
