"""Episodes of games that are not JAX programs: play on the host, everything else compiled as ever.

The learner, the buffer, the loop, checkpoints and logs are those of every run. Only play differs: one compiled `act`
chooses the actions of all games at once while `omg.runners.host` steps them.

Letters in shapes: Z seeds, B games of one seed, N = Z * B games in all, E test episodes of one seed, T steps, A seats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count, EpisodeBatch
from omg.controllers.base import Controller, Lineup
from omg.controllers.team import Squad
from omg.envs.adapters.host import HostEnv, Seen
from omg.envs.base import Observation
from omg.errors import UserError
from omg.learners.base import S
from omg.runners import RUNNERS
from omg.runners.host import HostRunner, Played, episode_seed
from omg.runners.vector import OWN_RETURN, EpisodeStats, Film, Rollout
from omg.training.collecting import POLICY, TESTED, Say, Seating
from omg.training.state import (
    EXAMINE_STREAM,
    TEST_STREAM,
    RunState,
    Seated,
    SeedMap,
    exploration,
    seeds_on_device,
    split_key,
)
from omg.types import PyTree

_TRAINING, _TESTING = 0, 1
"""Streams of episode seeds."""

Act = Callable[..., tuple[Array, PyTree, dict[str, Array]]]
"""(player's leaves, squad, memory, keys, epsilon, time slot, what is seen) -> actions [Z, B, A], memory, records."""


class Beginning(NamedTuple):
    """The start of a round; arrays [Z, ...]."""

    player: Controller | None
    memory: PyTree
    lineup: Lineup | None
    key: Array
    """[Z, 2] uint32."""
    epsilon: Array
    """[Z]."""


class HostCollector(Generic[S]):
    """Plays games on the host; its worker processes run from `open`, or the first round, to `close`."""

    inside = False
    iterations = 1

    def __init__(self, seating: Seating[S]) -> None:
        """Looks whether the runner and the game can do what is asked for.

        Raises:
            UserError: they cannot.
        """
        config, env = seating.config, seating.env
        assert isinstance(env, HostEnv)
        _check(seating, env)
        self.seating, self.env = seating, env
        self.seeds = seeds_on_device() if config.seeds > 1 else SeedMap(None)
        self.host_seconds = 0.0
        self._runner: HostRunner | None = None
        self._say: Say = lambda _: None
        self._lost = np.zeros(config.seeds, int)
        """[Z], episodes lost since `dropped` was asked, those of tests included."""
        self._beginnings: dict[str, Callable[[RunState[S], np.int32], Beginning]] = {}
        self._acts: dict[str, Act] = {}

    def squad(self) -> Squad | None:
        """See `Collector`."""
        return None if self.seating.team is None else self.seating.team.squad

    def open(self, state: RunState[S], say: Say) -> Rollout:
        """Starts the workers and, while they start, compiles what chooses their actions; see `Collector`."""
        self._say = say
        games, sizes = self._games().games, self.env.spec
        empty = Seen(
            np.zeros((games, sizes.n_agents, sizes.obs_dim), np.float32),
            np.zeros((games, sizes.state_dim), np.float32),
            np.ones((games, sizes.n_agents, sizes.n_actions), bool),
        )
        for player in (POLICY, TESTED):
            chooser = _Choices(self, state, player)
            chooser.begin()
            chooser.choose(0, empty, last=True)
        return jax.eval_shape(self._example_round, state)

    def close(self) -> None:
        """Ends the workers."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def collect(self, state: RunState[S]) -> Rollout:
        """See `Collector`."""
        began = time.perf_counter()
        chooser = _Choices(self, state, POLICY)
        rollout = self._episodes(self._round(chooser, _TRAINING), chooser.lineup)
        self.host_seconds = time.perf_counter() - began - chooser.seconds
        return rollout

    def test(self, state: RunState[S], player: str, *, record: bool, film: Film | None = None) -> Rollout:
        """See `Collector`; plays in rounds, and has the game save its own replays if they are wanted: no film."""
        assert film is None
        parts: list[Rollout] = []
        games, total = self.seating.config.batch_size_run, self.seating.config.test_nepisode
        for first in range(0, total, games):
            chooser = _Choices(self, state, player, first)
            played = self._episodes(self._round(chooser, _TESTING), chooser.lineup)
            parts.append(played if record else played._replace(batch=None))
        if player == TESTED and self.seating.config.save_replay:
            self._games().save_replays()

        def joined(*values: np.ndarray) -> np.ndarray:
            return np.concatenate(values, axis=1)[:, :total]

        return jax.tree.map(joined, *parts)

    def examine_key(self, key: Array) -> Array:
        """See `Collector`."""
        return jax.random.fold_in(jax.random.fold_in(key, TEST_STREAM), EXAMINE_STREAM)

    def dropped(self) -> np.ndarray:
        """See `Collector`."""
        lost, self._lost = self._lost, np.zeros(self.seating.config.seeds, int)
        return lost

    # ------------------------------------------------------------------------------------------------ rounds

    def _games(self) -> HostRunner:
        """The runner, opened when it is first needed."""
        if self._runner is None:
            open_games = RUNNERS[self.seating.config.runner].build.open
            assert open_games is not None
            self._runner = open_games(self.env, self.seating.config, lambda line: self._say(line))
        return self._runner

    def _round(self, chooser: _Choices, stream: int) -> Played:
        """One round of `batch_size_run` episodes per seed. Their seeds depend on the run's seed and on their number."""
        config, episodes = self.seating.config, int(chooser.state.episodes)
        games, run_seed = config.batch_size_run, config.seed

        def seed(game: int, attempt: int) -> int:
            index, number = divmod(game, games)
            # Training episodes are numbered through; those of a test by the moment of the test and their place in it.
            place = (episodes + number, 0) if stream == _TRAINING else (episodes, chooser.first + number)
            return episode_seed(run_seed + index, stream, *place, attempt)

        played = self._games().play(chooser, seed)
        self._lost += played.dropped.reshape(config.seeds, games).sum(axis=1)
        return played

    def _episodes(self, played: Played, lineup: Lineup | None) -> Rollout:
        """Copies a round out of the board: episodes and statistics with the axes [Z, B, ...]."""
        seeds = self.seating.config.seeds
        seat, players = jax.device_get((None, None) if lineup is None else (lineup.seat, lineup.players))

        def by_seed(values: np.ndarray) -> PyTree:
            return values.reshape(seeds, -1, *values.shape[1:])

        def episode_major(values: np.ndarray) -> PyTree:
            # A copy, always: the device may use the memory it is given as it is, and the next round overwrites it.
            return by_seed(np.array(np.swapaxes(values, 0, 1), order="C", copy=True))

        batch = EpisodeBatch(
            obs=episode_major(played.obs),
            state=episode_major(played.state),
            avail=episode_major(played.avail),
            actions=episode_major(played.actions),
            reward=episode_major(played.reward),
            terminated=episode_major(played.terminated),
            filled=episode_major(played.filled),
            seat=seat,
            records={name: episode_major(values) for name, values in played.records.items()},
            players=players,
        )
        learns = None if players is None else players.reshape(-1, self.env.spec.n_agents) < 0
        metrics = {name: by_seed(np.asarray(values, np.float32)) for name, values in played.measured(learns).items()}
        stats = EpisodeStats(by_seed(played.returns().astype(np.float32)), by_seed(played.lengths()), metrics)
        return Rollout(batch, stats, None)

    def _example_round(self, state: RunState[S]) -> Rollout:
        """A round of the right shapes, to compile for."""
        spec, seeds, games = self.env.spec, self.seating.config.seeds, self.seating.config.batch_size_run
        slots = (seeds, games, spec.episode_limit + 1)
        seats = (*slots, spec.n_agents)
        seen = Observation(
            jnp.zeros((seeds, games, spec.n_agents, spec.obs_dim), jnp.float32),
            jnp.zeros((seeds, games, spec.state_dim), jnp.float32),
            jnp.ones((seeds, games, spec.n_agents, spec.n_actions), bool),
        )
        player, memory, lineup, key, epsilon = self._begin_seeds(state, 0, player=POLICY)
        _, _, records = self._act_seeds(player, state.squad, memory, key, epsilon, jnp.int32(0), seen)
        batch = EpisodeBatch(
            obs=jnp.zeros((*seats, spec.obs_dim), jnp.float32),
            state=jnp.zeros((*slots, spec.state_dim), jnp.float32),
            avail=jnp.zeros((*seats, spec.n_actions), bool),
            actions=jnp.zeros(seats, jnp.int32),
            reward=jnp.zeros(seats if spec.reward_per_agent else slots, jnp.float32),
            terminated=jnp.zeros(slots, bool),
            filled=jnp.zeros(slots, bool),
            seat=None if lineup is None else lineup.seat,
            records={name: jnp.zeros((*slots, *values.shape[2:]), values.dtype) for name, values in records.items()},
            players=None if lineup is None else lineup.players,
        )
        names = [*spec.metrics, *([OWN_RETURN] if lineup is not None and spec.reward_per_agent else [])]
        one = jnp.zeros((seeds, games), jnp.float32)
        return Rollout(batch, EpisodeStats(one, one.astype(jnp.int32), dict.fromkeys(names, one)), None)

    # ------------------------------------------------------------------------------------------------ acting

    def beginning(self, player: str) -> Callable[[RunState[S], np.int32], Beginning]:
        """The compiled start of a round for the learner's policy, its tested player, or one of its controls."""
        if player not in self._beginnings:
            self._beginnings[player] = jax.jit(partial(self._begin_seeds, player=player))
        return self._beginnings[player]

    def _begin_seeds(self, state: RunState[S], first: Array | int, *, player: str) -> Beginning:
        """The start of a round; `first`: number of a test's episodes before it, so that its rounds differ in teams."""
        seating = self.seating

        def one(learner: S, key: Array, t_env: Count) -> Beginning:
            if player == POLICY:
                play_key, epsilon = split_key(key)[1], exploration(seating.config, t_env)
            else:
                play_key = jax.random.fold_in(jax.random.fold_in(key, TEST_STREAM), first)
                epsilon = seating.test_epsilon()
            acting = seating.player(learner, player)
            act_key, team_key = jax.random.split(play_key)
            policy = seating.policy(acting, state.squad)
            memory = policy.initial(seating.config.batch_size_run, team_key)
            return Beginning(acting, memory, policy.lineup(memory), act_key, epsilon)

        return self.seeds(one)(state.learner, state.key, state.t_env)

    def acting(self, player: str, structure: jax.tree_util.PyTreeDef) -> Act:
        """`_act_seeds` of a player of `beginning`, compiled, for the leaves of its pytree; the memory is used up.

        It is called at every step of every game. To take a player's modules apart each time would take as long as to
        ask its network.
        """
        if player not in self._acts:

            def act(leaves: list[Array], *given: PyTree) -> tuple[Array, PyTree, dict[str, Array]]:
                return self._act_seeds(jax.tree.unflatten(structure, leaves), *given)

            self._acts[player] = jax.jit(act, donate_argnums=2)
        return self._acts[player]

    def _act_seeds(
        self,
        player: Controller | None,
        squad: Seated,
        memory: PyTree,
        key: Array,
        epsilon: Array,
        t: Array,
        seen: Observation,
    ) -> tuple[Array, PyTree, dict[str, Array]]:
        """Actions [Z, B, A], the new memory and records [Z, B, ...] of time slot `t`."""

        def one(
            player: Controller | None, memory: PyTree, key: Array, epsilon: Array, seen: Observation
        ) -> tuple[Array, PyTree, dict[str, Array]]:
            policy = self.seating.policy(player, squad)
            return policy.act(seen, memory, jax.random.fold_in(key, t), epsilon)

        return self.seeds(one)(player, memory, key, epsilon, seen)


class _Choices:
    """A `runners.host.Chooser` over the compiled `act` of a collector."""

    def __init__(self, collector: HostCollector, state: RunState, player: str, first: int = 0) -> None:
        self.collector, self.state, self.player, self.first = collector, state, player, first
        self.lineup: Lineup | None = None
        self.seconds = 0.0
        """Spent in compiled programs."""

    def begin(self) -> None:
        """Memories and teams of a new round; the same whenever it is called."""
        began = time.perf_counter()
        beginning = self.collector.beginning(self.player)
        player, self._memory, self.lineup, self._key, self._epsilon = beginning(self.state, np.int32(self.first))
        self._leaves, structure = jax.tree.flatten(player)
        self._act = self.collector.acting(self.player, structure)
        self._no_exploring = np.zeros(self.collector.seating.config.seeds, np.float32)
        self.seconds += time.perf_counter() - began

    def choose(self, t: int, seen: Seen, *, last: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """See `Chooser`."""
        began = time.perf_counter()
        seeds = self.collector.seating.config.seeds
        shaped: list[PyTree] = [values.reshape(seeds, -1, *values.shape[1:]) for values in seen]
        epsilon = self._no_exploring if last else self._epsilon
        actions, self._memory, records = self._act(
            self._leaves, self.state.squad, self._memory, self._key, epsilon, np.int32(t), Observation(*shaped)
        )
        chosen = np.asarray(actions)
        self.seconds += time.perf_counter() - began
        flat = {name: np.asarray(values).reshape(-1, *values.shape[2:]) for name, values in records.items()}
        return chosen.reshape(-1, chosen.shape[-1]), flat


def _check(seating: Seating[S], env: HostEnv) -> None:
    """Refuses what games on the host cannot do."""
    config, spec = seating.config, env.spec
    if RUNNERS[config.runner].build.open is None:
        raise UserError(
            f"runner: got {config.runner}, which plays JAX programs only; {spec.name} is none. Allowed: "
            f"{', '.join(name for name, entry in RUNNERS.items() if entry.build.open is not None)}."
        )
    if config.omg_q_input == "oracle":
        raise UserError(
            f"omg_q_input: got oracle, which looks ahead in a copy of the game; {spec.name} cannot be copied. "
            f"Allowed: mix, inferred, selected, zero."
        )
    if config.save_replay and not env.saves_replays:
        raise UserError(f"save_replay: got True, but {spec.name} {spec.scenario} writes no replays. Allowed: False.")
