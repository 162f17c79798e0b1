"""`Keys`: the typed settings that a part reads, and the words that a setting may have.

A section is a class of `Keys` beside the part that reads it; every field has a type, a range where one makes sense, a
default and a one-line help text.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from omg.errors import unknown_name
from omg.names import file_name
from omg.registry.table import registry


class Keys(BaseModel):
    """What all sections share: unknown keys are refused, types are not guessed, values do not change later."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


KeysT = TypeVar("KeysT", bound=Keys)


def section_in(sections: tuple[Keys, ...], kind: type[KeysT]) -> KeysT:
    """The section of one kind, of those that a part is built with."""
    found = next((section for section in sections if isinstance(section, kind)), None)
    if found is None:
        raise ValueError(f"{kind.__name__} is no section of this part; its traits have to list it")
    return found


@dataclass(frozen=True)
class When:
    """Of a field, in `Annotated`: the key is read only where another one has one of some values."""

    key: str
    values: tuple[object, ...]

    def __init__(self, key: str, *values: object) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return f"{self.key}={' or '.join(str(value) for value in self.values)}"


class Words:
    """Of a field of text, in `Annotated`: the words that it may have. Without any: those of its key's registry."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def of(self, key: str) -> Collection[str]:
        """The words of the field `key`."""
        return self._words or registry(key)

    def check(self, key: str, value: object, also: tuple[str, ...] = ()) -> None:
        """Raises `UserError` unless `value` is one of the words; `also` are further ones for the message."""
        if isinstance(value, str) and value in self.of(key):
            return
        if self._words:
            raise unknown_name(key, str(value), (*self._words, *also))
        raise registry(key).refusal(value, also)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks before the type is: for one word, for one or None, for a list of them."""
        return core_schema.with_info_before_validator_function(self._validate, handler(source), field_name=None)

    def _validate(self, value: object, info: ValidationInfo) -> object:
        self.check(str(info.field_name), value)
        return value


class OptionalWords(Words):
    """One of the words, or None."""

    def _validate(self, value: object, info: ValidationInfo) -> object:
        if value is not None:
            self.check(str(info.field_name), value, ("None",))
        return value


class ManyWords(Words):
    """Any of the words: takes `a,b`, `[a, b]` and None; gives them without repetitions."""

    def _validate(self, value: object, info: ValidationInfo) -> object:
        words = value.split(",") if isinstance(value, str) else () if value is None else value
        if not isinstance(words, list | tuple):
            words = (words,)
        names = list(dict.fromkeys(str(word).strip() for word in words))
        for name in names:
            self.check(str(info.field_name), name)
        return names


def words_of(key: str, field: FieldInfo) -> Collection[str]:
    """The words that a field may have; none where it is no choice of words."""
    return next((rule.of(key) for rule in field.metadata if isinstance(rule, Words)), ())


def conditions(field: FieldInfo) -> tuple[When, ...]:
    """Under which a key is read by the parts that have it."""
    return tuple(rule for rule in field.metadata if isinstance(rule, When))


def _file_name(value: object, info: ValidationInfo) -> object:
    return file_name(str(info.field_name), value) if isinstance(value, str) else value


FileName = Annotated[str, BeforeValidator(_file_name)]
"""Text that may become the name of a file or folder."""
PartName = Annotated[str, Words()]
"""A name in the registry of the field's own key."""
OptionalPartName = Annotated[str | None, OptionalWords()]
PartNames = Annotated[list[str], ManyWords()]
