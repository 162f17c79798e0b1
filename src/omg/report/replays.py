"""Replays of test games: for each a recording, and a page that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omg.components.files import new_folder, write_bytes, write_text
from omg.config import Config
from omg.envs import plays_on_host
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.recordings import ENDING, Recording
from omg.report.watch.page import watch_page
from omg.training.program import Program


def check_replays(config: Config, program: Program) -> None:
    """Refuses `save_replay` where there is no picture of the game, before there is a run folder.

    Games on the host have replays of their own, or refuse them when their program is built.
    """
    if config.save_replay and not plays_on_host(config.env, config.env_args) and scenery_of(program.env) is None:
        raise UserError(
            f"save_replay: got True, but there is no picture of {config.env}. Allowed with: the built-in games, and "
            f"others that have `scenery`."
        )


def write_replays(folder: Path, games: Sequence[Recording]) -> list[Path]:
    """Writes recordings and a page for each; older ones are replaced.

    Args:
        folder: where they go.
        games: what was recorded.

    Returns:
        The pages, `seed_1_game_01.html` and so on, each beside its recording.

    Raises:
        UserError: the disk does not take them.
    """
    names: list[str] = []
    try:
        with new_folder(folder) as staging:
            for game in games:
                names.append(game.file_name.removesuffix(ENDING) + ".html")
                write_bytes(staging / game.file_name, game.to_bytes())
                write_text(staging / names[-1], watch_page([game]))
    except OSError as error:
        raise UserError(f"The replays {folder} cannot be written: {error.strerror or error}.") from None
    return [folder / name for name in names]
