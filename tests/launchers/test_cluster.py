"""What the loop of both clusters says of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from omg.launchers.base import Job, JobEnd, Site
from omg.launchers.cluster import ClusterLauncher, ClusterPart
from omg.launchers.remote import Over
from omg.launchers.settings import LauncherSettings


class Quick(ClusterLauncher[ClusterPart]):
    """A cluster whose parts are over before anything is heard of their beginning."""

    def _part(self, job: Job) -> ClusterPart:
        return ClusterPart(job)

    def _hand_over(self, part: ClusterPart) -> None: ...

    def _look(self, parts: Sequence[ClusterPart]) -> Sequence[ClusterPart]:
        return list(parts)

    def _hear(self, part: ClusterPart) -> Over | None:
        return Over(0, "", {}, b"")

    def _take_back(self, parts: Sequence[ClusterPart]) -> Iterable[ClusterPart]:
        return parts

    def _kill(self, part: ClusterPart) -> None: ...


def test_a_part_that_is_over_at_once_took_no_time(tmp_path: Path):
    said: list[str] = []
    ends: list[JobEnd] = []
    waiting = [Job("brief", "omg.none", ())]
    site = Site(tmp_path, tmp_path / "logs", tmp_path / "leases", said.append)
    head = cast(Any, None)  # Only parts that have to stop hear of it.
    Quick(site, LauncherSettings(), head).run(lambda: waiting.pop() if waiting else None, ends.append)
    assert [(end.label, end.done) for end in ends] == [("brief", True)]
    # Not the time since the machine was started, which the clock counts from.
    assert [line for line in said if re.fullmatch("brief: finished after 0 s", line)] == said
    assert said
