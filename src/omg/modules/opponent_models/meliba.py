"""`meliba_am`: MeLIBA, a belief about the others that is learned with a hierarchical variational autoencoder.

After L. Zintgraf, S. Devlin, K. Ciosek, S. Whiteson, K. Hofmann: Deep Interactive Bayesian Reinforcement Learning via
Meta-Learning, 2021. Two latents stand for the others: a permanent one m, what they are, which does not change within an
episode, and a temporal one m_t, what they have in mind at step t. A recurrent encoder reads the history tau_t of one
seat (what it saw, what it and the others did) and gives a belief about both at every step:

    q(m | tau_t) = N(mu_t, sigma_t^2)        q(m_t | tau_t, m) = N(nu_t(m), rho_t(m)^2)

The agent reads the belief, not a draw from it: (mu_t, log sigma_t^2, nu_t(mu_t), log rho_t(mu_t)^2).

The decoder says what the others will do at every step k >= t to come, from what the seat sees at k and the latents of
step t. For each step the evidence lower bound is raised, with m ~ q(m | tau_t), m_t ~ q(m_t | tau_t, m):

    ELBO_t = mean over k >= t of log p(others' actions at k | view at k, m, m_t)
             - w ( KL[ q(m | tau_t) || q(m | tau_{t-1}) ] + KL[ q(m_t | tau_t, m) || q(m_{t-1} | tau_{t-1}, m) ] )

The belief before the first step is the standard normal; later ones are measured against the belief of the step before,
so a belief that does not change costs nothing. w is `meliba_kl_weight`. `meliba_horizon` bounds k - t.

Letters in shapes: B episodes, T steps, H steps ahead, m seats that have a model, A seats of the game, O what a seat
sees, U actions, F features, W width of the recurrent state, D width of a latent; the permanent and the temporal one may
have different ones.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.opponent_models.base import (
    ActionTargets,
    ModelInputs,
    ModelSizes,
    SupervisedModel,
    kl_between,
    mean_over,
    others_of,
    others_one_hot,
    own_action,
    sample,
)
from omg.modules.opponent_models.keys import MeLIBAKeys
from omg.modules.opponent_models.normalising import counting, normalised, statistics_for
from omg.modules.opponent_models.prior import InputStatistics
from omg.modules.recurrent import gru_cell, unroll_rows

LARGEST_LOG_VARIANCE = 6.0


class Gaussian(NamedTuple):
    """Independent normal distributions."""

    mean: Array
    """[..., D]."""
    log_variance: Array
    """[..., D]."""

    def draw(self, key: Array) -> Array:
        """One draw of each, [..., D], through which gradients pass."""
        return sample(*self, key)

    def divergence(self, other: Gaussian) -> Array:
        """KL[self || other], summed over the last axis: [...]."""
        return kl_between(*self, *other)

    def before(self) -> Gaussian:
        """Along time, [B, T, ...]: the distribution of the step before; the standard normal before the first."""
        return Gaussian(*(jnp.concatenate([jnp.zeros_like(each[:, :1]), each[:, :-1]], axis=1) for each in self))


class Belief(NamedTuple):
    """What the encoder makes of a history."""

    history: Array
    """[..., m, W], the recurrent state."""
    permanent: Gaussian
    """[..., m, D], what the others are."""
    temporal: Gaussian
    """[..., m, D], what they have in mind if they are what is most likely."""
    seen: Array
    """[..., m, O], the present view as the model reads it; the decoder reads those of later steps."""


class MeLIBAModel(SupervisedModel):
    """Encoder, the two beliefs, and the decoder, which only learning uses."""

    embed: Linear
    """[O + A * U + U, W]; rows in the order seen, the others' last actions, the own last action."""
    input_gates: Linear
    """[W, 3W]."""
    hidden_gates: Linear
    """[W, 3W]."""
    permanent_head: Linear
    """[W, 2D], mean and logarithm of the variance."""
    temporal_layer: Linear
    """[W + D, W]."""
    temporal_head: Linear
    """[W, 2D]."""
    decode_seen: Linear
    """[O, W]."""
    decode_latents: Linear
    """[D + D, W]."""
    decode_layer: Linear
    """[W, W]."""
    decode_actions: Linear
    """[W, (A - 1) * U]."""
    seen_statistics: InputStatistics | None
    """Of what the own seat sees, with `am_normalise`; None: it is read as it is."""

    targets = ActionTargets

    def __init__(self, sizes: ModelSizes, *, key: Array):
        keys = iter(jax.random.split(key, 10))
        settings = sizes.section(MeLIBAKeys)
        width, others, actions = sizes.hidden_dim, sizes.n_agents - 1, sizes.n_actions
        permanent, temporal = settings.meliba_latent_dim, settings.meliba_temporal_dim
        self.sizes = sizes
        self.embed = Linear(sizes.seen_dim + (sizes.n_agents + 1) * actions, width, key=next(keys))
        self.input_gates = Linear(width, 3 * width, key=next(keys))
        self.hidden_gates = Linear(width, 3 * width, key=next(keys))
        self.permanent_head = Linear(width, 2 * permanent, key=next(keys))
        self.temporal_layer = Linear(width + permanent, width, key=next(keys))
        self.temporal_head = Linear(width, 2 * temporal, key=next(keys))
        self.decode_seen = Linear(sizes.seen_dim, width, key=next(keys))
        self.decode_latents = Linear(permanent + temporal, width, key=next(keys))
        self.decode_layer = Linear(width, width, key=next(keys))
        self.decode_actions = Linear(width, others * actions, key=next(keys))
        self.seen_statistics = statistics_for(sizes, sizes.seen_dim)

    @property
    def feature_dim(self) -> int:
        """The parameters of both beliefs: twice the widths of both latents."""
        settings = self.sizes.section(MeLIBAKeys)
        return 2 * (settings.meliba_latent_dim + settings.meliba_temporal_dim)

    def initial(self, batch: int, seats: int) -> Array:
        """Zeros, [B, m, W]."""
        return jnp.zeros((batch, seats, self.sizes.hidden_dim))

    def infer(self, inputs: ModelInputs, memory: Array, key: Array | None) -> tuple[Array, Array, dict[str, Array]]:
        """See `OpponentModel.infer`; nothing is drawn and nothing stored."""
        seen = normalised(inputs.seen, self.seen_statistics)
        memory = gru_cell(self._gates(inputs, seen), memory, self.hidden_gates.weight, self.hidden_gates.bias)
        return self.features(self._believe(memory, seen), None), memory, {}

    def unroll(self, inputs: ModelInputs) -> Belief:
        """[B, T, m, O] -> the beliefs of all steps, [B, T, m, ...]."""
        start = self.initial(inputs.seen.shape[0], inputs.seen.shape[2])
        seen = normalised(inputs.seen, self.seen_statistics)
        history = unroll_rows(self._gates(inputs, seen), start, self.hidden_gates.weight, self.hidden_gates.bias)
        return self._believe(history, seen)

    def features(self, inference: Belief, key: Array | None) -> Array:
        """The parameters of both beliefs, [..., m, F], detached."""
        return jax.lax.stop_gradient(jnp.concatenate([*inference.permanent, *inference.temporal], axis=-1))

    def counting(self, inputs: ModelInputs, targets: ActionTargets, viewed: Array, mask: Array) -> Self:
        """See `SupervisedModel.counting`: what the own seats saw."""
        seen = counting(self.seen_statistics, inputs.seen, viewed)
        return self if seen is None else eqx.tree_at(lambda model: model.seen_statistics, self, seen)

    def loss(
        self, inference: Belief, targets: ActionTargets, mask: Array, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """The ELBO's negative, as a mean over played steps and seats; see the head of this file.

        Metrics: `am_loss`, `am_action_loss` (the first term, with its sign turned), `am_kl_permanent`,
        `am_kl_temporal`, `am_action_accuracy` (share of the others' actions to come that were thought most likely) and
        `am_now_accuracy` (the same of the actions at t alone).
        """
        permanent_key, temporal_key = jax.random.split(key)
        permanent = inference.permanent
        kind = permanent.draw(permanent_key)
        now, before = self._temporal(inference.history, kind), self._temporal_before(inference.history, kind)
        mind = now.draw(temporal_key)
        log_probability, correct, counted = self._decode(inference.seen, kind, mind, targets, mask)
        action_loss = -_mean_ahead(log_probability, counted, mask)
        kl_permanent = mean_over(permanent.divergence(permanent.before()), mask)
        kl_temporal = mean_over(now.divergence(before), mask)
        loss = action_loss + self.sizes.section(MeLIBAKeys).meliba_kl_weight * (kl_permanent + kl_temporal)
        return loss, {
            "am_loss": loss,
            "am_action_loss": action_loss,
            "am_kl_permanent": kl_permanent,
            "am_kl_temporal": kl_temporal,
            "am_action_accuracy": _mean_ahead(correct, counted, mask),
            "am_now_accuracy": mean_over(correct[:, :, 0], mask),
        }

    def _gates(self, inputs: ModelInputs, seen: Array) -> Array:
        """Input projections of the recurrent unit, [..., m, 3W]; `seen` as the model reads it."""
        actions = self.sizes.n_actions
        others = others_one_hot(inputs.last_actions, inputs.seats, actions)
        own = jax.nn.one_hot(own_action(inputs.last_actions, inputs.seats), actions)
        return self.input_gates(jax.nn.relu(self.embed(jnp.concatenate([seen, others, own], axis=-1))))

    def _believe(self, history: Array, seen: Array) -> Belief:
        permanent = _gaussian(self.permanent_head(history))
        return Belief(history, permanent, self._temporal(history, permanent.mean), seen)

    def _temporal(self, history: Array, kind: Array) -> Gaussian:
        """q(m_t | tau_t, m): histories [..., W] and values of m [..., D] -> [..., D]."""
        hidden = jax.nn.relu(self.temporal_layer(jnp.concatenate([history, kind], axis=-1)))
        return _gaussian(self.temporal_head(hidden))

    def _temporal_before(self, history: Array, kind: Array) -> Gaussian:
        """q(m_{t-1} | tau_{t-1}, m) with the m [B, T, m, D] of step t; the standard normal before the first step."""
        shifted = self._temporal(history[:, :-1], kind[:, 1:])
        return Gaussian(*(jnp.concatenate([jnp.zeros_like(each[:, :1]), each], axis=1) for each in shifted))

    def _decode(
        self, seen: Array, kind: Array, mind: Array, targets: ActionTargets, mask: Array
    ) -> tuple[Array, Array, Array]:
        """What the latents of each step say about the actions of the H steps from it on.

        Args:
            seen: [B, T, m, O].
            kind: [B, T, m, D] values of m.
            mind: [B, T, m, D] values of m_t.
            targets: What the others did.
            mask: [B, T].

        Returns:
            Log-probabilities of what the others did and whether it was thought most likely, both means over the others,
            [B, T, H, m], and which pairs of steps count, [B, T, H].
        """
        steps, others = mask.shape[1], self.sizes.n_agents - 1
        horizon = min(self.sizes.section(MeLIBAKeys).meliba_horizon or steps, steps)
        ahead = jnp.arange(steps)[:, None] + jnp.arange(horizon)
        place = jnp.minimum(ahead, steps - 1)
        counted = mask[:, :, None] * mask[:, place] * (ahead < steps)
        latents = self.decode_latents(jnp.concatenate([kind, mind], axis=-1))
        hidden = jax.nn.relu(self.decode_seen(seen)[:, place] + latents[:, :, None])
        hidden = jax.nn.relu(self.decode_layer(hidden))
        logits = self.decode_actions(hidden).reshape(*hidden.shape[:-1], others, self.sizes.n_actions)
        actions = others_of(targets.actions, targets.seats)[:, place]
        taken = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], axis=-1)[..., 0]
        correct = (logits.argmax(axis=-1) == actions).astype(jnp.float32)
        return taken.mean(axis=-1), correct.mean(axis=-1), counted


def _gaussian(parameters: Array) -> Gaussian:
    """[..., 2D] -> means and logarithms of variances, which stay within bounds that float32 can bear."""
    mean, raw = jnp.split(parameters, 2, axis=-1)
    return Gaussian(mean, LARGEST_LOG_VARIANCE * jnp.tanh(raw / LARGEST_LOG_VARIANCE))


def _mean_ahead(values: Array, counted: Array, mask: Array) -> Array:
    """Mean over the steps ahead that count [B, T, H], then over played steps [B, T] and seats: [B, T, H, m] -> []."""
    weights = counted / jnp.maximum(counted.sum(axis=2, keepdims=True), 1.0)
    return mean_over((values * weights[..., None]).sum(axis=2), mask)
