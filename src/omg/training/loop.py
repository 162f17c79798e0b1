"""The one loop: play and learn in compiled chunks; between them log, test, save, stop.

The loop knows nothing about algorithms or games. What it decides depends only on the `RunState` and on the counters
in `Progress`, both of which are in every checkpoint, so that a resumed run takes the same decisions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from omg.errors import UserError, out_of_memory
from omg.runners.workers import GamesFailedError
from omg.stopping import Stop
from omg.training.checkpoint import load_newest
from omg.training.early import does_badly, reached_goal, why_over
from omg.training.films import Films
from omg.training.finite import check_losses, check_state
from omg.training.memory import bytes_of_copy, fits_beside, shown_bytes
from omg.training.program import Chunk, Program, Test
from omg.training.progress import Progress, read_progress
from omg.training.saved import kept_at, take_over
from omg.training.saving import Saver
from omg.training.start import about_learner, about_prior
from omg.training.state import RunState
from omg.training.stopwatch import Speed, Stopwatch
from omg.training.summary import Row, Summary, episode_rows
from omg.training.tuned import tuned_for
from omg.types import PyTree


class Reporter(Protocol):
    """Where a run reports to. `position` and `rewind` make the record exact across a resume."""

    def say(self, message: str) -> None:
        """One line for the user."""

    def step(self, title: str) -> None:
        """A long step without progress begins (compiling)."""

    def busy(self, title: str) -> None:
        """The run plays, learns or tests until it reports again."""

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


_MOST_EPISODES = 2**31
"""Steps are counted in 64 bits; episodes, of many steps each, are not."""


class Ending(NamedTuple):
    """How a run ended."""

    status: str
    """`finished`, `stopped` (early stop) or `interrupted` (by a signal; resumable)."""
    state: RunState
    progress: Progress
    signal: int | None
    """The signal that interrupted it, or came when it was about to end anyway."""


BEST_AT_END = "best_at_end"
"""The best agent, found by a test that only the end of the run has made."""

SaveAgent = Callable[[PyTree, int, int, str, dict[str, float]], None]
"""(learner state of one seed, seed, t_env, 'best', 'best_at_end', 'last' or a step's, test metrics) -> an agent."""


class Trainer:
    """Runs one configuration to its end, from the start or from its newest checkpoint."""

    def __init__(
        self,
        program: Program,
        checkpoints: Path,
        reporter: Reporter,
        save_agent: SaveAgent,
        stop: Stop | None = None,
        films: Films | None = None,
    ) -> None:
        self.config = config = program.config
        self.program = program
        self.checkpoints = checkpoints
        self.reporter = reporter
        self.save_agent = save_agent
        self.films = films
        self.seeds = list(range(config.seed, config.seed + config.seeds))
        self.stop = stop or Stop()
        self.saver = Saver(
            checkpoints, with_buffer=config.save_buffer, keep=config.keep_checkpoints, beside=fits_beside(program)
        )
        self._began = 0.0
        """When compiling began."""
        self._whole: tuple[RunState, Progress, Summary] | None = None
        """The run after its newest whole chunk; a failure on the way to the next does not lose it."""

    def run(self) -> Ending:
        """Trains until `t_max`, early stop or a signal, and saves."""
        try:
            return self._run()
        except GamesFailedError as error:
            raise UserError(f"{error} {self._save_after_failure()}") from error
        except Exception as error:
            if (message := out_of_memory(error)) is None:
                raise
            raise UserError(message) from error
        finally:
            if self.program.coming is not None:
                self.program.coming.end(self.stop)
            self.saver.end()
            self.program.close()

    def _run(self) -> Ending:
        self.reporter.busy("starting")
        state, progress = self._begin()
        if self.config.evaluate:
            return self._evaluate(state, progress)
        chunk, test = self._compile(state)
        config = self.config
        status = "finished"
        summary = Summary(self.program.spec, len(self.seeds), progress.summary)
        watch = Stopwatch()
        # Before, a signal ends the run at once: nothing has been trained since the newest checkpoint.
        with self.stop.holding():
            while True:
                self._whole = (state, progress, summary)
                reached = int(state.t_env.numpy().min())
                due = progress.last_test < 0 or reached - progress.last_test >= config.test_interval
                # A test may take long; when the run is resumed, it is made first.
                if due and self.stop.number is None:
                    self._test(test, state, progress)
                    if reached - progress.last_diagnosis >= config.diagnostics_interval:
                        self._compare_controls(state, progress)
                if self._stops_early(progress):
                    status = "stopped"
                    break
                if self.stop.number is not None:
                    status = "interrupted"
                    break
                if reached >= config.t_max:
                    break
                due = reached - progress.last_save >= config.save_model_interval
                # Once a seed has all its steps, a checkpoint is none that a longer run could go on from.
                if config.save_model and due and int(state.t_env.numpy().max()) < config.t_max:
                    self._save(state, progress, summary)
                self._check_episodes(state)
                if not self._compiled():
                    status = "interrupted"
                    break
                self.reporter.busy(f"playing and learning from t_env {reached:,} on")
                watch.start()
                played, before = int(state.t_env.numpy().sum()), reached
                state, log = chunk(state)
                log = jax.device_get(log)
                watch.stop(self.program.host_seconds)
                check_losses(log, config, self.saver.newest)
                self.saver.look()
                if config.debug:
                    check_state(state)
                summary.add(log)
                watch.count(int(state.t_env.numpy().sum()) - played, int(log.updates.sum()))
                reached = int(state.t_env.numpy().min())
                self._keep_passed(state, progress, before, reached)
                if reached - progress.last_log >= config.log_interval or reached >= config.t_max:
                    progress.last_log = reached
                    self.reporter.rows(summary.rows(self.seeds, state.t_env.numpy()))
                    summary.clear()
                self.reporter.speed(watch.speed(reached), self._headline(progress))
            if status == "finished" and progress.last_test < int(state.t_env.numpy().min()):
                self._test(test, state, progress)
            if status == "finished" and progress.last_diagnosis < int(state.t_env.numpy().min()):
                self._compare_controls(state, progress)
            self._finish(state, progress, summary)
        return Ending(status, state, progress, self.stop.number)

    def _begin(self) -> tuple[RunState, Progress]:
        """The newest whole checkpoint, or a fresh start."""
        program = self.program
        seeds = jnp.asarray(self.seeds, jnp.uint32)
        shown = shown_bytes(program.storage_bytes() * len(self.seeds))
        self.reporter.say(
            f"replay buffer: {self.config.buffer_size} episodes x {len(self.seeds)} seed(s) = {shown}"
            f" ({self.config.buffer_dtype})"
        )
        if self.config.save_model and not self.saver.beside:
            self.reporter.say(
                f"checkpoints: training waits for them, as memory has no room for a copy of the state "
                f"({shown_bytes(bytes_of_copy(program))}) beside the run"
            )
        for line in self._about_the_team():
            self.reporter.say(line)
        found = load_newest(
            self.checkpoints, jax.eval_shape(program.init, seeds), self.reporter.say, program.spread.place
        )
        if found is None:
            self.reporter.rewind(0)
            nothing: list[dict[str, float]] = [{} for _ in self.seeds]
            progress = Progress(tested_at=[-1] * len(self.seeds), newest_test=nothing)
            state = program.spread.place(take_over(program.init(seeds), self.config, program.spec))
            if self.config.checkpoint_path is not None:
                progress.last_log = progress.last_save = reached = int(state.t_env.numpy().min())
                self.reporter.say(f"{self.config.checkpoint_path}: its learner goes on from t_env {reached:,}")
            return state, progress
        state, host = found
        progress = read_progress(host, len(self.seeds), self.checkpoints)
        self.reporter.rewind(progress.record)
        self.reporter.say(f"resuming at t_env {int(state.t_env.numpy().min()):,}")
        return program.spread.place(state._replace(tuned=tuned_for(self.config, len(self.seeds)))), progress

    def _evaluate(self, state: RunState, progress: Progress) -> Ending:
        """One test, and nothing else (`evaluate`)."""
        self.reporter.step("testing")
        self._test(self.program.test, state, progress)
        return Ending("finished", state, progress, self.stop.number)

    def _about_the_team(self) -> list[str]:
        """What a user should know about the frozen players, the prior and the size of an update."""
        program = self.program
        lines: list[str] = []
        if self.config.wants_prior:
            lines.append(f"subgoal prior: {about_prior(program.prior_card)}")
        lines += [f"obs adapter ({name}): {fitted.card.summary}" for name, fitted in program.obs_adapters.items()]
        if program.learned is not None:
            lines.append(f"init_from: besides the agent, the learner goes on with its {about_learner(program.learned)}")
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

    def _compile(self, state: RunState) -> tuple[Chunk, Test]:
        """Compiles both programs, side by side, before the clock of the run starts; see `Program.compile`."""
        self.reporter.step(self.program.compiling())
        self._began = time.perf_counter()
        compiled = self.program.compile(state, self.reporter.say)
        if self.program.coming is None or self.program.coming.there:
            self.program.coming = None
            self._say_compiled()
        return compiled

    def _compiled(self) -> bool:
        """Waits until everything is compiled; False: a signal came first."""
        coming, self.program.coming = self.program.coming, None
        if coming is None:
            return True
        self.reporter.step(self.program.compiling())
        if not coming.arrives(self.stop):
            return False
        self._say_compiled()
        return True

    def _say_compiled(self) -> None:
        self.reporter.say(f"compiled in {time.perf_counter() - self._began:.1f} s")

    def _test(self, test: Test, state: RunState, progress: Progress) -> None:
        """Test episodes for every seed that has trained since its last test; keeps the best agents."""
        self.reporter.busy(f"testing, {self.config.test_nepisode:,} episodes of each seed")
        stats, found, film = jax.device_get(test(state))
        before, progress.last_test = progress.last_test, int(state.t_env.numpy().min())
        rows: list[Row] = []
        steps = state.t_env.numpy()
        if film is not None and self.films is not None:
            trained = [index for index, t_env in enumerate(steps) if int(t_env) != progress.tested_at[index]]
            self.films.keep(state, film, stats, trained)
        key = f"test_{self.program.success_metric}_mean"
        for index, seed in enumerate(self.seeds):
            t_env = int(steps[index])
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
                if self.config.save_model and not self.config.evaluate:
                    # A longer run would not make a test at the end; what only that one finds is kept apart.
                    which = "best" if t_env < self.config.t_max else BEST_AT_END
                    self.save_agent(self._one_seed(state, index), seed, t_env, which, values)
        self.reporter.rows(rows)
        self.reporter.tested(progress.last_test, self._headline(progress))
        progress.streak = progress.streak + 1 if reached_goal(self.config, progress) else 0
        progress.given_up = does_badly(self.config, progress, before)

    def _headline(self, progress: Progress) -> dict[str, float]:
        """The success metric and the return of the newest test, averaged over seeds."""
        names = (f"test_{self.program.success_metric}_mean", "test_return_mean")
        there = [name for name in names if all(name in values for values in progress.newest_test)]
        return {name: float(np.mean([values[name] for values in progress.newest_test])) for name in there}

    def _compare_controls(self, state: RunState, progress: Progress) -> None:
        """How much worse the games of the newest test go without what the opponent model says: `..._drop`."""
        progress.last_diagnosis = int(state.t_env.numpy().min())
        rows: list[Row] = []
        steps = state.t_env.numpy()
        for name, play in self.program.controls.items():
            self.reporter.busy(f"testing with the opponent model's features at {name}")
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
                rows += [Row(seed, int(steps[index]), key, value) for key, value in drops.items()]
        self.reporter.rows(rows)

    def _stops_early(self, progress: Progress) -> bool:
        """Whether `early_stop_value` was held for `early_stop_patience` tests in a row, or the run does badly."""
        reason = why_over(self.config, progress)
        if reason:
            self.reporter.say(f"early stop: {reason}")
        return bool(reason)

    def _check_episodes(self, state: RunState) -> None:
        """Stops before the number of episodes, which programs count in 32 bits, is too large for them."""
        played = int(state.episodes)
        if played + self.program.iterations * self.config.batch_size_run >= _MOST_EPISODES:
            if self._whole is not None and self.config.save_model:
                self._save(*self._whole, last=True)
            raise UserError(
                f"t_max: got {self.config.t_max:,}, but by t_env {int(state.t_env.numpy().min()):,} this run has "
                f"played {played:,} episodes, and it can count at most {_MOST_EPISODES - 1:,}. Go on in a new run with "
                f"init_from={self.checkpoints.parent}."
            )

    def _save_after_failure(self) -> str:
        """Saves what there was before the games failed; says where the run can be continued."""
        if self._whole is None or not self.config.save_model:
            return "Nothing was saved."
        self._save(*self._whole, last=True)
        return f"The run is saved at t_env {self._whole[1].last_save:,}; once the game works, continue with omg resume."

    def _save(self, state: RunState, progress: Progress, summary: Summary, *, last: bool = False) -> None:
        progress.last_save = int(state.t_env.numpy().min())
        progress.summary = summary.dump()
        progress.record = self.reporter.position()
        if self.films is not None:
            self.films.wait()  # A run that goes on from here does not make the newest test again.
        self.saver.save(state, asdict(progress), last=last)

    def _finish(self, state: RunState, progress: Progress, summary: Summary) -> None:
        if not self.config.save_model:
            return
        self._save(state, progress, summary, last=True)
        steps = state.t_env.numpy()
        for index, seed in enumerate(self.seeds):
            one = self._one_seed(state, index)
            self.save_agent(one, seed, int(steps[index]), "last", progress.newest_test[index])

    def _keep_passed(self, state: RunState, progress: Progress, before: int, reached: int) -> None:
        """Keeps the agents of each step of `save_agents_at` that was just passed.

        Whatever checkpoint a run goes on from, it passes the same steps with the same agents, so nothing is noted.
        """
        for step in (step for step in self.config.save_agents_at if before < step <= reached):
            for index, seed in enumerate(self.seeds if self.config.save_model else ()):
                t_env = int(state.t_env.numpy()[index])
                self.save_agent(self._one_seed(state, index), seed, t_env, kept_at(step), progress.newest_test[index])

    @staticmethod
    def _one_seed(state: RunState, index: int) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[index], state.learner)
