"""How long programs took to compile, kept beside the compilation cache: whoever waits is told what it took last time.

A hint and nothing more: what cannot be read or written is passed over.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from omg.config import Config
from omg.disk import DamagedFileError, read_json, write_json
from omg.types import Json

_FILE = "compile_seconds.json"
_MOST_BYTES = 200_000
_MOST = 500
"""Entries that are kept."""
_WORTH_KEEPING = 3.0
"""Seconds. What took less came out of the cache, or is no wait."""


class CompileTimes:
    """What compiling took, by program; those of one algorithm, game and device.

    Args:
        folder: of compiled programs; None: nothing is kept.
        config: what is compiled.
        device: what for.
    """

    def __init__(self, folder: str | None, config: Config, device: str) -> None:
        self._file = None if folder is None else Path(folder).parent / _FILE
        game = ",".join(f"{key}={value}" for key, value in sorted(config.env_args.items()))
        self._what = f"{config.name} {config.env} {game[:200]} x{config.seeds} {device}"

    def last(self, program: str) -> float | None:
        """Seconds that a program took when it was last compiled; None where that is not known."""
        seconds = self._read().get(f"{self._what} {program}")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            return None
        return float(seconds) if math.isfinite(seconds) and seconds > 0 else None

    def keep(self, program: str, seconds: float) -> None:
        """Notes how long a program took, unless it took next to nothing."""
        if self._file is None or seconds < _WORTH_KEEPING:
            return
        known = self._read()
        known.pop(f"{self._what} {program}", None)
        kept = list(known.items())[1 - _MOST :]
        with suppress(OSError):
            write_json(self._file, {**dict(kept), f"{self._what} {program}": round(seconds, 1)}, durable=False)

    def _read(self) -> dict[str, Json]:
        if self._file is None:
            return {}
        try:
            found = read_json(self._file, _MOST_BYTES)
        except (OSError, DamagedFileError):
            return {}
        return found if isinstance(found, dict) else {}
