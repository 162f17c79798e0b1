"""How a model of cells is trained (`omg_inference: cells`): on which cell each co-player will be some steps ahead.

In hindsight the cell is known: where the co-player stood in the coming state that `subgoal_mode` names, or where it
stood last, if it left or the episode ended before. The model learns by the cross-entropy of that cell, with an
optimiser of its own. The co-players' networks learn what was done on the way there, told the same cell (`omg_q_input:
selected`) or, with a chance that `omg_q_input` says, one drawn from what was inferred. A share of them is told nothing
(`UNTOLD_SHARE`), so that it is known what a network makes of a position by itself.

Steps in which a co-player has left, or the focal player has, count nowhere.

Letters in shapes: as in `omg.learners.hop_subgoals`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number
from omg.controllers.hop import HOPMac
from omg.controllers.reading import pick_offset
from omg.learners.hop_subgoals import Sequences, SubgoalsUpdate, Views, model_inputs, watch
from omg.learners.subgoals import selected_share
from omg.modules.opponent_models.cells import CellModel, cell_loss
from omg.modules.planning import each
from omg.planning.cells import UNTOLD, Ways, drawn_cell

if TYPE_CHECKING:
    from omg.config import Config

UNTOLD_SHARE = 0.1
"""Of what co-players' networks learn from, the share that they are told nothing of."""
LIKELY = 8
"""Cells that stand for all that are inferred: at equal steps of their summed chances."""


class CellsTraining:
    """Trains the models of a planning player that infer cells; holds only settings."""

    def __init__(self, config: Config, seats: int, rounds: Callable[[Array, int], Array]):
        """Of a learner in `seats` seats; `rounds` says which of some rows each gradient step learns from."""
        self.config, self.seats, self.rounds = config, seats, rounds
        self.optimiser = optax.adam(config.am_lr)

    def init(self, mac: HOPMac) -> optax.OptState:
        """The state of the models' optimiser before the first update."""
        return self.optimiser.init(mac.minds.subgoals)

    def update(
        self,
        mac: HOPMac,
        opt_state: optax.OptState,
        batch: EpisodeBatch,
        seats: Array,
        t_env: Number,
        keys: Sequence[Array],
    ) -> SubgoalsUpdate:
        """Passes of the models over the episodes just played; see `SubgoalsTraining.update`.

        Returns:
            `goals` are ways to cells [P, R * T, J] int32, -1 for untold ones. Among the metrics those of `cell_loss`,
            `omg_selected_share` and `omg_offset_mean`, how many steps ahead the cells lie.
        """
        views, sequences = watch(mac, batch, seats, self.seats)
        told_key, learn_key = keys
        drawn_key, one_key, mix_key, untold_key, mode_key = jax.random.split(told_key, 5)
        cells, offset = self.targets(views, sequences, mode_key)
        share = selected_share(self.config, t_env)

        def drawn(model: CellModel, part: Sequences, key: Array) -> Array:
            chances = jax.nn.softmax(model.unroll(model_inputs(views, part))[:, :-1, 0])
            begin = jax.random.uniform(key, chances.shape[:-1])
            shares = (jnp.arange(LIKELY) + begin[..., None]) / LIKELY
            return drawn_cell(chances[..., None, :], shares)

        likely = each(drawn, mac.minds.subgoals, sequences, jax.random.split(drawn_key, len(cells)))
        ways, here = Ways(mac.game.map_view), _theirs(views, sequences)[:, :, :-1]
        one = jax.random.randint(one_key, (*cells.shape, 1), 0, LIKELY)
        inferred = jnp.take_along_axis(likely, one, axis=-1)[..., 0]
        told = jnp.where(jax.random.uniform(mix_key, cells.shape) < share, cells, inferred)
        told = ways.between(here, told)
        told = jnp.where(jax.random.uniform(untold_key, cells.shape) < UNTOLD_SHARE, UNTOLD, told)
        if self.config.omg_q_input == "zero":
            told = jnp.full_like(told, UNTOLD)
        mac, opt_state, metrics = self._learn(mac, opt_state, views, sequences, cells, learn_key)
        known = sequences.known.reshape(offset.shape)
        metrics |= {
            "omg_selected_share": share,
            "omg_offset_mean": (offset * known).sum() / jnp.maximum(known.sum(), 1.0),
        }
        goals = told.reshape(len(told), -1, told.shape[-1])
        together = None
        if self.config.omg_q_input != "zero" and self.config.hop_together_weight > 0:
            together = ways.between(here[..., None], likely).reshape(*goals.shape, LIKELY)
        return SubgoalsUpdate(mac, opt_state, goals, metrics, together)

    def targets(self, views: Views, sequences: Sequences, key: Array) -> tuple[Array, Array]:
        """The cell of each co-player in the coming state that is selected, [P, R, T, J] int32, and how far ahead.

        Args:
            views: B episodes.
            sequences: The same as each set of networks sees them.
            key: For `subgoal_mode: random`.
        """
        steps = views.seen.shape[1] - 1
        length = sequences.length.reshape(len(sequences.length), -1, sequences.length.shape[-1])
        shape = (*length.shape[:2], steps, length.shape[2])
        offset = pick_offset(self.config.subgoal_mode, None, shape, self.config.omg_horizon, key)
        now = jnp.arange(steps)[:, None]
        slot = jnp.minimum(now + offset, length[:, :, None])
        return jnp.take_along_axis(_theirs(views, sequences), slot, axis=2), slot - now

    def _learn(
        self,
        mac: HOPMac,
        opt_state: optax.OptState,
        views: Views,
        sequences: Sequences,
        cells: Array,
        key: Array,
    ) -> tuple[HOPMac, optax.OptState, dict[str, Array]]:
        """Gradient steps of the models; the player with them, and the metrics."""
        rounds = self.rounds(key, len(views.seen))
        goal = cells.reshape(*sequences.seat.shape, *cells.shape[2:])

        def step(
            carry: tuple[CellModel, optax.OptState], chosen: Array
        ) -> tuple[tuple[CellModel, optax.OptState], dict[str, Array]]:
            models, opt_state = carry
            seen = jax.tree.map(lambda leaf: leaf[chosen], views)
            part, target = jax.tree.map(lambda leaf: leaf[:, :, chosen], (sequences, goal))

            def gradients(model: CellModel, part: Sequences, target: Array) -> tuple[CellModel, dict[str, Array]]:
                def loss(model: CellModel) -> tuple[Array, dict[str, Array]]:
                    logits = model.unroll(model_inputs(seen, part))[:, :-1, 0]
                    known = part.known.reshape(-1, *part.known.shape[2:])
                    return cell_loss(logits, target.reshape(known.shape), known)

                slope: tuple[CellModel, dict[str, Array]] = jax.grad(loss, has_aux=True)(model)
                return slope

            by_model, metrics = each(gradients, models, part, target)
            moves, opt_state = self.optimiser.update(by_model, opt_state)
            return (optax.apply_updates(models, moves), opt_state), metrics

        assert isinstance(mac.minds.subgoals, CellModel)
        (models, opt_state), metrics = lax.scan(step, (mac.minds.subgoals, opt_state), rounds)
        changed = dataclasses.replace(mac, minds=dataclasses.replace(mac.minds, subgoals=models))
        return changed, opt_state, {name: values.mean() for name, values in metrics.items()}


def _theirs(views: Views, sequences: Sequences) -> Array:
    """Where co-players are in all slots, [P, R, T+1, J] int32."""
    others = sequences.others.reshape(len(sequences.others), -1, sequences.others.shape[-1])
    everybody = jnp.tile(views.cells, (others.shape[1] // len(views.cells), 1, 1))
    return jax.vmap(lambda order: jnp.take_along_axis(everybody, order[:, None], axis=2))(others)
