"""`coma_learner`: counterfactual multi-agent policy gradients, with a critic that sees everything.

The critic gives Q(s, o_i, a_-i, u) for every action u of seat i at once. With pi_i the probabilities that actions were
drawn with (masked softmax and floor `epsilon`), the advantage compares what a seat did with what it would have done on
average, all others' actions as they were:

    A_i,t = Q(.., a_i,t) - sum_u pi_i(u) Q(.., u)         loss = - mean of A_i,t log pi_i(a_i,t)

The critic learns TD(lambda) targets of its target network. As in PyMARL it takes one step of its optimiser for every
time step of the batch, from the last to the first; the values used above are those it had just before each step. The
target network is copied when the critic has taken another `target_update_interval` steps.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, U actions.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, loss_mask, masked_mean
from omg.components.counts import linear
from omg.components.selectors import multinomial_log_probabilities
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.controllers.reading import SeatViews
from omg.learners.advantages import lambda_targets
from omg.learners.optimisers import build_optimiser, clip_by_norm
from omg.learners.seats import SeatLearner
from omg.modules.agents.base import AgentNetwork
from omg.modules.critics.base import CriticSizes
from omg.modules.critics.coma import COMACritic
from omg.modules.opponent_models.base import others_one_hot

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class COMAState(NamedTuple):
    """Everything that learning changes."""

    mac: BasicMAC
    critic: COMACritic
    target_critic: COMACritic
    opt_state: optax.OptState
    critic_opt_state: optax.OptState
    critic_steps: Array
    """int32 scalar, steps of the critic's optimiser so far."""
    last_target_step: Array
    """int32 scalar, `critic_steps` at the last copy to the target network."""
    updates: Array
    """int32 scalar, updates so far."""


class CriticUpdate(NamedTuple):
    """What learning of the critic yields."""

    critic: COMACritic
    opt_state: optax.OptState
    steps: Array
    """int32 scalar, steps of the optimiser: time steps that at least one episode reached."""
    q: Array
    """[B, T, m, U], each slot's just before the step that learned from it."""
    metrics: dict[str, Array]


class COMALearner(SeatLearner[COMAState]):
    """COMA, in all seats or in those that a team leaves to it."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        self.optimiser = build_optimiser(config)
        self.critic_optimiser = build_optimiser(config, config.critic_lr)

    def needs_state(self) -> bool:
        """The critic is central."""
        return True

    def init(self, key: Array) -> COMAState:
        """New networks; the target critic starts as a copy of the critic."""
        mac_key, critic_key = jax.random.split(key)
        spec = self.spec
        mac = build_mac(self.config, spec, mac_key, self.partners)
        joint = spec.n_agents * spec.n_actions
        widths = (spec.state_dim, spec.obs_dim, joint, joint, spec.n_agents)
        sizes = CriticSizes(widths, self.config.critic_hidden_dim, n_actions=spec.n_actions)
        critic = COMACritic(sizes, key=critic_key)
        nothing = jnp.zeros((), jnp.int32)
        return COMAState(
            mac=mac,
            critic=critic,
            target_critic=critic,
            opt_state=self.optimiser.init(mac.agent),
            critic_opt_state=self.critic_optimiser.init(critic),
            critic_steps=nothing,
            last_target_step=nothing,
            updates=nothing,
        )

    def update(
        self,
        state: COMAState,
        batch: EpisodeBatch,
        episode: Array | int,
        t_env: Number = 0,
        key: Array | None = None,
    ) -> tuple[COMAState, dict[str, Array]]:
        """Many steps of the critic, then one of the policy.

        Args:
            state: From `init` or the update before.
            batch: The episodes that the policy in `state` has just played.
            episode: Not used.
            t_env: Scalar count, environment steps when they were played; gives the floor they were played with.
            key: Not used.

        Returns:
            The new state and the metrics, PyMARL's by formula. With m the loss mask repeated over the seats, y the
            critic's targets, q its values of the actions taken, A and pi as in the module's text:

            - `loss`: - sum(m A log pi(a)) / sum(m)
            - `grad_norm`: Euclidean norm of the policy's gradients before clipping
            - `advantage_mean`: sum(m A) / sum(m)
            - `pi_max`: sum(m max_u pi(u)) / sum(m)
            - `entropy`: sum(m H(pi)) / sum(m)

            and, each the mean over the critic's steps: `critic_loss` (sum over the slot of m (q - y)^2 / sum m),
            `critic_grad_norm`, `td_error_abs`, `q_taken_mean`, `target_mean` (the slot's masked means of |q - y|, q
            and y).
        """
        config, mask = self.config, loss_mask(batch)
        views = state.mac.reading.episodes(batch, self.main_seats(batch))
        actions = views.own(batch.actions)
        inputs = self._critic_inputs(batch, views)
        target_q = state.target_critic(inputs)
        targets = lambda_targets(
            self._seat_reward(batch, views),
            _at(target_q, actions),
            batch.terminated[:, :-1],
            mask,
            config.gamma,
            config.td_lambda,
        )
        critic = self._learn_critic(state, inputs, actions[:, :-1], targets, mask)

        epsilon = linear(t_env, config.epsilon_start, config.epsilon_finish, config.epsilon_anneal_time)
        avail = views.own(batch.avail)[:, :-1]
        (_, metrics), gradients = jax.value_and_grad(self._policy_loss, has_aux=True)(
            state.mac.agent, state.mac, views, avail, actions[:, :-1], critic.q, mask, epsilon
        )
        gradients, grad_norm = clip_by_norm(gradients, config.grad_norm_clip)
        steps, opt_state = self.optimiser.update(gradients, state.opt_state)
        agent = optax.apply_updates(state.mac.agent, steps)

        critic_steps = state.critic_steps + critic.steps
        due = critic_steps - state.last_target_step >= config.target_update_interval
        target_critic = jax.tree.map(lambda new, old: jnp.where(due, new, old), critic.critic, state.target_critic)
        new_state = COMAState(
            mac=dataclasses.replace(state.mac, agent=agent),
            critic=critic.critic,
            target_critic=target_critic,
            opt_state=opt_state,
            critic_opt_state=critic.opt_state,
            critic_steps=critic_steps,
            last_target_step=jnp.where(due, critic_steps, state.last_target_step),
            updates=state.updates + 1,
        )
        return new_state, metrics | critic.metrics | {"grad_norm": grad_norm}

    def _critic_inputs(self, batch: EpisodeBatch, views: SeatViews) -> list[Array]:
        """What the critic reads at every slot: state, own view, the others' actions, all last actions, the seat."""
        inputs, own = views.model_inputs(), views.own(batch.obs)
        others = others_one_hot(batch.actions, inputs.seats, self.spec.n_actions)
        last = jax.nn.one_hot(views.last_actions, self.spec.n_actions)
        last = last.reshape(*views.last_actions.shape[:2], 1, -1)
        return [batch.state[:, :, None], own, others, last, jax.nn.one_hot(inputs.seats, self.spec.n_agents)]

    def _learn_critic(
        self, state: COMAState, inputs: list[Array], actions: Array, targets: Array, mask: Array
    ) -> CriticUpdate:
        """One step of the optimiser for each time step, from the last to the first.

        Args:
            state: The critic and its optimiser.
            inputs: What it reads, [B or 1, T+1 or 1, m or 1, width] each.
            actions: [B, T, m].
            targets: [B, T, m].
            mask: [B, T].
        """
        steps = mask.shape[1]
        timed = [jnp.broadcast_to(one, (one.shape[0], steps + 1, *one.shape[2:]))[:, :-1] for one in inputs]
        by_time = jax.tree.map(lambda values: jnp.swapaxes(values, 0, 1), (timed, actions, targets, mask))

        def loss(
            critic: COMACritic, inputs: list[Array], actions: Array, targets: Array, mask: Array
        ) -> tuple[Array, tuple[Array, dict[str, Array]]]:
            q = critic(inputs)
            taken = _at(q, actions)
            error = taken - targets
            value = masked_mean(error**2, mask)
            return value, (
                q,
                {
                    "critic_loss": value,
                    "td_error_abs": masked_mean(jnp.abs(error), mask),
                    "q_taken_mean": masked_mean(taken, mask),
                    "target_mean": masked_mean(targets, mask),
                },
            )

        def step(
            carry: tuple[COMACritic, optax.OptState], at_step: tuple[list[Array], Array, Array, Array]
        ) -> tuple[tuple[COMACritic, optax.OptState], tuple[Array, Array, dict[str, Array]]]:
            critic, opt_state = carry
            (_, (q, metrics)), gradients = jax.value_and_grad(loss, has_aux=True)(critic, *at_step)
            gradients, norm = clip_by_norm(gradients, self.config.grad_norm_clip)
            moves, moved_state = self.critic_optimiser.update(gradients, opt_state)
            # A step that no episode reached must not even age the optimiser's averages.
            played = at_step[-1].any()
            changed = (optax.apply_updates(critic, moves), moved_state)
            carry = jax.tree.map(lambda new, old: jnp.where(played, new, old), changed, carry)
            return carry, (q, played, metrics | {"critic_grad_norm": norm})

        start = (state.critic, state.critic_opt_state)
        (critic, opt_state), (q, played, metrics) = lax.scan(step, start, by_time, reverse=True)
        count = played.sum(dtype=jnp.int32)
        # Steps that nobody reached have all metrics zero, but may not count in the mean.
        means = {name: values.sum() / jnp.maximum(count, 1) for name, values in metrics.items()}
        return CriticUpdate(critic, opt_state, count, jnp.swapaxes(q, 0, 1), means)

    def _policy_loss(
        self,
        agent: AgentNetwork,
        mac: BasicMAC,
        views: SeatViews,
        avail: Array,
        actions: Array,
        q: Array,
        mask: Array,
        epsilon: Array,
    ) -> tuple[Array, dict[str, Array]]:
        logits = views.run(agent, mac.reading.features(None, views, None))[0][:, :-1]
        late_mask = not self.config.mask_before_softmax
        log_pi = multinomial_log_probabilities(logits, avail, epsilon, late_mask=late_mask)
        pi = jnp.exp(log_pi)
        advantage = lax.stop_gradient(counterfactual_advantage(q, pi, actions))
        # What was played was legal; padding may hold an illegal action, whose logarithm is no number to multiply.
        log_taken = jnp.where(mask[..., None] > 0, _at(log_pi, actions), 0.0)
        loss = -masked_mean(advantage * log_taken, mask)
        metrics = {
            "loss": loss,
            "advantage_mean": masked_mean(advantage, mask),
            "pi_max": masked_mean(pi.max(axis=-1), mask),
            "entropy": masked_mean(-(pi * jnp.where(avail, log_pi, 0.0)).sum(axis=-1), mask),
        }
        return loss, metrics


def counterfactual_advantage(q: Array, pi: Array, actions: Array) -> Array:
    """How much better an action was than the policy's average, all others' actions as they were.

    Args:
        q: [..., U], value of each of a seat's actions.
        pi: [..., U], its probabilities.
        actions: [...] integers, what it did.

    Returns:
        [...].
    """
    return _at(q, actions) - (pi * q).sum(axis=-1)


def _at(values: Array, index: Array) -> Array:
    """[..., U] and [...] -> [...]."""
    return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]
