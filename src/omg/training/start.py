"""What a run starts from besides new networks: a pre-trained prior, and the weights of an agent that exists already."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.files import fill_leaves, name_leaves
from omg.config import Config
from omg.controllers import build_mac
from omg.controllers.others import subgoal_steps
from omg.controllers.team import Squad
from omg.envs import Env, EnvSpec
from omg.errors import UserError
from omg.learners.base import Learner, S
from omg.modules.opponent_models.prior import Prior
from omg.pools import Agent, Pool, PriorCard, is_pool, load_agent, load_learning, load_prior, pool_prior
from omg.pools.cards import find_agent
from omg.training.adapting import OBS_ADAPTER_HINT, adapt_prior, wants_obs_adapter
from omg.training.obs_adapter import Maps
from omg.training.saved import agent_at
from omg.types import PyTree

Weights = dict[str, Array]
"""Arrays by their path in a tree."""
Given = tuple[Weights | None, Weights | None]
"""Of the agent networks, and of all else that a learner has; [Z, ...] each."""

_FIRST_LAYER = "fc1.weight"
_OPTIMISER = "opt_state"
_ENOUGH_EXPLAINED = 0.9
"""On 8m a prior that explained 78 % cost OMG 6 to 12 points beside one with 98 % (`benchmarks/results/omg`)."""


def load_prior_for(config: Config, env: Env, squad: Squad | None = None) -> tuple[Prior | None, PriorCard | None, Maps]:
    """The pre-trained prior of a run with `omg_am`, and its card: `prior_path`, else the pool's; None without one.

    Args:
        config: of the run.
        env: its game.
        squad: frozen players of its team.

    Returns:
        The prior, its card, and the maps by which it reads observations, where it was trained on states.

    Raises:
        UserError: it was made for another game, view or subgoal width; names both.
    """
    spec = env.spec
    if not config.wants_prior:
        return None, None, {}
    path = config.prior_path
    if path is None and config.init_param_path is not None:
        path = pool_prior(config.init_param_path, config.subgoal_of)
    if path is None:
        return None, None, {}
    prior, card = load_prior(path, config.subgoal_of)
    maps: Maps = {}
    if wants_obs_adapter(config, card.obs_is_state) and (card.env, card.scenario) == (spec.name, spec.scenario):
        prior, card, maps = adapt_prior(prior, card, env, squad)
    seen = spec.state_dim if config.obs_is_state else spec.obs_dim
    told = subgoal_steps(config, spec)
    width = seen if told is None else told.dim
    for key, stored, needed in (
        ("env", card.env, spec.name),
        ("scenario", card.scenario, spec.scenario),
        ("obs_is_state", card.obs_is_state, config.obs_is_state),
        ("subgoal_of", card.subgoal_of, config.subgoal_of),
        ("input features", card.features, width),
        ("subgoal_dim", card.subgoal_dim, config.subgoal_dim),
        ("omg_maps", card.map_shape is not None, config.omg_maps and spec.map_shape is not None),
    ):
        if stored != needed:
            raise UserError(
                f"prior_path: the prior {path} was made with {key}={stored} ({card.features} input features), but the "
                f"run has {key}={needed} ({width} features). Pre-train one for this run, or change {key}"
                f"{OBS_ADAPTER_HINT if key == 'obs_is_state' and stored else ''}."
            )
    return prior, card, maps


def about_prior(card: PriorCard | None) -> str:
    """What a user should know about the prior of a run."""
    if card is None:
        return "none given, it is learned along with the agent"
    text = f"pre-trained on {card.t_env:,} steps"
    explained = card.results.get("test_prior_explained")
    # Of bits in maps even a good one explains little: most of them never change.
    if explained is None or card.map_shape is not None:
        return text
    text += f", explains {explained:.0%} of what {'seats see' if card.seen_features is None else 'the others do'}"
    weak = "; with so little, subgoals may cost more than they bring: pre-train it for longer"
    return text + (weak if explained < _ENOUGH_EXPLAINED else "")


def starting_weights(config: Config, spec: EnvSpec, partners: int, seeds: int) -> Weights | None:
    """Weights [Z, ...] by name for the agent networks of Z seeds, from `init_from`; None to start anew.

    With `load_step` they are those of the first seed of that run at that step.
    A pool gives each seed another of its training members. The rows of the first layer that read an opponent model's
    features start at zero where the given agent had none, so that the agent begins exactly as that one plays.

    Raises:
        UserError: the given networks do not fit; names both shapes.
    """
    if config.init_from is None:
        return None
    path = Path(config.init_from)
    if config.load_step and is_pool(path):
        raise UserError(
            f"load_step: got {config.load_step}, but init_from={path} is a pool, whose members have one step."
        )
    if config.load_step:
        agents = [agent_at(path, config.load_step)]
    else:
        agents = _pool_agents(path) if is_pool(path) else [load_agent(path)]
    template = jax.eval_shape(lambda: build_mac(config, spec, jax.random.PRNGKey(0), partners)).agent
    for agent in agents:
        if agent.config.obs_is_state != config.obs_is_state:
            raise UserError(
                f"init_from: the agent {path} was trained with obs_is_state={agent.config.obs_is_state}, but the run "
                f"has obs_is_state={config.obs_is_state}."
            )
    fitted = [_fit(agent, template, path) for agent in agents]
    chosen = [fitted[index % len(fitted)] for index in range(seeds)]
    return {name: jnp.asarray(np.stack([weights[name] for weights in chosen])) for name in chosen[0]}


def starting_learner(config: Config, learner: Learner, seeds: int) -> Weights | None:
    """What else the learner of the agent that `init_from` names had, [Z, ...] by path; None for nothing.

    Only agents from elsewhere bring such along. A part of the learner's state (its mixer, its critic) is taken over if
    all of it fits, an optimiser only with `init_optimiser`: its steps are measured by gradients of a full replay
    buffer, and with an empty one they may be far too long.

    Raises:
        UserError: `init_optimiser`, and there is none that fits.
    """
    alone = config.init_from is None or is_pool(config.init_from)
    kept = None if alone else load_learning(find_agent(Path(str(config.init_from))))
    if kept is None:
        _check_optimiser(config, {})
        return None
    shapes = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    wanted = name_leaves(shapes)
    found: Weights = {}
    for field in shapes._fields:
        if field.endswith(_OPTIMISER) and not config.init_optimiser:
            continue
        names = [name for name in wanted if name.startswith(f"{field}.")]
        if all(name in kept and kept[name].shape == wanted[name].shape for name in names):
            found |= {name: jnp.asarray(np.stack([kept[name]] * seeds)) for name in names}
    _check_optimiser(config, found)
    return found or None


def _check_optimiser(config: Config, found: Weights) -> None:
    if config.init_optimiser and not any(name.startswith(f"{_OPTIMISER}.") for name in found):
        raise UserError(
            f"init_optimiser: got True, but init_from={config.init_from} brings no optimiser that fits this run. Only "
            f"agents of `omg import` have one. Allowed: False."
        )


def about_learner(learned: Weights) -> str:
    """Which parts of a learner's state were taken over."""
    return ", ".join(dict.fromkeys(name.partition(".")[0] for name in learned))


def adopt(state: S, prior: Prior | None, weights: Weights | None, learned: Weights | None = None) -> S:
    """A new learner state with a pre-trained prior, given agent weights and other given parts, where there are any."""
    found: PyTree = state
    if learned is not None:
        found = fill_leaves(found, {**name_leaves(found), **learned})
    if prior is not None:
        found = found._replace(mac=found.mac.with_prior(prior))
    if weights is not None:
        agent = fill_leaves(found.mac.agent, weights)
        # Learners of policies have no target copy of the agent.
        players = [name for name in ("mac", "target_mac") if name in found._fields]
        found = found._replace(**{name: dataclasses.replace(getattr(found, name), agent=agent) for name in players})
    return found


def _pool_agents(path: Path) -> list[Agent]:
    pool = Pool.open(path)
    loaded = [pool.load(member.name) for member in pool.members("training")]
    agents = [agent for agent in loaded if isinstance(agent, Agent)]
    if not agents:
        raise UserError(f"init_from: {path} has no learned members in its training set.")
    return agents


def _fit(agent: Agent, template: PyTree, path: Path) -> dict[str, np.ndarray]:
    """The weights of an agent in the shapes of the agent network `template`."""
    network = agent.policy.agent
    given = {name: np.asarray(leaf) for name, leaf in name_leaves(network).items()}
    # Rows may be added for features, which stand behind everything else, and for nothing but them.
    same_view = network.sizes._replace(feature_dim=0) == template.sizes._replace(feature_dim=0)
    missing = template.sizes.feature_dim if same_view and network.sizes.feature_dim == 0 else 0
    fitted = {}
    for name, leaf in name_leaves(template).items():
        value = given.get(name)
        if value is not None and name.endswith(_FIRST_LAYER):
            value = np.pad(value, [(0, 0)] * (value.ndim - 2) + [(0, missing), (0, 0)])
        if value is None or value.shape != leaf.shape:
            shape = "no such weight" if value is None else f"shape {value.shape}"
            raise UserError(
                f"init_from: the agent {path} does not fit this run: '{name}' has {shape}, expected {leaf.shape} "
                f"(it was trained with agent={agent.config.agent}, obs_is_state={agent.config.obs_is_state} in "
                f"{agent.where})."
            )
        fitted[name] = value
    return fitted
