"""The rows of what is made of runs: pipelines and suites, by the notes of their tasks, and pools, by their index."""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter
from collections.abc import Sequence

from omg.errors import UserError
from omg.evaluation.overview_tables import OverviewRow
from omg.launchers.lease import lease_name, look
from omg.names import file_name, inert
from omg.overview.finding import Found
from omg.overview.reading import is_worked_on, newest, read_part, read_tree
from omg.overview.runs import LONGEST, NO_SCORES, text_of
from omg.types import Tree

NOTES, TASKS, LEASES = "stages", "tasks.json", "leases"
"""As `omg.experiments.ledger` has them."""
_MOST_PLAN, _MOST_INDEX = 200_000, 16_000_000
_MOST_TASKS = 2_000
_NAME = re.compile(r"^name:[ ]+(.+)$", re.MULTILINE)
_PLANS = re.compile(r"^plans:", re.MULTILINE)
_GAME = re.compile(r"^[ ]+(env_config|map_name):[ ]+(.+)$", re.MULTILINE)


def pipeline_row(found: Found, inner: Sequence[OverviewRow]) -> OverviewRow:
    """The row of a pipeline or of a suite; `inner` are those of what lies in it."""
    folder = found.path
    plan = read_part(folder / "pipeline.yaml", 0, _MOST_PLAN).decode("utf-8", "replace")
    name = _NAME.search(plan)
    titles = _titles(read_tree(folder / TASKS, _MOST_INDEX))
    states = {title: _state(found, title, mark) for title, mark in titles.items()}
    done = [title for title, state in states.items() if state == "done"]
    begun = [title for title, state in states.items() if state == "begun"]
    worked_on = is_worked_on(folder)
    whole = len(done) == len(titles) if titles else _reported(found)
    status = "running" if worked_on else "finished" if whole else _ended([row for row in inner if row.kind == "run"])
    games = {} if _PLANS.search(plan) else dict(_GAME.findall(plan))
    words = [f"{len(done)} of {len(titles)} tasks"] if titles else []
    words += [", ".join(f"{title}{_where(found, title)}" for title in begun)] if begun else []
    return _row(
        found,
        kind="suite" if _PLANS.search(plan) else "pipeline",
        status=status,
        note=": ".join(words),
        name=name[1].strip("'\" ") if name else "",
        game=" ".join(value.strip("'\" ") for value in games.values()),
        seeds=0,
        done=len(done) / len(titles) if titles else (1.0 if whole else math.nan),
        written=_newest_note(found),
        inner=inner,
    )


def pool_row(found: Found, inner: Sequence[OverviewRow]) -> OverviewRow | None:
    """The row of a pool; None of a file of the same name that is no pool's index."""
    index = read_tree(found.path / "pool.json", _MOST_INDEX)
    members = index.get("members")
    if not isinstance(members, list):
        return None
    sets = Counter(text_of(member.get("set")) for member in members if isinstance(member, dict))
    spec = index.get("spec")
    scenario = text_of(spec.get("scenario")) if isinstance(spec, dict) else ""
    return _row(
        found,
        kind="pool",
        status=_ended(inner, "finished"),
        note=", ".join(f"{number} {name or '?'}" for name, number in sorted(sets.items())[:6]) or "empty",
        name="",
        game=f"{text_of(index.get('env'))} {scenario}".strip(),
        seeds=len(members),
        done=math.nan,
        written=newest((found.path / "pool.json",)),
        inner=inner,
    )


def _row(
    found: Found,
    *,
    kind: str,
    status: str,
    note: str,
    name: str,
    game: str,
    seeds: int,
    done: float,
    written: float,
    inner: Sequence[OverviewRow],
) -> OverviewRow:
    """A row without what only runs have."""
    age = max(0.0, time.time() - written) if written else math.nan
    return OverviewRow(
        folder=inert(found.shown),
        kind=kind,
        status=status,
        note=inert(note if len(note) <= LONGEST else f"{note[: LONGEST - 3]}..."),
        name=inert(name[:LONGEST]),
        algorithm="",
        game=inert(game[:LONGEST]),
        seeds=seeds,
        done=done,
        t_env=math.nan,
        t_max=math.nan,
        steps=math.nan,
        left=math.nan,
        metric=NO_SCORES.metric,
        last=NO_SCORES.last,
        best=NO_SCORES.best,
        age=min([age, *(row.age for row in inner)], key=lambda one: math.inf if math.isnan(one) else one),
        pages=len(found.pages),
    )


def _titles(tasks: Tree) -> dict[str, str]:
    """Title -> fingerprint of the tasks that a pipeline consists of, in their order."""
    listed = tasks.get("tasks")
    if not isinstance(listed, list):
        return {}
    pairs = (one for one in listed[:_MOST_TASKS] if isinstance(one, list) and len(one) == 2)
    return {title: mark for title, mark in pairs if isinstance(title, str) and isinstance(mark, str)}


def _state(found: Found, title: str, fingerprint: str) -> str:
    """`begun` or `done` as the note of a task says; nothing of one that is not this task's."""
    try:
        *folders, name = (file_name("task", word) for word in title.split())
    except (UserError, ValueError):
        return ""
    place = found.path / NOTES
    for folder in folders:
        if place.is_symlink():
            return ""
        place = place / folder
    note = {} if place.is_symlink() else read_tree(place / f"{name}.json", 10_000)
    return str(note.get("status")) if note.get("fingerprint") == fingerprint else ""


def _where(found: Found, title: str) -> str:
    """On which machine a task is being done, by its lease; nothing where nobody is at it."""
    place = found.path / LEASES
    if place.is_symlink():
        return ""
    try:
        seen = look(place, lease_name(title))
    except UserError:
        return ""
    return "" if seen.is_free or seen.holder is None else f" on {seen.holder.host[:60]}"


def _reported(found: Found) -> bool:
    """Whether a pipeline without a list of its tasks, of an earlier version, came to its end."""
    return read_tree(found.path / NOTES / "report.json", 10_000).get("status") == "done"


def _newest_note(found: Found) -> float:
    """When a task began or ended for the last time."""
    place = found.path / NOTES
    notes = [place, found.path / "pipeline.yaml", found.path / TASKS]
    if not place.is_symlink():
        notes += [place / name for name in sorted(_names(place))[:_MOST_TASKS]]
    return newest(tuple(notes))


def _names(place: os.PathLike[str]) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _ended(inner: Sequence[OverviewRow], otherwise: str = "interrupted") -> str:
    """What the runs in a folder that nobody works on say about it."""
    there = {row.status for row in inner}
    return next((status for status in ("running", "failed", "interrupted") if status in there), otherwise)
