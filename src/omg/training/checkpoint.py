"""Resumable checkpoints: the whole `RunState` and the host's counters, written atomically, checked when read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from omg.components.files import (
    ShapeMismatch,
    checksum,
    fill_leaves,
    load_arrays,
    name_leaves,
    new_folder,
    save_arrays,
    write_json,
)
from omg.errors import UserError
from omg.training.program import RunState

_STATE, _META = "state.safetensors", "checkpoint.json"
_BUFFER_PREFIX = "storage."


def save_checkpoint(folder: Path, state: RunState, host: dict[str, Any], *, with_buffer: bool, keep: int) -> Path:
    """Writes one checkpoint under `folder` and removes all but the newest `keep`.

    Rows of the replay buffer that were never filled are left out. A crash at any moment leaves the older checkpoints
    intact.
    """
    name = f"{int(np.asarray(state.episodes)):012d}"
    arrays = {leaf: np.asarray(value) for leaf, value in name_leaves(state).items()}
    used = int(np.asarray(state.episodes))
    for leaf in [leaf for leaf in arrays if leaf.startswith(_BUFFER_PREFIX)]:
        if with_buffer:
            arrays[leaf] = arrays[leaf][:, :used]
        else:
            del arrays[leaf]
    with new_folder(folder / name) as staging:
        digest = save_arrays(staging / _STATE, arrays)
        write_json(staging / _META, {"format": 1, "sha256": digest, "with_buffer": with_buffer, "host": host})
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return folder / name


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir()) if folder.is_dir() else []


def load_newest(
    folder: Path, template: Any, say: Callable[[str], None]
) -> tuple[RunState, dict[str, Any]] | None:
    """The newest checkpoint that is whole; damaged ones are reported through `say` and passed over.

    Args:
        folder: the run's checkpoint folder.
        template: shapes of the `RunState` (from `jax.eval_shape`).
        say: receives one message per damaged checkpoint.

    Returns:
        The state (on the default device) and the host's counters, or None when there is no checkpoint at all.
    """
    candidates = list_checkpoints(folder)
    for path in reversed(candidates):
        problem = _damage(path)
        if problem is None:
            return _read(path, template)
        say(f"checkpoint {path.name} is damaged ({problem}); using the one before it")
    if candidates:
        raise UserError(f"All {len(candidates)} checkpoints in {folder} are damaged; the run cannot be resumed.")
    return None


def _damage(path: Path) -> str | None:
    try:
        meta = json.loads((path / _META).read_text())
        expected = meta["sha256"]
    except (OSError, ValueError, KeyError) as error:
        return f"{_META}: {error}"
    if not (path / _STATE).is_file():
        return f"{_STATE} is missing"
    return None if checksum(path / _STATE) == expected else f"{_STATE} does not match its checksum"


def _read(path: Path, template: Any) -> tuple[RunState, dict[str, Any]]:
    meta = json.loads((path / _META).read_text())
    arrays = load_arrays(path / _STATE)
    for leaf, shape in name_leaves(template).items():
        if leaf.startswith(_BUFFER_PREFIX):
            full = np.zeros(shape.shape, np.uint16 if shape.dtype == jax.numpy.bfloat16 else shape.dtype)
            if leaf in arrays:
                full[:, : arrays[leaf].shape[1]] = arrays[leaf]
            arrays[leaf] = full
    try:
        state = fill_leaves(template, arrays)
    except ShapeMismatch as error:
        raise UserError(f"Checkpoint {path} does not fit this configuration: {error}.") from None
    return jax.device_put(state), meta["host"]
