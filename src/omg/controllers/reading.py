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

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from omg.components import take_seats
from omg.modules.agents.base import AgentNetwork
from omg.modules.opponent_models.base import ModelInputs, OpponentModel, others_one_hot, own_action

if TYPE_CHECKING:
    from omg.components import EpisodeBatch
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

    def own(self, values: Array) -> Array:
        """The columns of these seats, [B, T, m, ...], of values [B, T, A or m, ...] of all seats or of just these."""
        m = self.own_last.shape[-1]
        return values if self.seats is None or values.shape[2] == m else take_seats(values, self.seats[:, 0])

    def remember(self, agent: AgentNetwork, gates_in: Array) -> Array:
        """An agent's recurrent states after every slot, [B, T+1, m, W], from its embedded inputs [B, T+1, m, W2]."""
        batch, _, m = self.own_last.shape
        return agent.unroll(gates_in, agent.initial(batch, m), None if self.seats is None else self.seats[:, 0])

    def run(self, agent: AgentNetwork, features: Array | None) -> tuple[Array, Array]:
        """An agent along episodes.

        Args:
            agent: The network.
            features: [B, T+1, m, F'] from `Reading.features`; None for none.

        Returns:
            Its outputs [B, T+1, m, U] and its recurrent states [B, T+1, m, W], of every slot.
        """
        hidden = self.remember(agent, agent.embed(self.seen, self.own_last, features, self.seats))
        return agent.head(hidden, self.seats), hidden


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
        return SeatViews(seen, last_actions, own_last, timed, None if batch.players is None else batch.players[:, None])

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
        told = None if model is None or inferred is None else self._shown(model, inferred)
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
        told = [self._shown(model, each) for each in inferred]
        rest = agent.weigh_inputs(views.seen, views.own_last, views.seats)
        if self.all_last_actions:
            everyone = self.features(None, views, None)
            assert everyone is not None
            nothing = jnp.zeros((*views.own_last.shape, model.shown_dim))
            rest = rest + agent.weigh_features(jnp.concatenate([everyone, nothing], axis=-1), views.seats)
            width = everyone.shape[-1]
            told = [jnp.pad(each, [(0, 0)] * (each.ndim - 1) + [(width, 0)]) for each in told]
        return rest, tuple(agent.weigh_features(each, views.seats) for each in told)

    def control(self, inferred: Array) -> Array:
        """Inferred features [N, ..., F] as `feature_control` wants them: untouched, zero, or another game's."""
        if self.feature_control == "zero":
            return jnp.zeros_like(inferred)
        return jnp.roll(inferred, 1, axis=0) if self.feature_control == "shuffled" else inferred

    def _shown(self, model: OpponentModel, inferred: Array) -> Array:
        """Features [..., F] as the agent reads them, [..., F']; zeros where they are to be zero."""
        if self.feature_control == "zero":
            # What zeros would stand for is not shown either.
            return jnp.zeros((*inferred.shape[:-1], model.shown_dim))
        return model.shown(inferred)


def candidates(values: Array, horizon: int) -> Array:
    """Of every step the values of the next H slots: [B, T+1+H, ...] -> [B, T, H, ...].

    Whatever is computed for each slot once serves as a candidate of H steps: candidate k is the same array k later.
    """
    steps = values.shape[1] - 1 - horizon
    return jnp.stack([values[:, k : k + steps] for k in range(1, horizon + 1)], axis=2)
