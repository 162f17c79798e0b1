"""The stage `train`: a run for each agent, in one seat beside the pool's players or in all seats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from omg.config import Config, Resolved, config_fields, known_algorithm, refuse_shared
from omg.config.teams import looks_like_team
from omg.controllers.belief import BELIEFS
from omg.controllers.scripted import scripted_names
from omg.envs import Env
from omg.errors import UserError
from omg.experiments.evaluation import UNTRAINED
from omg.experiments.ledger import Task
from omg.experiments.search import Range
from omg.experiments.stages.base import Earlier, SettingsSection, Stage, refused_in, resolved
from omg.experiments.stages.pool import POOL_FOLDER, PoolStage
from omg.experiments.stages.prior import PRIOR_LABEL, PriorStage
from omg.experiments.stages.tune import TuneStage
from omg.pools import PRIOR_FOLDERS

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan

RUNS_FOLDER = "runs"
"""Of a pipeline's folder."""


class TrainSection(SettingsSection):
    """Settings of all agents' training."""

    self_play: bool = Field(False, description="Agents learn in all seats instead of one seat beside the pool's")


class AgentSection(SettingsSection):
    """One agent."""

    space: dict[str, list[object] | Range] = Field(
        {}, description="Key -> values, or low and high, that only its own trials are drawn from"
    )
    config: str | None = Field(None, description="Algorithm or team name; the agent's label unless given")
    self_play: bool | None = Field(
        None, description="Whether it learns in all seats; as the section train unless given"
    )


class TrainStage(Stage):
    """Trains the agents."""

    name = "train"
    entries = (RUNS_FOLDER,)

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        _check_self_play(checked.plan, checked.agents)
        _check_subgoals(checked.plan, checked.agents)
        return {f"agents.{label}": config for label, config in checked.agents.items()}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        return [self._task(label, earlier) for label in self.checked.agents]

    def train(self, label: str) -> None:
        """Brings an agent's run to its end, with the settings of the plan or those that its trials chose."""
        self.place.finish(self.checked.runs(label), lambda: self.checked.trained_with(label))

    def _task(self, label: str, earlier: Earlier) -> Task:
        settings: dict[str, object] = {
            "train": self.plan.train.fingerprinted(),
            "agent": self.plan.agents[label].fingerprinted(),
        }
        if kept := [share for share in self.plan.evaluation.at if share < 1]:
            settings["kept"] = kept
        priors = earlier.of(PriorStage).values() if self.checked.uses_prior(label) else ()
        trials = [task for name, task in earlier.of(TuneStage).items() if name.partition(" ")[0] == label]
        needs = (earlier.of(PoolStage)[""], *priors, *trials)
        if label in self.checked.self_play:
            settings |= {"game": self.plan.game.fingerprinted(), "seats": "all"}
            needs = tuple(trials)
        return Task(
            self.name,
            label,
            settings,
            (self.checked.runs(label),),
            partial(self.train, label),
            needs,
            costly=True,
            apart=True,
            # The report shows all trainings; with an evaluation its tables depend on them already.
            reported=not self.checked.evaluated,
        )


def agent_configs(plan: Plan, env: Env, folder: Path) -> dict[str, Config]:
    """Label -> complete configuration of each agent's run.

    Args:
        plan: the plan.
        env: its game.
        folder: of the pipeline, absolute.

    Raises:
        UserError: a label is taken, or an agent's settings cannot be used.
    """
    taken = {UNTRAINED: "the agent before training"}
    taken |= dict.fromkeys((PRIOR_LABEL, *PRIOR_FOLDERS.values()), "the prior's run")
    taken |= dict.fromkeys(scripted_names(env.spec.name), "a scripted player")
    taken |= dict.fromkeys(BELIEFS, "a method that needs no training")
    found: dict[str, Resolved] = {}
    for label in plan.agents:
        if label in taken:
            raise UserError(f"agents.{label}: that is the name of {taken[label]}; choose another label.")
        found[label] = agent_config(plan, label, env, folder)
        t_max = found[label].config.t_max
        if kept := [steps_at(share, t_max) for share in plan.evaluation.at if share < 1]:
            found[label] = agent_config(plan, label, env, folder, {"save_agents_at": kept})
    refused_in("train", lambda: refuse_shared(plan.train.settings, list(found.values())))
    return {label: one.config for label, one in found.items()}


def agent_config(plan: Plan, label: str, env: Env, folder: Path, more: Mapping[str, object] | None = None) -> Resolved:
    """The complete configuration of one agent's run.

    Args:
        plan: the plan.
        label: of the agent.
        env: its game.
        folder: of the pipeline, absolute.
        more: further settings, which win over the plan's and need not be read by this agent.

    Raises:
        UserError: the agent's settings cannot be used.
    """
    agent = plan.agents[label]
    config = agent.config or label
    if not looks_like_team(config):
        hint = "" if agent.config else " (the label, as it has no config)"
        config = known_algorithm(config, f"algorithm (agents.{label}.config){hint}")
    if not plan.in_self_play(label):
        config = team_name(config, env.spec.n_agents)
    elif looks_like_team(config):
        raise UserError(
            f"agents.{label}.config: got the team '{config}', but with self_play one algorithm learns in all "
            f"seats. Give an algorithm, or self_play: false."
        )
    settings = {**agent_settings(plan, label, agent, folder), **(more or {})}
    shared = {*(settings.keys() - agent.settings.keys()), *(more or {})}
    return resolved(f"agents.{label}", config, plan, settings, shared)


def steps_at(share: float, t_max: int) -> int:
    """Environment steps after which a share of a training is over; at least one."""
    return max(1, round(share * t_max))


def team_name(config: str, n_agents: int) -> str:
    """A team in which an algorithm has one seat and the pool all others; team names stay as they are."""
    return config if looks_like_team(config) else f"{n_agents - 1}pool1{config}"


def agent_settings(plan: Plan, label: str, agent: AgentSection, folder: Path) -> dict[str, object]:
    """All overrides of an agent's run: those of all agents, its own, and what the pipeline sets."""
    own = {
        "name": label,
        "env_args": plan.game.env_args,
        "local_results_path": str(folder / RUNS_FOLDER / label),
    }
    if plan.in_self_play(label):
        # The run is called by the agent's label; what is saved must still say which algorithm it is.
        return {"train_alg": known_algorithm(agent.config or label), **plan.train.settings, **agent.settings, **own}
    return {**plan.train.settings, **agent.settings, **own, "init_param_path": str(folder / POOL_FOLDER)}


def _check_self_play(plan: Plan, agents: Mapping[str, Config]) -> None:
    for label, config in agents.items():
        waits = config.wants_prior and config.prior_path is None
        if plan.in_self_play(label) and plan.prior is not None and waits:
            raise UserError(
                f"agents.{label}.self_play: got True, but the section prior is about the pool's players, whom an agent "
                f"in all seats never meets. Leave the section out (the prior is learned along), give "
                f"agents.{label}.prior_path, or self_play: false."
            )


def _check_subgoals(plan: Plan, agents: Mapping[str, Config]) -> None:
    if plan.prior is None:
        return
    width = plan.prior.settings.get("subgoal_dim", config_fields()["subgoal_dim"].default)
    for label, config in agents.items():
        if config.wants_prior and config.prior_path is None and config.subgoal_dim != width:
            raise UserError(
                f"agents.{label}.subgoal_dim: got {config.subgoal_dim}, but the prior has {width}; set "
                f"prior.subgoal_dim and train.subgoal_dim to the same."
            )
