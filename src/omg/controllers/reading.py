"""What the agent of a player reads, at one step and along played episodes, and how its features can be exchanged.

An agent's input is [view | own last action | seat | features], see `omg.modules.agents`. The first three it puts
together itself; the features are put together here and nowhere else:

    features = [ what every other seat did in the step before, if `all_last_actions` | what the opponent model says ]

What the model says is what it infers, or what somebody wants to try in its place; `feature_control` may take it away,
and the model itself may show it in another form (`OpponentModel.shown`).

Letters in shapes: N games or B episodes, T steps, A seats, m seats of the player, O what a seat sees, F features of the
model, H horizon, W width of a layer or of a recurrent state, U actions. "..." stands for N at one step, and for B, T+1
along episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components import take_seats
from omg.modules.agents.base import AgentNetwork
from omg.modules.opponent_models.base import ModelInputs, OpponentModel, others_one_hot, own_action
from omg.modules.recurrent import forgetting

if TYPE_CHECKING:
    from omg.components import EpisodeBatch
    from omg.config import Config
    from omg.controllers.base import PlayerView


class SeatViews(NamedTuple):
    """What the seats of one player saw and did."""

    seen: Array
    """[..., m, O] view of each seat, or [..., 1, O] when all see the same."""
    last_actions: Array
    """[..., A] int32, joint action of the step before; -1 at the first."""
    own_last: Array
    """[..., m] int32, the seats' own part of it."""
    seats: Array | None
    """[N, m], or [B, 1, m] along episodes, int32; None for all seats in their order."""
    players: Array | None
    """[N, A], or [B, 1, A] along episodes, int32, the pool member in every seat; None where nobody is told."""
    breaks: Array | None = None
    """[B, T+1] bool along rows of several episodes, the slots between them; None elsewhere."""

    def model_inputs(self) -> ModelInputs:
        """What an opponent model reads: views repeated over seats where they were shared, and who sits where."""
        shape, seats, players = self.own_last.shape, self.seats, self.players
        if seats is None:
            seats = jnp.arange(shape[-1]).reshape(*(1,) * (len(shape) - 1), shape[-1])
        if players is not None:
            players = jnp.broadcast_to(players, self.last_actions.shape)
        return ModelInputs(
            jnp.broadcast_to(self.seen, (*shape, self.seen.shape[-1])), self.last_actions, seats, players
        )

    @property
    def chosen(self) -> Array | None:
        """Along episodes, the seats [B, m]; None for all."""
        return None if self.seats is None else self.seats[:, 0]

    def own(self, values: Array) -> Array:
        """The columns of these seats, [B, T, m, ...], of values [B, T, A or m, ...] of all seats or of just these."""
        m = self.own_last.shape[-1]
        return values if self.seats is None or values.shape[2] == m else take_seats(values, self.seats[:, 0])

    def run(self, agent: AgentNetwork, features: Array | None) -> tuple[Array, Array]:
        """An agent along episodes.

        Args:
            agent: The network.
            features: [B, T+1, m, F'] from `Reading.features`; None for none.

        Returns:
            Its outputs [B, T+1, m, U] and its recurrent states [B, T+1, m, W], of every slot.
        """
        # In the order in which a CPU's scan goes through them, see `recurrent.turned`.
        turned = partial(jnp.swapaxes, axis1=0, axis2=1) if jax.default_backend() == "cpu" else jnp.asarray
        seats, told = (None if values is None else turned(values) for values in (self.seats, features))
        gates_in = turned(agent.embed(turned(self.seen), turned(self.own_last), told, seats))
        if self.breaks is not None:
            gates_in = forgetting(gates_in, self.breaks)
        hidden = agent.unroll(gates_in, None, self.seats)
        return turned(agent.head(turned(hidden), seats)), hidden


@dataclass(frozen=True)
class Reading:
    """How the agent of a player reads a game. Static."""

    obs_is_state: bool
    """Every seat sees the global state in place of its observation."""
    n_agents: int
    n_actions: int
    all_last_actions: bool
    """The agent sees what all other seats did in the step before."""
    feature_control: str = "inferred"
    """What becomes of the opponent model's features: `inferred` (used as they are), `zero`, or `shuffled` (each game
    gets those of another game of the batch)."""

    def step(self, view: PlayerView, *, everywhere: bool = False) -> SeatViews:
        """What a player's seats see now; `everywhere`: it has them all, which spares the agent a look-up."""
        # One seat's worth of the state: the agent repeats its embedding over the seats, which is cheaper by m.
        seen = view.state[..., None, :] if self.obs_is_state else view.obs
        own_last = own_action(view.last_actions, view.seats)
        return SeatViews(seen, view.last_actions, own_last, None if everywhere else view.seats, view.players)

    def episodes(self, batch: EpisodeBatch, seats: Array | None = None) -> SeatViews:
        """What a player's seats saw in played episodes.

        Args:
            batch: Episodes with the observations of all seats, or of just the player's.
            seats: [B, m] integers, None for all.
        """
        before_first = jnp.full_like(batch.actions[:, :1], -1)
        last_actions = jnp.concatenate([before_first, batch.actions[:, :-1]], axis=1)
        timed = None if seats is None else seats[:, None]
        own_last = last_actions if timed is None else own_action(last_actions, timed)
        if self.obs_is_state:
            seen = batch.state[..., None, :]
        elif seats is None or batch.obs.shape[2] == seats.shape[1] != self.n_agents:
            seen = batch.obs
        else:
            seen = take_seats(batch.obs, seats)
        players = None if batch.players is None else batch.players[:, None]
        return SeatViews(seen, last_actions, own_last, timed, players, batch.breaks)

    def features(
        self, model: OpponentModel | None, views: SeatViews, inferred: Array | None, horizon: int | None = None
    ) -> Array | None:
        """The features of the agent's input.

        Args:
            model: The opponent model.
            views: Of one step or along episodes.
            inferred: [..., m, F], what the model is to have said, or [N, H, m, F], alternatives for one step. None
                without a model.
            horizon: H: `inferred` are then [B, T+1+H, m, F], one for every slot, to be tried in the H steps before it.

        Returns:
            [..., m, F'], alternatives [N, H, m, F'] or [B, T, H, m, F']; None for none.
        """
        told = None if model is None or inferred is None else model.shown(inferred)
        if told is not None and self.feature_control == "zero":
            told = jnp.zeros_like(told)
        if told is not None and horizon is not None:
            told = candidates(told, horizon)
        if not self.all_last_actions:
            return told
        inputs = views.model_inputs()
        everyone = others_one_hot(inputs.last_actions, inputs.seats, self.n_actions)
        if told is None:
            return everyone
        if told.ndim > everyone.ndim:
            everyone = everyone[..., None, :, :][:, : told.shape[1]]
        return jnp.concatenate([jnp.broadcast_to(everyone, (*told.shape[:-1], everyone.shape[-1])), told], axis=-1)

    def weigh(
        self, agent: AgentNetwork, model: OpponentModel, views: SeatViews, *inferred: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        """The agent's first layer before its activation, taken apart so that one part can be tried with others.

        Args:
            agent: The network.
            model: Its opponent model.
            views: Along episodes.
            inferred: [B, ..., m, F], what the model is to have said.

        Returns:
            What everything but the inferred features contributes, [B, T+1, m, W], and what each of `inferred` does,
            [B, ..., m, W]. The agent goes on with `activate` of their sum.
        """
        told = [model.shown(each) for each in inferred]
        if self.feature_control == "zero":
            told = [jnp.zeros_like(each) for each in told]
        rest = agent.weigh_inputs(views.seen, views.own_last, views.seats)
        if self.all_last_actions:
            everyone = self.features(None, views, None)
            assert everyone is not None
            nothing = jnp.zeros((*views.own_last.shape, model.shown_dim))
            rest = rest + agent.weigh_features(jnp.concatenate([everyone, nothing], axis=-1), views.seats)
            width = everyone.shape[-1]
            told = [jnp.pad(each, [(0, 0)] * (each.ndim - 1) + [(width, 0)]) for each in told]
        return rest, tuple(agent.weigh_features(each, views.seats) for each in told)

    def values(
        self,
        agents: Sequence[AgentNetwork],
        model: OpponentModel | None,
        views: SeatViews,
        inferred: Array | None,
        *,
        keep: bool,
    ) -> list[tuple[Array, Array]]:
        """Values along episodes, [B, T+1, m, U], and those of the next slots for targets, [B, T, m, U], of each agent.

        Args:
            agents: Networks, the online one and the target.
            model: The opponent model that goes with all.
            views: Along episodes.
            inferred: [B, T+1, m, F], what the model is to have said; None without a model.
            keep: In the next slots agents still read what they read in the slots before, of what was inferred.
        """
        if not keep:
            features = self.features(model, views, inferred)
            along = [views.run(agent, features)[0] for agent in agents]
            return [(q, q[:, 1:]) for q in along]
        assert model is not None
        assert inferred is not None
        found = []
        for agent in agents:
            rest, (told,) = self.weigh(agent, model, views, inferred)
            hidden = agent.unroll(agent.activate(rest + told, views.seats), None, views.seats)
            q = agent.head(hidden, views.seats)
            # One step from the state behind (s_t, g_t), with what is seen next but the same g; only targets use it.
            held, rest, told, before = lax.stop_gradient((agent, rest[:, 1:], told[:, :-1], hidden[:, :-1]))
            gates_in = held.activate(rest + told, views.seats)
            found.append((q, held.head(held.step(gates_in, before, views.seats), views.seats)))
        return found

    def control(self, inferred: Array) -> Array:
        """Inferred features [N, ..., F] as `feature_control` wants them: untouched, zero, or another game's."""
        if self.feature_control == "zero":
            return jnp.zeros_like(inferred)
        return jnp.roll(inferred, 1, axis=0) if self.feature_control == "shuffled" else inferred


def candidates(values: Array, horizon: int) -> Array:
    """Of every step the values of the next H slots: [B, T+1+H, ...] -> [B, T, H, ...].

    Whatever is computed for each slot once serves as a candidate of H steps: candidate k is the same array k later.
    """
    steps = values.shape[1] - 1 - horizon
    return jnp.stack([values[:, k : k + steps] for k in range(1, horizon + 1)], axis=2)


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


def state_value(q: Array, avail: Array, kind: str) -> Array:
    """V(s, g) from Q(s, g, a): `mean`, `max` or `softmax`-weighted mean over legal actions; 0 where none is legal.

    Args:
        q: [..., U].
        avail: [..., U] bool, broadcastable.
        kind: What `omg_value` says.

    Returns:
        [...].
    """
    avail = jnp.broadcast_to(avail, q.shape)
    if kind == "max":
        best = jnp.where(avail, q, -jnp.inf).max(axis=-1)
        return jnp.where(avail.any(axis=-1), best, 0.0)
    if kind == "softmax":
        return (jax.nn.softmax(q, axis=-1, where=avail) * q).sum(axis=-1)
    return jnp.where(avail, q, 0.0).sum(axis=-1) / jnp.maximum(avail.sum(axis=-1), 1)


def pick_offset(mode: str, values: Array | None, shape: tuple[int, ...], horizon: int, key: Array) -> Array:
    """How many steps ahead the selected state lies, 1 to H.

    Args:
        mode: What `subgoal_mode` says.
        values: [B, T, H, m], V of all candidates; needed by `optimistic` and `conservative` alone.
        shape: (B, T, m).
        horizon: H.
        key: For `random`.

    Returns:
        [B, T, m] int32; of equal candidates the nearest.
    """
    if mode in ("optimistic", "conservative"):
        assert values is not None
        best = jnp.argmax if mode == "optimistic" else jnp.argmin
        return best(values, axis=2).astype(jnp.int32) + 1
    if mode == "random":
        return jax.random.randint(key, shape, 1, horizon + 1)
    return jnp.full(shape, {"next": 1, "k3": min(3, horizon), "furthest": horizon}[mode], jnp.int32)
