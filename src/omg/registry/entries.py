"""`Registry`: the parts of one kind by name, and `Entry`, one line of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

from omg.errors import UserError, unknown_name
from omg.registry.plugins import REGISTERED, Offer, UnusablePartError, checked, not_loaded, offers
from omg.registry.table import load
from omg.registry.traits import Traits

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
    offer: Offer | None = None
    """The entry point that it comes from; None of parts that come with omg, and of those that were registered."""

    @property
    def build(self) -> BuildT:
        """Builds the part."""
        if isinstance(self.implementation, str):
            return cast(BuildT, self._load(self.implementation))
        return self.implementation

    @property
    def traits(self) -> TraitsT:
        """What the part says about itself."""
        if isinstance(self.about, str):
            return cast(TraitsT, self._load(self.about))
        return self.about

    def _load(self, place: str) -> object:
        if self.offer is None:
            return load(place)
        try:
            return load(place)
        except (Exception, SystemExit) as error:
            raise not_loaded(self.offer.kind, self.offer.name, self.offer.package, error) from error


class UnknownPartError(UserError, KeyError):
    """There is no part of that name. Also a `KeyError`, as of every mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


class Registry(Mapping[str, Entry[BuildT, TraitsT]]):
    """The parts of one kind: name -> entry, in the order of their lists. Unknown names are refused with the nearest.

    Those of installed packages are among them, behind ours; ours are found without looking at what is installed. A part
    that cannot be used is left out, and asking for it says why.

    Args:
        key: the key of the configuration whose words the names are.
        entries: the parts that come with the package.
    """

    def __init__(self, key: str, entries: Mapping[str, Entry[BuildT, TraitsT]]) -> None:
        self.key = key
        self._ours = frozenset(entries)
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Entry[BuildT, TraitsT]:
        if name not in self._entries:
            offer = offers(self.key).get(name)
            if offer is None:
                raise UnknownPartError(str(self.refusal(name)))
            self._entries[name] = self._offered(offer)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._entries or self._is_usable(name))

    def __iter__(self) -> Iterator[str]:
        further = (name for name in offers(self.key) if name not in self._entries and self._is_usable(name))
        return iter([*self._entries, *further])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def is_ours(self, name: str) -> bool:
        """Whether a part comes with omg."""
        return name in self._ours

    def ours(self) -> Mapping[str, Entry[BuildT, TraitsT]]:
        """The parts that come with omg; looks at nothing that is installed."""
        return {name: self._entries[name] for name in self._entries if name in self._ours}

    def package(self, name: str) -> str:
        """The package that a part comes from; empty for ours, `omg.register` for those of this program."""
        if self.is_ours(name):
            return ""
        offer = self[name].offer
        return REGISTERED if offer is None else offer.package

    def packages(self) -> dict[str, str]:
        """Name -> package, of all parts that are not ours."""
        return {name: self.package(name) for name in self if not self.is_ours(name)}

    def refusal(self, name: object, also: tuple[str, ...] = (), kind: str | None = None) -> UserError:
        """Why a name is no part: there is none, or it cannot be used.

        Args:
            name: what was given.
            also: further words, for the message.
            kind: what the message calls such a part; the key, if left out.
        """
        if isinstance(name, str) and name in offers(self.key):
            try:
                self[name]
            except UnusablePartError as error:
                return error
        return unknown_name(kind or self.key, str(name), (*self, *also), self.packages())

    def add(self, name: str, entry: Entry[BuildT, TraitsT]) -> None:
        """Makes `name` a word of the key.

        Raises:
            UserError: there is a part of that name.
        """
        if name in self._entries or name in offers(self.key):
            raise UserError(f"{self.key}: there is a {self.key} '{name}' already.")
        self._entries[name] = entry

    def remove(self, name: str) -> None:
        """Takes a part that was added out again."""
        if name not in self._entries or self.package(name) != REGISTERED:
            raise UserError(f"{self.key}: '{name}' was not added and stays.")
        del self._entries[name]

    def forget_offered(self) -> None:
        """Drops the parts of installed packages; they are looked up anew when they are asked for."""
        self._entries = {name: entry for name, entry in self._entries.items() if entry.offer is None}

    def _is_usable(self, name: str) -> bool:
        if name not in offers(self.key):
            return False
        try:
            self[name]
        except UnusablePartError:
            return False
        return True

    def _offered(self, offer: Offer) -> Entry[BuildT, TraitsT]:
        found = offer.load()
        try:
            entry = replace(checked(self.key, offer.name, found), offer=offer)
        except UserError as error:
            raise UnusablePartError(f"{error} The package is {offer.package}.") from None
        return cast(Entry[BuildT, TraitsT], entry)
