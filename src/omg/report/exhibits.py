"""What a run that is over has to look at, for the trackers that take such things."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omg.components.files import write_text
from omg.evaluation.rows import csv_text
from omg.evaluation.tables import MetricRow
from omg.report.curves import plot_curves
from omg.tracking import RunFolder
from omg.tracking.trackers import Exhibit

_MOST_CURVES = 12
_PREFIX = "test_"


def exhibits(folder: RunFolder, success_metric: str, pages: Sequence[Path], scratch: Path) -> list[Exhibit]:
    """The curves of its tests, a table of its newest ones, and the pages of its recorded games.

    Args:
        folder: of the run.
        success_metric: as in its metrics; it is drawn first.
        pages: of its recorded games, as `write_replays` has named them.
        scratch: an empty folder for what is drawn.

    Raises:
        UserError: the disk does not take it.
    """
    rows = list(map(MetricRow.of, folder.metrics()))
    tested = [row for row in rows if row.name.startswith(_PREFIX)]
    found: list[Exhibit] = []
    names = [*dict.fromkeys((success_metric, *sorted({row.name for row in tested if row.name.endswith("_mean")})))]
    for name in (name for name in names[:_MOST_CURVES] if any(row.name == name for row in tested)):
        picture = plot_curves({folder.config().name: tested}, name, scratch / f"{name}.png")
        found.append(Exhibit(f"curves/{name}", "picture", picture))
    if tested:
        newest = {(row.seed, row.name): row for row in tested}
        table = scratch / "newest_test.csv"
        write_text(table, csv_text(newest.values(), MetricRow.names()), durable=False)
        found.append(Exhibit("newest_test", "table", table))
    return [*found, *(Exhibit(f"replays/{page.stem}", "page", page, _seed_of(page)) for page in pages)]


def _seed_of(page: Path) -> int | None:
    """The seed in the name of a page, `seed_1_game_01.html`."""
    _, seed, *_ = page.stem.split("_")
    return int(seed) if seed.isdigit() else None
