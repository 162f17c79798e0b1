"""Tasks of a pipeline ahead of their turn: all that can be done at once, in processes of their own.

The process that has the folder decides what is begun; see `omg.experiments.task_process` for what the others do. Where
there is enough to do for all processes, one of them also does what follows from its task alone, e.g. the evaluation of
the agent that it has trained: starting a process takes seconds.
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
    begun: dict[str, list[Task]] = {}
    running: set[str] = set()

    def next_job() -> Job | None:
        taken = {task.title for chain in begun.values() for task in chain}
        ready = [task for task in _ready(ledger, due, anew) if task.title not in taken]
        if not ready:
            return None
        task = ready[0]
        lacking = ledger.lacking(due, anew=anew) if len(ready) + len(running) >= jobs else []
        begun[task.title] = chain = _chain(task, [one for one in lacking if one.title not in taken])
        running.add(task.title)
        for one in chain:
            ledger.begin(one, anew=anew)
        return Job(task.title, module, (str(ledger.folder), *(one.title for one in chain), *words))

    def ended(title: str, seconds: float, done: bool) -> None:
        running.discard(title)
        ledger.end_chain(begun[title], seconds)

    try:
        run_jobs(next_job, ended, jobs, ledger.folder / LOGS, ledger.say)
    except KeyboardInterrupt:
        ledger.say("continue with the same command")
        raise


def _chain(first: Task, lacking: Sequence[Task]) -> list[Task]:
    """A task, and those that lack nothing else than it and each other; where two trainings wait, neither of them."""
    missing = {task.title for task in lacking}
    waits_for = {task.title: {need.title for need in task.needs} & missing for task in lacking}
    costly = [frozenset(waits_for[task.title]) for task in lacking if task.costly]
    chain, titles = [first], {first.title}
    for task in lacking:
        needed = waits_for[task.title]
        alone = not task.costly or costly.count(frozenset(needed)) == 1
        if task.apart and needed and needed <= titles and alone:
            chain.append(task)
            titles.add(task.title)
    return chain


def _ready(ledger: Ledger, due: Sequence[Task], anew: bool) -> list[Task]:
    """The tasks worth a process of their own that lack something, while nothing that they need does."""
    lacking = ledger.lacking(due, anew=anew)
    titles = {task.title for task in lacking}
    return [task for task in lacking if task.apart and not any(need.title in titles for need in task.needs)]
