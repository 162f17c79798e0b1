"""Trained agents at play: load one, evaluate it alone or beside the players of a pool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omg.api.run import Run
from omg.envs.trust import trusting
from omg.errors import UserError
from omg.evaluation import load_mates, play_team, pool_scores, stack_agents
from omg.pools import Agent, Pool
from omg.tracking import Table, check_step, is_agent, load_seeds
from omg.training.adapting import check_adapted, load_adapted
from omg.training.device import prepare
from omg.training.saved import agent_at


def load(
    path: str | Path,
    *,
    step: int | None = None,
    obs_adapter: str = "none",
    say: Callable[[str], None] = print,
    trust: bool = False,
) -> Agent:
    """Loads the best agent of a run folder, or any agent folder.

    Args:
        path: a run or an agent.
        step: of a run: the agent of its first seed at that saved step, or at the last one before it; 0: the newest.
        obs_adapter: `learn` lets an agent that was trained with `obs_is_state` play without the state: a linear map
            estimates it from observations. It is fitted in games of the agent and kept in its folder.
        say: told how good the map is, in one line.
        trust: open the game that it names even if it is of an unknown package, whose code then runs.

    Raises:
        UserError: there is no such agent or step (names the steps that are saved), or nothing to adapt.
    """
    prepare(use_cuda=True)
    with trusting(trust):
        agent = _load(path, step, obs_adapter, say)
    if obs_adapter == "learn":
        check_adapted([agent])
    return agent


def _load(path: str | Path, step: int | None, obs_adapter: str, say: Callable[[str], None]) -> Agent:
    if step is None:
        return load_adapted(path, obs_adapter, say)
    check_step(obs_adapter)
    return agent_at(Path(path), step)


def evaluate(
    agent: Agent | Run | str | Path,
    *,
    pool: str | Path | None = None,
    group: str | None = None,
    pool_set: str = "heldout",
    episodes: int | None = None,
    seed: int = 0,
    greedy: bool = True,
    which: str | None = None,
    step: int | None = None,
    obs_adapter: str = "none",
    say: Callable[[str], None] = print,
    trust: bool = False,
) -> Table:
    """Plays an agent in all seats of its own game or, with a pool, in one seat beside players of that pool.

    Args:
        agent: an agent, or the folder of an agent or of a run (of its first seed plays the `which` agent).
        pool: folder of the pool that the team-mates are taken from.
        group: how they are put together, e.g. `7_homologue` (see `omg.evaluation.groups`); None for all groups.
        pool_set: set of the pool: `training`, `validation` or `heldout`.
        episodes: number of episodes (256), or with a pool of episodes per team (100).
        seed: of teams and games; two agents evaluated with the same seed play the same teams from the same starts.
        greedy: best actions instead of exploring ones.
        which: `last` (the default) or `best` agent of a run; only for runs.
        step: of a run: its agent at that saved step, as for `load`.
        obs_adapter: `learn` lets everybody who was trained with `obs_is_state` play from observations; see `load`.
        say: told how good the maps are.
        trust: open the game that the folders name even if it is of an unknown package, whose code then runs.

    Returns:
        Without a pool one row per metric: metric, mean, std, low, high (95 % interval of the mean), episodes. With a
        pool tidy scores, one row per team and metric: agent, seed, group, team, episodes, metric, mean; hand them to
        `omg.evaluation.summarise`.

    Raises:
        UserError: there is no such agent, pool, set or group, or the agent and the pool do not fit.
        TypeError: `agent` is neither an agent nor a folder.
    """
    if isinstance(agent, Run):
        agent = agent.folder
    if not isinstance(agent, Agent | str | Path):
        raise TypeError(
            f"agent: got a {type(agent).__name__}, expected an agent (omg.load(FOLDER), run.agents), a run or its "
            "folder. A policy of your own plays in a loop over omg.make(...): see examples/play_random.py."
        )
    if which is not None and (isinstance(agent, Agent) or is_agent(agent)):
        raise UserError(f"which: got '{which}', but {agent} is one agent and no run. Leave which out.")
    if episodes is not None and episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: got {seed}, allowed: 0 to {2**32 - 1}.")
    if pool is None and group is not None:
        raise UserError(f"group: got '{group}', but there is no pool whose players could make it. Give pool=POOL.")
    with trusting(trust):
        return _evaluate(agent, pool, group, pool_set, episodes, seed, greedy, which, step, obs_adapter, say)


def _evaluate(
    agent: Agent | str | Path,
    pool: str | Path | None,
    group: str | None,
    pool_set: str,
    episodes: int | None,
    seed: int,
    greedy: bool,
    which: str | None,
    step: int | None,
    obs_adapter: str,
    say: Callable[[str], None],
) -> Table:
    prepare(use_cuda=True)
    if isinstance(agent, Agent) and agent.config.obs_is_state and obs_adapter == "learn":
        raise UserError("obs_adapter: give the agent's folder, or load it with omg.load(path, obs_adapter='learn').")
    if step is not None and isinstance(agent, Agent):
        raise UserError(f"step: got {step}, but the agent is loaded already. Give omg.load(RUN, step={step}).")
    if isinstance(agent, Agent):
        player = agent
    else:
        player = load_seeds(agent, which or "last", step=step, obs_adapter=obs_adapter, say=say)[0]
    epsilon = 0.0 if greedy else player.config.epsilon_finish
    if pool is None:
        if obs_adapter == "learn":
            check_adapted([player])
        return Table(play_team(player, 256 if episodes is None else episodes, seed, epsilon))
    mates = load_mates(Pool.open(pool), pool_set, player.config, player.env, obs_adapter, say)
    if obs_adapter == "learn":
        check_adapted([player], mates.adapted)
    rows = pool_scores(
        player.env,
        stack_agents([player.policy]),
        player.card.algorithm,
        (player.card.seed,),
        mates,
        None if group is None else (group,),
        100 if episodes is None else episodes,
        seed,
        epsilon=epsilon,
    )
    return Table(rows)
