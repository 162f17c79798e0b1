"""Runs as a report sees them: whose they are, what was set, how fast they were, and the command that repeats each."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omg.components.files import digest_of, read_json
from omg.components.headers import DamagedFileError
from omg.config import Config, resolve
from omg.config.layers import leaves
from omg.errors import UserError
from omg.evaluation.report_tables import SettingRow, TrainingRow
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import MetricRow, SpeedRow
from omg.report.curves import run_folders
from omg.report.words import agent_name
from omg.tracking import RunFolder
from omg.types import Json

_OWN = ("seed", "seeds", "local_results_path", "label", "name")
"""Keys that tell runs of one agent apart: repetitions of a training."""
_PLACE = ("local_results_path", "use_cuda", "devices")
"""Keys about where a run was made, which its repetition need not share."""
_MOST_KEYS = 2
"""Keys that are put into the label of an agent."""
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run without playing it."""

    label: str
    """Whose seeds it has; runs with the same settings share it."""
    path: Path
    config: Config
    where: str
    """The game."""
    status: str
    metrics: Sequence[MetricRow]
    """Seeds have names of their own across all runs of a report."""
    speeds: Sequence[SpeedRow]
    memory: float
    """Most bytes held at once; NaN where that was not noted."""
    device: str
    packages: Mapping[str, str]
    command: str

    @property
    def steps(self) -> int:
        """Environment steps that all its seeds have come to."""
        last: dict[object, int] = {}
        for row in self.metrics:
            last[row.seed] = max(row.t_env, last.get(row.seed, 0))
        return min(last.values(), default=0)

    def row(self) -> TrainingRow:
        """How far it is, how fast it was and what it took."""
        late = self.speeds[len(self.speeds) // 2 :]
        return TrainingRow(
            agent=self.label,
            run=self.path.name,
            status=self.status,
            seeds=self.config.seeds,
            steps=self.steps,
            planned=self.config.t_max,
            env_steps=_median([row.steps for row in late]),
            updates=_median([row.updates for row in late]),
            host=_median([row.host for row in late]),
            memory=self.memory / 1e9,
            device=self.device,
        )


def read_runs(folders: Sequence[str | Path]) -> list[RunFacts]:
    """The runs in some folders, each with the label of its agent.

    Runs whose settings differ in no more than the seed are seeds of one agent. Where agents would share a name, it is
    followed by what tells them apart.

    Args:
        folders: of runs, or folders that hold runs, at any depth.

    Raises:
        UserError: a folder is and holds no run, or one is damaged.
    """
    paths = dict.fromkeys(path.resolve() for folder in folders for path in run_folders(Path(folder)))
    opened = [RunFolder.open(path) for path in paths]
    configs = [run.config() for run in opened]
    labels = _labels(opened, configs)
    return [
        _facts(run, config, label, index)
        for index, (run, config, label) in enumerate(zip(opened, configs, labels, strict=True))
    ]


def named_run(path: Path, label: str) -> RunFacts:
    """One run whose label is known."""
    run = RunFolder.open(path)
    return _facts(run, run.config(), label, 0)


def _facts(run: RunFolder, config: Config, label: str, index: int) -> RunFacts:
    noted = _json(run.path / "versions.json")
    status = _json(run.path / "status.json")
    memory = status.get("peak_memory")
    packages = noted.get("packages")
    speeds = read_rows(run.speed_file, SpeedRow) if run.speed_file.is_file() and run.speed_file.stat().st_size else []
    return RunFacts(
        label,
        run.path,
        config,
        run.where(),
        run.status(),
        [MetricRow.extended(row, seed=f"{index}:{row.seed}") for row in run.metrics()],
        speeds,
        float(memory) if isinstance(memory, int | float) else math.nan,
        str(noted.get("device", "")),
        {str(name): str(version) for name, version in packages.items()} if isinstance(packages, dict) else {},
        repeat_command(config) or _recorded(noted.get("command")),
    )


def _json(path: Path) -> Mapping[str, Json]:
    try:
        found = read_json(path)
    except (OSError, DamagedFileError):
        return {}
    return found if isinstance(found, dict) else {}


def _recorded(command: Json) -> str:
    """The command line that a run has noted."""
    return shlex.join(map(str, command)) if isinstance(command, list) else ""


def _median(values: Sequence[float]) -> float:
    kept = [value for value in values if not math.isnan(value)]
    return float(np.median(kept)) if kept else math.nan


def _labels(runs: Sequence[RunFolder], configs: Sequence[Config]) -> list[str]:
    """A label for each run."""
    settings = [_settings(config) for config in configs]
    digests = [digest_of(own) for own in settings]
    names = [_name(config) for config in configs]
    places = [run.where() for run in runs]
    if len(set(places)) > 1:
        names = [f"{name} {place}" for name, place in zip(names, places, strict=True)]
    labels = list(names)
    for name in dict.fromkeys(names):
        own = [index for index, one in enumerate(names) if one == name]
        if len({digests[index] for index in own}) == 1:
            continue
        keys = [key for key in settings[own[0]] if len({_written(settings[index].get(key)) for index in own}) > 1]
        for index in own:
            words = [f"{key}={_written(settings[index].get(key))}" for key in keys[:_MOST_KEYS]]
            labels[index] = f"{name} ({', '.join(words)})" if keys else name
        if len({labels[index] for index in own}) < len({digests[index] for index in own}):
            order = list(dict.fromkeys(digests[index] for index in own))
            for index in own:
                labels[index] += f" #{order.index(digests[index]) + 1}"
    return labels


def _name(config: Config) -> str:
    return config.name if config.label is None else f"{config.name} {config.label}"


def _settings(config: Config) -> dict[str, Json]:
    """Dotted key -> value of everything that makes a training what it is."""
    values = config.model_dump(mode="json")
    return {key: value for key, value in leaves(values) if key not in (*_OWN, *_PLACE)}


def _written(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def repeat_command(config: Config) -> str:
    """The command that trains with these settings; empty where no command line comes to the same.

    It is checked: the settings that it stands for are those of the run.
    """
    named = [config.team] if config.team is not None else [config.train_alg, config.name, None]
    for name in dict.fromkeys(named):
        try:
            words = _words(config, name)
        except UserError:
            continue
        if words is not None:
            return words
    return ""


def _words(config: Config, name: str | None) -> str | None:
    implied = ("name", "team", "train_alg", "multi_algs", "mac") if config.team is not None else ()
    base = resolve(name, config.env, {"env_args": config.env_args}, open_games="none").config
    wanted, there = config.model_dump(mode="json"), base.model_dump(mode="json")
    changed = {
        key: value
        for key, value in wanted.items()
        if key not in ("env", "env_args", *_PLACE, *implied) and there.get(key) != value
    }
    plain = resolve(name, config.env, open_games="none").config.env_args
    options = {f"env_args.{key}": value for key, value in config.env_args.items() if plain.get(key) != value}
    settings = {**options, **changed}
    again = resolve(name, config.env, settings, open_games="none").config.model_dump(mode="json")
    if any(again.get(key) != value for key, value in wanted.items() if key not in _PLACE):
        return None
    chosen = ["omg", "train", *([f"--config={name}"] if name else []), f"--env-config={config.env}"]
    told = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]
    return shlex.join([*chosen, *(["with", *told] if told else [])])


def training_commands(runs: Sequence[RunFacts]) -> list[str]:
    """The commands that repeat the trainings, each once."""
    return list(dict.fromkeys(run.command for run in runs if run.command))


def setting_rows(runs: Sequence[RunFacts], names: Mapping[str, str] | None = None) -> list[SettingRow]:
    """What differs between runs, and then what differs from the defaults in all of them.

    Args:
        runs: of a report.
        names: label -> name of agents.
    """
    values = {run.path: _settings(run.config) for run in runs}
    keys = list(dict.fromkeys(key for own in values.values() for key in own))
    found = []
    for key in keys:
        written = {run.path: _written(values[run.path].get(key)) for run in runs}
        default = _default(runs[0].config, key)
        if set(written.values()) == {default}:
            continue
        for value in dict.fromkeys(written.values()):
            own = dict.fromkeys(run.label for run in runs if written[run.path] == value)
            labels = [agent_name(label, names) for label in own]
            same = len(set(written.values())) == 1
            found.append(
                SettingRow(
                    key=key,
                    value=value,
                    default=default,
                    runs="all" if same else ", ".join(labels),
                    differs="" if same else "differs",
                )
            )
    return sorted(found, key=lambda row: row.differs == "")


def _default(config: Config, key: str) -> str:
    first, _, rest = key.partition(".")
    field = type(config).model_fields.get(first)
    value: Json = None if field is None else field.get_default(call_default_factory=True)
    if not rest:
        return _written(value)
    if first == "env_args":
        plain = resolve(None, config.env, open_games="none").config.env_args
        return _written(dict(leaves(plain)).get(rest))
    return _written(dict(leaves(value)).get(rest)) if isinstance(value, dict) else _written(value)
