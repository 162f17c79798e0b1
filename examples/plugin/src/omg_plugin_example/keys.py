"""The settings of the parts in this package. They are keys of the configuration like any other."""

from __future__ import annotations

from pydantic import Field

from omg.registry.keys import Keys
from omg.registry.kinds import Real, Whole, Width


class MelibaKeys(Keys):
    """MeLIBA's variational autoencoder."""

    meliba_latent_dim: Width = Field(8, ge=1, description="Width of MeLIBA's permanent latent, what the others are")
    meliba_temporal_dim: Width = Field(8, ge=1, description="Width of MeLIBA's temporal latent, what they have in mind")
    meliba_kl_weight: Real = Field(0.05, ge=0, description="Weight of MeLIBA's divergences from the belief before")
    meliba_horizon: Whole = Field(
        0, ge=0, le=10_000, description="Steps ahead that MeLIBA's decoder predicts; 0: to the end of the episode"
    )
