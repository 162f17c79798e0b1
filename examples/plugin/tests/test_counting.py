"""The opponent model that counts, by itself: what it predicts, what it learns, and whether it tells players apart."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from omg_plugin_example.counting import CountingModel
from omg_plugin_example.keys import CountsKeys
from omg_plugin_example.meeting import Meeting, MeetingArgs
from omg_plugin_example.players import stubborn, yielding

from omg.learners.subgoal_measures import probe_accuracy
from omg.modules.opponent_models.base import ActionTargets, ModelInputs, ModelSizes

B, T, A, U, SEATS = 4, 5, 3, 4, 2
KEY = jax.random.key(5)
WHERE = jnp.array([[2, 0], [1, 2], [0, 1], [2, 1]])
"""[B, m], the seats that have a model."""
LENGTHS = np.array([5, 3, 1, 4])


def built(agents: int = A, actions: int = U, **settings: float) -> CountingModel:
    keys = CountsKeys.model_validate(settings)
    model = CountingModel(ModelSizes(6, 6, actions, agents, feature_dim=0, hidden_dim=0, own=(keys,)), key=KEY)
    return jax.tree.map(lambda leaf: leaf + jnp.linspace(-0.5, 0.5, leaf.size), model)


def played() -> tuple[ModelInputs, ActionTargets, Array]:
    """Inputs of T + 1 slots, targets and mask of T steps."""
    rng = np.random.default_rng(0)
    actions = jnp.asarray(rng.integers(0, U, (B, T, A)))
    last = jnp.concatenate([jnp.full((B, 1, A), -1), actions], axis=1)
    mask = jnp.asarray(np.arange(T) < LENGTHS[:, None], jnp.float32)
    return ModelInputs(jnp.zeros((B, T + 1, SEATS, 6)), last, WHERE[:, None]), ActionTargets(actions, WHERE), mask


def test_predictions_and_loss_are_those_of_a_plain_loop() -> None:
    model, (inputs, targets, mask) = built(counts_memory=0.8, counts_pseudo=3), played()
    chances = jax.jit(lambda inputs: model.unroll(inputs))(inputs)
    rates = np.exp(np.asarray(model.log_rates))
    rates /= rates.sum()
    lost = []
    for b in range(B):
        for i in range(SEATS):
            for place in range(A - 1):
                seat, counts = (int(WHERE[b, i]) + 1 + place) % A, np.zeros(U)
                for t in range(T + 1):
                    counts *= 0.8
                    if t > 0:
                        counts[int(targets.actions[b, t - 1, seat])] += 1
                    expected = (counts + 3 * rates) / (counts.sum() + 3)
                    np.testing.assert_allclose(chances[b, t, i, place], expected, rtol=1e-5)
                    if t < LENGTHS[b]:
                        lost.append(-np.log(expected[int(targets.actions[b, t, seat])]))
    loss, metrics = model.loss(chances[:, :-1], targets, mask, KEY)
    np.testing.assert_allclose(loss, np.mean(lost), rtol=1e-5)
    assert metrics["am_loss"] == loss


def test_step_by_step_equals_at_once_and_is_not_trained_by_the_agent() -> None:
    model, (inputs, _, _) = built(), played()
    features = jax.jit(lambda model: model.features(model.unroll(inputs), None))(model)
    assert features.shape == (B, T + 1, SEATS, model.feature_dim)
    assert model.feature_dim == (A - 1) * (U + 1)
    memory, infer = model.initial(B, SEATS), jax.jit(lambda *given: model.infer(*given, KEY))
    for t in range(T + 1):
        found, memory, stored = infer(ModelInputs(inputs.seen[:, t], inputs.last_actions[:, t], WHERE), memory)
        np.testing.assert_allclose(found, features[:, t], atol=1e-6)
        assert stored == {}
    gradient = jax.grad(lambda model: model.features(model.unroll(inputs), None).sum())(model)
    assert not np.asarray(gradient.log_rates).any()


def test_base_rates_learn_what_is_done_often() -> None:
    model, (inputs, targets, mask) = built(), played()
    always = targets._replace(actions=jnp.full_like(targets.actions, 2))
    gradient = jax.grad(lambda model: model.loss(model.unroll(inputs)[:, :-1], always, mask, KEY)[0])(model)
    assert np.asarray(gradient.log_rates).argmin() == 2


ENV = Meeting(MeetingArgs())
ROUNDS, PLACES = ENV.args.rounds, ENV.args.places


@partial(jax.jit, static_argnums=1)
def meetings(key: Array, games: int) -> tuple[ModelInputs, Array]:
    """Games of a random player with stubborn and yielding ones: inputs and the kind [B] of the second seat."""
    kind_key, start_key, key = jax.random.split(key, 3)
    kind = jax.random.bernoulli(kind_key, 0.5, (games,))
    seats, players = jnp.tile(jnp.arange(2), (games, 1)), (stubborn(ENV), yielding(ENV))

    def step(carried, key):
        state, seen, last = carried
        keys = jax.random.split(key, 3)
        insists, follows = (
            player.choose(seen.obs, seen.avail, seats, own)[:, 1] for player, own in zip(players, keys[:2], strict=True)
        )
        mine = jax.random.randint(keys[2], (games,), 0, PLACES)
        actions = jnp.stack([mine, jnp.where(kind, follows, insists)], axis=-1)
        state, then, _ = ENV.step(key, state, actions)
        return (state, then, actions), (seen.obs[:, :1], last)

    start = (*ENV.reset(start_key, games), jnp.full((games, 2), -1))
    _, by_time = jax.lax.scan(step, start, jax.random.split(key, ROUNDS))
    seen, last = (jnp.swapaxes(values, 0, 1) for values in by_time)
    return ModelInputs(seen, last, jnp.zeros((games, 1, 1), jnp.int32)), kind.astype(jnp.int32)


def test_counts_know_the_player() -> None:
    """At the last round: insisting or following, from what was counted and from what is seen then."""
    inputs, kind = meetings(jax.random.key(99), 512)
    model = built(2, PLACES)
    features = model.features(model.unroll(inputs), None)
    labels = jnp.broadcast_to(kind[:, None, None], features.shape[:-1])
    last = jnp.zeros(labels.shape).at[:, -1].set(1.0)
    counts, view = (float(probe_accuracy(values, labels, last, 2)) for values in (features, inputs.seen))
    assert counts > 0.7
    assert view < 0.6
