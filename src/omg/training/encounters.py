"""One player among frozen co-players, once for every team and seed, in one compiled program.

Which co-players sit where is data: every copy of the player (a *replicate*) has its own squad and its own lineup, so
that one compilation serves all of them. A squad holds, of each kind of co-player, as many as any team needs.

Letters in shapes: Z replicates, which are the seeds of the program, B games of a round, A seats.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count
from omg.config import Config
from omg.controllers.base import Lineup, Player
from omg.controllers.draw import LEARNER, TeamDraw, TeamSlots
from omg.controllers.team import Squad, TeamPolicy, build_squad
from omg.envs import Env
from omg.envs.adapters.host import is_hosted
from omg.errors import UserError
from omg.learners.base import S
from omg.runners.vector import OWN_RETURN, EpisodeStats, Film, Rollout, play_episodes
from omg.training.collecting import POLICY, TESTED, Say, Seating
from omg.training.program import Program
from omg.training.spread import Spread
from omg.training.state import EXAMINE_STREAM, TEST_STREAM, RunState, Seated, SeedMap, exploration, split_key
from omg.training.team import TeamSetup
from omg.training.tuned import tuned_for
from omg.types import PyTree

_BYTES_AT_ONCE = 2_000_000_000
"""Of learners and their buffers: more replicates than fit are played one part after the other."""


class Teams(NamedTuple):
    """Teams around one seat."""

    names: tuple[str, ...]
    squads: Squad
    """Leaves [teams, players of the kind, ...]."""
    players: np.ndarray
    """[teams, A] int32, number in the team's own squad; LEARNER in the seat that is played for."""
    seat: int
    """The seat that is played for."""
    most: tuple[int, ...]
    """Of each player of a squad: the most seats that it has in any team."""
    turns: tuple[int, ...] = ()
    """Seats that are played for from game to game, the others moving round the table along; empty: `seat` alone."""

    def lineup(self, team: np.ndarray, games: int) -> Lineup:
        """Who sits where in `games` games of each replicate: [Z] teams -> leaves [Z, games, ...]."""
        turns = np.asarray(self.turns or (self.seat,), np.int32)
        taken = turns[np.arange(games) % len(turns)]
        seats = self.players.shape[1]
        source = (np.arange(seats) - taken[:, None] + self.seat) % seats
        return Lineup(
            jnp.asarray(np.tile(taken, (len(team), 1))),
            jnp.asarray(self.players[team][:, source]),
        )


def build_teams(
    names: Sequence[str], mates: np.ndarray, players: Sequence[Player], seat: int, turns: tuple[int, ...] = ()
) -> Teams:
    """Seats co-players around `seat`.

    Args:
        names: [teams] of the teams.
        mates: [teams, A-1] integers, players by number, in the order in which they follow the seat round the table.
        players: the co-players (`controllers.Player`); each is in some team.
        seat: the seat that is played for.
        turns: see `Teams`.
    """
    squad, position = build_squad(players)
    teams, others = mates.shape
    ends = np.cumsum((0, *squad.numbers))
    # In a team of several, each of them needs a place of its own in the squad.
    members = [list(dict.fromkeys(position[mate] for mate in row)) for row in mates]
    seated = np.full((teams, others + 1), LEARNER, np.int32)
    kinds: list[PyTree] = []
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
    most = tuple(int(count) for count in counts)
    return Teams(tuple(names), Squad(tuple(kinds), tuple(numbers)), seated, seat, most, turns)


class EncounterCollector(Generic[S]):
    """Plays the copies of one player, each with its own co-players; those are `RunState.squad`, with their lineups."""

    inside = True
    iterations = 1
    seeds = SeedMap()
    host_seconds = 0.0

    def __init__(self, seating: Seating[S], *, frozen: bool, player: Player | None) -> None:
        """Looks whether the game is compiled; arguments as for `EncounterProgram`.

        Raises:
            UserError: it is played on the host.
        """
        config = seating.config
        if is_hosted(seating.env):
            raise UserError(f"env: {config.env} is no JAX program; adaptation is measured in compiled games only.")
        assert seating.team is not None
        self.seating, self.draw = seating, seating.team.draw
        self.frozen, self.stand_in = frozen, player
        # A planner learns from what its search found, whatever it then does; others must draw to learn from it.
        self.plays_best = frozen or config.learner_part.plans
        self._dtype = jnp.dtype(config.buffer_dtype)

    def squad(self) -> Seated:
        """See `Collector`; whose co-players they are is known only when the encounters begin."""
        return None

    def open(self, state: RunState[S], say: Say) -> None:
        """See `Collector`; there is nothing to open."""

    def collect(self, state: RunState[S]) -> Rollout:
        """See `Collector`; not recorded where the player does not learn."""

        def one(learner: S, key: Array, t_env: Count, squad: Seated) -> Rollout:
            epsilon = 0.0 if self.plays_best else exploration(self.seating.config, t_env)
            player = TESTED if self.plays_best else POLICY
            return self._play(learner, player, squad, split_key(key)[1], epsilon, record=not self.frozen)

        return self.seeds(one)(state.learner, state.key, state.t_env, state.squad)

    def test(self, state: RunState[S], player: str, *, record: bool, film: Film | None = None) -> Rollout:
        """See `Collector`; one round with the same co-players."""

        def one(learner: S, key: Array, squad: Seated) -> Rollout:
            play_key = jax.random.fold_in(key, TEST_STREAM)
            epsilon = self.seating.test_epsilon()
            return self._play(learner, player, squad, play_key, epsilon, record=record, film=film)

        return self.seeds(one)(state.learner, state.key, state.squad)

    def examine_key(self, key: Array) -> Array:
        """See `Collector`."""
        return jax.random.fold_in(key, EXAMINE_STREAM)

    def dropped(self) -> None:
        """See `Collector`."""

    def close(self) -> None:
        """See `Collector`; there is nothing to close."""

    def _play(
        self,
        learner: S,
        player: str,
        squad: Seated,
        key: Array,
        epsilon: Array | float,
        *,
        record: bool,
        film: Film | None = None,
    ) -> Rollout:
        """A round of one replicate."""
        assert isinstance(squad, tuple)
        mates, lineup = squad
        acting = self.seating.player(learner, player) if self.stand_in is None else self.stand_in
        return play_episodes(
            self.seating.env,
            TeamPolicy(acting, mates, dataclasses.replace(self.draw, fixed=lineup)),
            key,
            self.seating.config.batch_size_run,
            epsilon,
            record=record,
            dtype=self._dtype,
            axis_name=self.seeds.axis,
            film=film,
        )


class EncounterProgram(Program[PyTree]):
    """A program whose seeds are replicates: copies of one player, each with co-players of its own, who never learn."""

    def __init__(
        self,
        config: Config,
        teams: Teams,
        *,
        env: Env | None = None,
        frozen: bool = False,
        player: Player | None = None,
    ) -> None:
        """Builds the programs.

        Args:
            config: of the player, as that of a run in one seat; `batch_size_run` games make a round.
            teams: the co-players.
            env: the game, where it has been built already.
            frozen: whether the player does not learn, either.
            player: who plays instead of the learner's own player, e.g. a script; it never learns.

        Raises:
            UserError: the game is played on the host.
        """
        self.frozen = frozen or player is not None
        self.teams = teams
        most = tuple(seats * config.batch_size_run for seats in teams.most)
        others = TeamSlots(teams.players.shape[1] - 1, tuple(range(len(most))))
        draw = TeamDraw((TeamSlots(1, ()), others), rotate=False, most=most)
        team = TeamSetup(draw, teams.squads, teams.names)
        super().__init__(
            config,
            env,
            team=team,
            collector=partial(EncounterCollector, frozen=self.frozen, player=player),
            # The agent has the prior that it was trained with.
            keep_prior=True,
            spread=Spread(),
        )

    def begin(self, learner: PyTree, seeds: Sequence[int], team: np.ndarray) -> RunState:
        """The state before the first round.

        Args:
            learner: state of the learner, leaves [Z, ...].
            seeds: [Z], of the games: with one seed and team the same games begin, whoever plays.
            team: [Z] integers, the team of each.
        """
        games, replicates = self.config.batch_size_run, len(seeds)
        # The name, not the number: who else is met does not change the games with a team.
        streams = [zlib.crc32(self.teams.names[number].encode()) & 0x7FFFFFFF for number in team]
        keys = jax.vmap(lambda seed, stream: jax.random.fold_in(jax.random.PRNGKey(seed), stream))(
            jnp.asarray(seeds, jnp.uint32), jnp.asarray(streams, jnp.uint32)
        )
        lineup = self.teams.lineup(np.asarray(team), games)
        squad = jax.tree.map(lambda leaf: leaf[team], self.teams.squads)
        storage = None if self.frozen else self.storage_shape()
        storage = jax.tree.map(lambda leaf: np.zeros((replicates, *leaf.shape), leaf.dtype), storage)
        # Counters of their own each: the state is used up when it is played, and one array cannot be used up twice.
        counters = (Count.of(0, (replicates,)), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        state: RunState = jax.device_put(
            RunState(learner, storage, keys, *counters, (squad, lineup), tuned_for(self.config, replicates))
        )
        return state

    def at_once(self) -> int:
        """Replicates whose learners and buffers fit into memory together."""
        learner = jax.eval_shape(self.learner.init, jax.random.PRNGKey(0))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner)) + self.storage_bytes()
        return max(1, _BYTES_AT_ONCE // size)

    def play(
        self, state: RunState, rounds: int, progress: Callable[[int, int], None] = lambda done, rounds: None
    ) -> tuple[RunState, np.ndarray]:
        """Plays, and unless it is frozen learns, round by round.

        Args:
            state: from `begin` or an earlier call; it is used up.
            rounds: how many.
            progress: told the rounds done and all of them.

        Returns:
            The state afterwards, and what the player earned, [Z, rounds * B] float64: of each seat its own reward
            where the game has those.
        """
        earned = []
        for done in range(rounds):
            state, log = self.chunk(state)
            earned.append(np.asarray(own_rewards(log.stats), np.float64)[0])
            progress(done + 1, rounds)
        return state, np.concatenate(earned, axis=1)


def own_rewards(stats: EpisodeStats) -> Array:
    """What each episode brought the player, of its own where there is such a thing and else of the team."""
    return stats.metrics.get(OWN_RETURN, stats.returns)
