"""Opponent models: what tells an agent about the other players.

A new one is a subclass of `base.SupervisedModel` and is built as `Class(sizes: ModelSizes, key=key)`.
Add its line to OPPONENT_MODELS; its name is then a value of the configuration key `am_model`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.modules.opponent_models.keys import (
    CodeKeys,
    EmbeddingKeys,
    FeatureKeys,
    InferenceKeys,
    MeLIBAKeys,
    ModelRateKeys,
    ModelWidthKeys,
    NaiveKeys,
    NormaliseKeys,
    RecallKeys,
)
from omg.registry import Entry, ModelTraining, ModelTraits, Registry

if TYPE_CHECKING:
    from omg.modules.opponent_models.base import OpponentModel


def no_model(*_: object, **__: object) -> None:
    """What `none_am` builds."""


_READING = (ModelRateKeys, ModelWidthKeys, FeatureKeys, NormaliseKeys)
_EMBEDDED = (*_READING, EmbeddingKeys)

OPPONENT_MODELS: Registry[Callable[..., OpponentModel | None], ModelTraits] = Registry(
    "am_model",
    {
        "none_am": Entry(no_model, ModelTraits(absent=True, training=ModelTraining.NONE), "no opponent model"),
        "base_am": Entry(
            "omg.modules.opponent_models.naive:NaiveModel",
            ModelTraits(sections=(*_EMBEDDED, NaiveKeys)),
            "the naive one: the others' next actions, from the own view",
        ),
        "liam_am": Entry(
            "omg.modules.opponent_models.liam:LIAMModel",
            ModelTraits(sections=_EMBEDDED, stores_others=True),
            "LIAM: what the others see and do, from the own history",
        ),
        "meliba_am": Entry(
            "omg.modules.opponent_models.meliba:MeLIBAModel",
            ModelTraits(sections=(*_READING, MeLIBAKeys)),
            "MeLIBA: a belief about what the others are and have in mind",
        ),
        "omg_am": Entry(
            "omg.modules.opponent_models.inferring:new_model",
            ModelTraits(
                sections=(ModelRateKeys, ModelWidthKeys, FeatureKeys, CodeKeys, InferenceKeys),
                training=ModelTraining.SUBGOALS,
            ),
            "OMG: which view the others are heading for",
        ),
        "recall_am": Entry(
            "omg.modules.opponent_models.recall:RecallModel",
            ModelTraits(sections=(*_READING, RecallKeys), infers_cells=True),
            "OMG's heir: where the others will end the round, as learned and as these others did so far",
        ),
        "identity_am": Entry(
            "omg.modules.opponent_models.identity:IdentityModel",
            ModelTraits(sections=(FeatureKeys,), told_players=True),
            "who the others are, told; a bound",
        ),
    },
)
"""Word of the key `am_model` -> what it means."""
