"""What a planning player learns its subgoals from: candidates, values, masks, its loss, its own episodes alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.hunted import GAME, GAMES, OTHERS, SEATS, STEPS, episodes, last_there, there
from omg.config import resolve
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.envs import make_env
from omg.envs.grid import GridGame
from omg.learners.hop_plus import HOPPlusLearner, HOPPlusState, turned_episodes
from omg.learners.hop_subgoals import _columns, model_inputs, watch
from omg.modules.opponent_models.base import sample
from omg.modules.opponent_models.prior import Prior

J, D, H = SEATS - 1, 3, 4
SMALL: dict[str, Any] = {
    "hop_simulations": 2, "hop_samples": 1, "hop_hidden_dim": 12, "hop_epochs": 1, "hop_minibatches": 2, "lr": 1e-3,
    "subgoal_dim": D, "am_hidden_dim": 6, "omg_horizon": H, "omg_sample": False, "omg_kl_weight": 0.05,
    # The same lessons again and again, so that losses can be compared.
    "hop_symmetries": False,
}  # fmt: skip
KEY = jax.random.PRNGKey(4)


def learner(
    name: str = "hop_plus_codes", team: TeamDraw | None = None, learns_prior: bool = True, **changes: Any
) -> HOPPlusLearner:
    config = resolve(name, "stag_hunt", {**SMALL, "env_args": GAME, **changes}).config
    return HOPPlusLearner(config, make_env("stag_hunt", **GAME).spec, team, 2 if team else 0, learns_prior)


@cache
def started() -> tuple[HOPPlusLearner, HOPPlusState]:
    made = learner()
    return made, jax.jit(made.init)(jax.random.PRNGKey(0))


@cache
def watched() -> tuple[Any, Any]:
    made, state = started()
    return jax.jit(lambda batch: watch(state.mac, batch, made._seats(batch), SEATS))(made.keep(episodes()))


def test_views_and_sequences_are_those_of_the_stored_episodes() -> None:
    views, sequences = watched()
    batch = episodes()
    held = np.asarray(views.mask) > 0
    np.testing.assert_array_equal(held.sum(axis=1), np.asarray(batch.filled).sum(axis=1) + 1)
    np.testing.assert_allclose(np.asarray(views.seen)[held], np.asarray(batch.obs)[held], atol=1e-6)
    for seat in range(SEATS):
        own = there()[..., seat]
        np.testing.assert_array_equal(sequences.mask[seat, 0] > 0, own)
        for place, other in enumerate(OTHERS[seat]):
            np.testing.assert_array_equal(sequences.known[seat, 0, ..., place] > 0, own & there()[..., other])
            np.testing.assert_array_equal(sequences.length[seat, 0, :, place], last_there()[:, other])
    # Some left before the end, and count no longer.
    assert 0.1 < np.asarray(sequences.known).mean() < 0.9


def test_who_has_left_is_never_what_anybody_was_heading_for() -> None:
    """Behind its last step a player's own picture is empty, and its likeliest cell would be the first of the board."""
    _, sequences = watched()
    cells = GAME["size"] ** 2
    left, seen = 0, np.asarray(episodes().obs)
    for game, seat in np.ndindex(GAMES, SEATS):
        for place, other in enumerate(OTHERS[seat]):
            last = int(sequences.length[seat, 0, game, place])
            assert seen[game, last, other, :cells].sum() == 1
            behind = last + 1 <= int(np.asarray(episodes().filled)[game].sum())
            left += behind
            assert not behind or seen[game, last + 1, other, :cells].sum() == 0
    assert left > 10


@cache
def parts_of_the_loss() -> Any:
    """Everything that the loss of one seat is made of, and what the learner says of it."""
    made, state = started()
    views, sequences = watched()
    mac, seat = state.mac, 1

    @jax.jit
    def find() -> Any:
        mind = jax.tree.map(lambda leaf: leaf[seat], mac.minds)
        part = jax.tree.map(lambda leaf: leaf[seat], sequences)
        model, own = mind.subgoals, mind.own
        goals = mac.subgoal_prior.encode(views.seen)
        posterior = model.unroll(model_inputs(views, part))
        inferred = made.training.inferred(model, views, part, KEY)
        selection = made.training.select(own, part, inferred, goals, KEY)
        goal = jax.tree.map(lambda leaf: leaf[None], selection)
        said = made.training.model_loss(model, views, part, goal, KEY)
        drawn = sample(posterior.mean[:, :-1], posterior.log_var[:, :-1], KEY)
        rebuilt = model.decoder(jnp.concatenate([drawn, posterior.condition[:, :-1]], axis=-1))
        # Every candidate of every co-player, one by one through the whole network.
        maps = mac.game.map_view.maps(views.seen[:, :-1, seat])
        time = mac.game.map_view.time(views.seen[:, :-1, seat])[..., 0]
        values = []
        for ahead in range(1, H + 1):
            for place in range(J):
                slot = jnp.minimum(jnp.arange(STEPS) + ahead, part.length[0, :, place, None])
                tried = jnp.take_along_axis(goals[0][:, :, OTHERS[seat][place]], slot[..., None], axis=1)
                told = inferred[:, :-1].at[:, :, place].set(tried)
                values.append(own(maps, time, told.reshape(GAMES, STEPS, -1))[1])
        return posterior, goals, selection, said, rebuilt, jnp.stack(values)

    found = jax.tree.map(np.asarray, find())
    return (*found[:5], found[5].reshape(H, J, GAMES, STEPS))


@pytest.mark.parametrize("mode", ["conservative", "optimistic"])
def test_the_selected_state_is_the_one_of_the_lowest_or_highest_value(mode: str) -> None:
    state, (_, sequences) = started()[1], watched()
    posterior, goals, selection, _, _, values = parts_of_the_loss()
    if mode == "optimistic":
        other = learner(subgoal_mode=mode)
        part = jax.tree.map(lambda leaf: leaf[1], sequences)
        own = jax.tree.map(lambda leaf: leaf[1], state.mac.minds.own)
        inferred = jnp.asarray(posterior.mean).reshape(GAMES, STEPS + 1, J, D)
        selection = jax.tree.map(np.asarray, jax.jit(other.training.select)(own, part, inferred, goals, KEY))
    better = max if mode == "optimistic" else min
    checked = 0
    for game in range(GAMES):
        for step in range(STEPS):
            for place, other_seat in enumerate(OTHERS[1]):
                if not there()[game, step, other_seat]:
                    continue
                left = max(int(last_there()[game, other_seat]) - step, 1)
                candidates = values[:, place, game, step]
                offset = selection.offset[game, step, place]
                assert 1 <= offset <= min(H, left)
                # Of equals the nearest; past the co-player's last state all are equal.
                assert candidates[offset - 1] == pytest.approx(better(candidates.tolist()), abs=1e-5)
                slot = min(step + offset, last_there()[game, other_seat])
                np.testing.assert_allclose(
                    selection.mean[game, step, place], goals[0][game, slot, other_seat], atol=1e-5
                )
                checked += 1
    assert checked > 50


def test_the_loss_agrees_with_loops() -> None:
    posterior, _, selection, (loss, metrics), rebuilt, _ = parts_of_the_loss()
    surprises, divergences = [], []
    for game in range(GAMES):
        for step in range(STEPS):
            if not there()[game, step, 1]:
                continue
            chance = 1 / (1 + np.exp(-rebuilt[game, step, 0].astype(np.float64)))
            bits = np.asarray(episodes().obs)[game, step, 1]
            surprises.append(-(bits * np.log(chance) + (1 - bits) * np.log(1 - chance)).mean())
            for place, other in enumerate(OTHERS[1]):
                if not there()[game, step, other]:
                    continue
                total = 0.0
                for feature in range(D):
                    mean, log_var = (
                        float(values[game, step, 0, place * D + feature])
                        for values in (posterior.mean, posterior.log_var)
                    )
                    goal = float(selection.mean[game, step, place, feature])
                    goal_log_var = float(selection.log_var[game, step, place, feature])
                    spread = (np.exp(log_var) + (mean - goal) ** 2) / np.exp(goal_log_var)
                    total += 0.5 * (spread - 1 + goal_log_var - log_var)
                divergences.append(total)
    assert float(metrics["am_reconstruction"]) == pytest.approx(np.mean(surprises), rel=1e-4)
    assert float(metrics["am_kl"]) == pytest.approx(np.mean(divergences), rel=1e-4)
    assert float(loss) == pytest.approx(np.mean(surprises) + 0.05 * np.mean(divergences), rel=1e-4)


def test_bits_are_reconstructed_by_their_cross_entropy_and_their_places() -> None:
    prior = Prior(30, 2, (5, 5), (2, 3, 4), key=jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    bits, subgoal = (rng.random((3, 30)) < 0.4).astype(np.float32), rng.normal(size=(3, 2)).astype(np.float32)
    # A picture without pieces says nothing about places.
    bits[0, 12:24] = 0.0
    found, chances = jax.jit(lambda: (prior.reconstruction(subgoal, bits), prior.decode(subgoal)))()
    chance = np.asarray(chances, np.float64)
    assert ((chance > 0) & (chance < 1)).all()
    expected = -np.log(np.where(bits > 0, chance, 1 - chance)).mean(axis=-1)
    for view, picture in np.ndindex(3, 2):
        cells = slice(12 * picture, 12 * picture + 12)
        odds = chance[view, cells] / (1 - chance[view, cells])
        pieces = bits[view, cells] > 0
        if pieces.any():
            expected[view] -= np.log(odds / odds.sum())[pieces].mean() / 12
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@cache
def updated() -> tuple[list[Any], list[dict[str, float]]]:
    made, state = started()
    batch = made.keep(episodes())
    update = jax.jit(lambda state, batch, key: made.update(state, batch, 0, 0, key))
    states, metrics = [state], []
    for number in range(12):
        state, found = update(states[-1], batch, jax.random.PRNGKey(number))
        states.append(state)
        metrics.append({name: float(value) for name, value in found.items()})
    return states, metrics


def test_updates_lower_all_losses() -> None:
    states, metrics = updated()
    for name in ("loss", "am_loss", "am_reconstruction", "prior_loss", "model_loss"):
        assert metrics[-1][name] < metrics[0][name], name
    assert metrics[0]["omg_selected_share"] == 0.5
    assert sum(metrics[0][f"omg_offset_{ahead}"] for ahead in range(1, H + 1)) == pytest.approx(1, abs=1e-5)
    assert int(states[-1].updates) == 12
    before, after = states[0].mac, states[-1].mac
    assert np.abs(before.subgoal_prior.mean_head.weight - after.subgoal_prior.mean_head.weight).max() > 1e-4
    for first, last in zip(jax.tree.leaves(before.minds), jax.tree.leaves(after.minds), strict=True):
        # Of every seat, and every part of its networks.
        moved = np.abs(np.asarray(last) - np.asarray(first)).reshape(SEATS, -1)
        assert (moved.max(axis=1) > 0).all()


def test_a_given_prior_stays_as_it_is() -> None:
    made = learner(hop_symmetries=True, learns_prior=False)
    state = jax.eval_shape(made.init, KEY)
    assert state.model_opt_state[0].mu[1] is None
    batch = made.keep(episodes())
    after, metrics = jax.eval_shape(lambda state, batch: made.update(state, batch, 0, 0, KEY), state, batch)
    assert "prior_loss" not in metrics
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_learning_never_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything comes from the episodes at hand: whoever starts or continues a game while learning fails here."""
    made, _ = started()
    batch = made.keep(episodes())
    state = jax.eval_shape(made.init, KEY)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a game was played")

    game = type(started()[1].mac.game)
    for owner, name in ((game, "advance"), (game, "start"), (GridGame, "reset"), (GridGame, "step")):
        monkeypatch.setattr(owner, name, refuse)
    jax.eval_shape(lambda state, batch: made.update(state, batch, 0, 0, KEY), state, batch)
    with pytest.raises(AssertionError, match="a game was played"):
        jax.eval_shape(lambda: started()[1].mac.game.reset(KEY, 1))


def test_turned_episodes_are_played_by_the_same_rules() -> None:
    made, state = started()
    game, batch = state.mac.game, made.keep(episodes())

    @jax.jit
    def turn_and_play(key: jax.Array) -> Any:
        turned = turned_episodes(game.map_view, batch, key)
        before = game.from_world(turned.state[:, :-1].reshape(GAMES * STEPS, -1))
        after, rewards, _ = game.advance(before, turned.actions[:, :-1].reshape(GAMES * STEPS, -1))
        return turned, game.world(after), rewards, game.legal(before)

    turned, after, rewards, legal = jax.device_get(turn_and_play(KEY))
    played = np.asarray(batch.filled)[:, :-1]
    np.testing.assert_allclose(after.reshape(GAMES, STEPS, -1)[played], turned.state[:, 1:][played], atol=1e-6)
    np.testing.assert_allclose(
        rewards.reshape(GAMES, STEPS, -1)[played], np.asarray(batch.reward)[:, :-1][played], atol=1e-6
    )
    policy, here = turned.records["search_policy"][:, :-1], legal.reshape(GAMES, STEPS, SEATS, -1)
    assert (policy[played][~here[played]] == 0).all()
    differs = (turned.state != np.asarray(batch.state)).any(axis=(1, 2))
    # Each in a way of its own; one of the eight leaves it as it is.
    assert differs.mean() > 0.5
    assert (turned.actions != np.asarray(batch.actions)).any()


def test_in_a_team_the_seat_that_learns_is_learned_from() -> None:
    team = TeamDraw((TeamSlots(2, (0, 1)), TeamSlots(1, ())))
    made = learner("2pool1hop_plus_codes", team)
    assert made.controls == ("zero", "shuffled")
    state = jax.eval_shape(made.init, KEY)
    assert state.mac.minds.own.goal.shape == (1, J * D, 12)
    seat = np.arange(GAMES, dtype=np.int32) % SEATS
    whole = episodes()
    batch = made.keep(whole._replace(seat=seat, records={"search_policy": whole.records["search_policy"][:, :, :1]}))
    mac = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), state.mac)
    views, found = jax.jit(lambda batch: watch(mac, batch, made._seats(batch), 1))(batch)
    _, every = watched()
    assert found.seat.shape == (1, 1, GAMES)
    for game in range(GAMES):
        for name in ("mask", "known", "length", "others"):
            expected = getattr(every, name)[seat[game], 0, game]
            np.testing.assert_array_equal(getattr(found, name)[0, 0, game], expected)
    inputs = jax.jit(lambda: model_inputs(views, jax.tree.map(lambda leaf: leaf[0], found)))()
    np.testing.assert_array_equal(inputs.seen[:, :, 0], np.asarray(views.seen)[np.arange(GAMES), :, seat])
    after, metrics = jax.eval_shape(lambda state, batch: made.update(state, batch, 0, 0, KEY), state, batch)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert all(value.shape == () for value in metrics.values())


def test_columns_of_several_sequences() -> None:
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    seats = np.array([[[1], [3]], [[0], [2]]])
    found = np.asarray(_columns(jnp.asarray(values), jnp.asarray(seats)))
    assert found.shape == (4, 3, 1)
    for row, (game, seat) in enumerate([(0, 1), (1, 3), (0, 0), (1, 2)]):
        np.testing.assert_array_equal(found[row, :, 0], values[game, :, seat])
