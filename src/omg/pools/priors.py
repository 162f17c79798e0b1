"""A subgoal prior as a folder: `weights.safetensors` and `prior.json`, which says what it was made for and from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax

from omg.components.files import ShapeMismatchError, given_path, whole_folder
from omg.envs.base import Size
from omg.errors import UserError
from omg.modules.opponent_models.prior import Prior
from omg.names import inside
from omg.pools.bundles import read_bundle, write_bundle

PRIOR_CARD = "prior.json"
PRIOR_FOLDERS = {"view": "prior", "others": "prior_others", "places": "prior_places"}
"""What subgoals stand for -> folder in a pool that has their prior."""


@dataclass(frozen=True)
class PriorCard:
    """What is written beside the weights."""

    env: str
    scenario: str
    obs_is_state: bool
    features: Size
    """Width of the views it encodes."""
    subgoal_dim: Size
    t_env: int
    """Environment steps of the games it was trained on."""
    players: Sequence[str] = ()
    """Members of the pool that played them."""
    results: dict[str, float] = field(default_factory=dict)
    """Its newest measures on games it was not trained on."""
    map_shape: tuple[Size, Size, Size] | None = None
    """Pictures, height and width of the binary map that views begin with, where it reads them as such."""
    seen_features: Size | None = None
    """Width of what seats see, where it encodes what the others do instead (`subgoal_of: others` or `places`)."""
    of_places: bool = False
    """Whether it encodes where the others are (`subgoal_of: places`)."""

    @property
    def subgoal_of(self) -> str:
        """What its subgoals stand for, as the configuration says it."""
        return "places" if self.of_places else "view" if self.seen_features is None else "others"


def save_prior(folder: Path, prior: Prior, card: PriorCard) -> Path:
    """Writes a prior atomically; an older one in the same place is replaced."""
    return write_bundle(folder, "prior", prior, PRIOR_CARD, asdict(card))


def load_prior(path: str | Path, subgoal_of: str = "view") -> tuple[Prior, PriorCard]:
    """Loads a prior's folder, or the prior in a pool's or a run's folder.

    Args:
        path: The folder.
        subgoal_of: Which of a pool's priors.

    Raises:
        UserError: nothing there, or damaged.
    """
    folder = _find(given_path(path), prior_folder(subgoal_of))
    bundle = read_bundle(folder, PRIOR_CARD, PriorCard)
    card = bundle.card
    if card.map_shape is not None and math.prod(card.map_shape) > card.features:
        raise UserError(
            f"{folder / PRIOR_CARD} is damaged: a map of {card.map_shape} does not fit into {card.features} features."
        )
    key = jax.random.PRNGKey(0)
    try:
        template = jax.eval_shape(
            lambda: Prior(
                card.features,
                card.subgoal_dim,
                map_shape=card.map_shape,
                seen_features=card.seen_features,
                key=key,
            )
        )
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UserError(f"{folder / PRIOR_CARD} is damaged: no prior has such sizes ({error}).") from None
    try:
        prior = bundle.fill(template)
    except ShapeMismatchError as error:
        raise UserError(f"{folder}: the weights do not fit {PRIOR_CARD}: {error}.") from None
    return jax.device_put(prior), card


def prior_folder(subgoal_of: str) -> str:
    """Name of the folder in a pool that has the prior of such subgoals."""
    return PRIOR_FOLDERS[subgoal_of]


def pool_prior(pool: str | Path, subgoal_of: str = "view") -> str | None:
    """Path of the prior of such subgoals that was trained on a pool, if there is one."""
    folder = whole_folder(Path(pool) / prior_folder(subgoal_of))
    return str(folder) if (folder / PRIOR_CARD).is_file() else None


def _find(path: Path, in_pool: str) -> Path:
    candidates = [path, path / in_pool, *sorted(path.glob("agents/seed_*/last"))]
    for folder in map(whole_folder, candidates):
        if (folder / PRIOR_CARD).is_file():
            return inside(path, folder)
    reason = "there is no prior in it" if path.is_dir() else "there is no such folder"
    raise UserError(f"prior_path: {path}: {reason}. `omg pretrain POOL` makes one.")
