"""Agents among team-mates they may never have met: every agent plays the same teams, starts and random numbers.

Letters in shapes: Z agents of one structure (training seeds), E episodes per team, A seats.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from omg.config import Config, change_config
from omg.controllers.base import Lineup, ModelsOthers, Player
from omg.controllers.draw import LEARNER, TeamDraw, TeamSlots
from omg.controllers.team import Squad, TeamPolicy, build_squad
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation.groups import Group, MemberName, make_groups
from omg.evaluation.tables import ScoreRow
from omg.modules.opponent_models.identity import IdentityModel
from omg.pools import Pool
from omg.runners.vector import EpisodeStats, Rollout, play_episodes
from omg.training.adapting import adapt_players
from omg.training.team import load_player

Say = Callable[[str], None]

_AXIS = "agents"
_GAMES = 1024
"""Games of one agent in one compiled call. A game's random numbers depend on its place in the call, so this is the same
whatever the machine and the number of agents: otherwise two runs of unequal numbers of seeds would not be paired."""
_GAMES_AT_ONCE = {"cpu": 1024, "gpu": 16384}
"""Games in one compiled call, all agents together; more would not be faster."""


class Mates(NamedTuple):
    """The members of a pool's set, ready to sit beside an agent."""

    members: tuple[MemberName, ...]
    squad: Squad
    position: tuple[int, ...]
    """Number in the squad of each member."""
    adapted: bool = False
    """Whether some of them estimate the state from observations."""


def load_mates(
    pool: Pool, which: str | None, config: Config, env: Env, obs_adapter: str = "none", say: Say = lambda message: None
) -> Mates:
    """The players of a set of a pool (None: of all sets); those that do not fit the agent's game or view are refused.

    Args:
        pool: where they are.
        which: their set.
        config: of the agent they play with.
        env: the game.
        obs_adapter: `learn` gives players that read the state a map from observations where the agent has these only.
        say: told the error of that map.

    Raises:
        UserError: no such set, nobody in it, or somebody who does not fit.
    """
    if pool.spec != env.spec:
        raise UserError(
            f"pool: {pool.path} is for {pool.where}, but the agent plays {env.spec.name} {env.spec.scenario}."
        )
    members = pool.members(which)
    config = change_config(config, obs_adapter=obs_adapter)
    players, fitted = adapt_players([load_player(pool, member, config, env) for member in members], config, env)
    if fitted is not None:
        say(f"obs adapter of {pool.path}: {fitted.card.summary}")
    squad, position = build_squad(players)
    names = tuple(MemberName(member.name, member.algorithm) for member in members)
    return Mates(names, squad, tuple(position), fitted is not None)


def lineups(
    members: np.ndarray, position: Sequence[int], episodes: int, turns: tuple[int, ...] | None = None
) -> Lineup:
    """Who sits where in E games with each team, team by team: the agent moves one seat on from episode to episode.

    Args:
        members: [teams, A-1] by number.
        position: Number in the squad of each member.
        episodes: E.
        turns: Seats that the agent takes; None for all.
    """
    teams, seats = members.shape[0], members.shape[1] + 1
    taken = np.asarray(range(seats) if turns is None else turns)
    seat = np.tile(taken[np.arange(episodes) % len(taken)], teams)
    players = np.full((teams * episodes, seats), LEARNER, np.int32)
    numbers = np.asarray(position, np.int32)[members]
    rows = np.arange(teams * episodes)
    for mate in range(seats - 1):
        players[rows, (seat + 1 + mate) % seats] = np.repeat(numbers[:, mate], episodes)
    return Lineup(jnp.asarray(seat, jnp.int32), jnp.asarray(players))


def evaluate_groups(
    env: Env,
    agents: Player,
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
        agents: A `controllers.Player` whose arrays have a leading axis Z (see `stack_agents`).
        mates: The team-mates.
        groups: The teams.
        episodes: E.
        seed: Of starts, fights and draws; the same for all agents, so that they can be compared in pairs.
        epsilon: Exploration of the agent; 0 is greedy.
        progress: Called with the number of teams done and of all teams.

    Returns:
        Group -> metric -> [Z, teams, E] float64: `return`, `ep_length`, those of the game, and in general-sum games
        `own_return`.
    """
    number = _agents_in(agents)
    teams = sum(len(group.teams) for group in groups)
    done = 0
    found: dict[str, dict[str, np.ndarray]] = {}
    sizes = {group.name: _teams_at_once(len(group.teams), episodes) for group in groups}
    # One width for all groups, so that groups of equal size share a compilation.
    places = max(_places(group.members, sizes[group.name]) for group in groups) * episodes
    for group in groups:
        at_once = sizes[group.name]
        # The name, not the position: which other groups are asked for does not change the games of this one.
        group_key = jax.random.fold_in(jax.random.PRNGKey(seed), zlib.crc32(group.name.encode()) & 0x7FFFFFFF)
        parts: list[dict[str, np.ndarray]] = []
        for first in range(0, len(group.teams), at_once):
            some = group.members[first : first + at_once]
            # A last call of fewer teams is filled up with the first teams, so that one compilation serves all.
            filled = np.concatenate([some, group.members[: at_once - len(some)]])
            draw = _fixed_draw(
                lineups(filled, mates.position, episodes, env.spec.learner_seats), mates.squad.size, places
            )
            key = jax.random.fold_in(group_key, first)
            values = _play_all(env, agents, mates.squad, draw, key, at_once * episodes, epsilon)
            shape = (number, at_once, episodes)
            parts.append({name: value.reshape(shape)[:, : len(some)] for name, value in values.items()})
            done += len(some)
            if progress is not None:
                progress(done, teams)
        found[group.name] = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    return found


def pool_scores(
    env: Env,
    agents: Player,
    label: str,
    seeds: Sequence[int],
    mates: Mates,
    groups: Sequence[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    *,
    epsilon: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> list[ScoreRow]:
    """Plays agents with groups of teams made from `mates`: the tidy rows of `score_rows` for all groups.

    Args:
        env: The game.
        agents: A `controllers.Player` whose arrays have a leading axis Z.
        label: Name of the agents.
        seeds: [Z], what tells them apart.
        mates: The team-mates.
        groups: Names of groups (see `evaluation.groups`); None for all.
        episodes: Per team.
        seed: Of teams and games.
        epsilon: Exploration of the agents; 0 is greedy.
        progress: Called with the number of teams done and of all teams.

    Raises:
        UserError: there is no group of a given name.
    """
    teams = make_groups(mates.members, env.spec.n_agents, groups, seed)
    found = evaluate_groups(env, agents, mates, teams, episodes, seed, epsilon=epsilon, progress=progress)
    return [row for group in teams for row in score_rows(label, seeds, group, found[group.name])]


def score_rows(
    label: str, seeds: Sequence[int], group: Group, scores: dict[str, np.ndarray], metrics: Sequence[str] | None = None
) -> list[ScoreRow]:
    """Tidy rows of what `evaluate_groups` returned: one per agent, team and metric.

    Args:
        label: Name of the agents.
        seeds: [Z], what tells them apart.
        group: The teams.
        scores: Metric -> [Z, teams, E].
        metrics: Names to keep; None for all.
    """
    rows = []
    for metric, values in scores.items():
        if metrics is not None and metric not in metrics:
            continue
        for index, seed in enumerate(seeds):
            for team, name in enumerate(group.teams):
                rows.append(
                    ScoreRow(
                        agent=label,
                        seed=int(seed),
                        group=group.name,
                        team=name,
                        episodes=values.shape[2],
                        metric=metric,
                        mean=float(values[index, team].mean()),
                    )
                )
    return rows


def stack_agents(players: Sequence[Player]) -> Player:
    """Players of one structure as a single one whose arrays have a leading axis Z.

    Raises:
        UserError: their structures differ.
    """
    squad, _ = build_squad(players)
    if len(squad.kinds) != 1:
        raise UserError(f"agents: {len(players)} agents of {len(squad.kinds)} different structures cannot be compared.")
    return squad.kinds[0]


def record_group(
    env: Env, agents: Player, mates: Mates, group: Group, episodes: int, seed: int = 0
) -> tuple[Rollout, np.ndarray]:
    """Plays the teams of a group and keeps everything that was seen, done and inferred.

    Returns:
        A rollout of NumPy arrays [Z, teams * E, ...], and the team [teams * E] of each episode.
    """
    games = len(group.teams) * episodes
    places = _places(group.members, len(group.members)) * episodes
    lineup = lineups(group.members, mates.position, episodes, env.spec.learner_seats)
    draw = _fixed_draw(lineup, mates.squad.size, places)
    rollout = _play(env, agents, mates.squad, draw, jax.random.PRNGKey(seed), games, 0.0, record=True)
    return jax.device_get(rollout), np.repeat(np.arange(len(group.teams)), episodes)


def _teams_at_once(teams: int, episodes: int) -> int:
    """Teams in one call: as many as fit into `_GAMES` games, dealt evenly to the calls."""
    calls = -(-teams // max(1, _GAMES // episodes))
    return -(-teams // calls)


def _play_all(
    env: Env, agents: Player, squad: Squad, draw: TeamDraw, key: jax.Array, games: int, epsilon: float
) -> dict[str, np.ndarray]:
    """The same games with all agents, as many agents at a time as the machine can use: metric -> [Z, games] float64."""
    number = _agents_in(agents)
    limit = _GAMES_AT_ONCE["gpu" if jax.default_backend() == "gpu" else "cpu"]
    calls = -(-number // max(1, limit // games))
    at_once = -(-number // calls)
    parts: list[dict[str, np.ndarray]] = []
    for first in range(0, number, at_once):
        # As with teams, a last call of fewer agents is filled up with the first ones.
        who = np.arange(first, first + at_once) % number
        some = agents if at_once == number else jax.tree.map(lambda leaf, who=who: leaf[who], agents)
        stats = jax.device_get(_play(env, some, squad, draw, key, games, epsilon))
        named = {"return": stats.returns, "ep_length": stats.lengths, **stats.metrics}
        kept = min(at_once, number - first)
        parts.append({name: np.asarray(values, np.float64)[:kept] for name, values in named.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _places(members: np.ndarray, at_once: int) -> int:
    """The most seats that one player has in any choice of `at_once` teams; `members` [teams, A-1] by number."""
    counts = np.stack([np.bincount(row, minlength=members.max() + 1) for row in members])
    return int(np.sort(counts, axis=0)[::-1][:at_once].sum(axis=0).max())


def _fixed_draw(lineup: Lineup, players: int, places: int) -> TeamDraw:
    seats = lineup.players.shape[1]
    parts = (TeamSlots(1, ()), TeamSlots(seats - 1, tuple(range(players))))
    return TeamDraw(parts, fixed=lineup, most=(places,) * players)


def _agents_in(agents: Player) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(agents) if eqx.is_array(leaf)]
    return int(leaves[0].shape[0]) if leaves else 1


@eqx.filter_jit
def _play(
    env: Env,
    agents: Player,
    squad: Squad,
    draw: TeamDraw,
    key: jax.Array,
    games: int,
    epsilon: float,
    record: bool = False,
) -> EpisodeStats | Rollout:
    """Statistics [Z, games], or with `record` whole rollouts; the same games for all agents."""
    arrays, rest = eqx.partition(agents, eqx.is_array)
    named = None if not jax.tree.leaves(arrays) else _AXIS

    # Numbers of players mean something only among the players the agent was trained with.
    told = isinstance(agents, ModelsOthers) and isinstance(agents.opponent_model, IdentityModel)

    def one(own: Player) -> EpisodeStats | Rollout:
        policy = TeamPolicy(eqx.combine(own, rest), squad, draw, tell_players=told)
        rollout = play_episodes(env, policy, key, games, epsilon, record=record, axis_name=named)
        return rollout if record else rollout.stats

    if named is None:
        return jax.tree.map(lambda leaf: leaf[None], one(arrays))
    return jax.vmap(one, axis_name=named)(arrays)
