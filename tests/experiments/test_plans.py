"""Plans of a pipeline: what they may say, where they come from, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.plans import PLAN, changed
from helpers.pool_members import ENV, agent
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.cli import main
from omg.experiments.pipeline import run_pipeline
from omg.experiments.plan import parse_plan, preset_names, preset_summary, read_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.pool import copy_pool
from omg.experiments.stages.train import team_name
from omg.experiments.suite import read_suite
from omg.pools.index import Pool

# ------------------------------------------------------------------------------------------------------- plans


def test_presets_can_be_run_and_have_the_groups_of_their_games(tmp_path: Path) -> None:
    social = {"snowdrift", "stag_hunt", "stag_hunt_4h2s", "stag_hunt_quick"}
    social |= {"partners_stag_hunt", "partners_snowdrift"}
    suites = {"suite", "suite_quick", "8m_long"}
    parts = {plan for suite in suites for plan in read_suite(suite).suite.plans}
    games = {"2c_vs_64zg", "3s_vs_5z", "8m", "foraging", "predator_prey", "quick", "demo", *social, *parts}
    assert games | suites == set(preset_names())
    for name in games:
        plan = read_plan(name)
        assert plan.name == name
        assert preset_summary(name)
        checked = check_plan(plan, tmp_path / name)
        assert parse_plan(plan.values()) == plan
        assert {config.seeds for config in checked.agents.values()} <= {3, 4, 5, 10}
    eight = check_plan(read_plan("8m"), tmp_path)
    assert {label: config.team for label, config in eight.agents.items()} == {
        "iql": "7pool1iql",
        "iql_all": "7pool1iql",
        "iql_am": "7pool1iql_am",
        "iql_liam": "7pool1iql_liam",
        "omg_optimistic": "7pool1iql_omg",
        "omg_conservative": "7pool1iql_omg",
        "omg_zero": "7pool1iql_omg",
        "omg_cvae": "7pool1iql_omg",
    }
    points = {"omg_optimistic", "omg_conservative", "omg_zero"}
    assert {label for label, config in eight.agents.items() if config.omg_inference == "mlp"} == points
    assert {label for label, config in eight.agents.items() if config.omg_actions == "counts"} == points
    assert eight.agents["iql_all"].obs_all_last_actions
    assert eight.agents["omg_zero"].omg_q_input == "zero"
    assert sum(read_plan("8m").pool.heldout.values()) == 30
    assert sum(read_plan("8m").pool.training.values()) == 10
    assert (eight.metric, eight.agent, eight.baselines[0]) == ("battle_won", "omg_optimistic", "iql")
    assert not (tmp_path / "8m").exists()


def test_words_and_files_change_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ngame: {env_config: foraging}\npool: {training: {iql: 1}, heldout: {iql: 1}}\nagents: {iql: }\n"
    )
    plan = read_plan(
        file, ["train.t_max=7", "agents.iql.lr=0.5", "evaluation.groups=[1_partner]", "agents.b.config=vdn"]
    )
    checked = check_plan(plan, tmp_path)
    assert [config.t_max for config in checked.agents.values()] == [7, 7]
    assert [config.lr for config in checked.agents.values()] == [0.5, 0.0005]
    assert checked.agents["b"].team == "1pool1vdn"
    assert (checked.agent, checked.baselines) == ("b", ("iql", "untrained"))
    assert checked.metric == "score"
    assert team_name("6pool1vdn1iql", 8) == "6pool1vdn1iql"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pol.x=1", "Unknown key 'pol' of a pipeline. Did you mean 'pool'? Allowed: name, game, pool, "),
        ("train.tmax=3", "Unknown key 'train.tmax' of a pipeline. Did you mean 'train.t_max'? "),
        (
            "evaluation.episode=3",
            "Unknown key 'evaluation.episode' of a pipeline. Did you mean 'evaluation.ep",
        ),
        (
            "agents.omg.subgoal_mod=next",
            "Unknown key 'agents.omg.subgoal_mod' of a pipeline. Did you mean 'agents",
        ),
        ("train.t_max=many", "agents.d3qn: t_max: got 'many' (text); expected a whole number >= 1 and <= "),
        ("agents.omg.subgoal_mode=opt", "agents.omg: Unknown subgoal_mode 'opt'. Allowed: conservative, "),
        ("agents.omg.config=d3qn_og", "Unknown algorithm (agents.omg.config) 'd3qn_og'. Did you mean 'd3qn_omg'? "),
        ("agents.new={}", "Unknown algorithm (agents.new.config) (the label, as it has no config) 'new'."),
        ("agents.random.config=iql", "agents.random: that is the name of a scripted player; choose another label."),
        ("agents.untrained.config=iql", "agents.untrained: that is the name of the agent before training; "),
        ("pool.training.iqll=3", "pool: Unknown algorithm (--config) 'iqll'. Did you mean 'iql'? "),
        ("pool.training.d3qn=0", "pool.training: got d3qn: 0, allowed: 1 to 10000."),
        ("pool.training=3", "pool.training: got 3. "),
        ("pool.scripted.stand=heldout", "pool.scripted: Script 'stand' plays sc2, but the game is foraging."),
        ("pool.seeds=3", "pool.seeds: cannot be set in a pipeline (the numbers of members say how many)."),
        ("train.name=x", "train.name: cannot be set in a pipeline (runs are named after their agents)."),
        (
            "train.init_param_path=x",
            "train.init_param_path: cannot be set in a pipeline (the pool is ",
        ),
        (
            "pool.obs_is_state=True",
            "agents.d3qn.obs_is_state: got False, but pool has True; all sections ",
        ),
        ("prior.subgoal_dim=8", "agents.omg.subgoal_dim: got 4, but the prior has 8; "),
        ("evaluation.episodes=0", "evaluation.episodes: got 0. "),
        ("evaluation.beliefs=[plastc]", "Unknown method (evaluation.beliefs) 'plastc'. Did you mean 'plastic'?"),
        ("evaluation.sets=[validation]", "evaluation.sets: got 'validation', but the pool has nobody in that set."),
        ("evaluation.groups=[7_homologue]", "Unknown group (evaluation.groups) of a game with 2 seats: '7_homologue'."),
        ("report.agent=og", "Unknown agent (report.agent) 'og'. Did you mean 'omg'? Allowed: d3qn, omg, untrained."),
        ("report.metric=scor", "Unknown metric (report.metric) 'scor'. Did you mean 'score'? "),
        ("report.baselines=[omg]", "report.baselines: got omg; expected one or more agents other than omg."),
        ("game.env_config=foragin", "game: Unknown environment configuration (--env-config) 'foragin'. Did you mean "),
        ("game.env_args.players=1", "game: foraging 4x4-1p-1f has one seat; team-mates need at least two."),
        ("name=a/b", "name: got 'a/b'; allowed: letters, digits and . + - _."),
        ("evaluation=3", "evaluation: got 3; expected a mapping."),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_before_anything_is_written(
    word: str, message: str, tmp_path: Path
) -> None:
    found = refusal(lambda: run_pipeline(parse_plan(changed(word)), tmp_path / "out", quiet=True))
    assert found.startswith(message)
    assert not (tmp_path / "out").exists()


def test_missing_sections_and_files_are_named(tmp_path: Path) -> None:
    plan = {key: value for key, value in PLAN.items() if key != "pool"}
    assert refusal(lambda: parse_plan(plan)).startswith("pool: missing.")
    assert refusal(lambda: read_plan("quik")).startswith(
        "Unknown pipeline (neither a file nor a preset) 'quik'. Did you mean 'quick'? Allowed: 2c_vs_64zg, "
    )
    (tmp_path / "list.yaml").write_text("- a\n")
    assert "expected a mapping of sections" in refusal(lambda: read_plan(tmp_path / "list.yaml"))
    (tmp_path / "broken.yaml").write_text("a: [\n")
    assert "is not YAML" in refusal(lambda: read_plan(tmp_path / "broken.yaml"))


# ------------------------------------------------------------------------------------- a pool that is there already


@pytest.fixture
def given(tmp_path: Path) -> Pool:
    pool = Pool.create(tmp_path / "given", "foraging", GAME, ENV.spec)
    for seed, chosen in ((1, "training"), (2, "training"), (3, "heldout")):
        pool.add(agent(tmp_path / f"agent_{seed}", seed=seed), chosen)
    pool.add_scripted("random", "heldout")
    return Pool.open(pool.path)


def test_a_given_pool_says_who_is_in_which_set(given: Pool, tmp_path: Path) -> None:
    plan = parse_plan(changed(f"pool.path={given.path}"))
    assert plan.pool.counts == {"training": {"iql": 2}, "heldout": {"iql": 1}}
    assert plan.pool.scripted == {"random": "heldout"}
    # Nobody is trained, so nothing about training is kept; the plan stays the same when it is read again.
    assert plan.pool.settings == {"obs_is_state": False}
    assert parse_plan(plan.values()) == plan
    assert check_plan(plan, tmp_path / "out").given_pool == given.path


def test_a_given_pool_must_be_one_for_the_same_game(given: Pool, tmp_path: Path) -> None:
    def told(*words: str) -> str:
        return refusal(lambda: run_pipeline(parse_plan(changed(*words)), tmp_path / "out", quiet=True))

    assert told(f"pool.path={tmp_path / 'no'}").startswith(f"pool.path: {tmp_path / 'no'} is not a pool: ")
    assert told("pool.path=3") == "pool.path: got 3; expected the folder of a pool."
    assert told(f"pool.path={given.path}", "game.env_args.rows=5") == (
        f"pool.path: {given.path} is for foraging 4x4-2p-1f, but the section game is about foraging 5x4-2p-1f."
    )
    assert told(f"pool.path={given.path}", "train.obs_is_state=True").startswith("agents.d3qn.obs_is_state: got True")
    (given.folder("iql_s2") / "weights.safetensors").write_bytes(b"")
    assert told(f"pool.path={given.path}").startswith(f"pool.path: {given.path}: the member 'iql_s2' ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("prior", [False, True])
def test_members_are_copied_and_runs_are_not(given: Pool, tmp_path: Path, prior: bool) -> None:
    for name in ("runs", "prior", "members/iql_s1/runs"):
        (given.path / name).mkdir()
    copy_pool(given.path, tmp_path / "copy", prior=prior)
    copied = Pool.open(tmp_path / "copy")
    copied.check()
    assert list(copied) == list(given)
    assert (copied.path / "prior").exists() == prior
    assert not (copied.path / "runs").exists()
    assert (copied.path / "members" / "iql_s1" / "runs").exists()


# -------------------------------------------------------------------------------------------------- command line


def test_the_command_lists_presets_and_refuses_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["pipeline"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in preset_names())
    for words, message in (
        (["quik"], "Unknown pipeline (neither a file nor a preset) 'quik'. Did you mean 'quick'?"),
        (["quick", "train.tmax=3"], "Unknown key 'train.tmax' of a pipeline. Did you mean 'train.t_max'?"),
        (["train.t_max=3"], "NAME: got 'train.t_max=3'; the preset or file comes first, then the settings."),
        (["quick", "--config=iql"], "--config: got 'iql', but a pipeline names its game and agents in its file."),
        (["quick", "--only", "al"], "Unknown stage (--only) 'al'."),
    ):
        assert main(["pipeline", *words, "--output", str(tmp_path / "out")]) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not (tmp_path / "out").exists()
