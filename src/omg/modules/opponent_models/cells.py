"""The inference of HOP+ with `omg_inference: cells`: on which cell each co-player will be some steps ahead.

For every co-player a softmax over the cells of the board, from the present view and a recurrent summary of what was
seen and done so far. A cell is what it is wherever the board is turned, needs no prior, and its likelihood is exact, so
that nothing is weighed but the chance of what really came.

Two sums make a cell's logit: one for the cell as such, and one for what stands on and around it, by the same
convolutions that the view is read with. By the first alone every cell has to be learned for itself, which takes several
times as many episodes.

Letters in shapes: "..." are B games at one step or [B, T] along episodes, m seats that infer, A seats, J = A - 1
co-players in the order of their seats, O what a seat sees, U actions, W recurrent state.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.maps import SEARCHED_FILTERS, MapEncoder, encoded_dim
from omg.modules.opponent_models.base import ModelInputs, ModelSizes, mean_over, others_one_hot, own_action
from omg.modules.opponent_models.subgoal import EMBEDDING, SubgoalMemory
from omg.modules.recurrent import gru_cell, unroll_rows


class CellModel(eqx.Module):
    """Infers one cell for each co-player."""

    sizes: ModelSizes = eqx.field(static=True)
    maps: MapEncoder
    embed: Linear
    """[what the convolutions give, 32], the present view."""
    input_gates: Linear
    """[32 + (A + 1) * U, 3W]; rows in the order last view, embedded, others' last actions, own last action. For the
    others there are U rows where their actions are counted, and none where they are not read."""
    hidden_gates: Linear
    """[W, 3W]."""
    cell_head: Linear
    """[32 + W, J * cells], of the cell as such."""
    query_head: Linear
    """[32 + W, J * 16], what to look for around a cell."""

    def __init__(self, sizes: ModelSizes, *, key: Array):
        assert sizes.map_shape is not None
        keys = jax.random.split(key, 6)
        self.sizes = sizes
        hidden, others = sizes.hidden_dim, sizes.subgoals
        of_others = {"each": sizes.n_agents, "counts": 1, "none": 0}[sizes.actions]
        self.maps = MapEncoder(sizes.map_shape, SEARCHED_FILTERS, key=keys[0])
        self.embed = Linear(encoded_dim(sizes.seen_dim, sizes.map_shape, SEARCHED_FILTERS), EMBEDDING, key=keys[1])
        self.input_gates = Linear(EMBEDDING + (of_others + 1) * sizes.n_actions, 3 * hidden, key=keys[2])
        self.hidden_gates = Linear(hidden, 3 * hidden, key=keys[3])
        known = EMBEDDING + hidden
        self.cell_head = Linear(known, others * self.cells, key=keys[4])
        self.query_head = Linear(known, others * SEARCHED_FILTERS[-1], key=keys[5])

    @property
    def cells(self) -> int:
        """Of the board."""
        assert self.sizes.map_shape is not None
        _, height, width = self.sizes.map_shape
        return height * width

    def infer(self, inputs: ModelInputs, memory: SubgoalMemory) -> tuple[Array, SubgoalMemory]:
        """One step: inputs [B, m, ...] and memory [B, m, W] -> logits [B, m, J, cells] and the new memory."""
        pictures, embedding = self._look(inputs.seen)
        gates = self._gates(memory.seen, inputs)
        hidden = gru_cell(gates, memory.hidden, self.hidden_gates.weight, self.hidden_gates.bias)
        return self._logits(pictures, embedding, hidden), SubgoalMemory(hidden, embedding)

    def unroll(self, inputs: ModelInputs) -> Array:
        """Along episodes: inputs [B, T, m, ...] -> logits [B, T, m, J, cells]."""
        pictures, embedding = self._look(inputs.seen)
        before = jnp.pad(embedding[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
        start = jnp.zeros((len(embedding), embedding.shape[2], self.sizes.hidden_dim))
        gates = self._gates(before, inputs)
        hidden = unroll_rows(gates, start, self.hidden_gates.weight, self.hidden_gates.bias)
        return self._logits(pictures, embedding, hidden)

    def _look(self, seen: Array) -> tuple[Array, Array]:
        """Of views [..., O]: what the convolutions see around each cell [..., 16, cells], and the embedding."""
        found = self.maps(seen)
        around = SEARCHED_FILTERS[-1] * self.cells
        pictures = found[..., :around].reshape(*seen.shape[:-1], SEARCHED_FILTERS[-1], self.cells)
        return pictures, jax.nn.relu(self.embed(found))

    def _gates(self, before: Array, inputs: ModelInputs) -> Array:
        """Input projections of the recurrent unit, [..., m, 3W]; before: the view of the step before, embedded."""
        parts = [before]
        if self.sizes.actions != "none":
            each = others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions)
            by_seat = each.reshape(*each.shape[:-1], self.sizes.n_agents, self.sizes.n_actions)
            parts.append(each if self.sizes.actions == "each" else by_seat.sum(axis=-2))
        parts.append(jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), self.sizes.n_actions))
        return self.input_gates(jnp.concatenate(parts, axis=-1))

    def _logits(self, pictures: Array, embedding: Array, hidden: Array) -> Array:
        """[..., J, cells] from what was made of a view and of what came before it."""
        others, lead = self.sizes.subgoals, embedding.shape[:-1]
        known = jnp.concatenate([embedding, hidden], axis=-1)
        as_such = self.cell_head(known).reshape(*lead, others, self.cells)
        query = self.query_head(known).reshape(*lead, others, -1)
        return as_such + jnp.matmul(query, pictures) / math.sqrt(query.shape[-1])


def cell_loss(logits: Array, cell: Array, known: Array) -> tuple[Array, dict[str, Array]]:
    """Cross-entropy of the cells that co-players really came to.

    Args:
        logits: [B, T, J, cells].
        cell: [B, T, J] int32.
        known: [B, T, J] of zeros and ones, what counts.

    Returns:
        The loss, and the metrics `am_loss` (the same) and `am_accuracy`, the share of likeliest cells that were right.
    """
    surprise = -jnp.take_along_axis(jax.nn.log_softmax(logits), cell[..., None], axis=-1)[..., 0]
    loss = mean_over(surprise, known)
    right = (jnp.argmax(logits, axis=-1) == cell).astype(jnp.float32)
    return loss, {"am_loss": loss, "am_accuracy": mean_over(right, known)}
