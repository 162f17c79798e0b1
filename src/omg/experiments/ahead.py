"""Parts of a pipeline ahead of their turn: all that can be done at once, each in a process of its own.

The process that has the folder decides what is begun and keeps the records; see `omg.experiments.part_process` for what
the others do.
"""

from __future__ import annotations

from collections.abc import Sequence

from omg.experiments.ledger import LOGS, Ledger, Part
from omg.experiments.processes import Job, run_jobs


def run_ahead(ledger: Ledger, due: Sequence[Part], jobs: int, *, anew: bool = False) -> None:
    """Does those of some parts that are worth a process of their own, each as soon as what it needs is done.

    Left are those that need a part which is not worth one and not done, and a part that is the only one for now: it is
    done sooner here, where everything is loaded.

    Args:
        ledger: the records.
        due: what there is still to do, or to find done, in this order.
        jobs: most processes at once.
        anew: do all of them even if they are done.

    Raises:
        UserError: a part failed; all that do not need it were done first.
        Stopped: after a signal, when all that were running have saved and ended.
    """
    if len(_ready(ledger, due, anew)) < 2:
        return
    begun: dict[str, Part] = {}

    def next_job() -> Job | None:
        part = next((part for part in _ready(ledger, due, anew) if part.title not in begun), None)
        if part is None:
            return None
        ledger.begin(part, anew=anew)
        begun[part.title] = part
        return Job(part.title, "omg.experiments.part_process", (str(ledger.folder), part.title))

    def ended(title: str, seconds: float, done: bool) -> None:
        part = begun[title]
        ledger.end(part, seconds, done=done and all(path.exists() for path in part.makes))

    try:
        run_jobs(next_job, ended, jobs, ledger.folder / LOGS, ledger.say)
    except KeyboardInterrupt:
        ledger.say("continue with the same command")
        raise


def _ready(ledger: Ledger, due: Sequence[Part], anew: bool) -> list[Part]:
    """The parts worth a process of their own that lack something, while nothing that they need does."""
    lacking = ledger.lacking(due, anew=anew)
    titles = {part.title for part in lacking}
    return [part for part in lacking if part.apart and not any(need.title in titles for need in part.needs)]
