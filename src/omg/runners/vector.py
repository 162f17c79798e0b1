"""Whole episodes of many games at once, inside a compiled program.

All games start together and the loop ends when the last one is over, so every batch holds complete episodes and a
run's course does not depend on how fast single games end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from omg.components.episode_batch import EpisodeBatch
from omg.controllers.base import Lineup, Policy, acts_at_end
from omg.controllers.oracle import foresee
from omg.controllers.team import TeamPolicy
from omg.controllers.telling import records_read, telling_policy
from omg.envs.base import Env, EnvState, Observation, Outcome
from omg.modules.convolutions import on_cpu
from omg.modules.told import TOLD
from omg.types import PyTree

OWN_RETURN = "own_return"
_MANY_GAMES = 4096
"""From so many on an accelerator computes half of them faster than all."""
_SHARES = (4, 16)
"""Play goes on with a quarter of the games, then with a sixteenth."""
Slots = dict[str, PyTree]
"""Time slots of an `EpisodeBatch`, by field."""


class EpisodeStats(NamedTuple):
    """One number per episode."""

    returns: Array
    """[B] undiscounted return; summed over seats in general-sum games."""
    lengths: Array
    """[B] int32, steps played."""
    metrics: dict[str, Array]
    """`spec.metrics` name -> [B], the value at the last step; in general-sum games with a team also `own_return`, the
    mean return of the seats that learn."""


class Film(NamedTuple):
    """What is to be filmed of the games that are played; a constant of the compiled program."""

    games: int
    """F, how many of them: the first ones."""
    show: Callable[[EnvState], PyTree] | None
    """State of the games -> how they look, leaves [B, ...]; None: there is no picture of the game."""
    views: bool = False
    """Whether what is seen is kept as well."""


class Filmed(NamedTuple):
    """The first F of the games that were played."""

    batch: EpisodeBatch
    """[F, T + 1, ...] as for learners, but with the records that players tell of; observations and state are of width 0
    unless they were asked for."""
    scenes: PyTree
    """What `Film.show` saw, leaves [F, T + 1, ...]."""
    truncated: Array
    """[F] bool, whether the time limit ended the game."""


class Rollout(NamedTuple):
    """Played episodes: data for the learner (if asked for), statistics, and who sat where (if teams were drawn)."""

    batch: EpisodeBatch | None
    stats: EpisodeStats
    lineup: Lineup | None
    film: Filmed | None = None


def any_over(flags: Array, axis_name: str | None) -> Array:
    """Whether any flag is set, here or in any program of the mapped axis `axis_name`.

    The answer is the same for all of them, so that a loop or branch on it stays one loop or branch under `vmap`.
    """
    found = jnp.any(flags)
    return found if axis_name is None else jax.lax.pmax(found.astype(jnp.int32), axis_name) > 0


class _Loop(NamedTuple):
    """What changes while games are played, those of N of them."""

    t: Array
    going: Array
    """[] bool, whether any game goes on, see `any_over`."""
    key: Array
    alive: Array
    """[N]."""
    world: EnvState
    seen: Observation
    memory: PyTree
    slots: Slots
    """[T + 1, N, ...]."""
    stats: EpisodeStats

    def some(self, chosen: Array, axes: PyTree) -> _Loop:
        """Some of the games, where `axes` are those of the games in world, views and memory; -1 for none."""

        def of(leaf: Array, axis: int) -> Array:
            return leaf if axis < 0 else jnp.take(leaf, chosen, axis=axis)

        world, seen, memory = jax.tree.map(of, (self.world, self.seen, self.memory), axes)
        alive, stats = jax.tree.map(lambda leaf: leaf[chosen], (self.alive, self.stats))
        slots = jax.tree.map(lambda rows: jnp.take(rows, chosen, axis=1), self.slots)
        return _Loop(self.t, self.going, self.key, alive, world, seen, memory, slots, stats)

    def with_ended(self, ended: _Loop, chosen: Array) -> _Loop:
        """With what came of some of the games, in slots and statistics."""
        slots = jax.tree.map(lambda rows, some: rows.at[:, chosen].set(some), self.slots, ended.slots)
        stats = jax.tree.map(lambda values, some: values.at[chosen].set(some), self.stats, ended.stats)
        return self._replace(slots=slots, stats=stats)


def _axes_of_games(begin: Callable[[int], PyTree], games: int) -> PyTree:
    """Which axis of what `begin` makes for so many games is theirs; -1 for none."""

    def axis(some: Array, more: Array) -> int:
        return next((at for at, sizes in enumerate(zip(some.shape, more.shape, strict=True)) if len({*sizes}) > 1), -1)

    some, more = (jax.eval_shape(partial(begin, number)) for number in (games, games + 1))
    axes: PyTree = jax.tree.map(axis, some, more)
    return axes


def _fewer(games: int, axis_name: str | None) -> tuple[int, ...]:
    """With how many games play goes on when no more are left: those of a seed must not depend on other seeds'."""
    if on_cpu() or games < _MANY_GAMES or (axis_name is not None and lax.psum(1, axis_name) > 1):
        return ()
    return tuple(int(games / share) for share in _SHARES)


def _goes_on(limit: int, fewer: tuple[int, ...], loop: _Loop) -> Array:
    """Whether another step is made with all games of a loop, rather than with the fewer that are named."""
    going = loop.going & (loop.t < limit)
    return going & (loop.alive.sum() > fewer[0]) if fewer else going


def _as_they_are(values: PyTree) -> PyTree:
    return values


def play_episodes(
    env: Env,
    policy: Policy,
    key: Array,
    num_envs: int,
    epsilon: Array | float,
    *,
    record: bool = True,
    dtype: DTypeLike = jnp.float32,
    axis_name: str | None = None,
    film: Film | None = None,
    games: Callable[[PyTree], PyTree] = _as_they_are,
) -> Rollout:
    """Plays `num_envs` episodes to their end.

    The slot behind the last step also holds what the policy would have done there, unless it says with `acts_at_end`
    that this is not worth its while. An accelerator that has thousands goes on with fewer when most are over, in whose
    places other random numbers fall from then on; what is behind the end of a game is not recorded then.

    Args:
        env: the game.
        policy: acts in all seats.
        key: all randomness of these episodes (starts, fights, actions).
        num_envs: number of games B.
        epsilon: exploration handed to the policy.
        record: whether to return an `EpisodeBatch` with T = `episode_limit`.
        dtype: number type of recorded observations and states.
        axis_name: name of the surrounding `vmap` axis, if any; games of all its members end together.
        film: what is filmed besides; players then tell what they think, and play the same.
        games: told what is seen of the games and what comes of every step, [B, ...]; says where they are computed.

    Returns:
        Episodes [B, T + 1, ...] and their statistics [B].
    """
    limit = env.spec.episode_limit
    policy = policy if film is None else telling_policy(policy)
    looks_ahead = isinstance(policy, TeamPolicy) and policy.looks_ahead
    epsilon = jnp.asarray(epsilon, jnp.float32)
    key, reset_key, team_key = jax.random.split(key, 3)
    world, seen = env.reset(reset_key, num_envs)
    seen = games(seen)
    memory = policy.initial(num_envs, team_key)
    lineup = policy.lineup(memory)
    learns = lineup.players < 0 if lineup is not None and env.spec.reward_per_agent else None
    zeros = jnp.zeros(num_envs, jnp.float32)
    names = env.spec.metrics if learns is None else (*env.spec.metrics, OWN_RETURN)
    stats = EpisodeStats(zeros, zeros.astype(jnp.int32), dict.fromkeys(names, zeros))
    told = jax.eval_shape(lambda: policy.act(seen, memory, key, jnp.float32(0.0))[2]) if film is not None else {}
    films = _Films(record, film, records_read(policy, told))

    def first_slot() -> Slots:
        actions, _, extra = policy.act(seen, memory, key, jnp.float32(0.0))
        _, _, outcome = env.step(key, world, actions)
        slot = _slot(seen, actions, outcome.reward, outcome.terminated, outcome.terminated, extra, dtype)
        return films.cut(slot, world, outcome.truncated)

    slots: Slots = jax.tree.map(
        lambda leaf: jnp.zeros((limit + 1, *leaf.shape), leaf.dtype), jax.eval_shape(first_slot) if films.any else {}
    )

    def body(loop: _Loop) -> _Loop:
        key, act_key, env_key = jax.random.split(loop.key, 3)
        t, memory = loop.t, loop.memory
        if looks_ahead:
            act_key, oracle_key = jax.random.split(act_key)
            memory = foresee(env, policy, loop.world, loop.seen, memory, oracle_key)
        actions, next_memory, extra = policy.act(loop.seen, memory, act_key, epsilon)
        world, after, outcome = env.step(env_key, loop.world, actions)
        after, outcome = games((after, outcome))
        slots = loop.slots
        if films.any:
            slot = _slot(loop.seen, actions, outcome.reward, outcome.terminated, loop.alive, extra, dtype)
            row = films.cut(slot, loop.world, outcome.truncated & loop.alive)
            slots = jax.tree.map(lambda rows, row: rows.at[t].set(row), slots, row)
        stats = _count(loop.stats, loop.alive, outcome, learns)
        alive = loop.alive & ~(outcome.terminated | outcome.truncated)
        return _Loop(t + 1, any_over(alive, axis_name), key, alive, world, after, next_memory, slots, stats)

    def last_slot(loop: _Loop) -> Slots:
        """What is recorded behind the last step."""
        nobody = jnp.zeros(loop.alive.shape, bool)
        if acts_at_end(policy):
            actions, _, extra = policy.act(loop.seen, loop.memory, loop.key, jnp.zeros_like(epsilon))
        else:
            empty = jax.eval_shape(lambda: policy.act(loop.seen, loop.memory, loop.key, epsilon))
            actions, extra = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (empty[0], empty[2]))
        no_reward = jnp.zeros(nobody.shape + ((env.spec.n_agents,) if env.spec.reward_per_agent else ()), jnp.float32)
        return films.cut(_slot(loop.seen, actions, no_reward, nobody, nobody, extra, dtype), loop.world, nobody)

    # Films show the first games, and teams and devices have theirs in their order.
    in_place = film is not None or lineup is not None or games is not _as_they_are
    fewer = () if in_place else _fewer(num_envs, axis_name)
    axes = fewer and _axes_of_games(lambda number: (*env.reset(key, number), policy.initial(number, key)), num_envs)

    def play_on(loop: _Loop, fewer: tuple[int, ...]) -> _Loop:
        loop = lax.while_loop(partial(_goes_on, limit, fewer[:1]), body, loop)
        if films.any:
            slots = jax.tree.map(lambda rows, row: rows.at[loop.t].set(row), loop.slots, last_slot(loop))
            loop = loop._replace(slots=slots)
        if not fewer:
            return loop
        chosen = jnp.argsort(~loop.alive)[: fewer[0]]
        return loop.with_ended(play_on(loop.some(chosen, axes), fewer[1:]), chosen)

    start = _Loop(jnp.int32(0), jnp.bool_(True), key, jnp.ones(num_envs, bool), world, seen, memory, slots, stats)
    slots, stats = play_on(start, fewer)[-2:]
    if not films.any:
        return Rollout(None, stats, lineup)
    batch, filmed = films.developed(slots, lineup)
    return Rollout(batch, stats, lineup, filmed)


class _Films(NamedTuple):
    """What becomes of the time slots of games: data for a learner, a film, or both."""

    record: bool
    film: Film | None
    told: frozenset[str]
    """The records that are filmed."""

    @property
    def any(self) -> bool:
        """Whether anything is kept."""
        return self.record or self.film is not None

    def cut(self, slot: Slots, world: EnvState, truncated: Array) -> Slots:
        """What is kept of one slot [B, ...]."""
        kept: Slots = {}
        if self.record:
            learned = {name: row for name, row in slot["records"].items() if not name.startswith(TOLD)}
            kept |= {**slot, "records": learned}
        if self.film is None:
            return kept
        unseen = {} if self.film.views else {name: slot[name][..., :0] for name in ("obs", "state")}
        scene = None if self.film.show is None else self.film.show(world)
        records = {name: row for name, row in slot["records"].items() if name in self.told}
        filmed = {**slot, **unseen, "records": records, "scene": scene, "truncated": truncated}
        games = self.film.games
        return kept | {"film": jax.tree.map(lambda row: row[:games], filmed)}

    def developed(self, slots: Slots, lineup: Lineup | None) -> tuple[EpisodeBatch | None, Filmed | None]:
        """What was asked for, of slots [T + 1, B, ...]."""
        slots = jax.tree.map(lambda rows: jnp.swapaxes(rows, 0, 1), slots)
        seat, players = (None, None) if lineup is None else lineup
        film = slots.pop("film", None)
        batch = EpisodeBatch(seat=seat, players=players, **slots) if self.record else None
        if film is None:
            return batch, None
        if lineup is not None:
            seat, players = (column[: len(film["actions"])] for column in lineup)
        scenes, truncated = film.pop("scene"), film.pop("truncated").any(axis=1)
        return batch, Filmed(EpisodeBatch(seat=seat, players=players, **film), scenes, truncated)


def _slot(
    seen: Observation,
    actions: Array,
    reward: Array,
    terminated: Array,
    alive: Array,
    extra: dict[str, Array],
    dtype: DTypeLike,
) -> Slots:
    """One time slot of an `EpisodeBatch`, [B, ...]. Nothing counts in games that are already over."""
    paid = alive if reward.ndim == 1 else alive[:, None]
    return {
        "obs": seen.obs.astype(dtype),
        "state": seen.state.astype(dtype),
        "avail": seen.avail,
        "actions": actions.astype(jnp.int32),
        "reward": jnp.where(paid, reward, 0.0),
        "terminated": terminated & alive,
        "filled": alive,
        "records": extra,
    }


def _count(stats: EpisodeStats, alive: Array, outcome: Outcome, learns: Array | None) -> EpisodeStats:
    team = outcome.reward if outcome.reward.ndim == 1 else outcome.reward.sum(axis=1)
    metrics = {name: jnp.where(alive, value, stats.metrics[name]) for name, value in outcome.metrics.items()}
    if learns is not None:
        own = (outcome.reward * learns).sum(axis=1) / jnp.maximum(learns.sum(axis=1), 1)
        metrics[OWN_RETURN] = stats.metrics[OWN_RETURN] + jnp.where(alive, own, 0.0)
    return EpisodeStats(stats.returns + jnp.where(alive, team, 0.0), stats.lengths + alive, metrics)
