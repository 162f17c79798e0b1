"""Playing episodes: what is recorded and counted, against games whose course is known and games played one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.tiny import GAME
from omg.components import loss_mask
from omg.controllers.base import Lineup
from omg.controllers.scripted.base import RandomPlayer
from omg.envs import EnvSpec, Observation, Outcome, make_env
from omg.runners import vector
from omg.runners.vector import Rollout, any_over, play_episodes

LIMIT, GAMES = 6, 32


class Clock(NamedTuple):
    """State of `Countdown`."""

    end: jax.Array
    """[B] int32, the step that ends the game for real; may lie behind the time limit."""
    time: jax.Array
    """[B] int32, steps so far."""


class Countdown:
    """A game that ends after 1 to 9 steps. Rewards and observations tell the time; after the end they are traps."""

    def __init__(self, reward_per_agent: bool = False) -> None:
        self.spec = EnvSpec("countdown", "test", 2, 3, 1, 2, LIMIT, reward_per_agent, ("time_at_end", "minus_time"))

    def reset(self, key: jax.Array, num_envs: int) -> tuple[Clock, Observation]:
        state = Clock(jax.random.randint(key, (num_envs,), 1, 10), jnp.zeros(num_envs, jnp.int32))
        return state, self._observe(state)

    def step(self, key: jax.Array, state: Clock, actions: jax.Array) -> tuple[Clock, Observation, Outcome]:
        time = state.time + 1
        over = state.time >= jnp.minimum(state.end, LIMIT)
        reward = jnp.where(over, -1000.0, time.astype(jnp.float32))
        if self.spec.reward_per_agent:
            reward = reward[:, None] * jnp.array([1.0, 10.0])
        terminated = time >= state.end
        truncated = (time >= LIMIT) & ~terminated
        clock = jnp.where(over, -1000.0, time.astype(jnp.float32))
        metrics = {"time_at_end": clock, "minus_time": -clock}
        state = Clock(state.end, time)
        return state, self._observe(state), Outcome(reward, terminated, truncated, metrics)

    def _observe(self, state: Clock) -> Observation:
        time = state.time.astype(jnp.float32)
        obs = jnp.stack([time, time + 100], axis=1)[..., None]
        # Action 0 is legal at even times only, so that masks can be told apart too.
        avail = jnp.stack([state.time % 2 == 0, *[jnp.ones_like(state.time, bool)] * 2], axis=1)
        return Observation(obs, jnp.stack([time, -time], axis=1), jnp.repeat(avail[:, None], 2, axis=1))


class Chance:
    """Random legal actions. Remembers how often it was asked, and notes that and its exploration."""

    def initial(self, batch: int, key: jax.Array) -> jax.Array:
        return jnp.zeros(batch, jnp.int32)

    def act(
        self, observation: Observation, carry: jax.Array, key: jax.Array, epsilon: Any
    ) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        actions = jax.random.categorical(key, jnp.where(observation.avail, 0.0, -jnp.inf)).astype(jnp.int32)
        asked = jnp.repeat(carry[:, None], 2, axis=1)
        noted = jnp.broadcast_to(jnp.asarray(epsilon, jnp.float32), asked.shape)
        return actions, carry + 1, {"asked": asked, "epsilon": noted}

    def lineup(self, carry: jax.Array) -> Lineup | None:
        return None


class Seated(Chance):
    """The same in a team: in even games seat 0 learns, in odd games seat 1; with it sits another player.

    Two games after each other have the same one.
    """

    def lineup(self, carry: jax.Array) -> Lineup:
        seat = jnp.arange(carry.shape[0]) % 2
        partner = jnp.arange(carry.shape[0]) // 2
        return Lineup(seat, jnp.where(jnp.arange(2) == seat[:, None], -1, partner[:, None]))


def play(env: Any, seed: int = 0, games: int = GAMES, policy: Any = None, **options: Any) -> Rollout:
    """Plays and brings the result to the host."""
    run = jax.jit(lambda key: play_episodes(env, policy or Chance(), key, games, 0.25, **options))
    return jax.device_get(run(jax.random.PRNGKey(seed)))


@pytest.fixture(scope="module", params=["all to the end", "fewer"])
def countdown(request: pytest.FixtureRequest) -> Rollout:
    """As on a CPU; and as on an accelerator, where play goes on with 24 games and then with 16."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "fewer":
            patch.setattr(vector, "on_cpu", lambda: False)
            patch.setattr(vector, "_MANY_GAMES", GAMES)
            patch.setattr(vector, "_SHARES", (4 / 3, 2))
        found = play(Countdown())
        assert found.batch is not None
        # Those that were left out are not recorded any more.
        late = np.asarray(found.batch.obs)[np.asarray(found.stats.lengths) <= 2, LIMIT - 1]
        assert late.size > 0
        assert late.any() == (request.param != "fewer")
        return found


@pytest.fixture(scope="module")
def ends() -> np.ndarray:
    """[B] when the games of `countdown` end for real; the second of the keys that the runner makes is for the start."""
    reset_key = jax.random.split(jax.random.PRNGKey(0), 3)[1]
    found = np.asarray(Countdown().reset(reset_key, GAMES)[0].end)
    assert (found < LIMIT).any()
    assert (found == LIMIT).any()
    assert (found > LIMIT).any()
    return found


def test_statistics_count_only_what_was_played(countdown: Rollout, ends: np.ndarray):
    stats, played = countdown.stats, np.minimum(ends, LIMIT)
    np.testing.assert_array_equal(stats.lengths, played)
    np.testing.assert_array_equal(stats.returns, played * (played + 1) / 2)
    np.testing.assert_array_equal(stats.metrics["time_at_end"], played)
    np.testing.assert_array_equal(stats.metrics["minus_time"], -played)


def test_slots_are_filled_until_the_end(countdown: Rollout, ends: np.ndarray):
    batch, slots, played = countdown.batch, np.arange(LIMIT + 1), np.minimum(ends, LIMIT)[:, None]
    assert batch is not None
    np.testing.assert_array_equal(batch.filled, slots < played)
    np.testing.assert_array_equal(batch.reward, np.where(slots < played, slots + 1, 0))
    # A real end is marked in the slot whose step brought it; the time limit is no end.
    np.testing.assert_array_equal(batch.terminated, (slots == ends[:, None] - 1) & (slots < LIMIT))
    assert not batch.terminated[ends > LIMIT].any()
    np.testing.assert_array_equal(np.asarray(loss_mask(batch)).sum(axis=1), played[:, 0])
    assert batch.seat is None
    assert batch.players is None
    assert countdown.lineup is None


def test_the_slot_behind_the_end_holds_the_last_observation(countdown: Rollout, ends: np.ndarray):
    batch, played = countdown.batch, np.minimum(ends, LIMIT)
    assert batch is not None
    assert batch.obs.shape == (GAMES, LIMIT + 1, 2, 1)
    assert batch.state.shape == (GAMES, LIMIT + 1, 2)
    for game, length in enumerate(played):
        times = np.arange(length + 1)
        np.testing.assert_array_equal(batch.obs[game, : length + 1, :, 0], np.stack([times, times + 100], axis=1))
        np.testing.assert_array_equal(batch.state[game, : length + 1], np.stack([times, -times], axis=1))
        np.testing.assert_array_equal(batch.avail[game, : length + 1, 0, 0], times % 2 == 0)
        assert batch.avail[game, : length + 1, :, 1:].all()


def test_actions_are_legal_and_vary(countdown: Rollout):
    batch = countdown.batch
    assert batch is not None
    assert (batch.actions.dtype, batch.actions.shape) == (np.int32, (GAMES, LIMIT + 1, 2))
    legal = np.take_along_axis(batch.avail, batch.actions[..., None], axis=-1)[..., 0]
    assert legal[batch.filled].all()
    first = batch.actions[:, 0]
    assert len(np.unique(first)) == 3
    assert (batch.actions[:, 0] != batch.actions[:, 2]).any(), "the same random numbers are used at every step"


def test_what_the_policy_notes_is_stored(countdown: Rollout):
    batch = countdown.batch
    assert batch is not None
    assert set(batch.records) == {"asked", "epsilon"}
    slots = np.broadcast_to(np.arange(LIMIT + 1)[None, :, None], (GAMES, LIMIT + 1, 2))
    seen = slots <= countdown.stats.lengths[:, None, None]
    np.testing.assert_array_equal(batch.records["asked"][seen], slots[seen])
    assert (batch.records["epsilon"][batch.filled] == np.float32(0.25)).all()
    # The action in the last slot is never played and so never explores.
    assert (batch.records["epsilon"][:, LIMIT] == 0).all()


def test_rewards_of_every_seat(countdown: Rollout):
    shared, batch = countdown.batch, (own := play(Countdown(reward_per_agent=True))).batch
    assert shared is not None
    assert batch is not None
    np.testing.assert_array_equal(batch.reward, shared.reward[..., None] * [1.0, 10.0])
    np.testing.assert_array_equal(own.stats.returns, countdown.stats.returns * 11)


def test_who_sat_where_is_stored_and_the_learner_has_its_own_return(countdown: Rollout):
    together, own = play(Countdown(), policy=Seated()), play(Countdown(reward_per_agent=True), policy=Seated())
    games = np.arange(GAMES)
    for rollout in (together, own):
        batch = rollout.batch
        assert batch is not None
        np.testing.assert_array_equal(batch.seat, games % 2)
        np.testing.assert_array_equal(batch.players[games, games % 2], -1)
        np.testing.assert_array_equal(batch.players[games, 1 - games % 2], games // 2)
        np.testing.assert_array_equal(rollout.lineup.players, batch.players)
    # Everybody has the same return where the reward is the team's, so there it is no metric of its own.
    assert "own_return" not in together.stats.metrics
    np.testing.assert_array_equal(own.stats.metrics["own_return"], countdown.stats.returns * ([1, 10] * (GAMES // 2)))


def test_without_a_record_the_statistics_are_the_same(countdown: Rollout):
    bare = play(Countdown(), record=False)
    assert bare.batch is None
    for one, other in zip(jax.tree.leaves(bare.stats), jax.tree.leaves(countdown.stats), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_number_type_of_the_record(countdown: Rollout):
    half, full = play(Countdown(), dtype=jnp.float16).batch, countdown.batch
    assert half is not None
    assert full is not None
    assert half.obs.dtype == half.state.dtype == np.float16
    assert half.reward.dtype == np.float32
    seen = np.arange(LIMIT + 1) <= countdown.stats.lengths[:, None]
    np.testing.assert_array_equal(half.obs[seen], full.obs[seen].astype(np.float16))


def test_short_games_leave_the_rest_of_the_slots_empty():
    """With one game the loop ends with it, wherever that is."""
    for seed in range(8):
        rollout = play(Countdown(), seed, games=1)
        batch, length = rollout.batch, int(rollout.stats.lengths[0])
        assert batch is not None
        if length < LIMIT - 1:
            break
    else:
        pytest.fail("no short game among the seeds")
    assert batch.obs[0, length, 0, 0] == length
    assert not batch.obs[0, length + 1 :].any()
    assert not batch.avail[0, length + 1 :].any()


def test_mapped_programs_play_as_if_alone():
    env, keys = Countdown(), jax.random.split(jax.random.PRNGKey(1), 3)
    together = jax.jit(
        jax.vmap(lambda key: play_episodes(env, Chance(), key, 2, 0.25, axis_name="seeds"), axis_name="seeds")
    )
    single = jax.jit(lambda key: play_episodes(env, Chance(), key, 2, 0.25))
    mapped, longest = jax.device_get(together(keys)), []
    for index, key in enumerate(keys):
        batch, stats, *_ = jax.device_get(single(key))
        ours = jax.tree.map(lambda leaf, index=index: leaf[index], mapped)
        for one, other in zip(jax.tree.leaves(ours.stats), jax.tree.leaves(stats), strict=True):
            np.testing.assert_array_equal(one, other)
        for name in ("filled", "terminated", "reward"):
            np.testing.assert_array_equal(getattr(ours.batch, name), getattr(batch, name))
        for name in ("obs", "state", "avail", "actions"):
            played = batch.filled if name == "actions" else np.arange(LIMIT + 1) <= stats.lengths[:, None]
            np.testing.assert_array_equal(getattr(ours.batch, name)[played], getattr(batch, name)[played])
        longest.append(int(stats.lengths.max()))
    assert len(set(longest)) > 1, "all programs end together, so that this shows nothing"


def test_any_over():
    flags = jnp.array([[False, False], [True, False], [False, False]])
    assert not any_over(flags[0], None)
    assert any_over(flags[1], None)
    assert jax.vmap(lambda row: any_over(row, "rows"), axis_name="rows")(flags).tolist() == [True] * 3
    assert jax.vmap(lambda row: any_over(row, "rows"), axis_name="rows")(flags[::2]).tolist() == [False] * 2


def test_foraging_games_played_one_by_one():
    """The recorded actions, played again in each game by itself, bring what was recorded and counted."""
    env = make_env("foraging", **GAME)
    batch, stats, *_ = play(env, seed=2, games=12)
    assert batch is not None
    reset_key = jax.random.split(jax.random.PRNGKey(2), 3)[1]
    worlds, first = env.reset(reset_key, 12)
    step, key = jax.jit(env.step), jax.random.PRNGKey(0)
    lengths = []
    for game in range(12):
        world = jax.tree.map(lambda leaf, game=game: leaf[..., game : game + 1], worlds)
        seen = jax.tree.map(lambda leaf, game=game: leaf[game : game + 1], first)
        total, slot, over = 0.0, 0, False
        while not over:
            for name in ("obs", "state", "avail"):
                np.testing.assert_array_equal(getattr(batch, name)[game, slot], getattr(seen, name)[0])
            world, seen, outcome = step(key, world, batch.actions[game, slot][None])
            np.testing.assert_array_equal(batch.reward[game, slot], outcome.reward[0])
            assert batch.terminated[game, slot] == bool(outcome.terminated[0])
            assert batch.filled[game, slot]
            total += float(outcome.reward.sum())
            over = bool(outcome.terminated[0] | outcome.truncated[0])
            slot += 1
        np.testing.assert_array_equal(batch.obs[game, slot], seen.obs[0])
        assert not batch.filled[game, slot:].any()
        assert not batch.terminated[game, slot:].any()
        assert stats.lengths[game] == slot
        assert stats.returns[game] == pytest.approx(total, abs=1e-6)
        for name, values in stats.metrics.items():
            assert values[game] == float(outcome.metrics[name][0])
        lengths.append(slot)
    assert min(lengths) < env.spec.episode_limit == max(lengths)


def test_a_random_team_plays_every_legal_action_and_no_other():
    avail = jnp.asarray([[[True, False, True, True], [False, True, False, False]]] * 512)
    seen = Observation(jnp.zeros((512, 2, 1)), jnp.zeros((512, 1)), avail)
    key = jax.random.PRNGKey(0)
    actions, memory, stored = RandomPlayer().act(seen, RandomPlayer().initial(512, key), key, 0.0)
    assert set(np.unique(actions[:, 0])) == {0, 2, 3}
    assert set(np.unique(actions[:, 1])) == {1}
    assert (memory, stored) == (None, {})
