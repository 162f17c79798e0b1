"""The registries: the words of the configuration are their keys, and every configuration file builds a run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from omg.components import SELECTORS
from omg.components.replay import FLOAT_TYPES
from omg.config import Config, adjust, algorithm_names, playable_games, resolve
from omg.config.reading import reads
from omg.config.schema import GENERAL, SECTIONS
from omg.controllers import ACTION_SELECTORS
from omg.controllers.draw import MANNERS
from omg.envs import ENVS
from omg.errors import UserError
from omg.planning import INFERENCES
from omg.pools import SETS
from omg.registry import RunnerTraits, Traits, registries
from omg.registry.keys import Keys, words_of
from omg.runners import RUNNERS, register_runner
from omg.runners.kinds import RunnerKind
from omg.runners.vector import play_episodes
from omg.training.program import Program


def test_words_of_the_configuration_are_the_keys_of_the_registries():
    for key, found in registries().items():
        assert found.key == key
        assert all(entry.summary and isinstance(entry.traits, Traits) for entry in found.values()), key
        assert all(entry.build is not None for entry in found.values()), key
        if key in Config.model_fields and key != "env":
            assert set(words_of(key, Config.model_fields[key])) == set(found), key
    for key, words in (
        ("buffer_dtype", FLOAT_TYPES),
        ("team_draw", MANNERS),
        ("pool_set", SETS),
        ("hop_model", INFERENCES),
    ):
        assert set(words_of(key, Config.model_fields[key])) == set(words), key
    # COMA's other selector is chosen by mask_before_softmax.
    assert {*ACTION_SELECTORS, "multinomial_late_mask"} == set(SELECTORS)


OWN_GAMES = [name for name, entry in ENVS.items() if not entry.traits.foreign]


def pairs() -> list[tuple[str, str]]:
    """Where each algorithm is tried: all in one game, new parts in a second, and two algorithms in every game.

    The toy grid pays everybody apart, battles pay the team: learners, mixers and networks must cope with both. Which of
    them an algorithm combines makes no further difference to that.
    """
    chosen: list[tuple[str, str]] = []
    fought: set[str | None] = set()
    for algorithm in algorithm_names():
        config = resolve(algorithm).config
        parts = {config.learner, config.mixer, config.agent, config.am_model, config.critic_input}
        playable = playable_games(config)
        if algorithm in ("iql", "ippo"):
            games = [name for name in OWN_GAMES if name in playable]
        elif "toy_grid" not in playable:
            games = playable[-1:]
        else:
            games = ["toy_grid"] if parts <= fought or "sc2" not in playable else ["toy_grid", "sc2"]
        if "sc2" in games:
            fought |= parts
        chosen += [(algorithm, game) for game in games]
    return chosen


LOOKED_AT_BEFORE = {"mixer", "prosocial", "common_reward", "omg_maps", "subgoal_of"}
"""Keys that `adjust` looks at: some learners have no further use for them, but refuse what they cannot honour."""
OF_THE_HOST = {"diagnostics_interval", "prior_path"}
"""Keys that are read while a run goes on, or for a run in a team."""
HANDED_ON = {
    *("am_lr", "am_hidden_dim", "am_embed_dim", "am_feature", "am_normalise", "mask_before_softmax", "mlp_second_dim"),
    *("mixing_embed_dim", "hypernet_layers", "hypernet_embed", "omg_q_input", "omg_sample", "omg_maps"),
    *("omg_inference", "omg_reconstruct", "omg_actions", "omg_feature", "omg_residual", "omg_horizon", "subgoal_dim"),
    *("epsilon_start", "epsilon_finish", "epsilon_anneal_time"),
    *("hop_belief_within", "hop_belief_between", "hop_belief_alpha"),
}
"""Keys that are handed to whatever part is built, with all other sizes; only some of these parts make use of them."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The keys that anybody asks a configuration, or a section of it, for."""
    keys: set[str] = set()
    plain = Keys.__getattribute__

    def noted(section: Keys, name: str) -> Any:
        if name in Config.model_fields:
            keys.add(name)
        return plain(section, name)

    monkeypatch.setattr(Keys, "__getattribute__", noted)
    return keys


@pytest.mark.parametrize(("algorithm", "env"), pairs())
def test_every_algorithm_and_every_game_runs(algorithm: str, env: str, asked: set[str]):
    """Traces one chunk without compiling it. Short episodes keep the number of traced lengths at one.

    What is asked of the configuration meanwhile are the keys of the chosen parts, all of them and no others.
    """
    # The length of rendezvous follows from its rounds.
    short = "env_args.rounds" if env == "rendezvous" else "env_args.episode_limit"
    settings: dict[str, Any] = {short: 8, "seeds": 2, "buffer_size": 64}
    if env == "sc2":
        settings["env_args.map_name"] = "2m_vs_1z"
    config, _ = adjust(resolve(algorithm, env, settings).config, has_gpu=False)
    asked.clear()
    program = Program(config)
    state = jax.eval_shape(program.init, jnp.array([1, 2], jnp.uint32))
    after, log = jax.eval_shape(program.chunk, state)
    # The same structure, shapes and types go in and come out, so that one compilation serves the whole run.
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for before, changed in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (before.shape, before.dtype, before.weak_type) == (changed.shape, changed.dtype, changed.weak_type)
    rounds = (program.iterations, 2)
    assert log.stats.returns.shape == (*rounds, config.batch_size_run)
    assert set(log.stats.metrics) == set(program.spec.metrics)
    assert {"loss", "grad_norm"} <= set(log.learner)
    for metric in log.learner.values():
        assert (metric.shape, metric.dtype) == (rounds, jnp.float32)
    tests, examined, _ = jax.eval_shape(program.test, state)
    assert tests.returns.shape == (2, config.test_nepisode)
    assert bool(examined) == program.learner.examines
    assert all((metric.shape, metric.dtype) == ((2,), jnp.float32) for metric in examined.values())
    of_parts = {key for section in SECTIONS if section not in GENERAL for key in section.model_fields}
    found = asked & of_parts
    declared = {key for key in of_parts if reads(config, key)}
    assert declared - found <= LOOKED_AT_BEFORE | OF_THE_HOST
    assert found - declared <= HANDED_ON


def test_a_fourth_runner_can_be_added_from_outside(request: pytest.FixtureRequest):
    games: list[int] = []

    def play(env: Any, policy: Any, key: Any, num_envs: int, epsilon: Any, **options: Any) -> Any:
        games.append(num_envs)
        return play_episodes(env, policy, key, num_envs, epsilon, **options)

    settings = {"runner": "noted", "batch_size_run": 3, "test_nepisode": 7, "env_args.episode_limit": 8}
    with pytest.raises(UserError, match=r"Unknown runner 'noted'\. Allowed: episode, parallel, vector"):
        resolve("iql", "toy_grid", settings)
    register_runner("noted", RunnerKind(play=play), RunnerTraits(), "notes how many games it plays")
    request.addfinalizer(lambda: RUNNERS.remove("noted"))
    config, notes = adjust(resolve("iql", "toy_grid", settings).config, has_gpu=True)
    assert notes == ["test_nepisode: 7 -> 6, a multiple of batch_size_run=3."]
    program = Program(config)
    state = jax.eval_shape(program.init, jnp.array([1], jnp.uint32))
    jax.eval_shape(program.chunk, state)
    assert set(games) == {3}
    jax.eval_shape(program.test, state)
    assert set(games) == {3, 6}
    with pytest.raises(UserError, match="there is a runner 'noted' already"):
        register_runner("noted", RunnerKind(), RunnerTraits())
