"""Learners: how sampled episodes change parameters.

A new one satisfies `base.Learner` and is built as `Class(config, spec, team, partners)`, one that infers subgoals with
`learns_prior` behind these; it holds settings, never state. Add its line to LEARNERS, with what it says about itself
and the sections of the keys that it reads; its name is then a value of the configuration key `learner`. A new optimiser
is a function `(config, learning rate)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.learners.keys import (
    COMAKeys,
    CriticKeys,
    ForesightKeys,
    HOPKeys,
    InfluenceKeys,
    LimitKeys,
    LOLAKeys,
    PlayerKeys,
    PPOKeys,
    PR2Keys,
    QKeys,
    QReturnKeys,
    QTRANKeys,
    RMSPropKeys,
    SubgoalKeys,
    SubgoalReadingKeys,
    SubgoalValueKeys,
    TargetKeys,
    TogetherKeys,
)
from omg.modules.agents.keys import SecondLayerKeys
from omg.modules.mixers.keys import MixingKeys
from omg.modules.opponent_models.keys import CodeKeys, ModelRateKeys
from omg.registry import Entry, LearnerTraits, ModelTraining, OptimiserTraits, Registry

if TYPE_CHECKING:
    import optax

    from omg.config import Config
    from omg.controllers.draw import TeamDraw
    from omg.envs.base import EnvSpec
    from omg.learners.base import Learner

    Build = Callable[..., Learner]
    BuildOptimiser = Callable[[Config, float], optax.GradientTransformation]

_QTRAN = (PlayerKeys, TargetKeys, LimitKeys, QKeys)
_Q = (*_QTRAN, QReturnKeys)
_PPO = (PlayerKeys, CriticKeys, LimitKeys, PPOKeys)

LEARNERS: Registry[Build, LearnerTraits] = Registry(
    "learner",
    {
        "q_learner": Entry(
            "omg.learners.q:QLearner",
            LearnerTraits(sections=_Q, mixes=True),
            "Q-learning: IQL, VDN, QMIX; with an opponent model beside it",
        ),
        "q_learner_4am": Entry(
            "omg.learners.q:QLearner",
            LearnerTraits(sections=_Q, mixes=True),
            "the same, by the name it has beside opponent models",
        ),
        "qtran_learner": Entry(
            "omg.learners.qtran:QTranLearner",
            LearnerTraits(sections=(*_QTRAN, QTRANKeys, MixingKeys), one_team_value=True),
            "QTRAN: a joint value of any shape that the seats' values agree with",
        ),
        "coma_learner": Entry(
            "omg.learners.coma:COMALearner",
            LearnerTraits(
                sections=(PlayerKeys, TargetKeys, CriticKeys, LimitKeys, COMAKeys),
                on_policy=True,
                learns_probabilities=True,
                models=ModelTraining.NONE,
            ),
            "COMA: policies judged by a central critic of counterfactual actions",
        ),
        "ppo_learner": Entry(
            "omg.learners.ppo:PPOLearner",
            LearnerTraits(sections=_PPO, on_policy=True, learns_probabilities=True),
            "PPO: IPPO, MAPPO; with an opponent model beside it",
        ),
        "omg_learner": Entry(
            "omg.learners.omg:OMGLearner",
            LearnerTraits(
                sections=(*_Q, SubgoalKeys, SubgoalReadingKeys, SubgoalValueKeys),
                models=ModelTraining.SUBGOALS,
                mixes=False,
            ),
            "OMG on Q-learning: Q(s, subgoal, a)",
        ),
        "omg_ppo_learner": Entry(
            "omg.learners.omg_ppo:OMGPPOLearner",
            LearnerTraits(
                sections=(*_PPO, SubgoalKeys, SubgoalReadingKeys, ForesightKeys),
                on_policy=True,
                learns_probabilities=True,
                models=ModelTraining.SUBGOALS,
                reads_cells=True,
            ),
            "OMG on PPO: policy and critic read the inferred subgoal",
        ),
        "influence_learner": Entry(
            "omg.learners.influence:InfluenceLearner",
            LearnerTraits(
                sections=(*_PPO, InfluenceKeys, SecondLayerKeys, ModelRateKeys),
                on_policy=True,
                learns_probabilities=True,
            ),
            "social influence: PPO that is also paid for moving what the others do",
        ),
        "lola_learner": Entry(
            "omg.learners.lola:LOLALearner",
            LearnerTraits(sections=(*_PPO, LOLAKeys), on_policy=True, learns_probabilities=True, own_networks=True),
            "LOLA: PPO that reckons with one step of its co-players' learning",
        ),
        "pr2_learner": Entry(
            "omg.learners.pr2:PR2Learner",
            LearnerTraits(
                sections=(PlayerKeys, TargetKeys, CriticKeys, LimitKeys, PR2Keys, SecondLayerKeys, ModelRateKeys),
                learns_probabilities=True,
                models=ModelTraining.NONE,
            ),
            "PR2: what the others would answer to each own action",
        ),
        "am_learner": Entry(
            "omg.learners.prior:PriorLearner",
            LearnerTraits(sections=(CodeKeys, ModelRateKeys), watches=True, models=ModelTraining.SUBGOALS),
            "the prior of subgoals, from the games of a pool",
        ),
        "hop_learner": Entry(
            "omg.learners.hop:HOPLearner",
            LearnerTraits(
                sections=(PlayerKeys, HOPKeys),
                on_policy=True,
                plans=True,
                learns_probabilities=True,
                models=ModelTraining.NONE,
                controller="hop_mac",
            ),
            "HOP: networks of a player that searches the game",
        ),
        "hop_plus_learner": Entry(
            "omg.learners.hop_plus:HOPPlusLearner",
            LearnerTraits(
                sections=(PlayerKeys, HOPKeys, SubgoalKeys, TogetherKeys),
                on_policy=True,
                plans=True,
                learns_probabilities=True,
                models=ModelTraining.SUBGOALS,
                reads_cells=True,
                controller="hop_mac",
            ),
            "HOP+: the same with subgoals in the place of goals",
        ),
    },
)
"""Word of the key `learner` -> what it means."""

OPTIMISERS: Registry[BuildOptimiser, OptimiserTraits] = Registry(
    "optimizer",
    {
        "rmsprop": Entry("omg.learners.optimisers:rmsprop", OptimiserTraits(sections=(RMSPropKeys,)), "as in PyTorch"),
        "adam": Entry("omg.learners.optimisers:adam", OptimiserTraits(moments=True), "Adam"),
    },
)
"""Word of the key `optimizer` -> what it means."""


def build_learner(
    config: Config,
    spec: EnvSpec,
    team: TeamDraw | None = None,
    partners: int = 0,
    *,
    learns_prior: bool = False,
) -> Learner:
    """Builds the learner that `config.learner` names.

    Args:
        config: Its settings.
        spec: The game.
        team: How the seats are filled; None when the learner has all of them.
        partners: Number of different players in the other seats.
        learns_prior: Whether one that infers subgoals learns their prior along, because there is no pre-trained one.
    """
    build = LEARNERS[config.learner].build
    if config.learner_part.infers_subgoals:
        return build(config, spec, team, partners, learns_prior)
    return build(config, spec, team, partners)
