"""The ways down and up the trees as single GPU kernels.

A loop whose end depends on data costs a GPU a round trip to the host for every step, and a search goes down and up a
tree in every simulation, a step for each level. Here one small program per tree walks all the way by itself. The same
results as `trees.descend` and `trees.climb`; written with Pallas for its Triton backend.

Triton reads blocks whose sides are powers of two, so the branches of a node are filled up with illegal ones.

Letters in shapes as in `trees`: B trees, nodes of each, U actions, here a power of two, D draws.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

from omg.modules.kernels import compiler_params

PRIOR, VISITS, RETURN, CHILD = range(4)
"""What `Trees.branches` holds; from CHILD on one number for each draw."""
PARENT, ACTION, REWARD, DISCOUNT = range(4)
"""What `Trees.origins` holds."""


def descend(
    branches: Array, alike: Array, turns: Array, exploration: float, interpret: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Follows the best branches from all roots; see `trees.descend`.

    Args:
        branches: [B, nodes, U, 3 + D].
        alike: [B, nodes, D].
        turns: [simulations + 1] int32.
        exploration: c.
        interpret: run as ordinary JAX code, for tests without a GPU.

    Returns:
        last nodes, the actions there, the draws, and the nodes of ends reached, [B] int32 each.
    """
    batch, nodes, actions, parts = branches.shape
    found = jax.ShapeDtypeStruct((batch,), jnp.int32)
    node, action, draw, child = pl.pallas_call(
        partial(_descend_kernel, exploration=exploration),
        out_shape=[found] * 4,
        grid=(batch,),
        in_specs=[
            pl.BlockSpec((1, nodes, actions, parts), lambda tree: (tree, 0, 0, 0)),
            pl.BlockSpec((1, *alike.shape[1:]), lambda tree: (tree, 0, 0)),
            pl.BlockSpec(turns.shape, lambda tree: (0,)),
        ],
        out_specs=[pl.BlockSpec((1,), lambda tree: (tree,))] * 4,
        interpret=interpret,
        compiler_params=compiler_params(interpret, warps=1),
    )(branches, alike, turns)
    return node, action, draw, -child


def _descend_kernel(branches, alike, turns, *out, exploration) -> None:  # type: ignore[no-untyped-def]
    numbers = jax.lax.broadcasted_iota(jnp.int32, (branches.shape[2],), 0)

    def step(walk: tuple[Array, ...]) -> tuple[Array, ...]:
        node = walk[3]
        prior, visits = branches[0, node, :, PRIOR], branches[0, node, :, VISITS]
        total = 1.0 + jnp.sum(visits)
        score = branches[0, node, :, RETURN] + exploration * prior * jnp.sqrt(total) / (1.0 + visits)
        score = jnp.where(prior < 0, -jnp.inf, score)
        # Of equals the first.
        action = jnp.min(jnp.where(score == jnp.max(score), numbers, len(numbers)))
        turn = turns[branches[0, node, action, VISITS].astype(jnp.int32)]
        draw = alike[0, node, turn].astype(jnp.int32)
        return node, action, draw, branches[0, node, action, CHILD + draw].astype(jnp.int32)

    nobody = jnp.int32(0)
    walk = jax.lax.while_loop(lambda walk: walk[3] > 0, step, step((nobody, nobody, nobody, nobody)))
    for part, found in zip(out, walk, strict=True):
        part[0] = found


def climb(branches: Array, origins: Array, leaf: Array, value: Array, interpret: bool = False) -> Array:
    """Adds returns to all branches on the way back to the roots; see `trees.climb`.

    Args:
        branches: [B, nodes, U, 3 + D]; written in place.
        origins: [B, nodes, 4].
        leaf: [B] int32.
        value: [B].
        interpret: run as ordinary JAX code, for tests without a GPU.

    Returns:
        the branches.
    """
    batch, nodes, actions, parts = branches.shape
    rows = pl.BlockSpec((1, nodes, actions, parts), lambda tree: (tree, 0, 0, 0))
    one = pl.BlockSpec((1,), lambda tree: (tree,))
    climbed: Array = pl.pallas_call(
        _climb_kernel,
        out_shape=jax.ShapeDtypeStruct(branches.shape, branches.dtype),
        grid=(batch,),
        in_specs=[rows, pl.BlockSpec((1, *origins.shape[1:]), lambda tree: (tree, 0, 0)), one, one],
        out_specs=rows,
        input_output_aliases={0: 0},
        interpret=interpret,
        compiler_params=compiler_params(interpret, warps=1),
    )(branches, origins, leaf, value)
    return climbed


def _climb_kernel(_, origins, leaf, value, branches) -> None:  # type: ignore[no-untyped-def]
    def step(way: tuple[Array, Array]) -> tuple[Array, Array]:
        node, value = way
        parent = origins[0, node, PARENT].astype(jnp.int32)
        action = origins[0, node, ACTION].astype(jnp.int32)
        value = origins[0, node, REWARD] + origins[0, node, DISCOUNT] * value
        visits, mean = branches[0, parent, action, VISITS], branches[0, parent, action, RETURN]
        branches[0, parent, action, VISITS] = visits + 1.0
        branches[0, parent, action, RETURN] = mean + (value - mean) / (visits + 1.0)
        return parent, value

    jax.lax.while_loop(lambda way: way[0] > 0, step, (leaf[0], value[0]))
