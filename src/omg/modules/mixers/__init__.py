"""Mixers: what combines the values of the seats' actions into the value of the joint action.

A new one is a module class that satisfies `base.Mixer` and is built as `Class(sizes: MixerSizes, key=key)`.
Add its line to MIXERS; its name is then a value of the configuration key `mixer`. QTRAN's networks value joint actions
in another way and belong to their own learner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.modules.mixers.keys import HypernetKeys, MixingKeys, QPlexKeys
from omg.registry import Entry, MixerTraits, Registry

if TYPE_CHECKING:
    from omg.modules.mixers.base import Mixer

MIXERS: Registry[Callable[..., Mixer], MixerTraits] = Registry(
    "mixer",
    {
        "vdn": Entry("omg.modules.mixers.vdn:VDNMixer", MixerTraits(weightless=True), "the sum"),
        "qmix": Entry(
            "omg.modules.mixers.qmix:QMixer",
            MixerTraits(sections=(MixingKeys, HypernetKeys)),
            "a monotonic network whose weights depend on the state",
        ),
        "qplex": Entry(
            "omg.modules.mixers.qplex:QPlexMixer",
            MixerTraits(sections=(MixingKeys, QPlexKeys)),
            "duplex dueling: any values, as long as the seats agree on the best actions",
        ),
    },
)
"""Word of the key `mixer` -> what it means."""
