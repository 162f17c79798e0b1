"""`belief_probe`: can one read from an opponent model's features who the other player is?"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import loss_mask
from omg.controllers.basic import BasicMAC
from omg.learners.subgoal_measures import probe_accuracy
from omg.training.measures import ExaminedEpisodes


def belief_probe(tested: ExaminedEpisodes) -> dict[str, Array]:
    """A linear classifier of the pool member that has most of the other seats, at every played step.

    Metrics: `belief_probe`, its accuracy from the model's features; `belief_probe_view`, from what the seat sees;
    `belief_probe_chance`, the share of the most frequent member. It is fitted on every other episode and scored on the
    rest. Nothing is measured of players without an opponent model, or where there is one partner or none.
    """
    player, batch, partners = tested.player, tested.batch, tested.partners
    if partners < 2 or batch.players is None or not isinstance(player, BasicMAC) or player.opponent_model is None:
        return {}
    inputs = player.reading.episodes(batch, tested.seats).model_inputs()
    features = player.opponent_model.features(player.opponent_model.unroll(inputs), None)
    member = jax.nn.one_hot(batch.players, partners).sum(axis=1).argmax(axis=-1)
    labels = jnp.broadcast_to(member[:, None, None], features[:, :-1].shape[:-1])
    weight = jnp.broadcast_to(loss_mask(batch)[..., None], labels.shape)
    return {
        "belief_probe": probe_accuracy(features[:, :-1], labels, weight, partners),
        "belief_probe_view": probe_accuracy(inputs.seen[:, :-1], labels, weight, partners),
        "belief_probe_chance": jax.nn.one_hot(member, partners).mean(axis=0).max(),
    }
