"""`omg_learner`: Q-learning of Q(s, g, a), where g is the subgoal that the opponent model infers.

What is selected and inferred is described in `omg.learners.subgoals`; here

- *selector*: V(s_t, g) is the mean (`omg_value`) of Q(s_t, g, a) over legal a;
- *Q*: y_t = r_t + gamma max_a Q'(s_{t+1}, g_t, a), the same g on both sides or the next step's (`omg_bootstrap`),
  everything else as in `q_learner`.

The recurrent state is carried along the subgoals that Q learns with; the selector's along the inferred ones, which are
the ones that were acted on. All H candidates of all steps, and Q of the next
states with the same g, start from it and are one evaluation of the recurrent cell each, not loops.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon, U actions.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from omg.components import EpisodeBatch
from omg.controllers.basic import BasicMAC
from omg.controllers.reading import SeatViews, candidates
from omg.learners.q import QLearner, QState
from omg.learners.subgoals import SubgoalLearner, SubgoalTraining
from omg.modules.agents.base import AgentNetwork
from omg.modules.opponent_models.subgoal import state_value


class OMGLearner(SubgoalLearner, QLearner):
    """Q-learning with inferred subgoals."""

    training: SubgoalTraining[QState]

    def _training(self) -> SubgoalTraining[QState]:
        return SubgoalTraining(self.config, self.candidate_values)

    def candidate_values(
        self, state: QState, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, inferred: Array, goals: Array
    ) -> Array:
        """V(s_t, g) of all candidates by Q, [B, T, H, m]; see `subgoals.CandidateValues`."""
        agent, model = mac.agent, mac.opponent_model
        assert model is not None
        rest, (along, tried) = mac.reading.weigh(agent, model, views, inferred, goals)
        tried = candidates(tried, self.config.omg_horizon)
        steps = tried.shape[1]
        hidden = views.remember(agent, agent.activate(rest + along, views.seats))
        before = jnp.concatenate([jnp.zeros_like(hidden[:, :1]), hidden[:, : steps - 1]], axis=1)
        seats = None if views.seats is None else views.seats[:, None]
        gates_in = agent.activate(rest[:, :steps, None] + tried, seats)
        q = agent.head(agent.step(gates_in, before[:, :, None], seats), seats)
        return state_value(q, views.own(batch.avail[:, :steps])[:, :, None], self.config.omg_value)

    def _values(
        self, agent: AgentNetwork, mac: BasicMAC, views: SeatViews, inferred: Array | None
    ) -> tuple[Array, Array]:
        if self.config.omg_bootstrap == "next":
            return super()._values(agent, mac, views, inferred)
        assert mac.opponent_model is not None
        assert inferred is not None
        rest, (told,) = mac.reading.weigh(agent, mac.opponent_model, views, inferred)
        hidden = views.remember(agent, agent.activate(rest + told, views.seats))
        q = agent.head(hidden, views.seats)
        # One step from the state behind (s_t, g_t), with what is seen next but the same subgoal; only targets use it.
        agent, rest, told, before = lax.stop_gradient((agent, rest[:, 1:], told[:, :-1], hidden[:, :-1]))
        gates_in = agent.activate(rest + told, views.seats)
        return q, agent.head(agent.step(gates_in, before, views.seats), views.seats)
