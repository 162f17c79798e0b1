"""`--to torch`: the weights as a `state_dict`, and a module definition that needs nothing but PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from omg.components.files import name_leaves
from omg.exchange.inputs import ILLEGAL, Interface
from omg.exchange.layers import agent_links, to_theirs

_HEAD = '''"""An agent network in PyTorch: {about}.

    agent = load("agent.th")
    hidden = agent.initial(rows)
    action, hidden = agent.act(obs, avail, hidden{call})

Rows are seats. obs [N, {obs_dim}]; avail [N, {n_actions}] bool{words}.
"""

import torch
from torch import nn
from torch.nn import functional

OBS_DIM, N_ACTIONS, N_AGENTS, HIDDEN_DIM, INPUT_DIM = {obs_dim}, {n_actions}, {n_agents}, {hidden_dim}, {input_dim}


'''

_NETWORKS = {
    "rnn": '''class {name}(nn.Module):
    """Linear, ReLU, GRU, Linear."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(INPUT_DIM, HIDDEN_DIM)
        self.rnn = nn.GRUCell(HIDDEN_DIM, HIDDEN_DIM)
        self.fc2 = nn.Linear(HIDDEN_DIM, N_ACTIONS)

    def network(self, inputs, hidden):
        hidden = self.rnn(functional.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden
''',
    "mlp": '''class Agent(nn.Module):
    """Three layers with ReLU between them; the one in the middle has EPyMARL's name for it."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(INPUT_DIM, HIDDEN_DIM)
        self.rnn = nn.Linear(HIDDEN_DIM, {second_dim})
        self.fc2 = nn.Linear({second_dim}, N_ACTIONS)

    def network(self, inputs, hidden):
        # There is no memory: what comes in as hidden goes out again.
        return self.fc2(functional.relu(self.rnn(functional.relu(self.fc1(inputs))))), hidden
''',
    "dueling": '''class Agent(nn.Module):
    """Two layers with ReLU, then the value of the game and the advantage of each action."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(INPUT_DIM, HIDDEN_DIM)
        self.fc2 = nn.Linear(HIDDEN_DIM, {second_dim})
        self.value = nn.Linear({second_dim}, 1)
        self.advantage = nn.Linear({second_dim}, N_ACTIONS)

    def network(self, inputs, hidden):
        # There is no memory: what comes in as hidden goes out again.
        features = functional.relu(self.fc2(functional.relu(self.fc1(inputs))))
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(dim=-1, keepdim=True), hidden
''',
}

_INDIVIDUAL = '''

class Agent(nn.Module):
    """A network for every seat."""

    def __init__(self):
        super().__init__()
        self.agents = nn.ModuleList(SeatNetwork() for _ in range(N_AGENTS))

    def network(self, inputs, hidden, seat):
        outputs = [self.agents[int(own)].network(inputs[i : i + 1], hidden[i : i + 1]) for i, own in enumerate(seat)]
        return torch.cat([values for values, _ in outputs]), torch.cat([after for _, after in outputs])
'''


def module_source(face: Interface) -> str:
    """The text of `agent.py`."""
    names = [
        ("last_action", face.use_last_action, f"last_action [N, {face.n_actions}] one-hot, zeros in the first step"),
        ("seat", face.reads_seat, f"seat [N] integers below {face.n_agents}"),
        (
            "others_last_actions",
            face.use_others,
            f"others_last_actions [N, {face.n_agents * face.n_actions}] one-hot, the own entry zeros",
        ),
    ]
    used = [name for name, is_used, _ in names if is_used]
    facts: dict[str, Any] = {**vars(face), "input_dim": face.input_dim, "name": "Agent"}
    facts["call"] = "".join(f", {name}" for name in used)
    facts["words"] = "".join(f"; {text}" for _, is_used, text in names if is_used)
    if face.kind == "idv_rnn":
        network = _NETWORKS["rnn"].format(**{**facts, "name": "SeatNetwork"}) + _INDIVIDUAL
    else:
        network = _NETWORKS[face.kind].format(**facts)
    return _HEAD.format(**facts) + network + _methods(face, used)


def _methods(face: Interface, used: list[str]) -> str:
    arguments = "".join(f", {name}" for name in used)
    seat = ", seat" if face.kind == "idv_rnn" else ""
    lines = ["parts = [obs]"]
    if face.one_hot:
        largest = face.one_hot
        lines = [
            f"numbers = obs.round().clamp({-largest}, {largest}).long() + {largest}",
            f"parts = [functional.one_hot(numbers, {2 * largest + 1}).to(obs.dtype).flatten(1)]",
        ]
    if face.use_last_action:
        lines.append("parts.append(last_action)")
    if face.use_agent_id:
        lines.append("parts.append(functional.one_hot(seat, N_AGENTS).to(obs.dtype))")
    if face.use_others:
        lines.append("parts.append(others_last_actions)")
    body = "\n".join(f"        {line}" for line in lines)
    return f'''
    def initial(self, rows):
        return torch.zeros(rows, HIDDEN_DIM)

    def forward(self, obs, hidden{arguments}):
        """Values [N, {face.n_actions}] of all actions, and the hidden state for the next step."""
{body}
        return self.network(torch.cat(parts, dim=-1), hidden{seat})

    @torch.no_grad()
    def act(self, obs, avail, hidden{arguments}):
        """The best legal action of every row, and the hidden state for the next step."""
        values, hidden = self(obs, hidden{arguments})
        return values.masked_fill(~avail, {ILLEGAL}).argmax(dim=-1), hidden


def load(path="agent.th"):
    agent = Agent()
    agent.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return agent.eval()
'''


def module_state(network: Any) -> dict[str, np.ndarray]:
    """The weights under the names of that module."""
    links = agent_links(network)
    assert links is not None
    return to_theirs(links, name_leaves(network))
