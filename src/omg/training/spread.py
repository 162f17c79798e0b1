"""One run on several devices (`devices`): its seeds are shared out to them, or the games of its only seed.

Seeds need nothing of each other, so every device runs the program of its own seeds and keeps their networks and replay
buffers. With one seed all devices hold the same run: each plays its share of the games of a round, and all learn the
same from all of them. Either way the `RunState` is one pytree of arrays, whatever they are spread over, and a
checkpoint says nothing of devices.

Letters in shapes: Z seeds, B games.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Wrapped

from omg.config import Config
from omg.errors import UserError
from omg.runners.vector import Rollout
from omg.training.device import chosen_device
from omg.training.state import RunState
from omg.types import PyTree

AXIS = "devices"
_ALL, _FIRST, _SECOND = PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(None, AXIS)
"""The same on every device; shared out by the first axis; by the second."""


class Spread:
    """How programs of a run become programs of several devices; with one device everything stays as it is."""

    def __init__(self, config: Config | None = None) -> None:
        """Looks for the devices.

        Args:
            config: of the run; None: one device, whatever a configuration says.

        Raises:
            UserError: there are not so many, or seeds or games cannot be shared out to them.
        """
        self.mesh: Mesh | None = None
        self.by_seed = config is not None and config.seeds > 1
        own = ("learner", "storage", "key", "t_env", "tuned") if self.by_seed else ()
        places: dict[str, PyTree] = {name: _FIRST if name in own else _ALL for name in RunState._fields}
        self._state = RunState(**places)
        """Where each of its parts belongs."""
        if config is not None and config.devices > 1:
            _check(config)
            self.mesh = Mesh(np.asarray(_devices()[: config.devices]), (AXIS,))

    def init(self, function: Callable[..., RunState]) -> Wrapped:
        """Compiled, makes a state where it belongs."""
        return jax.jit(function, out_shardings=None if self.mesh is None else self._named(self._state))

    def chunk(self, function: Callable[..., PyTree]) -> Wrapped:
        """Compiled, for `RunState -> (RunState, arrays [I, Z, ...])`; the state is donated."""
        return self._compiled(function, (self._state, _SECOND if self.by_seed else _ALL), donated=True)

    def look(self, function: Callable[..., PyTree]) -> Wrapped:
        """Compiled, for `RunState -> arrays [Z, ...]`."""
        return self._compiled(function, _FIRST if self.by_seed else _ALL)

    def place(self, state: RunState) -> RunState:
        """A state from elsewhere, on the devices of the run."""
        placed: RunState = jax.device_put(state, None if self.mesh is None else self._named(self._state))
        return placed

    @property
    def words(self) -> str:
        """The devices in words."""
        kind = chosen_device().device_kind
        return kind if self.mesh is None else f"{self.mesh.size} x {kind}"

    @property
    def shares_games(self) -> bool:
        """Whether it is the games of one seed that are shared out."""
        return self.mesh is not None and not self.by_seed

    def games(self, values: PyTree) -> PyTree:
        """Arrays [B, ...] of the games of one seed, shared out."""
        return self._held(values, _FIRST)

    def played(self, rollout: Rollout) -> Rollout:
        """What the games of a round brought: of one seed, on every device."""
        everywhere: Rollout = self._held(rollout, _ALL) if self.shares_games else rollout
        return everywhere

    def _held(self, values: PyTree, spec: PartitionSpec) -> PyTree:
        assert self.mesh is not None
        return jax.lax.with_sharding_constraint(values, NamedSharding(self.mesh, spec))

    def _compiled(self, function: Callable[..., PyTree], results: PyTree, *, donated: bool = False) -> Wrapped:
        donate = 0 if donated else None
        if self.mesh is None:
            return jax.jit(function, donate_argnums=donate)
        if self.by_seed:
            # Nothing is exchanged, so that loops on one device do not wait for those of another.
            function = jax.shard_map(
                function, mesh=self.mesh, in_specs=(self._state,), out_specs=results, check_vma=False
            )
        shardings = (self._named(self._state),), self._named(results)
        return jax.jit(function, in_shardings=shardings[0], out_shardings=shardings[1], donate_argnums=donate)

    def _named(self, specs: PyTree) -> PyTree:
        assert self.mesh is not None
        return jax.tree.map(partial(NamedSharding, self.mesh), specs)


def _devices() -> list[jax.Device]:
    return list(jax.devices(chosen_device().platform))


def _check(config: Config) -> None:
    """Refuses devices that are not there or have nothing to do."""
    there, kind = len(_devices()), chosen_device().platform
    if config.devices > there:
        hint = f" For tests, XLA_FLAGS=--xla_force_host_platform_device_count={config.devices} makes so many of a CPU."
        has = f"has {there} device{'' if there == 1 else 's'} of kind {kind}"
        raise UserError(
            f"devices: got {config.devices}, but this machine {has}. Allowed: at most {there}."
            f"{hint if kind == 'cpu' else ''}"
        )
    keys = ("seeds",) if config.seeds > 1 else ("batch_size_run", "test_nepisode")
    for key in keys:
        count = getattr(config, key)
        if count % config.devices:
            fitting = ", ".join(str(number) for number in range(1, min(count, there) + 1) if count % number == 0)
            raise UserError(
                f"devices: got {config.devices}, but {key}={count} cannot be shared out to so many evenly. Allowed: "
                f"{fitting}."
            )
