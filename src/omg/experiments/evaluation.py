"""Trained agents with the members of a pool, and the tables that come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omg.controllers.scripted import build_scripted
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation import Mates, cross_play, evaluate_groups, load_mates, make_groups, score_rows, stack_agents
from omg.pools import Agent, Pool, load_agent
from omg.tracking import RunFolder, Table
from omg.training.device import prepare

Say = Callable[[str], None]


class Contestants(NamedTuple):
    """Agents that differ only in their training seed."""

    label: str
    seeds: tuple[int, ...]
    agents: tuple[Agent, ...]

    @property
    def players(self) -> Any:
        """All of them as one player whose arrays have a leading axis for the seeds."""
        return stack_agents([agent.policy for agent in self.agents])


def load_contestants(label: str, path: str | Path, which: str = "last") -> Contestants:
    """All seeds of a run (`which` is `last` or `best`), or a single agent folder.

    Raises:
        UserError: there is no agent.
    """
    folder = Path(path)
    if not (folder / "config.yaml").is_file():
        agent = load_agent(folder)
        return Contestants(label, (agent.card.seed,), (agent,))
    run = RunFolder.open(folder)
    config = run.config()
    seeds = tuple(range(config.seed, config.seed + config.seeds))
    return Contestants(label, seeds, tuple(load_agent(run.agent(seed, which)) for seed in seeds))


def evaluate_runs(
    runs: Mapping[str, str | Path],
    pool: str | Path,
    *,
    pool_set: str = "heldout",
    groups: Sequence[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    which: str = "last",
    scripted: Sequence[str] = (),
    say: Say = lambda message: None,
) -> Table:
    """Plays runs with the teams of a pool: all on the same teams, seats, starts and random numbers.

    Args:
        runs: Label -> run folder or agent folder.
        pool: The team-mates.
        pool_set: Set of the pool they are taken from.
        groups: Groups of teams (see `omg.evaluation.groups`); None for all.
        episodes: Per team.
        seed: Of teams and games.
        which: `last` or `best` agent of each training seed.
        scripted: Scripted players to add as further agents, e.g. `random` as a floor.
        say: Told what is done.

    Returns:
        Tidy scores: agent, seed, group, team, episodes, metric, mean.

    Raises:
        UserError: an agent or the pool is missing, or they were made for different games.
    """
    if episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    prepare(use_cuda=True)
    opened = Pool.open(pool)
    contestants = [load_contestants(label, path, which) for label, path in runs.items()]
    rows: list[dict[str, Any]] = []
    mates: Mates | None = None
    env: Env | None = None
    for contestant in contestants:
        first = contestant.agents[0]
        env = env or first.env
        mates = mates or load_mates(opened, pool_set, first.config, first.env)
        rows += _scores(env, contestant.players, contestant.label, contestant.seeds, mates, groups, episodes, seed, say)
    for name in scripted:
        if mates is None or env is None:
            raise UserError("scripted: give at least one run to compare with.")
        rows += _scores(env, build_scripted(name, env), name, (0,), mates, groups, episodes, seed, say)
    return Table(rows)


def cross_play_pool(
    pool: str | Path, *, pool_set: str | None = None, episodes: int = 32, seed: int = 0, say: Say = lambda message: None
) -> Table:
    """Every member of a pool as the agent with teams of every member: agent, mate, metric, mean, episodes."""
    prepare(use_cuda=True)
    opened = Pool.open(pool)
    learned = [member for member in opened.members(pool_set) if member.kind == "learned"]
    if not learned:
        raise UserError(f"{pool}: cross-play needs at least one learned member.")
    first = opened.load(learned[0].name)
    assert isinstance(first, Agent)
    mates = load_mates(opened, pool_set, first.config, first.env)
    say(f"cross-play of {len(mates.members)} players, {episodes} episodes per pair")
    return Table(cross_play(first.env, mates, episodes, seed))


def _scores(
    env: Env,
    players: Any,
    label: str,
    seeds: Sequence[int],
    mates: Mates,
    groups: Sequence[str] | None,
    episodes: int,
    seed: int,
    say: Say,
) -> list[dict[str, Any]]:
    teams = make_groups(mates.members, env.spec.n_agents, groups, seed)
    number = sum(len(group.teams) for group in teams)
    say(f"{label}: {len(seeds)} seed(s) x {number} teams x {episodes} episodes")
    found = evaluate_groups(env, players, mates, teams, episodes, seed)
    return [row for group in teams for row in score_rows(label, seeds, group, found[group.name])]
