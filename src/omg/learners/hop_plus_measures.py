"""What the subgoals say that a planning player inferred in test episodes (see also `subgoal_measures`).

The mean of the subgoal that was inferred for a co-player at each step is decoded to a view of that co-player, and
compared with what the co-player really saw, as long as both were in the game. What comes H steps ahead is, for a
co-player that leaves before, the last view in which it was in the game: behind it, it is nowhere.

    subgoal_hit_ratio          each map that is decoded, cell by cell 0 or 1, hits if exactly that map occurs at or
                               after the step; distinct maps hit, divided by the number of views of the episode
    subgoal_future_distance    distance of the decoded view to the view H steps ahead (the last one past the end)
    subgoal_present_distance   distance of the present view to the same: a useful subgoal is nearer than the present
    subgoal_place_error        rows plus columns between the co-player's likeliest cell in the decoded map and its cell
                               H steps ahead
    present_place_error        cells between where it is and the same: how far it moves
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

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch, loss_mask, view_mask
from omg.controllers.hop import HOPMac
from omg.learners.hop_measures import of_co_players
from omg.learners.hop_subgoals import last_there
from omg.learners.subgoal_measures import comparable, hit_ratio, probe_accuracy, tolerance_of, view_distance
from omg.modules.maps import MapShape
from omg.planning.goals import hindsight
from omg.planning.search import own_order


def subgoal_measures(mac: HOPMac, batch: EpisodeBatch, seats: Array, horizon: int, partners: int) -> dict[str, Array]:
    """The measures above, as float32 scalars; `probe` only where there is more than one partner to tell apart.

    Args:
        mac: the player.
        batch: episodes that it played, with its records [B, T+1, m, ...] and all observations.
        seats: [B, m], its seats.
        horizon: H.
        partners: number of different players in the other seats.
    """
    prior = mac.subgoal_prior
    assert prior is not None
    played, actions = loss_mask(batch), batch.actions[:, :-1]
    games, steps, players = actions.shape
    world = mac.game.from_world(batch.state.reshape(games * (steps + 1), -1))
    states = jax.tree.map(lambda leaf: leaf.reshape(games, steps + 1, *leaf.shape[1:])[:, :-1], world)
    standing = mac.game.there(world).reshape(games, steps + 1, players)
    there = standing[:, :-1] & (played[..., None] > 0)
    others = own_order(seats, players)[..., 1:]
    inferred = batch.records["infer_mu"][:, :-1]
    subgoals = inferred.reshape(*inferred.shape[:3], others.shape[-1], -1)
    decoded = jnp.moveaxis(prior.decode(subgoals), 1, 3).reshape(-1, steps, prior.output.bias.shape[-1])
    watched = of_co_players(batch.obs, others)
    seen = jnp.moveaxis(watched, 1, 3).reshape(-1, steps + 1, watched.shape[-1])
    length = _both_there(there, seats, others)
    last_seen = of_co_players(last_there(standing, view_mask(batch))[:, None], others).reshape(-1)
    ahead = jnp.minimum(jnp.arange(steps) + horizon, last_seen[:, None])
    future = jnp.take_along_axis(seen, ahead[..., None], axis=1)
    counted = (jnp.arange(steps) < length[:, None]).astype(jnp.float32)
    weight = counted / jnp.maximum(counted.sum(), 1.0)
    # No subgoal belongs to the last view.
    padded = jnp.pad(decoded, ((0, 0), (0, 1), (0, 0)))
    guesses, views = comparable(prior, padded[:, :, None], seen[:, :, None])
    measures = {
        "subgoal_hit_ratio": hit_ratio(guesses, views, length, tolerance_of(prior)),
        "subgoal_future_distance": (view_distance(decoded, future) * weight).sum(),
        "subgoal_present_distance": (view_distance(seen[:, :-1], future) * weight).sum(),
    }
    if prior.map_shape is not None:
        places = [_own_place(views, prior.map_shape) for views in (decoded, seen[:, :-1], future)]
        measures |= {
            f"{name}_place_error": (jnp.abs(place - places[2]).sum(axis=-1) * weight).sum()
            for name, place in zip(("subgoal", "present"), places[:2], strict=True)
        }
    goals = mac.game.goals()
    reached = hindsight(goals, states, actions, played > 0)
    known = of_co_players(reached.known, others) & jnp.take_along_axis(there, seats[:, None], axis=2)[..., None]
    told = (subgoals, watched[:, :-1])
    measures |= _goal_probes(told, of_co_players(reached.code, others), known, goals.width)
    if partners > 1 and batch.players is not None:
        labels = jax.nn.one_hot(batch.players, partners).sum(axis=1).argmax(axis=-1)
        own = jax.vmap(lambda views, seat: views[:, seat])(batch.obs[:, :-1], seats)
        rows = jnp.broadcast_to(labels[:, None, None], inferred.shape[:3])
        looked = jnp.broadcast_to(played[..., None], rows.shape)
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


def _own_place(views: Array, shape: MapShape) -> Array:
    """The likeliest cell of the one whose view it is, the first picture's: [..., O] -> [..., 2], row and column."""
    _, height, width = shape
    return jnp.stack(jnp.divmod(views[..., : height * width].argmax(axis=-1), width), axis=-1)


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
