"""TorchRL trains in our games through its PettingZoo wrapper: `python benchmarks/clients/with_torchrl.py`.

Independent PPO with shared parameters and masked actions, made of TorchRL's own collector, loss and advantage; what is
ours is the environment. Prints the team's return before and after a few updates.
"""

from __future__ import annotations

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper, RewardSum, TransformedEnv
from torchrl.envs.utils import check_env_specs
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import omg

GROUP = "agents"


def make_game(name: str, **options: object) -> TransformedEnv:
    """A built-in game as TorchRL sees it: one group of agents, with a mask of legal actions."""
    game = omg.make(name, api="pettingzoo", seed=0, **options)
    env = PettingZooWrapper(env=game, group_map={GROUP: game.possible_agents}, categorical_actions=True)
    return TransformedEnv(env, RewardSum(in_keys=[(GROUP, "reward")], out_keys=[(GROUP, "episode_reward")]))


def main(updates: int = 8, frames: int = 480) -> tuple[float, float]:
    """Trains for `updates` batches of `frames` steps; returns the mean return of the first and of the last batch."""
    torch.manual_seed(0)
    env = make_game("foraging", rows=5, cols=5, max_food=1, episode_limit=20)
    check_env_specs(env)
    width = env.observation_spec[GROUP, "observation", "observation"].shape[-1]
    actions = env.full_action_spec[GROUP, "action"].space.n
    seen = (GROUP, "observation", "observation")

    def network(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))

    policy = ProbabilisticActor(
        TensorDictModule(network(actions), in_keys=[seen], out_keys=[(GROUP, "logits")]),
        in_keys={"logits": (GROUP, "logits"), "mask": (GROUP, "action_mask")},
        out_keys=[(GROUP, "action")],
        spec=env.full_action_spec[GROUP, "action"],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        log_prob_key=(GROUP, "sample_log_prob"),
    )
    critic = TensorDictModule(network(1), in_keys=[seen], out_keys=[(GROUP, "state_value")])
    loss = ClipPPOLoss(policy, critic, clip_epsilon=0.2, entropy_coeff=0.01, normalize_advantage=True)
    ends = {"done": (GROUP, "done"), "terminated": (GROUP, "terminated")}
    loss.set_keys(
        reward=(GROUP, "reward"),
        action=(GROUP, "action"),
        sample_log_prob=(GROUP, "sample_log_prob"),
        value=(GROUP, "state_value"),
        **ends,
    )
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    advantage.set_keys(reward=(GROUP, "reward"), value=(GROUP, "state_value"), **ends)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    collector = Collector(env, policy, frames_per_batch=frames, total_frames=frames * updates)
    returns = []
    for batch in collector:
        over = batch["next", GROUP, "done"].squeeze(-1)
        returns.append(float(batch["next", GROUP, "episode_reward"].squeeze(-1)[over].mean()))
        with torch.no_grad():
            advantage(batch)
        for _ in range(8):
            values = loss(batch)
            total = values["loss_objective"] + values["loss_critic"] + values["loss_entropy"]
            optimizer.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
            optimizer.step()
        print(f"return per agent {returns[-1]:.3f}  loss {total.item():.3f}", flush=True)
    collector.shutdown()
    return returns[0], returns[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=8)
    torch.set_num_threads(1)
    first, last = main(parser.parse_args().updates)
    print(f"TorchRL: {first:.3f} in the first batch, {last:.3f} in the last")
