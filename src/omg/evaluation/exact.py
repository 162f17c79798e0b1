"""What answering an unknown partner is worth, exactly: dynamic programming over positions and beliefs.

The partner is one of K kinds, all equally likely, and stays the same for the whole game. Whoever answers sees where the
game stands and what everybody did, and earns the sum of its rewards. Its belief about the partner is the posterior that
Bayes' rule gives for what the partner did; nothing else of the past matters. Positions and beliefs are followed layer
by layer until the game ends, equal ones together, and then valued from the end on.

What the seat itself does not see of the position counts as seen: in games with local views the values are upper bounds.

Letters in shapes: n positions, N positions with a belief, K kinds of partners, U actions, V things that the others may
do together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from omg.controllers.base import Player
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation.game_graph import ENDED, Layer, game_graphs

LIMIT = 400_000
"""The most positions, and the most positions with a belief."""
_DECIMALS = 10
"""Beliefs that agree to so many decimals are one: rounding makes them differ."""
_CERTAIN, _UNLIKELY = 1.0 - 1e-9, 1e-9


@dataclass(frozen=True)
class ExactValues:
    """Returns of the seat in question, means over the starts and, but for those of each, over the partners."""

    optimum: float
    """Of the best answer to a partner who is not known."""
    told: float
    """Of the best answer to each: the ceiling."""
    told_each: tuple[float, ...]
    """[K], the same of each partner."""
    replies: tuple[tuple[float, ...], ...]
    """[K][K], what the best answer to the one brings with the other. Of equally good actions it takes the first."""
    fixed: float
    """The largest mean of a row of `replies`: one of those answers, given to everybody."""
    memoryless: float
    """Of the best answer found that goes by the position alone and not by what was done before: no less than `fixed`.
    It cannot be improved in any layer by itself; in several together it might."""
    random: float
    """Of any legal action: the floor."""
    starts: int
    """Different ones that were solved."""
    positions: int
    """Of all starts, where those are one that differ in nothing that matters."""
    beliefs: int
    """Positions with a belief, of all starts."""


class _Solved(NamedTuple):
    """What came of one start."""

    optimum: float
    told: np.ndarray
    """[K]."""
    replies: np.ndarray
    """[K, K]."""
    memoryless: float
    random: float
    positions: int
    beliefs: int


def exact_values(
    env: Env, partners: Sequence[Player], seat: int = 0, starts: int = 1, seed: int = 0, *, limit: int = LIMIT
) -> ExactValues:
    """Solves a small game with a partner of K kinds.

    Args:
        env: A game that knows chance at the start alone.
        partners: The kinds, equally likely; with more than two seats each has all the others. Scripts: who remembers
            anything is refused.
        seat: Whose return it is.
        starts: How many starts are drawn; each counts as often as it was drawn, and is solved exactly.
        seed: Of the starts.
        limit: The most positions, and the most positions with a belief, that may follow from a start.

    Raises:
        UserError: a partner remembers, the game is too large, or its rules know chance.
    """
    scripts = [_script(partner, index) for index, partner in enumerate(partners)]
    solved, counts = [], []
    for layers, count in game_graphs(env, scripts, seat, starts, seed, limit):
        solved.append(_solved(layers, len(scripts), limit))
        counts.append(count)

    def mean(values: Sequence[np.ndarray | float]) -> np.ndarray:
        return np.average(np.asarray(values), axis=0, weights=counts)

    told, replies = mean([one.told for one in solved]), mean([one.replies for one in solved])
    return ExactValues(
        optimum=float(mean([one.optimum for one in solved])),
        told=float(told.mean()),
        told_each=tuple(told.tolist()),
        replies=tuple(map(tuple, replies.tolist())),
        fixed=float(replies.mean(axis=1).max()),
        memoryless=float(mean([one.memoryless for one in solved])),
        random=float(mean([one.random for one in solved])),
        starts=len(solved),
        positions=sum(one.positions for one in solved),
        beliefs=sum(one.beliefs for one in solved),
    )


def _solved(layers: Sequence[Layer], kinds: int, limit: int) -> _Solved:
    told, policies = zip(*(_told(layers, kind) for kind in range(kinds)), strict=True)
    anything = [layer.legal / layer.legal.sum(axis=1, keepdims=True) for layer in layers]
    optimum, beliefs = _optimum(layers, told, limit)
    replies = np.array([_played(layers, policy) for policy in policies])
    return _Solved(
        optimum=optimum,
        told=np.array([values[0][0] for values in told]),
        replies=replies,
        memoryless=max(_improved(layers, policy) for policy in policies),
        random=float(_played(layers, anything).mean()),
        positions=sum(len(layer.legal) for layer in layers),
        beliefs=beliefs,
    )


def _script(partner: Player, index: int) -> ScriptedPlayer:
    if not isinstance(partner, ScriptedPlayer):
        raise UserError(
            f"exact: partner {index} is a {type(partner).__name__}, which may remember what it saw. "
            f"Allowed: scripts, which go by what they see now."
        )
    return partner


def _to_come(layer: Layer, after: np.ndarray) -> np.ndarray:
    """Reward and what is to come: [n, U, V] from the values [n'] of the next layer."""
    return layer.reward + np.append(after, 0.0)[layer.after]


def _told(layers: Sequence[Layer], kind: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The best answer to one kind of partner: values [n] and actions, one-hot [n, U], of every layer."""
    values, policy = [np.zeros(0)], []
    for layer in reversed(layers):
        each = np.einsum("nv,nuv->nu", layer.chances[kind], _to_come(layer, values[-1]))
        best = _best(layer, each)
        values.append((each * best).sum(axis=1))
        policy.append(best)
    return values[:0:-1], policy[::-1]


def _best(layer: Layer, each: np.ndarray) -> np.ndarray:
    """The first of the best legal actions, one-hot [n, U], from the values [n, U] of each."""
    return np.eye(each.shape[1])[np.where(layer.legal, each, -np.inf).argmax(axis=1)]


def _played(layers: Sequence[Layer], policy: Sequence[np.ndarray]) -> np.ndarray:
    """What a policy [n, U] of every layer brings from the start on with each kind of partner, [K]."""
    values = np.zeros((len(layers[0].chances), 0))
    for layer, acts in zip(reversed(layers), reversed(policy), strict=True):
        to_come = np.stack([_to_come(layer, each) for each in values])
        values = np.einsum("nu,knv,knuv->kn", acts, layer.chances, to_come, optimize=True)
    return values[:, 0]


def _improved(layers: Sequence[Layer], policy: Sequence[np.ndarray]) -> float:
    """The mean over partners of a policy that goes by the position, made better until no layer can be by itself."""
    policy, reached = list(policy), -np.inf
    while (now := float(_played(layers, policy).mean())) > reached + 1e-9:
        reached = now
        weights = _visits(layers, policy)
        values = np.zeros((len(layers[0].chances), 0))
        # How likely a position is depends on the layers before it, its worth on those behind it: from the end on, every
        # layer is improved given all others.
        for depth in reversed(range(len(layers))):
            layer = layers[depth]
            to_come = np.stack([_to_come(layer, each) for each in values])
            each = np.einsum("knv,knuv->knu", layer.chances, to_come, optimize=True)
            # Where nobody comes now, the mean over partners decides: somebody may come after the next change.
            policy[depth] = _best(layer, np.einsum("kn,knu->nu", weights[depth] + _UNLIKELY, each))
            values = np.einsum("nu,knu->kn", policy[depth], each)
    return reached


def _visits(layers: Sequence[Layer], policy: Sequence[np.ndarray]) -> list[np.ndarray]:
    """How likely each position is with each kind of partner, [K, n] of every layer."""
    kinds = len(layers[0].chances)
    weights = [np.ones((kinds, 1))]
    for layer, acts, following in zip(layers, policy, layers[1:], strict=False):
        flow = np.einsum("kn,nu,knv->knuv", weights[-1], acts, layer.chances, optimize=True)
        goes_on = layer.after != ENDED
        number = len(following.legal)
        weights.append(np.stack([np.bincount(layer.after[goes_on], each[goes_on], number) for each in flow]))
    return weights


class _Beliefs(NamedTuple):
    """Positions with a belief, of one layer, and what follows from them."""

    position: np.ndarray
    """[N] int64."""
    likely: np.ndarray
    """[N, V] float64, of what the others may do."""
    after: np.ndarray
    """[N, U, V] int64, a position with a belief of the next layer; `ENDED` where the game is over, the partner known,
    or where it cannot come to that."""
    known: np.ndarray
    """[N, V] int64, the kind of partner that only one can be; `ENDED` where there are several."""


def _optimum(layers: Sequence[Layer], told: Sequence[list[np.ndarray]], limit: int) -> tuple[float, int]:
    """The best answer to an unknown partner, and the number of positions with a belief.

    Once only one kind is left, the best answer to that kind is known from `told` [K][layers][n].
    """
    kinds = len(told)
    if kinds == 1:
        return float(told[0][0][0]), 0
    position, belief = np.zeros(1, np.int64), np.full((1, kinds), 1.0 / kinds)
    followed: list[_Beliefs] = []
    number = 0
    for depth, layer in enumerate(layers):
        number += len(position)
        if number > limit:
            raise UserError(
                f"exact: more than {limit} positions with a belief: {number} within {depth} of {len(layers)} steps. "
                f"Allowed: a smaller game, fewer kinds of partners, or a higher limit."
            )
        here, position, belief = _follow(layer, position, belief)
        followed.append(here)
    values = np.zeros(0)
    for depth in reversed(range(len(layers))):
        layer, here = layers[depth], followed[depth]
        to_come = layer.reward[here.position] + np.append(values, 0.0)[here.after]
        if depth + 1 < len(layers):
            # [K, n' + 1], what each is worth once it is known; nothing behind the end.
            alone = np.stack([np.append(each[depth + 1], 0.0) for each in told])
            sure = (here.known != ENDED)[:, None, :]
            to_come += np.where(sure, alone[here.known[:, None, :], layer.after[here.position]], 0.0)
        each = np.einsum("nv,nuv->nu", here.likely, to_come)
        values = np.where(layer.legal[here.position], each, -np.inf).max(axis=1)
    return float(values[0]), number


def _follow(layer: Layer, position: np.ndarray, belief: np.ndarray) -> tuple[_Beliefs, np.ndarray, np.ndarray]:
    """A layer of beliefs, and the positions [N'] and beliefs [N', K] of the next."""
    # [N, K, V]: this kind of partner, and it does this.
    both = belief[:, :, None] * np.moveaxis(layer.chances, 1, 0)[position]
    likely = both.sum(axis=1)
    posterior = np.moveaxis(both / np.maximum(likely, np.finfo(float).tiny)[:, None], 1, 2)
    known = np.where(posterior.max(axis=2) > _CERTAIN, posterior.argmax(axis=2), ENDED)
    rounded = np.round(posterior.reshape(-1, posterior.shape[2]), _DECIMALS)
    _, first, which = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(known.shape)
    following = layer.after[position]
    goes_on = (following != ENDED) & (likely > 0)[:, None, :] & (known == ENDED)[:, None, :]
    # One number for a position and a belief together: comparing numbers is faster than comparing rows.
    code = following * len(first) + which[:, None, :]
    found, numbers = np.unique(code[goes_on], return_inverse=True)
    after = np.full(following.shape, ENDED, np.int64)
    after[goes_on] = numbers
    here = _Beliefs(position, likely, after, known)
    return here, found // len(first), posterior.reshape(-1, posterior.shape[2])[first[found % len(first)]]
