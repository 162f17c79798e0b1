"""One compilation cache for the whole test session, shared by its workers and by every process they start."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Runs before any test module imports JAX, which reads these variables once."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # Nearly all of the tests' time is compilation, and what they compute is small. With 0 programs are those of users.
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if hasattr(config, "workerinput"):  # A worker of pytest-xdist inherits what its parent has set.
        return
    cache = tempfile.mkdtemp(prefix="omg-test-cache-")
    os.environ["OMG_CACHE"] = cache
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{cache}/compiled"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
