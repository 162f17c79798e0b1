"""What an exported agent reads and says, the same for every format.

Rows are seats: N of them in one call, those of one game or of many. Letters in shapes: O numbers of a view, U actions,
A seats, M numbers of memory: the agent's, then its opponent model's.

| input | shape | meaning |
|---|---|---|
| `obs` | [N, O] float | what the seat sees (the global state with `obs_is_state`) |
| `last_action` | [N, U] float | its last action as a one-hot vector; zeros in the first step |
| `others_last_actions` | [N, A * U] float | the others' last actions as one-hot vectors, its own entry zeros |
| `seat` | [N] int64 | which seat it is, from 0 |
| `hidden` | [N, M] float | the memory that the last call returned; zeros in the first step |
| `avail` | [N, U] bool | legal actions |

Only inputs that the agent has are there. Outputs: `values` [N, U] (Q-values, or logits of a policy), `hidden_out`
[N, M] if the agent remembers, and `action` [N] int64, the best legal one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from omg.errors import UserError
from omg.exchange.exporting import networks_of
from omg.exchange.layers import agent_links
from omg.exchange.models import ModelFace, model_face
from omg.modules.agents.dueling import DuelingAgent
from omg.modules.agents.mlp import MLPAgent
from omg.pools import Agent

Form = Literal["recurrent", "feed_forward", "dueling"]

ILLEGAL = -1e10
"""In place of the value of an action that is not legal."""


@dataclass(frozen=True)
class Interface:
    """All that the formats need to know of an agent besides its weights."""

    form: Form
    """How its network is computed."""
    individual: bool
    """Whether every seat has a network of its own."""
    obs_dim: int
    n_actions: int
    n_agents: int
    hidden_dim: int
    """Width of the first layer, and of the memory of recurrent agents."""
    second_dim: int
    """Width of the second layer of agents without memory."""
    one_hot: int
    """Views enter as one-hot vectors over the whole numbers from minus this to this; 0: as they are."""
    use_last_action: bool
    use_agent_id: bool
    use_others: bool
    """Whether the agent itself reads the others' last actions."""
    model: ModelFace | None
    about: str
    """The agent in words."""

    @property
    def recurrent(self) -> bool:
        """Whether it remembers."""
        return self.form == "recurrent"

    @property
    def memory_dim(self) -> int:
        """M."""
        own = self.hidden_dim if self.recurrent else 0
        return own + (0 if self.model is None else self.model.memory_dim)

    @property
    def reads_last_action(self) -> bool:
        """Whether it must be told what it did last; every model reads that."""
        return self.use_last_action or self.model is not None

    @property
    def reads_others(self) -> bool:
        """Whether it must be told what the others did last."""
        return self.use_others or (self.model is not None and self.model.reads_others != "none")

    @property
    def reads_seat(self) -> bool:
        """Whether it must be told which seat it is."""
        return self.use_agent_id or self.individual

    @property
    def input_dim(self) -> int:
        """Width of the first layer's input: view, last action, seat, the others' last actions, the model's features."""
        seen = self.obs_dim * (2 * self.one_hot + 1)
        others = self.use_others * self.n_agents * self.n_actions
        own = self.use_last_action * self.n_actions + self.use_agent_id * self.n_agents
        return seen + own + others + (0 if self.model is None else self.model.feature_dim)


def interface(agent: Agent) -> Interface:
    """How to call an agent.

    Raises:
        UserError: it searches, or its network is of no `Form`, or its opponent model of no kind that can be written.
    """
    policy, config = networks_of(agent), agent.config
    network = policy.agent
    if agent_links(network) is None:
        raise UserError(f"agent: got {config.agent}. Allowed for an export: rnn, idv_rnn, mlp, dueling.")
    sizes, card = network.sizes, agent.card
    about = f"{card.algorithm}, {agent.where}, seed {card.seed}, {card.t_env} steps"
    form: Form = "recurrent"
    second = sizes.hidden_dim
    if isinstance(network, MLPAgent | DuelingAgent):
        form = "dueling" if isinstance(network, DuelingAgent) else "feed_forward"
        second = network.fc2.weight.shape[-1]
    return Interface(
        form=form,
        individual=config.agent_part.individual,
        obs_dim=sizes.obs_dim,
        n_actions=sizes.n_actions,
        n_agents=sizes.n_agents,
        hidden_dim=sizes.hidden_dim,
        second_dim=second,
        one_hot=sizes.one_hot,
        use_last_action=sizes.use_last_action,
        use_agent_id=sizes.use_agent_id,
        use_others=policy.reading.all_last_actions,
        model=model_face(agent, policy),
        # It goes into a program's text, and a card may be a stranger's.
        about=re.sub(r"[^\w ,.:-]", "_", about),
    )
