"""The second half of an iteration: newly played episodes are stored, and the updates that are due are made.

Letters in shapes: Z seeds, B games of a round. Everything here is of one seed, inside compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import Count, ended_by_limit, replay
from omg.components.replay import Storage
from omg.config import Config, update_rhythm
from omg.errors import UserError
from omg.learners.base import Learner, S
from omg.learners.keys import LimitKeys
from omg.runners.vector import EpisodeStats, Rollout
from omg.training.collecting import Seating
from omg.training.cuts import Cut, Due, Portion, choose_cuts, cuts_for, read_cut, worth_packing
from omg.training.state import IterationLog, exploration, split_key
from omg.training.tuned import Tuned, with_rates

Metrics = dict[str, Array]


class Rows(NamedTuple):
    """Where the episodes of a seed are."""

    storage: Storage
    """Its own replay buffer; or those of all seeds, one behind the other, which are read where they lie."""
    first: Array | int = 0
    """Its first row there."""


class Learning(Generic[S]):
    """What a learner does with a round of episodes."""

    def __init__(
        self, seating: Seating[S], seeds_axis: str | None, learner_with: Callable[[Config], Learner[S]]
    ) -> None:
        """Works out how many episodes an update sees, and how they are cut.

        Args:
            seating: of the run.
            seeds_axis: name of the mapped axis of the seeds; None where they are not mapped.
            learner_with: builds the learner of the run with other settings.

        Raises:
            UserError: the buffer does not hold that many, or more than a learner of policies can use.
        """
        self.seating, self.seeds_axis, self.learner_with = seating, seeds_axis, learner_with
        self.config, self.learner, self.spec = seating.config, seating.learner, seating.env.spec
        self.sequences = self._sequences_per_update()
        """Episodes of one update."""
        self.updates, self.period = update_rhythm(self.config)
        self.cuts = self._cuts()
        # Learners that expect nothing of what follows do not have the key.
        self.limit_is_end = LimitKeys in self.config.learner_part.sections and self.config.limit_is_end

    def empty_storage(self) -> Storage:
        """One seed's replay buffer."""
        kept = self.learner.kept
        return replay.storage_for(
            self.spec,
            self.config.buffer_size,
            self.config.buffer_dtype,
            seat=self.seating.team is not None,
            columns=kept.columns,
            state=kept.state,
            records=kept.records,
        )

    def store(self, storage: Storage, rollout: Rollout, *, stored: Array) -> Storage:
        """Newly played episodes in one seed's replay buffer, over the oldest. `stored` includes them."""
        assert rollout.batch is not None
        played = ended_by_limit(rollout.batch) if self.limit_is_end else rollout.batch
        return replay.insert(storage, self.learner.keep(played), stored - self.config.batch_size_run)

    def count(self, key: Array, t_env: Count, stats: EpisodeStats) -> tuple[Array, Count, IterationLog]:
        """A seed's key, steps and log after episodes that nothing is learned from."""
        t_env = t_env.plus(stats.lengths.sum())
        return split_key(key)[0], t_env, IterationLog(stats, {}, jnp.int32(0), jnp.float32(0.0), t_env, jnp.bool_(True))

    def learn(
        self,
        rows: Rows,
        learner: S,
        key: Array,
        t_env: Count,
        stats: EpisodeStats,
        tuned: Tuned | None = None,
        *,
        episodes: Array,
        stored: Array,
    ) -> tuple[S, Array, Count, IterationLog]:
        """Makes the updates of one seed that are due after newly stored episodes. The counters include them."""
        config = self.config
        next_key, _, sample_key = split_key(key)
        active = t_env.below(config.t_max if tuned is None else tuned.limit)
        # What learns is built anew inside the program, because its factors are the program's arguments.
        maker = self.learner if tuned is None else self.learner_with(with_rates(config, tuned.rates))
        updated, metrics, count = self._learn(maker, learner, rows, sample_key, episodes, stored, t_env)
        # A seed that has reached t_max stays as it is, so its result does not depend on its neighbours.
        learner, key = jax.tree.map(lambda new, old: jnp.where(active, new, old), (updated, next_key), (learner, key))
        epsilon = exploration(config, t_env)
        t_env = t_env.plus(jnp.where(active, stats.lengths.sum(), 0))
        return learner, key, t_env, IterationLog(stats, metrics, jnp.where(active, count, 0), epsilon, t_env, active)

    def _learn(
        self,
        maker: Learner[S],
        learner: S,
        rows: Rows,
        key: Array,
        episodes: Array,
        stored: Array,
        t_env: Count,
    ) -> tuple[S, Metrics, Array]:
        """The updates due after `episodes` episodes; returns the learner, mean metrics and the number of updates."""
        config = self.config
        size = jnp.minimum(stored, config.buffer_size)
        key, update_key = jax.random.split(key)
        storage, first_row = rows
        batches = first_row + replay.sample_indices(key, size, config.buffer_size, self.sequences, self.updates)
        keys = jax.random.split(update_key, self.updates)
        due_updates = choose_cuts(self.cuts, storage, batches, self.seeds_axis)
        first = episodes - config.batch_size_run
        reached = first + ((jnp.arange(self.updates) + 1) * config.batch_size_run) // self.updates

        def update(learner: S, given: tuple[Due, Array, Array]) -> tuple[S, Metrics]:
            due, episode, key = given

            def with_cut(cut: Cut, learner: S, due: Due) -> tuple[S, Metrics]:
                return maker.update(learner, read_cut(cut, storage, due), episode, t_env, key)

            return jax.lax.switch(due.cut, [partial(with_cut, cut) for cut in self.cuts], learner, due)

        def run() -> tuple[S, Metrics, Array]:
            changed, metrics = jax.lax.scan(update, learner, (due_updates, reached, keys))
            return changed, jax.tree.map(lambda values: values.mean(axis=0), metrics), jnp.int32(self.updates)

        def wait() -> tuple[S, Metrics, Array]:
            shapes = jax.eval_shape(run)[1]
            return learner, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes), jnp.int32(0)

        due = (stored >= self.sequences) & ((episodes // config.batch_size_run) % self.period == 0)
        return jax.lax.cond(due, run, wait)

    def _sequences_per_update(self) -> int:
        """Episodes of one update: `batch_size` sampled ones, or with rotated seats as many for every seat.

        Learners of policies use all episodes of the round just played, and no others.
        """
        if self.config.learner_part.on_policy:
            return self._episodes_of_a_round()
        rotated = self.seating.team is not None and self.config.is_agent_shift and not self.seating.watches
        sequences = self.config.batch_size * (self.spec.n_agents if rotated else 1)
        if sequences > self.config.buffer_size:
            raise UserError(
                f"buffer_size: got {self.config.buffer_size}, but one update of a team whose seats are rotated sees "
                f"batch_size {self.config.batch_size} x {self.spec.n_agents} seats = {sequences} episodes. "
                f"Allowed: at least {sequences}."
            )
        return sequences

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

    def _cuts(self) -> tuple[Cut, ...]:
        """The ways in which batches are laid out; whole where the learner wants them so."""
        kept, limit = self.learner.kept, self.spec.episode_limit
        seats = self.spec.n_agents
        if kept.packs and self.seating.team is None and worth_packing(self.sequences, seats):
            return cuts_for(self.sequences, limit, packed_seats=seats, in_blocks=kept.blocks)
        if not kept.cut:
            return ((Portion(self.sequences, limit),),)
        return cuts_for(self.sequences, limit, few=self.seating.team is not None, portions=kept.portions)
