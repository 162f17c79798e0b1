"""Learners: how sampled episodes change parameters.

A new one satisfies `base.Learner` and is built as `Class(config, spec, team, partners)`; it holds settings, never
state. Add its line to LEARNERS; its name is then a value of the configuration key `learner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.errors import unknown_name
from omg.learners.base import Kept, Learner
from omg.learners.coma import COMALearner, COMAState
from omg.learners.hop import HOPLearner, HOPState
from omg.learners.hop_plus import HOPPlusLearner, HOPPlusState
from omg.learners.influence import InfluenceLearner
from omg.learners.lola import LOLALearner
from omg.learners.omg import OMGLearner
from omg.learners.omg_ppo import OMGPPOLearner
from omg.learners.ppo import PPOLearner, PPOState
from omg.learners.pr2 import PR2Learner, PR2State
from omg.learners.prior import PriorLearner, PriorState
from omg.learners.q import QLearner, QState
from omg.learners.qtran import QTranLearner
from omg.learners.subgoals import SubgoalLearner

if TYPE_CHECKING:
    from omg.config import Config
    from omg.controllers import TeamDraw
    from omg.envs.base import EnvSpec

__all__ = [
    "LEARNERS",
    "COMALearner",
    "COMAState",
    "HOPLearner",
    "HOPPlusLearner",
    "HOPPlusState",
    "HOPState",
    "InfluenceLearner",
    "Kept",
    "LOLALearner",
    "Learner",
    "OMGLearner",
    "OMGPPOLearner",
    "PPOLearner",
    "PPOState",
    "PR2Learner",
    "PR2State",
    "PriorLearner",
    "PriorState",
    "QLearner",
    "QState",
    "QTranLearner",
    "SubgoalLearner",
    "build_learner",
]

LEARNERS: dict[str, Callable[[Config, EnvSpec, TeamDraw | None, int], Learner]] = {
    "q_learner": QLearner,
    "q_learner_4am": QLearner,
    "qtran_learner": QTranLearner,
    "coma_learner": COMALearner,
    "ppo_learner": PPOLearner,
    "omg_learner": OMGLearner,
    "omg_ppo_learner": OMGPPOLearner,
    "influence_learner": InfluenceLearner,
    "lola_learner": LOLALearner,
    "pr2_learner": PR2Learner,
    "am_learner": PriorLearner,
    "hop_learner": HOPLearner,
    "hop_plus_learner": HOPPlusLearner,
}


def build_learner(config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0) -> Learner:
    """Builds the learner that `config.learner` names.

    Args:
        config: Its settings.
        spec: The game.
        team: How the seats are filled; None when the learner has all of them.
        partners: Number of different players in the other seats.
    """
    if config.learner not in LEARNERS:
        raise unknown_name("learner", config.learner, LEARNERS)
    return LEARNERS[config.learner](config, spec, team, partners)
