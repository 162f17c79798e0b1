"""Arrays written as a safetensors file, block by block: no second copy of them is made, and the writing can be ended.

The bytes are those that the library `safetensors` writes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

_NAMES = {
    **{"u8": "U64", "i8": "I64", "f8": "F64", "f4": "F32", "u4": "U32", "i4": "I32"},
    **{"f2": "F16", "u2": "U16", "i2": "I16", "i1": "I8", "u1": "U8", "b1": "BOOL"},
}
"""NumPy's types -> safetensors', in the order in which arrays of these types stand in a file."""
_ORDER = {kind: place for place, kind in enumerate(_NAMES)}
_BLOCK = 1 << 24
_ALIGNED = 8
"""The header's length is a multiple of this."""


def nothing() -> None:
    """What is done between two blocks if nothing is to be."""


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray], between: Callable[[], None] = nothing) -> str:
    """Writes a file that outlasts a power cut, and returns its SHA-256. Other threads run meanwhile.

    Args:
        path: the file; one that is there is written over.
        arrays: by name, little-endian, of types that NumPy itself has.
        between: called before every block; what it raises ends the writing.

    Raises:
        OSError: the disk does not take it.
    """
    names = sorted(arrays, key=lambda name: (_ORDER[_kind(arrays[name])], name.encode()))
    digest = hashlib.sha256()
    try:
        with path.open("wb", buffering=0) as file:
            for block in _blocks({name: arrays[name] for name in names}):
                between()
                digest.update(block)
                written = 0
                while written < len(block):
                    written += file.write(block[written:])
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(path)
        raise
    return digest.hexdigest()


def _kind(array: np.ndarray) -> str:
    return array.dtype.str[1:]


def _blocks(arrays: Mapping[str, np.ndarray]) -> Iterator[memoryview]:
    """The bytes of a file, piece by piece."""
    header, end = {}, 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _NAMES[_kind(array)], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        for part in _whole_parts(array):
            plain = part.reshape(-1).view(np.uint8).data
            for begin in range(0, len(plain), _BLOCK):
                yield plain[begin : begin + _BLOCK]


def _whole_parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array in pieces whose bytes lie one behind the other, so that none has to be moved."""
    if array.flags.c_contiguous:
        yield array
    else:
        for part in array:
            yield from _whole_parts(part)
