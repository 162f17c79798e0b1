"""A key belongs to a part: what a run does not read is refused, with the part that would read it."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from omg.config import Config, algorithm_names, config_fields, parse_config, refuse_shared, resolve
from omg.config.defaults import default_yaml
from omg.config.reading import readers, reads, unread_error
from omg.config.schema import GENERAL, SECTIONS
from omg.errors import UserError
from omg.registry.keys import conditions, words_of

GENERAL_KEYS = {key for section in GENERAL for key in section.model_fields}
SEATS_A_TEAM = ("mac",)
"""One of its values is for teams only."""
PART_KEYS = [key for key in Config.model_fields if key not in GENERAL_KEYS]


def game_of(algorithm: str) -> str:
    return "stag_hunt" if resolve(algorithm).config.learner_part.plans else "toy_grid"


def other_value(key: str, config: Config) -> Any:
    """Another value than a configuration has and than the default is; None where there is no third one."""
    field = config_fields()[key]
    taken = (getattr(config, key), field.default)
    words = [word for word in words_of(key, field) if word not in taken and [word] not in taken]
    if words:
        return words[-1]
    for value in (7, 3, 0.25, 0.125, False, True, "elsewhere", 1, 2, ["tinydb"]):
        try:
            parse_config({key: value})
        except UserError:
            continue
        if value not in taken:
            return value
    return None


def test_every_key_stands_in_one_section_and_is_read_by_some_part():
    assert len(Config.model_fields) == sum(len(section.model_fields) for section in SECTIONS)
    assert [key for key in PART_KEYS if not readers(key)] == []
    assert [key for key in GENERAL_KEYS if readers(key)] == []


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_each_key_is_read_or_refused(algorithm: str):
    game = game_of(algorithm)
    config = resolve(algorithm, game).config
    own = {key for key in PART_KEYS if reads(config, key)}
    assert len(own) > 10
    for key in PART_KEYS:
        value = other_value(key, config)
        if value is None:  # A truth value that the algorithm's file sets to the other one.
            assert key in own
            continue
        if key in own:
            if key not in SEATS_A_TEAM:
                assert getattr(resolve(algorithm, game, {key: value}).config, key) == value
            continue
        with pytest.raises(UserError) as refused:
            resolve(algorithm, game, {key: value})
        message = str(refused.value)
        assert message.startswith(f"{key}: got ")
        assert "Leave it out" in message
        unmet = [
            one for section in SECTIONS if key in section.model_fields for one in conditions(section.model_fields[key])
        ]
        named = [f"{kind}={names[0]}" for kind, names in readers(key).items()]
        assert any(part in message for part in [*named, *(str(one) for one in unmet), "omg_q_input=oracle"])


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_a_complete_configuration_can_be_given_back(algorithm: str):
    config = resolve(algorithm, game_of(algorithm)).config
    assert resolve(algorithm, config.env, config.model_dump()).config == config


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (
            "qmix",
            {"hop_simulations": 500},
            "got 500, but no part of this run reads it; mac=hop_mac would. Leave it out.",
        ),
        ("ippo_omg", {"omg_value": "max"}, "omg_value: got max, but it is read only with omg_q_input=oracle."),
        ("ippo", {"omg_value": "max"}, "learner=omg_learner or omg_ppo_learner would."),
        ("vdn", {"hypernet_embed": 8}, "hypernet_embed: got 8, but no part of this run reads it; mixer=qmix would."),
        ("ippo", {"optim_eps": 0.1}, "optimizer=rmsprop would"),
        ("ippo", {"mlp_second_dim": 8}, "learner=influence_learner or pr2_learner or"),
        ("iql", {"workers": 2}, "runner=parallel would, for a game that is no JAX program."),
        ("iql", {"runner": "parallel", "workers": 2}, "runner=parallel would, for a game that is no JAX program."),
        ("iql", {"sacred_mongo_db": "mine"}, "tracker=sacred would"),
        ("1iql1vdn", {"mixing_embed_dim": 8}, "mixer=qmix or qplex would"),
        ("iql_omg", {"omg_q_input": "zero", "omg_mix_start": 0.1}, "read only with omg_q_input=mix"),
    ],
)
def test_refusals(config: str, settings: dict[str, Any], message: str):
    with pytest.raises(UserError, match=re.escape(message)):
        resolve(config, "toy_grid", settings)


@pytest.mark.parametrize(
    ("config", "game", "settings"),
    [
        ("1iql1qmix", "toy_grid", {"mixing_embed_dim": 8}),
        ("ippo", "toy_grid", {"agent": "mlp", "mlp_second_dim": 8}),
        ("ippo", "toy_grid", {"critic": "mlp", "mlp_second_dim": 8}),
        ("iql", "gymma", {"workers": 2, "env_args.key": "lbforaging:Foraging-8x8-2p-3f-v3"}),
        ("iql", "toy_grid", {"tracker": "sacred", "sacred_mongo_db": "mine"}),
        ("iql_am", "toy_grid", {"omg_q_input": "zero"}),
        ("qmix", "toy_grid", {"hop_simulations": 200, "td_lambda": 0.8}),
        ("ippo", "toy_grid", {"buffer_size": 100, "updates_per_episode": 1.0}),
    ],
)
def test_what_somebody_reads_and_what_holds_anyway_is_taken(config: str, game: str, settings: dict[str, Any]):
    resolve(config, game, settings, open_games="none")


def test_settings_of_several_runs_need_one_reader():
    settings = {"mixing_embed_dim": 8}
    runs = {name: resolve(name, "toy_grid", settings, shared=settings) for name in ("iql", "vdn", "qmix")}
    assert [name for name, run in runs.items() if run.unread] == ["iql", "vdn"]
    refuse_shared(settings, list(runs.values()))
    with pytest.raises(UserError, match="mixing_embed_dim: got 8, but no part of this run reads it"):
        refuse_shared(settings, [runs["iql"], runs["vdn"]])


def test_old_words_for_what_nobody_reads_are_left_out_with_a_note():
    resolved = resolve("iql", "toy_grid", {"hidden_dim": 128})
    assert (resolved.config.rnn_hidden_dim, resolved.config.critic_hidden_dim) == (128, 64)
    assert resolved.notes[-1] == "critic_hidden_dim: left out, as no part of this run reads it."
    with pytest.raises(UserError, match="critic_hidden_dim: got 128"):
        resolve("iql", "toy_grid", {"critic_hidden_dim": 128})


def test_stored_configurations_have_all_keys():
    stored = {**resolve("qmix", "toy_grid").config.model_dump(), "hop_simulations": 500}
    assert parse_config(stored).hop_simulations == 500
    assert "mac=hop_mac would" in str(unread_error("hop_simulations", 500, [parse_config(stored)]))


def test_the_file_of_defaults_is_made_from_the_sections():
    assert files("omg.config").joinpath("default.yaml").read_text() == default_yaml(), "python tools/write_defaults.py"
