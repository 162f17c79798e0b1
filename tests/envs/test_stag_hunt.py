"""Stag hunt: hand-worked positions, every step against a slow and obvious version, what is seen, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.positions import hunt as make
from helpers.positions import hunt_position as position
from omg.envs import make_env
from omg.envs.grid import DOWN, LEFT, RIGHT, STAY, UP
from omg.envs.stag_hunt import StagHunt, StagHuntState
from omg.envs.stag_hunt.env import HARE, HUNT_HARE, HUNT_STAG, NOTHING, STAG
from omg.errors import UserError

Cells = Sequence[tuple[int, int]]
STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}


@cache
def compiled(env: StagHunt) -> Any:
    return jax.jit(lambda state, actions: (*env.step(jax.random.key(0), state, actions), env.caught(state, actions)))


def play(env: StagHunt, state: StagHuntState, *actions: int) -> tuple[StagHuntState, Any, Any, list[int]]:
    state, seen, outcome, caught = compiled(env)(state, jnp.asarray([actions], jnp.int32))
    return state, seen, outcome, caught[0].tolist()


GAME = make(size=5, hares=2, stags=1)
MEADOW = position(GAME, [(2, 2), (2, 2), (0, 0), (4, 4)], [(2, 2)], [(0, 0), (4, 4)], blocks=[(1, 0), (1, 1), (1, 2)])
"""Two players on the stag, one on each hare; a wall below the upper hare."""


@pytest.mark.parametrize(
    ("actions", "rewards", "caught", "stay_in_game", "prey_left"),
    [
        pytest.param((HUNT_STAG, STAY, STAY, STAY), (0, 0, 0, 0), (0, 0, 0, 0), "1111", "111", id="alone in vain"),
        pytest.param((HUNT_STAG, HUNT_STAG, STAY, STAY), (5, 5, 0, 0), (1, 1, 0, 0), "0011", "011", id="together"),
        pytest.param((STAY, STAY, HUNT_HARE, STAY), (0, 0, 1, 0), (0, 0, 2, 0), "1101", "101", id="a hare alone"),
        pytest.param((HUNT_HARE, STAY, HUNT_STAG, 9), (0, 0, 0, 0), (0, 0, 0, 0), "1111", "111", id="wrong prey"),
        pytest.param(
            (HUNT_STAG, HUNT_STAG, HUNT_HARE, HUNT_HARE), (5, 5, 1, 1), (1, 1, 2, 2), "0000", "000", id="everything"
        ),
    ],
)
def test_hunting(
    actions: tuple[int, ...], rewards: tuple[float, ...], caught: tuple[int, ...], stay_in_game: str, prey_left: str
) -> None:
    state, _, outcome, found = play(GAME, MEADOW, *actions)
    assert outcome.reward[0].tolist() == list(rewards)
    assert tuple(found) == caught
    assert "".join(str(int(flag)) for flag in state.hunting[0]) == stay_in_game
    assert "".join(str(int(flag)) for flag in state.prey_left[0]) == prey_left
    assert bool(outcome.terminated[0]) == (stay_in_game == "0000")


def test_prey_is_shared_equally_by_all_who_hunt_it_at_once() -> None:
    everybody = position(GAME, [(3, 3)] * 4, [(3, 3)], [(0, 0), (4, 4)])
    _, _, outcome, caught = play(GAME, everybody, HUNT_STAG, HUNT_STAG, STAY, HUNT_STAG)
    np.testing.assert_allclose(outcome.reward[0], [10 / 3, 10 / 3, 0, 10 / 3], rtol=1e-6)
    assert caught == [STAG, STAG, NOTHING, STAG]
    crowd = position(GAME, [(0, 0)] * 3 + [(1, 1)], [(3, 3)], [(0, 0), (4, 4)])
    state, _, outcome, caught = play(GAME, crowd, HUNT_HARE, HUNT_HARE, HUNT_HARE, HUNT_HARE)
    np.testing.assert_allclose(outcome.reward[0], [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    assert caught == [HARE, HARE, HARE, NOTHING]
    assert float(outcome.metrics["hares_hunted"][0]) == 1.0
    np.testing.assert_allclose(outcome.metrics["reward_per_player"][0], 0.25)
    # The others go on without them, and hunting prey that is gone is staying.
    state, _, outcome, caught = play(GAME, state._replace(player=state.player.at[0, 3].set(0)), *[HUNT_HARE] * 4)
    assert outcome.reward[0].tolist() == caught == [0, 0, 0, 0]
    assert state.last_action[0].tolist() == [-1, -1, -1, STAY]


def test_walls_and_edges_stop_players_who_may_share_cells() -> None:
    state, _, _, _ = play(GAME, MEADOW, UP, LEFT, DOWN, RIGHT)
    # The first and the third run into the wall, the fourth into the edge.
    assert state.player[0].tolist() == [12, 11, 0, 24]
    assert state.last_action[0].tolist() == [STAY, LEFT, STAY, STAY]
    legal = np.asarray(GAME.legal(MEADOW)[0]).astype(int).tolist()
    assert legal == [
        [0, 1, 1, 1, 1, 1, 0],
        [0, 1, 1, 1, 1, 1, 0],
        [0, 0, 0, 1, 1, 0, 1],
        [1, 0, 1, 0, 1, 0, 1],
    ]


def test_who_has_left_can_only_stay_and_is_not_seen() -> None:
    state, seen, _, _ = play(GAME, MEADOW, HUNT_STAG, HUNT_STAG, RIGHT, STAY)
    view = GAME.map_view
    assert seen.avail[0, 0].astype(int).tolist() == [0, 0, 0, 0, 1, 0, 0]
    maps, world = view.maps(seen.obs[0]), view.maps(seen.state[0])
    assert float(maps[0, 0].sum()) == 0, "its own channel"
    assert [float(channel.sum()) for channel in maps[2, :4]] == [1, 0, 0, 1]
    assert [float(channel.sum()) for channel in world] == [0, 0, 1, 1, 3, 0, 2]
    # Its last action is seen once, and then none.
    assert view.last_actions(seen.state[0]).argmax(axis=-1).tolist() == [HUNT_STAG, HUNT_STAG, RIGHT, STAY]
    before = state.player[0].tolist()
    state, seen, outcome, _ = play(GAME, state, DOWN, HUNT_STAG, RIGHT, STAY)
    assert state.player[0].tolist() == [*before[:2], 2, before[3]]
    assert outcome.reward[0].tolist() == [0, 0, 0, 0]
    assert view.last_actions(seen.state[0]).sum(axis=-1).tolist() == [0, 0, 1, 1]


def test_ends_without_hunters_without_prey_or_at_the_limit_but_never_in_two_ways() -> None:
    env = make(size=5, hares=2, stags=1, episode_limit=2)
    state, _, first, _ = play(env, MEADOW, STAY, STAY, STAY, STAY)
    assert not bool(first.terminated[0] | first.truncated[0])
    for last, ended in (((STAY,) * 4, "cut"), ((HUNT_STAG, HUNT_STAG, HUNT_HARE, HUNT_HARE), "over")):
        after, _, outcome, _ = play(env, state, *last)
        assert (bool(outcome.terminated[0]), bool(outcome.truncated[0])) == (ended == "over", ended == "cut")
        assert bool(env.over(after)[0])
        # Nothing happens after the end.
        again, _, beyond, caught = play(env, after, HUNT_STAG, HUNT_STAG, HUNT_HARE, HUNT_HARE)
        assert jax.tree.all(jax.tree.map(lambda one, other: bool((one == other).all()), again, after))
        assert beyond.reward[0].tolist() == caught == [0, 0, 0, 0]
        assert bool(beyond.terminated[0]) == (ended == "over")
    # Two hunters have left, two are in the game, but no prey is.
    prey_gone = MEADOW._replace(prey_left=jnp.asarray([[True, False, False]]))
    state, _, outcome, _ = play(GAME, prey_gone, HUNT_STAG, HUNT_STAG, STAY, STAY)
    assert bool(outcome.terminated[0])
    assert state.hunting[0].tolist() == [False, False, True, True]


# ------------------------------------------------------------------------------------------------ a slow version


class SlowGame:
    """One game with Python's own lists, rule by rule."""

    def __init__(self, env: StagHunt, state: StagHuntState, game: int) -> None:
        self.env, args = env, env.args
        self.width = env.board.width
        self.players: list[Any] = [divmod(int(cell), self.width) for cell in state.player[game]]
        cells = [divmod(int(cell), self.width) for cell in state.prey[game]]
        self.stags, self.hares = cells[: args.stag_count], cells[args.stag_count :]
        self.blocks = [divmod(int(cell), self.width) for cell in np.flatnonzero(env.drawn(state)[1][:, 0][game])]
        self.last: list[int] = [-1] * args.players
        self.time, self.gone = 0, [False] * args.players

    def legal(self, seat: int) -> list[bool]:
        if self.gone[seat]:
            return [action == STAY for action in range(7)]
        row, col = self.players[seat]
        moves = [self.free(row + down, col + right) for down, right in STEPS.values()]
        return [*moves, True, (row, col) in self.stags, (row, col) in self.hares]

    def free(self, row: int, col: int) -> bool:
        inside = 0 <= row < self.env.board.height and 0 <= col < self.width
        return inside and (row, col) not in self.blocks

    def step(self, actions: list[int]) -> tuple[list[float], list[int]]:
        done = [action if self.legal(seat)[action] else STAY for seat, action in enumerate(actions)]
        rewards, caught = [0.0] * len(done), [NOTHING] * len(done)
        was_gone = list(self.gone)
        for prey, hunt, kind, needed, worth in (
            (self.stags, HUNT_STAG, STAG, 2, 10.0),
            (self.hares, HUNT_HARE, HARE, 1, 1.0),
        ):
            for cell in list(prey):
                hunters = [s for s, action in enumerate(done) if action == hunt and self.players[s] == cell]
                if len(hunters) >= needed:
                    prey.remove(cell)
                    for seat in hunters:
                        rewards[seat], caught[seat], self.gone[seat] = worth / len(hunters), kind, True
        for seat, action in enumerate(done):
            if action in STEPS:
                down, right = STEPS[action]
                self.players[seat] = self.players[seat][0] + down, self.players[seat][1] + right
        self.last = [-1 if gone else action for gone, action in zip(was_gone, done, strict=True)]
        self.time += 1
        return rewards, caught

    def over(self) -> bool:
        return all(self.gone) or not (self.stags or self.hares)

    def picture(self, cells: list[tuple[int, int]]) -> np.ndarray:
        return np.array(
            [[(row, col) in cells for col in range(self.width)] for row in range(self.env.board.height)], np.float32
        ).reshape(-1)

    def numbers(self, seat: int | None) -> np.ndarray:
        """The observation of a seat, or the state."""
        order = list(range(len(self.players)))
        if seat is not None:
            order = [seat, *(other for other in order if other != seat)]
        pictures = [self.picture([] if self.gone[other] else [self.players[other]]) for other in order]
        pictures += [self.picture(cells) for cells in (self.blocks, self.stags, self.hares)]
        legal = [] if seat is None else [np.array(self.legal(seat), np.float32)]
        last = [np.eye(7, dtype=np.float32)[self.last[other]] * (self.last[other] >= 0) for other in order]
        time = np.array([self.time / self.env.args.episode_limit], np.float32)
        return np.concatenate([*pictures, *legal, time, *last])


@pytest.mark.parametrize(
    "args",
    [
        {"size": 4, "map_name": "4h2s", "episode_limit": 25},
        {"height": 5, "width": 9, "players": 3, "hares": 3, "stags": 0},
    ],
    ids=str,
)
def test_every_step_agrees_with_the_slow_version(args: dict[str, Any]) -> None:
    env, games = make(**args), 10
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(1), games)
    twins = [SlowGame(env, state, game) for game in range(games)]
    random = np.random.default_rng(2)
    over, paid, kinds = [False] * games, np.zeros((games, env.spec.n_agents)), set()
    legal = np.asarray(env.legal(state))
    for time in range(env.spec.episode_limit):
        # Hunting whenever it is possible, half of the time; otherwise anything, legal or not.
        hunt = np.where(legal[..., HUNT_STAG], HUNT_STAG, HUNT_HARE)
        hunts = legal[..., HUNT_STAG:].any(axis=-1) & (random.random(legal.shape[:2]) < 0.5)
        actions = np.where(hunts, hunt, random.integers(0, 7, legal.shape[:2]))
        state, seen, outcome, caught = jax.device_get(compiled(env)(state, jnp.asarray(actions, jnp.int32)))
        legal = seen.avail
        for game, twin in enumerate(twins):
            if over[game]:
                continue
            rewards, kind = twin.step(actions[game].tolist())
            paid[game] += rewards
            kinds |= set(kind)
            np.testing.assert_allclose(outcome.reward[game], rewards, rtol=1e-6)
            assert caught[game].tolist() == kind
            assert seen.avail[game].tolist() == [twin.legal(seat) for seat in range(env.spec.n_agents)]
            for seat in range(env.spec.n_agents):
                np.testing.assert_allclose(seen.obs[game, seat], twin.numbers(seat), rtol=1e-6)
            np.testing.assert_allclose(seen.state[game], twin.numbers(None), rtol=1e-6)
            assert bool(outcome.terminated[game]) == twin.over()
            assert bool(outcome.truncated[game]) == (time + 1 == env.spec.episode_limit and not twin.over())
            np.testing.assert_allclose(outcome.metrics["reward_per_player"][game], paid[game].mean(), rtol=1e-5)
            assert float(outcome.metrics["stags_hunted"][game]) == env.args.stag_count - len(twin.stags)
            assert float(outcome.metrics["hares_hunted"][game]) == env.args.hare_count - len(twin.hares)
            left = [bool(twin.stags), bool(twin.hares)]
            assert np.asarray(env.goals().exists(state)[game]).tolist() == left
            over[game] = twin.over()
    assert kinds == ({NOTHING, STAG, HARE} if env.args.stag_count else {NOTHING, HARE})


# ------------------------------------------------------------------------------------------------ names and sizes


def test_names_and_sizes() -> None:
    spec = make_env("stag_hunt").spec
    assert (spec.scenario, spec.n_agents, spec.n_actions, spec.episode_limit) == ("8x8-4p-4h1s-5b", 4, 7, 35)
    assert (spec.obs_dim, spec.state_dim) == (7 * 64 + 7 + 1 + 4 * 7, 7 * 64 + 1 + 4 * 7)
    assert (spec.reward_per_agent, spec.success_metric) == (True, "reward_per_player")
    assert make(map_name="4h2s", size=6, blocks=0).spec.scenario == "6x6-4p-4h2s"
    assert make(map_name="4h2s", hares=3, height=5).spec.scenario == "5x8-4p-3h2s-5b"
    view = make(map_name="4h2s", height=5).map_view
    assert (view.channels, view.height, view.width, view.channel("hare")) == (7, 5, 8, 6)
    state = jax.eval_shape(lambda key: make().start(key, 1), jax.random.key(0))
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) == 32, "bytes of a game"


def test_layout_of_an_observation_can_be_read_back() -> None:
    seen = GAME.observe(MEADOW)
    view = GAME.map_view
    assert view.maps(seen.obs).shape == (1, 4, 7, 5, 5)
    np.testing.assert_array_equal(view.maps(seen.obs)[0, 2, 0], np.eye(25)[0].reshape(5, 5))
    np.testing.assert_array_equal(view.maps(seen.state)[0, view.channel("stag")], np.eye(25)[12].reshape(5, 5))
    np.testing.assert_array_equal(view.legal(seen.obs), seen.avail)
    for seat in range(4):
        np.testing.assert_array_equal(view.maps(seen.obs)[:, seat], GAME.sight(MEADOW, jnp.asarray([seat]))[0])
    later = GAME.observe(MEADOW._replace(time=jnp.asarray([7], jnp.int16)))
    np.testing.assert_allclose(view.time(later.obs), np.full((1, 4, 1), 0.2), rtol=1e-6)
    np.testing.assert_allclose(view.time(later.state), [[0.2]], rtol=1e-6)
    assert view.rest(seen.state).shape == (1, 1 + 4 * 7)


def test_impossible_arguments_are_refused_with_their_key() -> None:
    for args, message in [
        ({"map_name": "4h3s"}, r"map \(env_args.map_name\) '4h3s'. Did you mean '4h2s'\? Allowed: 4h1s, 4h2s"),
        ({"size": 3, "stags": 2}, r"env_args.size: a field of 3x3 has 9 cells, but 4 players and 4 hares and 2 stags"),
        ({"hares": 0, "stags": 0}, r"env_args.hares: got 0, and env_args.stags is 0 too"),
        ({"size": 40}, r"env_args.size: got 40. Input should be less than or equal to 16"),
        ({"players": 1}, r"env_args.players: got 1. Input should be greater than or equal to 2"),
    ]:
        with pytest.raises(UserError, match=message):
            make_env("stag_hunt", **args)
    assert make_env("stag_hunt", size=3, stags=1, hares=4).spec.scenario == "3x3-4p-4h1s-5b", "just enough room"
