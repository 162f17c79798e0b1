"""A model that nobody here knows: it declares what it learns from, and Q-learning and PPO train it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.acted import legal_episodes
from helpers.played import ONE_SEAT, PARTNERS, SPEC, A, B, T, config, counted_steps, fast_jit, same_bytes
from omg.learners import build_learner
from omg.modules.layers import Linear
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ModelInputs, ModelSizes, SupervisedModel
from omg.modules.opponent_models.keys import FeatureKeys, ModelRateKeys
from omg.registry import Entry, ModelTraits

KEY = jax.random.key(8)
GIVEN: list[dict[str, tuple[int, ...]]] = []
"""Shapes of what the loss was given, call by call."""


class Luck(NamedTuple):
    """What it wants to know."""

    obs: Array
    reward: Array
    terminated: Array
    seats: Array


class LuckModel(SupervisedModel):
    """Foretells the reward of a step from what is seen, with noise that it draws while it learns."""

    guess: Linear

    targets = Luck

    def __init__(self, sizes: ModelSizes, *, key: Array):
        self.sizes = sizes
        self.guess = Linear(sizes.seen_dim, 1, key=key)

    @property
    def feature_dim(self) -> int:
        return 1

    @property
    def shown_dim(self) -> int:
        return 2

    def shown(self, features: Array) -> Array:
        return jnp.concatenate([features, -features], axis=-1)

    def initial(self, batch: int, seats: int) -> None:
        pass

    def infer(self, inputs: ModelInputs, memory: None, key: Array | None) -> tuple[Array, None, dict[str, Array]]:
        return self.features(self.unroll(inputs), key), None, {}

    def unroll(self, inputs: ModelInputs) -> Array:
        return self.guess(inputs.seen)

    def features(self, inference: Array, key: Array | None) -> Array:
        return jax.lax.stop_gradient(inference)

    def loss(self, inference: Array, targets: Luck, mask: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        GIVEN.append({name: value.shape for name, value in targets._asdict().items()})
        noisy = targets.reward + jax.random.normal(key, mask.shape)
        loss = (((inference[..., 0].mean(axis=-1) - noisy) ** 2) * mask).sum() / mask.sum()
        return loss, {"am_loss": loss, "am_noise": jax.random.normal(key, mask.shape)[0, 0]}


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    traits = ModelTraits(sections=(ModelRateKeys, FeatureKeys), stores_others=True)
    OPPONENT_MODELS.add("luck_am", Entry(LuckModel, traits, "foretells the reward"))
    GIVEN.clear()
    yield
    OPPONENT_MODELS.remove("luck_am")


LEARNERS: dict[str, dict[str, Any]] = {
    "q_learner_4am": {},
    "ppo_learner": {"action_selector": "multinomial", "critic_hidden_dim": 5, "ppo_epochs": 1},
}


@pytest.mark.parametrize("name", LEARNERS)
def test_it_is_given_what_it_declares(name: str) -> None:
    settings = config(learner=name, am_model="luck_am", am_lr=0.05, **LEARNERS[name])
    learner = build_learner(settings, SPEC, ONE_SEAT, PARTNERS)
    assert learner.kept.columns is None, "all seats' observations are stored for it"
    state = jax.jit(learner.init)(KEY)
    # The agent reads two numbers of its one.
    assert learner.policy(state).agent.sizes.feature_dim == 2
    whole = legal_episodes(1, team=ONE_SEAT)
    batch = jax.tree.map(jnp.asarray, learner.keep(whole))
    update = fast_jit(lambda state, key: learner.update(state, batch, 0, 0, key))
    after, metrics = update(state, KEY)
    assert GIVEN[0] == {"obs": (B, T, A, 4), "reward": (B, T), "terminated": (B, T), "seats": (B, 1)}
    model = learner.policy(state).opponent_model
    guesses = np.asarray(model.guess(jnp.asarray(whole.obs)))[..., 0]
    seats = np.asarray(ONE_SEAT.main_seats(batch.seat))[:, 0]
    # With its noise known, its loss is that of loops.
    noise = noise_of(metrics, name)
    errors = [(guesses[b, t, seats[b]] - whole.reward[b, t] - noise[b, t]) ** 2 for b, t in counted_steps()]
    assert float(metrics["am_loss"]) == pytest.approx(np.mean(errors), rel=1e-4)
    other, _ = update(state, jax.random.key(9))
    for changed in (after, other):
        assert not same_bytes(learner.policy(changed).opponent_model, model)
    assert not same_bytes(learner.policy(after).opponent_model, learner.policy(other).opponent_model)


def noise_of(metrics: dict[str, Array], name: str) -> np.ndarray:
    """What the model drew, found again by the first number of it."""
    key = jax.random.split(KEY)[0] if name == "ppo_learner" else KEY
    (loss_key,) = jax.random.split(jax.random.split(key)[1], 1)
    noise = np.asarray(jax.random.normal(loss_key, (B, T)))
    assert noise[0, 0] == pytest.approx(float(metrics["am_noise"]), rel=1e-5)
    return noise
