"""OMG: opponent modelling by subgoal inference, multi-agent reinforcement learning as one compiled program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omg.api import Agent, Run, Table, evaluate, load, make, plot, record, resume, train
    from omg.errors import UserError
    from omg.recordings import Recording
    from omg.registry.plugins import register

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "Recording",
    "Run",
    "Table",
    "UserError",
    "evaluate",
    "load",
    "make",
    "plot",
    "record",
    "register",
    "resume",
    "train",
]


def __getattr__(name: str) -> object:
    """Loads the API on first use, so that `omg --help` does not wait for JAX."""
    if name == "UserError":
        from omg.errors import UserError

        return UserError
    if name == "register":
        from omg.registry.plugins import register

        return register
    if name == "Recording":
        from omg.recordings import Recording

        return Recording
    if name in __all__:
        from omg import api

        return getattr(api, name)
    raise AttributeError(f"module 'omg' has no attribute '{name}'")
