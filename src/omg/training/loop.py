"""The one loop: play and learn in compiled chunks; between them log, test, save, stop.

The loop knows nothing about algorithms or games. What it decides depends only on the `RunState` and on the counters
in `Progress`, both of which are in every checkpoint, so that a resumed run takes the same decisions.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from omg.config import SUBGOAL_LEARNERS
from omg.errors import UserError
from omg.runners import GamesFailedError
from omg.training.checkpoint import list_checkpoints, load_newest, save_checkpoint
from omg.training.program import IterationLog, Program, RunState
from omg.training.start import about_prior
from omg.training.summary import Row, Summary, episode_rows


class Speed(NamedTuple):
    """How fast the run has gone since it was started or resumed; kept apart from the metrics, which repeat exactly."""

    t_env: int
    """Smallest number of steps over all seeds."""
    steps_per_second: float
    """Environment steps of all seeds together."""
    updates_per_second: float
    """Gradient updates of all seeds together."""
    host_share: float
    """Share of the time that was not spent in the compiled programs."""


class Reporter(Protocol):
    """Where a run reports to. `position` and `rewind` make the record exact across a resume."""

    def say(self, message: str) -> None:
        """One line for the user."""

    def step(self, title: str) -> None:
        """A long step without progress begins (compiling)."""

    def rows(self, rows: list[Row]) -> None:
        """Metrics."""

    def speed(self, speed: Speed, headline: dict[str, float]) -> None:
        """Progress and speed; `headline` holds what matters most of the newest test, averaged over seeds."""

    def tested(self, t_env: int, headline: dict[str, float]) -> None:
        """A test is done; `headline` as above."""

    def position(self) -> int:
        """Length of the metrics record, in bytes."""

    def rewind(self, position: int) -> None:
        """Cuts the metrics record back to `position`."""


@dataclass
class Progress:
    """The host's side of a run's state; goes into checkpoints as JSON."""

    last_test: int = -1
    last_log: int = 0
    last_diagnosis: int = 0
    last_save: int = 0
    tested_at: list[int] = field(default_factory=list)
    """Steps of each seed at its newest test."""
    newest_test: list[dict[str, float]] = field(default_factory=list)
    """What that test brought."""
    best: dict[str, float] = field(default_factory=dict)
    """Seed -> best test value of the success metric."""
    streak: int = 0
    """Consecutive tests that reached `early_stop_value`."""
    summary: dict[str, Any] = field(default_factory=dict)
    record: int = 0
    """`Reporter.position` when the checkpoint was written."""


class Outcome(NamedTuple):
    """How a run ended."""

    status: str
    """`finished`, `stopped` (early stop) or `interrupted` (Ctrl-C; resumable)."""
    state: RunState
    progress: Progress


SaveAgent = Callable[[Any, int, int, str, dict[str, float]], None]
"""(learner state of one seed, seed, t_env, 'best' or 'last', test metrics) -> writes a self-contained agent."""


class Trainer:
    """Runs one configuration to its end, from the start or from its newest checkpoint."""

    def __init__(self, program: Program, checkpoints: Path, reporter: Reporter, save_agent: SaveAgent) -> None:
        self.config = config = program.config
        self.program = program
        self.checkpoints = checkpoints
        self.reporter = reporter
        self.save_agent = save_agent
        self.seeds = list(range(config.seed, config.seed + config.seeds))
        self._interrupted = False
        self._whole: tuple[RunState, Progress, Summary] | None = None
        """The run after its newest whole chunk; a failure on the way to the next does not lose it."""

    def run(self) -> Outcome:
        """Trains until `t_max`, early stop or Ctrl-C, and saves."""
        try:
            return self._run()
        except GamesFailedError as error:
            raise UserError(f"{error} {self._save_after_failure()}") from error
        finally:
            self.program.close()

    def _run(self) -> Outcome:
        state, progress = self._begin()
        chunk, test = self._compile(state)
        config = self.config
        status = "finished"
        summary = Summary(self.program.spec, len(self.seeds), progress.summary)
        watch = _Watch()
        with self._ctrl_c():
            while True:
                self._whole = (state, progress, summary)
                reached = int(state.t_env.min())
                if progress.last_test < 0 or reached - progress.last_test >= config.test_interval:
                    self._test(test, state, progress)
                    if reached - progress.last_diagnosis >= config.diagnostics_interval:
                        self._compare_controls(state, progress)
                if self._stops_early(progress):
                    status = "stopped"
                    break
                if reached >= config.t_max:
                    break
                if self._interrupted:
                    status = "interrupted"
                    break
                if config.save_model and reached - progress.last_save >= config.save_model_interval:
                    self._save(state, progress, summary)
                watch.start()
                played = int(state.t_env.sum())
                state, log = chunk(state)
                log = jax.device_get(log)
                watch.stop(self.program.host_seconds)
                self._check_finite(log)
                summary.add(log)
                watch.count(int(state.t_env.sum()) - played, int(log.updates.sum()))
                reached = int(state.t_env.min())
                if reached - progress.last_log >= config.log_interval or reached >= config.t_max:
                    progress.last_log = reached
                    self.reporter.rows(summary.rows(self.seeds, np.asarray(state.t_env)))
                    summary.clear()
                self.reporter.speed(watch.speed(reached), self._headline(progress))
        if status == "finished" and progress.last_test < int(state.t_env.min()):
            self._test(test, state, progress)
        if status == "finished" and progress.last_diagnosis < int(state.t_env.min()):
            self._compare_controls(state, progress)
        self._finish(state, progress, summary)
        return Outcome(status, state, progress)

    def _begin(self) -> tuple[RunState, Progress]:
        """The newest whole checkpoint, or a fresh start."""
        program = self.program
        seeds = jnp.asarray(self.seeds, jnp.uint32)
        size = program.storage_bytes() * len(self.seeds)
        shown = f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"
        self.reporter.say(
            f"replay buffer: {self.config.buffer_size} episodes x {len(self.seeds)} seed(s) = {shown}"
            f" ({self.config.buffer_dtype})"
        )
        for line in self._about_the_team():
            self.reporter.say(line)
        found = load_newest(self.checkpoints, jax.eval_shape(program.init, seeds), self.reporter.say)
        if found is None:
            self.reporter.rewind(0)
            nothing: list[dict[str, float]] = [{} for _ in self.seeds]
            return program.init(seeds), Progress(tested_at=[-1] * len(self.seeds), newest_test=nothing)
        state, host = found
        progress = Progress(**host)
        self.reporter.rewind(progress.record)
        self.reporter.say(f"resuming at t_env {int(state.t_env.min()):,}")
        return state, progress

    def _about_the_team(self) -> list[str]:
        """What a user should know about the frozen players, the prior and the size of an update."""
        program = self.program
        lines: list[str] = []
        if self.config.learner in SUBGOAL_LEARNERS:
            lines.append(f"subgoal prior: {about_prior(program.prior_card)}")
        if program.team is None:
            return lines
        names = program.team.names
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        lines.append(f"frozen players ({len(names)}): {shown}")
        if self.config.init_param_path is None:
            lines.append("init_param_path: no pool given, so the frozen seats play untrained networks")
        if program.sequences != self.config.batch_size:
            lines.append(
                f"one update sees batch_size {self.config.batch_size} x {program.spec.n_agents} seats = "
                f"{program.sequences} episodes, of each the seat that learns; t_max is not affected"
            )
        return lines

    def _compile(self, state: RunState) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Compiles both programs, side by side, before the clock of the run starts."""
        self.reporter.step("compiling")
        started = time.perf_counter()
        chunk, test = self.program.compile(state, self.reporter.say)
        self.reporter.say(f"compiled in {time.perf_counter() - started:.1f} s")
        return chunk, test

    def _test(self, test: Callable[..., Any], state: RunState, progress: Progress) -> None:
        """Test episodes for every seed that has trained since its last test; keeps the best agents."""
        stats, found = jax.device_get(test(state))
        progress.last_test = int(state.t_env.min())
        rows: list[Row] = []
        key = f"test_{self.program.success_metric}_mean"
        for index, seed in enumerate(self.seeds):
            t_env = int(state.t_env[index])
            if t_env == progress.tested_at[index]:
                continue
            values = episode_rows(stats, index, prefix="test_")
            values |= {f"test_{name}": float(value[index]) for name, value in found.items()}
            progress.tested_at[index] = t_env
            progress.newest_test[index] = {**progress.newest_test[index], **values}
            rows += [Row(seed, t_env, name, value) for name, value in values.items()]
            score = values[key]
            if t_env > 0 and score > progress.best.get(str(seed), -math.inf):
                progress.best[str(seed)] = score
                if self.config.save_model:
                    self.save_agent(self._one_seed(state, index), seed, t_env, "best", values)
        self.reporter.rows(rows)
        self.reporter.tested(progress.last_test, self._headline(progress))
        progress.streak = progress.streak + 1 if self._reached_goal(progress) else 0

    def _headline(self, progress: Progress) -> dict[str, float]:
        """The success metric and the return of the newest test, averaged over seeds."""
        names = (f"test_{self.program.success_metric}_mean", "test_return_mean")
        return {name: float(np.mean([values[name] for values in progress.newest_test])) for name in names}

    def _compare_controls(self, state: RunState, progress: Progress) -> None:
        """How much worse the games of the newest test go without what the opponent model says: `..._drop`."""
        progress.last_diagnosis = int(state.t_env.min())
        rows: list[Row] = []
        for name, play in self.program.controls.items():
            stats = jax.device_get(play(state))
            for index, seed in enumerate(self.seeds):
                newest = progress.newest_test[index]
                played = episode_rows(stats, index, prefix="test_")
                drops = {
                    f"test_{name}_{key.removeprefix('test_').removesuffix('_mean')}_drop": newest[key] - value
                    for key, value in played.items()
                    if key.endswith("_mean")
                }
                newest |= drops
                rows += [Row(seed, int(state.t_env[index]), key, value) for key, value in drops.items()]
        self.reporter.rows(rows)

    def _reached_goal(self, progress: Progress) -> bool:
        """Whether the newest test of every seed has `early_stop_value`."""
        metric, value = self.config.early_stop_metric, self.config.early_stop_value
        if metric is None or value is None:
            return False
        if any(metric not in values for values in progress.newest_test):
            names = ", ".join(sorted(progress.newest_test[0]))
            raise UserError(f"early_stop_metric: got '{metric}', which is no test metric. Allowed: {names}.")
        return all(values[metric] >= value for values in progress.newest_test)

    def _stops_early(self, progress: Progress) -> bool:
        """Whether `early_stop_value` was held for `early_stop_patience` tests in a row."""
        if self.config.early_stop_metric is None or progress.streak < self.config.early_stop_patience:
            return False
        self.reporter.say(
            f"early stop: {self.config.early_stop_metric} >= {self.config.early_stop_value} in {progress.streak} "
            f"tests in a row"
        )
        return True

    def _check_finite(self, log: IterationLog) -> None:
        """Stops at a loss that is not a number; the last checkpoint was written before it happened."""
        for name, values in log.learner.items():
            bad = np.argwhere(~np.isfinite(values) & log.active)
            if len(bad):
                iteration, index = int(bad[0][0]), int(bad[0][1])
                t_env = int(log.t_env[iteration, index])
                saved = list_checkpoints(self.checkpoints)
                kept = f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint had been written yet"
                raise UserError(
                    f"Training diverged: {name} = {values[iteration, index]} for seed {self.seeds[index]} near t_env "
                    f"{t_env:,}. {kept}; try a smaller lr (now {self.config.lr}) or grad_norm_clip "
                    f"(now {self.config.grad_norm_clip})."
                )

    def _save_after_failure(self) -> str:
        """Saves what there was before the games failed; says where the run can be continued."""
        if self._whole is None or not self.config.save_model:
            return "Nothing was saved."
        self._save(*self._whole)
        return f"The run is saved at t_env {self._whole[1].last_save:,}; once the game works, continue with omg resume."

    def _save(self, state: RunState, progress: Progress, summary: Summary) -> None:
        progress.last_save = int(state.t_env.min())
        progress.summary = summary.dump()
        progress.record = self.reporter.position()
        save_checkpoint(
            self.checkpoints,
            state,
            asdict(progress),
            with_buffer=self.config.save_buffer,
            keep=self.config.keep_checkpoints,
        )

    def _finish(self, state: RunState, progress: Progress, summary: Summary) -> None:
        if not self.config.save_model:
            return
        self._save(state, progress, summary)
        for index, seed in enumerate(self.seeds):
            one = self._one_seed(state, index)
            self.save_agent(one, seed, int(state.t_env[index]), "last", progress.newest_test[index])

    @staticmethod
    def _one_seed(state: RunState, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], state.learner)

    def _ctrl_c(self) -> Any:
        return _SignalFlag(self._interrupt)

    def _interrupt(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self.reporter.say("stopping after this chunk and saving (Ctrl-C again to quit at once)")


class _SignalFlag:
    """Turns Ctrl-C into a call of `handler` while the block runs (in the main thread only)."""

    def __init__(self, handler: Callable[[], None]) -> None:
        self.handler = handler
        self.previous: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.signal(signal.SIGINT, self._on_signal)

    def __exit__(self, *_: object) -> None:
        if self.previous is not None:
            signal.signal(signal.SIGINT, self.previous)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.handler()


class _Watch:
    """Adds up the time of the training chunks, inside and around the compiled program; tests and saves do not count."""

    def __init__(self) -> None:
        self.inside = self.around = 0.0
        self.steps = self.updates = 0
        self.started = self.ended = 0.0

    def start(self) -> None:
        self.started = time.perf_counter()

    def stop(self, host_seconds: float) -> None:
        self.ended = time.perf_counter()
        self.inside += self.ended - self.started - host_seconds
        self.around += host_seconds

    def count(self, steps: int, updates: int) -> None:
        self.steps += steps
        self.updates += updates
        self.around += time.perf_counter() - self.ended

    def speed(self, t_env: int) -> Speed:
        total = max(self.inside + self.around, 1e-9)
        return Speed(t_env, self.steps / total, self.updates / total, self.around / total)
