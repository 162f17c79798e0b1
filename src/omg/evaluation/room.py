"""Room: how much there is to gain from knowing whom one plays with, from a matrix of responders and partners.

M[i, j] is the mean score of responder i with partner j, a partner being whoever fills the other seats.

- *Floor*: the mean over partners of a random player.
- *Best fixed*: the mean of the one row that is best with the partners of another set. The agent that was trained on the
  mixture of partners is no candidate: it may tell partners apart, which is what the room is for.
- *Ceiling*: the mean over partners of the best responder's score with each.
- *Room*: ceiling minus best fixed, also as a share of ceiling minus floor.
- *Share closed*: (score - best fixed) / (ceiling - best fixed) of any agent.

The largest of several noisy means is too large on average. So the best responder to a partner is chosen on one half of
the episodes and scored on the other, both ways round, and the ceiling is the mean of the two.

Letters in shapes: I responders, J partners, R seeds of an agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from omg.errors import UserError
from omg.evaluation.comparison import ScoreMatrix, score_matrices
from omg.evaluation.statistics import DRAWS, FEWEST, Estimate, score_interval, widened_tail
from omg.evaluation.tables import ClosedRow, ResponseRow, RoomRow
from omg.types import Row

RANDOM = "random"
"""The responder whose mean is the floor."""
RESPONSE, MIXTURE, MEMBER, SCRIPT = "response", "mixture", "member", "script"
"""Kinds of responders."""
LARGE = 0.15
"""Share of ceiling minus floor from which on a room is called large."""
FEWEST_TESTS = 6
"""Of a curve that can be called flat."""
_SMALL_RISE = 0.01
"""Rises below this share of ceiling minus floor do not matter."""
ALL_POOLS = "all"
_KNOWN = ("told_apart", "told_share", "exact", "worth")
"""Columns of a room that do not come from the response matrix."""


def share_closed(score: float, best_fixed: float, ceiling: float) -> float:
    """0: plays one good strategy. 1: answers everybody as if known. NaN where there is no room."""
    return (score - best_fixed) / (ceiling - best_fixed) if ceiling > best_fixed else math.nan


def is_flat(means: np.ndarray, errors: np.ndarray, span: float) -> bool:
    """Whether a curve has stopped rising.

    It has if the best of its last third is not above the best of its first two thirds by more than two standard errors
    of that difference and 1 % of `span`, whichever is larger.

    Args:
        means: [tests] mean score of each test, in order.
        errors: [tests] their standard errors.
        span: ceiling minus floor, as far as they are known.
    """
    if len(means) < FEWEST_TESTS:
        return False
    split = len(means) - -(-len(means) // 3)
    early, late = int(np.argmax(means[:split])), split + int(np.argmax(means[split:]))
    noise = 2 * math.hypot(errors[early], errors[late])
    return bool(means[late] - means[early] <= max(noise, _SMALL_RISE * max(span, 0.0)))


@dataclass(frozen=True)
class Responses:
    """The response matrix of one set and group."""

    responders: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of each responder."""
    partners: tuple[str, ...]
    halves: np.ndarray
    """[2, I, J] means over the first and the second half of the episodes."""
    means: np.ndarray
    """[I, J] over all of them."""
    errors: np.ndarray
    """[I, J] standard errors."""
    episodes: int

    @staticmethod
    def of(rows: Iterable[Row]) -> Responses:
        """From the rows of one set, group and metric.

        Raises:
            UserError: there are none, or a responder has not met all partners.
        """
        cells = [ResponseRow.of(row) for row in rows]
        if not cells:
            raise UserError("responses: there are no rows.")
        kinds = {cell.responder: cell.kind for cell in cells}
        responders, partners = list(kinds), list(dict.fromkeys(cell.partner for cell in cells))
        values = np.full((4, len(responders), len(partners)), np.nan)
        for cell in cells:
            place = responders.index(cell.responder), partners.index(cell.partner)
            values[(slice(None), *place)] = cell.first_half, cell.second_half, cell.mean, cell.error
        if np.isnan(values[:3]).any():
            _, row, column = (int(place) for place in np.argwhere(np.isnan(values[:3]))[0])
            raise UserError(f"responses: '{responders[row]}' has no score with '{partners[column]}'.")
        return Responses(
            tuple(responders), tuple(kinds.values()), tuple(partners), values[:2], values[2], values[3],
            min(cell.episodes for cell in cells),
        )  # fmt: skip

    def row(self, responder: str) -> np.ndarray:
        """[J] means of one responder."""
        if responder not in self.responders:
            raise UserError(f"responses: there is no responder '{responder}'.")
        return self.means[self.responders.index(responder)]

    def ceiling(self) -> np.ndarray:
        """[J] the best responder's score with each partner, chosen on one half and scored on the other."""
        first, second = self.halves
        columns = np.arange(len(self.partners))
        there, back = second[first.argmax(axis=0), columns], first[second.argmax(axis=0), columns]
        return (there + back) / 2

    def best_fixed(self) -> str:
        """The responder with the largest mean over partners; whoever was trained on their mixture does not count."""
        fixed = [index for index, kind in enumerate(self.kinds) if kind != MIXTURE]
        return self.responders[max(fixed, key=lambda index: float(self.means[index].mean()))]

    def beaten_by(self, responder: str, partner: str) -> tuple[str, float] | None:
        """Who does better than a responder with a partner, by more than two standard errors, and by how much."""
        column, own = self.partners.index(partner), self.responders.index(responder)
        best = int(self.means[:, column].argmax())
        ahead = float(self.means[best, column] - self.means[own, column])
        noise = 2 * math.hypot(self.errors[best, column], self.errors[own, column])
        return (self.responders[best], ahead) if ahead > noise else None


class RoomScale(NamedTuple):
    """What a score with each partner is measured by."""

    partners: tuple[str, ...]
    floor: np.ndarray
    """[J]."""
    fixed: np.ndarray
    """[J] of the best fixed responder."""
    ceiling: np.ndarray
    """[J]."""
    fixed_is: str

    @staticmethod
    def of(target: Responses, choice: Responses) -> RoomScale:
        """From the matrix of the partners in question and that of the partners on which the best row is chosen."""
        name = choice.best_fixed()
        return RoomScale(target.partners, target.row(RANDOM), target.row(name), target.ceiling(), name)


def room_row(pool: str, which: str, group: str, metric: str, target: Responses, choice: Responses, on: str) -> RoomRow:
    """Floor, best fixed, ceiling and room with their intervals over partners.

    Args:
        pool: its name in the table.
        which: set of the partners.
        group: kind of team.
        metric: what the scores are.
        target: the matrix of the set.
        choice: the matrix of the set on which the best fixed row is chosen; the same responders.
        on: that set's name.
    """
    scale = RoomScale.of(target, choice)
    gap, span = scale.ceiling - scale.fixed, scale.ceiling - scale.floor
    mixture = target.row(MIXTURE).mean() if MIXTURE in target.responders else math.nan
    return RoomRow.of(
        {
            "pool": pool,
            "set": which,
            "group": group,
            "metric": metric,
            "partners": len(target.partners),
            "responders": len(target.responders),
            "episodes": target.episodes,
            **_ends("floor", over_partners(scale.floor)),
            **_ends("best_fixed", over_partners(scale.fixed)),
            "best_fixed_is": scale.fixed_is,
            "chosen_on": on,
            **_ends("ceiling", over_partners(scale.ceiling)),
            **_ends("room", over_partners(gap)),
            **_ends("share", ratio_interval(gap[None], span, trained=False)),
            "mixture": float(mixture),
            **dict.fromkeys(_KNOWN, math.nan),
        }
    )


def over_pools(rows: Sequence[RoomRow]) -> RoomRow:
    """The mean over pools, with Student's interval: a pool is one draw of partners among many.

    Args:
        rows: of one group, one for each pool.
    """
    first = rows[0]
    found: dict[str, float] = {}
    for name in ("floor", "best_fixed", "ceiling", "room", "share"):
        found |= _ends(name, student_interval(np.asarray([float(row[name]) for row in rows])))
    names = dict.fromkeys(row.best_fixed_is for row in rows)
    own: dict[str, str | int | float] = {
        "pool": ALL_POOLS,
        "partners": sum(row.partners for row in rows),
        "best_fixed_is": " | ".join(names),
        **{name: float(np.mean([float(row[name]) for row in rows])) for name in ("mixture", *_KNOWN)},
    }
    return RoomRow.of({**first, **found, **own})


def closed_rows(scores: Iterable[Row], metric: str, scales: Mapping[str, RoomScale]) -> list[ClosedRow]:
    """How much of the room each agent closes with each group.

    Args:
        scores: columns of `ScoreRow`.
        metric: that of the scales.
        scales: group -> scale; groups without one, or with other teams, are left out.
    """
    found = []
    for (group, agent), matrix in score_matrices(scores, metric).items():
        scale = scales.get(group)
        if scale is not None and set(matrix.teams) <= set(scale.partners):
            found.append(_closed_row(agent, group, metric, matrix, scale))
    return found


def _closed_row(agent: str, group: str, metric: str, matrix: ScoreMatrix, scale: RoomScale) -> ClosedRow:
    order = [scale.partners.index(team) for team in matrix.teams]
    floor, fixed, ceiling = scale.floor[order], scale.fixed[order], scale.ceiling[order]
    closed = Estimate(math.nan, math.nan, math.nan)
    if ceiling.mean() > fixed.mean():
        closed = ratio_interval(matrix.scores - fixed, ceiling - fixed, trained=matrix.trained)
    return ClosedRow.of(
        {
            "agent": agent,
            "group": group,
            "metric": metric,
            "seeds": len(matrix.seeds),
            "teams": len(matrix.teams),
            "mean": float(matrix.scores.mean()),
            "floor": float(floor.mean()),
            "best_fixed": float(fixed.mean()),
            "ceiling": float(ceiling.mean()),
            **_ends("closed", closed),
            "standing": standing(closed),
        }
    )


def standing(closed: Estimate) -> str:
    """Above or below best fixed, in words; `not shown` where the interval holds 0 or there is none."""
    if math.isnan(closed.value):
        return "no room"
    if closed.value < 0:
        return "below best fixed" if closed.high < 0 else "below best fixed, not shown"
    return "above best fixed" if closed.low > 0 else "above best fixed, not shown"


def over_partners(values: np.ndarray) -> Estimate:
    """Mean of one number per partner [J], with its interval over partners."""
    return score_interval(values[:, None], "mean", "seeds")


def ratio_interval(
    numerator: np.ndarray,
    denominator: np.ndarray,
    *,
    trained: bool,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """Ratio of two means over the same partners; seeds and partners are resampled, partners jointly for both.

    Args:
        numerator: [R, J].
        denominator: [J].
        trained: whether the rows stand for other trainings of the same kind; otherwise they stay as they are.
        level: probability that the interval stands for.
        draws: number of resamples.
        seed: of the resampling.

    Returns:
        The ratio and its interval. Partners too few to be resampled stay as they are; where there is nothing that can
        be resampled, the ends are NaN.
    """
    rows, columns = numerator.shape
    value = float(numerator.mean() / denominator.mean()) if denominator.mean() else math.nan
    sizes = [*([rows] if trained else []), *([columns] if columns >= FEWEST else [])]
    if not sizes or min(sizes) < FEWEST or math.isnan(value):
        return Estimate(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    row_shares = (
        rng.multinomial(rows, np.full(rows, 1 / rows), draws) / rows if trained else np.full((1, rows), 1 / rows)
    )
    shares = np.full((1, columns), 1 / columns)
    if columns >= FEWEST:
        shares = rng.multinomial(columns, np.full(columns, 1 / columns), draws) / columns
    above, below = ((row_shares @ numerator) * shares).sum(axis=1), (shares * denominator).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.broadcast_to(above / below, (draws,))
    tail = widened_tail(level, min(sizes), min(sizes) - 1)
    low, high = np.nanquantile(np.where(below > 0, drawn, np.nan), [tail, 1 - tail])
    return Estimate(value, float(low), float(high))


def student_interval(values: np.ndarray, level: float = 0.95) -> Estimate:
    """Mean of [N] numbers with Student's interval; without one below `FEWEST` numbers."""
    from scipy import special  # Not above: a run does not wait for SciPy.

    mean = float(np.mean(values))
    if len(values) < FEWEST:
        return Estimate(mean, math.nan, math.nan)
    half = float(special.stdtrit(len(values) - 1, (1 + level) / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)


def _ends(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
