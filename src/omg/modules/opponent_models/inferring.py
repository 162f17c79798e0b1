"""Which network infers what the others are heading for, by `omg_inference`."""

from __future__ import annotations

from jax import Array

from omg.errors import UserError
from omg.modules.opponent_models.base import ModelSizes, OpponentModel
from omg.modules.opponent_models.cell_features import CellFeatures
from omg.modules.opponent_models.cells import CellModel
from omg.modules.opponent_models.subgoal import SubgoalModel

Inferring = SubgoalModel | CellModel
CELLS = "cells"
"""The value of `omg_inference` whose subgoals are cells of the board: they need no prior."""


def new_model(sizes: ModelSizes, *, key: Array) -> OpponentModel:
    """`omg_am` of an agent that does not search."""
    if sizes.inference == CELLS and sizes.map_shape is None:
        raise UserError(f"omg_inference: got {CELLS}, but the game shows its seats no map. Allowed: cvae, mlp.")
    return CellFeatures(sizes, key=key) if sizes.inference == CELLS else SubgoalModel(sizes, key=key)


def new_inferring(sizes: ModelSizes, *, key: Array) -> Inferring:
    """A fresh network of a player that searches, without a prior."""
    return CellModel(sizes, key=key) if sizes.inference == CELLS else SubgoalModel(sizes, key=key).with_prior(None)
