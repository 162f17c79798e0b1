"""Packages with parts for omg: the example, built from its sources as pip would, and small ones written by hand."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omg.registry.plugins import look_again

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SETUP = "import warnings; warnings.simplefilter('ignore'); import setuptools; setuptools.setup()"


def build_example(folder: Path) -> Path:
    """A folder with the example as a distribution: its code and metadata, made by setuptools from pyproject.toml."""
    sources, site = folder / "sources", folder / "site"
    shutil.copytree(EXAMPLE, sources)
    site.mkdir()
    words = ("-q", "egg_info", "--egg-base", str(site), "build_py", "--build-lib", str(site))
    subprocess.run([sys.executable, "-c", SETUP, *words], cwd=sources, check=True, capture_output=True)
    return site


def write_package(site: Path, package: str, points: dict[str, dict[str, str]], code: str = "") -> Path:
    """A distribution by hand: a module named like it, and its entry points, group -> name -> place."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{package}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = {group: "".join(f"{name} = {place}\n" for name, place in names.items()) for group, names in points.items()}
    groups = (f"[{group}]\n{text}" for group, text in lines.items())
    (info / "entry_points.txt").write_text("\n".join(groups))
    return site


@contextmanager
def installed(*sites: Path) -> Iterator[None]:
    """Inside the block, what lies in these folders is installed."""
    paths, modules = list(sys.path), set(sys.modules)
    sys.path[:0] = [str(site) for site in sites]
    importlib.invalidate_caches()
    look_again()
    try:
        yield
    finally:
        sys.path[:] = paths
        places = tuple(str(site) for site in sites)
        for name in set(sys.modules) - modules:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(places):
                del sys.modules[name]
        look_again()
