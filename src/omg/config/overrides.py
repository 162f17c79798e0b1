"""The command line's `key=value` words, in PyMARL's syntax and in ours, turned into settings.

All of these say the same, in any order, with or without the word `with`::

    --config=iql --env-config=sc2 with env_args.map_name=8m lr=0.001
    --config iql --env_config sc2 --env_args.map_name=8m --lr 0.001
    lr=0.001 env_args.map_name=8m config=iql env_config=sc2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omg.config.sacred_words import SACRED_COMMANDS, SACRED_FLAGS
from omg.config.values import parse_value
from omg.errors import UserError
from omg.types import Json


@dataclass(frozen=True)
class CommandLine:
    """What the words of a command line ask for."""

    config: str | None
    """Algorithm or team name (`--config`)."""
    env_config: str | None
    """Environment configuration (`--env-config`)."""
    overrides: list[str]
    """`dotted.key=value`, in the order given."""
    print_config: str = ""
    """`only` for Sacred's command `print_config`: show the configuration and stop; `first` for its flag `-p`."""


def translate(tokens: Sequence[str]) -> CommandLine:
    """Splits the words of a command line into the two configuration names and the other settings.

    `--key value` takes the next word as its value unless that is itself an option, an assignment or `with`; a `--key`
    without a value means `key=True`. Sacred's flags (`-F DIR`) stand for their long names.
    """
    names: dict[str, str] = {}
    overrides: list[str] = []
    prints = ""
    tokens = _long_flags(tokens)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token in ("with", "--"):
            continue
        if token in ("print_config", "--print_config", "--print-config"):
            prints = prints or ("first" if token.startswith("-") else "only")
            continue
        if token in SACRED_COMMANDS:
            raise UserError(f"{token}: is a command of Sacred's. {SACRED_COMMANDS[token]}")
        key, has_value, value = token.removeprefix("--").partition("=")
        if token.startswith("--"):
            key = key.replace("-", "_")
            if not has_value and position < len(tokens) and _is_value(tokens[position]):
                has_value, value = "=", tokens[position]
                position += 1
        elif not has_value or token.startswith("-"):
            raise UserError(f"Cannot read the argument '{token}'. Write key=value, --key=value or --key value.")
        if not all(key.split(".")):
            raise UserError(f"Cannot read the argument '{token}': there is no key before '='.")
        if key in ("config", "env_config"):
            if not value:
                raise UserError(f"--{key.replace('_', '-')}: a name must follow, e.g. --{key.replace('_', '-')}=NAME.")
            names[key] = value
        else:
            overrides.append(f"{key}={value if has_value else True}")
    return CommandLine(names.get("config"), names.get("env_config"), overrides, prints)


def _long_flags(tokens: Sequence[str]) -> list[str]:
    """The same words with Sacred's short flags written out: `-F DIR` -> `--file_storage=DIR`."""
    written: list[str] = []
    rest = iter(tokens)
    for token in rest:
        name, takes_value = SACRED_FLAGS.get(token, ("", False))
        if name and takes_value:
            value = next(rest, None)
            if value is None:
                raise UserError(f"{token}: a value must follow, as in {token} VALUE (Sacred's --{name}=VALUE).")
            token = f"--{name}={value}"
        elif name:
            # With its value, so that the next word is not taken for it.
            token = "--print_config" if name == "print_config" else f"--{name}=True"
        written.append(token)
    return written


def _is_value(token: str) -> bool:
    return token != "with" and not token.startswith("--") and "=" not in token


def assignments(overrides: Sequence[str] | Mapping[str, Json]) -> dict[str, Json]:
    """Dotted key -> value; text is read as YAML, the last of several equal keys wins.

    Args:
        overrides: `key=value` words, or a mapping of (dotted) keys to Python values, which are taken as they are.
    """
    if isinstance(overrides, Mapping):
        return dict(overrides)
    values: dict[str, Json] = {}
    for override in overrides:
        key, has_value, text = override.partition("=")
        if not has_value:
            raise UserError(f"Cannot read the setting '{override}'. Write key=value.")
        values.pop(key, None)
        values[key] = parse_value(key, text)
    return values


def nested(values: Mapping[str, Json]) -> dict[str, Json]:
    """`{"env_args.map_name": "8m"}` -> `{"env_args": {"map_name": "8m"}}`, merged in the order given."""
    tree: dict[str, Json] = {}
    for key, value in values.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        tree = merge(tree, value)
    return tree


def merge(lower: Mapping[str, Json], upper: Mapping[str, Json]) -> dict[str, Json]:
    """Both trees in one; where both have a value the upper one's stands, where both have a mapping they are merged."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
