"""Which team-mates an agent is evaluated with: groups of teams made from the members of a pool.

For a game of A seats, one of them the agent's:

- `{A-1}_homologue`: all other seats have the same player; one team for every member;
- `{A-2}_homologue` (from 4 seats on): all but one have the same player, the last one a player of another algorithm, or
  of another run where there is only one algorithm; one team for every member;
- `{A-1}_nonhomologue` (from 3 seats on): every seat has another player, and the algorithms are mixed; as many teams as
  there are members, drawn at random;
- `1_partner` in games of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omg.errors import unknown_name


class MemberName(NamedTuple):
    """The part of a pool member that groups depend on."""

    name: str
    algorithm: str


class Group(NamedTuple):
    """Teams that are reported together."""

    name: str
    teams: tuple[str, ...]
    """Readable names, e.g. `6xqmix_s7+1xiql_s9`."""
    members: np.ndarray
    """[teams, A-1] int32, team-mates by number, in the order in which they follow the agent round the table."""


def group_names(n_agents: int) -> list[str]:
    """The groups of a game, the most alike team-mates first."""
    if n_agents == 2:
        return ["1_partner"]
    others = n_agents - 1
    odd = [f"{others - 1}_homologue"] if n_agents >= 4 else []
    return [f"{others}_homologue", *odd, f"{others}_nonhomologue"]


def make_groups(
    members: Sequence[MemberName], n_agents: int, names: Sequence[str] | None = None, seed: int = 0
) -> list[Group]:
    """Teams of each group; the same arguments always give the same teams.

    Args:
        members: Who can be a team-mate.
        n_agents: Seats A of the game, at least 2.
        names: Groups to make; None for all.
        seed: Of the draws.

    Raises:
        UserError: there is no group of a given name.
    """
    known = group_names(n_agents)
    for name in names or ():
        if name not in known:
            raise unknown_name(f"group of a game with {n_agents} seats:", name, known)
    rng = np.random.default_rng(seed)
    others = n_agents - 1
    made = []
    for name in known:
        # Every group draws, so that which ones are asked for does not change the others.
        if name == f"{others}_nonhomologue":
            chosen = np.asarray([_mixed(members, others, rng) for _ in members], np.int32)
        else:
            chosen = np.repeat(np.arange(len(members), dtype=np.int32)[:, None], others, axis=1)
            if name == f"{others - 1}_homologue":
                chosen[:, -1] = [_other(members, index, rng) for index in range(len(members))]
        if names is None or name in names:
            made.append(Group(name, _distinct([_label(members, row) for row in chosen]), chosen))
    return made


def _other(members: Sequence[MemberName], index: int, rng: np.random.Generator) -> int:
    """A member of another algorithm, else of another run, else the member itself."""
    candidates = [i for i, member in enumerate(members) if member.algorithm != members[index].algorithm]
    candidates = candidates or [i for i in range(len(members)) if i != index] or [index]
    return int(rng.choice(candidates))


def _mixed(members: Sequence[MemberName], seats: int, rng: np.random.Generator) -> list[int]:
    """Members for `seats` seats: algorithms in turn, nobody twice while there is somebody else of that algorithm."""
    by_algorithm: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        by_algorithm.setdefault(member.algorithm, []).append(index)
    decks = [list(rng.permutation(indices)) for indices in by_algorithm.values()]
    order = rng.permutation(len(decks))
    team = []
    for seat in range(seats):
        which = int(order[seat % len(order)])
        if not decks[which]:
            decks[which] = list(rng.permutation(list(by_algorithm.values())[which]))
        team.append(int(decks[which].pop()))
    return [int(member) for member in rng.permutation(team)]


def _label(members: Sequence[MemberName], row: np.ndarray) -> str:
    names, counts = np.unique([members[index].name for index in row], return_counts=True)
    order = np.lexsort((names, -counts))
    return "+".join(f"{counts[index]}x{names[index]}" for index in order)


def _distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, with a number behind those that came before: the same players may sit in another order."""
    seen: dict[str, int] = {}
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
    counts: dict[str, int] = {}
    named = []
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
        named.append(f"{label}#{counts[label]}" if seen[label] > 1 else label)
    return tuple(named)
