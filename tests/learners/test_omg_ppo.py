"""OMG on PPO: the critic's values of alternatives, the selector that asks it, and what an update changes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes
from helpers.played import LENGTHS, ONE_SEAT, PARTNERS, SPEC, B, T, config, drawn, fast_jit, same_bytes
from omg.config import adjust, resolve
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.omg_ppo import OMGPPOLearner
from omg.modules.critics import CRITICS
from omg.modules.critics.base import CriticSizes

KEY = jax.random.key(3)
D, HORIZON = 3, 4
SETTINGS: dict[str, Any] = {
    "learner": "omg_ppo_learner",
    "am_model": "omg_am",
    "action_selector": "multinomial",
    "epsilon_start": 0.0,
    "epsilon_finish": 0.0,
    "critic_hidden_dim": 7,
    "ppo_epochs": 2,
    "subgoal_dim": D,
    "omg_horizon": HORIZON,
    "am_hidden_dim": 5,
}


def learner_for(team: TeamDraw | None = None, **changes: Any) -> OMGPPOLearner:
    learner = build_learner(config(**(SETTINGS | changes)), SPEC, team, PARTNERS)
    assert isinstance(learner, OMGPPOLearner)
    return learner


def instead(values: np.ndarray, where: Any, given: np.ndarray) -> np.ndarray:
    """A copy in which one part is another."""
    changed = values.copy()
    changed[where] = given
    return changed


@pytest.mark.parametrize("name", sorted(CRITICS))
def test_alternatives_are_valued_after_what_really_came_before(name: str):
    sizes = CriticSizes((4, 2, D), hidden_dim=6, n_agents=3)
    critic = drawn(jax.eval_shape(lambda: CRITICS[name].build(sizes, key=KEY)), 1)
    rng = np.random.default_rng(0)
    # One part is the same for all seats, another for all steps.
    parts = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 5, 1, 4), (2, 1, 3, 2), (2, 5, 3, D))]
    tried = rng.normal(size=(2, 4, 3, 3, D)).astype(np.float32)
    values = np.asarray(fast_jit(lambda parts, tried: critic.try_features(parts, tried))(parts, tried))
    assert values.shape == (2, 4, 3, 3)
    judge = fast_jit(lambda parts: critic(parts))
    for t in range(4):
        for k in range(3):
            told = instead(parts[-1], (slice(None), t), tried[:, t, k])
            np.testing.assert_allclose(values[:, t, k], np.asarray(judge([*parts[:-1], told]))[:, t], atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{}, {"obs_all_last_actions": True, "critic": "mlp", "omg_feature": "view"}], ids=str
)
def test_the_selector_takes_the_state_that_the_critic_values_most(changes: dict[str, Any]):
    learner = learner_for(ONE_SEAT, **changes)
    state, batch = drawn_networks(learner, ("mac", "critic"), 1), legal_episodes(2, team=ONE_SEAT)
    state = state._replace(scale=jax.jit(lambda: learner.init(KEY).scale)())
    batch = jax.jit(learner.keep)(batch)
    inferred = np.random.default_rng(3).normal(size=(B, T + 1, 1, D)).astype(np.float32)
    (share,) = jax.jit(lambda batch: learner.shares(state.mac.reading, batch))(batch)
    model, reading, views = state.mac.opponent_model, state.mac.reading, share.views

    encoded = jax.jit(lambda: model.prior.encode(views.model_inputs().seen))()

    def best(mode: str) -> np.ndarray:
        chosen = learner_for(ONE_SEAT, subgoal_mode=mode, **changes)
        return np.asarray(
            fast_jit(lambda: chosen.training.select(model, state, share, encoded, inferred, KEY).offset)()
        )

    codes = np.asarray(encoded[0])
    judge = fast_jit(
        lambda features: state.critic(learner.critic_inputs(batch, views, reading.features(model, views, features)))
    )
    optimistic, conservative = best("optimistic"), best("conservative")
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            values = [
                np.asarray(judge(instead(inferred, (b, t), codes[b, min(t + k, length)])))[b, t, 0]
                for k in range(1, HORIZON + 1)
            ]
            left = length - t
            assert optimistic[b, t, 0] == min(int(np.argmax(values)) + 1, left)
            assert conservative[b, t, 0] == min(int(np.argmin(values)) + 1, left)
    assert (optimistic != conservative).any()


def test_an_update_trains_actor_critic_and_model_but_not_the_prior():
    learner = learner_for(ONE_SEAT)
    state = learner.init(KEY)
    batch = jax.tree.map(jnp.asarray, learner.keep(legal_episodes(4, team=ONE_SEAT)))
    changed, metrics = fast_jit(learner.update)(state, batch, 0, 0, KEY)
    model, after = state.mac.opponent_model, changed.mac.opponent_model
    assert same_bytes(model.prior, after.prior)
    assert not same_bytes(model.with_prior(None), after.with_prior(None))
    assert not same_bytes(state.mac.agent, changed.mac.agent)
    assert not same_bytes(state.critic, changed.critic)
    assert {"am_kl", "omg_offset_1", "omg_selected_share", "policy_loss"} <= set(metrics)
    assert float(metrics["omg_selected_share"]) == 0.5


def test_the_model_may_make_several_passes_of_a_round() -> None:
    once, often = learner_for(ONE_SEAT), learner_for(ONE_SEAT, am_epochs=3)
    state = once.init(KEY)
    batch = jax.tree.map(jnp.asarray, once.keep(legal_episodes(4, team=ONE_SEAT)))
    (after, _), (later, metrics) = (fast_jit(one.update)(state, batch, 0, 0, KEY) for one in (once, often))
    # The agent learns with what the model said when it acted, however often that learns.
    assert same_bytes(after.mac.agent, later.mac.agent)
    assert same_bytes(after.critic, later.critic)
    assert not same_bytes(after.mac.opponent_model, later.mac.opponent_model)
    assert same_bytes(state.mac.opponent_model.prior, later.mac.opponent_model.prior)
    steps = [int(leaf) for leaf in jax.tree.leaves(later.model_opt_state) if jnp.shape(leaf) == ()]
    assert steps == [3]
    assert np.isfinite(float(metrics["am_loss"]))


def test_its_configuration_is_on_policy_and_wants_its_model():
    with pytest.raises(UserError, match="am_model: got liam_am, but learner=omg_ppo_learner trains omg_am"):
        adjust(resolve("ippo_omg", "foraging", ["am_model=liam_am"]).config, has_gpu=False)
    settings, _ = adjust(resolve("ippo_omg", "foraging", ["batch_size_run=16"]).config, has_gpu=False)
    assert (settings.buffer_size, settings.batch_size, settings.updates_per_episode) == (16, 16, 1 / 16)
