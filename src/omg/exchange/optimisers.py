"""The state of PyTorch's RMSprop and Adam, and ours: running averages, one for each parameter.

PyTorch numbers the parameters of a learner in the order in which its modules register them; old versions use other
numbers than 0, 1, 2 ..., but list them in that order. Ours is found by the path of the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from omg.config import Config
from omg.exchange.layers import Link
from omg.exchange.torch_files import Stored
from omg.registry import OptimiserTraits
from omg.registry.table import traits

_SQUARES = {"square_avg": "nu"}
_MOMENTS = {"exp_avg": "mu", "exp_avg_sq": "nu"}
"""PyTorch's names of the running averages -> ours: of RMSProp, which has one; of Adam, which has two."""
_COUNT = "count"

Parameters = Sequence[tuple[str, Link]]
"""The parameters in PyTorch's order: our path of the module that a parameter is in, with its dot, and its link."""


_OTHER = "it is no state of {} with one group of parameters"


class UnusableError(Exception):
    """The state does not fit; says why."""


class Averages(NamedTuple):
    """What an optimiser of PyTorch's keeps of one parameter."""

    steps: int
    averages: Mapping[str | float, Stored]
    """Running averages by PyTorch's name."""


def _slots(optimizer: str) -> Mapping[str, str]:
    return _MOMENTS if traits("optimizer", optimizer, OptimiserTraits).moments else _SQUARES


def _rows_of(stored: Stored, optimizer: str) -> list[Averages]:
    """The state of every parameter in their order, out of a `state_dict` of an optimiser."""
    match stored:
        case {"param_groups": [{"params": list(order)}], "state": dict(states)}:
            rows = [states.get(number) for number in order if isinstance(number, str | float | int)]
            if len(rows) == len(order):
                return [_averages_of(row, optimizer) for row in rows]
    raise UnusableError(_OTHER.format(optimizer))


def _averages_of(row: Stored, optimizer: str) -> Averages:
    if isinstance(row, dict):
        steps = row.get("step")
        if isinstance(steps, np.ndarray) and steps.size == 1:
            steps = steps.item()
        if isinstance(steps, int) or (isinstance(steps, float) and math.isfinite(steps)):
            return Averages(int(steps), {name: value for name, value in row.items() if name != "step"})
    raise UnusableError(_OTHER.format(optimizer))


def optimiser_to_ours(
    stored: Stored, parameters: Parameters, prefix: str, wanted: Mapping[str, jax.ShapeDtypeStruct], optimizer: str
) -> dict[str, np.ndarray]:
    """Our optimiser's arrays by path.

    Args:
        stored: The `state_dict` of PyTorch's optimiser.
        parameters: What it has averages of.
        prefix: Path of our optimiser's state, with its dot: `opt_state.0.`.
        wanted: Shapes of our learner's state by path.
        optimizer: `rmsprop` or `adam`.

    Raises:
        UnusableError: it is of another optimiser, or of other parameters.
    """
    slots = _slots(optimizer)
    rows = _rows_of(stored, optimizer)
    if any(set(row.averages) != set(slots) for row in rows):
        if any(set(slots) - set(row.averages) for row in rows):
            raise UnusableError(_OTHER.format(optimizer))
        raise UnusableError(f"it has further averages, which {optimizer} as it is set here does not have")
    if len(rows) != len(parameters):
        raise UnusableError(f"it is for {len(rows)} parameters, the networks have {len(parameters)}")
    steps = {row.steps for row in rows}
    if len(steps) != 1 or not 0 <= min(steps) < 2**31:
        raise UnusableError("its parameters have not all taken the same number of steps")
    found: dict[str, np.ndarray] = {}
    for (module, link), row in zip(parameters, rows, strict=True):
        for theirs, ours in slots.items():
            name = f"{prefix}{ours}.{module}{link.ours}"
            shape, tensor = wanted[name].shape, row.averages[theirs]
            own = shape if link.seat is None else shape[1:]
            if not isinstance(tensor, np.ndarray) or tensor.shape != own[::-1] or not np.isfinite(tensor).all():
                raise UnusableError(f"its average for '{link.theirs}' is not finite or not of shape {own[::-1]}")
            if link.seat is None:
                found[name] = tensor.astype(np.float32).T
            else:
                found.setdefault(name, np.zeros(shape, np.float32))[link.seat] = tensor.T
    # RMSprop here does not count; the number goes back out with an export.
    counter = f"{prefix}{_COUNT}" if f"{prefix}{_COUNT}" in wanted else "updates"
    found[counter] = np.asarray(steps.pop(), np.int32)
    return found


def optimiser_to_theirs(
    arrays: Mapping[str, np.ndarray], parameters: Parameters, prefix: str, config: Config, lr: float, steps: int
) -> dict[str, object]:
    """The `state_dict` of PyTorch's optimiser, from our learner's arrays; arguments as above.

    Args:
        arrays: Our learner's state by path.
        parameters: As above.
        prefix: As above.
        config: Its settings.
        lr: Its learning rate.
        steps: Updates so far.
    """
    state: dict[int, dict[str, object]] = {}
    for number, (module, link) in enumerate(parameters):
        state[number] = {"step": steps}
        for theirs, ours in _slots(config.optimizer).items():
            array = np.asarray(arrays[f"{prefix}{ours}.{module}{link.ours}"], np.float32)
            state[number][theirs] = np.ascontiguousarray((array if link.seat is None else array[link.seat]).T)
    own: dict[str, object] = {"momentum": 0, "alpha": config.optim_alpha, "eps": config.optim_eps, "centered": False}
    if _slots(config.optimizer) is _MOMENTS:
        own = {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False}
    group = {"lr": lr, **own, "weight_decay": 0, "params": list(range(len(parameters)))}
    return {"state": state, "param_groups": [group]}
