"""`base_am`, the naive opponent model: predicts what the others do now, and hands on what it predicts from.

Input are the seat's view and everybody's last actions; two layers make an embedding, a third the logits of each other
seat's action. The feature is the embedding, or the predicted probabilities. It learns by cross-entropy on the actions
the others really took.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.opponent_models.base import (
    ActionTargets,
    ModelInputs,
    ModelSizes,
    SupervisedModel,
    action_loss,
    others_of,
    others_one_hot,
    own_action,
)
from omg.modules.opponent_models.normalising import counting, normalised, statistics_for
from omg.modules.opponent_models.prior import InputStatistics
from omg.modules.told import Expectation, ExpectedActions


class NaiveInference(NamedTuple):
    """What the model makes of a sequence."""

    embedding: Array
    """[B, T, m, embedded]."""
    logits: Array
    """[B, T, m, A-1, U]."""


class NaiveModel(SupervisedModel):
    """Linear -> ReLU -> Linear -> ReLU -> logits, without memory."""

    fc1: Linear
    fc2: Linear
    actions: Linear
    seen_statistics: InputStatistics | None
    """Of what the own seat sees, with `am_normalise`; None: it is read as it is."""

    targets = ActionTargets

    def __init__(self, sizes: ModelSizes, *, key: Array):
        keys = jax.random.split(key, 3)
        self.sizes = sizes
        inputs = sizes.seen_dim + (sizes.n_agents + 1) * sizes.n_actions
        self.fc1 = Linear(inputs, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, sizes.feature_dim, key=keys[1])
        self.actions = Linear(sizes.feature_dim, (sizes.n_agents - 1) * sizes.n_actions, key=keys[2])
        self.seen_statistics = statistics_for(sizes, sizes.seen_dim)

    @property
    def feature_dim(self) -> int:
        """Width of the embedding, or of all others' action probabilities."""
        if self.sizes.naive_feature == "probabilities":
            return (self.sizes.n_agents - 1) * self.sizes.n_actions
        return self.sizes.feature_dim

    def initial(self, batch: int, seats: int) -> None:
        """No memory."""

    def infer(self, inputs: ModelInputs, memory: None, key: Array | None) -> tuple[Array, None, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        return self.features(self.unroll(inputs), None), None, {}

    def unroll(self, inputs: ModelInputs) -> NaiveInference:
        """Every step by itself: [..., m, O] -> embedding [..., m, embedded] and logits [..., m, A-1, U]."""
        others = others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions)
        own = jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), self.sizes.n_actions)
        seen = normalised(inputs.seen, self.seen_statistics)
        hidden = jax.nn.relu(self.fc1(jnp.concatenate([seen, others, own], axis=-1)))
        embedding = jax.nn.relu(self.fc2(hidden))
        return NaiveInference(embedding, self._apart(self.actions(embedding)))

    def features(self, inference: NaiveInference, key: Array | None) -> Array:
        """[..., m, F], detached: the loss of the agent never trains the model."""
        if self.sizes.naive_feature == "probabilities":
            values = jax.nn.softmax(inference.logits).reshape(*inference.logits.shape[:-2], -1)
        else:
            values = inference.embedding
        return jax.lax.stop_gradient(values)

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """The actions that it predicts."""
        if self.sizes.naive_feature == "probabilities":
            return (ExpectedActions(self._apart(features)),)
        return (ExpectedActions(jax.nn.softmax(self._apart(self.actions(features)))),)

    def _apart(self, values: Array) -> Array:
        """[..., (A-1) * U] -> [..., A-1, U]."""
        return values.reshape(*values.shape[:-1], self.sizes.n_agents - 1, self.sizes.n_actions)

    def counting(self, inputs: ModelInputs, targets: ActionTargets, viewed: Array, mask: Array) -> Self:
        """See `SupervisedModel.counting`: what the own seats saw."""
        seen = counting(self.seen_statistics, inputs.seen, viewed)
        return self if seen is None else eqx.tree_at(lambda model: model.seen_statistics, self, seen)

    def loss(
        self, inference: NaiveInference, targets: ActionTargets, mask: Array, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Cross-entropy on the others' actions; metrics `am_loss`, `am_action_accuracy`."""
        loss, accuracy = action_loss(inference.logits, others_of(targets.actions, targets.seats), mask)
        return loss, {"am_loss": loss, "am_action_accuracy": accuracy}
