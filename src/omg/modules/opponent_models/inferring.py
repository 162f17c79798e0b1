"""Which network infers what co-players are heading for, by `omg_inference`."""

from __future__ import annotations

from jax import Array

from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.cells import CellModel
from omg.modules.opponent_models.subgoal import SubgoalModel

Inferring = SubgoalModel | CellModel
CELLS = "cells"
"""The value of `omg_inference` whose subgoals are cells of the board: they need no prior."""


def new_inferring(sizes: ModelSizes, *, key: Array) -> Inferring:
    """A fresh network, without a prior."""
    return CellModel(sizes, key=key) if sizes.inference == CELLS else SubgoalModel(sizes, key=key).with_prior(None)
