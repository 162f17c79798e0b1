"""What HOP+ can infer of where a co-player goes, offline: scripted hunters play, and nobody has to act well.

    python benchmarks/subgoal_inference.py benchmarks/results/hop/offline.csv
    python benchmarks/subgoal_inference.py OUT.csv --episodes 128 --passes 1 --hidden 16 --seeds 1
    python benchmarks/subgoal_inference.py OUT.csv --no-kinds --variants cells_apart,cells_true,nothing

Two hunters on a board of 6x6 cells with two hares, a stag and two obstacle blocks; each goes for stags or for hares in
an episode, and does anything legal in one step of ten. The learners of HOP+ get these episodes, round by round, as if
they had played them; held-out episodes are measured as tests of runs are. A row per variant, seed and measure.

With `--no-kinds` nobody is of any kind, as in self-play: three hunters, each after the nearest prey wherever it stands,
anything legal in one step of four, so that the past says nothing that the position does not.

- `cells_true`, `cells_half`, `cells_drawn`: `hop_plus`; co-players' networks learn told the cells that really came, or
  with a chance of a half or always those drawn from what is inferred;
- `cells_apart`: `cells_true` without learning what all likely cells make of an action together;
- `codes`: `hop_plus_codes` as it is, its prior learned along; `codes_furthest`: the code of the view H steps ahead, and
  co-players' networks learn told that; `codes_mlp`: a regression on it;
- `nothing`: direct-OM, whose networks are told nothing: its `action_surprise` and `action_accuracy` alone.
"""

from __future__ import annotations

import argparse
import csv
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch
from omg.components.selectors import random_legal
from omg.config import resolve
from omg.controllers.scripted.grid import nearest_hare, nearest_stag
from omg.controllers.scripted.grid_partners import nearest_prey
from omg.envs import make_env
from omg.learners import build_learner
from omg.learners.hop_measures import prediction_measures
from omg.learners.hop_plus import HOPPlusLearner
from omg.learners.hop_plus_measures import subgoal_measures, truth_measures
from omg.learners.hop_subgoals import model_inputs, watch
from omg.modules.planning import each

GAME = {"size": 6, "players": 2, "hares": 2, "stags": 1, "blocks": 2, "episode_limit": 20}
NO_KINDS = {"size": 6, "players": 3, "hares": 3, "stags": 1, "blocks": 1, "episode_limit": 20}
NOISE, NO_KINDS_NOISE = 0.1, 0.25
ROUND = 128
FALLS = 1000
"""Steps over which the share of true cells falls from 1 to 0: by what number of steps it is given, it is chosen."""
SHARED = {
    "hop_together_weight": 1.0,
    "omg_q_input": "mix",
    "omg_mix_start": 1.0,
    "omg_mix_finish": 0.0,
    "omg_mix_anneal_time": FALLS,
}
FURTHEST = {"subgoal_mode": "furthest", "omg_q_input": "selected"}
VARIANTS: dict[str, tuple[str, dict[str, Any], float]] = {
    "cells_true": ("hop_plus", SHARED, 0.0),
    "cells_half": ("hop_plus", SHARED, 0.5),
    "cells_drawn": ("hop_plus", SHARED, 1.0),
    "cells_apart": ("hop_plus", {**SHARED, "hop_together_weight": 0.0}, 0.0),
    "codes": ("hop_plus_codes", {}, 0.0),
    "codes_furthest": ("hop_plus_codes", FURTHEST, 0.0),
    "codes_mlp": ("hop_plus_codes", {**FURTHEST, "omg_inference": "mlp"}, 0.0),
    "nothing": ("direct_om", {}, 0.0),
}
"""Algorithm, settings, and the share of what is drawn, of those that learn with a mix."""


def hunters(env: Any, key: Array, games: int, kinds: bool) -> EpisodeBatch:
    """Episodes [games] of scripted hunters, of kinds or not, as a planner's learner is given them."""
    start_key, kind_key, play_key = jax.random.split(key, 3)
    world, seen = env.reset(start_key, games)
    players = env.spec.n_agents
    seats = jnp.broadcast_to(jnp.arange(players), (games, players))
    after_stags = jax.random.bernoulli(kind_key, 0.5, seats.shape)
    scripts = (nearest_stag(env), nearest_hare(env)) if kinds else (nearest_prey(env),) * 2
    noise = NOISE if kinds else NO_KINDS_NOISE

    def step(carry: tuple[Any, Any, Array], key: Array) -> tuple[tuple[Any, Any, Array], dict[str, Array]]:
        world, seen, alive = carry
        any_key, noise_key, env_key = jax.random.split(key, 3)
        stag, hare = (script.choose(seen.obs, seen.avail, seats, key) for script in scripts)
        anything = jax.vmap(jax.vmap(random_legal))(seen.avail, jax.random.split(any_key, seats.shape))
        meant = jnp.where(after_stags, stag, hare)
        actions = jnp.where(jax.random.bernoulli(noise_key, noise, seats.shape), anything, meant)
        after, shown, outcome = env.step(env_key, world, actions)
        slot = {
            "obs": seen.obs, "state": seen.state, "avail": seen.avail, "actions": actions, "filled": alive,
            "reward": jnp.where(alive[:, None], outcome.reward, 0.0), "terminated": outcome.terminated & alive,
        }  # fmt: skip
        return (after, shown, alive & ~(outcome.terminated | outcome.truncated)), slot

    begun = (world, seen, jnp.ones(games, bool))
    _, slots = jax.lax.scan(step, begun, jax.random.split(play_key, env.spec.episode_limit + 1))
    arrays = {name: jnp.swapaxes(values, 0, 1) for name, values in slots.items()}
    policy = jax.nn.one_hot(arrays["actions"], env.spec.n_actions)
    return EpisodeBatch(**arrays, seat=None, records={"search_policy": policy})


def inferred(learner: Any, state: Any, batch: EpisodeBatch) -> EpisodeBatch:
    """The same episodes with what the player would have inferred."""
    mac = state.mac
    views, sequences = watch(mac, batch, learner._seats(batch), learner.seats)

    def of_set(model: Any, part: Any) -> dict[str, Array]:
        found = model.unroll(model_inputs(views, part))
        if mac.subgoal_prior is None:
            return {"infer_cells": jax.nn.softmax(found).reshape(*found.shape[:2], -1)}
        return {"infer_mu": found.mean[:, :, 0], "infer_log_var": found.log_var[:, :, 0]}

    by_seat = each(of_set, mac.minds.subgoals, sequences)
    return batch._replace(records=jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), by_seat))


class Programs(NamedTuple):
    """What is compiled once for all variants that differ in a share alone."""

    start: Any
    """(key) -> the learner's state."""
    play: Any
    """(key) -> episodes of a round."""
    update: Any
    """(state, episodes, steps, key) -> the state."""
    measure: Any
    """(state, episodes) -> measures by name."""


@lru_cache
def programs(algorithm: str, changes: tuple[tuple[str, Any], ...], hidden: int, kinds: bool) -> Programs:
    """Of an algorithm with some settings."""
    settings = {
        "env_args": GAME if kinds else NO_KINDS,
        "batch_size_run": ROUND, "batch_size": ROUND, "buffer_size": ROUND, "hop_minibatches": 8,
        "hop_epochs": 1, "updates_per_episode": 1 / ROUND, "hop_hidden_dim": hidden, **dict(changes),
    }  # fmt: skip
    config = resolve(algorithm, "stag_hunt", settings).config
    env = make_env(config.env, **config.env_args)
    learner: Any = build_learner(config, env.spec, learns_prior=config.wants_prior)

    def update(state: Any, batch: EpisodeBatch, steps: Array, key: Array) -> Any:
        return learner.update(state, learner.keep(batch), 0, steps, key)[0]

    def measured(state: Any, batch: EpisodeBatch) -> dict[str, Array]:
        seats = learner._seats(batch)
        if not isinstance(learner, HOPPlusLearner):
            return prediction_measures(state.mac, batch._replace(records={}), seats)
        batch = inferred(learner, state, batch)
        horizon = config.omg_horizon
        found = prediction_measures(state.mac, batch, seats) | truth_measures(state.mac, batch, seats, horizon)
        return found | subgoal_measures(state.mac, batch, seats, horizon, 0)

    return Programs(
        jax.jit(learner.init),
        jax.jit(lambda key: hunters(env, key, ROUND, kinds)),
        jax.jit(update, donate_argnums=0),
        jax.jit(measured),
    )


def learned(args: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """Measures of one variant after its training."""
    algorithm, changes, drawn = VARIANTS[name]
    start, play, update, measure = programs(algorithm, tuple(changes.items()), args.hidden, args.kinds)
    state = start(jax.random.PRNGKey(seed))
    rounds = args.episodes // ROUND
    for number in range(args.passes * rounds):
        # Every pass has the same episodes.
        batch = play(jax.random.PRNGKey(number % rounds))
        key = jax.random.fold_in(jax.random.PRNGKey(seed), number)
        state = update(state, batch, jnp.float32(drawn * FALLS), key)
        if number % 10 == 0:
            jax.block_until_ready(state)
            print(f"{name}, seed {seed}: round {number} of {args.passes * rounds}", flush=True)
    heldout = [jax.device_get(measure(state, play(jax.random.PRNGKey(10_000 + part)))) for part in range(4)]
    kept = [key for key in heldout[0] if not key.startswith(("confusion", "precision", "recall"))]
    return {key: float(sum(one[key] for one in heldout) / len(heldout)) for key in kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--episodes", type=int, default=5632, help="to learn from")
    parser.add_argument("--passes", type=int, default=4, help="through them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=128, help="width of the planning networks")
    parser.add_argument("--kinds", action=argparse.BooleanOptionalAction, default=True, help="whether hunters have any")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in args.variants.split(","):
        for seed in range(args.seeds):
            begun = time.monotonic()
            found = learned(args, name, seed)
            rows += [{"variant": name, "seed": seed, "name": key, "value": value} for key, value in found.items()]
            shown = {key: round(value, 3) for key, value in found.items()}
            print(f"{name}, seed {seed}, {time.monotonic() - begun:.0f} s: {shown}", flush=True)
            with args.output.open("w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]))
                table.writeheader()
                table.writerows(rows)


if __name__ == "__main__":
    main()
