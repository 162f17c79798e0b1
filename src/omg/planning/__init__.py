"""HOP: beliefs about the others' goals, and tree search against what they will do.

`goals` says what there is to be after, `beliefs` who is after what, `minds` turns networks into expectations, `search`
plans, `parts` keeps it within a given memory, `batches` maps it over seeds and players, `inference` puts the first
three together for a player, `subgoals` is what HOP+ has in their place. Everything is a pure function over a whole
batch of games.

A new model of the others satisfies `inference.Inference` and is built as `Class(game, settings)`. Add its line to
INFERENCES; its name is then a value of the configuration key `hop_model`.
"""

from collections.abc import Callable

from omg.envs.grid import GridGame
from omg.planning.beliefs import (
    Beliefs,
    BeliefSettings,
    begin,
    follow,
    learn_prior,
    new_prior,
    of_others,
    sample_goals,
)
from omg.planning.goals import GOALS, GoalSet, Hindsight, hindsight, make_goals
from omg.planning.inference import ActionInference, GoalInference, Inference, InferenceSettings
from omg.planning.minds import GoalJudge, Minds, goal_likelihoods, network_sizes, new_minds, seen_by
from omg.planning.parts import plan_in_parts, search_bytes
from omg.planning.search import Judge, Plan, SearchSettings, choose, plan
from omg.planning.subgoals import SubgoalFollowing

__all__ = [
    "GOALS",
    "INFERENCES",
    "BeliefSettings",
    "Beliefs",
    "GoalJudge",
    "GoalSet",
    "Hindsight",
    "Judge",
    "Minds",
    "Plan",
    "SearchSettings",
    "begin",
    "choose",
    "follow",
    "goal_likelihoods",
    "hindsight",
    "learn_prior",
    "make_goals",
    "network_sizes",
    "new_minds",
    "new_prior",
    "of_others",
    "plan",
    "plan_in_parts",
    "sample_goals",
    "search_bytes",
    "seen_by",
]

INFERENCES: dict[str, Callable[[GridGame, InferenceSettings], Inference]] = {
    "goals": GoalInference,
    "actions": ActionInference,
    "subgoals": SubgoalFollowing,
}
