"""Names of a package that are imported when they are asked for, so that what does not play does not wait for JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def later(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose modules take long to import.

    Args:
        package: its `__name__`.
        modules: module of the package -> the names in it that the package offers.

    Returns:
        a function that finds such a name and keeps it in the package, so that it is asked once for each.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def found(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
