"""`omg adapt`: how fast agents come to terms with co-players they have never met."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import TrustOption
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_screen
from omg.errors import UserError


def adapt(
    agents: Annotated[
        list[str],
        typer.Argument(metavar="AGENT", help="Runs, agents or POOL:member; LABEL=AGENT names one; KEY=VALUE."),
    ],
    pool: Annotated[Path | None, typer.Option(metavar="POOL", help="Pool whose members are met.")] = None,
    set_name: Annotated[str, typer.Option("--set", help="Set of the pool.")] = "heldout",
    players: Annotated[
        list[str] | None, typer.Option(metavar="SCRIPT,...", help="Scripted co-players, e.g. nearest_stag,random.")
    ] = None,
    mixtures: Annotated[bool, typer.Option("--mixtures", help="Also teams of different co-players.")] = False,
    episodes: Annotated[int, typer.Option(min=1, max=MOST_EPISODES, help="Episodes with each co-player.")] = 64,
    games: Annotated[
        int, typer.Option(min=1, max=MOST_EPISODES, help="Games of a round; an agent learns after each.")
    ] = 4,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=MOST_EPISODES, help="Repetitions; one per training seed by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")] = 0,
    seat: Annotated[
        int | None, typer.Option(min=0, max=MOST_EPISODES, help="Seat of the agents; the first by default.")
    ] = None,
    which: Annotated[str, typer.Option(metavar="last|best", help="Agent of each seed of a run.")] = "last",
    frozen: Annotated[bool, typer.Option("--frozen", help="Agents do not learn; they only infer.")] = False,
    best_response: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT", help="The 1 of the normalised scale; of several the best with each co-player."),
    ] = None,
    train_best_response: Annotated[
        int,
        typer.Option(
            metavar="STEPS", min=0, max=2**53, help="Train a best response to each co-player instead, by PPO."
        ),
    ] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the tables and the figure go.")
    ] = Path("results/adaptation"),
    trust: TrustOption = False,
) -> None:
    """Measure how agents adapt to co-players they have never met.

    Each agent goes on learning by its own rule in one seat, in small rounds, while its co-players stay as they are.
    Settings that differ from its training are KEY=VALUE for all agents and LABEL.KEY=VALUE for one of them.
    """
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
    named, settings = read_agents(agents)

    from omg.experiments import adaptation
    from omg.experiments.adaptation.drawing import adaptation_screen
    from omg.experiments.room.reading import earned_metric, unmeasured
    from omg.report.room import below_lines, closed_screen

    scripts = [name.strip() for text in players or () for name in text.split(",") if name.strip()]
    with show_progress("loading") as say:
        found = adaptation.adapt(
            named,
            pool=pool,
            pool_set=set_name,
            players=scripts,
            mixtures=mixtures,
            rules=adaptation.Rules(episodes, games, seeds, seed, seat),
            settings=settings,
            frozen=frozen,
            which=which,
            best_response=best_response or (),
            best_response_steps=train_best_response,
            say=say,
        )
        table, summary, figure = adaptation.write_adaptation(output, found.rows)
    print_screen(below_lines(found.closed))
    print_screen(adaptation_screen(f"First {episodes} episodes", found.summary))
    if pool is not None:
        print_screen(closed_screen(found.closed) or [unmeasured(pool, set_name, None, earned_metric(pool))])
    print_lines(f"Tables: {table}, {summary}", f"Figure: {figure}")


def read_agents(words: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, object]]]:
    """Agents by label, and the settings of each, from the words of a command line.

    Args:
        words: `AGENT`, `LABEL=AGENT`, `KEY=VALUE` or `LABEL.KEY=VALUE`; also with the word `with` between them.

    Raises:
        UserError: two agents have one label, or a setting is of nobody.
    """
    from omg.config import config_fields
    from omg.config.overrides import assignments
    from omg.config.schema import unknown_key
    from omg.experiments.evaluation import run_labels

    labelled: dict[str, str] = {}
    bare: list[str] = []
    overrides: list[str] = []
    for word in words:
        key, assigns, value = word.removeprefix("--").partition("=")
        if not assigns:
            bare += [] if word == "with" else [word]
        elif "." in key or key in config_fields():
            overrides.append(f"{key}={value}")
        elif not Path(value).exists() and ":" not in value:
            raise UserError(f"{unknown_key(key)} Nor is '{value}' the folder of an agent named '{key}'.")
        elif key in labelled:
            raise UserError(f"AGENT: got two agents with the label '{key}'.")
        else:
            labelled[key] = value
    named = {label: str(path) for label, path in run_labels([word for word in bare if ":" not in word]).items()}
    # A member of a pool is called as the pool calls it.
    named |= {word.rpartition(":")[2]: word for word in bare if ":" in word}
    for label in labelled:
        if label in named:
            raise UserError(f"AGENT: got two agents with the label '{label}'.")
    agents = {**named, **labelled}
    settings: dict[str, dict[str, object]] = {label: {} for label in agents}
    for key, value in assignments(overrides).items():
        label, _, rest = key.partition(".")
        own = [label] if rest and label in agents else list(agents)
        if rest and label not in agents and label not in config_fields():
            raise UserError(f"{key}: '{label}' is neither an agent nor a key. Agents: {', '.join(agents)}.")
        for one in own:
            settings[one][rest if own == [label] else key] = value
    return agents, settings
