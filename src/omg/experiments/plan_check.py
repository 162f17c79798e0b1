"""What a plan means for its game, worked out, and refused, before anything runs: a mistake must not cost hours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from omg.config import Config, adjust, algorithm_names, config_fields, resolve
from omg.config.teams import looks_like_team
from omg.controllers.scripted import build_scripted, scripted_names
from omg.envs import Env, make_env
from omg.errors import UserError, abridged, unknown_name
from omg.evaluation import group_names
from omg.evaluation.adaptation import BEST_RESPONSE
from omg.experiments.adaptation_setup import adaptation_config, check_learner, check_seat, check_settings
from omg.experiments.evaluation import UNTRAINED
from omg.experiments.plan import POOL_FOLDER, AgentSection, Plan, given_or_copied
from omg.experiments.pool import MOST_MEMBERS
from omg.experiments.prior import DEFAULTS as PRIOR_DEFAULTS
from omg.names import file_name
from omg.pools import Pool
from omg.runners.vector import OWN_RETURN

RUNS_FOLDER = "runs"
PRIOR_LABEL = "prior"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that can be run, and what follows from it."""

    plan: Plan
    folder: Path
    """Absolute, so that runs find the pool from wherever they are resumed."""
    env: Env
    agents: dict[str, Config]
    """Label -> complete configuration of its run."""
    metric: str
    """Of the verdict."""
    agent: str
    """In question."""
    baselines: tuple[str, ...]

    @property
    def pool(self) -> Path:
        """Folder of the pool."""
        return self.folder / POOL_FOLDER

    @property
    def given_pool(self) -> Path | None:
        """The pool of `pool.path`; this pipeline's copy of it where the original is gone."""
        given = self.plan.pool.path
        return None if given is None else given_or_copied(Path(given), self.pool)

    def runs(self, label: str) -> Path:
        """The folder that an agent's run is made in."""
        return self.folder / RUNS_FOLDER / file_name("label", label)

    def uses_prior(self, label: str) -> bool:
        """Whether an agent's training depends on the prior of the pool."""
        config = self.agents[label]
        seated = not self.plan.in_self_play(label)
        return self.plan.prior is not None and seated and config.learner_part.infers_subgoals and not config.prior_path

    @property
    def with_models(self) -> tuple[str, ...]:
        """Labels of the agents with an opponent model, of which diagnostics tell something."""
        return tuple(label for label, config in self.agents.items() if not config.model_part.absent)

    @property
    def self_play(self) -> tuple[str, ...]:
        """Labels of the agents that learn in all seats."""
        return tuple(label for label in self.agents if self.plan.in_self_play(label))

    @property
    def game_settings(self) -> dict[str, Any]:
        """Overrides that choose the game."""
        return {"env_args": self.plan.game.env_args}

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Labels of everybody who is evaluated with teams, in the order of the tables."""
        return _evaluated(self.plan, self.agents)


def check_plan(plan: Plan, folder: str | Path) -> CheckedPlan:
    """Works out the runs of a plan.

    Raises:
        UserError: names the section and the key that cannot be used, what was given and what is allowed.
    """
    folder = Path(folder).resolve()
    game = _in("game", lambda: resolve(None, plan.game.env_config, {"env_args": plan.game.env_args}).config)
    env = make_env(game.env, **game.env_args)
    if env.spec.n_agents < 2:
        raise UserError(f"game: {env.spec.name} {env.spec.scenario} has one seat; team-mates need at least two.")
    views = _check_pool(plan, env) | _check_prior(plan, folder)
    agents = _agents(plan, env, folder)
    views |= {f"agents.{label}": config for label, config in agents.items()}
    _check_views(views)
    _check_self_play(plan, agents)
    _check_subgoals(plan, agents)
    _check_evaluation(plan, env)
    _check_adaptation(plan, env, agents)
    metric, agent, baselines = _question(plan, env, list(agents))
    checked = CheckedPlan(plan, folder, env, agents, metric, agent, baselines)
    if checked.given_pool is not None:
        _check_given(Pool.open(checked.given_pool), env)
    return checked


def _check_given(pool: Pool, env: Env) -> None:
    if pool.spec != env.spec:
        here = f"{env.spec.name} {env.spec.scenario}"
        raise UserError(f"pool.path: {pool.path} is for {pool.where}, but the section game is about {here}.")
    _in("pool.path", pool.check)
    for member in pool:
        if member.kind == "scripted":
            build_scripted(member.algorithm, env)


def team_name(config: str, n_agents: int) -> str:
    """A team in which an algorithm has one seat and the pool all others; team names stay as they are."""
    return config if looks_like_team(config) else f"{n_agents - 1}pool1{config}"


def _in(section: str, work: Callable[[], _Result]) -> _Result:
    """Runs `work`; what it refuses is refused with the section's name before it."""
    try:
        return work()
    except UserError as error:
        raise UserError(f"{section}: {error}") from None


def _check_pool(plan: Plan, env: Env) -> dict[str, Config]:
    configs = {}
    for name, numbers in plan.pool.counts.items():
        for algorithm, number in numbers.items():
            if not 1 <= number <= MOST_MEMBERS:
                raise UserError(f"pool.{name}: got {algorithm}: {abridged(number)}, allowed: 1 to {MOST_MEMBERS}.")
            settings = {**plan.pool.settings, "env_args": plan.game.env_args}
            configs["pool"] = _resolved("pool", algorithm, plan, settings)
    for script in plan.pool.scripted:
        _in("pool.scripted", lambda script=script: build_scripted(script, env))  # type: ignore[misc]
    present = _sets(plan)
    if not present:
        raise UserError("pool: nobody is in it. Give co-players, e.g. heldout: {iql: 4}.")
    seated = [label for label in plan.agents if not plan.in_self_play(label)]
    if "training" not in present and (seated or plan.prior is not None):
        who = "the prior" if plan.prior is not None else seated[0]
        raise UserError(
            f"pool.training: missing. Give team-mates to train {who} with, e.g. training: {{iql: 4}}; only agents with "
            f"self_play: true need none."
        )
    for name in plan.evaluation.sets:
        if name not in present:
            raise UserError(f"evaluation.sets: got '{name}', but the pool has nobody in that set.")
    if plan.evaluation.crossplay_episodes and not plan.pool.counts.get(plan.evaluation.sets[0]):
        raise UserError(
            f"evaluation.crossplay_episodes: got {plan.evaluation.crossplay_episodes}, but the set "
            f"'{plan.evaluation.sets[0]}' has no learned members to play it. Give 0."
        )
    return configs


def _check_prior(plan: Plan, folder: Path) -> dict[str, Config]:
    if plan.prior is None:
        return {}
    own = {"learner": "am_learner", "am_model": "omg_am", "init_param_path": str(folder / POOL_FOLDER)}
    seen = {"obs_is_state": plan.pool.settings.get("obs_is_state", False)}
    settings = {**PRIOR_DEFAULTS, **seen, **plan.prior.settings, **own, "env_args": plan.game.env_args}
    return {"prior": _resolved("prior", "iql", plan, settings)}


def _agents(plan: Plan, env: Env, folder: Path) -> dict[str, Config]:
    taken = {UNTRAINED: "the agent before training", PRIOR_LABEL: "the prior's run"}
    taken |= dict.fromkeys(scripted_names(env.spec.name), "a scripted player")
    configs = {}
    for label, agent in plan.agents.items():
        if label in taken:
            raise UserError(f"agents.{label}: that is the name of {taken[label]}; choose another label.")
        settings = agent_settings(plan, label, agent, folder)
        config = agent.config or label
        if not looks_like_team(config) and config not in algorithm_names():
            hint = "" if agent.config else " (the label, as it has no config)"
            raise unknown_name(f"algorithm (agents.{label}.config){hint}", config, algorithm_names())
        if not plan.in_self_play(label):
            config = team_name(config, env.spec.n_agents)
        elif looks_like_team(config):
            raise UserError(
                f"agents.{label}.config: got the team '{config}', but with self_play one algorithm learns in all "
                f"seats. Give an algorithm, or self_play: false."
            )
        configs[label] = _resolved(f"agents.{label}", config, plan, settings)
    return configs


def agent_settings(plan: Plan, label: str, agent: AgentSection, folder: Path) -> dict[str, Any]:
    """All overrides of an agent's run: those of all agents, its own, and what the pipeline sets."""
    own = {
        "name": label,
        "env_args": plan.game.env_args,
        "local_results_path": str(folder / RUNS_FOLDER / label),
    }
    if plan.in_self_play(label):
        # The run is called by the agent's label; what is saved must still say which algorithm it is.
        return {"train_alg": agent.config or label, **plan.train.settings, **agent.settings, **own}
    return {**plan.train.settings, **agent.settings, **own, "init_param_path": str(folder / POOL_FOLDER)}


def _resolved(section: str, config: str, plan: Plan, settings: dict[str, Any]) -> Config:
    def work() -> Config:
        resolved = resolve(config, plan.game.env_config, settings).config
        adjust(resolved, has_gpu=False)
        return resolved

    return _in(section, work)


def _check_views(configs: dict[str, Config]) -> None:
    """Everybody sees the same kind of view; otherwise players cannot sit in one team."""
    (first, expected), *others = configs.items()
    for name, config in others:
        if config.obs_is_state != expected.obs_is_state:
            raise UserError(
                f"{name}.obs_is_state: got {config.obs_is_state}, but {first} has {expected.obs_is_state}; all "
                f"sections need the same."
            )


def _check_self_play(plan: Plan, agents: dict[str, Config]) -> None:
    for label, config in agents.items():
        waits = config.learner_part.infers_subgoals and config.prior_path is None
        if plan.in_self_play(label) and plan.prior is not None and waits:
            raise UserError(
                f"agents.{label}.self_play: got True, but the section prior is about the pool's players, whom an agent "
                f"in all seats never meets. Leave the section out (the prior is learned along), give "
                f"agents.{label}.prior_path, or self_play: false."
            )


def _check_subgoals(plan: Plan, agents: dict[str, Config]) -> None:
    if plan.prior is None:
        return
    width = plan.prior.settings.get("subgoal_dim", config_fields()["subgoal_dim"].default)
    for label, config in agents.items():
        if config.learner_part.infers_subgoals and config.prior_path is None and config.subgoal_dim != width:
            raise UserError(
                f"agents.{label}.subgoal_dim: got {config.subgoal_dim}, but the prior has {width}; set "
                f"prior.subgoal_dim and train.subgoal_dim to the same."
            )


def _check_evaluation(plan: Plan, env: Env) -> None:
    known = group_names(env.spec.n_agents)
    for group in plan.evaluation.groups or ():
        if group not in known:
            raise unknown_name(f"group (evaluation.groups) of a game with {env.spec.n_agents} seats:", group, known)
    for script in plan.evaluation.scripted:
        _in("evaluation.scripted", lambda script=script: build_scripted(script, env))  # type: ignore[misc]


def _check_adaptation(plan: Plan, env: Env, agents: dict[str, Config]) -> None:
    section = plan.adaptation
    if section is None:
        return
    if section.set not in _sets(plan):
        raise UserError(f"adaptation.set: got '{section.set}', but the pool has nobody in that set.")
    if section.mixtures and env.spec.n_agents < 3:
        raise UserError("adaptation.mixtures: got True, but there is one other seat; nobody can be mixed there.")
    _in("adaptation", lambda: check_seat(env, section.seat))
    for script in section.players:
        _in("adaptation.players", lambda script=script: build_scripted(script, env))  # type: ignore[misc]
    for label in section.agents or ():
        if label not in agents:
            raise unknown_name("agent (adaptation.agents)", label, agents)
    taken = (*agents, BEST_RESPONSE, UNTRAINED, *scripted_names(env.spec.name))
    for label, variant in section.variants.items():
        if label in taken:
            raise UserError(f"adaptation.variants.{label}: that name is taken; choose another label.")
        if variant.agent not in agents:
            raise unknown_name(f"agent (adaptation.variants.{label}.agent)", variant.agent, agents)
    for label, (source, settings, _) in section.entrants(agents).items():
        where = f"adaptation.{label}"
        check_settings(where, settings)
        given = (agents[source], env.spec.n_agents, section.games, section.episodes, settings)
        _in(where, lambda given=given: check_learner(adaptation_config(*given), env.spec))  # type: ignore[misc]


def _question(plan: Plan, env: Env, agents: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Metric, agent and baselines of the verdict."""
    report, evaluation = plan.report, plan.evaluation
    own = (OWN_RETURN,) if env.spec.reward_per_agent else ()
    metrics = ("return", "ep_length", *env.spec.metrics, *own)
    metric = report.metric or env.spec.success_metric
    if metric not in metrics:
        raise unknown_name("metric (report.metric)", metric, metrics)
    known = list(_evaluated(plan, agents) or agents)
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
    if not evaluation.plays_groups:
        _check_compared(plan, agents, agent, baselines)
    return metric, agent, tuple(baselines)


def _check_compared(plan: Plan, agents: list[str], agent: str, baselines: Sequence[str]) -> None:
    """Refuses a plan without an evaluation in which nothing else compares the agent with each baseline."""
    adapting = plan.adaptation.entrants(agents) if plan.adaptation is not None else ()
    for baseline in baselines:
        together = plan.in_self_play(agent) and plan.in_self_play(baseline)
        if not together and not (agent in adapting and baseline in adapting):
            raise UserError(
                f"evaluation.groups: got none, but nothing else compares {agent} with {baseline}. Give groups, "
                f"self_play: true to both, or a section adaptation with both."
            )


def _evaluated(plan: Plan, agents: Iterable[str]) -> tuple[str, ...]:
    """Labels of everybody who is evaluated with teams."""
    if not plan.evaluation.plays_groups:
        return ()
    floor = (UNTRAINED,) if plan.evaluation.untrained else ()
    return (*agents, *floor, *plan.evaluation.scripted)


def _sets(plan: Plan) -> set[str]:
    """The sets of the pool that somebody is in."""
    return {*plan.pool.counts, *plan.pool.scripted.values()}
