"""`qtran_learner`: QTRAN-base. A joint value learned without limits, and the seats' values made to agree with it.

With h the agents' recurrent states, q_i their values, a the joint action that was taken, ā the seats' own best legal
ones, [...] a value without gradient and ' the target networks:

    td_t   = Q_jt(s_t, h_t, a_t) - [r_t + gamma (1 - terminated_t) Q'_jt(s_{t+1}, h'_{t+1}, ā_{t+1})]
    opt_t  = sum_i q_i(ā_t) - [Q_jt(s_t, h_t, ā_t)] + V_jt(s_t)
    nopt_t = min(0, sum_i q_i(a_t) - [Q_jt(s_t, h_t, a_t)] + V_jt(s_t))

    loss = mean td^2 + opt_loss * mean opt^2 + nopt_min_loss * mean nopt^2

The sum of the seats' values thus equals the joint value (less V_jt) at their best actions and is no less elsewhere:
who maximises the one maximises the other. Everything else is as in `q_learner`.

Letters in shapes: B episodes, T steps, m seats that learn, U actions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components import masked_mean
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.learners.q import ILLEGAL_VALUE, QLearner
from omg.learners.seats import Share
from omg.modules.agents.base import AgentNetwork
from omg.modules.mixers.base import Mixer, MixerSizes
from omg.modules.mixers.qtran import QTranMixer
from omg.types import PyTree

_HIDDEN_LAYERS = {"small": 2, "big": 3}


class QTranLearner(QLearner):
    """QTRAN-base, in all seats or in those that a team leaves to it."""

    def needs_state(self) -> bool:
        """The joint value is one of the state."""
        return True

    def _loss(
        self,
        learned: tuple[AgentNetwork, Mixer | None],
        frozen: tuple[AgentNetwork, Mixer | None],
        mac: BasicMAC,
        share: Share,
        inferred: Array | None,
    ) -> tuple[Array, dict[str, Array]]:
        """See the module's text.

        Returns:
            The loss, and with m the loss mask, y the value in brackets of td and A seats that learn:

            - `loss`: the weighted sum of the next three
            - `td_loss`, `opt_loss`, `nopt_loss`: sum(m x^2) / sum(m) of td, opt and nopt
            - `td_error_abs`: sum(m |td|) / sum(m)
            - `q_taken_mean`: sum(m Q_jt(s, h, a)) / (sum(m) A)
            - `target_mean`: sum(m y) / (sum(m) A)
            - `v_mean`: sum(m V_jt(s)) / sum(m)
            - `agent_q_mean`: sum(m sum_i q_i(a)) / (sum(m) A)
        """
        (agent, mixer), (target_agent, target_mixer) = learned, frozen
        assert isinstance(mixer, QTranMixer)
        assert isinstance(target_mixer, QTranMixer)
        batch, views, mask, state = share.batch, share.views, share.mask, share.batch.state
        features = mac.reading.features(mac.opponent_model, views, inferred)
        q, hidden = views.run(agent, features)
        target_q, target_hidden = views.run(target_agent, features)
        avail, actions = views.own(batch.avail), views.own(batch.actions)[:, :-1]
        best = jnp.argmax(jnp.where(avail, q, ILLEGAL_VALUE), axis=-1)
        target_best = jnp.argmax(jnp.where(avail, target_q, ILLEGAL_VALUE), axis=-1)
        following = best if self.config.double_q else target_best

        goes_on = 1.0 - batch.terminated[:, :-1].astype(jnp.float32)
        next_value = target_mixer.joint_value(state[:, 1:], target_hidden[:, 1:], following[:, 1:])
        # One reward for the team: the sum where the seats have one each.
        reward = self._seat_reward(batch, views).sum(axis=-1)
        targets = lax.stop_gradient(reward + self.config.gamma * goes_on * next_value)
        joint = mixer.joint_value(state[:, :-1], hidden[:, :-1], actions)
        td_error = joint - targets

        value = mixer.state_value(state[:, :-1])
        joint_best = mixer.joint_value(state[:, :-1], hidden[:, :-1], best[:, :-1])
        summed_best, summed_taken = (_summed(q[:, :-1], chosen) for chosen in (best[:, :-1], actions))
        opt_error = summed_best - lax.stop_gradient(joint_best) + value
        nopt_error = jnp.minimum(summed_taken - lax.stop_gradient(joint) + value, 0.0)

        td_loss, opt_loss, nopt_loss = (masked_mean(error**2, mask) for error in (td_error, opt_error, nopt_error))
        loss = td_loss + self.config.opt_loss * opt_loss + self.config.nopt_min_loss * nopt_loss
        metrics = {
            "loss": loss,
            "td_loss": td_loss,
            "opt_loss": opt_loss,
            "nopt_loss": nopt_loss,
            "td_error_abs": masked_mean(jnp.abs(td_error), mask),
            "q_taken_mean": masked_mean(joint, mask) / self.seats,
            "target_mean": masked_mean(targets, mask) / self.seats,
            "v_mean": masked_mean(value, mask),
            "agent_q_mean": masked_mean(summed_taken, mask) / self.seats,
        }
        return loss, metrics

    def _build_mixer(self, key: Array) -> PyTree:
        config = self.config
        player = jax.eval_shape(lambda: build_mac(config, self.spec, jax.random.PRNGKey(0), self.partners))
        sizes = MixerSizes(
            n_agents=self.seats,
            state_dim=self.spec.state_dim,
            embed_dim=config.mixing_embed_dim,
            seat_dim=jax.eval_shape(lambda: player.agent.initial(1)).shape[-1],
            n_actions=self.spec.n_actions,
            layers=_HIDDEN_LAYERS[config.network_size],
        )
        return QTranMixer(sizes, key=key)


def _summed(q: Array, actions: Array) -> Array:
    """The sum of the seats' values of their actions: [B, T, m, U] and [B, T, m] -> [B, T]."""
    return jnp.take_along_axis(q, actions[..., None], axis=-1)[..., 0].sum(axis=-1)
