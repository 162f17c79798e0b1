"""The stage `prior`: pre-training the subgoal prior on the pool's games."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from omg.config import Config, change_config
from omg.experiments.ledger import Task
from omg.experiments.prior import DEFAULTS, prior_config
from omg.experiments.stages.base import Earlier, SettingsSection, Stage, resolved
from omg.experiments.stages.pool import POOL_FOLDER, PoolStage
from omg.pools import prior_folder

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

PRIOR_LABEL = "prior"
"""Of its run."""


class PriorSection(SettingsSection):
    """How the subgoal prior is pre-trained: settings only."""

    own: ClassVar[Mapping[str, str]] = {"seeds": "a pool has one prior"}

    @property
    def subgoal_of(self) -> str:
        """What the subgoals of the prior stand for that it asks for."""
        return str(self.settings.get("subgoal_of", "view"))


class PriorStage(Stage):
    """Trains the prior where a plan has its section."""

    name = "prior"
    entries = (POOL_FOLDER, "runs")

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        plan = checked.plan
        if plan.prior is None:
            return {}
        own = {"learner": "am_learner", "am_model": "omg_am", "init_param_path": str(checked.pool)}
        seen = {"obs_is_state": plan.pool.settings.get("obs_is_state", False)}
        settings = {**DEFAULTS, **seen, **plan.prior.settings, **own, **checked.game_settings}
        shared = settings.keys() - plan.prior.settings.keys()
        return {"prior": resolved("prior", "iql", plan, settings, shared).config}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        section = self.plan.prior
        if section is None:
            return []
        pool, settings = earlier.of(PoolStage)[""], section.fingerprinted()
        agents, uses = self.checked.agents, self.checked.uses_prior
        # One for the section as it is written, and one for agents whose subgoals stand for something else.
        wanted = {config.subgoal_of for label, config in agents.items() if uses(label)} - {section.subgoal_of}
        made = [(section.subgoal_of, "", settings, self.train)]
        made += [(kind, kind, {**settings, "subgoal_of": kind}, partial(self.train, kind)) for kind in sorted(wanted)]
        return [
            Task(
                self.name,
                name,
                given,
                (self.checked.runs(_label(name)), self.checked.pool / prior_folder(kind)),
                work,
                (pool,),
                costly=True,
                apart=True,
            )
            for kind, name, given, work in made
        ]

    def train(self, kind: str = "") -> None:
        """Brings the run of a prior to its end: the one that the section asks for, or one of another `subgoal_of`."""
        section = self.plan.prior
        assert section is not None
        where = self.checked.runs(_label(kind))
        config = prior_config(self.checked.pool, {**section.settings, **({"subgoal_of": kind} if kind else {})})
        self.place.finish(where, lambda: change_config(config, local_results_path=str(where)))


def _label(kind: str) -> str:
    return f"{PRIOR_LABEL}_{kind}" if kind else PRIOR_LABEL
