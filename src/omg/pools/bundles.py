"""Weights and the card that describes them, as one folder: written whole, checked when read.

The card holds the checksum of the weights and its own. Both find damage and mixed-up files. Neither is a signature:
whoever changes a file can write a new checksum. What a folder can do does not depend on them (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from omg.components.files import (
    check_leaves,
    checksum,
    digest_of,
    fill_leaves,
    load_arrays,
    name_leaves,
    new_folder,
    read_json,
    save_arrays,
    write_json,
)
from omg.components.headers import DamagedFileError, StoredArray, read_header
from omg.envs.trust import check_bytes
from omg.errors import UserError
from omg.names import inside
from omg.types import PyTree, Tree

WEIGHTS = "weights.safetensors"
_FORMATS = (1, 2)
"""1 has no checksum of the card."""

Card = TypeVar("Card")


def write_bundle(folder: Path, what: str, tree: PyTree, card_file: str, card: Mapping[str, object]) -> Path:
    """Writes the arrays of a pytree and its card atomically; an older bundle in the same place is replaced.

    Args:
        folder: Where it goes.
        what: What it is, for messages: `agent`.
        tree: Its leaves are stored under their paths.
        card_file: Name of the card, a JSON file.
        card: What the card says, besides the format and the checksums.

    Raises:
        UserError: the disk does not take it.
    """
    arrays = {name: np.asarray(leaf) for name, leaf in name_leaves(tree).items()}
    try:
        with new_folder(folder) as staging:
            stored = {"format": _FORMATS[-1], "sha256": save_arrays(staging / WEIGHTS, arrays), **card}
            write_json(staging / card_file, {**stored, "card_sha256": digest_of(stored)})
    except OSError as error:
        raise UserError(f"The {what} {folder} cannot be written: {error.strerror or error}.") from None
    return folder


@dataclass(frozen=True)
class Bundle(Generic[Card]):
    """A card that was read and checked, and weights that were not read yet."""

    card: Card
    folder: Path
    digest: str
    """Checksum that the weights must have."""
    header: Mapping[str, StoredArray]
    """Shapes of the stored arrays by path."""

    def fill(self, template: PyTree) -> PyTree:
        """A pytree like `template` (shapes) with the stored weights.

        Shapes are compared before anything is read, so a file takes no more memory than the network it is for.

        Raises:
            ShapeMismatchError: they do not fit the template.
            UserError: they are damaged, or not all of them are numbers.
        """
        check_leaves(template, self.header)
        weights = self.folder / WEIGHTS
        check_bytes(weights, sum(array.end - array.begin for array in self.header.values()))
        try:
            if checksum(weights) != self.digest:
                raise DamagedFileError("its checksum does not match its card")
            arrays = load_arrays(weights)
        except (OSError, DamagedFileError) as error:
            raise UserError(f"{weights} is damaged: {error}.") from None
        for name, value in arrays.items():
            if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
                raise UserError(f"{weights} cannot be used: '{name}' holds values that are not finite numbers.")
        return fill_leaves(template, arrays)


def read_bundle(folder: Path, card_file: str, kind: type[Card]) -> Bundle[Card]:
    """Reads the card of what `write_bundle` wrote, and the header of its weights.

    Args:
        folder: Where it is.
        card_file: Name of the card.
        kind: The card's class, a dataclass with types that can be checked.

    Raises:
        UserError: the card or the header is damaged, or of another format.
    """
    card, digest = read_card(folder / card_file, kind)
    weights = inside(folder, folder / WEIGHTS)
    try:
        return Bundle(card, folder, digest, read_header(weights))
    except (OSError, DamagedFileError) as error:
        raise UserError(f"{weights} is damaged: {error}.") from None


def read_card(path: Path, kind: type[Card]) -> tuple[Card, str]:
    """Reads a card alone, and the checksum that its weights must have; arguments and errors as in `read_bundle`."""
    stored, digest = _read_checked(path)
    unknown = sorted(set(stored) - set(signature(kind).parameters))
    if unknown:
        raise UserError(f"{path} is damaged: got the key '{unknown[0][:80]}', which no card has.")
    try:
        return TypeAdapter(kind).validate_python(stored), digest
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} is damaged: {where}: got {_short(first['input'])}. {first['msg']}.") from None


def change_card(path: Path, **changes: object) -> None:
    """Replaces entries of a card atomically; its weights stay as they are."""
    stored, digest = _read_checked(path)
    sealed = {"format": _FORMATS[-1], "sha256": digest, **stored, **changes}
    write_json(path, {**sealed, "card_sha256": digest_of(sealed)})


def _read_checked(path: Path) -> tuple[Tree, str]:
    """What a card says, types unchecked, and the checksum that its weights must have."""
    inside(path.parent, path)
    try:
        stored = read_json(path)
        version, digest = stored.pop("format"), stored.pop("sha256")
        own = stored.pop("card_sha256") if version != 1 else None
    except DamagedFileError as error:
        raise UserError(f"{path} is damaged: {error}.") from None
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}.") from None
    if version not in _FORMATS:
        known = " and ".join(map(str, _FORMATS))
        raise UserError(f"{path} has format {_short(version)}; this version of omg reads formats {known}.")
    if own is not None and own != digest_of({"format": version, "sha256": digest, **stored}):
        raise UserError(f"{path} is damaged: its checksum does not match what it says.")
    return stored, str(digest)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
