"""What all learners of seats share: which seats are theirs, what is kept, their rewards, and their opponent model.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number, keep_seats, loss_mask, take_seats
from omg.controllers.basic import BasicMAC, Columns
from omg.controllers.draw import TeamDraw
from omg.learners.base import Kept
from omg.learners.parts import step_shares, weigh
from omg.modules.opponent_models.base import ModelTargets, OpponentModel, SupervisedModel

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class ModelUpdate(NamedTuple):
    """What learning of the opponent model yields."""

    model: OpponentModel | None
    opt_state: optax.OptState
    features: tuple[Array | None, ...]
    """Of each part of the batch: [B, T+1, m, F] for the agent, detached; None without a model."""
    metrics: dict[str, Array]


class SeatLearner:
    """A learner in all seats, or in those that a team leaves to it, with or without an opponent model.

    Its state has the player as `mac` and the state of the opponent model's optimiser as `model_opt_state`.
    """

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        self.config = config
        self.spec = spec
        self.seats = spec.n_agents if team is None else len(team.main_slots)
        # Whoever has all seats reads them in their order; where the team begins then says nothing.
        self.team = None if self.seats == spec.n_agents else team
        self.partners = partners
        self.model_optimiser = optax.adam(config.am_lr)
        # LIAM reconstructs what the others saw.
        columns = None if self.team is None or config.model_part.stores_others else self.seats
        self.kept = Kept(columns, state=self.team is None or self.needs_state())
        self.examines = False
        self.controls: tuple[str, ...] = () if self.team is None or config.model_part.absent else ("zero", "shuffled")

    def needs_state(self) -> bool:
        """Whether updates read the global state."""
        return self.config.obs_is_state

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

    def policy(self, state: Any) -> BasicMAC:
        """The controller that learns."""
        return state.mac

    def tested(self, state: Any) -> BasicMAC:
        """The same controller, which draws nothing that it need not."""
        return state.mac.tested()

    def control(self, state: Any, name: str) -> BasicMAC:
        """The tested player with its opponent model's features at `zero`, or `shuffled` between games."""
        return self.tested(state).with_features(name)

    def examine(self, state: Any, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """Nothing to add."""
        return {}

    def main_seats(self, batch: EpisodeBatch) -> Array | None:
        """The seats [B, m] that learn; None for all."""
        if self.team is None:
            return None
        if batch.seat is None:
            raise ValueError("episodes of a team must say where the learning algorithm sat")
        return self.team.main_seats(batch.seat)

    def trained(self, model: OpponentModel | None) -> Any:
        """The part of an opponent model that its optimiser changes."""
        return model

    def _columns_of(self, values: Array, seats: Array | None) -> Array:
        """The columns of the seats that learn, [B, T+1, m, ...], of values of all seats or of just these."""
        return values if seats is None or values.shape[2] == self.seats else take_seats(values, seats)

    def _seat_reward(self, batch: EpisodeBatch, seats: Array | None) -> Array:
        """What each step paid the seats that learn: [B, T, m], or [B, T, 1] when all get the same."""
        reward = batch.reward[:, :-1]
        if reward.ndim == 2:
            return reward[..., None]
        if self.config.common_reward:
            return reward.sum(axis=-1, keepdims=True)
        share = self.config.prosocial
        if share > 0:
            reward = (1.0 - share) * reward + share * reward.mean(axis=-1, keepdims=True)
        return reward if seats is None else take_seats(reward, seats)

    def _columns(self, state: Any, parts: Sequence[EpisodeBatch]) -> list[Columns]:
        """What the seats that learn saw in each part of a batch."""
        return [state.mac.columns(part, self.main_seats(part)) for part in parts]

    def _learn_model(
        self,
        state: Any,
        parts: Sequence[EpisodeBatch],
        columns: Sequence[Columns],
        t_env: Number,
        key: Array | None,
    ) -> ModelUpdate:
        """One update of the opponent model from all parts of a batch, and the features it had before."""
        model = state.mac.opponent_model
        if model is None:
            return ModelUpdate(None, state.model_opt_state, (None,) * len(parts), {})
        shares = step_shares(parts)

        def of_part(
            model: SupervisedModel, batch: EpisodeBatch, seen: Columns
        ) -> tuple[tuple[Array, dict[str, Array]], Array]:
            inputs = seen.model_inputs()
            seats = jnp.broadcast_to(inputs.seats[:, 0], (batch.actions.shape[0], self.seats))
            targets = ModelTargets(batch.obs[:, :-1], batch.actions[:, :-1], seats)
            inference = model.unroll(inputs)
            played = jax.tree.map(lambda values: values[:, :-1], inference)
            return model.loss(played, targets, loss_mask(batch)), model.features(inference, key)

        def loss(model: SupervisedModel) -> tuple[Array, tuple[tuple[Array, ...], dict[str, Array]]]:
            means, features = zip(*(of_part(model, *part) for part in zip(parts, columns, strict=True)), strict=True)
            value, metrics = weigh(means, shares)
            return value, (features, metrics)

        (_, (features, metrics)), gradients = jax.value_and_grad(loss, has_aux=True)(model)
        steps, opt_state = self.model_optimiser.update(gradients, state.model_opt_state)
        given = tuple(state.mac.control(each) for each in features)
        return ModelUpdate(optax.apply_updates(model, steps), opt_state, given, metrics)
