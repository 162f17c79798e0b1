"""Learners: how sampled episodes change parameters.

A new one satisfies `base.Learner` and is built as `Class(config, spec)`; it holds settings, never state.
Add its line to LEARNERS; its name is then a value of the configuration key `learner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.errors import unknown_name
from omg.learners.base import Learner, LearnerState
from omg.learners.q import QLearner, QState

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

__all__ = ["LEARNERS", "Learner", "LearnerState", "QLearner", "QState", "build_learner"]

LEARNERS: dict[str, Callable[[Config, EnvSpec], Learner]] = {
    "q_learner": QLearner,
}


def build_learner(config: Config, spec: EnvSpec) -> Learner:
    """Builds the learner that `config.learner` names."""
    if config.learner not in LEARNERS:
        raise unknown_name("learner", config.learner, LEARNERS)
    return LEARNERS[config.learner](config, spec)
