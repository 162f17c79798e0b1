"""Sacred's flags and commands; what becomes of the long names stands in `old_word_table`."""

from __future__ import annotations

SACRED_FLAGS: dict[str, tuple[str, bool]] = {
    "-F": ("file_storage", True),
    "-m": ("mongo_db", True),
    "-t": ("tiny_db", True),
    "-s": ("sql", True),
    "-S": ("s3", True),
    "-l": ("loglevel", True),
    "-n": ("name", True),
    "-i": ("id", True),
    "-c": ("comment", True),
    "-C": ("capture", True),
    "-b": ("beat_interval", True),
    "-P": ("priority", True),
    "-d": ("debug", False),
    "-D": ("pdb", False),
    "-u": ("unobserved", False),
    "-p": ("print_config", False),
    "-q": ("queue", False),
    "-f": ("force", False),
    "-e": ("enforce_clean", False),
    "-h": ("help", False),
}
"""Flag -> its long name, and whether a value follows."""

SACRED_COMMANDS = {
    "print_dependencies": "versions.json in the run's folder has the packages.",
    "print_named_configs": "Use `omg algs` and `omg envs`.",
    "save_config": "Use `omg config --yaml`, which takes the same words.",
}
"""Command of Sacred's that is refused -> what to do instead; `print_config` works."""
