"""Folders as a hostile author would send them: each is an honest one, changed, with all checksums made right again."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

from helpers.cards import edit_card, edit_json, seal, seal_member
from helpers.plans import PLAN
from helpers.tiny import SPEC, tiny_agent, tiny_config, tiny_pool
from omg.components.files import checksum, write_json
from omg.config import write_yaml
from omg.modules.opponent_models.prior import Prior
from omg.pools import PriorCard, save_prior
from omg.tracking import RunFolder

MEMBER = "iql_s11"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Kit:
    """Honest folders, and what a hostile one must not touch."""

    home: Path
    canary: Path
    """A file that must not come to be."""
    victim: Path
    """A folder that must stay as it is."""

    def path(self, kind: str) -> Path:
        """The honest folder or file of a kind: agent, run, pool, plan, prior."""
        return self.home / ("plan.yaml" if kind == "plan" else kind)


def make_kit(home: Path) -> Kit:
    """Builds one of each kind, untrained."""
    kit = Kit(home, home / "victim" / "canary", home / "victim")
    kit.victim.mkdir(parents=True)
    (kit.victim / "precious").write_text("precious")
    config = tiny_config(home / "runs")
    tiny_agent(kit.path("agent"), config, 1)
    tiny_pool(kit.path("pool"))
    run = RunFolder.create(config, SPEC)
    for which in ("best", "last"):
        shutil.copytree(kit.path("agent"), run.agent(1, which))
    run.console_file.write_text("2026-01-31 12:00:00 compiling\n")
    run.metrics_file.write_text("seed,t_env,name,value\n1,0,test_return_mean,0.5\n1,10,test_return_mean,0.75\n")
    (run.checkpoints / "000000000004").mkdir(parents=True)
    shutil.move(run.path, kit.path("run"))
    write_checkpoint(kit.path("run") / "checkpoints" / "000000000004", b"")
    key = jax.random.PRNGKey(0)
    shapes = jax.eval_shape(lambda: Prior(9, 4, key=key))
    prior = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    save_prior(kit.path("prior"), prior, PriorCard("foraging", "4x4-2p-1f", False, 9, 4, 100))
    kit.path("plan").write_text(write_yaml(PLAN))
    return kit


def write_checkpoint(folder: Path, state: bytes) -> None:
    """A checkpoint with any bytes for its state and with checksums that are right."""
    (folder / "state.safetensors").write_bytes(state)
    write_json(folder / "host.json", {})
    files = {name: checksum(folder / name) for name in ("state.safetensors", "host.json")}
    write_json(folder / "checkpoint.json", {"format": 1, "files": files})


# ------------------------------------------------------------------------------------------------ what is changed

Change = Callable[[Path, Kit], None]
"""Changes a copy of an honest folder or file."""


def settings(**changes: Any) -> dict[str, Change]:
    """The same configuration keys in an agent's card, a run's configuration, a pool's index and a plan."""
    game = {key: changes[key] for key in ("env", "env_args") if key in changes}

    def in_agent(path: Path, kit: Kit) -> None:
        edit_card(path, lambda card: card["config"].update(filled(changes, kit)))

    def in_run(path: Path, kit: Kit) -> None:
        values = yaml.safe_load((path / "config.yaml").read_text()) | filled(changes, kit)
        (path / "config.yaml").write_text(yaml.safe_dump(values))
        for agent in path.glob("agents/*/*"):
            edit_card(agent, lambda card: card["config"].update(filled(changes, kit)))

    def in_pool(path: Path, kit: Kit) -> None:
        edit_json(path / "pool.json", lambda index: index.update(filled(game, kit)))
        edit_card(path / "members" / MEMBER, lambda card: card["config"].update(filled(changes, kit)))
        seal_member(path, MEMBER)

    def in_plan(path: Path, kit: Kit) -> None:
        plan = yaml.safe_load(path.read_text())
        own = filled(changes, kit)
        if game:
            plan["game"] = {"env_config": own.pop("env", "foraging"), "env_args": own.pop("env_args", {})}
        plan["train"].update(own)
        path.write_text(yaml.safe_dump(plan))

    found: dict[str, Change] = {"agent": in_agent, "run": in_run, "plan": in_plan}
    return {**found, "pool": in_pool} if game else found


def without(kind: str, changes: dict[str, Change]) -> dict[str, Change]:
    """Changes without those of a kind of folder in which nobody reads them."""
    return {other: change for other, change in changes.items() if other != kind}


def filled(values: Any, kit: Kit) -> Any:
    """Values with the paths of this kit in them."""
    return json.loads(json.dumps(values).replace("CANARY", str(kit.canary)).replace("VICTIM", str(kit.victim)))


def weights(write: Callable[[Path], object], *, sealed: bool = True) -> dict[str, Change]:
    """Other weights in an agent, in a member of a pool, in a prior and in a run; `sealed`: with the right checksums."""

    def in_agent(path: Path, kit: Kit) -> None:
        write(path / WEIGHTS)
        if sealed:
            seal(path)

    def in_member(path: Path, kit: Kit) -> None:
        write(path / "members" / MEMBER / WEIGHTS)
        if sealed:
            seal_member(path, MEMBER)

    def in_prior(path: Path, kit: Kit) -> None:
        write(path / WEIGHTS)
        if sealed:
            seal(path, "prior.json")

    def in_run(path: Path, kit: Kit) -> None:
        for agent in path.glob("agents/*/*"):
            in_agent(agent, kit)
        state = path / "checkpoints" / "000000000004" / "state.safetensors"
        save_file({"weight": np.ones((2, 2), np.float32)}, state)
        write(state)
        if not sealed:
            return
        files = {name: checksum(state.parent / name) for name in ("state.safetensors", "host.json")}
        write_json(state.parent / "checkpoint.json", {"format": 1, "files": files})

    return {"agent": in_agent, "pool": in_member, "prior": in_prior, "run": in_run}


def header(change: Callable[[dict[str, Any]], Any], length: int | None = None) -> Callable[[Path], None]:
    """Changes the header of a safetensors file; `length`: what it claims to be long."""

    def write(path: Path) -> None:
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        value = json.loads(data[8 : 8 + size])
        change(value)
        text = json.dumps(value).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data[8 + size :])

    return write


def first_entry(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Changes the first array of a header."""

    def change(value: dict[str, Any]) -> None:
        name = next(name for name in value if name != "__metadata__")
        value[name].update(changes)

    return change


def overlap(value: dict[str, Any]) -> None:
    """Lets all arrays of one size begin where the first of them does."""
    places: dict[int, list[int]] = {}
    for name, entry in value.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            entry["data_offsets"] = places.setdefault(end - begin, [begin, end])


def fill_with(number: float) -> Callable[[Path], None]:
    """All weights become one number."""

    def write(path: Path) -> None:
        arrays = {name: np.full_like(value, number) for name, value in load_file(path).items()}
        path.unlink()
        save_file(arrays, path)

    return write


def sparse(path: Path) -> None:
    """A file of more than a gigabyte that occupies none, with a header that describes it truly."""
    size = 1_200_000_000
    text = json.dumps({"weight": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + size)


def pipe(path: Path) -> None:
    """A named pipe, which nobody ever writes to."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def cards(change: Callable[[dict[str, Any]], Any]) -> dict[str, Change]:
    """Another card in an agent and in a member of a pool."""

    def in_agent(path: Path, kit: Kit) -> None:
        edit_card(path, change)

    def in_member(path: Path, kit: Kit) -> None:
        edit_card(path / "members" / MEMBER, change)
        seal_member(path, MEMBER)

    return {"agent": in_agent, "pool": in_member}


def in_prior_card(**changes: Any) -> dict[str, Change]:
    """Another card of a prior."""
    return {"prior": lambda path, kit: edit_card(path, lambda card: card.update(changes), "prior.json")}


def card_text(text: str) -> dict[str, Change]:
    """Any text for a card, and for the index of a pool."""

    def in_agent(path: Path, kit: Kit) -> None:
        (path / "agent.json").write_text(text)

    def in_prior(path: Path, kit: Kit) -> None:
        (path / "prior.json").write_text(text)

    def in_pool(path: Path, kit: Kit) -> None:
        (path / "pool.json").write_text(text)

    return {"agent": in_agent, "prior": in_prior, "pool": in_pool}


def linked(file: str) -> Change:
    """A file or folder becomes a link to the victim's."""

    def change(path: Path, kit: Kit) -> None:
        target = path / file
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        target.symlink_to(kit.victim if "." not in target.name else kit.victim / "precious")

    return change


def in_index(change: Callable[[dict[str, Any]], Any]) -> dict[str, Change]:
    """Another index of a pool."""
    return {"pool": lambda path, kit: edit_json(path / "pool.json", change)}


def in_plan(change: Callable[[dict[str, Any], Kit], Any]) -> dict[str, Change]:
    """Another plan."""

    def write(path: Path, kit: Kit) -> None:
        plan = yaml.safe_load(path.read_text())
        change(plan, kit)
        path.write_text(yaml.safe_dump(plan))

    return {"plan": write}


def text_of(kind: str, file: str, text: str) -> dict[str, Change]:
    """Any text for a file."""

    def write(path: Path, kit: Kit) -> None:
        (path / file if file else path).write_text(text)

    return {kind: write}


def evil_module(path: Path, kit: Kit) -> None:
    """Beside an agent a module that does harm when imported, and a card that names it."""
    (path / "evil.py").write_text(f"open({str(kit.canary)!r}, 'w')\n\n\nclass Game: ...\n")
    game = {"env": "gymma", "env_args": {"key": "evil:Game"}}
    edit_card(path, lambda card: card["config"].update(game))


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n" for old, new in pairwise("abcdefghijkl")
)
SHELL = {"args": "touch CANARY", "shell": True}
_RUN = {"key": "subprocess:run", "kwargs": SHELL}
VARIANT = {"config": "d3qn"}

HOSTILE: dict[str, dict[str, Change]] = {
    # What the data names is not run.
    "subprocess": settings(env="gymma", env_args=_RUN),
    "subprocess as pettingzoo": settings(env="pettingzoo", env_args=_RUN),
    "os.system": settings(env="gymma", env_args={"key": "os:system", "kwargs": {"command": "touch CANARY"}}),
    "rmtree": settings(env="gymma", env_args={"key": "shutil:rmtree", "kwargs": {"path": "VICTIM"}}),
    "open": settings(env="gymma", env_args={"key": "io:open", "kwargs": {"file": "CANARY", "mode": "w"}}),
    "a module of its own": {"agent": evil_module},
    "another game of Gymnasium's": settings(env="gymma", env_args={"key": "lbforaging:CartPole-v1"}),
    "a path for a known game": settings(env="gymma", env_args={"kwargs": {"render_mode": "VICTIM"}}),
    "a size for a known game": settings(env="gymma", env_args={"kwargs": {"players": 1_000_000}}),
    "a folder for replays": settings(env="sc2", env_args={"map_name": "3m", "replay_dir": "VICTIM"}),
    "a database": without(
        "agent",
        settings(tracker=["sacred"], sacred_observers=["mongo"], sacred_mongo_url="mongodb://127.0.0.1:1/$HOME"),
    ),
    # Sizes are bounded before memory is taken.
    "rows": settings(env="foraging", env_args={"rows": 100_000, "cols": 100_000}),
    "predators": settings(env="predator_prey", env_args={"predators": 10**9}),
    "episode_limit": settings(env="toy_grid", env_args={"episode_limit": 2**60}),
    "hidden": settings(rnn_hidden_dim=10**9),
    "header of 2^60 bytes": weights(header(lambda value: None, length=2**60)),
    "shape [2^31, 2^31]": weights(header(first_entry(shape=[2**31, 2**31]))),
    "shape [0, 2^62]": weights(header(first_entry(shape=[0, 2**62], data_offsets=[0, 0]))),
    "negative shape": weights(header(first_entry(shape=[-4, -4]))),
    "overlapping arrays": weights(header(overlap)),
    "arrays behind the end": weights(header(first_entry(data_offsets=[2**40, 2**40 + 64]))),
    "unknown type": weights(header(first_entry(dtype="PICKLE"))),
    "sparse file": without("pool", weights(sparse, sealed=False)),
    "not finite": weights(fill_with(np.nan)),
    "a pipe": weights(pipe, sealed=False),
    "seats of a card": cards(lambda card: card["spec"].update(n_agents=2**40)),
    "seats of an index": in_index(lambda index: index["spec"].update(n_agents=2**40)),
    "features of a prior": {
        "prior": lambda path, kit: edit_card(path, lambda card: card.update(features=2**60), "prior.json")
    },
    "map of a prior": {
        "prior": lambda path, kit: edit_card(path, lambda card: card.update(map_shape=[9, 9, 9]), "prior.json")
    },
    "aliases of aliases in a plan": text_of("plan", "", BOMB),
    "aliases of aliases in a run": text_of("run", "config.yaml", BOMB),
    # Cards are what they should be.
    "config: true": cards(lambda card: card.update(config=True)),
    "results of text": cards(lambda card: card.update(results={"x": "y"})),
    "another key": cards(lambda card: card.update(__class__="os.system")),
    "a list": card_text("[]"),
    "deep": card_text('{"a": ' + "[" * 100_000),
    "not a number": card_text("NaN"),
    "a tag in a plan": text_of("plan", "", "name: !!python/object/apply:os.system ['touch CANARY']\n"),
    "a tag in a run": text_of("run", "config.yaml", "name: !!python/object/apply:os.system ['touch CANARY']\n"),
    # Nothing outside its folder.
    "a member elsewhere": in_index(lambda index: index["members"][0].update(name="../../victim")),
    "a variant elsewhere": in_plan(
        lambda plan, kit: plan.update(adaptation={"variants": {f"{kit.victim}/x": VARIANT, "../../x": VARIANT}})
    ),
    "an agent elsewhere": in_plan(lambda plan, kit: plan["agents"].update({"../../x": None})),
    "a plan's name elsewhere": in_plan(lambda plan, kit: plan.update(name=f"../../{kit.victim.name}")),
    "linked weights": {"agent": linked(WEIGHTS), "prior": linked(WEIGHTS)},
    "a linked card": {"agent": linked("agent.json"), "pool": linked("pool.json")},
    "linked members": {"pool": linked("members")},
    "linked checkpoints": {"run": linked("checkpoints")},
    # What is only looked at.
    "a deep status": text_of("run", "status.json", '{"status": ' + "[" * 100_000),
    "a status that steers": text_of("run", "status.json", '{"status": "failed", "reason": "\\u001b[2J\\u202e"}'),
    "a linked log": {"run": linked("console.log")},
    "pipes": {"run": lambda path, kit: [pipe(path / name) for name in ("status.json", "metrics.csv", "console.log")]},
    "endless settings": text_of("run", "config.yaml", "name: x\n" * 1_000_000),
}
"""What a stranger sends -> the kinds of folders it is sent in."""
LOOKING = ("runs", "tail")
READ_BY: dict[tuple[str, str], tuple[str, ...]] = {
    ("a database", "run"): ("resume", "plot"),
    ("aliases of aliases in a run", "run"): ("resume", "plot", "adapt"),
    ("a tag in a run", "run"): ("resume", "plot", "adapt"),
    ("linked checkpoints", "run"): ("resume", "adapt"),
    ("a deep status", "run"): LOOKING,
    ("a status that steers", "run"): LOOKING,
    ("a linked log", "run"): LOOKING,
    ("pipes", "run"): LOOKING,
    ("endless settings", "run"): LOOKING,
}
"""The only commands to which a change means anything; for all others the folder is an honest one."""
