"""Records of a run in other tools' formats.

A new one is a module with `check` and `build`, bound together in a `TrackerKind`, and a line in TRACKERS; its name is
then a value of the configuration key `tracker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.config import Config
from omg.config.sections import AimKeys, MlflowKeys, SacredKeys, WandbKeys
from omg.registry import Entry, Registry, TrackerTraits
from omg.tracking.trackers.base import AllTrackers, Exhibit, Tracker, TrackerKind

if TYPE_CHECKING:
    from omg.tracking.folder import RunFolder

__all__ = ["TRACKERS", "AllTrackers", "Exhibit", "Tracker", "TrackerKind", "build_trackers", "check_trackers"]

TRACKERS: Registry[TrackerKind, TrackerTraits] = Registry(
    "tracker",
    {
        "tensorboard": Entry(
            "omg.tracking.trackers.tensorboard:KIND",
            TrackerTraits(switch="use_tensorboard"),
            "TensorBoard's event files",
        ),
        "sacred": Entry(
            "omg.tracking.trackers.sacred:KIND", TrackerTraits(sections=(SacredKeys,)), "Sacred's observers"
        ),
        "wandb": Entry(
            "omg.tracking.trackers.wandb:KIND", TrackerTraits(sections=(WandbKeys,)), "Weights & Biases, also offline"
        ),
        "mlflow": Entry(
            "omg.tracking.trackers.mlflow:KIND", TrackerTraits(sections=(MlflowKeys,)), "MLflow, a database or a server"
        ),
        "aim": Entry("omg.tracking.trackers.aim:KIND", TrackerTraits(sections=(AimKeys,)), "Aim, a folder or a server"),
    },
)
"""Word of the key `tracker` -> what it means."""


def chosen_trackers(config: Config) -> tuple[str, ...]:
    """The trackers of a run: those of the key `tracker`, and TensorBoard where `use_tensorboard` asks for it."""
    switches = {name: entry.traits.switch for name, entry in TRACKERS.ours().items()}
    always = [name for name, switch in switches.items() if switch and getattr(config, switch)]
    return tuple(dict.fromkeys((*always, *config.tracker)))


def check_trackers(config: Config) -> None:
    """Refuses trackers that cannot work on this machine, before there is a run folder.

    Raises:
        UserError: a package is missing (the message says how to install it), or settings contradict each other.
    """
    for name in chosen_trackers(config):
        TRACKERS[name].build.check(config)


def build_trackers(folder: RunFolder, config: Config, warn: Callable[[str], None]) -> AllTrackers:
    """The trackers of a run; `warn` is told of those that fail."""
    trackers: dict[str, Tracker] = {}
    for name in chosen_trackers(config):
        trackers |= TRACKERS[name].build.build(folder, config)
    return AllTrackers(trackers, warn)
