"""Games of JaxMARL (SMAX, MPE, Overcooked, STORM, Hanabi) inside our compiled programs.

JaxMARL's games are pure functions of one game with dictionaries keyed by agent; here they become functions of a whole
batch with a seat axis. They are stepped with `step_env`, which does not start a new game by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from omg.envs.adapters.gymma import SharedArgs, scenario_name
from omg.envs.base import EnvSpec, EnvState, Observation, Outcome
from omg.errors import UserError

_WORLD = "world_state"
_EVERYBODY = "__all__"


class JaxMARLArgs(SharedArgs):
    """`env_args` of `jaxmarl`."""

    key: str = Field("MPE_simple_spread_v3", description="JaxMARL's name of the game")
    time_limit: int | None = Field(None, ge=1, description="steps until an episode is cut; the game's own if empty")


class _World(NamedTuple):
    inner: Any
    """The games' own states, [B, ...]."""
    steps: Array
    """[B] int32."""


def build_jaxmarl(args: JaxMARLArgs) -> JaxMARLEnv:
    """The game that `args.key` names; imports the package.

    Raises:
        UserError: the package is not installed, or has no such game.
    """
    try:
        import jaxmarl
    except ImportError as error:
        raise UserError(
            "env=jaxmarl needs the package jaxmarl, which is not installed. Install it with: pip install jaxmarl"
        ) from error
    try:
        game = jaxmarl.make(args.key, **args.kwargs)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UserError(f"env_args.key: got '{args.key}' with {args.kwargs}. JaxMARL says: {error}") from error
    return JaxMARLEnv(game, args)


class JaxMARLEnv:
    """A game with JaxMARL's interface as a batched `Env`.

    Observations are flattened and padded to the longest; the state is the game's `world_state` where its observations
    have one, else the observations of all seats. All of a seat's actions are legal unless the game says otherwise.
    """

    def __init__(self, game: Any, args: JaxMARLArgs) -> None:
        self.game, self.args = game, args
        self.names = list(game.agents)
        self.counts = [_count_of(game.action_space(name), name, args.key) for name in self.names]
        key = jax.ShapeDtypeStruct((2,), jnp.uint32)
        observations, state = jax.eval_shape(game.reset, key)
        widths = [int(np.prod(observations[name].shape)) for name in self.names]
        self.has_world = _WORLD in observations
        self.masks_actions = self._asks_for_masks(state)
        world_dim = int(np.prod(observations[_WORLD].shape)) if self.has_world else len(self.names) * max(widths)
        limit = args.time_limit or getattr(game, "max_steps", None)
        if limit is None:
            raise UserError(
                f"env_args.time_limit: missing, and '{args.key}' has no limit of its own. Allowed: 1 or more."
            )
        self.spec = EnvSpec(
            name="jaxmarl",
            scenario=scenario_name(args.key),
            n_agents=len(self.names),
            n_actions=max(self.counts),
            obs_dim=max(widths),
            state_dim=world_dim,
            episode_limit=int(limit),
            reward_per_agent=not args.common_reward,
            metrics=tuple(args.metrics),
        )

    def reset(self, key: Array, num_envs: int) -> tuple[EnvState, Observation]:
        """See `Env.reset`."""
        observations, inner = jax.vmap(self.game.reset)(jax.random.split(key, num_envs))
        return _World(inner, jnp.zeros(num_envs, jnp.int32)), self._see(observations, inner)

    def step(self, key: Array, state: EnvState, actions: Array) -> tuple[EnvState, Observation, Outcome]:
        """See `Env.step`."""
        games = actions.shape[0]
        chosen = {name: actions[:, seat] for seat, name in enumerate(self.names)}
        keys = jax.random.split(key, games)
        observations, inner, rewards, dones, infos = jax.vmap(self.game.step_env)(keys, state.inner, chosen)
        steps = state.steps + 1
        over, at_limit = dones[_EVERYBODY].reshape(games), steps >= self.spec.episode_limit
        cut = at_limit if self.args.cut_at_limit else at_limit & ~over
        metrics = {name: _per_game(infos, name, games, self.args.key) for name in self.spec.metrics}
        outcome = Outcome(self._paid(rewards, games), over & ~cut, cut, metrics)
        return _World(inner, steps), self._see(observations, inner), outcome

    def _asks_for_masks(self, state: Any) -> bool:
        """Whether the game says which actions are legal; JaxMARL's base class only raises an error."""
        if not hasattr(self.game, "get_avail_actions"):
            return False
        try:
            jax.eval_shape(self.game.get_avail_actions, state)
        except NotImplementedError:
            return False
        return True

    def _see(self, observations: dict[str, Array], inner: Any) -> Observation:
        rows = [_padded(observations[name], self.spec.obs_dim) for name in self.names]
        obs = jnp.stack(rows, axis=1)
        games = obs.shape[0]
        world = observations[_WORLD] if self.has_world else obs
        has_action = jnp.arange(self.spec.n_actions) < jnp.array(self.counts)[:, None]
        avail = jnp.broadcast_to(has_action, (games, *has_action.shape))
        if self.masks_actions:
            masks = jax.vmap(self.game.get_avail_actions)(inner)
            stacked = jnp.stack([_padded(masks[name], self.spec.n_actions) > 0 for name in self.names], axis=1)
            avail = avail & stacked
        return Observation(obs, world.reshape(games, -1).astype(jnp.float32), avail)

    def _paid(self, rewards: dict[str, Array], games: int) -> Array:
        each = jnp.stack([rewards[name].reshape(games) for name in self.names], axis=1).astype(jnp.float32)
        if not self.args.common_reward:
            return each
        return each.sum(axis=1) if self.args.reward_scalarisation == "sum" else each.mean(axis=1)


def _count_of(space: Any, name: str, key: str) -> int:
    if not hasattr(space, "n"):
        raise UserError(f"env_args.key: in '{key}' {name} has the action space {space}. Allowed: Discrete.")
    return int(space.n)


def _padded(values: Array, width: int) -> Array:
    """[B, ...] -> [B, width] float32, with zeros behind."""
    flat = values.reshape(values.shape[0], -1).astype(jnp.float32)
    return jnp.pad(flat, ((0, 0), (0, width - flat.shape[1])))


def _per_game(infos: dict[str, Any], name: str, games: int, key: str) -> Array:
    """A metric [B] from the infos, the mean over seats where each has its own."""
    if name not in infos:
        known = ", ".join(sorted(infos)) or "none"
        raise UserError(
            f"env_args.metrics: got '{name}', but the info of '{key}' has no such number. Allowed: {known}."
        )
    return jnp.asarray(infos[name], jnp.float32).reshape(games, -1).mean(axis=1)
