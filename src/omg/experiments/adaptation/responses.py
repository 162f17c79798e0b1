"""Best responses: players that are trained by PPO for one team alone, all teams and restarts as one compiled program.

A response is recurrent and sees what everybody did in the step before. It is tested every so many steps; the training
ends when the curves of all responses are flat (`omg.evaluation.room.is_flat`), or with the budget. What is kept of each
is the learner as it was in its best test.

Letters in shapes: Z replicates, each a restart with a team, E episodes of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from omg.config import Config, resolve
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation.room import is_flat
from omg.experiments.adaptation.schooling import new_state
from omg.experiments.adaptation.setup import adaptation_config
from omg.runners.vector import EpisodeStats
from omg.training.encounters import EncounterProgram, Teams
from omg.training.program import Program
from omg.training.state import RunState
from omg.types import Json, PyTree

Say = Callable[[str], None]

GAMES = 128
"""Of a round: PPO learns from them all at once."""
_WIDE = 100
"""Features of a view from which on the networks are twice as wide."""
_LEAST_SHARE = 1 / 3
"""Of the budget, before which no curve is called flat: one that has not begun to rise is flat, too."""
_TESTS = 30
"""In the whole budget."""


@dataclass(frozen=True)
class ResponseRules:
    """How best responses are trained."""

    steps: int
    """Environment steps of each, at most."""
    restarts: int = 3
    """Trainings for each team."""
    games: int = GAMES
    """Played side by side in a round."""
    seed: int = 0
    """Of the first restart."""

    def __post_init__(self) -> None:
        for key, least in (("steps", 0), ("restarts", 1), ("games", 1)):
            if getattr(self, key) < least:
                raise UserError(f"{key}: got {getattr(self, key)}, allowed: {least} or more.")

    @property
    def seeds(self) -> list[int]:
        """Of the restarts."""
        return list(range(self.seed, self.seed + self.restarts))


def response_config(env: Env, game: tuple[str, dict[str, Json]], games: int, *, obs_is_state: bool = False) -> Config:
    """Recurrent PPO in one seat that sees everybody's last actions, as wide as the game asks for.

    Args:
        env: the game.
        game: its name and options, as a configuration has them.
        games: of a round.
        obs_is_state: what everybody sees.
    """
    width = 128 if (env.spec.state_dim if obs_is_state else env.spec.obs_dim) > _WIDE else 64
    settings = {
        "env_args": game[1],
        "obs_is_state": obs_is_state,
        "obs_all_last_actions": True,
        # What counts is what is earned until the limit, not what would come if the game went on.
        "limit_is_end": True,
        "rnn_hidden_dim": width,
        "critic_hidden_dim": width,
        "lr": 0.001,
        "critic_lr": 0.001,
        "ppo_epochs": 4,
        "ppo_minibatches": 4 if games % 4 == 0 else 1,
        "batch_size_run": games,
        "batch_size": games,
        "buffer_size": games,
        "updates_per_episode": 1 / games,
        "test_nepisode": games,
    }
    config = resolve("ippo", game[0], settings, shared=settings).config
    return adaptation_config(config, env.spec.n_agents, games, games, {})


class TrainedPlayers(NamedTuple):
    """What came of a training."""

    learner: PyTree
    """Of each replicate as it was in its best test, leaves [Z, ...]."""
    best: np.ndarray
    """[Z] mean score of that test."""
    errors: np.ndarray
    """[Z] its standard error."""
    steps: int
    """Of each replicate."""
    flat: np.ndarray
    """[Z] bool, whether its curve is flat."""


Watch = Callable[[TrainedPlayers], None]
"""Told after every test what there is so far."""


def test_scores(stats: EpisodeStats, metric: str) -> np.ndarray:
    """One score per episode, [Z, E] float64."""
    return np.asarray({"return": stats.returns, **stats.metrics}[metric], np.float64)


def train_to_flat(
    program: Program,
    state: RunState,
    metric: str,
    rules: ResponseRules,
    floor: np.ndarray,
    ceiling: np.ndarray,
    say: Say = lambda message: None,
    watch: Watch = lambda found: None,
) -> TrainedPlayers:
    """Trains all replicates until their curves are flat, or the budget ends.

    Args:
        program: what is trained.
        state: before the first round; it is used up.
        metric: that the tests are about.
        rules: the budget.
        floor: [Z] what a random player scores with the same partners.
        ceiling: [Z] the best that is known with them.
        say: told what is done.
        watch: told what was found after every test.
    """
    keep = jax.jit(_keep_better)
    curves: list[tuple[np.ndarray, np.ndarray]] = []
    kept: PyTree = jax.tree.map(jnp.array, state.learner)
    best, best_error = np.full(len(floor), -np.inf), np.full(len(floor), np.nan)
    reached = 0
    while True:
        # The first test is that of the beginning: who starts at the ceiling need not rise.
        scores = test_scores(jax.device_get(program.test(state)[0]), metric)
        mean, error = scores.mean(axis=1), scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
        curves.append((mean, error))
        better = mean > best
        kept = keep(jnp.asarray(better), state.learner, kept)
        best, best_error = np.where(better, mean, best), np.where(better, error, best_error)
        means, errors = (np.stack(values) for values in zip(*curves, strict=True))
        span = np.maximum(ceiling, best) - floor
        flat = np.asarray([is_flat(means[:, one], errors[:, one], span[one]) for one in range(len(floor))])
        flat &= reached >= _LEAST_SHARE * rules.steps
        found = TrainedPlayers(kept, best, best_error, reached, flat)
        say(f"trained for {reached:,} of {rules.steps:,} steps, {int(flat.sum())} of {len(flat)} curves flat")
        watch(found)
        if flat.all() or reached >= rules.steps:
            return found
        until = reached + max(1, rules.steps // _TESTS)
        while reached < until:
            state, _ = program.chunk(state)
            reached = int(state.t_env.numpy().min())


def _keep_better(better: jax.Array, new: PyTree, old: PyTree) -> PyTree:
    def chosen(one: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(better.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(chosen, new, old)


class Bounds(NamedTuple):
    """What is known of the scores with some teams before a response is trained."""

    floor: np.ndarray
    """[teams] of a random player."""
    ceiling: np.ndarray
    """[teams] of the best responder."""

    @staticmethod
    def unknown(teams: int) -> Bounds:
        """No rise is too small then, unless it is within the tests' errors."""
        return Bounds(np.zeros(teams), np.zeros(teams))


class BestResponses(NamedTuple):
    """The best restart for each team."""

    program: EncounterProgram
    learner: PyTree
    """Leaves [teams, ...]."""
    restart: np.ndarray
    """[teams] which of the restarts it is."""
    best: np.ndarray
    """[teams] mean score of its best test."""
    errors: np.ndarray
    """[teams]."""
    steps: np.ndarray
    """[teams]."""
    flat: np.ndarray
    """[teams] bool."""

    def player(self, team: int) -> PyTree:
        """The player of one team, as it is tested and saved."""
        return self.program.learner.tested(jax.tree.map(lambda leaf: leaf[team], self.learner))


Finish = Callable[[BestResponses, Sequence[int], Sequence[int]], None]
"""Given responses as far as they are, the teams that are done among them, and what number each has among all."""


def train_responses(
    config: Config,
    env: Env,
    teams: Teams,
    metric: str,
    rules: ResponseRules,
    bounds: Bounds | None = None,
    say: Say = lambda message: None,
    finish: Finish = lambda found, done, numbers: None,
) -> BestResponses:
    """Best responses to each of several teams.

    Args:
        config: from `response_config`.
        env: the game.
        teams: whom they are trained for.
        metric: what tests are about.
        rules: how long and how often.
        bounds: of the scores with each team, as far as they are known.
        say: told what is done.
        finish: told once of every team when all its restarts are flat, or the budget has ended.
    """
    program = EncounterProgram(config, teams, env=env)
    bounds = bounds or Bounds.unknown(len(teams.names))
    number, restarts = len(teams.names), rules.restarts
    size = max(1, min(number, program.at_once() // restarts))
    found: list[BestResponses] = []
    for first in range(0, number, size):
        # A last part that is too short is filled up with the first ones, so that one compilation serves all.
        chosen = np.arange(first, first + size) % number
        wanted = min(size, number - first)
        told: set[int] = set()

        def part(players: TrainedPlayers, chosen: np.ndarray = chosen) -> BestResponses:
            by_restart = players.best.reshape(restarts, len(chosen))
            restart = by_restart.argmax(axis=0)
            rows = restart * len(chosen) + np.arange(len(chosen))
            learner = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], players.learner)
            steps = np.full(len(chosen), players.steps)
            return BestResponses(
                program, learner, restart, players.best[rows], players.errors[rows], steps, players.flat[rows]
            )

        def watch(
            players: TrainedPlayers,
            chosen: np.ndarray = chosen,
            wanted: int = wanted,
            told: set[int] = told,
            over: bool = False,
        ) -> None:
            flat = np.min(players.flat.reshape(restarts, len(chosen)), axis=0)
            done = [one for one in range(wanted) if (flat[one] or over) and one not in told]
            if done:
                told.update(done)
                finish(part(players, chosen), done, [int(chosen[one]) for one in done])

        team, seeds = np.tile(chosen, restarts), np.repeat(rules.seeds, len(chosen))
        state = program.begin(new_state(program.learner, [int(seed) for seed in seeds]), [*map(int, seeds)], team)
        floor, ceiling = bounds.floor[team], bounds.ceiling[team]
        players = train_to_flat(program, state, metric, rules, floor, ceiling, say, watch)
        watch(players, over=True)
        found.append(part(players))
    return _joined(found, number)


def _joined(parts: Sequence[BestResponses], number: int) -> BestResponses:
    """The parts one behind the other, without what the last one was filled up with."""
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *(tuple(part[1:]) for part in parts))
    return BestResponses(parts[0].program, *joined)
