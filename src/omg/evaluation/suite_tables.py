"""Rows of scores against the length of training, of trials, and of a suite of games; see `omg.evaluation.tables`."""

from __future__ import annotations

from omg.evaluation.rows import Field, TableRow, real, text, whole
from omg.evaluation.tables import SetScoreRow

_LOW, _HIGH = "lower end of the 95 % interval", "upper end of the 95 % interval"


class BudgetScoreRow(SetScoreRow):
    """What one trained seed of an agent reached with one team, at one share of its training."""

    share: Field[float] = real("share", "of the steps of the training, 1 is its end", form="share")
    steps: Field[int] = whole("steps", "environment steps that this seed had learned from")


class BudgetRow(TableRow):
    """How one agent does with one group of teams at one share of its training."""

    set: Field[str] = text("set", "of the pool that the team-mates are taken from")
    agent: Field[str] = text("agent", "label of the agent", form="agent")
    group: Field[str] = text("group", "of teams", form="group")
    metric: Field[str] = text("metric", "what the numbers are")
    share: Field[float] = real("of the budget", "share of the steps of the training, 1 is its end", form="percent")
    steps: Field[int] = whole("steps", "environment steps so far, mean over seeds")
    seeds: Field[int] = whole("seeds", "trainings")
    mean: Field[float] = real("{metric}", "over seeds and teams", form="score", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over seeds; nan below three seeds", form="score")
    high: Field[float] = real("high", f"{_HIGH}, over seeds; nan below three seeds", form="score")
    closed: Field[float] = real(
        "room closed",
        "0: the best fixed strategy, 1: answers everybody as if known; nan where no room was measured",
        form="share",
        interval=("closed_low", "closed_high"),
    )
    closed_low: Field[float] = real("closed low", f"{_LOW} of that, over seeds", form="share")
    closed_high: Field[float] = real("closed high", f"{_HIGH} of that, over seeds", form="share")


class TrialRow(TableRow):
    """Settings that were tried for one agent, and what they reached with the validation partners."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    trial: Field[int] = whole("trial", "number; 0 is the settings of the plan")
    settings: Field[str] = text("settings", "what was changed")
    metric: Field[str] = text("metric", "what the number is")
    seeds: Field[int] = whole("seeds", "trainings")
    steps: Field[int] = whole("steps", "environment steps of each")
    mean: Field[float] = real(
        "{metric}", "with the validation partners, over seeds and teams; nan of a trial without an end", form="score"
    )
    chosen: Field[str] = text(
        "chosen", "`yes`: the agent is trained with it; `stopped` by its own tests; `diverged`: losses were no numbers"
    )


class SliceRow(TableRow):
    """One setting of one trial, beside what the trial reached."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    key: Field[str] = text("key", "of the configuration")
    trial: Field[int] = whole("trial", "number; 0 is the settings of the plan")
    value: Field[str] = text("value", "of the key in this trial")
    place: Field[float] = real("place", "the value as a number; of others their place among the choices")
    metric: Field[str] = text("metric", "what the score is")
    mean: Field[float] = real("{metric}", "of the trial, as in trials.csv", form="score")
    chosen: Field[str] = text("chosen", "of the trial, as in trials.csv")


class ImportanceRow(TableRow):
    """How much one key matters for the scores of an agent's trials."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    key: Field[str] = text("key", "of the configuration")
    importance: Field[float] = real("importance", "share of what makes scores good, by PED-ANOVA", form="percent")
    best: Field[str] = text("best", "value in the trial that did best")
    own: Field[str] = text("own", "value in the plan")


class SuiteGameRow(TableRow):
    """What one game with one draw of partners allows."""

    game: Field[str] = text("game", "name of its plan")
    draw: Field[str] = text("draw", "of partners; `all`: the mean over draws")
    metric: Field[str] = text("metric", "what the numbers are")
    partners: Field[int] = whole("partners", "held-out teams")
    floor: Field[float] = real("floor", "a random player", form="score")
    best_fixed: Field[float] = real("best fixed", "the best single strategy", form="score")
    optimum: Field[float] = real("optimum", "exact value of answering an unknown partner; nan: unknown", form="score")
    ceiling: Field[float] = real("ceiling", "the best answer to each partner", form="score")
    room: Field[float] = real("room", "ceiling minus best fixed", form="difference")
    room_share: Field[float] = real("of ceiling \N{MINUS SIGN} floor", "room as a share of it", form="percent")


class SuiteRow(TableRow):
    """What one agent reaches in one game after one share of its training, over all draws of partners."""

    game: Field[str] = text("game", "name of its plan")
    agent: Field[str] = text("agent", "label of the agent", form="agent")
    metric: Field[str] = text("metric", "what the score is")
    share: Field[float] = real("of the budget", "share of the training", form="percent")
    draws: Field[int] = whole("draws", "of partners")
    seeds: Field[int] = whole("seeds", "trainings of each draw")
    mean: Field[float] = real("{metric}", "over draws, seeds and teams", form="score")
    closed: Field[float] = real(
        "room closed", "share of the room of all draws", form="share", interval=("closed_low", "closed_high")
    )
    closed_low: Field[float] = real("closed low", f"{_LOW} of that", form="share")
    closed_high: Field[float] = real("closed high", f"{_HIGH} of that", form="share")
    interval_over: Field[str] = text("interval over", "`draws` of partners, or with fewer than three of them `seeds`")


class SuiteDifferenceRow(TableRow):
    """One agent against another in one game, in shares of the room."""

    game: Field[str] = text("game", "name of its plan")
    question: Field[str] = text("question", "`modelling` or `subgoals`")
    agent: Field[str] = text("agent", "who models", form="agent")
    baseline: Field[str] = text("baseline", "whom it is compared with", form="agent")
    share: Field[float] = real("of the budget", "share of the training", form="percent")
    draws: Field[int] = whole("draws", "of partners")
    difference: Field[float] = real(
        "difference", "agent minus baseline, in shares of the room", form="share", interval=("low", "high")
    )
    low: Field[float] = real("low", f"{_LOW} of the difference", form="share")
    high: Field[float] = real("high", f"{_HIGH} of the difference", form="share")
    interval_over: Field[str] = text("interval over", "as in the table of agents")
    verdict: Field[str] = text("verdict", "`better`, `worse`, or `no difference shown` where the interval holds 0")


class SuiteProbeRow(TableRow):
    """What a linear probe reads of the held-out partners off something that agents have, over all draws of partners."""

    game: Field[str] = text("game", "name of its plan")
    agent: Field[str] = text("agent", "label of the agent", form="agent")
    measure: Field[str] = text("measure", "what is named from what, as in diagnostics.csv")
    draws: Field[int] = whole("draws", "of partners")
    seeds: Field[int] = whole("seeds", "trainings of each draw")
    value: Field[float] = real("accuracy", "mean over draws and seeds", form="share", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over draws; nan below three", form="share")
    high: Field[float] = real("high", f"{_HIGH}, over draws; nan below three", form="share")


SUITE_TABLES: dict[str, type[TableRow]] = {
    "budget_scores.csv": BudgetScoreRow,
    "budget.csv": BudgetRow,
    "tune/trials.csv": TrialRow,
    "tune/slices.csv": SliceRow,
    "tune/importance.csv": ImportanceRow,
    "suite/games.csv": SuiteGameRow,
    "suite/agents.csv": SuiteRow,
    "suite/differences.csv": SuiteDifferenceRow,
    "suite/probes.csv": SuiteProbeRow,
}
"""File -> what its rows are."""
