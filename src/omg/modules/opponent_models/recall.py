"""`recall_am`: on which cell each co-player will end the round, as learned from others and as these did so far.

OMG's subgoal, a state that the others are heading for, in games that are played in rounds with the same others and say
on which cells of a board everybody is (`EnvSpec.seat_cells`). A recurrent network learns the chances of the cells on
which a round ends, by their cross-entropy; `recalling` weighs what it says against rules made from this game alone. The
agent reads the chances of all cells, so that it can tell being sure from guessing.

In a game of a single round there is nothing to recall, and nothing moves belief: `recall_trust` of what is told is what
was learned, the rest the usual.

Letters in shapes: B episodes, T steps, m seats that have a model, A seats, J = A - 1 co-players in the order of their
seats, R rounds, E ways to foretell, K cells, O what a seat sees, U actions, W width of the recurrent state.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.modules.layers import Linear
from omg.modules.opponent_models.base import (
    ActionTargets,
    ModelInputs,
    ModelSizes,
    SupervisedModel,
    mean_over,
    others_one_hot,
    own_action,
)
from omg.modules.opponent_models.cells import cell_loss
from omg.modules.opponent_models.keys import RecallKeys
from omg.modules.opponent_models.normalising import counting, normalised, statistics_for
from omg.modules.opponent_models.prior import InputStatistics
from omg.modules.opponent_models.recalling import Recalled
from omg.modules.recurrent import gru_cell, unroll_rows
from omg.modules.told import Expectation, mean_cells


class RecallMemory(NamedTuple):
    """What the model remembers between two steps."""

    hidden: Array
    """[B, m, W]."""
    recalled: Recalled


class RecallInference(NamedTuple):
    """What the model makes of a sequence, and what is seen in it."""

    logits: Array
    """[B, T, m, J, K], what was learned."""
    chances: Array
    """[B, T, m, J, K], with what is recalled."""
    learned_weight: Array
    """[B, T, m, J], how far what was learned is believed."""
    cells: Array
    """[B, T, m, J] int32, where the others are."""
    number: Array
    """[B, T, m] int32, the round."""


class RecallModel(SupervisedModel):
    """The network; what is made of its chances is in `recalling`."""

    embed: Linear
    """[O + A * U + U, W]; rows in the order seen, the others' last actions, the own last action."""
    input_gates: Linear
    """[W, 3W]."""
    hidden_gates: Linear
    """[W, 3W]."""
    head: Linear
    """[2W, J * K], of the embedded present and the recurrent state."""
    seen_statistics: InputStatistics | None
    """Of what the own seat sees, with `am_normalise`; None: it is read as it is."""

    targets = ActionTargets

    def __init__(self, sizes: ModelSizes, *, key: Array):
        # A game that does not say so is refused before.
        assert sizes.cells is not None
        keys = jax.random.split(key, 4)
        width = sizes.hidden_dim
        self.sizes = sizes
        self.embed = Linear(sizes.seen_dim + (sizes.n_agents + 1) * sizes.n_actions, width, key=keys[0])
        self.input_gates = Linear(width, 3 * width, key=keys[1])
        self.hidden_gates = Linear(width, 3 * width, key=keys[2])
        self.head = Linear(2 * width, (sizes.n_agents - 1) * sizes.cells.cells, key=keys[3])
        self.seen_statistics = statistics_for(sizes, sizes.seen_dim)

    @property
    def feature_dim(self) -> int:
        """Chances of all cells for all co-players."""
        return (self.sizes.n_agents - 1) * self._cells

    @property
    def _cells(self) -> int:
        assert self.sizes.cells is not None
        return self.sizes.cells.cells

    def initial(self, batch: int, seats: int) -> RecallMemory:
        """Nothing remembered."""
        assert self.sizes.cells is not None
        trust = self.sizes.section(RecallKeys).recall_trust
        recalled = Recalled.empty(batch, seats, self.sizes.n_agents - 1, self.sizes.cells.rounds, self._cells, trust)
        return RecallMemory(jnp.zeros((batch, seats, self.sizes.hidden_dim)), recalled)

    def infer(
        self, inputs: ModelInputs, memory: RecallMemory, key: Array | None
    ) -> tuple[Array, RecallMemory, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        embedding = self._embed(inputs)
        gates = self.input_gates(embedding)
        hidden = gru_cell(gates, memory.hidden, self.hidden_gates.weight, self.hidden_gates.bias)
        learned = jax.nn.softmax(self._logits(embedding, hidden))
        recalled = self._recall(memory.recalled, inputs, learned)
        chances = recalled.chances(learned)
        return chances.reshape(*chances.shape[:-2], -1), RecallMemory(hidden, recalled), {}

    def unroll(self, inputs: ModelInputs) -> RecallInference:
        """Views [B, T, m, O] -> what was learned of them, and with what is recalled."""
        start = self.initial(inputs.seen.shape[0], inputs.seen.shape[2])
        embedding = self._embed(inputs)
        gates = self.input_gates(embedding)
        hidden = unroll_rows(gates, start.hidden, self.hidden_gates.weight, self.hidden_gates.bias)
        logits = self._logits(embedding, hidden)

        def step(recalled: Recalled, given: tuple[ModelInputs, Array]) -> tuple[Recalled, tuple[Array, ...]]:
            now, learned = given
            recalled = self._recall(recalled, now, learned)
            told = recalled.chances(learned), recalled.weights()[..., 0], recalled.cells, recalled.number
            return recalled, told

        slots = inputs.seen.shape[1]
        seats = jnp.broadcast_to(inputs.seats, inputs.seen.shape[:-1])
        timed = (inputs.seen, inputs.last_actions, seats, jax.nn.softmax(lax.stop_gradient(logits)))
        seen, last, seats, learned = (jnp.swapaxes(each, 0, 1) for each in timed)
        _, told = lax.scan(step, start.recalled, (ModelInputs(seen, last, seats), learned), length=slots)
        return RecallInference(logits, *(jnp.swapaxes(each, 0, 1) for each in told))

    def features(self, inference: RecallInference, key: Array | None) -> Array:
        """[B, T, m, J * K], detached."""
        return lax.stop_gradient(inference.chances.reshape(*inference.chances.shape[:-2], -1))

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """Where the co-players will be at the end of the round: the means of their cells."""
        assert self.sizes.cells is not None
        chances = features.reshape(*features.shape[:-1], self.sizes.n_agents - 1, self._cells)
        return (mean_cells(chances, self.sizes.cells.width),)

    def counting(self, inputs: ModelInputs, targets: ActionTargets, viewed: Array, mask: Array) -> Self:
        """See `SupervisedModel.counting`: what the own seats saw."""
        seen = counting(self.seen_statistics, inputs.seen, viewed)
        return self if seen is None else eqx.tree_at(lambda model: model.seen_statistics, self, seen)

    def loss(
        self, inference: RecallInference, targets: ActionTargets, mask: Array, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Cross-entropy of the cells on which rounds ended, by what was learned.

        Metrics: `am_loss`; `am_accuracy`, the share of likeliest cells that were right; `am_recall_accuracy`, the same
        of what the agent is told; `am_learned_weight`, how far what was learned is believed.
        """
        assert self.sizes.cells is not None
        seats = jnp.broadcast_to(targets.seats[:, None], inference.number.shape)
        landed = self.sizes.cells.landing(inference.cells, others_actions(targets.actions, seats))
        ends = jnp.broadcast_to(round_ends(inference.number, mask)[..., None], landed.shape)
        cell = jnp.take_along_axis(landed, ends, axis=1)
        known = jnp.broadcast_to(mask[:, :, None, None], cell.shape)
        loss, metrics = cell_loss(inference.logits, cell, known)
        right = (jnp.argmax(inference.chances, axis=-1) == cell).astype(jnp.float32)
        return loss, metrics | {
            "am_recall_accuracy": mean_over(right, mask),
            "am_learned_weight": mean_over(inference.learned_weight, mask),
        }

    def _embed(self, inputs: ModelInputs) -> Array:
        actions = self.sizes.n_actions
        others = others_one_hot(inputs.last_actions, inputs.seats, actions)
        own = jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), actions)
        seen = normalised(inputs.seen, self.seen_statistics)
        return jax.nn.relu(self.embed(jnp.concatenate([seen, others, own], axis=-1)))

    def _logits(self, embedding: Array, hidden: Array) -> Array:
        """[..., J, K]."""
        said = self.head(jnp.concatenate([embedding, hidden], axis=-1))
        return said.reshape(*said.shape[:-1], self.sizes.n_agents - 1, self._cells)

    def _recall(self, recalled: Recalled, inputs: ModelInputs, learned: Array) -> Recalled:
        """One step: inputs [B, m, ...] and chances [B, m, J, K]."""
        board = self.sizes.cells
        assert board is not None
        cells = board.standing(inputs.seen, self.sizes.n_agents)[..., 1:]
        seats = jnp.broadcast_to(inputs.seats, inputs.seen.shape[:-1])
        # Before the first step nobody has done anything, and nothing is over that one would have to know the end of.
        landed = board.landing(recalled.cells, jnp.maximum(others_actions(inputs.last_actions, seats), 0))
        return recalled.after(landed, cells, board.round_number(inputs.seen), learned)


def others_actions(actions: Array, seats: Array) -> Array:
    """What the others do, in the order of their seats: joint actions [..., A] of seats [..., m] -> [..., m, A - 1]."""
    places = jnp.arange(actions.shape[-1] - 1)
    index = places + (places >= seats[..., None])
    everybody = jnp.broadcast_to(actions[..., None, :], (*seats.shape, actions.shape[-1]))
    return jnp.take_along_axis(everybody, index, axis=-1)


def round_ends(number: Array, mask: Array) -> Array:
    """Of every step the last one that was played of its round: rounds [B, T, m] and mask [B, T] -> [B, T, m] int32."""
    steps = number.shape[1]
    played = jnp.pad(mask[:, 1:] > 0, ((0, 0), (0, 1)))[..., None]
    goes_on = played & (jnp.concatenate([number[:, 1:], number[:, -1:]], axis=1) == number)
    slots = jnp.arange(steps)[:, None]
    return lax.cummin(jnp.where(goes_on, steps - 1, slots).astype(jnp.int32), axis=1, reverse=True)
