"""Files of an experiment on machines that do not see its folder: taken there, and brought back."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from omg.disk import WRITING, write_bytes
from omg.names import inside

_CHECKPOINTS = "checkpoints"
"""Folders of a run that are only of use for going on with it."""
_TRIES = 3


def collect(folder: Path, names: Iterable[str], *, whole: bool = True) -> dict[str, bytes]:
    """Path, relative to a folder -> bytes, of some of its files and of all files in some of its folders.

    They may be written meanwhile. Checkpoints come first: what a run notes is then never behind them, as when it was
    killed.

    Args:
        folder: of the experiment.
        names: relative to it; what is not there is left out.
        whole: whether checkpoints are taken along.
    """
    found: set[Path] = set()
    for name in names:
        path = inside(folder, folder / name)
        found |= {path} if path.is_file() else {one for one in path.rglob("*") if one.is_file()}
    paths = [path.relative_to(folder) for path in sorted(found)]
    paths = [path for path in paths if not any(part.startswith((WRITING, ".old-")) for part in path.parts)]
    paths.sort(key=lambda path: _CHECKPOINTS not in path.parts)
    kept = [path for path in paths if whole or _CHECKPOINTS not in path.parts]
    return {path.as_posix(): (folder / path).read_bytes() for path in kept}


def snapshot(folder: Path, names: Iterable[str]) -> dict[str, bytes] | None:
    """The files of work that goes on meanwhile; None if it changes too fast just now."""
    names = tuple(names)
    for _ in range(_TRIES):
        try:
            return collect(folder, names)
        except FileNotFoundError:  # An old checkpoint was deleted for a newer one.
            continue
    return None


def spread(folder: Path, files: Mapping[str, bytes], replaced: Iterable[str] = ()) -> None:
    """Writes files where they belong.

    Args:
        folder: of the experiment.
        files: from `collect`; each is written whole or not at all.
        replaced: files and folders, relative to `folder`, in which nothing else is left.

    Raises:
        UserError: a path leads out of the folder.
        OSError: the disk does not take them.
    """
    for name, data in files.items():
        path = inside(folder, folder / PurePosixPath(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, data, durable=False)
    for name in replaced:
        place = inside(folder, folder / name)
        for path in [one for one in place.rglob("*") if one.is_file()]:
            if path.relative_to(folder).as_posix() not in files:
                path.unlink()


def scratch(head: str, folder: str, label: str) -> Path:
    """The folder of a part on this machine's own disk, the same one whenever it comes here again.

    Args:
        head: the machine that hands out the parts.
        folder: of the experiment, there.
        label: of the job.
    """
    digest = hashlib.sha256(f"{head}\n{folder}\n{label}".encode()).hexdigest()[:16]
    root = Path(os.environ.get("OMG_SCRATCH") or tempfile.gettempdir()) / f"omg-parts-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise OSError(None, "belongs to somebody else", str(root))
    place = root / digest
    place.mkdir(exist_ok=True)
    return place.resolve()


def clear(place: Path) -> None:
    """Deletes a folder that was made by `scratch`."""
    shutil.rmtree(place, ignore_errors=True)
