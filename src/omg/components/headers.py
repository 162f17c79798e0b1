"""The header of a safetensors file, checked before a byte of its arrays is read.

The file begins with the header's length (8 bytes, little-endian) and the header, JSON: name -> dtype, shape and the two
offsets of the array's bytes behind the header. Whatever it says is compared with the size that the file really has, so
no file makes us reserve more memory than it occupies on the disk.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import NamedTuple

from omg.disk import DamagedFileError, check_regular
from omg.types import Json

_LONGEST_HEADER = 16_000_000
_MOST_AXES = 16
_LARGEST_AXIS = 2**31 - 1
_ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


class StoredArray(NamedTuple):
    """One entry of a header."""

    shape: tuple[int, ...]
    begin: int
    end: int
    """Its bytes are [begin, end) behind the header."""


def read_header(path: Path) -> dict[str, StoredArray]:
    """The arrays of a safetensors file by name, without reading them.

    Raises:
        OSError: the file cannot be read.
        DamagedFileError: the header does not describe this very file.
    """
    check_regular(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise DamagedFileError(f"its header claims {length} bytes, the file has {size}")
        try:
            stored = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise DamagedFileError("its header is not JSON") from None
    if not isinstance(stored, dict):
        raise DamagedFileError("its header is no mapping")
    stored.pop("__metadata__", None)
    arrays = {name: _entry(name, entry) for name, entry in stored.items()}
    _check_places(arrays, size - 8 - length)
    return arrays


def _entry(name: str, entry: Json) -> StoredArray:
    try:
        item, shape, (begin, end) = _ITEM_BYTES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (KeyError, TypeError, ValueError):
        raise DamagedFileError(f"'{name[:80]}' has no known type, shape and place") from None
    if any(type(number) is not int or number < 0 for number in numbers):
        raise DamagedFileError(f"'{name[:80]}' has a shape or place that is no whole number of 0 or more")
    if len(shape) > _MOST_AXES or any(axis > _LARGEST_AXIS for axis in shape):
        raise DamagedFileError(f"'{name[:80]}' has the shape {shape[:_MOST_AXES]}; allowed: axes up to {_LARGEST_AXIS}")
    if math.prod(shape) * item != end - begin:
        raise DamagedFileError(f"'{name[:80]}' has the shape {shape}, but {end - begin} bytes")
    return StoredArray(tuple(shape), begin, end)


def _check_places(arrays: dict[str, StoredArray], size: int) -> None:
    """Refuses arrays that overlap, leave gaps, or lie outside the `size` bytes there are."""
    position = 0
    for name, array in sorted(arrays.items(), key=lambda item: (item[1].begin, item[1].end)):
        if array.begin != position or array.end > size:
            raise DamagedFileError(f"'{name[:80]}' lies at {array.begin} to {array.end}, expected from {position}")
        position = array.end
    if position != size:
        raise DamagedFileError(f"its arrays have {position} bytes, the file has {size}")
