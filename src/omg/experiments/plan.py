"""The plan of a pipeline: one small YAML file that says who plays what, how long, and what is to be shown.

Sections `pool`, `prior`, `train` and each agent take any key of the configuration beside their own keys, so that
`train: {t_max: 100000}` in the file and `train.t_max=100000` on the command line are the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omg.config import config_fields, resolve
from omg.config.layers import leaves
from omg.config.overrides import assignments, merge, nested
from omg.config.values import describe_type, read_yaml
from omg.envs import check_stored_game
from omg.envs.trust import check_word, vouch
from omg.errors import UserError, abridged, unknown_name
from omg.names import file_name, inside
from omg.pools.members import SetName, read_index

PLAN_FILE = "pipeline.yaml"
POOL_FOLDER = "pool"
"""Of a pipeline's folder."""
_OWNED = {
    "name": "runs are named after their agents",
    "env": "the section game says it",
    "env_args": "the section game says it",
    "init_param_path": "the pool is the pipeline's own",
    "local_results_path": "runs are kept in the pipeline's folder",
    "save_model": "agents must be saved",
    "team": "it follows from config",
    "obs_adapter": "everybody in a pipeline sees alike",
}
"""Configuration keys that a pipeline sets by itself."""


class Section(BaseModel):
    """A part of a plan; unknown keys are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SettingsSection(Section):
    """A part of a plan that also takes keys of the configuration."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    own: ClassVar[Mapping[str, str]] = {}
    """Further configuration keys that cannot be set here, and why."""

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration keys that are given."""
        return dict(self.model_extra or {})


class GameSection(Section):
    """What is played."""

    env_config: str = Field(description="Environment configuration; see `omg envs`")
    env_args: dict[str, Any] = Field({}, description="Options of the game")


class PoolSection(SettingsSection):
    """Who the team-mates are."""

    own: ClassVar[Mapping[str, str]] = {"seeds": "the numbers of members say how many"}
    path: str | None = Field(None, description="A pool that is there already; it says who is in which set")
    training: dict[str, int] = Field({}, description="Algorithm -> members that agents are trained with")
    validation: dict[str, int] = Field({}, description="Algorithm -> members for tuning")
    heldout: dict[str, int] = Field({}, description="Algorithm -> members that no agent meets in training")
    scripted: dict[str, SetName] = Field({}, description="Script -> set")
    which: Literal["best", "last"] = Field("best", description="Which agent of a seed becomes the member")
    episodes: int = Field(256, ge=1, description="Episodes in which each member is measured")

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Set -> algorithm -> number of members."""
        given = {"training": self.training, "validation": self.validation, "heldout": self.heldout}
        return {name: numbers for name, numbers in given.items() if numbers}


class PriorSection(SettingsSection):
    """How the subgoal prior is pre-trained: settings only."""

    own: ClassVar[Mapping[str, str]] = {"seeds": "a pool has one prior"}


class TrainSection(SettingsSection):
    """Settings of all agents' training."""

    self_play: bool = Field(False, description="Agents learn in all seats instead of one seat beside the pool's")


class AgentSection(SettingsSection):
    """One agent."""

    config: str | None = Field(None, description="Algorithm or team name; the agent's label unless given")
    self_play: bool | None = Field(
        None, description="Whether it learns in all seats; as the section train unless given"
    )


class EvaluationSection(Section):
    """With whom and how long the agents are evaluated."""

    sets: list[SetName] = Field(["heldout"], min_length=1, description="Sets of the pool; the report is on the first")
    groups: list[str] | None = Field(None, description="Groups of teams; None for all, an empty list for none")
    episodes: int = Field(100, ge=1, description="Episodes per team")
    seed: int = Field(0, ge=0, description="Seed of teams and games")
    which: Literal["last", "best"] = Field("last", description="Which agent of each training seed plays")
    untrained: bool = Field(True, description="Also evaluate the first agent as it is before training")
    scripted: list[str] = Field([], description="Scripted players to evaluate as well")
    crossplay_episodes: int = Field(32, ge=0, description="Cross-play of the first set, episodes per pair; 0: none")
    inference_episodes: int = Field(240, ge=0, description="Episodes for what the subgoals know; 0: none")

    @property
    def plays_groups(self) -> bool:
        """Whether agents are evaluated with any teams."""
        return self.groups is None or bool(self.groups)


class VariantSection(SettingsSection):
    """An agent that adapts with other settings than those it was trained with, e.g. an ablation."""

    own: ClassVar[Mapping[str, str]] = dict.fromkeys(("seed", "seeds"), "the section adaptation says it")
    agent: str = Field(description="Label of the agent that was trained")
    frozen: bool | None = Field(None, description="Whether it does not learn any more; as the section unless given")


class AdaptationSection(Section):
    """Whom the agents come to terms with in their first episodes, and for how long."""

    set: SetName = Field("heldout", description="Set of the pool that is met")
    players: list[str] = Field([], description="Scripted co-players besides")
    mixtures: bool = Field(False, description="Also teams of different co-players")
    episodes: int = Field(64, ge=1, description="Episodes with each co-player")
    games: int = Field(4, ge=1, description="Games of a round; agents learn after each round")
    seeds: int | None = Field(None, ge=1, description="Repetitions; None: one for each training seed")
    seed: int = Field(0, ge=0, description="Seed of the games")
    seat: int | None = Field(None, ge=0, description="Seat of the agents; None: the first that a learner can have")
    which: Literal["last", "best"] = Field("last", description="Which agent of each training seed adapts")
    frozen: bool = Field(False, description="Agents do not learn, they only infer")
    best_response_steps: int = Field(0, ge=0, description="Steps of training a best response to each; 0: none")
    agents: list[str] | None = Field(None, description="Labels of the agents; all unless given")
    variants: dict[str, VariantSection] = Field({}, description="Label -> agent with other settings")

    def entrants(self, agents: Iterable[str]) -> dict[str, tuple[str, dict[str, Any], bool]]:
        """Label -> label of the trained agent, settings that differ from its training, and whether it is frozen."""
        found: dict[str, tuple[str, dict[str, Any], bool]] = {}
        for label in agents if self.agents is None else self.agents:
            found[label] = (label, {}, self.frozen)
        for label, own in self.variants.items():
            found[label] = (own.agent, own.settings, self.frozen if own.frozen is None else own.frozen)
        return found


class ReportSection(Section):
    """What the report is about."""

    title: str | None = Field(None, description="Heading")
    question: str = Field("Does modelling the others help here?", description="Question that is answered")
    metric: str | None = Field(None, description="Metric of the verdict; the game's success metric unless given")
    lower_is_better: bool = Field(False, description="For metrics such as ep_length")
    agent: str | None = Field(None, description="The agent in question; the last one unless given")
    baselines: list[str] | None = Field(None, description="What it is compared with; all others unless given")
    names: dict[str, str] = Field({}, description="Label -> name in tables and figures")


class Plan(Section):
    """Everything a pipeline does."""

    name: str = Field(description="Name of the pipeline and of its folder")
    game: GameSection
    pool: PoolSection
    prior: PriorSection | None = None
    train: TrainSection = TrainSection()
    agents: dict[str, AgentSection] = Field(min_length=1, description="Label -> agent")
    evaluation: EvaluationSection = EvaluationSection()
    adaptation: AdaptationSection | None = None
    report: ReportSection = ReportSection()

    def in_self_play(self, label: str) -> bool:
        """Whether an agent learns in all seats."""
        own = self.agents[label].self_play
        return self.train.self_play if own is None else own

    def values(self) -> dict[str, Any]:
        """The plan as the mapping that `parse_plan` takes, defaults included."""
        return self.model_dump(mode="json")


SECTIONS: Mapping[str, type[Section]] = {
    "game": GameSection,
    "pool": PoolSection,
    "prior": PriorSection,
    "train": TrainSection,
    "evaluation": EvaluationSection,
    "adaptation": AdaptationSection,
    "report": ReportSection,
}


def preset_names() -> list[str]:
    """The plans that come with the program."""
    entries = files("omg.experiments").joinpath("presets").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def preset_summary(name: str) -> str:
    """The first comment line of a preset."""
    return _preset_text(name).splitlines()[0].removeprefix("#").strip()


def read_plan(source: str | Path, words: Sequence[str] = ()) -> Plan:
    """Reads a plan.

    Args:
        source: a preset, a YAML file, or the folder of a pipeline that was begun.
        words: `section.key=value`, e.g. `train.t_max=100000` or `agents.omg.subgoal_mode=random`.

    Raises:
        UserError: there is no such plan, or something in it cannot be used.
    """
    path = Path(source)
    copied = path / POOL_FOLDER
    if path.is_dir() and (path / PLAN_FILE).is_file():
        path = inside(path, path / PLAN_FILE)
    if path.is_file():
        where = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}.") from None
    elif str(source) in preset_names():
        where, text = f"preset {source}", _preset_text(str(source))
    else:
        raise unknown_name("pipeline (neither a file nor a preset)", str(source), preset_names())
    try:
        values = read_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not YAML: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected a mapping of sections: {', '.join(Plan.model_fields)}.")
    said = nested(assignments(list(words)))
    plan = parse_plan(merge(values, said), copied)
    if path.is_file():
        _check_file(where, values, said, plan)
    return plan


def _check_file(where: str, values: Mapping[str, Any], said: Mapping[str, Any], plan: Plan) -> None:
    """Refuses what a plan's file asks for and only the user may ask for; `said` is what the user has typed."""
    if isinstance(own := said.get("game"), Mapping):
        vouch(own.get("env_args"))
    game = resolve(None, plan.game.env_config).config
    check_stored_game(where, game.env, {**game.env_args, **plan.game.env_args})
    for key, value in leaves(values):
        if key.rpartition(".")[2] == "sacred_mongo_url" and value is not None:
            check_word(where, f"{key}={value!r}, a database that is sent the runs' records")


def parse_plan(values: Mapping[str, Any], copied: Path | None = None) -> Plan:
    """Validates the tree of a plan.

    Args:
        values: sections and their keys.
        copied: where the pool of `pool.path` may be found as well, should that be gone.

    Raises:
        UserError: for the first unknown key or bad value; names the key, what was given and what is allowed.
    """
    _known(values, "", Plan.model_fields)
    tree = dict(values)
    for name, section in SECTIONS.items():
        if tree.get(name) is None:
            tree.pop(name, None)
        else:
            _check_keys(tree[name], name, section)
    if isinstance(tree.get("agents"), Mapping):
        # `iql:` with nothing behind it is an agent with no settings of its own.
        tree["agents"] = {str(label): {} if own is None else own for label, own in tree["agents"].items()}
        for label, own in tree["agents"].items():
            _check_keys(own, f"agents.{label}", AgentSection)
    variants = (tree.get("adaptation") or {}).get("variants")
    for label, own in variants.items() if isinstance(variants, Mapping) else ():
        _check_keys(own, f"adaptation.variants.{label}", VariantSection)
    if isinstance(tree.get("pool"), Mapping) and tree["pool"].get("path") is not None:
        tree["pool"] = _given_pool(tree["pool"]["path"], copied)
    try:
        plan = Plan(**tree)
    except ValidationError as error:
        raise _refusal(error) from None
    file_name("name", plan.name)
    for label in plan.agents:
        file_name("agents", label)
    for label in plan.adaptation.variants if plan.adaptation is not None else ():
        file_name("adaptation.variants", label)
    return plan


def given_or_copied(given: Path, copied: Path | None) -> Path:
    """Where the pool of `pool.path` is: a pipeline goes on with its own copy when the original is gone."""
    return copied if copied is not None and copied.exists() and not given.exists() else given


def _given_pool(path: Any, copied: Path | None) -> dict[str, Any]:
    """The section `pool` for a pool that is there: its members instead of numbers, nothing about their training."""
    if not isinstance(path, str):
        raise UserError(f"pool.path: got {abridged(path)}; expected the folder of a pool.")
    given = Path(path).resolve()
    try:
        members = read_index(given_or_copied(given, copied)).members
    except UserError as error:
        raise UserError(f"pool.path: {error}") from None
    section: dict[str, Any] = {"path": str(given), "scripted": {}}
    for member in members:
        if member.kind == "scripted":
            section["scripted"][member.algorithm] = member.set
        else:
            numbers = section.setdefault(member.set, {})
            numbers[member.algorithm] = numbers.get(member.algorithm, 0) + 1
            section["obs_is_state"] = member.obs_is_state
    return section


def _check_keys(values: Any, where: str, section: type[Section]) -> None:
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: got {abridged(values)}; expected a mapping.")
    if not issubclass(section, SettingsSection):
        _known(values, f"{where}.", section.model_fields)
        return
    owned = {**_OWNED, **section.own}
    for key in values:
        if key in owned:
            raise UserError(f"{where}.{key}: cannot be set in a pipeline ({owned[key]}).")
    _known(values, f"{where}.", [*section.model_fields, *(key for key in config_fields() if key not in owned)])


def _known(values: Mapping[str, Any], prefix: str, allowed: Iterable[str]) -> None:
    """Refuses the first key that is not allowed, with the nearest match."""
    names = list(allowed)
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(str(key), names, n=1, cutoff=0.6)
            hint = f" Did you mean '{prefix}{close[0]}'?" if close else ""
            # A section that takes all keys of the configuration would fill the screen.
            known = f"Allowed: {', '.join(names)}." if len(names) < 20 else "`omg config` lists all keys."
            raise UserError(f"Unknown key '{prefix}{key}' of a pipeline.{hint} {known}")


def _refusal(error: ValidationError) -> UserError:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if part != "[key]"]
    where = ".".join(path)
    if first["type"] == "missing":
        return UserError(f"{where}: missing. {_expected(path)}".rstrip())
    return UserError(f"{where}: got {abridged(first['input'])}. {first['msg']}. {_expected(path)}".rstrip())


def _expected(path: Sequence[str]) -> str:
    """What a key of a section means and takes, if it is one."""
    model = SECTIONS.get(path[0]) if len(path) > 1 else Plan
    field = model.model_fields.get(path[1] if len(path) > 1 else path[0]) if model is not None else None
    if field is None or not field.description:
        return ""
    return f"Expected {describe_type(field.annotation)}: {field.description}."


def _preset_text(name: str) -> str:
    return files("omg.experiments").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")
