"""Training in games that are not JAX programs: play on the host, everything else compiled as ever.

The learner, the buffer, the loop, checkpoints and logs are those of `Program`. Only the middle of an iteration differs:
one compiled `act` chooses the actions of all games at once while `omg.runners.host` steps them, and one compiled
program stores the round and makes the updates that are due.

Letters in shapes: S seeds, B games of one seed, G = S * B games in all, N test episodes of one seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count, EpisodeBatch
from omg.config import Config
from omg.controllers.base import Lineup
from omg.envs import make_env
from omg.envs.adapters.host import Seen, is_hosted
from omg.envs.base import Observation
from omg.errors import UserError
from omg.runners import RUNNERS
from omg.runners.host import HostRunner, Played, episode_seed
from omg.runners.vector import EpisodeStats
from omg.training.program import EXAMINE_STREAM, SEEDS_AXIS, TEST_STREAM, IterationLog, Program, RunState

_TRAINING, _TESTING = 0, 1
"""Streams of episode seeds."""


def build_program(config: Config) -> Program:
    """The program of a configuration: compiled play for JAX games, a host runner for all others."""
    hosted = is_hosted(make_env(config.env, **config.env_args))
    return HostProgram(config) if hosted else Program(config)


class HostProgram(Program):
    """`Program` for games on the host; its worker processes run from `compile` to `close`."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        if RUNNERS[config.runner].build.open is None:
            raise UserError(
                f"runner: got {config.runner}, which plays JAX programs only; {self.spec.name} is none. Allowed: "
                f"{', '.join(name for name, entry in RUNNERS.items() if entry.build.open is not None)}."
            )
        if config.omg_q_input == "oracle":
            raise UserError(
                f"omg_q_input: got oracle, which looks ahead in a copy of the game; {self.spec.name} cannot be copied. "
                f"Allowed: mix, inferred, selected, zero."
            )
        if config.save_replay and not self.host_env.saves_replays:
            raise UserError(
                f"save_replay: got True, but {self.spec.name} {self.spec.scenario} writes no replays. Allowed: False."
            )
        self.iterations = 1
        self.seeds_axis = SEEDS_AXIS if config.seeds > 1 else None
        self.runner: HostRunner | None = None
        self._say: Callable[[str], None] = lambda _: None
        self._beginnings: dict[str, Any] = {}
        self._dropped = np.zeros(config.seeds, int)
        """[S] episodes lost since the last log, those of tests included."""
        self._acts: dict[str, Any] = {}
        self._take_in_round = jax.jit(self._take_in_seeds, donate_argnums=0)
        self._examine = jax.jit(self._examine_seeds)
        self.chunk = self._play_and_learn
        self.test = self._play_test
        self.controls = {name: partial(self._play_control, name=name) for name in self.learner.controls}

    @property
    def host_env(self) -> Any:
        """The game as a `HostEnv`."""
        return self.env

    def compile(self, state: RunState, say: Callable[[str], None]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Starts the workers and, while they start, compiles the programs; see `Program.compile`."""
        self._say = say
        games = self._games().games
        sizes = self.spec
        empty = Seen(
            np.zeros((games, sizes.n_agents, sizes.obs_dim), np.float32),
            np.zeros((games, sizes.state_dim), np.float32),
            np.ones((games, sizes.n_agents, sizes.n_actions), bool),
        )
        for player in ("policy", "tested"):
            chooser = _Choices(self, state, player)
            chooser.begin()
            chooser.choose(0, empty, last=True)
        shapes = jax.eval_shape(self._example_round, state)
        self._take_in_round = self._take_in_round.lower(state, *shapes).compile()  # type: ignore[assignment]
        return self.chunk, self.test

    def close(self) -> None:
        """Ends the workers."""
        if self.runner is not None:
            self.runner.close()
            self.runner = None

    def _games(self) -> HostRunner:
        """The runner, opened when it is first needed."""
        if self.runner is None:
            open_games = RUNNERS[self.config.runner].build.open
            assert open_games is not None
            self.runner = open_games(self.host_env, self.config, lambda line: self._say(line))
        assert self.runner is not None
        return self.runner

    # ------------------------------------------------------------------------------------------------ one iteration

    def _play_and_learn(self, state: RunState) -> tuple[RunState, IterationLog]:
        """Plays a round, stores it and learns; `state` is donated only after the last episode is over."""
        began = time.perf_counter()
        chooser = _Choices(self, state, "policy")
        played = self._round(chooser, _TRAINING)
        batch, stats = self._episodes(played, chooser.lineup)
        self.host_seconds = time.perf_counter() - began - chooser.seconds
        state, log = self._take_in_round(state, batch, stats)
        dropped, self._dropped = self._dropped[None], np.zeros(self.config.seeds, int)
        return state, log._replace(dropped=dropped)

    def _round(self, chooser: _Choices, stream: int) -> Played:
        """One round of `batch_size_run` episodes per seed. Their seeds depend on the run's seed and on their number."""
        games, run_seed, episodes = self.config.batch_size_run, self.config.seed, int(chooser.state.episodes)

        def seed(game: int, attempt: int) -> int:
            index, number = divmod(game, games)
            # Training episodes are numbered through; those of a test by the moment of the test and their place in it.
            place = (episodes + number, 0) if stream == _TRAINING else (episodes, chooser.first + number)
            return episode_seed(run_seed + index, stream, *place, attempt)

        played = self._games().play(chooser, seed)
        self._dropped += played.dropped.reshape(self.config.seeds, games).sum(axis=1)
        return played

    def _episodes(self, played: Played, lineup: Lineup | None) -> tuple[EpisodeBatch, EpisodeStats]:
        """Copies a round out of the board: episodes and statistics with the axes [S, B, ...]."""
        seeds = self.config.seeds
        seat: Any = None if lineup is None else np.asarray(lineup.seat)
        players: Any = None if lineup is None else np.asarray(lineup.players)

        def by_seed(values: np.ndarray) -> Any:
            return values.reshape(seeds, -1, *values.shape[1:])

        def episode_major(values: np.ndarray) -> Any:
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
        learns = None if players is None else players.reshape(-1, self.spec.n_agents) < 0
        metrics = {name: by_seed(np.asarray(values, np.float32)) for name, values in played.measured(learns).items()}
        return batch, EpisodeStats(by_seed(played.returns().astype(np.float32)), by_seed(played.lengths()), metrics)

    def _take_in_seeds(
        self, state: RunState, batch: EpisodeBatch, stats: EpisodeStats
    ) -> tuple[RunState, IterationLog]:
        """Stores a round and makes the updates that are due; the log has the axes [1, S, ...] of a chunk."""
        episodes = state.episodes + self.config.batch_size_run
        stored = state.stored + self.config.batch_size_run
        one = self._for_seeds(partial(self._take_in, episodes=episodes, stored=stored))
        learner, storage, key, t_env, log = one(state.learner, state.storage, state.key, state.t_env, batch, stats)
        after = RunState(learner, storage, key, t_env, episodes, stored, state.squad)
        return after, jax.tree.map(lambda values: values[None], log)

    def _example_round(self, state: RunState) -> tuple[EpisodeBatch, EpisodeStats]:
        """A round of the right shapes, to compile for."""
        spec, seeds, games = self.spec, self.config.seeds, self.config.batch_size_run
        slots = (seeds, games, spec.episode_limit + 1)
        seats = (*slots, spec.n_agents)
        seen = Observation(
            jnp.zeros((seeds, games, spec.n_agents, spec.obs_dim), jnp.float32),
            jnp.zeros((seeds, games, spec.state_dim), jnp.float32),
            jnp.ones((seeds, games, spec.n_agents, spec.n_actions), bool),
        )
        player, memory, lineup, key, epsilon = self._begin_seeds(state, 0, player="policy")
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
        names = [*spec.metrics, *(["own_return"] if lineup is not None and spec.reward_per_agent else [])]
        one = jnp.zeros((seeds, games), jnp.float32)
        return batch, EpisodeStats(one, one.astype(jnp.int32), dict.fromkeys(names, one))

    # ------------------------------------------------------------------------------------------------ acting

    def beginning(self, player: str) -> Callable[[RunState, Any], Any]:
        """The compiled start of a round for the learner's `policy`, its `tested` player, or one of its controls."""
        if player not in self._beginnings:
            self._beginnings[player] = jax.jit(partial(self._begin_seeds, player=player))
        return self._beginnings[player]

    def _begin_seeds(
        self, state: RunState, first: Array | int, *, player: str
    ) -> tuple[Any, Any, Lineup | None, Array, Array]:
        """Player [S, ...], memory [S, ...], lineup, keys [S, 2] and epsilon [S] of a round.

        `first` is the number of a test's episodes before this round, so that its rounds have different teams.
        """

        def one(learner: Any, key: Array, t_env: Count) -> tuple[Any, Any, Lineup | None, Array, Array]:
            if player == "policy":
                acting, play_key, epsilon = self.learner.policy(learner), self._split(key)[1], self._epsilon(t_env)
            else:
                acting = self.learner.tested(learner) if player == "tested" else self.learner.control(learner, player)
                acting = None if self.learner_watches else acting
                play_key = jax.random.fold_in(jax.random.fold_in(key, TEST_STREAM), first)
                epsilon = jnp.float32(0.0 if self.config.test_greedy else self.config.epsilon_finish)
            act_key, team_key = jax.random.split(play_key)
            policy = self._play_with(acting, state.squad)
            memory = policy.initial(self.config.batch_size_run, team_key)
            return acting, memory, policy.lineup(memory), act_key, epsilon

        found: tuple[Any, Any, Lineup | None, Array, Array] = self._for_seeds(one)(
            state.learner, state.key, state.t_env
        )
        return found

    def acting(self, player: str, structure: Any) -> Any:
        """`_act_seeds` of a player of `beginning`, compiled, for the leaves of its pytree; the memory is used up.

        It is called at every step of every game. To take a player's modules apart each time would take as long as to
        ask its network.
        """
        if player not in self._acts:

            def act(leaves: list[Array], *given: Any) -> tuple[Array, Any, dict[str, Array]]:
                return self._act_seeds(jax.tree.unflatten(structure, leaves), *given)

            self._acts[player] = jax.jit(act, donate_argnums=2)
        return self._acts[player]

    def _for_seeds(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` for all seeds, [S, ...]; with one seed called as it is, which a CPU does faster than mapped."""
        if self.seeds_axis is not None:
            return jax.vmap(function, axis_name=self.seeds_axis)

        def alone(*given: Any) -> Any:
            found = function(*jax.tree.map(lambda leaf: leaf[0], given))
            return jax.tree.map(lambda leaf: leaf[None], found)

        return alone

    def _act_seeds(
        self, player: Any, squad: Any, memory: Any, key: Array, epsilon: Array, t: Array, seen: Observation
    ) -> tuple[Array, Any, dict[str, Array]]:
        """Actions [S, B, A], the new memory and records [S, B, ...] of time slot `t`."""

        def one(player: Any, memory: Any, key: Array, epsilon: Array, seen: Observation) -> tuple[Array, Any, Any]:
            policy = self._play_with(player, squad)
            return policy.act(seen, memory, jax.random.fold_in(key, t), epsilon)

        found: tuple[Array, Any, dict[str, Array]] = self._for_seeds(one)(player, memory, key, epsilon, seen)
        return found

    # ------------------------------------------------------------------------------------------------ tests

    def _play_test(self, state: RunState) -> tuple[EpisodeStats, dict[str, Array]]:
        """`Program.test`: N test episodes per seed, in rounds, and what the learner finds in them."""
        batch, stats = self._test_rounds(state, "tested", record=self.learner.examines)
        if self.config.save_replay:
            self._games().save_replays()
        return stats, {} if batch is None else self._examine(state, batch)

    def _play_control(self, state: RunState, name: str) -> EpisodeStats:
        """The games of the newest test, played by one of the learner's controls, [S, N]."""
        return self._test_rounds(state, name, record=False)[1]

    def _test_rounds(self, state: RunState, player: str, *, record: bool) -> tuple[EpisodeBatch | None, EpisodeStats]:
        parts: list[tuple[EpisodeBatch, EpisodeStats]] = []
        games, total = self.config.batch_size_run, self.config.test_nepisode
        for first in range(0, total, games):
            chooser = _Choices(self, state, player, first)
            played = self._round(chooser, _TESTING)
            parts.append(self._episodes(played, chooser.lineup))

        def joined(*values: Any) -> np.ndarray:
            return np.concatenate(values, axis=1)[:, :total]

        batch = jax.tree.map(joined, *(part[0] for part in parts)) if record else None
        return batch, jax.tree.map(joined, *(part[1] for part in parts))

    def _examine_seeds(self, state: RunState, batch: EpisodeBatch) -> dict[str, Array]:
        def one(learner: Any, key: Array, batch: EpisodeBatch) -> dict[str, Array]:
            key = jax.random.fold_in(jax.random.fold_in(key, TEST_STREAM), EXAMINE_STREAM)
            return self.learner.examine(learner, batch, key)

        return jax.vmap(one, axis_name=SEEDS_AXIS)(state.learner, state.key, batch)


class _Choices:
    """A `runners.host.Chooser` over the compiled `act` of a program."""

    def __init__(self, program: HostProgram, state: RunState, player: str, first: int = 0) -> None:
        self.program, self.state, self.player, self.first = program, state, player, first
        self.lineup: Lineup | None = None
        self.seconds = 0.0
        """Spent in compiled programs."""

    def begin(self) -> None:
        """Memories and teams of a new round; the same whenever it is called."""
        began = time.perf_counter()
        beginning = self.program.beginning(self.player)
        player, self._memory, self.lineup, self._key, self._epsilon = beginning(self.state, np.int32(self.first))
        self._leaves, structure = jax.tree.flatten(player)
        self._act = self.program.acting(self.player, structure)
        self._no_exploring = np.zeros(self.program.config.seeds, np.float32)
        self.seconds += time.perf_counter() - began

    def choose(self, t: int, seen: Seen, *, last: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """See `Chooser`."""
        began = time.perf_counter()
        seeds = self.program.config.seeds
        shaped: list[Any] = [values.reshape(seeds, -1, *values.shape[1:]) for values in seen]
        epsilon = self._no_exploring if last else self._epsilon
        actions, self._memory, records = self._act(
            self._leaves, self.state.squad, self._memory, self._key, epsilon, np.int32(t), Observation(*shaped)
        )
        chosen = np.asarray(actions)
        self.seconds += time.perf_counter() - began
        flat = {name: np.asarray(values).reshape(-1, *values.shape[2:]) for name, values in records.items()}
        return chosen.reshape(-1, chosen.shape[-1]), flat
