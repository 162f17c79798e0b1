"""Trains a team with the Python API, loads its best agent from disk and plays one battle with it.

Run it with `python examples/train_and_load.py`.
"""

import jax

import omg


def main(t_max: int = 30_000, **settings: object) -> float:
    settings = {"map_name": "3m", "epsilon_anneal_time": 20_000, "test_interval": 5_000} | settings
    run = omg.train("vdn", "sc2", t_max=t_max, **settings)
    for row in run.metrics.where(name="test_battle_won_mean"):
        print(f"{row['t_env']:>8,} steps: {row['value']:.0%} of the battles won")

    agent = omg.load(run.folder)
    print(f"{agent.card.algorithm} for {agent.where}, trained for {agent.card.t_env:,} steps")

    step = jax.jit(agent.env.step)
    world, seen = agent.env.reset(jax.random.key(0), 1)
    carry, total, over = None, 0.0, False
    for key in jax.random.split(jax.random.key(1), agent.spec.episode_limit):
        actions, carry = agent.act(seen.obs, seen.avail, carry, state=seen.state)
        world, seen, outcome = step(key, world, actions)
        total += float(outcome.reward[0])
        over = bool(outcome.terminated[0] | outcome.truncated[0])
        if over:
            break
    print(f"one battle: return {total:.2f}")
    return total


if __name__ == "__main__":
    main()
