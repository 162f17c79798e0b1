"""What can sit in the seats of a game: players of single seats, and policies that fill all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from jax import Array

from omg.modules.told import Told
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.envs.base import Observation

Memory: TypeAlias = PyTree
"""A pytree private to the policy: what it remembers between two steps of an episode."""


class PlayerView(NamedTuple):
    """What a player knows before acting, in N games in each of which it has m seats."""

    obs: Array
    """[N, m, O] float32."""
    state: Array
    """[N, S] float32."""
    avail: Array
    """[N, m, U] bool."""
    seats: Array
    """[N, m] int32, the seats it has."""
    last_actions: Array
    """[N, A] int32, what all seats did in the step before; -1 before the first step."""
    players: Array | None = None
    """[N, A] int32, the pool member in every seat; only bounds that no real player reaches may look at it."""
    all_obs: Array | None = None
    """[N, A, O] float32, what every seat sees; only for who `WatchesOthers`."""
    all_avail: Array | None = None
    """[N, A, U] bool, what is legal in every seat; only for who `WatchesOthers`."""


class Player(Protocol):
    """Acts in some seats of many games at once; a pytree, so that players can be stacked and stored."""

    def initial_seats(self, batch: int, seats: int) -> Memory:
        """Memory at the start of `batch` episodes with `seats` seats each; every leaf has the leading axis `batch`."""
        ...

    def act_seats(
        self, view: PlayerView, memory: Memory, key: Array, epsilon: Array | float
    ) -> tuple[Array, Memory, dict[str, Array]]:
        """Chooses actions.

        Args:
            view: What is known now.
            memory: From `initial_seats` or from the call before.
            key: Consumed.
            epsilon: Scalar, amount of exploration; what it means is up to the action selector.

        Returns:
            Actions [N, m] int32, legal where `view.avail` has any; the new memory; and what must be stored with this
            step (name -> [N, m, ...]; the same names at every step, often none).
        """
        ...


class Lineup(NamedTuple):
    """Who sits where in B games."""

    seat: Array
    """[B] int32, the (first) seat of the algorithm that learns."""
    players: Array
    """[B, A] int32, the pool member in every seat; -1 where the algorithm that learns sits."""


class Policy(Protocol):
    """Chooses the actions of all seats in B games at once; a pytree."""

    def initial(self, batch: int, key: Array) -> Memory:
        """Memory at the start of `batch` episodes; `key` draws the team, where there is one to draw."""
        ...

    def act(
        self, observation: Observation, memory: Memory, key: Array, epsilon: Array | float
    ) -> tuple[Array, Memory, dict[str, Array]]:
        """Chooses actions.

        Args:
            observation: What the seats see now.
            memory: From `initial` or from the call before.
            key: Consumed.
            epsilon: Scalar, amount of exploration; what it means is up to the action selector.

        Returns:
            Actions [B, A] int32, legal where `observation.avail` has any; the new memory; and what must be stored with
            this step (name -> [B, m, ...]; the same names at every step, often none).
        """
        ...

    def lineup(self, memory: Memory) -> Lineup | None:
        """Who sits where; None when one algorithm has all seats."""
        ...


class Controller(Policy, Player, Protocol):
    """A player that can have all seats as well as some."""


# What players and policies may have besides. Whoever asks checks with `isinstance`: those of other packages need none.


@runtime_checkable
class ActsAtEnd(Protocol):
    """A player or policy that says whether it is to act in the slot behind the last step; all others do."""

    @property
    def acts_at_end(self) -> bool:
        """False where acting is costly and nothing comes of it there."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """A player that an oracle may have to tell the true subgoals before every step (`controllers.oracle`)."""

    @property
    def foresight(self) -> object | None:
        """Settings of the oracle; None for none."""
        ...


@runtime_checkable
class Likely(Protocol):
    """A player whose chances are known: how likely it is to do what it does not do as well as what it does."""

    def chances(self, view: PlayerView, memory: Memory) -> tuple[Array, Memory]:
        """How likely each action is when the player acts with epsilon 0, as it does when it is tested.

        Args:
            view: What is known now.
            memory: From `initial_seats` or from the call before.

        Returns:
            Probabilities [N, m, U] float32, and the memory after the step, which is the same whatever is drawn: of what
            was done the next view tells.
        """
        ...


@runtime_checkable
class ModelsOthers(Protocol):
    """A player that may have an opponent model."""

    @property
    def opponent_model(self) -> object | None:
        """An `OpponentModel`; None for none."""
        ...


@runtime_checkable
class ReadsState(Protocol):
    """A policy that says whether it reads the game off the global state, whatever `obs_is_state` is; others do not."""

    @property
    def reads_state(self) -> bool:
        """Whether it cannot act without the state."""
        ...


@runtime_checkable
class Tells(Protocol):
    """A player that can tell what it thinks, for people to look at."""

    def telling(self) -> Player:
        """The same player, which plays the same; its records also hold what `told` reads, under names with `TOLD`."""
        ...

    def told(self, records: dict[str, Array]) -> Told:
        """What it thought in episodes that it played as it is when `telling`.

        Args:
            records: Name -> [B, T+1, m, ...] of those episodes; looked up by name, for only what is looked up is kept.

        Returns:
            Leaves [B, T+1, m, ...].
        """
        ...


@runtime_checkable
class WatchesOthers(Protocol):
    """A player that must be shown what the other seats see: to ask what known players would do in their place."""

    @property
    def watches_others(self) -> bool:
        """Whether it needs `PlayerView.all_obs` and `all_avail`."""
        ...


def acts_at_end(acting: object) -> bool:
    """Whether a player or policy acts in the slot behind the last step."""
    return not isinstance(acting, ActsAtEnd) or acting.acts_at_end
