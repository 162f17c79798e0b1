"""How good an agent is, alone and with others: played episodes, statistics, and what its subgoals say."""

from omg.evaluation.beliefs import told_apart
from omg.evaluation.comparison import compare, normalise, per_team, summarise
from omg.evaluation.crossplay import cross_play
from omg.evaluation.duels import Contender, versus, versus_rows
from omg.evaluation.exact import ExactValues, exact_values
from omg.evaluation.export import marl_eval_json
from omg.evaluation.groups import Group, MemberName, group_names, make_groups
from omg.evaluation.heldout import (
    Mates,
    evaluate_groups,
    load_mates,
    pool_scores,
    record_group,
    score_rows,
    stack_agents,
)
from omg.evaluation.measures import (
    closer_than_now,
    feature_scale,
    linear_probe,
    offset_histogram,
    probe_gain,
    subgoal_hit_ratio,
)
from omg.evaluation.selfplay import play_team
from omg.evaluation.statistics import bootstrap_interval, share_interval

__all__ = [
    "Contender",
    "ExactValues",
    "Group",
    "Mates",
    "MemberName",
    "bootstrap_interval",
    "closer_than_now",
    "compare",
    "cross_play",
    "evaluate_groups",
    "exact_values",
    "feature_scale",
    "group_names",
    "linear_probe",
    "load_mates",
    "make_groups",
    "marl_eval_json",
    "normalise",
    "offset_histogram",
    "per_team",
    "play_team",
    "pool_scores",
    "probe_gain",
    "record_group",
    "score_rows",
    "share_interval",
    "stack_agents",
    "subgoal_hit_ratio",
    "summarise",
    "told_apart",
    "versus",
    "versus_rows",
]
