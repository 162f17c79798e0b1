"""The arguments of the `predator_prey` environment."""

from __future__ import annotations

from pydantic import Field

from omg.envs.base import GameArgs

PREDATOR_SIZE, PREY_SIZE, OBSTACLE_SIZE = 0.075, 0.05, 0.2
"""Radii."""


class PredatorPreyArgs(GameArgs):
    """`env_args` of `predator_prey`: the arguments of MPE's `simple_tag`, and the reward of a catch."""

    predators: int = Field(3, ge=1, le=100, description="number of predators; they have the first seats")
    prey: int = Field(1, ge=1, le=100, description="number of prey; they have the last seats")
    obstacles: int = Field(2, ge=0, le=100, description="number of round obstacles")
    episode_limit: int = Field(25, ge=1, le=30_000, description="steps of a game")
    end_at_limit: bool = Field(
        True, description="whether a game is over after its last step; false: it is cut there and would go on"
    )
    catch_reward: float = Field(10.0, gt=0, description="what a touch pays every predator and costs the prey, per step")
