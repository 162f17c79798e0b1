"""Weights and the card that describes them, as one folder: written whole, checked when read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter

from omg.components.files import checksum, load_arrays, name_leaves, new_folder, read_json, save_arrays, write_json
from omg.errors import UserError

WEIGHTS = "weights.safetensors"
_FORMAT = 1

Card = TypeVar("Card")


def write_bundle(folder: Path, what: str, tree: Any, card_file: str, card: Mapping[str, Any]) -> Path:
    """Writes the arrays of a pytree and its card atomically; an older bundle in the same place is replaced.

    Args:
        folder: Where it goes.
        what: What it is, for messages: `agent`.
        tree: Its leaves are stored under their paths.
        card_file: Name of the card, a JSON file.
        card: What the card says, besides the format and the checksum of the weights.

    Raises:
        UserError: the disk does not take it.
    """
    arrays = {name: np.asarray(leaf) for name, leaf in name_leaves(tree).items()}
    try:
        with new_folder(folder) as staging:
            digest = save_arrays(staging / WEIGHTS, arrays)
            write_json(staging / card_file, {"format": _FORMAT, "sha256": digest, **card})
    except OSError as error:
        raise UserError(f"The {what} {folder} cannot be written: {error.strerror or error}.") from None
    return folder


def read_bundle(folder: Path, card_file: str, build: type[Card]) -> tuple[Card, dict[str, np.ndarray]]:
    """Reads what `write_bundle` wrote.

    Args:
        folder: Where it is.
        card_file: Name of the card.
        build: Dataclass of the card.

    Returns:
        The card, and the arrays by path.

    Raises:
        UserError: the card or the weights are damaged, or of another format.
    """
    path = folder / card_file
    try:
        stored = read_json(path)
        version, digest = stored.pop("format"), stored.pop("sha256")
        card = TypeAdapter(build).validate_python(stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}.") from None
    if version != _FORMAT:
        raise UserError(f"{path} has format {version!r}; this version of omg reads format {_FORMAT}.")
    weights = folder / WEIGHTS
    if not weights.is_file() or checksum(weights) != digest:
        raise UserError(f"{weights} is damaged: its checksum does not match {card_file}.")
    try:
        return card, load_arrays(weights)
    except ValueError as error:
        raise UserError(f"{weights} is damaged: {error}.") from None
