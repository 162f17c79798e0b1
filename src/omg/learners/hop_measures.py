"""How well a planning player understands the others, measured in episodes that were never learned from.

Predictions: at every step a player expects actions of each co-player, what they may be after taken together by its
belief (`Inference.expect`). The most likely action is compared with the one that was done, wherever the co-player had a
choice and both were in the game:

    action_accuracy              share of steps in which they are the same
    action_surprise              mean of -log of the chance of what was done
    confusion_<done>_as_<expected>   share of all steps, so that the matrix sums to 1
    precision_<action>           of the steps in which it was expected, the share in which it was done; 0 for none
    recall_<action>              of the steps in which it was done, the share in which it was expected; 0 for none

Beliefs: the chance that a player gives to the goal that the co-player reaches next, in the first, second and last third
of the co-player's way there: `belief_early`, `belief_middle`, `belief_late`. `belief_alike` is what it would be with
all existing goals alike. A co-player that reaches nothing counts only where that is a goal.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, J co-players, G goals, U actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch, loss_mask
from omg.components.selectors import legal_softmax
from omg.controllers.hop import HOPMac
from omg.envs.grid import GoalSet, GridGame, GridState
from omg.envs.grid.state import State
from omg.modules.planning import each
from omg.planning.goals import GoalInference, hindsight
from omg.planning.minds import Minds
from omg.planning.search import own_order

_TINY = 1e-9
PHASES = ("early", "middle", "late")


def replayed(game: GridGame[State], worlds: Array) -> State:
    """The positions of whole episodes, pieces numbered as a player that saw them step by step had them.

    Args:
        game: the rules.
        worlds: [B, T, S].

    Returns:
        states with leaves [B, T, ...].
    """

    def step(before: State, world: Array) -> tuple[State, State]:
        state = game.from_world(world, before)
        return state, state

    _, states = jax.lax.scan(step, game.from_world(worlds[:, 0]), jnp.swapaxes(worlds, 0, 1))
    by_episode: State = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)
    return by_episode


def prediction_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array) -> dict[str, Array]:
    """The measures of predictions above, as float32 scalars.

    Args:
        mac: the player.
        batch: episodes that it played, with its records [B, T+1, m, ...].
        seats: [B, m], its seats.
    """

    def expect(minds: Minds, looked: Looked, record: dict[str, Array]) -> Array:
        return mac.inference.expect(minds.others, looked.sight, looked.legal, looked.state, record)

    records = {name: values[:, :-1] for name, values in batch.records.items()}
    counts, surprise = _predictions(mac, batch, seats, expect, records)
    return _confusion(counts, mac.game.actions) | {"action_surprise": surprise}


def told_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array, told: dict[str, Array]) -> dict[str, Array]:
    """How well co-players' networks foresee actions when they are told something, over the steps of predictions.

    Args:
        mac: the player.
        batch: episodes.
        seats: [B, m], its seats.
        told: name -> [B, T, m, J, ...], what the networks are told of the co-players.

    Returns:
        `action_surprise_NAME` and `action_accuracy_NAME`.
    """
    measures: dict[str, Array] = {}
    for name, goals in told.items():

        def expect(minds: Minds, looked: Looked, record: dict[str, Array]) -> Array:
            return legal_softmax(minds.others(*looked.sight, record["told"]), looked.legal)

        counts, surprise = _predictions(mac, batch, seats, expect, {"told": goals})
        right = jnp.diagonal(counts).sum() / jnp.maximum(counts.sum(), 1.0)
        measures |= {f"action_surprise_{name}": surprise, f"action_accuracy_{name}": right}
    return measures


class Looked(NamedTuple):
    """What one seat sees of M positions."""

    sight: tuple[Array, Array]
    """Maps [M, C, height, width] and time [M]."""
    legal: Array
    """[M, J, U] bool, of the co-players."""
    state: GridState
    """Leaves [M, ...]."""


def _predictions(
    mac: HOPMac,
    batch: EpisodeBatch,
    seats: Array,
    expect: Callable[[Minds, Looked, dict[str, Array]], Array],
    records: dict[str, Array],
) -> tuple[Array, Array]:
    """How what co-players did compares with what was expected of them.

    Args:
        mac: the player.
        batch: episodes.
        seats: [B, m], its seats.
        expect: a seat's networks, positions, and its records of them [M, ...] -> chances [M, J, U].
        records: name -> [B, T, m, ...].

    Returns:
        counts [U, U] of what was done (rows) and expected (columns), and the mean surprise.
    """
    game, players = mac.game, batch.actions.shape[2]
    played = loss_mask(batch) > 0
    games, steps = played.shape
    state = _flat(replayed(game, batch.state[:, :-1]))
    legal, there = game.legal(state), game.there(state) & played.reshape(-1, 1)
    actions = batch.actions[:, :-1].reshape(-1, players)
    flat = {name: values.reshape(games * steps, *values.shape[2:]) for name, values in records.items()}

    def of_seat(minds: Minds, seat_of_game: Array, record: dict[str, Array]) -> tuple[Array, Array]:
        """Counts [U, U] of what was done and expected, and the sum of surprises."""
        seat = jnp.repeat(seat_of_game, steps)
        order = own_order(seat, players)
        allowed = jnp.take_along_axis(legal, order[:, 1:, None], axis=1)
        present = jnp.take_along_axis(there, order, axis=1)
        did = jnp.take_along_axis(actions, order[:, 1:], axis=1)
        chances = expect(minds, Looked(game.sight(state, seat), allowed, state), record)
        counted = present[:, :1] & present[:, 1:] & (allowed.sum(axis=-1) > 1)
        chance = jnp.take_along_axis(chances, did[..., None], axis=-1)[..., 0]
        surprise = jnp.where(counted, -jnp.log(jnp.maximum(chance, _TINY)), 0.0).sum()
        count = chances.shape[-1]
        done = jax.nn.one_hot(jnp.where(counted, did, -1), count).reshape(-1, count)
        expected = jax.nn.one_hot(jnp.argmax(chances, axis=-1), count).reshape(-1, count)
        return done.T @ expected, surprise

    by_seat = {name: jnp.swapaxes(values, 0, 1) for name, values in flat.items()}
    if mac.every_seat:
        counts, surprise = each(of_seat, mac.minds, seats.T, by_seat)
    else:
        one = jax.tree.map(lambda leaf: leaf[0], mac.minds)
        counts, surprise = jax.lax.map(lambda own: of_seat(one, *own), (seats.T, by_seat))
    total = counts.sum(axis=0)
    return total, surprise.sum() / jnp.maximum(total.sum(), 1.0)


def _confusion(counts: Array, names: tuple[str, ...]) -> dict[str, Array]:
    """Counts [U, U] of what was done (rows) and expected (columns) as measures."""
    total = jnp.maximum(counts.sum(), 1.0)
    right = jnp.diagonal(counts)
    precision = right / jnp.maximum(counts.sum(axis=0), 1.0)
    recall = right / jnp.maximum(counts.sum(axis=1), 1.0)
    measures = {"action_accuracy": right.sum() / total}
    for row, done in enumerate(names):
        measures |= {f"precision_{done}": precision[row], f"recall_{done}": recall[row]}
        measures |= {f"confusion_{done}_as_{name}": counts[row, col] / total for col, name in enumerate(names)}
    return measures


def belief_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array) -> dict[str, Array]:
    """The measures of beliefs above, as float32 scalars; arguments as for `prediction_measures`."""
    inference = mac.inference
    assert isinstance(inference, GoalInference)
    goals, game = inference.goals, mac.game
    played, actions = loss_mask(batch) > 0, batch.actions[:, :-1]
    states = replayed(game, batch.state[:, :-1])
    seen = hindsight(goals, states, actions, played)
    shape = (*actions.shape[:2], goals.count)
    codes, exists = goals.codes(_flat(states)).reshape(shape), goals.exists(_flat(states)).reshape(shape)
    wanted = (codes[:, :, None] == seen.code[..., None]) & exists[:, :, None]
    phase = _phase(goals, states, actions, played)
    alike = 1.0 / jnp.maximum(exists.sum(axis=-1), 1)
    belief = batch.records["belief"][:, :-1].reshape(*shape[:2], seats.shape[1], -1, goals.count)
    others = own_order(seats, actions.shape[2])[..., 1:]
    held, known, when = (of_co_players(values, others) for values in (wanted, seen.known, phase))
    there = game.there(_flat(states)).reshape(actions.shape)
    looking = jnp.take_along_axis(there, seats[:, None], axis=2)[..., None]
    counted = (known & looking).astype(jnp.float32)
    right = (belief * held).sum(axis=-1)
    measures = {}
    for number, name in enumerate(PHASES):
        weight = counted * (when == number)
        measures[f"belief_{name}"] = (right * weight).sum() / jnp.maximum(weight.sum(), 1.0)
    measures["belief_alike"] = (alike[..., None, None] * counted).sum() / jnp.maximum(counted.sum(), 1.0)
    return measures


def _phase(goals: GoalSet[State], states: State, actions: Array, played: Array) -> Array:
    """The third, 0 to 2, of each player's way from its last goal (or the start) to the next (or the end): [B, T, A]."""
    reached = (goals.reached(_flat(states), actions.reshape(-1, actions.shape[2])) >= 0).reshape(actions.shape)
    reached = reached & played[..., None]
    steps = actions.shape[1]
    now = jnp.arange(steps)[:, None]
    last = jnp.sum(played, axis=1, dtype=jnp.int32)[:, None, None] - 1
    end = jax.lax.cummin(jnp.where(reached, now, steps), axis=1, reverse=True)
    end = jnp.minimum(end, last)
    gone = jax.lax.cummax(jnp.where(reached, now + 1, 0), axis=1)
    begin = jnp.pad(gone[:, :-1], ((0, 0), (1, 0), (0, 0)))
    return jnp.clip(3 * (now - begin) // jnp.maximum(end - begin + 1, 1), 0, 2)


def of_co_players(values: Array, others: Array) -> Array:
    """What belongs to the co-players of each seat: [B, T, A, ...] and [B, m, J] -> [B, T, m, J, ...]."""
    return jax.vmap(lambda own, order: own[:, order])(values, others)


def _flat(states: State) -> State:
    """Leaves [B, T, ...] -> [B * T, ...]."""
    flat: State = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
    return flat
