"""Snowdrift: the payoffs of the dilemma, every step against a slow and obvious version, what is seen, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.envs import make_env
from omg.envs.grid import DOWN, LEFT, RIGHT, STAY, UP
from omg.envs.snowdrift import Snowdrift, SnowdriftArgs, SnowdriftState
from omg.envs.snowdrift.env import NO_DRIFT, SHOVEL
from omg.errors import UserError

STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}


@cache
def make(**args: Any) -> Snowdrift:
    return Snowdrift(SnowdriftArgs(**args))


@cache
def compiled(env: Snowdrift) -> Any:
    return jax.jit(lambda state, actions: (*env.step(jax.random.key(0), state, actions), env.removed(state, actions)))


def road(env: Snowdrift, players: Sequence[int]) -> SnowdriftState:
    """A batch of one: the drifts on the first cells of the top row, the players on these cells."""
    return SnowdriftState(
        player=jnp.asarray([players], jnp.uint8),
        drift=jnp.arange(env.args.drifts, dtype=jnp.uint8)[None],
        drift_left=jnp.ones((1, env.args.drifts), bool),
        blocks=jnp.zeros((1, env.board.words), jnp.uint32),
        last_action=jnp.full((1, len(players)), -1, jnp.int8),
        time=jnp.zeros(1, jnp.int16),
    )


def returns(env: Snowdrift, state: SnowdriftState, rounds: Sequence[Sequence[int]]) -> tuple[list[float], Any]:
    """What every player was paid over some steps, and the last outcome."""
    total = np.zeros(env.spec.n_agents)
    for actions in rounds:
        state, _, outcome, _ = compiled(env)(state, jnp.asarray([actions], jnp.int32))
        total += np.asarray(outcome.reward[0])
    return total.tolist(), outcome


GAME = make()


def test_everybody_shovelling_together_gets_30() -> None:
    together = [action for _ in range(6) for action in ([SHOVEL] * 4, [RIGHT] * 4)]
    total, outcome = returns(GAME, road(GAME, [0] * 4), together[:-1])
    np.testing.assert_allclose(total, [30.0] * 4)
    assert bool(outcome.terminated[0])
    assert float(outcome.metrics["reward_per_player"][0]) == 30.0
    assert float(outcome.metrics["drifts_removed"][0]) == 6.0


def test_a_lone_cleaner_gets_12_and_free_riders_36() -> None:
    alone = [action for _ in range(6) for action in ([SHOVEL, STAY, STAY, STAY], [RIGHT, STAY, DOWN, LEFT])]
    total, outcome = returns(GAME, road(GAME, [0, 9, 9, 20]), alone[:-1])
    assert total == [12.0, 36.0, 36.0, 36.0]
    assert bool(outcome.terminated[0])
    # The mean over players is the same 30, however the work is shared.
    assert float(outcome.metrics["reward_per_player"][0]) == 30.0


def test_cost_is_shared_by_those_who_shovel_the_same_drift_in_the_same_step() -> None:
    state = road(GAME, [0, 0, 3, 8])
    after, _, outcome, removed = compiled(GAME)(state, jnp.asarray([[SHOVEL, SHOVEL, SHOVEL, SHOVEL]]))
    # Two drifts: 12 for everybody. The fourth has no drift on its cell.
    assert outcome.reward[0].tolist() == [10.0, 10.0, 8.0, 12.0]
    assert removed[0].tolist() == [0, 0, 3, NO_DRIFT]
    assert after.drift_left[0].astype(int).tolist() == [0, 1, 1, 0, 1, 1]
    assert after.last_action[0].tolist() == [SHOVEL, SHOVEL, SHOVEL, STAY]
    _, _, outcome, removed = compiled(GAME)(after, jnp.asarray([[SHOVEL, UP, LEFT, STAY]]))
    assert outcome.reward[0].tolist() == [0.0] * 4
    assert removed[0].tolist() == [NO_DRIFT] * 4


def test_other_payoffs_and_numbers() -> None:
    env = make(drifts=2, players=2, benefit=3.0, cost=5.0)
    total, outcome = returns(env, road(env, [0, 1]), [[SHOVEL, STAY], [STAY, SHOVEL]])
    assert total == [1.0, 1.0]
    assert bool(outcome.terminated[0])
    assert float(outcome.metrics["reward_per_player"][0]) == 1.0


def test_ends_without_drifts_or_at_the_limit_and_nothing_happens_after() -> None:
    env = make(drifts=1, players=2, episode_limit=2)
    state, _, first, _ = compiled(env)(road(env, [0, 0]), jnp.asarray([[STAY, STAY]]))
    assert not bool(first.terminated[0] | first.truncated[0])
    for actions, ended in (((STAY, STAY), "cut"), ((SHOVEL, STAY), "over")):
        after, _, outcome, _ = compiled(env)(state, jnp.asarray([actions]))
        assert (bool(outcome.terminated[0]), bool(outcome.truncated[0])) == (ended == "over", ended == "cut")
        again, _, beyond, removed = compiled(env)(after, jnp.asarray([[SHOVEL, DOWN]]))
        assert jax.tree.all(jax.tree.map(lambda one, other: bool((one == other).all()), again, after))
        assert beyond.reward[0].tolist() == [0.0, 0.0]
        assert removed[0].tolist() == [NO_DRIFT, NO_DRIFT]


@pytest.mark.parametrize("args", [{"size": 5, "blocks": 3, "episode_limit": 30}], ids=str)
def test_every_step_agrees_with_a_slow_version(args: dict[str, Any]) -> None:
    env, games = make(**args), 8
    board, limit, seats = env.board, env.spec.episode_limit, range(env.spec.n_agents)
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(3), games)
    players = [[divmod(int(cell), board.width) for cell in row] for row in state.player]
    drifts = [{divmod(int(cell), board.width): index for index, cell in enumerate(row)} for row in state.drift]
    walls = [{divmod(int(cell), board.width) for cell in np.flatnonzero(row)} for row in env.drawn(state)[1][:, 0]]
    assert any(walls)
    random, taken = np.random.default_rng(4), 0

    def legal(game: int, seat: int) -> list[bool]:
        row, col = players[game][seat]
        targets = [(row + down, col + right) for down, right in STEPS.values()]
        inside = [0 <= r < board.height and 0 <= c < board.width and (r, c) not in walls[game] for r, c in targets]
        return [*inside, True, (row, col) in drifts[game]]

    def picture(cells: Any) -> np.ndarray:
        flat = np.zeros(board.cells, np.float32)
        flat[[row * board.width + col for row, col in cells]] = 1
        return flat

    def numbers(game: int, order: list[int], done: list[int], mask: list[bool], time: int) -> np.ndarray:
        maps = [picture([players[game][seat]]) for seat in order] + [picture(walls[game]), picture(drifts[game])]
        last = [np.eye(6, dtype=np.float32)[done[seat]] for seat in order]
        return np.concatenate([*maps, np.array([*mask, time / limit], np.float32), *last])

    over = [False] * games
    for time in range(1, limit + 1):
        actions = random.integers(0, 6, (games, len(seats)))
        state, seen, outcome, removed = jax.device_get(compiled(env)(state, jnp.asarray(actions, jnp.int32)))
        for game in (game for game in range(games) if not over[game]):
            done = [int(a) if legal(game, seat)[a] else STAY for seat, a in zip(seats, actions[game], strict=True)]
            by_drift: dict[tuple[int, int], list[int]] = {}
            for seat in seats:
                if done[seat] == SHOVEL:
                    by_drift.setdefault(players[game][seat], []).append(seat)
                elif done[seat] in STEPS:
                    (row, col), (down, right) = players[game][seat], STEPS[done[seat]]
                    players[game][seat] = row + down, col + right
            rewards, numbered = np.full(len(seats), 6.0 * len(by_drift)), [NO_DRIFT] * len(seats)
            for cell, workers in by_drift.items():
                index = drifts[game].pop(cell)
                taken += 1
                for seat in workers:
                    rewards[seat] -= 4.0 / len(workers)
                    numbered[seat] = index
            np.testing.assert_allclose(outcome.reward[game], rewards, rtol=1e-6)
            assert removed[game].tolist() == numbered
            assert seen.avail[game].tolist() == [legal(game, seat) for seat in seats]
            for seat in seats:
                order = [seat, *(other for other in seats if other != seat)]
                expected = numbers(game, order, done, legal(game, seat), time)
                np.testing.assert_allclose(seen.obs[game, seat], expected, rtol=1e-6)
            np.testing.assert_allclose(seen.state[game], numbers(game, list(seats), done, [], time), rtol=1e-6)
            over[game] = not drifts[game]
            assert bool(outcome.terminated[game]) == over[game]
            assert bool(outcome.truncated[game]) == (time == limit and not over[game])
    assert taken > 10


def test_names_sizes_and_refusals() -> None:
    spec = make_env("snowdrift").spec
    assert (spec.scenario, spec.n_agents, spec.n_actions, spec.episode_limit) == ("8x8-4p-6d", 4, 6, 50)
    assert (spec.obs_dim, spec.state_dim) == (6 * 64 + 6 + 1 + 4 * 6, 6 * 64 + 1 + 4 * 6)
    assert make(blocks=2, width=6).spec.scenario == "8x6-4p-6d-2b"
    assert GAME.map_view.channel("drift") == 5
    assert not np.asarray(GAME.drawn(road(GAME, [0, 0, 0, 0]))[1][:, 0]).any()
    for args, message in [
        ({"size": 3}, r"env_args.size: a field of 3x3 has 9 cells, but 4 players and 6 drifts need 10, one each"),
        ({"drifts": 0}, r"env_args.drifts: got 0"),
        ({"driffts": 3}, r"env_args.driffts'. Did you mean 'env_args.drifts'"),
    ]:
        with pytest.raises(UserError, match=message):
            make_env("snowdrift", **args)
