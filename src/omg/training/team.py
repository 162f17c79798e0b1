"""The team of a run: whose seats are whose, and the frozen players that fill them."""

from __future__ import annotations

from typing import NamedTuple

import jax

from omg.config import POOL, Config, TeamPart, member_config, team_parts
from omg.controllers import build_mac
from omg.controllers.base import Player
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.scripted.cast import build_cast
from omg.controllers.team import Squad, build_squad
from omg.envs import Env
from omg.errors import UserError
from omg.pools import Agent, Member, Pool
from omg.training.adapting import OBS_ADAPTER_HINT, adapt_players, wants_obs_adapter
from omg.training.obs_adapter import Fitted

UNTRAINED = "untrained"
"""Name of the frozen players of a team that has no pool."""


class TeamSetup(NamedTuple):
    """Everything about a team that is decided before a run starts."""

    draw: TeamDraw
    squad: Squad
    names: tuple[str, ...]
    """Of the players, by their number in the squad."""
    obs_adapter: Fitted | None = None
    """By which those of the players that read the state estimate it; None where nobody does so."""


def build_team(config: Config, env: Env) -> TeamSetup | None:
    """The team of a configuration; None when one algorithm has all seats.

    Frozen seats are filled from the pool `init_param_path`, a part of the team name from the members of that algorithm
    (`pool`: from all of them). Without a pool they have untrained networks.

    Raises:
        UserError: the pool is missing, has nobody for a part, or was made for another game or view.
    """
    watching = config.learner_part.watches
    if config.team is None and not watching:
        return None
    parts = [TeamPart(env.spec.n_agents, POOL)]
    if config.team is not None and not watching:
        parts = team_parts(config.team, config.train_alg)
    pool = None if config.init_param_path is None else Pool.open(config.init_param_path)
    players: list[Player] = []
    names: list[str] = []
    drawn: list[tuple[int, list[int]]] = []
    for part in parts:
        if part.algorithm == config.train_alg and not watching:
            drawn.append((part.seats, []))
            continue
        found = _untrained(config, env, part, len(names)) if pool is None else _from_pool(config, env, pool, part)
        for name, player in found:
            if name not in names:
                names.append(name)
                players.append(player)
        drawn.append((part.seats, [names.index(name) for name, _ in found]))
    players, obs_adapter = adapt_players(players, config, env)
    squad, position = build_squad(players)
    numbered = [TeamSlots(seats, tuple(position[index] for index in indices)) for seats, indices in drawn]
    ordered = sorted(range(len(names)), key=lambda index: position[index])
    draw = TeamDraw(tuple(numbered), config.team_draw, config.is_agent_shift)
    try:
        draw = draw.seated(env.spec.learner_seats)
    except ValueError as error:
        raise UserError(
            f"team: '{config.team}' has too many seats for {config.train_alg}: it learns the role of seats "
            f"{', '.join(map(str, env.spec.learner_seats or ()))} of {env.spec.name} ({error}). "
            f"With is_agent_shift=False it has the seats of its place in the name."
        ) from error
    return TeamSetup(draw, squad, tuple(names[index] for index in ordered), obs_adapter)


def _untrained(config: Config, env: Env, part: TeamPart, number: int) -> list[tuple[str, Player]]:
    if part.algorithm == POOL:
        raise UserError(
            f"init_param_path: missing, but the team '{config.team}' takes players from a pool. "
            f"Write init_param_path=POOL; `omg pool train` makes one."
        )
    key = jax.random.fold_in(jax.random.PRNGKey(config.seed), number)
    mac = build_mac(member_config(config, part.algorithm), env.spec, key).tested()
    return [(f"{UNTRAINED}_{part.algorithm}", mac)]


def _from_pool(config: Config, env: Env, pool: Pool, part: TeamPart) -> list[tuple[str, Player]]:
    algorithm = None if part.algorithm == POOL else part.algorithm
    return [
        (member.name, load_player(pool, member, config, env)) for member in pool.members(config.pool_set, algorithm)
    ]


def load_player(pool: Pool, member: Member, config: Config, env: Env) -> Player:
    """A pool member that fits the game and the view of a configuration, as a `controllers.Player`.

    With `obs_adapter: learn` one that reads the state fits as well; `adapt_players` then gives it a map.

    Raises:
        UserError: it was made for another game or for the other `obs_is_state`; names both.
    """
    loaded = pool.load(member.name)
    if not isinstance(loaded, Agent):
        return build_cast(member.algorithm, env)
    spec = loaded.spec
    for key in ("name", "scenario", "n_agents", "n_actions", "obs_dim", "state_dim"):
        if getattr(spec, key) != getattr(env.spec, key):
            raise UserError(
                f"init_param_path: {pool.path} has players for {spec.name} {spec.scenario}, but the run plays "
                f"{env.spec.name} {env.spec.scenario} ({key}: {getattr(spec, key)} against {getattr(env.spec, key)})."
            )
    theirs = loaded.config.obs_is_state
    if theirs != config.obs_is_state and not wants_obs_adapter(config, theirs):
        widths = {True: spec.state_dim, False: spec.obs_dim}
        raise UserError(
            f"obs_is_state: the run has {config.obs_is_state} ({widths[config.obs_is_state]} input features), but "
            f"'{member.name}' in {pool.path} was trained with obs_is_state={loaded.config.obs_is_state} "
            f"({widths[loaded.config.obs_is_state]} features). Set obs_is_state={loaded.config.obs_is_state}, or train "
            f"a pool with obs_is_state={config.obs_is_state}{OBS_ADAPTER_HINT if theirs else ''}."
        )
    return loaded.policy
