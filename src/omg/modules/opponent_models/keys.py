"""Settings of opponent models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from omg.registry.keys import Keys, When, Words
from omg.registry.kinds import Few, Rate, Real, Steps, Width


class ModelRateKeys(Keys):
    """How fast models of the others learn."""

    am_lr: Rate = Field(0.001, gt=0, description="Learning rate of the opponent model (Adam)")


class ModelWidthKeys(Keys):
    """The opponent model's network."""

    am_hidden_dim: Width = Field(96, ge=1, description="Width of the opponent model's recurrent state or inner layer")


class EmbeddingKeys(Keys):
    """Opponent models that hand on an embedding."""

    am_embed_dim: Width = Field(64, ge=1, description="Width of the features of base_am and liam_am")


class NormaliseKeys(Keys):
    """Opponent models that read views themselves."""

    am_normalise: bool = Field(
        False, description="The opponent model reads, and rebuilds, views brought to mean 0 and deviation 1"
    )


class MeLIBAKeys(Keys):
    """MeLIBA's variational autoencoder."""

    meliba_latent_dim: Width = Field(8, ge=1, description="Width of MeLIBA's permanent latent, what the others are")
    meliba_temporal_dim: Width = Field(8, ge=1, description="Width of MeLIBA's temporal latent, what they have in mind")
    meliba_kl_weight: Real = Field(0.05, ge=0, description="Weight of MeLIBA's divergences from the belief before")
    meliba_horizon: Few = Field(
        0, ge=0, description="Steps ahead that MeLIBA's decoder predicts; 0: to the end of the episode"
    )


class RecallKeys(Keys):
    """What was learned before, against what is seen in this game."""

    recall_trust: Real = Field(
        0.2,
        gt=0,
        lt=1,
        description="Weight of what recall_am has learned, against its rules, at the start of a game",
    )


class NaiveKeys(Keys):
    """The naive opponent model."""

    am_feature: Annotated[str, Words("embedding", "probabilities")] = Field(
        "embedding", description="What base_am hands to the agent: its embedding, or the predicted probabilities"
    )


class FeatureKeys(Keys):
    """What the agent is given of its opponent model, and how that is tested."""

    omg_q_input: Annotated[str, Words("mix", "inferred", "selected", "oracle", "zero")] = Field(
        "mix", description="Subgoal that the agent learns with; with zero and oracle it also acts with it"
    )
    diagnostics_interval: Steps = Field(
        100_000, ge=1, description="Environment steps between tests without the opponent model's features"
    )


_OF_CODES = When("omg_inference", "cvae", "mlp")


class CodeKeys(Keys):
    """Subgoals and the prior that gives them their meaning."""

    subgoal_dim: Annotated[Width, _OF_CODES] = Field(
        64, ge=1, description="Width of a subgoal: how many numbers stand for it"
    )
    subgoal_of: Annotated[str, Words("view", "others", "places")] = Field(
        "view",
        description="What a subgoal stands for: what the seat will see, what the others will be and do, their places",
    )
    omg_maps: bool = Field(
        False, description="Prior and inference model read maps by convolutions and bits as bits, where views are such"
    )
    prior_kl_weight: Annotated[Real, _OF_CODES] = Field(
        0.001, ge=0, description="Weight of the divergence in the prior's loss"
    )


class InferenceKeys(Keys):
    """How subgoals are inferred."""

    omg_inference: Annotated[str, Words("cvae", "mlp", "cells")] = Field(
        "cvae",
        description="What is inferred: codes, as distributions (cvae) or points (mlp), or the others' cells of a board",
    )
    omg_reconstruct: Annotated[str, Words("embedding", "input"), _OF_CODES] = Field(
        "embedding",
        description="What the inference model's decoder rebuilds: an embedding of the view, or the view",
    )
    omg_actions: Annotated[str, Words("each", "counts", "none")] = Field(
        "each", description="How the others' last actions enter the inference: each seat's, their counts, not at all"
    )
    omg_free_nats: Annotated[Real, When("omg_inference", "cvae")] = Field(
        0.0, ge=0, description="Divergence of a step's subgoal from the selected one that costs nothing, in nats"
    )
    omg_sample: bool = Field(True, description="Subgoals are drawn while training; tests always use their mean")


class ModelSections(
    InferenceKeys,
    CodeKeys,
    FeatureKeys,
    RecallKeys,
    MeLIBAKeys,
    NaiveKeys,
    NormaliseKeys,
    EmbeddingKeys,
    ModelWidthKeys,
    ModelRateKeys,
):
    """All sections of opponent models, as the configuration has them; the last is shown first."""
