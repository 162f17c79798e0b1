"""Episodes packed into rows, one behind the other: the same update as with a row for each, and where they are laid."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes
from helpers.played import LENGTHS, PARTNERS, SPEC, B, T, config, drawn_state, episodes, fast_jit
from omg.components import replay
from omg.learners import blocks, build_learner
from omg.learners.blocks import mean_gradients
from omg.modules.recurrent import forgetting, gru_unroll
from omg.training.cuts import Due, Packing, Portion, choose_cuts, cuts_for, pack, read_cut, worth_packing

PPO = {"learner": "ppo_learner", "action_selector": "multinomial", "critic_hidden_dim": 7, "ppo_epochs": 2}
CASES: dict[str, dict[str, Any]] = {
    "iql": {"mixer": None},
    "returns": {"mixer": None, "q_lambda": 0.6},
    "qmix": {"mixer": "qmix"},
    "qtran": {"learner": "qtran_learner", "mixer": None},
    "seats": {"mixer": "vdn", "agent": "idv_rnn"},
    "ippo": {**PPO, "mixer": None, "critic_input": "obs"},
    "mappo": {**PPO, "mixer": None, "critic_input": "state"},
    "shared body": {**PPO, "mixer": None, "critic_input": "obs", "ppo_shared_body": True},
    "no memory": {**PPO, "mixer": None, "critic_input": "obs", "agent": "mlp"},
}
PACKING = Packing(3, 12)
"""Two rows are needed."""


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_packed_episodes_make_the_same_update(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    # A row is a block.
    monkeypatch.setattr(blocks, "SEQUENCES", SPEC.n_agents)
    learner = build_learner(config(optimizer="adam", lr=1e-3, **changes), SPEC, None, PARTNERS)
    assert learner.kept.packs
    on_policy = changes.get("learner") == "ppo_learner"
    state = drawn_networks(learner, ("mac", "critic")) if on_policy else drawn_state(learner)

    @fast_jit
    def both(state: Any, batch: Any) -> Any:
        storage = replay.insert(replay.storage_for(SPEC, B, "float32"), batch, 0)
        due = choose_cuts((PACKING, (Portion(B, T),)), storage, jnp.arange(B)[None], None)
        first = jax.tree.map(lambda values: values[0], due)
        packed = read_cut(PACKING, storage, first)
        return due.cut, packed, [learner.update(state, given, 1, 0, jax.random.key(0)) for given in (batch, packed)]

    cut, packed, ((padded_state, padded), (packed_state, metrics)) = both(state, legal_episodes())
    assert cut.tolist() == [0]
    assert packed.filled.shape == (3, 13)
    assert packed.filled.any(axis=1).tolist() == [True, True, False]
    assert int(packed.filled.sum()) == sum(LENGTHS)
    assert padded.keys() == metrics.keys()
    for name, value in padded.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    moved = 0
    for before, expected, ours in zip(*map(jax.tree.leaves, (state, padded_state, packed_state)), strict=True):
        moved += bool(np.abs(np.asarray(expected) - np.asarray(before)).max() > 0)
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)
    assert moved > 5


def test_learners_that_cannot_read_packed_rows_get_cut_ones():
    social = {**PPO, "mixer": None, "critic_input": "obs"}
    for changes in (
        {"learner": "lola_learner", "agent": "idv_rnn"},
        {"learner": "influence_learner"},
        {"ppo_minibatches": 2},
        {"am_model": "liam_am"},
    ):
        assert not build_learner(config(**social | changes), SPEC, None, PARTNERS).kept.packs


def test_rows_that_batches_are_packed_into():
    rows = (7, 8, 10, 14, 20)
    assert cuts_for(32, 120, packed_seats=8) == (*(Packing(each, 120) for each in rows), (Portion(32, 120),))
    # Of short sequences side by side there have to be enough.
    assert cuts_for(32, 120, packed_seats=2) == (*(Packing(each, 120) for each in rows[3:]), (Portion(32, 120),))
    assert cuts_for(8, 120, packed_seats=1) == ((Portion(8, 120),),)
    # Blocks are filled up.
    assert cuts_for(32, 120, packed_seats=8, in_blocks=True) == (Packing(12, 120), Packing(32, 120))
    assert cuts_for(30, 120, packed_seats=8, in_blocks=True) == (Packing(12, 120), Packing(32, 120))
    assert cuts_for(32, 120, packed_seats=2, in_blocks=True) == (Packing(16, 120), Packing(32, 120))
    assert cuts_for(30, 120, packed_seats=2, in_blocks=True) == cuts_for(30, 120)


def test_an_accelerator_takes_all_rows_at_once_that_fit_its_memory(monkeypatch: pytest.MonkeyPatch):
    for module in ("omg.learners.blocks", "omg.training.cuts"):
        monkeypatch.setattr(f"{module}.on_cpu", lambda: False)
    assert [worth_packing(episodes, 8) for episodes in (32, 256, 512)] == [False, False, True]
    # What is usually needed in one block, or all in quarters; slots come out even.
    assert cuts_for(1024, 120, packed_seats=8, in_blocks=True) == (Packing(320, 127), Packing(1024, 127))
    assert [blocks.block_of(rows, 8, 1024) for rows in (320, 1024)] == [320, 256]
    assert cuts_for(16384, 120, packed_seats=8, in_blocks=True) == (Packing(5136, 127), Packing(16384, 127))
    assert [blocks.block_of(rows, 8, 16384) for rows in (5136, 16384)] == [1712, 2048]
    # Learners without blocks compile every number of rows. Rows of 35 steps would become much longer.
    shares = tuple(Packing(rows, 35) for rows in (256, 320, 448, 640))
    assert cuts_for(1024, 35, packed_seats=4) == (*shares, (Portion(1024, 35),))
    assert cuts_for(1024, 120, packed_seats=1) == ((Portion(1024, 120),),)


def test_a_loss_in_blocks_is_the_mean_over_all_that_was_played():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(6, 4)).astype(np.float32), (np.arange(4) < 3) & (np.arange(6) < 3)[:, None]
    mask[1, 1:] = False

    def loss(weight: Any, rows: Any) -> Any:
        given, played = rows
        mean = ((weight * given) ** 2 * played).sum() / jnp.maximum(played.sum(), 1)
        return mean, {"mean": mean}

    def some(block: int | None) -> Any:
        return mean_gradients(loss, jnp.float32(2.0), (values, mask.astype(jnp.float32)), jnp.asarray(mask), block)

    whole, *parts = fast_jit(lambda: [some(block) for block in (None, 6, 3, 2, 1)])()
    assert float(whole[1]) == pytest.approx(4.0 * (values**2)[mask].mean())
    for part in parts:
        np.testing.assert_allclose(jax.tree.leaves(part), jax.tree.leaves(whole), rtol=1e-6)
    with pytest.raises(ValueError, match="6 rows are no whole number of blocks of 4"):
        some(4)


def test_longest_episodes_are_laid_first_and_all_have_room():
    lengths = np.sort(np.random.default_rng(0).integers(0, 31, (5, 40)), axis=1).astype(np.int32)
    lengths[0] = 30
    row, start = jax.device_get(jax.jit(lambda lengths: pack(lengths, 30))(lengths))
    # A batch of none but the longest needs a row for each.
    assert sorted(row[0]) == list(range(40))
    for update in range(5):
        taken = np.zeros((40, 32), int)
        for steps, where, first in zip(lengths[update], row[update], start[update], strict=True):
            assert first + steps <= 30
            taken[where, first : first + steps + 2] += 1
        assert taken.max() == 1
        used = row[update].max() + 1
        assert (taken[:used].any(axis=1)).all()
        assert used <= np.ceil((lengths[update] + 2).sum() / 32 * 1.25)


def test_slots_of_packed_rows():
    storage = jax.jit(lambda: replay.insert(replay.storage_for(SPEC, B, "float32"), episodes(), 0))()
    # Episode 3 (2 steps) behind episode 1 (5 steps); episode 2 (3 steps) alone.
    due = Due(np.array([3, 2, 1]), np.int32(0), np.array([0, 1, 0]), np.array([7, 0, 0]))
    packed = jax.jit(lambda due: read_cut(Packing(2, 10), storage, due))(due)
    played, batch = np.asarray(packed.filled), episodes()
    assert played[0].tolist() == [True] * 5 + [False] * 2 + [True] * 2 + [False] * 2
    assert np.asarray(packed.breaks)[0].tolist() == [False] * 6 + [True] + [False] * 3 + [True]
    assert np.asarray(packed.breaks)[1].tolist() == [False] * 4 + [True] * 7
    np.testing.assert_array_equal(packed.obs[0, :6], batch.obs[1])
    np.testing.assert_array_equal(packed.obs[0, 7:10], batch.obs[3, :3])
    np.testing.assert_array_equal(packed.reward[1, :3], batch.reward[2, :3])
    assert packed.terminated[0].tolist() == [slot == 4 for slot in range(11)]
    assert (np.asarray(packed.actions)[np.asarray(packed.breaks)] == -1).all()


def test_nothing_is_remembered_or_learned_beyond_a_break():
    rng = np.random.default_rng(1)
    gates, h0, weight, bias = (
        rng.normal(size=size).astype(np.float32) for size in ((1, 7, 2, 9), (1, 2, 3), (3, 9), 9)
    )
    breaks = np.arange(7)[None] == 3

    def states(gates: Any, weight: Any) -> Any:
        return gru_unroll(forgetting(gates, breaks), h0, weight, bias)

    def later(gates: Any, weight: Any) -> Any:
        return (states(gates, weight)[:, 4:] ** 2).sum()

    def alone(gates: Any, weight: Any) -> Any:
        return (gru_unroll(gates[:, 4:], np.zeros_like(h0), weight, bias) ** 2).sum()

    @fast_jit
    def run(gates: Any) -> Any:
        return states(gates, weight), [jax.grad(each, argnums=(0, 1))(gates, weight) for each in (later, alone)]

    found, ((by_gates, by_weight), (gates_alone, weight_alone)) = run(gates)
    assert (np.asarray(found)[:, 3] == 0).all()
    assert (np.asarray(by_gates)[:, :4] == 0).all()
    np.testing.assert_array_equal(by_gates[:, 4:], gates_alone[:, 4:])
    np.testing.assert_allclose(by_weight, weight_alone, rtol=1e-5, atol=1e-6)
