"""Does an agent infer anything about team-mates it has never met? Measured on games with one kind of team-mate each.

Three questions about the subgoal ĝ that the agent infers at every step:

- *Who are they?* A linear probe reads the team-mates' policy, and their algorithm, off ĝ and, for comparison, off the
  present observation. Episodes are on one side of the split only. A subgoal that is ahead of the observation has taken
  something about the others from the history.
- *Where do they go?* ĝ is decoded to a view; is that closer to the view H steps ahead than the present view is?
- *Does it come true?* The subgoal hit ratio.

Every seed of an agent is measured by itself; intervals are over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from omg.envs import Env
from omg.evaluation import (
    Mates,
    closer_than_now,
    group_names,
    make_groups,
    probe_gain,
    record_group,
    stack_agents,
    subgoal_hit_ratio,
)
from omg.evaluation.rows import Seed
from omg.evaluation.statistics import score_interval
from omg.evaluation.tables import MeasureRow, MetricRow, OffsetRow
from omg.experiments.evaluation import Arena, Contestants
from omg.learners.subgoal_measures import comparable, tolerance_of
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent

_PARTS = 5
"""Parts into which the probes deal the episodes."""

MEANINGS = {
    "policy named by the subgoal": "accuracy of a linear probe that names the team-mates' policy ({policies} of them)",
    "policy named by the observation": "the same probe on the present observation",
    "policy gain": "the first minus the second: above 0, the subgoal knows who the others are from the history",
    "algorithm named by the subgoal": "accuracy of a linear probe that names their algorithm ({algorithms} of them)",
    "algorithm named by the observation": "the same probe on the present observation",
    "algorithm gain": "the first minus the second",
    "future gain": "distance to the view {horizon} steps ahead: present view minus decoded subgoal, in deviations; "
    "above 0, the subgoal looks ahead",
    "closer to the future": "share of steps in which the decoded subgoal is closer to that view than the present",
    "hit ratio": "share of an episode's views that a decoded subgoal named in time, within {tolerance} deviations",
}
"""Measure -> what it says; in this order."""


class InferredGames(NamedTuple):
    """What one agent saw and inferred in B games, T+1 time slots each."""

    seen: np.ndarray
    """[B, T+1, O] its view."""
    subgoal: np.ndarray
    """[B, T+1, D] the mean of its inferred subgoal."""
    length: np.ndarray
    """[B] steps played; there is one view more."""
    team: np.ndarray
    """[B] number of the team."""


def infers_subgoals(agent: Agent) -> bool:
    """Whether there is anything to measure here."""
    return isinstance(getattr(agent.policy, "opponent_model", None), SubgoalModel)


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
        played = _play(agent, arena.env, mates, episodes, seed)
        for name, value in (_probes(played, mates, steps, seed) | _future(agent, played, steps, seed)).items():
            found.setdefault(name, []).append(value)
    words = {
        "policies": len(mates.members),
        "algorithms": len({member.algorithm for member in mates.members}),
        "horizon": first.config.omg_horizon,
        "tolerance": tolerance_of(first.policy.opponent_model.prior),
    }
    return [
        _row(contestants.label, name, found[name], meaning.format(**words))
        for name, meaning in MEANINGS.items()
        if name in found
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


def _play(agent: Agent, env: Env, mates: Mates, episodes: int, seed: int) -> InferredGames:
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
    return InferredGames(views, subgoal, filled.sum(axis=1), team)


def _probes(played: InferredGames, mates: Mates, steps: int, seed: int) -> dict[str, float]:
    """How well team-mates are named, by what there is to tell apart."""
    game, slot = _some_steps(played, steps, seed)
    subgoals, views = played.subgoal[game, slot], played.seen[game, slot]
    algorithms = sorted({member.algorithm for member in mates.members})
    of_team = np.asarray([algorithms.index(member.algorithm) for member in mates.members])
    measures: dict[str, float] = {}
    for what, labels in (("policy", played.team[game]), ("algorithm", of_team[played.team[game]])):
        if len(np.unique(labels)) > 1 and len(np.unique(game)) >= _PARTS:
            gain = probe_gain(subgoals, views, labels, game, folds=_PARTS, seed=seed)
            measures |= {
                f"{what} named by the subgoal": gain.features.accuracy.value,
                f"{what} named by the observation": gain.baseline.accuracy.value,
                f"{what} gain": gain.accuracy.value,
            }
    return measures


def _future(agent: Agent, played: InferredGames, steps: int, seed: int) -> dict[str, float]:
    """How decoded subgoals compare with the present view as a guess of what comes, in the prior's normalised units."""
    prior = agent.policy.opponent_model.prior
    seen = np.asarray(prior.normalise(jnp.asarray(played.seen)))
    decoded = np.asarray(prior.decode_normalised(jnp.asarray(played.subgoal)))
    scale = np.ones(seen.shape[-1])
    game, slot = _some_steps(played, steps, seed)
    ahead = np.minimum(slot + agent.config.omg_horizon, played.length[game])
    closeness = closer_than_now(decoded[game, slot], seen[game, slot], seen[game, ahead], game, scale)
    guesses, views = (np.asarray(values) for values in comparable(prior, jnp.asarray(decoded), jnp.asarray(seen)))
    hits = subgoal_hit_ratio(
        guesses,
        views,
        played.length + 1,
        np.ones(views.shape[-1]),
        tolerance_of(prior),
        predictions=played.length,
    )
    return {
        "future gain": closeness.gain.value,
        "closer to the future": closeness.share,
        "hit ratio": float(hits.mean()),
    }


def _some_steps(played: InferredGames, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Game and slot of at most `steps` played steps, drawn evenly."""
    slots = np.arange(played.seen.shape[1])
    game, slot = np.nonzero(slots[None] < played.length[:, None])
    if len(game) > steps:
        kept = np.sort(np.random.default_rng(seed).choice(len(game), steps, replace=False))
        game, slot = game[kept], slot[kept]
    return game, slot


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
