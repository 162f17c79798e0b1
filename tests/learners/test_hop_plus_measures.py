"""What is said of the subgoals that a planning player inferred, beside slow counts of the same."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.hunted import GAME, GAMES, OTHERS, SEATS, STEPS, episodes, last_there, there
from omg.components import EpisodeBatch
from omg.envs import make_env
from omg.learners.hop_plus_measures import subgoal_measures
from omg.modules.opponent_models.prior import Prior

J, D, H = SEATS - 1, 3, 4


class Player:
    """All that the measures want to know of a player."""

    game: Any = make_env("stag_hunt", **GAME)
    subgoal_prior = Prior(game.spec.obs_dim, D, map_shape=game.spec.map_shape, key=jax.random.PRNGKey(0))


@cache
def next_prey() -> np.ndarray:
    """[B, T, A]: 0 for the stag and 1 for a hare that the player catches in this step or later, -1 for nothing."""
    game, batch = Player.game, episodes()
    state = jax.jit(game.from_world)(batch.state[:, :-1].reshape(GAMES * STEPS, -1))
    caught = np.asarray(game.caught(state, batch.actions[:, :-1].reshape(-1, SEATS))).reshape(GAMES, STEPS, SEATS) - 1
    found = np.full((GAMES, STEPS, SEATS), -1)
    for one, step, seat in np.ndindex(*found.shape):
        later = [prey for prey in caught[one, step : int(batch.filled[one].sum()), seat] if prey >= 0]
        found[one, step, seat] = later[0] if later else -1
    return found


def right_unless_seat_0_looks() -> float:
    """Of the steps with each goal, the share that seats 1 and 2 look at; the mean of both goals."""
    seen: dict[int, list[bool]] = {0: [], 1: []}
    for one, step, seat in np.ndindex(GAMES, STEPS, SEATS):
        for other in OTHERS[seat]:
            goal = next_prey()[one, step, other]
            if goal >= 0 and there()[one, step, seat]:
                seen[goal].append(seat > 0)
    assert min(len(looks) for looks in seen.values()) > 5
    return float(np.mean([np.mean(looks) for looks in seen.values()]))


def seen_somewhere(game: int, slot: int, seat: int) -> bool:
    """Whether a player is on the board: behind its last step it would seem to stand on the first cell."""
    _, height, width = Player.game.spec.map_shape
    return bool(np.asarray(episodes().obs)[game, slot, seat, : height * width].sum() == 1)


@cache
def goal_probes() -> Any:
    """The measures of subgoals, compiled once, for every episode twenty times over."""
    seats = jnp.tile(jnp.arange(SEATS), (20 * GAMES, 1))
    return jax.jit(lambda batch: subgoal_measures(Player(), batch, seats, H, 0))


@pytest.mark.parametrize("told", ["goals", "the other goal to seat 0", "nothing"])
def test_goals_are_read_off_subgoals_that_tell_them(told: str) -> None:
    batch = episodes()
    subgoals = np.zeros((GAMES, STEPS + 1, SEATS, J, D), np.float32)
    if told != "nothing":
        for seat in range(SEATS):
            subgoals[:, :-1, seat, :, 1] = next_prey()[:, :, OTHERS[seat]]
    if "other" in told:
        subgoals[:, :, 0, :, 1] = 1 - subgoals[:, :, 0, :, 1]
    records = {**batch.records, "infer_mu": subgoals.reshape(GAMES, STEPS + 1, SEATS, -1)}
    # Each of them many times, so that both halves have every goal, and enough of it for a classifier wary of chance.
    many = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), 20, axis=0), batch._replace(records=records))
    found = goal_probes()(many)
    expected = {"goals": 1.0, "nothing": 0.5}.get(told, right_unless_seat_0_looks())
    assert float(found["subgoal_goal_probe"]) == pytest.approx(expected, abs=1e-5)
    assert float(found["goal_probe_chance"]) == 0.5


def test_subgoals_are_compared_with_what_the_co_player_saw() -> None:
    batch = episodes()
    players = np.array([[-1, 0, 0], [-1, 1, 1]], np.int32)[np.arange(GAMES) // 2 % 2]
    names = np.where(players.max(axis=1) > 0, 1.0, -1.0).astype(np.float32)

    class Perfect:
        """Decodes a number to the view that it is of: episode, slot and seat."""

        map_shape, output = Player.game.spec.map_shape, Player.subgoal_prior.output

        @staticmethod
        def decode(subgoal: Any) -> Any:
            index = subgoal.astype(jnp.int32)
            return jnp.asarray(batch.obs)[index[..., 0], index[..., 1], index[..., 2]]

    ahead = 2
    length = np.asarray(batch.filled).sum(axis=1)
    told = np.zeros((GAMES, STEPS + 1, SEATS, J, D), np.float32)
    for game in range(GAMES):
        for seat in range(SEATS):
            for place, other in enumerate(OTHERS[seat]):
                told[game, :, seat, place, 0] = game
                told[game, :, seat, place, 1] = np.minimum(np.arange(STEPS + 1) + ahead, last_there()[game, other])
                told[game, :, seat, place, 2] = other
    # Whose team it is shows in nothing but this.
    told += 0.4 * names[:, None, None, None, None] * np.array([0, 0, 1]) + np.array([0, 0, 0.45])
    records = {**batch.records, "infer_mu": told.reshape(GAMES, STEPS + 1, SEATS, -1)}
    seats = jnp.tile(jnp.arange(SEATS), (GAMES, 1))
    whole: EpisodeBatch = batch._replace(records=records, players=players)

    player = SimpleNamespace(game=Player.game, subgoal_prior=Perfect())
    measures = jax.jit(lambda batch: subgoal_measures(player, batch, seats, ahead, 2))(whole)  # type: ignore[arg-type]
    assert float(measures["subgoal_future_distance"]) == pytest.approx(0, abs=1e-5)
    assert float(measures["subgoal_present_distance"]) > 0.1
    assert float(measures["subgoal_place_error"]) == 0
    moved = []
    for game in range(GAMES):
        for seat in range(SEATS):
            for other in OTHERS[seat]:
                until = int(min(there()[game, :, seat].sum(), there()[game, :, other].sum()))
                _, height, width = Perfect.map_shape
                cells = np.asarray(batch.obs)[game, :, other, : height * width].argmax(axis=-1)
                place = np.stack(np.divmod(cells, width), axis=-1)
                last = int(last_there()[game, other])
                assert seen_somewhere(game, last, other)
                moved += [np.abs(place[min(step + ahead, last)] - place[step]).sum() for step in range(until)]
    assert float(measures["present_place_error"]) == pytest.approx(np.mean(moved), rel=1e-4)
    assert np.mean(moved) > 0
    assert length.min() > 0
    ratios = []
    for game in range(GAMES):
        for seat in range(SEATS):
            for other in OTHERS[seat]:
                until = int(min(there()[game, :, seat].sum(), there()[game, :, other].sum()))
                cells = int(np.prod(Perfect.map_shape))
                maps = [tuple(np.asarray(batch.obs)[game, slot, other, :cells]) for slot in range(until + 1)]
                last = int(last_there()[game, other])
                slots = [min(step + ahead, last) for step in range(until)]
                hit = {maps[slot] for slot in slots if slot <= until}
                ratios.append(len(hit) / (until + 1))
    assert float(measures["subgoal_hit_ratio"]) == pytest.approx(np.mean(ratios), abs=1e-5)
    assert float(measures["goal_probe_chance"]) == 0.5
    assert 0 < float(measures["present_goal_probe"]) <= 1
    assert float(measures["subgoal_probe"]) > 0.8
    assert 0 < float(measures["present_probe"]) <= 1
    assert float(measures["probe_chance"]) == 0.5
