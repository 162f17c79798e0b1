"""How far Q-learning's targets look ahead, and when its target network follows: against plain loops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import ENDED, LENGTHS, ONE_SEAT, PARTNERS, SPEC, A, B, T, config, drawn_state, episodes, fast_jit
from omg.components import loss_mask
from omg.config import resolve
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.q import QLearner, peng_targets

KEY = jax.random.key(2)
GAMMA = 0.9


def learner_for(team: Any = None, **changes: Any) -> QLearner:
    learner = build_learner(config(gamma=GAMMA, **changes), SPEC, team, PARTNERS)
    assert isinstance(learner, QLearner)
    return learner


def looped(reward: np.ndarray, following: np.ndarray, q_lambda: float) -> np.ndarray:
    """[B, T] each: a mean of the returns of all lengths n, each with its weight, none beyond the last step."""
    targets = np.zeros_like(reward)
    for b in range(B):
        for t in range(LENGTHS[b]):
            most = LENGTHS[b] - t
            for n in range(1, most + 1):
                value = sum(GAMMA**k * reward[b, t + k] for k in range(n))
                if not (ENDED[b] and t + n == LENGTHS[b]):
                    value += GAMMA**n * following[b, t + n - 1]
                weight = q_lambda ** (n - 1) * (1.0 if n == most else 1 - q_lambda)
                targets[b, t] += weight * value
    return targets


@pytest.mark.parametrize("q_lambda", [0.0, 0.3, 1.0])
def test_targets_are_a_mean_of_returns_of_all_lengths(q_lambda: float) -> None:
    batch, rng = episodes(), np.random.default_rng(0)
    mask, ended = loss_mask(batch), batch.terminated[:, :-1]
    reward, following = rng.normal(size=(2, B, T, A)).astype(np.float32)
    played = np.asarray(mask) > 0

    def targets(reward: np.ndarray, following: np.ndarray) -> np.ndarray:
        given = (jnp.asarray(reward), jnp.asarray(following))
        return np.asarray(peng_targets(*given, ended, mask, GAMMA, q_lambda))

    by_seat = targets(reward, following)
    for seat in range(A):
        expected = looped(reward[..., seat], following[..., seat], q_lambda)
        np.testing.assert_allclose(by_seat[..., seat][played], expected[played], rtol=1e-4, atol=1e-5)
    # One reward for all seats, and one value of the team.
    shared = targets(reward[..., :1], following)
    expected = looped(reward[..., 0], following[..., 1], q_lambda)
    np.testing.assert_allclose(shared[..., 1][played], expected[played], rtol=1e-4, atol=1e-5)
    of_team = targets(reward[..., 0], following[..., 1])
    np.testing.assert_allclose(of_team[played], expected[played], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"mixer": "vdn"},
        {"learner": "q_learner_4am", "am_model": "liam_am"},
        {"learner": "omg_learner", "am_model": "omg_am"},
    ],
    ids=["vdn", "liam", "omg"],
)
def test_updates_learn_from_them(changes: dict[str, Any]) -> None:
    """A little lambda changes targets a little, more of it more; nothing behind the end counts."""
    team = None if "mixer" in changes else ONE_SEAT
    found = []
    for q_lambda in (0.0, 1e-6, 0.9):
        learner = learner_for(team, q_lambda=q_lambda, **changes)
        batch = learner.keep(episodes(team=team))
        _, metrics = fast_jit(learner.update)(drawn_state(learner), batch, 0, 0, KEY)
        found.append(float(metrics["target_mean"]))
    assert found[1] == pytest.approx(found[0], rel=1e-3, abs=1e-4)
    assert abs(found[2] - found[0]) > 1e-2


def test_target_copies_are_counted_in_updates() -> None:
    learner = learner_for(target_update_unit="updates", target_update_interval=3)
    state, batch, update = drawn_state(learner), episodes(), fast_jit(learner.update)
    copied = []
    for _ in range(7):
        state, _ = update(state, batch, 0, 0, KEY)
        copied.append(np.array_equal(state.mac.agent.fc1.weight, state.target_mac.agent.fc1.weight))
    assert [number for number, copy in enumerate(copied, 1) if copy] == [3, 6]


def test_a_share_of_the_online_network_enters_the_target() -> None:
    learner = learner_for(target_update_unit="updates", target_update_interval=2, target_update_tau=0.25, mixer="qmix")
    state, batch, update = drawn_state(learner), episodes(), fast_jit(learner.update)
    first, _ = update(state, batch, 0, 0, KEY)
    second, _ = update(first, batch, 0, 0, KEY)
    for old, after_one, after_two, online in zip(
        *(jax.tree.leaves((each.target_mac, each.target_mixer)) for each in (state, first, second)),
        jax.tree.leaves((second.mac, second.mixer)),
        strict=True,
    ):
        np.testing.assert_array_equal(old, after_one)
        np.testing.assert_allclose(after_two, 0.75 * np.asarray(old) + 0.25 * np.asarray(online), rtol=1e-5, atol=1e-6)


def test_words_and_ranges() -> None:
    for words, message in (
        (["target_update_unit=steps"], "Unknown target_update_unit 'steps'"),
        (["target_update_tau=0"], "target_update_tau"),
        (["q_lambda=1.5"], "q_lambda"),
    ):
        with pytest.raises(UserError, match=message):
            resolve("iql", "foraging", words)
    with pytest.raises(UserError, match="q_lambda"):
        resolve("qtran", "foraging", ["q_lambda=0.5"])
