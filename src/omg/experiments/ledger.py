"""What of a pipeline is done: one note per task, written before it begins and again when it is complete.

A note holds a fingerprint of everything its task depends on. A task is skipped when its note is complete and the
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
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from omg.components.files import read_json, write_json
from omg.errors import UserError
from omg.names import check_links, file_name, inside

NOTES, REPLACED, LOGS, LEASES = "stages", "replaced", "logs", "leases"
PLAN_FILE, TIMES_FILE, TASKS_FILE = "pipeline.yaml", "times.csv", "tasks.json"
_ENTRIES = (NOTES, REPLACED, LOGS, LEASES, ".lock", PLAN_FILE, TIMES_FILE, TASKS_FILE)
"""What a pipeline has in its folder whatever its stages make there; what else is there is the user's."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """The smallest piece of a pipeline that is done, or not."""

    stage: str
    name: str
    """Within the stage, one or two words, e.g. the label of an agent; empty for the only task."""
    settings: Mapping[str, object]
    """What its result depends on, as JSON values."""
    makes: tuple[Path, ...]
    """Files and folders that are its result."""
    work: Callable[[], None]
    """Makes them; called again after an interruption, it continues."""
    needs: tuple[Task, ...] = ()
    """Tasks whose results it uses."""
    costly: bool = False
    """Whether an old result is worth keeping when it is replaced."""
    apart: bool = False
    """Whether it is worth a process of its own where several tasks can be done at once."""
    reported: bool = False
    """Whether the report is made from its result."""
    closed: bool = False
    """Whether those that need it can do without the results that it was made from."""

    @property
    def title(self) -> str:
        """The task in messages: `train omg`."""
        return f"{self.stage} {self.name}".rstrip()

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever something changes that the result depends on, here or in a task that it needs."""
        value = {"settings": self.settings, "needs": [task.fingerprint for task in self.needs]}
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TaskNote:
    """What is known of a task."""

    fingerprint: str
    status: Literal["begun", "done"]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Wall time so far, interruptions left out."""


_NOTE = TypeAdapter(TaskNote)


class Ledger:
    """The notes of one pipeline folder, whose tasks are read and written nowhere else."""

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
        """Titles of the tasks that were done since the ledger was opened."""
        self._begun: set[str] = set()
        self._before: dict[str, float] = {}
        self._followed: set[str] = set()

    def list_tasks(self, tasks: Sequence[Task]) -> None:
        """Writes down what the pipeline consists of, so that others can say how much of it is done (`omg runs`)."""
        write_json(self.folder / TASKS_FILE, {"tasks": [[task.title, task.fingerprint] for task in tasks]})

    def note(self, task: Task) -> TaskNote | None:
        """What is known of a task; None if nothing, or if its note cannot be read."""
        try:
            return _NOTE.validate_python(read_json(self._path(task)))
        except (OSError, ValueError):
            return None

    def is_done(self, task: Task) -> bool:
        """Whether a task is complete for exactly these settings."""
        known = self.note(task)
        whole = all(path.exists() for path in task.makes)
        return known is not None and known.status == "done" and known.fingerprint == task.fingerprint and whole

    def require(self, task: Task, hint: str) -> None:
        """Refuses to go on without a task.

        Raises:
            UserError: it is not done.
        """
        if not self.is_done(task):
            known = self.note(task)
            reason = "is not done yet" if known is None or known.status == "begun" else "was done with other settings"
            raise UserError(f"{self.folder}: the stage '{task.title}' {reason}. {hint}")

    def run(self, task: Task, *, anew: bool = False) -> bool:
        """Does a task unless it is done.

        Args:
            task: what to do.
            anew: even if it is done; so is a task that needs one which was just made.

        Returns:
            Whether there was anything to do.
        """
        if not self.begin(task, anew=anew):
            self.say(f"{task.title}: done")
            return False
        self.work(task)
        return True

    def work(self, task: Task) -> None:
        """Does a task that was begun, and notes how that ended."""
        started = time.perf_counter()
        try:
            task.work()
        except BaseException:
            self.end(task, time.perf_counter() - started, done=False)
            raise
        self.end(task, time.perf_counter() - started, done=all(path.exists() for path in task.makes))

    def begun_task(self, tasks: Sequence[Task], title: str) -> Task:
        """One of some tasks, which another process has begun.

        Raises:
            UserError: it is another one by now.
        """
        task = next((task for task in tasks if task.title == title), None)
        note = None if task is None else self.note(task)
        if task is None or note is None or note.fingerprint != task.fingerprint:
            raise UserError(f"{self.folder / PLAN_FILE} has changed since it was started. Start it again.")
        return task

    def lacking(self, tasks: Sequence[Task], *, anew: bool = False) -> list[Task]:
        """Those of some tasks that there is something to do for, now or once that is done which they need.

        Args:
            tasks: in an order in which they can be done.
            anew: do all of them even if they are done.
        """
        found: dict[str, Task] = {}
        for task in tasks:
            waits = any(need.title in found for need in task.needs)
            if waits or self._made_anew(task, anew) or not self.is_done(task):
                found[task.title] = task
        return list(found.values())

    def take_back(self, tasks: Sequence[Task], *, anew: bool = False) -> None:
        """Forgets that tasks are done which are about to be made anew; arguments as in `lacking`.

        Otherwise, should the pipeline be interrupted before their turn, the next one would find them done.
        """
        for task in self.lacking(tasks, anew=anew):
            if self.is_done(task):
                self._path(task).unlink()

    def begin(self, task: Task, *, anew: bool = False) -> bool:
        """Makes room for a task and notes that it has begun, unless it is done or was begun before.

        Args:
            task: what is about to be done.
            anew: even if it is done; so is a task that needs one which was just made. Only once for each task.

        Returns:
            Whether there is anything to do.
        """
        anew = self._made_anew(task, anew)
        if not anew and self.is_done(task):
            return False
        known = self.note(task)
        goes_on = not anew and known is not None and known.fingerprint == task.fingerprint and known.status == "begun"
        if not goes_on:
            self._clear(task)
            self._write(task, TaskNote(task.fingerprint, "begun", 0.0))
        self._before[task.title] = known.seconds if goes_on and known is not None else 0.0
        if task.title not in self._begun:
            self.say(f"{task.title}: {'continued' if goes_on else 'begun'}")
        self._begun.add(task.title)
        return True

    def end(self, task: Task, seconds: float, *, done: bool) -> None:
        """Notes that work on a task that has begun is over, for good or for now, and how long it took this time."""
        known = self.note(task)
        before = known.seconds if known is not None else 0.0
        self._write(task, TaskNote(task.fingerprint, "done" if done else "begun", before + seconds))
        if done:
            self.remade.add(task.title)

    def end_chain(self, tasks: Sequence[Task], seconds: float) -> None:
        """Notes how long another process took, which has noted itself what of some tasks it has done.

        Args:
            tasks: the first is the one it was begun for.
            seconds: of all together; dealt to the tasks as their own clocks say.
        """
        known = [self.note(task) for task in tasks]
        own = [
            0.0 if note is None else max(note.seconds - self._before.get(task.title, 0.0), 0.0)
            for task, note in zip(tasks, known, strict=True)
        ]
        whole = sum(own)
        for index, (task, note) in enumerate(zip(tasks, known, strict=True)):
            share = own[index] / whole if whole > 0 else float(index == 0)
            done = note is not None and note.status == "done" and note.fingerprint == task.fingerprint
            total = self._before.get(task.title, 0.0) + share * seconds
            self._write(task, TaskNote(task.fingerprint, "done" if done else "begun", total))
            if done:
                self.remade.add(task.title)

    def seconds(self, tasks: Sequence[Task]) -> dict[str, float]:
        """Wall time of every stage that has any of `tasks`, in their order."""
        times: dict[str, float] = {}
        for task in tasks:
            known = self.note(task)
            times[task.stage] = times.get(task.stage, 0.0) + (known.seconds if known is not None else 0.0)
        return times

    def _made_anew(self, task: Task, anew: bool) -> bool:
        anew = anew or any(need.title in self.remade for need in task.needs)
        return anew and task.title not in self._begun

    def _path(self, task: Task) -> Path:
        """Where the note of a task is, once it is sure that neither it nor the task's result leaves the folder."""
        *folders, name = (file_name(f"{task.stage} task", word) for word in (task.stage, *task.name.split()))
        note = (self.folder / NOTES).joinpath(*folders, f"{name}.json")
        for path in () if task.title in self._followed else (note, *task.makes):
            inside(self.folder, path)
        self._followed.add(task.title)
        return note

    def _write(self, task: Task, note: TaskNote) -> None:
        path = self._path(task)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, asdict(note))
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None

    def _clear(self, task: Task) -> None:
        """Makes room for a new result: old ones are moved aside or, if cheap, deleted."""
        # Without its note a result belongs to nothing, should the process be killed while it is moved.
        self._path(task).unlink(missing_ok=True)
        for path in task.makes:
            if not path.exists():
                continue
            if task.costly:
                self.say(
                    f"{task.title}: settings changed or made anew, the old {path.name} goes to {self._aside(path)}"
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
