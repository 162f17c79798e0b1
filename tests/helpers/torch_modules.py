"""PyMARL's and EPyMARL's networks as PyTorch modules, under the names that their checkpoints have.

Written from their description. `python tests/helpers/torch_modules.py` writes the files under `golden/pymarl` anew:
those of an agent, a mixer and an optimiser as PyTorch saves them, and the values that PyTorch makes of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

GOLDEN = Path(__file__).parents[1] / "golden" / "pymarl"


class RNNAgent(nn.Module):
    """`use_rnn` is EPyMARL's; PyMARL always has it."""

    def __init__(self, inputs: int, hidden: int, actions: int, use_rnn: bool = True):
        super().__init__()
        self.use_rnn = use_rnn
        self.fc1 = nn.Linear(inputs, hidden)
        self.rnn = nn.GRUCell(hidden, hidden) if use_rnn else nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, actions)

    def forward(self, inputs: Any, hidden: Any) -> tuple[Any, Any]:
        x = torch.relu(self.fc1(inputs))
        hidden = self.rnn(x, hidden) if self.use_rnn else torch.relu(self.rnn(x))
        return self.fc2(hidden), hidden


class SeparateAgents(nn.Module):
    """EPyMARL's agents without shared parameters: inputs [B, A, ...]."""

    def __init__(self, seats: int, *sizes: int):
        super().__init__()
        self.agents = nn.ModuleList(RNNAgent(*sizes) for _ in range(seats))

    def forward(self, inputs: Any, hidden: Any) -> tuple[Any, Any]:
        outputs = [agent(inputs[:, i], hidden[:, i]) for i, agent in enumerate(self.agents)]
        return torch.stack([q for q, _ in outputs], 1), torch.stack([h for _, h in outputs], 1)


class QMixer(nn.Module):
    def __init__(self, seats: int, state: int, embed: int, layers: int = 2, hyper: int = 64):
        super().__init__()
        self.seats, self.embed = seats, embed
        if layers == 1:
            self.hyper_w_1, self.hyper_w_final = nn.Linear(state, embed * seats), nn.Linear(state, embed)
        else:
            self.hyper_w_1, self.hyper_w_final = _two(state, hyper, embed * seats), _two(state, hyper, embed)
        self.hyper_b_1 = nn.Linear(state, embed)
        self.V = _two(state, embed, 1)

    def forward(self, qs: Any, state: Any) -> Any:
        """[B, A], [B, S] -> [B]."""
        w1 = self.hyper_w_1(state).abs().view(-1, self.seats, self.embed)
        hidden = nn.functional.elu(torch.bmm(qs[:, None], w1) + self.hyper_b_1(state)[:, None])
        return (torch.bmm(hidden, self.hyper_w_final(state).abs()[..., None]) + self.V(state)[:, None])[:, 0, 0]


class QTranBase(nn.Module):
    def __init__(self, state: int, hidden: int, actions: int, embed: int):
        super().__init__()
        both = hidden + actions
        self.Q, self.V = _three(state + both, embed), _three(state, embed)
        self.action_encoding = _two(both, both, both)

    def forward(self, state: Any, hidden: Any, actions: Any) -> tuple[Any, Any]:
        """[B, S], [B, A, H], one-hot [B, A, U] -> [B], [B]."""
        encoding = self.action_encoding(torch.cat([hidden, actions], -1)).sum(1)
        return self.Q(torch.cat([state, encoding], -1))[:, 0], self.V(state)[:, 0]


class Critic(nn.Module):
    """COMA's with an output per action, EPyMARL's of values with one."""

    def __init__(self, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)

    def forward(self, inputs: Any) -> Any:
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(inputs)))))


def _two(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def _three(inputs: int, hidden: int) -> nn.Sequential:
    middle = (nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    return nn.Sequential(nn.Linear(inputs, hidden), *middle, nn.Linear(hidden, 1))


def agent_inputs(obs: Any, last_action: Any, n_actions: int) -> Any:
    """PyMARL's input of every seat: obs [B, A, O], last action [B, A] (-1 for none), the seat."""
    batch, seats = obs.shape[:2]
    chosen = np.eye(n_actions + 1, dtype=np.float32)[last_action][..., :-1]
    own = np.broadcast_to(np.eye(seats, dtype=np.float32), (batch, seats, seats))
    return torch.as_tensor(np.concatenate([np.asarray(obs, np.float32), chosen, own], axis=-1))


def stepped(modules: list[nn.Module], loss: Any, kind: type = torch.optim.RMSprop, **settings: Any) -> Any:
    """An optimiser of all parameters after two steps along the gradient of `loss()`."""
    optimiser = kind([p for module in modules for p in module.parameters()], **settings)
    for _ in range(2):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    return optimiser


def write_golden(seats: int = 2, obs: int = 9, actions: int = 6, hidden: int = 4, state: int = 9) -> None:
    """For the game of `tiny.py`: an agent in the format before PyTorch 1.6, all else in the present one."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    agent, mixer = RNNAgent(obs + actions + seats, hidden, actions), QMixer(seats, state, 4, 1)
    sequence = rng.normal(size=(6, 1, seats, obs)).astype(np.float32)
    last = rng.integers(0, actions, (6, 1, seats))
    last[0] = -1
    states = torch.as_tensor(rng.normal(size=(6, state)).astype(np.float32))

    def run() -> tuple[list[Any], Any]:
        memory, values = torch.zeros(seats, hidden), []
        for seen, before in zip(sequence, last, strict=True):
            q, memory = agent(agent_inputs(seen, before, actions)[0], memory)
            values.append(q)
        return values, memory

    rms = {"lr": 0.0005, "alpha": 0.99, "eps": 1e-5}
    optimiser = stepped(
        [agent, mixer], lambda: mixer(torch.stack(run()[0]).max(-1).values, states).square().mean(), **rms
    )
    with torch.no_grad():
        values, memory = run()
        mixed = mixer(torch.stack(values).max(-1).values, states)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    torch.save(agent.state_dict(), GOLDEN / "agent.th", _use_new_zipfile_serialization=False)
    torch.save(mixer.state_dict(), GOLDEN / "mixer.th")
    torch.save(optimiser.state_dict(), GOLDEN / "opt.th", _use_new_zipfile_serialization=False)
    said = {"obs": sequence, "last": last, "q": torch.stack(values), "hidden": memory, "states": states, "mixed": mixed}
    said["square_avg"] = optimiser.state[agent.rnn.weight_hh]["square_avg"]
    text = json.dumps({"torch": torch.__version__, **{name: value.tolist() for name, value in said.items()}})
    (GOLDEN / "said.json").write_text(text + "\n")


if __name__ == "__main__":
    write_golden()
