"""Parts as jobs of Slurm, through submitit, which requeues those that are preempted."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from omg.errors import UserError
from omg.launchers.base import Job, Needs, Site
from omg.launchers.cluster import ClusterLauncher, ClusterPart
from omg.launchers.lease import HELD, Lease, lease_name, look
from omg.launchers.remote import UNSEEN_CODE, Began, Order, Over, do_part
from omg.launchers.settings import LauncherSettings
from omg.names import inert

if TYPE_CHECKING:
    from submitit import Job as SlurmJob
    from submitit.helpers import DelayedSubmission

INSTALL = "pip install 'omg-marl[slurm]'"
SLURM = "slurm"
"""This launcher's word."""
PLACE = "slurm"
"""Folder, among the leases, of what submitit writes."""
MINUTES = 24 * 60
"""Longest time of a part at a stretch, where nobody says otherwise."""
_LOOK = 0.5
_MOST_TIMES = 1000
"""How often a part may be over its time and go on: every time it has saved what it did."""


class SlurmPart:
    """What submitit runs: a part, which is queued again when Slurm takes its machine away or its time is over."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._pid = 0

    def __call__(self) -> Over:
        """Does the part."""
        for word in do_part(self.order, {}):
            if isinstance(word, Began):
                self._pid = word.pid
            elif isinstance(word, Over):
                return word
        raise AssertionError("a part ends with how it ended")

    def checkpoint(self) -> DelayedSubmission:
        """Called when the machine is about to be taken away: lets the part's process save and end; it then goes on."""
        from submitit.helpers import DelayedSubmission

        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGINT)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        return DelayedSubmission(SlurmPart(self.order))


@dataclass
class _SlurmTask(ClusterPart):
    """A part that Slurm has."""

    handle: SlurmJob[Over] | None = None
    lease: int = 0
    """Number of its lease before it was handed over."""


class SlurmLauncher(ClusterLauncher[_SlurmTask]):
    """Does each job as a job of Slurm."""

    def __init__(self, site: Site, settings: LauncherSettings, head: Lease) -> None:
        submitit = _submitit()
        super().__init__(site, settings, head)
        # A folder of its own: what submitit reads back are pickles, which nobody else may have put there.
        self._place = site.leases / f"{PLACE}-{uuid4().hex[:12]}"
        self._place.mkdir(mode=0o700)
        try:
            if settings.executor == "local":
                self._executor = submitit.LocalExecutor(self._place, max_num_timeout=_MOST_TIMES)
            else:
                self._executor = submitit.SlurmExecutor(self._place, max_num_timeout=_MOST_TIMES)
        except RuntimeError as error:
            self.close()
            raise UserError(f"--launcher slurm: {inert(str(error))} Start omg where sbatch and srun are.") from None
        site.say(f"{site.folder}: must be on a file system that Slurm's nodes see; the first part tells if it is not")

    def close(self) -> None:
        """Deletes what submitit has written; what parts print is in the logs."""
        shutil.rmtree(self._place, ignore_errors=True)

    def _part(self, job: Job) -> _SlurmTask:
        return _SlurmTask(job)

    def _hand_over(self, part: _SlurmTask) -> None:
        job, site = part.job, self.site
        part.where, part.began = "", 0.0
        part.lease = look(site.leases, lease_name(job.label)).number
        parameters = _parameters(job, self._settings)
        if self._settings.executor == "local":
            named = {"timeout_min": parameters["time"], "signal_delay_s": parameters["signal_delay_s"]}
            self._executor.update_parameters(**named, gpus_per_node=parameters.get("gpus_per_node", 0))
        else:
            self._executor.update_parameters(**parameters)
        try:
            part.handle = self._executor.submit(SlurmPart(self._order(job, copied=False)))
        except Exception as error:  # What sbatch says comes as an error of submitit's own.
            raise UserError(f"--launcher slurm: {job.label} was not accepted: {inert(str(error).strip())}") from None
        site.say(f"{job.label}: handed to Slurm as job {part.handle.job_id}")

    def _look(self, parts: Sequence[_SlurmTask]) -> list[_SlurmTask]:
        time.sleep(_LOOK)
        return list(parts)

    def _hear(self, part: _SlurmTask) -> Over | None:
        label, site, handle = part.job.label, self.site, part.handle
        assert handle is not None
        seen = look(site.leases, lease_name(label))
        if seen.number > part.lease and seen.state == HELD and seen.holder is not None:
            part.lease, part.where = seen.number, seen.holder.host
            part.began = part.began or time.perf_counter()
            log = site.logs / f"{lease_name(label)}.log"
            site.say(f"{label}: running on {inert(part.where)}, process {seen.holder.pid}, see {log}")
        if not handle.done():
            return None
        try:
            return handle.result()
        except Exception as error:  # submitit has no class of its own for each of the ways in which a job is lost.
            text = str(error).strip().partition("\n")[0]
            return Over(-signal.SIGKILL, f"job {handle.job_id} was lost ({inert(text)[:160]})", {}, b"")

    def _again(self, part: _SlurmTask, over: Over) -> bool:
        # Files do not travel through Slurm: a machine that sees none of them would not another time.
        return over.code != UNSEEN_CODE and super()._again(part, over)

    def _take_back(self, parts: Sequence[_SlurmTask]) -> Iterator[_SlurmTask]:
        for part in parts:
            if not part.where and part.handle is not None and part.handle.state in ("PENDING", "UNKNOWN"):
                part.handle.cancel(check=False)
                yield part

    def _kill(self, part: _SlurmTask) -> None:
        if part.handle is not None:
            part.handle.cancel(check=False)


def batch_text(label: str, needs: Needs, settings: LauncherSettings, folder: Path) -> str:
    """The text that sbatch is given for a job; nothing is handed to Slurm.

    Args:
        label: of the job.
        needs: of the job.
        settings: what the user says.
        folder: of the leases.
    """
    _submitit()
    from submitit.slurm.slurm import _make_sbatch_string

    job = Job(label, "", (), needs)
    command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit {folder / PLACE}"
    make: Callable[..., str] = _make_sbatch_string
    return make(command, folder / PLACE, **_named(_parameters(job, settings)))


def _parameters(job: Job, settings: LauncherSettings) -> dict[str, object]:
    """What sbatch is told about a job, in submitit's words."""
    needs, slurm = settings.machine.over(job.needs), settings.slurm
    if needs.gpus != int(needs.gpus):
        raise UserError(f"gpus: got {needs.gpus:g}; Slurm deals out whole GPUs, e.g. 1.")
    found: dict[str, object] = {
        "job_name": f"omg-{lease_name(job.label)}",
        "time": needs.minutes or MINUTES,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": max(1, round(needs.cpus)),
        "signal_delay_s": slurm.signal_seconds,
        "stderr_to_stdout": True,
    }
    given = {
        "gpus_per_node": int(needs.gpus) or None,
        "mem": needs.memory_gb,
        **slurm.model_dump(exclude={"signal_seconds"}),
    }
    return found | {name: value for name, value in given.items() if value is not None}


def _named(parameters: dict[str, object]) -> dict[str, object]:
    """Parameters as the batch script has them: memory with its unit."""
    memory = parameters.get("mem")
    return parameters if memory is None else {**parameters, "mem": f"{round(float(str(memory)) * 1024)}M"}


def _submitit():  # type: ignore[no-untyped-def]
    try:
        import submitit
    except ImportError:
        raise UserError(f"--launcher slurm: submitit is not installed. Install it with: {INSTALL}") from None
    return submitit
