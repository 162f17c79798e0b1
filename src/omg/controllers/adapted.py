"""Players that were trained on the global state and play where there are only observations.

Each seat's observation is turned into an estimate of the state by a linear map, and the player sees that instead.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.controllers.base import PlayerView
from omg.controllers.basic import AllSeatsMemory, BasicMAC, SeatMemory, with_own_views
from omg.modules.told import Told, Whose

if TYPE_CHECKING:
    from omg.envs.base import Observation


class ObsAdapter(eqx.Module):
    """A linear map for every seat, from its observation to the state; original units on both sides."""

    weight: Array
    """[A, O, S] float32; [1, O, S] where all seats have one map."""
    bias: Array
    """[A, S] or [1, S]."""

    def __call__(self, obs: Array, seats: Array) -> Array:
        """Estimates of the state as each seat has them: [..., m, O] and [..., m] integers -> [..., m, S]."""
        if self.weight.shape[0] == 1:
            return _product("...o,os->...s", obs, self.weight[0]) + self.bias[0]
        # A copy of the map for every row would be many times larger than the rows.
        placed = jax.nn.one_hot(seats, self.weight.shape[0])[..., None] * obs[..., None, :]
        return _product("...ao,aos->...s", placed, self.weight) + self.bias[seats]

    def everywhere(self, obs: Array) -> Array:
        """The same for all seats in their order: [..., A, O] -> [..., A, S]."""
        if self.weight.shape[0] == 1:
            return _product("...o,os->...s", obs, self.weight[0]) + self.bias[0]
        return _product("...ao,aos->...as", obs, self.weight) + self.bias


class AdaptedMAC(eqx.Module):
    """A `BasicMAC` of `obs_is_state` whose seats see the adapter's estimates; satisfies `base.Policy` and `Player`."""

    mac: BasicMAC
    """Reads what it is given in the place of observations, [..., S]."""
    adapter: ObsAdapter

    def initial(self, batch: int, key: Array | None = None) -> AllSeatsMemory:
        """See `Policy.initial`."""
        return self.mac.initial(batch, key)

    def act(
        self, observation: Observation, memory: AllSeatsMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, AllSeatsMemory, dict[str, Array]]:
        """See `Policy.act`; the state is not looked at."""
        return self.mac.act(observation._replace(obs=self.adapter.everywhere(observation.obs)), memory, key, epsilon)

    def lineup(self, memory: AllSeatsMemory) -> None:
        """One algorithm in all seats."""

    def initial_seats(self, batch: int, seats: int) -> SeatMemory:
        """See `Player.initial_seats`."""
        return self.mac.initial_seats(batch, seats)

    def act_seats(
        self, view: PlayerView, memory: SeatMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        """See `Player.act_seats`; the state is not looked at."""
        return self.mac.act_seats(self._estimated(view), memory, key, epsilon)

    def chances(self, view: PlayerView, memory: SeatMemory) -> tuple[Array, SeatMemory]:
        """See `Likely.chances`."""
        return self.mac.chances(self._estimated(view), memory)

    def telling(self) -> AdaptedMAC:
        """See `Tells.telling`."""
        return AdaptedMAC(self.mac.telling(), self.adapter)

    def told(self, records: dict[str, Array]) -> Told:
        """See `Tells.told`; its own views are estimates of the state."""
        told = self.mac.told(records)
        return Told(told.values, with_own_views(told.expectations, Whose.STATE), told.last_known)

    def _estimated(self, view: PlayerView) -> PlayerView:
        """The view with estimates of the state in the place of observations."""
        return view._replace(obs=self.adapter(view.obs, view.seats))


def adapt_mac(mac: BasicMAC, adapter: ObsAdapter) -> AdaptedMAC:
    """A player of `obs_is_state` that sees the adapter's estimates instead of the state."""
    return AdaptedMAC(dataclasses.replace(mac, reading=dataclasses.replace(mac.reading, obs_is_state=False)), adapter)


def _product(axes: str, left: Array, right: Array) -> Array:
    # Fast products of a GPU would add an error of their own to each estimate.
    return jnp.einsum(axes, left, right, precision=jax.lax.Precision.HIGHEST)
