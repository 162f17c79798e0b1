"""Gymnasium spaces of several seats as one table: observations flattened and padded to the longest, actions masked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import numpy as np

from omg.envs.adapters.host import GameFaultError
from omg.errors import UserError

try:
    from gymnasium import spaces
except ImportError as error:
    raise UserError(
        "Games of Gymnasium and PettingZoo need the package gymnasium, which is not installed. "
        "Install it with: pip install 'omg-marl[envs]'"
    ) from error


class SeatSpaces:
    """The spaces of A seats."""

    def __init__(self, observations: Sequence[spaces.Space], actions: Sequence[spaces.Space], name: str) -> None:
        """Measures the spaces.

        Args:
            observations: one Gymnasium space per seat; a dictionary with `observation` and `action_mask` is known.
            actions: one `Discrete` space per seat.
            name: of the game, for messages.
        """
        discrete = []
        for seat, space in enumerate(actions):
            if not isinstance(space, spaces.Discrete):
                raise UserError(f"{name}: seat {seat} has the action space {space}. Allowed: Discrete.")
            discrete.append(space)
        self.observations = [_seen_part(space) for space in observations]
        self.widths = [spaces.flatdim(space) for space in self.observations]
        self.counts = [int(space.n) for space in discrete]
        self.first_actions = [int(space.start) for space in discrete]
        self.n_agents = len(self.widths)
        self.obs_dim, self.n_actions = max(self.widths), max(self.counts)
        # Flat boxes, the usual case, are copied as they are: `spaces.flatten` takes longer than a small game's step.
        self._plain = [isinstance(space, spaces.Box) for space in self.observations]
        self._alike = all(self._plain) and {len(space.shape or ()) for space in self.observations} == {1}
        self._alike = self._alike and len(set(self.widths)) == 1
        self.all_legal = np.arange(self.n_actions) < np.array(self.counts)[:, None]
        """[A, U] bool, the actions that a seat has at all."""

    def rows(self, observations: Sequence[object]) -> np.ndarray:
        """Observations of all seats as [A, O] float32; None for a seat that sees nothing (zeros)."""
        if len(observations) != self.n_agents:
            raise GameFaultError(f"{len(observations)} observations for {self.n_agents} seats")
        if self._alike:
            # The usual case in one go; whatever does not fit is looked at more closely below.
            with contextlib.suppress(ValueError, TypeError):
                rows = np.array(observations, np.float32)
                if rows.shape == (self.n_agents, self.obs_dim):
                    return rows
        table = np.zeros((self.n_agents, self.obs_dim), np.float32)
        for seat, observation in enumerate(observations):
            if observation is None:
                continue
            if isinstance(observation, dict) and "observation" in observation:
                observation = observation["observation"]
            plain = observation if self._plain[seat] else spaces.flatten(self.observations[seat], observation)
            row = np.ravel(np.asarray(plain))
            if row.size != self.widths[seat]:
                raise GameFaultError(f"seat {seat} has an observation of {row.size} numbers, not {self.widths[seat]}")
            table[seat, : row.size] = row
        return table

    def legal(self, masks: Iterable[object] | None) -> np.ndarray:
        """Legal actions [A, U] bool from one mask per seat, each as long as that seat's actions; None: all."""
        if masks is None:
            return self.all_legal
        table = np.zeros((self.n_agents, self.n_actions), bool)
        for seat, mask in enumerate(masks):
            row = np.ravel(np.asarray(mask))
            # Some games pad their masks to the longest action space, some do not.
            if row.size not in (self.counts[seat], self.n_actions):
                raise GameFaultError(f"seat {seat} has a mask of {row.size} actions, not {self.counts[seat]}")
            table[seat, : row.size] = row.astype(bool)
        return table & self.all_legal

    def chosen(self, actions: np.ndarray) -> list[int]:
        """Actions [A], counted from 0, as the members of the seats' spaces that games expect."""
        return [int(action) + first for action, first in zip(actions, self.first_actions, strict=True)]


def _seen_part(space: spaces.Space) -> spaces.Space:
    """The part of an observation space that is observed, without the mask beside it."""
    if isinstance(space, spaces.Dict) and "observation" in space.spaces:
        return space.spaces["observation"]
    return space
