"""`basic_mac`: one agent network acts in all seats."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from omg.components import SELECTORS, EpisodeBatch
from omg.errors import unknown_name
from omg.modules.agents import AGENTS, Agent, AgentSizes

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec, Observation


class Carry(NamedTuple):
    """Memory of the seats between two steps."""

    hidden: Array
    """[B, A, H]."""
    last_action: Array
    """[B, A] int32, -1 before the first step."""


class BasicMAC(eqx.Module):
    """The agent and how its outputs become actions. Everything that changes by learning is in `agent`."""

    agent: Agent
    selector: str = eqx.field(static=True)
    """A key of `SELECTORS`."""
    obs_is_state: bool = eqx.field(static=True)
    """Every seat sees the global state in place of its observation."""
    n_agents: int = eqx.field(static=True)

    def initial(self, batch: int) -> Carry:
        """Memory at the start of `batch` episodes."""
        return Carry(self.agent.initial(batch), jnp.full((batch, self.n_agents), -1, jnp.int32))

    def act(
        self, observation: Observation, carry: Carry, key: Array, epsilon: Array | float
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """See `Policy.act`; stores nothing of its own."""
        seen = self._seen(observation.obs, observation.state)
        hidden = self.agent.step(self.agent.embed(seen, carry.last_action), carry.hidden)
        actions = SELECTORS[self.selector](self.agent.head(hidden), observation.avail, key, epsilon)
        return actions, Carry(hidden, actions), {}

    def unroll(self, batch: EpisodeBatch) -> Array:
        """The agent's outputs along played episodes, at every slot: [B, T+1, A, U]."""
        before_first = jnp.full_like(batch.actions[:, :1], -1)
        last_action = jnp.concatenate([before_first, batch.actions[:, :-1]], axis=1)
        gates_in = self.agent.embed(self._seen(batch.obs, batch.state), last_action)
        hidden = self.agent.unroll(gates_in, self.agent.initial(batch.actions.shape[0]))
        return self.agent.head(hidden)

    def greedy(self) -> BasicMAC:
        """The same agent, which with epsilon 0 takes its best legal action: for tests of sampling policies."""
        return dataclasses.replace(self, selector="epsilon_greedy")

    def _seen(self, obs: Array, state: Array) -> Array:
        # One seat's worth of the state: the agent repeats its embedding over the seats, which is cheaper by A.
        return state[..., None, :] if self.obs_is_state else obs


def build_basic_mac(config: Config, spec: EnvSpec, key: Array) -> BasicMAC:
    """Builds the controller for a game with newly drawn parameters."""
    if config.agent not in AGENTS:
        raise unknown_name("agent", config.agent, AGENTS)
    if config.action_selector not in SELECTORS:
        raise unknown_name("action_selector", config.action_selector, SELECTORS)
    sizes = AgentSizes(
        obs_dim=spec.state_dim if config.obs_is_state else spec.obs_dim,
        n_actions=spec.n_actions,
        n_agents=spec.n_agents,
        hidden_dim=config.rnn_hidden_dim,
        use_last_action=config.obs_last_action,
        use_agent_id=config.obs_agent_id,
    )
    agent = AGENTS[config.agent](sizes, key=key)
    return BasicMAC(agent, config.action_selector, config.obs_is_state, spec.n_agents)
