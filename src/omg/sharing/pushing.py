"""`omg push`: a folder of ours, with a card, to where others can get it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from omg.components.files import checksum, new_folder, write_json, write_text
from omg.errors import UserError
from omg.sharing import hub, web
from omg.sharing.archive import write_archive
from omg.sharing.cards import card_text, gather, hub_config
from omg.sharing.contents import HUB_CONFIG, README, SCORES, check_contents, contents
from omg.sharing.manifest import Manifest, known_licence, make_manifest
from omg.sharing.places import Place, read_place

_MOST_BYTES = 4_000_000_000
"""A ZIP of this size needs no extension of the format, and its end can be checked before it is read."""
_WEIGHTS = ".safetensors"


class Pushed(NamedTuple):
    """What was shared."""

    manifest: Manifest
    where: str
    left_out: tuple[str, ...]


def push(
    folder: str | Path,
    target: str,
    licence: str,
    *,
    title: str | None = None,
    scores: str | Path | None = None,
    public: bool = False,
) -> Pushed:
    """Shares an agent, a prior, a pool, a run or a whole experiment.

    Args:
        folder: it is only read.
        target: a new folder, a new archive `NAME.zip` (also as `file://`), `https://…/NAME.zip` (by PUT), or
            `hf://OWNER/NAME`.
        licence: under which others may use it, as Hugging Face's hub spells it: `apache-2.0`, `cc-by-4.0`.
        title: heading of the card; made from what is shared unless given.
        scores: a table of `omg evaluate --csv`, which goes along and into the card.
        public: whether everybody may read a repository of the hub that is made for it.

    Raises:
        UserError: it cannot be shared, or the target does not take it.
    """
    folder = Path(folder)
    licence = known_licence(licence)
    place = read_place("TARGET", target)
    _check_target(place, folder)
    found = contents(folder)
    size = sum(path.stat().st_size for path in found.files.values())
    if size > _MOST_BYTES:
        raise UserError(f"{folder}: has {size:,} bytes; at most {_MOST_BYTES:,} are shared.")
    facts = gather(folder, found.kind, None if scores is None else Path(scores))
    facts.title = title or facts.title
    with TemporaryDirectory(prefix="omg-push-") as scratch:
        staging = Path(scratch) / "shared"
        for name, path in found.files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, staging / name)
        try:
            check_contents(staging, found.kind)
        except UserError as error:
            raise UserError(f"{folder}: {str(error).replace(str(staging), str(folder))}") from None
        if scores is not None:
            shutil.copyfile(scores, staging / SCORES)
        hashes = {name: checksum(staging / name) for name in found.files if name.endswith(_WEIGHTS)}
        write_json(staging / HUB_CONFIG, hub_config(facts, found.kind))
        write_text(staging / README, card_text(facts, found.kind, licence, hashes, found.left_out))
        made = make_manifest(staging, found.kind, facts.title, licence)
        where = _put(place, staging, Path(scratch), public=public)
    return Pushed(made, where, found.left_out)


def _check_target(place: Place, folder: Path) -> None:
    """Refuses, before any work, a target that is there already, or that others could listen in on."""
    if place.kind in ("folder", "archive"):
        if os.path.lexists(place.path):
            raise UserError(f"{place.shown}: is there already; nothing is overwritten. Give another name.")
        if place.path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{place.shown}: lies in the folder that is shared. Give a place outside it.")
    elif place.kind == "hub":
        hub.check_installed()
    elif place.plain:
        raise UserError(f"{place.shown}: anybody on the way could read or change what is sent. Use https://.")


def _put(place: Place, staging: Path, scratch: Path, *, public: bool) -> str:
    """Brings the staged folder to its place; returns how that is called."""
    if place.kind == "hub":
        return hub.upload(place, staging, public=public)
    if place.kind == "folder":
        with new_folder(place.path) as target:
            shutil.copytree(staging, target, dirs_exist_ok=True)
        return str(place.path)
    if place.kind == "web":
        write_archive(staging, scratch / "shared.zip")
        web.upload(place, scratch / "shared.zip")
        return place.shown
    place.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.path.with_name(f".writing-{place.path.name}")
    try:
        write_archive(staging, unfinished)
        os.replace(unfinished, place.path)
    finally:
        unfinished.unlink(missing_ok=True)
    return str(place.path)
