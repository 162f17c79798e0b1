"""Social influence: its reward against loops, when it is zero, what the models of the others learn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes, seats_of
from helpers.played import (
    LENGTHS,
    ONE_SEAT,
    PARTNERS,
    SPEC,
    A,
    B,
    T,
    U,
    config,
    counted_steps,
    drawn,
    fast_jit,
    same_bytes,
    unrolled,
)
from omg.components import EpisodeBatch
from omg.components.selectors import multinomial_log_probabilities
from omg.config import Config
from omg.controllers.draw import TeamDraw
from omg.learners import build_learner
from omg.learners.influence import InfluenceLearner, influence_of
from omg.learners.ppo import PPOState

KEY = jax.random.key(9)
SMALL: dict[str, Any] = {
    "learner": "influence_learner",
    "agent": "idv_conv",
    "action_selector": "multinomial",
    "optimizer": "adam",
    "epsilon_start": 0.0,
    "epsilon_finish": 0.0,
    "critic_hidden_dim": 7,
    "ppo_epochs": 1,
    "obs_agent_id": False,
    "influence_weight": 0.5,
}


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[InfluenceLearner, Callable[..., Any]]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    return _compiled(config(**(SMALL | changes)).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[InfluenceLearner, Callable[..., Any]]:
    learner = build_learner(Config.model_validate_json(settings), SPEC, team, PARTNERS)
    assert isinstance(learner, InfluenceLearner)
    return learner, fast_jit(learner.update)


def state_for(learner: InfluenceLearner) -> PPOState:
    """Numbers in all networks; in the models of the others large ones, so that actions make a difference to them."""
    state = drawn_networks(learner, ("mac", "critic"))
    model = jax.tree.map(lambda leaf: 3.0 * leaf, drawn(state.extra.model, 7))
    return state._replace(extra=state.extra._replace(model=model))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def predicted(model: Any, seat: int, obs: np.ndarray, joint: list[int]) -> np.ndarray:
    """The others' next actions [A-1, U] as a seat's network expects them, in the order round the table."""
    network = model.networks
    if model.n_agents is not None:
        network = jax.tree.map(lambda leaf: leaf[seat], network)
    others = [np.eye(U)[joint[(seat + k) % A]] for k in range(1, A)]
    x = np.concatenate([obs, np.eye(U)[joint[seat]], *others])
    for layer in (network.fc1, network.fc2):
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias), 0)
    logits = x @ np.asarray(network.value.weight, np.float64) + np.asarray(network.value.bias)
    return np.stack([softmax(row) for row in logits.reshape(A - 1, U)])


def chooses(batch: EpisodeBatch, b: int, t: int, seat: int) -> bool:
    return t < LENGTHS[b] and int(batch.avail[b, t, seat].sum()) > 1


def slow_influence(state: PPOState, batch: EpisodeBatch, seats: list[list[int]]) -> np.ndarray:
    result = np.zeros((B, T, len(seats[0])))
    played = np.asarray(fast_jit(unrolled)(state.mac, batch))
    for b, t in counted_steps():
        for i, seat in enumerate(seats[b]):
            legal = batch.avail[b, t, seat]
            pi = np.zeros(U)
            pi[legal] = softmax(played[b, t, seat][legal])
            obs, joint = np.asarray(batch.obs[b, t, seat]), [int(a) for a in batch.actions[b, t]]
            after = []
            for action in range(U):
                instead = [*joint]
                instead[seat] = action
                after.append(predicted(state.extra.model, seat, obs, instead))
            average = sum(chance * p for chance, p in zip(pi, after, strict=True))
            for k in range(1, A):
                if chooses(batch, b, t + 1, (seat + k) % A):
                    p, q = after[joint[seat]][k - 1], average[k - 1]
                    result[b, t, i] += (p * np.log(p / q)).sum()
    return result


@pytest.mark.parametrize(
    ("team", "changes"),
    [(None, {}), (None, {"agent": "mlp"}), (ONE_SEAT, {})],
    ids=["a network each", "one network", "one seat of a team"],
)
def test_influence_equals_loops(team: TeamDraw | None, changes: dict[str, Any]):
    learner, update = learner_for(team, **changes)
    state = state_for(learner)
    batch = legal_episodes(reward_per_agent=True, team=team)
    seats = seats_of(team, batch)
    expected = slow_influence(state, batch, seats)
    assert expected.max() > 0.01
    kept = learner.keep(batch)
    views = state.mac.reading.episodes(kept, learner.main_seats(kept))

    @fast_jit
    def influence() -> Any:
        avail = views.own(jnp.asarray(kept.avail))[:, :-1]
        log_pi = multinomial_log_probabilities(views.run(state.mac.agent, None)[0][:, :-1], avail, 0.0)
        return learner.influence(state.extra.model, learner.facts(kept, views), log_pi)

    np.testing.assert_allclose(influence(), expected, atol=1e-5)
    _, metrics = update(state, kept, 0, 0, KEY)
    steps = [expected[b, t] for b, t in counted_steps()]
    assert float(metrics["influence_mean"]) == pytest.approx(np.mean(steps), rel=1e-4)
    # Cross-entropy on what those did next who had a choice.
    losses = [
        -np.log(
            predicted(state.extra.model, seat, batch.obs[b, t, seat], [int(a) for a in batch.actions[b, t]])[
                k - 1, batch.actions[b, t + 1, (seat + k) % A]
            ]
        )
        for b, t in counted_steps()
        for seat in seats[b]
        for k in range(1, A)
        if chooses(batch, b, t + 1, (seat + k) % A)
    ]
    assert float(metrics["moa_loss"]) == pytest.approx(np.mean(losses), rel=1e-4)


def test_the_reward_is_raised_by_the_weighed_influence():
    learner, update = learner_for()
    _, update_plain = learner_for(influence_weight=0.0)
    state, batch = state_for(learner), legal_episodes(reward_per_agent=True)
    influence = slow_influence(state, batch, seats_of(None, batch))
    paid = batch._replace(reward=np.pad(batch.reward[:, :-1] + 0.5 * influence, ((0, 0), (0, 1), (0, 0))).astype("f4"))
    with_influence, metrics = update(state, batch, 0, 0, KEY)
    in_the_reward, expected = update_plain(state, paid, 0, 0, KEY)
    assert float(metrics["target_mean"]) == pytest.approx(float(expected["target_mean"]), rel=1e-4)
    for ours, theirs in zip(jax.tree.leaves(with_influence.mac), jax.tree.leaves(in_the_reward.mac), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert float(metrics["target_mean"]) != pytest.approx(
        float(update_plain(state, batch, 0, 0, KEY)[1]["target_mean"])
    )


def test_there_is_no_influence_on_those_whose_actions_do_not_depend_on_mine():
    learner, update = learner_for()
    state, batch = state_for(learner), legal_episodes(reward_per_agent=True)
    weight = state.extra.model.networks.fc1.weight
    rows = slice(SPEC.obs_dim, SPEC.obs_dim + U)
    silent = weight.copy()
    silent[:, rows] = 0
    deaf = jax.tree.map(lambda leaf: silent if leaf is weight else leaf, state.extra)
    assert float(update(state, batch, 0, 0, KEY)[1]["influence_mean"]) > 0.01
    assert float(update(state._replace(extra=deaf), batch, 0, 0, KEY)[1]["influence_mean"]) == pytest.approx(
        0, abs=1e-6
    )


def test_influence_of_a_certain_action_is_zero_and_of_a_surprising_one_is_its_information():
    # The other does what I did; V = U = 2.
    copies = jnp.log(jnp.asarray([[[1.0, 1e-9]], [[1e-9, 1.0]]]))
    ones = jnp.ones(1)
    assert float(influence_of(copies, jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]), ones)) == pytest.approx(0, abs=1e-6)
    rare = influence_of(copies, jnp.array([0.25, 0.75]), jnp.array([1.0, 0.0]), ones)
    assert float(rare) == pytest.approx(np.log(4), rel=1e-5)
    assert float(influence_of(copies, jnp.array([0.25, 0.75]), jnp.array([1.0, 0.0]), 0 * ones)) == 0.0


def test_models_learn_what_the_others_do_next():
    learner, update = learner_for(ppo_epochs=4, ppo_minibatches=2, am_lr=0.02)
    state, batch = state_for(learner), legal_episodes(reward_per_agent=True)
    losses = []
    for _ in range(5):
        state, metrics = update(state, batch, 0, 0, KEY)
        losses.append(float(metrics["moa_loss"]))
    assert losses[-1] < 0.7 * losses[0]
    assert float(metrics["moa_accuracy"]) > 0.4


def test_nothing_behind_the_last_view_counts():
    learner, update = learner_for(ppo_epochs=4, ppo_minibatches=2, am_lr=0.02)
    state, batch = state_for(learner), legal_episodes(reward_per_agent=True)
    idle = np.arange(T + 1)[None, :, None] >= np.asarray(LENGTHS)[:, None, None]
    noisy = batch._replace(actions=np.where(idle, 0, batch.actions))
    assert same_bytes(update(state, noisy, 0, 0, KEY), update(state, batch, 0, 0, KEY))
