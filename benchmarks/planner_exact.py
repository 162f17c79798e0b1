"""What the inference of HOP+ is worth with partners of hidden kinds, and what its search loses, against exact answers.

    python benchmarks/planner_exact.py OUT PIPELINE ...      # of partners_snowdrift or partners_stag_hunt

The boards are small enough for all positions that can follow from a start. In them, for each cell that the partner may
be heading for, the best answer to its network told the way to that cell is computed exactly; an agent that does what is
best on average over the cells that HOP+ infers at that moment answers exactly what HOP+ searches for. Every agent of a
pipeline's `hop_plus` plays each held-out script from the same starts:

- `search`: as it is tested;
- `inferred`: with the exact answer to what it infers, in place of the search;
- `ahead D`, for each of `--ahead`: the same D steps ahead, where its network says what is to be had behind them;
- `nothing`: with the exact answer to its network told nothing;
- `drawn K`, for each of `--drawn` (4 and 64): with exact trees, so many, in each of which one cell and what the partner
  does in every position are drawn once, as with `hop_widening=1`, and the answer is best in each tree by itself;
- `search C:N:K` or `C:N:K:D`, for each of `--searches`: as it is tested, but with exploration C and K trees of N
  simulations, and D draws of what the partner does in a position (`hop_widening`).

Besides, from `omg.evaluation.exact` on the same starts: `fixed`, `none`, `bayes` (known scripts, inferred by Bayes'
rule) and `told`. Shares are (own return - fixed) / (told - fixed). Writes `exact_hop_plus.csv`: game, draw, who, mean,
share, and over training seeds the lowest and highest share.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from planner_partners import share

from omg.components.selectors import legal_softmax
from omg.controllers.base import PlayerView
from omg.controllers.hop import HOPMac
from omg.controllers.scripted import SCRIPTED
from omg.envs import make_env
from omg.envs.grid.view import MapView
from omg.evaluation.exact import exact_values
from omg.experiments.plan import read_plan
from omg.planning.cells import UNTOLD, Ways
from omg.pools.agents import load_agent

ROWS = 4096
"""Positions of one compiled call."""


class Layer(NamedTuple):
    """Positions after some steps."""

    number: dict[bytes, int]
    """Of each position."""
    legal: np.ndarray
    """[n, U], of seat 0."""
    value: np.ndarray
    """[n], what the player's own network expects from here on."""
    likely: np.ndarray
    """[n, cells + 1, U], what the partner's network makes of each cell, and of nothing."""
    reward: np.ndarray
    """[n, U, U] to seat 0, by its action and the partner's."""
    after: np.ndarray
    """[n, U, U], the position in the next layer; -1 behind the end."""


def keys_of(view: MapView, worlds: np.ndarray) -> list[bytes]:
    """What tells positions [n, S] apart: what is on the board, and the time, but not what was done last."""
    rows = np.ascontiguousarray(worlds[:, : view.map_size + 1], np.float32)
    return [row.tobytes() for row in rows]


class Board:
    """All positions that follow from some starts, with what a player's network for its partner says there."""

    def __init__(self, mac: HOPMac, worlds: np.ndarray, steps: int) -> None:
        """Of the global states [N, S] in which games start."""
        self.view, game = mac.game.map_view, mac.game
        mind = jax.tree.map(lambda leaf: leaf[0], mac.minds)
        own, others = mind.own, mind.others
        ways, actions, cells = Ways(self.view), game.spec.n_actions, game.cells
        pairs = np.indices((actions, actions)).reshape(2, -1).T

        @jax.jit
        def look(worlds: Any) -> tuple[Any, ...]:
            state, rows = game.from_world(worlds), len(worlds)
            legal = game.legal(state)
            here = state.player[:, 1].astype(jnp.int32)
            to_cells = ways.between(here[:, None], jnp.arange(cells))
            told = jnp.concatenate([to_cells, jnp.full((rows, 1), UNTOLD)], axis=1)
            seen = game.sight(state, jnp.zeros(rows, jnp.int32))
            logits = others.told_each(others.trunk(*seen), told[:, None])[:, 0]
            return legal[:, 0], own(*seen)[1], legal_softmax(logits, legal[:, 1][:, None]), legal[:, 1]

        @jax.jit
        def step(worlds: Any) -> tuple[Any, ...]:
            each = game.from_world(jnp.repeat(worlds, len(pairs), axis=0))
            after, reward, over = game.advance(each, jnp.tile(jnp.asarray(pairs), (len(worlds), 1)))
            return game.world(after), reward[:, 0], over

        self.layers: list[Layer] = []
        worlds = distinct(self.view, np.asarray(worlds))[0]
        while len(worlds) and len(self.layers) < steps:
            table = (len(worlds), actions, actions)
            legal, value, likely, theirs = in_parts(look, worlds, ROWS, 1)
            after, reward, over = in_parts(step, worlds, ROWS // 8, len(pairs))
            possible = (legal[:, :, None] & theirs[:, None]).reshape(-1) & ~over
            found, where = distinct(self.view, after[possible])
            number = np.full(len(over), -1)
            number[possible] = where
            names = {key: index for index, key in enumerate(keys_of(self.view, worlds))}
            self.layers.append(Layer(names, legal, value, likely, reward.reshape(table), number.reshape(table)))
            worlds = found
        self.values = self.solved(len(self.layers))

    def solved(self, depth: int) -> list[np.ndarray]:
        """The value of each action of seat 0 against each cell, and nothing: [n, cells + 1, U] of every layer.

        So many steps ahead, with what the network expects behind them.
        """
        nothing = np.zeros((1, self.layers[0].likely.shape[1]))
        ahead = [np.repeat(layer.value[:, None], nothing.shape[1], axis=1) for layer in self.layers]
        values: list[np.ndarray] = []
        for _ in range(depth):
            values = []
            for layer, after in zip(self.layers, [*ahead[1:], nothing[:0]], strict=True):
                to_come = layer.reward[..., None] + np.concatenate([after, nothing])[layer.after]
                values.append(np.einsum("ncv,nuvc->ncu", layer.likely, to_come))
            ahead = [
                np.where(layer.legal[:, None], each, -np.inf).max(axis=2)
                for layer, each in zip(self.layers, values, strict=True)
            ]
        return values

    def drawn(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The same where what the partner does in each position is drawn once for each cell and known at once."""
        values: list[np.ndarray] = []
        ahead = np.zeros((1, self.layers[0].likely.shape[1]))
        for layer in reversed(self.layers):
            summed = layer.likely.cumsum(axis=2)
            does = (summed < rng.random((len(summed), 1, 1)) * summed[..., -1:]).sum(axis=2)
            rows, cells = np.arange(len(summed))[:, None], np.arange(summed.shape[1])
            # [n, cells + 1, U].
            after = np.moveaxis(layer.after, 1, 2)[rows, does]
            each = np.moveaxis(layer.reward, 1, 2)[rows, does] + ahead[after, cells[None, :, None]]
            values.append(each)
            best = np.where(layer.legal[:, None], each, -np.inf).max(axis=2)
            ahead = np.concatenate([best, np.zeros((1, best.shape[1]))])
        return values[::-1]

    def drawn_answers(self, step: int, worlds: Any, chances: np.ndarray, trees: int) -> np.ndarray:
        """The best action [N] on average over trees, each with a cell of [N, cells] and deeds that are drawn."""
        rng = np.random.default_rng(step)
        found, keys = np.zeros(len(worlds), np.int32), keys_of(self.view, np.asarray(worlds))
        places = [self.layers[step].number.get(key) if step < len(self.layers) else None for key in keys]
        total = np.zeros((len(worlds), self.layers[0].reward.shape[1]))
        for _ in range(trees):
            values = self.drawn(rng)[step] if step < len(self.layers) else None
            for row, place in enumerate(places):
                if place is not None and values is not None:
                    cell = rng.choice(chances.shape[1], p=chances[row] / chances[row].sum())
                    total[row] += values[place, cell]
        for row, place in enumerate(places):
            if place is not None:
                found[row] = np.where(self.layers[step].legal[place], total[row], -np.inf).argmax()
        return found

    def answers(self, step: int, worlds: Any, chances: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        """The best action [N] of seat 0 on average over cells [N, cells + 1], in positions given as global states.

        By values of `solved`.
        """
        found = np.zeros(len(worlds), np.int32)
        for row, key in enumerate(keys_of(self.view, np.asarray(worlds))):
            place = self.layers[step].number.get(key) if step < len(self.layers) else None
            if place is not None:
                each = chances[row] @ values[step][place]
                found[row] = np.where(self.layers[step].legal[place], each, -np.inf).argmax()
        return found


def distinct(view: MapView, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each position once, and which of these every one is."""
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    where = np.zeros(len(worlds), np.int64)
    for row, key in enumerate(keys_of(view, worlds)):
        if key not in numbers:
            numbers[key] = len(first)
            first.append(row)
        where[row] = numbers[key]
    return worlds[np.array(first, np.int64)], where


def in_parts(function: Any, worlds: np.ndarray, size: int, times: int) -> list[np.ndarray]:
    """What a compiled function of `size` positions, with so many rows for each, says of any number of them."""
    parts = []
    for begin in range(0, len(worlds), size):
        chosen = np.minimum(np.arange(begin, begin + size), len(worlds) - 1)
        parts.append(jax.device_get(function(worlds[chosen])))
    return [np.concatenate(one)[: len(worlds) * times] for one in zip(*parts, strict=True)]


class Table:
    """Games of seat 0 with every script from the same starts; compiled once for all players of a pipeline."""

    def __init__(self, env: Any, scripts: list[Any], starts: int) -> None:
        """Of so many starts with each script."""
        self.env, self.kinds, self.starts = env, len(scripts), starts
        rows = self.kinds * starts
        own, theirs = (jnp.full((rows, 1), seat, jnp.int32) for seat in (0, 1))
        kind = jnp.repeat(jnp.arange(self.kinds), starts)

        @partial(jax.jit, static_argnums=0)
        def think(rest: Any, arrays: Any, seen: Any, memory: Any, last: Any, key: Any) -> Any:
            mac = eqx.combine(arrays, rest)
            view = PlayerView(seen.obs[:, :1], seen.state, seen.avail[:, :1], own, last)
            actions, memory, record = mac.act_seats(view, memory, key, 0.0)
            keys = jax.random.split(jax.random.fold_in(key, 1), self.kinds)
            each = [
                script.choose(seen.obs[:, 1:], seen.avail[:, 1:], theirs, one)
                for script, one in zip(scripts, keys, strict=True)
            ]
            cells = record.get("infer_cells", jnp.zeros((rows, 1, 1)))[:, 0]
            return actions, memory, cells, jnp.stack(each)[kind, jnp.arange(rows)]

        self.think, self.move = think, jax.jit(env.step)
        self.begun = jax.jit(env.reset, static_argnums=1)

    def starting(self) -> tuple[Any, Any]:
        """The starts, once for every script."""
        begun = self.begun(jax.random.PRNGKey(0), self.starts)
        shapes = [jax.eval_shape(lambda n=n: self.env.reset(jax.random.PRNGKey(0), n)) for n in (2, 3)]

        def repeated(leaf: Any, two: Any, three: Any) -> Any:
            axes = [axis for axis, (a, b) in enumerate(zip(two.shape, three.shape, strict=True)) if a != b]
            return jnp.concatenate([leaf] * self.kinds, axis=axes[0]) if axes else leaf

        found: tuple[Any, Any] = jax.tree.map(repeated, begun, *shapes)
        return found

    def played(self, mac: Any, board: Board | None, how: str) -> float:
        """The mean return of seat 0 that acts in one of the ways named above."""
        rows = self.kinds * self.starts
        arrays, rest = eqx.partition(mac, eqx.is_array)
        values: list[np.ndarray] = []
        if board is not None:
            values = board.solved(int(how.split()[1])) if how.startswith("ahead") else board.values
        (world, seen), memory, key = self.starting(), mac.initial_seats(rows, 1), jax.random.PRNGKey(1)
        last = jnp.full((rows, 2), -1, jnp.int32)
        alive, total = np.ones(rows, bool), np.zeros(rows)
        for step in range(self.env.spec.episode_limit):
            key, think_key, move_key = jax.random.split(key, 3)
            actions, memory, cells, other = self.think(rest, arrays, seen, memory, last, think_key)
            assert board is not None or how.startswith("search")
            if how.startswith("drawn"):
                chances = np.asarray(cells, np.float64)
                actions = jnp.asarray(board.drawn_answers(step, seen.state, chances, int(how.split()[1])))[:, None]
            elif not how.startswith("search"):
                weights = np.zeros((rows, cells.shape[1] + 1))
                weights[:, :-1] = np.asarray(cells) * (how != "nothing")
                weights[:, -1] = how == "nothing"
                actions = jnp.asarray(board.answers(step, seen.state, weights, values))[:, None]
            last = jnp.concatenate([actions, other], axis=1).astype(jnp.int32)
            world, seen, outcome = self.move(move_key, world, last)
            total += np.asarray(outcome.reward)[:, 0] * alive
            alive &= ~np.asarray(outcome.terminated | outcome.truncated)
        return float(total.mean())


def searching(mac: HOPMac, search: str) -> HOPMac:
    """The same player with another search, "EXPLORATION:SIMULATIONS:TREES[:DRAWS]"; as it is tested for ""."""
    if not search:
        return mac
    exploration, simulations, trees, *draws = search.split(":")
    changed = {"draws": int(draws[0])} if draws else {}
    settings = dataclasses.replace(
        mac.settings,
        search=dataclasses.replace(
            mac.settings.search, exploration=float(exploration), simulations=int(simulations), **changed
        ),
        inference=dataclasses.replace(mac.settings.inference, samples=int(trees)),
    )
    return dataclasses.replace(mac, settings=settings)


def rows_of(
    folder: Path, starts: int, searches: list[str], others: list[str], ahead: list[int], drawn: list[int]
) -> list[dict[str, Any]]:
    """Of one pipeline."""
    plan = read_plan(folder)
    env = make_env(plan.game.env_config, **plan.game.env_args)
    kinds = sorted(script for script, role in plan.pool.scripts.items() if role == "heldout")
    scripts = [SCRIPTED[kind].build(env) for kind in kinds]
    exact = exact_values(env, scripts, starts=starts, seed=0)
    table = Table(env, scripts, starts)
    names = (
        "search",
        "inferred",
        "nothing",
        *(f"drawn {trees}" for trees in drawn),
        *(f"ahead {steps}" for steps in ahead),
    )
    ways = dict.fromkeys(names, "") | {f"search {search}": search for search in searches}
    means: dict[str, list[float]] = {name: [] for name in ways}
    for path in sorted((folder / "runs" / "hop_plus").glob("*/agents/seed_*/last")):
        mac = load_agent(path).policy
        mac = mac if isinstance(mac, HOPMac) else mac.main
        _, seen = env.reset(jax.random.PRNGKey(0), starts)
        board = Board(mac, seen.state, env.spec.episode_limit)
        print(path.parent.name, "positions:", [len(layer.legal) for layer in board.layers], flush=True)
        for how, found in means.items():
            found.append(table.played(searching(mac, ways[how]), board, how))
            print(path.parent.name, how, round(found[-1], 3), flush=True)
    bounds = {"random": exact.random, "fixed": exact.fixed, "none": exact.memoryless, "bayes": exact.optimum}
    for label in others:
        means[label] = []
        for path in sorted((folder / "runs" / label).glob("*/agents/seed_*/last")):
            policy = load_agent(path).policy
            means[label].append(table.played(getattr(policy, "main", None) or policy, None, "search"))
            print(label, path.parent.name, round(means[label][-1], 3), flush=True)
    rows = []
    for who, values in {**{name: [value] for name, value in bounds.items()}, **means, "told": [exact.told]}.items():
        shares = [share(value, exact.fixed, exact.told) for value in values]
        rows.append({
            "game": plan.name, "draw": plan.pool.draw, "who": who, "mean": round(float(np.mean(values)), 4),
            "share": round(float(np.mean(shares)), 4), "lowest": round(min(shares), 4),
            "highest": round(max(shares), 4), "seeds": len(values), "starts": starts, "partners": len(kinds),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("pipelines", type=Path, nargs="+")
    parser.add_argument("--starts", type=int, default=48)
    parser.add_argument(
        "--searches", nargs="*", default=[], help="others besides, EXPLORATION:SIMULATIONS:TREES[:DRAWS]"
    )
    parser.add_argument("--ahead", type=int, nargs="*", default=[], help="steps that exact answers look ahead")
    parser.add_argument("--drawn", type=int, nargs="*", default=[4, 64], help="numbers of exact trees that are drawn")
    parser.add_argument("--agents", nargs="*", default=[], help="other agents of the pipelines, as they are tested")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for folder in args.pipelines:
        rows += rows_of(folder, args.starts, args.searches, args.agents, args.ahead, args.drawn)
        print(*rows, sep="\n", flush=True)
        with (args.output / "exact_hop_plus.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
