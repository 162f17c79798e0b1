"""Agents on disk: what comes back is what was saved, what does not fit is refused; and how good an agent is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from helpers.cards import edit_card
from helpers.tiny import GAME
from omg.cli import main
from omg.config import Config, resolve
from omg.controllers.basic import BasicMAC
from omg.envs import Env, Observation, make_env
from omg.errors import UserError
from omg.evaluation import bootstrap_interval, play_team, statistics
from omg.learners import build_learner
from omg.modules.agents import AGENTS
from omg.modules.mixers import MIXERS
from omg.pools import AgentCard, Pool, load_agent, save_agent

BATTLE = {"map_name": "3m"}


def config(env: str = "foraging", env_args: dict[str, Any] | None = None, **changes: Any) -> Config:
    overrides = {
        "env_args": env_args or GAME,
        "rnn_hidden_dim": 16,
        "mixing_embed_dim": 4,
        "hypernet_embed": 4,
        **changes,
    }
    return resolve("iql", env, overrides, shared=overrides).config


def drawn_policy(settings: Config, env: Env, seed: int = 0) -> BasicMAC:
    """What the learner would save, with weights from NumPy: compiling their initialisation takes seconds."""
    learner = build_learner(settings, env.spec)
    shapes = jax.eval_shape(lambda: learner.tested(learner.init(jax.random.PRNGKey(0))))
    rng = np.random.default_rng(seed)

    def draw(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        values = rng.normal(0, 0.5, leaf.shape)
        # Counts and squares are never negative.
        return jnp.asarray(np.abs(values) if "statistics" in jax.tree_util.keystr(path) else values, leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def stored_agent(
    folder: Path, settings: Config, results: dict[str, float] | None = None, seed: int = 0
) -> tuple[Path, BasicMAC]:
    env = make_env(settings.env, **settings.env_args)
    policy = drawn_policy(settings, env, seed)
    card = AgentCard("iql", 3, 1234, settings.model_dump(), env.spec, results or {})
    return save_agent(folder, policy, card), policy


@pytest.fixture(scope="module")
def forager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_agent(tmp_path_factory.mktemp("agent") / "best", config(), {"test_return_mean": 0.1 + 0.2})[0]


@pytest.fixture(scope="module")
def soldier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_agent(tmp_path_factory.mktemp("agent") / "best", config("sc2", BATTLE))[0]


# ------------------------------------------------------------------------------------------------ save and load


@pytest.mark.parametrize(
    "changes",
    [
        *({"agent": agent} for agent in sorted(AGENTS)),
        *({"mixer": mixer} for mixer in sorted(MIXERS)),
        {"am_model": "base_am", "learner": "q_learner_4am"},
        {"am_model": "liam_am", "learner": "q_learner_4am", "agent": "dueling"},
        {"am_model": "omg_am", "learner": "omg_learner", "subgoal_dim": 5, "obs_all_last_actions": True},
    ],
    ids=lambda changes: "-".join(str(value) for value in changes.values()),
)
def test_a_loaded_agent_acts_as_the_saved_one(changes: dict[str, Any], tmp_path: Path):
    settings = config(**changes)
    folder, policy = stored_agent(tmp_path / "agent", settings, seed=1)
    loaded = load_agent(folder)
    env = make_env(settings.env, **settings.env_args)
    act, step = jax.jit(BasicMAC.act), jax.jit(env.step)
    world, seen = env.reset(jax.random.PRNGKey(4), 3)
    memory, carry, choices = policy.initial(3), None, set()
    for _ in range(env.spec.episode_limit):
        expected, memory, _ = act(policy, seen, memory, jax.random.PRNGKey(0), 0.0)
        actions, carry = loaded.act(seen.obs, seen.avail, carry)
        np.testing.assert_array_equal(actions, expected)
        assert np.take_along_axis(np.asarray(seen.avail), actions[..., None], -1).all()
        choices |= set(actions.ravel().tolist())
        world, seen, _ = step(jax.random.PRNGKey(0), world, expected)
    assert len(choices) > 1
    for one, other in zip(jax.tree.leaves(policy), jax.tree.leaves(loaded.policy), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "told",
    [
        {"am_model": "identity_am", "learner": "q_learner_4am"},
        {"am_model": "omg_am", "learner": "omg_learner", "omg_q_input": "oracle"},
    ],
    ids=["identity", "oracle"],
)
def test_bounds_are_no_players(told: dict[str, str], tmp_path: Path):
    """What is told the others' names or future can neither act for a user, nor play alone, nor be a team-mate."""
    settings = config(**told)
    folder, _ = stored_agent(tmp_path / "agent", settings)
    agent, spec = load_agent(folder), make_env("foraging", **GAME).spec
    pool = Pool.create(tmp_path / "pool", "foraging", GAME, spec)
    for use in (
        lambda: agent.act(np.zeros((2, 9)), np.ones((2, 6))),
        lambda: omg.evaluate(agent, episodes=4),
        lambda: pool.add(folder, "training"),
    ):
        with pytest.raises(
            UserError, match=r"iql: this agent is told what no player can know .* only be played in a team"
        ):
            use()
    assert len(Pool.open(pool.path)) == 0


def test_one_game_is_acted_in_like_many(forager: Path):
    agent = omg.load(forager)
    rng = np.random.default_rng(1)
    single, many = None, None
    for _ in range(4):
        obs = rng.normal(size=(1, 2, 9)).astype(np.float32)
        avail = rng.random((1, 2, 6)) < 0.5
        avail[..., 0] = True
        one, single = agent.act(obs[0], avail[0], single)
        all_of_them, many = agent.act(obs, avail, many)
        assert one.shape == (2,)
        assert all_of_them.shape == (1, 2)
        np.testing.assert_array_equal(one, all_of_them[0])
    # Lists and PyMARL's masks of zeros and ones are fine too.
    listed, _ = agent.act(obs[0].tolist(), avail[0].astype(int).tolist(), None)
    np.testing.assert_array_equal(listed, agent.act(obs[0], avail[0])[0])


def test_the_card_says_it_all(forager: Path, tmp_path: Path):
    moved = Path(shutil.copytree(forager, tmp_path / "elsewhere"))
    assert sorted(path.name for path in moved.iterdir()) == ["agent.json", "weights.safetensors"]
    card = json.loads((moved / "agent.json").read_text())
    assert (card["algorithm"], card["seed"], card["t_env"], card["format"]) == ("iql", 3, 1234, 2)
    assert (card["config"]["env"], card["config"]["env_args"]["rows"]) == ("foraging", 4)
    assert card["config"]["obs_is_state"] is False
    assert (card["spec"]["n_agents"], card["spec"]["obs_dim"], card["spec"]["n_actions"]) == (2, 9, 6)
    agent = omg.load(moved)
    assert agent.config == config()
    assert agent.card.results == {"test_return_mean": 0.1 + 0.2}
    assert agent.where == "foraging 4x4-2p-1f"
    assert agent.spec == make_env("foraging", **GAME).spec


def test_the_agent_of_a_run_folder(forager: Path, tmp_path: Path):
    def place(name: str, seed: int) -> None:
        folder = Path(shutil.copytree(forager, tmp_path / "run" / "agents" / name))
        edit_card(folder, lambda card: card.update(seed=seed))

    place("seed_10/last", 10)
    assert omg.load(tmp_path / "run").card.seed == 10
    place("seed_2/last", 2)
    assert omg.load(tmp_path / "run").card.seed == 2
    place("seed_2/best", 22)
    assert omg.load(tmp_path / "run").card.seed == 22
    assert omg.load(tmp_path / "run" / "agents" / "seed_10").card.seed == 10
    assert omg.load(str(tmp_path / "run" / "agents" / "seed_2" / "last")).card.seed == 2
    # Killed while the best agent was being replaced.
    best = tmp_path / "run" / "agents" / "seed_2" / "best"
    best.rename(best.with_name(".old-best"))
    assert omg.load(tmp_path / "run").card.seed == 22


def test_an_agent_is_replaced(forager: Path, tmp_path: Path):
    folder, _ = stored_agent(tmp_path / "best", config(rnn_hidden_dim=8))
    stored_agent(folder, config())
    assert load_agent(folder).config.rnn_hidden_dim == 16
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


# ------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"obs": (2, 8)}, "obs: got shape (2, 8), but this agent (foraging 4x4-2p-1f) expects (2, 9)."),
        ({"obs": (3, 3, 9)}, "obs: got shape (3, 3, 9), but this agent (foraging 4x4-2p-1f) expects (3, 2, 9)"),
        ({"obs": (9,)}, "obs: got shape (9,), but this agent (foraging 4x4-2p-1f) expects (2, 9)."),
        ({"obs": (1, 1, 2, 9)}, "obs: got shape (1, 1, 2, 9), but this agent (foraging 4x4-2p-1f) expects (2, 9)."),
        ({"avail": (2, 5)}, "avail: got shape (2, 5), but this agent (foraging 4x4-2p-1f) expects (2, 6)."),
        ({"obs": (4, 2, 9), "avail": (3, 2, 6)}, "avail: got shape (3, 2, 6), but this agent (foraging 4x4-2p-1f)"),
        ({"state": (7,)}, "state: got shape (7,), but this agent (foraging 4x4-2p-1f) expects (9,)."),
        ({"carry": 5}, "carry: got shape (5, 2, 16), but obs is of 1 game(s)"),
    ],
)
def test_wrong_shapes_are_refused(forager: Path, given: dict[str, Any], message: str):
    agent = omg.load(forager)
    arguments = {"obs": np.zeros(given.get("obs", (2, 9))), "avail": np.ones(given.get("avail", (2, 6)))}
    if "state" in given:
        arguments["state"] = np.zeros(given["state"])
    if "carry" in given:
        arguments["carry"] = agent.initial(given["carry"])
    with pytest.raises(UserError) as caught:
        agent.act(**arguments)
    assert message in str(caught.value)


def test_an_agent_that_sees_the_state_needs_it(tmp_path: Path):
    folder, policy = stored_agent(tmp_path / "agent", config("sc2", BATTLE, obs_is_state=True))
    agent = load_agent(folder)
    spec = agent.spec
    assert (spec.obs_dim, spec.state_dim) == (30, 48)
    rng = np.random.default_rng(0)
    obs, state = rng.normal(size=(5, 3, 30)), rng.normal(size=(5, 48))
    avail = np.ones((5, 3, spec.n_actions), bool)
    with pytest.raises(
        UserError, match="state: this agent was trained with obs_is_state=True and needs the global state"
    ):
        agent.act(obs, avail)
    actions, _ = agent.act(obs, avail, state=state)
    seen = Observation(jnp.asarray(obs), jnp.asarray(state, jnp.float32), jnp.asarray(avail))
    expected, _, _ = jax.jit(BasicMAC.act)(policy, seen, policy.initial(5), jax.random.PRNGKey(0), 0.0)
    np.testing.assert_array_equal(actions, expected)
    np.testing.assert_array_equal(actions, agent.act(-obs, avail, state=state)[0])
    assert (actions != agent.act(obs, avail, state=-state)[0]).any()


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_agent(folder)
    return str(caught.value)


def test_missing_agents_are_refused(tmp_path: Path):
    assert "there is no such folder. Expected a run folder or an agent folder" in refusal(tmp_path / "nowhere")
    assert "there is no agent in it" in refusal(tmp_path)


def test_damaged_agents_are_refused(forager: Path, tmp_path: Path):
    def damaged(name: str, damage: Callable[[Path], object]) -> str:
        folder = Path(shutil.copytree(forager, tmp_path / name))
        damage(folder)
        return refusal(folder)

    def flip(folder: Path) -> None:
        data = bytearray((folder / "weights.safetensors").read_bytes())
        data[-1] ^= 1
        (folder / "weights.safetensors").write_bytes(data)

    for name, damage, reason in (
        ("flipped", flip, "its checksum does not match its card"),
        ("cut", lambda folder: os.truncate(folder / "weights.safetensors", 100), "its header claims"),
        ("lost", lambda folder: (folder / "weights.safetensors").unlink(), "No such file"),
    ):
        message = damaged(name, damage)
        assert "weights.safetensors is damaged: " in message
        assert reason in message
    for name, text in (("half", '{"format": 1, '), ("empty", "{}"), ("list", "[]")):
        write = partial(Path.write_text, data=text)
        assert "agent.json is damaged" in damaged(name, lambda folder, write=write: write(folder / "agent.json"))
    future = damaged("future", lambda folder: edit_card(folder, lambda card: card.update(format=7)))
    assert "agent.json has format 7; this version of omg reads formats 1 and 2" in future


def test_weights_of_another_setting_are_refused_by_its_name(soldier: Path, tmp_path: Path):
    def changed(**settings: Any) -> str:
        name = "-".join(settings)
        folder = Path(shutil.copytree(soldier, tmp_path / name))
        edit_card(folder, lambda card: card["config"].update(settings))
        return refusal(folder)

    message = changed(obs_is_state=True)
    assert "'agent.fc1.weight' has shape (42, 16), expected (60, 16)" in message
    assert "do not fit sc2 3m with obs_is_state=True" in message
    assert message.endswith("They were made with obs_is_state=False.")
    message = changed(obs_last_action=False)
    assert "has shape (42, 16), expected (33, 16)" in message
    assert message.endswith("They were made with obs_last_action=True.")
    assert "has shape (42, 16), expected (42, 32)" in changed(rnn_hidden_dim=32)
    assert "'agent.seats.fc1.weight' is missing" in changed(agent="idv_rnn")
    message = changed(env_args={"map_name": "8m"})
    assert "made for another game than its env_args describe (sc2 8m)" in message
    for part in ("scenario 3m (now 8m)", "n_agents 3 (now 8)", "obs_dim 30 (now 80)", "state_dim 48 (now 168)"):
        assert part in message
    assert "Unknown key 'no_such_key'" in changed(no_such_key=1)
    assert "Unknown map (env_args.map_name) '9m'" in changed(name="x", env_args={"map_name": "9m"})


# ------------------------------------------------------------------------------------------------ evaluation


def slow_interval(values: np.ndarray, level: float, draws: int, seed: int) -> tuple[float, float]:
    """Resamples one value after the other."""
    rng = np.random.default_rng(seed)
    means = sorted(sum(values[rng.integers(0, len(values))] for _ in values) / len(values) for _ in range(draws))

    def quantile(share: float) -> float:
        place = share * (draws - 1)
        below = int(place)
        above = min(below + 1, draws - 1)
        return float(means[below] + (place - below) * (means[above] - means[below]))

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


@pytest.mark.parametrize(("size", "level", "draws"), [(7, 0.95, 200), (30, 0.5, 101), (1, 0.95, 10)])
def test_bootstrap_interval(size: int, level: float, draws: int, monkeypatch: pytest.MonkeyPatch):
    values = np.random.default_rng(size).normal(3.0, 2.0, size)
    expected = slow_interval(values, level, draws, seed=4)
    assert bootstrap_interval(values, level, draws, seed=4) == pytest.approx(expected)
    monkeypatch.setattr(statistics, "_NUMBERS_AT_ONCE", 50)
    assert bootstrap_interval(values, level, draws, seed=4) == pytest.approx(expected)


def test_bootstrap_interval_is_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(5.0, 2.0, 400)
    low, high = bootstrap_interval(values)
    error = values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)
    assert bootstrap_interval(np.full(10, 0.25)) == (0.25, 0.25)


def test_evaluation_is_a_table_of_means_and_intervals(forager: Path):
    agent = omg.load(forager)
    table = omg.evaluate(agent, episodes=16, seed=3)
    assert table.columns == ["metric", "mean", "std", "low", "high", "episodes"]
    assert table.column("metric") == ["return", "ep_length", "score", "foods_left"]
    assert table.column("episodes") == [16] * 4
    for row in table:
        assert row["low"] <= row["mean"] <= row["high"]
        assert row["std"] >= 0
    by_name = {row["metric"]: row for row in table}
    assert 1 <= by_name["ep_length"]["mean"] <= 8
    assert 0 <= by_name["foods_left"]["mean"] <= 1
    # All the food of a game is worth 1, so a return is the share of games in which it was taken.
    assert by_name["return"]["mean"] == pytest.approx(1 - by_name["foods_left"]["mean"], abs=1e-6)
    assert list(omg.evaluate(agent, episodes=16, seed=3)) == list(table)
    assert list(omg.evaluate(forager, episodes=16, seed=3)) == list(table)
    assert list(omg.evaluate(agent, episodes=16, seed=4)) != list(table)
    exploring = omg.evaluate(agent, episodes=16, seed=3, greedy=False)
    assert list(exploring) == play_team(agent, 16, seed=3, epsilon=0.05)
    assert play_team(agent, 16, seed=3, epsilon=1.0) != list(table)
    with pytest.raises(UserError, match="episodes: got 0"):
        omg.evaluate(agent, episodes=0)


def test_the_evaluate_command(forager: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["evaluate", str(forager), "--episodes", "16", "--seed", "3", "--csv", str(tmp_path / "table.csv")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    table = omg.evaluate(forager, episodes=16, seed=3)
    header, *rows = (tmp_path / "table.csv").read_text().splitlines()
    assert header == "metric,mean,std,low,high,episodes"
    for row, line in zip(table, rows, strict=True):
        assert line == ",".join(str(value) for value in row.values())
        assert row["metric"] in shown
    assert main([*words[:-1], str(tmp_path / "no" / "such" / "table.csv")]) == 2
    assert "--csv: cannot write" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
