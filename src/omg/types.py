"""Names of types that many rooms share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

PyTree: TypeAlias = Any
"""A tree of arrays (or of what stands for them: shapes, shardings) whose structure its maker alone knows."""

Json: TypeAlias = Any
"""What JSON or YAML holds: a mapping, a list, text, a number, a truth value or nothing."""

Tree: TypeAlias = dict[str, Json]
"""A mapping as JSON or YAML holds it, of which nothing is known yet: settings, a file's header."""

Row: TypeAlias = Mapping[str, "str | int | float | bool | None"]
"""One row of a table: column -> value."""
