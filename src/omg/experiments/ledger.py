"""What of a pipeline is done: one record per part, written before it begins and again when it is complete.

A record holds a fingerprint of everything its part depends on. A part is skipped when its record is complete and the
fingerprint is the same, continued when it was begun with the same fingerprint, and otherwise made anew. What took long
to make and is replaced is moved to the folder `replaced`, never deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from omg.components.files import read_json, write_json
from omg.errors import UserError
from omg.names import check_links, file_name, inside

RECORDS, REPLACED, LOGS = "stages", "replaced", "logs"
PLAN_FILE, TIMES_FILE = "pipeline.yaml", "times.csv"
_ENTRIES = (RECORDS, REPLACED, LOGS, ".lock", PLAN_FILE, TIMES_FILE)
"""What a pipeline has in its folder whatever its stages make there; what else is there is the user's."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """The smallest piece of a pipeline that is done, or not."""

    stage: str
    name: str
    """Within the stage, one or two words, e.g. the label of an agent; empty for the only part."""
    settings: Mapping[str, object]
    """What its result depends on, as JSON values."""
    makes: tuple[Path, ...]
    """Files and folders that are its result."""
    work: Callable[[], None]
    """Makes them; called again after an interruption, it continues."""
    needs: tuple[Part, ...] = ()
    """Parts whose results it uses."""
    costly: bool = False
    """Whether an old result is worth keeping when it is replaced."""
    apart: bool = False
    """Whether it is worth a process of its own where several parts can be done at once."""
    reported: bool = False
    """Whether the report is made from its result."""

    @property
    def title(self) -> str:
        """The part in messages: `train omg`."""
        return f"{self.stage} {self.name}".rstrip()

    @property
    def fingerprint(self) -> str:
        """Changes whenever something changes that the result depends on, here or in a part that it needs."""
        value = {"settings": self.settings, "needs": [part.fingerprint for part in self.needs]}
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def with_pool(trained: Part, pool: Part) -> tuple[Part, ...]:
    """What a part needs that plays an agent with members of a pool: the agent, and the pool if it never met it."""
    return (trained,) if trained is pool or pool in trained.needs else (trained, pool)


@dataclass(frozen=True)
class Record:
    """What is known of a part."""

    fingerprint: str
    status: Literal["begun", "done"]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Wall time so far, interruptions left out."""


_RECORD = TypeAdapter(Record)


class Ledger:
    """The records of one pipeline folder, whose parts are read and written nowhere else."""

    def __init__(self, folder: Path, say: Say = lambda message: None, entries: Sequence[str] = ()) -> None:
        """Opens them.

        Args:
            folder: of the pipeline.
            say: prints a line.
            entries: what the pipeline's stages make in the folder.

        Raises:
            UserError: what belongs to the pipeline has links that lead out of the folder.
        """
        check_links(folder, (*_ENTRIES, *entries))
        self.folder = folder
        self.say = say
        self.remade: set[str] = set()
        """Titles of the parts that were done since the ledger was opened."""
        self._begun: set[str] = set()
        self._followed: set[str] = set()

    def record(self, part: Part) -> Record | None:
        """What is known of a part; None if nothing, or if its record cannot be read."""
        try:
            return _RECORD.validate_python(read_json(self._path(part)))
        except (OSError, ValueError):
            return None

    def is_done(self, part: Part) -> bool:
        """Whether a part is complete for exactly these settings."""
        known = self.record(part)
        whole = all(path.exists() for path in part.makes)
        return known is not None and known.status == "done" and known.fingerprint == part.fingerprint and whole

    def require(self, part: Part, hint: str) -> None:
        """Refuses to go on without a part.

        Raises:
            UserError: it is not done.
        """
        if not self.is_done(part):
            known = self.record(part)
            reason = "is not done yet" if known is None or known.status == "begun" else "was done with other settings"
            raise UserError(f"{self.folder}: the stage '{part.title}' {reason}. {hint}")

    def run(self, part: Part, *, anew: bool = False) -> bool:
        """Does a part unless it is done.

        Args:
            part: what to do.
            anew: even if it is done; so is a part that needs one which was just made.

        Returns:
            Whether there was anything to do.
        """
        if not self.begin(part, anew=anew):
            self.say(f"{part.title}: done")
            return False
        started = time.perf_counter()
        try:
            part.work()
        except BaseException:
            self.end(part, time.perf_counter() - started, done=False)
            raise
        self.end(part, time.perf_counter() - started, done=True)
        return True

    def lacking(self, parts: Sequence[Part], *, anew: bool = False) -> list[Part]:
        """Those of some parts that there is something to do for, now or once that is done which they need.

        Args:
            parts: in an order in which they can be done.
            anew: do all of them even if they are done.
        """
        found: dict[str, Part] = {}
        for part in parts:
            waits = any(need.title in found for need in part.needs)
            if waits or self._made_anew(part, anew) or not self.is_done(part):
                found[part.title] = part
        return list(found.values())

    def take_back(self, parts: Sequence[Part], *, anew: bool = False) -> None:
        """Forgets that parts are done which are about to be made anew; arguments as in `lacking`.

        Otherwise, should the pipeline be interrupted before their turn, the next one would find them done.
        """
        for part in self.lacking(parts, anew=anew):
            if self.is_done(part):
                self._path(part).unlink()

    def begin(self, part: Part, *, anew: bool = False) -> bool:
        """Makes room for a part and notes that it has begun, unless it is done or was begun before.

        Args:
            part: what is about to be done.
            anew: even if it is done; so is a part that needs one which was just made. Only once for each part.

        Returns:
            Whether there is anything to do.
        """
        anew = self._made_anew(part, anew)
        if not anew and self.is_done(part):
            return False
        known = self.record(part)
        goes_on = not anew and known is not None and known.fingerprint == part.fingerprint and known.status == "begun"
        if not goes_on:
            self._clear(part)
            self._write(part, Record(part.fingerprint, "begun", 0.0))
        if part.title not in self._begun:
            self.say(f"{part.title}: {'continued' if goes_on else 'begun'}")
        self._begun.add(part.title)
        return True

    def end(self, part: Part, seconds: float, *, done: bool) -> None:
        """Notes that work on a part that has begun is over, for good or for now, and how long it took this time."""
        known = self.record(part)
        before = known.seconds if known is not None else 0.0
        self._write(part, Record(part.fingerprint, "done" if done else "begun", before + seconds))
        if done:
            self.remade.add(part.title)

    def seconds(self, parts: Sequence[Part]) -> dict[str, float]:
        """Wall time of every stage that has any of `parts`, in their order."""
        times: dict[str, float] = {}
        for part in parts:
            known = self.record(part)
            times[part.stage] = times.get(part.stage, 0.0) + (known.seconds if known is not None else 0.0)
        return times

    def _made_anew(self, part: Part, anew: bool) -> bool:
        anew = anew or any(need.title in self.remade for need in part.needs)
        return anew and part.title not in self._begun

    def _path(self, part: Part) -> Path:
        """Where the record of a part is, once it is sure that neither it nor the part's result leaves the folder."""
        *folders, name = (file_name(f"{part.stage} part", word) for word in (part.stage, *part.name.split()))
        record = (self.folder / RECORDS).joinpath(*folders, f"{name}.json")
        for path in () if part.title in self._followed else (record, *part.makes):
            inside(self.folder, path)
        self._followed.add(part.title)
        return record

    def _write(self, part: Part, record: Record) -> None:
        path = self._path(part)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, asdict(record))
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None

    def _clear(self, part: Part) -> None:
        """Makes room for a new result: old ones are moved aside or, if cheap, deleted."""
        # Without its record a result belongs to nothing, should the process be killed while it is moved.
        self._path(part).unlink(missing_ok=True)
        for path in part.makes:
            if not path.exists():
                continue
            if part.costly:
                self.say(
                    f"{part.title}: settings changed or made anew, the old {path.name} goes to {self._aside(path)}"
                )
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _aside(self, path: Path) -> Path:
        name = "-".join(path.relative_to(self.folder).parts)
        place = inside(self.folder, self.folder / REPLACED)
        place.mkdir(exist_ok=True)
        number = 1
        while (place / f"{name}-{number}").exists():
            number += 1
        os.replace(path, place / f"{name}-{number}")
        return place / f"{name}-{number}"
