"""The door: parts that other packages bring, found by their entry points, and `register`, for those of a program.

A package says in its `pyproject.toml` which parts it has, one group of entry points for each kind:

    [project.entry-points."omg.mixer"]
    weighted_sum = "my_package.parts:WEIGHTED_SUM"

The object on the right is an `Entry`. Of an algorithm (kind `alg`) it is the package in which its YAML file lies. What
is installed is looked up when a word is not one of ours, or when somebody wants a list; a package is imported when a
word of its is used. So nobody pays for the door who does not go through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omg.errors import UserError, abridged, unknown_name
from omg.registry.table import REGISTRIES, load, registries, registry

if TYPE_CHECKING:
    from omg.registry.entries import Entry
    from omg.registry.traits import Traits

ALGORITHM = "alg"
"""The kind of part that is a YAML file."""
REGISTERED = "omg.register"
"""Stands for the package of what a program has registered itself."""
_GROUP = "omg."
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


class UnusablePartError(UserError):
    """A package has a part of that name, and it cannot be used."""


class Offer(NamedTuple):
    """A part that an installed package says it has."""

    kind: str
    name: str
    points: tuple[metadata.EntryPoint, ...]
    """Where it is; several, if several packages have a part of that name, which then nobody can use."""

    @property
    def package(self) -> str:
        """The package, or all of them."""
        names = sorted({"unknown" if point.dist is None else point.dist.name for point in self.points})
        return " and ".join(names)

    def load(self) -> object:
        """What the entry point names; of an algorithm, the package of its file.

        Raises:
            UnusablePartError: it cannot be imported, or is not the only one.
        """
        if len(self.points) > 1:
            raise UnusablePartError(
                f"{self.kind}: '{self.name}' is a part of {self.package}, so nobody knows which is meant. Keep one of "
                f"the packages."
            )
        if not _NAME.fullmatch(self.name):
            raise UnusablePartError(f"{self.kind}: {self.package} has a part named {abridged(self.name)}. {_RULE}")
        point = self.points[0]
        try:
            return import_module(point.module) if self.kind == ALGORITHM else point.load()
        except (Exception, SystemExit) as error:
            raise not_loaded(self.kind, self.name, self.package, error) from error


_RULE = "Allowed: a letter, then letters, digits and underscores, at most 100."


def not_loaded(kind: str, name: str, package: str, error: BaseException) -> UnusablePartError:
    """The error for a part whose code cannot be imported."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return UnusablePartError(
        f"{kind}: '{name}' of the package {package} could not be loaded ({reason[:300]}). Everything else works."
    )


def kinds() -> tuple[str, ...]:
    """The kinds of parts that other packages can bring."""
    return (*REGISTRIES, ALGORITHM)


def offers(kind: str) -> Mapping[str, Offer]:
    """The parts of a kind that installed packages say they have, by name; imports none of them."""
    return _installed().get(kind, {})


@cache
def _installed() -> dict[str, dict[str, Offer]]:
    """All groups that are ours by name, also of kinds that there are not."""
    packages: dict[str, metadata.Distribution] = {}
    for package in metadata.distributions():
        packages.setdefault(str(package.name), package)  # The first on the path is the one that is imported.
    ours = [point for package in packages.values() for point in package.entry_points if point.group.startswith(_GROUP)]
    found: dict[str, dict[str, Offer]] = {}
    for point in sorted(ours, key=lambda point: (point.group, point.name)):
        kind = point.group.removeprefix(_GROUP)
        names = found.setdefault(kind, {})
        others = names[point.name].points if point.name in names else ()
        names[point.name] = Offer(kind, point.name, (*others, point))
    return found


def look_again() -> None:
    """Forgets what is installed; for programs that install packages, or take them away, while they run."""
    _installed.cache_clear()
    _algorithms("forget_offered")
    for parts in registries().values():
        parts.forget_offered()


def complaints() -> list[str]:
    """What is wrong with the parts of installed packages, a line for each; imports all of them."""
    lines: list[str] = []
    for kind, names in _installed().items():
        if kind not in kinds():
            packages = " and ".join(sorted({offer.package for offer in names.values()}))
            lines.append(f"{packages}: {unknown_name('kind of part', kind, kinds())}")
            continue
        for name, offer in names.items():
            if is_ours(kind, name):
                lines.append(f"{offer.package}: {kind} '{name}' is left out, as omg has a {kind} of that name.")
                continue
            try:
                _use(kind, name)
            except UnusablePartError as error:
                lines.append(str(error))
    return lines


def is_ours(kind: str, name: str) -> bool:
    """Whether a part comes with omg; looks at nothing that is installed."""
    return bool(_algorithms("is_ours", name)) if kind == ALGORITHM else registry(kind).is_ours(name)


def _use(kind: str, name: str) -> object:
    return _algorithms("algorithm_file", name) if kind == ALGORITHM else registry(kind)[name]


def _algorithms(function: str, *arguments: object) -> object:
    """Algorithms are files, and their room is above this one."""
    found = load(f"omg.config.algorithms:{function}")
    assert callable(found)
    result: object = found(*arguments)
    return result


def register(kind: str, name: str, part: Entry[object, Traits] | str | Path) -> None:
    """Adds a part to this process, as an installed package does by its entry points.

    Args:
        kind: `am_model`, `mixer`, `env`, `script`, `tracker`, `measure`, `agent`, `learner`, `alg` and so on.
        name: the word that chooses it.
        part: an `omg.registry.Entry`; of an algorithm (`alg`) the path of its YAML file.

    Raises:
        UserError: there is no such kind, there is such a part already, or the part is none.
    """
    if kind not in kinds():
        raise unknown_name("kind of part", str(kind), kinds())
    check_name(kind, name)
    if kind == ALGORITHM:
        _algorithms("add_algorithm", name, part)
    else:
        registry(kind).add(name, checked(kind, name, part))


def check_name(kind: str, name: object) -> None:
    """Raises `UserError` unless a part may be called so."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"{kind}: got the name {abridged(name)}. {_RULE}")


_TRAITS = {
    "env": "omg.envs.base:EnvTraits",
    "runner": "omg.registry.traits:RunnerTraits",
    "mac": "omg.registry.traits:ControllerTraits",
    "action_selector": "omg.registry.traits:SelectorTraits",
    "agent": "omg.registry.traits:AgentTraits",
    "am_model": "omg.registry.traits:ModelTraits",
    "learner": "omg.registry.traits:LearnerTraits",
    "mixer": "omg.registry.traits:MixerTraits",
    "tracker": "omg.registry.traits:TrackerTraits",
    "script": "omg.registry.traits:ScriptTraits",
}
"""Kind -> the class of its parts' traits, where that is not `Traits` itself."""


def checked(kind: str, name: str, part: object) -> Entry[object, Traits]:
    """`part`, if it is an entry for a registry of this kind.

    Raises:
        UserError: it is something else.
    """
    from omg.registry.entries import Entry

    wanted = load(_TRAITS.get(kind, "omg.registry.traits:Traits"))
    assert isinstance(wanted, type)
    if not isinstance(part, Entry):
        raise UserError(
            f"{kind}: '{name}' is a {type(part).__name__}, expected an omg.registry.Entry(implementation, "
            f"{wanted.__name__}(...), summary)."
        )
    if not isinstance(part.traits, wanted):
        raise UserError(f"{kind}: '{name}' has {type(part.traits).__name__}, expected {wanted.__name__}.")
    return part
