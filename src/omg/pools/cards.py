"""What is written beside the weights of an agent, and where agents are found. Loads no JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omg.components.files import given_path, whole_folder
from omg.config import Config, parse_config
from omg.envs import EnvSpec
from omg.errors import UserError
from omg.names import inside
from omg.pools.bundles import WEIGHTS, read_card
from omg.types import Tree

CARD = "agent.json"


@dataclass(frozen=True)
class AgentCard:
    """What is written beside the weights."""

    algorithm: str
    seed: int
    t_env: int
    config: Tree
    """The complete configuration the agent was trained with, environment included."""
    spec: EnvSpec
    """Sizes of the game it was trained in."""
    results: dict[str, float] = field(default_factory=dict)
    """Its newest test metrics."""
    partners: int = 0
    """Number of different players it was trained with, 0 if it had all seats."""


def read_agent_card(path: str | Path) -> tuple[AgentCard, Config]:
    """What is written beside the weights of an agent, to be shown: opens no game and reads no weights.

    Raises:
        UserError: nothing there, or damaged.
    """
    folder = find_agent(Path(path))
    card, _ = read_card(folder / CARD, AgentCard)
    return card, stored_config(folder, card)


def stored_config(folder: Path, card: AgentCard) -> Config:
    """The configuration of a card; raises `UserError` that names the file."""
    try:
        return parse_config(card.config)
    except UserError as error:
        raise UserError(f"{folder / CARD}: its configuration cannot be used: {error}") from None


def find_agent(path: Path) -> Path:
    """The agent folder meant by `path`: itself, or inside a run folder the best, else the last agent."""
    folder = whole_folder(given_path(path))
    if (folder / CARD).is_file():
        return folder
    for seed in (path, *sorted(path.glob("agents/seed_*"), key=_seed_number)):
        for name in ("best", "last"):
            folder = whole_folder(seed / name)
            if (folder / CARD).is_file():
                return inside(path, folder)
    reason = "there is no agent in it" if path.is_dir() else "there is no such folder"
    raise UserError(f"{path}: {reason}. Expected a run folder or an agent folder with {CARD} and {WEIGHTS}.")


def _seed_number(folder: Path) -> int:
    digits = folder.name.removeprefix("seed_")
    return int(digits) if digits.isdigit() else -1
