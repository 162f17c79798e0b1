"""A few made-up episodes, networks with numbers in them and small settings: what tests of learners start from."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from omg.components import EpisodeBatch
from omg.config import Config, parse_config
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.envs.base import EnvSpec
from omg.envs.places import NumberPlace, SeatCells
from omg.learners.q import QLearner, QState
from omg.modules.opponent_models.prior import InputStatistics, Prior

B, T, A, S, U, OBS = 4, 5, 3, 6, 5, 4
"""Episodes, steps, seats, state features, actions and observation features: small, and no two that could be swapped
without a broken shape where it matters."""
BOARD = SeatCells(2, 3, 0, 1, NumberPlace(0, 0, 1.0, -1.0, 1.0), ((0, 0), (0, -1), (0, 1), (1, 0), (-1, 0)))
"""For models of cells: one number of each seat says where it is, whatever that may mean."""
SPEC = EnvSpec("test", "test", A, U, OBS, S, T, seat_cells=BOARD)
LENGTHS = (5, 5, 3, 2)
ENDED = (False, True, True, False)
SEATS = (0, 2, 1, 2)
"""Where the algorithm that learns sits in the episodes of a team."""
PARTNERS = 2

ONE_SEAT = TeamDraw((TeamSlots(2, (0, 1)), TeamSlots(1, ())))
"""A team in which one seat learns."""
TWO_SEATS = TeamDraw((TeamSlots(1, ()), TeamSlots(1, (0, 1)), TeamSlots(1, ())))
"""A team in which two seats learn that are not neighbours in its name."""


def _fast_options() -> dict[str, Any]:
    """Compiler options that save the most time, of those that this version of XLA knows."""
    options: dict[str, Any] = {}
    for name, value in (("xla_backend_optimization_level", 0), ("xla_cpu_use_fusion_emitters", False)):
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except Exception:
            continue
        options[name] = value
    return options


fast_jit = functools.partial(jax.jit, compiler_options=_fast_options())
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

    The arrays are NumPy's: every single step that JAX takes outside a compiled function is compiled by itself.

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
    arrays: dict[str, Any] = {
        "obs": rng.normal(size=(B, T + 1, A, OBS)).astype(np.float32),
        "state": rng.normal(size=(B, T + 1, S)).astype(np.float32),
        "avail": avail,
        "actions": rng.integers(0, U, (B, T + 1, A)).astype(np.int32),
        "reward": rng.normal(size=(B, T + 1, A) if reward_per_agent else (B, T + 1)).astype(np.float32),
        "terminated": (slots == played[:, None] - 1) & ended[:, None],
        "filled": slots < played[:, None],
    }
    if team is None:
        return EpisodeBatch(**arrays, seat=None, records={})
    seat: Any = np.array(SEATS, np.int32)
    players: Any = rng.integers(0, PARTNERS, (B, A)).astype(np.int32)
    players[np.arange(B)[:, None], np.asarray(team.main_seats(seat))] = -1
    return EpisodeBatch(**arrays, seat=seat, records={}, players=players)


def behind_the_end(batch: EpisodeBatch, seed: int = 99) -> EpisodeBatch:
    """The same episodes with other numbers wherever nothing of them is left.

    That is from the slot behind the last state on; actions and rewards already in that state's slot.
    """
    other = episodes(seed, reward_per_agent=batch.reward.ndim == 3)
    length = np.asarray(LENGTHS)[:, None]
    behind, idle = np.arange(T + 1) > length, np.arange(T + 1) >= length

    def exchange(name: str, where: np.ndarray) -> Any:
        values, others = getattr(batch, name), getattr(other, name)
        return np.where(where.reshape(B, T + 1, *(1,) * (values.ndim - 2)), others, values)

    changed = {name: exchange(name, behind) for name in ("obs", "state")}
    changed |= {name: exchange(name, idle) for name in ("actions", "reward")}
    changed["avail"] = batch.avail ^ behind[..., None, None]
    return batch._replace(**changed)


def drawn(shapes: Any, seed: int) -> Any:
    """Parameters of NumPy: compiling the networks' own initialisation would take most of the tests' time.

    So would looking at parts of JAX arrays, since each kind of index is compiled by itself.
    """
    rng = np.random.default_rng(seed)

    def draw(leaf: Any, gain: float = 1.0) -> Any:
        bound = gain / math.sqrt(leaf.shape[-2]) if leaf.ndim > 1 else 0.4
        return np.asarray(rng.uniform(-bound, bound, leaf.shape), np.float32)

    def draw_prior(prior: Prior) -> Prior:
        # Encodings of different views must differ by more than rounding.
        networks = jax.tree.map(lambda leaf: draw(leaf, gain=2.0), prior)
        features = prior.statistics.mean.shape[0]
        # A variance must not be negative.
        variance: Any = rng.uniform(0.3, 2.0, features).astype(np.float32)
        rows: Any = np.asarray(50.0, np.float32)
        return networks.with_statistics(InputStatistics(rows, networks.statistics.mean, variance))

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


def unrolled(mac: BasicMAC, batch: EpisodeBatch, inferred: Any = None) -> Any:
    """A player's outputs along episodes that it has all seats in, [B, T+1, A, U]; `inferred` [B, T+1, A, F]."""
    views = mac.reading.episodes(batch)
    return views.run(mac.agent, mac.reading.features(mac.opponent_model, views, inferred))[0]


def zeros_like(shapes: Any) -> Any:
    """A pytree of zeros of the given shapes."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def same_bytes(first: Any, second: Any) -> bool:
    """Whether two pytrees hold the same arrays to the last bit."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)


def edited(values: Any, *edits: tuple[Any, float]) -> Any:
    """A copy of an array to whose parts numbers are added, each given as `(index, number)`."""
    copy = np.array(values)
    for index, number in edits:
        copy[index] += number
    return copy


def counted_views() -> list[tuple[int, int]]:
    """The (episode, slot) pairs of `episodes` that hold a view: every played step's, and the last."""
    return [(episode, slot) for episode in range(B) for slot in range(LENGTHS[episode] + 1)]


def counted_steps() -> list[tuple[int, int]]:
    """The (episode, step) pairs of `episodes` that count in a loss."""
    return [(episode, step) for episode in range(B) for step in range(LENGTHS[episode])]
