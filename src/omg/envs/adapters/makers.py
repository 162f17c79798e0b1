"""What may be called to make a game of another package, and what a stranger's file may tell it.

A key such as `subprocess:run` names a callable, too. Nothing is called to find out what it makes: it must be a class
with a game's methods, or a function that says so by its return type or by the name that such functions have.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypeVar

from omg.errors import UserError
from omg.types import Json, PyTree

Made = TypeVar("Made")

KNOWN_MODULES = (
    "lbforaging",
    "rware",
    "mpe2",
    "jaxmarl",
    *(f"pettingzoo.{family}" for family in ("atari", "butterfly", "classic", "mpe", "sisl")),
)
"""Modules of games that a file may name without the user's word, with all that is inside them."""
_METHODS = ("reset", "step")
_FACTORIES = ("env", "parallel_env", "raw_env")
_LARGEST = 1000
_LONGEST = 200


def is_known(module: str) -> bool:
    """Whether a module is one of the known ones or inside one."""
    return any(module == known or module.startswith(f"{known}.") for known in KNOWN_MODULES)


def maker_of(option: str, given: str, module: ModuleType, name: str) -> Callable[..., object]:
    """The class or function `name` of a module, if it is one that makes games.

    Args:
        option: the option that names it.
        given: its value.
        module: where it is.
        name: an attribute of the module.

    Raises:
        UserError: it is anything else; it was not called.
    """
    maker: Callable[..., object] = getattr(module, name)
    if not _makes_games(module, name, maker):
        raise UserError(
            f"{option}: got '{given}', which is no game. Allowed: a class with the methods {' and '.join(_METHODS)}, a "
            f"function whose return type is such a class, or a function named make…, {', '.join(_FACTORIES)}."
        )
    return maker


def made(option: str, given: str, make: Callable[[], Made]) -> Made:
    """What `make` returns: a game of another package, whose faults become one message.

    Raises:
        UserError: it failed; the error that it raised is the cause.
    """
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:500]
        raise UserError(f"{option}: '{given}' cannot be made: {type(error).__name__}: {said}") from error


def method_of(game: object, name: str) -> Callable[..., PyTree] | None:
    """A method that the games of other packages may have or not; None without it.

    Whatever they promise, they say so by having it: there is no class that all of them share.
    """
    found = getattr(game, name, None)
    return found if callable(found) else None


def number_of(game: object, name: str) -> int | None:
    """A whole number that the games of other packages may have or not; None without it."""
    try:
        return int(getattr(game, name))
    except (AttributeError, TypeError, ValueError):
        return None


def _makes_games(module: ModuleType, name: str, maker: object) -> bool:
    if inspect.isclass(maker):
        return _is_game(maker)
    own_package = module.__name__.partition(".")[0]
    if not inspect.isfunction(maker) or own_package in sys.stdlib_module_names:
        return False
    if name in _FACTORIES or name.startswith("make"):
        return True
    try:
        return _is_game(typing.get_type_hints(maker).get("return"))
    except (NameError, TypeError, AttributeError):
        return False


def _is_game(kind: object) -> bool:
    return inspect.isclass(kind) and all(callable(getattr(kind, method, None)) for method in _METHODS)


def untold_values(values: Json, where: str = "") -> Iterator[str]:
    """The arguments of a game that a stranger's file must not give: paths, and sizes that could fill the memory.

    Args:
        values: arguments by name, plain data as JSON and YAML have it.
        where: dotted path to `values`.

    Yields:
        `name=value` of each.
    """
    if isinstance(values, dict):
        for name, value in values.items():
            yield from untold_values(value, f"{where}.{name}" if where else str(name))
    elif isinstance(values, list | tuple):
        if len(values) > _LONGEST:
            yield f"{where}, a list of {len(values)}"
        for value in values[:_LONGEST]:
            yield from untold_values(value, where)
    elif isinstance(values, str):
        if len(values) > _LONGEST or any(part in values for part in ("/", "\\", "..", ":", "~", "$")):
            yield f"{where}={values[:_LONGEST]!r}"
    elif isinstance(values, int | float) and not -_LARGEST <= values <= _LARGEST:
        yield f"{where}={values!r}"
