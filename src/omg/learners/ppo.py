"""`ppo_learner`: proximal policy optimisation, with a critic for every seat (IPPO) or a central one (MAPPO).

An update takes the episodes that have just been played and nothing else. With pi the probabilities that actions are
drawn with, pi_old those they were drawn with (computed from the parameters at the start of the update, which are the
ones that played), A generalised advantages and R = A + V the critic's targets:

    ratio = pi(a_t) / pi_old(a_t)
    loss  = - mean of min(ratio A, clip(ratio, 1 - ppo_clip, 1 + ppo_clip) A)  -  entropy_coef * mean entropy of pi
    critic_loss = mean of (V - R)^2

`ppo_epochs` passes are made over the episodes, each in `ppo_minibatches` parts of whole episodes; advantages, targets
and pi_old stay. The critic is a network of its own with an optimiser of its own: it sees what its seat sees, or the
global state and the seat's number (`critic_input`). It works on returns scaled to mean 0 and deviation 1
(`normalise_value`); when the scale moves, its last layer is moved along, so that what it says stays the same.

An opponent model learns by a loss and an optimiser of its own, once per update; its features enter actor and critic
detached.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, F features, U actions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, masked_mean
from omg.components.counts import linear
from omg.components.selectors import multinomial_log_probabilities
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.controllers.reading import SeatViews
from omg.learners.advantages import ValueScale, generalised_advantages, standardised, unscaled
from omg.learners.blocks import block_of, mean_gradients, said_of_rows
from omg.learners.critics import build_critic, check_body, rescaled
from omg.learners.optimisers import build_optimiser, clip_by_norm
from omg.learners.seats import ModelTrainer, ModelUpdate, SeatLearner, Share
from omg.learners.supervised import SupervisedTraining
from omg.learners.surrogate import clipped_surrogate, value_error
from omg.modules.agents.base import AgentNetwork
from omg.modules.agents.inputs import as_one_hot
from omg.modules.critics.base import SlotValues
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

_EXTRA_STREAM = 0xE87A
_MODEL_STREAM = 0x30DE1


class PPOState(NamedTuple):
    """Everything that learning changes."""

    mac: BasicMAC
    critic: SlotValues
    opt_state: optax.OptState
    critic_opt_state: optax.OptState
    model_opt_state: optax.OptState
    scale: ValueScale
    """Of the critic's outputs; without `normalise_value` it stays empty."""
    updates: Array
    """int32 scalar, updates so far, each of all its passes."""
    extra: PyTree = None
    """What a kind of PPO learns besides (social influence: a model of the others); None for plain PPO."""


Learned = tuple[AgentNetwork, SlotValues, optax.OptState, optax.OptState]
"""What a gradient step changes: both networks, then their optimisers."""


class PPOLessons(NamedTuple):
    """What the passes of an update learn from: all share it. Every array has the episodes as its first axis."""

    views: SeatViews
    features: Array | None
    """[B, T+1, m, F], of the agent's input; None for none."""
    inputs: tuple[Array, ...]
    """The critic's input, [B, T+1 or 1, m or 1, width] each."""
    avail: Array
    """[B, T, m, U]."""
    actions: Array
    """[B, T, m]."""
    mask: Array
    """[B, T]."""
    log_old: Array
    """[B, T, m], logarithm of the probability that each action was drawn with."""
    advantages: Array
    """[B, T, m]."""
    targets: Array
    """[B, T, m], on the critic's scale."""
    values_old: Array
    """[B, T, m], the critic's before the update, on its scale."""


class PPOLearner(SeatLearner[PPOState]):
    """IPPO or MAPPO by configuration, in all seats or in those that a team leaves to it."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        check_body(config)
        plain = team is None and config.model_part.absent and config.ppo_minibatches == 1
        self.kept = self.kept._replace(packs=plain, blocks=plain)
        self.optimiser = build_optimiser(config)
        self.critic_optimiser = build_optimiser(config, config.critic_lr)
        self.training: ModelTrainer[PPOState] = self._training()
        self.examines = self.training.examines

    def _training(self) -> ModelTrainer[PPOState]:
        return SupervisedTraining(self.config)

    def needs_state(self) -> bool:
        """Whether updates read the global state: as the agents' view, or as the critic's."""
        return self.config.obs_is_state or self.config.critic_input == "state"

    def init(self, key: Array) -> PPOState:
        """New networks."""
        mac_key, critic_key = jax.random.split(key)
        mac = build_mac(self.config, self.spec, mac_key, self.partners)
        critic = build_critic(self.config, self.spec, mac, critic_key)
        return PPOState(
            mac=mac,
            critic=critic,
            opt_state=self.optimiser.init(mac.agent),
            critic_opt_state=self.critic_optimiser.init(critic),
            model_opt_state=self.training.init(mac.opponent_model),
            scale=unscaled(),
            updates=jnp.zeros((), jnp.int32),
        )

    def update(
        self, state: PPOState, batch: EpisodeBatch, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[PPOState, dict[str, Array]]:
        """All passes over the episodes just played.

        Args:
            state: From `init` or the update before.
            batch: The episodes that the policy in `state` has just played.
            episode: Not used.
            t_env: Scalar count, environment steps when they were played; gives the floor they were played with.
            key: Randomness of the parts of a pass, and of opponent models that need any.

        Returns:
            The new state and the metrics, with m the loss mask repeated over the seats. Means over all gradient steps:

            - `loss`: sum(m (-min(ratio A, clip(ratio) A) - entropy_coef H(pi))) / sum(m)
            - `policy_loss`: the same without the entropy
            - `entropy`: sum(m H(pi)) / sum(m)
            - `approx_kl`: sum(m (ratio - 1 - log ratio)) / sum(m)
            - `clip_fraction`: sum(m [|ratio - 1| > ppo_clip]) / sum(m)
            - `critic_loss`: sum(m (V - R)^2) / sum(m), on the critic's scale
            - `grad_norm`, `critic_grad_norm`: Euclidean norms of all gradients of either before clipping

            Before the first of them, in units of the reward: `value_mean`, `target_mean`, `advantage_mean` (masked
            means of V, R and A as estimated) and `explained_variance` = 1 - var(R - V) / var(R).
        """
        config = self.config
        model_key, order_key = jax.random.split(key)
        shares = self.shares(state.mac.reading, batch)
        changed = self._train_model(state, shares, t_env, model_key)
        epsilon = self._floor(t_env)
        critic, scale, lessons, extra, estimates = self._estimate(
            state, shares[0], changed.features[0], epsilon, jax.random.fold_in(key, _EXTRA_STREAM)
        )

        def step(carry: Learned, chosen: Array) -> tuple[Learned, dict[str, Array]]:
            agent, critic, opt_state, critic_opt_state = carry
            # Without parts the order of the episodes means nothing, and they need not be copied.
            part = lessons if config.ppo_minibatches == 1 else jax.tree.map(lambda values: values[chosen], lessons)
            metrics, (gradients, critic_gradients) = mean_gradients(
                lambda learned, rows: self._loss(*learned, rows, epsilon),
                (agent, critic),
                part,
                part.mask,
                self._block(part.views),
            )
            gradients, norm = clip_by_norm(gradients, config.grad_norm_clip)
            critic_gradients, critic_norm = clip_by_norm(critic_gradients, config.grad_norm_clip)
            moves, opt_state = self.optimiser.update(gradients, opt_state)
            critic_moves, critic_opt_state = self.critic_optimiser.update(critic_gradients, critic_opt_state)
            metrics |= {"grad_norm": norm, "critic_grad_norm": critic_norm}
            agent, critic = optax.apply_updates((agent, critic), (moves, critic_moves))
            return (agent, critic, opt_state, critic_opt_state), metrics

        start = (state.mac.agent, critic, state.opt_state, state.critic_opt_state)
        order = self._order(order_key, batch.actions.shape[0])
        (agent, critic, opt_state, critic_opt_state), metrics = lax.scan(step, start, order)
        new_state = PPOState(
            mac=dataclasses.replace(state.mac, agent=agent, opponent_model=changed.model),
            critic=critic,
            opt_state=opt_state,
            critic_opt_state=critic_opt_state,
            model_opt_state=changed.opt_state,
            scale=scale,
            updates=state.updates + 1,
            extra=extra,
        )
        means = {name: values.mean() for name, values in metrics.items()}
        return new_state, means | estimates | changed.metrics

    def _train_model(self, state: PPOState, shares: Sequence[Share], t_env: Number, key: Array) -> ModelUpdate:
        """All passes of the opponent model; the agent learns with what it said before the first."""
        first = self.training.update(state, shares, t_env, key)
        if first.model is None or self.config.am_epochs == 1:
            return first
        moving, still = eqx.partition(first.model, eqx.is_array)

        def again(carry: tuple[PyTree, PyTree], key: Array) -> tuple[tuple[PyTree, PyTree], dict[str, Array]]:
            model = eqx.combine(carry[0], still)
            mac = dataclasses.replace(state.mac, opponent_model=model)
            found = self.training.update(state._replace(mac=mac, model_opt_state=carry[1]), shares, t_env, key)
            return (eqx.filter(found.model, eqx.is_array), found.opt_state), found.metrics

        keys = jax.random.split(jax.random.fold_in(key, _MODEL_STREAM), self.config.am_epochs - 1)
        (moving, opt_state), metrics = lax.scan(again, (moving, first.opt_state), keys)
        return ModelUpdate(
            eqx.combine(moving, still), opt_state, first.features, jax.tree.map(lambda values: values[-1], metrics)
        )

    def examine(self, state: PPOState, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """What the training of the opponent model has to say about test episodes."""
        views = state.mac.reading.episodes(batch, self.main_seats(batch))
        return self.training.examine(state.mac, batch, views, self.partners)

    def critic_inputs(self, batch: EpisodeBatch, views: SeatViews, features: Array | None) -> tuple[Array, ...]:
        """What the critic reads, [B, T+1 or 1, m or 1, width] each.

        Args:
            batch: Episodes.
            views: The same, as the seats that learn saw them.
            features: [B, T+1, m, F], those of the agent's input; None for none.
        """
        config, batch_size = self.config, batch.actions.shape[0]
        seats = views.model_inputs().seats
        seat = jax.nn.one_hot(jnp.broadcast_to(seats, (batch_size, *seats.shape[1:])), self.spec.n_agents)
        if config.ppo_shared_body:
            return ()
        if config.critic_input == "state":
            inputs = [batch.state[:, :, None], seat]
        else:
            inputs = [as_one_hot(views.seen, config.obs_one_hot)]
            if config.obs_last_action:
                inputs.append(jax.nn.one_hot(views.own_last, self.spec.n_actions))
            if config.obs_agent_id:
                inputs.append(seat)
        return (*inputs, features) if features is not None else tuple(inputs)

    def _order(self, key: Array, episodes: int) -> Array:
        """The episodes of each gradient step, [epochs * minibatches, episodes of each]."""
        config = self.config
        if config.ppo_minibatches == 1:
            return jnp.zeros((config.ppo_epochs, 0), jnp.int32)
        keys = jax.random.split(key, config.ppo_epochs)
        order = jax.vmap(lambda epoch_key: jax.random.permutation(epoch_key, episodes))(keys)
        return order.reshape(config.ppo_epochs * config.ppo_minibatches, -1)

    def _estimate(
        self, state: PPOState, share: Share, inferred: Array | None, epsilon: Array | float, key: Array
    ) -> tuple[SlotValues, ValueScale, PPOLessons, PyTree, dict[str, Array]]:
        """What the passes learn from; the critic and its scale fitted to each other; the new `extra`; metrics."""
        config, batch, views, mask = self.config, share.batch, share.views, share.mask
        features = state.mac.reading.features(state.mac.opponent_model, views, inferred)
        inputs = self.critic_inputs(batch, views, features)
        avail, actions = views.own(batch.avail)[:, :-1], views.own(batch.actions)[:, :-1]

        def say(rows: tuple[SeatViews, Array | None, tuple[Array, ...], Array]) -> tuple[Array, Array]:
            return self._say(state.mac.agent, state.critic, *rows, epsilon)

        log_pi, outputs = said_of_rows(say, (views, features, inputs, avail), mask, self._block(views))
        reward, extra, added = self._paid(state, batch, views, log_pi, key)
        scale = state.scale.witness(reward, mask)
        values = scale.possible(state.scale.stretch(outputs), config.gamma)
        advantages = generalised_advantages(
            reward, values, batch.terminated[:, :-1], mask, config.gamma, config.gae_lambda
        )
        values = values[:, :-1]
        targets = advantages + values
        critic = state.critic
        if config.normalise_value:
            scale = scale.read(targets, mask)
            gain, offset = state.scale.change_to(scale)
            critic, outputs = rescaled(critic, gain, offset), outputs * gain + offset
        metrics = {
            "value_mean": masked_mean(values, mask),
            "target_mean": masked_mean(targets, mask),
            "advantage_mean": masked_mean(advantages, mask),
            "explained_variance": 1.0 - _variance(advantages, mask) / jnp.maximum(_variance(targets, mask), 1e-8),
        }
        lessons = PPOLessons(
            views=views,
            features=features,
            inputs=inputs,
            avail=avail,
            actions=actions,
            mask=mask,
            log_old=_at(log_pi, actions),
            advantages=standardised(advantages, mask) if config.normalise_advantage else advantages,
            targets=scale.shrink(targets),
            values_old=outputs[:, :-1],
        )
        lessons, foreseen = self._foresee(state.mac.agent, lax.stop_gradient(lessons), epsilon)
        return critic, scale, lessons, extra, metrics | added | foreseen

    def _paid(
        self, state: PPOState, batch: EpisodeBatch, views: SeatViews, log_pi: Array, key: Array
    ) -> tuple[Array, PyTree, dict[str, Array]]:
        """What each step is taken to have paid the seats that learn, [B, T, m or 1]; the new `extra`; metrics.

        Args:
            state: Before the update.
            batch: The episodes just played.
            views: The same, as the seats that learn saw them.
            log_pi: [B, T, m, U], logarithms of the probabilities that actions were drawn with.
            key: Consumed.
        """
        return self._seat_reward(batch, views), state.extra, {}

    def _foresee(
        self, agent: AgentNetwork, lessons: PPOLessons, epsilon: Array | float
    ) -> tuple[PPOLessons, dict[str, Array]]:
        """With advantages that also reckon with what the update will do to the others; here as they are. Metrics."""
        return lessons, {}

    def _say(
        self,
        agent: AgentNetwork,
        critic: SlotValues,
        views: SeatViews,
        features: Array | None,
        inputs: tuple[Array, ...],
        avail: Array,
        epsilon: Array | float,
    ) -> tuple[Array, Array]:
        """Logarithms of the probabilities that actions are drawn with, [B, T, m, U], and values, [B, T+1, m]."""
        logits, hidden = views.run(agent, features)
        said = critic((hidden,) if self.config.ppo_shared_body else inputs, views.seats, views.breaks)
        log_pi = multinomial_log_probabilities(logits[:, :-1], avail, epsilon)
        return log_pi, jnp.broadcast_to(said, views.own_last.shape)

    def _block(self, views: SeatViews) -> int | None:
        """Rows that gradients are computed of at once; None: all, as where every row is an episode."""
        breaks = views.breaks
        return None if breaks is None else block_of(len(breaks), self.seats, self.config.batch_size)

    def _floor(self, t_env: Number) -> Array | float:
        """Weight of the uniform floor of the probabilities at this time; a plain number where there never is one."""
        config = self.config
        if config.epsilon_start == config.epsilon_finish == 0.0:
            return 0.0
        return linear(t_env, config.epsilon_start, config.epsilon_finish, config.epsilon_anneal_time)

    def _loss(
        self, agent: AgentNetwork, critic: SlotValues, lessons: PPOLessons, epsilon: Array | float
    ) -> tuple[Array, dict[str, Array]]:
        """Of both networks, and the metrics; with a body of its own the critic's share moves nothing of the agent."""
        config, views = self.config, lessons.views
        log_pi, values = self._say(agent, critic, views, lessons.features, lessons.inputs, lessons.avail, epsilon)
        loss, metrics = self.policy_loss(log_pi, lessons)
        error = value_error(values[:, :-1], lessons.values_old, lessons.targets, config.ppo_value_clip)
        critic_loss = masked_mean(error, lessons.mask)
        weight = config.critic_loss_coef if config.ppo_shared_body else 1.0
        return loss + weight * critic_loss, metrics | {"critic_loss": critic_loss}

    def policy_loss(self, log_pi: Array, lessons: PPOLessons) -> tuple[Array, dict[str, Array]]:
        """Of the policy alone, from the logarithms of its probabilities [B, T, m, U]; metrics."""
        config, mask = self.config, lessons.mask
        # What was played was legal; padding may hold an illegal action, whose logarithm is no number to reckon with.
        log_ratio = jnp.where(mask[..., None] > 0, _at(log_pi, lessons.actions) - lessons.log_old, 0.0)
        ratio = jnp.exp(log_ratio)
        entropy = masked_mean(-(jnp.exp(log_pi) * jnp.where(lessons.avail, log_pi, 0.0)).sum(axis=-1), mask)
        policy_loss = -masked_mean(clipped_surrogate(ratio, lessons.advantages, config.ppo_clip), mask)
        loss = policy_loss - config.entropy_coef * entropy
        clipped = (jnp.abs(ratio - 1.0) > config.ppo_clip).astype(jnp.float32)
        metrics = {
            "loss": loss,
            "policy_loss": policy_loss,
            "entropy": entropy,
            "approx_kl": masked_mean(ratio - 1.0 - log_ratio, mask),
            "clip_fraction": masked_mean(clipped, mask),
        }
        return loss, metrics


def _variance(values: Array, mask: Array) -> Array:
    mean = masked_mean(values, mask)
    return masked_mean((values - mean) ** 2, mask)


def _at(values: Array, index: Array) -> Array:
    """[..., U] and [...] -> [...]."""
    return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]
