"""Counts of 64 bits: arithmetic, schedules, and runs that cross 2^31 and 2^32 steps."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from helpers.refusing import refusal
from helpers.tiny import SPEC, tiny_config
from omg import api
from omg.components import Count
from omg.components.counts import exponential, linear
from omg.components.files import checksum
from omg.config import Config
from omg.errors import UserError
from omg.learners.optimisers import target_is_due
from omg.tracking import RunFolder
from omg.training.checkpoint import list_checkpoints, load_newest, save_checkpoint
from omg.training.loop import Trainer
from omg.training.program import Program
from omg.training.progress import Progress
from omg.training.state import RunState

EDGES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 10**9, 2**53)
SIGHT = 400
"""Steps on either side of 2^32 that a run is watched for."""


@pytest.mark.parametrize("start", EDGES)
@pytest.mark.parametrize("more", [0, 1, 200, 2**31 - 1])
def test_a_count_adds_and_compares_as_whole_numbers_do(start: int, more: int):
    count = Count.of(start, (2,)).plus(jnp.array([more, 0], jnp.int32))
    assert count.numpy().tolist() == [start + more, start]
    for limit in EDGES:
        assert count.below(limit).tolist() == [start + more < limit, start < limit]
    np.testing.assert_allclose(count.real(), [start + more, start], rtol=2e-7)


def test_a_small_count_gives_the_floats_of_a_32_bit_number_exactly():
    numbers = np.r_[np.arange(70_000), np.random.default_rng(0).integers(0, 2**31, 50_000)]
    count = Count(jnp.zeros(len(numbers), jnp.uint32), jnp.asarray(numbers, jnp.uint32))
    plain = jnp.asarray(numbers, jnp.int32)
    np.testing.assert_array_equal(count.real(), plain.astype(jnp.float32))
    for schedule in (linear, exponential):
        np.testing.assert_array_equal(schedule(count, 1.0, 0.05, 50_000), schedule(plain, 1.0, 0.05, 50_000))


def test_schedules_go_on_behind_two_thousand_million_steps():
    steps = 4 * 10**9
    shares = [float(linear(Count.of(number), 1.0, 0.0, steps)) for number in (0, 10**9, 3 * 10**9, steps, 10**12)]
    np.testing.assert_allclose(shares, [1.0, 0.75, 0.25, 0.0, 0.0], atol=1e-6)


def test_a_target_is_copied_at_multiples_and_never_where_no_run_can_count_so_far():
    last = jnp.int32(7)
    assert [bool(target_is_due(episode, last, 4)) for episode in (7, 8, 11, 12)] == [False, True, True, True]
    assert not target_is_due(2**31 - 1, last, 3 * 10**9)


@pytest.fixture(scope="module")
def config(results: Path) -> Config:
    """Of a run that ends a little behind 2^32 steps."""
    return tiny_config(results, t_max=2**32 + SIGHT, epsilon_anneal_time=2**33, test_interval=100, log_interval=4)


@pytest.fixture(scope="module")
def at_edge(config: Config) -> tuple[Program, RunState]:
    """The run as it is at its very beginning, and its program."""
    program = Program(config)
    return program, program.init(jnp.array([config.seed], jnp.uint32))


def test_a_run_crosses_the_last_number_of_32_bits(config: Config, at_edge: tuple[Program, RunState]):
    _, state = at_edge
    folder = RunFolder.create(config, SPEC)
    start = 2**32 - SIGHT
    progress = Progress(start, start, start, start, tested_at=[start], newest_test=[{}])
    state = state._replace(t_env=Count.of(start, (1,)), episodes=jnp.int32(4))
    save_checkpoint(folder.checkpoints, state, asdict(progress), with_buffer=True, keep=2)
    run = api.resume(folder.path, quiet=True)
    epsilon = run.metrics.where(name="epsilon")
    reached = epsilon.column("t_env")
    assert reached == sorted(set(reached))
    assert start < reached[0] < 2**32 < config.t_max <= reached[-1] < config.t_max + 4 * 8
    # A log comes after every chunk, with the epsilon that its games began with.
    expected = [1.0 - 0.95 * before / 2**33 for before in [start, *reached[:-1]]]
    np.testing.assert_allclose(epsilon.column("value"), expected, atol=1e-6)
    tests = run.metrics.where(name="test_return_mean").column("t_env")
    assert len(tests) >= 2 * SIGHT // (100 + 4 * 8)
    assert all(100 <= later - earlier < 100 + 4 * 8 for earlier, later in pairwise([start, *tests[:-1]]))
    assert tests[-1] == reached[-1] == run.agents[0].card.t_env
    status = json.loads((folder.path / "status.json").read_text())
    assert (status["status"], status["t_env"]) == ("finished", reached[-1])
    saves = [json.loads((path / "host.json").read_text())["last_save"] for path in list_checkpoints(folder.checkpoints)]
    assert 2**32 < saves[0] < saves[1] == reached[-1]


def test_a_chunk_crosses_the_last_signed_number_of_32_bits(at_edge: tuple[Program, RunState]):
    program, state = at_edge
    state = jax.tree.map(jnp.copy, state)._replace(t_env=Count.of(2**31 - 20, (1,)))
    state, log = program.chunk(state)
    played = int(np.asarray(log.stats.lengths).sum())
    assert log.t_env.numpy()[-1, 0] == state.t_env.numpy()[0] == 2**31 - 20 + played > 2**31 - 16
    assert log.active.all()


def test_a_checkpoint_with_steps_of_32_bits_is_read(at_edge: tuple[Program, RunState], tmp_path: Path):
    _, state = at_edge
    state = state._replace(t_env=Count.of(1234, (1,)))
    path = save_checkpoint(tmp_path, state, {}, with_buffer=True, keep=2)
    arrays = load_file(path / "state.safetensors")
    low = arrays.pop("t_env.low")
    del arrays["t_env.high"]
    save_file({**arrays, "t_env": low.astype(np.int32)}, path / "state.safetensors")
    manifest = json.loads((path / "checkpoint.json").read_text())
    manifest["files"]["state.safetensors"] = checksum(path / "state.safetensors")
    (path / "checkpoint.json").write_text(json.dumps(manifest))
    template = jax.eval_shape(lambda: state)
    found = load_newest(tmp_path, template, print)
    assert found is not None
    assert found[0].t_env.numpy().tolist() == [1234]


def test_a_run_stops_before_its_episodes_cannot_be_counted(at_edge: tuple[Program, RunState], tmp_path: Path):
    program, state = at_edge
    trainer = Trainer(program, tmp_path / "run" / "checkpoints", None, None)  # type: ignore[arg-type]
    trainer._check_episodes(state._replace(episodes=jnp.int32(2**31 - 9)))
    with pytest.raises(UserError, match=r"t_max: got 4,294,967,696, but by t_env 0 .* at most 2,147,483,647"):
        trainer._check_episodes(state._replace(episodes=jnp.int32(2**31 - 4)))


@pytest.mark.parametrize("key", ["t_max", "epsilon_anneal_time", "test_interval", "target_update_interval"])
def test_large_numbers_are_taken_and_larger_ones_refused(key: str, tmp_path: Path):
    assert getattr(tiny_config(tmp_path, **{key: 3e9}), key) == 3 * 10**9
    assert f"{key}: got {2**53 + 1} (a whole number); expected a whole number >= 1 and <= {2**53}." in refusal(
        lambda: tiny_config(tmp_path, **{key: 2**53 + 1})
    )
