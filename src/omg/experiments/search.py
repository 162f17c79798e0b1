"""The search for settings: what a space is, and which settings are tried next, by Optuna's samplers.

Settings are proposed in rounds of a fixed size. A round knows what became of all earlier rounds, told in the order of
their numbers, and of nothing else: what is proposed depends neither on how many trials are done at once nor on which
comes to its end first, and it can be proposed again from what is on disk.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from omg.config import Config, config_fields
from omg.errors import UserError
from omg.experiments.stages.base import Section
from omg.types import Json

if TYPE_CHECKING:
    import optuna

GRID = "grid"
Sampler = Literal["grid", "random", "tpe", "cmaes"]
INSTALL = "pip install 'omg-marl[optuna]'"
MOST_CHOICES = 100_000
_MOST_TRIES = 200
"""Draws of settings that can be trained and were not tried before."""
_DIGITS = 12
"""Behind the point, of numbers in steps: 0.1 + 2 * 0.1 is meant to be 0.3."""
_STARTUP = 10
"""Most trials that TPE draws at random before it goes by what it knows."""


class Range(Section):
    """Numbers from one to another that trials are drawn from."""

    low: int | float = Field(description="The least")
    high: int | float = Field(description="The largest")
    log: bool = Field(False, description="Equally many from each power of ten")
    step: int | float | None = Field(None, gt=0, description="Only every so far from `low` on")


Space: TypeAlias = Mapping[str, Sequence[object] | Range]
"""Key -> the values, or the numbers, that are tried."""


class Tried(NamedTuple):
    """A trial that came to its end."""

    settings: Mapping[str, object]
    """What it changed."""
    value: float
    """Its score; NaN where it has none."""
    tests: Sequence[tuple[int, float]] = ()
    """Of a trial that was stopped: steps and value of its last test that counted."""


def check_space(space: Space, sampler: Sampler) -> None:
    """Refuses a space that a sampler cannot draw from.

    Args:
        space: the space.
        sampler: the sampler.

    Raises:
        UserError: names the key.
    """
    for key, values in space.items():
        where = f"tune.space.{key}"
        if not isinstance(values, Range):
            if not values:
                raise UserError(f"{where}: got nothing to choose from.")
            continue
        if not (math.isfinite(values.low) and math.isfinite(values.high) and values.low < values.high):
            raise UserError(f"{where}: got {values.low} to {values.high}; expected two numbers, the lower one first.")
        if values.log and (values.low <= 0 or values.step is not None):
            given = f"step {values.step}" if values.step is not None else f"low {values.low}"
            raise UserError(f"{where}: got log and {given}; powers of ten have no steps and begin above 0.")
        if values.step is not None and values.step > values.high - values.low:
            raise UserError(f"{where}: got step {values.step}, which is more than from {values.low} to {values.high}.")
        if sampler == GRID and values.step is None:
            raise UserError(
                f"{where}: got a range, of which a grid needs a step. Give step, values, or another sampler."
            )
    if not space:
        raise UserError(
            "tune.space: missing. Give what is tried, e.g. space: {lr: {low: 1e-4, high: 1e-2, log: true}}."
        )
    if sampler == "cmaes" and sum(isinstance(values, Range) for values in space.values()) < 2:
        raise UserError("tune.sampler: cmaes needs two ranges or more in the space; tpe takes any.")


def check_sampler(sampler: Sampler) -> None:
    """Refuses a sampler whose package is missing.

    Raises:
        UserError: says how to install it.
    """
    for package in () if sampler == GRID else ("optuna", "cmaes") if sampler == "cmaes" else ("optuna",):
        if find_spec(package) is None:
            raise UserError(
                f"tune.sampler: {sampler} needs the package {package}, which is not installed. Install it with: "
                f"{INSTALL}"
            )


def choices(space: Space) -> Iterator[dict[str, object]]:
    """All settings of a space without endless ranges.

    Raises:
        UserError: there are more than can be looked through.
    """
    values = {key: _values(own, key) for key, own in space.items()}
    if any(own is None for own in values.values()):
        return
    finite = {key: own for key, own in values.items() if own is not None}
    if math.prod(len(own) for own in finite.values()) > MOST_CHOICES:
        raise UserError(f"tune.space: more than {MOST_CHOICES:,} choices; name fewer values.")
    for combination in itertools.product(*finite.values()):
        yield dict(zip(finite, combination, strict=True))


def is_finite(space: Space) -> bool:
    """Whether a space has no endless range, and no more choices than can be looked through."""
    sizes = [len(own) if (own := _values(values, key)) is not None else math.inf for key, values in space.items()]
    return math.prod(sizes) <= MOST_CHOICES


def shuffled(settings: Sequence[dict[str, object]], draw: int) -> list[dict[str, object]]:
    """Settings in an order that the number of the draw alone decides."""

    def place(choice: dict[str, object]) -> bytes:
        return hashlib.sha256(f"{draw}/{json.dumps(choice, sort_keys=True)}".encode()).digest()

    return sorted(settings, key=place)


def edges(space: Space) -> Iterator[dict[str, object]]:
    """Settings of one key each that a run must be able to take: every value, and both ends of every range."""
    for key, values in space.items():
        ends = [_number(key, values.low), _number(key, values.high)] if isinstance(values, Range) else values
        yield from ({key: value} for value in ends)


def own_settings(space: Space, config: Config) -> dict[str, object]:
    """What an agent has in place of the tried settings."""
    return {key: getattr(config, key, None) for key in space}


class SettingsSearch:
    """The settings of one agent's trials, round by round."""

    def __init__(
        self, space: Space, sampler: Sampler, config: Config, *, trials: int, size: int, draw: int, lower: bool
    ) -> None:
        """A search; see `check_space` for what is refused.

        Args:
            space: the space.
            sampler: by which settings are proposed; not the grid.
            config: of the agent's training, whose own settings are the first trial.
            trials: how many there are in all.
            size: of a round.
            draw: other numbers give other settings.
            lower: whether a lower score is better.
        """
        self.space, self.sampler, self.trials, self.size, self.draw = space, sampler, trials, size, draw
        self.own = own_settings(space, config)
        self.direction: Literal["minimize", "maximize"] = "minimize" if lower else "maximize"

    def propose(
        self, rounds: Sequence[Sequence[Tried]], usable: Callable[[dict[str, object]], str]
    ) -> list[dict[str, object]]:
        """The settings of the next round; the very first are those of the plan, which change nothing.

        Args:
            rounds: all earlier ones.
            usable: why no run takes some settings; empty if one does.

        Raises:
            UserError: no settings were found that can be trained.
        """
        study = self._study(rounds)
        study.sampler = self._sampler(len(rounds))
        done = [one.settings for tried in rounds for one in tried]
        found: list[dict[str, object]] = []
        for place in range(min(self.size, self.trials - len(done))):
            first = not rounds and place == 0
            proposed = self._ask(study, {} if first else None)
            found.append({} if first else self._fresh(proposed, [*done, *found], usable, (len(rounds), place)))
        return found

    def importance(self, tried: Sequence[Tried]) -> dict[str, float]:
        """Key -> its share of what makes scores good, by PED-ANOVA; nothing where that cannot be said."""
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        study = self._study([tried], replay=False)
        values = {trial.value for trial in study.trials if trial.value is not None and trial.params}
        if len(values) < 2:
            return {}
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
        return {key: float(found.get(key, 0.0)) for key in self.space}

    def write_journal(self, tried: Sequence[Tried], path: str, name: str) -> None:
        """Writes a study that Optuna's own tools open; nothing here reads it."""
        from optuna import create_study
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        study = create_study(
            storage=JournalStorage(JournalFileBackend(path)), study_name=name, direction=self.direction
        )
        study.add_trials(self._study([tried], replay=False).trials)

    # -------------------------------------------------------------------------------------------- Optuna's own terms

    def _study(self, rounds: Sequence[Sequence[Tried]], *, replay: bool = True) -> optuna.Study:
        """All trials so far, in a study in memory.

        CMA-ES keeps what it knows in the study as it proposes, so its earlier rounds are proposed once more. (Where
        studies are stored, it is pickled, which is why none of them is ever read.)
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction=self.direction, sampler=optuna.samplers.RandomSampler(seed=0))
        for number, tried in enumerate(rounds):
            if replay and self.sampler == "cmaes":
                study.sampler = self._sampler(number)
            asked = [(self._ask(study, one.settings, trial_only=True), one) for one in tried]
            for trial, one in asked:
                if trial.params and one.tests:
                    step, value = one.tests[-1]
                    trial.report(value, step)
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                elif trial.params and math.isfinite(one.value):
                    study.tell(trial, one.value)
                else:
                    # Pruned without any test: TPE takes it for worse than all others.
                    state = optuna.trial.TrialState
                    study.tell(trial, state=state.PRUNED if trial.params else state.FAIL)
        return study

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """The sampler of a round, with random numbers of its own."""
        from optuna import samplers

        seed = int.from_bytes(hashlib.sha256(f"{self.draw}/{number}".encode()).digest()[:4], "big")
        if self.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        if self.sampler == "tpe":
            # Not of the number of trials: with more of them a search goes on.
            startup = min(_STARTUP, 2 * self.size)
            return samplers.TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)
        independent = samplers.RandomSampler(seed=seed)
        return samplers.CmaEsSampler(seed=seed, independent_sampler=independent, warn_independent_sampling=False)

    def _ask(self, study: optuna.Study, settings: Mapping[str, object] | None, *, trial_only: bool = False) -> Any:
        """A trial, with settings that are known or that the sampler proposes; its settings unless `trial_only`."""
        distributions = {key: _distribution(key, values) for key, values in self.space.items()}
        if settings is not None:
            known = {key: _label(self.space[key], value) for key, value in {**self.own, **settings}.items()}
            if not all(_contains(distributions[key], value) for key, value in known.items()):
                return study.ask()
            study.enqueue_trial(known)
        trial = study.ask(distributions)
        return trial if trial_only else {key: _value(self.space[key], value) for key, value in trial.params.items()}

    def _fresh(
        self,
        proposed: dict[str, object],
        before: Sequence[Mapping[str, object]],
        usable: Callable[[dict[str, object]], str],
        place: tuple[int, int],
    ) -> dict[str, object]:
        """The proposed settings, or others where they were tried before or cannot be trained."""
        known = [{**self.own, **settings} for settings in before]
        wrong = ""
        for settings in itertools.chain([proposed], self._others(place)):
            if settings not in known and not (wrong := usable(settings)):
                return settings
        raise UserError(f"tune.space: found no further settings that can be tried. {wrong}".rstrip())

    def _others(self, place: tuple[int, int]) -> Iterator[dict[str, object]]:
        """Settings from all over the space."""
        if is_finite(self.space):
            yield from shuffled(list(choices(self.space)), self.draw)
            return
        number, index = place
        study = self._study([])
        study.sampler = self._sampler_of_others(f"{self.draw}/{number}/{index}")
        for _ in range(_MOST_TRIES):
            yield self._ask(study, None)

    @staticmethod
    def _sampler_of_others(text: str) -> optuna.samplers.BaseSampler:
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big"))


def _distribution(key: str, values: Sequence[object] | Range) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values, Range):
        return CategoricalDistribution([_text(value) for value in values])
    low, high = _number(key, values.low), _number(key, values.high)
    if isinstance(low, int) and isinstance(high, int):
        step = 1 if values.step is None else int(values.step)
        return IntDistribution(low, high - (high - low) % step, log=values.log, step=step)
    if values.step is not None:
        high = low + values.step * math.floor((high - low) / values.step + 1e-9)
    return FloatDistribution(low, high, log=values.log, step=values.step)


def _values(values: Sequence[object] | Range, key: str) -> Sequence[object] | None:
    """Everything that is tried of a key; None of an endless range."""
    if not isinstance(values, Range):
        return values
    low, high = _number(key, values.low), _number(key, values.high)
    whole = isinstance(low, int) and isinstance(high, int)
    if values.step is None:
        return range(int(low), int(high) + 1) if whole and not values.log and high - low < MOST_CHOICES else None
    count = math.floor((high - low) / values.step + 1e-9) + 1
    if count > MOST_CHOICES:
        return None
    return [
        low + place * int(values.step) if whole else round(low + place * values.step, _DIGITS) for place in range(count)
    ]


def _number(key: str, value: float) -> int | float:
    """A whole number where the key takes no others."""
    annotation = str(config_fields()[key].annotation) if key in config_fields() else ""
    return float(value) if "float" in annotation or not float(value).is_integer() else int(value)


def _contains(distribution: optuna.distributions.BaseDistribution, value: object) -> bool:
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except (TypeError, ValueError):
        return False


def _label(values: Sequence[object] | Range, value: object) -> Any:
    """A value as Optuna has it: choices are known by their text."""
    return value if isinstance(values, Range) else _text(value)


def _value(values: Sequence[object] | Range, label: Any) -> object:
    """The value that Optuna means."""
    if not isinstance(values, Range):
        return next(value for value in values if _text(value) == label)
    return round(label, _DIGITS) if isinstance(label, float) and values.step is not None else label


def _text(value: object | Json) -> str:
    return json.dumps(value, sort_keys=True)
