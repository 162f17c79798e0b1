"""A header and columns as one string of bytes, and back; what comes back is checked as if a stranger had written it.

8 bytes       OMGREC 0 1
8 bytes       length of the head, little-endian
the head      JSON: `header`, and `columns`, a list of name, type, shape and `bytes`
the columns   one behind the other, each compressed by zlib, as long as its `bytes` says; nothing follows
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omg.components.headers import DamagedFileError
from omg.errors import abridged
from omg.recordings.columns import TYPES, Series, columns_of
from omg.recordings.header import Belief, Header

MAGIC = b"OMGREC\x00\x01"
MOST_FILE = 64_000_000
"""Bytes of a file. A battle of 8m with everything takes less than half a million."""
MOST_HEAD = 8_000_000
MOST_BYTES = 512_000_000
"""Bytes of all columns together, unpacked."""
_LONGEST_AXIS = 1_000_000
_SMALL = 16_384
"""Numbers of a column that is looked at together with others."""

Columns = Mapping[str, np.ndarray]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, Field(max_length=100)]
    type: Annotated[str, Field(max_length=10)]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=_LONGEST_AXIS)]], Field(max_length=4)]
    bytes: Annotated[int, Field(ge=0, le=MOST_FILE)]


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    header: Header
    columns: Annotated[list[_Entry], Field(max_length=50_000)]


def pack(header: Header, columns: Columns) -> bytes:
    """A recording as bytes; `columns` must be what `check` accepts."""
    entries, parts = [], []
    for name, column in _known(header).items():
        if name not in columns:
            continue
        values = np.asarray(columns[name])
        plain = np.packbits(values) if column.type == "bit" else np.ascontiguousarray(values, TYPES[column.type])
        parts.append(zlib.compress(plain.data, 6))
        entries.append({"name": name, "type": column.type, "shape": list(values.shape), "bytes": len(parts[-1])})
    head = {"header": header.model_dump(mode="json"), "columns": entries}
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *parts])


def unpack(data: bytes) -> tuple[Header, dict[str, np.ndarray]]:
    """The opposite of `pack`.

    Raises:
        DamagedFileError: says in a few words what is wrong with it.
    """
    if not data.startswith(MAGIC[:7]):
        raise DamagedFileError("it does not begin like a recording")
    if not data.startswith(MAGIC):
        raise DamagedFileError("it is of another version of the format than 1")
    length = int.from_bytes(data[8:16], "little")
    if len(data) < 16 or length > min(len(data) - 16, MOST_HEAD):
        raise DamagedFileError(f"its head claims {length} bytes, the file has {len(data)}")
    head = _head(data[16 : 16 + length])
    known = _known(head.header)
    found: dict[str, np.ndarray] = {}
    position, room = 16 + length, MOST_BYTES
    for entry in head.columns:
        if entry.name in found or entry.name not in known:
            raise DamagedFileError(f"it has no place for a column {abridged(entry.name, 60)}")
        if entry.type != known[entry.name].type:
            raise DamagedFileError(f"column {entry.name} is of another type than {known[entry.name].type}")
        room -= math.prod(entry.shape) * TYPES[entry.type].itemsize
        if room < 0:
            raise DamagedFileError(f"its columns have more than {MOST_BYTES:,} bytes")
        end = position + entry.bytes
        if end > len(data):
            raise DamagedFileError(f"column {entry.name} ends behind the end of the file")
        found[entry.name] = _column(entry, data[position:end])
        position = end
    if position != len(data):
        raise DamagedFileError("something follows its last column")
    check(head.header, found)
    return head.header, found


def check(header: Header, columns: Columns) -> None:
    """Compares columns with each other, with the header and with what each may hold.

    Raises:
        DamagedFileError: names the first that does not fit.
    """
    known = _known(header)
    for name in columns:
        if name not in known:
            raise DamagedFileError(f"there is no column {abridged(name, 60)}")
    sizes = {"P": len(header.pieces), "A": len(header.seats), "U": len(header.actions)}
    if "actions" in columns:
        sizes["T"] = len(columns["actions"])
        sizes["T+1"] = sizes["T"] + 1
    own = [sizes | _sizes_of(belief) for belief in header.beliefs]
    numbers: dict[tuple[bool, float, float], list[tuple[str, np.ndarray]]] = {}
    for name, column in known.items():
        if name in columns:
            values = columns[name]
            _check_shape(name, column, values, own[int(name.split(".")[1])] if name.startswith("beliefs.") else sizes)
            if column.type != "bit" and values.size:
                numbers.setdefault((column.unknown, column.lowest, column.highest), []).append((name, values))
        elif column.needed:
            raise DamagedFileError(f"column {name} is missing")
    for limits, found in numbers.items():
        _check_ranges(found, *limits)
    if columns["actions"].size and columns["actions"].max() >= sizes["U"]:
        raise DamagedFileError(f"column actions has an action that is not one of {sizes['U']}")
    _check_numbers(header, sizes)


def _known(header: Header) -> Mapping[str, Series]:
    """All columns that there may be."""
    return columns_of(tuple(belief.kind for belief in header.beliefs))


def _sizes_of(belief: Belief) -> dict[str, int]:
    """Axes of the columns of one belief."""
    return {"J": len(_pieces_of(belief) or _seats_of(belief)), "G": len(belief.goals) if belief.kind == "goals" else 0}


def _pieces_of(belief: Belief) -> Sequence[int]:
    """What it speaks of."""
    return belief.pieces if belief.kind == "places" else ()


def _seats_of(belief: Belief) -> Sequence[int]:
    return belief.seats if belief.kind in ("actions", "goals") else ()


def _check_shape(name: str, column: Series, values: np.ndarray, expected: Mapping[str, int]) -> None:
    if values.ndim != len(column.axes):
        raise DamagedFileError(f"column {name} has {values.ndim} axes, expected {len(column.axes)}")
    for axis, size in zip(column.axes, values.shape, strict=True):
        fits = size in (1, expected["A"]) if axis == "R" else size == expected.get(axis, size)
        if not fits:
            raise DamagedFileError(
                f"column {name} has {size} along {axis}, expected {expected.get(axis, expected['A'])}"
            )
    if column.type == "bit" and values.dtype != np.bool_:
        raise DamagedFileError(f"column {name} holds no truth values")
    if column.type != "bit" and values.dtype.kind not in "if":
        raise DamagedFileError(f"column {name} holds no numbers")


def _check_ranges(columns: Sequence[tuple[str, np.ndarray]], unknown: bool, lowest: float, highest: float) -> None:
    """Refuses columns with numbers out of a range: many small ones are looked at as one."""
    small = [values.ravel() for _, values in columns if values.size <= _SMALL and values.dtype == np.float32]
    if len(small) > 1 and _in_range(np.concatenate(small), unknown, lowest, highest):
        columns = [(name, values) for name, values in columns if values.size > _SMALL or values.dtype != np.float32]
    for name, values in columns:
        if not _in_range(values, unknown, lowest, highest):
            raise DamagedFileError(f"column {name} has numbers outside {lowest:g} to {highest:g}")


def _in_range(values: np.ndarray, unknown: bool, lowest: float, highest: float) -> bool:
    # Two looks instead of six: a number that is none shows in the ends, unless it may be there.
    least, most = (np.fmin, np.fmax) if unknown else (np.minimum, np.maximum)
    ends = float(least.reduce(values, axis=None)), float(most.reduce(values, axis=None))
    if unknown and math.isnan(ends[0]) and math.isnan(ends[1]):
        return True
    return all(math.isfinite(end) and lowest <= end <= highest for end in ends)


def _check_numbers(header: Header, sizes: dict[str, int]) -> None:
    """Refuses numbers of pieces and seats that there are not."""
    belief_pieces = [piece for belief in header.beliefs for piece in _pieces_of(belief)]
    belief_seats = [seat for belief in header.beliefs for seat in (belief.seat, *_seats_of(belief))]
    pieces = [*(seat.piece for seat in header.seats), *(action.piece for action in header.actions), *belief_pieces]
    if any(piece is not None and piece >= sizes["P"] for piece in pieces):
        raise DamagedFileError(f"its header names a piece that is not one of {sizes['P']}")
    if any(seat >= sizes["A"] for seat in belief_seats):
        raise DamagedFileError(f"its header names a seat that is not one of {sizes['A']}")


def _head(text: bytes) -> _Head:
    try:
        return _Head.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DamagedFileError(f"its head: {abridged(where, 80)[1:-1]}: {first['msg']}") from None


def _column(entry: _Entry, packed: bytes) -> np.ndarray:
    """Unpacks no more than the shape asks for, whatever the bytes would become."""
    count = math.prod(entry.shape)
    dtype = TYPES[entry.type]
    size = -(-count // 8) if entry.type == "bit" else count * dtype.itemsize
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(packed, size + 1)
    except zlib.error:
        raise DamagedFileError(f"column {entry.name} cannot be unpacked") from None
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise DamagedFileError(f"column {entry.name} unpacks to another size than {size} bytes")
    if entry.type == "bit":
        return np.unpackbits(np.frombuffer(plain, np.uint8), count=count).astype(bool).reshape(entry.shape)
    return np.frombuffer(plain, dtype).reshape(entry.shape)
