"""What the subgoals say that a planning player inferred in test episodes (see also `subgoal_measures`).

The mean of the subgoal that was inferred for a co-player at each step is decoded to a view of that co-player, and
compared with what the co-player really saw, as long as both were in the game; where subgoals are cells, the likeliest
one is taken, and nothing is decoded (there is no hit ratio and no distance of views). What comes H steps ahead is, for
a co-player that leaves before, the last view in which it was in the game: behind it, it is nowhere.

    subgoal_hit_ratio          each map that is decoded, cell by cell 0 or 1, hits if exactly that map occurs at or
                               after the step; distinct maps hit, divided by the number of views of the episode
    subgoal_future_distance    distance of the decoded view to the view H steps ahead (the last one past the end)
    subgoal_present_distance   distance of the present view to the same: a useful subgoal is nearer than the present
    subgoal_place_error        rows plus columns between the co-player's likeliest cell in the decoded map and its cell
                               H steps ahead
    present_place_error        cells between where it is and the same: how far it moves
    chance_place_error         cells between a cell that is drawn blindly and the same
    subgoal_place_exact        share of steps in which the likeliest cell is the one H steps ahead
    present_place_exact        share of steps in which the present cell is
    action_surprise_told_truth, action_accuracy_told_truth
                               what the co-player's network makes of its action when it is told what really came H steps
                               ahead; `..._told_nothing` when it is told no cell, or a code of zeros
    subgoal_goal_probe         accuracy with which a linear classifier reads from the subgoal of a co-player which goal
                               it reaches next (stag or hare; the cell of the drift, or none), steps weighed so that
                               all goals count the same; fitted on every other episode, scored on the rest
    present_goal_probe         the same from what the co-player sees at present
    goal_probe_chance          1 / number of goals that occur
    subgoal_probe              accuracy with which a linear classifier reads from a seat's subgoals which player has
                               most of the other seats; fitted on every other episode, scored on the rest
    present_probe              the same from the present view
    probe_chance               share of the most frequent player

Distances are roots of the mean squared difference over all features of a view, which lie within 0 and 1.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, J co-players, R = B * m * J, O views, D features of
a subgoal.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch, loss_mask, view_mask
from omg.controllers.hop import HOPMac
from omg.learners.hop_measures import of_co_players, told_measures
from omg.learners.hop_subgoals import last_there
from omg.learners.subgoal_measures import comparable, hit_ratio, probe_accuracy, tolerance_of, view_distance
from omg.modules.maps import MapShape
from omg.planning.cells import UNTOLD, Ways
from omg.planning.goals import hindsight
from omg.planning.search import own_order


class Watched(NamedTuple):
    """What co-players did in test episodes, as the seats that learn watched them; R = B * m * J rows."""

    others: Array
    """[B, m, J] int32, their seats."""
    seen: Array
    """[B, T+1, m, J, O], what they saw."""
    until: Array
    """[R] int32, steps that both were in the game."""
    last_seen: Array
    """[R] int32, the last slot in which the co-player was."""
    weight: Array
    """[R, T], of the steps that both were in the game; sums to 1."""
    code: Array
    """[B, T, m, J] int32, the goal that the co-player reaches next."""
    known: Array
    """[B, T, m, J] bool, where it reaches one and both were in the game."""

    def rows(self, values: Array) -> Array:
        """[B, T, m, J, ...] -> [R, T, ...]."""
        moved = jnp.moveaxis(values, 1, 3)
        return moved.reshape(-1, *moved.shape[3:])

    def ahead(self, horizon: int) -> Array:
        """The slot H steps ahead of each, or the last one in which the co-player was in the game: [R, T]."""
        return jnp.minimum(jnp.arange(self.weight.shape[1]) + horizon, self.last_seen[:, None])


def watch(mac: HOPMac, batch: EpisodeBatch, seats: Array) -> Watched:
    """What the measures look at; arguments as for `subgoal_measures`."""
    played, actions = loss_mask(batch), batch.actions[:, :-1]
    games, steps, players = actions.shape
    world = mac.game.from_world(batch.state.reshape(games * (steps + 1), -1))
    states = jax.tree.map(lambda leaf: leaf.reshape(games, steps + 1, *leaf.shape[1:])[:, :-1], world)
    standing = mac.game.there(world).reshape(games, steps + 1, players)
    there = standing[:, :-1] & (played[..., None] > 0)
    others = own_order(seats, players)[..., 1:]
    until = _both_there(there, seats, others)
    last_seen = of_co_players(last_there(standing, view_mask(batch))[:, None], others).reshape(-1)
    counted = (jnp.arange(steps) < until[:, None]).astype(jnp.float32)
    reached = hindsight(mac.game.goals(), states, actions, played > 0)
    own = jnp.take_along_axis(there, seats[:, None], axis=2)[..., None]
    return Watched(
        others=others,
        seen=of_co_players(batch.obs, others),
        until=until,
        last_seen=last_seen,
        weight=counted / jnp.maximum(counted.sum(), 1.0),
        code=of_co_players(reached.code, others),
        known=of_co_players(reached.known, others) & own,
    )


def subgoal_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array, horizon: int, partners: int) -> dict[str, Array]:
    """The measures above, as float32 scalars; `probe` only where there is more than one partner to tell apart.

    Args:
        mac: the player.
        batch: episodes that it played, with its records [B, T+1, m, ...] and all observations.
        seats: [B, m], its seats.
        horizon: H.
        partners: number of different players in the other seats.
    """
    watched, prior = watch(mac, batch, seats), mac.subgoal_prior
    others = watched.others
    if prior is None:
        inferred = batch.records["infer_cells"][:, :-1]
        subgoals = inferred.reshape(*inferred.shape[:3], others.shape[-1], -1)
        places = _own_cell(watched.rows(watched.seen), mac.game.map_shape)
        then = jnp.take_along_axis(places, watched.ahead(horizon), axis=1)
        likeliest = watched.rows(subgoals).argmax(axis=-1)
        measures = _place_measures(likeliest, places[:, :-1], then, watched.weight, mac.game.map_shape)
        return measures | _probes(mac, batch, seats, watched, inferred, subgoals, partners)
    inferred = batch.records["infer_mu"][:, :-1]
    subgoals = inferred.reshape(*inferred.shape[:3], others.shape[-1], -1)
    decoded = watched.rows(prior.decode(subgoals))
    seen = watched.rows(watched.seen)
    future = jnp.take_along_axis(seen, watched.ahead(horizon)[..., None], axis=1)
    # No subgoal belongs to the last view.
    padded = jnp.pad(decoded, ((0, 0), (0, 1), (0, 0)))
    guesses, views = comparable(prior, padded[:, :, None], seen[:, :, None])
    weight = watched.weight
    measures = {
        "subgoal_hit_ratio": hit_ratio(guesses, views, watched.until, tolerance_of(prior)),
        "subgoal_future_distance": (view_distance(decoded, future) * weight).sum(),
        "subgoal_present_distance": (view_distance(seen[:, :-1], future) * weight).sum(),
    }
    if prior.map_shape is not None:
        guess, now, then = (_own_cell(views, prior.map_shape) for views in (decoded, seen[:, :-1], future))
        measures |= _place_measures(guess, now, then, weight, prior.map_shape)
    return measures | _probes(mac, batch, seats, watched, inferred, subgoals, partners)


def truth_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array, horizon: int) -> dict[str, Array]:
    """What co-players' networks make of actions when told what really came, and when told nothing.

    Arguments as for `subgoal_measures`.

    Returns:
        `action_surprise_told_truth`, `action_accuracy_told_truth`, and the same with `told_nothing`.
    """
    watched, prior = watch(mac, batch, seats), mac.subgoal_prior
    ahead = jnp.moveaxis(watched.ahead(horizon).reshape(*watched.others.shape, -1), 3, 1)
    coming = jnp.take_along_axis(watched.seen, ahead[..., None], axis=1)
    if prior is None:
        now, then = (_own_cell(views, mac.game.map_shape) for views in (watched.seen[:, :-1], coming))
        truth = Ways(mac.game.map_view).between(now, then)
        nothing = jnp.full_like(truth, UNTOLD)
    else:
        truth = prior.encode(coming)[0]
        nothing = jnp.zeros_like(truth)
    return told_measures(mac, batch, seats, {"told_nothing": nothing, "told_truth": truth})


def _place_measures(guess: Array, now: Array, then: Array, weight: Array, shape: MapShape) -> dict[str, Array]:
    """How far guessed cells, and the present ones, are from those that come, all [R, T]; and how often they are them.

    Beside them a cell that is drawn blindly.
    """
    _, height, width = shape

    def apart(one: Array, other: Array) -> Array:
        return jnp.abs(one // width - other // width) + jnp.abs(one % width - other % width)

    everywhere = jnp.arange(height * width)
    blindly = apart(everywhere[:, None], everywhere).mean(axis=0)
    return {
        "subgoal_place_error": (apart(guess, then) * weight).sum(),
        "present_place_error": (apart(now, then) * weight).sum(),
        "chance_place_error": (blindly[then] * weight).sum(),
        "subgoal_place_exact": ((guess == then) * weight).sum(),
        "present_place_exact": ((now == then) * weight).sum(),
    }


def _probes(
    mac: HOPMac,
    batch: EpisodeBatch,
    seats: Array,
    watched: Watched,
    inferred: Array,
    subgoals: Array,
    partners: int,
) -> dict[str, Array]:
    """What a linear classifier reads from subgoals, [B, T, m, J * D] and [B, T, m, J, D]."""
    told = (subgoals, watched.seen[:, :-1])
    measures = _goal_probes(told, watched.code, watched.known, mac.game.goals().width)
    if partners > 1 and batch.players is not None:
        labels = jax.nn.one_hot(batch.players, partners).sum(axis=1).argmax(axis=-1)
        own = jax.vmap(lambda views, seat: views[:, seat])(batch.obs[:, :-1], seats)
        rows = jnp.broadcast_to(labels[:, None, None], inferred.shape[:3])
        looked = jnp.broadcast_to(loss_mask(batch)[..., None], rows.shape)
        measures |= {
            "subgoal_probe": probe_accuracy(inferred, rows, looked, partners),
            "present_probe": probe_accuracy(own, rows, looked, partners),
            "probe_chance": jax.nn.one_hot(labels, partners).mean(axis=0).max(),
        }
    return measures


def _goal_probes(told: tuple[Array, Array], code: Array, known: Array, width: int) -> dict[str, Array]:
    """What subgoals and views [B, T, m, J, ...] of co-players tell about the goals that they reach next.

    Args:
        told: the subgoals, and what the co-players see.
        code: [B, T, m, J] of the goals, below `width`.
        known: [B, T, m, J] bool, steps that count.
        width: number of codes.
    """
    subgoals, seen, code, known = (
        value.reshape(*value.shape[:2], -1, *value.shape[4:]) for value in (*told, code, known)
    )
    # All goals weigh the same: where nearly everybody is after hares, whoever always says so would seem to know.
    counts = jnp.zeros(width).at[code].add(known)
    kinds = jnp.maximum((counts > 0).sum(), 1)
    weight = known * counts.sum() / (kinds * jnp.maximum(counts[code], 1.0))
    return {
        "subgoal_goal_probe": probe_accuracy(subgoals, code, weight, width),
        "present_goal_probe": probe_accuracy(seen, code, weight, width),
        "goal_probe_chance": 1.0 / kinds,
    }


def _own_cell(views: Array, shape: MapShape) -> Array:
    """The likeliest cell of the one whose view it is, by the first picture: [..., O] -> [...] int32."""
    _, height, width = shape
    return views[..., : height * width].argmax(axis=-1)


def _both_there(there: Array, seats: Array, others: Array) -> Array:
    """Steps that a seat [B, m] and each of its co-players [B, m, J] were in the game together, [R] int32.

    Args:
        there: [B, T, A] bool, who was in the game.
        seats: [B, m].
        others: [B, m, J].
    """
    # Nobody comes back, so these are the first steps.
    until = there.sum(axis=1).astype(jnp.int32)
    own = jnp.take_along_axis(until, seats, axis=1)[..., None]
    theirs = jnp.take_along_axis(until[:, None], others, axis=2)
    return jnp.minimum(own, theirs).reshape(-1)
