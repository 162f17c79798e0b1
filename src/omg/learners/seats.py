"""What all learners of seats share: which seats are theirs, what is kept, their rewards, and what an update is given.

Most episodes of a game with a generous time limit are far shorter than the longest of a batch, and learning on padding
would be most of the work. Losses are means over the steps that were played, so the episodes of an update may come in
several batches, each cut to its own length: the mean of their means, weighted by their steps, is the mean of the whole.
(A prior that is learned along counts views, one more per episode than steps; its weights are off by that much.)

How an opponent model is trained is no matter of the learner's base class: a learner that has one holds a
`ModelTrainer`.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number, keep_seats, loss_mask, take_seats, viewed_slots
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.controllers.others import OthersPlaces, OthersSteps
from omg.controllers.reading import Reading, SeatViews
from omg.learners.base import Kept
from omg.modules.opponent_models.base import OpponentModel

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

Batches = EpisodeBatch | tuple[EpisodeBatch, ...]
"""The episodes of an update: all in one, or in portions of similar length."""


class Share(NamedTuple):
    """Some of an update's episodes, and how much they count."""

    batch: EpisodeBatch
    views: SeatViews
    """The same, as the seats that learn saw them."""
    mask: Array
    """[B, T] of zeros and ones, the steps that count."""
    weight: Array
    """Scalar, which share of all played steps they have."""
    length: Array
    """[B] int32, steps of each episode; its last view stands in the slot of that number."""
    viewed: Array
    """[B, T+1] of zeros and ones, the slots that hold a view of the game."""


class SeatState(Protocol):
    """What the state of every learner of seats has."""

    @property
    def mac(self) -> BasicMAC:
        """The player that learns."""
        ...


class ModelState(SeatState, Protocol):
    """What the state of a learner has that trains an opponent model."""

    @property
    def model_opt_state(self) -> optax.OptState:
        """State of the opponent model's optimiser."""
        ...


class ModelUpdate(NamedTuple):
    """What learning of the opponent model yields."""

    model: OpponentModel | None
    opt_state: optax.OptState
    features: tuple[Array | None, ...]
    """Of each share of the episodes: [B, T+1, m, F] for the agent, detached; None without a model."""
    metrics: dict[str, Array]


State = TypeVar("State", bound=SeatState)
Trained = TypeVar("Trained", bound=ModelState, contravariant=True)


class ModelTrainer(Protocol[Trained]):
    """How the opponent model of a learner is trained; the object holds only settings."""

    examines: bool
    """Whether `examine` has something to say about test episodes."""

    def init(self, model: OpponentModel | None) -> optax.OptState:
        """The state of the model's optimiser before the first update."""
        ...

    def update(self, state: Trained, shares: Sequence[Share], t_env: Number, key: Array | None) -> ModelUpdate:
        """One update of the opponent model, and the features it had before.

        Args:
            state: The learner's before the update.
            shares: All episodes of the update.
            t_env: Environment steps so far.
            key: Consumed; None only for models that draw nothing.
        """
        ...

    def examine(self, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, partners: int) -> dict[str, Array]:
        """Further test metrics, from test episodes that were never trained on; often none."""
        ...


class SeatLearner(Generic[State]):
    """A learner in all seats, or in those that a team leaves to it. Its state has the player as `mac`."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        self.config = config
        self.spec = spec
        self.seats = spec.n_agents if team is None else len(team.main_slots)
        # Whoever has all seats reads them in their order; where the team begins then says nothing.
        self.team = None if self.seats == spec.n_agents else team
        self.partners = partners
        others = self.reads_others()
        seen_by_others = config.model_part.stores_others or (others is not None and not others.reads_state)
        of_state = self.needs_state() or (others is not None and others.reads_state)
        stores_all = self.team is None or seen_by_others
        self.kept = Kept(None if stores_all else self.seats, state=self.team is None or of_state)
        self.examines = False
        self.controls: tuple[str, ...] = () if self.team is None or config.model_part.absent else ("zero", "shuffled")

    def needs_state(self) -> bool:
        """Whether updates read the global state."""
        return self.config.obs_is_state

    def reads_others(self) -> OthersSteps | OthersPlaces | None:
        """How updates read what the other seats did; None where they do not."""
        return None

    def keep(self, batch: EpisodeBatch) -> EpisodeBatch:
        """All of it, or in a team the columns of the seats that learn.

        What an opponent model inferred while acting is not kept: an update infers anew with the model as it is now.
        """
        batch = batch._replace(records={})
        if self.kept.columns is None:
            return batch if self.kept.state else batch._replace(state=batch.state[..., :0])
        seats = self.main_seats(batch)
        assert seats is not None
        return keep_seats(batch, seats, state=self.kept.state)

    def policy(self, state: State) -> BasicMAC:
        """The controller that learns."""
        return state.mac

    def tested(self, state: State) -> BasicMAC:
        """The same controller, which draws nothing that it need not."""
        return state.mac.tested()

    def control(self, state: State, name: str) -> BasicMAC:
        """The tested player with its opponent model's features at `zero`, or `shuffled` between games."""
        return self.tested(state).with_features(name)

    def examine(self, state: State, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """Nothing to add."""
        return {}

    def main_seats(self, batch: EpisodeBatch) -> Array | None:
        """The seats [B, m] that learn; None for all."""
        if self.team is None:
            return None
        if batch.seat is None:
            raise ValueError("episodes of a team must say where the learning algorithm sat")
        return self.team.main_seats(batch.seat)

    def shares(self, reading: Reading, batches: Batches) -> list[Share]:
        """All episodes of an update as they are learned from."""
        portions = (batches,) if isinstance(batches, EpisodeBatch) else batches
        seats = [self.main_seats(portion) for portion in portions]
        masks = [loss_mask(portion) for portion in portions]
        ends = [mask.sum(axis=1).astype(jnp.int32) for mask in masks]
        viewed = [viewed_slots(end, mask.shape[1] + 1) for end, mask in zip(ends, masks, strict=True)]
        total = jnp.maximum(sum(mask.sum() for mask in masks), 1.0)
        return [
            Share(
                batch=portion,
                views=reading.episodes(portion, own),
                mask=mask,
                weight=mask.sum() / total,
                length=end,
                viewed=slots,
            )
            for portion, own, mask, end, slots in zip(portions, seats, masks, ends, viewed, strict=True)
        ]

    def _seat_reward(self, batch: EpisodeBatch, views: SeatViews) -> Array:
        """What each step paid the seats that learn: [B, T, m], or [B, T, 1] when all get the same."""
        reward = batch.reward[:, :-1]
        if reward.ndim == 2:
            return reward[..., None]
        if self.config.common_reward:
            return reward.sum(axis=-1, keepdims=True)
        share = self.config.prosocial
        if share > 0:
            reward = (1.0 - share) * reward + share * reward.mean(axis=-1, keepdims=True)
        return reward if views.seats is None else take_seats(reward, views.seats[:, 0])


Means = TypeVar("Means")


def weigh(means: Sequence[Means], shares: Sequence[Share]) -> Means:
    """The mean over all episodes from the means over each share; pytrees of scalars of the same structure."""
    if len(means) == 1:
        return means[0]
    weights = [share.weight for share in shares]
    whole: Means = jax.tree.map(lambda *all_: sum(w * mean for w, mean in zip(weights, all_, strict=True)), *means)
    return whole
