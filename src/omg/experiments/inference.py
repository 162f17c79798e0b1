"""Does an agent infer anything about team-mates it has never met? Measured on games with one kind of team-mate each.

What is measured stands in `omg.evaluation.subgoals`. Every seed of an agent is measured by itself; intervals are over
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omg.components.measure import take
from omg.controllers.base import ModelsOthers
from omg.envs import Env
from omg.evaluation import Mates, group_names, make_groups, record_group, stack_agents
from omg.evaluation.rows import Seed
from omg.evaluation.statistics import score_interval
from omg.evaluation.subgoals import MEASURES, InferredGames
from omg.evaluation.tables import MeasureRow, MetricRow, OffsetRow
from omg.experiments.evaluation import Arena, Contestants
from omg.learners.subgoal_measures import tolerance_of
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent


def infers_subgoals(agent: Agent) -> bool:
    """Whether there is anything to measure here."""
    return isinstance(agent.policy, ModelsOthers) and isinstance(agent.policy.opponent_model, SubgoalModel)


def inference_rows(
    contestants: Contestants,
    arena: Arena,
    pool_set: str | None,
    *,
    episodes: int = 240,
    seed: int = 0,
    steps: int = 4000,
) -> list[MeasureRow]:
    """Measures of agents that infer subgoals, with team-mates of one kind (the first group of the game).

    Args:
        contestants: the seeds of one agent.
        arena: the game and the pool of team-mates.
        pool_set: set of the pool they are taken from; None for all.
        episodes: about how many in all, dealt evenly to the teams.
        seed: of the games and of the steps looked at.
        steps: most steps that the probes look at.

    Returns:
        One row per measure; none for other agents.
    """
    first = contestants.agents[0]
    if not infers_subgoals(first):
        return []
    mates = arena.mates(pool_set, first.config)
    found: dict[str, list[float]] = {}
    for agent in contestants.agents:
        for name, value in take(MEASURES, _play(agent, arena.env, mates, episodes, seed, steps)).items():
            found.setdefault(name, []).append(value)
    words = {
        "policies": len(mates.members),
        "algorithms": len({member.algorithm for member in mates.members}),
        "horizon": first.config.omg_horizon,
        "tolerance": tolerance_of(first.policy.opponent_model.prior),
    }
    return [
        _row(contestants.label, measure.name, found[measure.name], measure.meaning.format(**words))
        for measure in MEASURES
        if measure.name in found
    ]


def _row(label: str, measure: str, by_seed: Sequence[float], meaning: str) -> MeasureRow:
    estimate = score_interval(np.asarray(by_seed)[:, None], resample="seeds")
    return MeasureRow(
        agent=label,
        measure=measure,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        seeds=len(by_seed),
        meaning=meaning,
    )


def _play(agent: Agent, env: Env, mates: Mates, episodes: int, seed: int, steps: int) -> InferredGames:
    """Records one agent, one at a time: whole episodes of all of them would fill the memory."""
    n_agents = env.spec.n_agents
    group = make_groups(mates.members, n_agents, group_names(n_agents)[:1], seed)[0]
    each = max(-(-episodes // len(group.teams)), 2)
    rollout, team = record_group(env, stack_agents([agent.policy]), mates, group, each, seed)
    batch = rollout.batch
    assert batch is not None
    assert batch.seat is not None
    subgoal, filled = np.asarray(batch.records["infer_mu"])[0, :, :, 0], np.asarray(batch.filled)[0]
    obs, seat = np.asarray(batch.obs)[0], np.asarray(batch.seat)[0]
    views = np.asarray(batch.state)[0] if agent.config.obs_is_state else obs[np.arange(len(team)), :, seat]
    kinds = sorted({member.algorithm for member in mates.members})
    return InferredGames(
        seen=views,
        subgoal=subgoal,
        length=filled.sum(axis=1),
        team=team,
        algorithm=np.asarray([kinds.index(member.algorithm) for member in mates.members]),
        prior=agent.policy.opponent_model.prior,
        horizon=agent.config.omg_horizon,
        steps=steps,
        seed=seed,
    )


def control_rows(label: str, metrics: Sequence[MetricRow], metric: str) -> list[MeasureRow]:
    """What a run's own controls say: how much worse the agent is without its features, or with another game's.

    Args:
        label: of the agent.
        metrics: of its training.
        metric: of the game, e.g. `battle_won`.
    """
    meanings = {
        "zero": f"loss of {metric} when the opponent model's features are replaced by zeros, with training team-mates",
        "shuffled": f"loss of {metric} when the features are those of another game, with training team-mates",
    }
    rows = []
    for control, meaning in meanings.items():
        last = {row.seed: row.value for row in metrics if row.name == f"test_{control}_{metric}_drop"}
        if last:
            rows.append(_row(label, f"{control} features", list(last.values()), meaning))
    return rows


def offset_rows(label: str, metrics: Sequence[MetricRow]) -> list[OffsetRow]:
    """How many steps ahead the subgoals lay that were selected last in training."""
    last: dict[tuple[int, Seed], float] = {}
    for row in metrics:
        offset = row.name.removeprefix("omg_offset_")
        if offset != row.name and offset.isdigit():
            last[int(offset), row.seed] = row.value
    offsets = sorted({offset for offset, _ in last})
    return [
        OffsetRow(
            agent=label,
            offset=offset,
            count=round(1000 * float(np.mean([value for (one, _), value in last.items() if one == offset]))),
        )
        for offset in offsets
    ]
