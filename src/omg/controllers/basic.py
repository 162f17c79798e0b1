"""`basic_mac`: one agent network, with or without an opponent model, in all seats or in some of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components import SELECTORS, selector_name
from omg.controllers.base import PlayerView
from omg.modules.agents import AGENTS
from omg.modules.agents.base import Agent, AgentSizes
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ModelInputs, ModelSizes, OpponentModel, others_one_hot, own_action
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.registry import ModelTraining

if TYPE_CHECKING:
    from omg.components import EpisodeBatch
    from omg.config import Config
    from omg.envs.base import EnvSpec, Observation


class Foresight(NamedTuple):
    """How an oracle picks subgoals from the true future: `omg_horizon`, `subgoal_mode` and `omg_value`."""

    horizon: int
    mode: str
    value: str


class SeatMemory(NamedTuple):
    """What the seats of one player remember between two steps."""

    hidden: Array
    """[N, m, H] recurrent state of the agent."""
    model: Any
    """Memory of the opponent model, or None."""
    given: Array | None
    """[N, m, F] features to use in place of the inferred ones in the next step; None for the inferred ones."""


class Carry(NamedTuple):
    """What all seats of a team of one algorithm remember."""

    seats: SeatMemory
    last_actions: Array
    """[B, A] int32, -1 before the first step."""


class Columns(NamedTuple):
    """Played episodes as the seats of one player saw them. T+1 time slots, m seats."""

    seen: Array
    """[B, T+1, m, O] view of each seat, or [B, T+1, 1, O] when all see the same."""
    last_actions: Array
    """[B, T+1, A] int32, joint action of the step before; -1 at the first."""
    own_last: Array
    """[B, T+1, m] int32, the seats' own part of it."""
    seats: Array | None
    """[B, m] int32; None for all seats in their order."""
    players: Array | None
    """[B, A] int32."""

    @property
    def timed_seats(self) -> Array | None:
        """The seats with an axis for time, [B, 1, m]; None for all."""
        return None if self.seats is None else self.seats[:, None]

    def model_inputs(self) -> ModelInputs:
        """What an opponent model reads: views repeated over seats where they were shared, and who sits where."""
        shape = (*self.own_last.shape, self.seen.shape[-1])
        seats = jnp.arange(shape[2])[None] if self.seats is None else self.seats
        players = None
        if self.players is not None:
            players = jnp.broadcast_to(self.players[:, None], self.last_actions.shape)
        return ModelInputs(jnp.broadcast_to(self.seen, shape), self.last_actions, seats[:, None], players)


class BasicMAC(eqx.Module):
    """The agent, its opponent model and how outputs become actions. Everything that changes by learning is in here.

    Satisfies `base.Policy` (it has all seats) and `base.Player` (it has some).
    """

    agent: Agent
    opponent_model: OpponentModel | None
    selector: str = eqx.field(static=True)
    """A key of `SELECTORS`."""
    obs_is_state: bool = eqx.field(static=True)
    """Every seat sees the global state in place of its observation."""
    n_agents: int = eqx.field(static=True)
    n_actions: int = eqx.field(static=True)
    all_last_actions: bool = eqx.field(static=True)
    """The agent sees what all other seats did in the step before."""
    features: str = eqx.field(static=True, default="inferred")
    """What becomes of the opponent model's features: `inferred` (used as they are), `zero`, or `shuffled` (each game
    gets those of another game of the batch)."""
    sampling: bool = eqx.field(static=True, default=False)
    """Features of models that infer a distribution are drawn from it, rather than its mean."""
    foresight: Foresight | None = eqx.field(static=True, default=None)
    """Settings of an oracle that must be asked before every step (see `controllers.oracle`); None for none."""
    test_greedy: bool = eqx.field(static=True, default=True)
    """Whether a player that samples its actions takes its best one when it is tested."""

    def initial(self, batch: int, key: Array | None = None) -> Carry:
        """Memory at the start of `batch` episodes."""
        last_actions = jnp.full((batch, self.n_agents), -1, jnp.int32)
        return Carry(self.initial_seats(batch, self.n_agents), last_actions)

    def act(
        self, observation: Observation, memory: Carry, key: Array, epsilon: Array | float
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """See `Policy.act`; stores what the opponent model infers, of all seats."""
        games = observation.obs.shape[0]
        seats = jnp.broadcast_to(jnp.arange(self.n_agents), (games, self.n_agents))
        view = PlayerView(observation.obs, observation.state, observation.avail, seats, memory.last_actions)
        actions, seat_memory, record = self._act(view, memory.seats, key, epsilon, everywhere=True)
        return actions, Carry(seat_memory, actions), record

    def lineup(self, memory: Carry) -> None:
        """One algorithm in all seats."""

    def initial_seats(self, batch: int, seats: int) -> SeatMemory:
        """Memory at the start of `batch` episodes with `seats` seats each."""
        model = None if self.opponent_model is None else self.opponent_model.initial(batch, seats)
        given = None if self.foresight is None else jnp.zeros((batch, seats, self._model_width()))
        return SeatMemory(self.agent.initial(batch, seats), model, given)

    def act_seats(
        self, view: PlayerView, memory: SeatMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        """See `Player.act_seats`; stores what the opponent model infers."""
        return self._act(view, memory, key, epsilon, everywhere=False)

    def _act(
        self, view: PlayerView, memory: SeatMemory, key: Array, epsilon: Array | float, *, everywhere: bool
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        seen = view.state[..., None, :] if self.obs_is_state else view.obs  # One seat's worth where all see the same.
        select_key, model_key = jax.random.split(key) if self._draws() else (key, None)
        features, model_memory, record = self._infer(view, seen, memory, model_key)
        # None lets the agent spare the look-up when it has every seat.
        seats = None if everywhere else view.seats
        gates_in = self.agent.embed(seen, own_action(view.last_actions, view.seats), features, seats)
        hidden = self.agent.step(gates_in, memory.hidden, seats)
        actions = SELECTORS[self.selector](self.agent.head(hidden, seats), view.avail, select_key, epsilon)
        return actions, SeatMemory(hidden, model_memory, memory.given), record

    def _draws(self) -> bool:
        return self.sampling and self.opponent_model is not None

    def _infer(
        self, view: PlayerView, seen: Array, memory: SeatMemory, key: Array | None
    ) -> tuple[Array | None, Any, dict[str, Array]]:
        """Features [N, m, F] of the agent's input (None for none), the model's memory and what is stored."""
        parts = []
        if self.all_last_actions:
            parts.append(others_one_hot(view.last_actions, view.seats, self.n_actions))
        model_memory = memory.model
        record: dict[str, Array] = {}
        if self.opponent_model is not None:
            seen = jnp.broadcast_to(seen, (*view.seats.shape, seen.shape[-1]))
            inputs = ModelInputs(seen, view.last_actions, view.seats, view.players)
            inferred, model_memory, record = self.opponent_model.infer(inputs, model_memory, key)
            parts.append(self.shown(self.control(inferred if memory.given is None else memory.given)))
        return (jnp.concatenate(parts, axis=-1) if parts else None), model_memory, record

    def seen(self, view: PlayerView) -> Array:
        """What each seat sees, [N, m, O]."""
        if not self.obs_is_state:
            return view.obs
        return jnp.broadcast_to(view.state[:, None], (*view.seats.shape, view.state.shape[-1]))

    def try_features(self, view: PlayerView, memory: SeatMemory, inferred: Array) -> Array:
        """The agent's outputs in the coming step with features that it might infer.

        Args:
            view: What is known now.
            memory: Of the step before.
            inferred: [N, C, m, F], C candidates.

        Returns:
            [N, C, m, U].
        """
        seats = view.seats[:, None]
        parts = [self.shown(inferred)]
        if self.all_last_actions:
            everyone = others_one_hot(view.last_actions, view.seats, self.n_actions)
            parts.insert(0, jnp.broadcast_to(everyone[:, None], (*inferred.shape[:-1], everyone.shape[-1])))
        own_last = jnp.broadcast_to(own_action(view.last_actions, view.seats)[:, None], inferred.shape[:-1])
        gates_in = self.agent.embed(self.seen(view)[:, None], own_last, jnp.concatenate(parts, axis=-1), seats)
        return self.agent.head(self.agent.step(gates_in, memory.hidden[:, None], seats), seats)

    def control(self, features: Array) -> Array:
        """Features [N, ..., F] as `self.features` wants them: untouched, zero, or another game's."""
        if self.features == "zero":
            return jnp.zeros_like(features)
        return jnp.roll(features, 1, axis=0) if self.features == "shuffled" else features

    def shown(self, inferred: Array) -> Array:
        """Features [..., F], inferred or tried, as the agent reads them, [..., F']; zeros where they are to be zero."""
        model = self.opponent_model
        if not isinstance(model, SubgoalModel):
            return inferred
        if self.features == "zero":
            return jnp.zeros((*inferred.shape[:-1], model.shown_dim))
        return model.shown(inferred)

    def columns(self, batch: EpisodeBatch, seats: Array | None = None) -> Columns:
        """What the player's seats saw in played episodes.

        Args:
            batch: Episodes with the observations of all seats, or of just the player's.
            seats: [B, m] integers, None for all.
        """
        before_first = jnp.full_like(batch.actions[:, :1], -1)
        last_actions = jnp.concatenate([before_first, batch.actions[:, :-1]], axis=1)
        own_last = last_actions if seats is None else own_action(last_actions, seats[:, None])
        if self.obs_is_state:
            # One seat's worth of the state: the agent repeats its embedding over the seats, which is cheaper by m.
            seen = batch.state[..., None, :]
        elif seats is None or batch.obs.shape[2] == seats.shape[1] != self.n_agents:
            seen = batch.obs
        else:
            seen = jnp.take_along_axis(batch.obs, seats[:, None, :, None], axis=2)
        return Columns(seen, last_actions, own_last, seats, batch.players)

    def extend(self, columns: Columns, inferred: Array | None) -> Array | None:
        """The features of the agent's input along episodes: everybody's last actions, if it sees them, and `inferred`.

        Args:
            columns: Played episodes.
            inferred: [B, T+1, m, F], None without an opponent model.

        Returns:
            [B, T+1, m, F'], or None.
        """
        parts = []
        if self.all_last_actions:
            inputs = columns.model_inputs()
            parts.append(others_one_hot(inputs.last_actions, inputs.seats, self.n_actions))
        if inferred is not None:
            parts.append(self.shown(inferred))
        return jnp.concatenate(parts, axis=-1) if parts else None

    def weigh(self, columns: Columns) -> Array:
        """The agent's first layer before its activation without the inferred features, [B, T+1, m, W]."""
        seats = columns.timed_seats
        x = self.agent.weigh_inputs(columns.seen, columns.own_last, seats)
        if not self.all_last_actions:
            return x
        everyone = self.extend(columns, None)
        assert everyone is not None
        nothing = jnp.zeros((*columns.own_last.shape, _shown_dim(self.opponent_model)))
        return x + self.agent.weigh_features(jnp.concatenate([everyone, nothing], axis=-1), seats)

    def weigh_inferred(self, columns: Columns, inferred: Array) -> Array:
        """What inferred features [B, ..., m, F] add to `weigh`, [B, ..., m, W]."""
        inferred = self.shown(inferred)
        if self.all_last_actions:
            width = self.n_agents * self.n_actions
            inferred = jnp.pad(inferred, [(0, 0)] * (inferred.ndim - 1) + [(width, 0)])
        return self.agent.weigh_features(inferred, columns.timed_seats)

    def _model_width(self) -> int:
        return 0 if self.opponent_model is None else self.opponent_model.feature_dim

    def embed(self, columns: Columns, features: Array | None) -> Array:
        """The agent's embedded inputs at every slot, [B, T+1, m, G]; `features` as `extend` returns them."""
        return self.agent.embed(columns.seen, columns.own_last, features, columns.timed_seats)

    def remember(self, columns: Columns, gates_in: Array) -> Array:
        """The agent's recurrent states after every slot, [B, T+1, m, H], from its embedded inputs."""
        batch, _, seats = columns.own_last.shape
        return self.agent.unroll(gates_in, self.agent.initial(batch, seats), columns.seats)

    def values(self, columns: Columns, hidden: Array) -> Array:
        """The agent's outputs for recurrent states [B, T+1, m, H]: [B, T+1, m, U]."""
        return self.agent.head(hidden, columns.timed_seats)

    def unroll(self, batch: EpisodeBatch, inferred: Array | None = None, seats: Array | None = None) -> Array:
        """The agent's outputs along played episodes, at every slot: [B, T+1, m, U].

        Args:
            batch: Episodes.
            inferred: [B, T+1, m, F], the opponent model's features; None exactly when there is no model.
            seats: [B, m] integers, the seats to look at; None for all.
        """
        columns = self.columns(batch, seats)
        return self.values(columns, self.remember(columns, self.embed(columns, self.extend(columns, inferred))))

    def greedy(self) -> BasicMAC:
        """The same player, which with epsilon 0 takes its best legal action: for tests of sampling policies."""
        return dataclasses.replace(self.tested(), selector="epsilon_greedy")

    def tested(self) -> BasicMAC:
        """The same player as it is tested and saved: it draws no features, and with `test_greedy` no actions either."""
        greedy = self.selector != "epsilon_greedy" and self.test_greedy
        return dataclasses.replace(self, sampling=False, selector="epsilon_greedy" if greedy else self.selector)

    def with_prior(self, prior: Prior) -> BasicMAC:
        """The same player with another subgoal prior."""
        model = self.opponent_model
        assert isinstance(model, SubgoalModel)
        return dataclasses.replace(self, opponent_model=model.with_prior(prior))

    def with_features(self, features: str) -> BasicMAC:
        """The same player with its opponent model's features `inferred`, `zero` or `shuffled`."""
        return dataclasses.replace(self, features=features)


def build_basic_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> BasicMAC:
    """Builds the controller for a game with newly drawn parameters.

    Args:
        config: Names the networks and their sizes.
        spec: The game.
        key: Consumed.
        partners: Number of different pool members it is told apart, for `identity_am`.
    """
    agent_key, model_key = (key, key) if config.model_part.absent else jax.random.split(key)
    model = _build_model(config, spec, model_key, partners)
    everyone = spec.n_agents * spec.n_actions if config.obs_all_last_actions else 0
    sizes = AgentSizes(
        obs_dim=_seen_dim(config, spec),
        n_actions=spec.n_actions,
        n_agents=spec.n_agents,
        hidden_dim=config.rnn_hidden_dim,
        feature_dim=everyone + _shown_dim(model),
        use_last_action=config.obs_last_action,
        use_agent_id=config.obs_agent_id,
        second_dim=config.mlp_second_dim,
        one_hot=config.obs_one_hot,
        map_shape=spec.map_shape,
    )
    return BasicMAC(
        AGENTS[config.agent].build(sizes, key=agent_key),
        model,
        selector_name(config.action_selector, config.mask_before_softmax),
        config.obs_is_state,
        spec.n_agents,
        spec.n_actions,
        config.obs_all_last_actions,
        features="zero" if config.omg_q_input == "zero" else "inferred",
        sampling=config.omg_sample,
        foresight=Foresight(config.omg_horizon, config.subgoal_mode, config.omg_value)
        if config.omg_q_input == "oracle"
        else None,
        test_greedy=config.test_greedy,
    )


def _build_model(config: Config, spec: EnvSpec, key: Array, partners: int) -> OpponentModel | None:
    subgoals = config.model_part.training is ModelTraining.SUBGOALS
    sizes = ModelSizes(
        seen_dim=_seen_dim(config, spec),
        obs_dim=spec.obs_dim,
        n_actions=spec.n_actions,
        n_agents=spec.n_agents,
        feature_dim=config.subgoal_dim if subgoals else config.am_embed_dim,
        hidden_dim=config.am_hidden_dim,
        inference=config.omg_inference,
        reconstruct=config.omg_reconstruct,
        actions=config.omg_actions,
        residual=config.omg_residual,
        shown=config.omg_feature,
        map_shape=spec.map_shape if config.omg_maps else None,
        naive_feature=config.am_feature,
        partners=partners,
    )
    return OPPONENT_MODELS[config.am_model].build(sizes, key=key)


def _shown_dim(model: OpponentModel | None) -> int:
    """Width of a model's features as the agent reads them."""
    if model is None:
        return 0
    return model.shown_dim if isinstance(model, SubgoalModel) else model.feature_dim


def _seen_dim(config: Config, spec: EnvSpec) -> int:
    return spec.state_dim if config.obs_is_state else spec.obs_dim
