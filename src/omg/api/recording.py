"""Games that are recorded: whoever plays them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omg.config import algorithm_names, parse_team
from omg.config.teams import check_seats
from omg.controllers.scripted import SCRIPTED
from omg.envs import ENVS, make_env
from omg.envs.trust import trusting, vouch
from omg.errors import UserError, unknown_name
from omg.pools import Agent, Pool
from omg.pools.index import INDEX
from omg.recordings import Recording
from omg.recordings.playing import (
    PlayingTeam,
    agent_alone,
    agent_in_pool,
    agent_in_team,
    play,
    script_alone,
    team_of_pool,
)
from omg.tracking import load_seeds
from omg.training.device import prepare
from omg.types import Json


def record(
    source: Agent | str | Path | None = None,
    *,
    pool: str | Path | None = None,
    pool_set: str | None = None,
    team: str | None = None,
    episodes: int = 1,
    seed: int = 0,
    which: str = "best",
    views: bool = False,
    env: str | None = None,
    env_args: Mapping[str, Json] | None = None,
    trust: bool = False,
) -> list[Recording]:
    """Plays games and records them.

    Args:
        source: an agent; the folder of an agent or of a run (of its first seed plays the `which` agent); `POOL:member`;
            or the name of a script. With a pool it has one seat and members of that pool the others. None: a team.
        pool: a folder.
        pool_set: the set of the pool that players are taken from; None for all.
        team: all seats, e.g. `4iql3qmix1iql_omg`: from the pool, and with a source its own part.
        episodes: how many games.
        seed: of all random numbers.
        which: `last` or `best` agent of a run.
        views: whether observations and states are recorded as well, as data sets need them.
        env: the game of a script.
        env_args: its options.
        trust: open the game that a folder names even if it is of an unknown package, whose code then runs.

    Raises:
        UserError: somebody is missing, or does not fit.
    """
    prepare(use_cuda=True)
    with trusting(trust):
        opened = None if pool is None else Pool.open(pool)
        table = _table(source, opened, pool_set, team, which, env, dict(env_args or {}))
        return play(table, episodes, seed, views=views)


def _table(
    source: Agent | str | Path | None,
    pool: Pool | None,
    pool_set: str | None,
    team: str | None,
    which: str,
    env: str | None,
    env_args: dict[str, Json],
) -> PlayingTeam:
    if team is not None and pool is None:
        raise UserError("--team: its players come from a pool; give --pool POOL.")
    found = None if source is None else _player(source, pool, which, env, env_args)
    if isinstance(found, PlayingTeam):
        if team is not None or pool is not None:
            raise UserError(f"SOURCE: got '{source}', which has all seats; --team and --pool need an agent, or none.")
        return found
    if env is not None or env_args:
        raise UserError("--env-config: only scripts need a game; agents and pools bring their own.")
    if team is None:
        if found is None:
            raise UserError("SOURCE: missing. Give a run, an agent, POOL:member, a script, or --team with --pool.")
        return agent_alone(found) if pool is None else agent_in_pool(found, pool, pool_set)
    assert pool is not None
    parts = parse_team(team, {*algorithm_names(), *(member.algorithm for member in pool)})
    check_seats(team, parts, pool.spec.n_agents, pool.where)
    if found is None:
        return team_of_pool(team, parts, pool, pool_set)
    return agent_in_team(found, parts, pool, pool_set)


def _player(
    source: Agent | str | Path, pool: Pool | None, which: str, env: str | None, env_args: dict[str, Json]
) -> Agent | PlayingTeam:
    """An agent, or a script that has all seats."""
    if isinstance(source, Agent):
        return source
    folder, _, member = str(source).rpartition(":")
    if folder and (Path(folder) / INDEX).is_file():
        opened = Pool.open(folder)
        loaded = opened.load(member)
        if isinstance(loaded, Agent):
            return loaded
        return script_alone(opened.member(member).algorithm, opened.make_env(), opened.env_args)
    if Path(source).exists() or str(source) not in SCRIPTED:
        return load_seeds(source, which)[0]
    if env is None:
        raise UserError(f"SOURCE: '{source}' is a script, which plays many games; name one with --env-config=ENV.")
    if env not in ENVS:
        raise unknown_name("game (--env-config)", env, ENVS)
    vouch(env_args)
    return script_alone(str(source), make_env(env, **env_args), env_args)
