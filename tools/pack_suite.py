"""Packs what a suite, cut at any time, needs to go on elsewhere: `python tools/pack_suite.py FOLDER ARCHIVE`.

Left out is what nobody asks for again: of parts that are done all trainings, of trainings that are evaluated all
networks, of those that are over all checkpoints, of those that are not all but the newest one; and every best agent.
Small files come first: of an archive that is cut on its way the tables are there.
Unpack the archive (`tar -xJf ARCHIVE -C FOLDER`) at the same path, for configurations name the pool by it, and repeat
the command that made the suite.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

_LEFT = {"logs", "replaced", ".lock"}


def main(folder: str, archive: str) -> int:
    """Writes the archive; returns the exit status."""
    root = Path(folder)
    with tarfile.open(archive, "w:xz", preset=0) as packed:
        for path in sorted(kept_files(root), key=lambda path: (path.stat().st_size, path)):
            packed.add(path, path.relative_to(root), recursive=False)
    print(f"{archive}: {Path(archive).stat().st_size / 1e6:.1f} MB")
    return 0


def kept_files(suite: Path) -> Iterator[Path]:
    """The files of a suite that belong into its archive."""
    parts = {path.parent for path in suite.glob("*/draw_*/pipeline.yaml")}
    for path in files_in(suite):
        part = next((one for one in parts if one in path.parents), None)
        if part is None or wanted(path.relative_to(part), part, suite):
            yield path


def files_in(folder: Path) -> Iterator[Path]:
    """All files below a folder that are worth looking at."""
    for path in folder.iterdir():
        if path.name in _LEFT or path.is_symlink():
            continue
        if path.is_dir():
            yield from files_in(path)
        else:
            yield path


def wanted(path: Path, part: Path, suite: Path) -> bool:
    """Whether a file of one part, by its path in it, is asked for again."""
    trial = path.parts[:2] == ("tune", "runs")
    if path.parts[0] != "runs" and not trial:
        return True
    if is_done(suite, "part", part.parent.name, part.name.removeprefix("draw_")):
        return False
    label = path.parts[2 if trial else 1]
    if "checkpoints" in path.parts:
        run = part.joinpath(*path.parts[: path.parts.index("checkpoints")])
        newest = max((one.name for one in (run / "checkpoints").iterdir()), default="")
        return not is_done(part, "tune" if trial else "train", label) and newest in path.parts
    if "agents" not in path.parts:
        return True
    if any(word.startswith("best") for word in path.parts):
        return False
    if trial:
        return not is_done(part, "tune", label)
    asked = [("evaluate", kind, label) for kind in ("scores", "budget", "diagnostics")]
    return not all(is_done(part, *words) for words in asked if is_planned(part, *words)) or not is_done(part, *asked[1])


def is_done(folder: Path, *words: str) -> bool:
    """Whether a task is noted as complete."""
    note = folder.joinpath("stages", *words[:-1], f"{words[-1]}.json")
    return note.is_file() and json.loads(note.read_text(encoding="utf-8")).get("status") == "done"


def is_planned(folder: Path, *words: str) -> bool:
    """Whether a task of that name has ever been begun."""
    return folder.joinpath("stages", *words[:-1], f"{words[-1]}.json").is_file()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
