"""QPLEX's mixer: loops, its one limit, and what it can value that no monotonic mixer can."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from omg.modules.mixers import MIXERS
from omg.modules.mixers.base import Choices, Mixer, MixerSizes
from omg.modules.mixers.qplex import QPlexMixer

A, S, U, HEADS = 2, 3, 3, 2
PAYOFF = np.array([[8.0, -12.0, -12.0], [-12.0, 0.0, 0.0], [-12.0, 0.0, 0.0]])
"""A game of one step, in which the best joint action is the worst as soon as one seat leaves it."""


def build(name: str) -> Mixer:
    sections = MIXERS[name].traits.sections
    own = tuple(
        section(**({"qplex_heads": HEADS} if "qplex_heads" in section.model_fields else {})) for section in sections
    )
    mixer = MIXERS[name].build(MixerSizes(A, S, embed_dim=8, n_actions=U, own=own), key=jax.random.key(3))
    return mixer


def linear(layer: object, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)  # type: ignore[attr-defined]


def test_equals_loops() -> None:
    mixer = build("qplex")
    assert isinstance(mixer, QPlexMixer)
    draw = np.random.default_rng(0)
    qs, state = draw.normal(size=A), draw.normal(size=S)
    best, actions = qs + draw.uniform(size=A), np.array([2, 0])
    joint = np.zeros(A * U)
    joint[[2, U]] = 1.0
    perceptrons = {}
    for name in ("weight", "offset"):
        first, second = getattr(mixer, name).layers
        perceptrons[name] = linear(second, np.maximum(linear(first, state), 0.0))
    expected = 0.0
    for i in range(A):
        weight = abs(perceptrons["weight"][i]) + 1e-10
        importance = 0.0
        for h in range(HEADS):
            scale = abs(linear(mixer.head_scale, state)[h]) + 1e-10
            seat = 1 / (1 + np.exp(-linear(mixer.head_seats, state)[h * A + i]))
            action = 1 / (1 + np.exp(-linear(mixer.head_actions, np.concatenate([state, joint]))[h * A + i]))
            importance += scale * seat * action
        expected += weight * best[i] + perceptrons["offset"][i] + importance * weight * (qs[i] - best[i])
    found = mixer(jnp.asarray(qs), jnp.asarray(state), Choices(jnp.asarray(actions), jnp.asarray(best)))
    assert float(found) == pytest.approx(expected, abs=1e-5)


def all_joint(values: Array, mixer: Mixer) -> Array:
    """Values of all joint actions of the game, [U, U], from the seats' values [A, U]."""
    actions = jnp.stack(jnp.meshgrid(jnp.arange(U), jnp.arange(U), indexing="ij"), axis=-1)
    qs = jnp.stack([values[0][actions[..., 0]], values[1][actions[..., 1]]], axis=-1)
    best = jnp.broadcast_to(values.max(axis=-1), qs.shape)
    return mixer(qs, jnp.ones((U, U, S)), Choices(actions, best))


def test_the_seats_best_actions_are_the_teams() -> None:
    mixer, draw = build("qplex"), np.random.default_rng(1)
    for _ in range(20):
        values = jnp.asarray(draw.normal(size=(A, U)))
        team = np.asarray(all_joint(values, mixer))
        assert np.unravel_index(team.argmax(), team.shape) == tuple(np.asarray(values).argmax(axis=1))


@pytest.mark.parametrize(("name", "fits"), [("qplex", True), ("qmix", False)])
def test_what_no_monotonic_mixer_can_value(name: str, fits: bool) -> None:
    """QPLEX values the game rightly with seats that know their best actions; QMIX does not with any values of seats."""
    optimiser = optax.adam(0.02)
    known = jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])

    def error(learned: tuple[Array, Mixer]) -> Array:
        values = known if fits else learned[0]
        return ((all_joint(values, learned[1]) - PAYOFF) ** 2).mean()

    def step(carry: tuple[tuple[Array, Mixer], optax.OptState], _: None) -> tuple[tuple, Array]:
        learned, state = carry
        loss, gradients = jax.value_and_grad(error)(learned)
        moves, state = optimiser.update(gradients, state)
        return (optax.apply_updates(learned, moves), state), loss

    start = (known, build(name))
    run = jax.jit(lambda: jax.lax.scan(step, (start, optimiser.init(start)), None, length=2000)[1])
    loss = float(run()[-1])
    assert (loss < 0.1) if fits else (loss > 20.0)
