"""What agents earn in their first episodes with co-players they have never met: all of them, measured and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from omg.errors import UserError
from omg.evaluation import group_names
from omg.evaluation.rows import write_rows
from omg.evaluation.tables import AdaptationRow, ClosedRow, EpisodeRow, ScoreRow
from omg.experiments.adaptation.drawing import plot_adaptation
from omg.experiments.adaptation.meeting import Meeting, Rules, Say
from omg.experiments.adaptation.scores import BEST_RESPONSE, RANDOM, adaptation_summary, episode_scores
from omg.experiments.adaptation.setup import Entrant, check_seat, gather_teams, load_entrant
from omg.experiments.room.keeping import find_response
from omg.experiments.room.reading import closed_of, earned_metric
from omg.pools import Agent, Pool
from omg.training.device import prepare


class Adaptation(NamedTuple):
    """What came of it."""

    rows: list[EpisodeRow]
    """Of all episodes; see `omg.experiments.adaptation.scores`."""
    summary: list[AdaptationRow]
    closed: Sequence[ClosedRow] = ()
    """How much of the pool's room agents close; nothing where it was not measured with these co-players."""


def adapt(
    agents: Mapping[str, str | Path],
    *,
    pool: str | Path | None = None,
    pool_set: str = "heldout",
    players: Sequence[str] = (),
    mixtures: bool = False,
    rules: Rules | None = None,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    frozen: bool = False,
    which: str = "last",
    best_response: Sequence[str | Path] = (),
    best_response_steps: int = 0,
    say: Say = lambda message: None,
) -> Adaptation:
    """Measures the adaptation of several agents to the same co-players, from the same starts.

    Args:
        agents: label -> run, agent's folder or `POOL:member`.
        pool: whose members are met.
        pool_set: set of the pool.
        players: scripted co-players besides.
        mixtures: whether teams of different co-players are met as well.
        rules: how long, how often and from where.
        settings: label -> dotted configuration keys that differ from the agent's training.
        frozen: whether nobody learns any more.
        which: `last` or `best` agent of each training seed.
        best_response: agents like those above; with each co-player the best of them, frozen, is the 1 of the scale.
        best_response_steps: environment steps that a best response to each co-player is trained for, by PPO, instead.
            Without either, those that `omg room` has left in the pool are taken, if it has one for each co-player.
        say: told what is done.

    Raises:
        UserError: somebody is missing, was made for another game, or cannot go on with these settings.
    """
    if not agents:
        raise UserError("AGENT: give at least one.")
    for label in (RANDOM, BEST_RESPONSE):
        if label in agents:
            raise UserError(f"AGENT: '{label}' names an end of the scale; choose another label, LABEL=AGENT.")
    if best_response and best_response_steps:
        raise UserError("best_response: got agents and steps to train one; give one of the two.")
    prepare(use_cuda=True)
    own = settings or {}
    entrants = [
        load_entrant(label, source, own.get(label), frozen=frozen, which=which) for label, source in agents.items()
    ]
    rules = rules or Rules()
    env = entrants[0].brought[0].agent.env
    seat = check_seat(env, rules.seat)
    opened = None if pool is None else Pool.open(pool)
    teams = gather_teams(env, opened, pool_set, players, mixtures=mixtures, seat=seat, seed=rules.seed)
    # Whoever marks the scale was trained elsewhere and plays as it is.
    best = [load_entrant(str(source), source, frozen=True, which=which) for source in best_response]
    meeting = Meeting(entrants[0].brought[0].agent.config, env, teams, rules, most_seeds(entrants, rules))
    for entrant in (*entrants, *best):
        meeting.check(entrant)
    rows = [row for entrant in entrants for row in meeting.agent_rows(entrant, say)]
    rows += meeting.random_rows(say)
    if best:
        rows += meeting.best_rows(best, say)
    elif best_response_steps:
        rows += meeting.trained_best_rows(best_response_steps, say)
    elif opened is not None and (kept := kept_responses(opened, teams.names)):
        rows += meeting.kept_best_rows(kept, say)
    closed = [] if opened is None else adaptation_closed(opened, pool_set, rows)
    return Adaptation(rows, adaptation_summary(rows), closed)


def kept_responses(pool: Pool, co_players: Sequence[str]) -> list[Agent]:
    """The best responses that `omg room` has left in a pool, one for each co-player; none unless it has them all."""
    found = [find_response(pool, team_of(pool, name)) for name in co_players]
    return [] if None in found else [one.load() for one in found if one is not None]


def adaptation_closed(pool: Pool, which: str, rows: Sequence[EpisodeRow]) -> list[ClosedRow]:
    """How much of the room agents close in their episodes, if it was measured by what a seat earns.

    Args:
        pool: whose members are met.
        which: their set.
        rows: of all episodes.
    """
    metric = earned_metric(pool.path)
    group = group_names(pool.spec.n_agents)[0]
    scores = [
        ScoreRow.extended(row, group=group, team=team_of(pool, row.team), metric=metric)
        for row in episode_scores(rows)
        if row.agent not in (RANDOM, BEST_RESPONSE)
    ]
    return closed_of(pool.path, which, metric, scores)


def team_of(pool: Pool, co_player: str) -> str:
    """What a co-player in all other seats is called as a team; teams of several are called so already."""
    return co_player if "+" in co_player else f"{pool.spec.n_agents - 1}x{co_player}"


def most_seeds(entrants: Sequence[Entrant], rules: Rules) -> int:
    """Repetitions for everybody; who has fewer training seeds uses them several times."""
    return rules.seeds or max(len(entrant.brought) for entrant in entrants)


def write_adaptation(folder: Path, rows: Sequence[EpisodeRow], names: Mapping[str, str] | None = None) -> list[Path]:
    """Writes `adaptation.csv`, `summary.csv` and `adaptation.png`; returns their paths.

    Raises:
        UserError: a file cannot be written.
    """
    tables = folder / "adaptation.csv", folder / "summary.csv"
    write_rows(tables[0], rows, EpisodeRow.names())
    write_rows(tables[1], adaptation_summary(rows), AdaptationRow.names())
    return [*tables, plot_adaptation(rows, folder / "adaptation.png", names=names)]
