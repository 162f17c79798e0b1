"""Settings of controllers and action selectors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from omg.registry.keys import Keys, PartName, When, Words
from omg.registry.kinds import Few, Handful, Many, Real, Steps, Whole, Width


class SeatKeys(Keys):
    """The network of one seat, what it sees and how it acts."""

    agent: PartName = Field(
        "rnn",
        description="rnn, mlp, dueling, conv (reads maps): one network for all seats; idv_rnn, idv_conv: one per seat",
    )
    obs_one_hot: Few = Field(
        0, ge=0, description="N: whole numbers from -N to N that the agent sees enter it one-hot; 0: as they are"
    )
    obs_agent_id: bool = Field(True, description="The agent sees its seat number (one-hot)")
    obs_last_action: bool = Field(True, description="The agent sees its last action (one-hot)")
    obs_all_last_actions: bool = Field(False, description="The agent sees the last actions of all seats (one-hot)")
    action_selector: PartName = Field("epsilon_greedy", description="How an action is picked from the agents' outputs")


class EpsilonKeys(Keys):
    """Exploration: random actions, fewer and fewer of them."""

    epsilon_start: Real = Field(1.0, ge=0, le=1, description="Chance of a random action at the beginning")
    epsilon_finish: Real = Field(0.05, ge=0, le=1, description="Chance of a random action after epsilon_anneal_time")
    epsilon_anneal_time: Steps = Field(50_000, ge=1, description="Environment steps over which epsilon falls linearly")


_OF_GOALS = When("hop_model", "goals")


class SearchKeys(Keys):
    """Players that search the game (mac: hop_mac)."""

    hop_model: Annotated[str, Words("goals", "actions", "subgoals")] = Field(
        "goals", description="What the others act by: goals, actions (the position alone), subgoals (HOP+)"
    )
    hop_simulations: Many = Field(200, ge=1, description="Positions that a search adds to each tree")
    hop_samples: Handful = Field(
        5, ge=1, description="Trees of each decision; each has its own draw of what the others are after"
    )
    hop_test_simulations: Many | None = Field(
        None, ge=1, description="hop_simulations of tests, saved agents and team-mates; None: the same"
    )
    hop_test_samples: Handful | None = Field(
        None, ge=1, description="hop_samples of tests, saved agents and team-mates; None: the same"
    )
    hop_exploration: Real | None = Field(
        None, ge=0, description="How much the search explores (c of its bound); None: 1 in stag_hunt, 15 in snowdrift"
    )
    hop_widening: Handful = Field(
        1,
        ge=1,
        description="Draws of what the others do in each position of a tree; 1: the tree knows what they will do",
    )
    hop_beta: Real = Field(2.0, gt=0, description="Actions are drawn by softmax(beta * Q of the search)")
    hop_belief_within: Annotated[bool, _OF_GOALS] = Field(
        True, description="Beliefs about goals follow actions within an episode"
    )
    hop_belief_between: Annotated[bool, _OF_GOALS] = Field(
        True, description="Beliefs at the start of an episode come from what earlier ones have shown of the others"
    )
    hop_belief_alpha: Annotated[Real | None, _OF_GOALS] = Field(
        None, ge=0, le=1, description="Share of the prior kept per episode; None: 0.995 in stag_hunt, 0.98 in snowdrift"
    )
    hop_hidden_dim: Width = Field(512, ge=1, description="Width of the planning networks behind their convolutions")
    hop_search_bytes: Whole = Field(
        2_000_000_000, ge=1, le=2**50, description="Bytes of memory for the trees of a step; larger searches are split"
    )


class ControllerSections(SearchKeys, EpsilonKeys, SeatKeys):
    """All sections of controllers and action selectors, as the configuration has them; the last is shown first."""
