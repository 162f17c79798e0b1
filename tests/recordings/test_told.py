"""What players tell while they are recorded: what learning would compute, for agents, teams and planners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from helpers import pool_members
from helpers.planners import GAME as BOARD
from helpers.tiny import SETTINGS, tiny_config
from omg import api
from omg.components import EpisodeBatch
from omg.config import Config, resolve
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.hop import HOPMac
from omg.controllers.telling import telling_policy
from omg.envs import make_env
from omg.errors import UserError
from omg.modules.opponent_models.liam import LIAMModel
from omg.modules.opponent_models.naive import NaiveModel
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent, AgentCard, Pool
from omg.recordings import Recording
from omg.recordings.playing import agent_alone, play

GAME: dict[str, Any] = {"rows": 4, "cols": 4, "players": 3, "max_food": 1, "episode_limit": 6}


def agent_of(algorithm: str, game: str = "foraging", options: dict[str, Any] = GAME, **settings: Any) -> Agent:
    """An agent with new weights."""
    given = {**SETTINGS, "env_args": options, **settings}
    config: Config = resolve(algorithm, game, given, shared=given).config
    env = make_env(game, **options)
    shapes = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
    rng = np.random.default_rng(3)
    policy = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), shapes)
    # Counts of views are no weights; of none, views are what they are.
    policy = jax.tree.map(lambda leaf: leaf, policy)
    card = AgentCard(config.name, 1, 100, config.model_dump(), env.spec)
    return Agent(policy.tested(), config, env, card)


def batch_of(game: Recording) -> EpisodeBatch:
    """One game as learners have it; its last action is no action."""
    actions = np.concatenate([game["actions"], np.zeros_like(game["actions"][:1])])
    slots = len(actions)
    return EpisodeBatch(
        obs=jnp.asarray(game["obs"])[None],
        state=jnp.asarray(game["state"])[None],
        avail=jnp.asarray(game["avail"])[None],
        actions=jnp.asarray(actions, jnp.int32)[None],
        reward=jnp.zeros((1, slots)),
        terminated=jnp.zeros((1, slots), bool),
        filled=jnp.ones((1, slots), bool),
        seat=None,
        records={},
    )


def unrolled(mac: BasicMAC, game: Recording) -> tuple[np.ndarray, Any, np.ndarray | None]:
    """Values, inference and features of a whole game, as learning computes them."""
    views = mac.reading.episodes(batch_of(game))
    inference = features = None
    if mac.opponent_model is not None:
        inference = mac.opponent_model.unroll(views.model_inputs())
        features = mac.opponent_model.features(inference, None)
    values, _ = views.run(mac.agent, mac.reading.features(mac.opponent_model, views, features))
    return np.asarray(values[0]), inference, None if features is None else np.asarray(features[0])


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("iql", {}),
        ("ippo", {}),
        ("iql_liam", {}),
        ("iql_am", {}),
        ("iql_am", {"am_feature": "probabilities"}),
        ("iql_omg", {}),
        ("iql_omg", {"obs_is_state": True}),
        ("iql_omg", {"subgoal_of": "others"}),
    ],
)
def test_values_and_beliefs_are_those_of_learning(algorithm: str, settings: dict[str, Any]) -> None:
    agent = agent_of(algorithm, **settings)
    mac = agent.policy
    game = play(agent_alone(agent), 2, 4, views=True)[1]
    values, inference, features = unrolled(mac, game)
    np.testing.assert_allclose(game["values"], values, atol=2e-4)
    assert {seat["values"] for seat in game.header["seats"]} == {"logits" if algorithm == "ippo" else "q"}
    # The best legal action by the recorded values is what was done.
    best = np.where(game["avail"], game["values"], -np.inf).argmax(axis=-1)[:-1]
    np.testing.assert_array_equal(game["actions"], best)
    seats = [belief["seat"] for belief in game.beliefs]
    model = mac.opponent_model
    if model is None:
        assert game.beliefs == []
    elif isinstance(model, LIAMModel | NaiveModel):
        assert seats == [0, 1, 2]
        for seat, belief in enumerate(game.beliefs):
            assert (belief["kind"], belief["seats"]) == ("actions", [(seat + 1) % 3, (seat + 2) % 3])
            assert belief["source"] == agent.config.am_model
            if isinstance(model, NaiveModel):
                logits = inference.logits[0, :, seat]
            else:
                hidden = jax.nn.relu(model.decode(features[:, seat]))
                logits = model.others_actions(hidden).reshape(len(hidden), 2, -1)
            np.testing.assert_allclose(belief["columns"]["chances"], jax.nn.softmax(logits), atol=1e-4)
    else:
        assert isinstance(model, SubgoalModel)
        assert seats == [0, 1, 2]
        decoded = np.asarray(model.prior.decode(jnp.asarray(features)))
        for seat, belief in enumerate(game.beliefs):
            assert (belief["kind"], belief["horizon"]) == ("places", agent.config.omg_horizon)
            others = [other for other in range(3) if other != seat]
            assert belief["pieces"] == others
            if agent.config.obs_is_state:
                rows = decoded[:, seat, 3:].reshape(-1, 3, 3)[:, others]
                np.testing.assert_allclose(belief["columns"]["x"][:-1], rows[:-1, :, 1] + 0.5, atol=1e-3)
                np.testing.assert_allclose(belief["columns"]["y"][:-1], rows[:-1, :, 0] + 0.5, atol=1e-3)


def test_recording_changes_no_game() -> None:
    agent = agent_of("iql_omg")
    env, key = agent.env, jax.random.PRNGKey(2)
    world, seen = env.reset(key, 4)
    plain, telling = agent.policy, telling_policy(agent.policy)
    memories = [plain.initial(4), telling.initial(4)]
    for number in range(4):
        (one, first, _), (other, second, record) = (
            policy.act(seen, memory, jax.random.fold_in(key, number), 0.3)
            for policy, memory in zip((plain, telling), memories, strict=True)
        )
        np.testing.assert_array_equal(one, other)
        assert {"told.values", "told.features"} <= set(record)
        memories = [first, second]
        world, seen, _ = env.step(key, world, one)


PLANNERS = [("stag_hunt", "hop"), ("snowdrift", "hop"), ("stag_hunt", "hop_plus"), ("snowdrift", "direct_om")]


@pytest.mark.parametrize(("name", "algorithm"), PLANNERS)
def test_planners_tell_what_they_searched_and_believe(name: str, algorithm: str) -> None:
    options = BOARD if name == "stag_hunt" else {"size": 4, "players": 3, "drifts": 2, "episode_limit": 6}
    codes = {"omg_inference": "cvae"} if algorithm == "hop_plus" else {}
    agent = agent_of(algorithm, name, options, hop_simulations=6, hop_samples=2, subgoal_dim=4, **codes)
    assert isinstance(agent.policy, HOPMac)
    game = Recording.from_bytes(play(agent_alone(agent), 2, 1, views=True)[0].to_bytes())
    kinds = [belief["kind"] for belief in game.beliefs if belief["seat"] == 1]
    assert kinds == {"hop": ["search", "goals"], "hop_plus": ["search", "places"], "direct_om": ["search"]}[algorithm]
    piece = game.header["seats"][1]["piece"]
    there = game["there"][:, piece].copy()
    there[-1] = False
    search, *rest = (belief for belief in game.beliefs if belief["seat"] == 1)
    # What its search found are returns, whatever its networks learn.
    assert {seat["values"] for seat in game.header["seats"]} == {"q"}
    columns = search["columns"]
    np.testing.assert_allclose(columns["visits"][there].sum(axis=-1), 1.0, atol=1e-4)
    np.testing.assert_allclose(columns["chances"][there].sum(axis=-1), 1.0, atol=1e-4)
    assert np.isnan(columns["visits"][~there]).all()
    # A tested planner takes the action of the best value, what was never tried counting as 0.
    worth = np.where(game["avail"][:, 1], np.nan_to_num(columns["values"], nan=0.0), -1e9)
    for t in np.flatnonzero(there):
        assert worth[t, game["actions"][t, 1]] == worth[t].max()
        assert np.isfinite(columns["values"][t][columns["visits"][t] > 0]).all()
    if algorithm == "hop":
        (goals,) = rest
        assert goals["seats"] == [0, 2]
        chances = goals["columns"]["chances"]
        assert (chances[there] >= 0).all()
        assert (chances[there].sum(axis=-1) <= 1 + 1e-4).all()
        np.testing.assert_allclose(chances[0].sum(axis=-1), 1.0, atol=1e-4)
        if name == "snowdrift":
            assert [goal["name"] for goal in goals["goals"]] == ["drift 1", "drift 2", "none"]
            drifts = np.flatnonzero([look["name"] == "drift" for look in game.header["pieces"]])
            shown = drifts[game["there"][0, drifts]]
            expected = sorted(zip(game["x"][0, shown], game["y"][0, shown], strict=True))
            found = sorted(zip(*(goals["columns"][axis][0, :2] for axis in "xy"), strict=True))
            np.testing.assert_allclose(found, expected)
        else:
            assert [goal["name"] for goal in goals["goals"]] == ["stag", "hare"]
    if algorithm == "hop_plus":
        (places,) = rest
        assert places["pieces"] == [game.header["seats"][seat]["piece"] for seat in (0, 2)]
        assert places["horizon"] == agent.config.omg_horizon


def test_places_are_the_means_of_inferred_cells() -> None:
    """HOP+ that infers cells says where each co-player will be, in the order of seats."""
    agent = agent_of("hop_plus", "stag_hunt", BOARD, hop_simulations=4, hop_samples=1, omg_inference="cells")
    (told,) = agent.policy.inference.expects({"infer_cells": jnp.eye(16)[jnp.array([[3, 8]])].reshape(1, 1, 32)}, None)
    np.testing.assert_allclose(np.asarray(told.x), [[[3.5, 0.5]]], atol=1e-6)
    np.testing.assert_allclose(np.asarray(told.y), [[[0.5, 2.5]]], atol=1e-6)
    game = play(agent_alone(agent), 1, 1, views=False)[0]
    beliefs = [belief for belief in game.beliefs if belief["kind"] == "places"]
    assert [belief["seat"] for belief in beliefs] == [0, 1, 2]
    awake = game["there"][:-1, game.header["seats"][0]["piece"]]
    assert np.isfinite(beliefs[0]["columns"]["x"][:-1][awake]).all()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    folder = tmp_path_factory.mktemp("pool")
    env = pool_members.ENV
    made = Pool.create(folder / "pool", "foraging", dict(pool_members.GAME), env.spec)
    for number, algorithm in enumerate(("iql", "vdn", "iql_am")):
        agent = pool_members.agent(folder / algorithm, pool_members.settings(algorithm), seed=number + 1)
        made.add(agent, "heldout", name=f"{algorithm}_s{number + 1}")
    made.add_scripted("random", "heldout")
    return Pool.open(folder / "pool")


def test_teams_of_a_pool_tell_as_their_players_do(pool: Pool) -> None:
    """A player's values are the same wherever it sits: those of the player itself along the recorded game."""
    games = omg.record(team="1iql_am1pool", pool=pool.path, episodes=6, seed=2, views=True)
    labels = set()
    for game in games:
        for seat, sitting in enumerate(game.header["seats"]):
            labels.add(sitting["label"])
            assert not sitting["learns"]
            if sitting["label"] == "random":
                assert sitting["values"] is None
                assert np.isnan(game["values"][:, seat]).all()
                continue
            mac = pool.load(sitting["label"]).policy
            values = unrolled(mac, game)[0][:, seat]
            np.testing.assert_allclose(game["values"][:, seat], values, atol=2e-4)
        modelling = [seat for seat, one in enumerate(game.header["seats"]) if one["algorithm"] == "iql_am"]
        assert [belief["seat"] for belief in game.beliefs] == modelling
        assert modelling
    assert {"iql_am_s3", "random"} < labels
    assert "own_return" not in games[0].header["facts"]
    assert games[0].header["algorithm"] == "1iql_am1pool"


def test_an_agent_is_recorded_beside_players_of_a_pool(pool: Pool, tmp_path: Path) -> None:
    folder = pool_members.agent(tmp_path / "agent", pool_members.settings("iql"), seed=9)
    games = omg.record(folder, pool=pool.path, episodes=4, views=True)
    mac = omg.load(folder).policy
    seats = set()
    for game in games:
        (seat,) = (number for number, sitting in enumerate(game.header["seats"]) if sitting["learns"])
        seats.add(seat)
        np.testing.assert_allclose(game["values"][:, seat], unrolled(mac, game)[0][:, seat], atol=2e-4)
    assert seats == {0, 1}
    own = omg.record(folder, pool=pool.path, team="1vdn1iql", episodes=2)[0]
    assert sorted(sitting["algorithm"] for sitting in own.header["seats"]) == ["iql", "vdn"]
    assert [sitting["learns"] for sitting in own.header["seats"] if sitting["algorithm"] == "iql"] == [True]
    member = omg.record(f"{pool.path}:vdn_s2", episodes=1)[0]
    assert [sitting["algorithm"] for sitting in member.header["seats"]] == ["vdn", "vdn"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "SOURCE: missing"),
        ({"team": "2iql"}, "--team: its players come from a pool"),
        ({"source": "random"}, "--env-config=ENV"),
        ({"source": "random", "env": "forage"}, "forage"),
        ({"source": "nowhere"}, "nowhere"),
        ({"team": "3iql", "pool": "POOL"}, "3 seats"),
        ({"team": "1iql1qmix", "pool": "POOL"}, "no members of qmix"),
        ({"pool": "POOL"}, "SOURCE: missing"),
        ({"source": "POOL:iql_s1", "pool": "POOL", "team": "2vdn"}, "expected once"),
        ({"source": "POOL:random", "pool": "POOL"}, "which has all seats"),
        ({"source": "POOL:nobody"}, "nobody"),
        ({"source": "POOL:iql_s1", "env": "foraging"}, "only scripts need a game"),
    ],
)
def test_who_cannot_play_is_refused(pool: Pool, words: dict[str, str], said: str) -> None:
    given: dict[str, Any] = {key: value.replace("POOL", str(pool.path)) for key, value in words.items()}
    with pytest.raises(UserError, match=said):
        omg.record(**given)


def test_a_run_records_games_of_its_tests(tmp_path: Path) -> None:
    settings = {"save_replay": True, "replay_games": 2, "replay_tests": "all", "test_nepisode": 4}
    config = tiny_config(tmp_path, t_max=60, test_interval=30, **settings)
    run = api.train_config(config, quiet=True)
    folder = run.folder / "replays"
    tests = sorted(path.name for path in folder.iterdir())
    assert tests[-1].startswith("t_")
    assert tests[0] == "last"
    assert len(tests) >= 3
    assert sorted(path.suffix for path in (folder / "last").iterdir()) == [".html", ".html", ".omgrec", ".omgrec"]
    steps = []
    for test in tests[1:]:
        games = [Recording.read(path) for path in sorted((folder / test).iterdir())]
        assert [game.header["number"] for game in games] == [1, 2]
        assert {game.header["t_env"] for game in games} == {int(test.removeprefix("t_"))}
        steps.append(games[0].header["t_env"])
        assert all(np.isfinite(game["values"]).all() for game in games)
    assert steps == sorted(set(steps))
    last = Recording.read(folder / "last" / f"seed_{config.seed}_game_01.omgrec")
    assert last.to_bytes() == Recording.read(folder / tests[-1] / f"seed_{config.seed}_game_01.omgrec").to_bytes()
    # What the test said of its games is what they hold.
    assert last.header["facts"]["return"] == pytest.approx(float(last["rewards"].sum()), abs=1e-5)
