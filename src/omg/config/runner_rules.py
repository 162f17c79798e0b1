"""What the rest of a configuration must know about a runner. The runners themselves: `omg.runners.RUNNERS`."""

from __future__ import annotations

from typing import NamedTuple


class RunnerRules(NamedTuple):
    """How a runner limits other keys."""

    one_game: bool = False
    """It plays one game at a time: `batch_size_run` is 1."""
    tests_in_rounds: bool = True
    """Tests are whole rounds of `batch_size_run` games, as in PyMARL, rather than any number of games at once."""
    compiled_only: bool = False
    """It plays JAX games only; others then go to `parallel`."""


RUNNER_RULES: dict[str, RunnerRules] = {
    "vector": RunnerRules(tests_in_rounds=False, compiled_only=True),
    "episode": RunnerRules(one_game=True),
    "parallel": RunnerRules(),
}
"""Word of the key `runner` -> its rules; `omg.runners.register_runner` adds to them."""
