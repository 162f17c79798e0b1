"""The layers of a configuration, later ones win: default.yaml, envs/<env>.yaml, algs/<alg>.yaml, the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from omg.config.algorithms import (
    algorithm_at,
    algorithm_file,
    algorithm_names,
    is_path,
    own_algorithms,
)
from omg.config.foreign import PARTS_FROM
from omg.config.old_word_table import OLD_CONFIG_NAMES
from omg.config.old_words import translate_old_words
from omg.config.overrides import assignments, merge, nested
from omg.config.reading import reads, unread_error
from omg.config.schema import Config, change_config, parse_config
from omg.config.teams import POOL, TeamPart, check_seats, looks_like_team, main_algorithm, parse_team
from omg.config.values import read_yaml
from omg.envs import ENVS, Env, make_env
from omg.errors import UserError, abridged, unknown_name
from omg.registry import ControllerTraits
from omg.registry.plugins import offers
from omg.registry.table import registry, traits
from omg.types import Json

COMMAND_LINE = "command line"
SCHEMA_DEFAULT = "schema default"

OpenGames = Literal["all", "teams", "none"]
"""Which games are opened: all but those of other packages in which one algorithm has all seats; only built-in ones in
which a team has to be seated; none. Options are checked without: what is opened takes JAX."""
Layer = tuple[str, Mapping[str, object]]
"""Where values come from, and the values as a tree."""


@dataclass(frozen=True)
class Resolved:
    """A complete configuration and where each of its values comes from."""

    config: Config
    """Governs the run; in a team, the configuration of the algorithm that learns."""
    sources: dict[str, str]
    """Dotted key -> `default.yaml`, `envs/sc2.yaml`, `algs/qmix.yaml`, `command line`, `schema default`, `config name`
    or `team name`."""
    team: tuple[TeamPart, ...] = ()
    """The seats of a team of several algorithms, in order; empty when one algorithm has all seats."""
    members: dict[str, Config] = field(default_factory=dict)
    """Algorithm -> its own configuration; empty when one algorithm has all seats."""
    notes: tuple[str, ...] = ()
    """One sentence for each old word that was translated; see `old_words`."""
    told: tuple[str, ...] = ()
    """Keys that the command line sets to something else than what holds without it. What it repeats does not count, so
    a complete configuration can be given back."""
    unread: tuple[str, ...] = ()
    """Those of them that no part of the run reads."""
    env: Env | None = field(default=None, compare=False)
    """The game, where it was opened."""

    @property
    def configs(self) -> tuple[Config, ...]:
        """Those of the run and of the members of its team."""
        return (self.config, *self.members.values())


def resolve(
    config_name: str | None,
    env_config: str | None = None,
    overrides: Sequence[str] | Mapping[str, object] = (),
    *,
    open_games: OpenGames = "all",
    shared: Collection[str] = (),
) -> Resolved:
    """Merges the layers and validates the result.

    Args:
        config_name: an algorithm (`qmix`), the path of an algorithm's file (`path/my.yaml`) or a team (`4iql4qmix`);
            None for the bare defaults.
        env_config: a file of `config/envs` or a registered game without one; None for the game that `overrides` name
            with `env`, or else the default game.
        overrides: `dotted.key=value` words, or a mapping of dotted keys to Python values.
        open_games: which games are opened to see whether the settings fit them; where one is not, the seats of a team
            are not counted.
        shared: keys of `overrides` that need not be read by this run: several runs have them in common, or a command
            sets them whatever the algorithm. Which of them are not read stands in `Resolved.unread`.

    Raises:
        UserError: names the first thing that cannot be used and what is allowed.
    """
    name_notes: list[str] = []
    if config_name is not None and is_path(config_name):
        config_name = algorithm_at(config_name)
    config_name = _current_name(config_name, name_notes)
    env_config = _current_name(env_config, name_notes)
    translation = translate_old_words(assignments(overrides))
    if translation.pending:
        # The game is opened once, when all settings are known.
        first = _resolve(config_name, env_config, translation.settings, "none")
        translation = translation.complete(first.config)
    settings = translation.settings
    if translation.translated:
        first = _resolve(config_name, env_config, settings, "none")
        left_out = [key for key in first.unread if key in translation.translated]
        settings = {key: value for key, value in settings.items() if key not in left_out}
        name_notes += [f"{key}: left out, as no part of this run reads it." for key in left_out]
    resolved = _resolve(config_name, env_config, settings, open_games)
    for key in resolved.unread:
        if key not in shared:
            raise unread_error(key, getattr(resolved.config, key), resolved.configs)
    return replace(resolved, notes=(*translation.notes, *name_notes))


def _current_name(name: str | None, notes: list[str]) -> str | None:
    """The name of a configuration without PyMARL's `.yaml`; those of EPyMARL that are not here are refused."""
    if name is None:
        return None
    plain = name.removesuffix(".yaml").removesuffix(".yml")
    if plain != name:
        notes.append(f"{name} -> {plain}: configurations are named without the ending.")
    if plain in OLD_CONFIG_NAMES:
        raise UserError(f"There is no configuration '{plain}' here. The nearest is: {OLD_CONFIG_NAMES[plain]}.")
    return plain


def _resolve(
    config_name: str | None, env_config: str | None, settings: Mapping[str, object], open_games: OpenGames
) -> Resolved:
    command_line = nested(settings)
    if env_config is None:
        env_config = str(command_line.get("env", Config.model_fields["env"].default))
    common = [("default.yaml", _read("default.yaml")), _env_layer(env_config)]
    if config_name is not None and looks_like_team(config_name):
        resolved = _resolve_team(config_name, common, command_line, open_games)
    else:
        resolved = _resolve_single(config_name, common, command_line, open_games)
    unread = (key for key in resolved.told if not any(reads(config, key) for config in resolved.configs))
    return replace(resolved, unread=tuple(unread))


def refuse_shared(keys: Iterable[str], runs: Sequence[Resolved]) -> None:
    """Refuses settings that several runs have in common and that none of them reads.

    Args:
        keys: of the common settings.
        runs: resolved with these keys as `shared`.

    Raises:
        UserError: names the first such key, and the parts that would read it.
    """
    for key in keys:
        if runs and all(key in run.unread for run in runs):
            raise unread_error(key, getattr(runs[0].config, key), [config for run in runs for config in run.configs])


def env_config_names() -> list[str]:
    """The names `--env-config` accepts: the files of `config/envs` and the games that have none."""
    return sorted({*_yaml_names("envs"), *ENVS})


def summary(path: str) -> str:
    """The first comment line of a configuration file, e.g. of `algs/qmix.yaml`; empty when there is no such file."""
    file = files("omg.config").joinpath(path)
    return file.read_text(encoding="utf-8").splitlines()[0].removeprefix("#").strip() if file.is_file() else ""


def leaves(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Dotted key and value of every leaf of a tree of mappings."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _resolve_single(
    algorithm: str | None,
    common: Sequence[Layer],
    command_line: Mapping[str, object],
    open_games: OpenGames,
    env: Env | None = None,
) -> Resolved:
    """One algorithm in all seats; `env` is the game, where it was opened already."""
    resolved = _merge_layers([*common, *_algorithm_layers(algorithm), (COMMAND_LINE, command_line)])
    if env is None and open_games == "all" and not ENVS[resolved.config.env].traits.foreign:
        env = _build_game(resolved.config)
    resolved = replace(resolved, env=env)
    if resolved.config.multi_algs:
        raise UserError(
            f"multi_algs: got True, but --config={algorithm} is one algorithm. Leave multi_algs out, or name a team, "
            f"e.g. --config=4iql4qmix."
        )
    if resolved.config.controller_part.seats_a_team:
        raise UserError(
            f"mac: got {resolved.config.mac}, but --config={algorithm} is one algorithm. Leave mac out, or name a "
            f"team, e.g. --config=4iql4qmix."
        )
    if resolved.config.train_alg not in (None, algorithm):
        raise unknown_name(f"train_alg for --config={algorithm}:", str(resolved.config.train_alg), [str(algorithm)])
    return resolved


def _resolve_team(
    name: str, common: Sequence[Layer], command_line: Mapping[str, object], open_games: OpenGames
) -> Resolved:
    parts = team_parts(name)
    members = {
        part.algorithm: _merge_layers(
            [*common, *_algorithm_layers(part.algorithm), (COMMAND_LINE, command_line)]
        ).config
        for part in parts
        if part.algorithm != POOL
    }
    if not members:
        raise UserError(f"Team name '{name}': nobody in it learns. Give one algorithm a seat, e.g. 7pool1iql.")
    config = next(iter(members.values()))
    env = None
    if open_games == "all" or (open_games == "teams" and not ENVS[config.env].traits.foreign):
        env = _build_game(config)
        check_seats(name, parts, env.spec.n_agents, f"{env.spec.name} {env.spec.scenario}")
    main = main_algorithm(name, [part for part in parts if part.algorithm != POOL], members, config.train_alg)
    if len({part.algorithm for part in parts}) == 1:
        # One algorithm in all seats is an ordinary run, so the keys that only teams have no longer matter.
        alone = {key: value for key, value in command_line.items() if key not in ("multi_algs", "train_alg", "mac")}
        return _resolve_single(main, common, alone, open_games, env)
    implied = {"name": name, "multi_algs": True, "train_alg": main, "team": name, "mac": _team_controller()}
    governing = _merge_layers([*common, *_algorithm_layers(main), ("team name", implied), (COMMAND_LINE, command_line)])
    for key, value in implied.items():
        given = getattr(governing.config, key)
        if key != "name" and given != value:
            raise UserError(f"{key}: got {given}, but the team '{name}' implies {value}; leave {key} out.")
    return replace(governing, team=tuple(parts), members=members, env=env)


def team_parts(name: str, main: str | None = None) -> list[TeamPart]:
    """The parts of a team name; what is installed is looked at only if a name in it is none of ours.

    Args:
        name: of the team.
        main: the algorithm that learns, where that is known. Its settings are complete in a stored configuration, so
            its file need not be there any more.
    """
    ours = {*own_algorithms(), *([] if main is None else [main])}
    try:
        return parse_team(name, ours)
    except UserError:
        return parse_team(name, {*ours, *algorithm_names()})


def member_config(config: Config, algorithm: str) -> Config:
    """The configuration of another algorithm of a team: that of the learning one, with the other's own settings."""
    if algorithm == config.train_alg:
        return config
    own = algorithm_file(str(config.train_alg), "algorithm (train_alg)").values
    values = {key: _read("default.yaml")[key] for key in own if key in _read("default.yaml")}
    values |= {**algorithm_file(algorithm).values, "name": algorithm}
    return change_config(config, **{**values, "team": None, "multi_algs": False, "train_alg": None})


def _team_controller() -> str:
    ours = registry("mac").ours()
    return next(name for name in ours if traits("mac", name, ControllerTraits).seats_a_team)


def _merge_layers(layers: Sequence[Layer]) -> Resolved:
    tree: dict[str, object] = {}
    below: Mapping[str, object] = {}
    told: Mapping[str, object] = {}
    origins: dict[str, str] = {}
    for source, values in layers:
        if source == COMMAND_LINE:
            below, told = tree, values
        tree = merge(tree, values)
        origins |= {key: source for key, _ in leaves(values)}
    config = parse_config(tree)
    sources = {key: origins.get(key, SCHEMA_DEFAULT) for key, _ in leaves(config.model_dump())}
    actual = config.model_dump().get(PARTS_FROM, [])
    if told.get(PARTS_FROM, actual) != actual:
        raise UserError(f"{PARTS_FROM}: got {abridged(told[PARTS_FROM])}, but it follows from the parts. Leave it out.")
    told = {key: value for key, value in told.items() if key != PARTS_FROM}
    defaults = {key: type(config).model_fields[key].default for key in told}
    news = [key for key in told if getattr(config, key) not in (defaults[key], below.get(key, defaults[key]))]
    return Resolved(config, sources, told=tuple(news))


def _build_game(config: Config) -> Env:
    """Builds the game, which is cheap, so that what only the game can refuse (an unknown map) is refused here."""
    return make_env(config.env, **config.env_args)


def _env_layer(env_config: str) -> Layer:
    if env_config in _yaml_names("envs"):
        return f"envs/{env_config}.yaml", _read(f"envs/{env_config}.yaml")
    if env_config in ENVS:
        return "--env-config", {"env": env_config}
    if env_config in offers("env"):
        raise ENVS.refusal(env_config)
    kind = "environment configuration (--env-config)"
    raise unknown_name(kind, env_config, env_config_names(), ENVS.packages())


def _algorithm_layers(algorithm: str | None) -> list[Layer]:
    if algorithm is None:
        return []
    file = algorithm_file(algorithm)
    return [(file.source, file.values), ("config name", {"name": algorithm})]


@cache
def _read(path: str) -> Mapping[str, object]:
    values = read_yaml(files("omg.config").joinpath(path).read_text(encoding="utf-8"))
    return values if values is not None else {}


@cache
def _yaml_names(folder: str) -> list[str]:
    entries = files("omg.config").joinpath(folder).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))
