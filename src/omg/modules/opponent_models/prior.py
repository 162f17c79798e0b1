"""The subgoal prior: a variational autoencoder over what a seat sees, trained once on a pool's games and then frozen.

Its encoder turns a view into a subgoal, its decoder turns a subgoal back into a view that people can read. Inputs are
brought to mean 0 and deviation 1 inside, by statistics of the training data that are part of the prior; what comes out
of `decode` is in the original units.

Views that begin with a binary map may be read as what they are (`map_shape`): convolutions look at the map, and bits
are reconstructed as bits, by their cross-entropy. Nothing is brought to another scale then; all numbers lie within 0
and 1. Beside the bits it counts *where* the pieces of each picture are (`place_cross_entropy`). By bits alone a player,
one of a picture's many cells, hardly weighs anything beside the obstacles: after 2,000 steps on the stag hunt such a
prior named a player's cell hardly better than chance, and with places it did in more than half of all views.

Codes are diagonal normal distributions given by mean and logarithm of the variance.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.maps import SEARCHED_FILTERS, MapEncoder, MapShape, encoded_dim
from omg.modules.opponent_models.base import kl_to_standard, mean_over, sample

LOWEST_LOG_VAR, HIGHEST_LOG_VAR = -8.0, 4.0
"""A network's output is kept between these, so that no divergence is infinite."""
_SMALLEST_DEVIATION = 1e-2
"""Features that vary less than this count as constant and are not blown up."""


class InputStatistics(NamedTuple):
    """Running mean and variance of every feature, [O] each, over a number of rows."""

    rows: Array
    mean: Array
    variance: Array

    @staticmethod
    def empty(features: int) -> InputStatistics:
        """Of no rows."""
        return InputStatistics(jnp.zeros(()), jnp.zeros(features), jnp.ones(features))

    def add(self, rows: Array, weight: Array) -> InputStatistics:
        """With the rows [N, O] added that have weight [N] one rather than zero."""
        added = weight.sum()
        share = jnp.maximum(added, 1.0)
        mean = (rows * weight[:, None]).sum(axis=0) / share
        variance = ((rows - mean) ** 2 * weight[:, None]).sum(axis=0) / share
        total = jnp.maximum(self.rows + added, 1.0)
        part = added / total
        between = (mean - self.mean) ** 2 * (self.rows / total) * part
        return InputStatistics(
            self.rows + added,
            self.mean + (mean - self.mean) * part,
            self.variance * (self.rows / total) + variance * part + between,
        )

    def scale(self) -> tuple[Array, Array]:
        """Mean and deviation of every feature, [O] each: what views are normalised by, unless they are bits."""
        # A loss in normalised units could be lowered by blowing up the deviation, and the root of a constant feature's
        # variance has no finite slope.
        _, mean, variance = jax.lax.stop_gradient(self)
        deviation = jnp.sqrt(variance)
        return mean, jnp.where(deviation < _SMALLEST_DEVIATION, 1.0, deviation)


class Prior(eqx.Module):
    """Encoder and decoder, each with two hidden layers and leaky ReLUs."""

    encoder: tuple[Linear, ...]
    mean_head: Linear
    log_var_head: Linear
    decoder: tuple[Linear, ...]
    output: Linear
    statistics: InputStatistics
    """Counted, never learned: no gradient reaches them."""
    maps: MapEncoder
    """Before the encoder; nothing for views that are plain numbers."""

    def __init__(
        self,
        features: int,
        subgoal_dim: int,
        hidden: tuple[int, ...] = (128, 128),
        map_shape: MapShape | None = None,
        *,
        key: Array,
    ):
        encoder_key, mean_key, log_var_key, decoder_key, output_key = jax.random.split(key, 5)
        self.maps = MapEncoder(map_shape, SEARCHED_FILTERS, key=jax.random.fold_in(key, 5))
        self.encoder = _stack((encoded_dim(features, map_shape, SEARCHED_FILTERS), *hidden), encoder_key)
        self.mean_head = Linear(hidden[-1], subgoal_dim, key=mean_key)
        self.log_var_head = Linear(hidden[-1], subgoal_dim, key=log_var_key)
        self.decoder = _stack((subgoal_dim, *hidden[::-1]), decoder_key)
        self.output = Linear(hidden[0], features, key=output_key)
        self.statistics = InputStatistics.empty(features)

    @property
    def subgoal_dim(self) -> int:
        """D."""
        return self.mean_head.weight.shape[-1]

    @property
    def map_shape(self) -> MapShape | None:
        """Of the binary map that views begin with; None for views that are plain numbers."""
        return self.maps.shape

    def loss(self, seen: Array, mask: Array, weight: float, key: Array) -> tuple[Array, dict[str, Array]]:
        """What the prior learns from: reconstruction + weight * KL(encoding || N(0, 1)), means over views.

        Args:
            seen: [B, T, m, O] views in original units.
            mask: [B, T] of zeros and ones.
            weight: Of the divergence.
            key: Of the drawn subgoals.

        Returns:
            The loss, and metrics `prior_loss`, `prior_reconstruction`, `prior_kl`.
        """
        mean, log_var = self.encode(seen)
        reconstruction = mean_over(self.reconstruction(sample(mean, log_var, key), seen), mask)
        kl = mean_over(kl_to_standard(mean, log_var), mask)
        loss = reconstruction + weight * kl
        return loss, {"prior_loss": loss, "prior_reconstruction": reconstruction, "prior_kl": kl}

    def counting(self, seen: Array, mask: Array) -> Prior:
        """The prior with views [B, T, m, O] counted into its input statistics, where the mask [B, T] is one."""
        rows = seen.reshape(-1, seen.shape[-1])
        weight = jnp.broadcast_to(mask[..., None], seen.shape[:-1]).reshape(-1)
        return eqx.tree_at(lambda prior: prior.statistics, self, self.statistics.add(rows, weight))

    def with_statistics(self, statistics: InputStatistics) -> Prior:
        """The same networks with other input statistics."""
        return eqx.tree_at(lambda prior: prior.statistics, self, statistics)

    def normalise(self, seen: Array) -> Array:
        """From original to normalised units, [..., O]; bits stay what they are."""
        if self.maps.shape is not None:
            return seen
        mean, deviation = self.statistics.scale()
        return (seen - mean) / deviation

    def restore(self, normalised: Array) -> Array:
        """From normalised to original units, [..., O]; bits stay what they are."""
        if self.map_shape is not None:
            return normalised
        mean, deviation = self.statistics.scale()
        return normalised * deviation + mean

    def encode(self, seen: Array, *, normalised: bool = False) -> tuple[Array, Array]:
        """Mean and log variance of the subgoal that stands for a view: [..., O] -> [..., D] each.

        Args:
            seen: In original units.
            normalised: Or rather in normalised ones.
        """
        if self.maps.shape is not None:
            seen = self.maps(seen)
        elif not normalised:
            seen = self.normalise(seen)
        hidden = _through(self.encoder, seen)
        return self.mean_head(hidden), jnp.clip(self.log_var_head(hidden), LOWEST_LOG_VAR, HIGHEST_LOG_VAR)

    def decode_normalised(self, subgoal: Array) -> Array:
        """The view a subgoal stands for, in normalised units: [..., D] -> [..., O]; of bits the chance to be set."""
        rebuilt = self.output(_through(self.decoder, subgoal))
        return rebuilt if self.map_shape is None else jax.nn.sigmoid(rebuilt)

    def reconstruction(self, subgoal: Array, seen: Array) -> Array:
        """How badly subgoals stand for views, as a mean over features: [..., D] and [..., O] -> [...].

        The squared error in normalised units; of bits the cross-entropy in nats, and added to it that of the places
        in each picture, divided by the cells.
        """
        rebuilt, shape = self.output(_through(self.decoder, subgoal)), self.maps.shape
        if shape is None:
            return ((rebuilt - self.normalise(seen)) ** 2).mean(axis=-1)
        _, height, width = shape
        places = place_cross_entropy(rebuilt, seen, shape).sum(axis=-1)
        return bit_cross_entropy(rebuilt, seen).mean(axis=-1) + places / (height * width)

    def decode(self, subgoal: Array) -> Array:
        """The view a subgoal stands for, in original units: [..., D] -> [..., O]."""
        return self.restore(self.decode_normalised(subgoal))


def bit_cross_entropy(logits: Array, bits: Array) -> Array:
    """-log of the chance of each bit, in nats: logits and bits (or chances of them) [...] -> [...]."""
    return jax.nn.softplus(logits) - bits * logits


def place_cross_entropy(logits: Array, bits: Array, shape: MapShape) -> Array:
    """-log of the chance of the cell in which a piece is, mean over the pieces of a picture; zero for an empty one.

    Args:
        logits: [..., O], of views that begin with a map; over the cells of a picture they give the chances.
        bits: [..., O], the views.
        shape: C pictures, their height and width.

    Returns:
        [..., C], in nats.
    """
    pictures, height, width = shape
    size = pictures * height * width
    by_cell = [values[..., :size].reshape(*values.shape[:-1], pictures, height * width) for values in (logits, bits)]
    chances, pieces = jax.nn.log_softmax(by_cell[0]), by_cell[1]
    return -(pieces * chances).sum(axis=-1) / jnp.maximum(pieces.sum(axis=-1), 1.0)


def _stack(widths: tuple[int, ...], key: Array) -> tuple[Linear, ...]:
    keys = jax.random.split(key, len(widths) - 1)
    return tuple(Linear(*pair, key=layer_key) for pair, layer_key in zip(pairwise(widths), keys, strict=True))


def _through(layers: tuple[Linear, ...], x: Array) -> Array:
    for layer in layers:
        x = jax.nn.leaky_relu(layer(x))
    return x
