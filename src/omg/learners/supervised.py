"""How an opponent model is trained that has a loss of its own (`SupervisedModel`), beside any learner of seats.

    loss of the model = model.loss(what it infers, what was really played), a mean over played steps

with an optimiser of its own (`am_lr`). The features that the agent learns with are those of the model before the
update, detached; only what it counts rather than learns is up to date. What of the played episodes its loss is given, a
model declares itself (`SupervisedModel.targets`).

Letters in shapes: B episodes, T steps, m seats that learn, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number
from omg.controllers.basic import BasicMAC
from omg.controllers.reading import SeatViews
from omg.errors import UserError
from omg.learners.seats import ModelState, ModelUpdate, Share, weigh
from omg.modules.opponent_models.base import ModelInputs, OpponentModel, SupervisedModel
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.config import Config


class SupervisedTraining:
    """Trains a `SupervisedModel` by its own loss; does nothing where there is no model."""

    examines = False

    def __init__(self, config: Config):
        self.sampling = config.omg_sample
        self.optimiser = optax.adam(config.am_lr)

    def init(self, model: OpponentModel | None) -> optax.OptState:
        """See `ModelTrainer.init`."""
        if model is not None and not isinstance(model, SupervisedModel):
            raise UserError(
                f"am_model: got {type(model).__name__}, which has no loss of its own; its learner trains it."
            )
        return self.optimiser.init(model)

    def update(self, state: ModelState, shares: Sequence[Share], t_env: Number, key: Array | None) -> ModelUpdate:
        """See `ModelTrainer.update`."""
        model = state.mac.opponent_model
        if model is None:
            return ModelUpdate(None, state.model_opt_state, (None,) * len(shares), {})
        assert isinstance(model, SupervisedModel)
        assert key is not None
        feature_key, loss_key = jax.random.split(key)
        loss_keys = jax.random.split(loss_key, len(shares))
        inputs = [share.views.model_inputs() for share in shares]
        targets = [targets_of(model, share.batch, each) for share, each in zip(shares, inputs, strict=True)]
        for share, read, played in zip(shares, inputs, targets, strict=True):
            model = model.counting(read, played, share.viewed, share.mask)

        def of_share(
            model: SupervisedModel, share: Share, inputs: ModelInputs, targets: PyTree, loss_key: Array
        ) -> tuple[tuple[Array, dict[str, Array]], Array]:
            inference = model.unroll(inputs)
            played = jax.tree.map(lambda values: values[:, :-1], inference)
            means = model.loss(played, targets, share.mask, loss_key)
            return means, model.features(inference, feature_key if self.sampling else None)

        def loss(model: SupervisedModel) -> tuple[Array, tuple[tuple[Array, ...], dict[str, Array]]]:
            given = zip(shares, inputs, targets, loss_keys, strict=True)
            found = [of_share(model, *each) for each in given]
            value, metrics = weigh([means for means, _ in found], shares)
            return value, (tuple(features for _, features in found), metrics)

        (_, (features, metrics)), gradients = jax.value_and_grad(loss, has_aux=True)(model)
        steps, opt_state = self.optimiser.update(gradients, state.model_opt_state)
        given = tuple(state.mac.reading.control(each) for each in features)
        return ModelUpdate(optax.apply_updates(model, steps), opt_state, given, metrics)

    def examine(self, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, partners: int) -> dict[str, Array]:
        """Nothing to add."""
        return {}


def targets_of(model: SupervisedModel, batch: EpisodeBatch, inputs: ModelInputs) -> PyTree:
    """What was really played, of the T steps, as the model declares it."""
    games, seats = batch.actions.shape[0], inputs.seats[:, 0]
    known: dict[str, Array | None] = {
        "obs": batch.obs[:, :-1],
        "avail": batch.avail[:, :-1],
        "actions": batch.actions[:, :-1],
        "reward": batch.reward[:, :-1],
        "terminated": batch.terminated[:, :-1],
        "players": batch.players,
        "seats": jnp.broadcast_to(seats, (games, seats.shape[-1])),
    }
    return model.targets._make(known[name] for name in model.targets._fields)
