"""`Config`: the validated, complete configuration of one algorithm in one game, flat as in PyMARL."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from omg.config.sections import (
    AgentSection,
    DataSection,
    EnvSection,
    LearningSection,
    ModelSection,
    PlanningSection,
    PlaySection,
    PolicySection,
    RunSection,
    Section,
    SocialSection,
    TeamSection,
)
from omg.config.spellings import plain_value
from omg.config.start_section import StartSection
from omg.config.values import describe_field
from omg.envs import ENVS
from omg.errors import UserError, abridged, is_plain_text

SECTIONS: tuple[type[Section], ...] = (
    RunSection,
    PlaySection,
    DataSection,
    AgentSection,
    ModelSection,
    LearningSection,
    PolicySection,
    SocialSection,
    PlanningSection,
    EnvSection,
    TeamSection,
    StartSection,
)
"""In the order in which they are shown."""


# Fields are collected from the last base to the first, so the bases stand in the reverse order of SECTIONS.
class Config(
    StartSection,
    TeamSection,
    EnvSection,
    PlanningSection,
    SocialSection,
    PolicySection,
    LearningSection,
    ModelSection,
    AgentSection,
    DataSection,
    PlaySection,
    RunSection,
):
    """Everything a run depends on. Build it with `layers.resolve` or, from stored values, `parse_config`."""


_LONGEST_KEY = 100
"""Longer ones are no misspelt keys, and comparing them takes long."""


def parse_config(values: Mapping[str, Any]) -> Config:
    """Validates `values` (nested as in YAML); what is left out takes its default.

    Raises:
        UserError: for the first unknown key or bad value; names the key, what was given and what is allowed.
    """
    for key in values:
        if key not in Config.model_fields:
            raise unknown_key(str(key), str(values.get("env", "")))
        if isinstance(values[key], str) and not is_plain_text(values[key]):
            raise UserError(f"{key}: got {abridged(values[key])}, which no file can hold.")
    plain = {key: plain_value(Config.model_fields[key], value) for key, value in values.items()}
    try:
        return Config(**plain)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        field = Config.model_fields[key]
        raise UserError(
            f"{key}: got {_shown(first['input'])}; expected {describe_field(field)}. {field.description}."
        ) from None


def change_config(config: Config, **changes: Any) -> Config:
    """A copy with some keys changed, validated like any other configuration."""
    return parse_config({**config.model_dump(), **changes})


def unknown_key(key: str, env: str = "") -> UserError:
    """The error for a dotted `key` that does not exist, with the nearest existing one.

    Options of game `env` count as existing: a bare `map_name` is answered with `env_args.map_name`.
    """
    options = ENVS[env].args.model_fields if env in ENVS else {}
    nearest = (
        None
        if len(key) > _LONGEST_KEY
        else _nearest(key, (*Config.model_fields, *(f"env_args.{option}" for option in options)))
    )
    hint = f" Did you mean '{nearest}'?" if nearest else ""
    return UserError(f"Unknown key '{abridged(key)[1:-1]}'.{hint} `omg config` lists all keys with their help.")


def _nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that looks most like `key`, by its full name or by its last part."""
    by_last_part = {name.rpartition(".")[2]: name for name in reversed(list(known))}
    by_name = {name: name for name in by_last_part.values()} | by_last_part
    close = difflib.get_close_matches(key, by_name, n=1, cutoff=0.6)
    return by_name[close[0]] if close else None


def _shown(value: Any) -> str:
    kind = {bool: "a truth value", str: "text", int: "a whole number", float: "a number", type(None): ""}
    word = kind.get(type(value), f"a {type(value).__name__}")
    return f"{abridged(value)} ({word})" if word else repr(value)
