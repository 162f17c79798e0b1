"""`identity_am`: tells the agent which pool members it plays with. Nobody could know that with unseen players.

It is no model but a reference: what it gains over no model at all is what knowing the others is worth to a learner, and
no model of the others can be expected to bring the same learner more.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.opponent_models.base import ModelInputs, SupervisedModel


class NoTargets(NamedTuple):
    """Nothing of what was played."""


class IdentityModel(SupervisedModel):
    """For every pool member, the share of the other seats it has; nothing is learned."""

    targets = NoTargets

    @property
    def feature_dim(self) -> int:
        """Number of pool members."""
        return self.sizes.partners

    def initial(self, batch: int, seats: int) -> None:
        """No memory."""

    def infer(self, inputs: ModelInputs, memory: None, key: Array | None) -> tuple[Array, None, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        return self.unroll(inputs), None, {}

    def unroll(self, inputs: ModelInputs) -> Array:
        """Players [..., A] -> shares [..., m, partners]."""
        if inputs.players is None:
            raise ValueError("identity_am needs to be told the players of every seat")
        counts = jax.nn.one_hot(inputs.players, self.sizes.partners).sum(axis=-2) / max(self.sizes.n_agents - 1, 1)
        return jnp.broadcast_to(counts[..., None, :], (*inputs.seen.shape[:-1], self.sizes.partners))

    def features(self, inference: Array, key: Array | None) -> Array:
        """The shares."""
        return inference

    def loss(self, inference: Array, targets: NoTargets, mask: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        """Nothing to learn: 0."""
        return jnp.zeros(()), {"am_loss": jnp.zeros(())}
