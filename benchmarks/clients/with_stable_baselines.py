"""Stable-Baselines3 trains in our games through SuperSuit: `python benchmarks/clients/with_stable_baselines.py`.

SuperSuit turns the PettingZoo environment into a vector of one environment per agent, so that PPO learns one policy for
all agents. Stable-Baselines3 knows no masks; an illegal action is replaced by the game's own choice, as the interface
says. Prints the return per agent before and after.
"""

from __future__ import annotations

import argparse

import supersuit
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

import omg


def make_game() -> VecEnv:
    """Four copies of a small foraging game; each agent of each is one environment of the vector."""
    game = omg.make("foraging", api="pettingzoo", rows=5, cols=5, max_food=1, episode_limit=20)
    agents = supersuit.pettingzoo_env_to_vec_env_v1(game)
    return VecMonitor(supersuit.concat_vec_envs_v1(agents, 4, num_cpus=1, base_class="stable_baselines3"))


def main(steps: int = 40_000) -> tuple[float, float]:
    """Trains for `steps` agent steps; returns the mean return per agent before and after."""
    env = make_game()
    model = PPO("MultiInputPolicy", env, n_steps=64, batch_size=256, device="cpu")
    before, _ = evaluate_policy(model, env, n_eval_episodes=64)
    model.learn(steps)
    after, _ = evaluate_policy(model, env, n_eval_episodes=64)
    return float(before), float(after)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before, after = main(parser.parse_args().steps)
    print(f"Stable-Baselines3: return per agent {before:.3f} untrained, {after:.3f} trained")
