"""Pools: who may be a member, what is refused, and what damage is found."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from helpers.pool_members import ENV, agent, change_index, settings
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.components.files import checksum
from omg.controllers.scripted.base import ScriptedPlayer
from omg.pools import Agent
from omg.pools import index as pool_index
from omg.pools.index import Member, Pool, Standing

MEASURED = Standing("score", 1.5, 1.0, 2.0, 64)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool.create(tmp_path / "pool", "foraging", GAME, ENV.spec)


# ------------------------------------------------------------------------------------------------ members


def test_a_member_is_a_copy_and_comes_back_with_all_that_is_known(pool: Pool, tmp_path: Path):
    source = agent(tmp_path / "agent", seed=11)
    pool.add(source, "training", measured=MEASURED)
    pool.add_scripted("nearest_food", "heldout")
    digests = checksum(source / "weights.safetensors"), checksum(source / "agent.json")
    shutil.rmtree(source)
    moved = Pool.open(shutil.move(pool.path, tmp_path / "elsewhere"))
    moved.check()
    learned, scripted = moved.members()
    assert learned == Member(
        "iql_s11", "learned", "iql", 11, "training", "foraging", "4x4-2p-1f", False, 111, MEASURED, *digests
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
    assert "member name: got '../out'" in refusal(lambda: pool.add(source, "training", name="../out"))
    assert refusal(lambda: pool.add(source, "held-out")).startswith("Unknown set 'held-out'. Did you mean 'heldout'?")
    assert "plays sc2, but the game is foraging" in refusal(lambda: pool.add_scripted("stand", "training"))
    assert "Unknown script 'nearest'" in refusal(lambda: pool.add_scripted("nearest", "training"))
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------ damage


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
        (lambda stored: stored["members"][0].update(name="../x"), "member name: got '../x'"),
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
        (lambda folder: (folder / "agent.json").write_text("{"), "agent.json is not what was added"),
        (lambda folder: (folder / "agent.json").unlink(), "agent.json is not what was added"),
        (
            lambda folder: (folder / "agent.json").write_text('{"algorithm": "vdn", "seed": 1}'),
            "agent.json is not what was added",
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
