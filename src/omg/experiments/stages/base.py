"""What a stage of a pipeline is: keys of the plan, what cannot be run, tasks, how each is done, and what is shown.

A stage is one class in one file here, with its section of the plan above it, and one field of
`omg.experiments.plan.Plan` that names both. Everything else (reading plans, checking them, notes, doing what is
missing, processes of their own, `--from` and `--only`) walks the fields of `Plan` and knows no stage by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict
from rich.console import Console

from omg.config import Config, Resolved, adjust, resolve
from omg.config.sections import RECORDS
from omg.errors import UserError
from omg.experiments.ledger import Ledger, Task
from omg.experiments.runs import finish, is_over
from omg.launchers import Launcher
from omg.report.terminal import Screen

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan

_NO_MATTER = ("use_cuda", "devices", "use_tensorboard", "tracker", *RECORDS)
"""Settings that change nothing in a result."""
_ELSEWHERE = ("self_play",)
"""Keys that a task says in another way: what matters is where an agent learns, not where the plan says so."""
_WITHOUT: Mapping[str, object] = {
    "kinds": None,
    "draw": 1,
    "exact_starts": 4,
    "space": {},
    "sampler": "grid",
    "round": None,
    "stop": None,
}
"""Keys that ask for nothing at these values: results made before there were such keys stay what they are."""
_Result = TypeVar("_Result")


class Section(BaseModel):
    """Some keys of a plan; unknown ones are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def fingerprinted(self) -> dict[str, object]:
        """The keys that results depend on, as JSON values."""
        values = self.model_dump(mode="json")
        idle = [key for key, value in _WITHOUT.items() if key in values and values[key] == value]
        return {key: value for key, value in values.items() if key not in (*_NO_MATTER, *_ELSEWHERE, *idle)}


class SettingsSection(Section):
    """A section that also takes keys of the configuration."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    own: ClassVar[Mapping[str, str]] = {}
    """Further configuration keys that cannot be set here, and why."""

    @property
    def settings(self) -> dict[str, object]:
        """The configuration keys that are given."""
        return dict(self.model_extra or {})


@dataclass(frozen=True)
class Workplace:
    """Where the stages of one pipeline do their work."""

    checked: CheckedPlan
    shown: Path
    """The folder as the user wrote it."""
    ledger: Ledger
    screen: Console
    quiet: bool
    launcher: Launcher | None = None
    """Does parts in processes of their own; None in such a process."""

    def finish(self, where: Path, config: Callable[[], Config]) -> None:
        """Brings the run in a folder to its end: a new one, or the one that was interrupted there."""
        if is_over(where):
            return
        try:
            finish(config(), console=self.screen, quiet=self.quiet)
        except KeyboardInterrupt:
            self.ledger.say("continue with the same command")
            raise


@dataclass
class Earlier:
    """The tasks of the stages before, in the order in which they are done."""

    tasks: list[Task] = field(default_factory=list)

    def of(self, stage: type[Stage]) -> dict[str, Task]:
        """The tasks of one stage by name; none where the plan does not ask for it."""
        return {task.name: task for task in self.tasks if task.stage == stage.name}


class Stage(ABC):
    """One stage of one pipeline."""

    name: ClassVar[str]
    """As users write it, e.g. `--from NAME`; also the first word of its tasks' titles."""
    entries: ClassVar[tuple[str, ...]]
    """Files and folders in the pipeline's folder that it makes something in."""

    def __init__(self, place: Workplace) -> None:
        """A stage that was checked; nothing is loaded before a task is done."""
        self.place = place
        self.checked: CheckedPlan = place.checked
        self.plan: Plan = place.checked.plan

    @classmethod
    @abstractmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """Refuses, before anything runs, what this stage could not do.

        Args:
            checked: the plan; what other stages refuse may still be in it.

        Returns:
            Section -> configuration of its run, for those whose players sit in one team with the others'.

        Raises:
            UserError: names the section and the key that cannot be used, what was given and what is allowed.
        """

    @abstractmethod
    def tasks(self, earlier: Earlier) -> list[Task]:
        """What there is to do, in this order; nothing where the plan does not ask for it.

        Args:
            earlier: what tasks may need.
        """

    @classmethod
    def shows(cls, checked: CheckedPlan) -> Screen:
        """What is told on the screen when everything is done; nothing where the plan does not ask for it."""
        return ()


def refused_in(section: str, work: Callable[[], _Result]) -> _Result:
    """Runs `work`; what it refuses is refused with the section's name before it."""
    try:
        return work()
    except UserError as error:
        raise UserError(f"{section}: {error}") from None


def resolved(
    section: str, config: str, plan: Plan, settings: Mapping[str, object], shared: Collection[str] = ()
) -> Resolved:
    """The complete configuration of a run; refuses what no run would take.

    Args:
        section: of the plan, for messages.
        config: algorithm or team name.
        plan: names the game.
        settings: overrides.
        shared: those of them that this run need not read.
    """

    def work() -> Resolved:
        found = resolve(config, plan.game.env_config, settings, shared=shared)
        adjust(found.config, has_gpu=False)
        return found

    return refused_in(section, work)


def with_pool(trained: Task, pool: Task) -> tuple[Task, ...]:
    """What a task needs that plays an agent with members of a pool: the agent, and the pool if it never met it."""
    return (trained,) if trained is pool or pool in trained.needs else (trained, pool)


def chosen(section: Section, keys: Sequence[str]) -> dict[str, object]:
    """Some keys of a section as they go into fingerprints."""
    values = section.fingerprinted()
    return {key: values[key] for key in keys}
