"""Plans of pipelines: the presets with values replaced, keys renamed, text mutated."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from .harness import Case
from .material import Material
from .parts import assignment
from .values import STRANGE, changed_tree, mutated, word


def plan_case(random: Random, _material: Material) -> Case:
    """`omg pipeline FILE` with a plan that is not as it should be, now and then with further words."""
    data = _plan(random)
    words = ["pipeline", "plan.yaml", *(["--output", "out"] if random.random() < 0.5 else [])]
    if random.random() < 0.1:
        words.append(f"{random.choice(('train', 'pool', 'agents', 'report'))}.{word(random)}={word(random)}")

    def prepare(folder: Path) -> None:
        (folder / "pool").mkdir()  # Plans speak of a pool; one that is there is never the right one.
        (folder / "plan.yaml").write_bytes(data)

    return Case(words, prepare, about=data.decode("utf-8", "replace")[:4000])


def _plan(random: Random) -> bytes:
    import yaml

    name = random.choice(_presets())
    if random.random() < 0.3:
        return _changed_text(random, _text(name)).encode("utf-8", "surrogatepass")
    tree = changed_tree(random, _tree(name))
    if random.random() < 0.4 and isinstance(tree, dict):
        _set_something(random, tree)
    try:
        return yaml.dump(tree, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError, yaml.YAMLError):
        return b"name: " + b"[" * 3000


def _changed_text(random: Random, text: str) -> str:
    """Single lines with other values; explicit tags and anchors can be written only in text."""
    lines = text.splitlines()
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(lines))
        key, colon, _ = lines[place].partition(":")
        kind = random.randrange(3)
        if kind == 0 and colon:
            lines[place] = f"{key}: {random.choice(STRANGE)}"
        elif kind == 1:
            lines[place] = mutated(random, lines[place])
        else:
            lines.insert(
                place, random.choice(("  x: 1", "agents: &a {b: *a}", "\t", "- 1", "name: !!int x", word(random)))
            )
    return "\n".join(lines)


def _set_something(random: Random, tree: dict[str, Any]) -> None:
    """Puts a key of the configuration, or of a section, where it may or may not belong."""
    from omg.experiments.plan import SECTIONS

    section = random.choice(list(SECTIONS))
    key, value = assignment(random)
    if random.random() < 0.5:
        key = random.choice(list(SECTIONS[section].model_fields) or [key])
    if not isinstance(tree.get(section), dict):
        tree[section] = {}
    tree[section][key.removeprefix("env_args.")] = random.choice((value, 1, 2, 10**10, None, True, [value], {value: 1}))
    if random.random() < 0.2:
        tree["agents"] = {word(random): {"config": random.choice(("iql", "vdn", word(random)))}, "b": None}


@cache
def _presets() -> tuple[str, ...]:
    from omg.experiments.plan import preset_names

    return tuple(preset_names())


@cache
def _text(name: str) -> str:
    from omg.experiments.plan import preset_text

    return preset_text(name)


@cache
def _tree(name: str) -> Any:
    from omg.config import read_yaml

    return read_yaml(_text(name))
