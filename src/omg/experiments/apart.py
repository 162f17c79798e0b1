"""Runs that are evaluated in processes of their own: `python -m omg.experiments.apart FOLDER LABEL TIE`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from omg.components.files import read_json, write_text
from omg.errors import UserError
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import ScoreRow
from omg.experiments.evaluation import evaluate_runs
from omg.launchers import Job, LauncherSettings, Say, Site, opened
from omg.launchers.serving import serve
from omg.names import file_name

_REQUEST = "request.json"


class EvaluationRequest(BaseModel):
    """What is played, as `evaluate_runs` has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: dict[str, str]
    """Label -> folder, absolute."""
    pool: str
    pool_set: str
    groups: list[str] | None
    episodes: int
    seed: int
    which: str
    step: int | None
    obs_adapter: str


def scores_apart(request: EvaluationRequest, settings: LauncherSettings, say: Say) -> dict[str, list[ScoreRow]]:
    """Label -> scores of every run, each played in a process of its own, here or elsewhere.

    Args:
        request: what is played.
        settings: who plays it; other machines must see the runs and the pool.
        say: prints a line.

    Raises:
        UserError: a run cannot be played, or machines do not see the runs.
        Stopped: after a signal.
    """
    # Beside the first run: where the runs can be seen, this can be seen as well.
    first = Path(next(iter(request.runs.values())))
    try:
        place = Path(tempfile.mkdtemp(prefix=".evaluating-", dir=first.parent))
    except OSError as error:
        raise UserError(f"{first.parent}: scores of single runs cannot be put there ({error.strerror}).") from None
    try:
        write_text(place / _REQUEST, request.model_dump_json())
        waiting = list(request.runs)
        site = Site(place, place / "logs", place / "leases", say)

        def next_job() -> Job | None:
            if not waiting:
                return None
            label = waiting.pop(0)
            return Job(_named(request, label), "omg.experiments.apart", (label,), makes=(_scores(request, label),))

        # Runs lie where they like, so they cannot be taken to machines that do not see them.
        with opened(settings.model_copy(update={"files": "shared"}), site) as launcher:
            launcher.run(next_job, lambda ending: None)
        return {label: read_rows(place / _scores(request, label), ScoreRow) for label in request.runs}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def play_apart(folder: Path, label: str) -> None:
    """Plays one run of a request and writes its scores."""
    request = EvaluationRequest.model_validate(read_json(folder / _REQUEST))
    options = request.model_dump(exclude={"runs", "pool"})
    table = evaluate_runs({label: request.runs[label]}, request.pool, **options)
    write_rows(folder / _scores(request, label), list(table), ScoreRow.names())


def _named(request: EvaluationRequest, label: str) -> str:
    """The job of a run: labels may be any text, so it is known by its place."""
    return f"run {list(request.runs).index(label) + 1}"


def _scores(request: EvaluationRequest, label: str) -> str:
    return f"{file_name('job', _named(request, label).replace(' ', '_'))}.csv"


def main(folder: str, label: str, tie: str) -> int:
    """What the process does; returns its exit status. It ends with those that `tie` names."""
    return serve(lambda: play_apart(Path(folder), label), tie)


def requested(
    runs: Mapping[str, str | Path],
    pool: Path,
    *,
    pool_set: str,
    groups: Sequence[str] | None,
    episodes: int,
    seed: int,
    which: str,
    step: int | None,
    obs_adapter: str,
) -> EvaluationRequest:
    """A request in which all folders are absolute."""
    return EvaluationRequest(
        runs={label: str(Path(path).absolute()) for label, path in runs.items()},
        pool=str(pool.absolute()),
        pool_set=pool_set,
        groups=None if groups is None else list(groups),
        episodes=episodes,
        seed=seed,
        which=which,
        step=step,
        obs_adapter=obs_adapter,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
