"""Figures of an evaluation, the sentences about it, and the page they stand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.reported import NAMES, difference, full_report, outline, page_data, scores
from omg.errors import UserError
from omg.evaluation.comparison import compare, summarise
from omg.report.figures import (
    VERDICT_COLOURS,
    draw_cross_play,
    draw_differences,
    draw_groups,
    draw_offsets,
    plot_cross_play,
    plot_differences,
    plot_groups,
    plot_offsets,
)
from omg.report.page import ReportInput, report_input, write_markdown, write_page
from omg.report.verdict import answers, caution, difference_sentence
from omg.report.words import agent_name, group_words, metric_words


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_a_difference_in_plain_words() -> None:
    assert difference_sentence(difference(), NAMES) == (
        "OMG (optimistic) wins 3.1 percentage points more of its battles than IQL with 7 unseen team-mates of one "
        "policy (95 % interval 1.2 to 5.0, 10 seeds each, 30 teams). With the same team, a training of OMG "
        "(optimistic) does better than a training of IQL in 68 % of cases."
    )


def test_fewer_has_its_interval_in_the_same_direction() -> None:
    row = difference(difference=-0.031, low=-0.05, high=-0.012, verdict="worse", baseline_seeds=3)
    assert "wins 3.1 percentage points fewer of its battles than IQL" in difference_sentence(row)
    assert "(95 % interval 1.2 to 5.0, 10 seeds against 3 seeds, 30 teams)" in difference_sentence(row)
    steps = difference(metric="ep_length", difference=-1.66, low=-2.0, high=-1.0)
    assert "OMG takes 1.66 steps fewer than IQL" in difference_sentence(steps)
    assert "95 % interval 1.00 to 2.00" in difference_sentence(steps)


def test_an_interval_with_zero_claims_nothing() -> None:
    row = difference(low=-0.01, high=0.07, verdict="no difference shown")
    sentence = difference_sentence(row)
    assert sentence.startswith("No difference is shown between OMG and IQL with 7 unseen team-mates of one policy")
    assert "the 95 % interval \N{MINUS SIGN}1.0 to 7.0 of that difference includes 0" in sentence
    assert "does better" not in sentence
    few = difference(low=float("nan"), high=float("nan"), verdict="no difference shown", seeds=1, baseline_seeds=1)
    assert "rests on 1 seed each, 30 teams: too few to say whether it is more than chance" in difference_sentence(few)
    fixed = difference(interval_over="seeds", teams=2)
    assert "2 teams, these teams only" in difference_sentence(fixed)


@pytest.mark.parametrize(
    ("verdicts", "word", "headline"),
    [
        (["better"], "Yes", "OMG is better than IQL."),
        (["better", "better"], "Yes", "OMG is better than IQL in all 2 groups of team-mates."),
        (["better", "no difference shown"], "In part", "better than IQL in 1 of 2 groups of team-mates; in the rest"),
        (["better", "worse"], "Mixed", "better than IQL in 1 and worse in 1 of 2 groups of team-mates."),
        (["worse", "no difference shown"], "No", "worse than IQL in 1 of 2 groups of team-mates and better in none."),
        (["no difference shown"], "Not shown", "No difference between OMG and IQL is shown."),
    ],
)
def test_headline_follows_the_verdicts(verdicts: list[str], word: str, headline: str) -> None:
    rows = [difference(verdict=verdict, group=f"{index + 2}_homologue") for index, verdict in enumerate(verdicts)]
    (answer,) = answers(rows)
    assert answer.word == word
    assert headline in answer.headline
    assert len(answer.sentences) == len(rows)
    assert bool(caution(rows)) == (len(rows) > 1)


def test_names_of_groups_metrics_and_agents() -> None:
    assert group_words("1_homologue") == "with 1 unseen team-mate"
    assert group_words("7_nonhomologue") == "with 7 unseen team-mates of different algorithms"
    assert group_words("near_prey") == "in the group “near prey”"
    assert metric_words("battle_won").value(0.873) == "87.3 %"
    assert metric_words("return").signed(-1.5) == "\N{MINUS SIGN}1.50"
    assert metric_words("return").signed(0.0046) == "+0.005"
    assert metric_words("return_normalised").noun == "return, normalised (0 random player, 1 best response)"
    assert (agent_name("iql_liam"), agent_name("mine"), agent_name("mine", {"mine": "Mine"})) == (
        "LIAM",
        "mine",
        "Mine",
    )


def test_figure_of_groups_shows_every_mean(tmp_path: Path) -> None:
    summary = summarise(scores(), "battle_won")
    shown = texts(draw_groups(summary, names=NAMES))
    for row in summary:
        assert f"{100 * row['mean']:.1f}" in shown
    assert {"7 homologue", "7 non-homologue", "IQL", "OMG (optimistic)", "battles won, %"} <= set(shown)
    target = plot_groups(summary, tmp_path / "groups.png")
    assert target.read_bytes().startswith(b"\x89PNG")


def test_forest_plot_draws_intervals_where_they_are(tmp_path: Path) -> None:
    rows = compare(scores(), "battle_won", "iql_omg", ["iql"])
    figure = draw_differences(rows)
    lines = {line.get_color(): line.get_xdata() for line in figure.axes[0].lines if len(line.get_xdata()) == 2}
    assert lines[VERDICT_COLOURS["better"]] == pytest.approx([100 * rows[0]["low"], 100 * rows[0]["high"]])
    assert lines[VERDICT_COLOURS["no difference shown"]] == pytest.approx([100 * rows[1]["low"], 100 * rows[1]["high"]])
    low, high = figure.axes[0].get_xlim()
    assert low < 0 < high
    assert any(text.startswith("+20.0  [") for text in texts(figure))
    assert plot_differences(rows, tmp_path / "forest.pdf").read_bytes().startswith(b"%PDF")


def test_cross_play_writes_every_value_into_its_cell(tmp_path: Path) -> None:
    rows = [{"agent": "iql", "team": "vdn", "mean": 0.25}, {"agent": "qmix", "team": "iql", "mean": "0.9"}]
    figure = draw_cross_play(rows)
    cells = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert cells["25"] == (0, 0)
    assert cells["90"] == (1, 1)
    assert sum(text.get_text() == "\N{EN DASH}" for text in figure.axes[0].texts) == 2
    assert plot_cross_play(rows, tmp_path / "cross.svg").read_text().count("<svg") == 1


def test_offsets_are_shares_per_agent(tmp_path: Path) -> None:
    rows = [{"agent": "a", "offset": k, "count": count} for k, count in ((1, 30), (3, 10))]
    rows += [{"agent": "b", "offset": k, "count": 1} for k in (1, 2, 3)]
    figure = draw_offsets(rows, colours={"b": "#123456"})
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert heights == pytest.approx([75, 0, 25, 100 / 3, 100 / 3, 100 / 3])
    assert figure.axes[0].patches[3].get_facecolor()[:3] == pytest.approx((0x12 / 255, 0x34 / 255, 0x56 / 255))
    assert plot_offsets(rows, tmp_path / "offsets.png").is_file()


def test_figures_refuse_nothing_and_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is nothing to draw"):
        plot_groups([], tmp_path / "groups.png")
    with pytest.raises(UserError, match=r"got the ending '\.gif'"):
        plot_differences([difference()], tmp_path / "forest.gif")
    assert list(tmp_path.iterdir()) == []


def test_page_answers_first_and_shows_the_numbers(tmp_path: Path) -> None:
    report = full_report()
    _, words = outline(write_page(tmp_path / "report.html", report))
    first, second = report.comparison
    assert words.index("Does modelling the others help here?") < words.index("In part") < words.rindex("How each agent")
    assert "OMG (optimistic) wins 20.0 percentage points more of its battles than IQL with 7 unseen" in words
    assert f"95 % interval {100 * first['low']:.1f} to {100 * first['high']:.1f}, 6 seeds each, 5 teams" in words
    assert "No difference is shown between OMG (optimistic) and IQL with 7 unseen team-mates of different" in words
    for row in report.summary:
        assert f"{100 * row['mean']:.1f} % {100 * row['low']:.1f} to {100 * row['high']:.1f}" in words
        assert f"{100 * row['worst_team_mean']:.1f} % ({row['worst_team']})" in words
    assert f"{first['p_improvement']:.2f} ({first['p_low']:.2f} to {first['p_high']:.2f}) better" in words
    assert (
        f"{second['p_improvement']:.2f} ({second['p_low']:.2f} to {second['p_high']:.2f}) no difference shown" in words
    )
    assert "hit ratio 0.126 0.120 to 0.133 \N{EN DASH} \N{EN DASH} a & b" in words
    assert "omg evaluate A && omg report" in words
    assert "jax 0.10" in words
    assert "Every agent was trained for 2 M steps." in words


def test_page_needs_no_other_file_and_follows_the_reader(tmp_path: Path) -> None:
    page = write_page(tmp_path / "report.html", full_report())
    parser, _ = outline(page)
    markup = page.read_text(encoding="utf-8")
    assert [load for load in parser.loads if not load.startswith(("#", "data:"))] == []
    assert len(parser.ids) == len(set(parser.ids))
    assert "prefers-color-scheme: dark" in markup
    assert "<title>8m &lt;unseen&gt;</title>" in markup
    kinds = [chart["kind"] for chart in page_data(page)["charts"]]
    assert kinds == ["intervals", "lines", "intervals", "lines", "map", "lines"]
    # The second agent of the summary keeps its colour in groups, curves and offsets.
    groups, _, _, curves, _, offsets = page_data(page)["charts"]
    assert [row["colour"] for row in groups["views"][0]["panels"][0]["rows"]] == [0, 1]
    assert [line["colour"] for line in curves["views"][0]["panels"][0]["series"]] == [0, 1]
    assert [line["colour"] for line in offsets["views"][0]["panels"][0]["series"]] == [1]


def test_parts_that_are_missing_are_left_out(tmp_path: Path) -> None:
    report = report_input("small", scores(), "battle_won", "iql_omg", ["iql"])
    _, words = outline(write_page(tmp_path / "report.html", report))
    for heading in ("Learning curves", "Cross-play", "What the subgoals know", "How it was run"):
        assert heading not in words
    assert "How each agent does" in words


def test_one_seed_makes_a_page_without_intervals(tmp_path: Path) -> None:
    report = report_input("one seed", scores(seeds=1), "battle_won", "iql_omg", ["iql"])
    _, words = outline(write_page(tmp_path / "report.html", report))
    assert "Not shown" in words
    assert "too few to say whether it is more than chance" in words
    assert "nan" not in words


def test_markdown_twin_says_the_same(tmp_path: Path) -> None:
    report = full_report()
    text = write_markdown(tmp_path / "report.md", report).read_text(encoding="utf-8")
    assert text.startswith("# 8m &lt;unseen&gt;\n\n## Does modelling the others help here?\n\n**In part.** ")
    for answer in answers(report.comparison, NAMES):
        for sentence in answer.sentences:
            assert f"- {sentence}\n" in text
    assert "| OMG (optimistic) | hit ratio | 0.126 | 0.120 to 0.133 | \N{EN DASH} | \N{EN DASH} | a & b |" in text
    assert "```\nomg evaluate A && omg report\n```" in text


def test_report_without_scores_or_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no scores to compare"):
        write_page(tmp_path / "report.html", ReportInput("empty", "battle_won", [], []))
    with pytest.raises(UserError, match="cannot write"):
        write_page(tmp_path / "missing" / "report.html", full_report())
    assert list(tmp_path.iterdir()) == []
