"""Plays many battles at once with random legal actions: the batched interface of every built-in game.

Run it with `python examples/play_random.py`.
"""

import jax
import jax.numpy as jnp

import omg


def main(games: int = 256, map_name: str = "3m") -> dict[str, float]:
    env = omg.make("sc2", map_name=map_name)
    print(env.spec)

    @jax.jit
    def step(key, world, seen):
        action_key, env_key = jax.random.split(key)
        # Equal logits for legal actions, minus infinity for the others: [games, seats].
        actions = jax.random.categorical(action_key, jnp.where(seen.avail, 0.0, -jnp.inf))
        return env.step(env_key, world, actions)

    key = jax.random.key(0)
    world, seen = env.reset(key, games)
    going, returns, won = jnp.ones(games, bool), jnp.zeros(games), jnp.zeros(games)
    for _ in range(env.spec.episode_limit):
        key, step_key = jax.random.split(key)
        world, seen, outcome = step(step_key, world, seen)
        returns += jnp.where(going, outcome.reward, 0.0)  # a finished game may be stepped on; it no longer counts
        won = jnp.where(going, outcome.metrics["battle_won"], won)
        going &= ~(outcome.terminated | outcome.truncated)
    result = {"return": float(returns.mean()), "won": float(won.mean()), "unfinished": float(going.sum())}
    print(result)
    return result


if __name__ == "__main__":
    main()
