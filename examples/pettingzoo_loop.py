"""The same games as PettingZoo parallel environments. Needs: pip install 'omg-marl[envs]'.

Run it with `python examples/pettingzoo_loop.py`.
"""

import omg


def main(episodes: int = 3, env: str = "foraging", **env_args: object) -> list[float]:
    game = omg.make(env, api="pettingzoo", seed=0, **env_args)
    for agent in game.possible_agents:
        game.action_space(agent).seed(0)
    totals = []
    for episode in range(episodes):
        observations, _ = game.reset()
        total = 0.0
        while game.agents:
            actions = {
                agent: game.action_space(agent).sample(seen["action_mask"]) for agent, seen in observations.items()
            }
            observations, rewards, _terminations, _truncations, infos = game.step(actions)
            total += sum(rewards.values())
        print(f"episode {episode}: return {total:.3f}, {infos[game.possible_agents[0]]}")
        totals.append(total)
    return totals


if __name__ == "__main__":
    main()
