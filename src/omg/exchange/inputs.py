"""What an exported agent reads and says, the same for every format.

Rows are seats: N of them in one call, those of one game or of many. Letters in shapes: O numbers of a view, U actions,
A seats, H hidden features.

| input | shape | meaning |
|---|---|---|
| `obs` | [N, O] float | what the seat sees (the global state with `obs_is_state`) |
| `last_action` | [N, U] float | its last action as a one-hot vector; zeros in the first step |
| `others_last_actions` | [N, A * U] float | the others' last actions as one-hot vectors, its own entry zeros |
| `seat` | [N] int64 | which seat it is, from 0 |
| `hidden` | [N, H] float | what the last call returned; zeros in the first step |
| `avail` | [N, U] bool | legal actions |

Only inputs that the agent has are there. Outputs: `values` [N, U] (Q-values, or logits of a policy), `hidden_out`
[N, H] if the agent remembers, and `action` [N] int64, the best legal one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from omg.errors import UserError
from omg.exchange.exporting import plain_network
from omg.exchange.layers import agent_links
from omg.pools import Agent

ILLEGAL = -1e10
"""In place of the value of an action that is not legal."""
KINDS = ("rnn", "idv_rnn", "mlp", "dueling")


@dataclass(frozen=True)
class Interface:
    """All that the formats need to know of an agent besides its weights."""

    kind: str
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
    about: str
    """The agent in words."""

    @property
    def recurrent(self) -> bool:
        """Whether it remembers."""
        return self.kind in ("rnn", "idv_rnn")

    @property
    def reads_seat(self) -> bool:
        """Whether it must be told which seat it is."""
        return self.use_agent_id or self.kind == "idv_rnn"

    @property
    def input_dim(self) -> int:
        """Width of the first layer's input: view, last action, seat, the others' last actions."""
        seen = self.obs_dim * (2 * self.one_hot + 1)
        others = self.use_others * self.n_agents * self.n_actions
        return seen + self.use_last_action * self.n_actions + self.use_agent_id * self.n_agents + others


def interface(agent: Agent) -> tuple[Interface, Any]:
    """How to call an agent, and its network.

    Raises:
        UserError: it has an opponent model, searches, or is of another kind than `KINDS`.
    """
    network, config = plain_network(agent), agent.config
    if config.agent not in KINDS or agent_links(network) is None:
        raise UserError(f"agent: got {config.agent}. Allowed for an export: {', '.join(KINDS)}.")
    sizes, card = network.sizes, agent.card
    about = f"{card.algorithm}, {agent.where}, seed {card.seed}, {card.t_env} steps"
    second = network.fc2.weight.shape[-1] if config.agent in ("mlp", "dueling") else sizes.hidden_dim
    return Interface(
        kind=config.agent,
        obs_dim=sizes.obs_dim,
        n_actions=sizes.n_actions,
        n_agents=sizes.n_agents,
        hidden_dim=sizes.hidden_dim,
        second_dim=second,
        one_hot=sizes.one_hot,
        use_last_action=sizes.use_last_action,
        use_agent_id=sizes.use_agent_id,
        use_others=agent.policy.all_last_actions,
        # It goes into a program's text, and a card may be a stranger's.
        about=re.sub(r"[^\w ,.:-]", "_", about),
    ), network
