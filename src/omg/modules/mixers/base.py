"""What every mixer provides, and the sizes it is built from."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from jax import Array

from omg.registry.keys import Keys, KeysT, section_in


class MixerSizes(NamedTuple):
    """All a mixer's shapes depend on; a mixer may use only some of it."""

    n_agents: int
    state_dim: int
    embed_dim: int = 32
    """`mixing_embed_dim`."""
    hypernet_layers: int = 2
    hypernet_embed: int = 64
    seat_dim: int = 0
    """QTRAN: width of what stands for a seat's history, the agent's recurrent state."""
    n_actions: int = 0
    """QTRAN: U."""
    layers: int = 2
    """QTRAN: hidden layers of each network."""
    own: tuple[Keys, ...] = ()
    """Mixers of other packages: their own settings."""

    def section(self, kind: type[KeysT]) -> KeysT:
        """The mixer's own settings of one kind, of those that its traits list."""
        return section_in(self.own, kind)


class Mixer(Protocol):
    """A network, i.e. a pytree whose leaves are all float arrays."""

    def __call__(self, qs: Array, state: Array) -> Array:
        """The team's value of a joint action: per-seat values [..., A] and state [..., S] -> [...]."""
        ...
