"""Few-shot adaptation: teams as data, what an agent brings along, the tables, the command and the pipeline's stage."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from helpers.plans import PLAN
from helpers.refusing import refusal
from helpers.tiny import tiny_agent
from omg.cli import main
from omg.cli.adapt import read_agents
from omg.components.files import name_leaves
from omg.config import Config, adjust, resolve
from omg.controllers.scripted import build_scripted
from omg.envs import make_env
from omg.experiments.adaptation import Adaptation, Meeting, Rules, adapt, meeting
from omg.experiments.adaptation.drawing import adaptation_table, plot_adaptation, scale_words
from omg.experiments.adaptation.schooling import Schooling, fit, of_seat
from omg.experiments.adaptation.scores import adaptation_curve, adaptation_summary, courses
from omg.experiments.adaptation.setup import Entrant, adaptation_config, gather_teams, load_entrant
from omg.experiments.ledger import Ledger
from omg.experiments.pipeline import plan_tasks
from omg.experiments.plan import parse_plan, read_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.stages import Workplace
from omg.learners import build_learner
from omg.pools import Agent, AgentCard
from omg.training.checkpoint import newest_learner, save_checkpoint
from omg.training.encounters import EncounterProgram, build_teams
from omg.training.state import RunState

GAME: dict[str, Any] = {"size": 3, "players": 3, "hares": 3, "stags": 1, "blocks": 0, "episode_limit": 8}
SETTINGS: dict[str, Any] = {
    "agent": "mlp",
    "rnn_hidden_dim": 8,
    "mlp_second_dim": 8,
    "critic_hidden_dim": 8,
    "ppo_minibatches": 1,
    "ppo_epochs": 2,
    "use_cuda": False,
    "lr": 0.05,
}
SCRIPTS = ("nearest_stag", "nearest_hare", "random")


def small_config(algorithm: str = "ppo", **changes: Any) -> Config:
    overrides = {"env_args": GAME, **({} if algorithm == "hop" else SETTINGS), **changes}
    return adjust(resolve(algorithm, "stag_hunt", overrides, shared=overrides).config, has_gpu=False)[0]


# ------------------------------------------------------------------------------------------------- teams as data


def test_every_team_has_the_players_that_it_needs() -> None:
    env = make_env("stag_hunt", **GAME)
    scripts = [build_scripted(name, env) for name in SCRIPTS]
    learned = [{"weight": np.full(2, float(number), np.float32)} for number in range(3)]
    mates = np.asarray([[0, 0], [2, 1], [3, 2], [4, 5]])
    teams = build_teams(("a", "b", "c", "d"), mates, [*learned, *scripts], seat=1)
    # Two places for learned players, of whom one team needs two, and one for each script.
    assert teams.squads.numbers == (2, 1, 1, 1)
    np.testing.assert_array_equal(teams.players, [[0, -1, 0], [1, -1, 0], [0, -1, 2], [4, -1, 3]])
    assert teams.most == (2, 1, 1, 1, 1)
    weights = teams.squads.kinds[0]["weight"]
    np.testing.assert_array_equal(weights[..., 0], [[0, 0], [2, 1], [2, 0], [0, 0]])


def test_co_players_fill_all_other_seats_and_can_be_mixed() -> None:
    env = make_env("stag_hunt", **GAME)
    teams = gather_teams(env, None, "heldout", [*SCRIPTS, "random"], mixtures=True)
    assert teams.names[:3] == SCRIPTS
    assert len(teams.names) == 6
    assert all("+" in name for name in teams.names[3:])
    np.testing.assert_array_equal(teams.players[:3], [[-1, 0, 0], [-1, 1, 1], [-1, 2, 2]])
    assert refusal(lambda: gather_teams(env, None, "heldout", [])).startswith("co-players: there are none.")
    assert "1 co-player(s)" in refusal(lambda: gather_teams(env, None, "heldout", ["random"], mixtures=True))
    assert "Unknown script 'nearest_stak'" in refusal(lambda: gather_teams(env, None, "heldout", ["nearest_stak"]))


# -------------------------------------------------------------------------------------- what an agent brings along


def untold(config: Config, seed: int = 0) -> Schooling:
    """An agent with random weights and all that its learner would have, without compiling anything."""
    env = make_env(config.env, **config.env_args)
    shapes = jax.eval_shape(build_learner(config, env.spec).init, jax.random.PRNGKey(0))
    rng = np.random.default_rng(seed)
    state = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), shapes)
    card = AgentCard(config.name, seed, 0, config.model_dump(), env.spec)
    return Schooling(Agent(state.mac, config, env, card), name_leaves(state))


def shapes_in_a_team(config: Config, **settings: Any) -> Any:
    env = make_env(config.env, **config.env_args)
    teams = gather_teams(env, None, "heldout", ["random"])
    program = EncounterProgram(adaptation_config(config, 3, 4, 8, settings), teams)
    return jax.eval_shape(program.learner.init, jax.random.PRNGKey(0))


def test_a_planner_with_networks_for_every_seat_becomes_the_player_of_one() -> None:
    config = small_config("hop", hop_hidden_dim=8, hop_simulations=2)
    brought = untold(config)
    shapes = shapes_in_a_team(config, hop_belief_between=False)
    found = fit(shapes, brought, seat=2)
    # Nothing starts anew: the optimiser's memory of that seat's networks comes along, too.
    assert set(found) == set(name_leaves(shapes))
    assert brought.learner is not None
    for name in ("mac.prior", "mac.minds.own.trunk.kernels.0", "opt_state.0.mu.others.trunk.kernels.0"):
        assert len(brought.learner[name]) == 3
        np.testing.assert_array_equal(found[name], brought.learner[name][2:3])
    np.testing.assert_array_equal(found["updates"], brought.learner["updates"])


def test_what_does_not_fit_starts_anew_but_the_player_must_fit() -> None:
    config = small_config()
    brought = untold(config)
    shapes = shapes_in_a_team(config, critic_hidden_dim=5)
    fields = {name.partition(".")[0] for name in fit(shapes, brought, seat=0)}
    assert fields == {"mac", "opt_state", "model_opt_state", "scale", "updates"}
    # Where gradients come from fewer games, what the optimisers measured in training is no measure.
    anew = {name.partition(".")[0] for name in fit(shapes, brought, seat=0, optimisers=False)}
    assert anew == {"mac", "scale", "updates"}
    only_agent = {name.partition(".")[0] for name in fit(shapes, Schooling(brought.agent), seat=0)}
    assert only_agent == {"mac"}
    message = refusal(lambda: fit(shapes_in_a_team(config, rnn_hidden_dim=9), brought, seat=0))
    assert message.startswith("ppo: the agent cannot go on with these settings: 'mac.agent.")
    assert of_seat(np.zeros((3, 2)), (1, 5), 0) is None


@pytest.mark.parametrize(("algorithm", "goes_on"), [("hop", True), ("ppo", False)])
def test_optimisers_go_on_where_gradients_are_as_they_were(
    algorithm: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AskedError(Exception):
        pass

    def ask(*_: Any, optimisers: bool) -> Any:
        raise AskedError(optimisers)

    monkeypatch.setattr(meeting, "schooled_state", ask)
    config = small_config(algorithm, hop_hidden_dim=8, hop_simulations=2)
    env = make_env(config.env, **config.env_args)
    met = Meeting(config, env, gather_teams(env, None, "heldout", ["random"]), Rules(4, 4), 1)
    with pytest.raises(AskedError) as asked:
        met.agent_rows(Entrant("a", (untold(config),), {}))
    assert asked.value.args == (goes_on,)


def test_the_learner_is_read_from_the_newest_checkpoint(tmp_path: Path) -> None:
    learner = {"mac": np.arange(6.0).reshape(2, 3), "updates": np.asarray([4, 5])}
    for episodes in (1, 2):
        counters: Any = (np.zeros((2, 2), np.uint32), np.zeros(2, np.int32), np.int32(episodes), np.int32(0))
        one = RunState(
            {name: value + episodes for name, value in learner.items()}, {"obs": np.zeros((2, 7))}, *counters
        )
        save_checkpoint(tmp_path, one, {}, with_buffer=False, keep=2)
    found = newest_learner(tmp_path, 1)
    assert found is not None
    assert sorted(found) == ["mac", "updates"]
    np.testing.assert_array_equal(found["mac"], [5, 6, 7])
    assert newest_learner(tmp_path / "nothing", 0) is None


def test_schedules_stand_where_they_end_and_learning_begins_at_once() -> None:
    config = adaptation_config(small_config("iql", agent="rnn"), 3, 4, 60, {"lr": 0.25})
    assert (config.epsilon_start, config.epsilon_finish) == (0.05, 0.05)
    assert (config.batch_size_run, config.batch_size, config.buffer_size) == (4, 4, 60)
    assert (config.team, config.train_alg, config.is_agent_shift, config.lr) == ("2pool1iql", "iql", False, 0.25)
    assert adaptation_config(small_config(), 3, 5, 10, {}).ppo_minibatches == 1
    assert adaptation_config(small_config(), 3, 5, 10, {"ppo_minibatches": 5}).ppo_minibatches == 5


# ------------------------------------------------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_agent(tmp_path_factory.mktemp("agents") / "small", small_config(), 3)


@pytest.fixture(scope="module")
def found(agent: Path) -> Adaptation:
    """Learning at a rate at which a few rounds change everything, beside the same agent that does not learn."""
    rules = Rules(episodes=7, games=2, seeds=2, seed=5, seat=0)
    learning = adapt({"learns": agent}, players=["nearest_stag", "random"], rules=rules)
    env = make_env("stag_hunt", **GAME)
    met = Meeting(small_config(), env, gather_teams(env, None, "heldout", ["nearest_stag", "random"]), rules, 2)
    frozen = met.agent_rows(load_entrant("frozen", agent, frozen=True))
    return Adaptation([*learning.rows, *frozen], adaptation_summary([*learning.rows, *frozen]))


def test_learning_changes_what_is_done_after_the_first_round_and_not_before(found: Adaptation) -> None:
    course = courses(found.rows)
    learns, frozen = course["learns"].rewards, course["frozen"].rewards
    np.testing.assert_array_equal(learns[:, :, :2], frozen[:, :, :2])
    assert np.any(learns[:, :, 2:] != frozen[:, :, 2:])


def test_all_episodes_are_in_the_table(found: Adaptation) -> None:
    course = courses(found.rows)["learns"]
    assert course.seeds == (5, 6)
    assert course.co_players == ("nearest_stag", "random")
    assert course.rewards.shape == (2, 2, 7)
    rewards = np.concatenate([one.rewards.ravel() for one in courses(found.rows).values()])
    # A third or half of a stag, a hare or its share, or nothing.
    assert {0.0, 1.0} <= set(np.round(rewards, 3)) <= {0.0, 0.333, 0.5, 1.0, 3.333, 5.0}


def test_whoever_has_the_seat_is_paid_for_what_it_does_with_these_co_players() -> None:
    env = make_env("stag_hunt", **GAME)
    teams = gather_teams(env, None, "heldout", ["nearest_stag", "nearest_hare"], seat=1)
    hunter = build_scripted("nearest_stag", env)
    program = EncounterProgram(adaptation_config(small_config(), 3, 64, 64, {}), teams, player=hunter)
    _, earned = program.play(program.begin(None, [1, 1], np.asarray([0, 1])), 1)
    assert earned.shape == (2, 64)
    # With two other hunters the stag is shared by three, or by the two who are there first; alone nobody gets it.
    assert {3.33, 5.0} <= set(np.round(earned[0], 2)) <= {0.0, 3.33, 5.0}
    assert set(earned[1]) == {0.0}


def test_who_never_met_the_scale_is_told_what_it_is(found: Adaptation) -> None:
    assert {row["scale"] for row in found.summary} == {"best agent compared"}
    assert "the best of these agents" in scale_words(found.summary)
    head, lines = adaptation_table(found.summary)
    assert len(head) == len(lines[0]) == 5
    assert [line[0] for line in lines] == ["learns", "random player", "frozen"]
    # Two seeds are too few for an interval.
    assert "[" not in lines[0][1]


def test_the_command_writes_tables_and_a_figure(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: Adaptation
) -> None:
    calls: dict[str, Any] = {}

    def stand_in(agents: Any, **options: Any) -> Adaptation:
        calls.update(agents=agents, **options)
        return found

    monkeypatch.setattr("omg.experiments.adaptation.adapt", stand_in)
    monkeypatch.setenv("COLUMNS", "200")
    words = ["adapt", f"a={agent}", f"b={agent}", "lr=0.5", "b.hop_belief_between=False", "--episodes", "7", "--frozen"]
    words += ["--players", "random,nearest_hare", "--output", str(tmp_path / "out")]
    assert main(words) == 0
    assert calls["agents"] == {"a": str(agent), "b": str(agent)}
    assert calls["settings"] == {"a": {"lr": 0.5}, "b": {"lr": 0.5, "hop_belief_between": False}}
    assert (calls["players"], calls["frozen"]) == (["random", "nearest_hare"], True)
    assert calls["rules"] == Rules(7, 4, None, 0, None)
    text = capsys.readouterr().out
    assert "First 7 episodes: all 2 co-players" in text
    assert "Own reward with each co-player" in text
    assert "agent           nearest_stag   random" in text
    lines = (tmp_path / "out" / "adaptation.csv").read_text().splitlines()
    assert lines[0] == "agent,seed,co_player,episode,reward"
    assert len(lines) == 1 + 3 * 2 * 2 * 7
    assert (tmp_path / "out" / "adaptation.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "summary.csv").read_text().count("\n") == 1 + 3 * 3


def test_input_that_cannot_be_used_is_refused(agent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    for words, expected in (
        ([str(agent)], "co-players: there are none. Give --pool POOL, or --players"),
        ([str(tmp_path / "nobody"), "--players=random"], "there is no such folder"),
        ([str(agent), "--players=never_shovels"], "Script 'never_shovels' plays snowdrift, but the game is stag_hunt."),
        ([str(agent), "--players=random", "seeds=3"], "small.seeds: cannot be set here (give --seeds)."),
        ([str(agent), "--players=random", "leaning_rate=3"], "Unknown key 'leaning_rate'."),
        ([str(agent), "--players=random", "--seat=3"], "seat: got 3. Allowed in stag_hunt: 0, 1, 2."),
        ([f"random={agent}", "--players=random"], "AGENT: 'random' names an end of the scale"),
        ([str(agent), f"--output={file}"], "is a file. Give a folder."),
        ([str(agent), "--players=random", "--pool", str(tmp_path)], "is not a pool"),
        ([str(agent), "x.lr=3", "--players=random"], "x.lr: 'x' is neither an agent nor a key. Agents: small."),
    ):
        assert main(["adapt", *words]) == 2, words
        message = capsys.readouterr().err
        assert expected in message, (words, message)
        assert message.count("\n") == 1
    assert "AGENT: got two agents with the label 'a'." in refusal(lambda: read_agents([f"a={agent}"] * 2))
    assert "which" in refusal(lambda: load_entrant("a", agent, which="first"))
    assert refusal(lambda: Rules(episodes=0)) == "episodes: got 0, allowed: 1 or more."


# ----------------------------------------------------------------------------------------------------------- tables


def rows(agent: str, rewards: np.ndarray) -> list[dict[str, Any]]:
    return [
        {"agent": agent, "seed": seed, "co_player": f"p{team}", "episode": episode + 1, "reward": value}
        for (seed, team, episode), value in np.ndenumerate(rewards)
    ]


def test_scores_lie_between_a_random_player_and_a_best_response(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    late = np.zeros((4, 2, 8))
    late[:, 0, 6:] = 8.0
    late[:, 1] = 3.0
    table = rows("late", late) + rows("random", np.full((1, 2, 8), 2.0)) + rows("noise", rng.normal(size=(4, 2, 8)))
    best = np.full((1, 2, 8), 10.0)
    best[:, 1] = 1.0
    scored = adaptation_summary([*table, *rows("best_response", best)])
    summary = {(row["agent"], row["co_player"]): row for row in scored}
    one = summary["late", "p0"]
    assert (one["mean"], one["last_quarter"], one["seeds"], one["episodes"]) == (2.0, 8.0, 4, 8)
    assert (one["normalised"], one["last_quarter_normalised"]) == (0.0, 0.75)
    assert (one["mean_low"], one["mean_high"], one["scale"]) == (2.0, 2.0, "best response")
    # With p1 a best response earns less than a random player: no scale, and not counted.
    assert math.isnan(summary["late", "p1"]["normalised"])
    assert (summary["late", "all"]["mean"], summary["late", "all"]["normalised"]) == (2.5, 0.0)
    assert "not counted: p1" in scale_words(list(summary.values()))
    wide = summary["noise", "all"]
    assert wide["mean_low"] < wide["mean"] < wide["mean_high"]
    # Without best responses the best agent's last quarter is the 1.
    compared = {(row["agent"], row["co_player"]): row for row in adaptation_summary(table)}
    assert compared["late", "p0"]["last_quarter_normalised"] == 1.0
    assert compared["late", "p0"]["scale"] == "best agent compared"
    curve = adaptation_curve(courses(table)["late"], "p0", points=4)
    np.testing.assert_allclose(curve.mean, [0, 0, 0, 8])
    np.testing.assert_allclose(curve.episode, [1.5, 3.5, 5.5, 7.5])
    assert plot_adaptation(table, tmp_path / "a.svg").read_text().count("late") > 0


def test_a_co_player_with_whom_nothing_matters_hardly_counts() -> None:
    random, best = np.zeros((1, 3, 2)), np.zeros((1, 3, 2))
    # A tenth between the ends with the second, and nothing with the third.
    best[:, 0], best[:, 1] = 10.0, 0.1
    played = np.broadcast_to(np.array([5.0, -1.0, 7.0])[None, :, None], (3, 3, 2))
    table = [*rows("random", random), *rows("best_response", best), *rows("one", played)]
    found = {row["co_player"]: row["normalised"] for row in adaptation_summary(table) if row["agent"] == "one"}
    assert (found["p0"], found["p1"]) == pytest.approx((0.5, -10.0))
    assert math.isnan(found["p2"])
    assert found["all"] == pytest.approx((5.0 - 1.0) / 10.1)


def test_a_table_with_holes_is_refused() -> None:
    whole = rows("a", np.zeros((2, 1, 3)))
    assert refusal(lambda: courses(whole[:-1])) == ("adaptation: agent 'a', seed 1, co-player 'p0' has no episode 3.")
    assert "has episode 3 of seed 1 twice" in refusal(lambda: courses([*whole, whole[-1]]))
    assert "no column 'reward'" in refusal(lambda: courses([{"agent": "a", "seed": 1, "co_player": "b", "episode": 1}]))
    assert "not met the same co-players" in refusal(lambda: courses([*whole, *rows("b", np.zeros((2, 2, 3)))]))


# ------------------------------------------------------------------------------------------------------ the pipeline


def test_a_plan_says_who_adapts(tmp_path: Path) -> None:
    still = "adaptation.variants.still"
    plan = read_plan("stag_hunt_quick", [f"{still}.agent=hop", f"{still}.hop_samples=1"])
    checked = check_plan(plan, tmp_path)
    assert plan.adaptation is not None
    assert plan.adaptation.entrants(checked.agents) == {
        **{label: (label, {}, False) for label in ("ppo", "direct_om", "hop")},
        "still": ("hop", {"hop_samples": 1}, False),
    }
    for section, expected in (
        ({"set": "validation"}, "adaptation.set: got 'validation', but the pool has nobody in that set."),
        ({"mixtures": True}, "adaptation.mixtures: got True, but there is one other seat"),
        ({"players": ["nearest_stag"]}, "adaptation.players: Script 'nearest_stag' plays stag_hunt"),
        ({"agents": ["omgg"]}, "Unknown agent (adaptation.agents) 'omgg'. Did you mean 'omg'?"),
        ({"seat": 2}, "adaptation: seat: got 2. Allowed in foraging: 0, 1."),
        ({"episode": 2}, "Unknown key 'adaptation.episode' of a pipeline. Did you mean 'adaptation.episodes'?"),
        ({"variants": {"omg": {"agent": "omg"}}}, "adaptation.variants.omg: that name is taken"),
        ({"variants": {"x": {"agent": "omgg"}}}, "Unknown agent (adaptation.variants.x.agent) 'omgg'."),
        ({"variants": {"x": {"agent": "omg", "env": "sc2"}}}, "adaptation.variants.x.env: cannot be set in a pipeline"),
        (
            {"variants": {"x": {"agent": "omg", "t_max": 2}}},
            "adaptation.x.t_max: cannot be set here (",
        ),
        ({"variants": {"x": {"agent": "omg", "mixer": "qmix"}}}, "adaptation.x: "),
    ):
        message = refusal(lambda section=section: check_plan(parse_plan({**PLAN, "adaptation": section}), tmp_path))  # type: ignore[misc]
        assert expected in message, (section, message)


def test_only_what_a_key_is_about_is_done_again_in_a_pipeline(tmp_path: Path) -> None:
    def prints(*words: str) -> dict[str, str]:
        checked = check_plan(read_plan("stag_hunt_quick", words), tmp_path)
        place = Workplace(checked, tmp_path, Ledger(tmp_path), Console(), quiet=True)
        return {task.name: task.fingerprint for task in plan_tasks(place) if task.stage == "adapt"}

    still = ["adaptation.variants.still.agent=hop", "adaptation.variants.still.hop_belief_between=false"]
    before = prints(*still)
    assert list(before) == ["ppo", "direct_om", "hop", "still", "random", "best_response", "tables"]
    changed = prints(*still, "adaptation.variants.still.hop_belief_within=false")
    assert [name for name in before if before[name] != changed[name]] == ["still", "tables"]
    trained = prints(*still, "adaptation.best_response_steps=7")
    assert [name for name in before if before[name] != trained[name]] == ["best_response", "tables"]
    assert not set(prints(*still, "adaptation.episodes=7").values()) & set(before.values())
