"""All positions that a small game can come to, layer by layer, as arrays of NumPy.

The game's own `step` is asked for every position, every action of one seat and everything that the others might do.
Equal positions are one. Then those are merged that differ in nothing that matters from there on: what was done last,
what was already paid, a plan that nobody follows.

Letters in shapes: n positions of a layer, K kinds of partners, U actions, V things that the others may do together,
T steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.base import PlayerView
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs import Env, Observation
from omg.envs.base import EnvState
from omg.errors import UserError

ENDED = -1
"""Stands for the position behind the end of a game."""
_ROWS = 8192
"""Steps of the game in one compiled call."""
_DECIMALS = 7
"""Of rewards and chances, which come as single-precision numbers."""


class Layer(NamedTuple):
    """The positions of a game after some number of steps."""

    legal: np.ndarray
    """[n, U] bool, of the seat in question."""
    chances: np.ndarray
    """[K, n, V] float64, how likely each kind of partner is to do each thing."""
    reward: np.ndarray
    """[n, U, V] float64, to the seat in question; 0 where it cannot come to that."""
    after: np.ndarray
    """[n, U, V] int64, the position in the next layer, or `ENDED`, also where it cannot come to that."""


def game_graphs(
    env: Env, partners: Sequence[ScriptedPlayer], seat: int, starts: int, seed: int, limit: int
) -> Iterator[tuple[list[Layer], int]]:
    """Plays everything that can happen from each of some starts.

    Args:
        env: The game.
        partners: Kinds of partners; each has all seats but one.
        seat: The one.
        starts: How many games are begun.
        seed: Of the starts.
        limit: The most positions that may follow from a start.

    Yields:
        For every different start: the layers of the game until it ends, of which the first has one position, and how
        many games started there.

    Raises:
        UserError: there are more positions, or the rules know chance.
    """
    game = _Game(env, partners, seat)
    begun, views = game.reset(jax.random.PRNGKey(seed), starts)
    kept, which = _distinct(begun)
    for number, start in enumerate(kept):
        states, seen = _taken(begun, start[None]), _taken(views, start[None])
        layers: list[Layer] = []
        total = 0
        while len(seen.obs) and len(layers) < env.spec.episode_limit:
            total += len(seen.obs)
            if total > limit:
                raise UserError(
                    f"exact: {env.spec.name} {env.spec.scenario} has more than {limit} positions: {total} within "
                    f"{len(layers)} of {env.spec.episode_limit} steps. Allowed: a smaller game, or a higher limit."
                )
            layer, states, seen = game.expand(states, seen)
            layers.append(layer)
        yield _merged(layers), int((which == number).sum())


class _Found(NamedTuple):
    """Where some steps led."""

    number: np.ndarray
    """[rows] int64, the position; `ENDED` where the game is over."""
    states: EnvState
    """The positions, each once."""
    seen: Observation


class _Game:
    """A game as NumPy sees it: arrays of positions have the batch in front, whatever the game's own layout is."""

    def __init__(self, env: Env, partners: Sequence[ScriptedPlayer], seat: int) -> None:
        self.env, self.partners, self.seat = env, tuple(partners), seat
        agents, actions = env.spec.n_agents, env.spec.n_actions
        self.others = [other for other in range(agents) if other != seat]
        things = np.indices((actions,) * len(self.others)).reshape(len(self.others), -1)
        # [U, V, A], everything that all seats can do together.
        self.together = np.zeros((actions, things.shape[1], agents), np.int32)
        self.together[:, :, seat] = np.arange(actions)[:, None]
        self.together[:, :, self.others] = things.T
        shapes = [jax.eval_shape(lambda n=n: env.reset(jax.random.PRNGKey(0), n)[0]) for n in (2, 3)]
        self.axes = jax.tree.map(_batch_axis, *shapes)
        self._step = jax.jit(self._step_rows)
        self._chances = jax.jit(self._chances_of)

    def reset(self, key: Array, starts: int) -> tuple[EnvState, Observation]:
        """The starts: the positions and what is seen there."""
        state, seen = jax.device_get(jax.jit(self.env.reset, static_argnums=1)(key, starts))
        return self._in_front(state), seen

    def expand(self, states: EnvState, seen: Observation) -> tuple[Layer, EnvState, Observation]:
        """A layer from its positions, and the positions of the next."""
        number, actions = len(seen.obs), self.env.spec.n_actions
        legal = np.asarray(seen.avail[:, self.seat])
        chances = np.concatenate(
            [self._chances(_taken(seen, np.resize(rows, _ROWS)))[:, : len(rows)] for rows in _chunks(number)], axis=1
        ).astype(np.float64)
        chances = chances / chances.sum(axis=2, keepdims=True)
        possible = legal[:, :, None] & (chances > 0).any(axis=0)[:, None, :]
        where, own, thing = np.nonzero(possible)
        reward = np.zeros((number, actions, self.together.shape[1]))
        after = np.full(reward.shape, ENDED, np.int64)
        rewards, found = self._played(states, where, self.together[own, thing])
        reward[where, own, thing] = rewards
        after[where, own, thing] = found.number
        return Layer(legal, chances, reward, after), found.states, found.seen

    def _played(self, states: EnvState, where: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, _Found]:
        """Steps from the positions `where` [rows] with the actions [rows, A]: rewards [rows], and what came of it."""
        rewards, parts = [], []
        for rows in _chunks(len(where)):
            padded = np.resize(rows, _ROWS)
            world = jax.tree.map(
                lambda leaf, axis, rows=padded: np.moveaxis(leaf[where[rows]], 0, axis), states, self.axes
            )
            state, seen, reward, over, chance = jax.device_get(self._step(world, actions[padded]))
            if chance:
                raise UserError(
                    f"exact: the rules of {self.env.spec.name} know chance after the start. "
                    f"Allowed: games in which it decides of the start alone."
                )
            count = len(rows)
            rewards.append(np.round(reward[:count].astype(np.float64), _DECIMALS))
            alive = np.flatnonzero(~over[:count])
            numbers = np.full(count, ENDED, np.int64)
            kept, numbers[alive] = _distinct(_taken(self._in_front(state), alive))
            parts.append(_Found(numbers, *(_taken(tree, alive[kept]) for tree in (self._in_front(state), seen))))
        return np.concatenate(rewards), _together(parts)

    def _step_rows(self, world: EnvState, actions: Array) -> tuple[EnvState, Observation, Array, Array, Array]:
        """The next positions, what is seen, rewards, ends, and whether another key would have led elsewhere."""
        one, other = (self.env.step(jax.random.PRNGKey(number), world, actions) for number in range(2))
        same = jnp.stack(jax.tree.leaves(jax.tree.map(jnp.array_equal, one, other)))
        state, seen, outcome = one
        reward = outcome.reward if outcome.reward.ndim == 1 else outcome.reward[:, self.seat]
        return state, seen, reward, outcome.terminated | outcome.truncated, ~same.all()

    def _in_front(self, state: EnvState) -> EnvState:
        return jax.tree.map(lambda leaf, axis: np.moveaxis(leaf, axis, 0), state, self.axes)

    def _chances_of(self, seen: Observation) -> Array:
        """[K, rows, V]: each kind of partner in all other seats."""
        others = jnp.asarray(self.others, jnp.int32)
        rows = seen.obs.shape[0]
        seats = jnp.broadcast_to(others, (rows, len(self.others)))
        view = PlayerView(
            seen.obs[:, others], seen.state, seen.avail[:, others], seats, jnp.full((rows, seen.obs.shape[1]), -1)
        )
        found = []
        for partner in self.partners:
            single, _ = partner.chances(view, None)
            joint = jnp.ones((rows, 1))
            for other in range(len(self.others)):
                joint = (joint[:, :, None] * single[:, other, None, :]).reshape(rows, -1)
            found.append(joint)
        return jnp.stack(found)


def _together(parts: Sequence[_Found]) -> _Found:
    """What several calls found: the same position has the same number in all of them."""
    states, seen = (
        jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
        for trees in ([part.states for part in parts], [part.seen for part in parts])
    )
    kept, numbers = _distinct(states)
    renamed, first = [], 0
    for part in parts:
        # `ENDED` finds the last of them and is put back.
        own = np.append(numbers[first : first + len(part.seen.obs)], ENDED)
        renamed.append(np.where(part.number == ENDED, ENDED, own[part.number]))
        first += len(part.seen.obs)
    return _Found(np.concatenate(renamed), _taken(states, kept), _taken(seen, kept))


def _merged(layers: Sequence[Layer]) -> list[Layer]:
    """From the end on: positions are one if the same is legal, likely and paid there, and leads to the same ones."""
    merged: list[Layer] = []
    numbers = np.zeros(0, np.int64)
    for layer in reversed(layers):
        # Behind the last layer the time is up; elsewhere the number behind all others stands for `ENDED`, which is -1.
        after = np.append(numbers, ENDED)[layer.after] if merged else np.full_like(layer.after, ENDED)
        likely = np.moveaxis(np.round(layer.chances, _DECIMALS), 1, 0)
        kept, numbers = _distinct((layer.legal, likely, layer.reward, after))
        merged.append(Layer(layer.legal[kept], layer.chances[:, kept], layer.reward[kept], after[kept]))
    return merged[::-1]


def _distinct(tree: EnvState) -> tuple[np.ndarray, np.ndarray]:
    """Of the rows of a pytree: the first of each kind [kinds], and every row's kind [rows]."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(tree)]
    rows = len(leaves[0])
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    flat = np.concatenate([leaf.reshape(rows, -1).view(np.uint8) for leaf in leaves if leaf.size], axis=1)
    _, kept, kinds = np.unique(
        np.ascontiguousarray(flat).view(f"V{flat.shape[1]}")[:, 0], return_index=True, return_inverse=True
    )
    return kept, kinds


def _batch_axis(two: jax.ShapeDtypeStruct, three: jax.ShapeDtypeStruct) -> int:
    """Where an array of a game's state has the games, from its shapes with two and with three of them."""
    return next(axis for axis, (one, other) in enumerate(zip(two.shape, three.shape, strict=True)) if one != other)


def _taken(tree: EnvState, rows: np.ndarray) -> EnvState:
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def _chunks(number: int) -> Iterator[np.ndarray]:
    """The numbers up to `number`, as many at a time as a compiled call takes."""
    for start in range(0, number, _ROWS):
        yield np.arange(start, min(start + _ROWS, number))
