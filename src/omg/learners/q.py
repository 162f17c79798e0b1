"""`q_learner`: deep Q-learning on whole episodes, alone (IQL) or with a mixer (VDN, QMIX).

One-step targets, with the target network's parameters written Q' and mixing written M (no mixer: each seat by itself):

    y_t = r_t + gamma * (1 - terminated_t) * M'(Q'(s_{t+1}, a*)),      a* = argmax over legal a of Q(s_{t+1}, a)

a* comes from the online network (`double_q`) or from the target network. The time limit does not terminate: such an
episode bootstraps from its last slot. The loss is the mean of (M(Q(s_t, a_t)) - y_t)^2 over the steps that were
played, counted once per seat when there is no mixer. Gradients are clipped by their norm and applied by RMSProp; the
target network is a copy of the online one made every `target_update_interval` episodes.

Letters in shapes: B episodes, T steps, A seats, U actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, loss_mask, masked_mean
from omg.controllers import BasicMAC, build_mac
from omg.errors import unknown_name
from omg.learners.optimisers import clip_by_norm, torch_rmsprop
from omg.modules.mixers import MIXERS, Mixer, MixerSizes

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

ILLEGAL_VALUE = -9_999_999.0
"""Stands for minus infinity: padding has no legal action, and infinity times a mask of zero would not be zero."""


class QState(NamedTuple):
    """Everything that learning changes."""

    mac: BasicMAC
    target_mac: BasicMAC
    mixer: Mixer | None
    target_mixer: Mixer | None
    opt_state: optax.OptState
    last_target_episode: Array
    """int32 scalar, number of episodes at the last copy to the target network."""
    updates: Array
    """int32 scalar, gradient updates so far."""


class QLearner:
    """IQL, VDN or QMIX, by `config.mixer`."""

    def __init__(self, config: Config, spec: EnvSpec):
        if config.mixer is not None and config.mixer not in MIXERS:
            raise unknown_name("mixer", config.mixer, (*MIXERS, "None"))
        self.config = config
        self.spec = spec
        self.optimiser = torch_rmsprop(config.lr, config.optim_alpha, config.optim_eps)

    def init(self, key: Array) -> QState:
        """New networks; the target network starts as a copy of the online one."""
        mac_key, mixer_key = jax.random.split(key)
        mac = build_mac(self.config, self.spec, mac_key)
        mixer = self._build_mixer(mixer_key)
        return QState(
            mac=mac,
            target_mac=mac,
            mixer=mixer,
            target_mixer=mixer,
            opt_state=self.optimiser.init((mac, mixer)),
            last_target_episode=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def policy(self, state: QState) -> BasicMAC:
        """The online network's controller."""
        return state.mac

    def update(self, state: QState, batch: EpisodeBatch, episode: Array | int) -> tuple[QState, dict[str, Array]]:
        """One gradient update, and a copy to the target network when it is due.

        Args:
            state: From `init` or the update before.
            batch: Sampled episodes.
            episode: Scalar integer, episodes collected so far. The target is copied by the first update at which this
                number has reached another multiple of `target_update_interval`.

        Returns:
            The new state and the metrics, PyMARL's by name and formula, with m the loss mask (repeated over the seats
            when there is no mixer), q the chosen actions' values (mixed if there is a mixer) and y the targets:

            - `loss`: sum(m (q - y)^2) / sum(m)
            - `grad_norm`: Euclidean norm of all gradients before clipping
            - `td_error_abs`: sum(m |q - y|) / sum(m)
            - `q_taken_mean`: sum(m q) / (sum(m) A)
            - `target_mean`: sum(m y) / (sum(m) A)

            Any of them that is not finite says that learning has broken down; nothing is replaced.
        """
        learned = (state.mac, state.mixer)
        frozen = (state.target_mac, state.target_mixer)
        (_, metrics), gradients = jax.value_and_grad(self._loss, has_aux=True)(learned, frozen, batch)
        gradients, grad_norm = clip_by_norm(gradients, self.config.grad_norm_clip)
        steps, opt_state = self.optimiser.update(gradients, state.opt_state)
        learned = optax.apply_updates(learned, steps)

        interval = self.config.target_update_interval
        due = episode // interval > state.last_target_episode // interval
        frozen = jax.tree.map(lambda new, old: jnp.where(due, new, old), learned, frozen)
        new_state = QState(
            mac=learned[0],
            target_mac=frozen[0],
            mixer=learned[1],
            target_mixer=frozen[1],
            opt_state=opt_state,
            last_target_episode=jnp.where(due, episode, state.last_target_episode).astype(jnp.int32),
            updates=state.updates + 1,
        )
        return new_state, metrics | {"grad_norm": grad_norm}

    def _loss(
        self,
        learned: tuple[BasicMAC, Mixer | None],
        frozen: tuple[BasicMAC, Mixer | None],
        batch: EpisodeBatch,
    ) -> tuple[Array, dict[str, Array]]:
        mac, mixer = learned
        target_mac, target_mixer = frozen
        q = mac.unroll(batch)
        target_q = target_mac.unroll(batch)

        taken = _at(q[:, :-1], batch.actions[:, :-1])
        following = next_values(q[:, 1:], target_q[:, 1:], batch.avail[:, 1:], self.config.double_q)
        if mixer is not None and target_mixer is not None:
            taken = mixer(taken, batch.state[:, :-1])
            following = target_mixer(following, batch.state[:, 1:])

        goes_on = 1.0 - batch.terminated[:, :-1].astype(jnp.float32)
        if following.ndim > goes_on.ndim:
            goes_on = goes_on[..., None]
        targets = lax.stop_gradient(self._reward(batch) + self.config.gamma * goes_on * following)

        mask = loss_mask(batch)
        td_error = taken - targets
        loss = masked_mean(td_error**2, mask)
        metrics = {
            "loss": loss,
            "td_error_abs": masked_mean(jnp.abs(td_error), mask),
            "q_taken_mean": masked_mean(taken, mask) / self.spec.n_agents,
            "target_mean": masked_mean(targets, mask) / self.spec.n_agents,
        }
        return loss, metrics

    def _reward(self, batch: EpisodeBatch) -> Array:
        """Rewards in the shape of the values: [B, T] with a mixer; otherwise [B, T, A], or [B, T, 1] when shared."""
        reward = batch.reward[:, :-1]
        mixed = self.config.mixer is not None
        if reward.ndim == 3 and (mixed or self.config.common_reward):
            reward = reward.sum(axis=-1)
        return reward[..., None] if reward.ndim == 2 and not mixed else reward

    def _build_mixer(self, key: Array) -> Mixer | None:
        if self.config.mixer is None:
            return None
        sizes = MixerSizes(
            n_agents=self.spec.n_agents,
            state_dim=self.spec.state_dim,
            embed_dim=self.config.mixing_embed_dim,
            hypernet_layers=self.config.hypernet_layers,
            hypernet_embed=self.config.hypernet_embed,
        )
        return MIXERS[self.config.mixer](sizes, key=key)


def next_values(q: Array, target_q: Array, avail: Array, double_q: bool) -> Array:
    """What the next slot is worth to each seat, by the target network.

    Args:
        q: [B, T, A, U] online values of the next slots.
        target_q: [B, T, A, U] target values of the next slots.
        avail: [B, T, A, U] bool, legal actions there.
        double_q: Whether the online network chooses the action, instead of the target network.

    Returns:
        [B, T, A], the target network's value of the chosen legal action.
    """
    chooser = q if double_q else target_q
    best = jnp.argmax(jnp.where(avail, chooser, ILLEGAL_VALUE), axis=-1)
    return _at(target_q, best)


def _at(values: Array, index: Array) -> Array:
    """[..., U] and [...] -> [...]."""
    return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]
