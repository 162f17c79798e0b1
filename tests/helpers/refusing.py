"""What is said to a user who asks for something impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omg.errors import UserError


def refusal(call: Callable[[], Any]) -> str:
    """The message of the error that a call must end with."""
    with pytest.raises(UserError) as refused:
        call()
    return str(refused.value)
