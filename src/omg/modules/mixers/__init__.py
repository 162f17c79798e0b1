"""Mixers: what combines the values of the seats' actions into the value of the joint action.

A new one is a module class that satisfies `base.Mixer` and is built as `Class(sizes: MixerSizes, key=key)`.
Add its line to MIXERS; its name is then a value of the configuration key `mixer`. QTRAN's networks value joint actions
in another way and belong to their own learner.
"""

from __future__ import annotations

from collections.abc import Callable

from omg.modules.mixers.base import Mixer, MixerSizes
from omg.modules.mixers.qmix import QMixer
from omg.modules.mixers.qtran import QTranMixer
from omg.modules.mixers.vdn import VDNMixer

__all__ = ["MIXERS", "Mixer", "MixerSizes", "QMixer", "QTranMixer", "VDNMixer"]

MIXERS: dict[str, Callable[..., Mixer]] = {
    "vdn": VDNMixer,
    "qmix": QMixer,
}
