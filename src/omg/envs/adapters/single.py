"""One game of a batched `Env` on the host: what the adapters have in common."""

from __future__ import annotations

import functools
from typing import NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.adapters.host import Seen
from omg.envs.base import AnyEnv, EnvState, Observation, Outcome
from omg.envs.drawing import Floor, Overlay, draw_moment, letters, pixels_of, pose_of
from omg.envs.scenes import Scene, Shown, scenery_of
from omg.types import PyTree

Packed = dict[str, Array]
"""Type -> the numbers of that type, one array behind the other."""


class Stretch(NamedTuple):
    """Several steps of a game, up to its end; N steps, A seats."""

    observations: np.ndarray
    """[N, A, O] float32, after each step."""
    states: np.ndarray
    """[N, S] float32, after each step."""
    masks: np.ndarray
    """[N, A, U] bool, which actions are legal after each step."""
    actions: np.ndarray
    """[N, A] int32, what was played: in place of an illegal action the legal one with the lowest number."""
    rewards: np.ndarray
    """[N, A] float32."""
    terminated: bool
    """Whether the last step ended the game."""
    truncated: bool
    """Whether it was the last that there is time for."""
    metrics: dict[str, np.ndarray]
    """Name -> [N]."""


class SingleGame:
    """A batch of one, stepped from Python, with NumPy arrays that have no batch axis.

    The game is compiled once per `env` object, however many adapters are made from it. All randomness comes from
    `seed`: the same seed and actions give the same episodes.
    """

    def __init__(self, env: AnyEnv, seed: int) -> None:
        self.env = env
        self.spec = env.spec
        self.over = True
        self._seen: Seen | None = None
        self._state: EnvState = None
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Begins the sequence of episodes that belongs to `seed`; takes effect at the next `reset`."""
        self.seed = seed
        self._key = jax.random.PRNGKey(seed)  # Of plain numbers: typed keys are handed in and out by slower ways.

    @property
    def render_modes(self) -> list[str]:
        """How it can be drawn: `rgb_array`, and a board of cells also as text, `ansi`."""
        scenery = scenery_of(self.env)
        return [] if scenery is None else ["rgb_array", "ansi"] if scenery.cells else ["rgb_array"]

    def render(self, mode: str | None) -> np.ndarray | str | None:
        """How the game stands: an image [height, width, 3] uint8, a text, or None where nothing is to be drawn."""
        scenery = scenery_of(self.env)
        if mode is None or scenery is None:
            return None
        if self._seen is None:
            raise RuntimeError("The game has not started: call reset() before render().")
        moment = pose_of(jax.device_get(_show(self.env, self._state)))
        whole = (scenery.left, scenery.top, scenery.width, scenery.height)
        field = Floor(whole, whole, scenery.cells)
        if mode == "ansi":
            return letters(field, scenery.pieces, moment)
        fights = any(piece.reach is not None for piece in scenery.pieces)
        return pixels_of(draw_moment(field, scenery.pieces, moment, Overlay(fights=fights)))

    @property
    def seen(self) -> Seen:
        """What is seen before the next action."""
        if self._seen is None:
            raise RuntimeError("The game has not started: call reset() first.")
        return self._seen

    def reset(self) -> None:
        """Starts the next episode."""
        self._key, self._state, packed = _reset(self.env, self._key)
        self._seen = Seen(*_unpacked(self.env, "reset", packed))
        self.over = False

    def step(self, actions: np.ndarray) -> Outcome:
        """Plays `actions` [A], which must be legal; the outcome has no batch axis and one reward per seat [A]."""
        self._check_going_on()
        # Nothing but the compiled step touches JAX: each of its own functions would take as long again.
        chosen = np.asarray(actions, np.int32)
        self._key, self._state, packed = _step(self.env, self._key, self._state, chosen)
        observation, outcome = _unpacked(self.env, "step", packed)
        self._seen = Seen(*observation)
        self.over = bool(outcome.terminated or outcome.truncated)
        return outcome._replace(reward=np.broadcast_to(outcome.reward, (self.spec.n_agents,)))

    def step_many(self, actions: np.ndarray) -> Stretch:
        """Plays `actions` [T, A] in one compiled program, until they or the game are at an end.

        The game goes on as after as many single steps. Each number of steps T is compiled once.
        """
        self._check_going_on()
        wanted = np.asarray(actions, np.int32)
        self._key, self._state, *found = _step_many(self.env, self._key, self._state, self.seen.avail, wanted)
        played, (observation, outcome), filled = jax.device_get(found)
        steps = int(filled.sum())
        self._seen = Seen(*(np.array(values[steps - 1]) for values in observation))
        terminated, truncated = bool(outcome.terminated[steps - 1]), bool(outcome.truncated[steps - 1])
        self.over = terminated or truncated
        rewards = outcome.reward[:steps].reshape(steps, -1)
        return Stretch(
            observations=observation.obs[:steps],
            states=observation.state[:steps],
            masks=observation.avail[:steps],
            actions=played[:steps],
            rewards=np.broadcast_to(rewards, (steps, self.spec.n_agents)),
            terminated=terminated,
            truncated=truncated,
            metrics={name: values[:steps] for name, values in outcome.metrics.items()},
        )

    def _check_going_on(self) -> None:
        if self.over:
            condition = "has not started" if self._seen is None else "is over"
            raise RuntimeError(f"The game {condition}: call reset() before step().")


@functools.partial(jax.jit, static_argnums=0)
def _step_many(
    env: AnyEnv, key: Array, state: EnvState, avail: Array, actions: Array
) -> tuple[Array, EnvState, Array, tuple[Observation, Outcome], Array]:
    """`_step` for actions [T, A], until the game is over; also which steps were played [T], and what was played."""

    def one(carry: PyTree, wanted: Array) -> tuple[PyTree, PyTree]:
        key, state, avail, over = carry
        inside = (wanted >= 0) & (wanted < avail.shape[1])
        legal = inside & jnp.take_along_axis(avail, jnp.where(inside, wanted, 0)[:, None], axis=1)[:, 0]
        played = jnp.where(legal, wanted, jnp.argmax(avail, axis=1))
        next_key, own = jax.random.split(key)
        after, observation, outcome = env.step(own, state, played[None])
        told = jax.tree.map(lambda leaf: leaf[0], (observation, outcome))
        ended = over | told[1].terminated | told[1].truncated
        moved = (next_key, after, told[0].avail)
        kept = jax.tree.map(lambda old, new: jnp.where(over, old, new), (key, state, avail), moved)
        return (*kept, ended), (told, played, ~over)

    start: PyTree = (key, state, avail, jnp.bool_(False))
    (key, state, *_), (told, played, filled) = jax.lax.scan(one, start, actions)
    return key, state, played, told, filled


@functools.partial(jax.jit, static_argnums=0)
def _reset(env: AnyEnv, key: Array) -> tuple[Array, EnvState, Packed]:
    key, own = jax.random.split(key)
    state, observation = env.reset(own, 1)
    return key, state, _packed(env, "reset", observation)


@functools.partial(jax.jit, static_argnums=0)
def _step(env: AnyEnv, key: Array, state: EnvState, actions: Array) -> tuple[Array, EnvState, Packed]:
    key, own = jax.random.split(key)
    state, observation, outcome = env.step(own, state, actions[None])
    return key, state, _packed(env, "step", (observation, outcome))


def _packed(env: AnyEnv, call: str, tree: PyTree) -> Packed:
    """Arrays of one game [1, ...] as one array of each type, without the batch axis.

    Handing over an array takes longer than what is in it: half of a step of a small game.
    """
    leaves, structure = jax.tree.flatten(tree)
    places: list[_Place] = []
    parts: dict[str, list[Array]] = {}
    for leaf in leaves:
        mine = parts.setdefault(leaf.dtype.name, [])
        first = sum(part.size for part in mine)
        places.append(_Place(leaf.dtype.name, first, first + leaf.size, leaf.shape[1:]))
        mine.append(leaf.reshape(-1))
    _LAYOUTS.setdefault(env, {})[call] = (structure, places)
    return {name: jnp.concatenate(mine) for name, mine in parts.items()}


def _unpacked(env: AnyEnv, call: str, packed: Packed) -> PyTree:
    """What was packed, as arrays of NumPy that the caller may change."""
    structure, places = _LAYOUTS[env][call]
    arrays = {name: np.array(values) for name, values in packed.items()}
    return structure.unflatten([arrays[place.array][place.first : place.end].reshape(place.shape) for place in places])


class _Place(NamedTuple):
    """Where a packed array is."""

    array: str
    """Its type."""
    first: int
    end: int
    shape: tuple[int, ...]


_LAYOUTS: WeakKeyDictionary[AnyEnv, dict[str, tuple[jax.tree_util.PyTreeDef, list[_Place]]]] = WeakKeyDictionary()
"""Game -> compiled function -> how its results are packed; written while the function is traced."""


@functools.partial(jax.jit, static_argnums=0)
def _show(env: Shown, state: EnvState) -> Scene:
    shown: Scene = jax.tree.map(lambda array: array[0], env.scenery().show(state))
    return shown
