"""Opponent models of the old OMG code: `vae.th`, `cvae.th`, `cond_rnn.th` and `fc.th`.

The names of its modules are not known here. What is known is their shapes, so that layers are taken in the order of
the file and recognised by shape; a file with other layers is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from omg.components.files import name_leaves
from omg.errors import UserError
from omg.exchange.layers import StateDict, check_finite
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel

VAE, CVAE, CONDITION, EMBED = "vae.th", "cvae.th", "cond_rnn.th", "fc.th"
MODEL_FILES = (CVAE, CONDITION, EMBED)

_PRIOR_LAYERS = ("encoder.0", "encoder.1", "mean_head", "log_var_head", "decoder.0", "decoder.1", "output")
_MODEL_LAYERS = {CVAE: ("mean_head", "log_var_head", "decoder"), EMBED: ("embed",)}
_UNIT = ("input_gates.weight", "hidden_gates.weight", "input_gates.bias", "hidden_gates.bias")


def prior_arrays(tensors: StateDict, prior: Prior, file: Path) -> dict[str, np.ndarray]:
    """The arrays of a prior by path, from `vae.th`.

    The old code took views as they are; the prior's statistics are therefore those of data with mean 0 and deviation 1.

    Args:
        tensors: The `state_dict`.
        prior: Shapes of ours.
        file: Where it comes from, for messages.

    Raises:
        UserError: a layer does not fit; names both shapes.
    """
    paths = [f"{layer}.{part}" for layer in _PRIOR_LAYERS for part in ("weight", "bias")]
    shapes = name_leaves(prior)
    width = shapes["statistics.mean"].shape
    statistics = {"rows": np.zeros(()), "mean": np.zeros(width), "variance": np.ones(width)}
    plain = {f"statistics.{name}": value.astype(np.float32) for name, value in statistics.items()}
    return _by_order(tensors, paths, shapes, file) | plain


def model_arrays(files: Mapping[str, StateDict], model: SubgoalModel, folder: Path) -> dict[str, np.ndarray]:
    """The arrays of an inference model by path, its prior's aside.

    Args:
        files: The `state_dict` of each of `MODEL_FILES`.
        model: Shapes of ours.
        folder: Where they come from, for messages.

    Raises:
        UserError: a layer does not fit; names both shapes.
    """
    shapes = name_leaves(model)
    found = _by_order(files[CONDITION], _UNIT, shapes, folder / CONDITION)
    for file, layers in _MODEL_LAYERS.items():
        paths = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
        found |= _by_order(files[file], paths, shapes, folder / file)
    return found


def _by_order(
    tensors: StateDict, paths: Sequence[str], shapes: Mapping[str, jax.ShapeDtypeStruct], file: Path
) -> dict[str, np.ndarray]:
    expected = [shapes[path].shape[::-1] for path in paths]
    given = [tensor.shape for tensor in tensors.values()]
    if len(given) != len(expected):
        raise UserError(
            f"{file}: it has {len(given)} tensors of shapes {given}; layers are recognised by their shapes in order, "
            f"and expected are {len(expected)}: {expected}."
        )
    found = {}
    for path, shape, (name, tensor) in zip(paths, expected, tensors.items(), strict=True):
        if tensor.shape != shape:
            raise UserError(
                f"{file}: '{name}' has shape {tensor.shape}; layers are recognised by their shapes in order, and "
                f"expected here is {shape} ({path}) with subgoal_dim and am_hidden_dim as they are set."
            )
        check_finite(str(file), name, tensor)
        found[path] = tensor.astype(np.float32).T
    return found
