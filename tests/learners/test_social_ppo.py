"""`ppo` and `ps_ppo`: every player has its own networks and its own reward, or all have the mean."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes
from helpers.played import SPEC, A, config, edited, fast_jit, same_bytes
from omg.config import resolve
from omg.learners.ppo import PPOLearner, PPOState

KEY = jax.random.key(9)
SMALL: dict[str, Any] = {
    "learner": "ppo_learner",
    "agent": "idv_conv",
    "action_selector": "multinomial",
    "optimizer": "adam",
    "epsilon_start": 0.0,
    "epsilon_finish": 0.0,
    "critic_hidden_dim": 7,
    "ppo_epochs": 2,
    "normalise_advantage": False,
    "normalise_value": False,
    "grad_norm_clip": 1e6,
}


def networks_of(state: PPOState, seat: int) -> Any:
    """What belongs to one player."""
    stacks = (state.mac.agent.seats, state.critic.networks.networks)  # type: ignore[attr-defined]
    return jax.tree.map(lambda leaf: leaf[seat], stacks)


@pytest.mark.parametrize("prosocial", [0.0, 1.0])
def test_a_players_networks_learn_from_its_own_reward_alone_unless_it_is_shared(prosocial: float):
    learner = PPOLearner(config(**SMALL, prosocial=prosocial), SPEC)
    update = fast_jit(learner.update)
    state, batch = drawn_networks(learner, ("mac", "critic")), legal_episodes(reward_per_agent=True)
    richer = batch._replace(reward=edited(batch.reward, ((slice(None), 0, 1), 3.0)))
    (before, _), (after, _) = (update(state, played, 0, 0, KEY) for played in (batch, richer))
    for seat in range(A):
        unmoved = same_bytes(networks_of(before, seat), networks_of(after, seat))
        assert unmoved == (prosocial == 0.0 and seat != 1), seat
    assert not np.allclose(*(np.asarray(state.critic.networks.networks.fc1.weight[seat]) for seat in (0, 1)))  # type: ignore[attr-defined]


def test_both_are_the_same_but_for_the_reward():
    ppo, prosocial = (resolve(name, "stag_hunt").config.model_dump() for name in ("ppo", "ps_ppo"))
    assert (ppo["agent"], ppo["learner"], ppo["prosocial"]) == ("idv_conv", "ppo_learner", 0.0)
    assert {key for key in ppo if ppo[key] != prosocial[key]} == {"name", "prosocial"}
    assert prosocial["prosocial"] == 1.0
    assert {key for key in ppo if ppo[key] != resolve("lola", "stag_hunt").config.model_dump()[key]} == {
        "name",
        "learner",
    }
