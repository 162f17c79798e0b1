"""Fills the tables of the documentation from the code when the site is built, so that they are never out of date.

A page asks for a table with a comment on a line of its own: `<!-- table: NAME -->`, with a name from `TABLES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from omg.config.algorithms import algorithm_file, own_algorithms
from omg.config.layers import resolve
from omg.config.old_word_table import OLD_WORDS
from omg.config.schema import GENERAL, SECTIONS
from omg.config.values import describe_field
from omg.envs import ENVS, make_env
from omg.envs.battle import MAPS
from omg.envs.battle.maps import Force
from omg.envs.battle.units import UnitType
from omg.registry import Keys, registries
from omg.registry.keys import words_of

_MARK = re.compile(r"^<!-- table: (?P<name>[\w-]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of every page."""
    return _MARK.sub(lambda found: TABLES[found["name"]](), markdown)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _code(value: object) -> str:
    return f"`{value}`"


def keys() -> str:
    """All configuration keys, one table per topic."""
    defaults = resolve(None).config
    parts = []
    for section in SECTIONS:
        title = section.__name__.removesuffix("Keys")
        rows = [
            (
                _code(key),
                _code("{}" if key == "env_args" else getattr(defaults, key)),
                _allowed(key, section.model_fields[key]),
                section.model_fields[key].description,
            )
            for key in section.__annotations__
        ]
        heading = f"### {title}\n\n{section.__doc__}{_read_by(section)}\n"
        parts.append(f"{heading}\n{_table(('key', 'default', 'allowed', 'meaning'), rows)}")
    return "\n".join(parts)


def _read_by(section: type[Keys]) -> str:
    """Which parts read a section."""
    if section in GENERAL:
        return " Every run has these."
    found = {
        key: [name for name, entry in parts.items() if section in entry.traits.sections]
        for key, parts in registries().items()
    }
    parts = ", ".join(f"`{key}={name}`" for key, names in found.items() for name in names)
    return f" Read by {parts}."


def old_words() -> str:
    """What becomes of the words of older code bases, one table per fate."""
    parts = []
    for fate in ("works", "translated", "refused"):
        rows = [(_code(old.word), old.origin, old.meant, old.here) for old in OLD_WORDS.values() if old.fate == fate]
        columns = ("word", "of", "what it did", "here")
        parts.append(f"### {fate.capitalize()}\n\n{_table(columns, rows)}")
    return "\n".join(parts)


def options(env: str) -> str:
    """The options (`env_args`) of one game."""
    fields = ENVS[env].traits.args.model_fields
    rows = [
        (_code(key), _code('""' if f.default == "" else f.default), describe_field(f), f.description)
        for key, f in fields.items()
    ]
    return _table(("option", "default", "allowed", "meaning"), rows)


def algorithms() -> str:
    """All algorithm configurations."""
    return _table(("name", "what it is"), [(_code(name), algorithm_file(name).summary) for name in own_algorithms()])


def maps() -> str:
    """All maps of the battle simulator with their sizes."""
    rows = []
    for name, battle_map in MAPS.items():
        spec = make_env("sc2", map_name=name).spec
        sizes = (spec.n_agents, len(battle_map.enemy_units), spec.n_actions, spec.obs_dim, spec.state_dim)
        rows.append((_code(name), _force(battle_map.allies), _force(battle_map.enemies), *sizes, spec.episode_limit))
    return _table(("map", "allies", "enemies", "seats", "foes", "actions", "obs", "state", "limit"), rows)


def units() -> str:
    """All unit types of the battle simulator."""
    known = {unit.name: unit for one in MAPS.values() for unit in (*one.ally_units, *one.enemy_units)}
    rows = [
        (
            unit.name.replace("_", " "),
            f"{unit.hp:g}",
            f"{unit.shield:g}" if unit.shield else "",
            f"{unit.armour:g}" if unit.armour else "",
            _damage(unit),
            f"{unit.cooldown:g}" if unit.damage else "",
            f"{unit.range:g}" if unit.damage else "",
            f"{unit.speed:g}",
            f"{unit.radius:g}",
            ", ".join(unit.attributes),
        )
        for unit in known.values()
    ]
    columns = ("unit", "health", "shield", "armour", "damage", "cooldown (s)", "range", "speed", "radius", "attributes")
    return _table(columns, rows)


def _allowed(key: str, field: FieldInfo) -> str:
    """What a key accepts; the words of keys that name a part of the program are listed."""
    names = list(ENVS) if key == "env" else list(words_of(key, field))
    if not names:
        return describe_field(field)
    return "one of " + ", ".join(map(_code, names)) + (" or None" if field.default is None else "")


def _force(force: Force) -> str:
    return ", ".join(f"{count} {unit.name.replace('_', ' ')}" for unit, count in force)


def _damage(unit: UnitType) -> str:
    if unit.heals:
        return "heals"
    text = f"{unit.damage:g}" + (f" x {unit.attacks}" if unit.attacks > 1 else "")
    text += f" (+{unit.bonus:g} {unit.bonus_against})" if unit.bonus else ""
    text += f", bar of {2 * unit.line_splash[0]:g} across" if unit.line_splash[0] else ""
    return text + (f", blast of radius {unit.blast_radius:g}" if unit.blast_radius else "")


TABLES: dict[str, Callable[[], str]] = {
    "keys": keys,
    "algorithms": algorithms,
    "old-words": old_words,
    "maps": maps,
    "units": units,
    **{f"options-{env}": lambda env=env: options(env) for env in ENVS},  # type: ignore[misc]
}
