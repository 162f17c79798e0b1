"""Reading YAML the way configuration files and command lines are meant, and describing types to people.

PyYAML follows YAML 1.1, which reads `1e-4` as text, `on` as a truth value, `010` as eight and `None` as text. Here
numbers may be written as in Python (`1e-4`, `2_000_000`), `None` and `True` mean what a Python user expects, and words,
dates and times stay text.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Literal, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic.fields import FieldInfo
from yaml.constructor import ConstructorError

from omg.errors import UserError, abridged, is_plain_text
from omg.types import Json

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_SCALARS: tuple[tuple[str, re.Pattern[str], list[str]], ...] = (
    ("null", re.compile(r"~|null|Null|NULL|None|"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("int", re.compile(rf"[-+]?{_DIGITS}"), list("-+0123456789")),
    (
        "float",
        re.compile(rf"[-+]?(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS}|{_DIGITS}(?=[eE]))(?:[eE][-+]?{_DIGITS})?"),
        list("-+.0123456789"),
    ),
)
"""YAML type, how its plain scalars look, and the characters they may start with."""


_MOST_CHARACTERS = 1_000_000
_MOST_NODES = 100_000
_MOST_LEVELS = 64
_MOST_DIGITS = 40
"""What configurations, plans and values are far from; beyond it a file is damaged, or meant to do harm."""


class ConfigLoader(yaml.SafeLoader):
    """A safe YAML loader that knows only the plain scalars of `_SCALARS`; every other word is text, and so is a key."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's attribute)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """A mapping whose keys are text as written; a key that is given twice is refused."""
        written: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise ConstructorError(None, None, "a key must be a word", key.start_mark)
            if key.value in written:
                raise ConstructorError(None, None, f"the key '{key.value}' is given twice", key.start_mark)
            written.add(key.value)
            key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def _number(kind: type[int] | type[float]) -> Callable[[ConfigLoader, yaml.ScalarNode], int | float]:
    """Reads a scalar as a number; what an explicit tag calls one need not be one."""

    def construct(_loader: ConfigLoader, node: yaml.ScalarNode) -> int | float:
        text = str(node.value)
        digits = sum(letter.isdigit() for letter in text)
        if kind is int and digits > _MOST_DIGITS:
            reason = f"a whole number of {digits} digits; allowed: at most {_MOST_DIGITS}"
            raise ConstructorError(None, None, reason, node.start_mark)
        try:
            return kind(text)
        except ValueError:
            raise ConstructorError(None, None, f"'{text}' is no number", node.start_mark) from None

    return construct


for _name, _pattern, _first_characters in _SCALARS:
    ConfigLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern.pattern})\Z"), _first_characters
    )
ConfigLoader.add_constructor("tag:yaml.org,2002:int", _number(int))
ConfigLoader.add_constructor("tag:yaml.org,2002:float", _number(float))


class _ConfigDumper(yaml.SafeDumper):
    """Quotes text that `ConfigLoader` would take for a number or a null, so that it stays text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        looks_typed = any(pattern.fullmatch(text) for _, pattern, _ in _SCALARS)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="'" if looks_typed else None)


_ConfigDumper.add_representer(str, _ConfigDumper.represent_text)


def read_yaml(text: str) -> Json:
    """Parses YAML `text` into None, truth values, numbers, text, lists and mappings with text for keys.

    Raises:
        yaml.YAMLError: it is not YAML, or something else than these: an anchor inside itself, thousands of levels, a
            tag that its value does not fit.
    """
    if len(text) > _MOST_CHARACTERS:
        raise yaml.YAMLError(f"{len(text):,} characters; allowed: at most {_MOST_CHARACTERS:,}")
    try:
        values = yaml.load(text, Loader=ConfigLoader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        # PyYAML's own constructors of explicitly tagged values take what they get for well-formed.
        raise yaml.YAMLError(f"{type(error).__name__}: {error}") from None
    _check_tree(values)
    return values


def _check_tree(values: Json) -> None:
    """Refuses what a tree of plain values cannot hold, and trees that are very large once aliases are followed."""
    level, nodes = [values], 0
    for _ in range(_MOST_LEVELS):
        below: list[Json] = []
        for value in level:
            if isinstance(value, Mapping):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str) and not is_plain_text(value):
                raise yaml.YAMLError("text with characters that no file can hold")
            elif not isinstance(value, str | int | float | None):
                raise yaml.YAMLError(f"a {type(value).__name__}; allowed: text, numbers, lists and mappings")
        nodes += len(below)
        if nodes > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES:,} values")
        if not below:
            return
        level = below
    raise yaml.YAMLError(f"it is nested more than {_MOST_LEVELS} levels deep")


def write_yaml(values: Json) -> str:
    """YAML text in the order given, which `read_yaml` reads back to equal values."""
    return yaml.dump(values, Dumper=_ConfigDumper, sort_keys=False, allow_unicode=True, width=120)


def parse_value(key: str, text: str) -> Json:
    """The value of one command-line assignment `key=text`."""
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        # What a parser stumbles over in half a value helps nobody; what cannot be meant does.
        reason = error.problem if isinstance(error, ConstructorError) else str(error) if not _marked(error) else ""
        because = f" ({reason})" if reason else ""
        raise UserError(f"{key}: cannot read the value {abridged(text)} as YAML{because}; put it in quotes.") from None


def _marked(error: yaml.YAMLError) -> bool:
    """Whether an error is PyYAML's own about a place in the text."""
    return isinstance(error, yaml.MarkedYAMLError | yaml.reader.ReaderError)


def describe_field(field: FieldInfo) -> str:
    """What a field accepts, in words: `a whole number >= 1 or None`."""
    base = describe_type(field.annotation)
    bounds = " and ".join(
        f"{sign} {getattr(rule, attribute)}"
        for kind, sign, attribute in (
            (annotated_types.Gt, ">", "gt"),
            (annotated_types.Ge, ">=", "ge"),
            (annotated_types.Lt, "<", "lt"),
            (annotated_types.Le, "<=", "le"),
        )
        for rule in (*field.metadata, *_inner_rules(field.annotation))
        if isinstance(rule, kind)
    )
    if not bounds:
        return base
    number, optional, _ = base.partition(" or None")
    return f"{number} {bounds}{optional}"


def _inner_rules(annotation: object) -> list[object]:
    """Bounds of a number that may also be None: `Annotated[int, Le(3)] | None`."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return []
    found = [rule for part in get_args(annotation) if get_origin(part) is Annotated for rule in get_args(part)[1:]]
    return [rule for one in found for rule in (one.metadata if isinstance(one, FieldInfo) else [one])]


def describe_type(annotation: object) -> str:
    """A Python annotation in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return describe_type(get_args(annotation)[0])
    if origin is Literal:
        return "one of " + ", ".join(str(value) for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(part) for part in get_args(annotation))
    words = {
        int: "a whole number",
        float: "a number",
        bool: "True or False",
        str: "text",
        dict: "a mapping",
        list: "a list",
        tuple: "a list",
        type(None): "None",
    }
    plain = origin or annotation
    name = plain.__name__ if isinstance(plain, type) else str(plain)
    return words.get(plain, name) if isinstance(plain, type) else name
