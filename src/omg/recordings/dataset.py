"""Recorded games as a data set for offline learning, in the format of Minari (https://minari.farama.org).

An episode is a game with all its seats. Observations are dictionaries of `obs` [A, O], `state` [S] and `avail` [A, U];
actions are [A] integers; the reward is the team's, or the sum over seats where each has its own, which are in the infos
(`seat_rewards` [A], behind the step that brought them). The episode's metadata say who sat where.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from omg.components.files import given_path, new_folder
from omg.errors import UserError
from omg.names import inert
from omg.recordings.recording import Recording


def check_minari() -> None:
    """Sees that Minari is there.

    Raises:
        UserError: it is not; says how to get it.
    """
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError:
        raise UserError("--dataset needs the package minari: pip install 'omg-marl[minari]'.") from None


def write_dataset(folder: str | Path, games: Sequence[Recording]) -> Path:
    """Writes games as a new Minari data set; `minari.MinariDataset(folder)` opens it.

    Args:
        folder: where; nothing may be there yet.
        games: of one game and with views (`obs` and `state`), at least one.

    Raises:
        UserError: Minari is missing, the games do not belong together, or the folder cannot be made.
    """
    check_minari()
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    place = given_path(folder)
    _check(place, games)
    first = games[0].header
    buffers = [EpisodeBuffer(id=number, **_episode(game)) for number, game in enumerate(games)]
    try:
        with new_folder(place) as staging:
            storage = MinariStorage.new(staging, *_spaces(games[0]), data_format="hdf5")
            storage.update_metadata(
                {
                    "dataset_id": f"omg/{first['game']}-v0",
                    "minari_version": metadata.version("minari"),
                    "algorithm_name": first["algorithm"],
                    "env_id": f"omg: {first['game']} {first['scenario']}",
                    "description": f"{first['game']} {first['scenario']}, all seats",
                }
            )
            storage.update_episodes(buffers)
            storage.update_episode_metadata([_labels(game) for game in games], range(len(games)))
    except OSError as error:
        raise UserError(f"--dataset: {inert(str(place))} cannot be written: {error.strerror or error}.") from None
    return place


def _check(place: Path, games: Sequence[Recording]) -> None:
    if place.exists():
        raise UserError(f"--dataset: {inert(str(place))} is there already. Give a folder that is not.")
    if not games:
        raise UserError("--dataset: got no games, expected at least one.")
    keys = ("game", "scenario", "env_args")
    first = games[0].header
    for number, game in enumerate(games):
        if "obs" not in game or "state" not in game:
            raise UserError(f"--dataset: game {number + 1} has no views; record it with --views.")
        if any(game.header[key] != first[key] for key in keys):
            raise UserError(f"--dataset: game {number + 1} is of another game than the first ({first['game']}).")


def _spaces(game: Recording) -> tuple[Any, Any]:
    """Of observations and of actions."""
    from gymnasium import spaces

    agents, actions = game["avail"].shape[1:]
    seen: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-np.inf, np.inf, game[name].shape[1:], np.float32) for name in ("obs", "state")
    }
    seen["avail"] = spaces.Box(0, 1, (agents, actions), np.int8)
    return spaces.Dict(seen), spaces.MultiDiscrete([actions] * agents)


def _episode(game: Recording) -> dict[str, Any]:
    header, steps = game.header, game.steps
    rewards = game["rewards"]
    per_seat = np.broadcast_to(rewards, (steps, len(header["seats"]))) if rewards.shape[1] == 1 else rewards
    last = np.arange(steps) == steps - 1
    ended = header["ended"] == "terminated"
    return {
        "seed": header["seed"],
        "observations": {"obs": game["obs"], "state": game["state"], "avail": game["avail"].astype(np.int8)},
        "actions": game["actions"].astype(np.int64),
        "rewards": rewards.sum(axis=1),
        "terminations": last & ended,
        "truncations": last & (not ended),
        # Infos come with observations, so that there is one more of them than of steps.
        "infos": {"seat_rewards": np.concatenate([np.zeros_like(per_seat[:1]), per_seat])},
    }


def _labels(game: Recording) -> dict[str, Any]:
    """Who sat where, as lists of texts: what attributes of HDF5 can hold."""
    header = game.header
    seats = header["seats"]
    return {
        "seat_labels": [seat["label"] for seat in seats],
        "seat_algorithms": [seat["algorithm"] for seat in seats],
        "seat_learns": [bool(seat["learns"]) for seat in seats],
        "number": header["number"],
        **{f"fact_{name}": value for name, value in header["facts"].items()},
    }
