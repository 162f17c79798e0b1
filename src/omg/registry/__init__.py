"""Registries of parts: what there is by name, what each part says about itself, and which settings it reads.

A part is anything that a key of the configuration names: a learner, a mixer, a game. Its registry stands in the
`__init__.py` of its room and imports nothing heavy: an `Entry` names the implementation and holds its `Traits`, among
them the sections (`Keys`) of the settings it reads. `REGISTRIES` says where the registry of each key is, so that the
configuration can ask for parts of rooms above it.
"""

from omg.registry.entries import Entry, Registry
from omg.registry.keys import Keys, When
from omg.registry.table import REGISTRIES, registries, registry
from omg.registry.traits import (
    AgentTraits,
    ControllerTraits,
    LearnerTraits,
    MixerTraits,
    ModelTraining,
    ModelTraits,
    OptimiserTraits,
    RunnerTraits,
    ScriptTraits,
    SelectorTraits,
    TrackerTraits,
    Traits,
)

__all__ = [
    "REGISTRIES",
    "AgentTraits",
    "ControllerTraits",
    "Entry",
    "Keys",
    "LearnerTraits",
    "MixerTraits",
    "ModelTraining",
    "ModelTraits",
    "OptimiserTraits",
    "Registry",
    "RunnerTraits",
    "ScriptTraits",
    "SelectorTraits",
    "TrackerTraits",
    "Traits",
    "When",
    "registries",
    "registry",
]
