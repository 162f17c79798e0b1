"""How good an agent is, alone and with others: played episodes, statistics, and what its subgoals say."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_NAMES = {
    "beliefs": ("told_apart",),
    "comparison": ("compare", "normalise", "per_team", "summarise"),
    "crossplay": ("cross_play",),
    "duels": ("Contender", "versus", "versus_rows"),
    "exact": ("ExactValues", "exact_values"),
    "export": ("marl_eval_json",),
    "groups": ("Group", "MemberName", "group_names", "make_groups"),
    "heldout": ("Mates", "evaluate_groups", "load_mates", "pool_scores", "record_group", "score_rows", "stack_agents"),
    "measures": (
        "closer_than_now",
        "feature_scale",
        "linear_probe",
        "offset_histogram",
        "probe_gain",
        "subgoal_hit_ratio",
    ),
    "selfplay": ("play_team",),
    "statistics": ("bootstrap_interval", "share_interval"),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}
"""Name -> the module here that has it."""


def __getattr__(name: str) -> object:
    """Loads a module on first use: who only reads tables does not wait for JAX."""
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
