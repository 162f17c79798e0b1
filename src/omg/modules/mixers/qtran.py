"""QTRAN's networks: the value of a joint action, and of a state, that the seats' own values are held against.

    Q_jt(s, a) = f(s, sum over seats of e(h_i, a_i))        V_jt(s) = g(s)

h_i is the recurrent state of seat i's agent. Nothing limits Q_jt, so it can value any joint action rightly, which no
sum or monotonic mix of the seats' values can.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear, rows_times, select_rows
from omg.modules.mixers.base import MixerSizes
from omg.modules.mixers.qmix import Perceptron


class QTranMixer(eqx.Module):
    """Joint value and state value. W' is `seat_dim` + U, the width of a seat's encoding."""

    encode_in: Linear
    """[W + U, W']; rows in the order recurrent state, action one-hot."""
    encode_out: Linear
    """[W', W']."""
    joint: Perceptron
    """S + W' -> 1."""
    value: Perceptron
    """S -> 1."""
    sizes: MixerSizes = eqx.field(static=True)

    def __init__(self, sizes: MixerSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        width = sizes.seat_dim + sizes.n_actions
        hidden = (sizes.embed_dim,) * sizes.layers
        self.sizes = sizes
        self.encode_in = Linear(width, width, key=keys[0])
        self.encode_out = Linear(width, width, key=keys[1])
        self.joint = Perceptron((sizes.state_dim + width, *hidden, 1), key=keys[2])
        self.value = Perceptron((sizes.state_dim, *hidden, 1), key=keys[3])

    def joint_value(self, state: Array, hidden: Array, actions: Array) -> Array:
        """What a joint action is worth to the team.

        Args:
            state: [..., S].
            hidden: [..., A, W], the agents' recurrent states.
            actions: [..., A] integers.

        Returns:
            [...].
        """
        weight, rows = self.encode_in.weight, self.sizes.seat_dim
        x = rows_times(hidden, weight[:rows]) + select_rows(weight[rows:], actions) + self.encode_in.bias
        encoding = self.encode_out(jax.nn.relu(x)).sum(axis=-2)
        return self.joint(jnp.concatenate([state, encoding], axis=-1))[..., 0]

    def state_value(self, state: Array) -> Array:
        """What makes up for the seats' limited sight: [..., S] -> [...]."""
        return self.value(state)[..., 0]
