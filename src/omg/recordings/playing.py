"""Games that are played to be recorded: an agent alone, beside players of a pool, or teams of a pool's players.

Letters in shapes: F games, A seats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from omg.config import POOL, TeamPart
from omg.controllers.base import Player, Policy
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.scripted.cast import build_cast
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import Env
from omg.envs.adapters.host import is_hosted
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.evaluation import load_mates
from omg.pools import Agent, Pool
from omg.recordings.capture import About, recordings
from omg.recordings.recording import Recording
from omg.recordings.runs import members_of
from omg.recordings.voices import Cast, Who, script_of, who_of
from omg.runners.vector import EpisodeStats, Film, Filmed, play_episodes
from omg.types import Tree

_AT_ONCE = 32
"""Games of one compiled call."""


class PlayingTeam(NamedTuple):
    """Who plays: a policy of all seats, and what is known of everybody in it."""

    env: Env
    env_args: Tree
    algorithm: str
    t_env: int | None
    policy: Policy
    cast: Cast
    """Without seats, which are drawn when games begin."""


def agent_alone(agent: Agent) -> PlayingTeam:
    """An agent in all seats.

    Raises:
        UserError: it is a bound that no player can be.
    """
    agent.check_untold()
    return _table(agent, agent.policy, Cast(agent.policy, _who(agent), None, None, ()))


def agent_in_pool(agent: Agent, pool: Pool, pool_set: str | None) -> PlayingTeam:
    """An agent in one seat, the others drawn from a set of a pool.

    Raises:
        UserError: the pool is for another game, or has nobody who fits.
    """
    agent.check_untold()
    mates = load_mates(pool, pool_set, agent.config, agent.env)
    parts = (TeamSlots(1, ()), TeamSlots(agent.spec.n_agents - 1, tuple(mates.position)))
    names = _ordered(tuple(member.name for member in mates.members), mates.position)
    draw = TeamDraw(parts).seated(agent.spec.learner_seats)
    frozen = members_of(pool, names, agent.spec.round_steps)
    cast = Cast(agent.policy, _who(agent), None, mates.squad, frozen)
    return _table(agent, TeamPolicy(agent.policy, mates.squad, draw), cast)


def agent_in_team(agent: Agent, parts: Sequence[TeamPart], pool: Pool, pool_set: str | None) -> PlayingTeam:
    """An agent in the seats of its algorithm in a team, the others drawn from a pool.

    Raises:
        UserError: nobody fits, or the team has no or several places for it.
    """
    agent.check_untold()
    own = [part for part in parts if part.algorithm == agent.card.algorithm]
    if len(own) != 1:
        raise UserError(
            f"--team: {agent.card.algorithm}, which SOURCE is, stands {len(own)} times in it; expected once, e.g. "
            f"{agent.spec.n_agents - 1}pool1{agent.card.algorithm}."
        )
    mates = load_mates(pool, pool_set, agent.config, agent.env)
    slots = []
    for part in parts:
        places = [
            place
            for member, place in zip(mates.members, mates.position, strict=True)
            if part.algorithm in (POOL, member.algorithm)
        ]
        if part is not own[0] and not places:
            raise UserError(f"--team: {pool.path} has nobody for {part.seats}{part.algorithm}.")
        slots.append(TeamSlots(part.seats, () if part is own[0] else tuple(places)))
    names = _ordered(tuple(member.name for member in mates.members), mates.position)
    cast = Cast(agent.policy, _who(agent), None, mates.squad, members_of(pool, names, agent.spec.round_steps))
    return _table(agent, TeamPolicy(agent.policy, mates.squad, TeamDraw(tuple(slots))), cast)


def team_of_pool(name: str, parts: Sequence[TeamPart], pool: Pool, pool_set: str | None) -> PlayingTeam:
    """A team of a pool's players.

    Args:
        name: of the team, for the header.
        parts: whose seats are whose.
        pool: where they are.
        pool_set: their set; None for all.

    Raises:
        UserError: there is nobody for a part.
    """
    env = pool.make_env()
    players: dict[str, Player] = {}
    chosen: list[tuple[int, list[str]]] = []
    for part in parts:
        members = pool.members(pool_set, None if part.algorithm == POOL else part.algorithm)
        for member in members:
            loaded = pool.load(member.name)
            players[member.name] = loaded.policy if isinstance(loaded, Agent) else build_cast(member.algorithm, env)
        chosen.append((part.seats, [member.name for member in members]))
    squad, position = build_squad(list(players.values()))
    numbers = dict(zip(players, position, strict=True))
    draw = TeamDraw(tuple(TeamSlots(seats, tuple(numbers[name] for name in names)) for seats, names in chosen))
    ordered = _ordered(tuple(players), position)
    cast = Cast(None, None, None, squad, members_of(pool, ordered, env.spec.round_steps))
    return PlayingTeam(env, pool.env_args, name, None, TeamPolicy(None, squad, draw), cast)


def script_alone(name: str, env: Env, env_args: Tree) -> PlayingTeam:
    """A scripted player in all seats.

    Raises:
        UserError: it does not play this game.
    """
    squad, _ = build_squad([build_cast(name, env)])
    draw = TeamDraw((TeamSlots(env.spec.n_agents, (0,)),))
    return PlayingTeam(
        env, env_args, name, None, TeamPolicy(None, squad, draw), Cast(None, None, None, squad, (script_of(name),))
    )


def play(table: PlayingTeam, episodes: int, seed: int, *, views: bool) -> list[Recording]:
    """Plays and records.

    Args:
        table: who plays what.
        episodes: how many games.
        seed: of all random numbers; the same seed gives the same games.
        views: whether observations and states are recorded as well.

    Raises:
        UserError: the game is played on the host.
    """
    env = table.env
    if is_hosted(env):
        raise UserError(f"{env.spec.name} {env.spec.scenario} is played on the host, where games cannot be recorded.")
    scenery = scenery_of(env)
    at_once = min(episodes, _AT_ONCE)
    film = Film(at_once, None if scenery is None else scenery.show, views)
    about = About(env, table.env_args, table.algorithm, seed, table.t_env)
    games: list[Recording] = []
    while len(games) < episodes:
        key = jax.random.fold_in(jax.random.PRNGKey(seed), len(games))
        filmed, stats = jax.device_get(_filmed(env, table.policy, key, at_once, film))
        cast = table.cast._replace(main_seats=_main_seats(table.policy, filmed))
        games += recordings(filmed, stats, cast, about, first=len(games))
    return games[:episodes]


@eqx.filter_jit
def _filmed(env: Env, policy: Policy, key: jax.Array, games: int, film: Film) -> tuple[Filmed, EpisodeStats]:
    rollout = play_episodes(env, policy, key, games, 0.0, record=False, film=film)
    assert rollout.film is not None
    return rollout.film, rollout.stats


def _main_seats(policy: Policy, filmed: Filmed) -> np.ndarray | None:
    seat = filmed.batch.seat
    return None if seat is None or not isinstance(policy, TeamPolicy) else np.asarray(policy.draw.main_seats(seat))


def _table(agent: Agent, policy: Policy, cast: Cast) -> PlayingTeam:
    return PlayingTeam(agent.env, agent.config.env_args, agent.card.algorithm, agent.card.t_env, policy, cast)


def _who(agent: Agent) -> Who:
    name = agent.card.algorithm
    return who_of(name, name, agent.config, agent.spec.round_steps)


def _ordered(names: tuple[str, ...], position: Sequence[int]) -> tuple[str, ...]:
    """Names by their number in the squad."""
    return tuple(name for _, name in sorted(zip(position, names, strict=True)))
