"""Weights and the card that describes them, as one folder: written whole, checked when read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from omg.components.files import checksum, load_arrays, name_leaves, new_folder, save_arrays, write_json
from omg.errors import UserError
from omg.names import inside

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


def read_bundle(folder: Path, card_file: str, build: Callable[..., Card]) -> tuple[Card, dict[str, np.ndarray]]:
    """Reads what `write_bundle` wrote.

    Args:
        folder: Where it is.
        card_file: Name of the card.
        build: Makes the card of its stored values, given by name.

    Returns:
        The card, and the arrays by path.

    Raises:
        UserError: the card or the weights are damaged, or of another format.
    """
    path = inside(folder, folder / card_file)
    try:
        stored = json.loads(path.read_text())
        version, digest = stored.pop("format"), stored.pop("sha256")
        card = build(**stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}.") from None
    if version != _FORMAT:
        raise UserError(f"{path} has format {version!r}; this version of omg reads format {_FORMAT}.")
    weights = inside(folder, folder / WEIGHTS)
    if not weights.is_file() or checksum(weights) != digest:
        raise UserError(f"{weights} is damaged: its checksum does not match {card_file}.")
    return card, load_arrays(weights)
