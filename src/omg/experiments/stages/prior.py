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
        given = str(section.settings.get("subgoal_of", "view"))
        # One for the section as it is written, and one for agents whose subgoals stand for something else.
        wanted = {
            self.checked.agents[label].subgoal_of for label in self.checked.agents if self.checked.uses_prior(label)
        }
        return [
            Task(
                self.name,
                "" if kind == given else kind,
                settings if kind == given else {**settings, "subgoal_of": kind},
                (self.checked.runs(_label(kind, given)), self.checked.pool / prior_folder(kind)),
                partial(self.train, kind, given),
                (pool,),
                costly=True,
                apart=True,
            )
            for kind in (given, *sorted(wanted - {given}))
        ]

    def train(self, kind: str, given: str) -> None:
        """Brings the run of a prior of such subgoals to its end; `given` is the kind that the section asks for."""
        assert self.plan.prior is not None
        where = self.checked.runs(_label(kind, given))
        config = prior_config(self.checked.pool, {**self.plan.prior.settings, "subgoal_of": kind})
        self.place.finish(where, lambda: change_config(config, local_results_path=str(where)))


def _label(kind: str, given: str) -> str:
    return PRIOR_LABEL if kind == given else f"{PRIOR_LABEL}_{kind}"
