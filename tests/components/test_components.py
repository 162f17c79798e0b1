"""Episode data, replay, schedules and action selectors."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.components import (
    SCHEDULES,
    SELECTORS,
    EpisodeBatch,
    ended_by_limit,
    keep_seats,
    lengths,
    loss_mask,
    masked_mean,
    replay,
    take_seats,
    truncate,
)
from omg.components.selectors import epsilon_greedy, greedy, multinomial, random_legal, softmax
from omg.errors import UserError

A, OBS, S, U, T = 2, 3, 4, 5, 6
SIZES = SimpleNamespace(n_agents=A, n_actions=U, obs_dim=OBS, state_dim=S, episode_limit=T, reward_per_agent=False)
MAP_8M = SimpleNamespace(n_agents=8, n_actions=14, obs_dim=80, state_dim=168, episode_limit=120, reward_per_agent=False)


def episodes(played: list[int], ended: list[bool], seed: int = 0, slots: int = T + 1, **extra) -> EpisodeBatch:
    """Random episodes of the given lengths whose numbers are exact in half precision."""
    rng = np.random.default_rng(seed)
    count = len(played)
    filled = np.arange(slots) < np.array(played)[:, None]
    terminated = (np.arange(slots) == np.array(played)[:, None] - 1) & np.array(ended)[:, None]

    def exact(*shape: int) -> np.ndarray:
        return (rng.integers(-64, 64, (count, slots, *shape)) / 8).astype(np.float32)

    # The arrays are NumPy's: every single step that JAX takes outside a compiled function is compiled by itself.
    fields: dict[str, Any] = {
        "obs": exact(A, OBS),
        "state": exact(S),
        "avail": rng.random((count, slots, A, U)) < 0.5,
        "actions": rng.integers(0, U, (count, slots, A)).astype(np.int32),
        "reward": exact(),
        "terminated": terminated,
        "filled": filled,
        "seat": None,
        "records": {},
    }
    return EpisodeBatch(**(fields | extra))


gather = jax.jit(replay.gather, static_argnums=2)
insert = jax.jit(replay.insert)
gather_lengths = jax.jit(replay.gather_lengths)


def storage_for(*args: Any, **kwargs: Any) -> EpisodeBatch:
    """`replay.storage_for`, compiled as one."""
    return jax.jit(partial(replay.storage_for, *args, **kwargs))()


def assert_equal(result: EpisodeBatch, expected: EpisodeBatch) -> None:
    for one, other in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# Episode data


def test_loss_mask_counts_played_steps():
    batch = episodes([3, T, 4], [True, False, False])
    expected = [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    np.testing.assert_array_equal(loss_mask(batch), np.array(expected, np.float32))
    np.testing.assert_array_equal(lengths(batch), [3, T, 4])


def test_loss_mask_drops_the_last_observation_of_batches_that_mark_it_filled():
    batch = episodes([3, T], [True, True])
    marked = batch._replace(filled=np.arange(T + 1) <= np.array([[3], [T]]))
    np.testing.assert_array_equal(loss_mask(marked), loss_mask(batch))


def test_the_limit_as_an_end_marks_the_last_played_step_and_nothing_else():
    batch = episodes([T, 3, 4], [False, True, False])
    found = ended_by_limit(batch)
    assert np.asarray(found.terminated).nonzero()[0].tolist() == [0, 1, 2]
    assert np.asarray(found.terminated).nonzero()[1].tolist() == [T - 1, 2, 3]
    assert np.array_equal(loss_mask(found), loss_mask(batch))


def test_truncate_keeps_the_bootstrap_slot():
    batch = episodes([2, 4], [True, False], seat=np.array([1, 0]), records={"note": np.ones((2, T + 1, A, 3))})
    short = truncate(batch, 4)
    assert short.obs.shape == (2, 5, A, OBS)
    assert short.records["note"].shape == (2, 5, A, 3)
    np.testing.assert_array_equal(short.obs, batch.obs[:, :5])
    np.testing.assert_array_equal(short.seat, [1, 0])
    assert float(loss_mask(short).sum()) == float(loss_mask(batch).sum()) == 6


def test_some_seats_of_whole_episodes():
    batch = episodes([3, T], [True, False], reward=np.ones((2, T + 1, A), np.float32))
    seats = np.array([[1], [0]])
    for state in (True, False):
        kept = jax.device_get(jax.jit(partial(keep_seats, state=state))(batch, seats))
        for name, width in (("obs", OBS), ("avail", U)):
            values = getattr(kept, name)
            assert values.shape == (2, T + 1, 1, width)
            np.testing.assert_array_equal(values[0, :, 0], getattr(batch, name)[0, :, 1])
            np.testing.assert_array_equal(values[1, :, 0], getattr(batch, name)[1, :, 0])
        assert kept.state.shape == (2, T + 1, S if state else 0)
        # What the others did is what opponent models learn from.
        assert_equal(kept._replace(obs=batch.obs, avail=batch.avail, state=batch.state), batch)
    both = take_seats(batch.actions, jnp.array([[1, 0], [0, 1]]))
    np.testing.assert_array_equal(both[0], batch.actions[0, :, ::-1])
    np.testing.assert_array_equal(both[1], batch.actions[1])


def test_masked_mean_counts_every_agent():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(3, 4, A)), (rng.random((3, 4)) < 0.5).astype(np.float64)
    total, count = 0.0, 0
    for b in range(3):
        for t in range(4):
            for a in range(A):
                total, count = total + values[b, t, a] * mask[b, t], count + mask[b, t]
    assert float(masked_mean(jnp.asarray(values), jnp.asarray(mask))) == pytest.approx(total / count, abs=1e-6)
    per_step = (values[..., 0] * mask).sum() / mask.sum()
    assert float(masked_mean(jnp.asarray(values[..., 0]), jnp.asarray(mask))) == pytest.approx(per_step, abs=1e-6)
    assert float(masked_mean(jnp.ones((2, 3)), jnp.zeros((2, 3)))) == 0.0
    assert math.isnan(float(masked_mean(jnp.array([[jnp.nan, 1.0]]), jnp.ones((1, 2)))))


# Replay


def storage_bytes(*args: Any, **kwargs: Any) -> int:
    """Size of a ring that is not made."""
    shapes = jax.eval_shape(partial(replay.storage_for, *args, **kwargs))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def test_storage_of_8m_is_small():
    size = storage_bytes(MAP_8M, 5000)
    assert 0.9e9 < size <= 1.5e9
    small = storage_for(MAP_8M, 2, seat=True, records={"infer_mu": (8, 64)})
    slot = 8 * 80 * 2 + 168 * 2 + 8 * 14 + 8 + 4 + 2
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(small)) == 2 * (121 * (slot + 8 * 64 * 2) + 4 + 8 * 2)
    assert small.obs.dtype == jnp.float16
    assert small.actions.dtype == jnp.int8
    assert storage_bytes(MAP_8M, 5000, "float32") > 1.9 * size - 5000 * 121 * 8 * 16


def test_the_storage_of_one_seat_is_a_fraction():
    slot = 80 * 2 + 14 + 8 + 4 + 2
    assert storage_bytes(MAP_8M, 10, seat=True, columns=1, state=False) == 10 * (121 * slot + 4 + 8 * 2)
    assert storage_bytes(MAP_8M, 10, seat=True, columns=1) == 10 * (121 * (slot + 168 * 2) + 4 + 8 * 2)


def test_kept_seats_come_back_from_the_storage_made_for_them():
    seated = {"seat": np.array([1, 0], np.int32), "players": np.array([[3, -1], [-1, 300]], np.int32)}
    batch = episodes([T, 2], [False, True], **seated)
    kept = jax.jit(partial(keep_seats, state=False))(batch, batch.seat[:, None])
    storage = storage_for(SIZES, 3, seat=True, columns=1, state=False)
    storage = insert(storage, kept, 2)
    assert storage.players.dtype == jnp.int16
    assert_equal(gather(storage, np.array([2, 0]), T), kept)


def test_storage_refuses_an_unknown_type():
    with pytest.raises(UserError, match="Did you mean 'float16'"):
        replay.storage_for(SIZES, 4, "floot16")


def test_round_trip_keeps_every_slot():
    rng = np.random.default_rng(5)
    extra = {
        "reward": rng.normal(size=(3, T + 1, A)).astype(np.float32),
        "seat": np.array([1, 0, 1], np.int32),
        "players": np.array([[0, -1], [-1, 1], [1, -1]], np.int32),
        "records": {"note": rng.integers(0, 9, (3, T + 1, A, 2)).astype(np.float32)},
    }
    batch = episodes([T, 2, 4], [False, True, True], **extra)
    storage = storage_for(SIZES, 5, reward_per_agent=True, records={"note": (A, 2)}, seat=True)
    storage = jax.jit(replay.insert, donate_argnums=0)(storage, batch, 0)
    assert_equal(gather(storage, np.arange(3), T), batch)
    rows = np.array([2, 1])
    assert_equal(gather(storage, rows, 4), jax.tree.map(lambda x: x[rows], truncate(batch, 4)))
    np.testing.assert_array_equal(gather_lengths(storage, np.array([[0, 1], [2, 3]])), [[T, 2], [4, 0]])


def test_ring_overwrites_the_oldest():
    capacity, storage = 5, storage_for(SIZES, 5)
    rounds = [episodes([n + 1, T], [True, False], seed=n) for n in range(4)]
    for number, batch in enumerate(rounds):
        storage = insert(storage, batch, 2 * number)
    # Eight episodes in a ring of five: rows hold episodes 5, 6, 7, 3, 4.
    for row, episode in enumerate([5, 6, 7, 3, 4]):
        assert episode % capacity == row
        expected = jax.tree.map(lambda x, k=episode % 2: x[k : k + 1], rounds[episode // 2])
        assert_equal(gather(storage, np.array([row]), T), expected)


def test_a_shorter_batch_leaves_no_stale_steps():
    storage = insert(storage_for(SIZES, 2), episodes([T, T], [True, True]), 0)
    storage = insert(storage, episodes([3, 2], [False, True], slots=4), 2)
    np.testing.assert_array_equal(gather_lengths(storage, np.arange(2)), [3, 2])
    assert float(loss_mask(gather(storage, np.arange(2), T)).sum()) == 5


def test_replay_over_stacked_seeds_with_one_counter():
    batches = [episodes([4, 5], [True, False], seed=seed) for seed in (1, 2)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *batches)

    @jax.jit
    def through_storage(stacked: EpisodeBatch, stored: jax.Array, rows: jax.Array) -> EpisodeBatch:
        storages = jax.vmap(lambda _: replay.storage_for(SIZES, 3))(jnp.arange(2))
        storages = jax.vmap(replay.insert, in_axes=(0, 0, None), axis_name="seeds")(storages, stacked, stored)
        return jax.vmap(lambda storage, row: replay.gather(storage, row, T))(storages, rows)

    result = jax.device_get(through_storage(stacked, 2, np.array([[2, 0], [0, 2]])))
    assert_equal(jax.tree.map(lambda x: x[0], result), batches[0])
    assert_equal(jax.tree.map(lambda x: x[1][::-1], result), batches[1])


def test_insert_refuses_what_does_not_fit():
    storage = storage_for(SIZES, 2)
    with pytest.raises(ValueError, match="do not fit"):
        replay.insert(storage, episodes([1, 1, 1], [True] * 3), 0)
    with pytest.raises(ValueError, match="None"):
        replay.insert(storage, episodes([1], [True], seat=np.array([1])), 0)


def test_samples_are_distinct_uniform_and_within_size():
    sample = jax.jit(replay.sample_indices, static_argnums=(2, 3, 4))
    for size in (4, 7, 10):
        indices = np.asarray(sample(jax.random.key(size), jnp.int32(size), 10, 4, 3000))
        assert indices.shape == (3000, 4)
        assert all(len(set(row)) == 4 for row in indices.tolist())
        counts = np.bincount(indices.reshape(-1), minlength=10)
        assert counts[size:].sum() == 0
        # Every row is in a draw with chance 4 / size; five standard deviations of that count.
        chance = 4 / size
        spread = 5 * math.sqrt(3000 * chance * (1 - chance)) + 1e-9
        np.testing.assert_allclose(counts[:size], 3000 * chance, atol=spread)


# Schedules


def test_linear_schedule():
    times = [0, 12_500, 25_000, 50_000, 2_000_000]
    values = [float(SCHEDULES["linear"](jnp.int32(t), 1.0, 0.05, 50_000)) for t in times]
    np.testing.assert_allclose(values, [max(0.05, 1.0 - 0.95 / 50_000 * t) for t in times], atol=1e-6)
    assert float(SCHEDULES["linear"](0, 0.0, 1.0, 0)) == 1.0
    assert float(SCHEDULES["linear"](5, 0.0, 1.0, 10)) == 0.5


def test_exponential_schedule():
    times = np.array([0, 10, 50, 100, 1000])
    scaling = -100 / math.log(0.05)
    expected = np.minimum(1.0, np.maximum(0.05, np.exp(-times / scaling)))
    np.testing.assert_allclose(SCHEDULES["exp"](jnp.asarray(times), 1.0, 0.05, 100), expected, rtol=1e-5)
    assert float(SCHEDULES["exp"](3, 1.0, 0.0, 100)) == pytest.approx(math.exp(-3))
    assert float(SCHEDULES["exp"](0, 1.0, 0.05, 0)) == pytest.approx(0.05)


# Selectors


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_every_selector_obeys_the_mask(name: str):
    rng = np.random.default_rng(3)
    avail = rng.random((400, A, U)) < 0.3
    avail[..., 2] |= ~avail.any(axis=-1)
    values = 10.0 * rng.normal(size=avail.shape).astype(np.float32)
    select = jax.jit(SELECTORS[name])
    for epsilon in (0.0, 0.5, 1.0):
        actions = np.asarray(select(values, avail, jax.random.key(3), epsilon))
        assert actions.dtype == jnp.int32
        assert actions.shape == (400, A)
        assert np.take_along_axis(avail, actions[..., None], axis=-1).all()


def test_epsilon_zero_is_the_legal_argmax():
    rng = np.random.default_rng(4)
    avail = rng.random((500, U)) < 0.5
    avail[:, 0] = True
    values = rng.normal(size=avail.shape).astype(np.float32)
    expected = [max((i for i in range(U) if avail[row, i]), key=lambda i: values[row, i]) for row in range(500)]
    np.testing.assert_array_equal(jax.jit(epsilon_greedy)(values, avail, jax.random.key(4), 0.0), expected)
    np.testing.assert_array_equal(greedy(values, avail), expected)


def frequencies(actions: jax.Array) -> np.ndarray:
    return np.bincount(np.asarray(actions), minlength=U) / actions.shape[0]


def test_random_and_sampled_actions_have_the_right_frequencies():
    rows = 40_000
    avail = np.tile([False, True, True, False, True], (rows, 1))
    values = np.tile(np.array([9.0, 0.0, 1.0, 9.0, 2.0], np.float32), (rows, 1))
    key = jax.random.key(7)
    explore, sample = jax.jit(epsilon_greedy), jax.jit(multinomial)
    uniform = np.array([0, 1, 1, 0, 1]) / 3
    best = np.array([0, 0, 0, 0, 1.0])
    probabilities = np.array([0, 1, math.e, 0, math.e**2]) / (1 + math.e + math.e**2)
    tolerance = 5 * 0.5 / math.sqrt(rows)
    np.testing.assert_allclose(frequencies(jax.jit(random_legal)(avail, key)), uniform, atol=tolerance)
    for epsilon in (0.05, 0.3, 1.0):
        explored = (1 - epsilon) * best + epsilon * uniform
        np.testing.assert_allclose(
            frequencies(explore(values, avail, key, epsilon)), explored, atol=tolerance, err_msg=str(epsilon)
        )
        floored = (1 - epsilon) * probabilities + epsilon * uniform
        np.testing.assert_allclose(frequencies(sample(values, avail, key, epsilon)), floored, atol=tolerance)
    np.testing.assert_allclose(frequencies(jax.jit(softmax)(values, avail, key, 0.3)), probabilities, atol=tolerance)
    # In rows without any legal action nothing is promised but a valid index.
    nothing = np.zeros((4, U), bool)
    for select in SELECTORS.values():
        assert np.isin(jax.jit(select)(values[:4], nothing, key, 0.5), np.arange(U)).all()
