"""The compiled heart of a run: play, store and learn for all seeds at once.

`RunState` is one pytree with everything a run consists of; `Program.chunk` advances it by a fixed number of
iterations without returning to Python. Saving the state saves the run, loading it resumes the run bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import Count, EpisodeBatch, replay
from omg.components.schedules import linear
from omg.config import Config, update_rhythm
from omg.controllers.team import TeamPolicy
from omg.envs import Env, make_env
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.hop_plus import HOPPlusLearner
from omg.learners.subgoals import SubgoalLearner
from omg.runners import RUNNERS
from omg.runners.vector import OWN_RETURN, EpisodeStats, Rollout
from omg.stopping import side_by_side
from omg.training.adapting import PLAYERS
from omg.training.cuts import Cut, Part, choose_cut, cuts_for, read_cut
from omg.training.obs_adapter import Maps
from omg.training.start import adopt, load_prior_for, starting_learner, starting_weights
from omg.training.team import TeamSetup, build_team

SEEDS_AXIS = "seeds"
TEST_STREAM = 0x7E57
EXAMINE_STREAM = 0xE8A1


class RunState(NamedTuple):
    """Everything that changes during a run. S seeds lead every array except the shared episode counter."""

    learner: Any
    """Parameters, targets and optimiser of the learner, [S, ...]."""
    storage: Any
    """Replay buffer, [S, buffer_size, ...]."""
    key: Array
    """[S, 2] uint32."""
    t_env: Count
    """[S], environment steps."""
    episodes: Array
    """[] int32, episodes played by each seed."""
    stored: Array
    """[] int32, episodes put into the replay buffer; fewer than `episodes` after a resume without its buffer."""
    squad: Any = None
    """The frozen players of a team, the same for all seeds; None without a team."""


class IterationLog(NamedTuple):
    """What one iteration tells the host; a chunk stacks them to [K, S, ...]."""

    stats: EpisodeStats
    learner: dict[str, Array]
    """Means over the iteration's updates; all-zero while `updates` is 0."""
    updates: Array
    epsilon: Array
    t_env: Count
    active: Array
    """Whether the seed was still training (it stops at `t_max`)."""
    dropped: Array | None = None
    """Episodes lost since the log before because their game failed, those of tests included; None for JAX games."""


def iterations_per_chunk(config: Config, episode_limit: int) -> int:
    """Enough iterations to make the host's work negligible, few enough to test and log in time; with `debug` one."""
    if config.debug:
        return 1
    shortest = min(config.test_interval, config.log_interval, config.t_max)
    return int(max(1, min(16, shortest // (config.batch_size_run * episode_limit))))


class Program:
    """Compiled functions of one configuration."""

    def __init__(self, config: Config, team: TeamSetup | None = None) -> None:
        """Builds everything that the configuration names; `team` stands in for the team that it names."""
        self.config = config
        self.env: Env = make_env(config.env, **config.env_args)
        self.spec = self.env.spec
        self.play_episodes = RUNNERS[config.runner].build.play
        self.team = build_team(config, self.env) if team is None else team
        self.partners = 0 if self.team is None else self.team.squad.size
        draw = None if self.team is None else self.team.draw
        self.learner = build_learner(config, self.spec, draw, self.partners)
        squad = None if self.team is None else self.team.squad
        self.prior, self.prior_card, maps = load_prior_for(config, self.env, squad)
        self.adapters: Maps = {**self._players_map(), **maps}
        """Maps by which players and priors of `obs_is_state` read observations."""
        self._check_adapters()
        self.weights = starting_weights(config, self.spec, self.partners, config.seeds)
        self.learned = starting_learner(config, self.learner, config.seeds)
        if isinstance(self.learner, SubgoalLearner | HOPPlusLearner):
            self.learner.learns_prior = self.prior is None
        self.learner_watches = config.learner_part.watches
        """Whether the learner has no seat itself."""
        self.sequences = self._sequences_per_update()
        self.dtype = jnp.dtype(config.buffer_dtype)
        self.updates, self.period = update_rhythm(config)
        self.cuts = self._cuts()
        self.iterations = iterations_per_chunk(config, self.spec.episode_limit)
        if config.batch_size_run * (self.spec.episode_limit + 1) >= 2**31:
            raise UserError(
                f"batch_size_run: got {config.batch_size_run}; a round of games of {self.spec.episode_limit} steps may "
                f"have at most 2^31 - 1 steps. Allowed: at most {(2**31 - 1) // (self.spec.episode_limit + 1)}."
            )
        self.seeds_axis: str | None = SEEDS_AXIS
        """Name of the mapped axis of the seeds; None where they are not mapped."""
        start = jax.jit(self._init)
        # Arguments and not constants of the program, so that other players and weights need no other compilation.
        self.init: Callable[[Array], RunState] = lambda seeds: start(
            seeds, self.prior, (self.weights, self.learned), squad
        )
        self.chunk: Callable[[RunState], tuple[RunState, IterationLog]] = jax.jit(self._chunk, donate_argnums=0)
        self.test: Callable[[RunState], tuple[EpisodeStats, dict[str, Array]]] = jax.jit(self._test)
        self.controls: dict[str, Callable[[RunState], EpisodeStats]] = {
            name: jax.jit(partial(self._control, name=name)) for name in self.learner.controls
        }

    def _players_map(self) -> Maps:
        fitted = None if self.team is None else self.team.adapter
        return {} if fitted is None else {PLAYERS: fitted}

    def _check_adapters(self) -> None:
        if self.config.obs_adapter == "learn" and not self.adapters:
            raise UserError(
                "obs_adapter: got learn, but neither a frozen player nor the prior of this run was trained with "
                "obs_is_state=True. Allowed: none."
            )

    host_seconds = 0.0
    """How long the newest chunk kept the host busy outside compiled programs."""

    def compile(self, state: RunState, say: Callable[[str], None]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Compiles `chunk` and `test`, side by side.

        Args:
            state: of the run that they are compiled for.
            say: receives what the user should know while the run goes on.
        """
        programs: tuple[Any, ...] = (self.chunk, self.test)
        lowered = [program.lower(state) for program in programs]
        chunk, test = side_by_side([program.compile for program in lowered])
        return chunk, test

    def close(self) -> None:
        """Frees what the program holds outside this process: nothing, where play is compiled."""

    def _sequences_per_update(self) -> int:
        """Episodes of one update: `batch_size` sampled ones, or with rotated seats as many for every seat.

        Learners of policies use all episodes of the round just played, and no others.
        """
        if self.config.learner_part.on_policy:
            return self._episodes_of_a_round()
        rotated = self.team is not None and self.config.is_agent_shift and not self.learner_watches
        sequences = self.config.batch_size * (self.spec.n_agents if rotated else 1)
        if sequences > self.config.buffer_size:
            raise UserError(
                f"buffer_size: got {self.config.buffer_size}, but one update of a team whose seats are rotated sees "
                f"batch_size {self.config.batch_size} x {self.spec.n_agents} seats = {sequences} episodes. "
                f"Allowed: at least {sequences}."
            )
        return sequences

    def _cuts(self) -> tuple[Cut, ...]:
        """The ways in which batches are cut; whole where the learner wants them so."""
        kept, limit = self.learner.kept, self.spec.episode_limit
        if not kept.cut:
            return ((Part(self.sequences, limit),),)
        return cuts_for(self.sequences, limit, few=self.team is not None, parts=kept.parts)

    def _episodes_of_a_round(self) -> int:
        """`batch_size_run`, if the buffer holds just these and they are learned from once."""
        config, games = self.config, self.config.batch_size_run
        given = (config.buffer_size, config.batch_size, update_rhythm(config))
        if given != (games, games, (1, 1)):
            raise UserError(
                f"buffer_size: got {config.buffer_size} with batch_size={config.batch_size} and updates_per_episode="
                f"{config.updates_per_episode:g}, but learner={config.learner} learns once from exactly the "
                f"batch_size_run={games} episodes just played. Allowed: {games}, {games} and {1 / games:g}."
            )
        return games

    @property
    def success_metric(self) -> str:
        """What tells good from bad play; where everybody has a reward, that of the seats that learn."""
        own = self.team is not None and self.spec.reward_per_agent and not self.learner_watches
        return OWN_RETURN if own else self.spec.success_metric

    def _play_with(self, player: Any, squad: Any) -> Any:
        """The policy of all seats: the player itself, or a team that it sits in."""
        if self.team is None:
            return player
        return TeamPolicy(player, squad, self.team.draw, tell_players=self.config.model_part.told_players)

    def storage_shape(self) -> Any:
        """Shapes of one seed's replay buffer."""
        return jax.eval_shape(self._storage)

    def storage_bytes(self) -> int:
        """Size of one seed's replay buffer."""
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.storage_shape()))

    def _storage(self) -> Any:
        kept = self.learner.kept
        return replay.storage_for(
            self.spec,
            self.config.buffer_size,
            self.config.buffer_dtype,
            seat=self.team is not None,
            columns=kept.columns,
            state=kept.state,
            records=kept.records,
        )

    def _init(self, seeds: Array, prior: Any, given: Any, squad: Any) -> RunState:
        """A fresh run for `seeds` [S] uint32, from a given prior, agent and learner [S, ...] and frozen players."""

        def one(seed: Array, given: Any) -> tuple[Any, Any, Array]:
            key, learner_key = jax.random.split(jax.random.PRNGKey(seed))
            return adopt(self.learner.init(learner_key), prior, *given), self._storage(), key

        learner, storage, key = jax.vmap(one)(seeds, given)
        return RunState(learner, storage, key, Count.of(0, seeds.shape), jnp.int32(0), jnp.int32(0), squad)

    def _chunk(self, state: RunState) -> tuple[RunState, IterationLog]:
        def iteration(state: RunState, _: None) -> tuple[RunState, IterationLog]:
            episodes = state.episodes + self.config.batch_size_run
            stored = state.stored + self.config.batch_size_run
            one = jax.vmap(
                partial(self._iterate, episodes=episodes, stored=stored, squad=state.squad), axis_name=SEEDS_AXIS
            )
            learner, storage, key, t_env, log = one(state.learner, state.storage, state.key, state.t_env)
            return RunState(learner, storage, key, t_env, episodes, stored, state.squad), log

        return jax.lax.scan(iteration, state, None, length=self.iterations)

    def _iterate(
        self, learner: Any, storage: Any, key: Array, t_env: Count, *, episodes: Array, stored: Array, squad: Any
    ) -> tuple[Any, Any, Array, Count, IterationLog]:
        """One seed: play `batch_size_run` episodes, store them, update. The counters include these episodes."""
        rollout = self.play_episodes(
            self.env,
            self._play_with(self.learner.policy(learner), squad),
            self._split(key)[1],
            self.config.batch_size_run,
            self._epsilon(t_env),
            dtype=self.dtype,
            axis_name=SEEDS_AXIS,
        )
        assert rollout.batch is not None
        return self._take_in(
            learner, storage, key, t_env, rollout.batch, rollout.stats, episodes=episodes, stored=stored
        )

    @staticmethod
    def _split(key: Array) -> tuple[Array, Array, Array]:
        """The key of the next iteration, and those of this one's play and samples."""
        next_key, play_key, sample_key = jax.random.split(key, 3)
        return next_key, play_key, sample_key

    def _epsilon(self, t_env: Count) -> Array:
        config = self.config
        return linear(t_env, config.epsilon_start, config.epsilon_finish, config.epsilon_anneal_time)

    def _take_in(
        self,
        learner: Any,
        storage: Any,
        key: Array,
        t_env: Count,
        batch: EpisodeBatch,
        stats: EpisodeStats,
        *,
        episodes: Array,
        stored: Array,
    ) -> tuple[Any, Any, Array, Count, IterationLog]:
        """One seed: store newly played episodes and make the updates that are due. The counters include them."""
        config = self.config
        next_key, _, sample_key = self._split(key)
        storage = replay.insert(storage, self.learner.keep(batch), stored - config.batch_size_run)
        active = t_env.below(config.t_max)
        updated, metrics, count = self._learn(learner, storage, sample_key, episodes, stored, t_env)
        # A seed that has reached t_max stays as it is, so its result does not depend on its neighbours.
        learner, key = jax.tree.map(lambda new, old: jnp.where(active, new, old), (updated, next_key), (learner, key))
        epsilon = self._epsilon(t_env)
        t_env = t_env.plus(jnp.where(active, stats.lengths.sum(), 0))
        log = IterationLog(stats, metrics, jnp.where(active, count, 0), epsilon, t_env, active)
        return learner, storage, key, t_env, log

    def _learn(
        self, learner: Any, storage: Any, key: Array, episodes: Array, stored: Array, t_env: Count
    ) -> tuple[Any, dict[str, Array], Array]:
        """The updates due after `episodes` episodes; returns the learner, mean metrics and the number of updates."""
        config = self.config
        size = jnp.minimum(stored, config.buffer_size)
        key, update_key = jax.random.split(key)
        batches = replay.sample_indices(key, size, config.buffer_size, self.sequences, self.updates)
        keys = jax.random.split(update_key, self.updates)
        batches, cuts = choose_cut(self.cuts, storage, batches, self.seeds_axis)
        first = episodes - config.batch_size_run
        reached = first + ((jnp.arange(self.updates) + 1) * config.batch_size_run) // self.updates

        def update(learner: Any, due: tuple[Array, Array, Array, Array]) -> tuple[Any, dict[str, Array]]:
            indices, cut, episode, key = due

            def with_cut(cut: Cut, learner: Any, indices: Array) -> tuple[Any, dict[str, Array]]:
                return self.learner.update(learner, read_cut(cut, storage, indices), episode, t_env, key)

            return jax.lax.switch(cut, [partial(with_cut, cut) for cut in self.cuts], learner, indices)

        def run() -> tuple[Any, dict[str, Array], Array]:
            changed, metrics = jax.lax.scan(update, learner, (batches, cuts, reached, keys))
            return changed, jax.tree.map(lambda values: values.mean(axis=0), metrics), jnp.int32(self.updates)

        def wait() -> tuple[Any, dict[str, Array], Array]:
            shapes = jax.eval_shape(run)[1]
            return learner, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes), jnp.int32(0)

        due = (stored >= self.sequences) & ((episodes // config.batch_size_run) % self.period == 0)
        return jax.lax.cond(due, run, wait)

    def _test(self, state: RunState) -> tuple[EpisodeStats, dict[str, Array]]:
        """Plays `test_nepisode` test episodes per seed and lets the learner examine them.

        Leaves the run's random numbers alone.

        Returns:
            Statistics [S, N], and what the learner measured, name -> [S].
        """

        def one(learner: Any, key: Array) -> tuple[EpisodeStats, dict[str, Array]]:
            player = self.learner.tested(learner)
            rollout = self._test_games(player, state.squad, key, record=self.learner.examines)
            if rollout.batch is None:
                return rollout.stats, {}
            examine_key = jax.random.fold_in(key, EXAMINE_STREAM)
            return rollout.stats, self.learner.examine(learner, rollout.batch, examine_key)

        return jax.vmap(one, axis_name=SEEDS_AXIS)(state.learner, state.key)

    def _control(self, state: RunState, name: str) -> EpisodeStats:
        """The games of `test`, played by one of the learner's controls, [S, N]."""

        def one(learner: Any, key: Array) -> EpisodeStats:
            return self._test_games(self.learner.control(learner, name), state.squad, key, record=False).stats

        return jax.vmap(one, axis_name=SEEDS_AXIS)(state.learner, state.key)

    def replay(self, state: RunState, show: Callable[[Any], Any]) -> Rollout:
        """The games of `test` once more, with what `show` sees of the game's state in every slot, [S, N, T+1, ...]."""

        def one(learner: Any, key: Array) -> Rollout:
            return self._test_games(self.learner.tested(learner), state.squad, key, record=True, show=show)

        return jax.jit(jax.vmap(one, axis_name=SEEDS_AXIS))(state.learner, state.key)

    def _test_games(
        self, player: Any, squad: Any, key: Array, *, record: bool, show: Callable[[Any], Any] | None = None
    ) -> Rollout:
        """Test episodes of one seed; the same games whoever plays them."""
        return self.play_episodes(
            self.env,
            self._play_with(None if self.learner_watches else player, squad),
            jax.random.fold_in(key, TEST_STREAM),
            self.config.test_nepisode,
            jnp.float32(0.0 if self.config.test_greedy else self.config.epsilon_finish),
            record=record,
            axis_name=SEEDS_AXIS,
            show=show,
        )
