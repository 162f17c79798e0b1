"""How models of several subgoals are trained: one subgoal for each co-player of a planning player.

For every step and co-player the candidates are the prior's encodings of what the co-player saw in the next H states, up
to the last one in which it was in the game: who has left is nowhere on the board, and stays where it was seen last. The
selected one has the highest (or lowest, `subgoal_mode`) value V(s, g)
by the focal player's network, the other co-players' subgoals being those inferred. The models learn by

    reconstruction + omg_kl_weight KL(inferred || selected)

with an optimiser of their own; and so does the prior, if none was pre-trained. The other networks are told the inferred
subgoals, or with a chance that falls to zero the selected ones (`omg_q_input`). Everything starts from what the
networks that played infer and select. See `omg.learners.subgoals` for the same with one subgoal.

Steps in which a co-player has left, or the focal player has, count nowhere.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, P sets of networks (m or 1), q = m / P sequences of
each episode that a set learns from, R = q * B, J co-players, O views, D features of a subgoal, H horizon, W width of a
layer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from omg.components import EpisodeBatch, Number, loss_mask, view_mask
from omg.controllers.hop import HOPMac
from omg.controllers.reading import Selection, candidates, past_the_end, select_goals
from omg.learners.subgoals import VALUED_MODES, mix_subgoals, selection_metrics
from omg.modules.opponent_models.base import ModelInputs
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.modules.planning import PolicyValueNetwork, each
from omg.modules.planning.networks import weigh_goal
from omg.planning.minds import Minds
from omg.planning.search import own_order

if TYPE_CHECKING:
    from omg.config import Config

Models = tuple[SubgoalModel, Prior | None]
"""What the models' optimiser changes: the models of all sets, and the prior where it is learned along."""


class Views(NamedTuple):
    """What all seats saw in B episodes."""

    seen: Array
    """[B, T+1, A, O]."""
    last_actions: Array
    """[B, T+1, A] int8, -1 for none."""
    mask: Array
    """[B, T+1], slots that hold a view."""
    cells: Array
    """[B, T+1, A] int32, where everybody is; of those who are not there anything."""


class Sequences(NamedTuple):
    """How each set of networks sees the episodes, leaves [P, q, B, ...]."""

    seat: Array
    """[P, q, B] int32, of the focal player."""
    others: Array
    """[P, q, B, J] int32, seats of its co-players."""
    weighed: Array
    """[P, q, B, T, W], the own network's wide layer without goals."""
    mask: Array
    """[P, q, B, T], steps in which the focal player was in the game."""
    known: Array
    """[P, q, B, T, J], of these, steps in which the co-player was, too."""
    length: Array
    """[P, q, B, J] int32, the slot of the last state in which a co-player was in the game."""


class SubgoalsUpdate(NamedTuple):
    """What learning of the models yields."""

    mac: HOPMac
    """The player with the new models."""
    opt_state: optax.OptState
    goals: Array
    """[P, R * T, J, D], the subgoals that the other networks are to be told, by the models before the update."""
    metrics: dict[str, Array]
    likely: Array | None = None
    """[P, R * T, J, K], of what was inferred K that stand for all together; None where that is not learned from."""


class SubgoalsTraining:
    """Trains the models of a planning player that infer subgoals; holds only settings."""

    def __init__(self, config: Config, seats: int, rounds: Callable[[Array, int], Array], learns_prior: bool = False):
        """Of a learner in `seats` seats; `rounds` says which of some rows each gradient step learns from."""
        self.config, self.seats, self.rounds = config, seats, rounds
        self.optimiser = optax.adam(config.am_lr)
        self.learns_prior = learns_prior
        """Whether the prior is learned along with everything else, because there is no pre-trained one."""

    def init(self, mac: HOPMac) -> optax.OptState:
        """The state of the models' optimiser before the first update."""
        return self.optimiser.init(self._trained(mac))

    def update(
        self,
        mac: HOPMac,
        opt_state: optax.OptState,
        batch: EpisodeBatch,
        seats: Array,
        t_env: Number,
        keys: Sequence[Array],
    ) -> SubgoalsUpdate:
        """Passes of the models over the episodes just played.

        Args:
            mac: The player that played them.
            opt_state: Of the models' optimiser.
            batch: The episodes.
            seats: [B, m], the seats that learn.
            t_env: Environment steps so far, for the share of selected subgoals.
            keys: Two, consumed by what is inferred and selected, and by the passes.

        Returns:
            Among the metrics those of `SubgoalModel.subgoal_loss` and, where the prior is learned along, `Prior.loss`;
            `omg_selected_share`, and of the selection `omg_offset_mean`, `omg_offset_1` ... `omg_offset_H`,
            `omg_value_spread`.
        """
        views, sequences = watch(mac, batch, seats, self.seats)
        selection, goals, share = self._goals(mac, views, sequences, t_env, keys[0])
        mac, opt_state, metrics = self._learn(mac, opt_state, views, sequences, selection, keys[1])
        of_selection = jax.vmap(lambda chosen, known: selection_metrics(chosen, known, self.config.omg_horizon))(
            selection, jax.vmap(_rows)(sequences.known)
        )
        metrics |= {name: values.mean() for name, values in of_selection.items()} | {"omg_selected_share": share}
        return SubgoalsUpdate(mac, opt_state, goals, metrics)

    def _goals(
        self, mac: HOPMac, views: Views, sequences: Sequences, t_env: Number, key: Array
    ) -> tuple[Selection, Array, Array]:
        """Infers and selects with the networks as they played.

        Returns:
            what was selected, leaves [P, R, ...] with co-players as seats; the subgoals [P, R * T, J, D] that the other
            networks learn with; and the share of selected ones among them.
        """
        assert mac.subgoal_prior is not None
        goals = mac.subgoal_prior.encode(views.seen)

        def of_set(minds: Minds, part: Sequences, key: Array) -> tuple[Selection, Array, Array]:
            infer_key, select_key, mix_key = jax.random.split(key, 3)
            assert isinstance(minds.subgoals, SubgoalModel)
            inferred = self.inferred(minds.subgoals, views, part, infer_key)
            selection = self.select(minds.own, part, inferred, goals, select_key)
            mixed, share = mix_subgoals(self.config, inferred, selection, _rows(part.known), t_env, mix_key)
            return selection, mixed[:, :-1].reshape(-1, *mixed.shape[2:]), share

        selection, told, share = each(of_set, mac.minds, sequences, jax.random.split(key, len(sequences.seat)))
        told = jnp.zeros_like(told) if self.config.omg_q_input == "zero" else told
        return selection, told, share.mean()

    def inferred(self, model: SubgoalModel, views: Views, part: Sequences, key: Array) -> Array:
        """Subgoals [R, T+1, J, D] of one set, drawn or means."""
        found = model.features(model.unroll(model_inputs(views, part)), key if self.config.omg_sample else None)
        return found.reshape(*found.shape[:2], model.sizes.subgoals, -1)

    def select(
        self, own: PolicyValueNetwork, part: Sequences, inferred: Array, goals: tuple[Array, Array], key: Array
    ) -> Selection:
        """Which of the coming states each co-player of a set was heading for; leaves [R, T, J, ...].

        Args:
            own: The focal player's network, which values the candidates.
            part: Leaves [q, B, ...].
            inferred: [R, T+1, J, D].
            goals: Mean and log variance of the prior's encodings of all views, [B, T+1, A, D] each.
            key: For `subgoal_mode: random`.
        """
        horizon = self.config.omg_horizon
        length = _rows(part.length)
        mean, log_var = (past_the_end(_columns(values, part.others), length, horizon) for values in goals)
        values = None
        if self.config.subgoal_mode in VALUED_MODES:
            values = candidate_values(own, _rows(part.weighed), inferred[:, :-1], mean, horizon)
        return select_goals(self.config, (mean, log_var), values, length.shape[-1], length, key)

    def _trained(self, mac: HOPMac) -> Models:
        assert isinstance(mac.minds.subgoals, SubgoalModel)
        return mac.minds.subgoals, mac.subgoal_prior if self.learns_prior else None

    def _learn(
        self,
        mac: HOPMac,
        opt_state: optax.OptState,
        views: Views,
        sequences: Sequences,
        selection: Selection,
        key: Array,
    ) -> tuple[HOPMac, optax.OptState, dict[str, Array]]:
        """Gradient steps of the models that infer and perhaps of the prior; the player with them, and the metrics."""
        order_key, *keys = jax.random.split(key, 3)
        rounds = self.rounds(order_key, len(views.seen))
        chosen_goals = jax.tree.map(lambda leaf: leaf.reshape(*sequences.seat.shape, *leaf.shape[2:]), selection)

        def step(
            carry: tuple[Models, optax.OptState], due: tuple[Array, Array, Array]
        ) -> tuple[tuple[Models, optax.OptState], dict[str, Array]]:
            (models, prior), opt_state = carry
            chosen, set_key, prior_key = due
            seen = jax.tree.map(lambda leaf: leaf[chosen], views)
            part, goal = jax.tree.map(lambda leaf: leaf[:, :, chosen], (sequences, chosen_goals))

            def gradients(
                model: SubgoalModel, part: Sequences, goal: Selection, key: Array
            ) -> tuple[SubgoalModel, dict[str, Array]]:
                slope: tuple[SubgoalModel, dict[str, Array]] = jax.grad(self.model_loss, has_aux=True)(
                    model, seen, part, goal, key
                )
                return slope

            by_model, metrics = each(gradients, models, part, goal, jax.random.split(set_key, len(part.seat)))
            by_prior = None
            if self.learns_prior:
                weight = self.config.prior_kl_weight
                by_prior, found = jax.grad(Prior.loss, has_aux=True)(prior, seen.seen, seen.mask, weight, prior_key)
                metrics = metrics | found
            moves, opt_state = self.optimiser.update((by_model, by_prior), opt_state)
            return (optax.apply_updates((models, prior), moves), opt_state), metrics

        start = (self._trained(mac), opt_state)
        set_keys, prior_keys = (jax.random.split(one, len(rounds)) for one in keys)
        ((models, prior), opt_state), metrics = lax.scan(step, start, (rounds, set_keys, prior_keys))
        changed = dataclasses.replace(mac, minds=dataclasses.replace(mac.minds, subgoals=models))
        if prior is not None:
            changed = changed.with_prior(prior)
        return changed, opt_state, {name: values.mean() for name, values in metrics.items()}

    def model_loss(
        self, model: SubgoalModel, views: Views, part: Sequences, goal: Selection, key: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Of one set: what `SubgoalModel.subgoal_loss` says of its sequences.

        Args:
            model: What is trained.
            views: B episodes.
            part: The same as the set sees them, leaves [q, B, ...].
            goal: What was selected, leaves [q, B, T, J, ...].
            key: Consumed.
        """
        played = jax.tree.map(lambda values: values[:, :-1], model.unroll(model_inputs(views, part)))
        mean, log_var = (_side_by_side(_rows(values)) for values in (goal.mean, goal.log_var))
        mask, known = _rows(part.mask), _rows(part.known)
        return model.subgoal_loss(played, mean, log_var, mask, self.config.omg_kl_weight, key, known)


def watch(mac: HOPMac, batch: EpisodeBatch, seats: Array, count: int) -> tuple[Views, Sequences]:
    """What the models learn from, read off the states that were stored; seats [B, m], and how many learn."""
    game, played = mac.game, loss_mask(batch)
    players = batch.actions.shape[-1]
    games, steps = played.shape
    state = game.from_world(batch.state.reshape(games * (steps + 1), -1))

    def in_time(values: Array) -> Array:
        return values.reshape(games, steps + 1, *values.shape[1:])

    cells = in_time(state.player).astype(jnp.int32)
    views = Views(in_time(game.views(state)), in_time(state.last_action), view_mask(batch), cells)
    standing = in_time(game.there(state))
    there = (standing[:, :-1] & (played[..., None] > 0)).astype(jnp.float32)
    last_seen = last_there(standing, views.mask)
    now = jax.tree.map(lambda leaf: in_time(leaf)[:, :-1].reshape(-1, *leaf.shape[1:]), state)

    def of_seat(seat: Array) -> tuple[Array, ...]:
        others = own_order(seat, players)[:, 1:]
        own = jnp.take_along_axis(there, seat[:, None, None], axis=2)
        known = jnp.take_along_axis(there, others[:, None], axis=2) * own
        length = jnp.take_along_axis(last_seen, others, axis=1)
        return (*game.sight(now, jnp.repeat(seat, steps)), seat, others, own[..., 0], known, length)

    of_all = jax.vmap(of_seat, in_axes=1)(seats)
    sets = count if mac.every_seat else 1
    by_set = [leaf.reshape(sets, -1, *leaf.shape[1:]) for leaf in of_all]
    maps, time, seat, others, mask, known, length = by_set

    def weigh(own: PolicyValueNetwork, maps: Array, time: Array) -> Array:
        return own.trunk(maps, time).reshape(len(time), games, steps, -1)

    return views, Sequences(seat, others, each(weigh, mac.minds.own, maps, time), mask, known, length)


def last_there(there: Array, viewed: Array) -> Array:
    """The slot of the last state in which each player was in the game, [B, A] int32; nobody comes back.

    Behind it a player's own picture is empty, and its likeliest cell would be the first one of the board.

    Args:
        there: [B, T+1, A] bool.
        viewed: [B, T+1], slots that belong to the episode.
    """
    slots = jnp.sum(there & (viewed[..., None] > 0), axis=1, dtype=jnp.int32)
    return jnp.maximum(slots - 1, 0)


def candidate_values(own: PolicyValueNetwork, weighed: Array, inferred: Array, goals: Array, horizon: int) -> Array:
    """V(s_t, g) with one co-player's subgoal replaced by each of the coming states: [R, T, H, J].

    Args:
        own: The focal player's network; it is told all J subgoals.
        weighed: [R, T, W], its wide layer without goals.
        inferred: [R, T, J, D], the subgoals of the others meanwhile.
        goals: [R, T+1+H, J, D], what is tried.
        horizon: H.
    """
    count, width = inferred.shape[2:]
    rows = own.goal.reshape(count, width, -1)
    of_slot = jnp.stack([weigh_goal(rows[place], goals[:, :, place]) for place in range(count)], axis=2)
    of_inferred = jnp.stack([weigh_goal(rows[place], inferred[:, :, place]) for place in range(count)], axis=2)
    # All that stays the same while one co-player's subgoal is tried: the position, and the others' subgoals.
    rest = (weighed + of_inferred.sum(axis=2))[:, :, None] - of_inferred
    return own.value(jax.nn.relu(rest[:, :, None] + candidates(of_slot, horizon)))[..., 0]


def model_inputs(views: Views, part: Sequences) -> ModelInputs:
    """What the model of one set reads of B episodes: leaves [R, T+1, 1, ...]."""
    repeats = len(part.seat)
    seen = _columns(views.seen, part.seat[..., None])
    last = jnp.tile(views.last_actions, (repeats, 1, 1))
    return ModelInputs(seen, last, part.seat.reshape(-1, 1, 1))


def _columns(values: Array, seats: Array) -> Array:
    """Some seats' columns of each sequence: values [B, T+1, A, ...], seats [q, B, k] -> [q * B, T+1, k, ...]."""
    taken = jax.vmap(jax.vmap(lambda own, chosen: own[:, chosen]), in_axes=(None, 0))(values, seats)
    return _rows(taken)


def _rows(values: Array) -> Array:
    """[q, B, ...] -> [q * B, ...]."""
    return values.reshape(-1, *values.shape[2:])


def _side_by_side(subgoals: Array) -> Array:
    """Subgoals as one seat's features: [R, T, J, D] -> [R, T, 1, J * D]."""
    return subgoals.reshape(*subgoals.shape[:2], 1, -1)
