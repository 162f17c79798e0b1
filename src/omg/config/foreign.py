"""Keys of parts that do not come with omg: they belong to a configuration that chooses such a part, and to no other.

So a run that has nothing to do with an installed package stores nothing of it, and one that has remembers which package
it needs (`parts_from`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from omg.errors import UserError, abridged
from omg.registry import REGISTRIES, registries, registry
from omg.registry.keys import Keys
from omg.registry.plugins import REGISTERED, offers

PARTS_FROM = "parts_from"


class ForeignKeys(Keys):
    """What a configuration has whose parts do not all come with omg."""

    parts_from: list[str] = Field(
        [], description="The chosen parts that do not come with omg, and their packages; follows from the parts"
    )


class ForeignKey(NamedTuple):
    """A key of a part that does not come with omg."""

    field: FieldInfo
    reader: str
    """The part and its package, in words."""


def composed(base: type[Keys], values: Mapping[str, object]) -> type[Keys]:
    """The class of a configuration.

    Args:
        base: with all sections of ours.
        values: of the configuration, as given.

    Returns:
        `base`, or where `values` choose parts that do not come with omg, `base` with their sections.
    """
    found = _foreign_parts(base, values)
    sections = [section for part in found.values() for section in part if not issubclass(base, section)]
    return _composed(base, (ForeignKeys, *dict.fromkeys(sections))) if found else base


def origins(base: type[Keys], values: Mapping[str, object]) -> list[str]:
    """`key=name: package` of the chosen parts that do not come with omg."""
    words = (word.partition("=") for word in _foreign_parts(base, values))
    return [f"{key}={name}: {registry(key).package(name)}" for key, _, name in words]


def check_origins(values: Mapping[str, object]) -> None:
    """Refuses a stored configuration whose parts are not here, and says where they came from."""
    stored = values.get(PARTS_FROM)
    for line in stored if isinstance(stored, list) else ():
        word, _, package = str(line).partition(": ")
        key, _, name = word.partition("=")
        if key not in REGISTRIES or name in registry(key) or name in offers(key):
            continue
        shown = abridged(name)[1:-1]
        if package == REGISTERED:
            raise UserError(
                f"{key}: '{shown}' was added by {REGISTERED} in the program that stored this, and was not in this one. "
                f"Do the same here, or make a package of it."
            )
        raise UserError(
            f"{key}: '{shown}' is a part of the package {abridged(package)[1:-1]}, which is not installed here."
        )


def foreign_keys(base: type[Keys]) -> dict[str, ForeignKey]:
    """All keys of parts that do not come with omg; looks at what is installed."""
    found: dict[str, ForeignKey] = {}
    for kind, parts in registries().items():
        for name, package in parts.packages().items():
            for section in parts[name].traits.sections:
                for key, field in section.model_fields.items() if not issubclass(base, section) else ():
                    found.setdefault(key, ForeignKey(field, f"{kind}={name} ({package})"))
    return found


def _foreign_parts(base: type[Keys], values: Mapping[str, object]) -> dict[str, tuple[type[Keys], ...]]:
    """`key=name` -> the sections of the chosen parts that do not come with omg."""
    found: dict[str, tuple[type[Keys], ...]] = {}
    for key in REGISTRIES:
        given = values.get(key) if key in base.model_fields else None
        names = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
        for name in (one.strip() for one in names if isinstance(one, str)):
            parts = registry(key)
            if not parts.is_ours(name) and name in parts:
                found[f"{key}={name}"] = parts[name].traits.sections
    return found


@lru_cache(maxsize=64)
def _composed(base: type[Keys], added: tuple[type[Keys], ...]) -> type[Keys]:
    known: dict[str, type[Keys]] = dict.fromkeys(base.model_fields, base)
    for section in added:
        for key in section.model_fields:
            if known.setdefault(key, section) is not section:
                raise UserError(f"{key}: the section {section.__name__} has a key that {known[key].__name__} has, too.")
    # Fields are collected from the last base to the first: ours come first.
    bases: tuple[type[Keys], ...] = (*reversed(added), base)
    return create_model(base.__name__, __base__=bases)
