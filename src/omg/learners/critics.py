"""The critics of PPO, as the configuration wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
from jax import Array

from omg.controllers.basic import BasicMAC
from omg.errors import UserError
from omg.modules.critics import CRITICS
from omg.modules.critics.base import CriticSizes, SlotValues
from omg.modules.critics.value import ValueHead

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


def check_body(config: Config) -> None:
    """Refuses what a critic without a body of its own cannot do.

    Raises:
        UserError: names the key.
    """
    other = {"critic": config.critic, "critic_input": config.critic_input != "obs" and config.critic_input}
    other |= {"subgoal_mode": config.wants_prior and config.subgoal_mode}
    for key, value in other.items():
        if config.ppo_shared_body and value:
            raise UserError(
                f"ppo_shared_body: got True with {key}={value}, but then the critic is a layer on the agent's "
                f"recurrent state, and reads nothing else. Allowed: False."
            )


def build_critic(config: Config, spec: EnvSpec, mac: BasicMAC, key: Array) -> SlotValues:
    """A new critic beside the agents of a controller."""
    if config.ppo_shared_body:
        hidden = jax.eval_shape(lambda: mac.agent.initial(1)).shape[-1]
        return ValueHead(hidden, key=key)
    if config.critic_input == "state":
        widths = [spec.state_dim, spec.n_agents]
    else:
        widths = [mac.agent.sizes.seen_dim]
        widths += [spec.n_actions] if config.obs_last_action else []
        widths += [spec.n_agents] if config.obs_agent_id else []
    features = mac.agent.sizes.feature_dim
    widths += [features] if features else []
    sizes = CriticSizes(
        tuple(widths),
        config.critic_hidden_dim,
        config.mlp_second_dim,
        n_agents=spec.n_agents,
        # One-hot numbers are no map any more.
        map_shape=None if config.obs_one_hot and config.critic_input == "obs" else spec.map_shape,
    )
    return CRITICS[config.critic or config.agent_part.critic].build(sizes, key=key)


def rescaled(critic: SlotValues, gain: Array, offset: Array) -> SlotValues:
    """The critic that says `gain` times what the given one says, plus `offset`: its last layer moves (as in PopArt)."""
    layer = critic.value
    return eqx.tree_at(
        lambda network: (network.value.weight, network.value.bias),
        critic,
        (layer.weight * gain, layer.bias * gain + offset),
    )
