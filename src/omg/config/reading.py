"""Which keys a run reads: those that every run has, and those of the parts that its configuration chooses.

A key in a section that is read may name a part, and so bring that part's sections along: the learner has the
controller, which has the agent network. What nobody reads is refused when somebody asks for it, so that a mistyped
ablation does not measure nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pydantic.fields import FieldInfo

from omg.config.schema import GENERAL, Config, config_fields
from omg.envs import plays_on_host
from omg.errors import UserError, abridged
from omg.registry import REGISTRIES, ControllerTraits, Keys, RunnerTraits, Traits, registries
from omg.registry.keys import When, conditions
from omg.registry.table import registry, traits


def reads(config: Config, key: str) -> bool:
    """Whether a run of this configuration reads the key."""
    return any(all(_holds(config, one) for one in conditions(field)) for field in _fields(config, key))


def unread(config: Config, keys: Iterable[str]) -> list[str]:
    """Those of the keys that a run of this configuration does not read, in their order."""
    return [key for key in keys if key in config_fields() and not reads(config, key)]


def readers(key: str) -> Mapping[str, list[str]]:
    """Which parts have a key in their sections: key of the part's kind -> names."""
    found = {
        kind: [name for name, entry in entries.items() if any(key in one.model_fields for one in entry.traits.sections)]
        for kind, entries in registries().items()
    }
    return {kind: names for kind, names in found.items() if names}


def unread_error(key: str, value: object, configs: Collection[Config]) -> UserError:
    """The error for a setting that no part of a run reads: it names the parts that would.

    Args:
        key: of the configuration.
        value: that was given.
        configs: of the run, of the members of its team, or of all runs that share the setting.
    """
    got = f"{key}: got {abridged(value)[1:-1] if isinstance(value, str) else abridged(value)}, but"
    unmet = [one for config in configs for field in _fields(config, key) for one in conditions(field)]
    if unmet:
        return UserError(f"{got} it is read only with {unmet[0]}. Leave it out, or change {unmet[0].key}.")
    parts = " or ".join(f"{kind}={_listed(names)}" for kind, names in readers(key).items())
    on_host = ", for a game that is no JAX program" if "runner" in readers(key) else ""
    return UserError(f"{got} no part of this run reads it; {parts} would{on_host}. Leave it out.")


def _listed(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def sections_read(config: Config, *, of_runner: bool = True) -> list[type[Keys]]:
    """The sections that a run reads, each once.

    Args:
        config: complete.
        of_runner: whether to look at the runner's, for which the game is opened.
    """
    found: dict[type[Keys], None] = {}
    waiting = list(GENERAL)
    while waiting:
        section = waiting.pop(0)
        if section in found:
            continue
        found[section] = None
        for key in section.model_fields:
            if key in REGISTRIES and (key != "runner" or of_runner):
                waiting += [one for part in _chosen(config, key) for one in part.sections]
    return list(found)


def _fields(config: Config, key: str) -> list[FieldInfo]:
    """The key as the sections that are read have it."""
    runners = [*registry("runner").ours().values(), registry("runner")[config.runner]]
    of_runner = any(key in one.model_fields for entry in runners for one in entry.traits.sections)
    sections = sections_read(config, of_runner=of_runner)
    return [section.model_fields[key] for section in sections if key in section.model_fields]


def _holds(config: Config, condition: When) -> bool:
    return getattr(config, condition.key) in condition.values


def _chosen(config: Config, key: str) -> list[Traits]:
    """The parts that a key of a run chooses: one, several, or none."""
    learner = config.learner_part
    if key == "runner":
        if not plays_on_host(config.env, config.env_args):
            return []
        return [traits("runner", config.runner_part.stand_in or config.runner, RunnerTraits)]
    if key == "am_model" and learner.watches:
        return []  # A prior is learned for the model, without it.
    if key == "mac" and config.controller_part.seats_a_team:
        return [traits("mac", learner.controller, ControllerTraits)]
    if key == "critic" and config.critic is None:
        return [registry("critic")[config.agent_part.critic].traits]
    named = getattr(config, key)
    names = named if isinstance(named, list) else [] if named is None else [named]
    return [registry(key)[name].traits for name in names]
