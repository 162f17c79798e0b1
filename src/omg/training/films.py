"""Who takes the films of a run's tests (`save_replay`), as the training loop knows it."""

from __future__ import annotations

from typing import Any, Protocol

from omg.runners.vector import EpisodeStats, Filmed
from omg.training.state import RunState


class Films(Protocol):
    """Takes films, and may make something of them beside training."""

    def keep(self, state: RunState[Any], film: Filmed, stats: EpisodeStats, tested: list[int]) -> None:
        """Takes the film of a test.

        Args:
            state: of the run when it was tested; may be donated afterwards.
            film: [Z, F, ...], as NumPy arrays.
            stats: [Z, E], likewise.
            tested: the seeds, by number, that have trained since their last test.

        Raises:
            UserError: the disk does not take what is made of them, now or before.
        """

    def wait(self) -> None:
        """Returns when nothing is being made any more.

        Raises:
            UserError: the disk did not take it.
        """
