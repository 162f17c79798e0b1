"""Two teams against each other: every player of one list in all seats of a side, every player of another opposite.

Letters in shapes: E battles per pairing of a player on the left of the table with one on the right,
B battles in one call, A seats of a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.base import Lineup, Player
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs.base import Observation
from omg.envs.battle import Duel
from omg.evaluation.statistics import Estimate, share_interval
from omg.evaluation.tables import DuelRow
from omg.runners.vector import EpisodeStats, play_episodes
from omg.types import PyTree

_BATTLES = 512
"""Battles of one compiled call; a battle has two teams, so it costs as much as two games against a script."""


class Contender(NamedTuple):
    """A player that fills all seats of a side."""

    name: str
    algorithm: str
    player: Player | None
    """None of a script that is not built for its game yet."""

    def seated(self) -> Player:
        """The player, which is built when battles begin."""
        assert self.player is not None
        return self.player


class Results(NamedTuple):
    """What happened in all battles of all pairings, arrays [left, right, E]."""

    won: np.ndarray
    """bool, the left team won."""
    lost: np.ndarray
    """bool, the right team won; a battle that is neither was drawn."""
    west: np.ndarray
    """bool, the left team stood in the west."""
    lengths: np.ndarray
    """Steps."""


def pairing_order(left: int, right: int) -> np.ndarray:
    """All pairings [pairings, 2] in an order in which every stretch has all players of both lists about equally often.

    A call of the program then has as few places for every player as possible.
    """
    index = np.arange(left * right)
    # Along a diagonal both numbers step on; after a whole round of both it has met its beginning and moves over by one.
    return np.stack([index % left, (index + index // math.lcm(left, right)) % right], axis=1)


def versus(
    duel: Duel,
    left: Sequence[Contender],
    right: Sequence[Contender],
    episodes: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Plays every player on the left against every player on the right, from both sides of the field.

    Args:
        duel: The game.
        left: Players whose victories count as won.
        right: Their opponents.
        episodes: E, battles per pairing; rounded up to an even number, so that each has both sides equally often.
        seed: Of starts and fights.
        progress: Called with the number of pairings done and of all pairings.
    """
    episodes += episodes % 2
    pairs = pairing_order(len(left), len(right))
    at_once = min(len(pairs), max(1, _BATTLES // episodes))
    squads = [build_squad([contender.seated() for contender in side]) for side in (left, right)]
    # A last call of fewer pairings is filled up with the first pairings, so that one compilation serves all.
    calls = [
        np.take(pairs, np.arange(first, first + at_once), axis=0, mode="wrap")
        for first in range(0, len(pairs), at_once)
    ]
    most = [_most(calls, column, len(side)) for column, side in enumerate((left, right))]
    won, lost, lengths = (np.zeros((len(left), len(right), episodes), kind) for kind in (bool, bool, np.int64))
    for number, call in enumerate(calls):
        draws = [
            _draw(np.asarray(position)[call[:, column]], episodes, duel.spec.n_agents, squad.size, pairings)
            for column, ((squad, position), pairings) in enumerate(zip(squads, most, strict=True))
        ]
        teams = BothTeams(*(TeamPolicy(None, squad, draw) for (squad, _), draw in zip(squads, draws, strict=True)))
        key = jax.random.fold_in(jax.random.PRNGKey(seed), number)
        stats = jax.device_get(_play(duel, teams, key, 2 * at_once * episodes))
        left_won, right_won = np.split(stats.metrics["battle_won"] > 0, 2)
        done = min((number + 1) * at_once, len(pairs))
        new = done - number * at_once
        for array, values in ((won, left_won), (lost, right_won), (lengths, np.split(stats.lengths, 2)[0])):
            array[call[:new, 0], call[:new, 1]] = values.reshape(at_once, episodes)[:new]
        if progress is not None:
            progress(done, len(pairs))
    west = np.broadcast_to(np.arange(episodes) % 2 == 0, won.shape)
    return Results(won, lost, west, lengths)


def versus_rows(left: Sequence[Contender], right: Sequence[Contender], results: Results) -> list[DuelRow]:
    """One row per pairing and metric.

    Metrics: the shares `won`, `drawn` and `lost` as the left team sees them, `won_west` and `won_east` by the side it
    stood on, and `ep_length`. `low` and `high` are the ends of 95 % intervals over battles; of lengths there are none.
    """
    rows: list[DuelRow] = []
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            won, lost, west = results.won[i, j], results.lost[i, j], results.west[i, j]
            shares = {"won": won, "drawn": ~won & ~lost, "lost": lost, "won_west": won[west], "won_east": won[~west]}
            for metric, values in shares.items():
                share = share_interval(int(values.sum()), len(values))
                rows.append(_row(one, other, metric, share, len(values)))
            length = Estimate(float(results.lengths[i, j].mean()), math.nan, math.nan)
            rows.append(_row(one, other, "ep_length", length, won.size))
    return rows


def _row(left: Contender, right: Contender, metric: str, found: Estimate, battles: int) -> DuelRow:
    return DuelRow(
        left=left.name,
        right=right.name,
        metric=metric,
        mean=found.value,
        low=found.low,
        high=found.high,
        episodes=battles,
    )


class BothTeams(eqx.Module):
    """Fills the rows of a `Duel`: the first half by the home team's policy, the second by the away team's."""

    home: TeamPolicy
    away: TeamPolicy

    def initial(self, batch: int, key: Array) -> tuple[PyTree, PyTree]:
        """See `Policy.initial`."""
        keys = jax.random.split(key)
        return self.home.initial(batch // 2, keys[0]), self.away.initial(batch // 2, keys[1])

    def act(
        self, observation: Observation, memory: tuple[PyTree, PyTree], key: Array, epsilon: Array | float
    ) -> tuple[Array, tuple[PyTree, PyTree], dict[str, Array]]:
        """See `Policy.act`; nothing is stored."""
        halves = [Observation(*parts) for parts in zip(*(jnp.split(field, 2) for field in observation), strict=True)]
        keys = jax.random.split(key)
        acted = [
            team.act(seen, past, own, epsilon)
            for team, seen, past, own in zip((self.home, self.away), halves, memory, keys, strict=True)
        ]
        return jnp.concatenate([actions for actions, _, _ in acted]), (acted[0][1], acted[1][1]), {}

    def lineup(self, memory: tuple[PyTree, PyTree]) -> None:
        """Nobody learns here."""


def _most(calls: Sequence[np.ndarray], column: int, players: int) -> int:
    """The most pairings that any player of a side has in any call."""
    return max(int(np.bincount(call[:, column], minlength=players).max()) for call in calls)


def _draw(players: np.ndarray, episodes: int, seats: int, number: int, pairings: int) -> TeamDraw:
    """Battles, pairing by pairing, in which one player has all seats of a team.

    Args:
        players: Number in the squad of each pairing's player.
        episodes: E.
        seats: A.
        number: Of players in the squad.
        pairings: The most that any of them has.
    """
    everywhere = np.repeat(players, episodes * seats).reshape(-1, seats)
    lineup = Lineup(jnp.zeros(len(everywhere), jnp.int32), jnp.asarray(everywhere, jnp.int32))
    return TeamDraw(
        (TeamSlots(seats, tuple(range(number))),), fixed=lineup, most=(pairings * episodes * seats,) * number
    )


@eqx.filter_jit
def _play(duel: Duel, teams: BothTeams, key: Array, rows: int) -> EpisodeStats:
    return play_episodes(duel, teams, key, rows, 0.0, record=False).stats
