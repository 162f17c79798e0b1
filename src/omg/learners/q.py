"""`q_learner`: deep Q-learning on whole episodes, alone (IQL, D3QN) or with a mixer (VDN, QMIX), in all seats or some.

Targets, with the target network's parameters written Q' and mixing written M (no mixer: each seat by itself):

    V_t = M'(Q'(s_t, a*)),      a* = argmax over legal a of Q(s_t, a)
    y_t = r_t + gamma * (1 - terminated_t) * ((1 - lambda) V_{t+1} + lambda y_{t+1})

with y_{t+1} = V_{t+1} behind the last step. By default lambda (`q_lambda`) is 0: one-step targets. With more it is
Peng's Q(lambda): rewards travel back faster, but what exploration cost later in an episode is charged to every step
before. a* comes from the online network (`double_q`) or from the target network. The time limit does not terminate:
such an episode bootstraps from its last slot. The loss is the mean of (M(Q(s_t, a_t)) - y_t)^2 over the steps that were
played, counted once per seat when there is no mixer. Gradients are clipped by their norm and applied by RMSProp or
Adam; the target network is a copy of the online one made every `target_update_interval` episodes, or updates
(`target_update_unit`), or moves towards it then by a share (`target_update_tau`).

An opponent model (`q_learner_4am` is the same learner under the name used with one) learns by a loss and an optimiser
of its own; its features enter Q detached, so the loss above never trains it.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, U actions.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, masked_mean
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.learners.advantages import lambda_targets
from omg.learners.optimisers import blended, build_optimiser, clip_by_norm, target_is_due
from omg.learners.seats import Batches, ModelTrainer, SeatLearner, Share, weigh
from omg.learners.supervised import SupervisedTraining
from omg.modules.agents.base import AgentNetwork
from omg.modules.mixers import MIXERS
from omg.modules.mixers.base import Choices, Mixer, MixerSizes

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

ILLEGAL_VALUE = -9_999_999.0
"""Stands for minus infinity: padding has no legal action, and infinity times a mask of zero would not be zero."""


class QState(NamedTuple):
    """Everything that learning changes."""

    mac: BasicMAC
    target_mac: BasicMAC
    """The target network; it has no opponent model, the features come from the one in `mac`."""
    mixer: Mixer | None
    target_mixer: Mixer | None
    opt_state: optax.OptState
    model_opt_state: optax.OptState
    last_target_episode: Array
    """int32 scalar, number of episodes at the last copy to the target network."""
    updates: Array
    """int32 scalar, gradient updates so far."""


class QLearner(SeatLearner[QState]):
    """IQL, VDN, QMIX or D3QN, by configuration, in all seats or in those that a team leaves to it."""

    keeps_inferred = False
    """Whether targets value the next state with what was inferred in this one."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        self.kept = self.kept._replace(portions=True, packs=team is None and config.model_part.absent)
        self.optimiser = build_optimiser(config)
        self.training: ModelTrainer[QState] = self._training()
        self.examines = self.training.examines

    def _training(self) -> ModelTrainer[QState]:
        return SupervisedTraining(self.config)

    def needs_state(self) -> bool:
        """Whether updates read the global state: as the agents' view, or for mixing."""
        return self.config.obs_is_state or self.config.mixer is not None

    def init(self, key: Array) -> QState:
        """New networks; the target network starts as a copy of the online one."""
        mac_key, mixer_key = jax.random.split(key)
        mac = build_mac(self.config, self.spec, mac_key, self.partners)
        mixer = self._build_mixer(mixer_key)
        return QState(
            mac=mac,
            target_mac=dataclasses.replace(mac, opponent_model=None),
            mixer=mixer,
            target_mixer=mixer,
            opt_state=self.optimiser.init((mac.agent, mixer)),
            model_opt_state=self.training.init(mac.opponent_model),
            last_target_episode=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def update(
        self,
        state: QState,
        batch: Batches,
        episode: Array | int,
        t_env: Number = 0,
        key: Array | None = None,
    ) -> tuple[QState, dict[str, Array]]:
        """One gradient update, and a copy to the target network when it is due.

        Args:
            state: From `init` or the update before.
            batch: Sampled episodes, in one or in portions.
            episode: Scalar integer, episodes collected so far. The target is copied by the first update at which this
                number has reached another multiple of `target_update_interval`; counted in updates, by every update
                whose number is a multiple of it.
            t_env: Scalar count, environment steps so far.
            key: Randomness of opponent models that need any.

        Returns:
            The new state and the metrics, PyMARL's by name and formula, with m the loss mask (repeated over the seats
            when there is no mixer), q the chosen actions' values (mixed if there is a mixer) and y the targets:

            - `loss`: sum(m (q - y)^2) / sum(m)
            - `grad_norm`: Euclidean norm of all gradients before clipping
            - `td_error_abs`: sum(m |q - y|) / sum(m)
            - `q_taken_mean`: sum(m q) / (sum(m) A)
            - `target_mean`: sum(m y) / (sum(m) A)

            and those of the opponent model. Any of them that is not finite says that learning has broken down; nothing
            is replaced.
        """
        shares = self.shares(state.mac.reading, batch)
        changed = self.training.update(state, shares, t_env, key)
        learned = (state.mac.agent, state.mixer)
        frozen = (state.target_mac.agent, state.target_mixer)

        def whole_loss(learned: tuple[AgentNetwork, Mixer | None]) -> tuple[Array, dict[str, Array]]:
            given = zip(shares, changed.features, strict=True)
            return weigh([self._loss(learned, frozen, state.mac, *each) for each in given], shares)

        (_, metrics), gradients = jax.value_and_grad(whole_loss, has_aux=True)(learned)
        gradients, grad_norm = clip_by_norm(gradients, self.config.grad_norm_clip)
        steps, opt_state = self.optimiser.update(gradients, state.opt_state)
        learned = optax.apply_updates(learned, steps)

        counted = (episode, state.last_target_episode)
        if self.config.target_update_unit == "updates":
            counted = (state.updates + 1, state.updates)
        due = target_is_due(*counted, self.config.target_update_interval)
        tau = self.config.target_update_tau
        ahead = learned if tau == 1.0 else blended(learned, frozen, tau)
        frozen = jax.tree.map(lambda new, old: jnp.where(due, new, old), ahead, frozen)
        new_state = QState(
            mac=dataclasses.replace(state.mac, agent=learned[0], opponent_model=changed.model),
            target_mac=dataclasses.replace(state.target_mac, agent=frozen[0]),
            mixer=learned[1],
            target_mixer=frozen[1],
            opt_state=opt_state,
            model_opt_state=changed.opt_state,
            last_target_episode=jnp.where(due, episode, state.last_target_episode).astype(jnp.int32),
            updates=state.updates + 1,
        )
        return new_state, metrics | changed.metrics | {"grad_norm": grad_norm}

    def _loss(
        self,
        learned: tuple[AgentNetwork, Mixer | None],
        frozen: tuple[AgentNetwork, Mixer | None],
        mac: BasicMAC,
        share: Share,
        inferred: Array | None,
    ) -> tuple[Array, dict[str, Array]]:
        (agent, mixer), (target_agent, target_mixer) = learned, frozen
        batch, views, mask = share.batch, share.views, share.mask
        actions, avail = views.own(batch.actions[:, :-1]), views.own(batch.avail)
        (q, q_next), (_, target_next) = mac.reading.values(
            (agent, target_agent), mac.opponent_model, views, inferred, keep=self.keeps_inferred
        )
        taken = jnp.take_along_axis(q[:, :-1], actions[..., None], axis=-1)[..., 0]
        chooser = q_next if self.config.double_q else target_next
        greedy = jnp.argmax(jnp.where(avail[:, 1:], chooser, ILLEGAL_VALUE), axis=-1)
        following = jnp.take_along_axis(target_next, greedy[..., None], axis=-1)[..., 0]
        if mixer is not None and target_mixer is not None:
            taken = mixer(taken, batch.state[:, :-1], Choices(actions, best_values(q[:, :-1], avail[:, :-1])))
            ahead = Choices(greedy, best_values(target_next, avail[:, 1:]))
            following = target_mixer(following, batch.state[:, 1:], ahead)

        reward = self._seat_reward(batch, views)
        if mixer is not None:
            reward = reward.sum(axis=-1)
        gamma, terminated = self.config.gamma, batch.terminated[:, :-1]
        if self.config.q_lambda > 0:
            targets = peng_targets(reward, following, terminated, mask, gamma, self.config.q_lambda)
        else:
            goes_on = 1.0 - terminated.astype(jnp.float32)
            targets = reward + gamma * (goes_on if mixer is not None else goes_on[..., None]) * following
        targets = lax.stop_gradient(targets)

        td_error = taken - targets
        loss = masked_mean(td_error**2, mask)
        metrics = {
            "loss": loss,
            "td_error_abs": masked_mean(jnp.abs(td_error), mask),
            "q_taken_mean": masked_mean(taken, mask) / self.seats,
            "target_mean": masked_mean(targets, mask) / self.seats,
        }
        return loss, metrics

    def examine(self, state: QState, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """What the training of the opponent model has to say about test episodes."""
        views = state.mac.reading.episodes(batch, self.main_seats(batch))
        return self.training.examine(state.mac, batch, views, self.partners)

    def _build_mixer(self, key: Array) -> Mixer | None:
        if self.config.mixer is None:
            return None
        sizes = MixerSizes(
            n_agents=self.seats,
            state_dim=self.spec.state_dim,
            n_actions=self.spec.n_actions,
            embed_dim=self.config.mixing_embed_dim,
            hypernet_layers=self.config.hypernet_layers,
            hypernet_embed=self.config.hypernet_embed,
            own=self.config.own_sections(MIXERS[self.config.mixer].traits),
        )
        return MIXERS[self.config.mixer].build(sizes, key=key)


def best_values(values: Array, avail: Array) -> Array:
    """What each seat's best legal action is worth, 0 where none is legal: [..., U] -> [...]."""
    best = jnp.where(avail, values, ILLEGAL_VALUE).max(axis=-1)
    return jnp.where(avail.any(axis=-1), best, 0.0)


def peng_targets(
    reward: Array, following: Array, terminated: Array, mask: Array, gamma: float, q_lambda: float
) -> Array:
    """Peng's Q(lambda): what each step is taken to be worth, looking further ahead than one step.

    Args:
        reward: [B, T], or [B, T, m or 1] when seats are valued by themselves.
        following: [B, T] or [B, T, m], values of the slots behind the steps.
        terminated: [B, T] bool.
        mask: [B, T].
        gamma: discount.
        q_lambda: how much of what follows is taken from later steps.

    Returns:
        As `following`.
    """
    # Its values begin with the slot of the first step, whose own value no target asks for.
    values = jnp.concatenate([jnp.zeros_like(following[:, :1]), following], axis=1)
    if following.ndim > terminated.ndim:
        return lambda_targets(reward, values, terminated, mask, gamma, q_lambda)
    return lambda_targets(reward[..., None], values[..., None], terminated, mask, gamma, q_lambda)[..., 0]
