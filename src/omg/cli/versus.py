"""`omg versus`: two teams in the same battle, one on each side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import EnvConfigOption, TrustOption, read_words
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_table, with_interval
from omg.errors import UserError, unknown_name
from omg.types import Tree

if TYPE_CHECKING:
    from omg.evaluation import Contender
    from omg.experiments.versus import Versus

_MOST_PAIRINGS = 40
"""Longest table of single pairings; longer ones are shown by algorithm."""


def versus(
    context: typer.Context,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A pool, POOL:member, a run, an agent or a script.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Likewise.")],
    episodes: Annotated[
        int, typer.Option(min=1, max=MOST_EPISODES, help="Battles per pairing, half of them with sides changed.")
    ] = 100,
    set_name: Annotated[
        str | None, typer.Option("--set", help="Set of the pools: training, validation or heldout; all by default.")
    ] = None,
    which: Annotated[str, typer.Option(metavar="last|best", help="Agent of each seed of a run.")] = "last",
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the battles.")] = 0,
    env_config: EnvConfigOption = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where versus.csv and versus.png go.")
    ] = Path("results/versus"),
    trust: TrustOption = False,
) -> None:
    """Let two trained teams fight each other on sc2.

    Every player on the left meets every player on the right; a player has all seats of its side. Further words change
    the game: env_args.start=random. The map is the one that the players were trained on; both of its sides must have
    the same units.
    """
    env_args = _game_options(env_config, context.args)
    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")

    from omg.experiments.versus import play_versus
    from omg.report.figures import plot_cross_play

    with show_progress("loading") as say:
        played = play_versus(
            left,
            right,
            pool_set=set_name,
            which=which,
            episodes=episodes,
            seed=seed,
            env_args=env_args,
            say=say,
        )
        output.mkdir(parents=True, exist_ok=True)
        played.table.write_csv(output / "versus.csv")
        cells = [{**row, "agent": row["left"], "team": row["right"]} for row in played.table.where(metric="won")]
        figure = plot_cross_play(cells, output / "versus.png", metric="battle_won", labels=("left", "right"))
    _print_results(played)
    print_lines(f"Table: {output / 'versus.csv'}", f"Figure: {figure}")


def _game_options(env_config: str | None, words: Sequence[str]) -> dict[str, object]:
    """Options of the game from words like `env_args.map_name=8m`."""
    from omg.config.overrides import assignments

    line = read_words(None, env_config, list(words))
    if line.config is not None:
        raise UserError(f"--config: got '{line.config}', but nobody learns here.")
    if line.env_config not in (None, "sc2"):
        raise UserError(f"--env-config: got '{line.env_config}'; two teams meet only in battles. Allowed: sc2.")
    options: dict[str, object] = {}
    for key, value in assignments(line.overrides).items():
        section, _, option = key.partition(".")
        if section != "env_args" or not option:
            raise UserError(f"{key}: only options of the game can be set here, e.g. env_args.map_name=8m.")
        options[option] = value
    return options


def _print_results(played: Versus) -> None:
    """Each pairing, or of many the means by algorithm."""
    shares = {(row["left"], row["right"], row["metric"]): row for row in played.table}
    title = f"sc2 {played.scenario}: how often the left team won, both sides of the field played"
    pairs = [(one, other) for one in played.left for other in played.right]
    if len(pairs) <= _MOST_PAIRINGS:
        rows = []
        for one, other in pairs:
            won, drawn, lost = (shares[one.name, other.name, metric] for metric in ("won", "drawn", "lost"))
            rows.append((one.name, other.name, _share(won), _percent(drawn["mean"]), _share(lost), won["episodes"]))
        print_table(title, ("left", "right", "won [95 %]", "drawn", "lost [95 %]", "battles"), rows)
        return
    groups: dict[tuple[str, str], list[tuple[Contender, Contender]]] = {}
    for one, other in pairs:
        groups.setdefault((one.algorithm, other.algorithm), []).append((one, other))
    lines = []
    for (one_kind, other_kind), members in groups.items():
        means = [
            sum(shares[one.name, other.name, metric]["mean"] for one, other in members) / len(members)
            for metric in ("won", "drawn", "lost")
        ]
        lines.append((one_kind, other_kind, *(_percent(mean) for mean in means), len(members)))
    print_table(f"{title}, means by algorithm", ("left", "right", "won", "drawn", "lost", "pairings"), lines)


def _share(row: Tree) -> str:
    return with_interval(_percent(row["mean"]), lambda value: f"{100 * value:.0f}", row["low"], row["high"])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
