"""The `sc2` environment: SMAC's contract over the battle simulator, thousands of battles at once."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.battle import starts
from omg.envs.battle.args import BattleArgs
from omg.envs.battle.maps import MAPS
from omg.envs.battle.observe import EAST, WEST, Layout, global_state, observations, orders_from_actions
from omg.envs.battle.physics import Orders, Units
from omg.envs.battle.reward import Rewards
from omg.envs.battle.scene import battle_scenery
from omg.envs.battle.simulate import BattleRules, play_ticks
from omg.envs.battle.units import START_ENERGY, SideTable
from omg.envs.scenes import Scenery


class World(NamedTuple):
    """The state of a batch of battles; batch axis last."""

    ally: Units
    enemy: Units
    ally_target: Array
    """[n, B] int32, whom a scripted unit attacks (-1: nobody)."""
    enemy_target: Array
    ally_last: Array
    """[n, B] int32, last actions (-1 before the first)."""
    enemy_last: Array
    rally: Array
    """[4, B], where a scripted side walks: x and y for the allies, x and y for the enemies."""
    time: Array
    """[B] int32, steps played."""


class Battle:
    """StarCraft micro-battles by SMAC's rules of observation, action and reward.

    >>> env = Battle(BattleArgs(map_name="8m"))
    >>> (env.spec.n_agents, env.spec.n_actions, env.spec.obs_dim, env.spec.state_dim)
    (8, 14, 80, 168)
    """

    about = "sc2: built-in battle simulator"
    """For the first lines of a run."""

    def __init__(self, args: BattleArgs) -> None:
        args.check()
        battle_map = MAPS[args.map_name]
        limit = args.episode_limit or battle_map.episode_limit
        self.args = args
        self.rules = BattleRules(battle_map, args.step_mul)
        self.layout = Layout(self.rules.ally, self.rules.enemy, battle_map, args, limit)
        self.enemy_layout = Layout(self.rules.enemy, self.rules.ally, battle_map, args, limit)
        self.rewards = Rewards(args, self.rules.enemy)
        self.spec = EnvSpec(
            name="sc2",
            scenario=args.map_name,
            n_agents=self.rules.ally.n,
            n_actions=self.layout.n_actions,
            obs_dim=self.layout.obs_dim,
            state_dim=self.layout.state_dim,
            episode_limit=limit,
            metrics=("battle_won", "dead_allies", "dead_enemies"),
            success_metric="battle_won",
            seat_blocks=((0, self.layout.unit_dim),),
            seat_places=self.layout.unit_place,
        )

    def reset(self, key: Array, num_envs: int) -> tuple[World, Observation]:
        """Starts battles; see `omg.envs.base.Env.reset`."""
        battle_map = self.rules.map
        if self.args.start == "random":
            ax, ay, ex, ey = starts.scattered(battle_map, key, num_envs)
        else:
            ax, ay, ex, ey = starts.standard(battle_map, num_envs)
        rally = jnp.stack([ex.mean(axis=0), ey.mean(axis=0), ax.mean(axis=0), ay.mean(axis=0)])
        allies, enemies = self.rules.ally.n, self.rules.enemy.n
        world = World(
            ally=_fresh(self.rules.ally, ax, ay),
            enemy=_fresh(self.rules.enemy, ex, ey),
            ally_target=jnp.full((allies, num_envs), -1, jnp.int32),
            enemy_target=jnp.full((enemies, num_envs), -1, jnp.int32),
            ally_last=jnp.full((allies, num_envs), -1, jnp.int32),
            enemy_last=jnp.full((enemies, num_envs), -1, jnp.int32),
            rally=rally,
            time=jnp.zeros(num_envs, jnp.int32),
        )
        return world, self.observe(world)

    def step(self, key: Array, state: World, actions: Array) -> tuple[World, Observation, Outcome]:
        """Plays one step against the scripted enemy; see `omg.envs.base.Env.step`."""
        ally_actions = actions.astype(jnp.int32).T
        ally_orders = self._script(state, 0) if self.args.heuristic_ai else None
        world, outcome = self._advance(key, state, ally_actions, ally_orders, None)
        return world, self.observe(world), outcome

    def step_both(
        self, key: Array, state: World, actions: Array, enemy_actions: Array
    ) -> tuple[World, Observation, Observation, Outcome]:
        """Plays one step with both sides commanded.

        Args:
            key: randomness of this step.
            state: the battles.
            actions: [B, n_allies] actions of the allies.
            enemy_actions: [B, n_enemies] actions of the enemies, in their own (mirrored) view.

        Returns:
            The battles, the allies' and the enemies' observation, and the outcome as the allies see it.
        """
        enemy = enemy_actions.astype(jnp.int32).T
        world, outcome = self._advance(key, state, actions.astype(jnp.int32).T, None, enemy)
        return world, self.observe(world), self.observe_enemies(world), outcome

    def scenery(self) -> Scenery[World]:
        """See `omg.envs.scenes.Shown`."""
        return battle_scenery(self.rules, self.layout)

    def observe(self, world: World) -> Observation:
        """What the allies see."""
        return self._observe(self.layout, world.ally, world.enemy, world.ally_last, world.time)

    def observe_enemies(self, world: World) -> Observation:
        """What the enemies see, mirrored so that they too face east; shapes follow the enemy's numbers."""
        me, other = (side._replace(x=-side.x) for side in (world.enemy, world.ally))
        return self._observe(self.enemy_layout, me, other, world.enemy_last, world.time)

    @staticmethod
    def _observe(layout: Layout, me: Units, other: Units, last: Array, time: Array) -> Observation:
        obs, legal = observations(layout, me, other, last, time)
        state = global_state(layout, me, other, last, time, obs)
        return Observation(obs.transpose(2, 0, 1), state.T, legal.transpose(2, 0, 1))

    def _advance(
        self, key: Array, world: World, ally_actions: Array, ally_script: Orders | None, enemy_actions: Array | None
    ) -> tuple[World, Outcome]:
        ally_orders = ally_script or orders_from_actions(self.layout, world.ally, ally_actions)
        if enemy_actions is None:
            enemy_orders = self._script(world, 1)
        else:
            enemy_orders = orders_from_actions(self.enemy_layout, world.enemy, _mirror(enemy_actions))
        scripted = (ally_script is not None, enemy_actions is None)
        ally, enemy, ally_attack, enemy_attack = play_ticks(
            self.rules, key, world.ally, world.enemy, ally_orders, enemy_orders, scripted
        )
        time = world.time + 1
        won, lost, over = self.result(ally, enemy)
        truncated = (time >= self.spec.episode_limit) & ~over
        reward = self.rewards(world.ally, world.enemy, ally, enemy, won, lost)
        metrics = {
            "battle_won": won.astype(jnp.float32),
            "dead_allies": jnp.sum(~ally.alive, axis=0).astype(jnp.float32),
            "dead_enemies": jnp.sum(~enemy.alive, axis=0).astype(jnp.float32),
        }
        after = World(
            ally=ally,
            enemy=enemy,
            ally_target=_chosen(ally_attack) if scripted[0] else world.ally_target,
            enemy_target=_chosen(enemy_attack) if scripted[1] else world.enemy_target,
            ally_last=ally_actions,
            enemy_last=world.enemy_last if enemy_actions is None else enemy_actions,
            rally=world.rally,
            time=time,
        )
        return after, Outcome(reward, over, truncated, metrics)

    def _script(self, world: World, side: int) -> Orders:
        """Orders of a scripted side: its last targets and its rally point (0: allies, 1: enemies)."""
        me, other, table = (
            (world.ally, world.enemy, self.rules.ally) if side == 0 else (world.enemy, world.ally, self.rules.enemy)
        )
        target = world.ally_target if side == 0 else world.enemy_target
        others = jnp.arange(other.x.shape[0], dtype=jnp.int32)[None, :, None]
        rally_x, rally_y = world.rally[2 * side], world.rally[2 * side + 1]
        batch = me.x.shape[1]
        return Orders(
            to_x=jnp.broadcast_to(rally_x[None], me.x.shape),
            to_y=jnp.broadcast_to(rally_y[None], me.y.shape),
            walks=jnp.ones(me.x.shape, bool),
            attack=target[:, None] == others,
            heal=jnp.zeros((len(table.healers), table.n, batch), bool),
        )

    def result(self, ally: Units, enemy: Units) -> tuple[Array, Array, Array]:
        """(won, lost, over), each [B] bool. A side with only healers left is beaten; both beaten is a draw."""
        ally_stands = jnp.any(ally.alive & self.rules.ally.combat[:, None], axis=0)
        enemy_stands = jnp.any(enemy.alive & self.rules.enemy.combat[:, None], axis=0)
        return ally_stands & ~enemy_stands, enemy_stands & ~ally_stands, ~(ally_stands & enemy_stands)


def _fresh(table: SideTable, x: Array, y: Array) -> Units:
    full = jnp.zeros_like(x, jnp.float32)
    energy = np.zeros((table.n, 1), np.float32)
    energy[list(table.healers)] = START_ENERGY
    return Units(x, y, full + table.hp, full + table.shield, full, full + energy, full)


def _chosen(attack: Array) -> Array:
    """[n, m, B] one-hot -> [n, B] index, -1 for none."""
    index = jnp.arange(attack.shape[1], dtype=jnp.int32)[None, :, None]
    return jnp.max(jnp.where(attack, index, -1), axis=1)


def _mirror(actions: Array) -> Array:
    """Exchanges east and west: the enemy's view is mirrored."""
    return jnp.where(actions == EAST, WEST, jnp.where(actions == WEST, EAST, actions))
