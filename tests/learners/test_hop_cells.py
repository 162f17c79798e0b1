"""Cells as subgoals: what they are in hindsight, how they are inferred and drawn, what is expected of them."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.hunted import GAME, GAMES, OTHERS, SEATS, STEPS, episodes, last_there, there
from omg.components.selectors import legal_softmax
from omg.config import adjust, resolve
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.envs import make_env
from omg.envs.grid.symmetry import symmetries
from omg.errors import UserError
from omg.learners.hop import set_loss
from omg.learners.hop_cells import LIKELY, CellsTraining
from omg.learners.hop_plus import HOPPlusLearner, HOPPlusState, turned_episodes
from omg.learners.hop_subgoals import model_inputs, watch
from omg.modules.opponent_models.base import ModelInputs
from omg.modules.opponent_models.cell_features import CellFeatures, OwnViewsAlone
from omg.modules.opponent_models.cells import CellModel, cell_loss
from omg.planning.cells import UNTOLD, CellFollowing, Ways, drawn_cell, expected_actions, shares_of
from omg.planning.minds import SubgoalMemory

J, H, CELLS = SEATS - 1, 2, GAME["size"] ** 2
SMALL: dict[str, Any] = {
    "hop_simulations": 2, "hop_samples": 2, "hop_hidden_dim": 8, "hop_epochs": 1, "hop_minibatches": 2,
    "am_hidden_dim": 6, "omg_horizon": H, "env_args": GAME, "hop_together_weight": 1.0,
}  # fmt: skip
OF_PPO: dict[str, Any] = {"subgoal_mode": "furthest", "omg_q_input": "inferred"}
KEY = jax.random.PRNGKey(4)


def learner(**changes: Any) -> HOPPlusLearner:
    config = resolve("hop_plus", "stag_hunt", {**SMALL, **changes}).config
    return HOPPlusLearner(config, make_env("stag_hunt", **GAME).spec)


@cache
def started() -> tuple[HOPPlusLearner, HOPPlusState]:
    made = learner()
    return made, jax.jit(made.init)(jax.random.PRNGKey(0))


@cache
def targets() -> Any:
    """Cells and offsets of all seats, and what was watched."""
    made, state = started()
    training = made.training
    assert isinstance(training, CellsTraining)

    @jax.jit
    def find(batch: Any) -> Any:
        views, sequences = watch(state.mac, batch, made._seats(batch), SEATS)
        return training.targets(views, sequences, KEY), views, sequences

    return jax.device_get(find(made.keep(episodes())))


def cell(game: int, slot: int, seat: int) -> int:
    """Where a player is, by its own view."""
    picture = np.asarray(episodes().obs)[game, slot, seat, :CELLS]
    assert picture.sum() == 1
    return int(picture.argmax())


def test_the_cell_in_hindsight_is_where_the_co_player_was_or_stood_last() -> None:
    (cells, offset), _, _ = targets()
    assert cells.shape == offset.shape == (SEATS, GAMES, STEPS, J)
    cut = 0
    for game, step, seat in np.ndindex(GAMES, STEPS, SEATS):
        for place, other in enumerate(OTHERS[seat]):
            if not (there()[game, step, seat] and there()[game, step, other]):
                continue
            slot = min(step + H, last_there()[game, other])
            cut += slot < step + H
            assert cells[seat, game, step, place] == cell(game, slot, other)
            assert offset[seat, game, step, place] == slot - step
    assert cut > 20


def test_a_model_infers_step_by_step_what_it_infers_at_once() -> None:
    _, views, sequences = targets()
    model = jax.tree.map(lambda leaf: leaf[1], started()[1].mac.minds.subgoals)
    assert isinstance(model, CellModel)
    inputs = model_inputs(views, jax.tree.map(lambda leaf: leaf[1], sequences))
    together = jax.jit(lambda inputs: model.unroll(inputs)[:, :, 0])(inputs)
    assert together.shape == (GAMES, STEPS + 1, J, CELLS)
    one = jax.jit(lambda now, memory: model.infer(now, memory))
    memory = SubgoalMemory(jnp.zeros((GAMES, 1, 6)), jnp.zeros((GAMES, 1, 32)))
    for step in range(3):
        now = ModelInputs(inputs.seen[:, step], inputs.last_actions[:, step], inputs.seats[:, 0])
        logits, memory = one(now, memory)
        np.testing.assert_allclose(logits[:, 0], together[:, step], atol=1e-5)


def test_the_loss_is_the_surprise_at_the_cells_that_came() -> None:
    rng = np.random.default_rng(0)
    logits, cells = rng.normal(size=(2, 3, J, CELLS)), rng.integers(CELLS, size=(2, 3, J))
    known = (rng.random((2, 3, J)) < 0.6).astype(np.float32)
    loss, metrics = cell_loss(jnp.asarray(logits), jnp.asarray(cells), jnp.asarray(known))
    surprises, right = [], []
    for index in np.ndindex(2, 3, J):
        if known[index]:
            chances = np.exp(logits[index]) / np.exp(logits[index]).sum()
            surprises.append(-np.log(chances[cells[index]]))
            right.append(chances.argmax() == cells[index])
    assert 0 < len(surprises) < known.size
    assert float(loss) == float(metrics["am_loss"]) == pytest.approx(np.mean(surprises), rel=1e-5)
    assert float(metrics["am_accuracy"]) == pytest.approx(np.mean(right))


def test_a_cell_is_drawn_by_its_chance_and_stays_while_chances_do() -> None:
    chances = np.array([0.0, 0.25, 0.0, 0.5, 0.25], np.float32)
    shares = np.linspace(0, 0.999, 1000).astype(np.float32)
    cells = np.asarray(drawn_cell(jnp.broadcast_to(chances, (1000, 5)), jnp.asarray(shares)))
    np.testing.assert_allclose(np.bincount(cells, minlength=5) / 1000, chances, atol=0.002)
    assert (np.diff(cells) >= 0).all()


@pytest.mark.parametrize("samples", [1, 3])
def test_the_trees_of_a_decision_stand_for_all_chances_together(samples: int) -> None:
    mac = started()[1].mac
    inference = CellFollowing(mac.game, dataclasses.replace(mac.settings.inference, samples=samples))
    seeds = np.asarray(inference.seeds(KEY, 300, SEATS))
    assert seeds.shape == (300, SEATS, samples)
    shares = np.asarray(jax.jit(lambda seeds: shares_of(seeds, samples, J))(jnp.asarray(seeds.reshape(-1))))
    parts = np.floor(shares.reshape(300, SEATS, samples, J) * samples)
    # For each co-player every tree has another part, and which one it has differs from co-player to co-player.
    np.testing.assert_array_equal(np.sort(parts, axis=2), np.broadcast_to(np.arange(samples)[:, None], parts.shape))
    assert samples == 1 or 0.2 < (parts[..., 0] == parts[..., 1]).mean() < 0.5
    counts = np.histogram(shares, bins=10, range=(0, 1))[0] / shares.size
    np.testing.assert_allclose(counts, 0.1, atol=0.02)


@cache
def one_seat() -> tuple[Any, Any, Any]:
    """The networks of seat 0, what it sees of the first positions, and what its co-players may do."""
    mac = started()[1].mac
    minds = jax.tree.map(lambda leaf: leaf[0], mac.minds)
    state = mac.game.from_world(jnp.asarray(episodes().state[:, 0]))
    legal = mac.game.legal(state)[:, 1:]
    return minds, mac.game.sight(state, jnp.zeros(GAMES, jnp.int32)), legal


def test_what_is_expected_is_the_mean_over_cells() -> None:
    minds, sight, legal = one_seat()
    rng = np.random.default_rng(1)
    chances = rng.dirichlet(np.ones(CELLS), size=(GAMES, J)).astype(np.float32)
    ways = Ways(started()[1].mac.game.map_view)
    found = jax.jit(lambda: expected_actions(minds.others, sight, legal, jnp.asarray(chances), ways))()
    size = GAME["size"]
    expected = np.zeros(legal.shape)
    say = jax.jit(lambda told: legal_softmax(minds.others(*sight, told), legal))
    here = np.array([[cell(game, 0, other) for other in OTHERS[0]] for game in range(GAMES)])
    first = None
    for there_cell in range(CELLS):
        down, right = there_cell // size - here // size, there_cell % size - here % size
        told = (down + size - 1) * (2 * size - 1) + right + size - 1
        said = np.asarray(say(jnp.asarray(told)))
        expected += said * chances[..., there_cell, None]
        # What is told matters.
        assert first is None or np.abs(said - first).max() > 1e-3
        first = said if first is None else first
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_cells_turn_with_the_board() -> None:
    made, state = started()
    game, batch = state.mac.game, made.keep(episodes())
    training = made.training
    assert isinstance(training, CellsTraining)

    @jax.jit
    def both(key: jax.Array) -> Any:
        turned = turned_episodes(game.map_view, batch, key)
        views, sequences = watch(state.mac, turned, made._seats(turned), SEATS)
        return training.targets(views, sequences, KEY)[0], turned.state

    cells, worlds = jax.device_get(both(KEY))
    moved = 0
    (before, _), _, _ = targets()
    for one in range(GAMES):
        maps = np.asarray(game.map_view.maps(jnp.asarray(worlds[one]))).reshape(STEPS + 1, -1, CELLS)
        for step, seat in np.ndindex(STEPS, SEATS):
            for place, other in enumerate(OTHERS[seat]):
                if there()[one, step, seat] and there()[one, step, other]:
                    slot = min(step + H, last_there()[one, other])
                    assert maps[slot, other].argmax() == cells[seat, one, step, place]
                    moved += cells[seat, one, step, place] != before[seat, one, step, place]
    assert moved > 20
    inference = state.mac.inference
    assert isinstance(inference, CellFollowing)
    ways, table = inference.ways, symmetries(GAME["size"], GAME["size"], game.spec.n_actions)
    rng = np.random.default_rng(0)
    for cell_to in table.cell_to:
        begin, end = rng.integers(CELLS, size=(2, 9))
        told = ways.between(jnp.asarray(begin), jnp.asarray(end)).at[4].set(UNTOLD)
        moved_told = np.asarray(inference.turned(told, jnp.asarray(cell_to)))
        expected = np.array(ways.between(jnp.asarray(cell_to[begin]), jnp.asarray(cell_to[end])))
        expected[4] = UNTOLD
        np.testing.assert_array_equal(moved_told, expected)


def test_what_likely_cells_make_of_a_deed_together_is_learned_too() -> None:
    made, state = started()
    batch, seats = made.keep(episodes()), made._seats(episodes())
    minds = jax.tree.map(lambda leaf: leaf[0], state.mac.minds)

    @jax.jit
    def answers() -> Any:
        changed = made.training.update(state.mac, state.model_opt_state, batch, seats, 0, jax.random.split(KEY))
        found = made._lessons(state.mac, batch)[0]._replace(goal=changed.goals, likely=changed.likely)
        part = jax.tree.map(lambda leaf: leaf[0], found)
        # One network, asked about one cell after the other.
        each = [legal_softmax(minds.others(part.maps, part.time, part.likely[..., one]), part.legal[:, 1:])
                for one in range(part.likely.shape[-1])]  # fmt: skip
        return set_loss(minds, part, 0.5), set_loss(minds, part._replace(likely=None)), jnp.stack(each), part

    (loss, metrics), (alone, _), chances, part = jax.device_get(answers())
    assert part.likely.shape == (GAMES * STEPS, J, LIKELY)
    # A model that knows nothing yet finds all cells alike: those at equal steps of the sum lie all over the board.
    ways = Ways(state.mac.game.map_view)
    assert all(len(set(row)) > LIKELY // 2 for row in part.likely.reshape(-1, LIKELY))
    assert part.likely.min() >= 0
    assert part.likely.max() < ways.count
    done = np.take_along_axis(chances.mean(axis=0), part.actions[..., None], axis=-1)[..., 0]
    surprise = -(np.log(done) * part.known).sum() / part.known.sum()
    assert metrics["together_loss"] == pytest.approx(surprise, rel=1e-4)
    assert loss == pytest.approx(alone + 0.5 * surprise, rel=1e-4)
    off = learner(hop_together_weight=0.0).training
    assert (
        jax.eval_shape(lambda: off.update(state.mac, state.model_opt_state, batch, seats, 0, [KEY, KEY])).likely is None
    )


def test_updates_move_every_network_and_lower_the_surprise_at_cells() -> None:
    made, state = started()
    batch = made.keep(episodes())
    update = jax.jit(lambda state, batch, key: made.update(state, batch, 0, 0, key))
    found = []
    after = state
    for number in range(12):
        after, metrics = update(after, batch, jax.random.PRNGKey(number))
        found.append({name: float(value) for name, value in metrics.items()})
    assert found[0]["am_loss"] == pytest.approx(np.log(CELLS), abs=0.3)
    assert found[-1]["am_loss"] < found[0]["am_loss"] - 0.02
    assert found[-1]["am_accuracy"] > 1 / CELLS
    assert found[0]["omg_selected_share"] == 1.0
    assert 0 < found[0]["omg_offset_mean"] < H
    assert after.mac.subgoal_prior is None
    for first, last in zip(jax.tree.leaves(state.mac.minds), jax.tree.leaves(after.mac.minds), strict=True):
        if first.size:
            assert (np.abs(np.asarray(last) - np.asarray(first)).reshape(SEATS, -1).max(axis=1) > 0).all()


def test_a_player_records_chances_of_cells_and_measures_them() -> None:
    made, state = started()
    mac = state.mac

    @jax.eval_shape
    def played() -> Any:
        _, seen = mac.game.reset(KEY, GAMES)
        return mac.act(seen, mac.initial(GAMES), KEY, 0.0)

    actions, memory, record = played
    assert actions.shape == (GAMES, SEATS)
    assert record["infer_cells"].shape == (GAMES, SEATS, J * CELLS)
    assert memory.seats.inferred.hidden.shape == (GAMES, SEATS, 6)
    chances = np.zeros((GAMES, STEPS + 1, SEATS, J, CELLS), np.float32)
    (cells, _), _, _ = targets()
    for index in np.ndindex(GAMES, STEPS, SEATS, J):
        chances[(*index, cells[index[2], index[0], index[1], index[3]])] = 1.0
    records = {**episodes().records, "infer_cells": chances.reshape(GAMES, STEPS + 1, SEATS, -1)}
    whole = jax.tree.map(jnp.asarray, episodes()._replace(records=records))
    found = jax.device_get(jax.jit(lambda batch: made.examine(state, batch, KEY))(whole))
    assert found["subgoal_place_error"] == 0
    assert found["subgoal_place_exact"] == pytest.approx(1)
    assert 0 < found["present_place_error"] < found["chance_place_error"]
    assert 0 < found["present_place_exact"] < 1
    # Whoever is certain of the truth expects what its network makes of the truth.
    assert found["action_surprise"] == pytest.approx(found["action_surprise_told_truth"], rel=1e-5)
    assert found["action_surprise_told_nothing"] != pytest.approx(found["action_surprise_told_truth"], rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subgoal_mode": "conservative"}, "subgoal_mode: got conservative, .* Allowed: furthest, next, k3, random"),
        ({"subgoal_dim": 8}, "subgoal_dim: got 8, but it is read only with omg_inference=cvae or mlp"),
        ({"prior_path": "x"}, "prior_path: got x, but it is read only with omg_inference=cvae or mlp"),
    ],
)
def test_what_cells_have_no_use_for_is_refused(changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adjust(resolve("hop_plus", "stag_hunt", changes).config, has_gpu=False)


@pytest.mark.parametrize(
    ("algorithm", "env", "changes", "message"),
    [
        ("iql_omg", "foraging", {}, "omg_inference: got cells, .* Allowed: cvae, mlp"),
        ("hop_plus_ppo", "stag_hunt", {}, "subgoal_mode: got conservative, .* Allowed: furthest"),
        ("hop_plus_ppo", "stag_hunt", {"subgoal_mode": "furthest"}, "omg_q_input: got mix, .* Allowed: inferred, zero"),
        ("hop_plus_ppo", "stag_hunt", {**OF_PPO, "omg_maps": False}, "omg_maps: got False, .* Allowed: True"),
        ("hop_plus_ppo", "stag_hunt", {**OF_PPO, "subgoal_of": "others"}, "subgoal_of: got others"),
    ],
)
def test_agents_that_do_not_search_infer_cells_with_what_these_need(
    algorithm: str, env: str, changes: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        adjust(resolve(algorithm, env, {"omg_inference": "cells", **changes}).config, has_gpu=False)


@cache
def model_of_ppo() -> tuple[CellFeatures, ModelInputs]:
    """A model for all seats of the hunted episodes, and what it reads."""
    config = resolve("hop_plus_ppo", "stag_hunt", {**OF_PPO, "omg_inference": "cells", "env_args": GAME}).config
    spec = make_env("stag_hunt", **GAME).spec
    mac = jax.jit(lambda key: build_mac(config, spec, key))(KEY)
    assert isinstance(mac, BasicMAC)
    assert isinstance(mac.opponent_model, CellFeatures)
    batch = episodes()
    last = np.concatenate([np.full((GAMES, 1, SEATS), -1), np.asarray(batch.actions)[:, :-1]], axis=1)
    seats = jnp.arange(SEATS)[None, None]
    return mac.opponent_model, ModelInputs(jnp.asarray(batch.obs), jnp.asarray(last), seats)


def test_features_are_the_chances_of_all_cells_step_by_step_and_at_once() -> None:
    model, inputs = model_of_ppo()
    assert model.feature_dim == J * CELLS
    together = np.asarray(jax.jit(lambda: model.features(model.unroll(inputs), None))())
    assert together.shape == (GAMES, STEPS + 1, SEATS, J * CELLS)
    np.testing.assert_allclose(together.reshape(*together.shape[:3], J, CELLS).sum(axis=-1), 1, atol=1e-5)
    memory = model.initial(GAMES, SEATS)
    one = jax.jit(lambda now, memory: model.infer(now, memory, None))
    for step in range(2):
        now = ModelInputs(inputs.seen[:, step], inputs.last_actions[:, step], inputs.seats[:, 0])
        found, memory, record = one(now, memory)
        np.testing.assert_allclose(found, together[:, step], atol=1e-5)
        assert record == {}


def test_what_the_own_views_show_is_learned_from() -> None:
    model, inputs = model_of_ppo()
    mask = np.asarray(episodes().filled)[:, :-1].astype(np.float32)
    horizon = model.sizes.horizon

    @jax.jit
    def find() -> Any:
        inference = jax.tree.map(lambda values: values[:, :-1], model.unroll(inputs))
        return inference, model.loss(inference, OwnViewsAlone(), jnp.asarray(mask), KEY)

    inference, (loss, _) = jax.device_get(find())
    surprises = []
    for game, step, seat in np.ndindex(GAMES, STEPS, SEATS):
        for place, other in enumerate(OTHERS[seat]):
            both = there()[game, :, seat] & there()[game, :, other]
            if both[step]:
                slot = min(step + horizon, int(np.flatnonzero(both)[-1]))
                logits = inference.logits[game, step, seat, place]
                surprises.append(np.log(np.exp(logits).sum()) - logits[cell(game, slot, other)])
    assert float(loss) == pytest.approx(np.mean(surprises), rel=1e-4)
