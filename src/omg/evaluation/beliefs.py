"""How soon the others could be told apart: the exact posterior over the teams of a group, step by step.

The evidence is what the others did and nothing else: its likelihood under the players' own policies. Nobody who plays
could know more about who sits there, so the times are the shortest that any opponent model can hope for.

Letters in shapes: H teams in question, E games with each, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jax import Array

from omg.components import EpisodeBatch
from omg.controllers.base import Player
from omg.controllers.likelihood import FLOOR, check_likely, log_chances
from omg.controllers.team import Squad
from omg.envs import Env
from omg.evaluation.groups import Group
from omg.evaluation.heldout import Mates, record_group, stack_agents
from omg.evaluation.tables import ToldApartRow

SURE = 0.9
"""The posterior from which on somebody counts as told apart."""
_SAME = 1e-4
"""Teams whose likelihoods differ by less in every step, in nats, did not act differently."""


def told_apart(
    env: Env,
    responder: Player,
    mates: Mates,
    group: Group,
    episodes: int = 64,
    seed: int = 0,
    *,
    sure: float = SURE,
    floor: float = FLOOR,
) -> list[ToldApartRow]:
    """Plays games with every team of a group and finds out after how many steps it is known which one it is.

    Args:
        env: The game.
        responder: Who has the one seat that is not the team's: what it does decides what the others show.
        mates: The players of the teams.
        group: The teams in question, all equally likely beforehand.
        episodes: E.
        seed: Of the games.
        sure: The posterior that counts as knowing.
        floor: Share of any legal action in every step, whoever acts; see `controllers.likelihood.floored`.

    Returns:
        One row for every team.

    Raises:
        UserError: somebody's chances are not known.
    """
    for kind in mates.squad.kinds:
        check_likely(kind, "pool")
    rollout, team = record_group(env, stack_agents([responder]), mates, group, episodes, seed)
    assert rollout.batch is not None
    batch = jax.tree.map(lambda leaf: leaf[0], rollout.batch)
    # Team by team: one compilation, and no more at once in memory than the games of one team.
    logs = np.concatenate(
        [
            _log_chances(mates.squad, jax.tree.map(lambda leaf, which=team == one: leaf[which], batch), floor)
            for one in range(len(group.teams))
        ],
        axis=1,
    )
    evidence = team_evidence(logs, group, mates.position, np.asarray(batch.seat))
    played = np.asarray(batch.filled)[:, :-1]
    return told_apart_rows(group, evidence, played, team, sure)


def team_evidence(logs: np.ndarray, group: Group, position: Sequence[int], seat: np.ndarray) -> np.ndarray:
    """The log-likelihood of every step of the others under every team.

    Args:
        logs: [K, B, T, A] of every player in every seat, from `log_chances`.
        group: H teams.
        position: Number in the squad of each member.
        seat: [B], whose actions are no evidence; the others follow round the table.

    Returns:
        [H, B, T] float64.
    """
    games, agents = logs.shape[1], logs.shape[3]
    numbers = np.asarray(position)[group.members]
    evidence = np.zeros((len(group.teams), games, logs.shape[2]))
    rows = np.arange(games)
    for mate in range(agents - 1):
        theirs = (seat + 1 + mate) % agents
        # [K, B, T] of this mate's seat, then the rows of the player that each team has there.
        evidence += np.asarray(logs, np.float64)[:, rows, :, theirs].swapaxes(0, 1)[numbers[:, mate]]
    return evidence


def told_apart_rows(
    group: Group, evidence: np.ndarray, played: np.ndarray, team: np.ndarray, sure: float = SURE
) -> list[ToldApartRow]:
    """What the evidence says of every team of a group.

    Args:
        group: H teams, all equally likely beforehand.
        evidence: [H, B, T], from `team_evidence`.
        played: [B, T] bool.
        team: [B], which team it was.
        sure: The posterior that counts as knowing.
    """
    from scipy.special import logsumexp  # Not above: a run does not wait for SciPy.

    total = evidence.cumsum(axis=2)
    posterior = np.exp(total - logsumexp(total, axis=0))
    truth = np.take_along_axis(posterior, team[None, :, None], axis=0)[0]
    known = (truth >= sure) & played
    step = np.where(known.any(axis=1), known.argmax(axis=1) + 1.0, np.inf)
    apart = np.abs(evidence[:, None] - evidence[None]).max(axis=(2, 3)) > _SAME
    rows = []
    for one, name in enumerate(group.teams):
        mine = team == one
        reached = step[mine][np.isfinite(step[mine])]
        rows.append(
            ToldApartRow(
                group=group.name,
                team=name,
                episodes=int(mine.sum()),
                reached=len(reached) / int(mine.sum()),
                steps=float(np.median(reached)) if len(reached) else float("nan"),
                posterior=float(truth[mine, -1].mean()),
                same_as=" ".join(group.teams[other] for other in np.flatnonzero(~apart[one]) if other != one),
            )
        )
    return rows


@eqx.filter_jit
def _jitted(squad: Squad, batch: EpisodeBatch, floor: float) -> Array:
    return log_chances(squad, batch, floor)


def _log_chances(squad: Squad, batch: EpisodeBatch, floor: float) -> np.ndarray:
    return np.asarray(_jitted(squad, batch._replace(records={}), floor))
