"""The configuration: keys, layers, overrides, team names and the checks before a run."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from omg.config import (
    Config,
    adjust,
    algorithm_names,
    change_config,
    env_config_names,
    layers,
    parse_config,
    playable_games,
    read_yaml,
    resolve,
    update_rhythm,
    write_yaml,
)
from omg.config.algorithms import AlgorithmFile
from omg.config.schema import SECTIONS
from omg.config.values import describe_field
from omg.envs import ENVS
from omg.errors import UserError

CONFIG_FILES = files("omg.config")
YAML_FILES = ["default.yaml"] + [
    f"{folder}/{entry.name}" for folder in ("algs", "envs") for entry in CONFIG_FILES.joinpath(folder).iterdir()
]


# ---------------------------------------------------------------------------------------------- keys and files


def test_every_key_has_a_one_line_help_text() -> None:
    for key, field in Config.model_fields.items():
        assert field.description, key
        assert len(field.description) > 8, key
        assert "\n" not in field.description, key


def test_config_is_exactly_its_sections_in_order() -> None:
    assert list(Config.model_fields) == [key for section in SECTIONS for key in section.__annotations__]


def test_default_yaml_gives_every_key_its_schema_default() -> None:
    values = read_yaml(CONFIG_FILES.joinpath("default.yaml").read_text())
    assert list(values) == list(Config.model_fields)
    for key, field in Config.model_fields.items():
        assert values[key] == field.default, key
        assert type(values[key]) is type(field.default), key


def test_default_yaml_has_the_help_text_above_every_key() -> None:
    lines = CONFIG_FILES.joinpath("default.yaml").read_text().splitlines()
    above = {line.partition(":")[0]: lines[index - 1] for index, line in enumerate(lines) if line[:1].isalpha()}
    assert above == {key: f"# {field.description}" for key, field in Config.model_fields.items()}


@pytest.mark.parametrize("path", YAML_FILES)
def test_yaml_files_have_a_summary_and_only_known_keys(path: str) -> None:
    assert path.endswith(".yaml")
    assert CONFIG_FILES.joinpath(path).read_text().startswith("# ")
    assert len(layers.summary(path)) > 20
    assert set(read_yaml(CONFIG_FILES.joinpath(path).read_text())) <= set(Config.model_fields)


def test_every_algorithm_resolves_in_every_environment() -> None:
    for algorithm in algorithm_names():
        for env_config in env_config_names():
            config = resolve(algorithm, env_config).config
            assert config.name == algorithm
            assert set(config.env_args) == set(ENVS[config.env].traits.args.model_fields)
            if config.env in playable_games(config):
                adjust(config, has_gpu=True)
            else:
                with pytest.raises(UserError, match=f"^env: got {config.env}.*Allowed: .*stag_hunt, snowdrift"):
                    adjust(config, has_gpu=True)


def test_the_algorithms_are_what_their_names_say() -> None:
    assert resolve("iql").config.mixer is None
    assert resolve("vdn").config.mixer == "vdn"
    assert resolve("qmix").config.mixer == "qmix"
    assert resolve("iql_idv").config.agent == "idv_rnn"
    for base, agent, optimizer in (("iql", "rnn", "rmsprop"), ("d3qn", "dueling", "adam")):
        for suffix, model, learner in (
            ("", "none_am", "q_learner"),
            ("_am", "base_am", "q_learner_4am"),
            ("_liam", "liam_am", "q_learner_4am"),
            ("_omg", "omg_am", "omg_learner"),
        ):
            config = resolve(base + suffix).config
            assert (config.agent, config.optimizer, config.mixer) == (agent, optimizer, None)
            assert (config.am_model, config.learner) == (model, learner)
    beta = resolve("qmix_beta", "sc2_beta").config
    assert (beta.mixer, beta.runner, beta.batch_size_run, beta.updates_per_episode) == ("qmix", "parallel", 8, 0.125)
    assert (beta.t_max, beta.test_interval, beta.log_interval, beta.test_nepisode) == (10_050_000, 20_000, 20_000, 24)
    assert update_rhythm(beta) == (1, 1)


def test_stored_configuration_reads_back_equal() -> None:
    config = resolve("qmix_beta", "foraging", ["lr=3e-4", "env_args.min_food_level=[1, 2, 1]", "name=a.b+c"]).config
    assert parse_config(read_yaml(write_yaml(config.model_dump()))) == config


# --------------------------------------------------------------------------------------------------- layers


def test_later_layers_win_and_mappings_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    files_by_path: dict[str, dict[str, Any]] = {
        "default.yaml": {
            "lr": 0.1,
            "gamma": 0.1,
            "t_max": 1,
            "seed": 1,
            "env_args": {"step_mul": 4, "start": "random"},
        },
        "envs/sc2.yaml": {"gamma": 0.2, "t_max": 2, "seed": 2, "env_args": {"map_name": "3m", "step_mul": 5}},
        "algs/iql.yaml": {"t_max": 3, "seed": 3, "env_args": {"reward_win": 7.0}},
    }
    monkeypatch.setattr(layers, "_read", files_by_path.__getitem__)
    file = AlgorithmFile("algs/iql.yaml", "", files_by_path["algs/iql.yaml"], "")
    monkeypatch.setattr(layers, "algorithm_file", {"iql": file}.__getitem__)
    resolved = resolve("iql", "sc2", ["seed=4", "env_args.map_name=8m"])
    config, sources = resolved.config, resolved.sources
    assert (config.lr, config.gamma, config.t_max, config.seed) == (0.1, 0.2, 3, 4)
    assert [sources[key] for key in ("lr", "gamma", "t_max", "seed", "batch_size", "name")] == [
        "default.yaml",
        "envs/sc2.yaml",
        "algs/iql.yaml",
        "command line",
        "schema default",
        "config name",
    ]
    options = {key: (config.env_args[key], sources[f"env_args.{key}"]) for key in config.env_args}
    assert options["map_name"] == ("8m", "command line")
    assert options["step_mul"] == (5, "envs/sc2.yaml")
    assert options["start"] == ("random", "default.yaml")
    assert options["reward_win"] == (7.0, "algs/iql.yaml")
    assert options["reward_sparse"] == (False, "schema default")


def test_sources_name_every_leaf_of_the_configuration() -> None:
    resolved = resolve("qmix", "sc2", ["lr=0.001"])
    assert set(resolved.sources) == {key for key, _ in layers.leaves(resolved.config.model_dump())}
    assert resolved.sources["mixer"] == "algs/qmix.yaml"
    assert resolved.sources["env_args.map_name"] == "envs/sc2.yaml"


def test_overrides_may_be_python_values() -> None:
    config = resolve("iql", "sc2", {"env_args.map_name": "3m", "t_max": np.int64(5), "lr": np.float32(0.5)}).config
    assert (config.env_args["map_name"], config.t_max, config.lr) == ("3m", 5, 0.5)
    assert type(config.t_max) is int


def test_env_key_picks_the_environment_file_when_none_is_named() -> None:
    resolved = resolve("iql", None, ["env=foraging"])
    assert resolved.config.env == "foraging"
    assert resolved.sources["t_max"] == "envs/foraging.yaml"


def test_registered_game_without_a_yaml_file_is_an_environment(request: pytest.FixtureRequest) -> None:
    ENVS.add("plain_game", ENVS["foraging"])
    request.addfinalizer(lambda: ENVS.remove("plain_game"))
    resolved = resolve("iql", "plain_game")
    assert resolved.config.env == "plain_game"
    assert resolved.sources["env"] == "--env-config"
    assert "plain_game" in env_config_names()


# -------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("key", "given_value", "value"),
    [("t_max", 2e6, 2_000_000), ("t_max", 2_000_000, 2_000_000), ("lr", 1, 1.0), ("early_stop_value", None, None)],
)
def test_accepted_values(key: str, given_value: Any, value: Any) -> None:
    read = getattr(parse_config({key: given_value}), key)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("lr", "abc", "lr: got 'abc' (text); expected a number > 0. Learning rate of the agent."),
        ("lr", True, "lr: got True (a truth value); expected a number > 0. Learning rate of the agent."),
        ("lr", 0, "lr: got 0.0 (a number); expected a number > 0. Learning rate of the agent."),
        ("lr", float("nan"), "lr: got nan (a number); expected a number > 0. Learning rate of the agent."),
        ("lr", None, "lr: got None; expected a number > 0. Learning rate of the agent."),
        ("gamma", 1.01, "gamma: got 1.01 (a number); expected a number >= 0 and <= 1. Discount factor."),
        ("seed", True, "seed: got True (a truth value); expected a whole number >= 0 and <= 2147483647. Seed"),
        ("batch_size", "32", "batch_size: got '32' (text); expected a whole number >= 1 and <= 1000000. Episodes"),
        ("batch_size", 1.5, "batch_size: got 1.5 (a number); expected a whole number >= 1 and <= 1000000. Episodes"),
        ("save_model", 1, "save_model: got 1 (a whole number); expected True or False. Write checkpoints."),
        (
            "keep_checkpoints",
            1,
            "keep_checkpoints: got 1 (a whole number); expected a whole number >= 2 and <= 1000000.",
        ),
        ("name", "../up", "name: got '../up'; allowed: letters, digits and . + - _."),
        ("name", 3, "name: got 3 (a whole number); expected text."),
        ("env_args", 3, "env_args: got 3 (a whole number); expected a mapping."),
        ("mixer", "qmx", "Unknown mixer 'qmx'. Did you mean 'qmix'? Allowed: None, qmix, qplex, vdn."),
        ("mixer", True, "Unknown mixer 'True'. Allowed: None, qmix, qplex, vdn."),
        ("agent", "rmn", "Unknown agent 'rmn'. Did you mean 'rnn'? Allowed: conv, dueling, idv_conv, idv_rnn, mlp"),
        ("agent", None, "Unknown agent 'None'."),
        ("runner", "paralel", "Unknown runner 'paralel'. Did you mean 'parallel'? Allowed: episode, parallel, vector."),
        ("buffer_dtype", "float8", "Unknown buffer_dtype 'float8'. Did you mean 'float32'? Allowed: bfloat16, "),
        (
            "env",
            "sc3",
            "Unknown environment (key env) 'sc3'. Did you mean 'sc2'? "
            "Allowed: foraging, gymma, jaxmarl, pettingzoo, predator_prey, rendezvous, sc2, snowdrift, stag_hunt, "
            "toy_grid.",
        ),
        ("env", [1], "Unknown environment (key env) '[1]'."),
        ("lrr", 1, "Unknown key 'lrr'. Did you mean 'lr'? `omg config` lists all keys with their help."),
        ("zzzzzz", 1, "Unknown key 'zzzzzz'. `omg config` lists all keys with their help."),
    ],
)
def test_refused_values(key: str, value: Any, expected: str) -> None:
    with pytest.raises(UserError) as error:
        parse_config({key: value})
    assert str(error.value).startswith(expected)


def test_option_of_the_game_without_its_prefix_is_recognised() -> None:
    for key in ("map_name", "mapname", "env_args_map_name"):
        with pytest.raises(UserError, match=rf"Unknown key '{key}'\. Did you mean 'env_args\.map_name'\?"):
            resolve("iql", "sc2", [f"{key}=8m"])


def test_configurations_do_not_change() -> None:
    config = Config()
    with pytest.raises(Exception, match="frozen"):
        config.lr = 0.1  # type: ignore[misc]
    assert change_config(config, lr=0.1).lr == 0.1
    assert config.lr == 0.0005
    with pytest.raises(UserError, match="lr: got -1"):
        change_config(config, lr=-1)


def test_types_in_words() -> None:
    class Example(BaseModel):
        size: int | None = None
        levels: tuple[int, ...] = ()

    assert describe_field(Config.model_fields["hypernet_layers"]) == "a whole number >= 1 and <= 2"
    assert describe_field(Config.model_fields["early_stop_value"]) == "a number or None"
    assert describe_field(ENVS["sc2"].traits.args.model_fields["start"]) == "one of standard, random"
    assert (
        describe_field(ENVS["sc2"].traits.args.model_fields["episode_limit"])
        == "a whole number >= 1 and <= 30000 or None"
    )
    assert describe_field(Example.model_fields["size"]) == "a whole number or None"
    assert describe_field(Example.model_fields["levels"]) == "a list"


# ---------------------------------------------------------------------------------------- checks before a run


def test_a_consistent_configuration_is_left_alone() -> None:
    config = resolve("iql", "sc2").config
    assert adjust(config, has_gpu=True) == (config, [])


def test_missing_gpu_falls_back_to_the_cpu() -> None:
    config, notes = adjust(Config(), has_gpu=False)
    assert config.use_cuda is False
    assert notes == ["use_cuda: no GPU found, running on the CPU."]
    assert adjust(Config(use_cuda=False), has_gpu=False) == (Config(use_cuda=False), [])


@pytest.mark.parametrize(
    ("runner", "games", "episodes", "expected"),
    [
        ("parallel", 8, 30, (8, 24)),
        ("parallel", 8, 3, (8, 8)),
        ("parallel", 8, 32, (8, 32)),
        ("episode", 8, 30, (1, 30)),
        ("vector", 8, 30, (8, 30)),
    ],
)
def test_test_episodes_fit_the_runner(runner: str, games: int, episodes: int, expected: tuple[int, int]) -> None:
    before = Config(runner=runner, batch_size_run=games, test_nepisode=episodes)
    config, notes = adjust(before, has_gpu=True)
    assert (config.batch_size_run, config.test_nepisode) == expected
    changed = [key for key in ("batch_size_run", "test_nepisode") if getattr(config, key) != getattr(before, key)]
    assert [note.partition(":")[0] for note in notes] == changed


@pytest.mark.parametrize(
    ("updates", "games", "rhythm"),
    [
        (1.0, 32, (32, 1)),
        (0.125, 8, (1, 1)),
        (0.125, 1, (1, 8)),
        (0.5, 32, (16, 1)),
        (0.0104167, 32, (1, 3)),
        (2, 1, (2, 1)),
    ],
)
def test_updates_per_episode_becomes_a_rhythm(updates: float, games: int, rhythm: tuple[int, int]) -> None:
    config, notes = adjust(Config(updates_per_episode=updates, batch_size_run=games), has_gpu=True)
    assert update_rhythm(config) == rhythm
    assert config.updates_per_episode == rhythm[0] / (rhythm[1] * games)
    assert notes == []


@pytest.mark.parametrize(("updates", "games", "nearest"), [(0.3, 8, (0.25, 0.375)), (0.03, 8, (0.025, 0.03125))])
def test_impossible_updates_per_episode_names_the_nearest(
    updates: float, games: int, nearest: tuple[float, float]
) -> None:
    with pytest.raises(UserError) as error:
        adjust(Config(updates_per_episode=updates, batch_size_run=games), has_gpu=True)
    assert str(error.value).startswith(f"updates_per_episode: got {updates}, which with batch_size_run={games} makes ")
    assert str(error.value).endswith(f"Nearest allowed: {nearest[0]} or {nearest[1]}.")
    for value in nearest:
        assert adjust(Config(updates_per_episode=value, batch_size_run=games), has_gpu=True)[1] == []


def test_mixer_implies_a_common_reward() -> None:
    assert adjust(Config(mixer="vdn"), has_gpu=True)[0].common_reward is True
    assert adjust(Config(), has_gpu=True)[0].common_reward is None
    assert adjust(Config(common_reward=False), has_gpu=True)[0].common_reward is False
    with pytest.raises(UserError, match="common_reward: got False, but mixer=qmix"):
        adjust(Config(mixer="qmix", common_reward=False), has_gpu=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 64, "buffer_size": 63}, "batch_size: got 64, .* at most buffer_size=63"),
        ({"batch_size": 4, "buffer_size": 16}, "buffer_size: got 16, .* at least batch_size_run=32"),
        (
            {"early_stop_metric": "test_return_mean"},
            "early_stop_value: missing, but early_stop_metric=test_return_mean ",
        ),
        ({"early_stop_value": 0.9}, "early_stop_metric: missing, but early_stop_value=0.9 is given"),
        ({"early_stop_at": [9], "early_stop_below": [0.5]}, "early_stop_metric: missing, but early_stop_at="),
        ({"early_stop_at": [9, 10]}, "early_stop_below: got 0 values, but early_stop_at has 2 steps; give one "),
        (
            {"am_model": "omg_am"},
            "learner: got q_learner, which cannot train am_model=omg_am. Allowed: omg_learner, omg_ppo_learner, ",
        ),
        ({"learner": "omg_learner"}, "am_model: got none_am, but learner=omg_learner trains omg_am. Allowed: omg_am"),
        (
            {"learner": "am_learner", "am_model": "base_am"},
            "am_model: got base_am, but learner=am_learner trains the pr",
        ),
        ({"learner": "am_learner", "am_model": "omg_am"}, "init_param_path: missing. .* `omg pool train` makes one"),
        ({"learner": "omg_learner", "am_model": "omg_am", "mixer": "vdn"}, "mixer: got vdn, but learner=omg_learner "),
        ({"omg_q_input": "zero"}, "omg_q_input: got zero, but there is no opponent model"),
        ({"am_model": "identity_am"}, "am_model: identity_am names the players of a team; there is none"),
    ],
)
def test_contradictions_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        adjust(parse_config(values), has_gpu=True)


def test_one_game_at_a_time_needs_room_for_one_episode() -> None:
    config, _ = adjust(parse_config({"runner": "episode", "batch_size": 4, "buffer_size": 4}), has_gpu=True)
    assert (config.batch_size_run, config.buffer_size) == (1, 4)
