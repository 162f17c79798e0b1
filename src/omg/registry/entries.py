"""`Registry`: the parts of one kind by name, and `Entry`, one line of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from omg.errors import UserError, unknown_name
from omg.registry.table import load
from omg.registry.traits import Traits

if TYPE_CHECKING:
    from omg.registry.keys import Keys

BuildT = TypeVar("BuildT")
"""What builds a part: a class or a function."""
TraitsT = TypeVar("TraitsT", bound=Traits)


@dataclass(frozen=True)
class Entry(Generic[BuildT, TraitsT]):
    """One line of a registry. What is named as `module:name` is imported when it is asked for."""

    implementation: str | BuildT
    """Builds the part; how it is called stands in the docstring of its registry."""
    about: str | TraitsT
    """What the part says about itself, and which keys it reads."""
    summary: str
    """One line for lists."""

    @property
    def build(self) -> BuildT:
        """Builds the part."""
        if isinstance(self.implementation, str):
            return cast(BuildT, load(self.implementation))
        return self.implementation

    @property
    def traits(self) -> TraitsT:
        """What the part says about itself."""
        if isinstance(self.about, str):
            return cast(TraitsT, load(self.about))
        return self.about


class UnknownPartError(UserError, KeyError):
    """There is no part of that name. Also a `KeyError`, as of every mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


_ADDED: dict[tuple[str, str], Entry[object, Traits]] = {}
"""(key, name) -> what was added to the registries that come with the package."""


def added_sections() -> tuple[type[Keys], ...]:
    """The sections of all parts that were added."""
    sections = (section for entry in _ADDED.values() for section in entry.traits.sections)
    return tuple(dict.fromkeys(sections))


class Registry(Mapping[str, Entry[BuildT, TraitsT]]):
    """The parts of one kind: name -> entry, in the order of their lists. Unknown names are refused with the nearest.

    Args:
        key: the key of the configuration whose words the names are.
        entries: the parts that come with the package.
    """

    def __init__(self, key: str, entries: Mapping[str, Entry[BuildT, TraitsT]]) -> None:
        self.key = key
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Entry[BuildT, TraitsT]:
        if name not in self:
            raise UnknownPartError(str(unknown_name(self.key, str(name), self._entries)))
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, entry: Entry[BuildT, TraitsT]) -> None:
        """Makes `name` a word of the key.

        Raises:
            UserError: there is a part of that name.
        """
        if name in self._entries:
            raise UserError(f"{self.key}: there is a {self.key} '{name}' already.")
        self._entries[name] = entry
        _ADDED[self.key, name] = Entry(entry.implementation, entry.about, entry.summary)

    def remove(self, name: str) -> None:
        """Takes a part that was added out again."""
        if (self.key, name) not in _ADDED:
            raise UserError(f"{self.key}: '{name}' was not added and stays.")
        del self._entries[name], _ADDED[self.key, name]
