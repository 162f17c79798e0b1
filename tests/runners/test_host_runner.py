"""Games outside JAX: the same episodes whoever plays them, and what happens when a worker fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.host_games import FAULTS, worker_processes
from omg.envs import make_env
from omg.envs.adapters.host import Seen
from omg.errors import UserError
from omg.runners.host import HostRunner, Played, default_workers, episode_seed
from omg.runners.worker import split_games
from omg.runners.workers import GamesFailedError, Patience

GAMES = 5
LIMIT = 8


class Alternating:
    """Acts by the time slot and what is seen; notes one number per game and step."""

    def __init__(self, before: Callable[[int], None] = lambda t: None, seats: int = 2) -> None:
        self.before, self.seats, self.beginnings = before, seats, 0

    def begin(self) -> None:
        self.beginnings += 1

    def choose(self, t: int, seen: Seen, *, last: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        self.before(t)
        first = (np.abs(seen.obs[:, 0, 0]).astype(int) + t) % 3
        actions = np.stack([first, *[np.full_like(first, t % 2)] * (self.seats - 1)], axis=1)
        return actions.astype(np.int32), {"noted": np.full((len(first), 1), t + 1, np.float32)}


@contextmanager
def runner(
    workers: int | None, seconds: float = 20.0, failures: int = 3, **kwargs: Any
) -> Iterator[tuple[HostRunner, list[str]]]:
    env_args = {"key": "helpers.host_games:Walk", "time_limit": LIMIT, "kwargs": kwargs, "metrics": ["place"]}
    said: list[str] = []
    env: Any = make_env("gymma", **env_args)
    made = HostRunner(
        env, "gymma", env_args, GAMES, workers=workers, patience=Patience(seconds, failures), say=said.append
    )
    try:
        yield made, said
    finally:
        made.close()
        assert worker_processes() == []


def process_ids(made: HostRunner) -> set[int]:
    """Of all workers, once they have started."""
    found = set()
    for worker in made.venue.workers:  # type: ignore[attr-defined]
        assert worker.ready or worker.await_start(time.monotonic() + 20) is None
        found.add(worker.pid)
    return found


def seed(game: int, attempt: int) -> int:
    return episode_seed(7, game, attempt)


def copied(played: Played) -> dict[str, Any]:
    arrays = {name: np.array(getattr(played, name)) for name in Played._fields if name not in ("records", "metrics")}
    return {**arrays, **{name: np.array(value) for name, value in (played.records | played.metrics).items()}}


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    with runner(0) as (made, _):
        return copied(made.play(Alternating(), seed))


def test_the_round_is_what_the_games_showed(undisturbed: dict[str, Any]) -> None:
    for game in range(GAMES):
        env = make_env("gymma", key="helpers.host_games:Walk", time_limit=LIMIT, metrics=["place"]).open()  # type: ignore[attr-defined]
        seen, total = env.reset(seed(game, 0)), 0.0
        for t in range(LIMIT + 1):
            np.testing.assert_array_equal(undisturbed["obs"][t, game], seen.obs)
            np.testing.assert_array_equal(undisturbed["state"][t, game], seen.state)
            np.testing.assert_array_equal(undisturbed["avail"][t, game], seen.avail)
            assert undisturbed["noted"][t, game] == t + 1
            step = env.step(undisturbed["actions"][t, game])
            assert undisturbed["filled"][t, game]
            np.testing.assert_array_equal(undisturbed["reward"][t, game], step.reward)
            assert undisturbed["terminated"][t, game] == step.terminated
            seen, total = step.seen, total + float(np.sum(step.reward))
            if step.terminated or step.truncated:
                break
        length = t + 1
        # Walks of eight steps reach the limit, which counts as a cut.
        assert step.truncated == (length == LIMIT)
        np.testing.assert_array_equal(undisturbed["obs"][length, game], seen.obs)
        assert undisturbed["filled"][:, game].sum() == length
        assert not undisturbed["obs"][length + 1 :, game].any()
        assert not undisturbed["avail"][length + 1 :, game].any()
        assert undisturbed["place"][game] == np.float32(step.metrics[0])
    lengths = undisturbed["filled"].sum(axis=0)
    assert len(set(lengths)) > 1, "episodes of different lengths"
    assert not undisturbed["dropped"].any()


def test_returns_and_own_returns(undisturbed: dict[str, Any]) -> None:
    with runner(0) as (made, _):
        played = made.play(Alternating(), seed)
        np.testing.assert_allclose(played.returns(), undisturbed["reward"].sum(axis=(0, 2)), rtol=1e-6)
        np.testing.assert_array_equal(played.lengths(), undisturbed["filled"].sum(axis=0))
        learns = np.array([[True, False]] * 4 + [[True, True]])
        own = played.measured(learns)["own_return"]
        each = undisturbed["reward"].sum(axis=0)
        np.testing.assert_allclose(own, [*each[:4, 0], each[4].mean()], rtol=1e-6)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_plays_the_same_episodes(workers: int, undisturbed: dict[str, Any]) -> None:
    with runner(workers) as (made, said):
        other = copied(made.play(Alternating(), lambda game, attempt: seed(game + 100, attempt)))
        assert len(worker_processes()) == workers + 1, "one more, which they are copies of"
        assert (other["obs"] != undisturbed["obs"]).any()
        again = copied(made.play(Alternating(), seed))
        for name, expected in undisturbed.items():
            np.testing.assert_array_equal(again[name], expected, err_msg=name)
        assert said == []


@pytest.mark.parametrize(
    ("name", "env_args"),
    [
        ("gymma", {"key": "lbforaging:Foraging-8x8-2p-3f-v3", "time_limit": 12}),
        ("pettingzoo", {"key": "mpe2.simple_spread_v3", "time_limit": 6, "kwargs": {"max_cycles": 6}}),
    ],
)
def test_real_packages_play_the_same_in_workers(name: str, env_args: dict[str, Any]) -> None:
    env: Any = make_env(name, **env_args)
    rounds = []
    for workers in (0, 2):
        made = HostRunner(env, name, env_args, 3, workers=workers, patience=Patience(20.0, 0), say=print)
        made.play(Alternating(seats=env.spec.n_agents), lambda game, attempt: game)
        rounds.append(copied(made.play(Alternating(seats=env.spec.n_agents), seed)))
        made.close()
    for key, expected in rounds[0].items():
        np.testing.assert_array_equal(rounds[1][key], expected, err_msg=key)
    assert rounds[0]["filled"].sum() == 3 * env.spec.episode_limit
    assert (rounds[0]["obs"][0] != rounds[0]["obs"][5]).any()
    assert worker_processes() == []


SAID = {
    "kill": "was killed by SIGKILL",
    "hang": "no answer in time (worker_timeout)",
    "raise": "RuntimeError: the game broke",
    "nan": "an observation or state that is not a number",
    "nan_reward": "a reward that is not a number",
    "shape": "seat 0 has an observation of 1 numbers, not 3",
    "seats": "a reward of shape (3,), not (2,)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_worker_loses_its_unfinished_episodes_and_nothing_else(
    fault: str, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    with runner(2, seconds=1.0, fault=fault, marker=str(tmp_path / "once")) as (made, said):
        before = process_ids(made)
        chooser = Alternating()
        played = copied(made.play(chooser, seed))
        assert len(before & process_ids(made)) == 1, "one of the two workers was replaced"
        dropped = played.pop("dropped")
        # Workers have the games 0, 1 and 2, 3, 4; one of the two lost what it was playing in the third step.
        share = slice(0, 2) if dropped[:2].any() else slice(2, 5)
        ongoing = undisturbed["filled"][2, share]
        assert dropped[share].tolist() == ongoing.astype(int).tolist()
        assert dropped.sum() == ongoing.sum() >= 1
        number = 0 if share.start == 0 else 1
        assert said == [
            f"worker {number}: {SAID[fault]}; {dropped.sum()} unfinished episode(s) dropped, starting it anew"
        ]
        assert chooser.beginnings == 2
        for name, values in played.items():
            games = values.swapaxes(0, 1) if values.ndim > 1 else values
            expected = undisturbed[name].swapaxes(0, 1) if values.ndim > 1 else undisturbed[name]
            np.testing.assert_array_equal(games[dropped == 0], expected[dropped == 0], err_msg=name)
        # In their place are whole other episodes.
        lengths = played["filled"].sum(axis=0)
        assert (lengths >= 3).all()
        assert (played["obs"][:, dropped > 0] != undisturbed["obs"][:, dropped > 0]).any()
        assert not any(played["obs"][length + 1 :, game].any() for game, length in enumerate(lengths))
        # The next round is as if nothing had happened.
        again = copied(made.play(Alternating(), seed))
        np.testing.assert_array_equal(again["obs"], undisturbed["obs"])


@pytest.mark.parametrize("fault", ["raise", "nan"])
def test_in_one_process_failures_are_endured_too(fault: str, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    with runner(0, fault=fault, marker=str(tmp_path / "once")) as (made, said):
        played = made.play(Alternating(), seed)
        assert played.dropped.sum() == undisturbed["filled"][2].sum()
        assert len(said) == 1
        assert said[0].startswith(f"the game failed: {SAID[fault]}; {played.dropped.sum()} unfinished episode(s)")


def test_a_worker_killed_from_outside_is_replaced(undisturbed: dict[str, Any]) -> None:
    with runner(2) as (made, said):
        process_ids(made)
        victim = made.venue.workers[1].pid  # type: ignore[attr-defined]

        def kill(t: int) -> None:
            if t == 1 and not said:
                os.kill(victim, signal.SIGKILL)

        played = made.play(Alternating(kill), seed)
        assert played.dropped.tolist() == [0, 0, 1, 1, 1]
        np.testing.assert_array_equal(played.obs[:, :2], undisturbed["obs"][:, :2])
        assert "worker 1: was killed by SIGKILL" in said[0]


def test_workers_whose_origin_is_killed_are_replaced_with_it(undisturbed: dict[str, Any]) -> None:
    with runner(2) as (made, said):
        before = process_ids(made)
        origin = min(worker_processes())
        assert origin not in before

        def kill(t: int) -> None:
            if t == 1 and not said:
                os.kill(origin, signal.SIGKILL)
                os.kill(made.venue.workers[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]

        made.play(Alternating(kill), seed)
        assert said[0] == (
            "worker 0: ended with the process it was copied from; 2 unfinished episode(s) dropped, starting it anew"
        )
        for _ in range(20):  # The other one may end a little later.
            if before & process_ids(made):
                made.play(Alternating(), seed)
        again = copied(made.play(Alternating(), seed))
        np.testing.assert_array_equal(again["obs"], undisturbed["obs"])
        assert not before & process_ids(made)
        assert len(worker_processes()) == 3


def test_a_game_with_threads_is_played_by_programs_of_their_own(undisturbed: dict[str, Any]) -> None:
    env_args = {"key": "helpers.host_games:Threaded", "time_limit": LIMIT, "metrics": ["place"]}
    env: Any = make_env("gymma", **env_args)
    said: list[str] = []
    made = HostRunner(env, "gymma", env_args, GAMES, workers=2, patience=Patience(20.0, 1), say=said.append)
    played = copied(made.play(Alternating(), seed))
    for name, expected in undisturbed.items():
        np.testing.assert_array_equal(played[name], expected, err_msg=name)
    lines = [Path(f"/proc/{number}/cmdline").read_bytes() for number in sorted(process_ids(made))]
    assert all(b"omg.runners.worker" in line for line in lines)
    victim = made.venue.workers[1].pid  # type: ignore[attr-defined]
    os.kill(victim, signal.SIGKILL)
    made.play(Alternating(), seed)
    assert said == ["worker 1: was killed by SIGKILL; 3 unfinished episode(s) dropped, starting it anew"]
    made.close()
    assert worker_processes() == []


def test_copies_draw_different_numbers_where_a_game_ignores_its_seed() -> None:
    env_args = {"key": "helpers.host_games:Unseeded", "time_limit": LIMIT}
    env: Any = make_env("gymma", **env_args)
    made = HostRunner(env, "gymma", env_args, 4, workers=4, patience=Patience(20.0, 0), say=print)
    played = made.play(Alternating(), seed)
    assert len(set(played.obs[0, :, 0, 0].tolist())) == 4
    made.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_failures_in_a_row_end_the_run(workers: int, tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    with runner(workers, failures=2, pause=str(pause)) as (made, said):
        pause.touch()
        with pytest.raises(GamesFailedError, match=r"failed 3 times without a whole round.*RuntimeError: paused"):
            made.play(Alternating(), seed)
        assert len(said) == 2
        pause.unlink()


def test_a_game_that_cannot_be_built_is_a_failure_with_a_reason() -> None:
    env: Any = make_env("gymma", key="helpers.host_games:Walk", time_limit=LIMIT)
    env_args = {"key": "helpers.host_games:Walk", "time_limit": LIMIT - 1}
    made = HostRunner(env, "gymma", env_args, 2, workers=1, patience=Patience(5.0, 0), say=print)
    with pytest.raises(GamesFailedError, match=r"worker 0: did not start: .*'episode_limit': \(7, 8\)"):
        made.play(Alternating(), seed)
    made.close()
    assert worker_processes() == []


def test_a_game_that_ends_its_process_while_it_is_built_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    env_args = {"key": "helpers.host_games:Crashing", "time_limit": LIMIT, "kwargs": {"marker": str(tmp_path / "once")}}
    env: Any = make_env("gymma", **env_args)
    made = HostRunner(env, "gymma", env_args, 4, workers=2, patience=Patience(5.0, 2), say=print)
    with pytest.raises(GamesFailedError, match=r"did not start: ended with code 3 \(no display\)"):
        made.play(Alternating(), seed)
    made.close()
    assert worker_processes() == []


def test_an_exception_on_the_way_leaves_no_process() -> None:
    def fail(t: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), runner(2) as (made, _):
        made.play(Alternating(fail), seed)
    assert worker_processes() == []


def test_workers_end_with_the_process_that_started_them() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from test_host_runner import Alternating, runner, seed\n"
        "from helpers.host_games import worker_processes\n"
        "with runner(2) as (made, said):\n"
        "    made.play(Alternating(), seed)\n"
        "    print(*worker_processes(), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 3
    assert all(Path(f"/proc/{number}").exists() for number in workers)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{number}").exists() for number in workers):
        assert time.monotonic() < deadline, "workers outlive their run"
        time.sleep(0.02)
    parent.stdout.close()


def test_games_are_shared_out_evenly() -> None:
    assert split_games(5, 2) == [(0, 2), (2, 3)]
    assert split_games(8, 8) == [(index, 1) for index in range(8)]
    assert sum(count for _, count in split_games(32, 5)) == 32
    assert 1 <= default_workers(1000) <= (os.cpu_count() or 1)
    assert default_workers(1) == 1


def test_seeds_of_episodes_are_their_own() -> None:
    seeds = [episode_seed(run, 0, number, 0, attempt) for run in (1, 2) for number in range(50) for attempt in (0, 1)]
    assert len(set(seeds)) == 200
    assert all(0 <= value < 2**31 for value in seeds)
    assert episode_seed(1, 0, 3, 0, 0) == episode_seed(1, 0, 3, 0, 0)


def test_compiled_programs_refuse_such_games() -> None:
    env: Any = make_env("gymma", key="helpers.host_games:Walk", time_limit=LIMIT)
    with pytest.raises(UserError, match=r"'gymma' \(Walk\) is no JAX program.*runner=parallel"):
        env.reset(None, 1)
