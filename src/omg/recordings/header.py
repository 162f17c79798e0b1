"""What a recording says about its game before any column: checked types, so that a stranger's header is inert.

Everything in it is text of bounded length, numbers that are finite, and truth values. Nothing names a file.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from omg.errors import is_plain_text
from omg.types import Tree

FORMAT: Literal[1] = 1
"""Version of the format; another number is another format."""

MOST_PIECES, MOST_SEATS, MOST_ACTIONS, MOST_GOALS, MOST_LAYERS = 4096, 1024, 4096, 4096, 4096
"""Far above what any game has."""


def _plain(text: str) -> str:
    if not is_plain_text(text):
        raise ValueError("has characters that cannot be written down")
    return text


def _shallow(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    level: list[JsonValue] = [value]
    for _ in range(8):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise ValueError("is nested too deeply")
    json.dumps(value, allow_nan=False)
    return value


Text = Annotated[str, StringConstraints(max_length=400), AfterValidator(_plain)]
Colour = Annotated[str, StringConstraints(pattern=r"^#[0-9a-f]{6}$")]
Number = Annotated[float, Field(ge=-1e9, le=1e9)]
Length = Annotated[float, Field(ge=0, le=1e9)]
Index = Annotated[int, Field(ge=0, le=MOST_PIECES)]
Options = Annotated[dict[Text, JsonValue], AfterValidator(_shallow)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, validate_assignment=True)


class StageLook(_Part):
    """The field."""

    left: Number
    top: Number
    width: Length
    height: Length
    cells: bool
    """Whether it is a board of cells of size 1."""
    sight: Length | None = None
    """How far seats see from their own piece; None: everything."""
    sight_square: bool = False
    """Whether they see a square, `sight` cells to each side, and no circle."""


class PieceLook(_Part):
    """What does not change about a piece, see `omg.envs.scenes.Piece`."""

    name: Text
    label: Text
    colour: Colour
    size: Length
    """Radius, or half of a square's side."""
    square: bool = False
    reach: Length | None = None
    """How far it can shoot from its place; None: it does not shoot."""


class ActionLook(_Part):
    """One action: what it is called and, where it goes somewhere or is done to a piece, where and to which."""

    name: Text
    dx: Number = 0.0
    dy: Number = 0.0
    """The direction in which it moves a player, downwards; both 0: it does not."""
    piece: Index | None = None
    """The piece that it is done to."""


class SeatLook(_Part):
    """Who sits in a seat."""

    label: Text
    """Name of the player, e.g. `vdn_3`."""
    algorithm: Text
    learns: bool
    """Whether it is the agent that was tested, not one of its partners."""
    piece: Index | None = None
    """The piece that it moves."""
    values: Literal["q", "logits", "log_probabilities", "probabilities"] | None = None
    """What column `values` holds for it; None: nothing."""


class _Belief(_Part):
    seat: Index
    """Who believes it."""
    source: Text
    """What believes it, in words: `subgoal`, `naive_am`, `search`."""


class Places(_Belief):
    """Where a seat thinks that pieces will be."""

    kind: Literal["places"] = "places"
    pieces: Annotated[list[Index], Field(max_length=MOST_PIECES)]
    """J pieces that it speaks of."""
    horizon: Annotated[int, Field(ge=1, le=1_000_000)] | None
    """H, how many steps ahead `later_x` and `later_y` are looked up; None: at the end of the round."""
    round_steps: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Steps of a round, with `horizon` None."""


class Actions(_Belief):
    """What a seat thinks that others do now."""

    kind: Literal["actions"] = "actions"
    seats: Annotated[list[Index], Field(max_length=MOST_SEATS)]
    """J seats that it speaks of."""


class GoalLook(_Part):
    """Something that can be wanted."""

    name: Text


class Goals(_Belief):
    """What a seat thinks that others are after."""

    kind: Literal["goals"] = "goals"
    seats: Annotated[list[Index], Field(max_length=MOST_SEATS)]
    """J seats that it speaks of."""
    goals: Annotated[list[GoalLook], Field(max_length=MOST_GOALS)]
    """G goals."""


class Search(_Belief):
    """What the tree search of a seat found."""

    kind: Literal["search"] = "search"


Belief = Annotated[Places | Actions | Goals | Search, Field(discriminator="kind")]


class Header(_Part):
    """Everything about a recorded game that is no column."""

    format: Literal[1] = FORMAT
    omg: Text
    """Version of the program that wrote it."""
    game: Text
    """Registry name, e.g. `sc2`."""
    scenario: Text
    env_args: Options
    stage: StageLook | None
    """None: there is no picture of the game (and no pieces)."""
    pieces: Annotated[list[PieceLook], Field(max_length=MOST_PIECES)]
    actions: Annotated[list[ActionLook], Field(min_length=1, max_length=MOST_ACTIONS)]
    seats: Annotated[list[SeatLook], Field(min_length=1, max_length=MOST_SEATS)]
    algorithm: Text
    """Of the agent that was tested, or of the team."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    number: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    """Of the game among those recorded together, from 1."""
    t_env: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Environment steps that the agent was trained for."""
    ended: Literal["terminated", "truncated"]
    facts: Annotated[dict[Text, float], Field(max_length=1000)]
    """`return`, `steps`, and the game's metrics at its end."""
    beliefs: Annotated[list[Belief], Field(max_length=MOST_LAYERS)] = []


_OWN = ("number", "t_env", "ended", "facts")
"""What differs between games of one film."""


class Headers:
    """Checks headers of games that are alike: what they share once, what is a game's own for each."""

    def __init__(self) -> None:
        self._shared: Tree = {}
        self._checked: Header | None = None

    def of(self, header: Tree) -> Header:
        """A header that has all keys, as `Header` has it.

        Raises:
            ValidationError: it is none.
        """
        shared = {key: value for key, value in header.items() if key not in _OWN}
        if self._checked is None or shared != self._shared:
            self._checked, self._shared = Header.model_validate(header), shared
            return self._checked
        made = self._checked.model_copy()
        for key in _OWN:
            setattr(made, key, header[key])  # Checked, as `_Part` asks for it.
        return made
