"""Cross-play: every player as the agent, with teams of every player."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from omg.envs import Env
from omg.evaluation.groups import group_names, make_groups
from omg.evaluation.heldout import Mates, evaluate_groups
from omg.evaluation.tables import CrossPlayRow


def cross_play(
    env: Env, mates: Mates, episodes: int, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[CrossPlayRow]:
    """Each member in one seat, each member in all other seats.

    Args:
        env: The game.
        mates: The players; each is an agent and a team-mate.
        episodes: Per pair; the agent moves from seat to seat.
        seed: The same games for all pairs of one team-mate.
        progress: Called with the number of agents done and of all agents.

    Returns:
        One row per pair and metric.
    """
    group = make_groups(mates.members, env.spec.n_agents, group_names(env.spec.n_agents)[:1])[0]
    rows: list[CrossPlayRow] = []
    first = 0
    for kind, number in zip(mates.squad.kinds, mates.squad.numbers, strict=True):
        who = [index for index, position in enumerate(mates.position) if first <= position < first + number]
        who.sort(key=lambda index: mates.position[index])
        first += number
        scores = evaluate_groups(env, kind, mates, [group], episodes, seed)[group.name]
        for metric, values in scores.items():
            means = np.broadcast_to(values.mean(axis=2), (number, len(group.teams)))
            for row, agent in enumerate(who):
                for mate, mean in enumerate(means[row]):
                    one, other = mates.members[agent].name, mates.members[mate].name
                    rows.append(CrossPlayRow(agent=one, mate=other, metric=metric, mean=float(mean), episodes=episodes))
        if progress is not None:
            progress(first, mates.squad.size)
    return rows
