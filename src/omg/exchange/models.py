"""Opponent models as exported agents carry them: what is needed to act, without what only learning needs.

A model's memory travels behind the agent's in `hidden`, so that an agent with a model is called as one without. Letters
in shapes: N rows, O numbers of a view, U actions, A seats.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import numpy as np

from omg.components.files import name_leaves
from omg.controllers.basic import BasicMAC
from omg.errors import UserError
from omg.exchange.layers import Link, linear, recurrent, to_theirs
from omg.modules.opponent_models.base import OpponentModel
from omg.modules.opponent_models.liam import LIAMModel
from omg.modules.opponent_models.naive import NaiveModel
from omg.modules.opponent_models.normalising import absorbed
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent

_LINKS: dict[str, list[Link]] = {
    "naive": [link for name in ("fc1", "fc2", "actions") for link in linear(name, name)],
    "liam": [*linear("embed", "embed"), *recurrent(), *linear("encode", "encode")],
    "omg": [*linear("embed", "embed"), *recurrent(), *linear("mean_head", "mean")],
}
_PRIOR_LINKS = [
    *linear("prior.encoder.0", "prior.0"),
    *linear("prior.encoder.1", "prior.2"),
    *linear("prior.mean_head", "prior.4"),
]
"""Of a subgoal that is inferred as a difference from what the prior makes of the present view."""


@dataclass(frozen=True)
class ModelFace:
    """All that the formats need to know of an opponent model besides its weights."""

    kind: str
    """naive, liam or omg."""
    obs_dim: int
    n_actions: int
    n_agents: int
    hidden_dim: int
    feature_dim: int
    reads_others: str
    """Whether it reads the others' last actions: `each` one's, `counts` of them, or `none`."""
    probabilities: bool = False
    """naive: the features are the chances of the others' actions."""
    residual: bool = False
    """omg: what is inferred is added to the prior's encoding of the present view."""

    @property
    def memory_dim(self) -> int:
        """Width of its memory: a recurrent state, and for omg the view of the step before."""
        return {"naive": 0, "liam": self.hidden_dim, "omg": self.hidden_dim + self.obs_dim}[self.kind]

    @property
    def others_dim(self) -> int:
        """Width of the others' last actions as it reads them."""
        return {"each": self.n_agents * self.n_actions, "counts": self.n_actions, "none": 0}[self.reads_others]


def model_face(agent: Agent, policy: BasicMAC) -> ModelFace | None:
    """How an agent's opponent model works; None without one.

    Raises:
        UserError: there is one that cannot be exported.
    """
    model = policy.opponent_model
    if model is None:
        return None
    name, sizes = agent.config.am_model, model.sizes
    common = (sizes.seen_dim, sizes.n_actions, sizes.n_agents, sizes.hidden_dim, model.feature_dim)
    if policy.reading.feature_control == "zero":
        raise UserError("omg_q_input: got zero, a control whose agent reads no subgoal; it cannot be exported.")
    if isinstance(model, NaiveModel):
        return ModelFace("naive", *common, "each", probabilities=sizes.naive_feature == "probabilities")
    if isinstance(model, LIAMModel):
        return ModelFace("liam", *common, "none")
    if not isinstance(model, SubgoalModel):
        raise UserError(f"am_model: got {name}. Allowed for an export: none_am, base_am, liam_am, omg_am with codes.")
    if sizes.map_shape is not None or sizes.subgoal_feature != "code":
        raise UserError(
            f"omg_maps, omg_feature: got {sizes.map_shape is not None} and {sizes.subgoal_feature}. Allowed for an "
            f"export: omg_maps=False and omg_feature=code."
        )
    return ModelFace("omg", *common, sizes.actions, residual=sizes.residual)


def model_links(face: ModelFace) -> list[Link]:
    """Which array of the model is which tensor of the exported one."""
    return [*_LINKS[face.kind], *(_PRIOR_LINKS if face.residual else [])]


def reading_plainly(model: OpponentModel | None) -> OpponentModel | None:
    """The same model where its first layer reads views as they are; with `am_normalise` it read normalised ones."""
    if isinstance(model, NaiveModel):
        layer, statistics = model.fc1, model.seen_statistics
    elif isinstance(model, LIAMModel):
        layer, statistics = model.embed, model.seen_statistics
    else:
        return model
    name = "fc1" if isinstance(model, NaiveModel) else "embed"
    plain = eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, absorbed(layer, statistics))
    changed: OpponentModel = eqx.tree_at(lambda model: getattr(model, name), model, plain)
    return changed


def model_state(face: ModelFace, model: OpponentModel | None) -> dict[str, np.ndarray]:
    """The weights of the exported model by name, [out, in]; for omg also the scale of views."""
    found = to_theirs(model_links(face), name_leaves(reading_plainly(model)))
    if isinstance(model, SubgoalModel):
        centre, spread = model.seen_statistics.scale()
        found |= {"centre": np.asarray(centre), "spread": np.asarray(spread)}
    return found


_TORCH_SOURCE = {
    "naive": '''class OpponentModel(nn.Module):
    """Predicts what the others do now, from the view and everybody's last actions; it remembers nothing."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS_DIM + (N_AGENTS + 1) * N_ACTIONS, {hidden_dim})
        self.fc2 = nn.Linear({hidden_dim}, {embed_dim})
        self.actions = nn.Linear({embed_dim}, (N_AGENTS - 1) * N_ACTIONS)

    def forward(self, obs, memory, last_action, others_last_actions):
        inputs = torch.cat([obs, others_last_actions, last_action], dim=-1)
        embedding = functional.relu(self.fc2(functional.relu(self.fc1(inputs))))
        return {said}, memory
''',
    "liam": '''class OpponentModel(nn.Module):
    """An embedding of what the own seat saw and did, from which the others could be told."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(OBS_DIM + N_ACTIONS, {hidden_dim})
        self.rnn = nn.GRUCell({hidden_dim}, {hidden_dim})
        self.encode = nn.Linear({hidden_dim}, {feature_dim})

    def forward(self, obs, memory, last_action, others_last_actions):
        memory = self.rnn(functional.relu(self.embed(torch.cat([obs, last_action], dim=-1))), memory)
        return self.encode(memory), memory
''',
    "omg": '''class OpponentModel(nn.Module):
    """The subgoal that the others are inferred to head for; it remembers a recurrent state and the last view."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(OBS_DIM))
        self.register_buffer("spread", torch.ones(OBS_DIM))
        self.embed = nn.Linear(OBS_DIM, {embed_dim})
        self.rnn = nn.GRUCell(OBS_DIM + {others_dim} + N_ACTIONS, {hidden_dim})
        self.mean = nn.Linear({embed_dim} + {hidden_dim}, {feature_dim}){prior}

    def forward(self, obs, memory, last_action, others_last_actions):
        hidden, before = memory.split([{hidden_dim}, OBS_DIM], dim=-1)
        seen = (obs - self.centre) / self.spread
        parts = [before, {others}last_action]
        hidden = self.rnn(torch.cat(parts, dim=-1), hidden)
        subgoal = self.mean(torch.cat([functional.relu(self.embed(seen)), hidden], dim=-1)){residual}
        return subgoal, torch.cat([hidden, seen], dim=-1)
''',
}

_PRIOR_SOURCE = """
        self.prior = nn.Sequential(
            nn.Linear(OBS_DIM, {0}), nn.LeakyReLU(), nn.Linear({0}, {1}), nn.LeakyReLU(), nn.Linear({1}, {2})
        )"""


def model_source(face: ModelFace, state: dict[str, np.ndarray]) -> str:
    """The text of the model's class."""
    embed = {"naive": "fc2.bias", "liam": "encode.bias", "omg": "embed.bias"}[face.kind]
    counted = "others_last_actions.unflatten(-1, (N_AGENTS, N_ACTIONS)).sum(dim=-2), "
    others = {"each": "others_last_actions, ", "counts": counted, "none": ""}[face.reads_others]
    chances = "self.actions(embedding).unflatten(-1, (N_AGENTS - 1, N_ACTIONS)).softmax(dim=-1).flatten(-2)"
    prior = ""
    if face.residual:
        prior = _PRIOR_SOURCE.format(*(len(state[f"prior.{index}.bias"]) for index in (0, 2, 4)))
    return _TORCH_SOURCE[face.kind].format(
        hidden_dim=face.hidden_dim,
        feature_dim=face.feature_dim,
        others_dim=face.others_dim,
        embed_dim=len(state[embed]),
        said=chances if face.probabilities else "embedding",
        others=others,
        prior=prior,
        residual=" + self.prior(seen)" if face.residual else "",
    )
