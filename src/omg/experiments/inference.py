"""Does an agent infer anything about team-mates it has never met? Measured on games with one kind of team-mate each.

What is measured stands in `omg.evaluation.probes` (of all agents) and `omg.evaluation.subgoals`. Every seed of an agent
is measured by itself; intervals are over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import EpisodeBatch, lengths
from omg.components.measure import take
from omg.controllers.basic import BasicMAC
from omg.controllers.others import steps_of_others, subgoal_steps
from omg.controllers.places import PlaceErrors, PlaceReader, place_reader
from omg.envs import Env
from omg.evaluation import Mates, group_names, make_groups, record_group, stack_agents
from omg.evaluation.probes import (
    MEAN,
    MEMORY,
    MODEL,
    OBSERVATION,
    PROBES,
    ProbedGames,
    coming_steps,
    running_mean,
)
from omg.evaluation.rows import Seed
from omg.evaluation.statistics import score_interval
from omg.evaluation.subgoals import MEASURES, InferredGames, PlaceGames, slots_ahead
from omg.evaluation.tables import MeasureRow, MetricRow, OffsetRow
from omg.experiments.evaluation import Arena, Contestants
from omg.learners.subgoal_measures import tolerance_of
from omg.modules.agents import AGENTS
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent


def inference_rows(
    contestants: Contestants,
    arena: Arena,
    pool_set: str | None,
    *,
    episodes: int = 240,
    seed: int = 0,
    steps: int = 4000,
) -> list[MeasureRow]:
    """Probes of what agents know, with team-mates of one kind (the first group of the game), and of what subgoals say.

    Args:
        contestants: the seeds of one agent.
        arena: the game and the pool of team-mates.
        pool_set: set of the pool they are taken from; None for all.
        episodes: about how many in all, dealt evenly to the teams.
        seed: of the games and of the steps looked at.
        steps: most steps that the probes look at.

    Returns:
        One row per measure; none for players that search.
    """
    first = contestants.agents[0]
    if not isinstance(first.policy, BasicMAC):
        return []
    mates = arena.mates(pool_set, first.config)
    found: dict[str, list[float]] = {}
    for agent in contestants.agents:
        probed, inferred = _play(agent, arena.env, mates, episodes, seed, steps)
        known = {} if inferred is None else take(MEASURES, inferred)
        for name, value in {**known, **take(PROBES, probed)}.items():
            found.setdefault(name, []).append(value)
    rounds, model = arena.env.spec.round_steps is not None, first.policy.opponent_model
    words = {
        "policies": len(mates.members),
        "algorithms": len({member.algorithm for member in mates.members}),
        "ahead": "at the end of the round" if rounds else f"{first.config.omg_horizon} steps ahead",
        "tolerance": tolerance_of(model.prior) if isinstance(model, SubgoalModel) else 0,
    }
    meanings = {measure.name: measure.meaning for measure in MEASURES}
    meanings |= {measure.name: measure.meaning for measure in PROBES}
    return [
        _row(contestants.label, name, found[name], meaning.format(**words))
        for name, meaning in meanings.items()
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


def _play(
    agent: Agent, env: Env, mates: Mates, episodes: int, seed: int, steps: int
) -> tuple[ProbedGames, InferredGames | None]:
    """Records one agent, one at a time: whole episodes of all of them would fill the memory."""
    n_agents, config, policy = env.spec.n_agents, agent.config, agent.policy
    assert isinstance(policy, BasicMAC)
    group = make_groups(mates.members, n_agents, group_names(n_agents)[:1], seed)[0]
    each = max(-(-episodes // len(group.teams)), 2)
    rollout, team = record_group(env, stack_agents([policy]), mates, group, each, seed)
    assert rollout.batch is not None
    batch = jax.tree.map(lambda values: jnp.asarray(values[0]), rollout.batch)
    assert batch.seat is not None
    length = np.asarray(batch.filled.sum(axis=1))
    views, features, memory = _replayed(policy, batch)
    read, told, seats = steps_of_others(env.spec), subgoal_steps(config, env.spec), batch.seat[:, None]
    rounds = env.spec.round_steps
    slots = np.broadcast_to(np.arange(views.shape[1]), views.shape[:2])
    # The step that leads to a slot is taken in the one before.
    ahead = np.minimum(slots_ahead(slots, config.omg_horizon, rounds), length[:, None]) - 1
    next_seat = np.asarray((batch.seat + 1) % n_agents)
    games = np.arange(len(team))
    known = {OBSERVATION: views, MEAN: running_mean(views)}
    if AGENTS[config.agent].traits.recurrent:
        known[MEMORY] = memory
    if features is not None:
        known[MODEL] = features
    probed = ProbedGames(
        known=known,
        coming=coming_steps(
            np.asarray(read.places(batch))[games, :, next_seat],
            np.asarray(batch.actions)[games, :, next_seat],
            np.maximum(ahead, 0),
        ),
        length=length,
        team=team,
        steps=steps,
        seed=seed,
    )
    model = policy.opponent_model
    if not isinstance(model, SubgoalModel):
        return probed, None
    kinds = sorted({member.algorithm for member in mates.members})
    assert features is not None
    return probed, InferredGames(
        seen=views,
        subgoal=features,
        length=length,
        team=team,
        algorithm=np.asarray([kinds.index(member.algorithm) for member in mates.members]),
        prior=model.prior,
        horizon=config.omg_horizon,
        steps=steps,
        seed=seed,
        others=None if told is None else np.asarray(told.along(batch, seats))[:, :, 0],
        round_steps=rounds if config.omg_candidates == "rounds" else None,
        places=_placed(place_reader(config, env.spec), model, batch, features, seed),
    )


def _placed(
    reader: PlaceReader | None, model: SubgoalModel, batch: EpisodeBatch, subgoals: np.ndarray, seed: int
) -> PlaceGames | None:
    """What subgoals [B, T+1, D] tell of the others' places; None where they tell none."""
    if reader is None:
        return None
    assert batch.seat is not None
    seats, length, steps = batch.seat[:, None], lengths(batch), subgoals.shape[1] - 1
    inferred = jnp.asarray(subgoals)[:, :-1, None]
    # Played steps deal their subgoals to each other.
    played = np.argwhere(np.arange(steps) < np.asarray(length)[:, None])
    other = np.random.default_rng(seed).permutation(played)
    dealt = inferred.at[tuple(played.T)].set(inferred[tuple(other.T)])
    stood_for = reader.told.along(batch, seats) if reader.told is not None else batch.state[:, :, None]
    later = jnp.broadcast_to(reader.stands_for(jnp.arange(steps)[None], length[:, None]), (len(length), steps))
    came = jnp.take_along_axis(stood_for, later[..., None, None], axis=1)
    timed = jnp.broadcast_to(seats[:, None], inferred.shape[:-1])

    def errors(subgoal: Array) -> PlaceErrors:
        found = reader.errors(reader.guessed(model.prior, subgoal, timed), batch.state, seats, length)
        return PlaceErrors(*(values[:, :, 0] for values in found))

    return PlaceGames(errors(inferred), errors(dealt).guess, errors(model.prior.encode(came)[0]).guess)


@eqx.filter_jit
def _replay(policy: BasicMAC, batch: EpisodeBatch, seats: Array) -> tuple[Array, Array | None, Array]:
    views = policy.reading.episodes(batch, seats)
    model, inferred = policy.opponent_model, None
    if model is not None:
        inferred = model.features(model.unroll(views.model_inputs()), None)
    _, memory = views.run(policy.agent, policy.reading.features(model, views, inferred))
    return views.model_inputs().seen, inferred, memory


def _replayed(policy: BasicMAC, batch: EpisodeBatch) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """What an agent saw, what its opponent model said (None without one) and what it remembered: [B, T+1, ...] each."""
    assert batch.seat is not None
    seen, inferred, memory = _replay(policy, batch, batch.seat[:, None])
    own = [None if values is None else np.asarray(values)[:, :, 0] for values in (seen, inferred, memory)]
    assert own[0] is not None
    assert own[2] is not None
    return own[0], own[1], own[2]


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
