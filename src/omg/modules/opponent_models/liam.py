"""`liam_am`, local information agent modelling: an embedding from which the others' view and actions can be read.

A recurrent encoder reads only what its own seat saw and did; the decoder, used in learning alone, reconstructs what
every other seat saw (mean squared error) and did (cross-entropy) in the same step. With `am_normalise` it reads, and
reconstructs, views that are brought to mean 0 and deviation 1; the others' by statistics of their own.
"""

from __future__ import annotations

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear, rows_times, select_rows
from omg.modules.opponent_models.base import (
    ModelInputs,
    ModelSizes,
    ModelTargets,
    SupervisedModel,
    action_loss,
    mean_over,
    others_of,
    own_action,
)
from omg.modules.opponent_models.normalising import counting, normalised, statistics_for
from omg.modules.opponent_models.prior import InputStatistics
from omg.modules.recurrent import gru_cell, unroll_rows
from omg.modules.told import Expectation, ExpectedActions


class LIAMModel(SupervisedModel):
    """Recurrent encoder of the own seat's history, decoder of everybody else's present."""

    embed: Linear
    """[O + U, W]; rows in the order seen, own last action."""
    input_gates: Linear
    hidden_gates: Linear
    encode: Linear
    """[W, F]."""
    decode: Linear
    """[F, W]."""
    others_obs: Linear
    """[W, (A-1) * observation]."""
    others_actions: Linear
    """[W, (A-1) * U]."""
    seen_statistics: InputStatistics | None
    """Of what the own seat sees; None: it is read as it is."""
    others_statistics: InputStatistics | None
    """Of what the others see."""

    targets = ModelTargets

    def __init__(self, sizes: ModelSizes, *, key: Array):
        keys = jax.random.split(key, 7)
        hidden, others = sizes.hidden_dim, sizes.n_agents - 1
        self.sizes = sizes
        self.embed = Linear(sizes.seen_dim + sizes.n_actions, hidden, key=keys[0])
        self.input_gates = Linear(hidden, 3 * hidden, key=keys[1])
        self.hidden_gates = Linear(hidden, 3 * hidden, key=keys[2])
        self.encode = Linear(hidden, sizes.feature_dim, key=keys[3])
        self.decode = Linear(sizes.feature_dim, hidden, key=keys[4])
        self.others_obs = Linear(hidden, others * sizes.obs_dim, key=keys[5])
        self.others_actions = Linear(hidden, others * sizes.n_actions, key=keys[6])
        self.seen_statistics = statistics_for(sizes, sizes.seen_dim)
        self.others_statistics = statistics_for(sizes, sizes.obs_dim)

    @property
    def feature_dim(self) -> int:
        """Width of the embedding."""
        return self.sizes.feature_dim

    def initial(self, batch: int, seats: int) -> Array:
        """Zeros, [B, m, W]."""
        return jnp.zeros((batch, seats, self.sizes.hidden_dim))

    def infer(self, inputs: ModelInputs, memory: Array, key: Array | None) -> tuple[Array, Array, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        memory = gru_cell(self._gates(inputs), memory, self.hidden_gates.weight, self.hidden_gates.bias)
        return self.features(self.encode(memory), None), memory, {}

    def unroll(self, inputs: ModelInputs) -> Array:
        """[B, T, m, O] -> embeddings [B, T, m, F]."""
        start = self.initial(inputs.seen.shape[0], inputs.seen.shape[2])
        states = unroll_rows(self._gates(inputs), start, self.hidden_gates.weight, self.hidden_gates.bias)
        return self.encode(states)

    def features(self, inference: Array, key: Array | None) -> Array:
        """The embeddings, detached: the loss of the agent never trains the model."""
        return jax.lax.stop_gradient(inference)

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """What the decoder reads from the embedding of the others' actions."""
        hidden = jax.nn.relu(self.decode(features))
        return (ExpectedActions(jax.nn.softmax(self._action_logits(hidden))),)

    def counting(self, inputs: ModelInputs, targets: ModelTargets, viewed: Array, mask: Array) -> Self:
        """See `SupervisedModel.counting`: what the own seats and the others saw."""
        seen = counting(self.seen_statistics, inputs.seen, viewed)
        others = counting(self.others_statistics, others_of(targets.obs, targets.seats), mask)
        if seen is None or others is None:
            return self
        return eqx.tree_at(lambda model: (model.seen_statistics, model.others_statistics), self, (seen, others))

    def loss(self, inference: Array, targets: ModelTargets, mask: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        """Reconstruction of the others' observations plus cross-entropy on their actions.

        Metrics: `am_loss` (the sum), `am_obs_loss`, `am_action_loss`, `am_action_accuracy`.
        """
        hidden = jax.nn.relu(self.decode(inference))
        others = self.sizes.n_agents - 1
        logits = self._action_logits(hidden)
        seen = self.others_obs(hidden).reshape(*hidden.shape[:-1], others, self.sizes.obs_dim)
        truth = normalised(others_of(targets.obs, targets.seats), self.others_statistics)
        obs_loss = mean_over((seen - truth) ** 2, mask)
        loss, accuracy = action_loss(logits, others_of(targets.actions, targets.seats), mask)
        metrics = {"am_obs_loss": obs_loss, "am_action_loss": loss, "am_action_accuracy": accuracy}
        return obs_loss + loss, {"am_loss": obs_loss + loss, **metrics}

    def _action_logits(self, hidden: Array) -> Array:
        """[..., m, W] -> [..., m, A-1, U]."""
        logits = self.others_actions(hidden)
        return logits.reshape(*hidden.shape[:-1], self.sizes.n_agents - 1, self.sizes.n_actions)

    def _gates(self, inputs: ModelInputs) -> Array:
        """Input projections of the recurrent unit, [..., m, 3W]."""
        width = self.sizes.seen_dim
        own = select_rows(self.embed.weight[width:], own_action(inputs.last_actions, inputs.seats))
        seen = normalised(inputs.seen, self.seen_statistics)
        return self.input_gates(jax.nn.relu(rows_times(seen, self.embed.weight[:width]) + own + self.embed.bias))
