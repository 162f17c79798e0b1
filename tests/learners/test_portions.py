"""Batches that come in portions of different lengths: the same update, and the way that is chosen for each."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import LENGTHS, ONE_SEAT, PARTNERS, SPEC, A, B, T, config, drawn_state, episodes, fast_jit
from omg.components import EpisodeBatch, replay, truncate
from omg.learners import build_learner
from omg.training.cuts import Portion, choose_cuts, cuts_for, read_cut

EXACT = {"omg_inference": "mlp", "omg_sample": False, "omg_q_input": "selected"}
"""OMG without anything that is drawn."""


def rows_of(batch: EpisodeBatch, rows: list[int]) -> EpisodeBatch:
    chosen: EpisodeBatch = jax.tree.map(lambda values: np.asarray(values)[rows], batch)
    return chosen


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"learner": "q_learner_4am", "am_model": "liam_am"},
        {"learner": "omg_learner", "am_model": "omg_am", **EXACT},
    ],
    ids=["iql", "liam", "omg"],
)
def test_parts_make_the_same_update(changes: dict[str, Any]):
    learner = build_learner(config(mixer=None, **changes), SPEC, ONE_SEAT, PARTNERS)
    assert learner.kept.portions
    batch, state = episodes(team=ONE_SEAT), drawn_state(learner)
    # Episodes 2 and 3 have 3 and 2 steps.
    parts = (truncate(rows_of(batch, [3, 2]), 3), rows_of(batch, [1, 0]))
    update = fast_jit(lambda given: learner.update(state, given, 1, 0, jax.random.key(0)))
    (whole, metrics), (split, split_metrics) = update(batch), update(parts)
    assert metrics["loss"] > 0
    for name, value in metrics.items():
        np.testing.assert_allclose(split_metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    moved = 0
    for before, expected, ours in zip(*map(jax.tree.leaves, (state, whole, split)), strict=True):
        moved += bool(np.abs(np.asarray(expected) - np.asarray(before)).max() > 0)
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)
    assert moved > 5


@pytest.mark.parametrize(
    ("limit", "fine", "few"),
    [(8, (8,), (8,)), (60, (16, 24, 32, 48, 60), (32, 60)), (120, (32, 48, 64, 96, 120), (64, 120))],
)
def test_lengths_of_whole_batches(limit: int, fine: tuple[int, ...], few: tuple[int, ...]):
    assert cuts_for(32, limit) == tuple((Portion(32, length),) for length in fine)
    assert cuts_for(32, limit, few=True) == tuple((Portion(32, length),) for length in few)


def test_parts_are_three_quarters_of_a_third_and_the_rest():
    assert cuts_for(256, 120, few=True, portions=True) == ((Portion(192, 40), Portion(64, 120)), (Portion(256, 120),))
    # Nothing to gain in a short game, or from a single episode.
    assert cuts_for(256, 8, few=True, portions=True) == ((Portion(256, 8),),)
    assert cuts_for(1, 120, few=True, portions=True) == ((Portion(1, 64),), (Portion(1, 120),))


def stored(batch: EpisodeBatch) -> Any:
    return jax.jit(lambda: replay.insert(replay.storage_for(SPEC, B, "float32", seat=True), batch, 0))()


def test_every_update_takes_the_first_cut_that_fits():
    storage = stored(episodes(team=ONE_SEAT))
    cuts = ((Portion(2, 3), Portion(2, T)), (Portion(B, T),))
    batches = np.array([[0, 1, 2, 3], [1, 1, 2, 0]])

    @jax.jit
    def choose(batches: Any) -> Any:
        several = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(batches)), storage)
        return jax.vmap(lambda *own: choose_cuts(cuts, *own, "seeds"), axis_name="seeds")(several, batches)

    def each(*batches: Any) -> Any:
        return jax.device_get(choose(np.stack(batches)))

    due = each(batches)
    rows, cut = due.indices, due.cut
    played = np.asarray(LENGTHS)[np.asarray(rows[0])]
    assert (np.sort(played, axis=1) == played).all()
    assert sorted(rows[0, 0].tolist()) == [0, 1, 2, 3]
    # In the second batch three episodes are long.
    assert cut.tolist() == [[0, 1]]
    # Seeds are cut alike: what does not fit for one is whole for all.
    assert each(batches, batches[::-1]).cut.tolist() == [[1, 1], [1, 1]]
    first, second = (jax.tree.map(lambda values, at=at: values[0, at], due) for at in (0, 1))
    read = jax.jit(lambda first, second: (read_cut(cuts[0], storage, first), read_cut(cuts[1], storage, second)))
    (short, long), whole = read(first, second)
    assert short.obs.shape[:3] == (2, 4, A)
    assert long.obs.shape[:3] == (2, T + 1, A)
    assert int(short.filled.sum()) == 5
    assert int(long.filled.sum()) == 10
    assert isinstance(whole, EpisodeBatch)
