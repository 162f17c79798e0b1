"""Settings that programs take as arguments: of each seed its own, and none of them in a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.refusing import refusal
from helpers.tiny import GAME
from omg import api
from omg.components.files import name_leaves
from omg.config import Config, resolve
from omg.training.program import Program, build_program
from omg.training.tuned import check_by_seed, rate_keys

SMALL = {
    "env_args": GAME,
    "batch_size_run": 4,
    "batch_size": 4,
    "buffer_size": 4,
    "updates_per_episode": 0.25,
    "rnn_hidden_dim": 8,
    "critic_hidden_dim": 8,
    "seed": 3,
}


def config(**changes: Any) -> Config:
    return resolve("ippo_liam", "foraging", {**SMALL, **changes}).config


def learned(given: Config) -> dict[str, np.ndarray]:
    """What the learners of all seeds are after one chunk."""
    program: Program = build_program(given)
    state = program.init(jnp.arange(given.seed, given.seed + given.seeds, dtype=jnp.uint32))
    return {name: np.asarray(leaf) for name, leaf in name_leaves(program.chunk(state)[0].learner).items()}


def test_each_seed_learns_at_its_own_rates_as_if_all_had_them() -> None:
    rates = {"lr": [0.001, 0.02], "am_lr": [0.003, 0.0005], "entropy_coef": [0.01, 0.2]}
    mixed = learned(config(seeds=2, by_seed=rates))
    second = {key: values[1] for key, values in rates.items()}
    alike = learned(config(seeds=2, **second))
    for name, leaf in mixed.items():
        np.testing.assert_array_equal(leaf[1], alike[name][1], err_msg=name)
    # The first seed had others.
    assert any(not np.array_equal(leaf[0], alike[name][0]) for name, leaf in mixed.items() if "fc1.weight" in name)


def test_other_rates_and_lengths_are_the_same_program() -> None:
    def text(given: Config) -> str:
        program: Program = build_program(given)
        state = jax.eval_shape(program.init, jnp.arange(2, dtype=jnp.uint32))
        return str(jax.jit(program.chunk).lower(state).as_text())

    first = text(config(seeds=2, t_max=100_000))
    assert first == text(config(seeds=2, t_max=200_000, lr=0.5, am_lr=0.25, entropy_coef=0.0, critic_lr=0.125))
    assert first != text(config(seeds=2, t_max=100_000, gamma=0.5))


def test_a_run_goes_on_with_its_rates(tmp_path: Path) -> None:
    rates = {"lr": [0.001, 0.02]}
    given = config(seeds=2, by_seed=rates, t_max=400, local_results_path=str(tmp_path), use_tensorboard=False)
    whole = api.train_config(given, quiet=True)
    header = (whole.folder / "checkpoints").rglob("*.safetensors")
    assert all(b"tuned" not in path.read_bytes()[:20_000] for path in header)
    assert Config.model_validate(given.model_dump()).by_seed == rates


@pytest.mark.parametrize(
    ("by_seed", "message"),
    [
        ({"lr": [0.1]}, "by_seed.lr: got 1 values, but seeds=2; give one for each."),
        ({"lrr": [0.1, 0.2]}, "Unknown key (by_seed) 'lrr'."),
        ({"gamma": [0.1, 0.2]}, "Unknown key (by_seed) 'gamma'."),
        ({"lr": [0.1, 0.0]}, "by_seed.lr: got 0; learning rates are above 0, weights at least 0."),
    ],
)
def test_what_no_program_takes_is_refused(by_seed: dict[str, list[float]], message: str) -> None:
    assert refusal(lambda: check_by_seed(config(seeds=2, by_seed=by_seed))).startswith(message)
    assert set(rate_keys(config())) == {"lr", "critic_lr", "am_lr", "entropy_coef"}
