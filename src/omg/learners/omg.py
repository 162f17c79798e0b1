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

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch
from omg.controllers.basic import BasicMAC
from omg.controllers.others import OthersPlaces, OthersSteps, subgoal_steps
from omg.controllers.reading import SeatViews, candidates, state_value
from omg.learners.q import QLearner, QState
from omg.learners.subgoals import SubgoalTraining

if TYPE_CHECKING:
    from omg.config import Config
    from omg.controllers.draw import TeamDraw
    from omg.envs.base import EnvSpec


class OMGLearner(QLearner):
    """Q-learning with inferred subgoals."""

    training: SubgoalTraining[QState]

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        team: TeamDraw | None = None,
        partners: int = 0,
        learns_prior: bool = False,
    ):
        # Before everything else: the training of the model is built along with it.
        self.learns_prior = learns_prior
        super().__init__(config, spec, team, partners)
        self.keeps_inferred = config.omg_bootstrap == "same"

    def _training(self) -> SubgoalTraining[QState]:
        return SubgoalTraining(self.config, self.spec, self.candidate_values, self.learns_prior)

    def reads_others(self) -> OthersSteps | OthersPlaces | None:
        """How updates read what subgoals stand for; see `subgoal_of`."""
        return subgoal_steps(self.config, self.spec)

    def candidate_values(
        self, state: QState, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, inferred: Array, goals: Array
    ) -> Array:
        """V(s_t, g) of all candidates by Q, [B, T, H, m]; see `subgoals.CandidateValues`."""
        agent, model = mac.agent, mac.opponent_model
        assert model is not None
        rest, (along, tried) = mac.reading.weigh(agent, model, views, inferred, goals)
        tried = candidates(tried, self.config.omg_horizon)
        steps = tried.shape[1]
        hidden = agent.unroll(agent.activate(rest + along, views.seats), None, views.seats)
        before = jnp.concatenate([jnp.zeros_like(hidden[:, :1]), hidden[:, : steps - 1]], axis=1)
        seats = None if views.seats is None else views.seats[:, None]
        gates_in = agent.activate(rest[:, :steps, None] + tried, seats)
        q = agent.head(agent.step(gates_in, before[:, :, None], seats), seats)
        return state_value(q, views.own(batch.avail[:, :steps])[:, :, None], self.config.omg_value)
