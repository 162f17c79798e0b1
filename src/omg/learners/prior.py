"""`am_learner`: the subgoal prior, a variational autoencoder over what seats see, learned from a pool's games.

    loss = error of the reconstruction (mean over features: squared, in normalised units; of maps see `Prior`)
           + prior_kl_weight * KL(encoding || N(0, 1)) (summed over the subgoal's features)

as a mean over all views, that of an episode's last state included, and the seats. Frozen players act; the learner only
watches. With `subgoal_of: others` what the others did takes the place of views, see `omg.controllers.others`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number, masked_mean, view_mask
from omg.controllers.draw import TeamDraw
from omg.controllers.others import subgoal_steps
from omg.learners.base import Kept
from omg.modules.opponent_models.prior import Prior

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

ACTIVE_VARIANCE = 0.01
"""A subgoal feature counts as used when its mean varies more than this over states."""


class PriorState(NamedTuple):
    """Everything that learning changes."""

    prior: Prior
    opt_state: optax.OptState
    updates: Array
    """int32 scalar, gradient updates so far."""


class PriorLearner:
    """Learns a `Prior` from the games of frozen players."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        self.config = config
        self.spec = spec
        self.optimiser = optax.adam(config.am_lr)
        self.others = subgoal_steps(config, spec)
        of_state = self.others is not None and self.others.reads_state
        self.kept = Kept(columns=None, state=config.obs_is_state or of_state)
        self.examines = True
        self.controls: tuple[str, ...] = ()

    def init(self, key: Array) -> PriorState:
        """A new prior."""
        width = self.spec.state_dim if self.config.obs_is_state else self.spec.obs_dim
        maps = self.spec.map_shape if self.config.omg_maps else None
        encoded, apart = (width, None) if self.others is None else (self.others.dim, width)
        prior = Prior(encoded, self.config.subgoal_dim, map_shape=maps, seen_features=apart, key=key)
        return PriorState(prior, self.optimiser.init(prior), jnp.zeros((), jnp.int32))

    def keep(self, batch: EpisodeBatch) -> EpisodeBatch:
        """All observations, and the state if that is what seats see or what is encoded."""
        return batch if self.kept.state else batch._replace(state=batch.state[..., :0])

    def policy(self, state: PriorState) -> None:
        """It does not act."""

    def tested(self, state: PriorState) -> Prior:
        """What is saved: the prior."""
        return state.prior

    def control(self, state: PriorState, name: str) -> Prior:
        """There are none."""
        raise KeyError(name)

    def update(
        self, state: PriorState, batch: EpisodeBatch, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[PriorState, dict[str, Array]]:
        """One gradient update; metrics as in `Prior.loss`."""
        encoded, seen, mask = *self._encoded(batch), view_mask(batch)
        prior = state.prior.counting(encoded, mask, seen)

        def loss(prior: Prior) -> tuple[Array, dict[str, Array]]:
            return prior.loss(encoded, mask, self.config.prior_kl_weight, key)

        (_, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(prior)
        steps, opt_state = self.optimiser.update(gradients, state.opt_state)
        return PriorState(optax.apply_updates(prior, steps), opt_state, state.updates + 1), metrics

    def examine(self, state: PriorState, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """The same loss on games never trained on, the error in original units and how much of the subgoal is used.

        Metrics: those of `Prior.loss`; `prior_rmse` (root of the mean squared error of the decoded mean, original
        units, all features together); `prior_active` (subgoal features whose mean varies by more than 0.01 over
        states); `prior_explained` (share of the views' variance that the decoded mean explains).
        """
        (seen, _), mask = self._encoded(batch), view_mask(batch)
        _, metrics = state.prior.loss(seen, mask, self.config.prior_kl_weight, key)
        mean, _ = state.prior.encode(seen)
        error = ((state.prior.decode(mean) - seen) ** 2).mean(axis=-1)
        normal = state.prior.normalise(seen)
        unexplained = ((state.prior.decode_normalised(mean) - normal) ** 2).mean(axis=-1)
        centre = jax.vmap(lambda feature: masked_mean(feature, mask), in_axes=-1)(mean)
        variance = jax.vmap(lambda feature: masked_mean(feature, mask), in_axes=-1)((mean - centre) ** 2)
        return metrics | {
            "prior_rmse": jnp.sqrt(masked_mean(error, mask)),
            "prior_active": (variance > ACTIVE_VARIANCE).sum().astype(jnp.float32),
            "prior_explained": 1.0 - masked_mean(unexplained, mask) / masked_mean((normal**2).mean(axis=-1), mask),
        }

    def _encoded(self, batch: EpisodeBatch) -> tuple[Array, Array | None]:
        """What is encoded, [B, T+1, seats, O] or [B, T+1, 1, S], and what seats see where that is something else."""
        seen = batch.state[:, :, None] if self.config.obs_is_state else batch.obs
        if self.others is None:
            return seen, None
        encoded = self.others.along(batch, None)
        return encoded, jnp.broadcast_to(seen, (*encoded.shape[:-1], seen.shape[-1]))
