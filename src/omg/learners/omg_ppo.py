"""`omg_ppo_learner`: PPO whose policy and critic read the subgoal that the opponent model infers.

What is selected and inferred is described in `omg.learners.subgoals`; here V(s_t, g) is what the critic says. Policy
and critic learn with the same subgoals (with `omg_inference: cells` always with what is inferred); the probabilities
that actions were drawn with are computed with them, too.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from jax import Array

from omg.components import EpisodeBatch
from omg.controllers.basic import BasicMAC
from omg.controllers.others import OthersPlaces, OthersSteps, subgoal_steps
from omg.controllers.reading import SeatViews
from omg.learners.ppo import PPOLearner, PPOState
from omg.learners.seats import ModelTrainer
from omg.learners.subgoals import SubgoalTraining
from omg.learners.supervised import SupervisedTraining
from omg.modules.critics.base import Critic

if TYPE_CHECKING:
    from omg.config import Config
    from omg.controllers.draw import TeamDraw
    from omg.envs.base import EnvSpec


class OMGPPOLearner(PPOLearner):
    """PPO with inferred subgoals."""

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

    def _training(self) -> ModelTrainer[PPOState]:
        if not self.config.wants_prior:
            return SupervisedTraining(self.config)
        return SubgoalTraining(self.config, self.spec, self.candidate_values, self.learns_prior)

    def reads_others(self) -> OthersSteps | OthersPlaces | None:
        """How updates read what subgoals stand for; see `subgoal_of`."""
        return subgoal_steps(self.config, self.spec)

    def candidate_values(
        self, state: PPOState, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, inferred: Array, goals: Array
    ) -> Array:
        """V(s_t, g) of all candidates by the critic, [B, T, H, m]; see `subgoals.CandidateValues`."""
        reading, model = mac.reading, mac.opponent_model
        inputs = self.critic_inputs(batch, views, reading.features(model, views, inferred))
        tried = reading.features(model, views, goals, self.config.omg_horizon)
        assert tried is not None
        critic = cast(Critic, state.critic)
        return state.scale.stretch(critic.try_features(inputs, tried, views.seats))
