"""Agents among team-mates they may never have met: every agent plays the same teams, starts and random numbers.

Letters in shapes: S agents of one structure (training seeds), N teams, E episodes per team, A seats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from omg.config import Config
from omg.controllers import LEARNER, Lineup, Squad, TeamDraw, TeamPart, TeamPolicy, build_squad
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation.groups import Group, MemberName
from omg.pools import Pool
from omg.runners import EpisodeStats, Rollout, play_episodes
from omg.training.team import load_player

Row = dict[str, Any]

_AXIS = "agents"
_GAMES_AT_ONCE = {"cpu": 1024, "gpu": 16384}
"""Games in one compiled call, all agents together; more would not be faster."""


class Mates(NamedTuple):
    """The members of a pool's set, ready to sit beside an agent."""

    members: tuple[MemberName, ...]
    squad: Squad
    position: tuple[int, ...]
    """Number in the squad of each member."""


def load_mates(pool: Pool, which: str | None, config: Config, env: Env) -> Mates:
    """The players of a set of a pool (None: of all sets); those that do not fit the agent's game or view are refused.

    Raises:
        UserError: no such set, nobody in it, or somebody who does not fit.
    """
    members = pool.members(which)
    squad, position = build_squad([load_player(pool, member, config, env) for member in members])
    names = tuple(MemberName(member.name, member.algorithm) for member in members)
    return Mates(names, squad, tuple(position))


def lineups(mates: np.ndarray, position: Sequence[int], episodes: int) -> Lineup:
    """Who sits where in N x E games, team by team: the agent moves one seat on from episode to episode.

    Args:
        mates: [N, A-1] members by number.
        position: Number in the squad of each member.
        episodes: E.
    """
    teams, seats = mates.shape[0], mates.shape[1] + 1
    seat = np.tile(np.arange(episodes) % seats, teams)
    players = np.full((teams * episodes, seats), LEARNER, np.int32)
    numbers = np.asarray(position, np.int32)[mates]
    rows = np.arange(teams * episodes)
    for mate in range(seats - 1):
        players[rows, (seat + 1 + mate) % seats] = np.repeat(numbers[:, mate], episodes)
    return Lineup(jnp.asarray(seat, jnp.int32), jnp.asarray(players))


def evaluate_groups(
    env: Env,
    agents: Any,
    mates: Mates,
    groups: Sequence[Group],
    episodes: int,
    seed: int = 0,
    *,
    epsilon: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, np.ndarray]]:
    """Plays every team of all groups `episodes` times with every agent.

    Args:
        env: The game.
        agents: A `controllers.Player` whose arrays have a leading axis S (see `stack_agents`).
        mates: The team-mates.
        groups: The teams; all groups are played as one, so that they share a compilation.
        episodes: E.
        seed: Of starts, fights and draws; the same for all agents, so that they can be compared in pairs.
        epsilon: Exploration of the agent; 0 is greedy.
        progress: Called with the number of teams done and of all teams.

    Returns:
        Group -> metric -> [S, N, E] float64: `return`, `ep_length`, those of the game, and in general-sum games
        `own_return`.
    """
    every = np.concatenate([group.mates for group in groups])
    number = _agents_in(agents)
    limit = _GAMES_AT_ONCE["gpu" if jax.default_backend() == "gpu" else "cpu"]
    chunks = -(-len(every) // max(1, limit // (episodes * number)))
    at_once = -(-len(every) // chunks)
    places = _places(every, at_once) * episodes
    parts: list[dict[str, np.ndarray]] = []
    for first in range(0, len(every), at_once):
        chunk = every[first : first + at_once]
        # A last chunk that is too short is filled up with the first teams, so that one compilation serves all.
        filled = np.concatenate([chunk, every[: at_once - len(chunk)]])
        draw = _fixed_draw(lineups(filled, mates.position, episodes), mates.squad.size, places)
        key = jax.random.fold_in(jax.random.PRNGKey(seed), first)
        stats = jax.device_get(_play(env, agents, mates.squad, draw, key, at_once * episodes, epsilon))
        named = {"return": stats.returns, "ep_length": stats.lengths, **stats.metrics}
        shape = (number, at_once, episodes)
        kept = {name: np.asarray(values, np.float64).reshape(shape) for name, values in named.items()}
        parts.append({name: values[:, : len(chunk)] for name, values in kept.items()})
        if progress is not None:
            progress(first + len(chunk), len(every))
    whole = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    ends = np.cumsum([len(group.mates) for group in groups])
    return {
        group.name: {name: values[:, end - len(group.mates) : end] for name, values in whole.items()}
        for group, end in zip(groups, ends, strict=True)
    }


def score_rows(
    label: str, seeds: Sequence[int], group: Group, scores: dict[str, np.ndarray], metrics: Sequence[str] | None = None
) -> list[Row]:
    """Tidy rows of what `evaluate_group` returned: one per agent, team and metric.

    Args:
        label: Name of the agents.
        seeds: [S], what tells them apart.
        group: The teams.
        scores: Metric -> [S, N, E].
        metrics: Names to keep; None for all.

    Returns:
        Rows with the columns agent, seed, group, team, episodes, metric, mean.
    """
    rows = []
    for metric, values in scores.items():
        if metrics is not None and metric not in metrics:
            continue
        for index, seed in enumerate(seeds):
            for team, name in enumerate(group.teams):
                mean = float(values[index, team].mean())
                facts = {"agent": label, "seed": int(seed), "group": group.name, "team": name}
                rows.append({**facts, "episodes": values.shape[2], "metric": metric, "mean": mean})
    return rows


def stack_agents(players: Sequence[Any]) -> Any:
    """Players of one structure as a single one whose arrays have a leading axis S.

    Raises:
        UserError: their structures differ.
    """
    squad, _ = build_squad(players)
    if len(squad.kinds) != 1:
        raise UserError(f"agents: {len(players)} agents of {len(squad.kinds)} different structures cannot be compared.")
    return squad.kinds[0]


def record_group(
    env: Env, agents: Any, mates: Mates, group: Group, episodes: int, seed: int = 0
) -> tuple[Rollout, np.ndarray]:
    """Plays the teams of a group and keeps everything that was seen, done and inferred.

    Returns:
        A rollout of NumPy arrays [S, N * E, ...], and the team [N * E] of each episode.
    """
    games = len(group.teams) * episodes
    places = _places(group.mates, len(group.mates)) * episodes
    draw = _fixed_draw(lineups(group.mates, mates.position, episodes), mates.squad.size, places)
    rollout = _play(env, agents, mates.squad, draw, jax.random.PRNGKey(seed), games, 0.0, record=True)
    return jax.device_get(rollout), np.repeat(np.arange(len(group.teams)), episodes)


def _places(mates: np.ndarray, at_once: int) -> int:
    """The most seats that one player has in any choice of `at_once` teams, [N, A-1] members by number."""
    counts = np.stack([np.bincount(row, minlength=mates.max() + 1) for row in mates])
    return int(np.sort(counts, axis=0)[::-1][:at_once].sum(axis=0).max())


def _fixed_draw(lineup: Lineup, players: int, places: int) -> TeamDraw:
    seats = lineup.players.shape[1]
    parts = (TeamPart(1, ()), TeamPart(seats - 1, tuple(range(players))))
    return TeamDraw(parts, fixed=lineup, most=(places,) * players)


def _agents_in(agents: Any) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(agents) if eqx.is_array(leaf)]
    return int(leaves[0].shape[0]) if leaves else 1


@eqx.filter_jit
def _play(
    env: Env,
    agents: Any,
    squad: Squad,
    draw: TeamDraw,
    key: jax.Array,
    games: int,
    epsilon: float,
    record: bool = False,
) -> EpisodeStats | Rollout:
    """Statistics [S, games], or with `record` whole rollouts; the same games for all agents."""
    arrays, rest = eqx.partition(agents, eqx.is_array)
    named = None if not jax.tree.leaves(arrays) else _AXIS

    def one(own: Any) -> EpisodeStats | Rollout:
        policy = TeamPolicy(eqx.combine(own, rest), squad, draw)
        rollout = play_episodes(env, policy, key, games, epsilon, record=record, axis_name=named)
        return rollout if record else rollout.stats

    if named is None:
        return jax.tree.map(lambda leaf: leaf[None], one(arrays))
    return jax.vmap(one, axis_name=named)(arrays)
