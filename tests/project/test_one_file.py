"""`examples/omg_in_one_file.py` learns, and it computes what the library computes."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import drawn_state, fast_jit
from omg.components import EpisodeBatch, loss_mask
from omg.config import parse_config
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.learners import build_learner
from omg.learners.omg import OMGLearner
from omg.learners.q import QState

EXAMPLE = Path(__file__).parents[2] / "examples" / "omg_in_one_file.py"
KEY = jax.random.key(5)
LENGTHS, ENDED = np.array([6, 6, 4, 1]), np.array([False, True, True, False])
"""Cut at the limit, ended in the last step, ended early, cut early."""
TEAM = TeamDraw((TeamSlots(1, ()), TeamSlots(1, (0, 1))))
"""The learner in the first seat, a partner in the other."""
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def one() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("omg_in_one_file", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Equinox looks a class's module up.
    spec.loader.exec_module(module)
    return module


# The library's numbers in the order of the file's


def linear(*layers: Any) -> list[Any]:
    """Equinox keeps weights as [out, in]."""
    return [part for layer in layers for part in (np.asarray(layer.weight).T, np.asarray(layer.bias))]


def recurrent(inputs: Any, hidden: Any, gradient: bool) -> list[Any]:
    """Equinox has the sum of both biases, but for the new gate's; the gradient by a sum is that by each part."""
    width = hidden.weight.shape[0]
    added = np.where(np.arange(3 * width) < 2 * width, 0.0 if gradient else np.asarray(hidden.bias), 0.0)
    weights = [np.asarray(layer.weight).T for layer in (inputs, hidden)]
    return [*weights, np.asarray(inputs.bias) + added, np.asarray(hidden.bias)[2 * width :]]


def of_prior(prior: Any) -> list[Any]:
    heads = linear(prior.mean_head, prior.log_var_head)
    scale = [np.asarray(part) for part in prior.statistics.scale()]
    return [*linear(*prior.encoder), *heads, *linear(*prior.decoder, prior.output), *scale]


def of_model(model: Any, gradient: bool = False) -> list[Any]:
    cell = recurrent(model.input_gates, model.hidden_gates, gradient)
    return [*linear(model.embed), *cell, *linear(model.mean_head, model.log_var_head, model.decoder)]


def of_agent(agent: Any, gradient: bool = False) -> list[Any]:
    cell = recurrent(agent.input_gates, agent.hidden_gates, gradient)
    return [*linear(agent.fc1), *cell, *linear(agent.fc2)]


class Both(NamedTuple):
    """The library's learner with its state, the file's networks with the same numbers, and the same games for both."""

    learner: OMGLearner
    state: QState
    batch: EpisodeBatch
    prior: Any
    model: Any
    agent: Any
    target: Any
    games: Any


@pytest.fixture(scope="module")
def both(one: ModuleType) -> Both:
    config = parse_config(
        {
            "learner": "omg_learner",
            "am_model": "omg_am",
            "obs_is_state": True,
            "obs_agent_id": False,
            "rnn_hidden_dim": one.WIDTH,
            "am_hidden_dim": one.MODEL_WIDTH,
            "subgoal_dim": one.D,
            "omg_horizon": one.HORIZON,
            "gamma": one.GAMMA,
        }
    )
    learner = build_learner(config, one.GAME.spec, TEAM, 2)
    assert isinstance(learner, OMGLearner)
    state = drawn_state(learner)
    shapes = jax.eval_shape(lambda: one.build(KEY, jnp.zeros((2, one.S))))

    def filled(shape: Any, leaves: list[Any]) -> Any:
        assert [leaf.shape for leaf in jax.tree.leaves(shape)] == [leaf.shape for leaf in leaves]
        return jax.tree.unflatten(jax.tree.structure(shape), [leaf.astype(np.float32) for leaf in leaves])

    model = state.mac.opponent_model
    networks = {
        "prior": filled(shapes[0], of_prior(model.prior)),
        "model": filled(shapes[1], of_model(model)),
        "agent": filled(shapes[2], of_agent(state.mac.agent)),
        "target": filled(shapes[2], of_agent(state.target_mac.agent)),
    }
    games = made_up(one)
    rewards = np.stack([games.reward, games.reward + 7.0], axis=-1)  # The partner's are nobody's business.
    batch = EpisodeBatch(
        obs=np.zeros((len(LENGTHS), one.T + 1, one.A, one.GAME.spec.obs_dim), np.float32),
        state=games.s,
        avail=np.stack([games.avail, ~games.avail], axis=2),
        actions=games.actions,
        reward=rewards,
        terminated=games.terminated,
        filled=games.filled,
        seat=np.zeros(len(LENGTHS), np.int32),
        records={},
        players=np.tile(np.array([-1, 0], np.int32), (len(LENGTHS), 1)),
    )
    return Both(learner, state, batch, **networks, games=games)


def made_up(one: ModuleType) -> Any:
    rng, slots = np.random.default_rng(0), np.arange(one.T + 1)
    shape = (len(LENGTHS), one.T + 1)
    avail = rng.random((*shape, one.U)) < 0.6
    avail[..., 0] = True
    return one.Episodes(
        s=rng.normal(size=(*shape, one.S)).astype(np.float32),
        avail=avail,
        actions=rng.integers(0, one.U, (*shape, one.A)).astype(np.int32),
        reward=rng.normal(size=shape).astype(np.float32),
        terminated=(slots == LENGTHS[:, None] - 1) & ENDED[:, None],
        filled=slots < LENGTHS[:, None],
    )


# Agreement


def test_the_selector_picks_what_the_library_picks(one: ModuleType, both: Both) -> None:
    inferred = np.random.default_rng(1).normal(size=(len(LENGTHS), one.T + 1, one.D)).astype(np.float32)

    def by_library(state: QState, batch: EpisodeBatch, inferred: Array) -> Any:
        (share,) = both.learner.shares(state.mac.reading, batch)
        model = state.mac.opponent_model
        encoded = model.prior.encode(share.views.model_inputs().seen)
        return both.learner.training.select(model, state, share, encoded, inferred[:, :, None], KEY)

    expected = fast_jit(by_library)(both.state, both.batch, inferred)
    offset, mean, log_var = fast_jit(one.select)(both.prior, both.agent, both.games, inferred)
    played = np.asarray(loss_mask(both.batch)) > 0
    assert len(np.unique(np.asarray(offset)[played])) >= 4
    np.testing.assert_array_equal(np.asarray(offset)[played], np.asarray(expected.offset)[played][:, 0])
    np.testing.assert_allclose(np.asarray(mean)[played], np.asarray(expected.mean)[played][:, 0], **CLOSE)
    np.testing.assert_allclose(np.asarray(log_var)[played], np.asarray(expected.log_var)[played][:, 0], **CLOSE)


def test_losses_and_gradients_are_the_library_s(one: ModuleType, both: Both) -> None:
    t_env = both.learner.config.omg_mix_anneal_time // 2
    new_state, expected = fast_jit(both.learner.update)(both.state, both.batch, 0, t_env, KEY)

    def by_file(model: Any, agent: Any, keys: Array) -> Any:
        loss = jax.value_and_grad(one.inference_loss, has_aux=True)
        (value, (g, metrics)), by_model = loss(model, both.prior, agent, both.games, 0.25, keys)
        q, by_agent = jax.value_and_grad(one.q_loss)(agent, both.target, both.games, g)
        return {"am_loss": value, "loss": q, **metrics}, by_model, by_agent

    # The library draws for the inferred subgoals, the mix and the decoder by these; the second is for random selection.
    keys = jax.random.split(KEY, 5)[np.array([0, 2, 3])]
    found, by_model, by_agent = fast_jit(by_file)(both.model, both.agent, keys)
    names = {"reconstruction": "am_reconstruction", "kl": "am_kl", "offset": "omg_offset_mean"}
    assert expected["omg_selected_share"] == 0.25
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[names.get(name, name)], **CLOSE, err_msg=name)
    assert expected["grad_norm"] < both.learner.config.grad_norm_clip
    # Behind the first update, Adam remembers a tenth of the gradient and RMSProp a hundredth of its square.
    of_library = of_model(new_state.model_opt_state[0].mu, gradient=True)
    for gradient, tenth in zip(jax.tree.leaves(by_model), of_library, strict=True):
        np.testing.assert_allclose(gradient, 10 * tenth, rtol=1e-4, atol=1e-5)
    of_library = of_agent(new_state.opt_state[0].nu[0], gradient=True)
    for gradient, hundredth in zip(jax.tree.leaves(by_agent), of_library, strict=True):
        np.testing.assert_allclose(np.abs(gradient), 10 * np.sqrt(hundredth), rtol=1e-3, atol=1e-5)


def test_the_prior_s_loss_is_the_library_s(one: ModuleType, both: Both) -> None:
    states = both.games.s.reshape(-1, one.S)
    mask = np.ones((1, len(states)), np.float32)

    def by_library(prior: Any, states: Array, key: Array) -> Array:
        return prior.loss(states[None, :, None], mask, one.KL_WEIGHT, key)[0]

    expected = fast_jit(by_library)(both.state.mac.opponent_model.prior, states, KEY)
    np.testing.assert_allclose(fast_jit(one.prior_loss)(both.prior, states, KEY), expected, **CLOSE)


# Learning


def test_it_learns(one: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(one, "pretrain", partial(one.pretrain, updates=300))
    found = one.main(seed=1, steps=12_000, lines=4)
    assert list(found) == ["OMG", "the same, subgoal zeroed", "random", "best possible"]
    assert found["random"] < 0.15
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["steps", "return"]
    assert [float(row.split()[-1]) for row in rows[4:]] == [pytest.approx(value, abs=0.006) for value in found.values()]
    # Where the greedy player stands between two equal actions one line may be low, so that the best one counts.
    assert max(float(row.split()[1]) for row in rows[:4]) > 0.35
