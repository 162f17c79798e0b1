"""`omg.json`: what is shared, file by file with size and checksum. Its own checksum names the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from omg.components.files import checksum, digest_of
from omg.disk import DamagedFileError, read_json, write_json
from omg.errors import UserError, unknown_name
from omg.recordings.capture import own_version
from omg.sharing.contents import MANIFEST, MOST_FILES, README, checked_place

LICENCES = (
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "mpl-2.0", "gpl-3.0", "lgpl-3.0", "agpl-3.0"),
    *("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "unlicense", "other"),
)
"""Names of licences as Hugging Face's hub spells them."""
MOST_BYTES = 16_000_000
"""Of a manifest."""
_FORMAT = 1

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Kind = Literal["agent", "prior", "pool", "run", "result"]


@dataclass(frozen=True)
class SharedFile:
    """One file."""

    bytes: Annotated[int, Field(ge=0, lt=2**53)]
    sha256: Digest


@dataclass(frozen=True)
class Manifest:
    """What is in omg.json besides the format number and its checksum."""

    kind: Kind
    title: Annotated[str, Field(max_length=200)]
    licence: Annotated[str, Field(max_length=40)]
    omg: Annotated[str, Field(max_length=40)]
    """Version that wrote it."""
    files: Mapping[Annotated[str, Field(max_length=1000)], SharedFile]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files.values())

    @property
    def digest(self) -> str:
        """Checksum of all that is shared: whoever knows it knows every byte."""
        return digest_of({"format": _FORMAT, **asdict(self)})


_ADAPTER = TypeAdapter(Manifest)


def known_licence(name: str) -> str:
    """`name` if it is a licence; raises `UserError` otherwise."""
    if name.lower() not in LICENCES:
        raise unknown_name("licence", name, LICENCES)
    return name.lower()


def make_manifest(folder: Path, kind: str, title: str, licence: str) -> Manifest:
    """Describes a folder whose every file is shared, and writes the manifest into it.

    The card is left out: people edit it where it is shown.
    """
    files = {
        path.relative_to(folder).as_posix(): SharedFile(path.stat().st_size, checksum(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / README
    }
    made = _ADAPTER.validate_python(
        {"kind": kind, "title": title[:200], "licence": licence, "omg": own_version(), "files": files}
    )
    write_json(folder / MANIFEST, {"format": _FORMAT, **asdict(made), "sha256": made.digest})
    return made


def read_manifest(path: Path, source: str) -> Manifest:
    """Reads and checks a manifest that may be a stranger's; `source` is where it came from, for messages.

    Raises:
        UserError: it is damaged, of another format, or names a file that may not be.
    """
    try:
        stored = read_json(path, MOST_BYTES)
        version, digest = stored.pop("format"), stored.pop("sha256")
    except DamagedFileError as error:
        raise UserError(f"{source}: {MANIFEST} is damaged: {error}.") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{source}: {MANIFEST} is damaged: {type(error).__name__}: {error}.") from None
    if version != _FORMAT:
        raise UserError(f"{source}: {MANIFEST} has format {version!r:.40}; this version of omg reads format {_FORMAT}.")
    try:
        read = _ADAPTER.validate_python(stored)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:200]
        raise UserError(f"{source}: {MANIFEST} is damaged: {where}: {first['msg']}.") from None
    if read.digest != digest:
        raise UserError(f"{source}: {MANIFEST} is damaged: its checksum does not match what it says.")
    if not 0 < len(read.files) <= MOST_FILES:
        raise UserError(f"{source}: holds {len(read.files):,} files; allowed: 1 to {MOST_FILES:,}.")
    seen: dict[str, str] = {}
    for place in read.files:
        checked_place(source, place)
        if place in (MANIFEST, README):
            raise UserError(f"{source}: {MANIFEST} is damaged: it names {place}.")
        # Two names that are one on some systems would overwrite each other there.
        if (twin := seen.setdefault(place.casefold(), place)) != place:
            raise UserError(f"{source}: '{place}' and '{twin}' are one file on some systems.")
    folders = {parent for place in seen for parent in _parents(place)}
    for place in sorted(folders & set(seen)):
        raise UserError(f"{source}: '{place}' is both a file and a folder.")
    return read


def _parents(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
