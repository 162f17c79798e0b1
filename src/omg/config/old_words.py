"""What becomes of the words that users of PyMARL, EPyMARL, Sacred and the older code bases know.

`old_word_table.OLD_WORDS` is the one table. A word in it is a key here as well, is translated with one note, or is
refused with the reason; `docs/coming-from-pymarl.md` is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omg.errors import UserError
from omg.types import Json

if TYPE_CHECKING:
    from omg.config.schema import Config

Settings = Mapping[str, Json]
"""Dotted key of ours -> value."""


@dataclass(frozen=True)
class OldWord:
    """One line of the table."""

    word: str
    """As it is typed: a key, or `key=value` where only that value has a fate of its own."""
    origin: str
    """Whose word it is: PyMARL, EPyMARL, Sacred, HOP, OMG (the older code of the same name)."""
    meant: str
    """What it did there."""
    here: str
    """What it does here; for a refused word what to do instead. The note and the refusal are this sentence."""
    becomes: Callable[[Json], Settings] | None = None
    """Value -> settings of ours; raises `UserError` for a value that has none. None: the word is a key here."""
    late: Callable[[Config, Json], Settings] | None = None
    """The same for words whose meaning depends on the rest of the configuration, which it is handed."""

    @property
    def fate(self) -> str:
        """`works`, `translated` or `refused`."""
        if self.becomes is None and self.late is None:
            return "works"
        return "refused" if isinstance(self.becomes, Refusal) else "translated"


class Refusal:
    """A `becomes` that refuses whatever the value is."""

    def __init__(self, word: str, here: str) -> None:
        self.word, self.here = word, here

    def __call__(self, value: Json) -> Settings:
        """Raises the `UserError`."""
        raise UserError(f"{self.word}: {self.here}")


def renamed(*keys: str) -> Callable[[Json], Settings]:
    """The word is one key of ours, or several with the same value."""
    return lambda value: dict.fromkeys(keys, value)


def only(word: str, *allowed: object) -> Callable[[Json], Settings]:
    """The word states a fact: these values are accepted because it is so here anyway, all others are refused."""

    def check(value: Json) -> Settings:
        if value not in allowed:
            shown = " or ".join(str(one) for one in allowed)
            raise UserError(f"{word}: got {value}, which there is not here. Allowed: {shown}. {_table()[word].here}")
        return {}

    return check


@dataclass(frozen=True)
class Translation:
    """Settings in our words, and what is to be said and looked at later."""

    settings: dict[str, Json]
    notes: tuple[str, ...]
    pending: tuple[tuple[OldWord, Json], ...]
    """Words that wait for the complete configuration, and their values."""
    translated: frozenset[str] = frozenset()
    """Keys of ours that old words stand for."""

    def complete(self, config: Config) -> Translation:
        """Translates what has waited, with the configuration that all other words make."""
        settings, notes, translated = dict(self.settings), list(self.notes), set(self.translated)
        for old, value in self.pending:
            assert old.late is not None
            becomes = old.late(config, value)
            _take(old, value, becomes, settings, notes)
            translated |= becomes.keys()
        return Translation(settings, tuple(notes), (), frozenset(translated))


def translate_old_words(given: Settings) -> Translation:
    """Puts settings in old words into ours.

    Args:
        given: dotted key -> value, in old words and in ours.

    Raises:
        UserError: a word is refused, or says something else than another one.
    """
    given = _apart(given)
    found = {key: _find(key, value) for key, value in given.items()}
    settings = {key: value for key, value in given.items() if found[key] is None}
    notes: list[str] = []
    pending: list[tuple[OldWord, Json]] = []
    translated: set[str] = set()
    for key, old in found.items():
        if old is None:
            continue
        if old.becomes is not None:
            becomes = old.becomes(given[key])
            _take(old, given[key], becomes, settings, notes)
            translated |= becomes.keys() - given.keys()
        else:
            pending.append((old, given[key]))
    return Translation(settings, tuple(notes), tuple(pending), frozenset(translated))


def old_word_notes(given: Settings) -> list[str]:
    """One sentence for each old word that will be translated, for commands that make several configurations of them.

    Args:
        given: dotted key -> value; the parts before a word name where it goes (`train.hidden_dim`).
    """
    notes = []
    for key, value in given.items():
        parts = key.split(".")
        found = (_find(".".join(parts[first:]), value) for first in range(len(parts)))
        old = next((one for one in found if one is not None), None)
        notes += [] if old is None or old.fate == "refused" else [f"{key}={value}: {old.here}"]
    return notes


def _apart(given: Settings) -> Settings:
    """Options of the game that are old words stand apart from the others, also where `env_args` is one mapping."""
    options = given.get("env_args")
    if not isinstance(options, Mapping):
        return given
    old = {f"env_args.{name}": value for name, value in options.items() if _find(f"env_args.{name}", value)}
    rest = {name: value for name, value in options.items() if f"env_args.{name}" not in old}
    return {**given, "env_args": rest, **old}


def is_old_key(key: str) -> bool:
    """Whether `key` is an old word for a setting, whatever becomes of it."""
    return key in _table()


def _take(old: OldWord, value: Json, becomes: Settings, settings: dict[str, Json], notes: list[str]) -> None:
    """Adds what a word becomes, unless something else is said already, and the note on it."""
    for key, ours in becomes.items():
        if key in settings and settings[key] != ours:
            raise UserError(
                f"{old.word}: stands for {key}={ours} here, but {key}={settings[key]} is given, too. Leave one of them "
                f"out."
            )
        settings[key] = ours
    typed = old.word if "=" in old.word else f"{old.word}={value}"
    ours = ", ".join(f"{key}={value}" for key, value in becomes.items())
    notes.append(f"{typed}{f' -> {ours}' if ours else ''}: {old.here}")


def _find(key: str, value: Json) -> OldWord | None:
    """The line of a setting that is to be translated or refused; None for one that is taken as it is."""
    table = _table()
    old = table.get(f"{key}={value}") or table.get(key)
    return None if old is None or old.fate == "works" else old


def _table() -> Mapping[str, OldWord]:
    from omg.config.old_word_table import OLD_WORDS

    return OLD_WORDS
