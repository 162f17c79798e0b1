"""Players and policies that tell what they think while they play."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import jax
from jax import Array

from omg.controllers.base import Policy, Tells
from omg.controllers.team import KIND_RECORDS, Squad, TeamPolicy, kind_records
from omg.types import PyTree


def telling_player(player: PyTree) -> PyTree:
    """The player, telling if it can; players of a kind stay stacked."""
    return player.telling() if isinstance(player, Tells) else player


def telling_policy(policy: Policy) -> Policy:
    """The policy, with everybody telling who can.

    Records of a team's frozen players then have the names of `TeamPolicy.kind_records`.
    """
    if not isinstance(policy, TeamPolicy):
        told: Policy = telling_player(policy)
        return told
    squad = Squad(tuple(telling_player(kind) for kind in policy.squad.kinds), policy.squad.numbers)
    return dataclasses.replace(policy, main=telling_player(policy.main), squad=squad, tells=True)


def records_read(policy: Policy, records: Mapping[str, Array]) -> frozenset[str]:
    """Names of those records that `told` of somebody reads: the others need not be filmed.

    Args:
        policy: telling, from `telling_policy`.
        records: of one step, [B, m, ...]; only their shapes count.
    """
    if not isinstance(policy, TeamPolicy):
        return _read(policy, records)
    own = {name: values for name, values in records.items() if not name.startswith(KIND_RECORDS)}
    found = set(_read(policy.main, own))
    for number, kind in enumerate(policy.squad.kinds):
        prefix = kind_records(number)
        theirs = {name.removeprefix(prefix): values for name, values in records.items() if name.startswith(prefix)}
        found |= {prefix + name for name in _read(jax.tree.map(lambda leaf: leaf[0], kind), theirs)}
    return frozenset(found)


def _read(player: PyTree, records: Mapping[str, Array]) -> frozenset[str]:
    if not isinstance(player, Tells) or not records:
        return frozenset()
    noted: set[str] = set()

    def told(rows: dict[str, Array]) -> PyTree:
        return player.told(_Noted(rows, noted))  # type: ignore[arg-type]

    jax.eval_shape(
        told,
        {
            name: jax.ShapeDtypeStruct((values.shape[0], 1, *values.shape[1:]), values.dtype)
            for name, values in records.items()
        },
    )
    return frozenset(noted)


class _Noted(Mapping[str, Array]):
    """Notes what is looked up."""

    def __init__(self, values: Mapping[str, Array], noted: set[str]) -> None:
        self._values, self._noted = values, noted

    def __getitem__(self, name: str) -> Array:
        self._noted.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
