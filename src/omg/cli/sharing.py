"""`omg push` and `omg pull`: what was trained, for others and from others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omg.cli.tables import print_lines
from omg.errors import UserError


def push(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An agent, a prior, a pool, a run or a pipeline.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="New folder or NAME.zip, https://.../NAME.zip or hf://OWNER/NAME.")
    ],
    licence: Annotated[
        str | None,
        typer.Option("--licence", "--license", metavar="NAME", help="Under which others may use it: apache-2.0, mit."),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Heading of the card.")] = None,
    scores: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of `omg evaluate --csv`, for the card.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Everybody may read a repository of the hub that is made.")
    ] = False,
) -> None:
    """Share an agent, a pool or a whole result: its files, a card and checksums.

    A folder and a repository of Hugging Face's hub have the same layout; an archive holds it in one file. Checkpoints,
    event files and pages stay at home.
    """
    from omg.sharing import push as share
    from omg.sharing.manifest import LICENCES

    if licence is None:
        raise UserError(f"--licence: missing. Say how others may use it, with one of: {', '.join(LICENCES)}.")
    pushed = share(folder, target, licence, title=title, scores=scores, public=public)
    made = pushed.manifest
    left = [f"left out: {', '.join(pushed.left_out)}"] if pushed.left_out else []
    print_lines(
        f"{made.title}: {len(made.files)} files, {_size(made.size)}, {made.licence}",
        f"to {pushed.where}",
        f"sha256 {made.digest}",
        *left,
    )


def pull(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Folder, NAME.zip, https://.../NAME.zip or hf://OWNER/NAME.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="New folder; named after SOURCE by default.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="Checksum that the whole must have, as `omg push` told it.")
    ] = None,
    most_gb: Annotated[float, typer.Option(min=0.001, max=4.0, help="More is not taken.")] = 2.0,
) -> None:
    """Fetch what somebody has shared, and take it in only if all of it is right.

    Nothing in it is run. Games of other packages that it names need --trust when it is used, as for any other folder.
    """
    from omg.sharing import pull as fetch

    pulled = fetch(source, output, sha256=sha256, most_bytes=int(most_gb * 1e9))
    made = pulled.manifest
    ignored = [f"not taken over, as omg.json does not name them: {pulled.ignored} files"] if pulled.ignored else []
    print_lines(
        f"{made.title}: {made.kind}, {len(made.files)} files, {_size(made.size)}, {made.licence}",
        f"in {pulled.folder}",
        f"sha256 {made.digest}",
        *ignored,
    )


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} bytes"
