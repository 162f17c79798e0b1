"""How a program comes by its episodes: the `Collector` that it is given, and the one that plays inside it.

There are three. `CompiledCollector` plays games that are JAX programs, `hosted.HostCollector` all others, and
`encounters.EncounterCollector` has other co-players for each seed.

Letters in shapes: Z seeds, B games of a round, E test episodes of a seed, T steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count
from omg.config import Config
from omg.controllers.base import Controller, Policy
from omg.controllers.team import Squad, TeamPolicy
from omg.envs import Env
from omg.learners.base import Learner, S
from omg.modules.opponent_models.prior import Prior
from omg.runners import RUNNERS
from omg.runners.vector import Film, Rollout
from omg.training.spread import Spread
from omg.training.state import (
    EXAMINE_STREAM,
    TEST_STREAM,
    RunState,
    Seated,
    SeedMap,
    exploration,
    seeds_on_device,
    split_key,
)
from omg.training.team import TeamSetup

Say = Callable[[str], None]

POLICY, TESTED = "policy", "tested"
"""Who acts: the player that is being learned, or the same as it is tested. A control goes by its own name."""


@dataclass(frozen=True)
class Seating(Generic[S]):
    """Whose game it is: what a collector needs to know of a run."""

    config: Config
    env: Env
    learner: Learner[S]
    team: TeamSetup | None
    """None where one algorithm has all seats."""
    spread: Spread
    """Over which devices."""

    @property
    def watches(self) -> bool:
        """Whether the learner has no seat itself."""
        return self.config.learner_part.watches

    def player(self, state: S, name: str) -> Controller | None:
        """`POLICY`, `TESTED` or one of the learner's controls; None if the learner only watches."""
        if name == POLICY:
            return self.learner.policy(state)
        found = self.learner.tested(state) if name == TESTED else self.learner.control(state, name)
        return None if isinstance(found, Prior) else found

    def policy(self, player: Controller | None, squad: Seated) -> Policy:
        """The policy of all seats: the player itself, or a team that it sits in."""
        if self.team is None:
            assert player is not None
            return player
        assert isinstance(squad, Squad)
        return TeamPolicy(player, squad, self.team.draw, tell_players=self.config.model_part.told_players)

    def test_epsilon(self) -> Array:
        """How much is explored in tests."""
        return jnp.float32(0.0 if self.config.test_greedy else self.config.epsilon_finish)


class Collector(Protocol[S]):
    """Plays the episodes of all seeds. Built from a `Seating`, for one program.

    Raises when it is built:
        UserError: it cannot play this game, or not with these settings.
    """

    inside: bool
    """Whether its functions are pure, so that compiled programs have them inside; otherwise they are called between
    compiled programs, with arrays of NumPy as their results."""
    iterations: int
    """Rounds of one chunk."""
    seeds: SeedMap
    """How functions of one seed become functions of all seeds in its program."""
    host_seconds: float
    """How long the newest round kept the host busy outside compiled programs."""

    def squad(self) -> Seated:
        """What it contributes to a new `RunState`, and so to every checkpoint: `RunState.squad`."""
        ...

    def open(self, state: RunState[S], say: Say) -> Rollout | None:
        """Gets ready to play, before the clock of the run starts.

        Args:
            state: of the run.
            say: receives what the user should know while the run goes on.

        Returns:
            Shapes of what `collect` brings, for the program to be compiled for; None where it is inside of it.
        """
        ...

    def collect(self, state: RunState[S]) -> Rollout:
        """A round of training episodes: arrays [Z, B, ...]. Without a batch there is nothing to learn from them."""
        ...

    def test(self, state: RunState[S], player: str, *, record: bool, film: Film | None = None) -> Rollout:
        """Test episodes, the same games whoever plays them; leaves the run's random numbers alone.

        Args:
            state: of the run.
            player: `TESTED`, or one of the learner's controls.
            record: whether the batch is wanted.
            film: what is filmed of the games; None, as where games are on the host, for nothing.

        Returns:
            Arrays [Z, E, ...].
        """
        ...

    def examine_key(self, key: Array) -> Array:
        """From a seed's key, that of what is drawn when the learner examines its test episodes."""
        ...

    def dropped(self) -> np.ndarray | None:
        """Episodes of every seed, [Z], lost since this was last asked; None where none can be lost."""
        ...

    def close(self) -> None:
        """Frees what it holds outside this process; may be called twice."""
        ...


MakeCollector = Callable[[Seating[S]], Collector[S]]
"""What a program is given: builds its collector."""


class CompiledCollector(Generic[S]):
    """Plays games that are JAX programs, by the runner's `play`, all seeds and games of a round at once."""

    inside = True
    host_seconds = 0.0

    def __init__(self, seating: Seating[S]) -> None:
        self.seating = seating
        self.seeds = seeds_on_device()
        self.iterations = iterations_per_chunk(seating.config, seating.env.spec.episode_limit)
        self._play = RUNNERS[seating.config.runner].build.play
        self._dtype = jnp.dtype(seating.config.buffer_dtype)
        self._shared = {"games": seating.spread.games} if seating.spread.shares_games else {}

    def squad(self) -> Squad | None:
        """See `Collector`."""
        return None if self.seating.team is None else self.seating.team.squad

    def open(self, state: RunState[S], say: Say) -> None:
        """See `Collector`; there is nothing to open."""

    def collect(self, state: RunState[S]) -> Rollout:
        """See `Collector`."""

        def one(learner: S, key: Array, t_env: Count) -> Rollout:
            return self._play(
                self.seating.env,
                self.seating.policy(self.seating.player(learner, POLICY), state.squad),
                split_key(key)[1],
                self.seating.config.batch_size_run,
                exploration(self.seating.config, t_env),
                dtype=self._dtype,
                axis_name=self.seeds.axis,
                **self._shared,
            )

        return self.seating.spread.played(self.seeds(one)(state.learner, state.key, state.t_env))

    def test(self, state: RunState[S], player: str, *, record: bool, film: Film | None = None) -> Rollout:
        """See `Collector`."""

        def one(learner: S, key: Array) -> Rollout:
            return self._play(
                self.seating.env,
                self.seating.policy(self.seating.player(learner, player), state.squad),
                jax.random.fold_in(key, TEST_STREAM),
                self.seating.config.test_nepisode,
                self.seating.test_epsilon(),
                record=record,
                axis_name=self.seeds.axis,
                film=film,
                **self._shared,
            )

        return self.seeds(one)(state.learner, state.key)

    def examine_key(self, key: Array) -> Array:
        """See `Collector`."""
        return jax.random.fold_in(key, EXAMINE_STREAM)

    def dropped(self) -> None:
        """See `Collector`."""

    def close(self) -> None:
        """See `Collector`; there is nothing to close."""


def iterations_per_chunk(config: Config, episode_limit: int) -> int:
    """Enough iterations to make the host's work negligible, few enough to test and log in time; with `debug` one."""
    if config.debug:
        return 1
    shortest = min(config.test_interval, config.log_interval, config.t_max)
    return int(max(1, min(16, shortest // (config.batch_size_run * episode_limit))))
