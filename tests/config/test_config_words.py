"""Words of the command line: settings in any order, YAML values, team names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omg.config import (
    Config,
    adjust,
    algorithm_names,
    change_config,
    member_config,
    parse_team,
    read_yaml,
    resolve,
    translate,
    write_yaml,
)
from omg.config.teams import TeamPart, main_algorithm
from omg.errors import UserError

# ----------------------------------------------------------------------------------- command-line words

WORDS: list[list[str]] = [
    ["--config=qmix"],
    ["--env_config", "sc2"],
    ["env_args.map_name=3m"],
    ["--env-args.step_mul=4"],
    ["--obs_is_state"],
    ["--lr", "1e-4"],
    ["--mixer=None"],
    ["t_max=2e6"],
    ["early_stop_metric=test_battle_won_mean"],
    ["--early_stop_value", "-0.5"],
    ["double_q=False"],
]


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(WORDS), position=st.integers(0, len(WORDS)))
def test_words_may_come_in_any_order(order: list[list[str]], position: int) -> None:
    groups = [*order[:position], ["with"], *order[position:]]
    line = translate([word for group in groups for word in group])
    config = resolve(line.config, line.env_config, line.overrides).config
    reference = resolve("qmix", "sc2", {})
    assert config == change_config(
        reference.config,
        env_args={"map_name": "3m", "step_mul": 4},
        obs_is_state=True,
        lr=1e-4,
        mixer=None,
        t_max=2_000_000,
        early_stop_metric="test_battle_won_mean",
        early_stop_value=-0.5,
        double_q=False,
    )


def test_pymarl_command_lines_translate() -> None:
    line = translate(["--config=iql", "--env-config=sc2", "with", "env_args.map_name=8m", "--obs_is_state=True"])
    assert (line.config, line.env_config) == ("iql", "sc2")
    assert line.overrides == ["env_args.map_name=8m", "obs_is_state=True"]
    team = translate(["--config=4iql4qmix", "--multi_algs", "--env-config=sc2", "with", "a=b=c", "--train_alg=qmix"])
    assert (team.config, team.overrides) == ("4iql4qmix", ["multi_algs=True", "a=b=c", "train_alg=qmix"])


def test_of_equal_keys_the_last_wins() -> None:
    assert resolve("iql", "sc2", ["lr=0.1", "lr=0.2"]).config.lr == 0.2
    assert resolve("iql", "sc2", ["env_args.map_name=3m", "env_args={map_name: 2s3z}"]).config.env_args["map_name"] == (
        "2s3z"
    )


@pytest.mark.parametrize("words", [["lr"], ["-lr=3"], ["=3"], ["--=3"], ["a..b=3"], ["--config"], ["--config="]])
def test_unreadable_words_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match=r"key=value|no key|NAME"):
        translate(words)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("2e6", 2e6),
        ("-1.5E+3", -1500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("2_000_000", 2_000_000),
        ("-3", -3),
        ("010", 10),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("~", None),
        ("", None),
        ("on", "on"),
        ("no", "no"),
        ("3m", "3m"),
        ("2c_vs_64zg", "2c_vs_64zg"),
        ("1e", "1e"),
        ("1__0", "1__0"),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("nan", "nan"),
        ("'7'", "7"),
        ("[1, 2e1]", [1, 20.0]),
        ("{map_name: 8m}", {"map_name": "8m"}),
    ],
)
def test_yaml_scalars(text: str, value: Any) -> None:
    read = read_yaml(text)
    assert read == value
    assert type(read) is type(value)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(st.characters(exclude_categories=("Cs", "Cc"))),
        st.sampled_from(["1e-4", "None", "True", "~", "", "7", "1_0", "on", "2026-01-01"]),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    )
)
def test_written_yaml_reads_back_equal(value: Any) -> None:
    read = read_yaml(write_yaml({"key": value, "list": [value]}))
    assert read == {"key": value, "list": [value]}
    assert type(read["key"]) is type(value)


# -------------------------------------------------------------------------------------------------- teams


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("8iql", [(8, "iql")]),
        ("4iql3qmix1iql_omg", [(4, "iql"), (3, "qmix"), (1, "iql_omg")]),
        ("12iql_idv10iql", [(12, "iql_idv"), (10, "iql")]),
        ("1d3qn2d3", [(1, "d3qn"), (2, "d3")]),
        ("1d34iql", [(1, "d3"), (4, "iql")]),
        ("1d2qn", [(1, "d"), (2, "qn")]),
        ("4iql4iql", [(4, "iql"), (4, "iql")]),
    ],
)
def test_team_names(name: str, parts: list[tuple[int, str]]) -> None:
    known = ["iql", "iql_idv", "iql_omg", "qmix", "d", "d3", "d3qn", "qn"]
    assert parse_team(name, known) == [TeamPart(*part) for part in parts]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(algorithm_names())), min_size=1, max_size=6))
def test_every_team_of_known_algorithms_is_read_back(parts: list[tuple[int, str]]) -> None:
    assert parse_team("".join(f"{count}{name}" for count, name in parts), algorithm_names()) == parts


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "4iql3qmx1vdn",
            "Unknown algorithm in the team name '4iql3qmx1vdn': 'qmx'. Did you mean 'qmix'? Allowed: coma,",
        ),
        ("4iql4", "Unknown algorithm in the team name '4iql4': ''."),
        ("4iqlx", "Unknown algorithm in the team name '4iqlx': 'iqlx'. Did you mean 'iql'?"),
        ("0iql8vdn", "Team name '0iql8vdn': got 0 seats for iql; every algorithm needs at least 1."),
        ("8pool", "Team name '8pool': nobody in it learns. Give one algorithm a seat, e.g. 7pool1iql."),
        ("7pol1iql", "Unknown algorithm in the team name '7pol1iql': 'pol'. Did you mean 'pool'?"),
    ],
)
def test_bad_team_names(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(name, "sc2")
    assert str(error.value).startswith(message)


def test_team_members_have_their_own_configurations() -> None:
    resolved = resolve("4iql3qmix1vdn", "sc2", ["lr=0.01"])
    assert resolved.team == ((4, "iql"), (3, "qmix"), (1, "vdn"))
    assert {name: (member.mixer, member.lr) for name, member in resolved.members.items()} == {
        "iql": (None, 0.01),
        "qmix": ("qmix", 0.01),
        "vdn": ("vdn", 0.01),
    }
    config = resolved.config
    assert (config.name, config.mixer, config.multi_algs, config.train_alg) == ("4iql3qmix1vdn", "vdn", True, "vdn")
    assert (config.team, config.mac) == ("4iql3qmix1vdn", "multi_module_mac")
    assert resolved.sources["train_alg"] == "team name"
    assert resolved.sources["mixer"] == "algs/vdn.yaml"


def test_words_that_a_team_name_implies_may_be_left_out() -> None:
    """The long command of older code bases and the short one are the same run."""
    long = (
        "--config=7iql1iql_omg --multi_algs --env-config=sc2 with env_args.map_name=8m --mac=multi_module_mac "
        "--train_alg=iql_omg --learner=omg_learner --is_agent_shift=True --init_param_path=POOL "
        "--subgoal_mode=optimistic"
    )
    short = "--config=7iql1iql_omg --env-config=sc2 with env_args.map_name=8m init_param_path=POOL"
    configs = []
    for words in (long, short):
        line = translate(words.split())
        configs.append(resolve(line.config, line.env_config, line.overrides).config)
    assert configs[0] == configs[1]
    assert (configs[0].train_alg, configs[0].learner, configs[0].am_model) == ("iql_omg", "omg_learner", "omg_am")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--config=iql --env-config=sc2 with env_args.map_name=8m", ("iql", "q_learner", "none_am", False)),
        (
            "--config=iql --env-config=sc2 with env_args.map_name=8m --obs_is_state=True",
            ("iql", "q_learner", "none_am", True),
        ),
        (
            "--config=iql --env-config=sc2 with env_args.map_name=8m --mac=basic_mac --am_model=omg_am "
            "--learner=am_learner --init_param_path=POOL",
            ("iql", "am_learner", "omg_am", False),
        ),
        (
            "--config=4iql3qmix1iql_omg --multi_algs --env-config=sc2 with env_args.map_name=8m "
            "--mac=multi_module_mac --train_alg=iql_omg",
            ("4iql3qmix1iql_omg", "omg_learner", "omg_am", False),
        ),
        (
            "--config=4iql3qmix1iql_omg --env-config=sc2 with env_args.map_name=8m",
            ("4iql3qmix1iql_omg", "omg_learner", "omg_am", False),
        ),
    ],
)
def test_commands_of_older_code_bases(words: str, expected: tuple[str, str, str, bool]) -> None:
    line = translate(words.split())
    config, notes = adjust(resolve(line.config, line.env_config, line.overrides).config, has_gpu=True)
    assert (config.name, config.learner, config.am_model, config.obs_is_state) == expected
    assert (config.env_args["map_name"], notes) == ("8m", [])


def test_players_of_a_pool_have_seats_but_no_configuration() -> None:
    resolved = resolve("7pool1iql_omg", "sc2")
    assert resolved.team == ((7, "pool"), (1, "iql_omg"))
    assert list(resolved.members) == ["iql_omg"]
    assert (resolved.config.train_alg, resolved.config.team) == ("iql_omg", "7pool1iql_omg")


def test_the_others_of_a_team_keep_what_all_share_and_have_their_own_settings() -> None:
    config = resolve("4iql3d3qn1iql_omg", "sc2", ["rnn_hidden_dim=32", "gamma=0.9", "obs_is_state=True"]).config
    assert member_config(config, "iql_omg") == config
    plain, dueling = member_config(config, "iql"), member_config(config, "d3qn")
    for member in (plain, dueling):
        assert (member.gamma, member.obs_is_state, member.env_args) == (0.9, True, config.env_args)
        assert (member.am_model, member.team, member.train_alg, member.updates_per_episode) == (
            "none_am",
            None,
            None,
            1,
        )
    assert (plain.name, plain.agent, plain.rnn_hidden_dim, plain.learner) == ("iql", "rnn", 32, "q_learner")
    assert (dueling.name, dueling.agent, dueling.obs_last_action) == ("d3qn", "dueling", False)


def test_train_alg_chooses_who_learns() -> None:
    resolved = resolve("4iql3qmix1iql", "sc2", ["train_alg=qmix"])
    assert (resolved.config.train_alg, resolved.config.mixer) == ("qmix", "qmix")
    with pytest.raises(UserError, match=r"train_alg: team '4iql3qmix1iql' .* one of: iql, qmix\."):
        resolve("4iql3qmix1iql", "sc2")
    with pytest.raises(UserError, match=r"train_alg for the team '4iql4qmix': 'vdn'\. Allowed: iql, qmix"):
        resolve("4iql4qmix", "sc2", ["train_alg=vdn"])


def test_the_only_opponent_model_learns() -> None:
    plain = Config()
    modelling = plain.model_copy(update={"am_model": "omg_am"})
    parts = [TeamPart(1, "iql_omg"), TeamPart(7, "iql")]
    assert main_algorithm("1iql_omg7iql", parts, {"iql_omg": modelling, "iql": plain}, None) == "iql_omg"
    with pytest.raises(UserError, match="does not say which algorithm learns"):
        main_algorithm("1iql_omg7iql", parts, {"iql_omg": modelling, "iql": modelling}, None)


def test_one_algorithm_team_is_the_algorithm() -> None:
    for name in ("8iql", "4iql4iql"):
        for words in ([], ["multi_algs=True", "train_alg=iql"]):
            assert resolve(name, "sc2", words) == resolve("iql", "sc2")


def test_team_must_fill_the_game() -> None:
    with pytest.raises(UserError) as error:
        resolve("4iql3qmix2vdn", "sc2")
    assert str(error.value) == (
        "Team name '4iql3qmix2vdn' has 9 seats (4+3+2), but sc2 8m has 8: the counts must add up to 8."
    )
    with pytest.raises(UserError, match=r"8 seats .* sc2 3m has 3"):
        resolve("8iql", "sc2", ["env_args.map_name=3m"])


def test_team_keys_without_a_team_are_refused() -> None:
    with pytest.raises(UserError, match="multi_algs: got True, but --config=iql is one algorithm"):
        resolve("iql", "sc2", ["multi_algs=True"])
    with pytest.raises(UserError, match=r"train_alg for --config=iql: 'qmix'\. Allowed: iql"):
        resolve("iql", "sc2", ["train_alg=qmix"])
    with pytest.raises(UserError, match="mac: got multi_module_mac, but --config=iql is one algorithm"):
        resolve("iql", "sc2", ["mac=multi_module_mac"])
    for key, value, implied in (("multi_algs", False, True), ("mac", "basic_mac", "multi_module_mac")):
        with pytest.raises(UserError, match=rf"{key}: got {value}, but the team '4iql4qmix' implies {implied}; leave"):
            resolve("4iql4qmix", "sc2", {key: value})
    assert resolve("iql", "sc2", ["train_alg=iql"]).config.train_alg == "iql"
