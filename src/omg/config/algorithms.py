"""Algorithms by name: the files of `config/algs`, those of installed packages, and files that a user names by path.

All are layers of a configuration: a YAML file that sets keys, whose first comment line is its description. A file that
is named by path (`--config=path/my.yaml`) is called by its stem, `my`, as long as the process lasts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import yaml

from omg.config.teams import POOL
from omg.config.values import read_yaml
from omg.errors import UserError, unknown_name
from omg.registry.plugins import ALGORITHM, REGISTERED, UnusablePartError, check_name, offers
from omg.types import Json

_ENDINGS = (".yaml", ".yml")
_MOST_BYTES = 4_000_000


class AlgorithmFile(NamedTuple):
    """The file of an algorithm."""

    source: str
    """Where it is, for tables and messages: `algs/qmix.yaml`, a path."""
    package: str
    """The package that it comes from; empty for ours, `omg.register` for those of this program."""
    values: Mapping[str, Json]
    """The keys that it sets."""
    summary: str
    """Its first comment line."""


_ADDED: dict[str, AlgorithmFile] = {}
"""What this process was given by path."""


def algorithm_names() -> list[str]:
    """The names `--config` accepts, those of installed packages and of this process among them."""
    usable = [name for name in offers(ALGORITHM) if not is_ours(name) and _is_usable(name)]
    return sorted({*own_algorithms(), *_ADDED, *usable})


@cache
def own_algorithms() -> list[str]:
    """The algorithms that come with omg; looks at nothing that is installed."""
    entries = files("omg.config").joinpath("algs").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def is_ours(name: str) -> bool:
    """Whether an algorithm comes with omg."""
    return name in own_algorithms()


def is_algorithm(name: str) -> bool:
    """Whether there is an algorithm of that name."""
    return is_ours(name) or name in _ADDED or (name in offers(ALGORITHM) and _is_usable(name))


def algorithm_packages() -> dict[str, str]:
    """Name -> package, of all algorithms that are not ours."""
    return {name: algorithm_file(name).package for name in algorithm_names() if not is_ours(name)}


def algorithm_file(name: str, kind: str = "algorithm (--config)") -> AlgorithmFile:
    """The file of an algorithm.

    Args:
        name: of the algorithm.
        kind: what a message calls it.

    Raises:
        UserError: there is no such algorithm, or its file cannot be used.
    """
    if is_ours(name):
        return _own_file(name)
    if name in _ADDED:
        return _ADDED[name]
    if name in offers(ALGORITHM):
        return _offered_file(name)
    raise unknown_name(kind, name, algorithm_names(), algorithm_packages())


def known_algorithm(word: str, kind: str = "algorithm (--config)") -> str:
    """The name of an algorithm that is named so or by the path of its file.

    Raises:
        UserError: there is none, or its file cannot be used. `kind` is what the message calls it.
    """
    name = algorithm_at(word) if is_path(word) else word
    algorithm_file(name, kind)
    return name


def add_algorithm(name: str, path: object) -> None:
    """Makes the file at `path` the algorithm `name`, in this process.

    Raises:
        UserError: there is an algorithm of that name, or the file cannot be used.
    """
    check_name(ALGORITHM, name)
    if not isinstance(path, str | Path):
        raise UserError(f"{ALGORITHM}: '{name}' is a {type(path).__name__}, expected the path of a YAML file.")
    if name == POOL or is_ours(name) or name in _ADDED or name in offers(ALGORITHM):
        raise UserError(f"{ALGORITHM}: there is an algorithm '{name}' already.")
    _ADDED[name] = _file_at(Path(path), str(path))


def remove_algorithm(name: str) -> None:
    """Takes an algorithm that was added out again."""
    if _ADDED.pop(name, None) is None:
        raise UserError(f"{ALGORITHM}: '{name}' was not added and stays.")


def forget_offered() -> None:
    """Drops the files of installed packages; they are read anew when they are asked for."""
    _offered_file.cache_clear()


def is_path(name: str) -> bool:
    """Whether a word is the path of an algorithm file rather than a name: it has a separator, or such a file is there.

    `qmix.yaml` is still the algorithm `qmix`, whatever lies in the folder one is in.
    """
    if "/" in name or os.sep in name:
        return True
    stem = Path(name).stem
    return name.endswith(_ENDINGS) and not is_ours(stem) and Path(name).is_file()


def algorithm_at(path: str) -> str:
    """Takes an algorithm in from its file and returns its name, the stem of the path.

    Raises:
        UserError: there is no such file, it is no layer of a configuration, or another algorithm has its name.
    """
    file = Path(path)
    if not path.endswith(_ENDINGS):
        raise UserError(f"--config: got {path}, a path. An algorithm's file ends in .yaml.")
    name = file.stem
    check_name(f"--config={path}", name)
    known = _ADDED.get(name)
    if known is not None and Path(known.source).resolve() == file.resolve():
        del _ADDED[name]  # It may have changed.
    elif name == POOL or is_ours(name) or known is not None or name in offers(ALGORITHM):
        raise UserError(
            f"--config: got {path}, but there is an algorithm '{name}' already, and runs are named after the file. "
            f"Give the file another name."
        )
    add_algorithm(name, path)
    return name


def _file_at(path: Path, source: str, package: str = REGISTERED) -> AlgorithmFile:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{source}: the file has more than {_MOST_BYTES:,} bytes; no configuration has.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{source}: {error.strerror or type(error).__name__}.") from None
    except (UnicodeDecodeError, ValueError):
        raise UserError(f"{source}: the file is no text in UTF-8.") from None
    return _file_of(text, source, package)


def _file_of(text: str, source: str, package: str) -> AlgorithmFile:
    try:
        values = read_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(f"{source}: cannot be read as YAML: {' '.join(str(error).split())[:300]}.") from None
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise UserError(f"{source}: got a {type(values).__name__}, expected lines of `key: value`.")
    if "name" in values:
        raise UserError(f"{source}: name: an algorithm is called by its file. Leave it out.")
    first = next(iter(text.splitlines()), "")
    return AlgorithmFile(source, package, values, first.removeprefix("#").strip() if first.startswith("#") else "")


@cache
def _own_file(name: str) -> AlgorithmFile:
    source = f"algs/{name}.yaml"
    return _file_of(files("omg.config").joinpath(source).read_text(encoding="utf-8"), source, "")


@cache
def _offered_file(name: str) -> AlgorithmFile:
    offer = offers(ALGORITHM)[name]
    module = offer.load()
    where = getattr(module, "__name__", "")
    source = f"{where}: {name}.yaml"
    try:
        text = files(where).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        return _file_of(text, source, offer.package)
    except (OSError, UnicodeDecodeError, UserError) as error:
        reason = str(error) if isinstance(error, UserError) else f"there is no file {name}.yaml in {where}."
        raise UnusablePartError(f"{ALGORITHM}: '{name}' of the package {offer.package}: {reason}") from None


def _is_usable(name: str) -> bool:
    try:
        _offered_file(name)
    except UnusablePartError:
        return False
    return True
