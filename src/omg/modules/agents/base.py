"""What every agent network provides, and the sizes it is built from.

An agent is evaluated in three parts, so that only the recurrence runs step by step: `embed` (all time steps at once),
`unroll` or `step` (the recurrence), `head` (all time steps at once). Letters in shapes: B episodes, T time slots,
A seats, O observation features, F extra features, W1 width of the first layer, W2 width of the embedded input, W width
of the recurrent state, U actions.

All functions also work on some seats only: the axis A then holds those, and `seats` says which they are. It is None
for all seats in their order, else integers that broadcast against the axes before the last of the other arguments.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from jax import Array


class AgentSizes(NamedTuple):
    """All an agent's shapes depend on; a constant of the compiled program."""

    obs_dim: int
    n_actions: int
    n_agents: int
    hidden_dim: int
    feature_dim: int = 0
    """Width of the features an opponent model adds; 0 for none."""
    use_last_action: bool = True
    use_agent_id: bool = True
    second_dim: int | None = None
    """Width of the second layer of `mlp`; None: that of the first."""
    one_hot: int = 0
    """Whole numbers from minus this to this enter as one-hot vectors; 0: the observation enters as it is."""
    map_shape: tuple[int, int, int] | None = None
    """Pictures, height and width of the map that the observation begins with, for agents that look at it as one."""

    @property
    def seen_dim(self) -> int:
        """Width that the observation has as an input."""
        return self.obs_dim * (2 * self.one_hot + 1)

    @property
    def input_dim(self) -> int:
        """Width of [obs | last action one-hot | seat one-hot | features]."""
        last_action = self.n_actions if self.use_last_action else 0
        agent_id = self.n_agents if self.use_agent_id else 0
        return self.seen_dim + last_action + agent_id + self.feature_dim


class AgentNetwork(Protocol):
    """A network, i.e. a pytree whose leaves are all float arrays."""

    sizes: AgentSizes

    def initial(self, batch: int, seats: int | None = None) -> Array:
        """Recurrent state before the first step, [B, A, W]; `seats` is the number of seats, None for all."""
        ...

    def embed(self, obs: Array, last_action: Array, features: Array | None = None, seats: Array | None = None) -> Array:
        """The part of the network before the recurrence; `activate(weigh_inputs(...) + weigh_features(...))`.

        Args:
            obs: [..., A, O], or [..., 1, O] when all seats see the same.
            last_action: [..., A] integers, -1 for none.
            features: [..., A, F]; None exactly when the agent was built with `feature_dim` 0.
            seats: [..., A] integers or None.

        Returns:
            [..., A, W2].
        """
        ...

    def weigh_inputs(self, obs: Array, last_action: Array, seats: Array | None = None) -> Array:
        """The first layer's sum over everything but the features, [..., A, W1]; arguments as in `embed`."""
        ...

    def weigh_features(self, features: Array, seats: Array | None = None) -> Array:
        """The first layer's sum over the features: [..., A, F] -> [..., A, W1]."""
        ...

    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """From the first layer's sum to the embedded input: [..., A, W1] -> [..., A, W2]."""
        ...

    def step(self, gates_in: Array, h: Array, seats: Array | None = None) -> Array:
        """One step of the recurrence: [..., A, W2] and [..., A, W] -> [..., A, W]."""
        ...

    def unroll(self, gates_in: Array, h0: Array | None = None, seats: Array | None = None) -> Array:
        """The recurrence over a sequence: [B, T, A, W2] and [B, A, W] -> [B, T, A, W]; `seats` [B, 1, A] or None.

        Without `h0` it begins at `initial`.
        """
        ...

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """Action values or logits: [..., A, W] -> [..., A, U]."""
        ...
