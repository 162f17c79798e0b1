"""`default.yaml`, made from the sections: every key with its help text and its default.

The file is there to be read and copied; the defaults themselves stand in the sections. `tools/write_defaults.py` writes
it anew.
"""

from __future__ import annotations

import textwrap

from omg.config.schema import SECTIONS
from omg.config.values import write_yaml

_HEAD = "The defaults of every key. envs/<env>.yaml, algs/<alg>.yaml and the command line overrule them, in this order."
_READABLE = 10_000
"""Whole numbers from here on are written with underscores."""


def default_yaml() -> str:
    """The text of `default.yaml`."""
    parts = [f"# {_HEAD}\n"]
    for section in SECTIONS:
        heading = textwrap.fill(str(section.__doc__), 118, initial_indent="# ", subsequent_indent="# ")
        lines = [f"\n{heading}\n\n"]
        for key in section.__annotations__:
            field = section.model_fields[key]
            lines.append(f"# {field.description}\n{key}: {_written(field.default)}\n")
        parts.append("".join(lines))
    return "".join(parts)


def _written(value: object) -> str:
    """A default as YAML; large whole numbers with underscores, lists in one line."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= _READABLE:
        return f"{value:_}"
    if isinstance(value, list):
        return f"[{', '.join(_written(one) for one in value)}]"
    return write_yaml({"value": value}).removeprefix("value:").strip()
