"""`recall_am`: rules and belief by hand, boards against the games themselves, and what a network learns of a round."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.played import fast_jit
from omg.config import adjust, resolve
from omg.envs import make_env
from omg.envs.rendezvous.env import EAST, NORTH, SOUTH, STAY, WEST
from omg.errors import UserError
from omg.learners import build_learner
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ActionTargets, ModelInputs, ModelSizes
from omg.modules.opponent_models.keys import RecallKeys
from omg.modules.opponent_models.recall import others_actions, round_ends
from omg.modules.opponent_models.recalling import RULES, SLIP, UNUSUAL, Recalled, foretelling

CELLS = 4
TRUST = 0.6
USUAL = np.array([0.4, 0.3, 0.2, 0.1])


def sure(cell: int) -> np.ndarray:
    return (1 - SLIP) * np.eye(CELLS)[cell] + SLIP * USUAL


def told(ends: list[int], learned: np.ndarray, usual: np.ndarray = USUAL, rounds: int = 6) -> np.ndarray:
    """What is foretold after rounds that ended so, [E, K]."""
    ended = np.array([*ends, *[-1] * (rounds - len(ends))], np.int32)[None, None, None]
    chances = (jnp.asarray(each)[None, None, None] for each in (learned, usual))
    found = foretelling(next(chances), jnp.asarray(ended), jnp.array([[len(ends)]]), next(chances))
    return np.asarray(found)[0, 0, 0]


@pytest.mark.parametrize(
    ("ends", "follows", "again", "in_turn"),
    [
        ([], None, None, None),
        ([2], None, 2, None),
        ([2, 3], None, 3, 2),
        # He did 2 before, and then 3.
        ([2, 3, 2], 3, 2, 3),
        ([1, 1, 1], 1, 1, 1),
        # What he did after the newest of the rounds that were alike.
        ([0, 1, 0, 3, 0], 3, 0, 3),
    ],
)
def test_rules_go_by_the_rounds_of_this_game(
    ends: list[int], follows: int | None, again: int | None, in_turn: int | None
):
    learned = np.array([0.7, 0.1, 0.1, 0.1])
    found = told(ends, learned)
    assert found.shape == (1 + len(RULES), CELLS)
    np.testing.assert_allclose(found[0], (1 - SLIP) * learned + SLIP * USUAL, atol=1e-6)
    for row, cell in zip(found[1:], (follows, again, in_turn, None), strict=True):
        np.testing.assert_allclose(row, USUAL if cell is None else sure(cell), atol=1e-6)


def test_belief_goes_to_what_has_foretold_the_rounds() -> None:
    """Somebody who takes turns, whom the network takes for one who always comes to cell 0."""
    learned = np.array([0.97, 0.01, 0.01, 0.01])
    usual = (1 - UNUSUAL) * learned + UNUSUAL / CELLS
    recalled = Recalled.empty(1, 1, 1, 5, CELLS, TRUST)
    weights = np.array([TRUST, *[(1 - TRUST) / 4] * 4])
    ends: list[int] = []
    for number, end in enumerate([1, 3, 1, 3, 1]):
        for step in range(2):
            # The step that leads to the end is seen with the next round.
            landed = ends[-1] if ends and step == 0 else 2
            recalled = recalled.after(*_one(landed, 0), jnp.array([[number]]), jnp.asarray(learned)[None, None, None])
            foretold = told(ends, learned, usual, rounds=5)
            np.testing.assert_allclose(recalled.weights()[0, 0, 0], weights / weights.sum(), rtol=1e-4)
            expected = (weights / weights.sum()) @ foretold
            np.testing.assert_allclose(
                recalled.chances(jnp.asarray(learned)[None, None, None])[0, 0, 0], expected, rtol=1e-4
            )
        weights = weights * foretold[:, end]
        ends.append(end)
    assert np.argmax(expected) == 1
    assert expected[1] > 0.9


def _one(landed: int, cell: int) -> tuple[Any, Any]:
    return jnp.full((1, 1, 1), landed), jnp.full((1, 1, 1), cell)


def test_of_every_step_the_last_one_of_its_round() -> None:
    number = np.array([[0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1]])[..., None]
    mask = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], float)
    found = round_ends(jnp.asarray(number), jnp.asarray(mask))[..., 0]
    np.testing.assert_array_equal(found[0], [1, 1, 4, 4, 4, 5])
    np.testing.assert_array_equal(found[1, :4], [2, 2, 2, 3])


def test_the_others_in_the_order_of_seats() -> None:
    found = others_actions(jnp.array([[5, 6, 7]]), jnp.array([[2, 0]]))
    np.testing.assert_array_equal(found, [[[5, 6], [6, 7]]])


GAMES = {
    "rendezvous": {},
    "toy_grid": {"size": 5, "episode_limit": 4, "rounds": 3},
    "foraging": {"rows": 5, "cols": 5, "rounds": 2, "episode_limit": 6, "max_food": 2},
    "stag_hunt": {"size": 5, "players": 2, "blocks": 0},
    "snowdrift": {"size": 4, "players": 2},
}


@pytest.mark.parametrize("name", GAMES)
def test_boards_are_read_as_the_games_mean_them(name: str) -> None:
    """Views and states agree on where everybody is, and who moves lands where the game puts him."""
    env: Any = make_env(name, **GAMES[name])
    board, spec = env.spec.seat_cells, env.spec
    key = jax.random.key(1)
    state, seen = env.reset(key, 16)
    step, moved = fast_jit(env.step), 0
    start, width = spec.seat_blocks[0]
    for turn in range(6):
        cells = np.asarray(board.standing(seen.obs, spec.n_agents))
        number = np.asarray(board.round_number(seen.obs))
        by_seat = seen.state[:, start : start + spec.n_agents * width].reshape(16, spec.n_agents, width)
        x, y, _ = spec.seat_places.read(by_seat)
        at = np.asarray(jnp.floor(y) * board.width + jnp.floor(x)).astype(int)
        np.testing.assert_array_equal(cells[:, 0], at)
        np.testing.assert_array_equal(cells[:, 1], at[:, ::-1] if spec.n_agents == 2 else cells[:, 1])
        noise = jax.random.gumbel(jax.random.fold_in(key, turn), seen.avail.shape)
        actions = jnp.argmax(jnp.where(seen.avail, noise, -jnp.inf), axis=-1)
        landed = np.asarray(board.landing(cells[:, 0], actions))
        state, seen, outcome = step(jax.random.fold_in(key, 100 + turn), state, actions)
        if np.any(outcome.terminated | outcome.truncated):
            break
        after = np.asarray(board.standing(seen.obs, spec.n_agents))[:, 0]
        # Two who want the same cell may both stay, some leave the game, and a new round begins where it begins.
        shown = seen.state[:, start : start + spec.n_agents * width].reshape(16, spec.n_agents, width)
        gone = ~np.asarray(spec.seat_places.read(shown).there)
        begins = (np.asarray(board.round_number(seen.obs)) != number)[:, :1]
        assert np.all((after == landed) | (after == cells[:, 0]) | gone | begins)
        moved += int((after == landed).sum())
    assert moved > 16


def test_views_that_do_not_tell_of_cells_are_refused() -> None:
    config = resolve("ippo_omg_recall", "foraging", {"env_args.sight": 2}).config
    env = make_env("foraging", sight=2)
    with pytest.raises(UserError, match=r"^env_args: am_model=recall_am .* foraging"):
        build_learner(config, env.spec).init(jax.random.key(0))
    # The state has everybody in the order of seats, so that nobody would find itself.
    with pytest.raises(UserError, match=r"^obs_is_state: got True, but am_model=recall_am"):
        adjust(resolve("ippo_omg_recall", "rendezvous", {"obs_is_state": True}).config, has_gpu=False)


def test_in_a_game_of_one_round_belief_stays_where_it_began() -> None:
    env: Any = make_env("stag_hunt", **GAMES["stag_hunt"])
    spec, seats = env.spec, jnp.zeros((3, 1), jnp.int32)
    sizes = ModelSizes(spec.obs_dim, spec.obs_dim, spec.n_actions, 2, 8, 16, cells=spec.seat_cells, own=(RecallKeys(),))
    model: Any = OPPONENT_MODELS["recall_am"].build(sizes, key=jax.random.key(0))
    views = jax.random.bernoulli(jax.random.key(1), 0.3, (3, 4, 1, spec.obs_dim)).astype(jnp.float32)
    found = model.unroll(ModelInputs(views, jnp.zeros((3, 4, 2), jnp.int32), seats[:, None]))
    trust = RecallKeys().recall_trust
    np.testing.assert_allclose(found.learned_weight, trust, atol=1e-6)
    learned = np.asarray(jax.nn.softmax(found.logits))
    usual = (1 - UNUSUAL) * learned[:, :1] + UNUSUAL / learned.shape[-1]
    sure_of = trust * (1 - SLIP)
    np.testing.assert_allclose(found.chances, sure_of * learned + (1 - sure_of) * usual, atol=1e-6)


def test_the_network_learns_where_rounds_end_and_says_so_before_they_do() -> None:
    """Of partners that keep to one corner: foretold with certainty from the second round on, guessed in the first."""
    env: Any = make_env("rendezvous")
    spec, games = env.spec, 4
    sizes = ModelSizes(spec.obs_dim, spec.obs_dim, spec.n_actions, 2, 8, 16, cells=spec.seat_cells, own=(RecallKeys(),))
    corners = np.array([[NORTH, WEST], [NORTH, EAST], [SOUTH, WEST], [SOUTH, EAST]])
    step = fast_jit(env.step)
    state, seen = env.reset(jax.random.key(0), games)
    views, actions = [seen.obs[:, :1]], []
    for turn in range(spec.episode_limit):
        joint = np.stack([np.full(games, STAY), corners[:, turn % 2]], axis=1)
        state, seen, _ = step(jax.random.key(0), state, jnp.asarray(joint))
        views.append(seen.obs[:, :1])
        actions.append(joint)
    played = jnp.asarray(np.stack(actions, axis=1))
    before = jnp.concatenate([jnp.full((games, 1, 2), -1), played], axis=1)
    seats = jnp.zeros((games, 1), jnp.int32)
    inputs = ModelInputs(jnp.stack(views, axis=1), before, seats[:, None])
    mask = jnp.ones((games, spec.episode_limit))

    @jax.jit
    def learn(model: Any, steps: Any) -> tuple[Any, Any, Any]:
        def loss(model: Any) -> Any:
            inference = jax.tree.map(lambda values: values[:, :-1], model.unroll(inputs))
            value, metrics = model.loss(inference, ActionTargets(played, seats), mask, jax.random.key(0))
            return value, (metrics, inference)

        (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(model)
        change, steps = optimiser.update(gradient, steps)
        return optax.apply_updates(model, change), steps, found

    optimiser = optax.adam(0.01)
    model: Any = OPPONENT_MODELS["recall_am"].build(sizes, key=jax.random.key(0))
    steps, found = optimiser.init(model), []
    for _ in range(150):
        model, steps, after = learn(model, steps)
        found.append(after)
    # Untrained it knows from the rules alone how the later rounds end.
    ends = np.array([0, 2, 6, 8])
    first, last = found[0][1].chances[:, :, 0, 0], found[-1][1].chances[:, :, 0, 0]
    np.testing.assert_array_equal(np.argmax(first[:, 4:], axis=-1), np.broadcast_to(ends[:, None], (games, 6)))
    assert found[-1][0]["am_accuracy"] > found[0][0]["am_accuracy"] + 0.5
    assert found[-1][0]["am_loss"] < 0.5 * found[0][0]["am_loss"]
    assert np.all(last[np.arange(games), 4:, :][np.arange(games), :, ends] > 0.8)
    # Before anything has been seen all four corners are as likely.
    np.testing.assert_allclose(last[:, 0][:, ends], 0.25, atol=0.08)
    (places,) = model.expects(found[-1][1].chances[:, -1].reshape(games, 1, -1))
    np.testing.assert_allclose(places.x[:, 0, 0], [0.5, 2.5, 0.5, 2.5], atol=0.3)
    np.testing.assert_allclose(places.y[:, 0, 0], [0.5, 0.5, 2.5, 2.5], atol=0.3)
