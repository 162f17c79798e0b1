"""Tasks of a pipeline ahead of their turn: all that can be done at once, each in a process of its own.

The process that has the folder decides what is begun and keeps the notes; see `omg.experiments.task_process` for what
the others do.
"""

from __future__ import annotations

from collections.abc import Sequence

from omg.experiments.ledger import LOGS, Ledger, Task
from omg.experiments.processes import Job, run_jobs


def run_ahead(
    ledger: Ledger,
    due: Sequence[Task],
    jobs: int,
    *,
    anew: bool = False,
    module: str = "omg.experiments.task_process",
    words: Sequence[str] = (),
) -> None:
    """Does those of some tasks that are worth a process of their own, each as soon as what it needs is done.

    Left are those that need a task which is not worth one and not done, and a task that is the only one for now: it is
    done sooner here, where everything is loaded.

    Args:
        ledger: the notes.
        due: what there is still to do, or to find done, in this order.
        jobs: most processes at once.
        anew: do all of them even if they are done.
        module: what a process runs, with the folder and the title of its task.
        words: what it is told besides.

    Raises:
        UserError: a task failed; all that do not need it were done first.
        Stopped: after a signal, when all that were running have saved and ended.
    """
    if len(_ready(ledger, due, anew)) < 2:
        return
    begun: dict[str, Task] = {}

    def next_job() -> Job | None:
        task = next((task for task in _ready(ledger, due, anew) if task.title not in begun), None)
        if task is None:
            return None
        ledger.begin(task, anew=anew)
        begun[task.title] = task
        return Job(task.title, module, (str(ledger.folder), task.title, *words))

    def ended(title: str, seconds: float, done: bool) -> None:
        task = begun[title]
        ledger.end(task, seconds, done=done and all(path.exists() for path in task.makes))

    try:
        run_jobs(next_job, ended, jobs, ledger.folder / LOGS, ledger.say)
    except KeyboardInterrupt:
        ledger.say("continue with the same command")
        raise


def _ready(ledger: Ledger, due: Sequence[Task], anew: bool) -> list[Task]:
    """The tasks worth a process of their own that lack something, while nothing that they need does."""
    lacking = ledger.lacking(due, anew=anew)
    titles = {task.title for task in lacking}
    return [task for task in lacking if task.apart and not any(need.title in titles for need in task.needs)]
