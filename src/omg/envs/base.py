"""What every built-in game provides: a `spec`, `reset` and `step`, pure functions over a whole batch of games.

The batch is part of the interface, so each game chooses its own inner array layout (the battle simulator keeps the
batch axis last). `step` never resets by itself: the runner decides when a new episode starts.

Letters in shape comments: B games, A seats (agents), O observation features, S state features, U actions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from omg.envs.places import SeatCells, SeatPlace
from omg.registry.table import load
from omg.registry.traits import Traits
from omg.types import PyTree

if TYPE_CHECKING:
    from jax import Array

EnvState: TypeAlias = PyTree
"""A pytree private to the game; only the game itself knows its layout."""
State = TypeVar("State")
"""The same where the game is known: its own `NamedTuple`."""

Seats = Annotated[int, Field(ge=1, le=4096)]
Size = Annotated[int, Field(ge=1, le=10_000_000)]
"""Sizes as a stored spec may have them: no file makes us count to 2^60."""


class GameArgs(BaseModel):
    """The options of a game (`env_args`); every field of a subclass has a description and, where it is a size, a bound.

    Bounds are far above what anybody plays, and low enough that no options alone take the machine's memory.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def doubt(self) -> str | None:
        """What in these options only the user may ask for, not a file that comes from somebody else; None: nothing."""
        return None

    def on_host(self) -> bool:
        """Whether a built-in game with these options is no JAX program."""
        return False


@dataclass(frozen=True)
class EnvTraits(Traits):
    """What a game's line in the registry says about it."""

    options: str | type[GameArgs] = field(kw_only=False)
    """Its typed options (`env_args`), every field with a help text; named as `module:class`, or the class."""
    foreign: bool = field(default=False, kw_only=True)
    """Whether it stands for the games of another package, which is imported when one of them is built."""
    on_host: bool = field(default=False, kw_only=True)
    """Whether its games are no JAX programs; `sc2` depends on its `backend`, see `plays_on_host`."""
    searchable: bool = field(default=False, kw_only=True)
    """Whether players can search it: a `grid.GridGame`, whose positions can be read off the global state."""
    on_cells: bool = field(default=False, kw_only=True)
    """Whether its views can tell on which cells of a board everybody is (`EnvSpec.seat_cells`)."""

    @property
    def args(self) -> type[GameArgs]:
        """The class of its options."""
        if isinstance(self.options, str):
            return cast(type[GameArgs], load(self.options))
        return self.options


@dataclass(frozen=True)
class EnvSpec:
    """The sizes and facts of one configured game that networks, buffers and reports depend on.

    How a state is read follows from the rest and is not compared: folders from before a game said so are of that game.
    """

    name: str
    """Registry name, e.g. `sc2`."""
    scenario: str
    """What distinguishes games of one environment, e.g. the map `8m` or `8x8-2p-3f`."""
    n_agents: Seats
    n_actions: Size
    obs_dim: Size
    state_dim: Size
    episode_limit: Size
    reward_per_agent: bool = False
    """False: one team reward [B]; True: general-sum, rewards are [B, A]."""
    metrics: tuple[str, ...] = ()
    """Names in `Outcome.metrics`; the runner reports the value at the last step of each episode."""
    success_metric: str = "return"
    """The metric that tells good from bad play, used for `best` checkpoints (`battle_won` on sc2)."""
    learner_seats: tuple[int, ...] | None = None
    """Seats that the learning algorithm of a team takes in turn, in games with roles; None: all seats."""
    map_shape: tuple[int, int, int] | None = None
    """Pictures, height and width of the map that each observation and the state begin with; None: there is none."""
    seat_blocks: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """Where the state speaks of single seats: of each block its start and the width of one seat's part. The parts of
    all seats follow one another in their order. Empty: the game does not say."""
    seat_places: SeatPlace | None = field(default=None, compare=False)
    """How a seat's part of the state tells where it is; None: the game does not say, or it has no places."""
    round_steps: Size | None = field(default=None, compare=False)
    """Steps of a round, in games that are played in rounds of equal length; None: there are none."""
    seat_cells: SeatCells | None = field(default=None, compare=False)
    """How views tell where everybody is on a board; None: they do not, or not of everybody."""


class Observation(NamedTuple):
    """What the players see before acting."""

    obs: Array
    """[B, A, O] float32, per seat."""
    state: Array
    """[B, S] float32, global; has no agent axis."""
    avail: Array
    """[B, A, U] bool, legal actions; at least one is always legal."""


class Outcome(NamedTuple):
    """What one step brought."""

    reward: Array
    """[B] float32, or [B, A] when `spec.reward_per_agent`."""
    terminated: Array
    """[B] bool, a real end of the game."""
    truncated: Array
    """[B] bool, cut by the time limit (never true together with `terminated`)."""
    metrics: dict[str, Array]
    """`spec.metrics` name -> [B] float32."""


class Env(Protocol[State]):
    """A batched game. Stepping a finished game is harmless and its result is to be ignored.

    A game that there is a picture of has `omg.envs.scenes.Shown` besides, one that has something to say `Described`.
    """

    spec: EnvSpec

    def reset(self, key: Array, num_envs: int) -> tuple[State, Observation]:
        """Starts `num_envs` independent games."""
        ...

    def step(self, key: Array, state: State, actions: Array) -> tuple[State, Observation, Outcome]:
        """Plays one step of every game. `actions`: [B, A] integers, legal by the last `Observation.avail`."""
        ...


@runtime_checkable
class Described(Protocol):
    """A game that says at the start of a run how it is played."""

    @property
    def about(self) -> str:
        """One line for the user; empty for none."""
        ...


AnyEnv: TypeAlias = Env[EnvState]
"""A game of which nothing but the interface is known."""
