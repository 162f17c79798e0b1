"""Writing files so that a reader never sees half of one, and arrays so that anyone can read them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Replaces `path` by `value` as JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder that becomes `path` when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=".writing-"))
    try:
        yield staging
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=".old-"))
            os.replace(path, old / "folder")
            os.replace(staging, path)
            shutil.rmtree(old)
        else:
            os.replace(staging, path)
        _sync_folder(path.parent)
    finally:
        if staging.exists():
            shutil.rmtree(staging)


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


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Writes named arrays as safetensors and returns the file's checksum. bfloat16 is stored as its bits."""
    plain = {name: np.ascontiguousarray(_bits(value)) for name, value in arrays.items()}
    save_file(plain, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return checksum(path)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads what `save_arrays` wrote."""
    return load_file(path)


def _bits(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.view(np.uint16) if array.dtype == jnp.bfloat16 else array


def name_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by readable path: `learner.mac.agent.first.weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_path_name(path): leaf for path, leaf in leaves}


def _path_name(path: tuple[Any, ...]) -> str:
    return (
        jax.tree_util.keystr(path).replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").lstrip(".")
    )


class ShapeMismatch(Exception):
    """Stored arrays do not fit the structure they are to fill; the message names the first difference."""


def fill_leaves(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A pytree like `template` (arrays or shapes) with its leaves taken from `arrays` by path.

    Raises:
        ShapeMismatch: a leaf is missing, has another shape, or is left over.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    filled = []
    for path, leaf in leaves:
        name = _path_name(path)
        if name not in arrays:
            raise ShapeMismatch(f"'{name}' is missing")
        value = arrays[name]
        if tuple(value.shape) != tuple(leaf.shape):
            raise ShapeMismatch(f"'{name}' has shape {tuple(value.shape)}, expected {tuple(leaf.shape)}")
        filled.append(value.view(jnp.bfloat16) if leaf.dtype == jnp.bfloat16 else value.astype(leaf.dtype, copy=False))
    extra = sorted(set(arrays) - {_path_name(path) for path, _ in leaves})
    if extra:
        raise ShapeMismatch(f"'{extra[0]}' is not part of this network")
    return jax.tree_util.tree_unflatten(structure, filled)
