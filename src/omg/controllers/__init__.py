"""Controllers: who acts in which seat.

A new one satisfies `base.Policy` (it fills all seats) or `base.Player` (it fills some) and comes with a function
`(config, spec, key, partners) -> controller` that builds it. Add its line to CONTROLLERS; its name is then a value of
the configuration key `mac`. A new selector is a function `(values, avail, key, epsilon) -> actions` in
`components/selectors.py` and a line in ACTION_SELECTORS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.controllers.keys import EpsilonKeys, SearchKeys, SeatKeys
from omg.registry import ControllerTraits, Entry, Registry, SelectorTraits

if TYPE_CHECKING:
    from jax import Array

    from omg.components import Selector
    from omg.config import Config
    from omg.envs.base import EnvSpec
    from omg.types import PyTree

    Controller = PyTree
    Build = Callable[[Config, EnvSpec, Array, int], Controller]


def build_seated_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> Controller:
    """In a team the same players act, only in fewer seats: `TeamPolicy` seats them among the frozen ones."""
    return CONTROLLERS[config.learner_part.controller].build(config, spec, key, partners)


CONTROLLERS: Registry[Build, ControllerTraits] = Registry(
    "mac",
    {
        "basic_mac": Entry(
            "omg.controllers.basic:build_basic_mac",
            ControllerTraits(sections=(SeatKeys,)),
            "a network chooses the actions of the seats",
        ),
        "multi_module_mac": Entry(
            build_seated_mac, ControllerTraits(seats_a_team=True), "the player that learns sits among others"
        ),
        "hop_mac": Entry(
            "omg.controllers.hop:build_hop_mac",
            ControllerTraits(sections=(SearchKeys,), searches=True),
            "players that search the game",
        ),
    },
)
"""Word of the key `mac` -> what it means."""

ACTION_SELECTORS: Registry[Selector, SelectorTraits] = Registry(
    "action_selector",
    {
        "epsilon_greedy": Entry(
            "omg.components.selectors:epsilon_greedy",
            SelectorTraits(sections=(EpsilonKeys,)),
            "the best action, or with probability epsilon any",
        ),
        "multinomial": Entry(
            "omg.components.selectors:multinomial",
            SelectorTraits(sections=(EpsilonKeys,), of_a_policy=True),
            "drawn from the softmax, with a floor of epsilon",
        ),
        "softmax": Entry(
            "omg.components.selectors:softmax",
            SelectorTraits(without_floor="multinomial"),
            "drawn from the softmax",
        ),
    },
)
"""Word of the key `action_selector` -> what it means."""


def build_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> Controller:
    """Builds the networks of the controller that `config.mac` names, with newly drawn parameters.

    Args:
        config: Names the networks and their sizes.
        spec: The game.
        key: Consumed.
        partners: Number of different pool members in the other seats of a team.
    """
    return CONTROLLERS[config.mac].build(config, spec, key, partners)
