"""`qmix`: a mixing network whose weights are made from the state and are never negative.

    Q_tot = w2(s) . elu(q W1(s) + b1(s)) + V(s),      W1, w2 >= 0

so that Q_tot rises with every seat's value, and the seats' greedy actions are greedy for the team.
"""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.errors import UserError
from omg.modules.layers import Linear
from omg.modules.mixers.base import Choices, MixerSizes


class Perceptron(eqx.Module):
    """Linear layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __init__(self, widths: tuple[int, ...], *, key: Array):
        keys = jax.random.split(key, len(widths) - 1)
        self.layers = tuple(Linear(*pair, key=k) for pair, k in zip(pairwise(widths), keys, strict=True))

    def __call__(self, x: Array) -> Array:
        """[..., widths[0]] -> [..., widths[-1]]."""
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class QMixer(eqx.Module):
    """The monotonic mixer. E is `mixing_embed_dim`."""

    hyper_w1: Perceptron
    """S -> A * E."""
    hyper_b1: Linear
    """S -> E."""
    hyper_w2: Perceptron
    """S -> E."""
    value: Perceptron
    """S -> E -> 1."""
    sizes: MixerSizes = eqx.field(static=True)

    def __init__(self, sizes: MixerSizes, *, key: Array):
        if sizes.hypernet_layers not in (1, 2):
            raise UserError(f"hypernet_layers: got {sizes.hypernet_layers}. Allowed: 1, 2.")
        hidden = (sizes.hypernet_embed,) * (sizes.hypernet_layers - 1)
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.hyper_w1 = Perceptron((sizes.state_dim, *hidden, sizes.n_agents * sizes.embed_dim), key=keys[0])
        self.hyper_b1 = Linear(sizes.state_dim, sizes.embed_dim, key=keys[1])
        self.hyper_w2 = Perceptron((sizes.state_dim, *hidden, sizes.embed_dim), key=keys[2])
        self.value = Perceptron((sizes.state_dim, sizes.embed_dim, 1), key=keys[3])

    def __call__(self, qs: Array, state: Array, choices: Choices | None = None) -> Array:
        """[..., A], [..., S] -> [...]; which actions these are plays no part."""
        w1 = jnp.abs(self.hyper_w1(state)).reshape(*state.shape[:-1], self.sizes.n_agents, self.sizes.embed_dim)
        hidden = jax.nn.elu(jnp.einsum("...a,...ae->...e", qs, w1) + self.hyper_b1(state))
        w2 = jnp.abs(self.hyper_w2(state))
        return (hidden * w2).sum(axis=-1) + self.value(state)[..., 0]
