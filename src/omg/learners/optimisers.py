"""PyTorch's RMSProp and gradient clipping to the letter, since PyMARL's learning rates were tuned on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.learners import OPTIMISERS

if TYPE_CHECKING:
    from omg.config import Config

Tree = TypeVar("Tree")


def build_optimiser(config: Config, lr: float | None = None) -> optax.GradientTransformation:
    """The optimiser that `config.optimizer` names, with the agent's learning rate or another one."""
    return OPTIMISERS[config.optimizer].build(config, config.lr if lr is None else lr)


def rmsprop(config: Config, lr: float) -> optax.GradientTransformation:
    """`optimizer: rmsprop`."""
    return torch_rmsprop(lr, config.optim_alpha, config.optim_eps)


def adam(config: Config, lr: float) -> optax.GradientTransformation:
    """`optimizer: adam`."""
    del config
    return optax.adam(lr)


def torch_rmsprop(lr: float, alpha: float, eps: float) -> optax.GradientTransformation:
    """`v <- alpha v + (1 - alpha) g^2`, `p <- p - lr g / (sqrt(v) + eps)`: the eps stands outside the root."""
    return optax.rmsprop(lr, decay=alpha, eps=eps, eps_in_sqrt=False)


def clip_by_norm(gradients: Tree, max_norm: float) -> tuple[Tree, Array]:
    """Scales all gradients by `min(1, max_norm / (norm + 1e-6))`, with the Euclidean norm over all of them.

    Returns:
        The scaled gradients and the norm before scaling (float32 scalar).
    """
    norm = optax.global_norm(gradients)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda gradient: gradient * scale, gradients), norm


def blended(online: Tree, target: Tree, share: float) -> Tree:
    """The target network after a soft copy: `share` of the online one, and the rest of what it was."""
    return jax.tree.map(lambda new, old: share * new + (1.0 - share) * old, online, target)


def target_is_due(episode: Array | int, last: Array, interval: int) -> Array:
    """Whether a multiple of `interval` episodes lies behind `last`, the episode of the last copy, and `episode`.

    Args:
        episode: scalar int32.
        last: scalar int32.
        interval: one that is larger than any number of episodes means never.
    """
    if interval >= 2**31:
        return jnp.zeros((), bool)
    return jnp.asarray(episode // interval > last // interval)
