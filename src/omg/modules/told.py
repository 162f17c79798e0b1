"""What players say that they expect, in words of their own part: the beginnings of the beliefs in a recording.

An opponent model, or what a planner makes of the others, declares what its numbers stand for by returning these; nobody
else has to know it. Letters in shapes: "..." are games and time slots, m seats of the player, J others, U actions,
G goals, W numbers of a view.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jax import Array

TOLD = "told."
"""What the names of records begin with that are kept for telling alone; learners never see them."""
VALUES, FEATURES = f"{TOLD}values", f"{TOLD}features"
VISITS, ROOT_VALUES = f"{TOLD}visits", f"{TOLD}root_values"
GOAL_X, GOAL_Y = f"{TOLD}goal_x", f"{TOLD}goal_y"
"""Records of players that tell."""


class Whose(Enum):
    """What a view that is expected is a view of."""

    OWN = "own"
    """What the seat itself will see: its observation."""
    STATE = "state"
    """The state."""
    STEPS = "steps"
    """What the others do, see `omg.controllers.others`."""
    CO_PLAYERS = "co_players"
    """What each co-player will see."""


class _OfOthers(eqx.Module):
    round_table: bool = eqx.field(static=True, default=True, kw_only=True)
    """Whether the others stand in the order in which they follow the seat; otherwise in the order of seats."""


class ExpectedViews(_OfOthers):
    """Views that are thought to come."""

    views: Array
    """[..., m, W] in original units; of co-players [..., m, J, W]."""
    whose: Whose = eqx.field(static=True, default=Whose.OWN)


class ExpectedPlaces(_OfOthers):
    """Where the others are thought to be, where that is inferred itself."""

    x: Array
    """[..., m, J] places on the field, in the units of its picture."""
    y: Array
    """The same, downwards."""
    horizon: int | None = eqx.field(static=True, default=None)
    """How many steps ahead; None: as far as subgoals of its player's configuration look."""


class ExpectedActions(_OfOthers):
    """What the others are thought to do now."""

    chances: Array
    """[..., m, J, U]."""


def mean_cells(chances: Array, width: int, horizon: int | None = None) -> ExpectedPlaces:
    """Means of cells with these chances, [..., m, J, cells] in the order of seats, on a board so many cells wide."""
    rows, cols = jnp.divmod(jnp.arange(chances.shape[-1]), width)
    x, y = ((chances * (axis + 0.5)).sum(axis=-1) for axis in (cols, rows))
    return ExpectedPlaces(x, y, horizon, round_table=False)


class ExpectedGoals(_OfOthers):
    """What the others are thought to be after."""

    chances: Array
    """[..., m, J, G]."""
    x: Array
    """[..., m, G] places of the goals, NaN where they have none."""
    y: Array
    names: tuple[str, ...] = eqx.field(static=True)


class Searched(eqx.Module):
    """What a tree search found."""

    chances: Array
    """[..., m, U] what it recommends."""
    visits: Array
    """[..., m, U] shares of the visits at the root."""
    values: Array
    """[..., m, U] mean returns, NaN where an action was never tried."""
    value: Array
    """[..., m] of the root."""


Expectation: TypeAlias = ExpectedViews | ExpectedPlaces | ExpectedActions | ExpectedGoals | Searched


class Told(eqx.Module):
    """What a player tells about games that it played."""

    values: Array | None
    """[..., m, U] what it made of every action, NaN where it made nothing of it; None: it does not say."""
    expectations: tuple[Expectation, ...]
    last_known: bool = eqx.field(static=True, default=True)
    """Whether it also looked at the slot behind the last step."""
