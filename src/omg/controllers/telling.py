"""Players and policies that tell what they think while they play."""

from __future__ import annotations

import dataclasses

from omg.controllers.base import Policy, Tells
from omg.controllers.team import Squad, TeamPolicy
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
