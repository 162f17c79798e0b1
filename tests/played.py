"""A few made-up episodes, networks with numbers in them and small settings: what tests of learners start from."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import EpisodeBatch
from omg.config import Config, parse_config
from omg.controllers import TeamDraw, TeamPart
from omg.envs.base import EnvSpec
from omg.learners import QLearner, QState
from omg.modules.opponent_models import InputStatistics, Prior

B, T, A, S, U, OBS = 4, 5, 3, 6, 5, 4
"""Episodes, steps, seats, state features, actions and observation features: small, and no two that could be swapped
without a broken shape where it matters."""
SPEC = EnvSpec("test", "test", A, U, OBS, S, T)
LENGTHS = (5, 5, 3, 2)
ENDED = (False, True, True, False)
SEATS = (0, 2, 1, 2)
"""Where the algorithm that learns sits in the episodes of a team."""
PARTNERS = 2

ONE_SEAT = TeamDraw((TeamPart(2, (0, 1)), TeamPart(1, ())))
"""A team in which one seat learns."""
TWO_SEATS = TeamDraw((TeamPart(1, ()), TeamPart(1, (0, 1)), TeamPart(1, ())))
"""A team in which two seats learn that are not neighbours in its name."""

fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiling is nearly all of these tests' time, and what they compute is small."""


def config(**changes: Any) -> Config:
    """Small networks, and steps small enough that a loss falls with each."""
    small = {
        "rnn_hidden_dim": 8,
        "mixing_embed_dim": 4,
        "hypernet_embed": 6,
        "am_hidden_dim": 9,
        "am_embed_dim": 7,
        "subgoal_dim": 3,
        "omg_horizon": 3,
        "lr": 5e-5,
        "target_update_interval": 10,
    }
    return parse_config(small | changes)


def episodes(seed: int = 0, *, reward_per_agent: bool = False, team: TeamDraw | None = None) -> EpisodeBatch:
    """Lengths 5 (time limit), 5 (real end in the last step), 3 (real end), 2 (cut early): every case of the mask.

    Args:
        seed: Of everything that is drawn.
        reward_per_agent: Rewards [B, T+1, A] instead of [B, T+1].
        team: Whose players sit in the seats; None when one algorithm has them all.
    """
    rng = np.random.default_rng(seed)
    played, ended = np.array(LENGTHS), np.array(ENDED)
    slots = np.arange(T + 1)
    avail = rng.random((B, T + 1, A, U)) < 0.6
    avail[..., 1] = True
    for episode, length in enumerate(LENGTHS):
        avail[episode, length + 1 :] = False
    batch = EpisodeBatch(
        obs=jnp.asarray(rng.normal(size=(B, T + 1, A, OBS)), jnp.float32),
        state=jnp.asarray(rng.normal(size=(B, T + 1, S)), jnp.float32),
        avail=jnp.asarray(avail),
        actions=jnp.asarray(rng.integers(0, U, (B, T + 1, A)), jnp.int32),
        reward=jnp.asarray(rng.normal(size=(B, T + 1, A) if reward_per_agent else (B, T + 1)), jnp.float32),
        terminated=jnp.asarray((slots == played[:, None] - 1) & ended[:, None]),
        filled=jnp.asarray(slots < played[:, None]),
        seat=None,
        records={},
    )
    if team is None:
        return batch
    players = rng.integers(0, PARTNERS, (B, A))
    mine = np.asarray(team.main_seats(jnp.asarray(SEATS)))
    players[np.arange(B)[:, None], mine] = -1
    return batch._replace(seat=jnp.asarray(SEATS, jnp.int32), players=jnp.asarray(players, jnp.int32))


def behind_the_end(batch: EpisodeBatch, seed: int = 99) -> EpisodeBatch:
    """The same episodes with other numbers wherever nothing of them is left.

    That is from the slot behind the last state on; actions and rewards already in that state's slot.
    """
    other = episodes(seed, reward_per_agent=batch.reward.ndim == 3)
    length = np.asarray(LENGTHS)[:, None]
    behind, idle = np.arange(T + 1) > length, np.arange(T + 1) >= length

    def exchange(name: str, where: np.ndarray) -> Array:
        values, others = getattr(batch, name), getattr(other, name)
        return jnp.where(where.reshape(B, T + 1, *(1,) * (values.ndim - 2)), others, values)

    changed = {name: exchange(name, behind) for name in ("obs", "state")}
    changed |= {name: exchange(name, idle) for name in ("actions", "reward")}
    return batch._replace(avail=batch.avail ^ jnp.asarray(behind)[..., None, None], **changed)


def drawn(shapes: Any, seed: int) -> Any:
    """Parameters from NumPy: compiling the networks' own initialisation would take most of the tests' time."""
    rng = np.random.default_rng(seed)

    def draw(leaf: Any) -> Array:
        bound = 1 / math.sqrt(leaf.shape[-2]) if leaf.ndim > 1 else 0.4
        return jnp.asarray(rng.uniform(-bound, bound, leaf.shape), jnp.float32)

    def draw_prior(prior: Prior) -> Prior:
        networks = jax.tree.map(draw, prior)
        features = prior.statistics.mean.shape[0]
        # A variance must not be negative.
        variance = jnp.asarray(rng.uniform(0.3, 2.0, features), jnp.float32)
        return networks.with_statistics(InputStatistics(jnp.float32(50.0), networks.statistics.mean, variance))

    return jax.tree.map(
        lambda leaf: draw_prior(leaf) if isinstance(leaf, Prior) else draw(leaf),
        shapes,
        is_leaf=lambda leaf: isinstance(leaf, Prior),
    )


def drawn_state(learner: QLearner, seed: int = 0) -> QState:
    """A state whose target network differs from the online one, so that mixing the two up shows."""
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    names = ("mac", "target_mac", "mixer", "target_mixer")
    networks = {name: drawn(getattr(shapes, name), 10 * seed + i) for i, name in enumerate(names)}
    return zeros_like(shapes)._replace(**networks)


def zeros_like(shapes: Any) -> Any:
    """A pytree of zeros of the given shapes."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def same_bytes(first: Any, second: Any) -> bool:
    """Whether two pytrees hold the same arrays to the last bit."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)


def counted_steps() -> list[tuple[int, int]]:
    """The (episode, step) pairs of `episodes` that count in a loss."""
    return [(episode, step) for episode in range(B) for step in range(LENGTHS[episode])]
