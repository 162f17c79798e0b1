"""Recorded games: whole games on disk, with what was done, seen, valued and believed at every step."""

from omg.recordings.recording import ENDING, Recording

__all__ = ["ENDING", "Recording"]
