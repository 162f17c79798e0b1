"""What a planning player learns from: returns, goals in hindsight, seats, the prior; and how well it understands."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.hunted import GAME, GAMES, SEATS, STEPS, episodes
from omg.config import resolve
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.hop import HOPMac
from omg.envs import make_env
from omg.envs.grid import STAY
from omg.envs.grid.symmetry import symmetries
from omg.learners.hop import HOPLearner, HOPState, discounted, set_loss, turned
from omg.learners.hop_measures import _confusion, _phase, replayed
from omg.planning import INFERENCES
from omg.planning.beliefs import BeliefSettings
from omg.planning.goals import hindsight
from omg.planning.inference import InferenceSettings

SMALL: dict[str, Any] = {
    "hop_simulations": 2, "hop_samples": 1, "hop_hidden_dim": 16, "hop_epochs": 1, "hop_minibatches": 2, "lr": 1e-3
}  # fmt: skip


def learner(name: str = "hop", team: TeamDraw | None = None, **changes: Any) -> HOPLearner:
    config = resolve(name, "stag_hunt", {**SMALL, "env_args": GAME, **changes}).config
    return HOPLearner(config, make_env("stag_hunt", **GAME).spec, team)


@cache
def started() -> tuple[HOPLearner, HOPState]:
    made = learner()
    return made, jax.device_get(jax.jit(made.init)(jax.random.PRNGKey(0)))


def test_returns_are_what_really_followed() -> None:
    reward = np.random.default_rng(0).normal(size=(2, 5, 3))
    expected = np.zeros_like(reward)
    for time in range(5):
        expected[:, time] = sum(0.9**ahead * reward[:, time + ahead] for ahead in range(5 - time))
    np.testing.assert_allclose(discounted(jnp.asarray(reward), 0.9), expected, atol=1e-5)


@cache
def lessons() -> tuple[Any, Any]:
    made, state = started()
    return jax.device_get(jax.jit(lambda batch: made._lessons(state.mac, batch))(episodes()))


def test_every_seat_learns_from_its_own_view_and_search() -> None:
    found, achievement = lessons()
    batch, mac = episodes(), started()[1].mac
    seen = np.asarray(jax.jit(mac.game.map_view.maps)(batch.obs[:, :-1]))
    policy = batch.records["search_policy"]
    rewards = batch.reward[:, :-1]
    assert achievement.shape == (GAMES, SEATS, SEATS - 1)
    for seat in range(SEATS):
        maps = np.asarray(found.maps[seat]).reshape(GAMES, STEPS, *found.maps.shape[2:])
        filled = np.asarray(batch.filled[:, :-1])
        np.testing.assert_array_equal(maps[filled], seen[filled][:, seat])
        np.testing.assert_array_equal(found.policy[seat].reshape(GAMES, STEPS, -1), policy[:, :-1, seat])
        expected = np.zeros((GAMES, STEPS + 1))
        for time in range(STEPS)[::-1]:
            expected[:, time] = rewards[:, time, seat] * filled[:, time] + 0.95 * expected[:, time + 1]
        np.testing.assert_allclose(found.returns[seat].reshape(GAMES, STEPS), expected[:, :-1], atol=1e-5)
        others = [other for other in range(SEATS) if other != seat]
        np.testing.assert_array_equal(
            found.actions[seat].reshape(GAMES, STEPS, -1), np.asarray(batch.actions)[:, :-1][..., others]
        )


def test_who_has_left_teaches_nobody_to_stay() -> None:
    found, _ = lessons()
    batch, mac = episodes(), started()[1].mac
    state = jax.tree.map(np.asarray, jax.jit(lambda: replayed(mac.game, batch.state[:, :-1]))())
    left = ~state.hunting | ~np.asarray(batch.filled[:, :-1])[..., None]
    assert 0.1 < left.mean() < 0.9
    look_back = jax.jit(lambda *seen: hindsight(mac.inference.goals, *seen).known)
    purposeful = np.asarray(look_back(state, batch.actions[:, :-1], batch.filled[:, :-1]))
    for seat in range(SEATS):
        others = [other for other in range(SEATS) if other != seat]
        known = np.asarray(found.known[seat]).reshape(GAMES, STEPS, -1) > 0
        assert known.any()
        assert not known[left[..., others]].any()
        assert not np.asarray(found.mask[seat]).reshape(GAMES, STEPS)[left[..., seat]].any()
        # Whoever is left without a goal in the end teaches nothing either.
        assert not known[~purposeful[..., others]].any()
    stays = np.asarray(batch.actions)[:, :-1][left & np.asarray(batch.filled[:, :-1])[..., None]]
    assert stays.size > 5
    assert (stays == STAY).all()


def test_the_loss_is_that_of_its_parts() -> None:
    found, _ = lessons()
    mind, part = jax.tree.map(lambda leaf: leaf[1], (started()[1].mac.minds, found))

    @jax.jit
    def answers() -> Any:
        own = mind.own(part.maps, part.time)
        return set_loss(mind, part), own, mind.others(part.maps, part.time, part.goal)

    (loss, metrics), (logits, value), said = jax.tree.map(np.asarray, answers())
    part = jax.tree.map(np.asarray, part)

    def log_chances(values: np.ndarray, legal: np.ndarray) -> np.ndarray:
        weights = np.where(legal, np.exp(values.astype(np.float64)), 0.0)
        return np.log(np.maximum(weights / weights.sum(axis=-1, keepdims=True), 1e-30))

    own = -(part.policy * np.where(part.legal[:, 0], log_chances(logits, part.legal[:, 0]), 0)).sum(axis=-1)
    policy_loss = (own * part.mask).sum() / part.mask.sum()
    value_loss = ((value - part.returns) ** 2 * part.mask).sum() / part.mask.sum()
    done = np.take_along_axis(log_chances(said, part.legal[:, 1:]), part.actions[..., None], axis=-1)[..., 0]
    model_loss = -(done * part.known).sum() / part.known.sum()
    assert metrics["policy_loss"] == pytest.approx(policy_loss, rel=1e-4)
    assert metrics["value_loss"] == pytest.approx(value_loss, rel=1e-4)
    assert metrics["model_loss"] == pytest.approx(model_loss, rel=1e-4)
    assert loss == pytest.approx(0.5 * (policy_loss + value_loss) + model_loss, rel=1e-4)


def test_turned_lessons_are_those_of_turned_boards() -> None:
    found, _ = lessons()
    mac = started()[1].mac
    new = jax.device_get(jax.jit(lambda part: turned(mac, part, jax.random.key(0)))(found))
    np.testing.assert_array_equal(new.maps.sum(axis=(-2, -1)), found.maps.sum(axis=(-2, -1)))
    there = found.mask > 0
    assert (new.maps[there] != found.maps[there]).any(axis=(-3, -2, -1)).mean() > 0.5
    steps = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}
    for maps, legal, policy, old in zip(
        new.maps[there], new.legal[there], new.policy[there], found.policy[there], strict=True
    ):
        # On a board without obstacles the player's own place says where it can go.
        row, column = np.argwhere(maps[0])[0]
        for move, (down, right) in steps.items():
            assert legal[0, move] == (0 <= row + down < 3 and 0 <= column + right < 3)
        assert (policy[~legal[0]] == 0).all()
        np.testing.assert_array_equal(np.sort(policy), np.sort(old))
    known = found.known > 0
    assert np.take_along_axis(new.legal[:, :, 1:], new.actions[..., None], axis=-1)[..., 0][known].all()
    assert (new.actions[known] != found.actions[known]).any()
    np.testing.assert_array_equal(new.goal, found.goal)


def test_cells_as_goals_are_turned_and_being_after_nothing_is_not() -> None:
    game = make_env("snowdrift", size=3, players=2, drifts=2, blocks=0)
    inference = INFERENCES["goals"](game, InferenceSettings(1, BeliefSettings()))
    tables = symmetries(3, 3, 6)
    codes = jnp.asarray([[0, 9], [5, -1]] * 4)
    moved = np.asarray(inference.turned(codes, jnp.asarray(tables.cell_to)))
    for way in range(8):
        drift = np.zeros(9, bool)
        drift[codes[way, 0]] = True
        assert drift[tables.cell_from[way]].argmax() == moved[way, 0]
        assert moved[way, 1] == codes[way, 1]


def test_updates_lower_the_loss_and_the_prior_follows_outcomes() -> None:
    made, state = started()
    assert made.policy(state) is state.mac
    assert int(state.updates) == 0
    batch = made.keep(episodes())
    assert batch.obs.shape[2] == 0
    update = jax.jit(lambda state, batch, key: made.update(state, batch, 0, 0, key))
    losses = []
    after = state
    for number in range(12):
        after, metrics = update(after, batch, jax.random.PRNGKey(number))
        losses.append(float(metrics["loss"]))
    assert losses[-1] < losses[0] - 0.2
    assert 0 < float(metrics["grad_norm"]) < 1e3
    assert int(after.updates) == 12
    achievement = np.asarray(lessons()[1])
    expected = np.full((SEATS, SEATS - 1, 2), 0.5)
    for episode in achievement.tolist() * 12:
        for seat in range(SEATS):
            for other, seen in enumerate(episode[seat]):
                if seen >= 0:
                    expected[seat, other] = 0.995 * expected[seat, other] + 0.005 * np.eye(2)[seen]
    np.testing.assert_allclose(after.mac.prior, expected, atol=1e-5)
    assert float(metrics["outcome_0"]) == pytest.approx(expected[..., 0].mean(), abs=1e-5)


def test_in_a_team_the_seat_that_learns_is_learned_from() -> None:
    team = TeamDraw((TeamSlots(2, (0, 1)), TeamSlots(1, ())))
    made = learner("2pool1hop", team)
    state = jax.eval_shape(made.init, jax.random.PRNGKey(0))
    assert state.mac.prior.shape == (1, SEATS - 1, 2)
    seat = np.arange(GAMES, dtype=np.int32) % SEATS
    whole = episodes()
    batch = whole._replace(seat=seat, records={"search_policy": whole.records["search_policy"][:, :, :1]})
    mac: HOPMac = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state.mac)
    found, achievement = jax.device_get(jax.jit(lambda batch: made._lessons(mac, batch))(batch))
    every, every_achievement = lessons()
    for game in range(GAMES):
        rows = slice(game * STEPS, (game + 1) * STEPS)
        for name in ("maps", "returns", "actions", "goal", "known"):
            np.testing.assert_array_equal(getattr(found, name)[0, rows], getattr(every, name)[seat[game], rows])
        np.testing.assert_array_equal(achievement[game, 0], every_achievement[game, seat[game]])


# -------------------------------------------------------------------------------------------------- what is measured


def test_confusion_precision_and_recall() -> None:
    measures = _confusion(jnp.asarray([[3.0, 1.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]), ("up", "down", "stay"))
    assert float(measures["action_accuracy"]) == pytest.approx(0.7)
    assert float(measures["precision_up"]) == pytest.approx(0.6)
    assert float(measures["recall_up"]) == pytest.approx(0.75)
    assert float(measures["recall_down"]) == pytest.approx(4 / 6)
    assert float(measures["precision_stay"]) == float(measures["recall_stay"]) == 0
    assert float(measures["confusion_down_as_up"]) == pytest.approx(0.2)
    assert sum(float(value) for name, value in measures.items() if name.startswith("confusion")) == pytest.approx(1)


class Reaching:
    """Goals that are reached where the action is 1."""

    def reached(self, state: Any, actions: Array) -> Array:
        return jnp.where(actions == 1, 0, -1)


def test_ways_to_goals_are_cut_into_thirds() -> None:
    actions = np.zeros((1, 9, 2), int)
    actions[0, 5, 0] = actions[0, 8, 0] = actions[0, 2, 1] = 1
    played = np.arange(9)[None] < np.array([[9]])
    cut = jax.jit(lambda *seen: _phase(Reaching(), *seen))  # type: ignore[arg-type]
    phase = np.asarray(cut(np.zeros((1, 9)), actions, played))
    assert phase[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    assert phase[0, :, 1].tolist() == [0, 1, 2, 0, 0, 1, 1, 2, 2]


def test_beliefs_are_measured_in_the_goal_that_is_reached() -> None:
    made, state = started()
    batch = episodes()
    mac = state.mac

    @jax.jit
    def look_back() -> Any:
        states = replayed(mac.game, batch.state[:, :-1])
        return hindsight(mac.inference.goals, states, batch.actions[:, :-1], batch.filled[:, :-1])

    seen = jax.device_get(look_back())
    # A player that is always three quarters sure of the right goal, and of the first where there is none.
    right = np.eye(2)[seen.code] * 0.5 + 0.25
    others = np.array([[1, 2], [0, 2], [0, 1]])
    belief = np.pad(right[:, :, others].reshape(GAMES, STEPS, SEATS, -1), ((0, 0), (0, 1), (0, 0), (0, 0)))
    told = batch._replace(records={**batch.records, "belief": belief.astype(np.float32)})
    measures = jax.jit(lambda told: made.examine(state, told, jax.random.PRNGKey(0)))(told)
    for name in ("early", "middle", "late"):
        assert float(measures[f"belief_{name}"]) == pytest.approx(0.75, abs=1e-5), name
    assert 0.5 <= float(measures["belief_alike"]) <= 1
    assert 0 < float(measures["action_accuracy"]) < 1
    assert float(measures["action_surprise"]) > 0.3
