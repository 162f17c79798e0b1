"""Tasks of a pipeline ahead of their turn: all that can be done at once, in processes of their own, here or elsewhere.

The process that has the folder decides what is begun; see `omg.experiments.task_process` for what the others do. Where
there is enough to do for all processes, one of them also does what follows from its task alone, e.g. the evaluation of
the agent that it has trained: starting a process takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from omg.experiments.ledger import NOTES, PLAN_FILE, Ledger, Task
from omg.launchers import Job, JobEnd, Launcher, Needs


def run_ahead(
    ledger: Ledger,
    due: Sequence[Task],
    launcher: Launcher,
    *,
    anew: bool = False,
    module: str = "omg.experiments.task_process",
    words: Sequence[str] = (),
    needs: Callable[[Task], Needs] = lambda task: Needs(),
) -> None:
    """Does those of some tasks that are worth a process of their own, each as soon as what it needs is done.

    Left are those that need a task which is not worth one and not done. Where the processes run on this machine, so is
    a task that is the only one for now: it is done sooner here, where everything is loaded.

    Args:
        ledger: the notes.
        due: what there is still to do, or to find done, in this order.
        launcher: starts the processes.
        anew: do all of them even if they are done.
        module: what a process runs, with the folder and the title of its task.
        words: what it is told besides.
        needs: what the machine of a task is to give it.

    Raises:
        UserError: a task failed; all that do not need it were done first.
        Stopped: after a signal, when all that were running have saved and ended.
    """
    if len(_ready(ledger, due, anew)) < (1 if launcher.elsewhere else 2):
        return
    begun: dict[str, list[Task]] = {}
    running: set[str] = set()

    def next_job() -> Job | None:
        taken = {task.title for chain in begun.values() for task in chain}
        ready = [task for task in _ready(ledger, due, anew) if task.title not in taken]
        if not ready:
            return None
        task = ready[0]
        lacking = ledger.lacking(due, anew=anew) if len(ready) + len(running) >= launcher.jobs else []
        begun[task.title] = chain = _chain(task, [one for one in lacking if one.title not in taken])
        running.add(task.title)
        for one in chain:
            ledger.begin(one, anew=anew)
        return Job(
            task.title,
            module,
            (*(one.title for one in chain), *words),
            _most([needs(one) for one in chain]),
            _reads(ledger.folder, chain),
            _makes(ledger.folder, chain),
        )

    def ended(outcome: JobEnd) -> None:
        running.discard(outcome.label)
        ledger.end_chain(begun[outcome.label], outcome.seconds)

    try:
        launcher.run(next_job, ended)
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


def _most(needs: Sequence[Needs]) -> Needs:
    """What is enough for each of some tasks, one after the other."""
    memory = [one.memory_gb for one in needs if one.memory_gb is not None]
    minutes = [one.minutes for one in needs if one.minutes is not None]
    return Needs(
        max(one.cpus for one in needs),
        max(one.gpus for one in needs),
        max(memory, default=None),
        sum(minutes) if minutes else None,
    )


def _reads(folder: Path, chain: Sequence[Task]) -> tuple[str, ...]:
    """What a machine without the folder has to be given: the plan, the notes, and all results that are built on."""
    found: dict[str, None] = {PLAN_FILE: None, NOTES: None}
    waiting = [need for task in chain for need in task.needs]
    seen: set[str] = set()
    while waiting:
        task = waiting.pop()
        if task.title in seen:
            continue
        seen.add(task.title)
        found |= dict.fromkeys(str(path.relative_to(folder)) for path in task.makes)
        waiting += () if task.closed else task.needs
    return tuple(found)


def _makes(folder: Path, chain: Sequence[Task]) -> tuple[str, ...]:
    """What it has to give back: the results, and their notes."""
    notes = [f"{NOTES}/{'/'.join((task.stage, *task.name.split()))}.json" for task in chain]
    return (*(str(path.relative_to(folder)) for task in chain for path in task.makes), *notes)
