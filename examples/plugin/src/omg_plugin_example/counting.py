"""`counts_am`: how often each co-player has done what so far, as a prediction of what it does next.

Of every co-player its actions are counted, older ones less (`counts_memory`), and added to base rates r that are
learned and weigh as much as `counts_pseudo` actions:

    c_t = counts_memory c_{t-1} + one-hot(a_{t-1})        p_t = (c_t + n r) / (sum of c_t + n),   n = counts_pseudo

The agent reads p_t of every co-player, and its largest entry: how set in its ways that player is. The base rates learn
by -log p_t(a_t) of the actions that the others really took.

Letters in shapes: B episodes, T steps, m seats that have a model, A seats of the game, U actions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.opponent_models.base import (
    ActionTargets,
    ModelInputs,
    ModelSizes,
    SupervisedModel,
    action_loss,
    others_of,
    others_one_hot,
)
from omg_plugin_example.keys import CountsKeys


class CountingModel(SupervisedModel):
    """Counts, and learned base rates."""

    log_rates: Array
    """[U]; their softmax are the base rates."""

    targets = ActionTargets

    def __init__(self, sizes: ModelSizes, *, key: Array):
        self.sizes = sizes
        self.log_rates = jnp.zeros(sizes.n_actions)

    @property
    def feature_dim(self) -> int:
        """(A - 1) * (U + 1)."""
        return (self.sizes.n_agents - 1) * (self.sizes.n_actions + 1)

    def initial(self, batch: int, seats: int) -> Array:
        """No counts, [B, m, A * U]."""
        return jnp.zeros((batch, seats, self.sizes.n_agents * self.sizes.n_actions))

    def infer(self, inputs: ModelInputs, memory: Array, key: Array | None) -> tuple[Array, Array, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        memory = self._count(memory, others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions))
        return self.features(self._predict(memory, inputs.seats), None), memory, {}

    def unroll(self, inputs: ModelInputs) -> Array:
        """[B, T, m, O] -> chances of the others' actions, [B, T, m, A-1, U]."""
        done = others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions)

        def step(counts: Array, done: Array) -> tuple[Array, Array]:
            counts = self._count(counts, done)
            return counts, counts

        _, counts = jax.lax.scan(step, jnp.zeros_like(done[:, 0]), jnp.swapaxes(done, 0, 1))
        return self._predict(jnp.swapaxes(counts, 0, 1), inputs.seats)

    def features(self, inference: Array, key: Array | None) -> Array:
        """Chances and the largest of them, [..., m, (A - 1) * (U + 1)], detached."""
        both = jnp.concatenate([inference, inference.max(axis=-1, keepdims=True)], axis=-1)
        return jax.lax.stop_gradient(both.reshape(*both.shape[:-2], -1))

    def loss(self, inference: Array, targets: ActionTargets, mask: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        """Cross-entropy of what the others did, a mean over played steps; metrics `am_loss`, `am_action_accuracy`."""
        actions = others_of(targets.actions, targets.seats)
        loss, accuracy = action_loss(jnp.log(inference), actions, mask)
        return loss, {"am_loss": loss, "am_action_accuracy": accuracy}

    def _count(self, counts: Array, done: Array) -> Array:
        return self.sizes.section(CountsKeys).counts_memory * counts + done

    def _predict(self, counts: Array, seats: Array) -> Array:
        """Counts [..., m, A * U] of all seats -> chances [..., m, A-1, U], co-players as they follow the own seat."""
        agents, actions = self.sizes.n_agents, self.sizes.n_actions
        by_seat = counts.reshape(*counts.shape[:-1], agents, actions)
        order = (seats[..., None] + jnp.arange(1, agents)) % agents
        order = jnp.broadcast_to(order, (*by_seat.shape[:-2], agents - 1))
        others = jnp.take_along_axis(by_seat, order[..., None], axis=-2)
        weight = self.sizes.section(CountsKeys).counts_pseudo
        rates = jax.nn.softmax(self.log_rates)
        return (others + weight * rates) / (others.sum(axis=-1, keepdims=True) + weight)
