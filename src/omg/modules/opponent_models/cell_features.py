"""`omg_am` with `omg_inference: cells`: what an agent that does not search is told of the others' cells.

The features are the chances of all cells for every co-player, by the model of `omg.modules.opponent_models.cells`. What
there is to learn from is in the own views: they show everybody. Known is where a co-player is `omg_horizon` steps
later, or where it was seen last, in the steps in which both were in the game.

Letters in shapes: B episodes, T steps, m seats that have a model, J co-players in the order of their seats, O views.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.opponent_models.base import ModelInputs, ModelSizes, SupervisedModel
from omg.modules.opponent_models.cells import CellModel, cell_loss
from omg.modules.opponent_models.subgoal import EMBEDDING, SubgoalMemory
from omg.modules.told import Expectation, mean_cells


class CellInference(NamedTuple):
    """What the model makes of a sequence, and what is seen in it."""

    logits: Array
    """[B, T, m, J, cells]."""
    cell: Array
    """[B, T, m, J] int32, where co-players are; of who is not there anything."""
    there: Array
    """[B, T, m, J] bool, co-players that are in the game together with the one who looks."""


class OwnViewsAlone(NamedTuple):
    """Nothing but the own views is learned from."""


class CellFeatures(SupervisedModel):
    """Chances of cells as features."""

    model: CellModel

    targets = OwnViewsAlone

    def __init__(self, sizes: ModelSizes, *, key: Array):
        self.sizes = sizes._replace(subgoals=sizes.n_agents - 1)
        self.model = CellModel(self.sizes, key=key)

    @property
    def feature_dim(self) -> int:
        """Width of the chances of all cells for all co-players."""
        return self.sizes.subgoals * self.model.cells

    def initial(self, batch: int, seats: int) -> SubgoalMemory:
        """Zeros."""
        return SubgoalMemory(jnp.zeros((batch, seats, self.sizes.hidden_dim)), jnp.zeros((batch, seats, EMBEDDING)))

    def infer(
        self, inputs: ModelInputs, memory: SubgoalMemory, key: Array | None
    ) -> tuple[Array, SubgoalMemory, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        logits, memory = self.model.infer(inputs, memory)
        return _chances(logits), memory, {}

    def unroll(self, inputs: ModelInputs) -> CellInference:
        """Views [B, T, m, O] -> logits of cells, and where everybody is in the views."""
        cells, others = self.model.cells, self.sizes.subgoals
        pictures = inputs.seen[..., : (others + 1) * cells].reshape(*inputs.seen.shape[:-1], others + 1, cells)
        shown = jnp.any(pictures > 0.5, axis=-1)
        cell = jnp.argmax(pictures[..., 1:, :], axis=-1).astype(jnp.int32)
        return CellInference(self.model.unroll(inputs), cell, shown[..., 1:] & shown[..., :1])

    def features(self, inference: CellInference, key: Array | None) -> Array:
        """[B, T, m, J * cells], detached."""
        return jax.lax.stop_gradient(_chances(inference.logits))

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """Where the co-players will be: the means of their cells."""
        assert self.sizes.map_shape is not None
        chances = features.reshape(*features.shape[:-1], self.sizes.subgoals, self.model.cells)
        return (mean_cells(chances, self.sizes.map_shape[2], self.sizes.horizon),)

    def loss(
        self, inference: CellInference, targets: OwnViewsAlone, mask: Array, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Cross-entropy of the cells that came; metrics `am_loss`, `am_accuracy`."""
        known = inference.there & (mask[:, :, None, None] > 0)
        slots = jnp.arange(known.shape[1])[:, None, None]
        last = jnp.max(jnp.where(known, slots, 0), axis=1, keepdims=True)
        coming = jnp.minimum(slots + self.sizes.horizon, last)
        cell = jnp.take_along_axis(inference.cell, jnp.broadcast_to(coming, known.shape), axis=1)
        return cell_loss(inference.logits, cell, known.astype(jnp.float32))


def _chances(logits: Array) -> Array:
    """[..., J, cells] -> [..., J * cells]."""
    return jax.nn.softmax(logits).reshape(*logits.shape[:-2], -1)
