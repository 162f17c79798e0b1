"""What of a folder travels, and what a file that has travelled must be before it is taken in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from omg.components.files import checksum, given_path
from omg.components.headers import DamagedFileError, read_header
from omg.disk import check_regular, read_json
from omg.errors import UserError
from omg.names import check_links, file_name, inert
from omg.pools import INDEX, AgentCard, Pool, PriorCard, is_pool, read_agent_card
from omg.pools.agents import CARD
from omg.pools.bundles import WEIGHTS, read_bundle
from omg.pools.priors import PRIOR_CARD
from omg.recordings.recording import ENDING, Recording
from omg.tracking import RunFolder
from omg.training.saved import CHECKPOINTS, CONFIG

MANIFEST, README, HUB_CONFIG, SCORES = "omg.json", "README.md", "config.json", "scores.csv"
OWN = (MANIFEST, README, HUB_CONFIG, SCORES)
"""Written by us at the top of what is shared."""
PLAN = "pipeline.yaml"
MOST_FILES = 20_000
_MOST_LEVELS = 12
_LEFT_OUT = (CHECKPOINTS, "tensorboard", "sacred", "sacred_tinydb", "wandb", "mlartifacts", "replaced", "logs")
"""Folders that stay at home: large, of use to nobody else, or other programs' own."""


class Contents(NamedTuple):
    """The files of a folder that travel."""

    kind: str
    files: Mapping[str, Path]
    """Place in what is shared -> file."""
    left_out: tuple[str, ...]
    """Folders and kinds of files that stay."""


def kind_of(folder: Path) -> str:
    """What a folder is: agent, prior, pool, run or result.

    Raises:
        UserError: none of these.
    """
    given_path(folder)
    if is_pool(folder):
        return "pool"
    for file, kind in ((PLAN, "result"), (CARD, "agent"), (PRIOR_CARD, "prior")):
        if (folder / file).is_file():
            return kind
    if (folder / CONFIG).is_file():
        return "run"
    reason = "it holds none of these" if folder.is_dir() else "there is no such folder"
    raise UserError(
        f"{folder}: {reason}. Give the folder of an agent ({CARD}), a prior ({PRIOR_CARD}), a pool ({INDEX}), a run "
        f"({CONFIG}) or a pipeline ({PLAN})."
    )


def contents(folder: Path) -> Contents:
    """What of a folder travels; links and files of other kinds do not.

    Raises:
        UserError: it is nothing that can be shared, or a link leads out of it.
    """
    kind = kind_of(folder)
    check_links(folder)
    found: dict[str, Path] = {}
    left: set[str] = set()
    for where, folders, files in os.walk(folder):
        base = Path(where).relative_to(folder)
        left |= {f"{name}/" for name in folders if name in _LEFT_OUT}
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
        for name in sorted(files):
            path = Path(where, name)
            if name.startswith(".") or (base == Path() and name in OWN):
                continue
            if path.is_symlink() or path.suffix not in CHECKS:
                left.add(path.suffix or name)
                continue
            found[str(PurePosixPath(base, name))] = path
    if len(found) > MOST_FILES:
        raise UserError(f"{folder}: has {len(found):,} files; at most {MOST_FILES:,} are shared.")
    for place in found:
        checked_place(str(folder), place)
    return Contents(kind, found, tuple(sorted(left)))


def checked_place(source: str, place: str) -> PurePosixPath:
    """A place in what is shared, if a file may be put there on any system.

    Raises:
        UserError: it leads elsewhere, is hidden, or is of a kind that is not taken in.
    """
    parts = place.split("/")
    if len(parts) > _MOST_LEVELS:
        raise UserError(f"{source}: '{inert(place[:80])}' lies {len(parts)} folders deep; allowed: {_MOST_LEVELS}.")
    for part in parts:
        file_name(f"{source}: a file's name", part)
    path = PurePosixPath(place)
    if path.suffix not in CHECKS:
        raise UserError(
            f"{source}: '{inert(place[:80])}' is of a kind that is not taken in. Allowed: {', '.join(sorted(CHECKS))}."
        )
    return path


def _weights(path: Path) -> None:
    read_header(path)


def _json(path: Path) -> None:
    read_json(path)


def _text(path: Path) -> None:
    check_regular(path)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            if b"\0" in block:
                raise DamagedFileError("it is no text")


def _picture(path: Path) -> None:
    check_regular(path)
    with path.open("rb") as file:
        if file.read(8) != b"\x89PNG\r\n\x1a\n":
            raise DamagedFileError("it is no PNG")


def _recording(path: Path) -> None:
    Recording.read(path)


CHECKS: Mapping[str, Callable[[Path], None]] = {
    ".safetensors": _weights,
    ".json": _json,
    **dict.fromkeys((".yaml", ".csv", ".md", ".txt", ".log"), _text),
    ".png": _picture,
    ENDING: _recording,
}
"""Ending -> what raises `DamagedFileError` or `UserError` for a file that is something else. Pages are not among them:
they hold scripts, and `omg report` makes them anew."""


def check_contents(folder: Path, kind: str) -> None:
    """Looks through a folder that has arrived: every file is what its ending says, and the whole is what it claims.

    Nothing in it is opened as a game, and no weights are loaded.

    Raises:
        UserError: names the first file with which something is wrong.
    """
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            CHECKS[path.suffix](path)
        except (OSError, DamagedFileError) as error:
            raise UserError(f"{path.relative_to(folder)} is damaged: {error}.") from None
    if (found := kind_of(folder)) != kind:
        raise UserError(f"it claims to be a {kind}, but is a {found}.")
    for index in sorted(folder.rglob(INDEX)):
        Pool.open(index.parent).check()
    for card, described in ((CARD, AgentCard), (PRIOR_CARD, PriorCard)):
        for path in sorted(folder.rglob(card)):
            if read_bundle(path.parent, card, described).digest != checksum(path.parent / WEIGHTS):
                where = path.parent.relative_to(folder) / WEIGHTS
                raise UserError(f"{where} is damaged: its checksum does not match its card.")
            if card == CARD:
                read_agent_card(path.parent)
    if kind == "run":
        RunFolder.open(folder).config()
