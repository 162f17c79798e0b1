"""Values as people type them: `100k`, `2M` for whole numbers, `yes` and `off` for truth values."""

from __future__ import annotations

import re
from typing import Annotated, get_args, get_origin

from pydantic.fields import FieldInfo

_THOUSANDS = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kKmM])")
_UNITS = {"k": 1_000, "m": 1_000_000}
_TRUTHS = {"yes": True, "on": True, "no": False, "off": False}


def plain_value(field: FieldInfo, value: object) -> object:
    """`value` as `field` knows it: text that is a known way to write a number or a truth value is replaced by it."""
    if not isinstance(value, str):
        return value
    parts = (field.annotation, *get_args(field.annotation))
    kinds = {get_args(part)[0] if get_origin(part) is Annotated else part for part in parts}
    if bool in kinds and value.lower() in _TRUTHS:
        return _TRUTHS[value.lower()]
    found = _THOUSANDS.fullmatch(value)
    if int in kinds and found:
        number = float(found["number"]) * _UNITS[found["unit"].lower()]
        return int(number) if number.is_integer() else value
    return value
