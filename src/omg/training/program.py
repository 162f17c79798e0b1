"""The compiled heart of a run: play, store and learn for all seeds at once.

`Program.chunk` advances a `RunState` by a fixed number of iterations. Where play is compiled it does so without
returning to Python. Saving the state saves the run, loading it resumes the run bit for bit.

Letters in shapes: Z seeds, E test episodes of a seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Generic, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.stages import Compiled, Lowered

from omg.components import Count, EpisodeBatch
from omg.components.replay import Storage
from omg.config import Config
from omg.envs import Env, make_env
from omg.envs.adapters.host import is_hosted
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.base import Learner, S
from omg.modules.convolutions import on_cpu
from omg.modules.opponent_models.prior import Prior
from omg.runners.vector import OWN_RETURN, EpisodeStats, Film, Filmed, Rollout
from omg.stopping import Coming, signal_of
from omg.training.adapting import PLAYERS
from omg.training.collecting import TESTED, CompiledCollector, MakeCollector, Say, Seating
from omg.training.compile_times import CompileTimes
from omg.training.device import compile_cache
from omg.training.hosted import HostCollector
from omg.training.learning import Learning, Metrics, Rows
from omg.training.measures import MEASURES, ExaminedEpisodes, take_measures
from omg.training.obs_adapter import Maps
from omg.training.spread import Spread
from omg.training.start import Given, adopt, load_prior_for, starting_learner, starting_weights
from omg.training.state import SEEDS_AXIS, IterationLog, RunState, Seated
from omg.training.team import TeamSetup, build_team
from omg.training.tuned import Tuned, check_by_seed, tuned_for
from omg.types import PyTree

Chunk = Callable[[RunState[S]], tuple[RunState[S], IterationLog]]
TakeIn = Callable[[RunState[S], Rollout], tuple[RunState[S], IterationLog]]
Learned = tuple[S, Array, Count, IterationLog]
"""Learner, key, steps and log after the updates of a round."""
_TESTS, _CHUNK = "tests", "play with learning"
"""The two compiled programs of a run whose games are compiled."""
_WORTH_TELLING = 5.0
"""Seconds of compilation from which on each program is named with its own."""


class Lowers(Protocol):
    """A function that can be compiled."""

    def lower(self, state: RunState, /) -> Lowered:
        """Its program for arguments of these shapes."""
        ...


class Tested(NamedTuple):
    """What a test brought."""

    stats: EpisodeStats
    """[Z, E]."""
    metrics: Metrics
    """What the learner measured, name -> [Z]."""
    film: Filmed | None = None
    """[Z, F, ...] of the first F games, with `save_replay`."""


Test = Callable[[RunState[S]], Tested]


def build_program(config: Config, env: Env | None = None) -> Program:
    """The program of a configuration: compiled play for JAX games, a host runner for all others.

    Args:
        config: what to train.
        env: its game, where it has been built already.
    """
    env = make_env(config.env, **config.env_args) if env is None else env
    if not is_hosted(env):
        return Program(config, env)
    if config.devices > 1:
        raise UserError(
            f"devices: got {config.devices}, but games of {env.spec.name} are no JAX programs; what they bring is "
            f"learned on one device. Allowed: 1."
        )
    return Program(config, env, collector=HostCollector)


def film_of(config: Config, env: Env) -> Film | None:
    """What is filmed of the tests of a run; None: nothing. Games on the host save replays of their own, or none."""
    if not config.save_replay or is_hosted(env):
        return None
    scenery = scenery_of(env)
    return Film(min(config.replay_games, config.test_nepisode), None if scenery is None else scenery.show)


class Program(Generic[S]):
    """Compiled functions of one configuration."""

    def __init__(
        self,
        config: Config,
        env: Env | None = None,
        *,
        team: TeamSetup | None = None,
        collector: MakeCollector[S] = CompiledCollector,
        keep_prior: bool = False,
        spread: Spread | None = None,
    ) -> None:
        """Builds everything that the configuration names.

        Args:
            config: what to train.
            env: its game, where it has been built already.
            team: stands in for the team that the configuration names.
            collector: how episodes are played.
            keep_prior: a prior of subgoals is not learned along, even where none is given: the agent brings its own.
            spread: stands in for the devices that the configuration asks for.

        Raises:
            UserError: what the configuration asks for cannot be had.
        """
        self.config = config
        self.env: Env = make_env(config.env, **config.env_args) if env is None else env
        self.spec = self.env.spec
        self.team = build_team(config, self.env) if team is None else team
        squad = None if self.team is None else self.team.squad
        self.partners = 0 if squad is None else squad.size
        draw = None if self.team is None else self.team.draw
        self.film = film_of(config, self.env)
        """What is filmed of tests."""
        self.measures = {name: MEASURES[name].build for name in config.measure}
        """What the key `measure` asks for."""
        self.prior, self.prior_card, maps = load_prior_for(config, self.env, squad)
        learns_prior = self.prior is None and not keep_prior

        def learner_with(config: Config) -> Learner[S]:
            return build_learner(config, self.spec, draw, self.partners, learns_prior=learns_prior)

        check_by_seed(config)
        self.learner: Learner[S] = learner_with(config)
        self.obs_adapters: Maps = {**self._players_map(), **maps}
        """Maps by which players and priors of `obs_is_state` read observations."""
        self._check_adapters()
        self.weights = starting_weights(config, self.spec, self.partners, config.seeds)
        self.learned = starting_learner(config, self.learner, config.seeds)
        self.spread = Spread(config) if spread is None else spread
        seating = Seating(config, self.env, self.learner, self.team, self.spread)
        self.learner_watches = seating.watches
        """Whether the learner has no seat itself."""
        self._check_steps()
        self.coming: Coming[Compiled] | None = None
        """The compiled chunk, from when `compile` has begun with it."""
        self.collector = collector(seating)
        self.learning = Learning(seating, self.collector.seeds.axis, learner_with)
        start = self.spread.init(self._init)
        # Arguments and not constants of the program, so that other players and weights need no other compilation.
        self.init: Callable[[Array], RunState[S]] = lambda seeds: start(
            seeds, self.prior, (self.weights, self.learned), self.collector.squad(), tuned_for(config, len(seeds))
        )
        self._compiled_chunk, self._compiled_test = self.spread.chunk(self._chunk), self.spread.look(self._test)
        self._take_in_round, self._examine_round = jax.jit(self._take_in, donate_argnums=0), jax.jit(self._examine)
        inside = self.collector.inside
        self.chunk: Chunk[S] = self._compiled_chunk if inside else self._play_and_learn
        self.test: Test[S] = self._compiled_test if inside else self._play_and_examine
        self.controls: dict[str, Callable[[RunState[S]], EpisodeStats]] = {
            name: self.spread.look(partial(self._control, name=name)) if inside else partial(self._control, name=name)
            for name in self.learner.controls
        }

    # ------------------------------------------------------------------------------------------------------- facts

    @property
    def examines(self) -> bool:
        """Whether test episodes are looked at, by the learner or by measures."""
        return self.learner.examines or bool(self.measures)

    @property
    def sequences(self) -> int:
        """Episodes of one update."""
        return self.learning.sequences

    @property
    def updates(self) -> int:
        """Updates of a round, when some are due."""
        return self.learning.updates

    @property
    def iterations(self) -> int:
        """Rounds of one chunk."""
        return self.collector.iterations

    @property
    def host_seconds(self) -> float:
        """How long the newest chunk kept the host busy outside compiled programs."""
        return self.collector.host_seconds

    @property
    def success_metric(self) -> str:
        """What tells good from bad play; where everybody has a reward, that of the seats that learn."""
        own = self.team is not None and self.spec.reward_per_agent and not self.learner_watches
        return OWN_RETURN if own else self.spec.success_metric

    def storage_shape(self) -> Storage:
        """Shapes of one seed's replay buffer."""
        return jax.eval_shape(self.learning.empty_storage)

    def storage_bytes(self) -> int:
        """Size of one seed's replay buffer."""
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.storage_shape()))

    def _players_map(self) -> Maps:
        fitted = None if self.team is None else self.team.obs_adapter
        return {} if fitted is None else {PLAYERS: fitted}

    def _check_adapters(self) -> None:
        if self.config.obs_adapter == "learn" and not self.obs_adapters:
            raise UserError(
                "obs_adapter: got learn, but neither a frozen player nor the prior of this run was trained with "
                "obs_is_state=True. Allowed: none."
            )

    def _check_steps(self) -> None:
        games, limit = self.config.batch_size_run, self.spec.episode_limit
        if games * (limit + 1) >= 2**31:
            raise UserError(
                f"batch_size_run: got {games}; a round of games of {limit} steps may have at most 2^31 - 1 steps. "
                f"Allowed: at most {(2**31 - 1) // (limit + 1)}."
            )

    # ----------------------------------------------------------------------------------------------- from outside

    def compile(self, state: RunState[S], say: Say) -> tuple[Chunk[S], Test[S]]:
        """Makes `test` ready and begins with `chunk`, and opens the games that play needs.

        A run begins with a test. On a CPU `chunk` is compiled while it is made; the first call of it waits until it is
        there, or whoever asks for signals waits for `coming`.

        Args:
            state: of the run that they are compiled for.
            say: receives what the user should know while the run goes on.
        """
        shapes = self.collector.open(state, say)
        if shapes is not None:
            taken_in = self._take_in_round.lower(state, shapes).compile()
            return partial(self._play_and_learn, take_in=taken_in), self.test
        tracing, times = Lock(), self._compile_times()

        def ready(name: str, program: Lowers) -> Compiled:
            # Python traces one program at a time; meanwhile the one before is compiled already.
            with tracing:
                begun = time.perf_counter()
                lowered = program.lower(state)
                if (seconds := time.perf_counter() - begun) > _WORTH_TELLING:
                    say(f"traced {name} in {seconds:.1f} s")
            begun = time.perf_counter()
            made = lowered.compile()
            if (seconds := time.perf_counter() - begun) > _WORTH_TELLING:
                say(f"compiled {name} in {seconds:.1f} s")
            times.keep(name, seconds)
            return made

        test = Coming(partial(ready, _TESTS, self._compiled_test))
        self.coming = coming = Coming(partial(ready, _CHUNK, self._compiled_chunk))
        try:
            tested = test.result()
            if not on_cpu():
                coming.result()  # Accelerators measure kernels while they compile: nothing runs beside that.
        except KeyboardInterrupt as error:
            coming.leave_behind(signal_of(error))
            raise
        return lambda state: coming.result()(state), tested

    def compiling(self) -> str:
        """What `compile` is about to do, in words, with what each program took when it was last compiled."""
        if not self.collector.inside:
            return "compiling learning"
        times = self._compile_times()
        last = {name: times.last(name) for name in (_TESTS, _CHUNK)}
        shown = (name if took is None else f"{name} (last time {took:.0f} s)" for name, took in last.items())
        return f"compiling {' and '.join(shown)}"

    def _compile_times(self) -> CompileTimes:
        return CompileTimes(compile_cache(), self.config, self.spread.words)

    def close(self) -> None:
        """Frees what the collector holds outside this process."""
        self.collector.close()

    # --------------------------------------------------------------------------------------------------- compiled

    def _init(self, seeds: Array, prior: Prior | None, given: Given, squad: Seated, tuned: Tuned) -> RunState[S]:
        """A fresh run for `seeds` [Z] uint32, from a given prior, agent and learner [Z, ...] and frozen players."""

        def one(seed: Array, given: Given) -> tuple[S, Storage, Array]:
            key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
            return adopt(self.learner.init(learner_key), prior, *given), self.learning.empty_storage(), key

        learner, storage, key = jax.vmap(one)(seeds, given)
        steps = Count.of(0, seeds.shape)
        return RunState(learner, storage, key, steps, jnp.int32(0), jnp.int32(0), squad, tuned)

    def _chunk(self, state: RunState[S]) -> tuple[RunState[S], IterationLog]:
        """`iterations` times: a round of play, and what is learned from it."""

        def iteration(state: RunState[S], _: None) -> tuple[RunState[S], IterationLog]:
            return self._learn_from(state, self.collector.collect(state))

        return jax.lax.scan(iteration, state, None, length=self.iterations)

    def _learn_from(self, state: RunState[S], rollout: Rollout) -> tuple[RunState[S], IterationLog]:
        """Stores a round [Z, B, ...] and makes the updates that are due; the log has the axis [Z]."""
        episodes = state.episodes + self.config.batch_size_run
        stored = state.stored + self.config.batch_size_run
        seeds = self.collector.seeds
        own = (state.learner, state.key, state.t_env, rollout.stats, state.tuned)
        learner, storage = state.learner, state.storage
        if rollout.batch is None or storage is None:  # Episodes that were not recorded are only counted.
            key, t_env, log = seeds(self.learning.count)(state.key, state.t_env, rollout.stats)
        else:
            storage = seeds.at_once(partial(self.learning.store, stored=stored))(storage, rollout)
            learn = partial(self.learning.learn, episodes=episodes, stored=stored)
            if seeds.axis is None:
                learner, key, t_env, log = self._learn_in_turn(learn, storage, own)
            else:
                learner, key, t_env, log = seeds(lambda storage, *own: learn(Rows(storage), *own))(storage, *own)
        return RunState(learner, storage, key, t_env, episodes, stored, state.squad, state.tuned), log

    def _learn_in_turn(self, learn: Callable[..., Learned[S]], storage: Storage, own: tuple[PyTree, ...]) -> Learned[S]:
        """One seed after the other learns, from all replay buffers where they lie: a turn copies none of them."""
        seeds, rows = storage.filled.shape[:2]
        behind = jax.tree.map(lambda leaf: leaf.reshape(seeds * rows, *leaf.shape[2:]), storage)
        first = jnp.arange(seeds, dtype=jnp.int32) * rows
        return self.collector.seeds(lambda first, *own: learn(Rows(behind, first), *own))(first, *own)

    def _take_in(self, state: RunState[S], rollout: Rollout) -> tuple[RunState[S], IterationLog]:
        """`_learn_from`, with the log of a chunk of one iteration, [1, Z, ...]."""
        state, log = self._learn_from(state, rollout)
        return state, jax.tree.map(lambda values: values[None], log)

    def _test(self, state: RunState[S]) -> Tested:
        """Plays `test_nepisode` test episodes per seed and lets the learner examine them."""
        rollout = self.collector.test(state, TESTED, record=self.examines, film=self.film)
        found = {} if rollout.batch is None else self._examine(state, rollout.batch)
        return Tested(rollout.stats, found, rollout.film)

    def _examine(self, state: RunState[S], batch: EpisodeBatch) -> Metrics:
        def one(learner: S, key: Array, batch: EpisodeBatch) -> Metrics:
            found = self.learner.examine(learner, batch, self.collector.examine_key(key))
            return found | take_measures(self.measures, self._examined(learner, batch)) if self.measures else found

        return jax.vmap(one, axis_name=SEEDS_AXIS)(state.learner, state.key, batch)

    def _examined(self, learner: S, batch: EpisodeBatch) -> ExaminedEpisodes:
        """What measures are given."""
        draw = None if self.team is None or batch.seat is None or self.learner_watches else self.team.draw
        seats = None if draw is None or batch.seat is None else draw.main_seats(batch.seat)
        return ExaminedEpisodes(batch, self.learner.tested(learner), seats, self.partners, self.spec)

    def _control(self, state: RunState[S], name: str) -> EpisodeStats:
        """The games of `test`, played by one of the learner's controls, [Z, E]."""
        return self.collector.test(state, name, record=False).stats

    # ----------------------------------------------------------------------------------- around a collector outside

    def _play_and_learn(
        self,
        state: RunState[S],
        take_in: TakeIn[S] | None = None,
    ) -> tuple[RunState[S], IterationLog]:
        """A chunk of one iteration; `state` is donated only after the last episode is over."""
        rollout = self.collector.collect(state)
        state, log = (take_in or self._take_in_round)(state, rollout)
        dropped = self.collector.dropped()
        return state, log._replace(dropped=None if dropped is None else dropped[None])

    def _play_and_examine(self, state: RunState[S]) -> Tested:
        """`_test`, with the learner's look at the episodes compiled alone."""
        rollout = self.collector.test(state, TESTED, record=self.examines)
        return Tested(rollout.stats, {} if rollout.batch is None else self._examine_round(state, rollout.batch))
