"""`influence_learner`: PPO that is also paid for influence on the others (social influence, Jaques et al., 2019).

Every seat i that learns has a model of the others: p(a'_j | s, a_i, a_-i), what co-player j will do in the next step
after the view s and the joint action. How much the own action moved that prediction is its influence,

    c_t = sum over j of KL( p(. | s_t, a_t) || sum over u of pi(u | s_t) p(. | s_t, a_t with u in place of a_i) )

where pi is the policy that acted and the others' actions stay as they were. PPO then learns from
r_t + influence_weight c_t. Co-players who have no choice in the next step (they have left the game, or it is over)
are left out of c_t and of the model's loss, which is the cross-entropy on what the others really did next.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, U actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, loss_mask, masked_mean
from omg.controllers.draw import TeamDraw
from omg.controllers.reading import SeatViews
from omg.learners.optimisers import clip_by_norm
from omg.learners.ppo import PPOLearner, PPOState
from omg.modules.critics.base import CriticSizes
from omg.modules.critics.inputs import SeatNetworks
from omg.modules.opponent_models.base import others_of

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class Influencer(NamedTuple):
    """What is learned besides the policy and its critic."""

    model: SeatNetworks
    """Logits of the next actions of all others, (A-1) * U numbers."""
    opt_state: optax.OptState


class Facts(NamedTuple):
    """What the models of the others learn from. Every array has the episodes as its first axis."""

    seen: Array
    """[B, T, m or 1, O]."""
    own: Array
    """[B, T, m, U], the own action as one-hot."""
    others: Array
    """[B, T, m, (A-1) * U], the others' actions as one-hot, in the order in which they follow round the table."""
    following: Array
    """[B, T, m, A-1] integers, what the others did next."""
    counts: Array
    """[B, T, m, A-1] of ones where another had a choice in the next step, else zeros."""
    seats: Array | None
    """[B, 1, m] integers, None for all in their order."""


class InfluenceLearner(PPOLearner):
    """PPO with an intrinsic reward for influence, in all seats or in those that a team leaves to it."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        # The legal actions of the others tell who of them is still in the game.
        self.kept = self.kept._replace(columns=None, packs=False)
        self.others_optimiser = optax.adam(config.am_lr)

    def init(self, key: Array) -> PPOState:
        """New networks."""
        state, spec, config = super().init(key), self.spec, self.config
        seen = spec.state_dim if config.obs_is_state else spec.obs_dim
        others = (spec.n_agents - 1) * spec.n_actions
        model = SeatNetworks(
            CriticSizes(
                (seen, spec.n_actions, others),
                config.critic_hidden_dim,
                config.mlp_second_dim,
                map_shape=spec.map_shape,
            ),
            others,
            n_agents=spec.n_agents if config.agent_part.individual else None,
            key=jax.random.fold_in(key, _MODEL_STREAM),
        )
        return state._replace(extra=Influencer(model, self.others_optimiser.init(model)))

    def _paid(
        self, state: PPOState, batch: EpisodeBatch, views: SeatViews, log_pi: Array, key: Array
    ) -> tuple[Array, Influencer, dict[str, Array]]:
        """See `PPOLearner._paid`.

        Metrics: `influence_mean`, the mean of c_t over played steps and seats; `moa_loss` and `moa_accuracy`,
        cross-entropy and share of right predictions of the models of the others, means over their gradient steps.
        """
        facts = self.facts(batch, views)
        influence = lax.stop_gradient(self.influence(state.extra.model, facts, log_pi))
        model, metrics = self._learn_others(state.extra, facts, key)
        reward = self._seat_reward(batch, views) + self.config.influence_weight * influence
        return reward, model, metrics | {"influence_mean": masked_mean(influence, loss_mask(batch))}

    def facts(self, batch: EpisodeBatch, views: SeatViews) -> Facts:
        """What happened, as the models of the others read it."""
        episodes, n_actions = batch.actions.shape[0], self.spec.n_actions
        seats = jnp.broadcast_to(views.model_inputs().seats[:, 0], (episodes, self.seats))
        own = views.own(batch.actions)[:, :-1]
        others = jax.nn.one_hot(others_of(batch.actions[:, :-1], seats), n_actions)
        choice = batch.avail[:, 1:].sum(axis=-1) > 1
        played_next = jnp.pad(loss_mask(batch)[:, 1:], ((0, 0), (0, 1)))
        return Facts(
            seen=views.seen[:, :-1],
            own=jax.nn.one_hot(own, n_actions),
            others=others.reshape(*others.shape[:-2], -1),
            following=others_of(batch.actions[:, 1:], seats),
            counts=others_of(choice.astype(jnp.float32), seats) * played_next[..., None, None],
            seats=views.seats,
        )

    def influence(self, model: SeatNetworks, facts: Facts, log_pi: Array) -> Array:
        """c_t of every step and seat.

        Args:
            model: Of the others.
            facts: What happened.
            log_pi: [B, T, m, U], logarithms of the probabilities of the own actions.

        Returns:
            [B, T, m].
        """
        # Every own action in place of the one that was taken, on an axis of its own: [B, T, U, m, ...].
        instead = jnp.eye(self.spec.n_actions)[:, None]
        inputs = (facts.seen[:, :, None], instead, facts.others[:, :, None])
        logits = model(inputs, None if facts.seats is None else facts.seats[:, :, None])
        log_p = jax.nn.log_softmax(self._by_other(logits))
        return influence_of(jnp.moveaxis(log_p, 2, 3), jnp.exp(log_pi), facts.own, facts.counts)

    def _by_other(self, logits: Array) -> Array:
        """[..., (A-1) * U] -> [..., A-1, U]."""
        return logits.reshape(*logits.shape[:-1], self.spec.n_agents - 1, self.spec.n_actions)

    def _learn_others(self, extra: Influencer, facts: Facts, key: Array) -> tuple[Influencer, dict[str, Array]]:
        """As many steps on the round as the policy makes."""

        def loss(model: SeatNetworks, part: Facts) -> tuple[Array, Array]:
            log_p = jax.nn.log_softmax(self._by_other(model((part.seen, part.own, part.others), part.seats)))
            taken = jnp.take_along_axis(log_p, part.following[..., None], axis=-1)[..., 0]
            right = jnp.argmax(log_p, axis=-1) == part.following
            number = jnp.maximum(part.counts.sum(), 1.0)
            return -(taken * part.counts).sum() / number, (right * part.counts).sum() / number

        def step(carry: Influencer, chosen: Array) -> tuple[Influencer, tuple[Array, Array]]:
            part = facts if self.config.ppo_minibatches == 1 else jax.tree.map(lambda values: values[chosen], facts)
            (value, accuracy), gradients = jax.value_and_grad(loss, has_aux=True)(carry.model, part)
            gradients, _ = clip_by_norm(gradients, self.config.grad_norm_clip)
            moves, opt_state = self.others_optimiser.update(gradients, carry.opt_state)
            return Influencer(optax.apply_updates(carry.model, moves), opt_state), (value, accuracy)

        order = self._order(key, facts.own.shape[0])
        learned, (losses, accuracies) = lax.scan(step, extra, order)
        return learned, {"moa_loss": losses.mean(), "moa_accuracy": accuracies.mean()}


_MODEL_STREAM = 0x50C1


def influence_of(log_p: Array, pi: Array, own: Array, counts: Array) -> Array:
    """How far an action moved what the others are expected to do, away from what they would do on average over it.

    Args:
        log_p: [..., U, A-1, U'], logarithms of the probabilities of each other's U' actions after each own action.
        pi: [..., U], probabilities that the own action was drawn with.
        own: [..., U], the own action as one-hot.
        counts: [..., A-1], weight of each other: 0 leaves it out.

    Returns:
        [...], the sum over the others of the Kullback-Leibler divergence.
    """
    marginal = jnp.log(jnp.einsum("...u,...uav->...av", pi, jnp.exp(log_p)) + 1e-12)
    given = jnp.einsum("...u,...uav->...av", own, log_p)
    divergence = (jnp.exp(given) * (given - marginal)).sum(axis=-1)
    return (divergence * counts).sum(axis=-1)
