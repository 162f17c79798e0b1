"""Statistics of evaluations: equal to rliable where they mean to be, honest where they differ, and as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from omg.errors import UserError
from omg.evaluation.comparison import NO_SEED, compare, normalise, per_team, score_matrices, summarise
from omg.evaluation.export import marl_eval_json
from omg.evaluation.statistics import (
    cluster_interval,
    interquartile_mean,
    normalised_scores,
    paired_difference,
    probability_of_improvement,
    score_interval,
)

FIRST = np.array(
    [[0.9, 0.5, 0.7, 0.2], [0.8, 0.6, 0.7, 0.4], [1.0, 0.4, 0.6, 0.3], [0.7, 0.5, 0.9, 0.1], [0.9, 0.7, 0.8, 0.35]]
)
SECOND = np.array([[0.8, 0.5, 0.5, 0.3], [0.7, 0.4, 0.6, 0.2], [0.9, 0.3, 0.7, 0.25]])

# rliable 1.2.0 with NumPy 2.4.6, SciPy 1.17.1, arch 7.2.0 and np.random.seed(0), in this order:
#   library.get_interval_estimates({"x": FIRST}, lambda s: np.array([metrics.aggregate_mean(s),
#                                  metrics.aggregate_iqm(s)]), reps=200000)
#   library.get_interval_estimates({"xy": (FIRST, SECOND)},
#                                  lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=20000)
RLIABLE_MEAN = (0.6025, 0.5575, 0.6475)
RLIABLE_IQM = (0.62, 0.57, 0.68)
RLIABLE_IMPROVEMENT = (0.7333333333333334, 0.5583333333333333, 0.8833333333333333)
STEP = 0.0051
"""The resampled statistics of these scores lie on a grid; an end may fall on the neighbouring point."""


def row(agent: str, seed: int, team: str, mean: float, group: str = "7_homologue", **more: Any) -> dict[str, Any]:
    base = {"agent": agent, "seed": seed, "group": group, "team": team, "episodes": 32, "metric": "battle_won"}
    return {**base, "mean": mean, **more}


def table(agent: str, scores: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        row(agent, seed, f"team{team}", float(value), **more)
        for seed, line in enumerate(scores)
        for team, value in enumerate(line)
    ]


@pytest.mark.parametrize(("statistic", "golden"), [("mean", RLIABLE_MEAN), ("iqm", RLIABLE_IQM)])
def test_stratified_intervals_equal_rliable(statistic: Any, golden: tuple[float, float, float]) -> None:
    found = score_interval(FIRST, statistic, "stratified", draws=50_000)
    assert found.value == pytest.approx(golden[0], abs=1e-12)
    assert found[1:] == pytest.approx(golden[1:], abs=STEP)


def test_probability_of_improvement_equals_rliable() -> None:
    found = probability_of_improvement(FIRST, SECOND, "stratified", draws=50_000)
    assert found.value == pytest.approx(RLIABLE_IMPROVEMENT[0], abs=1e-12)
    assert found[1:] == pytest.approx(RLIABLE_IMPROVEMENT[1:], abs=0.01)


def test_probability_of_improvement_counts_ties_half_and_is_symmetric() -> None:
    assert probability_of_improvement(FIRST, FIRST).value == 0.5
    mirrored = probability_of_improvement(SECOND, FIRST).value
    assert mirrored + probability_of_improvement(FIRST, SECOND).value == pytest.approx(1.0)
    brute = np.mean([(a > b) + 0.5 * (a == b) for m in range(4) for a in FIRST[:, m] for b in SECOND[:, m]])
    assert probability_of_improvement(FIRST, SECOND).value == pytest.approx(brute)


def test_interquartile_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([[1.0, 2.0, 3.0, 100.0]])) == 2.5
    # Six values: one and a half would be cut, one is.
    assert interquartile_mean(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 99.0]])) == 2.5
    assert interquartile_mean(np.stack([FIRST, FIRST + 1])) == pytest.approx([0.62, 1.62])


def test_what_an_interval_generalises_over_decides_its_width() -> None:
    rng = np.random.default_rng(0)
    # Seeds differ much, teams little: drawing each entry by itself hides how much trainings differ.
    by_seed = rng.normal(0, 1, (10, 1)) + rng.normal(0, 0.1, (10, 30))
    widths = [np.ptp(score_interval(by_seed, "mean", kind)[1:]) for kind in ("stratified", "seeds")]
    assert widths[1] > 4 * widths[0]
    # Teams differ much, seeds little: only the interval over teams sees it.
    by_team = rng.normal(0, 1, (1, 30)) + rng.normal(0, 0.1, (10, 30))
    widths = [np.ptp(score_interval(by_team, "mean", kind)[1:]) for kind in ("seeds", "seeds_and_teams")]
    assert widths[1] > 5 * widths[0]


def test_paired_difference_ignores_how_hard_the_teams_are() -> None:
    rng = np.random.default_rng(1)
    hardness = rng.normal(0, 10, (1, 20))
    scores, baseline = rng.normal(1, 0.2, (8, 20)), rng.normal(0, 0.2, (6, 20))
    easy, hard = paired_difference(scores, baseline), paired_difference(scores + hardness, baseline + hardness)
    assert hard == pytest.approx(easy)
    assert easy.value == pytest.approx(scores.mean() - baseline.mean())
    assert 0.8 < easy.low < easy.value < easy.high < 1.2


def test_fixed_teams_give_the_narrower_interval() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(0, 1, (1, 12)) + rng.normal(0, 0.1, (8, 12))
    fixed = paired_difference(scores, np.zeros((8, 12)), teams="fixed")
    resampled = paired_difference(scores, np.zeros((8, 12)))
    assert fixed.value == resampled.value
    assert np.ptp(resampled[1:]) > 4 * np.ptp(fixed[1:])


@pytest.mark.parametrize(("seeds", "teams", "least"), [(5, 10, 0.91), (10, 30, 0.92)])
def test_interval_of_no_difference_holds_zero_nineteen_times_of_twenty(seeds: int, teams: int, least: float) -> None:
    rng = np.random.default_rng(3)
    holds = []
    for trial in range(300):
        hardness = rng.normal(0, 1, teams)
        pair = [
            hardness + rng.normal(0, 0.3, teams) + rng.normal(0, 1, (seeds, 1)) + rng.normal(0, 0.3, (seeds, teams))
            for _ in range(2)
        ]
        found = paired_difference(*pair, draws=1000, seed=trial)
        holds.append(found.low <= 0 <= found.high)
    # Two standard errors of 300 trials are 0.025.
    assert least <= np.mean(holds) <= 0.99


def test_too_few_seeds_or_teams_give_no_interval_instead_of_a_false_one() -> None:
    assert np.isnan(score_interval(FIRST[:1], "mean", "stratified").low)
    assert np.isnan(score_interval(FIRST[:2], "mean", "seeds").high)
    assert np.isnan(paired_difference(FIRST, SECOND[:2]).low)
    assert np.isnan(paired_difference(FIRST[:, :2], SECOND[:, :2]).low)
    assert not np.isnan(paired_difference(FIRST[:, :2], SECOND[:, :2], teams="fixed").low)
    assert np.isnan(probability_of_improvement(FIRST[:1], SECOND).low)


def test_intervals_are_repeatable_and_depend_on_the_seed() -> None:
    assert paired_difference(FIRST, SECOND, seed=4) == paired_difference(FIRST, SECOND, seed=4)
    assert paired_difference(FIRST, SECOND, seed=4) != paired_difference(FIRST, SECOND, seed=5)


def test_matrices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="same teams, got 4 and 3"):
        paired_difference(FIRST, SECOND[:, :3])
    with pytest.raises(ValueError, match="must be a matrix"):
        score_interval(FIRST[0])


def test_cluster_interval_resamples_whole_episodes() -> None:
    episode = np.repeat(np.arange(20), 50)
    values = np.repeat(np.random.default_rng(0).normal(size=20), 50)
    wide = cluster_interval(values, episode)
    narrow = cluster_interval(values, np.arange(1000))
    assert wide.value == narrow.value == pytest.approx(values.mean())
    assert np.ptp(wide[1:]) > 5 * np.ptp(narrow[1:])
    assert np.isnan(cluster_interval(values[:100], episode[:100]).low)


def test_normalised_scores_put_random_at_zero_and_best_response_at_one() -> None:
    scores = np.array([[0.2, 0.5, 0.4], [0.8, 0.9, 0.4]])
    found = normalised_scores(scores, np.array([0.2, 0.1, 0.4]), np.array([0.8, 0.9, 0.4]))
    assert found[:, :2] == pytest.approx(np.array([[0.0, 0.5], [1.0, 1.0]]))
    assert np.isnan(found[:, 2]).all()


def test_summary_has_means_intervals_and_the_worst_team() -> None:
    rows = table("iql_omg", FIRST) + table("iql", SECOND) + table("iql", SECOND + 1, group="6_homologue")
    summary = summarise(rows, "battle_won", resample="stratified")
    assert [(line["group"], line["agent"]) for line in summary] == [
        ("7_homologue", "iql_omg"),
        ("7_homologue", "iql"),
        ("6_homologue", "iql"),
    ]
    first = summary[0]
    assert (first["seeds"], first["teams"], first["episodes"]) == (5, 4, 5 * 4 * 32)
    assert (first["mean"], first["iqm"]) == pytest.approx((0.6025, 0.62))
    assert (first["low"], first["high"]) == pytest.approx(RLIABLE_MEAN[1:], abs=STEP)
    assert (first["iqm_low"], first["iqm_high"]) == pytest.approx(RLIABLE_IQM[1:], abs=0.011)
    assert (first["worst_team"], first["worst_team_mean"]) == ("team3", pytest.approx(0.27))
    steps = summarise(rows, "battle_won", lower_is_better=True)[0]
    assert (steps["worst_team"], steps["worst_team_mean"]) == ("team0", pytest.approx(0.86))
    assert steps["low"] < first["low"] < first["high"] < steps["high"]


def test_scores_read_from_a_file_as_text_give_the_same_table() -> None:
    rows = table("iql", SECOND)
    text = [{name: str(value) for name, value in line.items()} for line in rows]
    assert summarise(text, "battle_won") == summarise(rows, "battle_won")


def test_comparison_says_better_worse_or_nothing() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.02, (6, 8))
    rows = table("iql", base) + table("good", base[::-1] + 0.2) + table("same", rng.normal(0.5, 0.02, (6, 8)))
    better, nothing = compare(rows, "battle_won", "good", ["iql"]) + compare(rows, "battle_won", "same", ["iql"])
    (worse,) = compare(rows, "battle_won", "iql", ["good"])
    assert (better["verdict"], nothing["verdict"], worse["verdict"]) == ("better", "no difference shown", "worse")
    assert better["difference"] == pytest.approx(0.2) == pytest.approx(-worse["difference"])
    assert 0.1 < better["low"] < 0.2 < better["high"] < 0.3
    assert (better["p_improvement"], worse["p_improvement"]) == (1.0, 0.0)
    assert nothing["low"] < 0 < nothing["high"]
    (steps,) = compare(rows, "battle_won", "good", ["iql"], lower_is_better=True)
    assert (steps["verdict"], steps["p_improvement"]) == ("worse", 0.0)
    assert steps["difference"] == better["difference"]


def test_comparison_of_two_teams_holds_for_these_teams_only() -> None:
    rows = table("iql", SECOND[:, :2]) + table("iql_omg", FIRST[:, :2])
    (line,) = compare(rows, "battle_won", "iql_omg", ["iql"])
    assert line["interval_over"] == "seeds"
    assert line["low"] < line["difference"] < line["high"]
    (line,) = compare(table("iql", SECOND) + table("iql_omg", FIRST), "battle_won", "iql_omg", ["iql"])
    assert line["interval_over"] == "seeds and teams"


def test_teams_are_paired_by_name_not_by_order() -> None:
    own, other = table("iql_omg", FIRST), table("iql", SECOND)
    (shuffled,) = compare(own + other[::-1], "battle_won", "iql_omg", ["iql"])
    (ordered,) = compare(own + other, "battle_won", "iql_omg", ["iql"])
    assert shuffled["p_improvement"] == pytest.approx(ordered["p_improvement"]) == pytest.approx(11 / 15)


def test_one_seed_shows_no_difference_however_large() -> None:
    rows = table("iql", np.zeros((1, 5))) + table("iql_omg", np.ones((1, 5)))
    (line,) = compare(rows, "battle_won", "iql_omg", ["iql"])
    assert line["difference"] == 1.0
    assert np.isnan(line["low"])
    assert line["verdict"] == "no difference shown"


def test_a_player_that_nobody_trained_needs_no_seeds() -> None:
    own, floor = 0.5 + 0.1 * SECOND[:3], 0.2 + 0.1 * SECOND[:1]
    script = [{**line, "seed": NO_SEED} for line in table("random", floor)]
    better, reverse = (
        compare(table("iql", own) + script, "battle_won", agent, [baseline])[0]
        for agent, baseline in (("iql", "random"), ("random", "iql"))
    )
    assert (better["verdict"], reverse["verdict"]) == ("better", "worse")
    assert better["low"] < better["difference"] < better["high"]
    assert not np.isnan(better["p_low"])
    (alone,) = compare(table("iql", own[:1]) + script, "battle_won", "iql", ["random"])
    assert np.isnan(alone["low"])
    # Only the agent's own seeds are resampled: the interval is that of the agent less a constant.
    fixed = compare(table("iql", own) + script, "battle_won", "iql", ["random"], teams="fixed")[0]
    alone_mean = score_interval(own, "mean", "seeds")
    assert fixed["high"] - fixed["low"] == pytest.approx(alone_mean.high - alone_mean.low, rel=0.1)


def test_rows_that_cannot_be_compared_are_refused_by_name() -> None:
    rows = table("iql", SECOND) + table("iql_omg", FIRST)
    with pytest.raises(UserError, match=r"Unknown metric 'battle_wn'. Did you mean 'battle_won'"):
        summarise(rows, "battle_wn")
    with pytest.raises(UserError, match=r"Unknown agent 'iql_omgg'. Did you mean 'iql_omg'"):
        compare(rows, "battle_won", "iql_omgg", ["iql"])
    with pytest.raises(UserError, match="seed 2, group '7_homologue', team 'team3' has no 'battle_won'"):
        summarise(table("iql", SECOND)[:-1], "battle_won")
    with pytest.raises(UserError, match="more than one 'battle_won'"):
        summarise([*rows, rows[0]], "battle_won")
    with pytest.raises(UserError, match="only 'iql_omg' has met 'team3'"):
        compare(table("iql", SECOND[:, :3]) + table("iql_omg", FIRST), "battle_won", "iql_omg", ["iql"])
    with pytest.raises(UserError, match="no group of teams in common"):
        compare(table("iql", SECOND, group="other") + table("iql_omg", FIRST), "battle_won", "iql_omg", ["iql"])
    with pytest.raises(UserError, match="no column 'team'"):
        summarise([{name: value for name, value in rows[0].items() if name != "team"}], "battle_won")
    with pytest.raises(UserError, match="there are no rows"):
        summarise([], "battle_won")


def test_normalised_rows_leave_out_teams_where_nothing_is_at_stake() -> None:
    ends = table("random", np.array([[0.0, 0.2, 0.5]])) + table("best_response", np.array([[1.0, 0.6, 0.5]]))
    rows, left_out = normalise(ends + table("iql", np.array([[0.5, 0.3, 0.5], [1.0, 0.6, 0.5]])), "battle_won")
    assert left_out == ["7_homologue/team2"]
    assert {line["metric"] for line in rows} == {"battle_won_normalised"}
    (matrix,) = score_matrices(rows, "battle_won_normalised").values()
    assert matrix.scores == pytest.approx(np.array([[0.5, 0.25], [1.0, 1.0]]))
    assert matrix.episodes == 4 * 32
    with pytest.raises(UserError, match="no rows of the agent 'random'"):
        normalise(table("iql", SECOND), "battle_won")


def test_per_team_table_has_the_spread_over_seeds() -> None:
    lines = per_team(table("iql", SECOND), "battle_won")
    assert [line["team"] for line in lines] == ["team0", "team1", "team2", "team3"]
    assert (lines[0]["mean"], lines[0]["lowest"], lines[0]["highest"]) == pytest.approx((0.8, 0.7, 0.9))


def test_export_has_the_layout_of_marl_eval() -> None:
    rows = table("iql", FIRST[:3]) + table("iql_omg", SECOND)
    rows += [{**line, "metric": "Return", "mean": 20 * line["mean"]} for line in rows]
    exported = marl_eval_json(rows, "SC2", "8m", step_count=1000)
    assert list(exported) == ["sc2"]
    assert list(exported["sc2"]) == ["8m_7_homologue"]
    run = exported["sc2"]["8m_7_homologue"]["iql_omg"]["seed_2"]
    # marl-eval takes the last entry of a run for the absolute metrics.
    assert list(run) == ["step_1", "absolute_metrics"]
    assert run["step_1"]["step_count"] == 1000
    assert run["absolute_metrics"] == {"battle_won": SECOND[2].tolist(), "return": (20 * SECOND[2]).tolist()}
    assert run["step_1"]["battle_won"] == SECOND[2].tolist()


def test_export_that_marl_eval_could_not_read_is_refused() -> None:
    with pytest.raises(UserError, match="'iql_omg' has 3 on '8m_7_homologue', 'iql' has 5"):
        marl_eval_json(table("iql", FIRST) + table("iql_omg", SECOND), "sc2", "8m")
    rows = table("iql", SECOND) + table("iql_omg", SECOND) + table("iql", SECOND, group="other")
    with pytest.raises(UserError, match="'iql_omg' was not evaluated on '8m_other'"):
        marl_eval_json(rows, "sc2", "8m")
    returns = [{**line, "metric": "return"} for line in table("iql", SECOND)]
    with pytest.raises(UserError, match="'iql_omg', seed_0 on '8m_7_homologue' has no 'return'"):
        marl_eval_json(table("iql", SECOND) + table("iql_omg", SECOND) + returns, "sc2", "8m")
