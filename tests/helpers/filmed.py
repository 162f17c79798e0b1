"""Recordings made up from games that are played at random: real pieces and actions, beliefs that are known by rule."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from omg.components import selectors
from omg.envs import make_env
from omg.envs.scenes import Scene, scenery_of
from omg.recordings import Recording

HORIZON = 3


def filmed(
    name: str, *, seed: int = 0, steps: int = 12, algorithm: str = "random", believes: bool = True, **env_args: Any
) -> Recording:
    """A game of random players; with `believes` seat 0 has every kind of belief, its places half way to the truth."""
    env = make_env(name, **env_args)
    scenery = scenery_of(env)
    assert scenery is not None
    state, seen = env.reset(jax.random.PRNGKey(seed), 1)
    scenes, actions, rewards, avail, obs = [], [], [], [], []
    step, show = jax.jit(env.step), jax.jit(scenery.show)
    ended = "truncated"
    for number in range(steps + 1):
        scenes.append(jax.device_get(show(state)))
        avail.append(np.asarray(seen.avail[0]))
        obs.append(np.asarray(seen.obs[0]))
        if number == steps or ended == "terminated":
            break
        key = jax.random.fold_in(jax.random.PRNGKey(seed), number)
        chosen = selectors.random_legal(jnp.asarray(seen.avail), key)
        state, seen, outcome = step(key, state, chosen)
        actions.append(np.asarray(chosen[0]))
        rewards.append(np.atleast_1d(np.asarray(outcome.reward[0])))
        ended = "terminated" if bool(outcome.terminated[0]) else "truncated"
    scene = Scene(*(np.concatenate(values) for values in zip(*scenes, strict=True)))
    spec, rng = env.spec, np.random.default_rng(seed)
    moments, played = len(scenes), len(actions)
    pieces = [asdict(piece) | {"size": float(piece.size)} for piece in scenery.pieces]
    own = list(scenery.seats)
    looks = [asdict(move) | {"dx": float(move.dx), "dy": float(move.dy)} for move in scenery.moves]
    values = rng.normal(size=(moments, spec.n_agents, spec.n_actions)).astype(np.float32)
    columns: dict[str, np.ndarray] = {
        "x": scene.x,
        "y": scene.y,
        "there": scene.there,
        "health": scene.health,
        "shield": scene.shield,
        "cooldown": scene.cooldown,
        "written": scene.number,
        "actions": np.stack(actions).astype(np.int16),
        "rewards": np.stack(rewards).astype(np.float32),
        "avail": np.stack(avail),
        "values": values,
        "obs": np.stack(obs).astype(np.float32),
    }
    beliefs = _beliefs(columns, own, spec.n_actions, rng) if believes else []
    header = {
        "omg": "0.1.0",
        "game": spec.name,
        "scenario": spec.scenario,
        "env_args": {},
        "stage": {
            **{key: float(getattr(scenery, key)) for key in ("left", "top", "width", "height")},
            **{key: getattr(scenery, key) for key in ("cells", "sight", "sight_square")},
        },
        "pieces": pieces,
        "actions": looks,
        "seats": [
            {
                "label": "the agent" if seat == 0 else f"mate_{seat}",
                "algorithm": algorithm,
                "learns": seat == 0,
                "piece": own[seat],
                "values": "q",
            }
            for seat in range(spec.n_agents)
        ],
        "algorithm": algorithm,
        "seed": seed,
        "ended": ended,
        "facts": {"return": float(np.sum(rewards)), "steps": float(played)},
        "beliefs": beliefs,
    }
    return Recording(header, columns)


def _beliefs(
    columns: dict[str, np.ndarray], own: list[int], n_actions: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """One belief of each kind, its columns put to the others."""
    moments = len(columns["x"])
    others = own[1:]
    later = np.minimum(np.arange(moments) + HORIZON, moments - 1)
    both = np.stack([columns["x"], columns["y"]])[:, :, others].astype(np.float32)
    there = columns["there"][:, others] & columns["there"][later][:, others]
    later_both = np.where(there, both[:, later], np.nan)
    believed = np.where(there, (both + later_both) / 2, np.nan)
    belief_goals = [{"name": "food 1"}, {"name": "food 2"}]
    listed: list[dict[str, Any]] = [
        {"kind": "places", "seat": 0, "source": "subgoal", "pieces": others, "horizon": HORIZON},
        {"kind": "actions", "seat": 0, "source": "naive_am", "seats": list(range(1, len(own)))},
        {"kind": "goals", "seat": 0, "source": "goals", "seats": list(range(1, len(own))), "goals": belief_goals},
        {"kind": "search", "seat": 0, "source": "search"},
    ]

    def distance(place: np.ndarray) -> np.ndarray:
        away = np.hypot(*(place - later_both))
        known = ~np.isnan(away)
        total = np.where(known, away, 0).sum(axis=1)
        return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan).astype(np.float32)

    def odds(*shape: int) -> np.ndarray:
        return rng.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)

    made = {
        "0.x": believed[0],
        "0.y": believed[1],
        "0.later_x": later_both[0],
        "0.later_y": later_both[1],
        "0.distance": distance(believed),
        "0.stay_distance": distance(both),
        "1.chances": odds(moments, len(others), n_actions),
        "2.chances": odds(moments, len(others), 2),
        "2.x": np.broadcast_to(np.float32([1, 2]), (moments, 2)),
        "2.y": np.broadcast_to(np.float32([2, 1]), (moments, 2)),
        "3.chances": odds(moments, n_actions),
        "3.visits": odds(moments, n_actions),
    }
    columns |= {f"beliefs.{key}": np.asarray(value, np.float32) for key, value in made.items()}
    return listed
