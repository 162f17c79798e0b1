"""Reading YAML the way configuration files and command lines are meant, and describing types to people.

PyYAML follows YAML 1.1, which reads `1e-4` as text, `on` as a truth value, `010` as eight and `None` as text. Here
numbers may be written as in Python (`1e-4`, `2_000_000`), `None` and `True` mean what a Python user expects, and words,
dates and times stay text.
"""

from __future__ import annotations

import re
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic.fields import FieldInfo

from omg.errors import UserError

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


class ConfigLoader(yaml.SafeLoader):
    """A safe YAML loader that knows only the plain scalars of `_SCALARS`; every other word is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's attribute)


for _name, _pattern, _first_characters in _SCALARS:
    ConfigLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern.pattern})\Z"), _first_characters
    )
ConfigLoader.add_constructor("tag:yaml.org,2002:int", lambda _loader, node: int(node.value))
ConfigLoader.add_constructor("tag:yaml.org,2002:float", lambda _loader, node: float(node.value))


class _ConfigDumper(yaml.SafeDumper):
    """Quotes text that `ConfigLoader` would take for a number or a null, so that it stays text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        looks_typed = any(pattern.fullmatch(text) for _, pattern, _ in _SCALARS)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="'" if looks_typed else None)


_ConfigDumper.add_representer(str, _ConfigDumper.represent_text)


def read_yaml(text: str) -> Any:
    """Parses YAML `text`; raises `yaml.YAMLError` when it is not YAML."""
    return yaml.load(text, Loader=ConfigLoader)


def write_yaml(values: Any) -> str:
    """YAML text in the order given, which `read_yaml` reads back to equal values."""
    return yaml.dump(values, Dumper=_ConfigDumper, sort_keys=False, allow_unicode=True, width=120)


def parse_value(key: str, text: str) -> Any:
    """The value of one command-line assignment `key=text`."""
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        raise UserError(f"{key}: cannot read the value {text!r} as YAML; put it in quotes.") from None


def describe_field(field: FieldInfo) -> str:
    """What a field accepts, in words: `a whole number >= 1 or None`."""
    base = describe_type(field.annotation)
    bounds = " and ".join(
        f"{sign} {getattr(rule, attribute)}"
        for rule in field.metadata
        for kind, sign, attribute in (
            (annotated_types.Gt, ">", "gt"),
            (annotated_types.Ge, ">=", "ge"),
            (annotated_types.Lt, "<", "lt"),
            (annotated_types.Le, "<=", "le"),
        )
        if isinstance(rule, kind)
    )
    if not bounds:
        return base
    number, optional, _ = base.partition(" or None")
    return f"{number} {bounds}{optional}"


def describe_type(annotation: Any) -> str:
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
    return words.get(plain, getattr(plain, "__name__", str(plain)))
