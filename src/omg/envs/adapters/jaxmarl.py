"""Games of JaxMARL (SMAX, MPE, Overcooked, STORM, Hanabi) inside our compiled programs.

JaxMARL's games are pure functions of one game with dictionaries keyed by agent; here they become functions of a whole
batch with a seat axis. They are stepped with `step_env`, which does not start a new game by itself. STORM keys nothing
by agent, and Hanabi has a method of its own for masks; both are understood.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.adapters.gymma import scenario_name
from omg.envs.adapters.jaxmarl_args import JaxMARLArgs
from omg.envs.adapters.makers import method_of, number_of
from omg.envs.base import EnvSpec, Observation, Outcome
from omg.errors import UserError, unknown_name
from omg.types import PyTree, Tree

INSTALL = "pip install 'omg-marl[jaxmarl]'"
_WORLD = "world_state"
_EVERYBODY = "__all__"
_WON = "battle_won"
_MASKS = ("get_avail_actions", "get_legal_moves")
"""Methods that say which actions are legal; the second is Hanabi's."""


BySeat: TypeAlias = Mapping[str, PyTree] | Sequence[PyTree] | Array
"""Values keyed by agent, a tuple of them, or for STORM an array [B, A, ...]."""


class JaxGame(Protocol):
    """What is asked of a game of JaxMARL: pure functions of one game."""

    @property
    def agents(self) -> Sequence[str]:
        """Their names, by seat."""
        ...

    def action_space(self, agent: str) -> object:
        """What an agent may do; a space with `n` actions."""
        ...

    def reset(self, key: Array) -> tuple[BySeat, PyTree]:
        """Observations, and the game's own state."""
        ...

    def step_env(
        self, key: Array, state: PyTree, actions: dict[str, Array]
    ) -> tuple[BySeat, PyTree, BySeat, Mapping[str, Array], Mapping[str, Array]]:
        """Observations, the next state, rewards, who is at an end, and infos; starts no new game by itself."""
        ...


class _World(NamedTuple):
    inner: PyTree
    """The games' own states, [B, ...]."""
    steps: Array
    """[B] int32."""


def build_jaxmarl(args: JaxMARLArgs) -> JaxMARLEnv:
    """The game that `args.key` names; imports the package.

    Raises:
        UserError: the package is not installed, or has no such game.
    """
    try:
        with redirect_stdout(io.StringIO()):  # It prints which of its optional parts it has not found.
            import jaxmarl
    except ImportError as error:
        raise UserError(
            f"env=jaxmarl needs the package jaxmarl, which is not installed. Install it with: {INSTALL}"
        ) from error
    kwargs = _named_values(args.key, args.kwargs)
    try:
        game = jaxmarl.make(args.key, **kwargs)
    except (ValueError, TypeError, KeyError, ImportError, NotImplementedError) as error:
        raise UserError(f"env_args.key: got '{args.key}' with {args.kwargs}. JaxMARL says: {error}") from error
    return JaxMARLEnv(game, args)


def _named_values(key: str, kwargs: Tree) -> Tree:
    """Arguments of a game; JaxMARL wants objects where a command line has names: SMAX's maps, Overcooked's layouts."""
    for argument, known in (("scenario", _smax_maps), ("layout", _overcooked_layouts)):
        name = kwargs.get(argument)
        if isinstance(name, str) and (table := known(key)) is not None:
            if name not in table:
                raise unknown_name(f"{argument} (env_args.kwargs.{argument})", name, table)
            kwargs = {**kwargs, argument: table[name]}
    return kwargs


def _smax_maps(key: str) -> Mapping[str, object] | None:
    if "SMAX" not in key:
        return None
    from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO

    return MAP_NAME_TO_SCENARIO


def _overcooked_layouts(key: str) -> Mapping[str, object] | None:
    if key != "overcooked":  # The second version takes names.
        return None
    from jaxmarl.environments.overcooked import overcooked_layouts

    return overcooked_layouts


class JaxMARLEnv:
    """A game with JaxMARL's interface as a batched `Env`.

    Observations are flattened and padded to the longest; the state is the game's `world_state` where its observations
    have one, else the observations of all seats. All of a seat's actions are legal unless the game says otherwise.
    Battles against a built-in enemy (SMAX) have the metric `battle_won`.
    """

    def __init__(self, game: JaxGame, args: JaxMARLArgs) -> None:
        self.game, self.args = game, args
        self.names = list(game.agents)
        self.counts = [_count_of(game.action_space(name), name, args.key) for name in self.names]
        keys = jax.ShapeDtypeStruct((1, 2), jnp.uint32)
        observations, states = jax.eval_shape(jax.vmap(game.reset), keys)
        widths = [view.shape[1] for view in jax.eval_shape(self._views, observations)]
        self.allies = number_of(game, "num_allies") if hasattr(game, "enemy_agents") else None
        self.masks = self._find_masks(states)
        world = self._world(observations)
        world_dim = len(self.names) * max(widths) if world is None else int(np.prod(world.shape))
        limit = args.time_limit or _own_limit(game)
        if limit is None:
            raise UserError(
                f"env_args.time_limit: missing, and '{args.key}' has no limit of its own. Allowed: 1 or more."
            )
        self.spec = EnvSpec(
            name="jaxmarl",
            scenario=_scenario(args),
            n_agents=len(self.names),
            n_actions=max(self.counts),
            obs_dim=max(widths),
            state_dim=world_dim,
            episode_limit=int(limit),
            reward_per_agent=not args.common_reward,
            metrics=(*args.metrics, *(() if self.allies is None else (_WON,))),
            success_metric="return" if self.allies is None else _WON,
        )

    def reset(self, key: Array, num_envs: int) -> tuple[_World, Observation]:
        """See `Env.reset`."""
        observations, inner = jax.vmap(self.game.reset)(jax.random.split(key, num_envs))
        return _World(inner, jnp.zeros(num_envs, jnp.int32)), self._see(observations, inner)

    def step(self, key: Array, state: _World, actions: Array) -> tuple[_World, Observation, Outcome]:
        """See `Env.step`."""
        games = actions.shape[0]
        chosen = {name: actions[:, seat] for seat, name in enumerate(self.names)}
        keys = jax.random.split(key, games)
        observations, inner, rewards, dones, infos = jax.vmap(self.game.step_env)(keys, state.inner, chosen)
        steps = state.steps + 1
        over, at_limit = dones[_EVERYBODY].reshape(games), steps >= self.spec.episode_limit
        cut = at_limit if self.args.cut_at_limit else at_limit & ~over
        metrics = {name: _per_game(infos, name, games, self.args.key) for name in self.args.metrics}
        if self.allies is not None:
            metrics[_WON] = self._won(inner, self.allies)
        outcome = Outcome(self._paid(rewards, games), over & ~cut, cut, metrics)
        return _World(inner, steps), self._see(observations, inner), outcome

    def _find_masks(self, states: PyTree) -> Callable[[PyTree], BySeat] | None:
        """The method that says which actions are legal, if any; JaxMARL's base class has one that only raises."""
        for name in _MASKS:
            if (method := method_of(self.game, name)) is not None:
                masks: Callable[[PyTree], BySeat] = jax.vmap(method)
                try:
                    jax.eval_shape(masks, states)
                except NotImplementedError:
                    continue
                return masks
        return None

    def _views(self, observations: BySeat) -> list[Array]:
        """What each seat sees, flat, seats times [B, width]."""
        if isinstance(observations, Mapping) and self.names[0] not in observations:
            # STORM: [B, A, ...] and [B, features, A].
            seen, carried = observations["observations"], observations["inventory"]
            return [_flat((seen[:, seat], carried[:, :, seat])) for seat in range(len(self.names))]
        return [_flat(view) for view in _by_seat(observations, self.names)]

    @staticmethod
    def _won(inner: PyTree, count: int) -> Array:
        """[B], 1 for battles in which only allies are left, as JaxMARL counts them."""
        alive = inner.state.unit_alive
        won: Array = alive[:, :count].any(axis=1) & ~alive[:, count:].any(axis=1)
        return won.astype(jnp.float32)

    def _see(self, observations: BySeat, inner: PyTree) -> Observation:
        obs = jnp.stack([_padded(view, self.spec.obs_dim) for view in self._views(observations)], axis=1)
        games = obs.shape[0]
        world = self._world(observations)
        world = obs if world is None else world
        has_action = jnp.arange(self.spec.n_actions) < jnp.array(self.counts)[:, None]
        avail = jnp.broadcast_to(has_action, (games, *has_action.shape))
        if self.masks is not None:
            masks = _by_seat(self.masks(inner), self.names)
            avail = avail & (jnp.stack([_padded(mask, self.spec.n_actions) for mask in masks], axis=1) > 0)
            # A game that is over may leave a seat without any action; a mask is never empty here.
            nothing = ~avail.any(axis=-1)
            avail = avail.at[..., 0].set(avail[..., 0] | nothing)
        return Observation(obs, world.reshape(games, -1).astype(jnp.float32), avail)

    @staticmethod
    def _world(observations: BySeat) -> Array | None:
        """The games' `world_state`, where observations have one."""
        return observations.get(_WORLD) if isinstance(observations, Mapping) else None

    def _paid(self, rewards: BySeat, games: int) -> Array:
        each = jnp.stack([reward.reshape(games) for reward in _by_seat(rewards, self.names)], axis=1)
        each = each.astype(jnp.float32)
        if not self.args.common_reward:
            return each
        return each.sum(axis=1) if self.args.reward_scalarisation == "sum" else each.mean(axis=1)


def _count_of(space: object, name: str, key: str) -> int:
    count = number_of(space, "n")
    if count is None:
        raise UserError(f"env_args.key: in '{key}' {name} has the action space {space}. Allowed: Discrete.")
    return count


def _own_limit(game: JaxGame) -> int | None:
    """Steps of a game's episode; some count them as rounds of rounds."""
    inner, outer = number_of(game, "num_inner_steps"), number_of(game, "num_outer_steps")
    rounds = None if inner is None or outer is None else inner * outer
    limit = number_of(game, "max_steps")
    return rounds if limit is None else limit


def _scenario(args: JaxMARLArgs) -> str:
    """The game's name, with its map or layout where that was given by name."""
    named = [args.kwargs[key] for key in ("scenario", "layout") if isinstance(args.kwargs.get(key), str)]
    return scenario_name("_".join((args.key, *named)))


def _by_seat(values: BySeat, names: Sequence[str]) -> list[PyTree]:
    """A list by seat from values keyed by agent, a tuple, or an array [B, A, ...]."""
    if isinstance(values, Mapping):
        return [values[name] for name in names]
    if isinstance(values, Array):
        return [values[:, seat] for seat in range(len(names))]
    return list(values)


def _flat(values: PyTree) -> Array:
    """All arrays [B, ...] of a seat's observation in a row, [B, width] float32."""
    leaves = [leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in jax.tree.leaves(values)]
    return jnp.concatenate(leaves, axis=1)


def _padded(values: Array, width: int) -> Array:
    """[B, narrower] -> [B, width] float32, with zeros behind."""
    return jnp.pad(values.astype(jnp.float32), ((0, 0), (0, width - values.shape[1])))


def _per_game(infos: Mapping[str, Array], name: str, games: int, key: str) -> Array:
    """A metric [B] from the infos, the mean over seats where each has its own."""
    if name not in infos:
        known = ", ".join(sorted(infos)) or "none"
        raise UserError(
            f"env_args.metrics: got '{name}', but the info of '{key}' has no such number. Allowed: {known}."
        )
    return jnp.asarray(infos[name], jnp.float32).reshape(games, -1).mean(axis=1)
