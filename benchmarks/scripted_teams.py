"""How often teams that learned nothing win on the simulator: random legal actions, and standing still and shooting.

python benchmarks/scripted_teams.py --output benchmarks/results/scripted_teams.md
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from omg.controllers.scripted.base import RandomPlayer
from omg.envs import Env, Observation, make_env
from omg.envs.battle.observe import FIRST_TARGET, NO_OP, STOP, Layout
from omg.runners.vector import play_episodes

BATTLES = 2048


class StandingTeam:
    """Stands where it starts and attacks the nearest enemy in range."""

    def __init__(self, env: Env) -> None:
        self.targets = env.spec.n_actions - FIRST_TARGET
        self.features = 4 + Layout.body_size(env.layout.other, health=True)

    def initial(self, batch: int) -> None:
        return None

    def act(self, seen: Observation, carry: None, key: jax.Array, epsilon: jax.Array) -> tuple:
        enemies = seen.obs[..., 4 : 4 + self.targets * self.features]
        enemies = enemies.reshape(*enemies.shape[:-1], self.targets, self.features)
        legal = seen.avail[..., FIRST_TARGET:]
        nearest = FIRST_TARGET + jnp.argmin(jnp.where(legal, enemies[..., 1], jnp.inf), axis=-1)
        idle = jnp.where(seen.avail[..., NO_OP], NO_OP, STOP)
        return jnp.where(legal.any(axis=-1), nearest, idle).astype(jnp.int32), carry, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"Wins in {BATTLES} battles.",
        "",
        "| map | random legal actions | stand and attack the nearest |",
        "|---|---|---|",
    ]
    for name in ("3m", "8m", "2s3z", "3s_vs_5z"):
        env = make_env("sc2", map_name=name)
        wins = []
        for team in (RandomPlayer(), StandingTeam(env)):
            play = jax.jit(partial(play_episodes, env, team, num_envs=BATTLES, epsilon=0.0, record=False))
            stats = play(key=jax.random.PRNGKey(0)).stats
            wins.append(f"{float(stats.metrics['battle_won'].mean()):.2%}")
        lines.append(f"| {name} | {wins[0]} | {wins[1]} |")
    print("\n".join(lines))
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
