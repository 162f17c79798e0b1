"""`--to torch`: the weights as a `state_dict`, and a module definition that needs nothing but PyTorch."""

from __future__ import annotations

import numpy as np

from omg.components.files import name_leaves
from omg.controllers.basic import BasicMAC
from omg.exchange.inputs import ILLEGAL, Interface
from omg.exchange.layers import agent_links, to_theirs
from omg.exchange.models import model_source, model_state

_HEAD = '''"""An agent network in PyTorch: {about}.

    agent = load("agent.th")
    hidden = agent.initial(rows)
    action, hidden = agent.act(obs, avail, hidden{call})

Rows are seats, N of them:

    obs [N, {obs_dim}]
    avail [N, {n_actions}] bool{words}
    hidden: what the last call returned
"""

import torch
from torch import nn
from torch.nn import functional

OBS_DIM, N_ACTIONS, N_AGENTS = {obs_dim}, {n_actions}, {n_agents}
INPUT_DIM, HIDDEN_DIM, MEMORY_DIM = {input_dim}, {hidden_dim}, {memory_dim}


'''

_NETWORKS = {
    "recurrent": '''class {name}(nn.Module):
    """Linear, ReLU, GRU, Linear."""

    def __init__(self):
        super().__init__(){model}
        self.fc1 = nn.Linear(INPUT_DIM, HIDDEN_DIM)
        self.rnn = nn.GRUCell(HIDDEN_DIM, HIDDEN_DIM)
        self.fc2 = nn.Linear(HIDDEN_DIM, N_ACTIONS)

    def network(self, inputs, hidden):
        hidden = self.rnn(functional.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden
''',
    "feed_forward": '''class Agent(nn.Module):
    """Three layers with ReLU between them; the one in the middle has EPyMARL's name for it."""

    def __init__(self):
        super().__init__(){model}
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
        super().__init__(){model}
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
        super().__init__(){model}
        self.agents = nn.ModuleList(SeatNetwork() for _ in range(N_AGENTS))

    def network(self, inputs, hidden, seat):
        outputs = [self.agents[int(own)].network(inputs[i : i + 1], hidden[i : i + 1]) for i, own in enumerate(seat)]
        return torch.cat([values for values, _ in outputs]), torch.cat([after for _, after in outputs])
'''

_MODEL = "model."


def module_source(face: Interface, state: dict[str, np.ndarray]) -> str:
    """The text of `agent.py`, for the weights of `module_state`."""
    names = [
        ("last_action", face.reads_last_action, f"last_action [N, {face.n_actions}] one-hot, zeros in the first step"),
        ("seat", face.reads_seat, f"seat [N] integers below {face.n_agents}"),
        (
            "others_last_actions",
            face.reads_others,
            f"others_last_actions [N, {face.n_agents * face.n_actions}] one-hot, the own entry zeros",
        ),
    ]
    used = [name for name, is_used, _ in names if is_used]
    facts: dict[str, object] = {**vars(face), "input_dim": face.input_dim, "memory_dim": face.memory_dim}
    facts["name"] = "Agent"
    facts["model"] = "" if face.model is None else "\n        self.model = OpponentModel()"
    facts["call"] = "".join(f", {name}" for name in used)
    facts["words"] = "".join(f"\n    {text}" for _, is_used, text in names if is_used)
    if face.individual:
        network = _NETWORKS["recurrent"].format(**{**facts, "name": "SeatNetwork", "model": ""}) + _INDIVIDUAL.format(
            **facts
        )
    else:
        network = _NETWORKS[face.form].format(**facts)
    if face.model is not None:
        own = {name.removeprefix(_MODEL): tensor for name, tensor in state.items() if name.startswith(_MODEL)}
        network = f"{model_source(face.model, own)}\n\n{network}"
    return _HEAD.format(**facts) + network + _methods(face, used)


def _methods(face: Interface, used: list[str]) -> str:
    arguments = "".join(f", {name}" for name in used)
    seat = ", seat" if face.individual else ""
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
    lines.append(f"return self.network(torch.cat(parts, dim=-1), hidden{seat})")
    if face.model is not None:
        own = face.memory_dim - face.model.memory_dim
        others = "others_last_actions" if face.reads_others else "None"
        lines[-1:] = [
            f"own, memory = hidden.split([{own}, {face.model.memory_dim}], dim=-1)",
            f"features, memory = self.model(obs, memory, last_action, {others})",
            "parts.append(features)",
            f"values, own = self.network(torch.cat(parts, dim=-1), own{seat})",
            "return values, torch.cat([own, memory], dim=-1)",
        ]
    body = "\n".join(f"        {line}" for line in lines)
    return f'''
    def initial(self, rows):
        return torch.zeros(rows, MEMORY_DIM)

    def forward(self, obs, hidden{arguments}):
        """Values [N, {face.n_actions}] of all actions, and the hidden state for the next step."""
{body}

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


def module_state(face: Interface, policy: BasicMAC) -> dict[str, np.ndarray]:
    """The weights of a player under the names of that module."""
    links = agent_links(policy.agent)
    assert links is not None
    found = to_theirs(links, name_leaves(policy.agent))
    if face.model is not None:
        of_model = model_state(face.model, policy.opponent_model)
        found |= {f"{_MODEL}{name}": tensor for name, tensor in of_model.items()}
    return found
