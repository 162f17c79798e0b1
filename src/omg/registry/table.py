"""Which registry holds the words of which key.

Registries stand in the rooms of their parts, most of them above the configuration. Here they are named, and imported
when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from omg.errors import unknown_name
from omg.registry.traits import Traits

if TYPE_CHECKING:
    from omg.registry.entries import Registry

TraitsT = TypeVar("TraitsT", bound=Traits)

REGISTRIES: dict[str, str] = {
    "env": "omg.envs:ENVS",
    "runner": "omg.runners:RUNNERS",
    "mac": "omg.controllers:CONTROLLERS",
    "action_selector": "omg.controllers:ACTION_SELECTORS",
    "agent": "omg.modules.agents:AGENTS",
    "am_model": "omg.modules.opponent_models:OPPONENT_MODELS",
    "learner": "omg.learners:LEARNERS",
    "optimizer": "omg.learners:OPTIMISERS",
    "mixer": "omg.modules.mixers:MIXERS",
    "critic": "omg.modules.critics:CRITICS",
    "tracker": "omg.tracking.trackers:TRACKERS",
    "measure": "omg.training.measures:MEASURES",
    "script": "omg.controllers.scripted:SCRIPTED",
}
"""Key of the configuration -> `module:name` of the registry of its words. `script` is no key but a word of pools: the
players that follow fixed rules."""


def load(place: str) -> object:
    """What `module:name` stands for."""
    module, _, name = place.partition(":")
    found: object = getattr(import_module(module), name)
    return found


def registry(key: str) -> Registry[object, Traits]:
    """The registry of a key's words.

    Raises:
        UserError: the key has none.
    """
    from omg.registry.entries import Registry

    if key not in REGISTRIES:
        raise unknown_name("kind of part", key, REGISTRIES)
    found = load(REGISTRIES[key])
    assert isinstance(found, Registry)
    return found


def registries() -> Mapping[str, Registry[object, Traits]]:
    """All registries by their keys; imports them."""
    return {key: registry(key) for key in REGISTRIES}


def traits(key: str, name: str, kind: type[TraitsT]) -> TraitsT:
    """What the part `name` of a key says about itself.

    Args:
        key: of the configuration.
        name: a word of the key.
        kind: the class of traits of these parts.

    Raises:
        UserError: there is no such part.
    """
    found = registry(key)[name].traits
    assert isinstance(found, kind), f"{key}={name}: {found} is no {kind.__name__}"
    return found


def names_with(key: str, kind: type[TraitsT], holds: Callable[[TraitsT], bool]) -> str:
    """The names of a key's parts whose traits fulfil a condition, for a message: `omg_learner, am_learner`."""
    return ", ".join(name for name in registry(key) if holds(traits(key, name, kind)))
