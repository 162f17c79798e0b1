"""How the opponent model of inferred subgoals is trained, whatever the learner learns with them.

For every step of a played episode, with E the frozen prior's encoding and s_{t+1} ... s_{t+H} the states that really
came (the last one repeats past the end; `subgoal_of`: as the seat saw them, or what the others did on the way there;
`omg_candidates`: those of the own life, or ends of rounds in their place):

- *selector*: candidates E(s_{t+1}) ... E(s_{t+H}); the selected subgoal is the candidate with the highest value
  V(s_t, g) (optimistic) or the lowest (conservative), or a random one, the next, the third (`subgoal_mode`); what V is
  says the learner;
- *mix*: g_t is the selected one with a probability that falls to zero, else the inferred one (`omg_q_input`);
- *inference*: reconstruction + 0.001 KL(inferred || E(selected state)), with an optimiser of its own.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number
from omg.components.counts import linear
from omg.controllers.basic import BasicMAC
from omg.controllers.others import subgoal_steps
from omg.controllers.places import place_reader
from omg.controllers.reading import SeatViews, Selection, past_the_end, select_goals
from omg.errors import UserError
from omg.learners.seats import ModelState, ModelUpdate, Share, weigh
from omg.learners.subgoal_measures import examine_subgoals
from omg.modules.opponent_models.base import ModelInputs, OpponentModel
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.registry import ModelTraining

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

Codes = tuple[Array, Array]
"""Mean and log variance."""
VALUED_MODES = ("optimistic", "conservative")
"""Values of `subgoal_mode` that need V of all candidates."""
Trained = TypeVar("Trained", bound=ModelState)
CandidateValues = Callable[[Trained, BasicMAC, EpisodeBatch, SeatViews, Array, Array], Array]
"""V(s_t, g) of all candidates by a learner's networks, [B, T, H, m]. Its arguments: the learner's state before the
update; its player, with the opponent model as it is now; the episodes; the same as the seats that learn saw them; the
subgoals [B, T+1, m, D] that the recurrent state is carried along; and the encodings [B, T+1+H, m, D] of all slots and
what repeats behind them."""


class SubgoalTraining(Generic[Trained]):
    """Trains a `SubgoalModel` on states that are selected in hindsight by what they are worth to the learner."""

    examines = True

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        candidate_values: CandidateValues[Trained],
        learns_prior: bool = False,
    ):
        if config.model_part.training is not ModelTraining.SUBGOALS:
            raise UserError(f"am_model: got {config.am_model}, but a learner of subgoals trains omg_am.")
        self.config = config
        self.candidate_values = candidate_values
        self.others = subgoal_steps(config, spec)
        self.places = place_reader(config, spec)
        self.round_steps = spec.round_steps if config.omg_candidates == "rounds" else None
        self.optimiser = optax.adam(config.am_lr)
        self.learns_prior = learns_prior
        """Whether the prior is learned along with everything else, because there is no pre-trained one."""

    def init(self, model: OpponentModel | None) -> optax.OptState:
        """See `ModelTrainer.init`; of all of the model but the prior, unless that is learned along."""
        assert isinstance(model, SubgoalModel)
        return self.optimiser.init(model if self.learns_prior else model.with_prior(None))

    def examine(self, mac: BasicMAC, batch: EpisodeBatch, views: SeatViews, partners: int) -> dict[str, Array]:
        """What the inferred subgoals say about the future and about the others; see `subgoal_measures`."""
        assert isinstance(mac.opponent_model, SubgoalModel)
        told = None if self.others is None else self.others.along(batch, views.chosen)
        return examine_subgoals(
            mac.opponent_model, batch, views, self.config.omg_horizon, partners, told, self.round_steps, self.places
        )

    def update(self, state: Trained, shares: Sequence[Share], t_env: Number, key: Array | None) -> ModelUpdate:
        """See `ModelTrainer.update`."""
        model = state.mac.opponent_model
        assert isinstance(model, SubgoalModel)
        assert key is not None
        keys = [key] if len(shares) == 1 else list(jax.random.split(key, len(shares)))
        inputs = [share.views.model_inputs() for share in shares]
        encoded = [each.seen for each in inputs]
        if self.others is not None:
            encoded = [self.others.along(share.batch, share.views.chosen) for share in shares]
        prior = model.prior
        if self.learns_prior:
            for share, stood_for, each in zip(shares, encoded, inputs, strict=True):
                prior = prior.counting(stood_for, share.viewed, each.seen)
            model = model.with_prior(prior)

        def loss(trained: SubgoalModel) -> tuple[Array, tuple[tuple[Array, ...], dict[str, Array]]]:
            whole = trained if self.learns_prior else trained.with_prior(prior)
            given = zip(shares, inputs, encoded, keys, strict=True)
            learned = [self._share_loss(whole, state, *each, t_env) for each in given]
            value, metrics = weigh([means for means, _ in learned], shares)
            return value, (tuple(features for _, features in learned), metrics)

        trained = model if self.learns_prior else model.with_prior(None)
        (_, (features, metrics)), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        steps, opt_state = self.optimiser.update(gradients, state.model_opt_state)
        trained = optax.apply_updates(trained, steps)
        changed = trained if self.learns_prior else trained.with_prior(prior)
        return ModelUpdate(changed, opt_state, features, metrics)

    def _share_loss(
        self,
        model: SubgoalModel,
        state: Trained,
        share: Share,
        inputs: ModelInputs,
        encoded: Array,
        key: Array,
        t_env: Number,
    ) -> tuple[tuple[Array, dict[str, Array]], Array]:
        """Of some of the episodes: the model's loss with the metrics, and the subgoals that the agent learns with.

        Args:
            model: What is trained.
            state: The learner's before the update.
            share: Played episodes.
            inputs: What the model reads of them.
            encoded: [B, T+1, m, O], what subgoals stand for, of all slots.
            key: Consumed.
            t_env: Environment steps so far.
        """
        config, mask = self.config, share.mask
        infer_key, select_key, mix_key, loss_key, prior_key = jax.random.split(key, 5)
        if config.omg_action_dropout:
            # A share of the others' last actions is hidden, other ones for every seat and step.
            shape = (*inputs.seen.shape[:-1], inputs.last_actions.shape[-1])
            concealed = jax.random.bernoulli(jax.random.fold_in(key, 5), config.omg_action_dropout, shape)
            inputs = inputs._replace(concealed=concealed)
        posterior = model.unroll(inputs)
        # What the agent learns with, and what the selector carries its memory along, come from the same pass.
        inferred = lax.stop_gradient(model.features(posterior, infer_key if config.omg_sample else None))
        codes = lax.stop_gradient(model).prior.encode(encoded)
        selection = self.select(model, state, share, codes, inferred, select_key)
        played = jax.tree.map(lambda values: values[:, :-1], posterior)
        value, metrics = model.subgoal_loss(
            played, selection.mean, selection.log_var, mask, config.omg_kl_weight, loss_key
        )
        if self.learns_prior:
            prior_value, prior_metrics = model.prior.loss(encoded, share.viewed, config.prior_kl_weight, prior_key)
            value, metrics = value + prior_value, metrics | prior_metrics
        measured = selection_metrics(selection, mask[..., None], config.omg_horizon)
        features, selected = mix_subgoals(config, inferred, selection, mask[..., None], t_env, mix_key)
        metrics |= {"omg_selected_share": selected, **measured}
        return (value, metrics), features

    def select(
        self, model: SubgoalModel, state: Trained, share: Share, encoded: Codes, inferred: Array, key: Array
    ) -> Selection:
        """Picks for every step which of the coming states its subgoal is.

        Args:
            model: The opponent model as it is now.
            state: The learner's before the update.
            share: Played episodes.
            encoded: What the prior makes of all slots, mean and log variance, [B, T+1, m, D] each.
            inferred: [B, T+1, m, D], the subgoals that the recurrent state is carried along.
            key: For `subgoal_mode: random`.
        """
        config = self.config
        model = lax.stop_gradient(model)
        length = share.length[:, None]
        if config.omg_candidates != "episode":
            length = last_alive(share.views.seen, length)
        if self.round_steps is not None:
            encoded = at_round_ends(encoded, self.round_steps, length)
        mean, log_var = (past_the_end(each, length, config.omg_horizon) for each in lax.stop_gradient(encoded))
        values = None
        if config.subgoal_mode in VALUED_MODES:
            player = lax.stop_gradient(dataclasses.replace(state.mac, opponent_model=model))
            values = self.candidate_values(state, player, share.batch, share.views, inferred, mean)
        return select_goals(config, (mean, log_var), values, mean.shape[2], length, key)


def last_alive(seen: Array, length: Array) -> Array:
    """The last slot of each seat's own life: a seat that is out of the game sees nothing but zeros.

    Args:
        seen: [B, T+1, m or 1, O] views.
        length: [B, 1] integers, the slot of the episode's last view.

    Returns:
        [B, m or 1] integers, at most `length`.
    """
    slots = jnp.arange(seen.shape[1])[:, None]
    alive = (seen != 0).any(axis=-1) & (slots <= length[:, None])
    return jnp.where(alive, slots, 0).max(axis=1)


def at_round_ends(codes: Codes, steps: int, length: Array) -> Codes:
    """Of every slot the codes of the slot in which its round ends: [B, T+1, m, D] each.

    Args:
        codes: Of all slots.
        steps: Of a round.
        length: [B, m] or [B, 1] integers, the last slot; a round that is cut short ends there.
    """
    slots = codes[0].shape[1]
    ends = jnp.minimum(-(-jnp.arange(slots) // steps) * steps, slots - 1)
    index = jnp.minimum(ends[:, None], length[:, None])[..., None]
    mean, log_var = (jnp.take_along_axis(each, index, axis=1) for each in codes)
    return mean, log_var


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
    share = selected_share(config, t_env)
    # Nothing can be selected behind an episode's last step, however far its batch is padded.
    chosen = (jax.random.uniform(key, selection.offset.shape) < share) & (mask > 0)
    mixed = jnp.where(chosen[..., None], selection.mean, inferred[:, :-1])
    return jnp.concatenate([mixed, inferred[:, -1:]], axis=1), share


def selected_share(config: Config, t_env: Number) -> Array:
    """The chance that something learns with the selected subgoal instead of the inferred one, as `omg_q_input` says."""
    if config.omg_q_input != "mix":
        shares = {"inferred": 0.0, "zero": 0.0, "selected": 1.0, "oracle": 1.0}
        return jnp.float32(shares[config.omg_q_input])
    until = config.omg_mix_until
    falls = config.omg_mix_anneal_time if until is None else max(round(until * config.t_max), 1)
    return linear(t_env, config.omg_mix_start, config.omg_mix_finish, falls)


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
