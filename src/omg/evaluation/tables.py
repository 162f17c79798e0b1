"""Every kind of row that is computed, written, read and shown, with its columns: here and nowhere else.

A column's name is the one in CSV files and dictionaries, its heading the one on the screen and on pages.
`docs/evaluation.md` lists the same columns; a test holds the two together.
"""

from __future__ import annotations

from omg.evaluation.rows import Field, Seed, TableRow, label, real, text, whole

_LOW, _HIGH = "lower end of the 95 % interval", "upper end of the 95 % interval"


class MetricRow(TableRow):
    """A number that a run logged."""

    seed: Field[Seed] = label("seed", "training seed")
    t_env: Field[int] = whole("t_env", "environment steps so far")
    name: Field[str] = text("name", "of the metric")
    value: Field[float] = real("value", "what it was")


class SpeedRow(TableRow):
    """How fast a run was."""

    t_env: Field[int] = whole("t_env", "environment steps so far")
    steps: Field[float] = real("steps/s", "environment steps per second", name="env_steps_per_second")
    updates: Field[float] = real("updates/s", "updates per second", name="updates_per_second")
    host: Field[float] = real("host", "share of the time outside the compiled program", name="host_share")


class StageTimeRow(TableRow):
    """How long a stage of a pipeline took."""

    stage: Field[str] = text("stage", "of the pipeline")
    seconds: Field[float] = real("seconds", "wall time, of all times together")


class ScoreRow(TableRow):
    """What one trained seed of an agent reached with one team: the tidy scores of an evaluation."""

    agent: Field[str] = text("agent", "label of the run or of the agent", form="agent")
    seed: Field[Seed] = label("seed", "training seed; -1: a scripted player, which nobody trained")
    group: Field[str] = text("group", "kind of team, e.g. `6_homologue`", form="group")
    team: Field[str] = text("team", "the team-mates, e.g. `6xqmix_s7+1xiql_s9`")
    episodes: Field[int] = whole("episodes", "how many were played")
    metric: Field[str] = text("metric", "`return`, `ep_length`, `own_return` or one of the game's")
    mean: Field[float] = real("{metric}", "over the episodes", form="score")


class SetScoreRow(ScoreRow):
    """What one trained seed of an agent reached with one team of one set: the tidy scores of a pipeline."""

    set: Field[str] = text("set", "of the pool that the team-mates are taken from", first=True)


class SelfPlayScoreRow(ScoreRow):
    """What one seed of an agent reached in all seats, in the last test of its training."""

    steps: Field[int] = whole("steps", "environment steps of the training so far")


class SummaryRow(TableRow):
    """How one agent does with one group of teams."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    group: Field[str] = text("group", "of teams", form="group")
    metric: Field[str] = text("metric", "what the numbers are")
    seeds: Field[int] = whole("seeds", "trainings")
    teams: Field[int] = whole("teams", "teams of the group")
    episodes: Field[int] = whole("episodes", "of all seeds and teams together")
    mean: Field[float] = real("{metric}", "over seeds and teams", form="score", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over seeds; nan below three seeds", form="score")
    high: Field[float] = real("high", f"{_HIGH}, over seeds; nan below three seeds", form="score")
    iqm: Field[float] = real(
        "IQM", "mean of the middle half of all seeds and teams", form="score", interval=("iqm_low", "iqm_high")
    )
    iqm_low: Field[float] = real("IQM low", f"{_LOW} of the interquartile mean", form="score")
    iqm_high: Field[float] = real("IQM high", f"{_HIGH} of the interquartile mean", form="score")
    worst_team: Field[str] = text("worst team", "the team that the agent does worst with")
    worst: Field[float] = real(
        "worst team", "its mean over seeds", form="score", name="worst_team_mean", named_by="worst_team"
    )


class SetSummaryRow(SummaryRow):
    """How one agent does with one group of teams of one set."""

    set: Field[str] = text("set", "of the pool that the team-mates are taken from", first=True)


class ComparisonRow(TableRow):
    """An agent against a baseline on the same teams of one group."""

    agent: Field[str] = text("agent", "the agent in question", form="agent")
    baseline: Field[str] = text("baseline", "whom it is compared with", form="agent")
    group: Field[str] = text("group", "of teams", form="group")
    metric: Field[str] = text("metric", "what the numbers are")
    seeds: Field[int] = whole("seeds", "trainings of the agent")
    baseline_seeds: Field[int] = whole("baseline's seeds", "trainings of the baseline")
    teams: Field[int] = whole("teams", "teams that both have met")
    episodes: Field[int] = whole("episodes", "of both")
    mean: Field[float] = real("{metric}", "of the agent, over seeds and teams", form="score")
    baseline_mean: Field[float] = real("baseline's {metric}", "of the baseline, over seeds and teams", form="score")
    difference: Field[float] = real(
        "difference",
        "agent minus baseline, in the metric's own units",
        form="difference",
        interval=("low", "high"),
    )
    low: Field[float] = real("low", f"{_LOW} of the difference", form="difference")
    high: Field[float] = real("high", f"{_HIGH} of the difference", form="difference")
    p_improvement: Field[float] = real(
        "P(improvement)",
        "how often a training of the agent does better than one of the baseline with the same team",
        form="share",
        interval=("p_low", "p_high"),
    )
    p_low: Field[float] = real("P low", f"{_LOW} of that probability", form="share")
    p_high: Field[float] = real("P high", f"{_HIGH} of that probability", form="share")
    interval_over: Field[str] = text("interval over", "what the intervals resample: `seeds`, or `seeds and teams`")
    verdict: Field[str] = text("verdict", "`better`, `worse`, or `no difference shown` where the interval holds 0")


class TeamRow(TableRow):
    """How one agent does with one team, over its seeds."""

    group: Field[str] = text("group", "of teams", form="group")
    team: Field[str] = text("team", "the team-mates")
    agent: Field[str] = text("agent", "label of the agent", form="agent")
    metric: Field[str] = text("metric", "what the numbers are")
    seeds: Field[int] = whole("seeds", "trainings")
    mean: Field[float] = real("{metric}", "over seeds", form="score")
    lowest: Field[float] = real("lowest", "seed", form="score")
    highest: Field[float] = real("highest", "seed", form="score")


class SelfPlayRow(TableRow):
    """How one agent does in all seats."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    metric: Field[str] = text("metric", "what the numbers are")
    seeds: Field[int] = whole("seeds", "trainings")
    steps: Field[int] = whole("steps", "environment steps that all its seeds have come to")
    episodes: Field[int] = whole("episodes", "of all seeds")
    mean: Field[float] = real("{metric}", "over seeds, of the last tests", form="score", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over seeds", form="score")
    high: Field[float] = real("high", f"{_HIGH}, over seeds", form="score")
    lowest: Field[float] = real("lowest", "seed", form="score")
    highest: Field[float] = real("highest", "seed", form="score")


class AloneRow(TableRow):
    """One metric of an agent that plays in all seats: `omg evaluate` without a pool."""

    metric: Field[str] = text("metric", "what the numbers are")
    mean: Field[float] = real("mean", "over episodes", interval=("low", "high"))
    std: Field[float] = real("std", "standard deviation over episodes")
    low: Field[float] = real("low", f"{_LOW} of the mean, over episodes")
    high: Field[float] = real("high", f"{_HIGH} of the mean, over episodes")
    episodes: Field[int] = whole("episodes", "how many were played")


class CrossPlayRow(TableRow):
    """One player among copies of another."""

    agent: Field[str] = text("agent", "who has one seat", form="agent")
    mate: Field[str] = text("team-mates", "who has all other seats", form="agent")
    metric: Field[str] = text("metric", "what the number is")
    mean: Field[float] = real("{metric}", "over episodes, and over the seeds of an agent", form="score")
    episodes: Field[int] = whole("episodes", "how many were played")


class ToldApartRow(TableRow):
    """How soon a team could be told from the other teams of its group by what it does."""

    group: Field[str] = text("group", "of teams, all equally likely beforehand", form="group")
    team: Field[str] = text("team", "who it was")
    episodes: Field[int] = whole("episodes", "games with it")
    reached: Field[float] = real("told apart", "share of the games in which its posterior reaches 0.9", form="share")
    steps: Field[float] = real("after steps", "until then, median of those games; nan without any")
    posterior: Field[float] = real("posterior", "of the true team when the game is over, mean", form="share")
    same_as: Field[str] = text("same as", "teams that were as likely in every step of all these games")


class AnswerRow(TableRow):
    """Who answers a partner that a belief is about."""

    partner: Field[str] = text("partner", "member of the training set")
    answer: Field[str] = text("answer", "who does best with it: a response trained for it, a member or a script")
    mean: Field[float] = real("mean", "of what counts in a room, with the partner, over the episodes")


class DuelRow(TableRow):
    """Two teams against each other."""

    left: Field[str] = text("left", "whose victories count as won", form="agent")
    right: Field[str] = text("right", "its opponent", form="agent")
    metric: Field[str] = text(
        "metric", "shares `won`, `drawn`, `lost`, `won_west`, `won_east` of the left team; `ep_length`"
    )
    mean: Field[float] = real("mean", "over battles", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW} over battles; nan of lengths")
    high: Field[float] = real("high", f"{_HIGH} over battles; nan of lengths")
    episodes: Field[int] = whole("battles", "how many were fought")


class MeasureRow(TableRow):
    """What the subgoals of an agent know, or what its features are worth."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    measure: Field[str] = text("measure", "its name")
    value: Field[float] = real("value", "mean over seeds", form="measure", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over seeds", form="measure")
    high: Field[float] = real("high", f"{_HIGH}, over seeds", form="measure")
    seeds: Field[int] = whole("seeds", "trainings")
    meaning: Field[str] = text("meaning", "what the number says")


class OffsetRow(TableRow):
    """How often a state so many steps ahead was selected as the subgoal."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    offset: Field[int] = whole("offset", "steps ahead, 1 to the horizon")
    count: Field[int] = whole("count", "selections of 1000")


class ToyRow(TableRow):
    """One measurement of one table of values."""

    view: Field[str] = text("view", "what a state is: `own` cell or `joint`, both cells")
    context: Field[str] = text("context", "what else the table is told: `subgoal`, `action` or `none`")
    seed: Field[Seed] = label("seed", "number of the table")
    episodes: Field[int] = whole("episodes", "games learned from so far")
    metric: Field[str] = text("metric", "`return`, `of_optimum` or `formed`")
    value: Field[float] = real("value", "what it was")


class EpisodeRow(TableRow):
    """What an agent earned in one of its first episodes with somebody new."""

    agent: Field[str] = text("agent", "label; `random` and `best_response` mark the ends of the scale", form="agent")
    seed: Field[int] = whole("seed", "repetition", form="text")
    co_player: Field[str] = text("co-player", "who has all other seats, or a team of several")
    episode: Field[int] = whole("episode", "from 1")
    reward: Field[float] = real("own reward", "what the agent itself earned")


class AdaptationRow(TableRow):
    """How an agent does in its first episodes with one co-player, or with all of them."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    co_player: Field[str] = text("co-player", "whom it met; `all`: the mean over everybody")
    seeds: Field[int] = whole("seeds", "repetitions")
    episodes: Field[int] = whole("episodes", "with each co-player")
    mean: Field[float] = real("own reward", "over all episodes", interval=("mean_low", "mean_high"))
    mean_low: Field[float] = real("low", f"{_LOW}, over seeds; nan below three seeds")
    mean_high: Field[float] = real("high", f"{_HIGH}, over seeds; nan below three seeds")
    last_quarter: Field[float] = real(
        "last quarter", "over the last quarter of the episodes", interval=("last_quarter_low", "last_quarter_high")
    )
    last_quarter_low: Field[float] = real("low", f"{_LOW} of the last quarter")
    last_quarter_high: Field[float] = real("high", f"{_HIGH} of the last quarter")
    normalised: Field[float] = real(
        "normalised",
        "between a random player (0) and the scale's upper end (1); nan where that earns no more",
        interval=("normalised_low", "normalised_high"),
    )
    normalised_low: Field[float] = real("low", f"{_LOW} of the normalised score")
    normalised_high: Field[float] = real("high", f"{_HIGH} of the normalised score")
    last_quarter_normalised: Field[float] = real(
        "last quarter, normalised",
        "the same over the last quarter of the episodes",
        interval=("last_quarter_normalised_low", "last_quarter_normalised_high"),
    )
    last_quarter_normalised_low: Field[float] = real("low", f"{_LOW} of that")
    last_quarter_normalised_high: Field[float] = real("high", f"{_HIGH} of that")
    scale: Field[str] = text("scale", "what 1 is: `best response` or `best agent compared`")


class ResponseRow(TableRow):
    """What one responder earns with one partner: a cell of the response matrix."""

    set: Field[str] = text("set", "of the pool that the partner is made of")
    group: Field[str] = text("group", "kind of team, e.g. `1_partner`", form="group")
    partner: Field[str] = text("partner", "the team in the other seats")
    responder: Field[str] = text("responder", "who answers it; `response:PARTNER` was trained for that partner")
    kind: Field[str] = text("kind", "`member`, `script`, `response` (trained for one partner) or `mixture`")
    metric: Field[str] = text("metric", "what the numbers are")
    episodes: Field[int] = whole("episodes", "how many were played")
    mean: Field[float] = real("{metric}", "over the episodes", form="score")
    error: Field[float] = real("error", "standard error of the mean")
    first_half: Field[float] = real("first half", "mean over the first half of the episodes", form="score")
    second_half: Field[float] = real("second half", "mean over the second half", form="score")


class TrainedResponseRow(TableRow):
    """How the training of a best response went."""

    partner: Field[str] = text("partner", "whom it was trained for; `mixture`: all training partners in turn")
    restarts: Field[int] = whole("restarts", "trainings, of which the best is kept")
    steps: Field[int] = whole("steps", "environment steps of each")
    budget: Field[int] = whole("budget", "environment steps allowed")
    metric: Field[str] = text("metric", "what was tested")
    mean: Field[float] = real("{metric}", "of the kept one in its best test", form="score")
    error: Field[float] = real("error", "standard error of that test")
    curve: Field[str] = text("curve", "`flat`, or `not converged` when the budget ended")
    stand_in: Field[str] = text("stand-in", "a responder that does better with that partner and counts instead")
    ahead: Field[float] = real("ahead", "how far the stand-in is ahead", form="difference")


class RoomRow(TableRow):
    """What there is to gain from knowing the partners of one group."""

    pool: Field[str] = text("pool", "whose partners; `all`: the mean over several pools")
    set: Field[str] = text("set", "of the pool that the partners are made of")
    group: Field[str] = text("group", "kind of team", form="group")
    metric: Field[str] = text("metric", "what the numbers are")
    partners: Field[int] = whole("partners", "teams")
    responders: Field[int] = whole("responders", "rows of the response matrix")
    episodes: Field[int] = whole("episodes", "of each responder with each partner")
    floor: Field[float] = real("floor", "a random player's mean", form="score", interval=("floor_low", "floor_high"))
    floor_low: Field[float] = real("low", f"{_LOW}, over partners, or over pools", form="score")
    floor_high: Field[float] = real("high", f"{_HIGH}", form="score")
    best_fixed: Field[float] = real(
        "best fixed", "mean of the best row", form="score", interval=("best_fixed_low", "best_fixed_high")
    )
    best_fixed_low: Field[float] = real("low", f"{_LOW} of best fixed", form="score")
    best_fixed_high: Field[float] = real("high", f"{_HIGH} of best fixed", form="score")
    best_fixed_is: Field[str] = text("best fixed is", "the responder of that row")
    chosen_on: Field[str] = text("chosen on", "the set whose partners the row was chosen on")
    ceiling: Field[float] = real(
        "ceiling",
        "mean over partners of the best responder's score",
        form="score",
        interval=("ceiling_low", "ceiling_high"),
    )
    ceiling_low: Field[float] = real("low", f"{_LOW} of the ceiling", form="score")
    ceiling_high: Field[float] = real("high", f"{_HIGH} of the ceiling", form="score")
    room: Field[float] = real("room", "ceiling minus best fixed", form="difference", interval=("room_low", "room_high"))
    room_low: Field[float] = real("low", f"{_LOW} of the room", form="difference")
    room_high: Field[float] = real("high", f"{_HIGH} of the room", form="difference")
    share: Field[float] = real(
        "share", "room as a share of ceiling minus floor", form="share", interval=("share_low", "share_high")
    )
    share_low: Field[float] = real("low", f"{_LOW} of the share", form="share")
    share_high: Field[float] = real("high", f"{_HIGH} of the share", form="share")
    mixture: Field[float] = real("mixture", "mean of the agent trained on the mixture; nan: none", form="score")
    told_apart: Field[float] = real("told apart after", "steps until the true partner is 0.9 likely; nan: never")
    told_share: Field[float] = real("told apart", "share of the games in which it comes to that; nan: not known")
    exact: Field[float] = real("exact optimum", "return of the best answer to an unknown partner; nan: not computed")
    worth: Field[float] = real("worth of knowing", "exact: told who it is minus memoryless; nan: not computed")


class ClosedRow(TableRow):
    """How much of the room one agent closes with one group of teams."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    group: Field[str] = text("group", "of teams", form="group")
    metric: Field[str] = text("metric", "what the numbers are")
    seeds: Field[int] = whole("seeds", "trainings")
    teams: Field[int] = whole("teams", "teams of the group")
    mean: Field[float] = real("{metric}", "of the agent, over seeds and teams", form="score")
    floor: Field[float] = real("floor", "a random player's mean with the same teams", form="score")
    best_fixed: Field[float] = real("best fixed", "the best fixed responder's mean", form="score")
    ceiling: Field[float] = real("ceiling", "mean of the best responder to each team", form="score")
    closed: Field[float] = real(
        "share closed",
        "(agent - best fixed) / (ceiling - best fixed)",
        form="share",
        interval=("closed_low", "closed_high"),
    )
    closed_low: Field[float] = real("low", f"{_LOW}, over seeds and teams; nan with too few", form="share")
    closed_high: Field[float] = real("high", f"{_HIGH}, over seeds and teams", form="share")
    standing: Field[str] = text("standing", "whether it is above or below best fixed, and whether that is shown")


TABLES: dict[str, type[TableRow]] = {
    "metrics.csv": MetricRow,
    "speed.csv": SpeedRow,
    "times.csv": StageTimeRow,
    "scores.csv": SetScoreRow,
    "summary.csv": SetSummaryRow,
    "comparison.csv": ComparisonRow,
    "self_play.csv": SelfPlayRow,
    "crossplay.csv": CrossPlayRow,
    "answers.csv": AnswerRow,
    "versus.csv": DuelRow,
    "diagnostics.csv": MeasureRow,
    "toy.csv": ToyRow,
    "adaptation/adaptation.csv": EpisodeRow,
    "adaptation/summary.csv": AdaptationRow,
    "room/room.csv": RoomRow,
    "room/responses.csv": ResponseRow,
    "room/trained.csv": TrainedResponseRow,
    "room/told_apart.csv": ToldApartRow,
    "closed.csv": ClosedRow,
}
"""File -> what its rows are."""
