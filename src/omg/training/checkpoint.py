"""Resumable checkpoints: the whole `RunState` and the host's counters, written atomically, checked when read.

A checkpoint is a folder named after the number of episodes: `state.safetensors` (every array of the state),
`host.json` (the host's counters) and `checkpoint.json` with the checksums of the two.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike
from safetensors import SafetensorError, safe_open

from omg.components.counts import Count
from omg.components.files import (
    ShapeMismatchError,
    check_leaves,
    checksum,
    fill_leaves,
    load_arrays,
    name_leaves,
    new_folder,
    read_json,
    remove_leftovers,
    save_arrays,
    write_json,
)
from omg.components.headers import DamagedFileError, StoredArray, read_header
from omg.components.tensors import nothing
from omg.envs.trust import check_bytes
from omg.errors import UserError
from omg.names import check_links
from omg.types import PyTree, Tree

if TYPE_CHECKING:
    from omg.training.state import RunState

_STATE, _HOST, _MANIFEST = "state.safetensors", "host.json", "checkpoint.json"
_FORMAT = 1
T = TypeVar("T")
_BUFFER_PREFIX = "storage."
_LEARNER_PREFIX = "learner."
_STEPS = "t_env"


class Snapshot(NamedTuple):
    """What a checkpoint holds of a state."""

    episodes: int
    arrays: dict[str, np.ndarray]


Part = tuple[slice | EllipsisType, ...]
"""Of an array: all of it, or the rows of a replay buffer that were filled."""
Take = Callable[[str, jax.Array, Part], np.ndarray]
"""(path, leaf, part) -> that part of the leaf."""


def _seen(name: str, leaf: jax.Array, part: Part) -> np.ndarray:
    return np.asarray(leaf)[part]


def snapshot(state: RunState, *, with_buffer: bool, take: Take = _seen) -> Snapshot:
    """What is saved of a state: all but the rows of the replay buffer that were never filled, and `tuned`.

    Args:
        state: of the run.
        with_buffer: whether the replay buffer is.
        take: makes arrays of its leaves. Those that are only looked at are the state's own memory on a CPU, which
            changes when it is donated.
    """
    arrays = {}
    filled: Part = (slice(None), slice(int(np.asarray(state.stored))))
    for name, leaf in name_leaves(state._replace(tuned=None)).items():
        stored = name.startswith(_BUFFER_PREFIX)
        if with_buffer or not stored:
            arrays[name] = take(name, leaf, filled if stored else (...,))
    return Snapshot(int(np.asarray(state.episodes)), arrays)


def save_checkpoint(folder: Path, state: RunState, host: Tree, *, with_buffer: bool, keep: int) -> Path:
    """Writes one checkpoint of a state; see `write_checkpoint`."""
    return write_checkpoint(folder, snapshot(state, with_buffer=with_buffer), host, keep=keep)


def write_checkpoint(
    folder: Path, saved: Snapshot, host: Tree, *, keep: int, between: Callable[[], None] = nothing
) -> Path:
    """Writes one checkpoint under `folder` and removes all but the newest `keep`.

    A crash at any moment leaves the older checkpoints intact. What stands in the way goes: leftovers of killed
    processes, and later checkpoints, which can only be damaged ones that a resume has passed over.

    Args:
        folder: the run's checkpoint folder.
        saved: of the state.
        host: the host's counters.
        keep: number of newest checkpoints that stay.
        between: called before every block of the file; what it raises ends the writing and leaves nothing behind.

    Raises:
        UserError: the disk does not take it.
    """
    path = folder / f"{saved.episodes:012d}"
    try:
        with new_folder(path) as staging:
            digest = save_arrays(staging / _STATE, saved.arrays, between)
            write_json(staging / _HOST, host)
            files = {_STATE: digest, _HOST: checksum(staging / _HOST)}
            write_json(staging / _MANIFEST, {"format": _FORMAT, "files": files})
        remove_leftovers(folder)
        checkpoints = list_checkpoints(folder)
        position = checkpoints.index(path)
        for other in [*checkpoints[: max(position + 1 - keep, 0)], *checkpoints[position + 1 :]]:
            shutil.rmtree(other)
    except OSError as error:
        raise UserError(
            f"The checkpoint {path} cannot be written: {error.strerror or error}. Once it can, "
            "continue with omg resume."
        ) from None
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run, oldest first.

    Raises:
        UserError: something in the folder is a link that leads out of it.
    """
    check_links(folder)
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir()) if folder.is_dir() else []


def load_newest(
    folder: Path,
    template: RunState,
    say: Callable[[str], None],
    place: Callable[[RunState], RunState] = jax.device_put,
) -> tuple[RunState, Tree] | None:
    """The newest checkpoint that is whole; damaged ones are reported through `say` and passed over.

    Args:
        folder: the run's checkpoint folder.
        template: shapes of the `RunState` (from `jax.eval_shape`).
        say: receives one message per damaged checkpoint.
        place: brings what was read to its devices.

    Returns:
        The state (where `place` has brought it; without `tuned`) and the host's counters, or None when there is no
        checkpoint at all.

    Raises:
        UserError: all of them are damaged, or made for another configuration.
    """
    candidates = list_checkpoints(folder)
    for path in reversed(candidates):
        problem = _damage(path)
        if problem is None:
            try:
                state, host = _read(path, template._replace(tuned=None), say)
            except (OSError, ValueError) as error:  # Damaged before its checksum was taken.
                problem = f"it cannot be read: {error}"
            else:
                return place(state), host
        say(f"checkpoint {path.name} is damaged ({problem}); using the one before it")
    if candidates:
        raise UserError(f"All {len(candidates)} checkpoints in {folder} are damaged; the run cannot be resumed.")
    return None


def newest_learner(folder: Path, index: int) -> dict[str, np.ndarray] | None:
    """What the learner of one seed was at the newest checkpoint that is whole, by path without the seeds' axis.

    Nothing else of the checkpoint is read: its replay buffer may be large.

    Args:
        folder: the run's checkpoint folder.
        index: of the seed among those of the run.

    Returns:
        None when there is no such checkpoint.
    """
    for path in reversed(list_checkpoints(folder)):
        if _damage(path) is not None:
            continue
        try:
            return {name: values[index] for name, values in learner_arrays(path).items()}
        except (DamagedFileError, OSError, IndexError):  # Damaged before its checksum was taken.
            continue
    return None


def whole_checkpoint(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint are there and as they were written."""
    return _damage(checkpoint) is None


def saved_step(checkpoint: Path) -> int:
    """Environment steps at which a checkpoint was written, of the seed that had the fewest; -1 if it does not say."""
    try:
        return int(read_json(checkpoint / _HOST)["last_save"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def checkpoint_at(folder: Path, step: int) -> Path:
    """The checkpoint of a step: written at it, or the last one before it; 0 for the newest.

    Raises:
        UserError: there is none; names the steps that are saved.
    """
    if step < 0:
        raise UserError(f"step: got {step}. Allowed: 0 (the newest) or more.")
    steps = {path: saved_step(path) for path in list_checkpoints(folder) if _damage(path) is None}
    if not steps:
        raise UserError(f"{folder} has no whole checkpoint, so that no step can be loaded.")
    fitting = [path for path, saved in steps.items() if step == 0 or saved <= step]
    if not fitting:
        shown = ", ".join(map(str, steps.values()))
        raise UserError(
            f"{folder} has no checkpoint at step {step} or before. Saved steps: {shown}. keep_checkpoints says how "
            f"many are kept, save_model_interval how often they are written."
        )
    return fitting[-1]


def learner_arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    """What the learners of all seeds were at a checkpoint, [Z, ...] by path; nothing else of it is read.

    Raises:
        DamagedFileError: it is no such file.
        UserError: it holds more than any learner here has, and the user has not said that it is to be trusted.
    """
    state = checkpoint / _STATE
    stored = read_header(state)
    names = [name for name in stored if name.startswith(_LEARNER_PREFIX)]
    check_bytes(state, sum(stored[name].end - stored[name].begin for name in names))
    return {name.removeprefix(_LEARNER_PREFIX): values for name, values in _tensors(state, names).items()}


def state_counters(checkpoint: Path) -> tuple[np.ndarray, np.ndarray]:
    """Steps of every seed, [Z] int64, and episodes, [], at a checkpoint.

    Raises:
        DamagedFileError: it does not say.
    """
    state = checkpoint / _STATE
    names = [_STEPS] if _STEPS in read_header(state) else [f"{_STEPS}.high", f"{_STEPS}.low"]
    found = _wide_steps(_tensors(state, [*names, "episodes"]), _two_words)
    high, low = (jnp.asarray(found[f"{_STEPS}.{word}"]) for word in ("high", "low"))
    return Count(high, low).numpy(), found["episodes"]


def _tensors(state: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some arrays of a file, without reading the others."""
    try:
        with safe_open(state, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise DamagedFileError(str(error)) from None


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        manifest = read_json(path / _MANIFEST)
        version, expected = manifest["format"], {name: manifest["files"][name] for name in (_STATE, _HOST)}
    except (OSError, DamagedFileError, KeyError, TypeError) as error:
        return f"{_MANIFEST} cannot be read: {type(error).__name__}"
    if version != _FORMAT:
        return f"{_MANIFEST} has format {version}, known is {_FORMAT}"
    for name, digest in expected.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if checksum(path / name) != digest:
            return f"{name} does not match its checksum"
    try:
        read_header(path / _STATE)
    except (OSError, DamagedFileError) as error:
        return f"{_STATE}: {error}"
    return None


def _read(path: Path, template: PyTree, say: Callable[[str], None]) -> tuple[RunState, Tree]:
    buffer = {leaf: shape for leaf, shape in name_leaves(template).items() if leaf.startswith(_BUFFER_PREFIX)}
    try:
        # Before anything is read: no file takes more memory than the state that it is for.
        check_leaves(template, {**buffer, **_whole_rows(read_header(path / _STATE), buffer)})
    except ShapeMismatchError as error:
        raise UserError(f"Checkpoint {path} does not fit this configuration: {error}.") from None
    arrays, host = _wide_steps(load_arrays(path / _STATE), _two_words), read_json(path / _HOST)
    if not any(leaf in arrays for leaf in buffer):
        say("the checkpoint has no replay buffer (save_buffer=False): it fills anew, the run will not be the same")
        arrays["stored"] = np.zeros((), np.int32)
    for leaf, shape in buffer.items():
        rows = arrays.get(leaf, np.zeros((shape.shape[0], 0, *shape.shape[2:]), _numpy_type(shape.dtype)))
        missing = max(shape.shape[1] - rows.shape[1], 0)
        arrays[leaf] = np.pad(rows, [(0, 0), (0, missing), *[(0, 0)] * (rows.ndim - 2)])
    return fill_leaves(template, arrays), host


def _wide_steps(arrays: dict[str, T], wide: Callable[[T], dict[str, T]]) -> dict[str, T]:
    """Arrays, or their header, in which steps that were written when a run could count only to 2^31 have two words."""
    return arrays | wide(arrays.pop(_STEPS)) if _STEPS in arrays else arrays


def _two_words(steps: np.ndarray) -> dict[str, np.ndarray]:
    low = steps.astype(np.uint32)
    return {f"{_STEPS}.high": np.zeros_like(low), f"{_STEPS}.low": low}


def _whole_rows(
    header: Mapping[str, StoredArray], buffer: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, StoredArray]:
    """A header in which rows of the replay buffer that were left out count as if they were there."""
    whole = _wide_steps(dict(header), lambda steps: {f"{_STEPS}.high": steps, f"{_STEPS}.low": steps})
    for leaf, wanted in buffer.items():
        shape: tuple[int, ...] = whole[leaf].shape if leaf in whole else ()
        if len(shape) == len(wanted.shape) and shape[1] <= wanted.shape[1]:
            whole[leaf] = whole[leaf]._replace(shape=(shape[0], wanted.shape[1], *shape[2:]))
    return whole


def _numpy_type(dtype: np.dtype) -> DTypeLike:
    """The type in which `save_arrays` stores `dtype`."""
    return np.uint16 if dtype == jax.numpy.bfloat16 else dtype
