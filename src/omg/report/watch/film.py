"""What the player's page is told: recorded games as plain lists, and what is said about them in words.

Letters in shapes: T steps, P pieces, A seats, U actions, J others that a belief speaks of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from omg.errors import UserError
from omg.recordings import Recording
from omg.report.words import counted
from omg.types import Json, Tree

_DIGITS = 4
"""Decimals of all numbers in a page."""
_MARGIN = 0.06
"""Room around the pieces in the picture, as a share of what they cover."""
_FILM_SECONDS = 8.0
_SLOWEST, _FASTEST = 2.0, 8.0
"""Steps in a second."""
_CHANCES = ("probabilities", "logits", "log_probabilities")


def film(games: Sequence[Recording]) -> Tree:
    """One game, or two from the same start, as the page's script reads them (`watch/assets/*.js`).

    Raises:
        UserError: there is no picture of the game, or the two are of different games.
    """
    first = games[0].header
    if first["stage"] is None:
        raise UserError(f"There is no picture of {first['game']}: omg.envs.scenes says what a game needs for one.")
    for other in games[1:]:
        _check_alike(first, other.header)
    stage = first["stage"]
    return {
        "stage": {key: stage[key] for key in ("left", "top", "width", "height", "cells")},
        "view": _view(stage, games),
        "unit": unit(first),
        "pace": pace(max(game.steps for game in games)),
        "sight": stage["sight"],
        "sight_square": stage["sight_square"],
        "pieces": _pieces(first, games),
        "fights": _fights(first),
        "actions": [action["name"] for action in first["actions"]],
        "moves": {
            str(number): [
                round(step / math.hypot(action["dx"], action["dy"]), _DIGITS) for step in (action["dx"], action["dy"])
            ]
            for number, action in enumerate(first["actions"])
            if action["dx"] or action["dy"]
        },
        "aims": {
            str(number): action["piece"]
            for number, action in enumerate(first["actions"])
            if action["piece"] is not None
        },
        "seats": [seat["piece"] for seat in first["seats"]],
        "seat_names": _seat_names(first),
        "own_rewards": games[0]["rewards"].shape[1] == len(first["seats"]) > 1,
        "first_seat": first_seat(games),
        "difference": difference(games),
        "games": [_game(game, name) for game, name in zip(games, names_of(games), strict=True)],
    }


def names_of(games: Sequence[Recording]) -> list[str]:
    """What each game is called: its algorithm, with its training or its number where those are the same."""
    names = [game.header["algorithm"] for game in games]
    if len(set(names)) < len(names):
        trained = [game.header["t_env"] for game in games]
        if len(set(trained)) == len(names) and None not in trained:
            return [f"{name} after {steps:,} steps" for name, steps in zip(names, trained, strict=True)]
        return [f"{name}, {place}" for name, place in zip(names, ("first", "second"), strict=False)]
    return names


def first_seat(games: Sequence[Recording]) -> int:
    """The seat that is shown first: one that believes something, else one that learns, else 0."""
    for game in games:
        if game.beliefs:
            return int(game.beliefs[0]["seat"])
    learns = [number for number, seat in enumerate(games[0].header["seats"]) if seat["learns"]]
    return learns[0] if learns else 0


def difference(games: Sequence[Recording]) -> Tree | None:
    """The first step at which two games differ: `step`, and `what` in words; None for one game, or where none does."""
    if len(games) < 2:
        return None
    one, other = games
    steps = min(one.steps, other.steps)
    if not np.array_equal(one["x"][0], other["x"][0]) or not np.array_equal(one["y"][0], other["y"][0]):
        return {"step": 0, "what": "They do not start from the same place."}
    unlike = np.flatnonzero((one["actions"][:steps] != other["actions"][:steps]).any(axis=1))
    if len(unlike):
        step = int(unlike[0])
        seats = np.flatnonzero(one["actions"][step] != other["actions"][step])
        names, actions = _seat_names(one.header), [action["name"] for action in one.header["actions"]]
        told = [
            f"{names[seat]} chooses {actions[one['actions'][step, seat]]} on the one side and "
            f"{actions[other['actions'][step, seat]]} on the other"
            for seat in seats[:2]
        ]
        more = f", and {len(seats) - 2} more differ" if len(seats) > 2 else ""
        return {"step": step, "what": f"The first difference is in step {step}: {'; '.join(told)}{more}."}
    for name in ("x", "y", "there", "health"):
        unlike = np.flatnonzero((one[name][: steps + 1] != other[name][: steps + 1]).any(axis=1))
        if len(unlike):
            step = int(unlike[0])
            return {"step": step, "what": f"After the same actions, the games differ from step {step} on."}
    if one.steps != other.steps:
        return {"step": steps, "what": f"They are the same for {steps} steps; then one of them is over."}
    return None


def unit(header: Tree) -> str:
    """What distances of a game are counted in."""
    return "cells" if header["stage"]["cells"] else "map units"


def pace(steps: int) -> float:
    """Steps in a second at which a game of so many is shown: slow enough to follow, fast enough not to bore."""
    return round(min(max(steps / _FILM_SECONDS, _SLOWEST), _FASTEST), 2)


def finding(game: Recording, belief: Tree) -> str:
    """How far a belief was from what came, beside `they stay where they are`, in a sentence."""
    moment = when(belief)
    off, stay, steps = means(belief)
    if not steps:
        return f"There is nothing to compare: at no step are both what it believes and where they were {moment} known."
    verdict = "closer" if off < stay else "no closer"
    return (
        f"Where the agent thinks the others are {moment} is off by {off:.2f} {unit(game.header)} on average "
        f'({counted(steps, "step")}); "they stay where they are" is off by {stay:.2f}: the belief is {verdict}.'
    )


def means(belief: Tree) -> tuple[float, float, int]:
    """Mean distance of a belief of places, the same of `they stay where they are`, and over how many steps."""
    off, stay = belief["columns"]["distance"], belief["columns"]["stay_distance"]
    both = ~np.isnan(off) & ~np.isnan(stay)
    if not both.any():
        return float("nan"), float("nan"), 0
    return float(off[both].mean()), float(stay[both].mean()), int(both.sum())


def guessing(game: Recording, belief: Tree) -> str:
    """How often a belief of actions was right, beside `they do what they did before`, in a sentence."""
    right, again, cases = guesses(game, belief)
    if not cases:
        return "There is nothing to compare with: nobody else acts twice."
    verdict = "more often than" if right > again else "no more often than"
    return (
        f"What the agent thinks likeliest is what the others do in {100 * right:.0f} % of {cases:,} cases; "
        f'"they do the same as in the step before" holds in {100 * again:.0f} %: it is right {verdict} that.'
    )


def guesses(game: Recording, belief: Tree) -> tuple[float, float, int]:
    """Shares of cases in which a belief of actions and `they do what they did before` are right, and the cases.

    A case is one of the others in one step but the first, in which it is in the game and is thought about.
    """
    did = game["actions"][:, belief["seats"]]
    chances = belief["columns"]["chances"][: len(did)]
    known = ~np.isnan(chances).any(axis=-1)
    for place, seat in enumerate(belief["seats"]):
        piece = game.header["seats"][seat]["piece"]
        if piece is not None:
            known[:, place] &= game["there"][: len(did), piece]
    known[:1] = False
    cases = int(known.sum())
    if not cases:
        return float("nan"), float("nan"), 0
    right = np.where(known, np.nan_to_num(chances).argmax(axis=-1) == did, False)
    again = np.where(known, np.roll(did, 1, axis=0) == did, False)
    return right.sum() / cases, again.sum() / cases, cases


def when(belief: Tree) -> str:
    """What moment a belief of places is compared with, in words."""
    return "at the end of the round" if belief["horizon"] is None else f"{counted(belief['horizon'], 'step')} later"


def _check_alike(one: Tree, other: Tree) -> None:
    for key in ("game", "scenario", "stage", "actions"):
        if one[key] != other[key]:
            raise UserError(
                f"Two games are shown side by side only if they are alike; {key} differs: {str(one[key])[:80]} and "
                f"{str(other[key])[:80]}."
            )
    if [piece["name"] for piece in one["pieces"]] != [piece["name"] for piece in other["pieces"]]:
        raise UserError("Two games are shown side by side only if they are alike; their pieces differ.")


def _seat_names(header: Tree) -> list[str]:
    return [
        f"seat {number + 1}" if seat["piece"] is None else _piece_name(header["pieces"][seat["piece"]])
        for number, seat in enumerate(header["seats"])
    ]


def _piece_name(piece: Tree) -> str:
    name, label = piece["name"], piece["label"]
    return name if not label or name.endswith(label) else f"{name} {label}"


def _fights(header: Tree) -> bool:
    return any(piece["reach"] is not None for piece in header["pieces"])


def _pieces(header: Tree, games: Sequence[Recording]) -> list[Tree]:
    own = {seat["piece"] for seat in header["seats"]}
    fights = _fights(header)
    shielded = np.any([(game["shield"] > 0).any(axis=0) for game in games], axis=0)
    return [
        {
            # In a battle both sides have the same names and numbers.
            "name": ("enemy " if fights and number not in own else "") + _piece_name(piece),
            "label": piece["label"],
            "colour": piece["colour"],
            "size": round(float(piece["size"]), _DIGITS),
            "square": piece["square"],
            "reach": piece["reach"],
            "shield": bool(shielded[number]),
            "own": number in own,
        }
        for number, piece in enumerate(header["pieces"])
    ]


def _view(stage: Tree, games: Sequence[Recording]) -> list[float]:
    """The part of the field where anything happens (a board is shown whole): left, top, width, height."""
    left, top, width, height = (float(stage[key]) for key in ("left", "top", "width", "height"))
    if stage["cells"] or not games[0].header["pieces"]:
        return [left, top, width, height]
    size = max(float(piece["size"]) for piece in games[0].header["pieces"])
    low: list[float] = []
    high: list[float] = []
    for axis, (start, length) in {"x": (left, width), "y": (top, height)}.items():
        places = np.concatenate([game[axis][game["there"]] for game in games])
        room = _MARGIN * float(np.ptp(places)) + 2 * size
        low.append(max(start, float(places.min()) - room))
        high.append(min(start + length, float(places.max()) + room))
    # Never so flat that the picture is a ribbon.
    for side, (start, length) in enumerate(((left, width), (top, height))):
        lack = 0.5 * (high[1 - side] - low[1 - side]) - (high[side] - low[side])
        if lack > 0:
            low[side] = max(start, low[side] - lack / 2)
            high[side] = min(start + length, high[side] + lack / 2)
    return [round(value, 2) for value in (low[0], low[1], high[0] - low[0], high[1] - low[1])]


def _game(game: Recording, name: str) -> Tree:
    header = game.header
    waits = game["cooldown"].max(axis=0)
    places = {key: _rows(game[key]) for key in ("x", "y", "health")}
    return {
        "name": name,
        "steps": game.steps,
        "seats": [seat["label"] for seat in header["seats"]],
        **places,
        "there": _rows(game["there"].astype(np.int8)),
        "shield": _rows(game["shield"]) if game["shield"].any() else None,
        # As a share of the longest wait of the piece: what it is in seconds differs between units.
        "cooldown": _rows(game["cooldown"] / np.where(waits > 0, waits, 1)) if waits.any() else None,
        "written": None if np.isnan(game["written"]).all() else _rows(game["written"]),
        "actions": game["actions"].tolist(),
        "rewards": _numbers(game["rewards"]),
        "avail": [["".join("01"[flag] for flag in seat) for seat in row] for row in game["avail"].astype(int).tolist()],
        "obs": {str(seat): _rows(game["obs"][:, seat]) for seat in range(len(header["seats"]))}
        if "obs" in game
        else {},
        "shots": _shots(game),
        "minds": {str(seat): mind for seat in range(len(header["seats"])) if (mind := _mind(game, seat))},
    }


def _shots(game: Recording) -> list[list[list[int]]]:
    """Of every step who does something to whom: [piece, piece]."""
    header = game.header
    own = [seat["piece"] for seat in header["seats"]]
    aims = [action["piece"] for action in header["actions"]]
    return [
        [
            [own[seat], aims[action]]
            for seat, action in enumerate(row)
            if aims[action] is not None and own[seat] is not None
        ]
        for row in game["actions"].tolist()
    ]


def _mind(game: Recording, seat: int) -> Tree:
    """What a seat thinks: values of its actions and its beliefs, the first of each kind."""
    mind: Tree = {}
    kind = game.header["seats"][seat]["values"]
    if kind is not None and "values" in game:
        values = game["values"][:, seat]
        mind["kind"] = "chance" if kind in _CHANCES else "q"
        mind["values"] = _rows(values if kind not in _CHANCES else chances(kind, values, game["avail"][:, seat]))
    for belief in game.beliefs:
        if belief["seat"] == seat:
            for key, value in _KINDS[belief["kind"]](game, belief).items():
                mind.setdefault(key, value)
    return mind


def chances(kind: str, values: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Chances of legal actions from what a network says of them, [T+1, U]."""
    if kind == "probabilities":
        return values
    scores = np.where(legal & ~np.isnan(values), values.astype(np.float64), -np.inf)
    best = np.max(scores, axis=1, keepdims=True)
    odds = np.exp(scores - np.where(np.isfinite(best), best, 0))
    total = odds.sum(axis=1, keepdims=True)
    return odds / np.where(total > 0, total, np.nan)


def _places(game: Recording, belief: Tree) -> Tree:
    columns = belief["columns"]
    # Where nothing came afterwards there is nothing to compare.
    return {
        "heading": {
            "when": when(belief),
            "source": belief["source"],
            "pieces": belief["pieces"],
            **{key: _rows(columns[key]) for key in ("x", "y", "later_x", "later_y")},
            "error": _numbers(columns["distance"]),
            "stay": _numbers(columns["stay_distance"]),
            "sentence": finding(game, belief),
        }
    }


def _actions(_: Recording, belief: Tree) -> Tree:
    return {"predicted": {"of": belief["seats"], "chances": _rows(belief["columns"]["chances"])}}


def _goals(_: Recording, belief: Tree) -> Tree:
    columns = belief["columns"]
    names = [goal["name"] for goal in belief["goals"]]
    return {
        "goals": {"of": belief["seats"], "names": names, **{key: _rows(columns[key]) for key in ("chances", "x", "y")}}
    }


def _search(_: Recording, belief: Tree) -> Tree:
    columns = belief["columns"]
    found: Tree = {"kind": "chance", "values": _rows(columns["chances"])}
    if "visits" in columns:
        found["visits"] = _rows(columns["visits"])
    return found


_KINDS = {"places": _places, "actions": _actions, "goals": _goals, "search": _search}


def _rows(values: np.ndarray) -> Json:
    """`_numbers` of every moment; where all moments are alike only the first, which then stands for all."""
    alike = len(values) > 1 and np.array_equal(
        values[1:], np.broadcast_to(values[:1], values[1:].shape), equal_nan=True
    )
    return _numbers(values[:1] if alike else values)


def _numbers(values: np.ndarray) -> Json:
    """An array as nested lists of short numbers; None for NaN."""
    plain = np.round(np.asarray(values, np.float64), _DIGITS) + 0.0
    if np.isfinite(plain).all():
        whole = plain.astype(np.int64)
        return (whole if (whole == plain).all() else plain).tolist()
    listed = plain.astype(object)
    listed[~np.isfinite(plain)] = None
    return listed.tolist()
