"""`hop_mac`: players that infer what the others are after and search the game for what to do about it.

At every step a player follows what each co-player just did, draws what they may be after, searches a tree for each of
these samples in the game itself, and acts by the mean value of each action over the trees. `omg.planning.inference`
says what is inferred; everything else here does not depend on it.

It needs nothing but its view: the position is read off the global state, which these games show to everybody.

Letters in shapes: N games, m seats that it has, f seats that it plans for, J co-players of each, A seats, U actions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.controllers.base import PlayerView
from omg.envs import ENVS, parse_env_args
from omg.envs.base import GameArgs, Observation
from omg.envs.grid import GridGame, GridState
from omg.errors import UserError
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.prior import Prior
from omg.modules.planning import redrawn
from omg.modules.told import ROOT_VALUES, VISITS, Searched, Told
from omg.planning import inference_of
from omg.planning.batches import batched
from omg.planning.beliefs import BeliefSettings
from omg.planning.inference import Inference, InferenceSettings, Moment
from omg.planning.minds import Minds, network_sizes, new_minds
from omg.planning.search import SearchSettings, choose, decide
from omg.planning.trees import Axes
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


@dataclass(frozen=True)
class PlannerSettings:
    """How a planning player thinks. Static."""

    model: str
    """A key of `INFERENCES`."""
    subgoals: str
    """How subgoals are inferred, `omg_inference`, where they are."""
    inference: InferenceSettings
    search: SearchSettings
    limit_bytes: int
    """Memory that the trees of one step may take."""
    test_greedy: bool = True
    """Whether it takes its best action when it is tested, instead of drawing one."""
    test_simulations: int | None = None
    """Of every tree when it is tested; None: as always."""
    test_samples: int | None = None
    """Trees of a decision when it is tested; None: as always."""

    def tested(self) -> PlannerSettings:
        """How it thinks when it is tested."""
        simulations = self.test_simulations or self.search.simulations
        samples = self.test_samples or self.inference.samples
        return dataclasses.replace(
            self,
            search=dataclasses.replace(self.search, simulations=simulations),
            inference=dataclasses.replace(self.inference, samples=samples),
        )


class PlannerMemory(NamedTuple):
    """What a planning player remembers within N episodes."""

    inferred: PyTree
    """Of the inference, leaves [N, ...]."""
    before: GridState
    """The position of the step before, leaves [N, ...]."""


class PlannerCarry(NamedTuple):
    """The same for a player that has all seats, with what everybody did last."""

    seats: PlannerMemory
    last_actions: Array
    """[N, A] int32, -1 before the first step."""


class HOPMac(eqx.Module):
    """The networks of a planning player, and what it has learned about the others from episode to episode.

    Satisfies `base.Policy` (it has all seats) and `base.Player` (it has some). With networks for every seat it always
    plans for all of them and acts in those that it has.
    """

    minds: Minds
    """Leaves [P, ...]: a set of networks for every seat (P = A), or one for whatever seat it has (P = 1)."""
    prior: Array
    """[P, J, achievements], the outset of beliefs (`omg.planning.beliefs`); counted, never learned by gradients. No
    achievements without goals."""
    game_name: str = eqx.field(static=True)
    game_args: GameArgs = eqx.field(static=True)
    settings: PlannerSettings = eqx.field(static=True)
    explores: bool = eqx.field(static=True, default=True)
    """Whether actions are drawn; otherwise the best one is taken."""
    subgoal_prior: Prior | None = None
    """The space that inferred subgoals live in, the same for all seats; not needed to act. None without subgoals."""

    tells: bool = eqx.field(static=True, default=False)
    """Whether it records what `told` reads."""

    reads_state = True
    """The position is read off the global state."""
    acts_at_end = False
    """Searching a position that nothing follows would be in vain."""

    @property
    def game(self) -> GridGame[GridState]:
        """The rules."""
        return shared_game(self.game_name, self.game_args)

    @property
    def inference(self) -> Inference[GridState]:
        """What is made of the others."""
        settings = self.settings
        return inference_of(settings.model, settings.subgoals)(self.game, settings.inference)

    @property
    def every_seat(self) -> bool:
        """Whether each seat has networks of its own."""
        return self.prior.shape[-3] > 1

    def initial(self, batch: int, key: Array | None = None) -> PlannerCarry:
        """Memory at the start of `batch` episodes."""
        players = self.game.spec.n_agents
        return PlannerCarry(self.initial_seats(batch, players), jnp.full((batch, players), -1, jnp.int32))

    def act(
        self, observation: Observation, memory: PlannerCarry, key: Array, epsilon: Array | float
    ) -> tuple[Array, PlannerCarry, dict[str, Array]]:
        """See `Policy.act`; stores what `act_seats` does."""
        games, players = observation.avail.shape[:2]
        seats = jnp.broadcast_to(jnp.arange(players), (games, players))
        view = PlayerView(observation.obs, observation.state, observation.avail, seats, memory.last_actions)
        actions, kept, record = self.act_seats(view, memory.seats, key, epsilon)
        return actions, PlannerCarry(kept, actions), record

    def lineup(self, memory: PlannerCarry) -> None:
        """One algorithm in all seats."""

    def initial_seats(self, batch: int, seats: int) -> PlannerMemory:
        """Memory at the start of `batch` episodes with `seats` seats each."""
        before = self.game.from_world(jnp.zeros((batch, self.game.spec.state_dim)))
        planned = self.game.spec.n_agents if self.every_seat else seats
        return PlannerMemory(self.inference.initial(batch, planned), before)

    def act_seats(
        self, view: PlayerView, memory: PlannerMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, PlannerMemory, dict[str, Array]]:
        """See `Player.act_seats`.

        Stores `search_policy` [N, m, U], `search_value` [N, m], and what the inference records.
        """
        del epsilon
        arrays, rest = eqx.partition(self, eqx.is_array)
        think = batched(partial(_think, rest))
        found: tuple[Array, PlannerMemory, dict[str, Array]] = think(
            arrays, view.state, view.seats, view.last_actions, memory, key
        )
        return found

    def think(
        self, state: Array, own_seats: Array, last_actions: Array, memory: PlannerMemory, key: Array, *, axes: Axes
    ) -> tuple[Array, PlannerMemory, dict[str, Array]]:
        """One decision: the global state [N, S], own seats [N, m] and last actions [N, A] -> as `act_seats`."""
        game, inference, settings = self.game, self.inference, self.settings
        games, players = last_actions.shape
        # With networks for every seat (P > 1) all seats are planned for, and each set of networks has one of them.
        every_seat = len(self.prior) > 1
        everybody = jnp.broadcast_to(jnp.arange(players), (games, players))
        seats = (everybody if every_seat else own_seats).astype(jnp.int32)
        infer_key, search_key, act_key = jax.random.split(key, 3)
        # Pieces keep their numbers from step to step, so that a belief about the third drift stays with it.
        position = game.from_world(state, memory.before)
        moment = Moment(memory.before, last_actions, position, seats)
        inferred = inference.infer(self.minds, self.prior, moment, memory.inferred, infer_key)
        trees = games * settings.inference.samples * (1 if every_seat else seats.shape[1])
        decision = decide(
            game,
            inference.judge(self.minds, trees),
            settings.search,
            position,
            seats,
            inferred.trees,
            search_key,
            limit_bytes=settings.limit_bytes,
            axes=axes,
        )
        actions = choose(decision, act_key, explore=self.explores)
        record = {"search_policy": decision.chances, "search_value": decision.value, **inferred.record}
        if self.tells:
            values = jnp.where(decision.visits > 0, decision.q, jnp.nan)
            record |= {VISITS: decision.visits, ROOT_VALUES: values, **inference.shown(position, seats)}
        if every_seat:
            actions, record = jax.tree.map(
                lambda values: jnp.take_along_axis(
                    values, own_seats.reshape(*own_seats.shape, *(1,) * (values.ndim - 2)), axis=1
                ),
                (actions, record),
            )
        return actions.astype(jnp.int32), PlannerMemory(inferred.memory, position), record

    def tested(self) -> HOPMac:
        """The same player as it is tested and saved: it takes the best action, and may think for longer."""
        return dataclasses.replace(self, explores=not self.settings.test_greedy, settings=self.settings.tested())

    def telling(self) -> HOPMac:
        """See `Tells.telling`."""
        return dataclasses.replace(self, tells=True)

    def told(self, records: dict[str, Array]) -> Told:
        """See `Tells.told`: what the search found, and what the inference makes of the others."""
        values = records[ROOT_VALUES]
        searched = Searched(records["search_policy"], records[VISITS], values, records["search_value"])
        expected = self.inference.expects(records, self.subgoal_prior)
        return Told(values, (searched, *expected), last_known=self.acts_at_end)

    def with_prior(self, prior: Prior) -> HOPMac:
        """The same player with another subgoal prior."""
        return dataclasses.replace(self, subgoal_prior=prior)

    def with_features(self, features: str) -> HOPMac:
        """The same player with its inferred subgoals `inferred`, `zero` or `shuffled`; see `InferenceSettings`."""
        inference = dataclasses.replace(self.settings.inference, features=features)
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, inference=inference))


def _think(rest: HOPMac, axes: Axes, /, *given: PyTree) -> tuple[Array, PlannerMemory, dict[str, Array]]:
    """`HOPMac.think` of a player whose arrays are given apart, so that they can be mapped."""
    arrays, *arguments = given
    return eqx.combine(arrays, rest).think(*arguments, axes=axes)


@lru_cache
def shared_game(name: str, args: GameArgs) -> GridGame[GridState]:
    """One game object for all players of a configured game: programs are compiled for each one.

    Raises:
        UserError: for a game that cannot be searched.
    """
    game = ENVS[name].build(args)
    if not isinstance(game, GridGame):
        allowed = ", ".join(other for other, entry in ENVS.items() if entry.traits.searchable)
        raise UserError(f"env: got {name}, but players that plan need a game that they can search. Allowed: {allowed}.")
    return game


def build_hop_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> HOPMac:
    """Builds a planning player for a game with newly drawn networks.

    In self-play every seat has its own; in a team there is one set for whatever seat the player gets.

    Args:
        config: Names the game, the sizes of the networks and how to search.
        spec: The game.
        key: Consumed.
        partners: Not used.
    """
    args = parse_env_args(config.env, config.env_args)
    game = shared_game(config.env, args)
    kind = inference_of(config.hop_model, config.omg_inference)
    exploration = game.exploration if config.hop_exploration is None else config.hop_exploration
    beliefs = BeliefSettings(config.hop_belief_within, config.hop_belief_between, config.hop_belief_alpha)
    settings = PlannerSettings(
        model=config.hop_model,
        subgoals=config.omg_inference,
        inference=InferenceSettings(
            config.hop_samples,
            beliefs,
            _model_sizes(config, spec) if kind.infers_subgoals else None,
            draws=config.omg_sample,
            features="zero" if config.omg_q_input == "zero" else "inferred",
        ),
        search=SearchSettings(config.hop_simulations, exploration, config.gamma, config.hop_beta, config.hop_widening),
        limit_bytes=config.hop_search_bytes,
        test_greedy=config.test_greedy,
        test_simulations=config.hop_test_simulations,
        test_samples=config.hop_test_samples,
    )
    inference = kind(game, settings.inference)
    players = spec.n_agents if config.team is None else 1
    sizes = network_sizes(game, inference.goal_dim, hidden_dim=config.hop_hidden_dim)
    keys = jax.random.split(key, players)
    models = inference.model_sizes
    minds = jax.vmap(
        lambda each: new_minds(sizes, spec.n_agents, each, own_goal_dim=inference.own_goal_dim, subgoals=models)
    )(keys)
    prior = None
    if models is not None and config.wants_prior:
        prior_key = jax.random.fold_in(key, 1)
        prior = Prior(models.seen_dim, models.feature_dim, map_shape=models.map_shape, key=prior_key)
        prior = redrawn(prior, prior_key)
    outset = inference.new_outset(players, spec.n_agents - 1)
    return HOPMac(minds, outset, config.env, args, settings, subgoal_prior=prior)


def _model_sizes(config: Config, spec: EnvSpec) -> ModelSizes:
    """Of a model that infers one subgoal for each co-player from what a seat sees."""
    return ModelSizes(
        seen_dim=spec.obs_dim,
        obs_dim=spec.obs_dim,
        n_actions=spec.n_actions,
        n_agents=spec.n_agents,
        feature_dim=config.subgoal_dim,
        hidden_dim=config.am_hidden_dim,
        inference=config.omg_inference,
        reconstruct=config.omg_reconstruct,
        actions=config.omg_actions,
        map_shape=spec.map_shape,
        subgoals=spec.n_agents - 1,
        own=config.own_sections(config.model_part),
    )
