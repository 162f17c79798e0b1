"""SMAC's rewards: damage dealt, kills, the win, optionally own losses; scaled to a best return of 20."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from omg.envs.battle.args import BattleArgs
from omg.envs.battle.physics import Units
from omg.envs.battle.units import SideTable


class Rewards:
    """The reward of one step, [B] float32."""

    def __init__(self, args: BattleArgs, enemy: SideTable) -> None:
        self.args = args
        best = enemy.n * args.reward_death_value + args.reward_win + float((enemy.hp + enemy.shield).sum())
        self.scale = args.reward_scale_rate / best if args.reward_scale else 1.0

    def __call__(
        self, ally_before: Units, enemy_before: Units, ally: Units, enemy: Units, won: Array, lost: Array
    ) -> Array:
        """Compares both sides before and after the step. Sides hold [n, B]; `won`, `lost`: [B] bool.

        With `reward_only_positive` a step in which the enemy's shields recover more than they lose pays nothing;
        SMAC takes the absolute value there and so pays for letting shields recover.
        """
        args = self.args
        if args.reward_sparse:
            return won.astype(jnp.float32) - lost.astype(jnp.float32)
        dealt, kills = _losses(enemy_before, enemy)
        reward = dealt + args.reward_death_value * kills
        if args.reward_only_positive:
            reward = jnp.maximum(reward, 0.0)
        else:
            taken, deaths = _losses(ally_before, ally)
            reward = reward - args.reward_negative_scale * (taken + args.reward_death_value * deaths)
        reward = reward + jnp.where(won, args.reward_win, 0.0) + jnp.where(lost, args.reward_defeat, 0.0)
        return reward * self.scale


def _losses(before: Units, after: Units) -> tuple[Array, Array]:
    """Health and shield lost, and units lost, summed over a side, each [B]."""
    points = jnp.sum(before.hp + before.shield - after.hp - after.shield, axis=0)
    deaths = jnp.sum(before.alive & ~after.alive, axis=0).astype(jnp.float32)
    return points, deaths
