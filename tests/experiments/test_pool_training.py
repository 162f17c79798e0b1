"""How a pool is trained, continued, measured and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.pool_members import ENV, agent, change_index
from helpers.refusing import refusal
from helpers.tiny import GAME, SETTINGS
from omg import api
from omg.api import Run
from omg.cli import pools as commands
from omg.components.files import checksum
from omg.config import Config
from omg.experiments import changed_settings, train_pool
from omg.experiments import pool as experiment
from omg.pools import Agent
from omg.pools.index import Pool, Standing
from omg.tracking import RunFolder

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
        folder = RunFolder.create(experiment._adjusted(config), ENV.spec)
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
    assert pool.member("iql_s13").measured == Standing("score", 13.0, 0.0, 9.0, 32)
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
        ({"training": {"vdn": 0}}, {}, "training: got vdn=0, allowed: 1 to 10000."),
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
        (["train", "P", "--heldout", "iql=0"], "--heldout: got 'iql=0'; write ALG=N with N of 1 to 10000"),
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
