"""What a run records of its tests (`save_replay`)."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np

from omg.components.files import new_folder, write_bytes
from omg.config import Config, member_config
from omg.controllers.base import Player
from omg.errors import UserError
from omg.modules.opponent_models.prior import Prior
from omg.pools import Pool, read_agent_card
from omg.recordings.capture import About, recordings
from omg.recordings.recording import Recording
from omg.recordings.voices import Cast, Who, script_of, who_of
from omg.runners.vector import EpisodeStats, Filmed
from omg.stopping import Coming, signal_of
from omg.training.program import Program
from omg.training.state import RunState
from omg.training.team import UNTRAINED

REPLAYS = "replays"
"""Folder of the recordings in that of a run."""


class _OfSeed(NamedTuple):
    """The film of one seed's test, and who was tested."""

    player: Player | None
    t_env: int
    film: Filmed
    stats: EpisodeStats


class Recorder:
    """Takes the films of a run's tests, and makes recordings of them; see `omg.training.films`.

    With `replay_tests: all` a thread makes and writes those of one test while training goes on. Leaving it as a context
    manager waits for that.
    """

    def __init__(self, program: Program[Any], folder: Path) -> None:
        """Of a run in `folder`; nothing is written yet."""
        self.program = program
        self.folder = folder / REPLAYS
        self.last = self.folder if program.config.replay_tests == "last" else self.folder / "last"
        """Where those of the last test belong."""
        # Compiled, for a learner has hundreds of arrays; cut out, because the state is used up by the next chunk.
        self._player = jax.jit(
            lambda learner, seed: program.learner.tested(jax.tree.map(lambda leaf: leaf[seed], learner))
        )
        self._newest: dict[int, _OfSeed] = {}
        self._mates: tuple[Who, ...] | None = None
        self._writing: Coming[list[Path]] | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.wait()
        elif isinstance(error, KeyboardInterrupt) and self._writing is not None:
            self._writing.leave_behind(signal_of(error))
        else:
            # What ends the run is told, not what that may have made impossible in turn.
            with contextlib.suppress(UserError):
                self.wait()

    def keep(self, state: RunState[Any], film: Filmed, stats: EpisodeStats, tested: list[int]) -> None:
        """See `Films.keep`; with `replay_tests: all` it is written, too."""
        steps = state.t_env.numpy()
        for index in tested:
            player = self._player(state.learner, np.int32(index))
            of_seed = jax.tree.map(lambda leaf, at=index: leaf[at], (film, stats))
            self._newest[index] = _OfSeed(None if isinstance(player, Prior) else player, int(steps[index]), *of_seed)
        if self.program.config.replay_tests == "all" and tested:
            self.wait()
            folder = self.folder / f"t_{int(steps[tested].max()):012d}"
            self._writing = Coming(partial(self._write, folder, {index: self._newest[index] for index in tested}))

    def wait(self) -> None:
        """See `Films.wait`."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def made(self) -> list[Recording]:
        """The games of the newest test of every seed."""
        self.wait()
        return self._made(self._newest)

    def _write(self, folder: Path, tests: dict[int, _OfSeed]) -> list[Path]:
        # The next checkpoint may have to wait for this: not also for the disk.
        return write_recordings(folder, self._made(tests), durable=False)

    def _made(self, tests: dict[int, _OfSeed]) -> list[Recording]:
        return [game for index in sorted(tests) for game in self._of_seed(index, tests[index])]

    def _of_seed(self, index: int, newest: _OfSeed) -> list[Recording]:
        program = self.program
        config, team = program.config, program.team
        algorithm = config.train_alg or config.name
        seat = newest.film.batch.seat
        cast = Cast(
            newest.player,
            who_of(algorithm, algorithm, config, program.spec.round_steps),
            None if team is None or seat is None else np.asarray(team.draw.main_seats(seat)),
            None if team is None else team.squad,
            self._frozen(),
        )
        t_env = newest.t_env
        about = About(program.env, config.env_args, algorithm, config.seed + index, t_env)
        return recordings(newest.film, newest.stats, cast, about)

    def _frozen(self) -> tuple[Who, ...]:
        """Who the frozen players of the team are."""
        if self._mates is None:
            config, team = self.program.config, self.program.team
            names = () if team is None else team.names
            self._mates = frozen_players(names, config, self.program.spec.round_steps)
        return self._mates


def frozen_players(names: tuple[str, ...], config: Config, round_steps: int | None) -> tuple[Who, ...]:
    """What is known of frozen players by their names in the pool of a configuration; of no pool they are untrained."""
    if config.init_param_path is None:
        algorithms = [name.removeprefix(f"{UNTRAINED}_") for name in names]
        return tuple(
            who_of(name, algorithm, member_config(config, algorithm), round_steps)
            for name, algorithm in zip(names, algorithms, strict=True)
        )
    return members_of(Pool.open(config.init_param_path), names, round_steps)


def members_of(pool: Pool, names: tuple[str, ...], round_steps: int | None) -> tuple[Who, ...]:
    """What is known of members of a pool."""
    found = []
    for member in (pool.member(name) for name in names):
        if member.kind == "scripted":
            found.append(script_of(member.name))
        else:
            found.append(
                who_of(member.name, member.algorithm, read_agent_card(pool.folder(member.name))[1], round_steps)
            )
    return tuple(found)


def write_recordings(folder: Path, games: list[Recording], *, durable: bool = True) -> list[Path]:
    """Writes games into a folder of their own, which replaces an older one; `seed_1_game_01.omgrec` and so on.

    Args:
        folder: theirs.
        games: what was recorded.
        durable: whether to wait until the files would outlast a power cut.

    Raises:
        UserError: the disk does not take them.
    """
    names = []
    try:
        with new_folder(folder, durable=durable) as staging:
            for game in games:
                names.append(game.file_name)
                write_bytes(staging / names[-1], game.to_bytes(), durable=durable)
    except OSError as error:
        raise UserError(f"The recordings {folder} cannot be written: {error.strerror or error}.") from None
    return [folder / name for name in names]
