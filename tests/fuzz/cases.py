"""Cases by number, and what is done with them in a process of its own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from .damage import damage_case
from .harness import Case, run_case
from .lines import line_case
from .material import Material
from .plans import plan_case

PARTS: dict[str, Callable[[Random, Material], Case]] = {"lines": line_case, "plans": plan_case, "files": damage_case}
COUNTS = {"lines": 10_000, "plans": 2_000, "files": 2_000}


def make_case(part: str, seed: int, number: int, material: Material) -> Case:
    """Case `number` of a part."""
    return PARTS[part](Random(f"{part} {seed} {number}"), material)


def failures(part: str, seed: int, numbers: Sequence[int], material: Material) -> list[str]:
    """Runs cases; describes those that failed, with a command that repeats each."""
    found = []
    for number in numbers:
        case = make_case(part, seed, number, material)
        outcome = run_case(case)
        if outcome.problem:
            words = shlex.join(word if len(word) < 200 else word[:200] + "..." for word in case.words)
            repeat = f"PYTHONPATH=tests python -m fuzz --part {part} --seed {seed} --case {number}"
            about = f"\n{case.about}" if case.about else ""
            found.append(f"{outcome.problem}\n  omg {words}{about}\n{outcome.detail}\n  repeat: {repeat}\n")
    return found


_material: Material | None = None


def begin(folder: str) -> None:
    """Makes the material of this process."""
    global _material
    _quiet_jax()
    _material = Material(Path(folder) / str(os.getpid()))


def work(task: tuple[str, int, list[int]]) -> tuple[str, int, list[str]]:
    """Runs the cases `(part, seed, numbers)`; returns the part, how many they were, and what failed."""
    assert _material is not None
    part, seed, numbers = task
    return part, len(numbers), failures(part, seed, numbers, _material)


def _quiet_jax() -> None:
    """One CPU is enough, and nothing here is worth a place in the user's cache."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["OMG_CACHE"] = ""
