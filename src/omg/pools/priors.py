"""A subgoal prior as a folder: `weights.safetensors` and `prior.json`, which says what it was made for and from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax
import numpy as np

from omg.components.files import (
    ShapeMismatchError,
    checksum,
    fill_leaves,
    load_arrays,
    name_leaves,
    new_folder,
    save_arrays,
    whole_folder,
    write_json,
)
from omg.errors import UserError
from omg.modules.opponent_models import Prior
from omg.pools.agents import WEIGHTS

PRIOR_CARD = "prior.json"
PRIOR_FOLDER = "prior"
_FORMAT = 1


@dataclass(frozen=True)
class PriorCard:
    """What is written beside the weights."""

    env: str
    scenario: str
    obs_is_state: bool
    features: int
    """Width of the views it encodes."""
    subgoal_dim: int
    t_env: int
    """Environment steps of the games it was trained on."""
    players: tuple[str, ...] = ()
    """Members of the pool that played them."""
    results: dict[str, float] = field(default_factory=dict)
    """Its newest measures on games it was not trained on."""


def save_prior(folder: Path, prior: Prior, card: PriorCard) -> Path:
    """Writes a prior atomically; an older one in the same place is replaced."""
    arrays = {name: np.asarray(leaf) for name, leaf in name_leaves(prior).items()}
    try:
        with new_folder(folder) as staging:
            digest = save_arrays(staging / WEIGHTS, arrays)
            write_json(staging / PRIOR_CARD, {"format": _FORMAT, "sha256": digest, **asdict(card)})
    except OSError as error:
        raise UserError(f"The prior {folder} cannot be written: {error.strerror or error}.") from None
    return folder


def load_prior(path: str | Path) -> tuple[Prior, PriorCard]:
    """Loads a prior's folder, or the prior in a pool's or a run's folder.

    Raises:
        UserError: nothing there, or damaged.
    """
    folder = _find(Path(path))
    try:
        stored = json.loads((folder / PRIOR_CARD).read_text())
        version, digest = stored.pop("format"), stored.pop("sha256")
        card = PriorCard(**{**stored, "players": tuple(stored["players"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / PRIOR_CARD} is damaged: {type(error).__name__}: {error}.") from None
    if version != _FORMAT:
        raise UserError(f"{folder / PRIOR_CARD} has format {version!r}; this version of omg reads format {_FORMAT}.")
    if not (folder / WEIGHTS).is_file() or checksum(folder / WEIGHTS) != digest:
        raise UserError(f"{folder / WEIGHTS} is damaged: its checksum does not match {PRIOR_CARD}.")
    template = jax.eval_shape(lambda: Prior(card.features, card.subgoal_dim, key=jax.random.PRNGKey(0)))
    try:
        prior = fill_leaves(template, load_arrays(folder / WEIGHTS))
    except ShapeMismatchError as error:
        raise UserError(f"{folder}: the weights do not fit {PRIOR_CARD}: {error}.") from None
    return jax.device_put(prior), card


def pool_prior(pool: str | Path) -> str | None:
    """Path of the prior that was trained on a pool, if there is one."""
    folder = whole_folder(Path(pool) / PRIOR_FOLDER)
    return str(folder) if (folder / PRIOR_CARD).is_file() else None


def _find(path: Path) -> Path:
    candidates = [path, path / PRIOR_FOLDER, *sorted(path.glob("agents/seed_*/last"))]
    for folder in map(whole_folder, candidates):
        if (folder / PRIOR_CARD).is_file():
            return folder
    reason = "there is no prior in it" if path.is_dir() else "there is no such folder"
    raise UserError(f"prior_path: {path}: {reason}. `omg pretrain POOL` makes one.")
