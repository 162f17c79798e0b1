"""Which runs, pipelines, suites and pools there are in a folder, at any depth within bounds; no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from omg.errors import UserError

MOST_ENTRIES = 200_000
"""Files and folders that are looked at; further ones are left out, and it is said."""
MOST_LEVELS = 16
MOST_PAGES = 200
"""Pages of one run or pipeline."""
_NO_PLACES = ("agents", "checkpoints", "tensorboard", "stages", "replaced", "logs", "members", "sacred", "node_modules")
"""Folders in which there is nothing to look for."""


@dataclass
class Found:
    """A folder that is one of these things."""

    kind: str
    """`run`, `pipeline` (or suite: its plan says which), `pool`."""
    path: Path
    shown: str
    """The folder as the user would type it."""
    parent: Found | None = None
    """What it lies in."""
    inner: list[Found] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)
    """HTML files in it that are no part of something further inside."""


@dataclass
class Finding:
    """What a look into some folders has found."""

    found: list[Found] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)
    """HTML files that belong to none of them."""
    entries: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything was looked at."""
        return self.entries < MOST_ENTRIES


def find(folders: list[Path]) -> Finding:
    """Looks for runs and their like.

    Raises:
        UserError: one of the folders is none.
    """
    finding = Finding()
    for folder in folders:
        if not os.path.isdir(folder):
            reason = "this is a file" if os.path.exists(folder) else "there is no such folder"
            raise UserError(f"{folder}: {reason}. Give a run, a pipeline or a folder that holds some.")
        _look(finding, folder, str(folder), None, 0)
    return finding


def _look(finding: Finding, folder: Path, shown: str, owner: Found | None, level: int) -> None:
    files, folders = _entries(finding, folder)
    kind = _kind(files, folders)
    if kind is not None:
        one = Found(kind, folder, shown, owner)
        finding.found.append(one)
        if owner is not None:
            owner.inner.append(one)
        owner = one
    pages = finding.pages if owner is None else owner.pages
    for name in sorted(files):
        if name.endswith(".html") and len(pages) < MOST_PAGES:
            pages.append(folder / name)
    if level < MOST_LEVELS:
        for name in sorted(folders):
            if not name.startswith(".") and name not in _NO_PLACES:
                _look(finding, folder / name, os.path.join(shown, name), owner, level + 1)


def _entries(finding: Finding, folder: Path) -> tuple[set[str], set[str]]:
    """Names of the files and of the folders in a folder, links left out."""
    files: set[str] = set()
    folders: set[str] = set()
    for entry in _scanned(folder):
        if finding.entries >= MOST_ENTRIES:
            break
        finding.entries += 1
        if entry.is_dir(follow_symlinks=False):
            folders.add(entry.name)
        elif entry.is_file(follow_symlinks=False):
            files.add(entry.name)
    return files, folders


def _scanned(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # Not ours to read, or gone meanwhile.
        return


def _kind(files: set[str], folders: set[str]) -> str | None:
    if "pipeline.yaml" in files:
        return "pipeline"
    if "pool.json" in files:
        return "pool"
    return "run" if "config.yaml" in files and {"status.json", "game.json", "metrics.csv"} & files else None
