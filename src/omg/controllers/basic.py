"""`basic_mac`: one agent network, with or without an opponent model, in all seats or in some of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components import SELECTOR_CHANCES, SELECTORS, selector_name
from omg.controllers.base import PlayerView
from omg.controllers.others import OthersPlaces, subgoal_steps
from omg.controllers.reading import Reading
from omg.errors import UserError
from omg.modules.agents import AGENTS
from omg.modules.agents.base import AgentNetwork, AgentSizes
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ModelSizes, OpponentModel
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.modules.told import FEATURES, VALUES, Expectation, ExpectedViews, Told, Whose
from omg.registry import ModelTraining
from omg.types import PyTree

if TYPE_CHECKING:
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
    """[N, m, W] recurrent state of the agent."""
    model: PyTree
    """Memory of the opponent model, or None."""
    given: Array | None
    """[N, m, F] features to use in place of the inferred ones in the next step; None for the inferred ones."""


class AllSeatsMemory(NamedTuple):
    """What a player remembers that has all seats."""

    seats: SeatMemory
    last_actions: Array
    """[B, A] int32, -1 before the first step."""


class BasicMAC(eqx.Module):
    """The agent, its opponent model and how outputs become actions. Everything that changes by learning is in here.

    Satisfies `base.Policy` (it has all seats), `base.Player` (it has some) and `base.Likely`.
    """

    agent: AgentNetwork
    opponent_model: OpponentModel | None
    selector: str = eqx.field(static=True)
    """A key of `SELECTORS`."""
    reading: Reading = eqx.field(static=True)
    """What the agent sees of the game and of its opponent model's features."""
    sampling: bool = eqx.field(static=True, default=False)
    """Features of models that infer a distribution are drawn from it, rather than its mean."""
    foresight: Foresight | None = eqx.field(static=True, default=None)
    """Settings of an oracle that must be asked before every step (see `controllers.oracle`); None for none."""
    test_greedy: bool = eqx.field(static=True, default=True)
    """Whether a player that samples its actions takes its best one when it is tested."""
    tells: bool = eqx.field(static=True, default=False)
    """Whether it records what `told` reads."""

    def initial(self, batch: int, key: Array | None = None) -> AllSeatsMemory:
        """Memory at the start of `batch` episodes."""
        seats = self.reading.n_agents
        return AllSeatsMemory(self.initial_seats(batch, seats), jnp.full((batch, seats), -1, jnp.int32))

    def act(
        self, observation: Observation, memory: AllSeatsMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, AllSeatsMemory, dict[str, Array]]:
        """See `Policy.act`; stores what the opponent model infers, of all seats."""
        games, seats = memory.last_actions.shape
        everybody = jnp.broadcast_to(jnp.arange(seats), (games, seats))
        view = PlayerView(observation.obs, observation.state, observation.avail, everybody, memory.last_actions)
        actions, seat_memory, record = self._act(view, memory.seats, key, epsilon, everywhere=True)
        return actions, AllSeatsMemory(seat_memory, actions), record

    def lineup(self, memory: AllSeatsMemory) -> None:
        """One algorithm in all seats."""

    def initial_seats(self, batch: int, seats: int) -> SeatMemory:
        """Memory at the start of `batch` episodes with `seats` seats each."""
        model, given = self.opponent_model, None
        if model is not None and self.foresight is not None:
            given = jnp.zeros((batch, seats, model.feature_dim))
        remembered = None if model is None else model.initial(batch, seats)
        return SeatMemory(self.agent.initial(batch, seats), remembered, given)

    def act_seats(
        self, view: PlayerView, memory: SeatMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        """See `Player.act_seats`; stores what the opponent model infers."""
        return self._act(view, memory, key, epsilon, everywhere=False)

    def chances(self, view: PlayerView, memory: SeatMemory) -> tuple[Array, SeatMemory]:
        """See `Likely.chances`: what the selector draws with. Features are never drawn, as in tests."""
        values, kept, _ = self._outputs(view, memory, None, everywhere=False)
        return SELECTOR_CHANCES[self.selector](values, view.avail), kept

    def _act(
        self, view: PlayerView, memory: SeatMemory, key: Array, epsilon: Array | float, *, everywhere: bool
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        model_key = None
        if self.opponent_model is not None and self.sampling:
            key, model_key = jax.random.split(key)
        values, kept, record = self._outputs(view, memory, model_key, everywhere=everywhere)
        return SELECTORS[self.selector](values, view.avail, key, epsilon), kept, record

    def _outputs(
        self, view: PlayerView, memory: SeatMemory, model_key: Array | None, *, everywhere: bool
    ) -> tuple[Array, SeatMemory, dict[str, Array]]:
        """What the network says of every action [N, m, U], the new memory, and what the opponent model infers."""
        agent, model, reading = self.agent, self.opponent_model, self.reading
        views = reading.step(view, everywhere=everywhere)
        inferred, remembered, record = None, memory.model, dict[str, Array]()
        if model is not None:
            inferred, remembered, record = model.infer(views.model_inputs(), remembered, model_key)
            record |= {FEATURES: inferred} if self.tells else {}
            inferred = reading.control(inferred if memory.given is None else memory.given)
        features = reading.features(model, views, inferred)
        gates_in = agent.embed(views.seen, views.own_last, features, views.seats)
        hidden = agent.step(gates_in, memory.hidden, views.seats)
        values = agent.head(hidden, views.seats)
        record |= {VALUES: values} if self.tells else {}
        return values, SeatMemory(hidden, remembered, memory.given), record

    def greedy(self) -> BasicMAC:
        """The same player, which with epsilon 0 takes its best legal action: for tests of sampling policies."""
        return dataclasses.replace(self.tested(), selector="epsilon_greedy")

    def tested(self) -> BasicMAC:
        """The same player as it is tested and saved: it draws no features, and with `test_greedy` no actions either."""
        greedy = self.selector != "epsilon_greedy" and self.test_greedy
        return dataclasses.replace(self, sampling=False, selector="epsilon_greedy" if greedy else self.selector)

    def telling(self) -> BasicMAC:
        """See `Tells.telling`."""
        return dataclasses.replace(self, tells=True)

    def told(self, records: dict[str, Array]) -> Told:
        """See `Tells.told`: the agent's outputs, and what its opponent model says that it expects."""
        expected = () if self.opponent_model is None else self.opponent_model.expects(records[FEATURES])
        return Told(records[VALUES], with_own_views(expected, Whose.STATE) if self.reading.obs_is_state else expected)

    def with_prior(self, prior: Prior) -> BasicMAC:
        """The same player with another subgoal prior."""
        model = self.opponent_model
        assert isinstance(model, SubgoalModel)
        return dataclasses.replace(self, opponent_model=model.with_prior(prior))

    def with_features(self, features: str) -> BasicMAC:
        """The same player with its opponent model's features `inferred`, `zero` or `shuffled`."""
        return dataclasses.replace(self, reading=dataclasses.replace(self.reading, feature_control=features))


def with_own_views(expected: tuple[Expectation, ...], whose: Whose) -> tuple[Expectation, ...]:
    """Expectations of a player whose own views are something else than its observations."""
    return tuple(
        dataclasses.replace(one, whose=whose) if isinstance(one, ExpectedViews) and one.whose is Whose.OWN else one
        for one in expected
    )


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
        feature_dim=everyone + (0 if model is None else model.shown_dim),
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
        Reading(
            config.obs_is_state,
            spec.n_agents,
            spec.n_actions,
            config.obs_all_last_actions,
            feature_control="zero" if config.omg_q_input == "zero" else "inferred",
        ),
        sampling=config.omg_sample,
        foresight=Foresight(config.omg_horizon, config.subgoal_mode, config.omg_value)
        if config.omg_q_input == "oracle"
        else None,
        test_greedy=config.test_greedy,
    )


def _build_model(config: Config, spec: EnvSpec, key: Array, partners: int) -> OpponentModel | None:
    if config.model_part.absent:
        return None
    if config.model_part.infers_cells and spec.seat_cells is None:
        raise UserError(
            f"env_args: am_model={config.am_model} infers cells of a board, but with these settings not every seat of "
            f"{spec.name} sees on which cells everybody is. Allowed: settings with which it does."
        )
    subgoals = config.model_part.training is ModelTraining.SUBGOALS
    told = subgoal_steps(config, spec) if subgoals else None
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
        subgoal_feature=config.omg_feature,
        others_dim=None if told is None else told.dim,
        others_places=isinstance(told, OthersPlaces),
        map_shape=spec.map_shape if config.omg_maps else None,
        horizon=config.omg_horizon,
        naive_feature=config.am_feature,
        normalise=config.am_normalise,
        partners=partners,
        cells=spec.seat_cells,
        own=config.own_sections(config.model_part),
    )
    return OPPONENT_MODELS[config.am_model].build(sizes, key=key)


def _seen_dim(config: Config, spec: EnvSpec) -> int:
    return spec.state_dim if config.obs_is_state else spec.obs_dim
