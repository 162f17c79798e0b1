"""The stage `pool`: the team-mates, trained or copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from omg.config import Config, Resolved, config_fields, refuse_shared
from omg.controllers.scripted import build_scripted
from omg.envs import Env
from omg.errors import UserError, abridged
from omg.experiments.draws import SEEDS_OF_A_DRAW, KindsSection, first_seed
from omg.experiments.ledger import Task
from omg.experiments.pool import MOST_MEMBERS, copy_pool, train_pool
from omg.experiments.stages.base import Earlier, SettingsSection, Stage, refused_in, resolved
from omg.pools import Pool
from omg.pools.members import SETS, SetName, read_index

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan

POOL_FOLDER = "pool"
"""Of a pipeline's folder."""


class PoolSection(SettingsSection):
    """Who the team-mates are."""

    own: ClassVar[Mapping[str, str]] = {"seeds": "the numbers of members say how many"}
    path: str | None = Field(None, description="A pool that is there already; it says who is in which set")
    training: dict[str, int] = Field({}, description="Algorithm -> members that agents are trained with")
    validation: dict[str, int] = Field({}, description="Algorithm -> members for tuning")
    heldout: dict[str, int] = Field({}, description="Algorithm -> members that no agent meets in training")
    scripted: dict[str, SetName] = Field({}, description="Script -> set")
    kinds: KindsSection | None = Field(None, description="Scripts that the draw deals to the sets")
    draw: int = Field(1, ge=1, le=1_000_000, description="Which deal of the kinds, and which seeds of the training")
    which: Literal["best", "last"] = Field("best", description="Which agent of a seed becomes the member")
    episodes: int = Field(256, ge=1, description="Episodes in which each member is measured")

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Set -> algorithm -> number of members."""
        given = {"training": self.training, "validation": self.validation, "heldout": self.heldout}
        return {name: numbers for name, numbers in given.items() if numbers}

    @property
    def sets(self) -> set[str]:
        """The sets that somebody is in."""
        return {*self.counts, *self.scripts.values()}

    @property
    def scripts(self) -> dict[str, SetName]:
        """Script -> set, of those that are given and those that are dealt.

        Raises:
            UserError: the kinds cannot be dealt, or one of them is given a set besides.
        """
        dealt = {} if self.kinds is None else self.kinds.dealt(self.draw)
        if twice := self.scripted.keys() & dealt.keys():
            raise UserError(f"pool.scripted: got '{min(twice)}', which pool.kinds deals; name it in one of the two.")
        return {**self.scripted, **dealt}

    @property
    def training_settings(self) -> dict[str, object]:
        """Configuration keys of the members' training; every draw has seeds of its own."""
        seed = self.settings.get("seed", config_fields()["seed"].default)
        # What is no seed is refused with all other settings.
        moved = isinstance(seed, int) and self.draw > 1
        return {**self.settings, **({"seed": first_seed(int(str(seed)), self.draw)} if moved else {})}


class PoolStage(Stage):
    """Trains the pool of a plan, or copies the one that it names."""

    name = "pool"
    entries = (POOL_FOLDER,)

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        plan = checked.plan
        found: list[Resolved] = []
        settings = {**plan.pool.training_settings, **checked.game_settings}
        for name, numbers in plan.pool.counts.items():
            for algorithm, number in numbers.items():
                if not 1 <= number <= MOST_MEMBERS:
                    raise UserError(f"pool.{name}: got {algorithm}: {abridged(number)}, allowed: 1 to {MOST_MEMBERS}.")
                found.append(resolved("pool", algorithm, plan, settings, shared=settings))
        refused_in("pool", lambda: refuse_shared(plan.pool.settings, found))
        check_scripts("pool.scripted", plan.pool.scripted, checked.env)
        check_scripts("pool.kinds", plan.pool.scripts, checked.env)
        _check_sets(plan)
        if checked.given_pool is not None:
            _check_given(Pool.open(checked.given_pool), checked.env)
        return {"pool": found[-1].config} if found else {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        settings = {"game": self.plan.game.fingerprinted(), "pool": self.plan.pool.fingerprinted()}
        return [Task(self.name, "", settings, (self.checked.pool,), self.train, costly=True)]

    def train(self) -> None:
        """Makes the pool's folder."""
        section, given = self.plan.pool, self.checked.given_pool
        if given is not None:
            copy_pool(given, self.checked.pool, prior=self.plan.prior is None)
            return
        self.place.ledger.say(f"pool: {dealt_words(section)}")
        train_pool(
            self.checked.pool,
            section.counts,
            self.plan.game.env_config,
            {**section.training_settings, **self.checked.game_settings},
            scripted=section.scripts,
            which=section.which,
            episodes=section.episodes,
            console=self.place.screen,
            quiet=self.place.quiet,
            launcher=self.place.launcher,
            needs=self.plan.machine.of(self.name),
        )


def dealt_words(section: PoolSection) -> str:
    """Who is in which set, and of which draw."""
    members: dict[str, list[str]] = {}
    for name, numbers in section.counts.items():
        members.setdefault(name, []).extend(f"{number} {algorithm}" for algorithm, number in numbers.items())
    for script, name in section.scripts.items():
        members.setdefault(name, []).append(script)
    order = [name for name in SETS if name in members]
    return f"draw {section.draw}; " + "; ".join(f"{name}: {', '.join(members[name])}" for name in order)


def given_or_copied(given: Path, copied: Path | None) -> Path:
    """Where the pool of `pool.path` is: a pipeline goes on with its own copy when the original is gone."""
    return copied if copied is not None and copied.exists() and not given.exists() else given


def given_section(path: object, copied: Path | None) -> dict[str, object]:
    """The section `pool` for a pool that is there: its members instead of numbers, nothing about their training.

    Args:
        path: what the plan says.
        copied: where the pool may be found as well, should that be gone.

    Raises:
        UserError: there is no such pool.
    """
    if not isinstance(path, str):
        raise UserError(f"pool.path: got {abridged(path)}; expected the folder of a pool.")
    given = Path(path).resolve()
    try:
        members = read_index(given_or_copied(given, copied)).members
    except UserError as error:
        raise UserError(f"pool.path: {error}") from None
    scripted: dict[str, str] = {}
    sets: dict[str, dict[str, int]] = {}
    views: dict[str, bool | None] = {}
    for member in members:
        if member.kind == "scripted":
            scripted[member.algorithm] = member.set
        else:
            numbers = sets.setdefault(member.set, {})
            numbers[member.algorithm] = numbers.get(member.algorithm, 0) + 1
            views["obs_is_state"] = member.obs_is_state
    return {"path": str(given), "scripted": scripted, **sets, **views}


def check_scripts(where: str, scripts: Iterable[str], env: Env) -> None:
    """Refuses scripted players that do not play a game."""
    for script in scripts:
        refused_in(where, partial(build_scripted, script, env))


def _check_sets(plan: Plan) -> None:
    """Refuses a pool without anybody, without anybody to train with, or with more seeds than a draw has."""
    present = plan.pool.sets
    for algorithm in {name for numbers in plan.pool.counts.values() for name in numbers}:
        members = sum(numbers.get(algorithm, 0) for numbers in plan.pool.counts.values())
        if plan.pool.draw > 1 and members > SEEDS_OF_A_DRAW:
            raise UserError(f"pool.draw: got {members} members of {algorithm}, allowed with draws: {SEEDS_OF_A_DRAW}.")
    if not present:
        raise UserError("pool: nobody is in it. Give co-players, e.g. heldout: {iql: 4}.")
    seated = [label for label in plan.agents if not plan.in_self_play(label)]
    if "training" not in present and (seated or plan.prior is not None):
        who = "the prior" if plan.prior is not None else seated[0]
        raise UserError(
            f"pool.training: missing. Give team-mates to train {who} with, e.g. training: {{iql: 4}}; only agents with "
            f"self_play: true need none."
        )


def _check_given(pool: Pool, env: Env) -> None:
    if pool.spec != env.spec:
        here = f"{env.spec.name} {env.spec.scenario}"
        raise UserError(f"pool.path: {pool.path} is for {pool.where}, but the section game is about {here}.")
    refused_in("pool.path", pool.check)
    for member in pool:
        if member.kind == "scripted":
            build_scripted(member.algorithm, env)
