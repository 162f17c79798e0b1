"""Searches under `jax.vmap`: seeds of a run, players of a pool.

A plain `vmap` spoils a search. Its loops end when every tree has arrived, and where that differs from one mapped search
to the next, each step of a loop copies all trees. So whole searches are mapped by a rule of their own (`batched`): one
after the other on a CPU, where the networks are fastest one by one; together elsewhere, with loops that end when the
trees of all of them have arrived (`anywhere`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import jax
from jax import Array
from jax.custom_batching import custom_vmap

from omg.modules.convolutions import on_cpu
from omg.planning.trees import Axes
from omg.types import PyTree

Found = TypeVar("Found", covariant=True)


class Searching(Protocol[Found]):
    """A function that searches: mapped axes, then pytrees of arrays."""

    def __call__(self, axes: Axes, /, *arguments: PyTree) -> Found:
        """What the search comes to, a pytree of arrays."""
        ...


def batched(function: Searching[Found], axes: Axes = (), places: tuple[PyTree, ...] = ()) -> Callable[..., Found]:
    """A function that searches, ready for any `vmap` around it.

    Args:
        function: takes `Axes` and then pytrees of arrays, and holds no other arrays. No gradients pass through it.
        axes: for the rule itself: mapped axes so far, the innermost first.
        places: for the rule itself: what of the arguments each of them maps, as `in_axes` of `jax.vmap`.

    Returns:
        the same function without its first argument.
    """

    def call(*arguments: PyTree) -> Found:
        mapped = lambda *own: function(axes, *own)  # noqa: E731
        for axis, place in zip(axes, places, strict=True):
            mapped = jax.vmap(mapped, in_axes=place, axis_name=axis)
        return mapped(*arguments)

    # Each mapping calls it anew; compiled, it is traced only once for all of them.
    guarded = custom_vmap(jax.jit(call))

    def rule(size: int, is_mapped: PyTree, *arguments: PyTree) -> tuple[PyTree, PyTree]:
        if size > 1 and not on_cpu():
            place = jax.tree.map(lambda mapped: 0 if mapped else None, tuple(is_mapped))
            found = batched(function, (*axes, f"searches_{len(axes)}"), (*places, place))(*arguments)
        else:
            leaves, structure = jax.tree.flatten(tuple(arguments))
            flags = jax.tree.leaves(tuple(is_mapped))

            def one(mine: list[Array]) -> PyTree:
                rest = iter(mine)
                chosen = [next(rest) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)]
                return guarded(*jax.tree.unflatten(structure, chosen))

            own = [leaf for leaf, flag in zip(leaves, flags, strict=True) if flag]
            if size > 1:
                found = jax.lax.map(one, own)
            else:
                found = jax.tree.map(lambda leaf: leaf[None], one([leaf[0] for leaf in own]))
        return found, jax.tree.map(lambda _: True, found)

    guarded.def_vmap(rule)
    wrapped: Callable[..., Found] = guarded
    return wrapped
