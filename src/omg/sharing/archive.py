"""One file that holds a folder: a ZIP with nothing in it that ours do not have, the same bytes for the same files."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from omg.components.headers import DamagedFileError
from omg.errors import UserError
from omg.sharing.contents import MOST_FILES

ENDING = ".zip"
_END = struct.Struct("<4s4H2LH")
_MOST_DIRECTORY = 32_000_000
_LEVEL = 6


class Source(Protocol):
    """Files that may be a stranger's: their places and sizes, and each as a stream."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Place -> bytes that it claims to have."""

    def open(self, place: str) -> IO[bytes] | RawIOBase:
        """The bytes of one file; closed by the caller."""


def write_archive(folder: Path, target: Path) -> None:
    """Packs a folder's files into `target`, in the order of their places, without times and owners."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.create_system = 3
            with path.open("rb") as stream, archive.open(info, "w", force_zip64=False) as packed:
                while block := stream.read(1 << 20):
                    packed.write(block)


class _Archive(NamedTuple):
    """Implements `Source`."""

    file: zipfile.ZipFile
    entries: Mapping[str, zipfile.ZipInfo]

    @property
    def sizes(self) -> Mapping[str, int]:
        return {place: entry.file_size for place, entry in self.entries.items()}

    def open(self, place: str) -> IO[bytes]:
        return self.file.open(self.entries[place])


@contextmanager
def open_archive(path: Path, shown: str) -> Iterator[Source]:
    """The files of an archive that may be a stranger's; nothing is unpacked yet.

    Args:
        path: the file.
        shown: what it is called in messages.

    Raises:
        UserError: it is no ZIP, or has anything in it that ours do not: links, folders, passwords, two files of one
            name, more of them than are allowed.
    """
    try:
        _check_end(path)
        archive = zipfile.ZipFile(path)
    except (OSError, DamagedFileError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise _no_archive(shown, error) from None
    with archive:
        try:
            yield _Archive(archive, {entry.filename: entry for entry in map(_checked, _single(archive.infolist()))})
        # What goes wrong with the place that files are copied to is none of this.
        except (DamagedFileError, zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError) as error:
            raise _no_archive(shown, error) from None


def _no_archive(shown: str, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
    return UserError(f"{shown}: is no archive of omg, or damaged ({reason}).")


def _check_end(path: Path) -> None:
    """Looks at the last bytes of the file, which say how large its table of contents is, before that is read."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < _END.size:
            raise DamagedFileError("it is too short")
        file.seek(size - _END.size)
        sign, disk, first, here, entries, directory, begin, comment = _END.unpack(file.read(_END.size))
    if sign != b"PK\x05\x06" or comment or disk or first or here != entries:
        raise DamagedFileError("it does not end as a ZIP of ours")
    if entries > MOST_FILES + 1 or directory > min(size, _MOST_DIRECTORY) or begin > size:
        raise DamagedFileError(f"it claims {entries:,} files and a table of contents of {directory:,} bytes")


def _single(entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise DamagedFileError("it has two files of one name")
    return entries


def _checked(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if entry.is_dir() or kind not in (0, stat.S_IFREG) or entry.flag_bits & 0x1:
        what = "a folder" if entry.is_dir() else "a link or a device" if kind != stat.S_IFREG and kind else "encrypted"
        raise DamagedFileError(f"'{entry.filename[:80]}' is {what}")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedFileError(f"'{entry.filename[:80]}' is packed in a way that is not read here")
    return entry
