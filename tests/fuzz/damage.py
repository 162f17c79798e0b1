"""Damaged files, each through the commands that read it.

Half of the damaged weights and checkpoints are sealed again: the checksum beside them is that of the damaged file, as
after a fault in whoever wrote it. Otherwise nothing behind the checksum would ever see damage.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from .harness import Case
from .material import Material
from .values import changed_tree, damaged_bytes, damaged_json, mutated, word


def damage_case(random: Random, material: Material) -> Case:
    """One file damaged, and a command that reads it."""
    name = random.choice(list(_FILES))
    pattern, damage, readers = _FILES[name]
    reader = random.choice(readers)
    seal = random.random() < 0.5
    draw = Random(random.random())
    damaged: list[str] = []

    def prepare(folder: Path) -> None:
        material.copy(folder, f"{pattern} {reader if isinstance(reader, list) else 'run pool'}")
        path = draw.choice(sorted(folder.glob(pattern)))
        damaged.append(str(path.relative_to(folder)))
        if draw.random() < 0.03:
            path.unlink()
            if draw.random() < 0.5:
                path.mkdir()
            return
        path.write_bytes(damage(draw, path.read_bytes()))
        if seal:
            _seal(path)

    case = Case([], prepare, about=f"{name} damaged{' and sealed' if seal else ''}", deep=reader == ["resume", "run"])
    if isinstance(reader, list):
        case.words = reader
    else:
        case.call = reader
        case.about += f", read by {reader.__name__}"
    return case


def _seal(path: Path) -> None:
    """Makes the file beside `path` that holds its checksum hold the new one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = path.with_name("checkpoint.json")
    if manifest.is_file() and path != manifest:
        stored = json.loads(manifest.read_text())
        stored["files"][path.name] = digest
        manifest.write_text(json.dumps(stored))
    for card in (path.with_name("agent.json"), path.with_name("prior.json")):
        if card.is_file() and path.suffix == ".safetensors":
            card.write_text(json.dumps({**json.loads(card.read_text()), "sha256": digest}))
    index = path.parent.parent.parent / "pool.json"
    if index.is_file() and path.suffix == ".safetensors":
        stored = json.loads(index.read_text())
        for member in stored["members"]:
            if member["name"] == path.parent.name:
                member["sha256"] = digest
        index.write_text(json.dumps(stored))


def damaged_arrays(random: Random, data: bytes) -> bytes:
    """A safetensors file with another header, other numbers, or damaged as bytes."""
    kind = random.random()
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if kind < 0.3:
        return damaged_bytes(random, data)
    if kind < 0.4:
        return struct.pack("<Q", random.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))) + data[8:]
    if kind < 0.55:
        count = len(body) // 4
        numbers = np.full(count, random.choice((np.nan, np.inf, -np.inf, 1e38, 0.0)), np.float32)
        return data[: 8 + length] + numbers.tobytes()[: len(body)].ljust(len(body), b"\x00")
    try:
        text = json.dumps(changed_tree(random, header)).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):
        text = b"[" * 5000
    return struct.pack("<Q", len(text)) + text + body


def damaged_text(random: Random, data: bytes) -> bytes:
    """A text file with lines changed, or damaged as bytes."""
    if random.random() < 0.3:
        return damaged_bytes(random, data)
    lines = data.decode().splitlines()
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(lines))
        kind = random.randrange(4)
        key, colon, _ = lines[place].partition(":")
        if kind == 0:
            lines[place] = mutated(random, lines[place])
        elif kind == 1:
            lines[place] = f"{key}: {word(random)}" if colon else word(random)
        elif kind == 2:
            parts = lines[place].split(",")
            parts[random.randrange(len(parts))] = word(random)
            lines[place] = ",".join(parts)
        else:
            del lines[place]
            lines = lines or [""]
    return "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")


def load_run() -> Any:
    """`omg.load` of the run."""
    import omg

    return omg.load("run")


def load_member() -> Any:
    """`Pool.load` of a member."""
    from omg.pools import Pool

    return Pool.open("pool").load("iql_s11")


def run_metrics() -> Any:
    """The metrics of a run, from Python."""
    from omg.api import Run

    return Run(Path("run"), "finished").metrics


_TEAM = ["train", "--config=1pool1iql_omg", "--env-config=foraging", "init_param_path=pool", "subgoal_dim=8"]
_TEAM += ["env_args={rows: 4, cols: 4, players: 2, max_food: 1, max_player_level: 2, episode_limit: 8}"]
_FROM = ["train", "--config=iql", "--env-config=foraging", "init_from=run", "rnn_hidden_dim=8", _TEAM[-1]]
_AGENT_READERS: list[Any] = [
    *(["evaluate", "run"], ["evaluate", "run", "--pool", "pool"], ["evaluate", "run", "agent"], _FROM, load_run),
    *(["adapt", "run", "--pool", "pool"], ["adapt", "run", "--players", "random", "--frozen"]),
]
_MEMBER_READERS: list[Any] = [
    *(["pool", "list", "pool"], ["pool", "show", "pool", "iql_s11"], ["crossplay", "pool"], ["pretrain", "pool"]),
    *(["evaluate", "agent", "--pool", "pool", "--set", "training"], ["adapt", "agent", "--pool", "pool"], _TEAM),
    *(["evaluate", "pool/members/iql_s11"], load_member),
]
_INDEX_READERS = [
    *_MEMBER_READERS,
    ["pool", "train", "pool", "--training", "iql=3", "--env-config=foraging", _TEAM[-1]],
]
_BATTLE_READERS = [["versus", "battle", "battle"], ["versus", "battle:iql_s11", "random"], ["pool", "list", "battle"]]
_RUN_READERS: list[Any] = [["resume", "run"], ["adapt", "run", "--players", "random"]]
_PLOT_READERS: list[Any] = [["plot", "run"], ["plot", "run", "run", "--interval"], ["resume", "run"], run_metrics]
_PIPELINE_READERS = [
    ["pipeline", "pipeline"],
    ["pipeline", "pipeline", "--from", "pool"],
    ["pipeline", "pipeline", "--only", "train"],
]
_CONFIG_READERS = [
    ["resume", "run"],
    ["plot", "run"],
    ["evaluate", "run", "--pool", "pool"],
    ["adapt", "run", "--players", "random"],
]

_FILES: dict[str, tuple[str, Callable[[Random, bytes], bytes], list[Any]]] = {
    "agent.json": ("run/agents/*/*/agent.json", damaged_json, _AGENT_READERS),
    "weights of an agent": ("run/agents/*/*/weights.safetensors", damaged_arrays, _AGENT_READERS),
    "config.yaml": ("run/config.yaml", damaged_text, _CONFIG_READERS),
    "pool.json": ("pool/pool.json", damaged_json, _INDEX_READERS),
    "card of a member": ("pool/members/*/agent.json", damaged_json, _MEMBER_READERS),
    "weights of a member": ("pool/members/*/weights.safetensors", damaged_arrays, _MEMBER_READERS),
    "pool.json of battles": ("battle/pool.json", damaged_json, _BATTLE_READERS),
    "card in battles": ("battle/members/*/agent.json", damaged_json, _BATTLE_READERS),
    "prior.json": ("pool/prior/prior.json", damaged_json, [_TEAM]),
    "weights of the prior": ("pool/prior/weights.safetensors", damaged_arrays, [_TEAM]),
    "checkpoint.json": ("run/checkpoints/*/checkpoint.json", damaged_json, _RUN_READERS),
    "host.json": ("run/checkpoints/*/host.json", damaged_json, _RUN_READERS),
    "state": ("run/checkpoints/*/state.safetensors", damaged_arrays, _RUN_READERS),
    "metrics.csv": ("run/metrics.csv", damaged_text, _PLOT_READERS),
    "status.json": (
        "run/status.json",
        damaged_json,
        [["resume", "run"], ["plot", "run"], ["runs", "run"], ["tail", "run"]],
    ),
    "plan of a pipeline": ("pipeline/pipeline.yaml", damaged_text, _PIPELINE_READERS),
    "records of a pipeline": ("pipeline/stages/**/*.json", damaged_json, _PIPELINE_READERS),
    "pool of a pipeline": ("pipeline/pool/pool.json", damaged_json, _PIPELINE_READERS),
}
"""What is damaged -> where it is, how, and who reads it: the words of a command, or a call."""
