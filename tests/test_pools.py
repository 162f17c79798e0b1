"""Pools: who may be a member, what is refused, and how a pool is trained, continued and shown."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg import api
from omg.api import Run
from omg.cli import pools as commands
from omg.components.files import checksum
from omg.config import Config, resolve
from omg.controllers import build_mac
from omg.controllers.scripted import ScriptedPlayer
from omg.envs import make_env
from omg.errors import UserError
from omg.experiments import changed_settings, train_pool
from omg.experiments import pool as experiment
from omg.pools import Agent, AgentCard, save_agent
from omg.pools import index as pool_index
from omg.pools.index import Measure, Member, Pool
from omg.tracking import RunFolder
from tiny import GAME, SETTINGS

ENV = make_env("foraging", **GAME)
MEASURED = Measure("score", 1.5, 1.0, 2.0, 64)


def settings(algorithm: str = "iql", **changes: Any) -> Config:
    return resolve(algorithm, "foraging", {**SETTINGS, "env_args": GAME, **changes}).config


def agent(folder: Path, config: Config | None = None, seed: int = 1, draw: int | None = None) -> Path:
    """An agent with weights drawn by NumPy; compiling their initialisation would take seconds."""
    config = config or settings()
    env = make_env(config.env, **config.env_args)
    shapes = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
    rng = np.random.default_rng(seed if draw is None else draw)
    policy = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)
    return save_agent(folder, policy, AgentCard(config.name, seed, 100 + seed, config.model_dump(), vars(env.spec)))


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool.create(tmp_path / "pool", "foraging", GAME, ENV.spec)


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as refused:
        call()
    return str(refused.value)


# ------------------------------------------------------------------------------------------------ members


def test_a_member_is_a_copy_and_comes_back_with_all_that_is_known(pool: Pool, tmp_path: Path):
    source = agent(tmp_path / "agent", seed=11)
    pool.add(source, "training", measured=MEASURED)
    pool.add_scripted("nearest_food", "heldout")
    digest = checksum(source / "weights.safetensors")
    shutil.rmtree(source)
    moved = Pool.open(shutil.move(pool.path, tmp_path / "elsewhere"))
    moved.check()
    learned, scripted = moved.members()
    assert learned == Member(
        "iql_s11", "learned", "iql", 11, "training", "foraging", "4x4-2p-1f", False, 111, MEASURED, digest
    )
    assert (scripted.kind, scripted.name, scripted.seed, scripted.sha256) == ("scripted", "nearest_food", None, None)
    assert (moved.where, moved.obs_is_state, len(moved)) == ("foraging 4x4-2p-1f", False, 2)
    assert moved.members("heldout") == [scripted]
    assert moved.members(algorithm="iql") == [learned]
    loaded = moved.load("iql_s11")
    assert isinstance(loaded, Agent)
    assert loaded.card.t_env == 111
    assert isinstance(moved.load("nearest_food"), ScriptedPlayer)


def test_processes_that_add_at_once_lose_nobody(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = [agent(tmp_path / f"agent_{seed}", seed=seed) for seed in range(5)]
    opened = [Pool.open(pool.path) for _ in folders]
    read = pool_index.read_index

    def slow_read(path: Path) -> Any:
        index = read(path)
        time.sleep(0.05)
        return index

    monkeypatch.setattr(pool_index, "read_index", slow_read)
    with ThreadPoolExecutor(len(folders)) as threads:
        list(threads.map(lambda pair: pair[0].add(pair[1], "training"), zip(opened, folders, strict=True)))
    assert {member.name for member in Pool.open(pool.path)} == {f"iql_s{seed}" for seed in range(5)}


def test_a_write_that_fails_leaves_the_pool_as_it_was(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = agent(tmp_path / "agent")
    pool.add_scripted("random", "training")
    before = (pool.path / "pool.json").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(pool_index, "write_index", full)
        message = refusal(lambda: pool.add(source, "training"))
    assert message == f"{pool.path}: the member 'iql_s1' cannot be written: No space left on device."
    assert (pool.path / "pool.json").read_bytes() == before
    assert [member.name for member in pool] == ["random"]
    pool.add(source, "heldout")
    Pool.open(pool.path).check()


# ------------------------------------------------------------------------------------------------ rules


def test_sets_share_nobody(pool: Pool, tmp_path: Path):
    first = agent(tmp_path / "first", seed=1)
    same_origin = agent(tmp_path / "same_origin", seed=1, draw=5)
    same_weights = agent(tmp_path / "same_weights", seed=2, draw=1)
    pool.add(first, "training")
    assert "'iql_s1' is in the sets training and heldout" in refusal(lambda: pool.add(first, "heldout"))
    assert "'iql_s1' is there twice" in refusal(lambda: pool.add(first, "training"))
    assert refusal(lambda: pool.add(same_origin, "heldout", name="other")) == (
        f"{pool.path}: 'iql_s1' in the set training and 'other' in the set heldout both come from iql seed 1; "
        "sets must not share anybody."
    )
    assert "'iql_s2' in the set validation both have the same weights" in refusal(
        lambda: pool.add(same_weights, "validation")
    )
    pool.add_scripted("random", "heldout")
    assert "'random' is in the sets heldout and training" in refusal(lambda: pool.add_scripted("random", "training"))
    # Within one set a second agent of the same run is nobody's leak.
    pool.add(same_origin, "training", name="iql_s1_late")
    assert [member.name for member in Pool.open(pool.path)] == ["iql_s1", "random", "iql_s1_late"]


def test_one_game_and_one_kind_of_input(pool: Pool, tmp_path: Path):
    pool.add(agent(tmp_path / "first"), "training")
    larger = agent(tmp_path / "larger", settings(env_args={**GAME, "rows": 5}), seed=2)
    assert refusal(lambda: pool.add(larger, "training")) == (
        f"{larger}: the agent was made for foraging 5x4-2p-1f with scenario=5x4-2p-1f, but the pool {pool.path} is for "
        "foraging 4x4-2p-1f with scenario=4x4-2p-1f."
    )
    blind = agent(tmp_path / "blind", settings(env_args={**GAME, "observe_agent_levels": False}), seed=2)
    assert "with obs_dim=7, but" in refusal(lambda: pool.add(blind, "training"))
    seeing = agent(tmp_path / "seeing", settings(obs_is_state=True), seed=2)
    assert refusal(lambda: pool.add(seeing, "training")) == (
        f"{pool.path}: the member 'iql_s2' has obs_is_state=True, but 'iql_s1' has obs_is_state=False; a pool has one "
        "of the two."
    )


def test_names_are_checked(pool: Pool, tmp_path: Path):
    source = agent(tmp_path / "agent")
    assert "got the member name '../out'" in refusal(lambda: pool.add(source, "training", name="../out"))
    assert refusal(lambda: pool.add(source, "held-out")).startswith("Unknown set 'held-out'. Did you mean 'heldout'?")
    assert "plays sc2, but the game is foraging" in refusal(lambda: pool.add_scripted("stand", "training"))
    assert "Unknown script 'nearest'" in refusal(lambda: pool.add_scripted("nearest", "training"))
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------ damage


def change_index(pool: Pool, change: Callable[[dict[str, Any]], Any]) -> None:
    stored = json.loads((pool.path / "pool.json").read_text())
    change(stored)
    (pool.path / "pool.json").write_text(json.dumps(stored))


def test_what_is_no_pool_is_said_so(pool: Pool, tmp_path: Path):
    assert refusal(lambda: Pool.open(tmp_path / "none")).startswith(f"{tmp_path / 'none'} is not a pool: there is no ")
    assert refusal(lambda: Pool.open(tmp_path)).startswith(f"{tmp_path} is not a pool: it has no pool.json.")
    assert "there is a pool already" in refusal(lambda: Pool.create(pool.path, "foraging", GAME, ENV.spec))
    assert "it is not empty (it holds pool)" in refusal(lambda: Pool.create(tmp_path, "foraging", GAME, ENV.spec))
    assert pool.members() == []
    assert "no members in the set 'heldout'. It has: nobody." in refusal(lambda: pool.members("heldout"))
    pool.add_scripted("random", "training")
    assert "of qmix. It has: training random=1." in refusal(lambda: pool.members(algorithm="qmix"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: stored.update(format=9), "has format 9; this version of omg reads format 1."),
        (lambda stored: stored.pop("format"), "pool.json is damaged: KeyError: 'format'."),
        (lambda stored: stored.pop("spec"), "pool.json is damaged: spec: "),
        (lambda stored: stored["members"][0].pop("seed"), "pool.json is damaged: members.0.seed: "),
        (lambda stored: stored["members"][0].update(set="test"), "pool.json is damaged: members.0.set: got 'test'."),
        (lambda stored: stored["members"][0].update(name="../x"), "got the member name '../x'"),
        (
            lambda stored: stored["members"][0].update(sha256=None),
            "'iql_s1' is learned, so its entry needs seed, sha256",
        ),
        (lambda stored: stored["members"][0].update(scenario="8m"), "'iql_s1' plays foraging 8m, but the pool is for "),
        (lambda stored: stored["members"][1].update(seed=1), "both come from iql seed 1"),
        (lambda stored: stored["members"][1].update(name="iql_s1"), "'iql_s1' is in the sets training and heldout"),
    ],
)
def test_a_damaged_index_is_refused(change: Callable[[Any], Any], message: str, pool: Pool, tmp_path: Path):
    pool.add(agent(tmp_path / "one", seed=1), "training")
    pool.add(agent(tmp_path / "two", seed=2), "heldout")
    change_index(pool, change)
    assert message in refusal(lambda: Pool.open(pool.path))


def test_half_an_index_is_refused(pool: Pool):
    file = pool.path / "pool.json"
    file.write_text(file.read_text()[:50])
    assert f"{file} is damaged: JSONDecodeError" in refusal(lambda: Pool.open(pool.path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "the folder of the member 'iql_s1' is gone"),
        (
            lambda folder: (folder / "weights.safetensors").write_bytes(b"x"),
            "weights.safetensors is not what was added",
        ),
        (lambda folder: (folder / "agent.json").write_text("{"), "agent.json cannot be read (JSONDecodeError"),
        (lambda folder: (folder / "agent.json").unlink(), "agent.json cannot be read (FileNotFoundError"),
        (
            lambda folder: (folder / "agent.json").write_text('{"algorithm": "vdn", "seed": 1}'),
            "the index says iql seed 1, its folder vdn seed 1.",
        ),
    ],
)
def test_a_damaged_member_is_named(damage: Callable[[Path], Any], message: str, pool: Pool, tmp_path: Path):
    pool.add(agent(tmp_path / "agent"), "training")
    pool.check()
    damage(pool.path / "members" / "iql_s1")
    opened = Pool.open(pool.path)
    for call in (opened.check, lambda: opened.load("iql_s1")):
        assert message in refusal(call)


# ------------------------------------------------------------------------------------------------ training


class FakeTraining:
    """Stands in for `api.train_config` and `api.resume`: writes the agents of a run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.outcome = "finished"
        monkeypatch.setattr(api, "train_config", self.train)
        monkeypatch.setattr(api, "resume", self.resume)
        monkeypatch.setattr(experiment, "play_team", self.play)

    def train(self, config: Config, **_: Any) -> Run:
        self.calls.append(f"train {config.name} seeds {config.seed}+{config.seeds}")
        folder = RunFolder.create(experiment._adjusted(config), ENV.spec.scenario)
        return self._finish(folder)

    def resume(self, folder: Path, **_: Any) -> Run:
        self.calls.append("resume")
        return self._finish(RunFolder.open(folder))

    def play(self, player: Agent, episodes: int, seed: int) -> list[dict[str, Any]]:
        row = {"metric": "score", "mean": float(player.card.seed), "low": 0.0, "high": 9.0}
        return [{**row, "metric": "return", "mean": -1.0}, row]

    def _finish(self, folder: RunFolder) -> Run:
        config = folder.config()
        if self.outcome == "finished":
            for seed in range(config.seed, config.seed + config.seeds):
                for number, which in enumerate(("best", "last")):
                    draw = (seed, number, config.name == "vdn")
                    agent(folder.agent(seed, which), config, seed, draw)  # type: ignore[arg-type]
        folder.set_status(self.outcome)
        return Run(folder.path, self.outcome)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    return FakeTraining(monkeypatch)


def tiny_pool(folder: Path, counts: dict[str, dict[str, int]], **more: Any) -> Pool:
    changes = more.pop("changes", {})
    overrides = {**SETTINGS, "env_args": GAME, "seed": 11, **changes}
    return train_pool(folder, counts, "foraging", overrides, quiet=True, **more)


COUNTS = {"heldout": {"vdn": 1, "iql": 2}, "training": {"iql": 1}, "validation": {"iql": 1}}


def test_seeds_are_divided_among_the_sets(training: FakeTraining, tmp_path: Path):
    pool = tiny_pool(tmp_path / "pool", COUNTS, scripted={"random": "heldout"}, episodes=32)
    assert training.calls == ["train iql seeds 11+4", "train vdn seeds 11+1"]
    assert {member.name: member.set for member in pool} == {
        "iql_s11": "training",
        "iql_s12": "validation",
        "iql_s13": "heldout",
        "iql_s14": "heldout",
        "vdn_s11": "heldout",
        "random": "heldout",
    }
    assert pool.member("iql_s13").measured == Measure("score", 13.0, 0.0, 9.0, 32)
    run = next((tmp_path / "pool" / "runs" / "iql").iterdir())
    assert pool.member("iql_s12").sha256 == checksum(run / "agents" / "seed_12" / "best" / "weights.safetensors")
    Pool.open(pool.path).check()


def test_a_pool_is_completed_and_not_trained_twice(training: FakeTraining, tmp_path: Path):
    folder = tmp_path / "pool"
    first = {"training": {"iql": 2}}
    tiny_pool(folder, first, which="last")
    run = next((folder / "runs" / "iql").iterdir())
    assert Pool.open(folder).member("iql_s11").sha256 == checksum(
        run / "agents" / "seed_11" / "last" / "weights.safetensors"
    )
    tiny_pool(folder, first)
    assert len(training.calls) == 1
    # A member whose entry was not written before the process died is added from the finished run.
    change_index(Pool.open(folder), lambda stored: stored["members"].pop(0))
    tiny_pool(folder, {**first, "heldout": {"vdn": 1}})
    assert training.calls[1:] == ["train vdn seeds 11+1"]
    assert {member.name for member in Pool.open(folder)} == {"iql_s11", "iql_s12", "vdn_s11"}


def test_an_interrupted_run_is_continued(training: FakeTraining, tmp_path: Path):
    training.outcome = "interrupted"
    with pytest.raises(KeyboardInterrupt):
        tiny_pool(tmp_path / "pool", {"training": {"iql": 2}})
    assert len(Pool.open(tmp_path / "pool")) == 0
    training.outcome = "finished"
    message = refusal(lambda: tiny_pool(tmp_path / "pool", {"training": {"iql": 2}}, changes={"lr": 0.5}))
    assert message.startswith("lr: got 0.5, but the run ")
    tiny_pool(tmp_path / "pool", {"training": {"iql": 2}})
    assert training.calls == ["train iql seeds 11+2", "resume"]
    assert len(Pool.open(tmp_path / "pool")) == 2


@pytest.mark.parametrize(
    ("counts", "more", "message"),
    [
        ({"training": {"iql": 2}}, {}, "iql was begun as training=1, heldout=1 with seeds from 11, but asked for is "),
        ({"training": {"iql": 1}}, {}, "but asked for is training=1 with seeds from 11."),
        (
            {"training": {"iql": 1}, "heldout": {"iql": 1}},
            {"changes": {"seed": 12}},
            "but asked for is training=1, heldout=1 with seeds from 12.",
        ),
        (
            {"training": {"iql": 1}, "heldout": {"iql": 1}},
            {"changes": {"t_max": 2000}},
            "t_max: got 2000, but the member iql_s11 was trained with 1000.",
        ),
        (
            {"training": {"vdn": 1}},
            {"changes": {"env_args": {**GAME, "penalty": 0.5}}},
            "env_args.penalty: got 0.5, but the pool has 0.0.",
        ),
        (
            {"training": {"vdn": 1}},
            {"changes": {"env_args": {**GAME, "rows": 5}}},
            "the pool is for foraging 4x4-2p-1f, but the settings give foraging 5x4-2p-1f.",
        ),
        (
            {"training": {"vdn": 1}},
            {"changes": {"obs_is_state": True}},
            "obs_is_state: got True for vdn, but the pool ",
        ),
        ({"training": {"vdm": 1}}, {}, "Unknown algorithm in the set training: 'vdm'. Did you mean 'vdn'?"),
        ({"trainin": {"vdn": 1}}, {}, "Unknown set 'trainin'. Did you mean 'training'?"),
        ({"training": {"vdn": 0}}, {}, "training: got vdn=0, allowed: 1 or more."),
        ({}, {}, "The pool would be empty."),
        ({"training": {"vdn": 1}}, {"changes": {"seeds": 3}}, "seeds: cannot be set for a pool"),
        ({"training": {"vdn": 1}}, {"scripted": {"stand": "training"}}, "Script 'stand' plays sc2"),
        ({"training": {"vdn": 1}}, {"which": "first"}, "Unknown kind of agent (which) 'first'."),
    ],
)
def test_what_contradicts_the_pool_is_refused(
    counts: dict[str, dict[str, int]], more: dict[str, Any], message: str, training: FakeTraining, tmp_path: Path
):
    folder = tmp_path / "pool"
    tiny_pool(folder, {"training": {"iql": 1}, "heldout": {"iql": 1}})
    before = (folder / "pool.json").read_bytes()
    assert message in refusal(lambda: tiny_pool(folder, counts, **more))
    assert len(training.calls) == 1
    assert (folder / "pool.json").read_bytes() == before


def test_a_pool_is_trained_and_measured_for_real(tmp_path: Path):
    pool = tiny_pool(tmp_path / "pool", {"training": {"iql": 1}, "heldout": {"iql": 1}}, episodes=64)
    pool.add_scripted("nearest_food", "heldout")
    for member in pool.members(algorithm="iql"):
        assert member.measured is not None
        assert member.measured.metric == "score"
        assert member.measured.episodes == 64
        assert member.measured.low <= member.measured.value <= member.measured.high
        assert member.measured.high > 0
        assert 0 < member.steps < 1100
    table = api.evaluate(pool.folder("iql_s12"), episodes=64, seed=experiment.MEASURE_SEED)
    assert pool.member("iql_s12").measured.value == table.where(metric="score")[0]["mean"]
    changed = {key: (value, default) for key, value, default in changed_settings(pool, "iql_s12")}
    assert changed["t_max"] == (1000, 2_050_000)
    assert changed["env_args.rows"] == (4, 8)
    assert "gamma" not in changed
    assert changed_settings(pool, "nearest_food") == []


# ------------------------------------------------------------------------------------------------ commands


def omg_pool(*words: str) -> None:
    commands.app(args=list(words), prog_name="omg pool", standalone_mode=False)


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(key, value)


@pytest.mark.usefixtures("wide_terminal")
def test_train_list_and_show(training: FakeTraining, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(tmp_path / "pool")
    game = [f"env_args.{key}={value}" for key, value in GAME.items()]
    words = [f"{key}={value}" for key, value in SETTINGS.items()]
    counts = ["--training", "iql=1", "--heldout", "vdn=1", "--scripted", "random:heldout"]
    omg_pool("train", folder, *counts, "--env-config=foraging", "with", *game, *words, "--lr=0.01", "--quiet")
    assert [member.name for member in Pool.open(folder)] == ["iql_s1", "vdn_s1", "random"]
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["iql_s1", "training", "iql", "1", "101", "1", "0.000-9.000"] in printed
    assert ["random", "heldout", "script", "0", "0", "0.000-9.000"] in printed
    omg_pool("list", folder, "--set", "heldout")
    listed = capsys.readouterr().out
    assert "4x4-2p-1f" in listed
    assert "vdn_s1" in listed
    assert "random" in listed
    assert "iql_s1" not in listed
    omg_pool("show", folder, "vdn_s1")
    shown = capsys.readouterr().out
    assert "(95 % interval 0 to 9) in 256 greedy episodes" in shown
    assert any(line.split() == ["lr", "0.0100", "0.0005"] for line in shown.splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "NOWHERE"], "NOWHERE is not a pool: there is no such folder."),
        (["show", "NOWHERE", "iql_s1"], "NOWHERE is not a pool: there is no such folder."),
        (["train", "P", "--training", "iql"], "--training: got 'iql'; write ALG=N"),
        (["train", "P", "--heldout", "iql=0"], "--heldout: got 'iql=0'; write ALG=N with N of 1 or more"),
        (["train", "P", "--heldout", "iql=1,iql=2"], "--heldout: iql is named twice."),
        (["train", "P", "--scripted", "random"], "--scripted: got 'random'; write SCRIPT:SET, e.g. random:heldout."),
        (
            ["train", "P", "--scripted", "random:heldout,random:training"],
            "--scripted: random is named for the sets heldout and training; allowed: one.",
        ),
        (["train", "P", "--training", "iql=1", "--config=qmix"], "--config: got 'qmix', but a pool's algorithms are"),
        (["train", "lr=1", "--training", "iql=1"], "POOL: got 'lr=1'; the folder of the pool comes first"),
        (["train", "P", "--training", "iql=1", "lrr=1"], "Unknown key 'lrr'. Did you mean 'lr'?"),
        (["train", "P"], "The pool would be empty."),
    ],
)
def test_commands_refuse_what_they_cannot_use(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(lambda: omg_pool(*words))
    assert list(tmp_path.iterdir()) == []
