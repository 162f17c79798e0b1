"""`omg_am`: infers from the history which state the others are heading for.

While acting, a conditional variational autoencoder reads the present view and a recurrent summary of what was seen and
done so far, and gives a distribution over subgoals in the space of the frozen prior. It learns by two forces: its
decoder must be able to reconstruct the present from subgoal and history, and the subgoal must be close to what the
prior makes of a state that really came later (which one, a selector decides in hindsight). With `inference: mlp` the
subgoal is a plain regression on that later state instead.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.opponent_models.base import (
    ModelInputs,
    ModelSizes,
    mean_over,
    others_one_hot,
    own_action,
)
from omg.modules.opponent_models.gaussians import LOWEST_LOG_VAR, bounded, kl_between, sample
from omg.modules.opponent_models.prior import Prior
from omg.modules.recurrent import gru_cell, unroll_rows

EMBEDDING = 32
"""Width of the embedded present view."""


class SubgoalMemory(NamedTuple):
    """What the model remembers between two steps."""

    hidden: Array
    """[B, m, H] summary of the history."""
    seen: Array
    """[B, m, O] view of the step before, zeros at the start."""


class SubgoalInference(NamedTuple):
    """What the model makes of a sequence."""

    mean: Array
    """[B, T, m, D]."""
    log_var: Array
    """[B, T, m, D]."""
    embedding: Array
    """[B, T, m, 32], the embedded present view."""
    condition: Array
    """[B, T, m, H], the summary of the history."""
    seen: Array
    """[B, T, m, O], the present view in normalised units."""


class SubgoalModel(eqx.Module):
    """The inference model and the frozen prior whose space its subgoals live in."""

    prior: Prior
    embed: Linear
    """[O, 32], the present view."""
    input_gates: Linear
    """[O + A * U + U, 3H]; rows in the order last view, others' last actions, own last action."""
    hidden_gates: Linear
    """[H, 3H]."""
    mean_head: Linear
    """[32 + H, D]."""
    log_var_head: Linear
    """[32 + H, D]."""
    decoder: Linear
    """[D + H, 32] or [D + H, O]."""
    sizes: ModelSizes = eqx.field(static=True)

    def __init__(self, sizes: ModelSizes, *, key: Array):
        keys = jax.random.split(key, 7)
        hidden, subgoal = sizes.hidden_dim, sizes.feature_dim
        actions = (sizes.n_agents + 1) * sizes.n_actions
        self.sizes = sizes
        self.prior = Prior(sizes.seen_dim, subgoal, key=keys[0])
        self.embed = Linear(sizes.seen_dim, EMBEDDING, key=keys[1])
        self.input_gates = Linear(sizes.seen_dim + actions, 3 * hidden, key=keys[2])
        self.hidden_gates = Linear(hidden, 3 * hidden, key=keys[3])
        self.mean_head = Linear(EMBEDDING + hidden, subgoal, key=keys[4])
        self.log_var_head = Linear(EMBEDDING + hidden, subgoal, key=keys[5])
        rebuilt = EMBEDDING if sizes.reconstruct == "embedding" else sizes.seen_dim
        self.decoder = Linear(subgoal + hidden, rebuilt, key=keys[6])

    @property
    def feature_dim(self) -> int:
        """Width of a subgoal."""
        return self.sizes.feature_dim

    def with_prior(self, prior: Prior | None) -> SubgoalModel:
        """The same inference model with another prior; None takes it out, so that an optimiser leaves it alone."""
        return eqx.tree_at(lambda model: model.prior, self, prior, is_leaf=lambda leaf: leaf is None)

    def initial(self, batch: int, seats: int) -> SubgoalMemory:
        """Zeros."""
        return SubgoalMemory(
            jnp.zeros((batch, seats, self.sizes.hidden_dim)), jnp.zeros((batch, seats, self.sizes.seen_dim))
        )

    def infer(
        self, inputs: ModelInputs, memory: SubgoalMemory, key: Array | None
    ) -> tuple[Array, SubgoalMemory, dict[str, Array]]:
        """See `OpponentModel.infer`; stores `infer_mu` and `infer_log_var`, [B, m, D] each."""
        seen = self.prior.normalise(inputs.seen)
        gates = self._gates(memory.seen, inputs)
        hidden = gru_cell(gates, memory.hidden, self.hidden_gates.weight, self.hidden_gates.bias)
        found = self._posterior(seen, hidden)
        record = {"infer_mu": found.mean, "infer_log_var": found.log_var}
        return self.features(found, key), SubgoalMemory(hidden, seen), record

    def unroll(self, inputs: ModelInputs) -> SubgoalInference:
        """[B, T, m, O] -> distributions over subgoals [B, T, m, D] and what they were made from."""
        seen = self.prior.normalise(inputs.seen)
        before = jnp.pad(seen[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
        start = jnp.zeros((*seen.shape[:1], seen.shape[2], self.sizes.hidden_dim))
        condition = unroll_rows(self._gates(before, inputs), start, self.hidden_gates.weight, self.hidden_gates.bias)
        return self._posterior(seen, condition)

    def features(self, inference: SubgoalInference, key: Array | None) -> Array:
        """Subgoals [B, T, m, D], drawn with a key and means without, detached from the agent's loss."""
        drawn = key is not None and self.sizes.inference == "cvae"
        found = sample(inference.mean, inference.log_var, key) if drawn and key is not None else inference.mean
        return jax.lax.stop_gradient(found)

    def subgoal_loss(
        self, inference: SubgoalInference, goal_mean: Array, goal_log_var: Array, mask: Array, weight: float, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """What the inference model learns from.

        Args:
            inference: From `unroll`, cut to T steps.
            goal_mean: [B, T, m, D], the prior's encoding of the selected later state.
            goal_log_var: [B, T, m, D].
            mask: [B, T] of zeros and ones.
            weight: Of the divergence.
            key: Of the draw that the decoder gets.

        Returns:
            `reconstruction + weight * KL(inferred || goal)`, both masked means (squared errors are averaged over
            features, the divergence is summed over them), or with `inference: mlp` the mean squared distance to
            `goal_mean`. Metrics: `am_loss`, `am_kl`, `am_reconstruction`, `am_goal_distance` (mean squared distance of
            the inferred mean to the goal's).
        """
        goal_mean, goal_log_var = jax.lax.stop_gradient((goal_mean, goal_log_var))
        distance = mean_over((inference.mean - goal_mean) ** 2, mask)
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
        # An embedding that could move towards its own reconstruction would shrink to nothing.
        target = jax.lax.stop_gradient(inference.embedding) if self.sizes.reconstruct == "embedding" else inference.seen
        reconstruction = mean_over((rebuilt - target) ** 2, mask)
        kl = mean_over(kl_between(inference.mean, inference.log_var, goal_mean, goal_log_var), mask)
        loss = reconstruction + weight * kl
        return loss, {
            "am_loss": loss,
            "am_kl": kl,
            "am_reconstruction": reconstruction,
            "am_goal_distance": distance,
        }

    def _gates(self, before: Array, inputs: ModelInputs) -> Array:
        """Input projections of the recurrent unit, [..., m, 3H], zeros going in at the first step."""
        others = others_one_hot(inputs.last_actions, inputs.seats, self.sizes.n_actions)
        own = jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), self.sizes.n_actions)
        return self.input_gates(jnp.concatenate([before, others, own], axis=-1))

    def _posterior(self, seen: Array, condition: Array) -> SubgoalInference:
        embedding = jax.nn.relu(self.embed(seen))
        both = jnp.concatenate([embedding, condition], axis=-1)
        mean = self.mean_head(both)
        if self.sizes.inference == "mlp":
            log_var = jnp.full_like(mean, LOWEST_LOG_VAR)
        else:
            log_var = bounded(self.log_var_head(both))
        return SubgoalInference(mean, log_var, embedding, condition, seen)
