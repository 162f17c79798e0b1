"""PyTorch's files (`.th`, `.pth`) without PyTorch: `read_torch` and `write_torch`.

A file of PyTorch 1.6 and later is an uncompressed zip: `<name>/data.pkl` is a pickle whose tensors refer to storages,
`<name>/data/<key>` are the bytes of a storage. Older ones are pickles behind each other, then the storages. What is
read is dictionaries, lists, tuples, words, numbers and tensors, these as NumPy arrays; everything else is refused.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from omg.components.files import write_bytes
from omg.errors import UserError
from omg.exchange.pickled import MOST_STEPS, Named, PickleError, PickleReader

MOST_BYTES = 1 << 30
"""Of a file. The checkpoints of PyMARL have some hundred kilobytes."""
_MOST_PICKLE_BYTES = 1 << 23
_DEEPEST = 6
"""Containers within each other; an optimiser's state has three."""
_ZIP_ERRORS = (NotImplementedError, RuntimeError, EOFError, ValueError, struct.error)
"""What Python's `zipfile` says of entries that contradict themselves."""
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_UNREADABLE = "it holds a tensor whose shape cannot be read"

Stored: TypeAlias = str | float | np.ndarray | list["Stored"] | dict[str | float, "Stored"] | None
"""What is read: dictionaries, lists, words, numbers, and tensors as arrays."""

_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
_STORAGE_OF = {np.dtype(dtype): name for name, dtype in _DTYPES.items() if dtype != "bfloat16"}


@dataclass
class TensorBytes:
    """The numbers that tensors are views of; those of an old file come after everything that refers to them."""

    dtype: str
    numel: int
    data: bytes | None = None

    def array(self) -> np.ndarray:
        """[numel], read-only."""
        if self.data is None:
            raise PickleError("it does not hold all the numbers that it refers to")
        if self.dtype == "bfloat16":
            return (np.frombuffer(self.data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(self.data, self.dtype)

    @property
    def nbytes(self) -> int:
        """Size of the numbers."""
        return self.numel * (2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize)


@dataclass(frozen=True)
class TensorView:
    """A tensor whose shape is checked and whose numbers may be yet to come."""

    storage: TensorBytes
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def array(self) -> np.ndarray:
        """A copy, in its shape."""
        flat = self.storage.array()[self.offset :]
        strides = [step * flat.itemsize for step in self.stride]
        return np.array(np.lib.stride_tricks.as_strided(flat, self.size, strides, writeable=False))


def read_torch(path: Path) -> Stored:
    """What a file of PyTorch's holds, tensors as NumPy arrays.

    Raises:
        UserError: it cannot be read, is damaged, or holds something else than tensors in plain containers.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UserError(f"{path}: the file has {size:,} bytes. Allowed: {MOST_BYTES:,} at most.")
        with path.open("rb") as file:
            stored = _read_zip(file, size) if zipfile.is_zipfile(file) else _read_old(file, size)
        return _Arrays().of(stored)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (PickleError, zipfile.BadZipFile, *_ZIP_ERRORS) as error:
        raise UserError(f"{path} is refused: {error}.") from None


def _read_zip(file: BinaryIO, size: int) -> object:
    with zipfile.ZipFile(file) as archive:
        entries = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise PickleError("it is a zip without one data.pkl, as PyTorch writes it")
        folder = pickles[0].removesuffix("data.pkl")
        left = size

        def read(name: str, most: int) -> bytes:
            nonlocal left
            info = entries.get(folder + name)
            if info is None:
                raise PickleError(f"there is no {name} in it")
            # PyTorch does not compress, so that no entry can be larger than the file.
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size > min(most, left):
                raise PickleError(f"its entry {name} is compressed, or has {info.file_size:,} bytes in {size:,}")
            left -= info.file_size
            return archive.read(info)

        if folder + "byteorder" in entries and read("byteorder", 16).strip() != b"little":
            raise PickleError("its byte order is not little-endian")
        storages: dict[str, TensorBytes] = {}

        def load(reference: object) -> TensorBytes:
            key, dtype, numel = _reference(reference)
            if key not in storages:
                storage = TensorBytes(dtype, numel)
                storage.data = read(f"data/{key}", storage.nbytes)
                storages[key] = storage
            return _same(storages[key], dtype, numel)

        return PickleReader(_names(), load).read(io.BytesIO(read("data.pkl", _MOST_PICKLE_BYTES)))


def _read_old(file: BinaryIO, size: int) -> object:
    storages: dict[str, TensorBytes] = {}
    left = size

    def load(reference: object) -> TensorBytes:
        nonlocal left
        key, dtype, numel = _reference(reference)
        if key not in storages:
            storages[key] = TensorBytes(dtype, numel)
            left -= storages[key].nbytes
            if left < 0:
                raise PickleError("it does not hold all the numbers that it refers to")
        return _same(storages[key], dtype, numel)

    file.seek(0)
    reader = PickleReader(_names(), load)
    try:
        known = reader.read(file) == _MAGIC and reader.read(file) == _PROTOCOL
    except PickleError:
        known = False
    if not known:
        raise PickleError("it is no file of PyTorch's")
    system = reader.read(file)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise PickleError("its byte order is not little-endian")
    stored = reader.read(file)
    keys = reader.read(file)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or sorted(keys) != sorted(storages):
        raise PickleError("it does not hold the numbers that it refers to")
    for key in keys:
        storage = storages[key]
        (numel,) = struct.unpack("<q", _exactly(file, 8))
        if numel != storage.numel:
            raise PickleError(f"it holds {numel} numbers where it refers to {storage.numel}")
        storage.data = _exactly(file, storage.nbytes)
    return stored


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise PickleError("it is cut off")
    return data


def _reference(reference: object) -> tuple[str, str, int]:
    """Key, type and length of the storage that a pickle refers to."""
    match reference:
        case ("storage", Named(dtype=str(dtype)), str(key), str(), int(numel)) if 0 <= numel <= MOST_BYTES:
            return key, dtype, numel
        case ("storage", Named(dtype=str(dtype)), str(key), str(), int(numel), None) if 0 <= numel <= MOST_BYTES:
            return key, dtype, numel
    raise PickleError("it refers to numbers in a way that PyTorch does not")


def _same(storage: TensorBytes, dtype: str, numel: int) -> TensorBytes:
    held = storage.data is None or len(storage.data) == storage.nbytes
    if (storage.dtype, storage.numel) != (dtype, numel) or not held:
        raise PickleError("it refers to numbers that it does not hold")
    return storage


def _rebuild_tensor(storage: object, start: object, shape: object, strides: object, *_: object) -> TensorView:
    """A tensor, after a check that it lies within its storage and that no number is in it twice."""
    (offset,), size, stride = _whole_numbers((start,)), _whole_numbers(shape), _whole_numbers(strides)
    if not isinstance(storage, TensorBytes) or len(size) != len(stride):
        raise PickleError(_UNREADABLE)
    if len(size) > 32 or any(value < 0 for value in (offset, *size, *stride)):
        raise PickleError(f"it holds a tensor of shape {size[:8]} with strides {stride[:8]}, which are not allowed")
    count, reach = prod(size), 0
    if count:
        for step, length in sorted((step, length) for step, length in zip(stride, size, strict=True) if length > 1):
            if step <= reach:
                raise PickleError(f"it holds a tensor of shape {size} with strides {stride}, which overlap")
            reach += step * (length - 1)
    if offset + (reach + 1 if count else 0) > storage.numel:
        raise PickleError(f"it holds a tensor of shape {size} that reaches beyond its {storage.numel} numbers")
    return TensorView(storage, offset, size, stride)


def _whole_numbers(values: object) -> tuple[int, ...]:
    """A tuple of plain integers as what it is; anything else is refused."""
    found = values if isinstance(values, tuple) else (None,)
    numbers = tuple(value for value in found if type(value) is int)
    if len(numbers) != len(found):
        raise PickleError(_UNREADABLE)
    return numbers


def _rebuild_parameter(tensor: object, *_: object) -> object:
    return tensor


def _ordered(items: object = ()) -> dict[str, object]:
    if items != ():
        raise PickleError("it fills a dictionary in a way that PyTorch does not")
    return {}


def _names() -> Mapping[str, Named]:
    functions: dict[str, Callable[..., object]] = {
        "torch._utils _rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils _rebuild_parameter": _rebuild_parameter,
        "collections OrderedDict": _ordered,
    }
    names = {name: Named(name, function) for name, function in functions.items()}
    return names | {f"torch {name}": Named(name, dtype=dtype) for name, dtype in _DTYPES.items()}


class _Arrays:
    """Puts an array in place of every tensor.

    A pickle may name one container or tensor many times over, so that what a small file stands for can be huge: what
    has been made is used again, and steps and numbers are counted.
    """

    def __init__(self) -> None:
        self._made: dict[int, np.ndarray] = {}
        self._steps = 0
        self._numbers = 0

    def of(self, stored: object, depth: int = 0) -> Stored:
        self._steps += 1
        if self._steps > MOST_STEPS or depth > _DEEPEST:
            raise PickleError("its containers are nested too deeply, or there are too many of them")
        if isinstance(stored, TensorView):
            return self._array(stored)
        if isinstance(stored, dict):
            return {key: self.of(value, depth + 1) for key, value in stored.items()}
        if isinstance(stored, list | tuple):
            return [self.of(value, depth + 1) for value in stored]
        if stored is None or isinstance(stored, str | int | float):
            return stored
        raise PickleError(f"it holds a {type(stored).__name__}, and only tensors in plain containers are read")

    def _array(self, view: TensorView) -> np.ndarray:
        if id(view) not in self._made:
            self._numbers += prod(view.size)
            if self._numbers > MOST_BYTES // 4:
                raise PickleError(f"its tensors have more than {MOST_BYTES // 4:,} numbers together")
            self._made[id(view)] = view.array()
        return self._made[id(view)]


# --------------------------------------------------------------------------------------------------------- writing


def write_torch(path: Path, value: object) -> None:
    """Writes dictionaries, lists, tuples, words, numbers and NumPy arrays as a file that `torch.load` reads.

    The same value gives the same bytes. The file is replaced atomically.
    """
    pickle = _PickleWriter()
    pickle.write(value)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (
            ("data.pkl", pickle.finished()),
            ("byteorder", b"little"),
            *((f"data/{key}", data) for key, data in enumerate(pickle.storages)),
            ("version", b"3\n"),
        ):
            archive.writestr(zipfile.ZipInfo(f"{path.stem}/{name}"), data)
    write_bytes(path, made.getvalue())


class _PickleWriter:
    """Pickles in protocol 2; tensors refer to `storages`."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []
        self._out = bytearray(b"\x80\x02")

    def finished(self) -> bytes:
        return bytes(self._out) + b"."

    def write(self, value: object) -> None:
        out = self._out
        if value is None or isinstance(value, bool):
            out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            out += struct.pack("<ci", b"J", value) if len(data) <= 4 else b"\x8a" + bytes([len(data)]) + data
        elif isinstance(value, float):
            out += struct.pack(">cd", b"G", value)
        elif isinstance(value, str):
            data = value.encode()
            out += struct.pack("<cI", b"X", len(data)) + data
        elif isinstance(value, dict):
            self._ordered()
            self._many([part for item in value.items() for part in item], b"u")
        elif isinstance(value, list):
            out += b"]"
            self._many(value, b"e")
        elif isinstance(value, tuple):
            self._many(value, b"t")
        elif isinstance(value, np.ndarray):
            self._tensor(value)
        else:
            raise TypeError(f"a {type(value).__name__} cannot be written for PyTorch")

    def _many(self, values: Iterable[object], end: bytes) -> None:
        self._out += b"("
        for value in values:
            self.write(value)
        self._out += end

    def _global(self, module: str, name: str) -> None:
        self._out += b"c" + module.encode() + b"\n" + name.encode() + b"\n"

    def _ordered(self) -> None:
        self._global("collections", "OrderedDict")
        self._out += b")R"

    def _tensor(self, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array).reshape(array.shape)
        data = array.astype(array.dtype.newbyteorder("<"), copy=False)
        self._global("torch._utils", "_rebuild_tensor_v2")
        self._out += b"(("
        self.write("storage")
        self._global("torch", _STORAGE_OF[np.dtype(data.dtype)])
        for name in (str(len(self.storages)), "cpu"):
            self.write(name)
        self.write(int(array.size))
        self._out += b"tQ"
        self.storages.append(data.tobytes())
        stride = tuple(prod(array.shape[axis + 1 :]) for axis in range(array.ndim))
        for part in (0, array.shape, stride, False):
            self.write(part)
        self._ordered()
        self._out += b"tR"
