"""One recurrent body for actor and critic of IPPO: it learns from both losses, and the critic reads nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes
from helpers.played import PARTNERS, SPEC, A, config, fast_jit
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.ppo import PPOLearner


def sharing(**changes: Any) -> PPOLearner:
    """A small learner whose critic is a layer on the agent's state."""
    small = {"learner": "ppo_learner", "action_selector": "multinomial", "ppo_shared_body": True, "ppo_epochs": 1}
    learner = build_learner(config(**small | changes), SPEC, None, PARTNERS)
    assert isinstance(learner, PPOLearner)
    return learner


def test_a_shared_body_learns_from_both_losses():
    learner = sharing(critic_loss_coef=0.3, normalise_value=False)
    state = drawn_networks(learner, ("mac", "critic"))
    batch = legal_episodes()
    mask = jnp.asarray(batch.filled[:, :-1], jnp.float32)

    @fast_jit
    def slopes(agent: Any, critic: Any) -> Any:
        share = learner.shares(state.mac.reading, batch)[0]
        lessons = learner._estimate(state, share, None, 0.0, jax.random.key(9))[2]

        def policy(agent: Any) -> Any:
            logits = share.views.run(agent, None)[0][:, :-1]
            log_pi = jax.nn.log_softmax(jnp.where(lessons.avail, logits, -1e9))
            return learner.policy_loss(log_pi, lessons)[0]

        def error(agent: Any, critic: Any) -> Any:
            values = (share.views.run(agent, None)[1] @ critic.value.weight + critic.value.bias)[:, :-1, :, 0]
            return (((values - lessons.targets) ** 2).sum(axis=-1) * mask).sum() / (mask.sum() * A)

        both = jax.grad(lambda *learned: learner._loss(*learned, lessons, 0.0)[0], argnums=(0, 1))(agent, critic)
        return both, jax.grad(policy)(agent), jax.grad(error, argnums=(0, 1))(agent, critic)

    (agent, critic), by_policy, (by_error, of_critic) = slopes(state.mac.agent, state.critic)
    for found, one, other in zip(*map(jax.tree.leaves, (agent, by_policy, by_error)), strict=True):
        np.testing.assert_allclose(found, one + 0.3 * other, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(critic.value.weight, 0.3 * of_critic.value.weight, rtol=1e-4, atol=1e-6)
    assert np.abs(by_error.hidden_gates.weight).max() > 1e-4
    assert not np.asarray(by_error.fc2.weight).any()


@pytest.mark.parametrize("changes", [{"critic": "mlp"}, {"critic_input": "state"}], ids=str)
def test_a_shared_body_reads_nothing_else(changes: dict[str, Any]):
    (key, value), *_ = changes.items()
    with pytest.raises(UserError, match=f"ppo_shared_body: got True with {key}={value}, .* Allowed: False"):
        sharing(**changes)
