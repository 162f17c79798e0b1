"""One player among frozen co-players, once for every team and seed, in one compiled program.

Which co-players sit where is data: every copy of the player (a *replicate*) has its own squad and its own lineup, so
that one compilation serves all of them. A squad holds, of each kind of co-player, as many as any team needs.

Letters in shapes: M teams, R replicates, B games of a round, A seats.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count
from omg.config import Config
from omg.controllers.base import Lineup
from omg.controllers.draw import LEARNER, TeamDraw, TeamPart
from omg.controllers.team import Squad, TeamPolicy, build_squad
from omg.envs import plays_on_host
from omg.errors import UserError
from omg.runners.vector import OWN_RETURN, EpisodeStats, play_episodes
from omg.training.program import SEEDS_AXIS, IterationLog, Program, RunState
from omg.training.team import TeamSetup


class Teams(NamedTuple):
    """M teams around one seat."""

    names: tuple[str, ...]
    squads: Squad
    """Leaves [M, players of the kind, ...]."""
    players: np.ndarray
    """[M, A] int32, number in the team's own squad; LEARNER in the seat that is played for."""
    seat: int
    """The seat that is played for."""
    most: tuple[int, ...]
    """Of each player of a squad: the most seats that it has in any team."""


def build_teams(names: Sequence[str], mates: np.ndarray, players: Sequence[Any], seat: int) -> Teams:
    """Seats co-players around `seat`.

    Args:
        names: [M] of the teams.
        mates: [M, A-1] integers, players by number, in the order in which they follow the seat round the table.
        players: the co-players (`controllers.Player`); each is in some team.
        seat: the seat that is played for.
    """
    squad, position = build_squad(players)
    teams, others = mates.shape
    ends = np.cumsum((0, *squad.numbers))
    # In a team of several, each of them needs a place of its own in the squad.
    members = [list(dict.fromkeys(position[mate] for mate in row)) for row in mates]
    seated = np.full((teams, others + 1), LEARNER, np.int32)
    kinds: list[Any] = []
    numbers: list[int] = []
    for kind, (first, end) in zip(squad.kinds, pairwise(ends), strict=True):
        mine = [[member for member in row if first <= member < end] for row in members]
        width = max(map(len, mine))
        chosen = np.zeros((teams, width), np.int32)
        for team, row in enumerate(mine):
            chosen[team, : len(row)] = np.asarray(row, np.int32) - first
            for mate, member in enumerate(position[one] for one in mates[team]):
                if member in row:
                    seated[team, (seat + 1 + mate) % (others + 1)] = sum(numbers) + row.index(member)
        # By NumPy: every indexing of a JAX array would be a compilation of its own.
        kinds.append(jax.tree.map(lambda leaf, chosen=chosen: np.asarray(leaf)[chosen], kind))
        numbers.append(width)
    counts = [np.sum(seated == number, axis=1).max() for number in range(sum(numbers))]
    return Teams(tuple(names), Squad(tuple(kinds), tuple(numbers)), seated, seat, tuple(int(count) for count in counts))


class EncounterProgram(Program):
    """`Program` whose seeds are replicates: copies of one player, each with co-players of its own, who never learn."""

    def __init__(self, config: Config, teams: Teams, *, frozen: bool = False, player: Any = None) -> None:
        """Builds the programs.

        Args:
            config: of the player, as that of a run in one seat; `batch_size_run` games make a round.
            teams: the co-players.
            frozen: whether the player does not learn, either.
            player: who plays instead of the learner's own player, e.g. a script; it never learns.

        Raises:
            UserError: the game is played on the host.
        """
        if plays_on_host(config.env, config.env_args):
            raise UserError(f"env: {config.env} is no JAX program; adaptation is measured in compiled games only.")
        self.frozen = frozen or player is not None
        self.player = player
        self.teams = teams
        most = tuple(seats * config.batch_size_run for seats in teams.most)
        others = TeamPart(teams.players.shape[1] - 1, tuple(range(len(most))))
        draw = TeamDraw((TeamPart(1, ()), others), rotate=False, most=most)
        super().__init__(config, TeamSetup(draw, teams.squads, teams.names))
        if hasattr(self.learner, "learns_prior"):
            # The agent has the prior that it was trained with.
            self.learner.learns_prior = False
        self.iterations = 1
        # A planner learns from what its search found, whatever it then does; others must draw to learn from it.
        self.plays_best = self.frozen or config.learner_part.plans

    def begin(self, learner: Any, seeds: Sequence[int], team: np.ndarray) -> RunState:
        """The state before the first round.

        Args:
            learner: state of the learner, leaves [R, ...].
            seeds: [R], of the games: with one seed and team the same games begin, whoever plays.
            team: [R] integers, the team of each.
        """
        games, replicates = self.config.batch_size_run, len(seeds)
        # The name, not the number: who else is met does not change the games with a team.
        streams = [zlib.crc32(self.teams.names[number].encode()) & 0x7FFFFFFF for number in team]
        keys = jax.vmap(lambda seed, stream: jax.random.fold_in(jax.random.PRNGKey(seed), stream))(
            jnp.asarray(seeds, jnp.uint32), jnp.asarray(streams, jnp.uint32)
        )
        lineup = Lineup(
            jnp.full((replicates, games), self.teams.seat, jnp.int32),
            jnp.asarray(np.repeat(self.teams.players[team][:, None], games, axis=1)),
        )
        squad = jax.tree.map(lambda leaf: leaf[team], self.teams.squads)
        storage = None if self.frozen else self.storage_shape()
        storage = jax.tree.map(lambda leaf: np.zeros((replicates, *leaf.shape), leaf.dtype), storage)
        # Counters of their own each: the state is used up when it is played, and one array cannot be used up twice.
        counters = (Count.of(0, (replicates,)), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        state: RunState = jax.device_put(RunState(learner, storage, keys, *counters, (squad, lineup)))
        return state

    def play(
        self, state: RunState, rounds: int, progress: Callable[[int, int], None] = lambda done, rounds: None
    ) -> tuple[RunState, np.ndarray]:
        """Plays, and unless it is frozen learns, round by round.

        Args:
            state: from `begin` or an earlier call; it is used up.
            rounds: how many.
            progress: told the rounds done and all of them.

        Returns:
            The state afterwards, and what the player earned, [R, rounds * B] float64: of each seat its own reward
            where the game has those.
        """
        earned = []
        for done in range(rounds):
            state, log = self.chunk(state)
            earned.append(np.asarray(own_rewards(log.stats), np.float64)[0])
            progress(done + 1, rounds)
        return state, np.concatenate(earned, axis=1)

    def _play_with(self, player: Any, squad: tuple[Squad, Lineup]) -> TeamPolicy:
        assert self.team is not None
        mates, lineup = squad
        return TeamPolicy(player, mates, dataclasses.replace(self.team.draw, fixed=lineup))

    def _chunk(self, state: RunState) -> tuple[RunState, IterationLog]:
        games = self.config.batch_size_run
        episodes, stored = state.episodes + games, state.stored + games
        one = jax.vmap(partial(self._encounter, episodes=episodes, stored=stored), axis_name=SEEDS_AXIS)
        learner, storage, key, t_env, log = one(state.learner, state.storage, state.key, state.t_env, state.squad)
        state = RunState(learner, storage, key, t_env, episodes, stored, state.squad)
        return state, jax.tree.map(lambda leaf: leaf[None], log)

    def _encounter(
        self, learner: Any, storage: Any, key: Array, t_env: Count, squad: Any, *, episodes: Array, stored: Array
    ) -> tuple[Any, Any, Array, Count, IterationLog]:
        """One round of one replicate; the counters include its episodes."""
        next_key, play_key, _ = self._split(key)
        rollout = play_episodes(
            self.env,
            self._play_with(self._player(learner), squad),
            play_key,
            self.config.batch_size_run,
            0.0 if self.plays_best else self._epsilon(t_env),
            record=not self.frozen,
            dtype=self.dtype,
            axis_name=SEEDS_AXIS,
        )
        if rollout.batch is not None:
            return self._take_in(
                learner, storage, key, t_env, rollout.batch, rollout.stats, episodes=episodes, stored=stored
            )
        t_env = t_env.plus(rollout.stats.lengths.sum())
        log = IterationLog(rollout.stats, {}, jnp.int32(0), jnp.float32(0.0), t_env, jnp.bool_(True))
        return learner, storage, next_key, t_env, log

    def _player(self, learner: Any) -> Any:
        if self.player is not None:
            return self.player
        return self.learner.tested(learner) if self.plays_best else self.learner.policy(learner)


def own_rewards(stats: EpisodeStats) -> Array:
    """What each episode brought the player, of its own where there is such a thing and else of the team."""
    return stats.metrics.get(OWN_RETURN, stats.returns)
