"""Scripted foragers. They see what `lbforaging`'s observation shows a player, and no more.

A script chooses what to walk to; the way there is the same for all. A player goes along the longer axis first and
steps aside where food or another player stands in its way. Foods lie at least three steps apart, so one step aside
always passes them. Two players who want the same free cell both stay where they are, for ever if both insist: with
somebody close by, one step in four is therefore a random one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import greedy, legal_chances, random_legal
from omg.controllers.scripted.base import ScriptedPlayer
from omg.controllers.scripted.composing import EitherScript
from omg.envs.foraging.env import LOAD
from omg.errors import UserError

_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Down and right of the moves north, south, west and east, in the order of their actions."""
_STAY_SCORE = -0.5
"""Between a step aside (0) and a step away (-1); turned round where the goal is reached."""
_OCCUPIED, _CERTAIN = -1e3, 1e6
_FAR = 10**6
_SIDE = 1000
"""What a row or column counts for those who go by the side on which a food lies: more than any distance."""
_CROWD_DISTANCE = 2
"""Two players within this distance can want the same cell."""
_RANDOM_STEP = 0.25


@dataclass(frozen=True)
class ForagingLayout:
    """Where an observation tells of foods and players."""

    foods: int
    players: int
    player_width: int
    """3 with levels, 2 without."""
    relative: bool = False
    """Whether positions of foods and others count from the own cell."""
    window: int | None = None
    """Cells along each side of the maps that a player sees; None where it sees a list."""


class _Scene(NamedTuple):
    """What a seat sees, positions relative to itself; all int32.

    Read off maps, every cell is a possible food and a possible player.
    """

    food_down: Array
    """[N, m, foods]."""
    food_right: Array
    """[N, m, foods]."""
    food_level: Array
    """[N, m, foods], 0: no such food."""
    level: Array
    """[N, m, 1], own level; 0 if unknown."""
    other_down: Array
    """[N, m, players - 1], very far away if not seen."""
    other_right: Array
    """[N, m, players - 1]."""


class ForagingScript(ScriptedPlayer):
    """Walks to a food and loads it; `choice` says which."""

    layout: ForagingLayout = eqx.field(static=True)
    choice: str = eqx.field(static=True)
    """`nearest`, `highest` (of those it can lift alone, else of all), `own_level` (the nearest it can lift alone, else
    whatever the nearest player is at), or a side: `left`, `right`, `top`, `bottom` (that which lies furthest there)."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        known, crowded, wanted = self._intent(obs, avail)
        wander_key, crowd_key, chance_key = jax.random.split(key, 3)
        no_load = _without_load(avail)
        wandering = random_legal(no_load, wander_key)
        yields = crowded & (jax.random.uniform(chance_key, wanted.shape) < _RANDOM_STEP)
        actions = jnp.where(yields, random_legal(no_load, crowd_key), wanted)
        return jnp.where(known, actions, wandering)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        known, crowded, wanted = self._intent(obs, avail)
        anywhere = legal_chances(_without_load(avail))
        weight = jnp.where(known, jnp.where(crowded, _RANDOM_STEP, 0.0), 1.0)[..., None]
        return (1.0 - weight) * jax.nn.one_hot(wanted, avail.shape[-1]) + weight * anywhere

    def _intent(self, obs: Array, avail: Array) -> tuple[Array, Array, Array]:
        """Whether there is a goal, whether somebody may be in the way, and what it then wants to do; each [N, m]."""
        scene = _scene(self.layout, obs)
        down, right, known, load = self._goal(scene)
        taken = jnp.stack([_someone_at(scene, *step) for step in _STEPS], axis=-1)
        steps = jnp.stack([down * dy + right * dx for dy, dx in _STEPS], axis=-1) + jnp.where(taken, _OCCUPIED, 0.0)
        arrived = (down == 0) & (right == 0)
        stay = jnp.where(arrived, -_STAY_SCORE, _STAY_SCORE)[..., None]
        loading = jnp.where(load, _CERTAIN, -_CERTAIN)[..., None]
        wanted = greedy(jnp.concatenate([stay, steps, loading], axis=-1), avail)
        distance = jnp.abs(scene.other_down) + jnp.abs(scene.other_right)
        crowded = jnp.any(distance <= _CROWD_DISTANCE, axis=-1) & ~arrived & (wanted != LOAD)
        return known, crowded, wanted

    def _goal(self, scene: _Scene) -> tuple[Array, Array, Array, Array]:
        """Down and right to the goal, whether there is one, and whether to load now; each [N, m]."""
        distance = jnp.abs(scene.food_down) + jnp.abs(scene.food_right)
        there = scene.food_level > 0
        liftable = there & (scene.food_level <= scene.level)
        if self.choice == "nearest":
            candidates, rank = there, distance
        elif self.choice == "highest":
            candidates = jnp.where(jnp.any(liftable, axis=-1, keepdims=True), liftable, there)
            rank = distance - _FAR * scene.food_level
        elif self.choice == "own_level":
            candidates, rank = liftable, distance
        else:
            place = scene.food_right if self.choice in ("left", "right") else scene.food_down
            candidates, rank = there, distance + _SIDE * (place if self.choice in ("left", "top") else -place)
        down, right, known = _pick(candidates, rank, scene.food_down, scene.food_right)
        load = known & (jnp.abs(down) + jnp.abs(right) == 1)
        if self.choice != "own_level" or self.layout.players == 1:
            return down, right, known, load
        # No food for it alone: it keeps to the nearest player and helps with whatever they both then stand at.
        apart = jnp.abs(scene.other_down) + jnp.abs(scene.other_right)
        to_down, to_right, seen = _pick(apart < _FAR, apart, scene.other_down, scene.other_right)
        touches = jnp.any(there & (distance == 1), axis=-1)
        beside = jnp.abs(to_down) + jnp.abs(to_right) == 1
        to_down, to_right = (jnp.where(beside, 0, way) for way in (to_down, to_right))
        load = load | (~known & touches)
        return jnp.where(known, down, to_down), jnp.where(known, right, to_right), known | seen | touches, load


def _without_load(avail: Array) -> Array:
    return avail.at[..., LOAD].set(False)


class EveryOtherRoundScript(EitherScript):
    """It holds in every other round of a game, from the first on: in a game of one round always."""

    rounds: int = eqx.field(static=True)

    def holds(self, obs: Array) -> Array:
        """See `EitherScript.holds`."""
        return jnp.argmax(obs[..., -self.rounds :], axis=-1) % 2 == 0


def _scene(layout: ForagingLayout, obs: Array) -> _Scene:
    """Takes an observation [N, m, O] apart."""
    numbers = obs.astype(jnp.int32)
    if layout.window is not None:
        return _scene_of_maps(layout.window, numbers)
    split = 3 * layout.foods
    foods = numbers[..., :split].reshape(*obs.shape[:-1], layout.foods, 3)
    end = split + layout.players * layout.player_width
    players = numbers[..., split:end].reshape(*obs.shape[:-1], layout.players, layout.player_width)
    row, col = players[..., :1, 0], players[..., :1, 1]
    others = players[..., 1:, :]
    seen = others[..., 0] >= 0
    if layout.relative:
        # Without levels nobody is told from somebody on the own cell, which makes no difference to any script.
        seen = (others != 0).any(axis=-1)
        row, col = jnp.zeros_like(row), jnp.zeros_like(col)
    level = players[..., :1, 2] if layout.player_width == 3 else jnp.zeros_like(row)
    return _Scene(
        food_down=foods[..., 0] - row,
        food_right=foods[..., 1] - col,
        food_level=foods[..., 2],
        level=level,
        other_down=jnp.where(seen, others[..., 0] - row, _FAR),
        other_right=jnp.where(seen, others[..., 1] - col, 0),
    )


def _scene_of_maps(window: int, maps: Array) -> _Scene:
    """Takes the maps [N, m, 3 * window * window] apart."""
    cells = window * window
    players, foods = maps[..., :cells], maps[..., cells : 2 * cells]
    middle, offset = cells // 2, jnp.arange(window) - window // 2
    ways = jnp.meshgrid(offset, offset, indexing="ij")
    down, right = (jnp.broadcast_to(way.reshape(-1), foods.shape) for way in ways)
    others = (players > 0) & (jnp.arange(cells) != middle)
    return _Scene(
        food_down=down,
        food_right=right,
        food_level=foods,
        level=players[..., middle : middle + 1],
        other_down=jnp.where(others, down, _FAR),
        other_right=jnp.where(others, right, 0),
    )


def _pick(candidates: Array, rank: Array, down: Array, right: Array) -> tuple[Array, Array, Array]:
    """The candidate of the lowest rank: its down and right, and whether there is one; [N, m, k] -> [N, m]."""
    worst = jnp.iinfo(jnp.int32).max
    chosen = jnp.argmin(jnp.where(candidates, rank, worst), axis=-1, keepdims=True)
    down, right = (jnp.take_along_axis(values, chosen, axis=-1)[..., 0] for values in (down, right))
    return down, right, jnp.any(candidates, axis=-1)


def _someone_at(scene: _Scene, down: int, right: int) -> Array:
    """Whether another player stands at this offset, [N, m] bool."""
    return jnp.any((scene.other_down == down) & (scene.other_right == right), axis=-1)


def nearest_food(env: Any) -> ForagingScript:
    """Walks to the nearest food, whatever its level."""
    return ForagingScript(_layout(env), "nearest")


def highest_food(env: Any) -> ForagingScript:
    """Walks to the highest food it can lift alone, or to the highest of all if it can lift none."""
    return ForagingScript(_layout(env, levels_for="highest_food"), "highest")


def own_level(env: Any) -> ForagingScript:
    """Walks to the nearest food it can lift alone; without one it keeps to the nearest player and helps there."""
    return ForagingScript(_layout(env, levels_for="own_level"), "own_level")


def left_food(env: Any) -> ForagingScript:
    """Walks to the food furthest to the left; of several, to the nearest."""
    return ForagingScript(_layout(env), "left")


def right_food(env: Any) -> ForagingScript:
    """Walks to the food furthest to the right; of several, to the nearest."""
    return ForagingScript(_layout(env), "right")


def top_food(env: Any) -> ForagingScript:
    """Walks to the food furthest up; of several, to the nearest."""
    return ForagingScript(_layout(env), "top")


def bottom_food(env: Any) -> ForagingScript:
    """Walks to the food furthest down; of several, to the nearest."""
    return ForagingScript(_layout(env), "bottom")


def left_right_food(env: Any) -> EveryOtherRoundScript:
    """Goes left in the first round, right in the second, and so on."""
    return EveryOtherRoundScript(left_food(env), right_food(env), env.args.rounds)


def right_left_food(env: Any) -> EveryOtherRoundScript:
    """Goes right in the first round, left in the second, and so on."""
    return EveryOtherRoundScript(right_food(env), left_food(env), env.args.rounds)


def top_bottom_food(env: Any) -> EveryOtherRoundScript:
    """Goes up in the first round, down in the second, and so on."""
    return EveryOtherRoundScript(top_food(env), bottom_food(env), env.args.rounds)


def bottom_top_food(env: Any) -> EveryOtherRoundScript:
    """Goes down in the first round, up in the second, and so on."""
    return EveryOtherRoundScript(bottom_food(env), top_food(env), env.args.rounds)


def _layout(env: Any, levels_for: str | None = None) -> ForagingLayout:
    args = env.args
    if levels_for is not None and not args.observe_agent_levels:
        raise UserError(
            f"Script '{levels_for}': got env_args.observe_agent_levels=False, but it must see its own level. "
            f"Allowed: env_args.observe_agent_levels=True, or the script nearest_food."
        )
    width, window = 3 if args.observe_agent_levels else 2, args.window if args.grid_observation else None
    layout = ForagingLayout(args.max_food, args.players, width, args.relative_positions, window)
    size = 3 * layout.foods + layout.players * layout.player_width if window is None else 3 * window**2
    size += args.rounds if args.rounds > 1 else 0
    assert size == env.spec.obs_dim, "the observation has another layout"
    return layout
