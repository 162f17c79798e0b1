"""Parts on the machines of a Ray cluster, one task for each."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from omg.errors import UserError, disk_fault
from omg.launchers import carrying
from omg.launchers.base import Job, Site
from omg.launchers.cluster import ClusterLauncher, ClusterPart
from omg.launchers.lease import Holder, Lease, here, lease_name
from omg.launchers.remote import UNSEEN_CODE, Began, Brought, Order, Over, do_part, sees, versions
from omg.launchers.serving import DISK_CODE
from omg.launchers.settings import LauncherSettings
from omg.names import inert

if TYPE_CHECKING:
    from ray import ObjectRefGenerator

INSTALL = "pip install 'omg-marl[ray]'"
_LOOK = 0.2
_PATIENCE = 30.0
"""Seconds after which it is told what a part that has not begun waits for."""
_PROBE_SECONDS = 60.0
_GB = 1024**3


@dataclass
class _RayTask(ClusterPart):
    """A part that Ray has."""

    words: ObjectRefGenerator | None = None
    handed: float = 0.0
    node: str = ""
    avoided: list[str] = field(default_factory=list)
    """Ids of machines whose disks failed it."""
    told: bool = False


def ray_part(order: Order, files: Mapping[str, bytes]) -> Iterator[str | Began | Brought | Over]:
    """What Ray runs: the id of the machine, then how the part goes."""
    import ray

    yield ray.get_runtime_context().get_node_id()
    yield from do_part(order, files)


def ray_sees(leases: str, head: Holder) -> tuple[str, bool]:
    """What Ray runs to learn whether a machine sees the results folder: its name, and whether it does."""
    return socket.gethostname(), sees(leases, head)


class RayLauncher(ClusterLauncher[_RayTask]):
    """Does each job as a task of Ray."""

    def __init__(self, site: Site, settings: LauncherSettings, head: Lease) -> None:
        try:
            import ray
        except ImportError:
            raise UserError(f"--launcher ray: Ray is not installed. Install it with: {INSTALL}") from None
        super().__init__(site, settings, head)
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            self._connect(settings.address)
        try:
            self._copied = settings.files == "copied" or not self._is_shared()
        except BaseException:
            self.close()
            raise
        self._hosts: set[str] = set()

    def close(self) -> None:
        """Ends the connection, and a cluster that was begun for it."""
        if self._started:
            self._ray.shutdown()

    def _connect(self, address: str | None) -> None:
        if address is not None and address.startswith("ray://"):
            raise UserError(
                f"--address: got '{inert(address)}', which is for clients from outside. Start omg on a machine of the "
                f"cluster with --address auto."
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Without this Ray says at every start what it will do to GPUs in a later version.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
        own = address is None and "RAY_ADDRESS" not in os.environ
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                include_dashboard=False if own else None,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            text = str(error).strip().partition("\n")[0]
            raise UserError(f"--address: got '{inert(str(address))}'; Ray cannot be reached there: {text}") from None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _is_shared(self) -> bool:
        """Whether every machine that is there sees the results folder; says so if not."""
        ray, leases = self._ray, str(self.site.leases)
        nodes = [node for node in ray.nodes() if node["Alive"]]
        if len(nodes) == 1 and nodes[0]["NodeManagerHostname"] == socket.gethostname():
            return True
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = ray.remote(num_cpus=0, max_retries=0)(ray_sees)
        asked = [
            probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
                leases, here()
            )
            for node in nodes
        ]
        answers: list[tuple[str, bool]] = []
        came, _ = ray.wait(asked, num_returns=len(asked), timeout=_PROBE_SECONDS)
        for answer in came:
            try:
                answers.append(ray.get(answer))
            except ray.exceptions.RayTaskError as error:
                self._refuse(error)
            except ray.exceptions.RayError:  # A machine that has gone since.
                continue
        blind = sorted({host for host, saw in answers if not saw})
        if not blind:
            count = len({host for host, _ in answers})
            self.site.say(f"{self.site.folder}: seen by {len(answers)} nodes of the cluster on {count} machines")
            return True
        named = ", ".join(blind[:5]) + (f" and {len(blind) - 5} others" if len(blind) > 5 else "")
        if self._settings.files == "shared":
            raise UserError(f"--files: got shared, but {named} does not see {self.site.folder}.")
        self.site.say(
            f"{self.site.folder} is not shared: {named} does not see it. The files of every part travel through Ray; "
            f"a part whose machine dies goes on from what has come back, at most a minute old."
        )
        return False

    def _part(self, job: Job) -> _RayTask:
        return _RayTask(job)

    def _hand_over(self, part: _RayTask) -> None:
        """Gives a part to Ray."""
        job, site, ray = part.job, self.site, self._ray
        needs = self._settings.machine.over(job.needs)
        part.where, part.node, part.began, part.told = "", "", 0.0, False
        part.handed = time.perf_counter()
        order = self._order(job, copied=self._copied)
        files = carrying.collect(site.folder, job.reads, whole=False) if self._copied else {}
        files |= carrying.collect(site.folder, job.makes) if self._copied else {}
        task = ray.remote(num_returns="streaming", max_retries=0)(ray_part).options(
            name=job.label,
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            scheduling_strategy="SPREAD",
            **({"memory": int(needs.memory_gb * _GB)} if needs.memory_gb else {}),
            **({"label_selector": {"ray.io/node-id": f"!in({','.join(part.avoided)})"}} if part.avoided else {}),
        )
        part.words = task.remote(order, ray.put(files) if files else {})

    def _look(self, parts: Sequence[_RayTask]) -> list[_RayTask]:
        for part in parts:
            if not part.where and not part.told and time.perf_counter() - part.handed >= _PATIENCE:
                part.told = True
                self._tell_waiting(part)
        by_words = {part.words: part for part in parts}
        ready, _ = self._ray.wait(list(by_words), num_returns=len(by_words), timeout=_LOOK, fetch_local=False)
        return [by_words[words] for words in ready]

    def _tell_waiting(self, part: _RayTask) -> None:
        needs = self._settings.machine.over(part.job.needs)
        there = self._ray.cluster_resources()
        memory = f", {needs.memory_gb:g} GB" if needs.memory_gb else ""
        self.site.say(
            f"{part.job.label}: waits for a machine with {needs.cpus:g} cores, {needs.gpus:g} GPUs{memory}; in all "
            f"the cluster has {there.get('CPU', 0):g} cores, {there.get('GPU', 0):g} GPUs, "
            f"{there.get('memory', 0) / _GB:.0f} GB just now"
        )

    def _hear(self, part: _RayTask) -> Over | None:
        ray = self._ray
        assert part.words is not None
        try:
            word = ray.get(next(part.words))
        except StopIteration:
            return Over(-signal.SIGKILL, "it ended without a word", {}, b"")
        except ray.exceptions.RayTaskError as error:
            self._refuse(error)
        except ray.exceptions.RayError as error:
            text = str(error).strip().partition("\n")[0]
            return Over(-signal.SIGKILL, f"{part.where or 'its machine'} is gone ({inert(text)[:160]})", {}, b"")
        label, site = part.job.label, self.site
        log = site.logs / f"{lease_name(label)}.log"
        if isinstance(word, str):
            part.node = word
        elif isinstance(word, Began):
            part.where, part.began = word.host, time.perf_counter()
            site.say(f"{label}: running on {inert(word.host)}, process {word.pid}, see {log}")
            self._compare(word)
        elif isinstance(word, Brought):
            self._bring(part, word.files)
        elif isinstance(word, Over):
            if self._copied:
                self._bring(part, word.files)
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_bytes(word.log)
            return word
        return None

    def _bring(self, part: _RayTask, files: Mapping[str, bytes]) -> None:
        try:
            carrying.spread(self.site.folder, files, replaced=part.job.makes if files else ())
        except OSError as error:
            raise disk_fault(error, self.site.folder) or error from None

    def _again(self, part: _RayTask, over: Over) -> bool:
        if over.code == UNSEEN_CODE:
            if self._settings.files == "shared":
                return False
            self.site.say(f"{part.job.label}: {over.reason}; its files travel through Ray from here on")
            self._copied = True
            self._begin(part)
            return True
        if over.code == DISK_CODE and part.node:
            part.avoided.append(part.node)
            left = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]} - set(part.avoided)
            part.avoided = part.avoided if left else []
        return super()._again(part, over)

    def _take_back(self, parts: Sequence[_RayTask]) -> list[_RayTask]:
        for part in parts:
            # Those that have begun hear it from the head's lease, if they see it; others must not begin.
            if self._copied or not part.where:
                self._ray.cancel(part.words)
        return []

    def _kill(self, part: _RayTask) -> None:
        self._ray.cancel(part.words, force=True)

    def _compare(self, word: Began) -> None:
        """Says once for every machine in what its results may differ."""
        own, host = versions(), inert(word.host)
        other = [f"{name} {inert(value)}" for name, value in word.versions.items() if own.get(name) != value]
        if other and host not in self._hosts:
            here_are = ", ".join(f"{name} {value}" for name, value in own.items())
            self.site.say(f"{host} has {', '.join(other)}, here are {here_are}: last digits may differ")
        self._hosts.add(host)

    def _refuse(self, error: Exception) -> NoReturn:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, ModuleNotFoundError | ImportError | AttributeError):
            raise UserError(
                f"--launcher ray: a machine of the cluster cannot load omg ({inert(str(cause))}). Install the same "
                f"version on all of them."
            ) from None
        raise error
