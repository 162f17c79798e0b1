"""`lola_learner`: PPO whose players reckon with how the others will learn (LOLA, Foerster et al., 2018).

Player i has parameters theta_i of its own and the value V_i(theta_1, ..., theta_n), the mean over episodes of the sum
of its rewards. It expects each co-player j to make one step of gradient ascent, lola_step grad_j V_j, and climbs what
the game is worth to it after those steps, to first order:

    grad_i V_i  +  lola_step  sum over j != i of  (grad_i grad_j V_j)^T grad_j V_i

All three factors are estimated from the round just played. With A the advantages and l_j(t) = log pi_j(a_j,t):

    grad_j V_i         = mean over episodes of  sum_t A_i(t) grad l_j(t)
    grad_i grad_j V_j  = mean over episodes of  sum_t sum_t' A_j(max(t, t')) grad l_i(t) grad l_j(t')^T

In the second line a later action of either player is weighed by the advantage from that action on: what was paid
before does not depend on it, and a baseline at the later of both steps changes no expectation. The product of both
needs no second derivatives. With d_ij(t) = grad l_j(t) . grad_j V_i, how far the action of j at t would become
likelier by a step in favour of i (a directional derivative of the network), the gradient is that of an ordinary
policy gradient with other advantages:

    A'_i(t) = A_i(t) + lola_step sum over j of ( A_j(t) sum_{t' <= t} d_ij(t')  +  sum_{t' > t} A_j(t') d_ij(t') )

PPO then makes its passes with A' in place of A; its first gradient is the one above, and with lola_step 0 it is PPO.
Where the added part is larger than lola_limit times the advantages (by the roots of their mean squares), the step of
this update is shortened so that it is not: the linear approximation means nothing for steps that large.

Letters in shapes: B episodes, T steps, A seats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components import masked_mean
from omg.components.selectors import multinomial_log_probabilities
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners.ppo import PPOLearner, PPOLessons
from omg.modules.agents.base import AgentNetwork

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class LOLALearner(PPOLearner):
    """PPO with advantages that reckon with one step of learning of every co-player; it has all seats."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        super().__init__(config, spec, team, partners)
        self.kept = self.kept._replace(packs=False)
        if self.team is not None:
            raise UserError(
                f"learner: got {config.learner} in the team '{config.team}', but it reckons with co-players who learn, "
                f"and those of a team are frozen. Allowed: a configuration with all seats, e.g. --config=lola; its "
                f"players can be members of a pool."
            )

    def _foresee(
        self, agent: AgentNetwork, lessons: PPOLessons, epsilon: Array | float
    ) -> tuple[PPOLessons, dict[str, Array]]:
        """See `PPOLearner._foresee`.

        Metrics: `lola_share`, the root of the mean square of what lola_step would add to the advantages, over that of
        the advantages; `lola_shift`, the mean over steps and pairs of |lola_step d_ij|.
        """
        mask, advantages = lessons.mask, lessons.advantages

        def log_taken(agent: AgentNetwork) -> Array:
            logits = lessons.views.run(agent, lessons.features)[0][:, :-1]
            log_pi = multinomial_log_probabilities(logits, lessons.avail, epsilon)
            taken = jnp.take_along_axis(log_pi, lessons.actions[..., None], axis=-1)[..., 0]
            # Padding may hold an illegal action, whose logarithm is no number to reckon with.
            return jnp.where(mask[..., None] > 0, taken, 0.0)

        shifts = self.config.lola_step * anticipated_shifts(log_taken, agent, advantages, mask)
        added = reactions(shifts, advantages)
        share = jnp.sqrt(masked_mean(added**2, mask) / jnp.maximum(masked_mean(advantages**2, mask), 1e-12))
        metrics = {"lola_share": share, "lola_shift": masked_mean(jnp.abs(shifts).mean(axis=2), mask)}
        shorter = jnp.minimum(1.0, self.config.lola_limit / jnp.maximum(share, 1e-12))
        return lax.stop_gradient(lessons._replace(advantages=advantages + shorter * added)), metrics


def anticipated_shifts(
    log_taken: Callable[[AgentNetwork], Array], agent: AgentNetwork, advantages: Array, mask: Array
) -> Array:
    """How much likelier each co-player's actions would become by its step in favour of each player.

    Args:
        log_taken: From the parameters of all seats, which share none, to the logarithms of the probabilities that the
            actions were drawn with, [B, T, A].
        agent: The parameters.
        advantages: [B, T, A], zero where nothing was played.
        mask: [B, T].

    Returns:
        d [B, T, A, A]: d[..., i, j] is the derivative of j's logarithm along grad_j V_i. Zero for i = j: nobody
        anticipates itself.
    """
    episodes, _, n_agents = advantages.shape
    log_pi, pull = jax.vjp(log_taken, agent)
    # The transpose of a transpose: a directional derivative by reverse mode, which every layer here supports.
    _, push = jax.vjp(lambda weights: pull(weights)[0], jnp.zeros_like(log_pi))

    def in_favour_of(own: Array) -> Array:
        """[B, T] advantages of one player -> [B, T, A], the derivatives of all seats' logarithms."""
        weights = jnp.broadcast_to((own * mask)[..., None] / episodes, log_pi.shape)
        derivatives: Array = push(pull(weights)[0])[0]
        return derivatives

    # One player after the other: side by side, each would need a copy of all that the network computed.
    by_player = lax.map(in_favour_of, jnp.moveaxis(advantages, -1, 0))
    return jnp.moveaxis(by_player, 0, 2) * (1.0 - jnp.eye(n_agents)) * mask[..., None, None]


def reactions(shifts: Array, advantages: Array) -> Array:
    """What the co-players' learning adds to each player's advantages.

    Args:
        shifts: [B, T, A, A], the step times d_ij(t): player i, then co-player j.
        advantages: [B, T, A].

    Returns:
        [B, T, A].
    """
    until_now = jnp.cumsum(shifts, axis=1)
    weighed = shifts * advantages[:, :, None]
    later = jnp.cumsum(weighed[:, ::-1], axis=1)[:, ::-1] - weighed
    return (until_now * advantages[:, :, None] + later).sum(axis=-1)
