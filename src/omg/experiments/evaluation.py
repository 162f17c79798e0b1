"""Trained agents with the members of a pool, and the tables that come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omg.config import Config
from omg.controllers import build_mac
from omg.controllers.base import Player
from omg.controllers.scripted import build_scripted
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation import Mates, cross_play, load_mates, pool_scores, stack_agents
from omg.evaluation.comparison import NO_SEED
from omg.evaluation.tables import CrossPlayRow, ScoreRow
from omg.pools import Agent, AgentCard, Pool
from omg.tracking import RunFolder, Table, load_seeds
from omg.training.adapting import check_adapted
from omg.training.device import prepare

Say = Callable[[str], None]
UNTRAINED = "untrained"
"""Label of agents that never learned: the floor of a comparison."""


class Contestants(NamedTuple):
    """Agents that differ only in their training seed."""

    label: str
    seeds: tuple[int, ...]
    agents: tuple[Agent, ...]

    @property
    def players(self) -> Player:
        """All of them as one player whose arrays have a leading axis for the seeds."""
        return stack_agents([agent.policy for agent in self.agents])


def load_contestants(
    label: str,
    path: str | Path,
    which: str = "last",
    step: int | None = None,
    obs_adapter: str = "none",
    say: Say = lambda message: None,
) -> Contestants:
    """All seeds of a run (`which` is `last` or `best`; `step` a saved step instead), or a single agent folder.

    With `obs_adapter: learn` agents that were trained on the state play from observations; `say` is told how well the
    maps fit.

    Raises:
        UserError: there is no agent, or none of that step.
    """
    agents = tuple(load_seeds(path, which, step=step, obs_adapter=obs_adapter, say=say))
    return Contestants(label, tuple(agent.card.seed for agent in agents), agents)


def run_labels(paths: Sequence[str | Path]) -> dict[str, Path]:
    """Labels for runs: their names where these tell them apart, else the names of their folders.

    Raises:
        UserError: a run is given twice.
    """
    folders = [Path(path) for path in paths]
    for folder in folders:
        if folders.count(folder) > 1:
            raise UserError(f"RUN: got '{folder}' twice.")
    for names in ([_run_name(folder) for folder in folders], [folder.name for folder in folders]):
        if len(set(names)) == len(names):
            return dict(zip(names, folders, strict=True))
    return {str(folder): folder for folder in folders}


def evaluate_runs(
    runs: Mapping[str, str | Path],
    pool: str | Path,
    *,
    pool_set: str = "heldout",
    groups: Sequence[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    which: str = "last",
    step: int | None = None,
    scripted: Sequence[str] = (),
    say: Say = lambda message: None,
    obs_adapter: str = "none",
    note: Say = lambda message: None,
    begin: Callable[[Contestants], None] = lambda contestants: None,
    further: Callable[[Arena, Config], Sequence[ScoreRow]] = lambda arena, config: (),
    apart: Callable[[], Mapping[str, Sequence[ScoreRow]]] | None = None,
) -> Table[ScoreRow]:
    """Plays runs with the teams of a pool: all on the same teams, seats, starts and random numbers.

    Args:
        runs: Label -> run folder or agent folder.
        pool: The team-mates.
        pool_set: Set of the pool they are taken from.
        groups: Groups of teams (see `omg.evaluation.groups`); None for all.
        episodes: Per team.
        seed: Of teams and games.
        which: `last` or `best` agent of each training seed.
        step: Their agents at this saved step of the runs instead, or at the last one before it; 0: the newest.
        scripted: Scripted players to add as further agents, e.g. `random` as a floor.
        say: Told what is done.
        obs_adapter: `learn`: who was trained with `obs_is_state` plays from observations; see `omg.load`.
        note: Told how well the maps fit.
        begin: Given the agents of each run before they play.
        further: Scores of others, from the same teams and games; given these and the first agent's configuration.
        apart: Scores by label from other processes, which play the same games; asked once everything is checked.

    Returns:
        Tidy scores.

    Raises:
        UserError: an agent or the pool is missing, or they were made for different games.
    """
    if episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    if not runs:
        raise UserError("runs: give at least one.")
    prepare(use_cuda=True)
    contestants = [load_contestants(label, path, which, step, obs_adapter, note) for label, path in runs.items()]
    first = contestants[0].agents[0]
    arena = Arena(pool, first.env, obs_adapter, note)
    for one in contestants:
        arena.check(one, pool_set)
    if obs_adapter == "learn":
        adapted = any(arena.mates(pool_set, one.agents[0].config).adapted for one in contestants)
        check_adapted([agent for one in contestants for agent in one.agents], adapted)
    rows: list[ScoreRow] = []
    played = None if apart is None else apart()
    for one in contestants:
        begin(one)
        if played is not None:
            rows += played[one.label]
            continue
        what = f"{one.label}: {len(one.seeds)} seed(s) with the set {pool_set}"
        say(what)
        rows += arena.scores(one, pool_set, groups, episodes, seed, _counted(what, say))
    for script in scripted:
        say(f"{script}: with the set {pool_set}")
        rows += arena.scripted_scores(script, first.config, pool_set, groups, episodes, seed)
    return Table([*rows, *further(arena, first.config)])


def _counted(what: str, say: Say) -> Callable[[int, int], None]:
    return lambda done, teams: say(f"{what}, {done} of {teams} teams done")


class Arena:
    """A pool and the game it is met in, loaded once for any number of evaluations.

    All agents play in the same game object, because programs are compiled for each one.
    """

    def __init__(
        self,
        pool: str | Path,
        env: Env | None = None,
        obs_adapter: str = "none",
        note: Say = lambda message: None,
    ) -> None:
        self.pool = Pool.open(pool)
        self.obs_adapter, self.note = obs_adapter, note
        self.env = env if env is not None else self.pool.make_env()
        self._mates: dict[tuple[str | None, bool], Mates] = {}

    def mates(self, pool_set: str | None, config: Config) -> Mates:
        """The members of a set (None: of all sets) for agents with a configuration."""
        key = (pool_set, config.obs_is_state)
        if key not in self._mates:
            self._mates[key] = load_mates(self.pool, pool_set, config, self.env, self.obs_adapter, self.note)
        return self._mates[key]

    def check(self, contestants: Contestants, pool_set: str) -> None:
        """Refuses agents that cannot sit beside the members of a set.

        Raises:
            UserError: they were made for another game or the other `obs_is_state`.
        """
        first = contestants.agents[0]
        if first.spec != self.env.spec:
            here = f"{self.env.spec.name} {self.env.spec.scenario}"
            raise UserError(f"{contestants.label}: plays {first.where}, but the others play {here}.")
        self.mates(pool_set, first.config)

    def scores(
        self,
        contestants: Contestants,
        pool_set: str,
        groups: Sequence[str] | None,
        episodes: int,
        seed: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[ScoreRow]:
        """Tidy scores of agents with the teams of a set; `progress` is told how many of how many teams are done."""
        self.check(contestants, pool_set)
        label, mates = contestants.label, self.mates(pool_set, contestants.agents[0].config)
        played = (self.env, contestants.players, label, contestants.seeds, mates, groups, episodes, seed)
        return pool_scores(*played, progress=progress)

    def scripted_scores(
        self, script: str, config: Config, pool_set: str, groups: Sequence[str] | None, episodes: int, seed: int
    ) -> list[ScoreRow]:
        """Tidy scores of a scripted player; `config` is that of the agents it is compared with."""
        return self.player_scores(build_scripted(script, self.env), script, config, pool_set, groups, episodes, seed)

    def player_scores(
        self,
        player: Player,
        label: str,
        config: Config,
        pool_set: str,
        groups: Sequence[str] | None,
        episodes: int,
        seed: int,
    ) -> list[ScoreRow]:
        """Tidy scores of somebody whom nobody trained; `config` as in `scripted_scores`."""
        mates = self.mates(pool_set, config)
        return pool_scores(self.env, stack_agents([player]), label, (NO_SEED,), mates, groups, episodes, seed)


def untrained(config: Config, env: Env, partners: int = 0) -> Contestants:
    """Agents of a configuration that never learned, one per seed.

    Args:
        config: names the networks and the seeds.
        env: the game.
        partners: number of players that the agents are told apart, for `identity_am`.
    """
    seeds = tuple(range(config.seed, config.seed + config.seeds))
    keys = jax.vmap(jax.random.PRNGKey)(jnp.asarray(seeds, jnp.uint32))
    # One program for all seeds: drawing weight by weight would compile for each shape.
    drawn = jax.jit(jax.vmap(lambda key: build_mac(config, env.spec, key, partners).tested()))(keys)
    agents = []
    for index, seed in enumerate(seeds):
        policy = jax.tree.map(lambda leaf, index=index: leaf[index], drawn)
        card = AgentCard(UNTRAINED, seed, 0, config.model_dump(), env.spec, partners=partners)
        agents.append(Agent(policy, config, env, card))
    return Contestants(UNTRAINED, seeds, tuple(agents))


def cross_play_pool(
    pool: str | Path, *, pool_set: str | None = None, episodes: int = 32, seed: int = 0, say: Say = lambda message: None
) -> Table[CrossPlayRow]:
    """Every member of a pool as the agent with teams of every member."""
    if episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    prepare(use_cuda=True)
    return Table(cross_play_arena(Arena(pool), pool_set, episodes, seed, say))


def cross_play_arena(
    arena: Arena, pool_set: str | None, episodes: int, seed: int, say: Say = lambda message: None
) -> list[CrossPlayRow]:
    """`cross_play_pool` with a pool that is loaded already."""
    learned = [member for member in arena.pool.members(pool_set) if member.kind == "learned"]
    if not learned:
        raise UserError(f"{arena.pool.path}: cross-play needs at least one learned member.")
    first = arena.pool.load(learned[0].name)
    assert isinstance(first, Agent)
    mates = arena.mates(pool_set, first.config)
    say(f"cross-play of {len(mates.members)} players, {episodes} episodes per pair")
    return cross_play(arena.env, mates, episodes, seed)


def _run_name(folder: Path) -> str:
    if (folder / "config.yaml").is_file():
        return RunFolder.open(folder).config().name
    return folder.name
