"""`Recording`: one game that was played, from beginning to end, with what its players thought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from omg.components.files import given_path, write_bytes
from omg.components.headers import DamagedFileError, check_regular
from omg.errors import UserError, abridged
from omg.names import inert
from omg.recordings.columns import BELIEFS
from omg.recordings.header import Header, Headers
from omg.recordings.packing import MOST_FILE, check, pack, unpack
from omg.types import Tree

ENDING = ".omgrec"
"""Of the files' names."""


class Recording(Mapping[str, np.ndarray]):
    """A recorded game: a header, and columns by name (`docs/recordings.md` names all of them).

    >>> game = omg.Recording.read("game_01.omgrec")    # doctest: +SKIP
    >>> game.header["game"], game["x"].shape           # doctest: +SKIP
    >>> for belief in game.beliefs:                    # doctest: +SKIP
    ...     print(belief["kind"], belief["seat"], belief["columns"]["distance"])
    """

    def __init__(self, header: Tree, columns: Mapping[str, np.ndarray], alike: Headers | None = None) -> None:
        """Puts a recording together.

        Args:
            header: as `docs/recordings.md` describes it.
            columns: arrays by name.
            alike: has checked headers of other games of the same film.

        Raises:
            UserError: they do not fit each other.
        """
        try:
            self._header = Header.model_validate(header) if alike is None else alike.of(header)
            check(self._header, columns)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"header: {abridged(where)[1:-1]}: {first['msg']}, got {abridged(first['input'])}."
            ) from None
        except DamagedFileError as error:
            raise UserError(f"columns: {error}.") from None
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    @classmethod
    def read(cls, path: str | Path) -> Recording:
        """Reads a file.

        Raises:
            UserError: it cannot be read, or is no recording; in one line.
        """
        place = given_path(path)
        try:
            check_regular(place)
            if place.stat().st_size > MOST_FILE:
                raise DamagedFileError(f"it has {place.stat().st_size:,} bytes; allowed: at most {MOST_FILE:,}")
            return cls.from_bytes(place.read_bytes(), str(path))
        except OSError as error:
            raise UserError(f"{inert(str(path))}: cannot be read: {error.strerror or error}.") from None
        except DamagedFileError as error:
            raise UserError(f"{inert(str(path))}: no recording: {error}.") from None

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "recording") -> Recording:
        """Reads what `to_bytes` gave; `name` stands in the message of what is raised.

        Raises:
            UserError: it is no recording; in one line.
        """
        try:
            header, columns = unpack(data)
        except DamagedFileError as error:
            raise UserError(f"{inert(name)}: no recording: {inert(str(error))}.") from None
        made = cls.__new__(cls)
        made._header, made._columns = header, columns
        return made

    @property
    def file_name(self) -> str:
        """Of its file among those of a run or of an agent's games."""
        return f"seed_{self._header.seed}_game_{self._header.number:02d}{ENDING}"

    def to_bytes(self) -> bytes:
        """The whole file."""
        return pack(self._header, self._columns)

    def write(self, path: str | Path) -> Path:
        """Writes a file, atomically; an older one in its place is replaced.

        Raises:
            UserError: it cannot be written.
        """
        place = given_path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place, self.to_bytes())
        except OSError as error:
            raise UserError(f"{inert(str(path))}: cannot be written: {error.strerror or error}.") from None
        return place

    @property
    def header(self) -> Tree:
        """Everything that is no column, as plain values."""
        return self._header.model_dump()

    @property
    def steps(self) -> int:
        """Steps T that were played."""
        return len(self._columns["actions"])

    @property
    def beliefs(self) -> list[Tree]:
        """Of every belief its entry in the header, and under `columns` its columns by their own names."""
        found = []
        for number, belief in enumerate(self._header.beliefs):
            names = {column.name: f"beliefs.{number}.{column.name}" for column in BELIEFS[belief.kind]}
            columns = {name: self._columns[stored] for name, stored in names.items() if stored in self._columns}
            found.append({**belief.model_dump(), "columns": columns})
        return found

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        header = self._header
        return f"Recording({header.algorithm} in {header.game} {header.scenario}: {self.steps} steps)"
