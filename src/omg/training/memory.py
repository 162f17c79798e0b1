"""What a run will need of the machine's memory, so that one that cannot fit is refused before it is compiled."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import jax

from omg.errors import UserError
from omg.training.device import chosen_device
from omg.training.program import Program

try:
    import resource
except ImportError:  # Windows: how much a process held is not noted there.
    resource = None  # type: ignore[assignment]

_SHARE = 0.9
"""Of the memory that one thing may have; the programs, the system and everything else need some, too."""
_CGROUP = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class _Need(NamedTuple):
    """A key that decides how much memory is taken."""

    key: str
    given: int
    what: str
    unit: float
    """Bytes for each of `given`, all seeds together."""

    @property
    def bytes(self) -> float:
        return self.given * self.unit


def memory_bytes() -> tuple[int, str]:
    """Memory of the chosen device, and what it is called: of a GPU its own, else the machine's or the container's."""
    device = chosen_device()
    if device.platform != "cpu":
        limit = (device.memory_stats() or {}).get("bytes_limit")
        if limit:
            return int(limit), f"the {device.device_kind}"
    return _host_bytes(), "this machine"


def _host_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    return min([physical, *(_cgroup_limit(path) for path in _CGROUP)])


def peak_memory() -> int | None:
    """Most bytes that were held at once: on a GPU of its memory, else by this process; None where nobody says.

    A process that trains one run after another has one peak for all of them.
    """
    device = chosen_device()
    if device.platform != "cpu":
        peak = (device.memory_stats() or {}).get("peak_bytes_in_use")
        return None if peak is None else int(peak)
    if resource is None:
        return None
    # In bytes on a Mac, in units of 1024 elsewhere.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _cgroup_limit(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 2**63
    return int(text) if text.isdecimal() else 2**63


def check_memory(program: Program) -> None:
    """Refuses a run whose buffer, games, batch or networks cannot be held at once.

    Raises:
        UserError: names the key that takes most, what it needs, what there is, and the most that would fit.
    """
    available, where = memory_bytes()
    limit = available * _SHARE
    needs = _needs(program)
    for need in sorted(needs, key=lambda need: -need.bytes):
        if need.bytes > limit:
            raise _refusal(need, available, where, int(limit // need.unit))
    largest = max(needs, key=lambda need: need.bytes)
    others = sum(need.bytes for need in needs) - largest.bytes
    if largest.bytes + others > limit:
        raise _refusal(largest, available, where, int(max(limit - others, 0) // largest.unit), others)


def bytes_of_copy(program: Program) -> int:
    """What a checkpoint takes of the host's memory while it is written beside training."""
    config = program.config
    return (program.storage_bytes() * config.save_buffer + _learner_bytes(program)) * config.seeds


def fits_beside(program: Program) -> bool:
    """Whether the host's memory has room for that copy; on a CPU all else that a run needs is there, too."""
    if chosen_device().platform != "cpu":
        return bytes_of_copy(program) <= _host_bytes() * _SHARE
    return sum(need.bytes for need in _needs(program)) + bytes_of_copy(program) <= memory_bytes()[0] * _SHARE


def _learner_bytes(program: Program) -> int:
    """Of one seed."""
    learner = jax.eval_shape(program.learner.init, jax.random.PRNGKey(0))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner))


def _needs(program: Program) -> list[_Need]:
    """What takes memory in proportion to a key. Episodes are played and learned from in twice the stored precision."""
    config, seeds = program.config, program.config.seeds
    # Each accelerator has memory of its own for its seeds.
    shared = config.devices if seeds > 1 and chosen_device().platform != "cpu" else 1
    episode = program.storage_bytes() / config.buffer_size * seeds / shared
    weights = _learner_bytes(program) / shared
    needs = [
        _Need("buffer_size", config.buffer_size, "episodes", episode),
        _Need("batch_size_run", config.batch_size_run, "games", 2 * episode),
        _Need("batch_size", config.batch_size, "episodes", 2 * episode * program.sequences / config.batch_size),
        _Need("seeds", seeds, f"networks of width {config.rnn_hidden_dim:,}", weights),
    ]
    draws = _Need("updates_per_episode", program.updates, "updates of a round", 4 * config.buffer_size * seeds / shared)
    needs.append(draws)
    if program.examines:
        needs.append(_Need("test_nepisode", config.test_nepisode, "episodes", 2 * episode))
    return needs


def _refusal(need: _Need, available: int, where: str, most: int, others: float = 0.0) -> UserError:
    beside = f" beside {_shown(others)} for all else" if others else ""
    fits = f"at most {most:,} fit" if most else "not even one fits"
    return UserError(
        f"{need.key}: {need.given:,} {need.what} need {_shown(need.bytes)}{beside}; {where} has {_shown(available)}; "
        f"{fits}."
    )


def _shown(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e9:,.2f} GB"


def shown_bytes(size: int) -> str:
    """A size in words, however small."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"
