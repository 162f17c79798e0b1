"""What an agent's learner had besides the agent, kept in its folder: `learner/state.safetensors` and `learner.json`.

A run keeps this in its checkpoints. An agent that comes from elsewhere brings along what its files hold: a mixer, a
critic, the averages of an optimiser. `init_from` goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from omg.components.files import checksum, load_arrays, new_folder, read_json, save_arrays, write_json
from omg.components.headers import read_header
from omg.envs.trust import check_bytes
from omg.errors import UserError
from omg.names import inside

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
    state, card_file = inside(agent, folder / _STATE), inside(agent, folder / _CARD)
    try:
        card = read_json(card_file)
        check_bytes(state, sum(array.end - array.begin for array in read_header(state).values()))
        whole = card["format"] == _FORMAT and card["sha256"] == checksum(state)
        arrays = load_arrays(state) if whole else {}
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise UserError(f"{folder} is damaged: {_STATE} does not match {_CARD}. Delete the folder to go without it.")
    unfit = next((name for name, value in arrays.items() if not np.isfinite(value).all()), None)
    if unfit is not None:
        raise UserError(f"{state} cannot be used: '{unfit}' holds values that are not finite numbers.")
    return arrays
