"""Parts say what they are: nobody compares with the name of a part outside its own room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import omg
from omg.registry import REGISTRIES, registries

PACKAGE = Path(omg.__file__).parent
NAMES = {name: key for key, found in registries().items() for name in found}
HOMES = {
    "env": ("envs",),
    "runner": ("runners",),
    "mac": ("controllers",),
    "action_selector": ("controllers", "components"),
    "agent": ("modules",),
    "am_model": ("modules/opponent_models",),
    "learner": ("learners",),
    "optimizer": ("learners",),
    "mixer": ("modules/mixers",),
    "critic": ("modules",),
    "tracker": ("tracking/trackers",),
    "measure": ("training",),
    "script": ("controllers/scripted",),
}
"""Key -> the rooms of its parts."""
TELLING = tuple(name for name in NAMES if name.endswith(("_learner", "_4am", "_am", "_mac")) or name.startswith("idv_"))
"""Names that mean nothing else; others, such as `mlp`, are also words of other keys."""


def constants(node: ast.AST) -> Iterator[str]:
    """Texts that stand in an expression itself or in a tuple, list, set or dictionary's keys there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for one in node.elts:
            yield from constants(one)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            yield from constants(key) if key is not None else ()


def said(node: ast.AST) -> str:
    """The last word of a name or attribute: `config.learner` -> `learner`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def compared(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, what is compared and the text it is compared with, of every comparison; collections of texts as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            words = {said(side) for side in sides} - {""}
            for text in (text for side in sides for text in constants(side)):
                yield node.lineno, next(iter(words), ""), text
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            for text in constants(node):
                yield node.lineno, "", text


def test_every_kind_of_part_has_a_room():
    assert set(HOMES) == set(REGISTRIES)
    assert all((PACKAGE / room).is_dir() for rooms in HOMES.values() for room in rooms)
    assert len(TELLING) > 18


def test_nobody_compares_with_the_name_of_a_part():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for line, word, text in compared(ast.parse(path.read_text())):
            key = NAMES.get(text)
            if key is None or place.startswith(tuple(f"{room}/" for room in HOMES[key])):
                continue
            if word in REGISTRIES or text in TELLING:
                found.append(f"{place}:{line}: {word} {text}")
    assert found == []
