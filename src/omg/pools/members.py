"""The index of a pool: who its members are, and the rules that every index keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from omg.components.files import given_path, read_json, write_json
from omg.components.headers import DamagedFileError
from omg.config.foreign import PARTS_FROM, check_origins
from omg.envs import EnvSpec
from omg.errors import UserError, unknown_name
from omg.names import file_name, inside
from omg.registry import registry
from omg.types import Tree

INDEX = "pool.json"
_FORMAT = 1

SetName = Literal["training", "validation", "heldout"]
SETS: tuple[SetName, ...] = get_args(SetName)
_SIZES = ("n_agents", "n_actions", "obs_dim", "state_dim")


@dataclass(frozen=True)
class Standing:
    """How good a player is in all seats of its game, in episodes that no training has seen."""

    metric: str
    """The game's success metric."""
    value: float
    """Mean over the episodes."""
    low: float
    """Lower end of the mean's 95 % interval."""
    high: float
    episodes: int


@dataclass(frozen=True)
class Member:
    """One line of the index."""

    name: str
    kind: Literal["learned", "scripted"]
    algorithm: str
    """Of a scripted member: the name of its script."""
    seed: int | None
    """None for scripted members."""
    set: SetName
    env: str
    scenario: str
    obs_is_state: bool | None
    """None for scripted members, which fit both."""
    steps: int
    """Environment steps it was trained for."""
    measured: Standing | None
    sha256: str | None
    """Of its weights; None for scripted members."""
    card_sha256: str | None = None
    """Of its card's file; None for scripted members, and where it was added before cards were counted."""


@dataclass(frozen=True)
class PoolIndex:
    """What is in pool.json besides the format number."""

    env: str
    env_args: Tree
    spec: EnvSpec
    members: tuple[Member, ...]


_ADAPTER = TypeAdapter(PoolIndex)


def known_set(name: str) -> SetName:
    """`name` if it is a set; raises `UserError` otherwise."""
    for known in SETS:
        if name == known:
            return known
    raise unknown_name("set", name, SETS)


def read_index(path: Path) -> PoolIndex:
    """Reads and checks the index of the pool `path`.

    Raises:
        UserError: there is none, or it is damaged or breaks a rule.
    """
    given_path(path)
    file = inside(path, path / INDEX)
    if not file.is_file():
        reason = f"it has no {INDEX}" if path.is_dir() else "there is no such folder"
        raise UserError(f"{path} is not a pool: {reason}. `omg pool train` makes one.")
    try:
        stored = read_json(file)
        version = stored.pop("format")
    except DamagedFileError as error:
        raise UserError(f"{file} is damaged: {error}.") from None
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is damaged: {type(error).__name__}: {error}.") from None
    if version != _FORMAT:
        raise UserError(f"{file} has format {version!r}; this version of omg reads format {_FORMAT}.")
    check_origins(stored)
    stored.pop(PARTS_FROM, None)
    try:
        index = _ADAPTER.validate_python(stored)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{file} is damaged: {where}: got {first['input']!r}. {first['msg']}.") from None
    check_rules(path, index)
    return index


def write_index(path: Path, index: PoolIndex) -> None:
    """Replaces the index of the pool `path` atomically."""
    parts = [("env", index.env), *(("script", one.algorithm) for one in index.members if one.kind == "scripted")]
    known = [(key, name) for key, name in dict.fromkeys(parts) if name in registry(key)]
    foreign = [f"{key}={name}: {package}" for key, name in known if (package := registry(key).package(name))]
    write_json(path / INDEX, {"format": _FORMAT, **asdict(index), **({PARTS_FROM: foreign} if foreign else {})})


def check_rules(path: Path, index: PoolIndex) -> None:
    """One game, one `obs_is_state`, and nobody in two sets: neither by name, nor by origin, nor by weights."""
    by_name: dict[str, Member] = {}
    by_origin: dict[tuple[str, int | None], Member] = {}
    by_weights: dict[str, Member] = {}
    first: Member | None = None
    file_name(f"{path}: scenario", index.spec.scenario)
    for member in index.members:
        file_name(f"{path}: member name", member.name)
        if (member.env, member.scenario) != (index.env, index.spec.scenario):
            raise UserError(
                f"{path}: the member '{member.name}' plays {member.env} {member.scenario}, but the pool is for "
                f"{index.env} {index.spec.scenario}."
            )
        twin = by_name.setdefault(member.name, member)
        if twin is not member:
            sets = f"is in the sets {twin.set} and {member.set}" if twin.set != member.set else "is there twice"
            raise UserError(f"{path}: the member '{member.name}' {sets}; it may be in one set, once.")
        if member.kind == "scripted":
            continue
        if None in (member.seed, member.sha256, member.obs_is_state):
            raise UserError(
                f"{path}: the member '{member.name}' is learned, so its entry needs seed, sha256 and obs_is_state."
            )
        first = first or member
        if member.obs_is_state != first.obs_is_state:
            raise UserError(
                f"{path}: the member '{member.name}' has obs_is_state={member.obs_is_state}, but '{first.name}' has "
                f"obs_is_state={first.obs_is_state}; a pool has one of the two."
            )
        _refuse_shared(path, by_origin.setdefault((member.algorithm, member.seed), member), member, "origin")
        _refuse_shared(path, by_weights.setdefault(str(member.sha256), member), member, "weights")


def _refuse_shared(path: Path, twin: Member, member: Member, what: str) -> None:
    if twin.set != member.set:
        shared = f"come from {member.algorithm} seed {member.seed}" if what == "origin" else "have the same weights"
        raise UserError(
            f"{path}: '{twin.name}' in the set {twin.set} and '{member.name}' in the set {member.set} both {shared}; "
            f"sets must not share anybody."
        )


def check_game(what: str, given: Mapping[str, object], expected: EnvSpec, expectation: str) -> None:
    """Refuses another game or other sizes, naming both."""
    for key in ("name", "scenario", *_SIZES):
        if given[key] != getattr(expected, key):
            game = f"{given['name']} {given['scenario']}"
            raise UserError(
                f"{what} {game} with {key}={given[key]}, but {expectation} {expected.name} {expected.scenario} with "
                f"{key}={getattr(expected, key)}."
            )
