"""MeLIBA by itself: beliefs, the bound that it learns from, and whether it tells players apart."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from omg.learners.subgoal_measures import probe_accuracy
from omg.modules.opponent_models.base import ActionTargets, ModelInputs, ModelSizes
from omg.modules.opponent_models.keys import MeLIBAKeys
from omg.modules.opponent_models.meliba import LARGEST_LOG_VARIANCE, Gaussian, MeLIBAModel

B, T, A, U, SEEN, SEATS = 4, 5, 3, 4, 6, 2
KEY = jax.random.key(5)
WHERE = jnp.array([[2, 0], [1, 2], [0, 1], [2, 1]])
"""[B, m], the seats that have a model."""
LENGTHS = jnp.array([5, 3, 1, 4])


def sizes(agents: int = A, actions: int = U, seen: int = SEEN, width: int = 8, **settings: float) -> ModelSizes:
    keys = MeLIBAKeys.model_validate({"meliba_latent_dim": 3, "meliba_temporal_dim": 2, **settings})
    return ModelSizes(seen, seen, actions, agents, feature_dim=0, hidden_dim=width, own=(keys,))


def played(behind: float = 0.0) -> tuple[ModelInputs, ActionTargets, Array]:
    """Inputs of T + 1 slots, targets and mask of T steps; `behind` is what lies behind the ends of episodes."""
    rng = np.random.default_rng(0)
    mask = (jnp.arange(T) < LENGTHS[:, None]).astype(jnp.float32)
    slots = jnp.arange(T + 1) <= LENGTHS[:, None]
    seen = jnp.where(slots[..., None, None], rng.normal(size=(B, T + 1, SEATS, SEEN)), behind).astype(jnp.float32)
    actions = jnp.where(mask[..., None] > 0, rng.integers(0, U, (B, T, A)), int(behind) % U)
    last = jnp.concatenate([jnp.full((B, 1, A), -1), actions], axis=1)
    return ModelInputs(seen, last, WHERE[:, None]), ActionTargets(actions, WHERE), mask


def played_loss(model: MeLIBAModel, inputs: ModelInputs, targets: ActionTargets, mask: Array, key: Array):
    belief = jax.tree.map(lambda values: values[:, :-1], model.unroll(inputs))
    return model.loss(belief, targets, mask, key)


loss_of = jax.jit(played_loss)


@cache
def built(**settings: float) -> MeLIBAModel:
    return MeLIBAModel(sizes(**settings), key=jax.random.key(1))


def test_step_by_step_equals_at_once_and_is_not_trained_by_the_agent() -> None:
    model, (inputs, _, _) = built(), played()
    features = jax.jit(lambda model: model.features(model.unroll(inputs), None))(model)
    assert features.shape == (B, T + 1, SEATS, model.feature_dim)
    assert model.feature_dim == 10
    memory, infer = model.initial(B, SEATS), jax.jit(lambda *given: model.infer(*given, KEY))
    for t in range(T + 1):
        found, memory, stored = infer(ModelInputs(inputs.seen[:, t], inputs.last_actions[:, t], WHERE), memory)
        np.testing.assert_allclose(found, features[:, t], atol=1e-6)
        assert stored == {}
        assert np.abs(found).max() > 1e-3
    gradient = jax.grad(lambda model: model.features(model.unroll(inputs), None).sum())(model)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


def test_log_variances_stay_within_bounds() -> None:
    inputs, _, _ = played(behind=1e6)
    belief = built().unroll(inputs)
    for each in (belief.permanent, belief.temporal):
        assert np.abs(each.log_variance).max() <= LARGEST_LOG_VARIANCE


def test_divergences_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(2)
    mean, log_variance, other_mean, other = rng.normal(size=(4, 7, 3))
    found = Gaussian(mean, log_variance).divergence(Gaussian(other_mean, other))
    draws = mean + np.exp(log_variance / 2) * rng.normal(size=(200_000, 7, 3))

    def log_density(at: np.ndarray, mu: np.ndarray, log_var: np.ndarray) -> np.ndarray:
        return (-0.5 * ((at - mu) ** 2 / np.exp(log_var) + log_var)).sum(axis=-1)

    expected = (log_density(draws, mean, log_variance) - log_density(draws, other_mean, other)).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.03, atol=0.03)


def test_the_bound_is_that_of_a_plain_loop() -> None:
    """The same draws, every step and every step ahead by itself."""
    model, (inputs, targets, mask) = built(), played()
    loss, metrics = loss_of(model, inputs, targets, mask, KEY)
    belief = jax.tree.map(lambda values: np.asarray(values[:, :-1]), model.unroll(inputs))
    permanent_key, temporal_key = jax.random.split(KEY)
    kinds = np.asarray(belief.permanent.draw(permanent_key))
    noise = np.asarray(jax.random.normal(temporal_key, (B, T, SEATS, 2)))
    zero = Gaussian(np.zeros(3), np.zeros(3)), Gaussian(np.zeros(2), np.zeros(2))
    actions, right, permanents, temporals = [], [], [], []
    for b in range(B):
        for t in range(int(LENGTHS[b])):
            for i in range(SEATS):
                kind, history = kinds[b, t, i], belief.history[b, t, i]
                now = model._temporal(history, kind)
                before = zero[1] if t == 0 else model._temporal(belief.history[b, t - 1, i], kind)
                whole = Gaussian(*(each[b, t, i] for each in belief.permanent))
                former = zero[0] if t == 0 else Gaussian(*(each[b, t - 1, i] for each in belief.permanent))
                permanents.append(float(whole.divergence(former)))
                temporals.append(float(now.divergence(before)))
                mind = now.mean + np.exp(0.5 * np.asarray(now.log_variance)) * noise[b, t, i]
                likely, hits = [], []
                for k in range(t, int(LENGTHS[b])):
                    latents = model.decode_latents(jnp.concatenate([kind, mind])[None])
                    hidden = jax.nn.relu(model.decode_seen(belief.seen[b, k, i][None]) + latents)
                    logits = model.decode_actions(jax.nn.relu(model.decode_layer(hidden))).reshape(A - 1, U)
                    for place in range(A - 1):
                        done = int(targets.actions[b, k, (int(WHERE[b, i]) + 1 + place) % A])
                        likely.append(float(jax.nn.log_softmax(logits[place])[done]))
                        hits.append(float(logits[place].argmax() == done))
                actions.append(-np.mean(likely))
                right.append(np.mean(hits))
    expected = {"am_action_loss": actions, "am_kl_permanent": permanents, "am_kl_temporal": temporals}
    for name, values in {**expected, "am_action_accuracy": right}.items():
        np.testing.assert_allclose(metrics[name], np.mean(values), rtol=1e-4, err_msg=name)
    weighted = np.mean(actions) + 0.05 * (np.mean(permanents) + np.mean(temporals))
    np.testing.assert_allclose(loss, weighted, rtol=1e-4)


def test_nothing_behind_the_end_counts_and_the_horizon_bounds_what_is_ahead() -> None:
    model = built()
    loss, _ = loss_of(model, *played(), KEY)
    np.testing.assert_allclose(loss_of(model, *played(behind=3.0), KEY)[0], loss, rtol=1e-5)
    short, whole = built(meliba_horizon=1), built(meliba_horizon=9)
    np.testing.assert_allclose(loss_of(whole, *played(), KEY)[0], loss, rtol=1e-6)
    metrics = loss_of(short, *played(), KEY)[1]
    np.testing.assert_allclose(metrics["am_action_accuracy"], metrics["am_now_accuracy"], rtol=1e-6)


ROUNDS = 8


@partial(jax.jit, static_argnums=1)
def meetings(key: Array, games: int) -> tuple[ModelInputs, ActionTargets, Array]:
    """A random player with one who insists on an action of its own and one who does what the first did last.

    Returns:
        Inputs, targets and the kind [B] of the second seat. What is seen says nothing.
    """
    kind_key, start_key, seen_key, key = jax.random.split(key, 4)
    kind = jax.random.bernoulli(kind_key, 0.5, (games,))
    mine = jax.random.randint(key, (games, ROUNDS), 0, U)
    favourite, first = jax.random.randint(start_key, (2, games, 1), 0, U)
    follows = jnp.concatenate([first, mine[:, :-1]], axis=1)
    actions = jnp.stack([mine, jnp.where(kind[:, None], follows, favourite)], axis=-1)
    last = jnp.concatenate([jnp.full((games, 1, 2), -1), actions[:, :-1]], axis=1)
    seen, where = jax.random.normal(seen_key, (games, ROUNDS, 1, SEEN)), jnp.zeros((games, 1), jnp.int32)
    return ModelInputs(seen, last, where[:, None]), ActionTargets(actions, where), kind.astype(jnp.int32)


def test_the_bound_rises_and_the_belief_knows_the_player() -> None:
    """In held-out games, at the last round: insisting or following, from the belief and from what is seen then."""
    model = MeLIBAModel(sizes(2, U, width=32), key=jax.random.key(2))
    optimiser, games = optax.adam(5e-3), 64
    mask = jnp.ones((games, ROUNDS))

    @jax.jit
    def update(carried, key):
        model, state = carried
        inputs, targets, _ = meetings(key, games)
        loss = lambda model: model.loss(model.unroll(inputs), targets, mask, key)  # noqa: E731
        (_, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(model)
        steps, state = optimiser.update(gradient, state)
        return (optax.apply_updates(model, steps), state), metrics

    fixed = [jax.random.key(0)] * 30
    new = [jax.random.fold_in(KEY, number) for number in range(150)]
    carried, losses = (model, optimiser.init(model)), []
    for key in (*fixed, *new):
        carried, metrics = update(carried, key)
        losses.append(float(metrics["am_loss"]))
    assert losses[29] < losses[0] - 0.1  # One batch, again and again.
    inputs, _, kind = meetings(jax.random.key(99), 512)
    trained = carried[0]
    features = trained.features(trained.unroll(inputs), None)
    labels = jnp.broadcast_to(kind[:, None, None], features.shape[:-1])
    last = jnp.zeros(labels.shape).at[:, -1].set(1.0)
    belief, view = (float(probe_accuracy(values, labels, last, 2)) for values in (features, inputs.seen))
    assert belief > 0.75
    assert view < 0.6
