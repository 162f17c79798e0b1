"""The options of JaxMARL's games, which can be read without JAX."""

from __future__ import annotations

from pydantic import Field

from omg.envs.adapters.gymma import SharedArgs


class JaxMARLArgs(SharedArgs):
    """`env_args` of `jaxmarl`."""

    key: str = Field("MPE_simple_spread_v3", description="JaxMARL's name of the game")
    time_limit: int | None = Field(
        None, ge=1, le=30_000, description="steps until an episode is cut; the game's own if empty"
    )

    @property
    def module(self) -> str:
        """See `SharedArgs`."""
        return "jaxmarl"
