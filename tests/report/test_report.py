"""Learning curves: means over seeds, figures, the terminal, and the command `omg plot`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from omg.cli import main
from omg.components.files import write_json, write_text
from omg.config import resolve, write_yaml
from omg.envs import make_env
from omg.errors import UserError
from omg.report import Curve, bar_lines, mean_curve, plot_curves, run_tables

METRIC = "test_battle_won_mean"


def rows(seed: int, *points: tuple[int, float], name: str = METRIC) -> list[dict[str, object]]:
    return [{"seed": seed, "t_env": t_env, "name": name, "value": value} for t_env, value in points]


def run_folder(path: Path, config: str, env: str, *tables: list[dict[str, object]]) -> Path:
    """A run folder with the files that figures are made from."""
    path.mkdir()
    settings = resolve(config, env).config
    write_text(path / "config.yaml", write_yaml(settings.model_dump()))
    write_json(path / "game.json", asdict(make_env(settings.env, **settings.env_args).spec))
    lines = [f"{row['seed']},{row['t_env']},{row['name']},{row['value']}" for table in tables for row in table]
    write_text(path / "metrics.csv", "\n".join(["seed,t_env,name,value", *lines, ""]))
    return path


def test_seeds_measured_at_different_steps_meet_on_the_steps_both_have() -> None:
    table = rows(1, (0, 0.0), (10, 1.0), (20, 1.0)) + rows(2, (5, 0.5), (15, 0.0)) + rows(1, (0, 9.0), name="loss")
    curve = mean_curve(table, METRIC)
    assert curve.t_env.tolist() == [5, 10, 15]
    assert curve.mean.tolist() == [0.5, 0.625, 0.5]
    assert curve.low.tolist() == [0.5, 0.25, 0.0]
    assert curve.high.tolist() == [0.5, 1.0, 1.0]
    assert curve.seeds == 2


def test_interval_is_narrower_than_the_range_and_holds_the_mean() -> None:
    table = [row for seed in range(10) for row in rows(seed, (0, seed / 10), (100, seed / 10))]
    wide, narrow = mean_curve(table, METRIC), mean_curve(table, METRIC, "interval")
    assert narrow.mean.tolist() == wide.mean.tolist() == pytest.approx([0.45, 0.45])
    assert np.all(wide.low < narrow.low)
    assert np.all(narrow.low < narrow.mean)
    assert np.all(narrow.mean < narrow.high)
    assert np.all(narrow.high < wide.high)


def test_unknown_metric_and_seeds_without_common_steps_are_refused() -> None:
    with pytest.raises(UserError, match=r"Unknown metric 'test_battle_won'. Did you mean 'test_battle_won_mean'"):
        mean_curve(rows(1, (0, 0.0)), "test_battle_won")
    with pytest.raises(UserError, match="the 2 seeds have no steps in common"):
        mean_curve(rows(1, (0, 0.0), (5, 0.0)) + rows(2, (6, 0.0)), METRIC)
    with pytest.raises(UserError, match="there are no metrics at all yet"):
        mean_curve([], METRIC)


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_have_the_format_of_their_ending(tmp_path: Path, ending: str, start: bytes) -> None:
    table = rows(1, (0, 0.0), (10, 1.0)) + rows(2, (0, 0.0), (10, 0.5))
    path = plot_curves({"vdn": table, "iql": table}, METRIC, tmp_path / f"curve.{ending}", title="3m")
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_figure_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    table = rows(1, (0, 0.0), (10, 1.0))
    with pytest.raises(UserError, match=r"got the ending '.gif'. Allowed: .png, .svg, .pdf"):
        plot_curves({"a": table}, METRIC, tmp_path / "curve.gif")
    (tmp_path / "taken.png").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*Not a directory|cannot write .*File exists"):
        plot_curves({"a": table}, METRIC, tmp_path / "file" / "curve.png")
    with pytest.raises(UserError, match=r"cannot write .*directory"):
        plot_curves({"a": table}, METRIC, tmp_path / "taken.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken.png"]


def test_runs_of_one_configuration_are_seeds_of_one_curve(tmp_path: Path) -> None:
    folders = [
        run_folder(tmp_path / "a", "vdn", "sc2", rows(1, (0, 0.0), (10, 1.0))),
        run_folder(tmp_path / "b", "vdn", "sc2", rows(1, (0, 0.0), (10, 0.0))),
        run_folder(tmp_path / "c", "iql", "sc2", rows(1, (0, 0.0), (10, 0.5))),
    ]
    tables = run_tables(folders)
    assert list(tables) == ["vdn", "iql"]
    assert mean_curve(tables["vdn"], METRIC).mean.tolist() == [0.0, 0.5]
    other = run_folder(tmp_path / "d", "vdn", "foraging", rows(1, (0, 0.0), (10, 0.5)))
    assert list(run_tables([folders[0], other])) == ["vdn sc2 8m", "vdn foraging 8x8-2p-3f"]
    # Runs of earlier versions did not note the words of their game; they are told apart all the same.
    for folder in (folders[0], other):
        (folder / "game.json").unlink()
    assert [label[:12] for label in run_tables([folders[0], other])] == ["vdn sc2 8m", "vdn foraging"]


def test_plot_command_writes_the_figure_or_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path / "run", "vdn", "sc2", rows(1, (0, 0.0), (10, 1.0)))
    figure = tmp_path / "curve.png"
    assert main(["plot", str(run), "--metric", METRIC, "--output", str(figure)]) == 0
    assert capsys.readouterr().out == f"Figure: {figure}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(run), "--metric", "loss"]) == 2
    assert capsys.readouterr().err == f"error: Unknown metric 'loss'. Allowed: {METRIC}.\n"
    (tmp_path / "empty").mkdir()
    for folder, reason in (("empty", "it has no config.yaml, and there is no run in it"), ("no", "there is no such")):
        assert main(["plot", str(tmp_path / folder)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {tmp_path / folder} is not a run folder: {reason}")


def test_plot_takes_a_folder_of_runs_and_makes_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, config in (("a", "vdn"), ("deeper/b", "vdn"), ("c", "iql")):
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        run_folder(tmp_path / "runs" / name, config, "sc2", rows(1, (0, 0.0), (10, 1.0)))
    found = run_tables([tmp_path / "runs", tmp_path / "runs" / "a"])
    assert {label: len({row["seed"] for row in table}) for label, table in found.items()} == {"vdn": 2, "iql": 1}
    figure = tmp_path / "new" / "place" / "curve.png"
    assert main(["plot", str(tmp_path / "runs"), "--metric", METRIC, "--output", str(figure)]) == 0
    assert capsys.readouterr().out == f"Figure: {figure}\n"
    assert figure.is_file()


def test_bars_grow_with_the_share_and_keep_both_ends() -> None:
    t_env = np.arange(0, 1001, 10)
    curve = Curve(t_env, t_env / 1000, t_env / 1000, t_env / 1000, 1)
    lines = bar_lines(curve, width=10, rows=11)
    assert lines[0] == "        0     0 %  "
    assert lines[-1] == "    1,000   100 %  ██████████"
    assert [line.count("█") for line in lines] == list(range(11))
    assert bar_lines(curve._replace(mean=np.full(101, 0.25)), width=10, rows=2)[0].endswith("██▌")


@pytest.mark.parametrize("command", ["plot", "demo"])
def test_help_contains_an_example(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main([command, "--help"]) == 0
    assert f"Example: omg {command}" in capsys.readouterr().out
