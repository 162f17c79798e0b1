"""`omg_am`: infers from the history which state the others are heading for.

While acting, a conditional variational autoencoder reads the present view and a recurrent summary of what was seen and
done so far, and gives a distribution over subgoals in the space of the frozen prior. It learns by two forces: its
decoder must be able to reconstruct the present from subgoal and history, and the subgoal must be close to what the
prior makes of a state that really came later (which one, a selector decides in hindsight). With `inference: mlp` the
subgoal is a plain regression on that later state instead. With `residual` the model says only how the subgoal differs
from what the prior makes of the present view.

Where views begin with a binary map (`map_shape`), convolutions read it, and the recurrent unit gets the embedded view
of the step before instead of the view itself: thousands of numbers become 32, and nothing is looked at twice. Several
subgoals may be inferred side by side, e.g. one for each co-player (`subgoals`); their features are one vector.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.maps import SEARCHED_FILTERS, MapEncoder, encoded_dim
from omg.modules.opponent_models.base import (
    ModelInputs,
    ModelSizes,
    OpponentModel,
    kl_between,
    mean_over,
    others_one_hot,
    own_action,
    sample,
)
from omg.modules.opponent_models.keys import InferenceKeys
from omg.modules.opponent_models.prior import (
    HIGHEST_LOG_VAR,
    LOWEST_LOG_VAR,
    InputStatistics,
    Prior,
    bit_cross_entropy,
)
from omg.modules.recurrent import gru_cell, unroll_rows
from omg.modules.told import Expectation, ExpectedPlaces, ExpectedViews, Whose

EMBEDDING = 32
"""Width of the embedded present view."""


class SubgoalMemory(NamedTuple):
    """What the model remembers between two steps."""

    hidden: Array
    """[B, m, W] summary of the history."""
    seen: Array
    """[B, m, O] view of the step before ([B, m, 32], embedded, where it begins with a map); zeros at the start."""


class SubgoalInference(NamedTuple):
    """What the model makes of a sequence."""

    mean: Array
    """[B, T, m, D], of several subgoals one behind the other."""
    log_var: Array
    """The same."""
    embedding: Array
    """[B, T, m, 32], the embedded present view."""
    condition: Array
    """[B, T, m, W], the summary of the history."""
    seen: Array
    """[B, T, m, O], the present view in normalised units."""


class SubgoalModel(OpponentModel):
    """The inference model and the frozen prior whose space its subgoals live in; D below is the width of all."""

    prior: Prior
    embed: Linear
    """[O, 32], the present view; behind its convolutions, if it begins with a map."""
    input_gates: Linear
    """[O + A * U + U, 3W]; rows in the order last view (or its embedding), others' last actions, own last action. For
    the others there are U rows where their actions are counted, and none where they are not read."""
    hidden_gates: Linear
    """[W, 3W]."""
    mean_head: Linear
    """[32 + W, D]."""
    log_var_head: Linear
    """[32 + W, D]."""
    decoder: Linear
    """[D + W, 32] or [D + W, O]."""
    maps: MapEncoder
    """Of the map that views begin with; nothing where they are plain numbers."""
    free_nats: float = eqx.field(static=True)
    """Divergence of a step's subgoal from the selected one that costs nothing."""

    def __init__(self, sizes: ModelSizes, *, key: Array):
        keys = jax.random.split(key, 7)
        hidden, subgoal = sizes.hidden_dim, sizes.feature_dim * sizes.subgoals
        of_others = {"each": sizes.n_agents, "counts": 1, "none": 0}[sizes.actions]
        actions = (of_others + 1) * sizes.n_actions
        self.sizes = sizes
        self.free_nats = sizes.section(InferenceKeys).omg_free_nats if sizes.inference == "cvae" else 0.0
        # What subgoals stand for, and what seats see, are the same unless the prior encodes the others alone.
        encoded, apart = (sizes.seen_dim, None) if sizes.others_dim is None else (sizes.others_dim, sizes.seen_dim)
        self.prior = Prior(encoded, sizes.feature_dim, map_shape=sizes.map_shape, seen_features=apart, key=keys[0])
        self.maps = MapEncoder(sizes.map_shape, SEARCHED_FILTERS, key=jax.random.fold_in(key, 7))
        self.embed = Linear(encoded_dim(sizes.seen_dim, sizes.map_shape, SEARCHED_FILTERS), EMBEDDING, key=keys[1])
        self.input_gates = Linear(self._remembered_dim() + actions, 3 * hidden, key=keys[2])
        self.hidden_gates = Linear(hidden, 3 * hidden, key=keys[3])
        self.mean_head = Linear(EMBEDDING + hidden, subgoal, key=keys[4])
        self.log_var_head = Linear(EMBEDDING + hidden, subgoal, key=keys[5])
        rebuilt = EMBEDDING if sizes.reconstruct == "embedding" else sizes.seen_dim
        self.decoder = Linear(subgoal + hidden, rebuilt, key=keys[6])

    @property
    def feature_dim(self) -> int:
        """Width of all subgoals together."""
        return self.sizes.feature_dim * self.sizes.subgoals

    @property
    def shown_dim(self) -> int:
        """Width of what the agent is shown."""
        decoded = self.sizes.seen_dim if self.sizes.others_dim is None else self.sizes.others_dim
        widths = {"code": self.feature_dim, "view": decoded, "both": self.feature_dim + decoded}
        return widths[self.sizes.subgoal_feature]

    def shown(self, features: Array) -> Array:
        """Subgoals as the agent reads them: [..., D] as they are, the views they stand for, normalised, or both."""
        if self.sizes.subgoal_feature == "code":
            return features
        decoded = jax.lax.stop_gradient(self.prior.decode_normalised(features))
        return decoded if self.sizes.subgoal_feature == "view" else jnp.concatenate([features, decoded], axis=-1)

    @property
    def seen_statistics(self) -> InputStatistics:
        """What the views that it reads are normalised by."""
        return self.prior.statistics if self.prior.seen is None else self.prior.seen

    def with_prior(self, prior: Prior | None) -> SubgoalModel:
        """The same inference model with another prior; None takes it out, so that an optimiser leaves it alone."""
        return eqx.tree_at(lambda model: model.prior, self, prior, is_leaf=lambda leaf: leaf is None)

    def initial(self, batch: int, seats: int) -> SubgoalMemory:
        """Zeros."""
        return SubgoalMemory(
            jnp.zeros((batch, seats, self.sizes.hidden_dim)), jnp.zeros((batch, seats, self._remembered_dim()))
        )

    def infer(
        self, inputs: ModelInputs, memory: SubgoalMemory, key: Array | None
    ) -> tuple[Array, SubgoalMemory, dict[str, Array]]:
        """See `OpponentModel.infer`; stores `infer_mu` and `infer_log_var`, [B, m, D] each."""
        seen, embedding, remembered = self._look(inputs.seen)
        gates = self._gates(memory.seen, inputs)
        hidden = gru_cell(gates, memory.hidden, self.hidden_gates.weight, self.hidden_gates.bias)
        found = self._posterior(seen, embedding, hidden)
        record = {"infer_mu": found.mean, "infer_log_var": found.log_var}
        return self.features(found, key), SubgoalMemory(hidden, remembered), record

    def unroll(self, inputs: ModelInputs) -> SubgoalInference:
        """[B, T, m, O] -> distributions over subgoals [B, T, m, D] and what they were made from."""
        seen, embedding, remembered = self._look(inputs.seen)
        before = jnp.pad(remembered[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
        start = jnp.zeros((*seen.shape[:1], seen.shape[2], self.sizes.hidden_dim))
        condition = unroll_rows(self._gates(before, inputs), start, self.hidden_gates.weight, self.hidden_gates.bias)
        return self._posterior(seen, embedding, condition)

    def features(self, inference: SubgoalInference, key: Array | None) -> Array:
        """Subgoals [B, T, m, D], drawn with a key and means without, detached from the agent's loss."""
        drawn = key is not None and self.sizes.inference == "cvae"
        found = sample(inference.mean, inference.log_var, key) if drawn and key is not None else inference.mean
        return jax.lax.stop_gradient(found)

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """The view that a subgoal stands for, or the places; of several subgoals one for each co-player."""
        if self.sizes.subgoals > 1:
            apart = features.reshape(*features.shape[:-1], self.sizes.subgoals, self.sizes.feature_dim)
            return (ExpectedViews(self.prior.decode(apart), Whose.CO_PLAYERS, round_table=False),)
        decoded = self.prior.decode(features)
        if self.sizes.others_places:
            x, y, _ = jnp.moveaxis(decoded.reshape(*decoded.shape[:-1], -1, 3), -1, 0)
            return (ExpectedPlaces(x, y),)
        whose = Whose.OWN if self.sizes.others_dim is None else Whose.STEPS
        return (ExpectedViews(decoded, whose),)

    def subgoal_loss(
        self,
        inference: SubgoalInference,
        goal_mean: Array,
        goal_log_var: Array,
        mask: Array,
        weight: float,
        key: Array,
        known: Array | None = None,
    ) -> tuple[Array, dict[str, Array]]:
        """What the inference model learns from.

        Args:
            inference: From `unroll`, cut to T steps.
            goal_mean: [B, T, m, D], the prior's encoding of the selected later state.
            goal_log_var: [B, T, m, D].
            mask: [B, T] of zeros and ones.
            weight: Of the divergence.
            key: Of the draw that the decoder gets.
            known: [B, T, J] of zeros and ones, with one seat (m = 1) which of its J subgoals count at each step; None
                for all of those in `mask`.

        Returns:
            `reconstruction + weight * max(KL(inferred || goal), free nats)`, masked means (squared errors are averaged
            over features, the divergence is summed over those of one subgoal; of maps as input the cross-entropy of
            bits stands in place of squared errors), or with `inference: mlp` the mean squared distance to `goal_mean`.
            Metrics: `am_loss`, `am_kl`, `am_reconstruction`, `am_goal_distance` (mean squared distance of
            the inferred mean to the goal's).
        """
        inferred, goal = (inference.mean, inference.log_var), jax.lax.stop_gradient((goal_mean, goal_log_var))
        counted = mask
        if known is not None:
            counted, apart = known, (*known.shape, self.sizes.feature_dim)
            inferred, goal = jax.tree.map(lambda values: values.reshape(apart), (inferred, goal))
        distance = mean_over((inferred[0] - goal[0]) ** 2, counted)
        if self.sizes.inference == "mlp":
            zero = jnp.zeros(())
            return distance, {
                "am_loss": distance,
                "am_kl": zero,
                "am_reconstruction": zero,
                "am_goal_distance": distance,
            }
        drawn = sample(inference.mean, inference.log_var, key)
        rebuilt = self.decoder(jnp.concatenate([drawn, inference.condition], axis=-1))
        if self.sizes.reconstruct == "embedding":
            # An embedding that could move towards its own reconstruction would shrink to nothing.
            error = (rebuilt - jax.lax.stop_gradient(inference.embedding)) ** 2
        elif self.sizes.map_shape is not None:
            error = bit_cross_entropy(rebuilt, inference.seen)
        else:
            error = (rebuilt - inference.seen) ** 2
        reconstruction = mean_over(error, mask)
        divergence = kl_between(*inferred, *goal)
        kl = mean_over(jnp.maximum(divergence, self.free_nats) if self.free_nats else divergence, counted)
        loss = reconstruction + weight * kl
        return loss, {
            "am_loss": loss,
            "am_kl": kl,
            "am_reconstruction": reconstruction,
            "am_goal_distance": distance,
        }

    def _remembered_dim(self) -> int:
        return self.sizes.seen_dim if self.sizes.map_shape is None else EMBEDDING

    def _look(self, seen: Array) -> tuple[Array, Array, Array]:
        """Of views [..., O]: normalised, embedded [..., 32], and what the recurrent unit gets in the next step."""
        if self.sizes.map_shape is not None:
            # Bits need no statistics, so that a model of maps works without its prior.
            embedding = jax.nn.relu(self.embed(self.maps(seen)))
            return seen, embedding, embedding
        if self.prior.seen is None:
            seen = self.prior.normalise(seen)
        else:
            mean, deviation = self.prior.seen.scale()
            seen = (seen - mean) / deviation
        return seen, jax.nn.relu(self.embed(seen)), seen

    def _gates(self, before: Array, inputs: ModelInputs) -> Array:
        """Input projections of the recurrent unit, [..., m, 3W], zeros going in at the first step."""
        parts = [before]
        if self.sizes.actions != "none":
            each = others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions)
            by_seat = each.reshape(*each.shape[:-1], self.sizes.n_agents, self.sizes.n_actions)
            if inputs.concealed is not None:
                by_seat = jnp.where(inputs.concealed[..., None], 0.0, by_seat)
            parts.append(by_seat.reshape(each.shape) if self.sizes.actions == "each" else by_seat.sum(axis=-2))
        parts.append(jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), self.sizes.n_actions))
        return self.input_gates(jnp.concatenate(parts, axis=-1))

    def _posterior(self, seen: Array, embedding: Array, condition: Array) -> SubgoalInference:
        both = jnp.concatenate([embedding, condition], axis=-1)
        mean = self.mean_head(both)
        if self.sizes.residual:
            mean += jax.lax.stop_gradient(self.prior.encode(seen, normalised=True)[0])
        if self.sizes.inference == "mlp":
            log_var = jnp.full_like(mean, LOWEST_LOG_VAR)
        else:
            log_var = jnp.clip(self.log_var_head(both), LOWEST_LOG_VAR, HIGHEST_LOG_VAR)
        return SubgoalInference(mean, log_var, embedding, condition, seen)
