"""The stage `report`: the question, and the figures and pages that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from omg.config import Config
from omg.envs import Env
from omg.errors import UserError, unknown_name
from omg.experiments.ledger import Task
from omg.experiments.results import pipeline_command, report_files, write_report
from omg.experiments.stages.base import Earlier, Section, Stage
from omg.runners.vector import OWN_RETURN

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan


class ReportSection(Section):
    """What the report is about."""

    title: str | None = Field(None, description="Heading")
    question: str = Field("Does modelling the others help here?", description="Question that is answered")
    metric: str | None = Field(None, description="Metric of the verdict; the game's success metric unless given")
    lower_is_better: bool = Field(False, description="For metrics such as ep_length")
    agent: str | None = Field(None, description="The agent in question; the last one unless given")
    baselines: list[str] | None = Field(None, description="What it is compared with; all others unless given")
    names: dict[str, str] = Field({}, description="Label -> name in tables and figures")


class ReportStage(Stage):
    """One task that needs whatever is to be shown."""

    name = "report"
    entries = ("figures", "report.html", "report.md")

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        if not checked.plan.evaluation.plays_groups:
            _check_compared(checked)
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        shown = tuple(task for task in earlier.tasks if task.reported)
        before = tuple(earlier.tasks)
        settings, files = self.plan.report.fingerprinted(), report_files(self.checked)
        return [Task(self.name, "", settings, files, lambda: self.write(before), shown)]

    def write(self, before: Sequence[Task]) -> None:
        """Makes the pages; they say how long all stages `before` took."""
        write_report(self.checked, self.place.ledger.seconds(before), pipeline_command(self.place.shown))


class ReportQuestion(NamedTuple):
    """What the verdict is about."""

    metric: str
    agent: str
    baselines: tuple[str, ...]


def question_of(plan: Plan, env: Env, agents: Sequence[str]) -> ReportQuestion:
    """Metric, agent and baselines of the verdict.

    Raises:
        UserError: there is no such metric or agent, or nobody to compare it with.
    """
    report = plan.report
    own = (OWN_RETURN,) if env.spec.reward_per_agent else ()
    metrics = ("return", "ep_length", *env.spec.metrics, *own)
    metric = report.metric or env.spec.success_metric
    if metric not in metrics:
        raise unknown_name("metric (report.metric)", metric, metrics)
    known = list(plan.evaluation.evaluated(agents) or agents)
    agent = report.agent or agents[-1]
    baselines = report.baselines if report.baselines is not None else [one for one in known if one != agent]
    variants = plan.adaptation.variants if plan.adaptation is not None else ()
    for key, labels, allowed in (
        ("agent", [agent], known),
        ("baselines", baselines, known),
        ("names", list(report.names), [*known, *variants]),
    ):
        for label in labels:
            if label not in allowed:
                raise unknown_name(f"agent (report.{key})", label, allowed)
    if not baselines or agent in baselines:
        given = ", ".join(baselines) or "none"
        raise UserError(
            f"report.baselines: got {given}; expected one or more agents other than {agent}. There are: "
            f"{', '.join(known)}."
        )
    return ReportQuestion(metric, agent, tuple(baselines))


def _check_compared(checked: CheckedPlan) -> None:
    """Refuses a plan without an evaluation in which nothing else compares the agent with each baseline."""
    plan, agent = checked.plan, checked.agent
    adapting = plan.adaptation.entrants(checked.agents) if plan.adaptation is not None else ()
    for baseline in checked.baselines:
        together = plan.in_self_play(agent) and plan.in_self_play(baseline)
        if not together and not (agent in adapting and baseline in adapting):
            raise UserError(
                f"evaluation.groups: got none, but nothing else compares {agent} with {baseline}. Give groups, "
                f"self_play: true to both, or a section adaptation with both."
            )
