"""Writing files so that a reader never sees half of one, and arrays so that anyone can read them.

Everything is first written beside its place and then renamed; see `omg.disk`, where single files are written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from omg.components.headers import StoredArray, read_header
from omg.components.tensors import nothing, write_tensors
from omg.disk import WRITING, DamagedFileError, read_json, write_bytes, write_json, write_text
from omg.errors import UserError, abridged
from omg.types import Json, PyTree

if TYPE_CHECKING:
    from jax.tree_util import KeyPath

__all__ = [
    "DamagedFileError",
    "ShapeMismatchError",
    "check_leaves",
    "checksum",
    "digest_of",
    "fill_leaves",
    "given_path",
    "load_arrays",
    "name_leaves",
    "new_folder",
    "read_json",
    "remove_leftovers",
    "save_arrays",
    "whole_folder",
    "write_bytes",
    "write_json",
    "write_text",
]

_SHORT_FLOAT = "bfloat16"
"""Numbers that NumPy knows only through JAX; files hold their bits."""
_OLD = ".old-"


@contextmanager
def new_folder(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yields a temporary folder that becomes `path` when the block ends well, and vanishes when it does not.

    A folder that is already there is moved aside before the new one takes its place, since no system can exchange the
    two at once; `whole_folder` finds it there should the process be killed in between.

    Args:
        path: of the folder.
        durable: whether to wait until it would outlast a power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging, old = path.with_name(WRITING + path.name), path.with_name(_OLD + path.name)
    if old.exists() and not path.exists():
        os.replace(old, path)
    for leftover in (staging, old):
        _remove(leftover)
    staging.mkdir()
    try:
        yield staging
        if durable:
            _sync_folder(staging)
        if path.exists():
            os.replace(path, old)
        os.replace(staging, path)
        if durable:
            _sync_folder(path.parent)
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        for leftover in (staging, old):
            _remove(leftover)


def given_path(path: str | Path) -> Path:
    """A path that somebody gave, whether anything is there or not.

    Raises:
        UserError: the system cannot even look there, e.g. because a name in it is too long.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{abridged(str(path))}: there can be no such path ({reason}).") from None
    return Path(path)


def whole_folder(path: Path) -> Path:
    """`path`, or the version before it if a process was killed while `new_folder` replaced it."""
    if not path.name:  # The folder one is in, which nobody replaces.
        return path
    old = path.with_name(_OLD + path.name)
    return old if os.path.exists(old) and not path.exists() else path


def remove_leftovers(folder: Path) -> None:
    """Deletes what killed processes have left in `folder` of files and folders they were writing."""
    for prefix in (WRITING, _OLD):
        for path in folder.glob(f"{prefix}*"):
            _remove(path)


def _remove(path: Path) -> None:
    """Deletes a file, a folder or a link itself, never what a link leads to; nothing if there is nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], between: Callable[[], None] = nothing) -> str:
    """Writes named arrays as safetensors and returns the file's checksum. bfloat16 is stored as its bits.

    Args:
        path: the file.
        arrays: by name.
        between: see `write_tensors`.
    """
    return write_tensors(path, {name: _bits(value) for name, value in arrays.items()}, between)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads what `save_arrays` wrote.

    Raises:
        OSError: the file cannot be read.
        DamagedFileError: it is no such file.
    """
    read_header(path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise DamagedFileError(str(error)) from None


def digest_of(value: Json) -> str:
    """SHA-256 of a JSON value, however it is indented and its keys are ordered."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _bits(value: np.ndarray) -> np.ndarray:
    array = np.asarray(value)
    return array.view(np.uint16) if array.dtype.name == _SHORT_FLOAT else array


def name_leaves(tree: PyTree) -> dict[str, PyTree]:
    """The leaves of a pytree by readable path: `learner.mac.agent.first.weight`."""
    from jax.tree_util import tree_flatten_with_path  # Not above: whoever only reads cards does not wait for JAX.

    leaves, _ = tree_flatten_with_path(tree)
    return {_path_name(path): leaf for path, leaf in leaves}


def _path_name(path: KeyPath) -> str:
    from jax.tree_util import keystr

    return keystr(path).replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").lstrip(".")


class ShapeMismatchError(Exception):
    """Stored arrays do not fit the structure they are to fill; the message names the first difference."""


def check_leaves(template: PyTree, arrays: Mapping[str, PyTree] | Mapping[str, StoredArray]) -> None:
    """Compares the shapes of named arrays, or of their header, with a pytree of arrays or shapes.

    Raises:
        ShapeMismatchError: a leaf is missing, has another shape, or is left over.
    """
    wanted = name_leaves(template)
    for name, leaf in wanted.items():
        if name not in arrays:
            raise ShapeMismatchError(f"'{name}' is missing")
        if tuple(arrays[name].shape) != tuple(leaf.shape):
            raise ShapeMismatchError(f"'{name}' has shape {tuple(arrays[name].shape)}, expected {tuple(leaf.shape)}")
    extra = sorted(set(arrays) - set(wanted))
    if extra:
        raise ShapeMismatchError(f"'{extra[0]}' is not part of this network")


def fill_leaves(template: PyTree, arrays: Mapping[str, PyTree]) -> PyTree:
    """A pytree like `template` (arrays or shapes) with its leaves taken from `arrays` by path.

    Raises:
        ShapeMismatchError: see `check_leaves`.
    """
    from jax.tree_util import tree_flatten_with_path, tree_unflatten

    check_leaves(template, arrays)
    leaves, structure = tree_flatten_with_path(template)
    filled = []
    for path, leaf in leaves:
        value = arrays[_path_name(path)]
        filled.append(
            value.view(leaf.dtype) if leaf.dtype.name == _SHORT_FLOAT else value.astype(leaf.dtype, copy=False)
        )
    return tree_unflatten(structure, filled)
