"""The training loop: what a run writes, what its numbers mean, and what repeats."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.counting import CountingEnv
from helpers.tiny import GAME, result, tiny_config, weights
from omg import api
from omg.config import Config, resolve
from omg.envs import make_env
from omg.errors import UserError
from omg.tracking import RunFolder, Table
from omg.training import program
from omg.training.loop import Trainer
from omg.training.program import Program
from omg.training.state import IterationLog, RunState, SeedMap
from omg.training.summary import Summary, episode_rows


@pytest.fixture(scope="module")
def run(results: Path) -> api.Run:
    """The run that most tests look at; it is tested after every chunk."""
    return api.train_config(tiny_config(results, test_interval=4), quiet=True)


def steps(metrics: Table, name: str) -> list[int]:
    return metrics.where(name=name).column("t_env")


# ------------------------------------------------------------------------------------------------ the run's folder


def test_the_folder_has_what_is_needed_to_understand_a_run(run: api.Run):
    folder = run.folder
    assert run.status == "finished"
    assert folder.name.startswith("iql_foraging_4x4-2p-1f_seed1_20")
    assert ":" not in folder.name
    shown = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert shown == {
        *("config.yaml", "game.json", "versions.json", "status.json", "metrics.csv", "speed.csv", "console.log"),
        "progress.json",
        *("checkpoints", "agents"),
    }
    last = run.metrics[-1]["t_env"]
    status = json.loads((folder / "status.json").read_text())
    assert status.pop("peak_memory") > 1e7
    assert status == {"status": "finished", "t_env": last}
    versions = json.loads((folder / "versions.json").read_text())
    assert versions["packages"]["jax"] == jax.__version__
    assert {"python", "platform", "device", "backend", "git", "command"} <= set(versions)
    log = (folder / "console.log").read_text()
    for line in (
        f"run folder: {folder}",
        "device: cpu",
        "replay buffer: 32 episodes",
        "compiled in",
        f"t_env {last:,}/1,000",
    ):
        assert line in log
    assert len(list((folder / "checkpoints").iterdir())) == 2
    assert sorted(path.name for path in (folder / "agents" / "seed_1").iterdir()) == ["best", "last"]
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o044 == 0o044 & ~current_umask(), f"{path} is hidden from others"


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_stored_configuration_repeats_the_run(run: api.Run, results: Path):
    stored = RunFolder.open(run.folder).config()
    assert stored == tiny_config(results, test_interval=4)
    again = api.train_config(stored, quiet=True)
    assert again.folder != run.folder
    assert result(again.folder) == result(run.folder)
    assert len(result(run.folder)[1]) == 4


def test_speed_is_kept_apart_from_the_metrics(run: api.Run):
    header, *rows = (run.folder / "speed.csv").read_text().splitlines()
    assert header == "t_env,env_steps_per_second,updates_per_second,host_share"
    assert [int(row.split(",")[0]) for row in rows] == steps(run.metrics, "return_mean")
    for row in rows[2:]:
        _, env_steps, updates, host = map(float, row.split(","))
        assert env_steps > 0
        assert updates > 0
        assert 0 <= host < 1
    assert not {"env_steps_per_second", "host_share"} & set(run.metrics.column("name"))


def test_agents_are_those_of_the_table(run: api.Run):
    (agent,) = run.agents
    final = {row["name"]: row["value"] for row in run.metrics if row["name"].startswith("test_")}
    assert agent.card.results == final
    assert agent.card.t_env == run.metrics[-1]["t_env"]
    scores = run.metrics.where(name="test_score_mean")
    trained = [row for row in scores if row["t_env"] > 0]
    best = max(trained, key=lambda row: row["value"])
    card = json.loads((run.folder / "agents" / "seed_1" / "best" / "agent.json").read_text())
    assert (card["t_env"], card["results"]["test_score_mean"]) == (best["t_env"], best["value"])


def test_train_takes_options_of_the_game_and_of_the_run(results: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[Config] = []
    monkeypatch.setattr(api, "train_config", lambda config, **_: seen.append(config))
    api.train("qmix", "sc2", map_name="3m", t_max=100, env_args={"obs_last_action": True})
    (config,) = seen
    assert (config.name, config.t_max, config.mixer) == ("qmix", 100, "qmix")
    assert (config.env_args["map_name"], config.env_args["obs_last_action"]) == ("3m", True)
    with pytest.raises(UserError, match=r"Unknown key 'tmax'. Did you mean 't_max'"):
        api.train("qmix", "sc2", tmax=100)
    with pytest.raises(UserError, match=r"Unknown key 'mapname'. Did you mean 'env_args.map_name'"):
        api.train("qmix", "sc2", mapname="3m")


# ------------------------------------------------------------------------------------------------ what the numbers mean

LEARNING = {"loss", "grad_norm", "td_error_abs", "q_taken_mean", "target_mean"}


def test_metrics_have_the_names_pymarl_users_know(run: api.Run):
    played = {"return_mean", "return_std", "ep_length_mean", "score_mean", "foods_left_mean"}
    tests = {f"test_{name}" for name in played}
    assert set(run.metrics.column("name")) == played | tests | LEARNING | {"epsilon", "episode", "updates"}


def test_metrics_of_battles_have_the_names_pymarl_users_know():
    env_args = {"map_name": "3m", "episode_limit": 8}  # Short, so that one length of batches is traced.
    settings = {"env_args": env_args, "batch_size_run": 2, "buffer_size": 32, "test_nepisode": 2}
    battle = Program(resolve("qmix", "sc2", settings).config)
    state = jax.eval_shape(battle.init, jnp.arange(1, dtype=jnp.uint32))
    ones = lambda shapes: jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)  # noqa: E731
    log: IterationLog = ones(jax.eval_shape(battle.chunk, state)[1])
    summary = Summary(battle.spec, 1, {})
    summary.add(log)
    names = {row.name for row in summary.rows([1], np.array([7]))}
    played = {"return_mean", "return_std", "ep_length_mean", "battle_won_mean", "dead_allies_mean", "dead_enemies_mean"}
    assert names == played | LEARNING | {"epsilon", "episode", "updates"}
    stats, examined, _ = ones(jax.eval_shape(battle.test, state))
    assert examined == {}
    tests = episode_rows(stats, 0, "test_")
    assert set(tests) == {f"test_{name}" for name in played}
    assert tests["test_battle_won_mean"] == 1.0


def test_tests_happen_at_the_start_at_every_interval_and_at_the_end(run: api.Run, results: Path):
    chunks = steps(run.metrics, "return_mean")
    assert steps(run.metrics, "test_return_mean") == [0, *chunks]
    assert chunks[-2] < 1000 <= chunks[-1]

    sparse = api.train_config(tiny_config(results, test_interval=300), quiet=True)
    expected = [0]
    for reached in chunks:
        if reached - expected[-1] >= 300:
            expected.append(reached)
    assert expected[-1] < chunks[-1], "the test at the end should be one of its own"
    assert steps(sparse.metrics, "test_return_mean") == [*expected, chunks[-1]]
    # Tests use random numbers of their own, so their number changes nothing else.
    training = [[row for row in one.metrics if not row["name"].startswith("test_")] for one in (run, sparse)]
    assert training[0] == training[1]
    last = Path("agents") / "seed_1" / "last"
    assert weights(run.folder / last).keys() == weights(sparse.folder / last).keys()
    for name, value in weights(run.folder / last).items():
        np.testing.assert_array_equal(weights(sparse.folder / last)[name], value)


def test_one_update_per_episode_once_there_are_enough(run: api.Run):
    episodes, updates = (run.metrics.where(name=name).column("value") for name in ("episode", "updates"))
    assert episodes == [4.0 * (chunk + 1) for chunk in range(len(episodes))]
    # Eight episodes are needed for the first update, and four come at a time.
    assert updates == [max(count - 4, 0) for count in episodes]
    assert steps(run.metrics, "loss") == steps(run.metrics, "return_mean")[1:]


def test_steps_are_the_lengths_of_the_episodes(run: api.Run):
    lengths = run.metrics.where(name="ep_length_mean").column("value")
    reached = [0, *steps(run.metrics, "ep_length_mean")]
    assert [after - before for before, after in pairwise(reached)] == [4 * length for length in lengths]


def test_epsilon_falls_as_configured(run: api.Run):
    epsilon = run.metrics.where(name="epsilon")
    before = [0, *epsilon.column("t_env")[:-1]]
    expected = [max(1.0 - 0.95 * t_env / 600, 0.05) for t_env in before]
    np.testing.assert_allclose(epsilon.column("value"), expected, atol=1e-6)
    assert min(expected) == 0.05


# ------------------------------------------------------------------------------------------------ several seeds


@pytest.fixture(scope="module")
def three(results: Path) -> api.Run:
    return api.train_config(tiny_config(results, test_interval=4, seeds=3), quiet=True)


def test_seeds_together_are_the_seeds_alone(three: api.Run, run: api.Run, results: Path):
    """Up to rounding: on a CPU seeds take turns, and each is computed as if it were alone."""
    ends = []
    for seed in (1, 2, 3):
        alone = run if seed == 1 else api.train_config(tiny_config(results, test_interval=4, seed=seed), quiet=True)
        together = three.metrics.where(seed=seed)
        for key in ("t_env", "name"):
            assert together.column(key) == alone.metrics.column(key)
        np.testing.assert_allclose(together.column("value"), alone.metrics.column("value"), rtol=1e-6, atol=1e-7)
        agent = Path("agents") / f"seed_{seed}" / "last"
        for name, value in weights(alone.folder / agent).items():
            np.testing.assert_allclose(weights(three.folder / agent)[name], value, rtol=1e-6, atol=6e-8)
        ends.append(alone.metrics.last(name="episode"))
    assert len(set(ends)) > 1, "no seed has finished before another, so that this shows nothing"
    assert [agent.card.seed for agent in three.agents] == [1, 2, 3]


def test_seeds_as_an_axis_learn_what_they_learn_in_turn(results: Path, monkeypatch: pytest.MonkeyPatch):
    """As accelerators have them. Sums are taken in another order in wider arrays (measured: 2e-6)."""
    given, seeds, ends = tiny_config(results, seeds=3, test_interval=4), jnp.array([1, 2, 3], jnp.uint32), []
    for chosen in (SeedMap(None), SeedMap()):
        monkeypatch.setattr("omg.training.collecting.seeds_on_device", lambda chosen=chosen: chosen)
        compiled = Program(given)
        state, chunk = compiled.init(seeds), compiled.chunk.lower(compiled.init(seeds)).compile()
        for _ in range(3):
            state, log = chunk(state)
        assert int(log.updates.sum()) > 0
        # Behind the end of an episode lies what nobody reads: on an axis games go on until the last of all seeds.
        ends.append(jax.device_get((state.learner, state.t_env, state.storage.filled)))
    for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=1e-3, atol=1e-5)


def test_a_finished_seed_stays_as_it_is(results: Path):
    compiled = Program(tiny_config(results, seeds=3))
    state = compiled.init(jnp.array([1, 2, 3], jnp.uint32))
    chunk = compiled.chunk.lower(state).compile()
    while state.t_env.numpy().max() < 1000:
        state, _ = chunk(state)
    done = state.t_env.numpy() >= 1000
    assert not done.all()
    before = jax.device_get((state.learner, state.key, state.t_env))
    state, log = chunk(state)
    after = jax.device_get((state.learner, state.key, state.t_env))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(new[done], old[done])
    assert (after[1][~done] != before[1][~done]).any()
    assert (after[0].updates[~done] == before[0].updates[~done] + 4).all()
    np.testing.assert_array_equal(log.active[0], ~done)
    np.testing.assert_array_equal(log.updates[0], np.where(done, 0, 4))


# ------------------------------------------------------------------------------------------------ how it runs


def test_nothing_is_compiled_while_training(results: Path, monkeypatch: pytest.MonkeyPatch):
    env = CountingEnv(make_env("foraging", **GAME))
    traces = []
    monkeypatch.setattr(program, "make_env", lambda *_, **__: env)
    original = Trainer._compile

    def compile_and_count(self: Trainer, state: RunState) -> tuple[Any, Any]:
        compiled = original(self, state)
        if self.program.coming is not None:
            self.program.coming.result()  # The rest is compiled while the first test is played.
        traces.append(env.traces)
        return compiled

    monkeypatch.setattr(Trainer, "_compile", compile_and_count)
    finished = api.train_config(tiny_config(results), quiet=True)
    assert len(steps(finished.metrics, "return_mean")) > 20
    assert traces == [env.traces]
    assert traces[0] > 0


@pytest.fixture(scope="module")
def compiled(results: Path) -> Program:
    return Program(tiny_config(results))


def test_memory_does_not_grow(compiled: Program):
    state = compiled.init(jnp.array([1], jnp.uint32))
    chunk = compiled.chunk.lower(state).compile()

    def total(tree: Any) -> int:
        return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))

    at_start, alive = total(state), []
    for _ in range(12):  # The ring of 32 episodes is full after eight.
        state, log = chunk(state)
        del log
        alive.append(total(jax.live_arrays()))
    assert total(state) == at_start
    assert len(set(alive)) == 1
    assert total(state.storage) == compiled.storage_bytes()


def test_donated_buffers_are_used_again(compiled: Program):
    state = compiled.init(jnp.array([1], jnp.uint32))
    after, _ = compiled.chunk(state)
    assert state.storage.obs.is_deleted()
    assert not after.storage.obs.is_deleted()


def test_the_size_of_the_replay_buffer_is_shown(results: Path, compiled: Program):
    # 32 episodes of 9 slots: 2 seats x 9 features and 9 state features in 2 bytes; then avail, actions, reward, flags.
    per_slot = 2 * 9 * 2 + 9 * 2 + 2 * 6 + 2 + 2 * 4 + 2
    assert (compiled.spec.obs_dim, compiled.spec.state_dim) == (9, 9)
    assert compiled.storage_bytes() == 32 * 9 * per_slot
    lines: list[str] = []
    reporter = SimpleNamespace(say=lines.append, rewind=lambda position: None)
    for seeds in (1, 3):
        trainer = Trainer(Program(tiny_config(results, seeds=seeds)), results / "none", reporter, print)
        trainer.program.init = lambda seeds: RunState(*[None] * 7)
        trainer._begin()
        shown = f"{seeds * 32 * 9 * per_slot / 1e6:.2f} MB"
        assert lines.pop() == f"replay buffer: 32 episodes x {seeds} seed(s) = {shown} (float16)"


def test_five_thousand_battles_fit_into_memory():
    battle = Program(resolve("qmix", "sc2", {"env_args": {"map_name": "8m"}}).config)
    slots = 8 * 80 * 2 + 168 * 2 + 8 * 14 + 8 + 4 + 2
    assert battle.storage_bytes() == 5000 * 121 * slots
    assert battle.storage_bytes() <= 1.5e9
    assert battle.storage_bytes() == sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(battle.learning.empty_storage))
    )


def test_without_save_model_nothing_is_saved(results: Path, run: api.Run):
    unsaved = api.train_config(tiny_config(results, save_model=False, test_interval=4), quiet=True)
    assert not (unsaved.folder / "checkpoints").exists()
    assert not (unsaved.folder / "agents").exists()
    assert result(unsaved.folder)[0] == result(run.folder)[0]
    with pytest.raises(UserError, match="there is no such folder"):
        _ = unsaved.agents
