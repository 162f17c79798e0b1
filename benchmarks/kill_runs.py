"""Kills runs at random moments with `kill -9`, resumes them, and compares what they come to with undisturbed runs.

For every kind of run a reference is made first. Then the same run is started and killed again and again, at moments
drawn over its whole duration, and continued with `omg resume`, until it ends by itself. Its metrics.csv and the weights
of all its agents must be those of the reference, byte for byte, and no process may be left after a kill::

    python benchmarks/kill_runs.py --kills 200 --workers 2 --seed 0 --output benchmarks/results/kill_runs.json

With `--saving` every kill waits for the next checkpoint to be under way: its folder is there, but not yet in its place.
`save_under_way` counts those of which half a checkpoint was left.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
MARK = "OMG_KILL_RUNS"
LANE = 10
"""Most kills of one lane; the lanes of a kind are independent runs."""
MOST_IN_A_ROW = 8
"""A run that was killed so often is left in peace until it ends."""
MOST_INTO_SAVE = 0.01
"""Seconds between the first sight of a checkpoint that is being written and the latest kill."""
PHASES = {"s": "start", "c": "compile", "t": "train", "e": "test", "w": "save"}

FORAGING = {"rows": 4, "cols": 4, "players": 2, "max_food": 1, "max_player_level": 2, "episode_limit": 8}
EVERY = {"test_nepisode": 4, "batch_size_run": 4, "use_cuda": False, "use_tensorboard": False}
OFTEN = {"test_interval": 100, "log_interval": 20, "save_model_interval": 50}
REPLAY = {"batch_size": 8, "buffer_size": 32, "rnn_hidden_dim": 16, "target_update_interval": 16}
SUBGOALS = {"am_hidden_dim": 8, "subgoal_dim": 4, "omg_horizon": 2, "diagnostics_interval": 1000}
HUNT = {"size": 3, "players": 2, "hares": 1, "stags": 1, "blocks": 0, "episode_limit": 5}
SEARCH = {"hop_simulations": 3, "hop_samples": 2, "hop_hidden_dim": 8, "batch_size_run": 2, "test_nepisode": 2}
PARALLEL = {"runner": "parallel", "workers": 2}
LINE = {"key": "kill_runs:Line", "time_limit": 8}

KINDS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "q": ("iql", "foraging", FORAGING, {**EVERY, **OFTEN, **REPLAY, "t_max": 6000}),
    "omg": ("1pool1iql_omg", "foraging", FORAGING, {**EVERY, **OFTEN, **REPLAY, **SUBGOALS, "t_max": 2500}),
    "ppo": ("ippo", "foraging", FORAGING, {**EVERY, **OFTEN, "rnn_hidden_dim": 16, "ppo_epochs": 2, "t_max": 5000}),
    "hop": ("hop", "stag_hunt", HUNT, {**EVERY, **OFTEN, **SEARCH, "t_max": 1200}),
    "parallel": ("iql", "gymma", LINE, {**EVERY, **OFTEN, **REPLAY, **PARALLEL, "t_max": 3000}),
}
"""Kind -> algorithm, environment, its options, settings."""

GYMNASIUM = """
class Discrete:
    def __init__(self, n):
        self.n, self.start = n, 0
class Box:
    def __init__(self, low, high, shape):
        self.shape = shape
class Dict:
    pass
class Tuple(tuple):
    pass
def flatdim(space):
    return space.shape[0]
"""
"""What gymma uses of Gymnasium's spaces, for a machine without it."""


class Line:
    """Two seats on a line; an episode takes 3 to 8 steps, all of which its seed decides."""

    def __init__(self) -> None:
        from gymnasium import spaces

        self.observation_space = spaces.Tuple([spaces.Box(-9, 9, (2,))] * 2)
        self.action_space = spaces.Tuple([spaces.Discrete(3)] * 2)

    def reset(self, *, seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
        self.random = np.random.default_rng(seed)
        self.length, self.place, self.steps = int(self.random.integers(3, 9)), float(seed % 7), 0
        return self._seen(), {}

    def step(self, actions: list[int]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place += float(self.random.normal()) + actions[0] - actions[1]
        return self._seen(), [self.place, float(actions[1])], self.steps >= self.length, False, {}

    def _seen(self) -> list[np.ndarray]:
        place = np.float32(np.clip(self.place, -9, 9))
        return [np.array([place, self.steps], np.float32), np.array([-place, self.steps], np.float32)]


# ------------------------------------------------------------------------------------------------ in the killed process


def run_omg(phase_file: str, words: list[str]) -> int:
    """`omg WORDS`, which notes in a file of one letter what it is doing."""
    place = os.open(phase_file, os.O_RDWR | os.O_CREAT)

    def note(letter: str) -> None:
        os.pwrite(place, letter.encode(), 0)

    note("s")
    from omg.cli import main
    from omg.training import loop, saving

    def noted(owner: Any, name: str, letter: str) -> None:
        function = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before = os.pread(place, 1, 0).decode()
            note(letter)
            try:
                return function(*args, **kwargs)
            finally:
                note("t" if before == "c" else before)

        setattr(owner, name, wrapped)

    noted(loop.Trainer, "_compile", "c")
    noted(loop.Trainer, "_test", "e")
    noted(loop.Trainer, "_compare_controls", "e")
    noted(loop.Trainer, "_finish", "w")
    noted(saving, "write_checkpoint", "w")
    return main(words)


# ---------------------------------------------------------------------------------------------------------- the killing


class Kind:
    """One kind of run, its reference and what has happened to it."""

    def __init__(self, name: str, work: Path, *, saving: bool = False) -> None:
        self.name, self.work, self.saving = name, work / name, saving
        self.algorithm, self.env, options, settings = KINDS[name]
        self.settings = {**settings, **{f"env_args.{key}": value for key, value in options.items()}}
        self.lock = threading.Lock()
        self.kills = self.resumes = self.restarts = self.compared = self.left = self.halves = 0
        self.different: list[str] = []
        self.phases: Counter[str] = Counter()
        self.duration = self.trained_after = 0.0
        self.expected: dict[str, bytes] = {}

    def make_reference(self) -> None:
        """Once to compile, and once more for the duration; the two must be equal as well."""
        self.work.mkdir(parents=True)
        if "pool" in self.algorithm:
            self.settings["init_param_path"] = self._make_pool()
        for name in ("first", "reference"):
            results = self.work / name
            began = time.monotonic()
            process = self._start(self._train(results), results)
            self.trained_after = 0.0
            while process.poll() is None:
                if not self.trained_after and self._phase(results) not in ("start", "compile"):
                    self.trained_after = time.monotonic() - began
                time.sleep(0.01)
            self.duration = time.monotonic() - began
            self._require_success(process, results)
            found = self._result(results)
            assert found, f"{self.name}: no metrics and no agents in {results}"
            assert name == "first" or found == self.expected, f"{self.name}: two undisturbed runs differ"
            self.expected = found

    def kill_often(self, lane: int, kills: int, seed: int) -> None:
        """Spends `kills` kills on as many runs as that takes."""
        draw = random.Random(f"{seed} {self.name} {lane}")
        runs = 0
        while kills:
            results = self.work / f"lane{lane}-run{runs}"
            runs += 1
            kills -= self._one_run(results, min(kills, MOST_IN_A_ROW), draw)

    def _one_run(self, results: Path, most: int, draw: random.Random) -> int:
        spent = 0
        while True:
            folder = self._folder(results)
            before = self._written(results)
            process = self._start(self._train(results) if folder is None else ["resume", str(folder)], results)
            first = 0.0 if draw.random() < 0.5 else self.trained_after
            try:
                process.wait(draw.uniform(first, self.duration) if spent < most else None)
            except subprocess.TimeoutExpired:
                if self.saving:
                    self._await_save(process, results, before, draw.uniform(0.0, MOST_INTO_SAVE))
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                spent += 1
                ended = self._ended(results)
                left = self._left_processes(results)
                with self.lock:
                    self.kills += 1
                    self.halves += bool(self._written(results) - before)
                    self.phases["end" if ended else self._phase(results)] += 1
                    self.left += left
                    if not ended:
                        self.resumes += self._folder(results) is not None
                        self.restarts += self._folder(results) is None
                if not ended:
                    continue
            else:
                self._require_success(process, results)
            found = self._result(results)
            left = self._left_processes(results)
            with self.lock:
                self.compared += 1
                self.left += left
                if found != self.expected:
                    names = self.expected.keys() | found.keys()
                    wrong = sorted(name for name in names if found.get(name) != self.expected.get(name))
                    self.different.append(f"{results}: {', '.join(wrong)}")
            return spent

    def _await_save(
        self, process: subprocess.Popen[bytes], results: Path, before: set[tuple[str, int]], after: float
    ) -> None:
        """Until a checkpoint is being written, and a moment longer; or until the run is over."""
        # Looked at without being fetched: it keeps its number, so that a signal still finds nobody else.
        over = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, process.pid, over) is None and not self._written(results) - before:
            time.sleep(0.0002)
        time.sleep(after)

    @staticmethod
    def _written(results: Path) -> set[tuple[str, int]]:
        """Checkpoints that are not yet in their places, by name and when they were begun; also what kills have left."""
        found = set()
        for path in results.glob("*/checkpoints/.writing-*"):
            with contextlib.suppress(FileNotFoundError):
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    def report(self) -> dict[str, Any]:
        return {
            "command": " ".join(["omg", *self._train(Path("RESULTS"))]),
            "seconds_undisturbed": round(self.duration, 2),
            "seconds_until_trained": round(self.trained_after, 2),
            "kills": self.kills,
            "where": dict(sorted(self.phases.items())),
            "save_under_way": self.halves,
            "resumes": self.resumes,
            "starts_anew": self.restarts,
            "runs_compared": self.compared,
            "processes_left": self.left,
            "identical": self.compared > 0 and not self.different,
            "different": self.different,
        }

    def _train(self, results: Path) -> list[str]:
        settings = {**self.settings, "local_results_path": results}
        words = [f"{key}={value}" for key, value in settings.items()]
        return ["train", f"--config={self.algorithm}", f"--env-config={self.env}", "with", *words]

    def _make_pool(self) -> Path:
        pool = self.work / "pool"
        game = [f"{key}={value}" for key, value in self.settings.items() if key.startswith("env_args.")]
        scripts = ["--scripted", "random:training,nearest_food:training", "--episodes", "4"]
        process = self._start(["pool", "train", str(pool), f"--env-config={self.env}", *scripts, *game], pool)
        process.wait()
        self._require_success(process, pool)
        return pool

    def _start(self, words: list[str], results: Path) -> subprocess.Popen[bytes]:
        phase, log = self._beside(results, "phase"), self._beside(results, "log")
        phase.write_text("s")
        environment = {**os.environ, MARK: str(results)}
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, str(HERE), "--as-omg", str(phase), *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def _phase(self, results: Path) -> str:
        return PHASES[self._beside(results, "phase").read_text()]

    def _require_success(self, process: subprocess.Popen[bytes], results: Path) -> None:
        if process.returncode:
            shown = self._beside(results, "log").read_text(errors="replace")[-2000:]
            raise SystemExit(f"{self.name}: a run ended with {process.returncode}:\n{shown}")

    @staticmethod
    def _beside(results: Path, ending: str) -> Path:
        return results.with_name(f"{results.name}.{ending}")

    @staticmethod
    def _folder(results: Path) -> Path | None:
        return next((path.parent for path in results.glob("*/config.yaml")), None)

    def _ended(self, results: Path) -> bool:
        """Whether the run itself was over when its process was killed."""
        folder = self._folder(results)
        status = None if folder is None else folder / "status.json"
        return status is not None and status.is_file() and json.loads(status.read_text())["status"] == "finished"

    @staticmethod
    def _result(results: Path) -> dict[str, bytes]:
        """metrics.csv and the weights of all agents, of the only run that is there."""
        paths = [*results.glob("*/metrics.csv"), *results.glob("*/agents/*/*/weights.safetensors")]
        return {"/".join(path.relative_to(results).parts[1:]): path.read_bytes() for path in paths}

    @staticmethod
    def _left_processes(results: Path) -> int:
        """Processes of a run that are still there; workers notice by themselves that it is gone."""
        mark = f"{MARK}={results}\0".encode()
        deadline = time.monotonic() + 10
        while True:
            left = 0
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    left += mark in (folder / "environ").read_bytes()
                except OSError:
                    continue
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="kills in all, shared out among the kinds")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="kinds of runs")
    parser.add_argument("--saving", action="store_true", help="kill while a checkpoint is being written")
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory(prefix="omg-kill-runs-") as scratch:
        work = Path(scratch)
        os.environ.setdefault("OMG_CACHE", str(work / "cache"))
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["OMG_TRUST"] = str(LINE["key"])  # A resumed run names its game only in a file.
        paths = [str(HERE.parents[1] / "src"), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        if importlib.util.find_spec("gymnasium") is None:
            (work / "games" / "gymnasium").mkdir(parents=True)
            (work / "games" / "gymnasium" / "__init__.py").write_text("")
            (work / "games" / "gymnasium" / "spaces.py").write_text(GYMNASIUM)
            paths.append(str(work / "games"))
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        kinds = [Kind(name, work, saving=arguments.saving) for name in arguments.kinds]
        began = time.monotonic()
        with ThreadPoolExecutor(arguments.workers) as threads:
            _do_all(threads, [kind.make_reference for kind in kinds])
            lanes: list[Callable[[], None]] = []
            for index, kind in enumerate(kinds):
                share = (arguments.kills * (index + 1)) // len(kinds) - (arguments.kills * index) // len(kinds)
                for lane, first in enumerate(range(0, share, LANE)):
                    lanes.append(_lane(kind, lane, min(LANE, share - first), arguments.seed))
            _do_all(threads, lanes)
        reports = {kind.name: kind.report() for kind in kinds}
    sys.path.insert(0, str(HERE.parents[1] / "src"))
    from machine import machine

    result = {
        "command": " ".join(["python", "benchmarks/kill_runs.py", *sys.argv[1:]]),
        "machine": machine(),
        "seconds": round(time.monotonic() - began),
        "kills": sum(report["kills"] for report in reports.values()),
        "kinds": reports,
    }
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if arguments.output is not None:
        arguments.output.write_text(text)
    if not all(report["identical"] and not report["processes_left"] for report in reports.values()):
        raise SystemExit("a killed run differs from its reference, or has left processes")


def _lane(kind: Kind, lane: int, kills: int, seed: int) -> Callable[[], None]:
    return lambda: kind.kill_often(lane, kills, seed)


def _do_all(threads: ThreadPoolExecutor, work: list[Callable[[], None]]) -> None:
    for future in [threads.submit(one) for one in work]:
        future.result()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-omg"]:
        sys.exit(run_omg(sys.argv[2], sys.argv[3:]))
    main()
