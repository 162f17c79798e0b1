"""What `omg record` and `omg watch` have in common: who plays, with whom, in which game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_SEED
from omg.cli.lists import read_words
from omg.cli.progress import show_progress
from omg.errors import UserError, unknown_name
from omg.types import Tree

if TYPE_CHECKING:
    from omg.recordings import Recording

TeamOption = Annotated[
    str | None, typer.Option("--team", metavar="TEAM", help="All seats, e.g. 4iql3qmix1iql_omg; needs --pool.")
]
PoolOption = Annotated[Path | None, typer.Option("--pool", metavar="POOL", help="Where the other players come from.")]
SetOption = Annotated[
    str | None, typer.Option("--set", help="Set of the pool: training, validation, heldout; all by default.")
]
SeedOption = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")]
WhichOption = Annotated[str, typer.Option(metavar="last|best", help="Agent of the first seed of a run that plays.")]


@dataclass(frozen=True)
class WhoPlays:
    """Who plays with whom at which game; whose game it is comes when it is played."""

    team: str | None
    pool: Path | None
    pool_set: str | None
    seed: int
    which: str
    env: str | None
    env_args: Tree
    trust: bool

    def play(self, source: str | None, episodes: int = 1, *, views: bool) -> list[Recording]:
        """Games of a source with the others, or of the team; `views`: what seats see is recorded as well."""
        from omg import api

        with show_progress("playing"):
            return api.record(
                source,
                pool=self.pool,
                pool_set=self.pool_set,
                team=self.team,
                episodes=episodes,
                seed=self.seed,
                which=self.which,
                views=views,
                env=self.env,
                env_args=self.env_args,
                trust=self.trust,
            )

    def check_played(self, game: str) -> None:
        """Refuses what a game that has been played has no use for."""
        given = {"--team": self.team, "--pool": self.pool, "--set": self.pool_set, "--env-config": self.env}
        for option, value in given.items():
            if value is not None:
                raise UserError(f"{option}: got '{value}', but '{game}' is a game that has been played.")


def lineup(
    words: Sequence[str],
    *,
    team: str | None,
    pool: Path | None,
    pool_set: str | None,
    seed: int,
    which: str,
    env_config: str | None,
    trust: bool,
) -> WhoPlays:
    """The options of a command line; `words` are options of the game, like `env_args.map_name=8m`."""
    from omg.config.overrides import assignments

    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    line = read_words(None, env_config, list(words))
    if line.config is not None:
        raise UserError(f"--config: got '{line.config}', but nobody learns here.")
    options: Tree = {}
    for key, value in assignments(line.overrides).items():
        section, _, option = key.partition(".")
        if section != "env_args" or not option:
            raise UserError(f"{key}: only options of the game can be set here, e.g. env_args.map_name=8m.")
        options[option] = value
    return WhoPlays(team, pool, pool_set, seed, which, line.env_config, options, trust)
