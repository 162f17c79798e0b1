"""The toy grid in tables: exact values against brute force, what tables learn, and the experiment with them."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.compiling import optimised
from helpers.positions import toy_grid as make
from helpers.positions import toy_step as compiled_step
from omg.cli.toy import toy
from omg.envs.toy_grid import ToyGridArgs
from omg.envs.toy_grid.env import EAST, NORTH, SOUTH, STAY, WEST
from omg.envs.toy_grid.tables import belief_by_cell, race_tables, reachable
from omg.errors import UserError
from omg.evaluation.tables import ToyRow
from omg.learners.tabular import (
    CONTEXTS,
    Context,
    Games,
    Settings,
    Steps,
    formed,
    learn,
    new_tables,
    play,
    solve,
    update,
)
from omg.report.toy import (
    curve,
    episodes_until_good,
    median_band,
    speed_rows,
    spread_name,
    toy_experiment,
    write_results,
)
from omg.tracking.table import Table

GAMMA = 0.9


# --------------------------------------------------------------------------------------------- exact solutions


def brute_force(size: int, context: Context) -> dict[tuple[Any, ...], float]:
    """Values by plain recursion over the rules, written down anew with rows and columns.

    Returns:
        own cell, other's cell, context, action -> value, for all that can come up in a game. Nobody who plays well
        needs `4 * size` steps, so that the recursion may stop there.
    """
    middle, last, horizon = size // 2, size - 1, 4 * size
    steps = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    cells = ((0, middle), (last, middle))
    met: set[tuple[Any, ...]] = set()

    def move(place: tuple[int, int], action: int) -> tuple[int, int] | None:
        row, col = place[0] + steps[action][0], place[1] + steps[action][1]
        return (row, col) if 0 <= row <= last and 0 <= col <= last else None

    def other_policy(place: tuple[int, int], goal: int) -> dict[int, float]:
        row, col = cells[goal][0] - place[0], cells[goal][1] - place[1]
        wanted = [a for a, need in ((1, row < 0), (2, row > 0), (3, col < 0), (4, col > 0)) if need]
        return {action: 1 / len(wanted) for action in wanted} if wanted else {0: 1.0}

    def mixture(place: tuple[int, int]) -> dict[int, float]:
        # The middle row is all that paths to both goals have in common.
        goals = (0, 1) if place[0] == middle else (0,) if place[0] < middle else (1,)
        chances: dict[int, float] = {}
        for goal in goals:
            for action, chance in other_policy(place, goal).items():
                chances[action] = chances.get(action, 0.0) + chance / len(goals)
        return chances

    @cache
    def entry(own: Any, other: Any, now: Any, action: int, left: int) -> float:
        met.add((own, other, now, action))
        chances = other_policy(other, now) if context == "subgoal" else mixture(other)
        total = 0.0
        for other_action, chance in ({now: 1.0} if context == "action" else chances).items():
            next_own, next_other = move(own, action), move(other, other_action)
            if next_own in cells and next_own != next_other:
                total += chance
            elif left > 1:
                total += chance * GAMMA * state(next_own, next_other, now, left - 1)
        return total

    @cache
    def state(own: Any, other: Any, now: Any, left: int) -> float:
        contexts = mixture(other) if context == "action" else {now: 1.0}
        legal = [action for action in range(5) if move(own, action) is not None]
        return sum(chance * max(entry(own, other, c, a, left) for a in legal) for c, chance in contexts.items())

    for goal in (0, 1) if context == "subgoal" else (0,):
        state((middle, 0), (middle, last), goal, horizon)
    return {key: entry(*key, horizon) for key in tuple(met)}


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("context", CONTEXTS)
def test_value_iteration_agrees_with_brute_force(context: Context, size: int) -> None:
    optimum = solve(race_tables(ToyGridArgs(size=size)), GAMMA, context)
    found = {}
    for state, now, action in np.argwhere(optimum.entries).tolist():
        own, other = divmod(state, size * size)
        found[divmod(own, size), divmod(other, size), now, action] = optimum.q[state, now, action]
    expected = brute_force(size, context)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), atol=1e-9)


def test_value_of_the_start() -> None:
    tables = race_tables(ToyGridArgs())
    straight = GAMMA**9  # paid by the tenth step
    assert solve(tables, GAMMA, "subgoal").start == pytest.approx(straight)
    assert solve(tables, GAMMA, "action").start == pytest.approx(straight)
    # With chance 1/32 the other hides its goal to the middle; a wrong guess there costs a step there and one back.
    hidden = 1 / 32 * (1 - GAMMA**2) / 2
    assert solve(tables, GAMMA, "none").start == pytest.approx(straight * (1 - hidden))


def test_belief_is_open_in_the_middle_row_only() -> None:
    belief = belief_by_cell(race_tables(ToyGridArgs(size=5))).reshape(5, 5, 2)
    np.testing.assert_allclose(belief[2, 2:], 0.5)
    np.testing.assert_allclose(belief[:2, 2:], [[[1.0, 0.0]] * 3] * 2)
    np.testing.assert_allclose(belief[3:, 2:], [[[0.0, 1.0]] * 3] * 2)
    assert not belief[:, :2].any()


# ------------------------------------------------------------------------------------------------- the learner


def test_games_of_the_tables_are_games_of_the_environment() -> None:
    args, games, settings = ToyGridArgs(size=5), 200, Settings(episode_limit=20)
    env, tables = make(size=5), race_tables(args)
    q = new_tables(tables, settings, "own", "none", 1)
    random_play = jax.jit(partial(play, tables, settings, "own", "none", epsilon=1.0))
    seen = jax.device_get(random_play(q, jnp.zeros(games, int), jax.random.key(5)))
    state, observation = env.reset(jax.random.key(0), games)
    occurs = reachable(tables)
    for time in range(settings.episode_limit):
        on = seen.played[time]
        places = np.asarray(state.row * 5 + state.col)
        np.testing.assert_array_equal(seen.own[time][on], places[0, on])
        np.testing.assert_array_equal(seen.other[time][on], places[1, on])
        assert occurs[seen.goal[on], places[0, on], places[1, on]].all()
        actions = np.stack([seen.action[time], seen.other_action[time]], axis=1)
        assert np.take_along_axis(np.asarray(observation.avail), actions[..., None], axis=2)[on].all()
        state, observation, outcome = compiled_step(env)(jax.random.key(0), state, actions)
        np.testing.assert_array_equal(np.asarray(outcome.reward)[on, 0], seen.paid[time][on])
        np.testing.assert_array_equal(np.asarray(outcome.terminated)[on], seen.paid[time][on])
    assert seen.paid.any(axis=0).mean() > 0.1, "hardly anybody was paid: the comparison shows too little"
    assert not seen.paid.any(axis=0).all()


def test_learner_acts_on_what_the_moves_so_far_tell() -> None:
    """Torn between two goals it goes east; as soon as the other turns off, it turns off as well."""
    tables, settings, games = race_tables(ToyGridArgs(size=5)), Settings(episode_limit=3), 100
    values = np.zeros((1, 25, 2, 5), np.float32)
    values[..., 0, NORTH], values[..., 1, SOUTH], values[..., EAST] = 1.0, 0.9, 0.6
    greedy_play = jax.jit(partial(play, tables, settings, "own", "subgoal", epsilon=0.0))
    seen = jax.device_get(greedy_play(values, jnp.zeros(games, int), jax.random.key(2)))
    assert set(seen.action[0].tolist()) == {EAST}
    answer = {NORTH: NORTH, SOUTH: SOUTH, WEST: EAST}
    assert set(seen.other_action[0].tolist()) == set(answer)
    assert [answer[move] for move in seen.other_action[0].tolist()] == seen.action[1].tolist()


def test_update_by_hand() -> None:
    q = np.zeros((3, 4, 2, 5), np.float32)
    q[:, 2, 1] = 0.5, 0.8, 0.1, 0.2, 0.9
    q[:, 0, 0, 3] = 0.4
    steps = Steps(
        state=jnp.zeros(3, int),
        context=jnp.zeros(3, int),
        action=jnp.full(3, 3),
        reward=jnp.asarray([0.0, 1.0, 0.0]),
        ended=jnp.asarray([False, True, False]),
        next_state=jnp.full(3, 2),
        next_context=jnp.ones(3, int),
        next_legal=jnp.asarray([[True, True, True, True, False]] * 3),
        counts=jnp.asarray([True, True, False]),
    )
    after = np.array(jax.jit(update, static_argnums=1)(q, Settings(gamma=0.9, alpha=0.25), steps))
    # 0.4 + 0.25 (0.9 * 0.8 - 0.4): the best action there would not be legal. 0.4 + 0.25 (1 - 0.4): nothing follows.
    np.testing.assert_allclose(after[:, 0, 0, 3], [0.48, 0.55, 0.4], rtol=1e-6)
    after[:, 0, 0, 3] = 0.4
    np.testing.assert_array_equal(after, q)


def test_learning_runs_through_a_game_from_its_end() -> None:
    """A finished game on 3x3, in which the other walks up: east, south, and paid in the second step."""
    tables, settings = race_tables(ToyGridArgs(size=3)), Settings(alpha=1.0, initial=0.0, episode_limit=3)
    game = Games(
        own=jnp.asarray([[3], [4], [7], [0]]),
        other=jnp.asarray([[5], [2], [1], [0]]),
        action=jnp.asarray([[EAST], [SOUTH], [0]]),
        other_action=jnp.asarray([[NORTH], [WEST], [STAY], [0]]),
        played=jnp.asarray([[True], [True], [False]]),
        paid=jnp.asarray([[False], [True], [False]]),
        goal=jnp.asarray([0]),
    )
    entries: dict[Context, list[tuple[int, ...]]] = {
        "subgoal": [(3 * 9 + 5, 0, EAST), (4 * 9 + 2, 0, SOUTH)],
        "action": [(3 * 9 + 5, NORTH, EAST), (4 * 9 + 2, WEST, SOUTH)],
        "none": [(3 * 9 + 5, 0, EAST), (4 * 9 + 2, 0, SOUTH)],
    }
    for context, (first, second) in entries.items():
        q = np.array(learn(tables, settings, "joint", context, new_tables(tables, settings, "joint", context, 1), game))
        assert (q[0][first], q[0][second]) == (pytest.approx(0.9), pytest.approx(1.0))
        assert np.count_nonzero(q) == 2


def test_formed_counts_only_what_can_occur_and_had_to_change() -> None:
    optimum = solve(race_tables(ToyGridArgs(size=3)), GAMMA, "subgoal")
    exact = optimum.q[None].astype(np.float32)
    start = np.where(optimum.entries, 1.0, 7.0)[None]
    np.testing.assert_allclose(formed(np.concatenate([exact, 1.05 * exact, start]), optimum, 1.0), [1.0, 1.0, 0.0])
    counted = optimum.entries & (optimum.q < 1.0)
    one = start.copy()
    one[0][tuple(np.argwhere(counted)[0])] = exact[0][tuple(np.argwhere(counted)[0])]
    assert formed(one, optimum, 1.0)[0] == pytest.approx(1 / counted.sum())


SMALL = ToyGridArgs(size=5)
SEEDS, EPISODES = 10, 400
LEARNED: tuple[Context, ...] = ("subgoal", "action")


@pytest.fixture(scope="module")
def race() -> Table:
    """The experiment on a small board, without the plain table."""
    with optimised():
        return toy_experiment(SMALL, seeds=SEEDS, episodes=EPISODES, seed=1, contexts=LEARNED)


def test_subgoal_reaches_the_optimum_before_the_action_does(race: Table) -> None:
    subgoal, action = (episodes_until_good(race, "own", context) for context in LEARNED)
    assert subgoal.max() <= EPISODES
    assert np.median(subgoal) < 0.5 * EPISODES
    assert np.median(action) == np.inf
    subgoal, action = (np.median(curve(race, "own", context, "of_optimum")[1][-1]) for context in LEARNED)
    assert subgoal > 0.9
    assert action < 0.7


def test_table_with_subgoals_forms_before_the_one_with_actions(race: Table) -> None:
    episodes, subgoal = curve(race, "joint", "subgoal", "formed")
    _, action = curve(race, "joint", "action", "formed")
    late = episodes >= 0.5 * EPISODES
    assert (subgoal[late].min(axis=1) > action[late].max(axis=1)).all(), "every seed is ahead of every seed"
    assert np.median(subgoal[-1]) > 0.25
    assert not race.where(view="own", metric="formed"), "a cell alone does not make a Markov game"


# --------------------------------------------------------------------------------------- tables and the figure


def test_medians_and_intervals_by_hand() -> None:
    band = median_band(np.arange(20.0)[::-1])
    # With 20 seeds the 6th lowest and the 6th highest enclose the median in 95.9 % of all cases.
    assert (band.median, band.low, band.high) == (9.5, 5.0, 14.0)
    band = median_band(np.array([[3.0, np.inf, 1.0], [np.inf, np.inf, 2.0]]))
    assert (band.median.tolist(), band.low.tolist()) == ([3.0, np.inf], [1.0, 2.0])
    assert band.high.tolist() == [np.inf, np.inf]


def test_games_until_good_play() -> None:
    shares = {0: (0.5, 0.95, 0.2), 1: (0.1, 0.2, 0.3)}
    rows = [
        ToyRow(view="own", context="action", seed=seed, episodes=episodes, metric="of_optimum", value=value)
        for seed, values in shares.items()
        for episodes, value in zip((10, 20, 40), values, strict=True)
    ]
    assert episodes_until_good(Table(rows), "own", "action").tolist() == [20.0, np.inf]
    assert spread_name(Table(rows)) == "lowest and highest"
    episodes, values = curve(Table(rows[::-1]), "own", "action", "of_optimum")
    assert (episodes.tolist(), values.tolist()) == ([10, 20, 40], [[0.5, 0.1], [0.95, 0.2], [0.2, 0.3]])


def test_command_prints_and_writes(
    race: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def recall(args: ToyGridArgs, **settings: Any) -> Table:
        asked.update(settings, args=args)
        return race

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("omg.report.toy.toy_experiment", recall)
    toy(seeds=SEEDS, episodes=EPISODES, size=5, seed=1, output=tmp_path / "new")
    assert (asked["args"], asked["seeds"], asked["episodes"], asked["seed"]) == (SMALL, SEEDS, EPISODES, 1)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.strip().startswith(("own cell", "both cells"))]) == 2 * len(LEARNED)
    assert "95 % interval" in lines[2]
    assert sum(line.strip().startswith("Q(s,") for line in lines) == len(LEARNED)
    assert lines[-2:] == [f"Table: {tmp_path}/new/toy.csv", f"Figure: {tmp_path}/new/toy.png"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["toy.csv", "toy.png"]
    assert (tmp_path / "new" / "toy.png").read_bytes().startswith(b"\x89PNG")
    rows = (tmp_path / "new" / "toy.csv").read_text().splitlines()
    points = len({row.split(",")[3] for row in rows[1:]})
    assert rows[0] == ",".join(ToyRow.names())
    assert len(rows) - 1 == points * SEEDS * len(LEARNED) * (2 + 3), "two metrics in one view, three in the other"


def test_command_refuses_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"env_args.size: got 4, an even number"):
        toy(size=4, output=tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=r"--output: '.*file' is a file. Give a folder"):
        toy(output=file)
    with pytest.raises(UserError, match=r"--output: cannot write to '.*below' \(Not a directory\)"):
        write_results(Table([]), ToyGridArgs(), file / "below")


def test_sizes_of_the_tables() -> None:
    rows = [
        ToyRow(view=view, context=context, seed=0, episodes=10, metric="of_optimum", value=1.0)
        for view in ("own", "joint")
        for context in CONTEXTS
    ]
    sizes = [(row["entries"], row["occur"]) for row in speed_rows(Table(rows), ToyGridArgs())]
    assert [entries for entries, _ in sizes] == ["1,210", "3,025", "605", "146,410", "366,025", "73,205"]
    # 5 actions on each cell, less the 4 * 11 that would leave the board, less the cell that ends the game.
    assert sizes[0][1] == f"{2 * (121 * 5 - 44 - 4):,}"
