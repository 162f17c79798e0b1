"""The plan of a pipeline of seconds, with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from helpers.tiny import GAME, SETTINGS
from omg.config import read_yaml

RUN = {**SETTINGS, "t_max": 300, "save_buffer": False}
PLAYERS = ("rnn_hidden_dim", "epsilon_anneal_time", "target_update_interval")
"""Keys of players; a prior has no use for them."""
PLAN: dict[str, Any] = {
    "name": "small",
    "game": {"env_config": "foraging", "env_args": GAME},
    "pool": {
        "training": {"d3qn": 1},
        "heldout": {"d3qn": 1},
        "scripted": {"nearest_food": "training", "random": "heldout"},
        "episodes": 8,
        **RUN,
    },
    "prior": {**{key: value for key, value in RUN.items() if key not in PLAYERS}, "subgoal_dim": 4},
    "train": {**RUN, "seeds": 3, "subgoal_dim": 4, "am_hidden_dim": 8},
    "agents": {"d3qn": None, "omg": {"config": "d3qn_omg", "subgoal_mode": "conservative"}},
    "evaluation": {"episodes": 4, "crossplay_episodes": 4, "inference_episodes": 12},
    "report": {"metric": "own_return", "names": {"d3qn": "D3QN", "omg": "OMG"}},
}


def changed(*words: str, plan: Mapping[str, Any] = PLAN) -> dict[str, Any]:
    """A plan, the small one unless given, with some keys set."""
    values = json.loads(json.dumps(plan))
    for word in words:
        key, _, text = word.partition("=")
        *path, last = key.split(".")
        node = values
        for part in path:
            node[part] = node.get(part) or {}
            node = node[part]
        node[last] = read_yaml(text)
    return values
