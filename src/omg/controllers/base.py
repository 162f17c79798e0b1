"""What everything that can sit in the seats of a game provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from jax import Array

if TYPE_CHECKING:
    from omg.envs.base import Observation

Carry = Any
"""A pytree private to the policy: what it remembers between two steps of an episode."""


class Policy(Protocol):
    """Chooses the actions of all seats in B games at once; a pytree, so that policies can be stacked and stored."""

    def initial(self, batch: int) -> Carry:
        """Memory at the start of `batch` episodes; every leaf has the leading axis B."""
        ...

    def act(
        self, observation: Observation, carry: Carry, key: Array, epsilon: Array | float
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """Chooses actions.

        Args:
            observation: What the seats see now.
            carry: Memory, from `initial` or from the call before.
            key: Consumed.
            epsilon: Scalar, amount of exploration; what it means is up to the action selector.

        Returns:
            Actions [B, A] int32, legal where `observation.avail` has any; the new memory; and what must be stored with
            this step (name -> [B, A, ...]; the same names at every step, often none).
        """
        ...
