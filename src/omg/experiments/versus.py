"""Trained teams against each other: who is meant by the words of a command, and the table of their battles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from omg.controllers.scripted import SCRIPTED, build_scripted, scripted_names
from omg.envs import EnvSpec, parse_env_args
from omg.envs.battle import BattleArgs, Duel
from omg.errors import UserError, unknown_name
from omg.evaluation import Contender, versus, versus_rows
from omg.experiments.evaluation import load_contestants, run_labels
from omg.pools import Agent, Pool
from omg.pools.index import INDEX
from omg.tracking import Table
from omg.training.device import prepare

_GAME = "sc2"
_SIZES = ("name", "scenario", "n_agents", "n_actions", "obs_dim", "state_dim")


class Contenders(NamedTuple):
    """The players of one side of the table."""

    players: tuple[Contender, ...]
    """Scripted ones are built for the game later: their player is None."""
    env_args: Mapping[str, object] | None
    """Options of the game they were made for; None where all are scripted."""
    spec: EnvSpec | None


class Versus(NamedTuple):
    """All battles of two sides."""

    table: Table
    """Tidy rows; see `omg.evaluation.versus_rows`."""
    left: tuple[Contender, ...]
    right: tuple[Contender, ...]
    scenario: str


def play_versus(
    left: str | Path,
    right: str | Path,
    *,
    pool_set: str | None = None,
    which: str = "last",
    episodes: int = 100,
    seed: int = 0,
    env_args: Mapping[str, object] | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Versus:
    """Plays every player of one side against every player of the other, each from both ends of the field.

    Args:
        left: A pool (all its members), `POOL:member`, a run (all its seeds), an agent's folder or a script's name.
        right: Likewise.
        pool_set: Set of the pools that members are taken from; None for all.
        which: `last` or `best` agent of each seed of a run.
        episodes: Battles per pairing; rounded up to an even number.
        seed: Of starts and fights.
        env_args: Options of the game that differ from those the left side was made for, e.g. `{"start": "random"}`.
        say: Told what is done.

    Raises:
        UserError: somebody is missing or was made for another game, or the map's sides differ.
    """
    if episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    prepare(use_cuda=True)
    sides = [load_side(text, label, pool_set, which) for text, label in ((left, "LEFT"), (right, "RIGHT"))]
    made_for = next((side.env_args for side in sides if side.env_args is not None), {})
    # Both sides can be commanded in the simulator only.
    given = parse_env_args(_GAME, {**made_for, **(env_args or {}), "backend": "sim"})
    assert isinstance(given, BattleArgs)
    duel = Duel(given)
    for side, label in zip(sides, ("LEFT", "RIGHT"), strict=True):
        _check_game(side, label, duel.spec)
    one, other = (tuple(_ready(contender, duel) for contender in side.players) for side in sides)
    say(f"{len(one)} x {len(other)} pairings, {episodes + episodes % 2} battles each")
    results = versus(
        duel, one, other, episodes, seed, lambda done, pairings: say(f"{done} of {pairings} pairings played")
    )
    return Versus(Table(versus_rows(one, other, results)), one, other, duel.spec.scenario)


def load_side(text: str | Path, label: str, pool_set: str | None = None, which: str = "last") -> Contenders:
    """The players that a word of the command line means.

    Args:
        text: See `play_versus`.
        label: Name of the word in messages.
        pool_set: Set of a pool.
        which: `last` or `best` agent of a run.

    Raises:
        UserError: it means nobody.
    """
    path = Path(text)
    folder, _, member = str(text).rpartition(":")
    if (path / INDEX).is_file():
        return _from_pool(path, None, pool_set)
    if folder and (Path(folder) / INDEX).is_file():
        return _from_pool(Path(folder), member, None)
    if path.exists():
        (name,) = run_labels([path])
        found = load_contestants(name, path, which)
        agents = [
            (f"{name}_s{seed}" if len(found.seeds) > 1 else name, agent)
            for seed, agent in zip(found.seeds, found.agents, strict=True)
        ]
        return _of_agents(agents)
    if str(text) in SCRIPTED:
        if str(text) not in scripted_names(_GAME):
            raise unknown_name(f"script of {_GAME} ({label})", str(text), scripted_names(_GAME))
        return Contenders((Contender(str(text), str(text), None),), None, None)
    raise UserError(
        f"{label}: there is no '{text}'. Expected the folder of a pool, POOL:member, a run, an agent, or one of the "
        f"scripts {', '.join(scripted_names(_GAME))}."
    )


def _from_pool(path: Path, name: str | None, pool_set: str | None) -> Contenders:
    pool = Pool.open(path)
    members = pool.members(pool_set) if name is None else [pool.member(name)]
    if not members:
        raise UserError(f"{path}: the pool is empty.")
    contenders = []
    for member in members:
        player = None
        if member.kind == "learned":
            agent = pool.load(member.name)
            assert isinstance(agent, Agent)
            player = agent.policy
        contenders.append(Contender(member.name, member.algorithm, player))
    return Contenders(tuple(contenders), pool.env_args, pool.spec)


def _of_agents(agents: list[tuple[str, Agent]]) -> Contenders:
    for _, agent in agents:
        agent.check_untold()
    first = agents[0][1]
    contenders = tuple(Contender(name, agent.card.algorithm, agent.policy) for name, agent in agents)
    return Contenders(contenders, first.config.env_args, first.spec)


def _check_game(side: Contenders, label: str, spec: EnvSpec) -> None:
    if side.spec is None:
        return
    for key in _SIZES:
        have, need = getattr(side.spec, key), getattr(spec, key)
        if have != need:
            raise UserError(
                f"{label}: plays {side.spec.name} {side.spec.scenario}, but the battle is {spec.name} {spec.scenario} "
                f"({key}: {have} against {need})."
            )


def _ready(contender: Contender, duel: Duel) -> Contender:
    """A contender that can play: scripts are built for the game."""
    if contender.player is not None:
        return contender
    return contender._replace(player=build_scripted(contender.algorithm, duel.battle))
