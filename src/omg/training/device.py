"""Where programs run, and the cache that spares the second run its compilation."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def prepare(use_cuda: bool, on_host: bool = False, use_cache: bool = True) -> bool:
    """Chooses the device and turns the persistent compilation cache on; returns whether a GPU is present.

    With `on_host` (games that are no JAX programs) a CPU runs compiled programs in the thread that calls them. JAX
    hands them to another one and wakes the caller at the end; acting is such a call in every step of the games, so
    short that this takes half as long again as the call itself, and there is nothing to do meanwhile. JAX reads the
    setting when it first looks for devices.

    The cache lives in `$OMG_CACHE` (default `~/.cache/omg`); an empty value turns it off. It keeps what took half a
    second or longer to compile, unless JAX's own variable says otherwise. Where it cannot be written, programs are
    compiled anew every time, and a note says so. Without `use_cache` nothing is read from it or written to it.
    """
    if simulated := re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", "")):
        # Every simulated device occupies a thread that waits for others of the same pool, of one thread for a core.
        os.environ.setdefault("NPROC", str((os.cpu_count() or 1) + int(simulated[1])))
    if on_host:
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    has_gpu = any(device.platform == "gpu" for device in jax.devices())
    jax.config.update("jax_default_device", jax.devices("cpu")[0] if has_gpu and not use_cuda else None)
    if jax.config.jax_enable_compilation_cache != use_cache:  # type: ignore[attr-defined]
        jax.config.update("jax_enable_compilation_cache", use_cache)
        compilation_cache.reset_cache()  # JAX asks once per process whether there is one.
    place = os.environ.get("OMG_CACHE", "~/.cache/omg")
    if place:
        folder, problem = _cache_folder(place)
        jax.config.update("jax_compilation_cache_dir", folder)
        if problem is not None:
            _note(f"note: compiled programs are not kept: the cache {place} cannot be written ({problem}).")
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return has_gpu


@cache
def _cache_folder(place: str) -> tuple[str | None, str | None]:
    """The folder of compiled programs, or what is wrong with it."""
    try:
        folder = Path(place).expanduser() / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        # A disk without room takes files, but nothing into them.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"probe")
            probe.flush()
    except OSError as error:
        return None, error.strerror
    except RuntimeError as error:  # Nobody knows where this user's home is.
        return None, str(error)
    return str(folder), None


@cache
def _note(line: str) -> None:
    """Prints a line once in a process."""
    print(line, file=sys.stderr)


def chosen_device() -> jax.Device:
    """The device that programs run on after `prepare`."""
    device: jax.Device | None = jax.config.jax_default_device  # type: ignore[attr-defined]
    return device or jax.devices()[0]


def compile_cache() -> str | None:
    """The folder that compiled programs are kept in after `prepare`; None where they are not."""
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return folder if jax.config.jax_enable_compilation_cache else None  # type: ignore[attr-defined]
