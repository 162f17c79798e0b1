"""Two players meet on a corner, round after round: what the other does is learned by remembering earlier rounds."""

from omg.envs.rendezvous.args import RendezvousArgs
from omg.envs.rendezvous.env import Rendezvous

__all__ = ["Rendezvous", "RendezvousArgs"]
