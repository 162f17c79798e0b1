"""Two teams in one battle: mirrored views, fair sides, and the command that plays them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.tiny import tiny_agent
from omg.cli import main
from omg.config import resolve
from omg.controllers.scripted import build_scripted
from omg.envs import make_env
from omg.envs.battle import MAPS, Battle, BattleArgs, Duel, starts
from omg.envs.battle.duel import equal_sides
from omg.envs.battle.env import World
from omg.envs.battle.observe import EAST, WEST
from omg.errors import UserError
from omg.evaluation import Contender, share_interval, versus, versus_rows
from omg.evaluation.duels import pairing_order
from omg.pools import Pool

SYMMETRIC = ["3m", "8m", "25m", "MMM", "2s3z", "3s5z", "1c3s5z", "bane_vs_bane"]


def exchanged(world: World) -> World:
    """The same battle with the sides' names exchanged, seen in a mirror."""
    mirrored = [side._replace(x=-side.x) for side in (world.enemy, world.ally)]
    return world._replace(ally=mirrored[0], enemy=mirrored[1], ally_last=world.enemy_last, enemy_last=world.ally_last)


def untidy(env: Battle, seed: int = 0, games: int = 5) -> World:
    """Battles in the middle: units anywhere, some hurt, some dead, weapons not ready."""
    rng = np.random.default_rng(seed)
    world, _ = env.reset(jax.random.key(seed), games)

    def mess(side: Any) -> Any:
        shape = side.x.shape
        share = rng.uniform(size=shape) * (rng.uniform(size=shape) < 0.8)
        return side._replace(
            x=jnp.asarray(rng.uniform(-6, 6, shape), jnp.float32),
            y=jnp.asarray(rng.uniform(-6, 6, shape), jnp.float32),
            hp=side.hp * share,
            shield=side.shield * share,
            cooldown=jnp.asarray(rng.uniform(0, 9, shape), jnp.float32),
        )

    last = [jnp.asarray(rng.integers(0, 7, world.ally_last.shape), jnp.int32) for _ in range(2)]
    return world._replace(ally=mess(world.ally), enemy=mess(world.enemy), ally_last=last[0], enemy_last=last[1])


@pytest.fixture(scope="module")
def duel() -> Duel:
    return Duel(BattleArgs(map_name="3m"))


@pytest.fixture(scope="module")
def step(duel: Duel) -> Any:
    return jax.jit(duel.step)


def contenders(env: Any, *names: str) -> list[Contender]:
    return [Contender(name, name, build_scripted(name, env)) for name in names]


# ------------------------------------------------------------------------------------------------ mirrored views


def test_equal_sides() -> None:
    assert [name for name, battle_map in MAPS.items() if equal_sides(battle_map)] == SYMMETRIC


@pytest.mark.parametrize("map_name", ["2s3z", "MMM"])
def test_both_sides_see_mirror_images(map_name: str) -> None:
    options = {"obs_last_action": True, "obs_pathing_grid": True, "obs_timestep_number": True}
    env = Battle(BattleArgs(map_name=map_name, **options))
    look = jax.jit(lambda world: (env.observe(world), env.observe_enemies(world)))
    world = untidy(env)
    mine, theirs = look(world)
    assert (np.asarray(mine.obs) != np.asarray(theirs.obs)).any()
    for one, other in zip(look(exchanged(world)), (theirs, mine), strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)
    alike = world._replace(enemy=world.ally._replace(x=-world.ally.x), enemy_last=world.ally_last)
    jax.tree.map(np.testing.assert_array_equal, *look(alike))


@pytest.mark.parametrize("map_name", SYMMETRIC)
def test_the_start_is_symmetric(map_name: str) -> None:
    ally_x, ally_y, enemy_x, enemy_y = starts.standard(MAPS[map_name], 1)
    np.testing.assert_array_equal(ally_x, -enemy_x)
    np.testing.assert_array_equal(ally_y, enemy_y)


def test_a_step_is_the_same_in_the_mirror() -> None:
    env = Battle(BattleArgs(map_name="3m"))
    world = untidy(env, seed=3)
    # Weapons are not ready in this step: their random delays would belong to other units in the mirror.
    world = world._replace(ally=world.ally._replace(cooldown=world.ally.cooldown + 20))
    world = world._replace(enemy=world.enemy._replace(cooldown=world.enemy.cooldown + 20))
    actions = [jnp.asarray([[EAST, WEST, 2], [WEST, 3, 1], [7, 6, EAST], [8, 8, 8], [1, 2, 3]])]
    actions.append(actions[0][::-1])
    step = jax.jit(env.step_both)
    after, west, east, _ = step(jax.random.key(1), world, *actions)
    mirrored, mirrored_west, mirrored_east, _ = step(jax.random.key(1), exchanged(world), *reversed(actions))
    moved = np.abs(np.asarray(after.ally.x - world.ally.x))
    assert moved.max() > 0.5
    for one, other in ((after, exchanged(mirrored)), (west, mirrored_east), (east, mirrored_west)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), one, other)


# ------------------------------------------------------------------------------------------------ the duel


def test_home_and_away_change_sides(duel: Duel, step: Any) -> None:
    world, seen = duel.reset(jax.random.key(0), 4)
    west, east = duel.battle.observe(world), duel.battle.observe_enemies(world)
    assert seen.obs.shape == (4, 3, 30)
    np.testing.assert_array_equal(seen.obs, jnp.stack([west.obs[0], east.obs[1], east.obs[0], west.obs[1]]))
    # The home team walks forward, the away team stands: forward is to the other side, wherever the team is.
    actions = jnp.array([[EAST] * 3] * 2 + [[1] * 3] * 2)
    after, _, outcome = step(jax.random.key(0), world, actions)
    forward = np.asarray(after.ally.x - world.ally.x)
    assert (forward[:, 0] > 0.5).all()
    assert np.abs(forward[:, 1]).max() < 0.1
    backward = np.asarray(after.enemy.x - world.enemy.x)
    assert np.abs(backward[:, 0]).max() < 0.1
    assert (backward[:, 1] < -0.5).all()
    assert outcome.reward.tolist() == [0.0] * 4


def test_each_team_has_its_own_outcome(duel: Duel, step: Any) -> None:
    world, _ = duel.reset(jax.random.key(0), 4)
    # One shot ends both battles; the side in the west fires it.
    near = {"x": jnp.full((3, 2), 2.0), "y": jnp.zeros((3, 2)) + jnp.arange(3)[:, None]}
    world = world._replace(
        ally=world.ally._replace(x=-near["x"], y=near["y"]),
        enemy=world.enemy._replace(x=near["x"], y=near["y"], hp=jnp.zeros((3, 2)).at[1].set(5.0)),
    )
    west_acts, east_acts = [1 + 6, 1 + 6, 1 + 6], [0, 1, 0]
    actions = jnp.array([west_acts, east_acts, east_acts, west_acts])
    _, _, outcome = step(jax.random.key(0), world, actions)
    assert outcome.terminated.tolist() == [True] * 4
    assert outcome.metrics["battle_won"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert outcome.metrics["dead_allies"].tolist() == [0.0, 3.0, 3.0, 0.0]
    assert outcome.metrics["dead_enemies"].tolist() == [3.0, 0.0, 0.0, 3.0]
    assert (outcome.reward > 0).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map_name": "3s_vs_5z"}, "'3s_vs_5z', where 3 stalker meet 5 zealot.* Allowed: 3m, 8m, 25m, MMM, 2s3z"),
        ({"map_name": "3s_vs_3z"}, "where 3 stalker meet 3 zealot"),
        ({"map_name": "3m", "heuristic_ai": True}, "env_args.heuristic_ai: got True"),
    ],
)
def test_unfair_battles_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Duel(BattleArgs(**options))


# ------------------------------------------------------------------------------------------------ pairings


@pytest.mark.parametrize(("left", "right"), [(1, 1), (1, 5), (4, 6), (6, 4), (5, 5), (3, 7)])
def test_all_pairings_once_and_evenly(left: int, right: int) -> None:
    pairs = pairing_order(left, right)
    assert len({tuple(pair) for pair in pairs.tolist()}) == left * right == len(pairs)
    for column, number in ((0, left), (1, right)):
        stretch = pairs[: max(left, right), column]
        counts = np.bincount(stretch, minlength=number)
        assert counts.max() - counts.min() <= 1


def test_teams_meet_as_they_should(duel: Duel) -> None:
    players = contenders(duel.battle, "attack_nearest", "random", "stand")
    done: list[tuple[int, int]] = []
    results = versus(duel, players, players, 99, seed=1, progress=lambda *numbers: done.append(numbers))
    won, lost = results.won.mean(axis=2), results.lost.mean(axis=2)
    assert results.won.shape == (3, 3, 100), "rounded up, so that both sides are played equally often"
    assert results.west[0, 0].sum() == 50
    assert done == [(5, 9), (9, 9)]
    assert not (results.won & results.lost).any()
    assert won[0, 1] > 0.9
    assert lost[1, 0] > 0.9, "the pairing the other way round"
    assert won[2, 1] + lost[2, 1] < 0.1, "nobody comes"
    assert won[0, 0] + lost[0, 0] > 0.9, "two attacking teams fight to the end"
    # Against itself a team wins as often as it loses, within four standard errors; and so it does on either side.
    assert abs(won[0, 0] - lost[0, 0]) < 4 * np.sqrt(1 / 100)
    in_west = results.won[0, 0][results.west[0, 0]].mean()
    assert abs(in_west - 0.5) < 4 * np.sqrt(0.25 / 50)

    rows = {(row["left"], row["right"], row["metric"]): row for row in versus_rows(players, players, results)}
    for i, one in enumerate(players):
        for j, other in enumerate(players):
            shares = [rows[one.name, other.name, metric] for metric in ("won", "drawn", "lost")]
            assert sum(row["mean"] for row in shares) == pytest.approx(1)
            assert shares[0]["mean"] == won[i, j]
            by_side = [rows[one.name, other.name, metric] for metric in ("won_west", "won_east")]
            assert sum(row["mean"] for row in by_side) / 2 == pytest.approx(won[i, j])
            assert [row["episodes"] for row in by_side] == [50, 50]


def test_wilson_intervals() -> None:
    # Published values of the score interval.
    assert share_interval(0, 10) == pytest.approx((0.0, 0.0, 0.2775), abs=1e-4)
    assert share_interval(10, 10) == pytest.approx((1.0, 0.7225, 1.0), abs=1e-4)
    assert share_interval(81, 263) == pytest.approx((0.3080, 0.2553, 0.3662), abs=1e-4)


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pool(tmp_path_factory.mktemp("pools") / "three", "3m")


def make_pool(folder: Path, map_name: str) -> Path:
    config = resolve("iql", "sc2", {"env_args": {"map_name": map_name}, "rnn_hidden_dim": 16}).config
    env = make_env("sc2", **config.env_args)
    made = Pool.create(folder, "sc2", config.env_args, env.spec)
    for seed in (1, 2):
        made.add(tiny_agent(folder.parent / f"{folder.name}_{seed}", config, seed), "training")
    made.add_scripted("attack_nearest", "heldout")
    return folder


def test_the_command(pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert main(["versus", f"{pool}:attack_nearest", str(pool), "--episodes", "8", "-o", str(output)]) == 0
    with (output / "versus.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["left", "right", "metric", "mean", "low", "high", "episodes"]
    won = {row["right"]: row for row in rows if row["metric"] == "won"}
    assert sorted(won) == ["attack_nearest", "iql_s1", "iql_s2"]
    assert {row["episodes"] for row in won.values()} == {"8"}
    assert float(won["iql_s1"]["mean"]) > 0.8, "an untrained network is beaten"
    assert 0 < float(won["iql_s1"]["low"]) < float(won["iql_s1"]["mean"]) <= float(won["iql_s1"]["high"]) <= 1
    assert (output / "versus.png").stat().st_size > 1000
    shown = capsys.readouterr().out
    assert "sc2 3m: how often the left team won" in " ".join(shown.split())
    assert "won [95 %]" in shown


def test_bad_words_end_with_one_message(pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, unequal = make_pool(tmp_path / "other", "2s3z"), make_pool(tmp_path / "unequal", "3s_vs_5z")
    file = tmp_path / "file"
    file.write_text("")
    cases = [
        ([str(pool), "nobody"], "RIGHT: there is no 'nobody'. Expected the folder of a pool, POOL:member, a run"),
        ([f"{pool}:iql_s9", str(pool)], "Unknown member of"),
        ([str(pool), "nearest_food"], "Unknown script of sc2 (RIGHT) 'nearest_food'"),
        ([str(pool), str(other)], "RIGHT: plays sc2 2s3z, but the battle is sc2 3m"),
        ([str(unequal), str(unequal)], "'3s_vs_5z', where 3 stalker meet 5 zealot"),
        ([str(pool), str(pool), "--set", "test"], "Unknown set 'test'"),
        ([str(pool), str(pool), "--which", "first"], "Unknown agent (--which) 'first'"),
        ([str(pool), str(pool), "--env-config=foraging"], "--env-config: got 'foraging'"),
        ([str(pool), str(pool), "lr=3"], "lr: only options of the game can be set here"),
        ([str(pool), str(pool), "env_args.map_name=8m"], "LEFT: plays sc2 3m, but the battle is sc2 8m"),
        ([str(pool), str(pool), "env_args.mapname=8m"], "mapname"),
        ([str(pool), str(pool), "-o", str(file)], "is a file. Give a folder"),
        ([str(pool), str(pool), "--episodes", "0"], "--episodes"),
        ([str(pool)], "RIGHT"),
    ]
    for words, message in cases:
        assert main(["versus", *words]) == 2, words
        said = capsys.readouterr().err
        assert message in said, words
        assert said.startswith("error: ")
        assert said.count("\n") == 1


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versus", "--help"]) == 0
    assert "Example: omg versus POOL:qmix_s1 POOL:iql_s1" in " ".join(capsys.readouterr().out.split())
