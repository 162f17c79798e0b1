"""Seconds per environment step of the batched tree search, beside a plain one written in Python and NumPy.

Both search for all four players of stag_hunt on 6x6 cells: `--samples` trees of `--simulations` simulations for each
player, every player with its own network and one for its co-players, at full size. The plain search follows one
branch of one tree at a time on one thread, as such code usually does; it has the same rules, networks and counts, and
asks all networks in every simulation. It is timed on whole steps of one game, before and after each batched step of
all games, so that other load on the machine hits both; the ratio is the median over such rounds.

    python benchmarks/search_reference.py --output benchmarks/results/search_speed_cpu.json
"""

from __future__ import annotations

import os

# NumPy reads these when it is imported; JAX has threads of its own.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from machine import machine

from omg.envs import make_env
from omg.envs.grid import STAY
from omg.envs.stag_hunt import StagHunt
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG
from omg.planning.minds import GoalJudge, network_sizes, new_minds
from omg.planning.search import SearchSettings, decide

PLAYERS, ACTIONS = 4, 7


# --------------------------------------------------------------------------------------------- the plain search


@dataclass
class Position:
    """One game of stag_hunt; prey are (cell, action that hunts it), blocks are cells."""

    players: list[int]
    hunting: list[bool]
    prey: list[tuple[int, int]]
    blocks: frozenset[int]
    time: int


@dataclass
class TreeNode:
    """One position in a tree."""

    at: Position
    prior: np.ndarray
    legal: np.ndarray
    others: list[int]
    goals: list[int]
    ended: bool
    visits: np.ndarray = field(default_factory=lambda: np.zeros(ACTIONS))
    totals: np.ndarray = field(default_factory=lambda: np.zeros(ACTIONS))
    children: dict[int, TreeNode] = field(default_factory=dict)
    rewards: dict[int, float] = field(default_factory=dict)


class PlainRules:
    """The rules of stag_hunt for one game."""

    def __init__(self, env: StagHunt) -> None:
        self.env, self.height, self.width = env, env.board.height, env.board.width

    def target(self, at: Position, cell: int, action: int) -> int | None:
        row, col = divmod(cell, self.width)
        row, col = row + (action == 1) - (action == 0), col + (action == 3) - (action == 2)
        inside = 0 <= row < self.height and 0 <= col < self.width
        return row * self.width + col if inside and row * self.width + col not in at.blocks else None

    def legal(self, at: Position, seat: int) -> np.ndarray:
        allowed = np.zeros(ACTIONS, bool)
        allowed[STAY] = True
        if at.hunting[seat]:
            cell = at.players[seat]
            for action in range(4):
                allowed[action] = self.target(at, cell, action) is not None
            for where, hunt in at.prey:
                if where == cell:
                    allowed[hunt] = True
        return allowed

    def advance(self, at: Position, actions: list[int]) -> tuple[Position, list[float], bool]:
        players, hunting, rewards, left = list(at.players), list(at.hunting), [0.0] * PLAYERS, []
        for where, hunt in at.prey:
            hunters = [s for s in range(PLAYERS) if at.hunting[s] and at.players[s] == where and actions[s] == hunt]
            if len(hunters) < (2 if hunt == HUNT_STAG else 1):
                left.append((where, hunt))
                continue
            for seat in hunters:
                rewards[seat] = (10.0 if hunt == HUNT_STAG else 1.0) / len(hunters)
                hunting[seat] = False
        for seat in range(PLAYERS):
            if at.hunting[seat] and actions[seat] < 4:
                goal = self.target(at, at.players[seat], actions[seat])
                players[seat] = at.players[seat] if goal is None else goal
        after = Position(players, hunting, left, at.blocks, at.time + 1)
        over = not any(hunting) or not left or after.time >= self.env.args.episode_limit
        return after, rewards, over

    def maps(self, at: Position, seat: int) -> np.ndarray:
        """[H, W, C] with the focal player first."""
        maps = np.zeros((self.height * self.width, PLAYERS + 3), np.float32)
        for channel, other in enumerate([seat, *(s for s in range(PLAYERS) if s != seat)]):
            if at.hunting[other]:
                maps[at.players[other], channel] = 1
        maps[list(at.blocks), PLAYERS] = 1
        for where, hunt in at.prey:
            maps[where, PLAYERS + 1 + (hunt == HUNT_HARE)] = 1
        return maps.reshape(self.height, self.width, -1)


def plain_trunk(trunk: Any, maps: np.ndarray, share: float) -> np.ndarray:
    """The convolutions and the wide layer for one map [H, W, C]."""
    height, width, _ = maps.shape
    x = maps
    for kernel, bias in zip(trunk.kernels, trunk.biases, strict=True):
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        shifted = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
        x = np.concatenate(shifted, axis=-1).reshape(height * width, -1) @ kernel.reshape(-1, kernel.shape[-1])
        x = np.maximum(x + bias, 0).reshape(height, width, -1)
    return x.reshape(-1) @ trunk.dense.weight + trunk.dense.bias + share * trunk.time


class PlainSearch:
    """One tree at a time, one branch at a time."""

    def __init__(self, rules: PlainRules, minds: list[Any], settings: SearchSettings, seed: int) -> None:
        self.rules, self.minds, self.settings = rules, minds, settings
        self.random = np.random.default_rng(seed)

    def judge(self, at: Position, seat: int, goals: list[int], ended: bool) -> tuple[TreeNode, float]:
        mind, maps = self.minds[seat], self.rules.maps(at, seat)
        share = at.time / self.rules.env.args.episode_limit
        hidden = np.maximum(plain_trunk(mind.own.trunk, maps, share), 0)
        value = float(hidden @ mind.own.value.weight[:, 0] + mind.own.value.bias[0])
        legal = self.rules.legal(at, seat)
        prior = chances(hidden @ mind.own.policy.weight + mind.own.policy.bias, legal)
        others, kinds = [], {hunt - HUNT_STAG for _, hunt in at.prey}
        goals = [goal if goal in kinds or not kinds else int(self.random.choice(list(kinds))) for goal in goals]
        network = mind.others
        weighed = plain_trunk(network.trunk, maps, share)
        for place, other in enumerate(s for s in range(PLAYERS) if s != seat):
            hidden = np.maximum(weighed + network.goal[place, goals[place]], 0)
            chance = chances(hidden @ network.weight[place] + network.bias[place], self.rules.legal(at, other))
            others.append(int(np.searchsorted(np.cumsum(chance), self.random.random() * chance.sum(), side="right")))
        return TreeNode(at, prior, legal, others, goals, ended), 0.0 if ended else value

    def tree(self, at: Position, seat: int, goals: list[int]) -> tuple[TreeNode, float]:
        """The root after all simulations, and the network's value of it."""
        root, value = self.judge(at, seat, goals, False)
        for _ in range(self.settings.simulations):
            self.visit(root, seat)
        return root, value

    def visit(self, node: TreeNode, seat: int) -> float:
        q = node.totals / np.maximum(node.visits, 1)
        bonus = self.settings.exploration * node.prior * math.sqrt(1 + node.visits.sum()) / (1 + node.visits)
        action = int(np.argmax(np.where(node.legal, q + bonus, -np.inf)))
        child = node.children.get(action)
        if child is None:
            actions = list(node.others)
            actions.insert(seat, action)
            after, rewards, over = self.rules.advance(node.at, actions)
            ended = over or not after.hunting[seat]
            child, behind = self.judge(after, seat, node.goals, ended)
            node.children[action], node.rewards[action] = child, rewards[seat]
        else:
            behind = 0.0 if child.ended else self.visit(child, seat)
        total = node.rewards[action] + (0.0 if child.ended else self.settings.discount * behind)
        node.visits[action] += 1
        node.totals[action] += total
        return total


def chances(logits: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Softmax over legal actions."""
    weights = np.where(legal, np.exp(logits - logits[legal].max()), 0.0)
    return weights / weights.sum()


def plain_position(state: Any, game: int) -> Position:
    hunts = [HUNT_STAG] + [HUNT_HARE] * (state.prey.shape[1] - 1)
    prey = [(int(cell), hunt) for cell, hunt in zip(state.prey[game], hunts, strict=True)]
    return Position([int(cell) for cell in state.player[game]], [True] * PLAYERS, prey, frozenset(), 0)


# ------------------------------------------------------------------------------------------------ measurements


def seconds(run: Callable[[], Any], rounds: int) -> float:
    """Median time of a call."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=6)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--games", type=int, nargs="*", default=[1, 8, 64, 256], help="games at once")
    parser.add_argument("--counts", type=int, nargs="*", default=[50, 100, 400], help="other numbers of simulations")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain-steps", type=int, default=2, help="that the plain search is timed on, twice a round")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()

    env = make_env("stag_hunt", size=args.size, blocks=0)
    goals, settings = env.goals(), SearchSettings(simulations=args.simulations)
    sizes = network_sizes(env, goals.width)
    keys = jax.random.split(jax.random.key(0), PLAYERS)
    minds = jax.vmap(lambda key: new_minds(sizes, PLAYERS, key))(keys)
    most = max(args.games)
    state = env.start(jax.random.key(1), most)
    sampled = jax.random.randint(jax.random.key(2), (most, PLAYERS, args.samples, PLAYERS - 1), 0, 2).astype(jnp.int16)

    def batched(games: int, simulations: int) -> Callable[[], Any]:
        now = jax.tree.map(lambda leaf: leaf[:games], (state, sampled))
        seats = jnp.tile(jnp.arange(PLAYERS, dtype=jnp.int32), (games, 1))
        chosen = replace(settings, simulations=simulations)

        @jax.jit
        def run(minds: Any, state: Any, sampled: Any) -> Any:
            judge = GoalJudge(env, goals, minds, trees=games * args.samples)
            return decide(env, judge, chosen, state, seats, sampled, jax.random.key(3))

        jax.block_until_ready(run(minds, *now))
        return lambda: run(minds, *now)

    rules = PlainRules(env)
    as_numpy = jax.tree.map(np.asarray, minds)
    apart = [jax.tree.map(lambda leaf, seat=seat: leaf[seat], as_numpy) for seat in range(PLAYERS)]
    plain = PlainSearch(rules, apart, settings, 0)
    check(env, minds, plain, state)

    trees = PLAYERS * args.samples
    at = plain_position(state, 0)

    def plain_steps() -> None:
        for number in range(trees * args.plain_steps):
            plain.tree(at, number % PLAYERS, [0, 1, 0])

    by_games: dict[int, float] = {}
    for games in args.games:
        by_games[games] = seconds(batched(games, args.simulations), 2) / games
        print(f"{games:4d} games at once: {by_games[games]:.4f} s per env step", flush=True)
    by_count = {args.simulations: by_games[most]}
    for count in args.counts:
        by_count[count] = seconds(batched(most, count), 1) / most
    run, plain_times, batched_times = batched(most, args.simulations), [], []
    for _ in range(args.rounds):
        before = seconds(plain_steps, 1)
        batched_times.append(seconds(run, 1) / most)
        plain_times.append((before + seconds(plain_steps, 1)) / (2 * args.plain_steps))
        print(f"plain {plain_times[-1]:.3f} s, batched {batched_times[-1]:.4f} s per env step", flush=True)
    ratios = [one / other for one, other in zip(plain_times, batched_times, strict=True)]
    per_step = {
        "plain": round(statistics.median(plain_times), 3),
        "batched": round(statistics.median(batched_times), 4),
    }
    result = {
        "game": env.spec.scenario,
        "trees_per_env_step": trees,
        "simulations": args.simulations,
        "games": most,
        "plain_search_timed_on_trees": 2 * trees * args.plain_steps * args.rounds,
        "seconds_per_env_step": per_step,
        "ratio": round(statistics.median(ratios), 1),
        "ratio_of_each_round": [round(ratio, 1) for ratio in ratios],
        "seconds_per_env_step_by_games": {str(games): round(value, 4) for games, value in by_games.items()},
        "simulations_per_second_by_games": {
            str(games): round(trees * args.simulations / value) for games, value in by_games.items()
        },
        f"simulations_per_second_by_count_at_{most}_games": {
            str(count): round(trees * count / value) for count, value in sorted(by_count.items())
        },
        **machine(),
    }
    print(json.dumps(result, indent=2))
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n")


def check(env: StagHunt, minds: Any, plain: PlainSearch, state: Any) -> None:
    """Both searches must start from the same numbers, or their times say nothing."""
    seat = 2
    maps, share = env.sight(jax.tree.map(lambda leaf: leaf[:1], state), jnp.asarray([seat]))
    own = jax.tree.map(lambda leaf: leaf[seat], minds).own
    logits, value = own(maps, share)
    legal = env.legal(state)[0, seat]
    prior = jax.nn.softmax(logits[0], where=legal)
    node, plain_value = plain.judge(plain_position(state, 0), seat, [0, 1, 0], False)
    np.testing.assert_allclose(node.prior, np.asarray(prior), atol=1e-5)
    np.testing.assert_allclose(plain_value, float(value[0]), atol=1e-5)


if __name__ == "__main__":
    main()
