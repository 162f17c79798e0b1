"""`hop_learner`: what a planning player learns from the episodes just played.

- its *policy* pi and *value* V, which guide the search: 1/2 (CE(search policy, pi) + (V - G)^2), with G the discounted
  return that really followed;
- its *co-players' policies*, one for each: cross-entropy on what they really did, told what they turned out to be after
  (`Inference.labels`); steps that tell nothing are left out;
- the *outset* of its beliefs, chances of each co-player's achievements, episode by episode (`Inference.learn_outset`).

In self-play every seat has networks of its own. Nothing but the round just played is used: the search policy and the
co-players' ways are those of now.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, P sets of networks (m or 1), M = B * T positions
(all m seats' where they share a set), J co-players, U actions.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number, loss_mask, masked_mean
from omg.components.selectors import legal_softmax
from omg.controllers import build_mac
from omg.controllers.draw import TeamDraw
from omg.controllers.hop import HOPMac
from omg.envs.grid.symmetry import symmetries
from omg.errors import UserError
from omg.learners.base import Kept
from omg.learners.hop_measures import belief_measures, prediction_measures
from omg.learners.optimisers import build_optimiser, clip_by_norm
from omg.modules.planning import each
from omg.planning.beliefs import of_others
from omg.planning.minds import Minds
from omg.planning.search import own_order

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

_TINY = 1e-9
SEARCH_POLICY = "search_policy"


class HOPState(NamedTuple):
    """Everything that learning changes."""

    mac: HOPMac
    opt_state: optax.OptState
    updates: Array
    """int32 scalar, updates so far."""


class Lessons(NamedTuple):
    """What each set of networks learns from, [P, M, ...]."""

    maps: Array
    """[P, M, C, height, width] bool, the player itself first."""
    time: Array
    """[P, M]."""
    legal: Array
    """[P, M, A, U] bool, the player itself first."""
    policy: Array
    """[P, M, U], what the search found."""
    returns: Array
    """[P, M], what followed."""
    mask: Array
    """[P, M], positions in which the player was still in the game."""
    actions: Array
    """[P, M, J], what the others did."""
    goal: Array | None
    """[P, M, J, ...], what they were after, as their networks are told it; None without goals."""
    known: Array
    """[P, M, J], what of that there is to learn from."""
    likely: Array | None = None
    """[P, M, J, K] integers, goals of which each is as likely: what the networks make of them together is learned, too.
    None where it is not."""


class HOPLearner:
    """Learns a planning player in all seats, or in those that a team leaves to it."""

    def __init__(self, config: Config, spec: EnvSpec, team: TeamDraw | None = None, partners: int = 0):
        self.config, self.spec, self.partners = config, spec, partners
        self.seats = spec.n_agents if team is None else len(team.main_slots)
        self.team = team
        self.optimiser = build_optimiser(config)
        # Positions are read off the state; observations would repeat them for every seat.
        self.kept = Kept(columns=0, records={SEARCH_POLICY: (self.seats, spec.n_actions)}, cut=False)
        self.examines = True
        self.controls: tuple[str, ...] = ()

    def init(self, key: Array) -> HOPState:
        """New networks."""
        mac = build_mac(self.config, self.spec, key, self.partners)
        if not isinstance(mac, HOPMac):
            raise UserError(f"mac: got {self.config.mac}, but learner={self.config.learner} needs hop_mac.")
        return HOPState(mac, self.optimiser.init(studied(mac.minds)), jnp.zeros((), jnp.int32))

    def keep(self, batch: EpisodeBatch) -> EpisodeBatch:
        """States, actions, rewards, and of the records what the search found."""
        records = {SEARCH_POLICY: batch.records[SEARCH_POLICY]}
        return batch._replace(obs=batch.obs[:, :, :0], avail=batch.avail[:, :, :0], records=records)

    def policy(self, state: HOPState) -> HOPMac:
        """The player that learns."""
        return state.mac

    def tested(self, state: HOPState) -> HOPMac:
        """The same player, which takes the best action."""
        return state.mac.tested()

    def control(self, state: HOPState, name: str) -> HOPMac:
        """There is none."""
        raise KeyError(name)

    def examine(self, state: HOPState, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """How well the others were understood in test episodes; see `hop_measures` for the formulas.

        Args:
            state: From `init` or an update.
            batch: Test episodes with everything in them.
            key: Not used.
        """
        del key
        seats = self._seats(batch)
        measures = prediction_measures(state.mac, batch, seats)
        if "belief" in batch.records:
            measures |= belief_measures(state.mac, batch, seats)
        return measures

    def update(
        self, state: HOPState, batch: EpisodeBatch, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[HOPState, dict[str, Array]]:
        """`hop_epochs` passes over the episodes just played, each in `hop_minibatches` parts of positions.

        With `hop_symmetries` every position is turned or mirrored at random, anew in each pass.

        Args:
            state: From `init` or the update before.
            batch: The episodes that the player in `state` has just played, with what its search found.
            episode: Not used.
            t_env: Not used.
            key: Consumed by the order of the parts of a pass, and by turning.

        Returns:
            The new state and the metrics. Means over the gradient steps and the sets of networks:

            - `loss`: 1/2 (`policy_loss` + `value_loss`) + `model_loss`
            - `policy_loss`: -sum_a search(a) log pi(a), mean over the steps in which the player was in the game
            - `value_loss`: (V - G)^2, mean over the same
            - `model_loss`: -log pi_j(a_j), mean over co-players and the steps that there is something to learn from
            - `model_accuracy`: share of those steps in which the most likely action was the one done
            - `grad_norm`: Euclidean norm of all gradients of a set, before it is clipped

            Of the round: `search_entropy`, of the search's policy in nats; `return_target`, mean of G; and, where there
            are achievements, `outcome_0` ...: the chance of each at the outset, mean over sets and co-players.
        """
        lessons, achievement = self._lessons(state.mac, batch)
        mac, opt_state, metrics = self._study(state.mac, state.opt_state, lessons, achievement, key)
        return HOPState(mac, opt_state, state.updates + 1), metrics

    def _study(
        self, mac: HOPMac, opt_state: optax.OptState, lessons: Lessons, achievement: Array | None, key: Array
    ) -> tuple[HOPMac, optax.OptState, dict[str, Array]]:
        """Learns policy, value, co-players' policies and the outset of beliefs; see `update`."""
        sets, positions = lessons.time.shape
        turns = self.config.hop_symmetries and mac.inference.turns

        def step(
            carry: tuple[Minds, optax.OptState], given: tuple[Array, Array]
        ) -> tuple[tuple[Minds, optax.OptState], dict[str, Array]]:
            (minds, opt_state), (chosen, turn_key) = carry, given
            part = jax.tree.map(lambda values: values[:, chosen], lessons)
            part = turned(mac, part, turn_key) if turns else part
            gradients, metrics = each(self._gradients, minds, part)
            moves, opt_state = self.optimiser.update(gradients, opt_state)
            return (optax.apply_updates(minds, moves), opt_state), metrics

        order_key, turn_key = jax.random.split(key)
        rounds = self._rounds(order_key, positions)
        given = (rounds, jax.random.split(turn_key, len(rounds)))
        (minds, opt_state), metrics = jax.lax.scan(step, (studied(mac.minds), opt_state), given)
        metrics = {name: values.mean() for name, values in metrics.items()}
        metrics |= _round_measures(lessons)
        outset = mac.prior
        if achievement is not None:
            # Where all seats share one set, each seat's co-players teach it, one seat after the other.
            outset = mac.inference.learn_outset(outset, achievement.reshape(-1, sets, achievement.shape[-1]))
            shares = outset.mean(axis=(0, 1))
            metrics |= {f"outcome_{index}": shares[index] for index in range(len(shares))}
        minds = dataclasses.replace(minds, subgoals=mac.minds.subgoals)
        return dataclasses.replace(mac, minds=minds, prior=outset), opt_state, metrics

    def _rounds(self, key: Array, rows: int) -> Array:
        """Which rows each gradient step learns from: [hop_epochs * parts, rows / parts], each pass in random order."""
        parts = min(self.config.hop_minibatches, rows)
        size = rows // parts
        order_keys = jax.random.split(key, self.config.hop_epochs)
        order = jax.vmap(lambda one: jax.random.permutation(one, rows)[: parts * size])(order_keys)
        return order.reshape(self.config.hop_epochs * parts, size)

    def _gradients(self, mind: Minds, lessons: Lessons) -> tuple[Minds, dict[str, Array]]:
        """Of one set of networks, clipped; leaves of `lessons` [M, ...]."""
        weight = 0.0 if lessons.likely is None else self.config.hop_together_weight
        (_, metrics), gradients = jax.value_and_grad(set_loss, has_aux=True)(mind, lessons, weight)
        gradients, norm = clip_by_norm(gradients, self.config.grad_norm_clip)
        return gradients, metrics | {"grad_norm": norm}

    def _lessons(self, mac: HOPMac, batch: EpisodeBatch) -> tuple[Lessons, Array | None]:
        """What there is to learn from, and the achievements of each seat's co-players' episodes [B, m, J], if any."""
        game = mac.game
        mask = loss_mask(batch)
        games, steps = mask.shape
        players, seats = self.spec.n_agents, self._seats(batch)
        state = game.from_world(batch.state[:, :-1].reshape(games * steps, -1))
        actions = batch.actions[:, :-1]
        in_time = jax.tree.map(lambda leaf: leaf.reshape(games, steps, *leaf.shape[1:]), state)
        labels = mac.inference.labels(in_time, actions, mask > 0)
        legal = game.legal(state)
        there = game.there(state) & (mask.reshape(-1, 1) > 0)
        learnable = labels.known.reshape(-1, players) & there & (legal.sum(axis=-1) > 1)
        flat_goal = None if labels.goal is None else labels.goal.reshape(games * steps, *labels.goal.shape[2:])
        returns = discounted(batch.reward[:, :-1] * mask[..., None], self.config.gamma).reshape(-1, players)
        policies = batch.records[SEARCH_POLICY][:, :-1].reshape(games * steps, self.seats, -1)

        def of_seat(seat_of_game: Array, policy: Array) -> Lessons:
            seat = jnp.repeat(seat_of_game, steps)
            maps, time = game.sight(state, seat)
            order = own_order(seat, players)
            return Lessons(
                maps=maps,
                time=time,
                legal=_columns(legal, order),
                policy=policy,
                returns=_columns(returns, seat[:, None])[:, 0],
                mask=_columns(there, seat[:, None])[:, 0].astype(jnp.float32),
                actions=_columns(actions.reshape(-1, players), order[:, 1:]),
                goal=None if flat_goal is None else _columns(flat_goal, order[:, 1:]),
                known=_columns(learnable, order[:, 1:]).astype(jnp.float32),
            )

        lessons: Lessons = jax.vmap(of_seat, in_axes=(1, 1))(seats, policies)
        if not mac.every_seat:
            lessons = jax.tree.map(lambda leaf: leaf.reshape(1, -1, *leaf.shape[2:]), lessons)
        return lessons, None if labels.achievement is None else of_others(labels.achievement, seats)

    def _seats(self, batch: EpisodeBatch) -> Array:
        """The seats [B, m] of the players that learn."""
        if self.team is None:
            return jnp.broadcast_to(jnp.arange(self.seats), (batch.filled.shape[0], self.seats))
        assert batch.seat is not None
        return self.team.main_seats(batch.seat)


def studied(minds: Minds) -> Minds:
    """The networks that learn from single positions: all but the one that infers subgoals."""
    return dataclasses.replace(minds, subgoals=None)


def turned(mac: HOPMac, lessons: Lessons, key: Array) -> Lessons:
    """The same lessons on boards that are turned or mirrored, each position in a way of its own; key is consumed."""
    view = mac.game.map_view
    tables = symmetries(view.height, view.width, view.actions)
    way = jax.random.randint(key, lessons.time.shape, 0, len(tables.cell_from))
    cell_from, cell_to, action_from, action_to = (jnp.asarray(table)[way] for table in tables)
    cells = lessons.maps.reshape(*lessons.maps.shape[:3], -1)
    maps = jnp.take_along_axis(cells, cell_from[:, :, None], axis=-1)
    return lessons._replace(
        maps=maps.reshape(lessons.maps.shape),
        legal=jnp.take_along_axis(lessons.legal, action_from[:, :, None], axis=-1),
        policy=jnp.take_along_axis(lessons.policy, action_from, axis=-1),
        actions=jnp.take_along_axis(action_to, lessons.actions, axis=-1),
        goal=mac.inference.turned(lessons.goal, cell_to),
        likely=None if lessons.likely is None else _all_turned(mac, lessons.likely, cell_to),
    )


def _all_turned(mac: HOPMac, goals: Array, cell_to: Array) -> Array | None:
    """`Inference.turned` of K goals for each co-player, [P, M, J, K]."""
    flat = mac.inference.turned(goals.reshape(*goals.shape[:2], -1), cell_to)
    return None if flat is None else flat.reshape(goals.shape)


def set_loss(mind: Minds, lessons: Lessons, weight: float = 0.0) -> tuple[Array, dict[str, Array]]:
    """The loss of one set of networks and its parts, see `HOPLearner.update`.

    Args:
        mind: the set.
        lessons: leaves [M, ...].
        weight: of `together_loss`, what is made of several likely goals together, where there are any.
    """
    told = None
    if len(mind.own.goal) and lessons.goal is not None:
        told = lessons.goal.reshape(len(lessons.goal), -1)
    logits, value = mind.own(lessons.maps, lessons.time, told)
    own_legal = lessons.legal[:, 0]
    log_pi = jnp.log(jnp.maximum(legal_softmax(logits, own_legal), _TINY))
    policy_loss = masked_mean(-(lessons.policy * jnp.where(own_legal, log_pi, 0.0)).sum(axis=-1), lessons.mask)
    value_loss = masked_mean((value - lessons.returns) ** 2, lessons.mask)
    others_legal, looked = lessons.legal[:, 1:], mind.others.trunk(lessons.maps, lessons.time)
    chances = legal_softmax(mind.others.told(looked, lessons.goal), others_legal)
    total = jnp.maximum(lessons.known.sum(), 1.0)

    def surprise(chances: Array) -> Array:
        did = jnp.take_along_axis(chances, lessons.actions[..., None], axis=-1)[..., 0]
        return (-jnp.log(jnp.maximum(did, _TINY)) * lessons.known).sum() / total

    model_loss = surprise(chances)
    right = ((jnp.argmax(chances, axis=-1) == lessons.actions) * lessons.known).sum() / total
    loss = 0.5 * (policy_loss + value_loss) + model_loss
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "model_loss": model_loss, "model_accuracy": right}
    if lessons.likely is not None:
        by_goal = legal_softmax(mind.others.told_each(looked, lessons.likely), others_legal[:, :, None])
        metrics["together_loss"] = surprise(by_goal.mean(axis=2))
        loss = loss + weight * metrics["together_loss"]
    return loss, {"loss": loss, **metrics}


def _round_measures(lessons: Lessons) -> dict[str, Array]:
    policy, mask = lessons.policy, lessons.mask
    entropy = -(policy * jnp.log(jnp.maximum(policy, _TINY))).sum(axis=-1)
    return {
        "search_entropy": masked_mean(entropy, mask),
        "return_target": masked_mean(lessons.returns, mask),
    }


def discounted(reward: Array, gamma: float) -> Array:
    """What follows from every step on: rewards [B, T, ...] -> sum_k gamma^k r_{t+k}."""

    def back(after: Array, now: Array) -> tuple[Array, Array]:
        total = now + gamma * after
        return total, total

    time_first = jnp.swapaxes(reward, 0, 1)
    _, totals = jax.lax.scan(back, jnp.zeros_like(time_first[0]), time_first, reverse=True)
    return jnp.swapaxes(totals, 0, 1)


def _columns(values: Array, order: Array) -> Array:
    """Some seats' columns: values [M, A, ...], order [M, k] -> [M, k, ...]."""
    return jnp.take_along_axis(values, order.reshape(*order.shape, *(1,) * (values.ndim - 2)), axis=1)
