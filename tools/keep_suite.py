"""Keeps the tables of a suite: `python tools/keep_suite.py FOLDER RESULTS`, of all parts that are done.

`RESULTS/PLAN/draw_N` gets the tables of every part, RESULTS itself those of the suite with its figure and its page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

_OF_PART = (
    "evaluation/budget.csv",
    "evaluation/budget_scores.csv",
    "evaluation/diagnostics.csv",
    "evaluation/summary.csv",
    "evaluation/closed.csv",
    "tune/trials.csv",
    "pool/room/room.csv",
    "pool/room/responses.csv",
    "pool/room/trained.csv",
    "times.csv",
)
_OF_SUITE = (
    "suite/games.csv",
    "suite/agents.csv",
    "suite/differences.csv",
    "suite/probes.csv",
    "figures/room.png",
    "report.md",
    "pipeline.yaml",
)


def main(suite: str, results: str) -> int:
    """Copies them; returns the exit status."""
    kept, own = list(chosen(Path(suite))), f"{Path(suite).resolve()}/"
    for source, name in kept:
        target = Path(results) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        # Tables name pools by their folders; where the suite was run is nobody's matter.
        target.write_bytes(data.replace(own.encode(), b"") if source.suffix == ".csv" else data)
    print(f"{results}: {len(kept)} files, {sum(source.stat().st_size for source, _ in kept) / 1e6:.1f} MB")
    return 0


def chosen(suite: Path) -> Iterator[tuple[Path, Path]]:
    """Files that are kept, and their paths in the results."""
    for name in _OF_SUITE:
        if (suite / name).is_file():
            yield suite / name, Path(Path(name).name)
    for page in sorted(suite.glob("*/draw_*/report.html")):
        for name in _OF_PART:
            if (page.parent / name).is_file():
                yield page.parent / name, page.parent.relative_to(suite) / Path(name).name


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
