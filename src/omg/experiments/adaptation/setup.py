"""Who meets whom in an adaptation: trained agents as they were left, and teams of co-players they have never met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from omg.config import Config, adjust, change_config
from omg.config.overrides import nested
from omg.controllers.base import Player
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.scripted import build_scripted
from omg.envs import Env, EnvSpec
from omg.errors import UserError, unknown_name
from omg.evaluation import MemberName, group_names, make_groups
from omg.experiments.adaptation.schooling import Schooling
from omg.experiments.evaluation import load_contestants
from omg.learners import build_learner
from omg.pools import Agent, Pool, is_pool
from omg.tracking import RunFolder
from omg.training.checkpoint import newest_learner
from omg.training.encounters import Teams, build_teams

WHICH = ("last", "best")
_OWNED = {
    "env": "the agents bring their game along",
    "env_args": "the agents bring their game along",
    "name": "agents are named on the command line, LABEL=AGENT",
    "seed": "give --seed",
    "seeds": "give --seeds",
    "t_max": "give --episodes",
    "batch_size_run": "give --games",
    "runner": "games are compiled",
    "mac": "the agent has one seat among frozen players",
    "team": "the co-players are given by --pool and --players",
    "train_alg": "the agent is the only one that learns",
    "multi_algs": "the agent is the only one that learns",
    "is_agent_shift": "give --seat",
    "team_draw": "give --mixtures",
    "pool_set": "give --set",
    "init_param_path": "give --pool",
    "init_from": "the agent starts from itself",
    "prior_path": "the agent has its prior",
    "obs_adapter": "everybody sees as in training",
}
"""Configuration keys that cannot be set here, and why."""
_LONGEST = 2**31 - 1


@dataclass(frozen=True)
class Entrant:
    """An agent whose adaptation is measured, and how."""

    label: str
    brought: tuple[Schooling, ...]
    """Of each of its training seeds."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Configuration keys that differ from those of its training, e.g. an ablation."""
    frozen: bool = False
    """Whether it does not learn any more; what it believes within an episode still changes."""


def load_entrant(
    label: str,
    source: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    frozen: bool = False,
    which: str = "last",
) -> Entrant:
    """An agent as its training left it.

    Args:
        label: its name in the tables.
        source: a run (all its seeds), an agent's folder or `POOL:member`.
        settings: dotted configuration keys that differ from those of its training.
        frozen: whether it does not learn any more.
        which: `last` or `best` agent of each seed of a run; only with the last one the rest of its learner goes on,
            from the run's newest checkpoint.

    Raises:
        UserError: there is no such agent, or a key that cannot be set.
    """
    if which not in WHICH:
        raise unknown_name("agent (--which)", which, WHICH)
    given = dict(settings or {})
    check_settings(label, given)
    folder, _, member = str(source).rpartition(":")
    if folder and is_pool(folder):
        loaded = Pool.open(folder).load(member)
        if not isinstance(loaded, Agent):
            raise UserError(f"{label}: '{member}' of {folder} is a script, which has nothing to learn with.")
        loaded.check_untold()
        return Entrant(label, (Schooling(loaded),), given, frozen)
    path = Path(source)
    contestants = load_contestants(label, path, which)
    goes_on = which == "last" and (path / "config.yaml").is_file()
    brought = []
    for index, agent in enumerate(contestants.agents):
        agent.check_untold()
        learner = newest_learner(RunFolder(path).checkpoints, index) if goes_on else None
        brought.append(Schooling(agent, learner))
    return Entrant(label, tuple(brought), given, frozen)


def check_settings(where: str, settings: Mapping[str, object]) -> None:
    """Refuses dotted configuration keys that an adaptation sets by itself."""
    for key in settings:
        first = key.partition(".")[0]
        if first in _OWNED:
            raise UserError(f"{where}.{key}: cannot be set here ({_OWNED[first]}).")


def adaptation_config(
    config: Config, n_agents: int, games: int, episodes: int, settings: Mapping[str, object]
) -> Config:
    """The configuration under which a trained agent goes on in one seat.

    Exploration and other schedules stand where they end. Learning begins with the first round: replay samples no more
    episodes than that.

    Args:
        config: of its training.
        n_agents: seats.
        games: of a round.
        episodes: that it will play.
        settings: dotted keys that differ from its training.

    Raises:
        UserError: keys contradict each other.
    """
    algorithm = config.train_alg or config.name
    derived: dict[str, object] = {
        "epsilon_start": config.epsilon_finish,
        "omg_mix_start": config.omg_mix_finish,
        "batch_size": min(config.batch_size, games),
        "buffer_size": min(config.buffer_size, max(episodes, games)),
        "ppo_minibatches": config.ppo_minibatches if games % config.ppo_minibatches == 0 else 1,
        # A gradient step of a planner sees about as many positions as in its training.
        "hop_minibatches": max(1, config.hop_minibatches * games // config.batch_size_run),
        "early_stop_metric": None,
        "early_stop_value": None,
        "early_stop_at": [],
        "early_stop_below": [],
    }
    owned = {
        "seeds": 1,
        "t_max": _LONGEST,
        "batch_size_run": games,
        "runner": "vector",
        "mac": "multi_module_mac",
        "team": f"{n_agents - 1}pool1{algorithm}",
        "train_alg": algorithm,
        "multi_algs": True,
        "is_agent_shift": False,
        "init_param_path": None,
        "init_from": None,
        "init_optimiser": False,
        "checkpoint_path": None,
        "load_step": 0,
        "evaluate": False,
        "prior_path": None,
        "obs_adapter": "none",
    }
    return adjust(change_config(config, **{**derived, **nested(settings), **owned}), has_gpu=True)[0]


def check_learner(config: Config, spec: EnvSpec) -> None:
    """Refuses an algorithm that cannot learn in one seat among players who do not.

    Raises:
        UserError: it needs all seats.
    """
    others = TeamSlots(spec.n_agents - 1, (0,))
    build_learner(config, spec, TeamDraw((TeamSlots(1, ()), others), rotate=False))


def check_seat(env: Env, seat: int | None) -> int:
    """The seat that is played for; the first that a learner can have unless given.

    Raises:
        UserError: there is no such seat, or it has another role.
    """
    allowed = env.spec.learner_seats or tuple(range(env.spec.n_agents))
    if seat is None:
        return allowed[0]
    if seat not in allowed:
        raise UserError(f"seat: got {seat}. Allowed in {env.spec.name}: {', '.join(map(str, allowed))}.")
    return seat


def gather_teams(
    env: Env,
    pool: Pool | None,
    pool_set: str,
    scripts: Sequence[str],
    *,
    mixtures: bool = False,
    seat: int = 0,
    seed: int = 0,
) -> Teams:
    """Every co-player in all other seats, and with `mixtures` as many teams of different ones.

    Args:
        env: the game.
        pool: where co-players come from; None for scripted ones alone.
        pool_set: set of the pool.
        scripts: names of scripted co-players besides.
        mixtures: whether teams of different co-players are met as well.
        seat: the seat that is played for.
        seed: of the mixtures.

    Raises:
        UserError: there is nobody, the pool is of another game, or mixtures cannot be made.
    """
    members: list[MemberName] = []
    players: list[Player] = []
    if pool is not None:
        if pool.spec != env.spec:
            raise UserError(
                f"pool: {pool.path} is for {pool.where}, but the agents play {env.spec.name} {env.spec.scenario}."
            )
        for member in pool.members(pool_set):
            loaded = pool.load(member.name)
            members.append(MemberName(member.name, member.algorithm))
            players.append(loaded.policy if isinstance(loaded, Agent) else loaded)
    for script in dict.fromkeys(scripts):
        if script not in [member.name for member in members]:
            players.append(build_scripted(script, env))
            members.append(MemberName(script, script))
    if not members:
        raise UserError("co-players: there are none. Give --pool POOL, or --players with names of scripts.")
    others = env.spec.n_agents - 1
    names = [member.name for member in members]
    mates = np.repeat(np.arange(len(members), dtype=np.int32)[:, None], others, axis=1)
    if mixtures:
        if others < 2 or len(members) < 2:
            raise UserError(
                f"mixtures: got True, but there are {others} other seat(s) and {len(members)} co-player(s). Allowed "
                f"with two or more of both."
            )
        (mixed,) = make_groups(members, others + 1, [group_names(others + 1)[-1]], seed)
        names += mixed.teams
        mates = np.concatenate([mates, mixed.members])
    return build_teams(names, mates, players, seat)
