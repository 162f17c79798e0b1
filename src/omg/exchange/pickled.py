"""A reader of pickles that cannot run anything: it knows the opcodes that tensors in plain containers are made of.

A pickle is a little program. Python's own unpickler runs it and calls what it names; here a loop of our own goes
through it, and the few names that PyTorch writes stand for functions of ours. Every other name and every other opcode
is refused before anything is done, dictionaries take words and numbers as keys only, and the number of steps is
limited: there is no way from a file to code, and none to more memory than the file itself is large.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

MOST_STEPS = 100_000
"""Opcodes of one pickle. A tensor takes about 35 of them."""

Function = Callable[..., object]
Kind = TypeVar("Kind")


class PickleError(Exception):
    """A pickle that is damaged, or asks for something else than tensors in plain containers."""


@dataclass(frozen=True)
class Named:
    """A name of PyTorch's that a pickle refers to: a function of ours, or what a storage holds."""

    name: str
    function: Function | None = None
    dtype: str | None = None


class Mark:
    """Where on the stack a list of items begins."""


_CONSTANTS: Mapping[str, bool | None] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINSTRING"}
    | {"SHORT_BINSTRING"}
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = frozenset({"PROTO", "FRAME"})


class PickleReader:
    """Reads the pickles of one file."""

    def __init__(self, names: Mapping[str, Named], load_persistent: Callable[[object], object]) -> None:
        """What the file may refer to.

        Args:
            names: `module name` -> what it stands for.
            load_persistent: Makes a storage of the tuple that stands for it.
        """
        self._names = names
        self._load_persistent = load_persistent

    def read(self, file: BinaryIO) -> object:
        """One pickle; the file stands behind it afterwards.

        Raises:
            PickleError: it is damaged, or refers to anything but `names`.
        """
        self._stack: list[object] = []
        self._memo: dict[object, object] = {}
        try:
            for steps, (opcode, argument, _) in enumerate(pickletools.genops(file)):
                if steps >= MOST_STEPS:
                    raise PickleError(f"it has more than {MOST_STEPS} steps")
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._step(opcode.name, argument)
        except PickleError:
            raise
        except Exception as error:
            raise PickleError(f"it is damaged ({type(error).__name__}: {error})") from None
        raise PickleError("it is damaged (it has no end)")

    def _step(self, opcode: str, argument: object) -> None:
        stack = self._stack
        if opcode in _VALUES:
            stack.append(argument)
        elif opcode in _CONSTANTS:
            stack.append(_CONSTANTS[opcode])
        elif opcode in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif opcode == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif opcode == "MARK":
            stack.append(Mark())
        elif opcode in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[opcode]())
        elif opcode in _TUPLES:
            count = _TUPLES[opcode]
            stack[-count:] = [tuple(stack[-count:])]
        elif opcode == "TUPLE":
            stack.append(tuple(self._items()))
        elif opcode in ("APPEND", "APPENDS"):
            items = self._items() if opcode == "APPENDS" else [stack.pop()]
            self._container(list).extend(items)
        elif opcode in ("SETITEM", "SETITEMS"):
            items = self._items() if opcode == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self._set_items(items)
        elif opcode == "GLOBAL":
            stack.append(self._named(str(argument)))
        elif opcode == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            if not isinstance(name, str) or not isinstance(module, str):
                raise PickleError("it asks for something whose name is no text")
            stack.append(self._named(f"{module} {name}"))
        elif opcode == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._called(function, arguments))
        elif opcode == "BUILD":
            # The state that PyTorch adds to a state_dict: versions of its modules.
            stack.pop()
            self._container(dict)
        elif opcode == "BINPERSID":
            stack.append(self._load_persistent(stack.pop()))
        elif opcode not in _NOTHING:
            raise PickleError(f"it holds the pickle instruction {opcode}, which no tensors need")

    def _items(self) -> list[object]:
        """Takes everything above the last mark, and the mark."""
        items: list[object] = []
        while not isinstance(item := self._stack.pop(), Mark):
            items.append(item)
        return items[::-1]

    def _container(self, kind: type[Kind]) -> Kind:
        found = self._stack[-1]
        if not isinstance(found, kind):
            raise PickleError(f"it fills a {type(found).__name__} as if it were a {kind.__name__}")
        return found

    def _set_items(self, items: list[object]) -> None:
        target = self._container(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # The hash of a deeply nested tuple would run out of stack.
            if not isinstance(key, str | int | float):
                raise PickleError(f"a {type(key).__name__} is a key of one of its dictionaries")
            target[key] = value

    def _named(self, name: str) -> Named:
        if name not in self._names:
            raise PickleError(f"it asks for '{name.replace(' ', '.', 1)}', and only tensors are read; nothing was run")
        return self._names[name]

    @staticmethod
    def _called(function: object, arguments: object) -> object:
        if not isinstance(function, Named) or function.function is None or not isinstance(arguments, tuple):
            raise PickleError("it calls something that is no function of PyTorch's tensors; nothing was run")
        return function.function(*arguments)
