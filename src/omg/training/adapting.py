"""Players, agents and priors of `obs_is_state` where there are only observations, on request (`obs_adapter: learn`).

Players and agents get the map that fits the games which they play by themselves, in all seats, from the true state. A
prior has one map for all seats, because it is not told whose view it encodes; its games are those of the team's frozen
players, or of random ones without a team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from omg.config import Config, change_config
from omg.controllers.adapted import AdaptedMAC, adapt_mac
from omg.controllers.base import Policy
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.scripted import build_scripted
from omg.controllers.team import Squad, TeamPolicy, build_squad
from omg.envs import Env
from omg.errors import UserError, unknown_name
from omg.modules.layers import Linear
from omg.modules.opponent_models.prior import Prior
from omg.names import inert
from omg.pools import Agent, PriorCard, load_agent
from omg.pools.cards import find_agent
from omg.training.obs_adapter import Fitted, Maps, fit_obs_adapter, fit_shared, load_map, save_maps

PLAYERS, PRIOR, PRIOR_BACK, AGENT = "players", "prior", "prior_back", "agent"
"""Maps of a run: of its frozen players, of its prior from observations to states and back; and the map of an agent."""
OBS_ADAPTER_HINT = ", or let them estimate the state from observations: obs_adapter=learn"
"""Ends a refusal of somebody who was trained with `obs_is_state`."""
_RANDOM = "random"
_ALLOWED = ("none", "learn")

Say = Callable[[str], None]


def wants_obs_adapter(config: Config, obs_is_state: bool) -> bool:
    """Whether somebody trained with `obs_is_state` can be used under a configuration by a map, and only so."""
    return obs_is_state and not config.obs_is_state and config.obs_adapter == "learn"


def adapt_players(players: Sequence[Any], config: Config, env: Env) -> tuple[list[Any], Fitted | None]:
    """Frozen players of a team; those that read the state get a map to estimate it, one for all of them.

    Args:
        players: as they were loaded.
        config: of whom they play with.
        env: the game.

    Returns:
        The players, and the map; None where nobody needs one.
    """
    needy = [_reads_state(player) and wants_obs_adapter(config, True) for player in players]
    if not any(needy):
        return list(players), None
    squad, _ = build_squad(players)
    fitted = fit_obs_adapter(env, squad_policy(squad, env.spec.n_agents), f"the {len(players)} players")
    adapted = [
        adapt_mac(player, fitted.obs_adapter) if needs else player for player, needs in zip(players, needy, strict=True)
    ]
    return adapted, fitted


def squad_policy(squad: Squad, n_agents: int) -> TeamPolicy:
    """All seats of a game for the players of a squad, in teams of one, of nearly one and of several."""
    part = TeamSlots(n_agents, tuple(range(squad.size)))
    return TeamPolicy(None, squad, TeamDraw((part,), "varied"))


def load_adapted(path: str | Path, obs_adapter: str, say: Say) -> Agent:
    """An agent as `load_agent` gives it; with a map from observations, if wanted, where it was trained on states.

    Args:
        path: of the agent, or of a run.
        obs_adapter: `none` or `learn`.
        say: told the error of the map.

    Raises:
        UserError: there is no such agent, or a map cannot be had.
    """
    if obs_adapter not in _ALLOWED:
        raise unknown_name("obs_adapter", str(obs_adapter), _ALLOWED)
    folder = find_agent(Path(path))
    agent = load_agent(folder)
    return adapt_agent(agent, folder, say) if obs_adapter == "learn" and agent.config.obs_is_state else agent


def check_adapted(agents: Iterable[Agent], others: bool = False) -> None:
    """Refuses `obs_adapter: learn` where it changes nothing.

    Args:
        agents: who plays.
        others: whether somebody else got a map.

    Raises:
        UserError: nobody was trained with `obs_is_state`.
    """
    if not others and not any(isinstance(agent.policy, AdaptedMAC) for agent in agents):
        raise UserError("obs_adapter: got learn, but nobody here was trained with obs_is_state=True. Allowed: none.")


def adapt_agent(agent: Agent, folder: Path, say: Say) -> Agent:
    """An agent of `obs_is_state` that plays from observations; its map is kept in its folder.

    Args:
        agent: as it was loaded.
        folder: of the agent. A map that is there is used.
        say: told the error of the map, and where it is.

    Raises:
        UserError: the agent reads the game itself off the state, or its map is damaged.
    """
    agent.check_untold()
    if not _reads_state(agent.policy):
        raise UserError(f"obs_adapter: {folder}: this agent does not see the state as its view; allowed: none.")
    fitted = load_map(folder, AGENT, agent.spec)
    where = f"from {inert(str(folder))}"
    if fitted is None:
        fitted = fit_obs_adapter(agent.env, agent.policy, "the agent in all seats")
        try:
            save_maps(folder, {AGENT: fitted})
        except UserError as error:
            where = f"not kept: {error}"
        else:
            where = f"kept in {inert(str(folder))}"
    say(f"obs adapter: {fitted.card.summary}; {where}")
    config = change_config(agent.config, obs_is_state=False)
    return Agent(adapt_mac(agent.policy, fitted.obs_adapter), config, agent.env, agent.card)


def adapt_prior(prior: Prior, card: PriorCard, env: Env, squad: Squad | None) -> tuple[Prior, PriorCard, Maps]:
    """A prior over observations, made of one over states: its first and last layers with a map before and behind them.

    Args:
        prior: over states.
        card: what is known of it.
        env: the game.
        squad: the team's frozen players; None for random ones.

    Raises:
        UserError: the prior reads maps of bits, which no linear map gives.
    """
    if prior.map_shape is not None:
        raise UserError("obs_adapter: got learn, but the prior reads maps of bits (omg_maps=True). Allowed: none.")
    policy: Policy = build_scripted(_RANDOM, env) if squad is None else squad_policy(squad, env.spec.n_agents)
    who = "random players" if squad is None else f"the {squad.size} players"
    there, back, statistics = fit_shared(env, policy, who)
    mean, deviation = _scale(prior, card.features)
    seen_mean, seen_deviation = _scale(prior.with_statistics(statistics), env.spec.obs_dim)
    to_state, state_bias = there.obs_adapter.weight[0], there.obs_adapter.bias[0]
    to_seen, seen_bias = back.obs_adapter.weight[0], back.obs_adapter.bias[0]
    first, last = prior.encoder[0], prior.output
    # Normalised view -> view -> state -> normalised state, and the other way round behind the decoder.
    inward: Array = seen_deviation[:, None] * to_state / deviation
    outward: Array = deviation[:, None] * to_seen / seen_deviation
    begins = (seen_mean @ to_state + state_bias - mean) / deviation
    first = _linear(first, inward @ first.weight, first.bias + begins @ first.weight)
    ends = ((last.bias * deviation + mean) @ to_seen + seen_bias - seen_mean) / seen_deviation
    last = _linear(last, last.weight @ outward, ends)
    changed = eqx.tree_at(
        lambda tree: (tree.encoder, tree.output, tree.statistics),
        prior,
        ((first, *prior.encoder[1:]), last, statistics),
    )
    # What it explains of states it does not explain of observations.
    known = replace(card, obs_is_state=False, features=env.spec.obs_dim, results={})
    return changed, known, {PRIOR: there, PRIOR_BACK: back}


def _scale(prior: Prior, features: int) -> tuple[Array, Array]:
    """Mean and deviation of a prior's views, [O] each."""
    mean = prior.restore(jnp.zeros(features))
    return mean, prior.restore(jnp.ones(features)) - mean


def _linear(layer: Linear, weight: Array, bias: Array) -> Linear:
    return eqx.tree_at(lambda tree: (tree.weight, tree.bias), layer, (jnp.asarray(weight), jnp.asarray(bias)))


def _reads_state(player: Any) -> bool:
    """Whether the state is a player's view, and not something it reads the game off."""
    return isinstance(player, BasicMAC) and player.reading.obs_is_state
