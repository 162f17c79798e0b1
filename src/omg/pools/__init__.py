"""Trained players on disk: agents and priors, each a folder that says by itself what it is; pools of them."""

from typing import TYPE_CHECKING

from omg.registry.later import later

if TYPE_CHECKING:
    from omg.pools.agents import Agent, agent_from_arrays, load_agent, save_agent
    from omg.pools.cards import AgentCard, read_agent_card
    from omg.pools.index import INDEX, SETS, Member, Pool, Standing
    from omg.pools.learning import load_learning, save_learning
    from omg.pools.priors import PRIOR_FOLDERS, PriorCard, load_prior, pool_prior, prior_folder, save_prior

__all__ = [
    "INDEX",
    "PRIOR_FOLDERS",
    "SETS",
    "Agent",
    "AgentCard",
    "Member",
    "Pool",
    "PriorCard",
    "Standing",
    "agent_from_arrays",
    "is_pool",
    "load_agent",
    "load_learning",
    "load_prior",
    "pool_prior",
    "prior_folder",
    "read_agent_card",
    "save_agent",
    "save_learning",
    "save_prior",
]


__getattr__ = later(
    __name__,
    {
        "agents": ("Agent", "agent_from_arrays", "load_agent", "save_agent"),
        "cards": ("AgentCard", "read_agent_card"),
        "index": ("INDEX", "SETS", "Member", "Pool", "Standing"),
        "learning": ("load_learning", "save_learning"),
        "priors": ("PRIOR_FOLDERS", "PriorCard", "load_prior", "pool_prior", "prior_folder", "save_prior"),
    },
)


def is_pool(path: object) -> bool:
    """Whether a folder is a pool."""
    from pathlib import Path

    from omg.pools.members import INDEX

    return (Path(str(path)) / INDEX).is_file()
