"""`omg pull`: what somebody has shared, taken in as a stranger's: all of it is right, or nothing is left behind."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from omg.components.files import given_path, new_folder
from omg.disk import check_regular
from omg.errors import UserError
from omg.names import file_name, inert
from omg.sharing import hub, web
from omg.sharing.archive import Source, open_archive
from omg.sharing.contents import MANIFEST, MOST_FILES, README, check_contents
from omg.sharing.manifest import MOST_BYTES as MOST_MANIFEST
from omg.sharing.manifest import Manifest, read_manifest
from omg.sharing.places import Place, read_place

MOST_BYTES = 2_000_000_000
"""Of all files together, unless the user allows more."""
_MOST_CARD = 2_000_000
_BLOCK = 1 << 20


class Pulled(NamedTuple):
    """What has arrived."""

    manifest: Manifest
    folder: Path
    ignored: int
    """Files that lie there too, but are not named in the manifest: they stay where they are."""


def pull(
    source: str, output: str | Path | None = None, *, sha256: str | None = None, most_bytes: int = MOST_BYTES
) -> Pulled:
    """Fetches what `push` has shared into a new folder.

    Args:
        source: a folder or an archive (also as `file://`), `https://…/NAME.zip`, or `hf://OWNER/NAME[@REVISION]`.
        output: the new folder; named after the source unless given.
        sha256: checksum that the whole must have, as `push` has told it.
        most_bytes: more are not taken.

    Raises:
        UserError: it is not there, damaged, too large or in any way not what it claims; then nothing is left behind.
    """
    place = read_place("SOURCE", source)
    if place.plain and sha256 is None:
        raise UserError(
            f"{place.shown}: anybody on the way could change what comes. Use https://, or give the checksum that "
            "`omg push` has told: --sha256."
        )
    folder = Path(output) if output is not None else Path(file_name("SOURCE", place.name))
    given_path(folder)
    if os.path.lexists(folder):
        raise UserError(f"{folder}: is there already; nothing is overwritten. Give another folder with --output.")
    with _opened(place, most_bytes) as found, new_folder(folder) as staging:
        manifest = _take(found, place.shown, staging, sha256, most_bytes)
        try:
            check_contents(staging, manifest.kind)
        except UserError as error:
            # Messages of the rooms below name the folder it would have been.
            raise UserError(f"{place.shown}: {str(error).replace(str(staging), str(folder))}") from None
        ignored = len(set(found.sizes) - {*manifest.files, MANIFEST, README})
    return Pulled(manifest, folder, ignored)


@contextmanager
def _opened(place: Place, most_bytes: int) -> Iterator[Source]:
    """The files of a place; what comes over the net is fetched into a temporary file first."""
    if place.kind == "hub":
        with hub.open_repository(place) as found:
            yield found
    elif place.kind == "web":
        with TemporaryDirectory(prefix="omg-pull-") as scratch:
            web.download(place, Path(scratch) / "pulled.zip", most_bytes)
            with open_archive(Path(scratch) / "pulled.zip", place.shown) as found:
                yield found
    elif place.kind == "archive":
        if not given_path(place.path).is_file():
            raise UserError(f"{place.shown}: there is no such file.")
        with open_archive(place.path, place.shown) as found:
            yield found
    else:
        if not given_path(place.path).is_dir():
            raise UserError(f"{place.shown}: there is no such folder.")
        yield _Folder(place.path)


class _Folder:
    """Implements `Source`; links are not followed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes: Mapping[str, int] = dict(self._found())

    def _found(self) -> Iterator[tuple[str, int]]:
        for count, (where, _, files) in enumerate(os.walk(self._path)):
            for name in files:
                path = Path(where, name)
                if not path.is_symlink():
                    yield path.relative_to(self._path).as_posix(), path.stat().st_size
            if count > MOST_FILES:
                raise UserError(f"{self._path}: has more than {MOST_FILES:,} folders.")

    def open(self, place: str) -> IO[bytes]:
        check_regular(self._path / place)
        return (self._path / place).open("rb")


def _take(found: Source, shown: str, staging: Path, sha256: str | None, most_bytes: int) -> Manifest:
    """Copies what the manifest names, each file bounded by what it says and compared with it."""
    sizes = found.sizes
    if MANIFEST not in sizes:
        raise UserError(f"{shown}: has no {MANIFEST}, so `omg push` has not made it.")
    _copy(found, MANIFEST, staging / MANIFEST, min(sizes[MANIFEST], MOST_MANIFEST), shown)
    manifest = read_manifest(staging / MANIFEST, shown)
    if sha256 is not None and sha256.lower() != manifest.digest:
        raise UserError(f"{shown}: has the checksum {manifest.digest}, not {inert(sha256[:80])} (--sha256).")
    if manifest.size > most_bytes:
        raise UserError(f"{shown}: has {manifest.size:,} bytes unpacked; allowed: {most_bytes:,} (--most-gb).")
    if manifest.size > (free := shutil.disk_usage(staging).free):
        raise UserError(f"{shown}: has {manifest.size:,} bytes unpacked, and the disk has {free:,} left.")
    for place, file in manifest.files.items():
        if sizes.get(place) != file.bytes:
            there = f"it has {sizes[place]:,} bytes" if place in sizes else "it is not there"
            raise UserError(f"{shown}: '{place}' does not match {MANIFEST}: {there}, expected {file.bytes:,}.")
        (staging / place).parent.mkdir(parents=True, exist_ok=True)
        if _copy(found, place, staging / place, file.bytes, shown) != file.sha256:
            raise UserError(f"{shown}: '{place}' does not match {MANIFEST}: its checksum is another one.")
    if README in sizes:
        if sizes[README] > _MOST_CARD:
            raise UserError(f"{shown}: '{README}' has {sizes[README]:,} bytes; allowed: {_MOST_CARD:,}.")
        _copy(found, README, staging / README, sizes[README], shown)
    return manifest


def _copy(found: Source, place: str, target: Path, size: int, shown: str) -> str:
    """Copies one file of exactly `size` bytes; returns its SHA-256."""
    digest = hashlib.sha256()
    left = size
    with found.open(place) as stream, target.open("xb") as file:
        while block := stream.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise UserError(f"{shown}: '{place}' is longer than the {size:,} bytes that it claims.")
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    if left:
        raise UserError(f"{shown}: '{place}' ends {left:,} bytes before it should.")
    return digest.hexdigest()
