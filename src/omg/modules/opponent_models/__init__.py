"""Opponent models: what tells an agent about the other players.

A new one is a subclass of `base.SupervisedModel` and is built as `Class(sizes: ModelSizes, key=key)`.
Add its line to OPPONENT_MODELS; its name is then a value of the configuration key `am_model` (besides `none_am`).
"""

from __future__ import annotations

from omg.modules.opponent_models.base import (
    ModelInputs,
    ModelSizes,
    ModelTargets,
    OpponentModel,
    SupervisedModel,
    others_of,
    others_one_hot,
    own_action,
)
from omg.modules.opponent_models.identity import IdentityModel
from omg.modules.opponent_models.liam import LIAMModel
from omg.modules.opponent_models.naive import NaiveModel
from omg.modules.opponent_models.prior import InputStatistics, Prior
from omg.modules.opponent_models.subgoal import SubgoalInference, SubgoalModel, pick_offset, state_value

__all__ = [
    "NO_MODEL",
    "OPPONENT_MODELS",
    "IdentityModel",
    "InputStatistics",
    "ModelInputs",
    "ModelSizes",
    "ModelTargets",
    "OpponentModel",
    "Prior",
    "SubgoalInference",
    "SubgoalModel",
    "SupervisedModel",
    "others_of",
    "others_one_hot",
    "own_action",
    "pick_offset",
    "state_value",
]

NO_MODEL = "none_am"

OPPONENT_MODELS: dict[str, type[OpponentModel]] = {
    "base_am": NaiveModel,
    "liam_am": LIAMModel,
    "omg_am": SubgoalModel,
    "identity_am": IdentityModel,
}
