"""`pr2_learner`: probabilistic recursive reasoning (PR2, Wen et al., 2019) for discrete actions.

"What will the others do if I do this?" Player i learns three things from replayed episodes, alpha = pr2_temperature:

    Q(s, a_i, a_-i)        what a joint action is worth to it
    rho(a_-i | s, a_i)     what the others would answer, a product over co-players j of rho_j(a_j | s, a_i)
    pi(a_i | s)            its policy, the only part that acts

    soft(s, a_i) = E over a_-i ~ rho of Q(s, a_i, a_-i)  +  alpha sum over j of H(rho_j(. | s, a_i))
    V(s)         = sum over a_i of pi(a_i | s) (soft(s, a_i) - alpha log pi(a_i | s))

    loss of Q    = mean of (Q(s_t, a_t) - r_t - gamma (1 - terminated_t) V'(s_{t+1}))^2,     V' with the target's Q
    loss of rho  = mean of KL( rho(. | s_t, a_i,t) || exp(Q(s_t, a_i,t, .) / alpha) / Z ) * alpha, up to a constant
    loss of pi   = - mean of V(s_t), with soft held fixed

The expectation in soft is the mean of `pr2_samples` draws for every own action. The gradient of the divergence is that
of one co-player after the other: the sum over its actions is exact, the rest of a_-i is drawn. Nobody is expected to
do what is not legal.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, K draws, U actions.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, loss_mask, masked_mean
from omg.components.selectors import ILLEGAL_LOG_PROBABILITY, multinomial_log_probabilities
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.controllers.reading import SeatViews
from omg.learners.optimisers import build_optimiser, clip_by_norm, target_is_due
from omg.learners.seats import SeatLearner
from omg.modules.agents.base import AgentNetwork
from omg.modules.critics.base import CriticSizes
from omg.modules.critics.inputs import SeatNetworks
from omg.modules.opponent_models.base import others_of

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class PR2State(NamedTuple):
    """Everything that learning changes."""

    mac: BasicMAC
    """The policy pi."""
    q: SeatNetworks
    """From [view | others' actions] to the value of each own action."""
    target_q: SeatNetworks
    others: SeatNetworks
    """rho: from [view | own action] to the logits of the others' actions, (A-1) * U numbers."""
    opt_state: optax.OptState
    q_opt_state: optax.OptState
    others_opt_state: optax.OptState
    last_target_episode: Array
    """int32 scalar, number of episodes at the last copy to the target network."""
    updates: Array
    """int32 scalar, gradient updates so far."""


class Sight(NamedTuple):
    """What the networks read at T+1 slots. The others stand in the order in which they follow round the table."""

    seen: Array
    """[B, T+1, m or 1, O]."""
    seats: Array | None
    """[B, 1, m] integers, None for all in their order."""
    own_legal: Array
    """[B, T+1, m, U] bool."""
    others_legal: Array
    """[B, T+1, m, A-1, U] bool."""
    own: Array
    """[B, T+1, m] integers, what was done."""
    others: Array
    """[B, T+1, m, A-1] integers."""


class PR2Learner(SeatLearner[PR2State]):
    """PR2 in all seats or in those that a team leaves to it."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        self.optimiser = build_optimiser(config)
        self.q_optimiser = build_optimiser(config, config.critic_lr)
        self.others_optimiser = optax.adam(config.am_lr)
        # What is legal for the others is read along.
        self.kept = self.kept._replace(columns=None)

    def init(self, key: Array) -> PR2State:
        """New networks; the target network starts as a copy of the online one."""
        mac_key, q_key, others_key = jax.random.split(key, 3)
        mac = build_mac(self.config, self.spec, mac_key, self.partners)
        width = (self.spec.n_agents - 1) * self.spec.n_actions
        q = self._networks(width, self.spec.n_actions, q_key)
        others = self._networks(self.spec.n_actions, width, others_key)
        return PR2State(
            mac=mac,
            q=q,
            target_q=q,
            others=others,
            opt_state=self.optimiser.init(mac.agent),
            q_opt_state=self.q_optimiser.init(q),
            others_opt_state=self.others_optimiser.init(others),
            last_target_episode=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def _networks(self, actions: int, outputs: int, key: Array) -> SeatNetworks:
        """Networks over a view and some actions, one for every seat where the agents have one each."""
        config, spec = self.config, self.spec
        seen = spec.state_dim if config.obs_is_state else spec.obs_dim
        sizes = CriticSizes((seen, actions), config.critic_hidden_dim, config.mlp_second_dim, map_shape=spec.map_shape)
        return SeatNetworks(sizes, outputs, n_agents=spec.n_agents if config.agent_part.individual else None, key=key)

    def update(
        self, state: PR2State, batch: EpisodeBatch, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[PR2State, dict[str, Array]]:
        """One gradient step of each network, and a copy to the target network when it is due.

        Args:
            state: From `init` or the update before.
            batch: Sampled episodes.
            episode: Scalar integer, episodes collected so far; see `target_update_interval`.
            t_env: Not used.
            key: Of the others' actions that are drawn from rho.

        Returns:
            The new state and the metrics, with m the loss mask repeated over the seats:

            - `loss`: sum(m (Q(s, a) - y)^2) / sum(m), y the targets
            - `td_error_abs`, `q_taken_mean`, `target_mean`: the same means of |Q - y|, Q and y
            - `policy_loss`: - sum(m sum_u pi(u) (soft(u) - alpha log pi(u))) / sum(m)
            - `entropy`: sum(m H(pi)) / sum(m)
            - `rho_loss`: sum(m sum_j sum_u rho_j(u) (alpha log rho_j(u) - Q(s, a_i, u, others drawn))) / sum(m)
            - `rho_entropy`: the mean of H(rho_j) after the own action that was taken, over steps, seats and others
            - `rho_accuracy`: share of steps, seats and others where rho's likeliest action is what j did
            - `grad_norm`, `policy_grad_norm`, `rho_grad_norm`: norms of the gradients of Q, pi and rho before clipping
        """
        config, mask = self.config, loss_mask(batch)
        target_key, policy_key, others_key = jax.random.split(key, 3)
        views = state.mac.reading.episodes(batch, self.main_seats(batch))
        sight = self.sight(batch, views)
        reward, goes_on = self._seat_reward(batch, views), 1.0 - batch.terminated[:, :-1].astype(jnp.float32)
        log_pi = self._log_policy(state.mac.agent, state.mac, views, sight)
        ahead = self.soft_values(state.target_q, state.others, sight, target_key)
        following = policy_value(log_pi, ahead, config.pr2_temperature)[:, 1:]
        targets = lax.stop_gradient(reward + config.gamma * goes_on[..., None] * following)
        soft = lax.stop_gradient(self.soft_values(state.q, state.others, sight, policy_key))

        (_, q_metrics), q_slope = jax.value_and_grad(self._q_loss, has_aux=True)(state.q, sight, targets, mask)
        (_, rho_metrics), rho_slope = jax.value_and_grad(self._others_loss, has_aux=True)(
            state.others, state.q, sight, mask, others_key
        )
        (_, metrics), slope = jax.value_and_grad(self._policy_loss, has_aux=True)(
            state.mac.agent, state.mac, views, sight, soft, mask
        )
        slope, norm = clip_by_norm(slope, config.grad_norm_clip)
        q_slope, q_norm = clip_by_norm(q_slope, config.grad_norm_clip)
        rho_slope, rho_norm = clip_by_norm(rho_slope, config.grad_norm_clip)
        moves, opt_state = self.optimiser.update(slope, state.opt_state)
        q_moves, q_opt_state = self.q_optimiser.update(q_slope, state.q_opt_state)
        rho_moves, others_opt_state = self.others_optimiser.update(rho_slope, state.others_opt_state)
        agent, q, others = optax.apply_updates((state.mac.agent, state.q, state.others), (moves, q_moves, rho_moves))

        interval = config.target_update_interval
        due = target_is_due(episode, state.last_target_episode, interval)
        new_state = PR2State(
            mac=dataclasses.replace(state.mac, agent=agent),
            q=q,
            target_q=jax.tree.map(lambda new, old: jnp.where(due, new, old), q, state.target_q),
            others=others,
            opt_state=opt_state,
            q_opt_state=q_opt_state,
            others_opt_state=others_opt_state,
            last_target_episode=jnp.where(due, episode, state.last_target_episode).astype(jnp.int32),
            updates=state.updates + 1,
        )
        norms = {"grad_norm": q_norm, "policy_grad_norm": norm, "rho_grad_norm": rho_norm}
        return new_state, q_metrics | rho_metrics | metrics | norms

    def sight(self, batch: EpisodeBatch, views: SeatViews) -> Sight:
        """What happened, as the networks read it."""
        seats = jnp.broadcast_to(views.model_inputs().seats[:, 0], (batch.actions.shape[0], self.seats))
        return Sight(
            seen=views.seen,
            seats=views.seats,
            own_legal=views.own(batch.avail),
            others_legal=others_of(batch.avail, seats),
            own=views.own(batch.actions),
            others=others_of(batch.actions, seats),
        )

    def log_rho(self, others: SeatNetworks, sight: Sight, own: Array) -> Array:
        """Logarithms of what each other is expected to do.

        Args:
            others: rho.
            sight: Of T+1 slots.
            own: [B or 1, T+1 or 1, K, m or 1, U], own actions to ask for, as one-hot.

        Returns:
            [B, T+1, K, m, A-1, U].
        """
        logits = others((sight.seen[:, :, None], own), _wider(sight.seats))
        logits = logits.reshape(*logits.shape[:-1], self.spec.n_agents - 1, self.spec.n_actions)
        return jax.nn.log_softmax(jnp.where(sight.others_legal[:, :, None], logits, ILLEGAL_LOG_PROBABILITY))

    def joint_values(self, q: SeatNetworks, sight: Sight, others: Array) -> Array:
        """Q of every own action beside actions of the others: [B, T+1, K, m, A-1] integers -> [B, T+1, K, m, U]."""
        given = jax.nn.one_hot(others, self.spec.n_actions).reshape(*others.shape[:-1], -1)
        return q((sight.seen[:, :, None], given), _wider(sight.seats))

    def soft_values(self, q: SeatNetworks, others: SeatNetworks, sight: Sight, key: Array) -> Array:
        """soft(s, a_i) of every slot and own action, [B, T+1, m, U]."""
        n_actions, samples = self.spec.n_actions, self.config.pr2_samples
        log_rho = self.log_rho(others, sight, jnp.eye(n_actions)[None, None, :, None])
        drawn = draw_answers(key, log_rho, samples)  # [B, T+1, U * K, m, A-1]
        values = self.joint_values(q, sight, drawn)
        values = values.reshape(*values.shape[:2], n_actions, samples, *values.shape[3:])
        # The answers to an own action belong to the value of that action alone.
        expected = jnp.einsum("btukmu->btmu", values) / samples
        entropy = entropy_of(log_rho, sight.others_legal[:, :, None]).sum(axis=-1)
        return expected + self.config.pr2_temperature * jnp.moveaxis(entropy, 2, 3)

    def _log_policy(self, agent: AgentNetwork, mac: BasicMAC, views: SeatViews, sight: Sight) -> Array:
        """[B, T+1, m, U], without the floor that play may have."""
        logits, _ = views.run(agent, mac.reading.features(None, views, None))
        return multinomial_log_probabilities(logits, sight.own_legal, 0.0)

    def _q_loss(self, q: SeatNetworks, sight: Sight, targets: Array, mask: Array) -> tuple[Array, dict[str, Array]]:
        values = self.joint_values(q, sight, sight.others[:, :, None])[:, :-1, 0]
        taken = jnp.take_along_axis(values, sight.own[:, :-1, :, None], axis=-1)[..., 0]
        error = taken - targets
        loss = masked_mean(error**2, mask)
        return loss, {
            "loss": loss,
            "td_error_abs": masked_mean(jnp.abs(error), mask),
            "q_taken_mean": masked_mean(taken, mask),
            "target_mean": masked_mean(jnp.broadcast_to(targets, taken.shape), mask),
        }

    def _others_loss(
        self, others: SeatNetworks, q: SeatNetworks, sight: Sight, mask: Array, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        n_others, n_actions = self.spec.n_agents - 1, self.spec.n_actions
        own = jax.nn.one_hot(sight.own, n_actions)
        log_rho = self.log_rho(others, sight, own[:, :, None])[:, :, 0]  # [B, T+1, m, A-1, U]
        drawn = draw_answers(key, lax.stop_gradient(log_rho)[:, :, None], 1)[:, :, 0]  # [B, T+1, m, A-1]
        # Each other's actions one by one in place of the drawn one: [B, T+1, (A-1) * U, m, A-1].
        varied = jnp.where(
            jnp.eye(n_others, dtype=bool)[:, None, None], jnp.arange(n_actions)[:, None, None], drawn[:, :, None, None]
        ).reshape(*drawn.shape[:2], n_others * n_actions, *drawn.shape[2:])
        worth = self.joint_values(q, sight, varied)
        worth = jnp.take_along_axis(worth, sight.own[:, :, None, :, None], axis=-1)[..., 0]
        worth = jnp.moveaxis(worth.reshape(*drawn.shape[:2], n_others, n_actions, -1), -1, 2)
        legal = sight.others_legal
        rho = jnp.exp(log_rho)
        gained = rho * (self.config.pr2_temperature * jnp.where(legal, log_rho, 0.0) - lax.stop_gradient(worth))
        loss = masked_mean(gained.sum(axis=(-1, -2))[:, :-1], mask)
        right = (jnp.argmax(log_rho, axis=-1) == sight.others).astype(jnp.float32)
        return loss, {
            "rho_loss": loss,
            "rho_entropy": masked_mean(entropy_of(log_rho, legal)[:, :-1], mask),
            "rho_accuracy": masked_mean(right[:, :-1], mask),
        }

    def _policy_loss(
        self, agent: AgentNetwork, mac: BasicMAC, views: SeatViews, sight: Sight, soft: Array, mask: Array
    ) -> tuple[Array, dict[str, Array]]:
        log_pi = self._log_policy(agent, mac, views, sight)
        loss = -masked_mean(policy_value(log_pi, soft, self.config.pr2_temperature)[:, :-1], mask)
        entropy = masked_mean(entropy_of(log_pi, sight.own_legal)[:, :-1], mask)
        return loss, {"policy_loss": loss, "entropy": entropy}


def policy_value(log_pi: Array, soft: Array, temperature: float) -> Array:
    """What a policy is worth with its entropy counted in: [..., U] and [..., U] -> [...]."""
    pi = jnp.exp(log_pi)
    return (pi * (soft - temperature * jnp.where(pi > 0, log_pi, 0.0))).sum(axis=-1)


def entropy_of(log_p: Array, legal: Array) -> Array:
    """[..., U] and [..., U] bool -> [...]; 0 where nothing is legal."""
    return -(jnp.where(legal, jnp.exp(log_p) * log_p, 0.0)).sum(axis=-1)


def draw_answers(key: Array, log_rho: Array, samples: int) -> Array:
    """The others' joint actions, drawn for each own action that was asked for.

    Args:
        key: Consumed.
        log_rho: [B, T, K, m, A-1, U].
        samples: Draws for each of the K.

    Returns:
        [B, T, K * samples, m, A-1] integers; the draws for one own action lie side by side.
    """
    batch, steps, asked, seats, others, _ = log_rho.shape
    drawn = jax.random.categorical(key, log_rho[:, :, :, None], shape=(batch, steps, asked, samples, seats, others))
    return drawn.reshape(batch, steps, asked * samples, seats, others)


def _wider(seats: Array | None) -> Array | None:
    """[B, 1, m] -> [B, 1, 1, m], for alternatives behind the time."""
    return None if seats is None else seats[:, :, None]
