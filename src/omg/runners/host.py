"""Whole episodes of games that are not JAX programs: `episode` and `parallel`.

All games of a round start together; one call of the policy chooses the actions of all of them. Games that are lost on
the way (their worker died) are played again at the end of the round, with other seeds and with the same teams, so that
a round always brings the same number of whole episodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from omg.envs.adapters.host import HostEnv, Seen
from omg.runners.vector import OWN_RETURN
from omg.runners.workers import InlineVenue, Patience, Say, Venue, WorkerVenue
from omg.types import Tree

_SEED_BITS = 31


class Chooser(Protocol):
    """Chooses the actions of all games, step by step."""

    def begin(self) -> None:
        """A round of episodes begins; called again when games are played again, and must then give the same teams."""
        ...

    def choose(self, t: int, seen: Seen, *, last: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Chooses actions.

        Args:
            t: time slot.
            seen: what all games show in it: obs [N, A, O], state [N, S], avail [N, A, U]; zeros where a game is over.
            last: whether all games are over, and the actions are what would have been done next.

        Returns:
            Actions [N, A] int32, and what must be stored with the step, name -> [N, ...].
        """
        ...


class Played(NamedTuple):
    """The episodes of a round, time-major: arrays that the next round overwrites."""

    obs: np.ndarray
    """[T+1, N, A, O] float32."""
    state: np.ndarray
    """[T+1, N, S] float32."""
    avail: np.ndarray
    """[T+1, N, A, U] bool."""
    actions: np.ndarray
    """[T+1, N, A] int32."""
    reward: np.ndarray
    """[T+1, N] or [T+1, N, A] float32."""
    terminated: np.ndarray
    """[T+1, N] bool."""
    filled: np.ndarray
    """[T+1, N] bool."""
    records: dict[str, np.ndarray]
    """name -> [T+1, N, ...]."""
    metrics: dict[str, np.ndarray]
    """`spec.metrics` name -> [N] float32, at the last step."""
    dropped: np.ndarray
    """[N] int32, episodes of each game that were lost in this round."""

    def returns(self) -> np.ndarray:
        """[N] float32, summed over seats in general-sum games."""
        return self.reward.sum(axis=0) if self.reward.ndim == 2 else self.reward.sum(axis=(0, 2))

    def lengths(self) -> np.ndarray:
        """[N] int32, steps played."""
        return self.filled.sum(axis=0, dtype=np.int32)

    def own_returns(self, learns: np.ndarray) -> np.ndarray:
        """[N] float32, the mean return of the seats that learn, `learns` [N, A] bool."""
        each = self.reward.sum(axis=0)
        return (each * learns).sum(axis=1) / np.maximum(learns.sum(axis=1), 1)

    def measured(self, learns: np.ndarray | None) -> dict[str, np.ndarray]:
        """All metrics of the episodes, [N] each; `learns` as for `own_returns`, None without a team."""
        if learns is None or self.reward.ndim == 2:
            return self.metrics
        return {**self.metrics, OWN_RETURN: self.own_returns(learns)}


def episode_seed(*parts: int) -> int:
    """The seed of one episode, from the numbers that name it: the same whoever plays it, 0 … 2^31 - 1."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0]) >> (32 - _SEED_BITS)


def default_workers(games: int) -> int:
    """As many workers as this process may use cores, and no more than there are games."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, games))


def _columns(games: np.ndarray) -> np.ndarray | slice:
    """The index of some games, [N] bool, in an axis of all."""
    return slice(None) if games.all() else games


class HostRunner:
    """Plays rounds of N episodes. Close it when done."""

    def __init__(
        self,
        env: HostEnv,
        name: str,
        env_args: Tree,
        games: int,
        *,
        workers: int | None,
        patience: Patience,
        say: Say,
    ) -> None:
        """Opens the venue.

        Args:
            env: the game.
            name: its name in the registry.
            env_args: its options.
            games: N.
            workers: number of worker processes; 0 to play in this process, None for `default_workers`.
            patience: with games that fail.
            say: receives one line for every failure.
        """
        self.spec = env.spec
        self.games = games
        self.venue: Venue
        if workers == 0:
            self.venue = InlineVenue(env, games, patience, say)
        else:
            number = default_workers(games) if workers is None else min(workers, games)
            self.venue = WorkerVenue(env, name, env_args, games, number, patience, say)

    def play(self, chooser: Chooser, seed: Callable[[int, int], int]) -> Played:
        """Plays one round.

        Args:
            chooser: acts in all seats.
            seed: (game, attempt) -> the seed of that episode.

        Returns:
            N whole episodes, in memory that the next round overwrites.

        Raises:
            GamesFailedError: games failed more often in a row than allowed.
        """
        board = self.venue.board
        board.clear()
        records: dict[str, np.ndarray] = {}
        dropped = np.zeros(self.games, np.int32)
        waiting, attempt = np.ones(self.games, bool), 0
        while waiting.any():
            for game in np.flatnonzero(waiting):
                board.seeds[game] = seed(int(game), attempt)
            lost = self._attempt(chooser, waiting, records)
            for values in records.values():
                values[:, lost] = 0
            dropped += lost
            waiting, attempt = lost, attempt + 1
        self.venue.failures = 0
        metrics = {name: board.metrics[:, index].copy() for index, name in enumerate(self.spec.metrics)}
        return Played(
            board.obs,
            board.state,
            board.avail,
            board.actions,
            board.reward,
            board.terminated,
            board.filled,
            records,
            metrics,
            dropped,
        )

    def _attempt(self, chooser: Chooser, taking_part: np.ndarray, records: dict[str, np.ndarray]) -> np.ndarray:
        """Plays the games `taking_part` [N] to their ends; returns those that were lost, [N] bool."""
        board, limit = self.venue.board, self.spec.episode_limit
        chooser.begin()
        board.playing[:] = taking_part
        failed = self.venue.reset()
        lost = np.zeros(self.games, bool) if failed is None else failed
        board.clear(lost)
        # A mask copies: where all games take part, which is nearly always, plain slices are several times faster.
        written = _columns(taking_part & ~lost)
        for t in range(limit + 1):
            last = not board.playing.any()
            if last and lost.all(where=taking_part):
                break
            seen = Seen(board.obs[t], board.state[t], board.avail[t])
            actions, extra = chooser.choose(t, seen, last=last)
            board.actions[t, written] = actions[written]
            for name, values in extra.items():
                if name not in records:
                    records[name] = np.zeros((limit + 1, *values.shape), values.dtype)
                records[name][t, written] = values[written]
            if last:
                break
            board.filled[t] |= board.playing
            failed = self.venue.step(t)
            if failed is not None:
                # At once, so that nobody acts on what a broken game has shown last.
                board.clear(failed)
                lost |= failed
                written = _columns(taking_part & ~lost)
        return lost

    def save_replays(self) -> None:
        """Writes replays of the episodes just played, where the game has them."""
        self.venue.save_replays()

    def close(self) -> None:
        """Ends all games and processes; may be called twice."""
        self.venue.close()
