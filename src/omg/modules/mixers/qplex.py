"""`qplex`: duplex dueling mixing, which can value any joint action as long as the seats agree on the best one.

With q_i the value of seat i's action, v_i = max over legal a of Q_i(a), and w_i > 0, b_i and lambda_i > 0 made from the
state (lambda also from the joint action):

    Q_i = w_i(s) q_i + b_i(s)        A_i = w_i(s) (q_i - v_i) <= 0, the difference detached
    Q_tot = sum over seats of Q_i + (lambda_i(s, a) - 1) A_i

which is sum of (w_i v_i + b_i) + lambda_i A_i: largest where every A_i is 0, that is where each seat takes its own best
action, whatever lambda says. As lambda may depend on the whole joint action, that is the only limit. It is a sum over
heads h:

    lambda_i = sum over h of k_h(s) sigmoid(f_hi(s)) sigmoid(g_hi(s, a)),      k_h > 0
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.mixers.base import Choices, MixerSizes
from omg.modules.mixers.keys import QPlexKeys
from omg.modules.mixers.qmix import Perceptron

_SMALLEST = 1e-10
"""Keeps weights above zero."""


class QPlexMixer(eqx.Module):
    """The duplex dueling mixer; N heads (`qplex_heads`), E is `mixing_embed_dim`."""

    weight: Perceptron
    """S -> E -> A."""
    offset: Perceptron
    """S -> E -> A."""
    head_scale: Linear
    """S -> N."""
    head_seats: Linear
    """S -> N * A."""
    head_actions: Linear
    """S + A * U -> N * A."""
    sizes: MixerSizes = eqx.field(static=True)

    def __init__(self, sizes: MixerSizes, *, key: Array):
        keys = jax.random.split(key, 5)
        state, seats, heads = sizes.state_dim, sizes.n_agents, sizes.section(QPlexKeys).qplex_heads
        self.sizes = sizes
        self.weight = Perceptron((state, sizes.embed_dim, seats), key=keys[0])
        self.offset = Perceptron((state, sizes.embed_dim, seats), key=keys[1])
        self.head_scale = Linear(state, heads, key=keys[2])
        self.head_seats = Linear(state, heads * seats, key=keys[3])
        self.head_actions = Linear(state + seats * sizes.n_actions, heads * seats, key=keys[4])

    def __call__(self, qs: Array, state: Array, choices: Choices) -> Array:
        """[..., A], [..., S] -> [...]."""
        weight = jnp.abs(self.weight(state)) + _SMALLEST
        advantage = weight * jax.lax.stop_gradient(qs - choices.best)
        importance = self.importance(choices.actions, state)
        return (weight * qs + self.offset(state) + (importance - 1.0) * advantage).sum(axis=-1)

    def importance(self, actions: Array, state: Array) -> Array:
        """Lambda of every seat: joint actions [..., A] and states [..., S] -> [..., A]."""
        joint = jax.nn.one_hot(actions, self.sizes.n_actions).reshape(*actions.shape[:-1], -1)
        shape = (*state.shape[:-1], -1, self.sizes.n_agents)
        scale = jnp.abs(self.head_scale(state))[..., None] + _SMALLEST
        of_seats = jax.nn.sigmoid(self.head_seats(state)).reshape(shape)
        of_actions = jax.nn.sigmoid(self.head_actions(jnp.concatenate([state, joint], axis=-1))).reshape(shape)
        return (scale * of_seats * of_actions).sum(axis=-2)
