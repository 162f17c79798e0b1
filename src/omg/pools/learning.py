"""What an agent's learner had besides the agent, kept in its folder: `learner/state.safetensors` and `learner.json`.

A run keeps this in its checkpoints. An agent that comes from elsewhere brings along what its files hold: a mixer, a
critic, the averages of an optimiser. `init_from` goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from omg.components.files import checksum, load_arrays, new_folder, save_arrays, write_json
from omg.errors import UserError

LEARNER_FOLDER = "learner"
_STATE, _CARD = "state.safetensors", "learner.json"
_FORMAT = 1


def save_learning(agent: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a learner's arrays into an agent's folder, atomically.

    Args:
        agent: The agent's folder.
        arrays: By their path in the learner's state, e.g. `mixer.hyper_b1.bias`.

    Raises:
        UserError: the disk does not take them.
    """
    folder = agent / LEARNER_FOLDER
    try:
        with new_folder(folder) as staging:
            digest = save_arrays(staging / _STATE, dict(arrays))
            write_json(staging / _CARD, {"format": _FORMAT, "sha256": digest})
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None


def load_learning(agent: Path) -> dict[str, np.ndarray] | None:
    """What `save_learning` wrote into an agent's folder; None if there is nothing.

    Raises:
        UserError: it is damaged.
    """
    folder = agent / LEARNER_FOLDER
    if not folder.is_dir():
        return None
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
        whole = card["format"] == _FORMAT and card["sha256"] == checksum(folder / _STATE)
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise UserError(f"{folder} is damaged: {_STATE} does not match {_CARD}. Delete the folder to go without it.")
    return load_arrays(folder / _STATE)
