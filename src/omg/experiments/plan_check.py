"""What a plan means for its game, worked out, and refused, before anything runs: a mistake must not cost hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omg.config import Config, resolve
from omg.envs import Env, make_env
from omg.errors import UserError
from omg.experiments.plan import STAGES, Plan
from omg.experiments.stages.base import refused_in
from omg.experiments.stages.pool import POOL_FOLDER, given_or_copied
from omg.experiments.stages.report import question_of
from omg.experiments.stages.train import RUNS_FOLDER, agent_config, agent_configs
from omg.experiments.trials import (
    chosen_trial,
    drawn,
    read_round,
    side_by_side,
    trial_run,
    trial_settings,
    trials_run,
    watched_metric,
)
from omg.modules.agents import AGENTS
from omg.names import file_name


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

    def trial(self, label: str, number: int) -> Config:
        """The configuration of one trial of an agent.

        Raises:
            UserError: its settings cannot be used, or are not known yet.
        """
        place = {"local_results_path": str(trial_run(self.folder, label, number))}
        more = {**self._stops(label, number), **drawn(self, label, number), **place}
        return self.trial_with(label, more, f"tune, trial {number}")

    def trial_with(self, label: str, more: Mapping[str, object], where: str) -> Config:
        """The configuration of a trial of an agent with further settings; `where` is for messages."""
        section = self.plan.tune
        assert section is not None
        every = {
            **section.settings,
            "seeds": section.seeds,
            **({} if section.t_max is None else {"t_max": section.t_max}),
        }
        return refused_in(
            where, lambda: agent_config(self.plan, label, self.env, self.folder, {**every, **more})
        ).config

    def trials(self, label: str) -> Config | None:
        """The configuration of one run with all trials of an agent's grid; None where each needs a run of its own."""
        section, config = self.plan.tune, self.agents[label]
        assert section is not None
        together = side_by_side(trial_settings(self.plan, label, config), config, section.seeds)
        if together is None:
            return None
        place = {"local_results_path": str(trials_run(self.folder, label))}
        return self.trial_with(label, {**together, **place}, "tune")

    def trial_round(self, label: str, number: int) -> Config:
        """The configuration of one run with all trials of a round, where they are one program."""
        section, config = self.plan.tune, self.agents[label]
        assert section is not None
        together = side_by_side(read_round(self, label, number).settings, config, section.seeds)
        assert together is not None
        place = {"local_results_path": str(trials_run(self.folder, label, number))}
        # Whoever comes in a later round has other seeds, as within a round.
        seed = {"seed": config.seed + number * section.size * section.seeds}
        return self.trial_with(label, {**together, **seed, **place}, f"tune, round {number}")

    def _stops(self, label: str, number: int) -> dict[str, object]:
        """What stops a trial that does badly."""
        section = self.plan.tune
        assert section is not None
        stop = {} if section.stop is None else read_round(self, label, number // section.size).stop
        if not stop:
            return {}
        steps = sorted(stop, key=int)
        own = {"early_stop_at": [int(step) for step in steps], "early_stop_below": [stop[step] for step in steps]}
        return {"early_stop_metric": watched_metric(self), **own}

    def trained_with(self, label: str) -> Config:
        """The configuration of an agent's run: that of the plan, with the settings of its best trial."""
        config = self.agents[label]
        if self.plan.tune is None:
            return config
        chosen = drawn(self, label, chosen_trial(self, label))
        more = {"save_agents_at": config.save_agents_at, **chosen}
        return agent_config(self.plan, label, self.env, self.folder, more).config

    def uses_prior(self, label: str) -> bool:
        """Whether an agent's training depends on the prior of the pool."""
        config = self.agents[label]
        seated = not self.plan.in_self_play(label)
        return self.plan.prior is not None and seated and config.wants_prior and not config.prior_path

    @property
    def probed(self) -> tuple[str, ...]:
        """Labels of the agents of which diagnostics tell something: those with an opponent model, or a memory."""
        return tuple(
            label
            for label, config in self.agents.items()
            if not config.model_part.absent or AGENTS[config.agent].traits.recurrent
        )

    @property
    def self_play(self) -> tuple[str, ...]:
        """Labels of the agents that learn in all seats."""
        return tuple(label for label in self.agents if self.plan.in_self_play(label))

    @property
    def game_settings(self) -> dict[str, object]:
        """Overrides that choose the game."""
        return {"env_args": self.plan.game.env_args}

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Labels of everybody who is evaluated with teams, in the order of the tables."""
        return self.plan.evaluation.evaluated(self.agents)

    @property
    def first_config(self) -> Config:
        """Of the first agent: names the game, and the networks of those who never learned."""
        return next(iter(self.agents.values()))


def check_plan(plan: Plan, folder: str | Path) -> CheckedPlan:
    """Works out the runs of a plan.

    Raises:
        UserError: names the section and the key that cannot be used, what was given and what is allowed.
    """
    folder = Path(folder).resolve()
    game = refused_in("game", lambda: resolve(None, plan.game.env_config, {"env_args": plan.game.env_args}).config)
    env = make_env(game.env, **game.env_args)
    if env.spec.n_agents < 2:
        raise UserError(f"game: {env.spec.name} {env.spec.scenario} has one seat; team-mates need at least two.")
    agents = agent_configs(plan, env, folder)
    checked = CheckedPlan(plan, folder, env, agents, *question_of(plan, env, list(agents)))
    plan.machine.check(STAGES)
    views: dict[str, Config] = {}
    for stage in STAGES.values():
        views |= stage.check(checked)
    _check_views(views)
    return checked


def _check_views(configs: dict[str, Config]) -> None:
    """Everybody sees the same kind of view; otherwise players cannot sit in one team."""
    (first, expected), *others = configs.items()
    for name, config in others:
        if config.obs_is_state != expected.obs_is_state:
            raise UserError(
                f"{name}.obs_is_state: got {config.obs_is_state}, but {first} has {expected.obs_is_state}; all "
                f"sections need the same."
            )
