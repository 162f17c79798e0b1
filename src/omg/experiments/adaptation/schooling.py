"""What a trained agent brings along when it goes on learning elsewhere: its networks and all its learner had.

An agent that was trained in all seats with a set of networks for each of them becomes the player of one seat: of
arrays with a leading axis for the seats, where the new learner has one set, the seat's own are taken. Networks for
every seat of which only one is played (`idv_rnn`, `idv_conv`) come along as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from omg.components.files import fill_leaves, name_leaves
from omg.errors import UserError
from omg.learners.base import Learner
from omg.pools import Agent
from omg.types import PyTree

_PLAYER, _TARGET, _OPTIMISER = "mac", "target_mac", "opt_state"


@dataclass(frozen=True)
class Schooling:
    """What one trained agent brings along."""

    agent: Agent
    learner: Mapping[str, np.ndarray] | None = None
    """All that its learner was at the end of its training, by path; None if only the agent was kept."""

    def arrays(self) -> dict[str, np.ndarray]:
        """By their path in a learner's state; a target network that was not kept starts as the agent itself."""
        own = {name: np.asarray(leaf) for name, leaf in name_leaves(self.agent.policy).items()}
        stored = {f"{field}.{name}": leaf for field in (_TARGET, _PLAYER) for name, leaf in own.items()}
        kept = {name: leaf for name, leaf in (self.learner or {}).items() if not name.startswith(f"{_PLAYER}.")}
        return stored | kept


def schooled_state(
    learner: Learner, brought: Sequence[Schooling], seeds: Sequence[int], seat: int, *, optimisers: bool = True
) -> PyTree:
    """States of a learner that goes on where trained agents stopped.

    A part of the state (its critic, its optimiser) is taken over if all of it fits and every agent has it; otherwise it
    starts anew. The player itself must fit.

    Args:
        learner: the learner.
        brought: [replicates], one for each copy of the learner.
        seeds: [replicates], of whatever starts anew.
        seat: whose player it is that goes on, where each seat had its own.
        optimisers: whether they go on, too. They measure steps by the gradients seen so far: where a gradient is now
            taken from far fewer games and so is far noisier, steps would be several times as long as in training.

    Returns:
        Leaves [replicates, ...].

    Raises:
        UserError: a network does not fit; names both shapes.
    """
    shapes = jax.eval_shape(learner.init, jax.random.PRNGKey(0))
    fitted = {id(one): fit(shapes, one, seat, optimisers=optimisers) for one in brought}
    common = set.intersection(*(set(found) for found in fitted.values()))
    arrays = {name: np.stack([fitted[id(one)][name] for one in brought]) for name in sorted(common)}
    wanted = name_leaves(shapes)
    if common != set(wanted):
        fresh = name_leaves(new_state(learner, seeds))
        arrays |= {name: np.asarray(fresh[name]) for name in wanted if name not in common}
    rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(brought), *leaf.shape), leaf.dtype), shapes)
    return jax.device_put(fill_leaves(rows, arrays))


def new_state(learner: Learner, seeds: Sequence[int]) -> PyTree:
    """States of a learner that knows nothing, leaves [replicates, ...] for `seeds` [replicates]."""
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.PRNGKey(seed))[1])(jnp.asarray(seeds, jnp.uint32))
    return jax.jit(jax.vmap(learner.init))(keys)


def fit(shapes: PyTree, brought: Schooling, seat: int, *, optimisers: bool = True) -> dict[str, np.ndarray]:
    """The parts of a learner's state that an agent brings along, by path.

    Args:
        shapes: of the state, a named tuple with the player as `mac`.
        brought: the agent.
        seat: see `schooled_state`.
        optimisers: see `schooled_state`.
    """
    wanted, stored = name_leaves(shapes), brought.arrays()
    found: dict[str, np.ndarray] = {}
    for field in shapes._fields:
        if field.endswith(_OPTIMISER) and not optimisers:
            continue
        names = [name for name in wanted if name == field or name.startswith(f"{field}.")]
        values = {name: of_seat(stored.get(name), wanted[name].shape, seat) for name in names}
        unfit = next((name for name, value in values.items() if value is None), None)
        if unfit is None:
            found |= {name: value for name, value in values.items() if value is not None}
        elif field == _PLAYER:
            has = "no such array" if unfit not in stored else f"shape {stored[unfit].shape}"
            raise UserError(
                f"{brought.agent.card.algorithm}: the agent cannot go on with these settings: '{unfit}' has {has}, "
                f"expected {wanted[unfit].shape}. Settings that change its networks cannot be changed any more."
            )
    return found


def of_seat(value: np.ndarray | None, shape: tuple[int, ...], seat: int) -> np.ndarray | None:
    """An array as it is if it has a shape, or one seat's share [1, ...] of an array of all seats; else None."""
    if value is None or value.shape == shape:
        return value
    one_of_all = shape[:1] == (1,) and value.shape[1:] == shape[1:] and value.ndim == len(shape) and seat < len(value)
    return value[seat : seat + 1] if one_of_all else None
