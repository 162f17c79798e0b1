"""The plan of a pipeline: one small YAML file that says who plays what, how long, and what is to be shown.

Sections `pool`, `prior`, `train` and each agent take any key of the configuration beside their own keys, so that
`train: {t_max: 100000}` in the file and `train.t_max=100000` on the command line are the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, NamedTuple, get_args, get_origin

import yaml
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from omg.config import config_fields, resolve
from omg.config.layers import leaves
from omg.config.overrides import assignments, merge, nested
from omg.config.sections import OUTWARD
from omg.config.values import describe_type, read_yaml
from omg.envs import check_stored_game
from omg.envs.trust import check_word, vouch
from omg.errors import UserError, abridged, unknown_name
from omg.experiments.ledger import PLAN_FILE
from omg.experiments.needs import MachineSection
from omg.experiments.stages.adapt import AdaptationSection, AdaptStage
from omg.experiments.stages.base import Section, SettingsSection, Stage
from omg.experiments.stages.evaluate import EvaluateStage, EvaluationSection
from omg.experiments.stages.pool import POOL_FOLDER, PoolSection, PoolStage, given_section
from omg.experiments.stages.prior import PriorSection, PriorStage
from omg.experiments.stages.report import ReportSection, ReportStage
from omg.experiments.stages.room import RoomSection, RoomStage
from omg.experiments.stages.train import AgentSection, TrainSection, TrainStage
from omg.experiments.stages.tune import TuneSection, TuneStage
from omg.names import file_name, inside

_OWNED = {
    "name": "runs are named after their agents",
    "env": "the section game says it",
    "env_args": "the section game says it",
    "init_param_path": "the pool is the pipeline's own",
    "local_results_path": "runs are kept in the pipeline's folder",
    "save_model": "agents must be saved",
    "save_agents_at": "evaluation.at says it",
    "team": "it follows from config",
    "obs_adapter": "everybody in a pipeline sees alike",
}
"""Configuration keys that a pipeline sets by itself."""


_COMMON = "_common"
"""How the names end of what several plans build on; no plan by itself."""


class GameSection(Section):
    """What is played."""

    env_config: str = Field(description="Environment configuration; see `omg envs`")
    env_args: dict[str, object] = Field({}, description="Options of the game")


class Plan(Section):
    """Everything a pipeline does.

    It is the list of the stages: a field of a stage names its section and its class, in the order in which stages are
    done.
    """

    name: str = Field(description="Name of the pipeline and of its folder")
    game: GameSection
    pool: Annotated[PoolSection, PoolStage]
    room: Annotated[RoomSection | None, RoomStage] = None
    prior: Annotated[PriorSection | None, PriorStage] = None
    tune: Annotated[TuneSection | None, TuneStage] = None
    train: Annotated[TrainSection, TrainStage] = TrainSection()
    agents: dict[str, AgentSection] = Field(min_length=1, description="Label -> agent")
    evaluation: Annotated[EvaluationSection, EvaluateStage] = EvaluationSection()
    adaptation: Annotated[AdaptationSection | None, AdaptStage] = None
    report: Annotated[ReportSection, ReportStage] = ReportSection()
    machine: MachineSection = MachineSection()

    def in_self_play(self, label: str) -> bool:
        """Whether an agent learns in all seats."""
        own = self.agents[label].self_play
        return self.train.self_play if own is None else own

    def values(self) -> dict[str, object]:
        """The plan as the mapping that `parse_plan` takes, defaults included."""
        return self.model_dump(mode="json")


def _stages() -> Iterator[type[Stage]]:
    for field in Plan.model_fields.values():
        yield from (kind for kind in field.metadata if isinstance(kind, type) and issubclass(kind, Stage))


STAGES: Mapping[str, type[Stage]] = {stage.name: stage for stage in _stages()}
"""Name -> stage, in the order in which they are done."""


def _sections(section: type[Section]) -> dict[str, type[Section]]:
    """The fields of a section, or of a plan, that are sections themselves."""
    return {name: kind for name, field in section.model_fields.items() if (kind := _section_in(field.annotation))}


def _labelled(section: type[Section]) -> dict[str, type[Section]]:
    """The fields of a section, or of a plan, that hold a section for every label."""
    mappings = {name: field for name, field in section.model_fields.items() if get_origin(field.annotation) is dict}
    kinds = {name: _section_in(get_args(field.annotation)[1]) for name, field in mappings.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _section_in(annotation: object) -> type[Section] | None:
    """The section that a type is, alone or beside None."""
    if get_origin(annotation) is dict:
        return None
    options = (annotation, *get_args(annotation))
    return next((one for one in options if isinstance(one, type) and issubclass(one, Section)), None)


SECTIONS: Mapping[str, type[Section]] = _sections(Plan)


def preset_names() -> list[str]:
    """The plans that come with the program."""
    return sorted(name for name in _preset_files() if not name.endswith(_COMMON))


def preset_summary(name: str) -> str:
    """The first comment line of a preset."""
    return preset_text(name).splitlines()[0].removeprefix("#").strip()


class PlanFile(NamedTuple):
    """What stands in a plan before it is checked."""

    where: str
    """In messages."""
    path: Path | None
    """The file; None of a preset."""
    values: dict[str, object]
    """Its sections, those of the plan that it builds on included."""


def read_plan_file(source: str | Path) -> PlanFile:
    """Reads the sections of a plan.

    Args:
        source: a preset, a YAML file, or the folder of a pipeline that was begun.

    Raises:
        UserError: there is no such plan, or it is no mapping of sections.
    """
    path = Path(source)
    if path.is_dir() and (path / PLAN_FILE).is_file():
        path = inside(path, path / PLAN_FILE)
    given = path if path.is_file() else None
    if given is not None:
        where = str(given)
        try:
            text = given.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{given} cannot be read: {error}.") from None
    elif str(source) in preset_names():
        where, text = f"preset {source}", preset_text(str(source))
    else:
        raise unknown_name("pipeline (neither a file nor a preset)", str(source), preset_names())
    values = _mapping(where, text)
    if "base" in values:
        base = values.pop("base")
        if base not in _preset_files():
            raise unknown_name(f"preset ({where}: base)", str(base), _preset_files())
        values = merge(_mapping(f"preset {base}", preset_text(str(base))), values)
    return PlanFile(where, given, values)


def _mapping(where: str, text: str) -> dict[str, object]:
    try:
        values = read_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not YAML: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected a mapping of sections: {', '.join(Plan.model_fields)}.")
    return values


def read_plan(source: str | Path, words: Sequence[str] = ()) -> Plan:
    """Reads a plan.

    Args:
        source: a preset, a YAML file, or the folder of a pipeline that was begun.
        words: `section.key=value`, e.g. `train.t_max=100000` or `agents.omg.subgoal_mode=random`.

    Raises:
        UserError: there is no such plan, or something in it cannot be used.
    """
    file = read_plan_file(source)
    return plan_of(file, file.values, nested(assignments(list(words))), Path(source) / POOL_FOLDER)


def plan_of(file: PlanFile, values: Mapping[str, object], said: Mapping[str, object], copied: Path | None) -> Plan:
    """The plan of a file.

    Args:
        file: where it comes from.
        values: its sections, with what else belongs to it.
        said: what the user has typed, section -> key -> value.
        copied: where the pool of `pool.path` may be found as well, should that be gone.

    Raises:
        UserError: something in it cannot be used, or only the user may ask for it.
    """
    plan = parse_plan(merge(values, said), copied)
    if file.path is not None:
        _check_file(file.where, values, said, plan)
    return plan


def _check_file(where: str, values: Mapping[str, object], said: Mapping[str, object], plan: Plan) -> None:
    """Refuses what a plan's file asks for and only the user may ask for; `said` is what the user has typed."""
    if isinstance(own := said.get("game"), Mapping):
        vouch(own.get("env_args"))
    game = resolve(None, plan.game.env_config).config
    check_stored_game(where, game.env, {**game.env_args, **plan.game.env_args})
    for key, value in leaves(values):
        if (what := OUTWARD.get(key.rpartition(".")[2])) is not None and value is not None:
            check_word(where, f"{key}={value!r}, {what}")


def parse_plan(values: Mapping[str, object], copied: Path | None = None) -> Plan:
    """Validates the tree of a plan.

    Args:
        values: sections and their keys.
        copied: where the pool of `pool.path` may be found as well, should that be gone.

    Raises:
        UserError: for the first unknown key or bad value; names the key, what was given and what is allowed.
    """
    _known(values, "", Plan.model_fields)
    # A section with nothing behind its name is one that is not given.
    tree = {name: value for name, value in values.items() if value is not None or name not in SECTIONS}
    for name, section in SECTIONS.items():
        if name in tree:
            _check_keys(tree[name], name, section)
    if isinstance(agents := tree.get("agents"), Mapping):
        # `iql:` with nothing behind it is an agent with no settings of its own.
        tree["agents"] = {str(label): {} if own is None else own for label, own in agents.items()}
    _check_labelled(tree, "", Plan)
    if isinstance(pool := tree.get("pool"), Mapping) and pool.get("path") is not None:
        tree["pool"] = given_section(pool["path"], copied)
    try:
        plan = Plan.model_validate(tree)
    except ValidationError as error:
        raise refusal(error, Plan.model_fields) from None
    file_name("name", plan.name)
    for where, label in _labels(plan, ""):
        file_name(where, label)
    return plan


def _check_keys(values: object, where: str, section: type[Section]) -> None:
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: got {abridged(values)}; expected a mapping.")
    if not issubclass(section, SettingsSection):
        _known(values, f"{where}.", section.model_fields)
        _check_labelled(values, f"{where}.", section)
        return
    owned = {**_OWNED, **section.own}
    for key in values:
        if key in owned:
            raise UserError(f"{where}.{key}: cannot be set in a pipeline ({owned[key]}).")
    _known(values, f"{where}.", [*section.model_fields, *(key for key in config_fields() if key not in owned)])


def _check_labelled(values: Mapping[str, object], prefix: str, section: type[Section]) -> None:
    for name, kind in _labelled(section).items():
        if isinstance(found := values.get(name), Mapping):
            for label, own in found.items():
                _check_keys(own, f"{prefix}{name}.{label}", kind)


def _labels(section: Section, prefix: str) -> Iterator[tuple[str, str]]:
    """All labels of a plan, each with the key that it stands under; files are called by them."""
    for name in _labelled(type(section)):
        yield from ((f"{prefix}{name}", label) for label in getattr(section, name))
    for name in _sections(type(section)):
        if (inner := getattr(section, name)) is not None:
            yield from _labels(inner, f"{prefix}{name}.")


def _known(values: Mapping[str, object], prefix: str, allowed: Iterable[str]) -> None:
    """Refuses the first key that is not allowed, with the nearest match."""
    names = list(allowed)
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(str(key), names, n=1, cutoff=0.6)
            hint = f" Did you mean '{prefix}{close[0]}'?" if close else ""
            # A section that takes all keys of the configuration would fill the screen.
            known = f"Allowed: {', '.join(names)}." if len(names) < 20 else "`omg config` lists all keys."
            raise UserError(f"Unknown key '{prefix}{key}' of a pipeline.{hint} {known}")


def refusal(error: ValidationError, fields: Mapping[str, FieldInfo]) -> UserError:
    """What a model of a plan refuses, in the words of its key; `fields` are those of the model."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if part != "[key]"]
    where, expected = ".".join(path), _expected(path, fields)
    if first["type"] == "missing":
        return UserError(f"{where}: missing. {expected}".rstrip())
    return UserError(f"{where}: got {abridged(first['input'])}. {first['msg']}. {expected}".rstrip())


def _expected(path: Sequence[str], fields: Mapping[str, FieldInfo]) -> str:
    """What a key of a section means and takes, if it is one."""
    section = _section_in(fields[path[0]].annotation) if len(path) > 1 and path[0] in fields else None
    inner = fields if len(path) == 1 else section.model_fields if section is not None else {}
    field = inner.get(path[min(len(path) - 1, 1)])
    if field is None or not field.description:
        return ""
    return f"Expected {describe_type(field.annotation)}: {field.description}."


def _preset_files() -> dict[str, Traversable]:
    """Name -> file, of all presets and of what they have in common."""
    presets = files("omg.experiments").joinpath("presets")
    entries = [*presets.iterdir(), *presets.joinpath("suite").iterdir()]
    return {entry.name.removesuffix(".yaml"): entry for entry in entries if entry.name.endswith(".yaml")}


def preset_text(name: str) -> str:
    """The text of a preset."""
    return _preset_files()[name].read_text(encoding="utf-8")
