"""What learners with inferred subgoals share, whatever they learn with them.

For every step of a played episode, with E the frozen prior's encoding and s_{t+1} ... s_{t+H} the states that really
came (the last one repeats past the end):

- *selector*: candidates E(s_{t+1}) ... E(s_{t+H}); the selected subgoal is the candidate with the highest value
  V(s_t, g) (optimistic) or the lowest (conservative), or a random one, the next, the third (`subgoal_mode`); what V is
  says the learner;
- *mix*: g_t is the selected one with a probability that falls to zero, else the inferred one (`omg_q_input`);
- *inference*: reconstruction + 0.001 KL(inferred || E(selected state)), with an optimiser of its own.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, lengths, loss_mask, view_mask
from omg.components.schedules import linear
from omg.controllers.basic import Columns
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners.parts import part_keys, step_shares, weigh
from omg.learners.prior import prior_loss, read_statistics
from omg.learners.seats import ModelUpdate, SeatLearner
from omg.learners.subgoal_measures import examine_subgoals
from omg.modules.opponent_models.base import ModelInputs, OpponentModel
from omg.modules.opponent_models.selection import pick_offset
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.registry import ModelTraining

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

VALUED_MODES = ("optimistic", "conservative")
"""Values of `subgoal_mode` that need V of all candidates."""


class Selection(NamedTuple):
    """What the selector picked for every step."""

    offset: Array
    """[B, T, m] int32, how many steps ahead the selected state lies: 1 to H, less at the end of an episode."""
    mean: Array
    """[B, T, m, D], the prior's encoding of the selected state."""
    log_var: Array
    """[B, T, m, D]."""
    spread: Array
    """[B, T, m], highest minus lowest V of the candidates: how much the choice matters to the agent."""


class SubgoalLearner(SeatLearner):
    """The opponent model's part of a learner; stands before the learner of the agent among the base classes."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        if config.model_part.training is not ModelTraining.SUBGOALS:
            raise UserError(f"am_model: got {config.am_model}, but a learner of subgoals trains omg_am.")
        super().__init__(config, spec, team, partners)
        self.examines = True
        self.learns_prior = False
        """Whether the prior is learned along with everything else, because there is no pre-trained one."""

    @abstractmethod
    def _candidate_values(
        self, state: Any, batch: EpisodeBatch, columns: Columns, inferred: Array, goals: Array, steps: int
    ) -> Array:
        """V(s_t, g) of all candidates, [B, T, H, m].

        Args:
            state: The learner's before the update.
            batch: Played episodes.
            columns: The same, as the seats that learn saw them.
            inferred: [B, T+1, m, D], the subgoals that the recurrent state is carried along.
            goals: [B, T+1+H, m, D], the encodings of all slots and what repeats behind them.
            steps: T.
        """

    def trained(self, model: OpponentModel | None) -> Any:
        """All of the model but the prior, unless that is learned along."""
        assert isinstance(model, SubgoalModel)
        return model if self.learns_prior else model.with_prior(None)

    def examine(self, state: Any, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """What the inferred subgoals say about the future and about the others; see `subgoal_measures`."""
        columns = state.mac.columns(batch, self.main_seats(batch))
        model = state.mac.opponent_model
        assert isinstance(model, SubgoalModel)
        return examine_subgoals(model, batch, columns, self.config.omg_horizon, self.partners)

    def _learn_model(
        self,
        state: Any,
        parts: Sequence[EpisodeBatch],
        columns: Sequence[Columns],
        t_env: Number,
        key: Array | None,
    ) -> ModelUpdate:
        model = state.mac.opponent_model
        assert isinstance(model, SubgoalModel)
        assert key is not None
        keys, shares = part_keys(key, len(parts)), step_shares(parts)
        if self.learns_prior:
            for batch, each in zip(parts, columns, strict=True):
                model = model.with_prior(read_statistics(model.prior, each.model_inputs().seen, batch))

        def loss(trained: SubgoalModel) -> tuple[Array, tuple[tuple[Array, ...], dict[str, Array]]]:
            whole = trained if self.learns_prior else trained.with_prior(model.prior)
            player = lax.stop_gradient(dataclasses.replace(state.mac, opponent_model=whole))
            given = zip(parts, columns, keys, strict=True)
            learned = [self._part_loss(whole, state._replace(mac=player), *part, t_env) for part in given]
            value, metrics = weigh([means for means, _ in learned], shares)
            return value, (tuple(features for _, features in learned), metrics)

        trained = self.trained(model)
        (_, (features, metrics)), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        steps, opt_state = self.model_optimiser.update(gradients, state.model_opt_state)
        trained = optax.apply_updates(trained, steps)
        changed = trained if self.learns_prior else trained.with_prior(model.prior)
        return ModelUpdate(changed, opt_state, tuple(state.mac.control(each) for each in features), metrics)

    def _part_loss(
        self, model: SubgoalModel, state: Any, batch: EpisodeBatch, columns: Columns, key: Array, t_env: Number
    ) -> tuple[tuple[Array, dict[str, Array]], Array]:
        """Of one part of a batch: the model's loss with the metrics, and the subgoals that Q learns with.

        Args:
            model: What is trained.
            state: The learner's before the update, with the same model, detached.
            batch: Played episodes.
            columns: The same, as the seats that learn saw them.
            key: Consumed.
            t_env: Environment steps so far.
        """
        config = self.config
        infer_key, select_key, mix_key, loss_key, prior_key = jax.random.split(key, 5)
        inputs, mask = self._hide_actions(columns.model_inputs(), jax.random.fold_in(key, 5)), loss_mask(batch)
        posterior = model.unroll(inputs)
        # What Q learns with, and what the selector carries its memory along, come from the same pass.
        inferred = lax.stop_gradient(model.features(posterior, infer_key if config.omg_sample else None))
        selection = self.select(state, batch, columns, inferred, select_key)
        played = jax.tree.map(lambda values: values[:, :-1], posterior)
        value, metrics = model.subgoal_loss(
            played, selection.mean, selection.log_var, mask, config.omg_kl_weight, loss_key
        )
        if self.learns_prior:
            prior_value, prior_metrics = prior_loss(
                model.prior, inputs.seen, view_mask(batch), config.prior_kl_weight, prior_key
            )
            value, metrics = value + prior_value, metrics | prior_metrics
        features, share = mix_subgoals(config, inferred, selection, mask[..., None], t_env, mix_key)
        metrics |= {"omg_selected_share": share, **selection_metrics(selection, mask[..., None], config.omg_horizon)}
        return (value, metrics), features

    def _hide_actions(self, inputs: ModelInputs, key: Array) -> ModelInputs:
        """Hides a share of the others' last actions (`omg_action_dropout`), other ones for every seat and step."""
        share = self.config.omg_action_dropout
        if not share:
            return inputs
        shape = (*inputs.seen.shape[:-1], inputs.last_actions.shape[-1])
        return inputs._replace(hidden=jax.random.bernoulli(key, share, shape))

    def select(self, state: Any, batch: EpisodeBatch, columns: Columns, inferred: Array, key: Array) -> Selection:
        """Picks for every step which of the coming states its subgoal is.

        Args:
            state: The learner's before the update.
            batch: Played episodes.
            columns: The same, as the seats that learn saw them.
            inferred: [B, T+1, m, D], the subgoals that the recurrent state is carried along.
            key: For `subgoal_mode: random`.
        """
        config, model = self.config, state.mac.opponent_model
        assert isinstance(model, SubgoalModel)
        horizon, steps = config.omg_horizon, batch.actions.shape[1] - 1
        seen = columns.model_inputs().seen
        length = lengths(batch)[:, None]
        mean, log_var = (past_the_end(values, length, horizon) for values in model.prior.encode(seen))
        values = None
        if config.subgoal_mode in VALUED_MODES:
            values = self._candidate_values(state, batch, columns, inferred, mean, steps)
        return select_goals(config, (mean, log_var), values, self.seats, length, key)


def select_goals(
    config: Config, goals: tuple[Array, Array], values: Array | None, seats: int, length: Array, key: Array
) -> Selection:
    """Picks one of the coming states for every step, as `subgoal_mode` says.

    Args:
        config: Names mode and horizon H.
        goals: mean and log variance of the encodings of all slots, [B, T+1+H, m or 1, D] each, from `past_the_end`.
        values: [B, T, H, m], V of all candidates; None in modes that do not ask for it.
        seats: m, how many pick for themselves.
        length: [B, m] or [B, 1], the slot of the last state that may be picked.
        key: For `subgoal_mode: random`.
    """
    horizon = config.omg_horizon
    games, slots = goals[0].shape[:2]
    steps = slots - 1 - horizon
    offset = pick_offset(config.subgoal_mode, values, (games, steps, seats), horizon, key)
    now = jnp.arange(steps)[None, :, None]
    offset = jnp.minimum(offset, jnp.maximum(length[:, None] - now, 1)).astype(jnp.int32)
    index = (now + offset)[..., None]
    goal_mean, goal_log_var = (jnp.take_along_axis(value, index, axis=1) for value in goals)
    spread = jnp.zeros(offset.shape) if values is None else values.max(axis=2) - values.min(axis=2)
    return lax.stop_gradient(Selection(offset, goal_mean, goal_log_var, spread))


def mix_subgoals(
    config: Config, inferred: Array, selection: Selection, mask: Array, t_env: Number, key: Array
) -> tuple[Array, Array]:
    """The subgoals that the agent learns with, and the share of selected ones.

    Args:
        config: Says what to learn with (`omg_q_input`).
        inferred: [B, T+1, m, D].
        selection: Of the same episodes.
        mask: [B, T, m] or [B, T, 1], zero where nothing can be selected.
        t_env: Environment steps so far.
        key: Consumed.

    Returns:
        [B, T+1, m, D], and a float32 scalar.
    """
    shares = {"inferred": 0.0, "zero": 0.0, "selected": 1.0, "oracle": 1.0}
    if config.omg_q_input == "mix":
        share = linear(t_env, config.omg_mix_start, config.omg_mix_finish, config.omg_mix_anneal_time)
    else:
        share = jnp.float32(shares[config.omg_q_input])
    # Nothing can be selected behind an episode's last step, however far its batch is padded.
    chosen = (jax.random.uniform(key, selection.offset.shape) < share) & (mask > 0)
    mixed = jnp.where(chosen[..., None], selection.mean, inferred[:, :-1])
    return jnp.concatenate([mixed, inferred[:, -1:]], axis=1), share


def past_the_end(values: Array, length: Array, horizon: int) -> Array:
    """Values of all slots with `horizon` more; all slots behind the last state hold that state's.

    Args:
        values: [B, T+1, m, D].
        length: [B, m] or [B, 1] integers, the slot of the last state.
        horizon: H.

    Returns:
        [B, T+1+H, m, D].
    """
    last = jnp.take_along_axis(values, length[:, None, :, None], axis=1)
    behind = jnp.arange(values.shape[1])[:, None] > length[:, None]
    kept = jnp.where(behind[..., None], last, values)
    return jnp.concatenate([kept, jnp.repeat(last, horizon, axis=1)], axis=1)


def selection_metrics(selection: Selection, mask: Array, horizon: int) -> dict[str, Array]:
    """`omg_offset_mean`, the shares `omg_offset_1` ... `omg_offset_H`, and `omg_value_spread`; mask as for mixing."""
    weight = jnp.broadcast_to(mask, selection.offset.shape)
    weight = weight / jnp.maximum(weight.sum(), 1.0)
    shares = {f"omg_offset_{k}": ((selection.offset == k) * weight).sum() for k in range(1, horizon + 1)}
    return {
        "omg_offset_mean": (selection.offset * weight).sum(),
        "omg_value_spread": (selection.spread * weight).sum(),
        **shares,
    }
