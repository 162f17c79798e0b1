"""`Config`: the validated, complete configuration of one algorithm in one game, flat as in PyMARL.

It is made of sections: those of `omg.config.sections`, which every run has, and those that stand beside the parts that
read them. Parts of other packages bring theirs along (`config_class`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from omg.config import foreign
from omg.config.sections import (
    AimKeys,
    DataKeys,
    EnvKeys,
    MlflowKeys,
    PartsKeys,
    PlayKeys,
    RunKeys,
    SacredKeys,
    StartKeys,
    TeamKeys,
    WandbKeys,
)
from omg.config.spellings import plain_value
from omg.config.values import describe_field
from omg.controllers.keys import ControllerSections
from omg.envs import ENVS
from omg.errors import UserError, abridged, is_plain_text
from omg.learners.keys import LearnerSections
from omg.modules.agents.keys import AgentSections
from omg.modules.mixers.keys import MixerSections
from omg.modules.opponent_models.keys import ModelSections
from omg.registry import (
    AgentTraits,
    ControllerTraits,
    Keys,
    LearnerTraits,
    MixerTraits,
    ModelTraits,
    RunnerTraits,
    SelectorTraits,
    Traits,
)
from omg.registry.keys import KeysT
from omg.registry.table import traits
from omg.runners.keys import RunnerSections

GENERAL: tuple[type[Keys], ...] = (RunKeys, PartsKeys, PlayKeys, DataKeys, EnvKeys, TeamKeys, StartKeys)
"""Sections that every run has."""


# Fields are collected from the last base to the first: what stands last is shown first.
class Config(
    StartKeys,
    TeamKeys,
    EnvKeys,
    LearnerSections,
    ModelSections,
    MixerSections,
    AgentSections,
    ControllerSections,
    DataKeys,
    RunnerSections,
    PlayKeys,
    PartsKeys,
    MlflowKeys,
    AimKeys,
    WandbKeys,
    SacredKeys,
    RunKeys,
):
    """Everything a run depends on. Build it with `layers.resolve` or, from stored values, `parse_config`."""

    @property
    def learner_part(self) -> LearnerTraits:
        """What the learner says about itself."""
        return traits("learner", self.learner, LearnerTraits)

    @property
    def wants_prior(self) -> bool:
        """Whether it infers subgoals that are codes of a prior; cells of a board need none."""
        return self.learner_part.infers_subgoals and self.omg_inference != "cells"

    @property
    def model_part(self) -> ModelTraits:
        """What the opponent model says about itself."""
        return traits("am_model", self.am_model, ModelTraits)

    @property
    def controller_part(self) -> ControllerTraits:
        """What the controller says about itself."""
        return traits("mac", self.mac, ControllerTraits)

    @property
    def selector_part(self) -> SelectorTraits:
        """What the action selector says about itself."""
        return traits("action_selector", self.action_selector, SelectorTraits)

    @property
    def agent_part(self) -> AgentTraits:
        """What the agent network says about itself."""
        return traits("agent", self.agent, AgentTraits)

    @property
    def mixer_part(self) -> MixerTraits | None:
        """What the mixer says about itself; None without one."""
        return None if self.mixer is None else traits("mixer", self.mixer, MixerTraits)

    @property
    def runner_part(self) -> RunnerTraits:
        """What the runner says about itself."""
        return traits("runner", self.runner, RunnerTraits)

    def section(self, kind: type[KeysT]) -> KeysT:
        """The keys of one section, typed: `config.section(MyKeys).my_key` of a part that was added.

        Raises:
            UserError: no part with that section is registered, or was not when this configuration was made.
        """
        if not isinstance(self, kind):
            raise UserError(f"{kind.__name__}: the configuration has no such section; register the part that reads it.")
        return self

    def own_sections(self, part: Traits) -> tuple[Keys, ...]:
        """The settings of a part, each of its sections by itself."""
        values = self.__dict__
        return tuple(section(**{key: values[key] for key in section.model_fields}) for section in part.sections)


SECTIONS: tuple[type[Keys], ...] = tuple(
    section for section in reversed(Config.__mro__) if issubclass(section, Keys) and section.__bases__ == (Keys,)
)
"""All sections that come with the package, in the order in which they are shown."""


def config_class(values: Mapping[str, object]) -> type[Config]:
    """`Config`, with the sections of the parts of other packages that `values` choose.

    Raises:
        UserError: one of these sections has a key that there is already.
    """
    made = foreign.composed(Config, values)
    assert issubclass(made, Config)
    return made


class _AllFields(Mapping[str, FieldInfo]):
    """Ours first: what is installed is looked at for keys that are not ours, and for lists."""

    def __getitem__(self, key: str) -> FieldInfo:
        return Config.model_fields[key] if key in Config.model_fields else foreign.foreign_keys(Config)[key].field

    def __iter__(self) -> Iterator[str]:
        return iter([*Config.model_fields, *foreign.foreign_keys(Config)])

    def __len__(self) -> int:
        return len(Config.model_fields) + len(foreign.foreign_keys(Config))


def config_fields() -> Mapping[str, FieldInfo]:
    """All keys, those of all parts of other packages among them."""
    return _AllFields()


def sections_of(config: Config) -> tuple[type[Keys], ...]:
    """The sections of a configuration, those of parts of other packages last."""
    bases = () if type(config) is Config else type(config).__bases__
    return (*SECTIONS, *(base for base in reversed(bases) if issubclass(base, Keys) and not issubclass(base, Config)))


_LONGEST_KEY = 100
"""Longer ones are no misspelt keys, and comparing them takes long."""


def parse_config(values: Mapping[str, object]) -> Config:
    """Validates `values` (nested as in YAML); what is left out takes its default.

    Raises:
        UserError: for the first unknown key or bad value; names the key, what was given and what is allowed.
    """
    foreign.check_origins(values)
    kind = config_class(values)
    fields = kind.model_fields
    values = {key: value for key, value in values.items() if key != foreign.PARTS_FROM}
    for key, value in values.items():
        if key not in fields:
            raise unknown_key(str(key), str(values.get("env", "")))
        if isinstance(value, str) and not is_plain_text(value):
            raise UserError(f"{key}: got {abridged(value)}, which no file can hold.")
    plain = {key: plain_value(fields[key], value) for key, value in values.items()}
    if kind is not Config:
        plain[foreign.PARTS_FROM] = foreign.origins(Config, values)
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        field = fields[key]
        raise UserError(
            f"{key}: got {_shown(first['input'])}; expected {describe_field(field)}. {field.description}."
        ) from None


def change_config(config: Config, **changes: object) -> Config:
    """A copy with some keys changed, validated like any other configuration."""
    values = {**config.model_dump(), **changes}
    # The keys of a part that is chosen no more go with it.
    known = config_class(values).model_fields
    return parse_config({key: value for key, value in values.items() if key in known or key in changes})


def unknown_key(key: str, env: str = "") -> UserError:
    """The error for a dotted `key` that does not exist, with the nearest existing one.

    Options of game `env` count as existing: a bare `map_name` is answered with `env_args.map_name`.
    """
    options = ENVS[env].traits.args.model_fields if env in ENVS else {}
    nearest = (
        None
        if len(key) > _LONGEST_KEY
        else _nearest(key, (*config_fields(), *(f"env_args.{option}" for option in options)))
    )
    if (elsewhere := foreign.foreign_keys(Config).get(key)) is not None:
        return UserError(f"{key}: no part of this configuration reads it, but {elsewhere.reader} does.")
    hint = f" Did you mean '{nearest}'?" if nearest else ""
    return UserError(f"Unknown key '{abridged(key)[1:-1]}'.{hint} `omg config` lists all keys with their help.")


def _nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that looks most like `key`, by its full name or by its last part."""
    by_last_part = {name.rpartition(".")[2]: name for name in reversed(list(known))}
    by_name = {name: name for name in by_last_part.values()} | by_last_part
    close = difflib.get_close_matches(key, by_name, n=1, cutoff=0.6)
    return by_name[close[0]] if close else None


def _shown(value: object) -> str:
    kind = {bool: "a truth value", str: "text", int: "a whole number", float: "a number", type(None): ""}
    word = kind.get(type(value), f"a {type(value).__name__}")
    return f"{abridged(value)} ({word})" if word else repr(value)
