"""Two players meet on a corner, round after round: what the other does is learned by remembering earlier rounds."""

from typing import TYPE_CHECKING

from omg.envs.rendezvous.args import RendezvousArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.rendezvous.env import Rendezvous

__all__ = ["Rendezvous", "RendezvousArgs"]

__getattr__ = later(__name__, {"env": ("Rendezvous",)})
