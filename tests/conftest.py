"""What makes the tests fast (one compilation cache for the session, quick compilation, rare collections); fixtures."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from fast import FILES

SLOWEST = (
    *("test_registries", "test_pipeline", "test_hop_plus_training", "test_team_training", "test_hop_training"),
    *("test_social_training", "test_battle_physics", "test_q_learner", "test_evaluation", "test_policy_training"),
    *("test_training", "test_ppo", "test_host_training", "test_longer", "test_resume", "test_old_words", "test_team"),
    *("test_scripted", "test_hop_plus_learner", "test_env_contract", "test_versus", "test_omg_learner", "test_jaxmarl"),
    *("test_pipeline_at_once", "test_runs_at_once", "test_examples", "test_hop_player", "test_toy_tables"),
    *("test_planning_search", "test_signalled_processes", "test_signals", "test_surroundings", "test_disk_faults"),
    *("test_devices",),
)
"""The files that take longest, longest first."""
MOST_AREAS = 15_000
"""From here on a worker forgets what it has compiled; one file adds a few thousand."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`: only the files of `fast.py`; the others are not even imported."""
    parser.addoption("--fast", action="store_true", help="only the files that are listed in tests/fast.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out what `--fast` does not want."""
    chosen = collection_path.is_dir() or collection_path.stem in FILES
    return True if config.option.fast and not chosen else None


def pytest_configure(config: pytest.Config) -> None:
    """Sets what JAX reads once, before any test module imports it.

    The cache is shared by the workers and by every process that a test starts.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # `nohup` and CI may have it ignored, which processes inherit, and the program respects.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Nearly all of the tests' time is compilation, and what they compute is small. With 0 programs are those of users.
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # The order below is better than that of pytest-xdist.
    if hasattr(config, "workerinput"):  # A worker of pytest-xdist inherits what its parent has set.
        return
    # Otherwise every process that a test starts compiles the whole package to bytecode.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *quick_compilation()]).strip()
    cache = tempfile.mkdtemp(prefix="omg-test-cache-")
    os.environ["OMG_CACHE"] = cache
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{cache}/compiled"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))


def quick_compilation() -> list[str]:
    """Flags of XLA that make compilation faster: the older way to compile fused loops takes a third of the time.

    Newer versions do not have it any more, and XLA ends a process that gives it a flag it does not know.
    """
    release = tuple(int(part) for part in version("jaxlib").split(".")[:2])
    return ["--xla_cpu_use_fusion_emitters=false"] if release < (0, 11) else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest files first, so that no worker begins with one of them when the others have nothing left."""
    rank = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish() -> None:
    """What all imports have made stays, and tracing makes objects by the million: looking through them is a waste."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Forgets compiled programs when there are many.

    Each takes some of the memory areas of which Linux gives a process 65,530: the next one compiled then ends it.
    """
    yield
    if memory_areas() > MOST_AREAS:
        import equinox as eqx
        import jax

        jax.clear_caches()
        eqx.clear_caches()
        gc.collect()


def memory_areas() -> int:
    """How many areas of memory this process has; 0 where the system does not say."""
    areas = Path("/proc/self/maps")
    return areas.read_bytes().count(b"\n") if areas.exists() else 0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of a module go here: the path is part of a run's configuration."""
    return tmp_path_factory.mktemp("results")
