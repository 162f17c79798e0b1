"""Battles between two teams of policies, on maps whose two sides have the same units.

A batch of B battles is shown as a game of 2B rows: row i is what the home team of battle i plays, row B + i what the
away team plays. Each team sees the field as if it stood in the west. The teams change sides from battle to battle: the
home team has the west in battles of even number and the east in the others, so that no side's advantage is a team's.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from omg.envs.base import Observation, Outcome
from omg.envs.battle.args import BattleArgs
from omg.envs.battle.env import Battle, World
from omg.envs.battle.maps import MAPS, BattleMap, Force
from omg.errors import UserError

Result = TypeVar("Result", Observation, Outcome)


def equal_sides(battle_map: BattleMap) -> bool:
    """Whether both sides have the same units, so that a policy of one side can play the other."""
    return battle_map.ally_units == battle_map.enemy_units


class Duel:
    """The sc2 game with policies on both sides; satisfies `omg.envs.base.Env` for even numbers of rows.

    Metrics of a row are its own team's: `battle_won`, and the dead of its own side and of the other. A battle that
    neither row has won is a draw.

    Raises:
        UserError: the map's sides differ, or the allies are scripted.
    """

    def __init__(self, args: BattleArgs) -> None:
        args.check()
        battle_map = MAPS[args.map_name]
        if not equal_sides(battle_map):
            allowed = ", ".join(name for name, one in MAPS.items() if equal_sides(one))
            raise UserError(
                f"env_args.map_name: got '{args.map_name}', where {_words(battle_map.allies)} meet "
                f"{_words(battle_map.enemies)}; a team trained for one side does not fit the other. Allowed: {allowed}."
            )
        if args.heuristic_ai:
            raise UserError(
                "env_args.heuristic_ai: got True, but both sides are played by their teams. Allowed: False."
            )
        self.battle = Battle(args)
        self.args, self.spec = args, self.battle.spec

    def reset(self, key: Array, num_envs: int) -> tuple[World, Observation]:
        """Starts `num_envs` / 2 battles; see `omg.envs.base.Env.reset`."""
        if num_envs % 2:
            raise ValueError(f"num_envs: got {num_envs}, but a battle has two rows")
        world, west = self.battle.reset(key, num_envs // 2)
        return world, self._by_team(west, self.battle.observe_enemies(world))

    def step(self, key: Array, state: World, actions: Array) -> tuple[World, Observation, Outcome]:
        """Plays one step of both teams, `actions` [2B, A]; see `omg.envs.base.Env.step`."""
        home, away = jnp.split(actions, 2)
        swapped = _swapped(home.shape[0])[:, None]
        in_west, in_east = jnp.where(swapped, away, home), jnp.where(swapped, home, away)
        world, west, east, outcome = self.battle.step_both(key, state, in_west, in_east)
        return world, self._by_team(west, east), self._by_team(outcome, self._eastern(state, world, outcome))

    def _eastern(self, before: World, after: World, outcome: Outcome) -> Outcome:
        """The outcome as the side in the east sees it; both sides have the same units, so the same reward table."""
        won, lost, _ = self.battle.result(after.ally, after.enemy)
        reward = self.battle.rewards(before.enemy, before.ally, after.enemy, after.ally, lost, won)
        dead_west, dead_east = outcome.metrics["dead_allies"], outcome.metrics["dead_enemies"]
        metrics = {"battle_won": lost.astype(jnp.float32), "dead_allies": dead_east, "dead_enemies": dead_west}
        return Outcome(reward, outcome.terminated, outcome.truncated, metrics)

    @staticmethod
    def _by_team(west: Result, east: Result) -> Result:
        """Two trees of [B, ...] by side -> one of [2B, ...] by team."""

        def join(west: Array, east: Array) -> Array:
            swapped = _swapped(west.shape[0]).reshape(-1, *(1,) * (west.ndim - 1))
            return jnp.concatenate([jnp.where(swapped, east, west), jnp.where(swapped, west, east)])

        joined: Result = jax.tree.map(join, west, east)
        return joined


def _swapped(battles: int) -> Array:
    """[B] bool, battles in which the home team has the east."""
    return jnp.arange(battles) % 2 == 1


def _words(force: Force) -> str:
    return " and ".join(f"{count} {unit.name}" for unit, count in force)
