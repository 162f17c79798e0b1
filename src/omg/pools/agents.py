"""A trained agent as a folder: `weights.safetensors` and `agent.json`, which holds all that is needed to rebuild it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from omg.components.files import ShapeMismatchError, check_leaves, fill_leaves
from omg.components.headers import StoredArray
from omg.config import Config, change_config
from omg.controllers import build_mac
from omg.controllers.base import Policy, ReadsState
from omg.envs import Env, EnvSpec, Observation, make_stored_env
from omg.errors import UserError
from omg.pools.bundles import read_bundle, write_bundle
from omg.pools.cards import CARD, AgentCard, find_agent, stored_config
from omg.types import PyTree

_Stored = Mapping[str, np.ndarray] | Mapping[str, StoredArray]
"""Arrays by path, or what is known of them."""


class Agent:
    """A trained policy for all seats of its game, ready to act.

    >>> agent = omg.load("results/my_run")            # doctest: +SKIP
    >>> actions, carry = agent.act(obs, avail, carry)  # doctest: +SKIP
    """

    def __init__(self, policy: PyTree, config: Config, env: Env, card: AgentCard) -> None:
        self.policy = policy
        self.config = config
        self.env = env
        self.card = card

    def __repr__(self) -> str:
        card = self.card
        partners = f", trained with {card.partners} players" if card.partners else ""
        return (
            f"Agent({card.algorithm} for {self.where}: {self.spec.n_agents} seats, seed {card.seed}, "
            f"t_env {card.t_env:,}{partners})"
        )

    @property
    def spec(self) -> EnvSpec:
        """The game the agent plays."""
        return self.env.spec

    def initial(self, batch: int = 1) -> PyTree:
        """What the agent remembers before the first step of `batch` games."""
        return self.policy.initial(batch, jax.random.PRNGKey(0))

    def act(
        self,
        obs: ArrayLike,
        avail: ArrayLike,
        carry: PyTree = None,
        *,
        state: ArrayLike | None = None,
        key: Array | None = None,
    ) -> tuple[np.ndarray, PyTree]:
        """Greedy actions.

        Args:
            obs: [A, O] for one game or [B, A, O] for many.
            avail: [A, U] or [B, A, U], legal actions.
            carry: what the last call returned; None at the start of an episode.
            state: [S] or [B, S], needed by agents trained with `obs_is_state`.
            key: randomness, for agents that need any.

        Returns:
            Actions [A] or [B, A], and the carry for the next step.
        """
        self.check_untold()
        obs, avail = jnp.asarray(obs, jnp.float32), jnp.asarray(avail, bool)
        games = obs.shape[:1] if obs.ndim == 3 else ()
        if state is None:
            if self.config.obs_is_state:
                raise UserError(
                    "state: this agent was trained with obs_is_state=True and needs the global state. Without one, "
                    'load it with omg.load(path, obs_adapter="learn").'
                )
            if isinstance(self.policy, ReadsState) and self.policy.reads_state:
                raise UserError("state: this agent reads the game off the global state and needs it.")
            state = jnp.zeros((*games, self.spec.state_dim))
        seen = Observation(obs, jnp.asarray(state, jnp.float32), avail)
        self._check_shapes(seen, games)
        if not games:
            seen = jax.tree.map(lambda leaf: leaf[None], seen)
        carry = self._checked_carry(carry, seen.obs.shape[0])
        actions, carry = _act(self.policy, seen, carry, jax.random.PRNGKey(0) if key is None else key)
        return np.asarray(actions if games else actions[0]), carry

    def check_untold(self) -> None:
        """Refuses agents that are bounds and no players: they are told the others' identity or future.

        Raises:
            UserError: the agent is one of them.
        """
        if self.config.omg_q_input == "oracle" or self.config.model_part.told_players:
            raise UserError(
                f"{self.card.algorithm}: this agent is told what no player can know (omg_q_input="
                f"{self.config.omg_q_input}, am_model={self.config.am_model}); it can only be played in a team."
            )

    def _check_shapes(self, seen: Observation, games: tuple[int, ...]) -> None:
        spec = self.spec
        for name, given, expected in (
            ("obs", seen.obs.shape, (*games, spec.n_agents, spec.obs_dim)),
            ("avail", seen.avail.shape, (*games, spec.n_agents, spec.n_actions)),
            ("state", seen.state.shape, (*games, spec.state_dim)),
        ):
            if given != expected:
                raise UserError(f"{name}: got shape {given}, but this agent ({self.where}) expects {expected}.")

    def _checked_carry(self, carry: PyTree, games: int) -> PyTree:
        if carry is None:
            return self.initial(games)
        for leaf in jax.tree.leaves(carry):
            if leaf.shape[0] != games:
                raise UserError(
                    f"carry: got shape {leaf.shape}, but obs is of {games} game(s), so that its first axis should be "
                    f"{games}; start an episode with carry=None."
                )
        return carry

    @property
    def where(self) -> str:
        """The game in words: `sc2 8m`."""
        return f"{self.spec.name} {self.spec.scenario}"


@eqx.filter_jit
def _act(policy: Policy, seen: Observation, carry: PyTree, key: Array) -> tuple[Array, PyTree]:
    """One greedy step, compiled once for all agents of the same shapes."""
    actions, carry, _ = policy.act(seen, carry, key, jnp.float32(0.0))
    return actions, carry


def save_agent(folder: Path, policy: PyTree, card: AgentCard) -> Path:
    """Writes an agent atomically; an older one in the same place is replaced."""
    return write_bundle(folder, "agent", policy, CARD, asdict(card))


def load_agent(path: str | Path) -> Agent:
    """Loads an agent folder, or the best (else the last) agent of the first seed of a run folder.

    Raises:
        UserError: nothing there, damaged, made for other shapes, or for a game that only the user may name.
    """
    folder = find_agent(Path(path))
    bundle = read_bundle(folder, CARD, AgentCard)
    return _built(folder, bundle.card, bundle.fill, bundle.header)


def agent_from_arrays(folder: Path, card: AgentCard, arrays: Mapping[str, np.ndarray]) -> Agent:
    """The agent of a card and the arrays of its networks by path; `folder` is where they come from.

    Raises:
        UserError: they do not fit, or are for a game that only the user may name.
    """
    return _built(folder, card, lambda template: fill_leaves(template, arrays), arrays)


def _built(folder: Path, card: AgentCard, fill: Callable[[PyTree], PyTree], stored: _Stored) -> Agent:
    """The agent of a card; `fill` puts the stored arrays, whose shapes `stored` knows, into a template."""
    config = stored_config(folder, card)
    env = make_stored_env(folder / CARD, config.env, config.env_args)
    _check_game(folder, card.spec, env.spec)
    try:
        template = _template(config, env.spec, card.partners)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UserError(f"{folder / CARD} is damaged: no agent has such sizes ({error}).") from None
    try:
        policy = fill(template).tested()
    except ShapeMismatchError as error:
        raise UserError(
            f"{folder}: the weights do not fit {env.spec.name} {env.spec.scenario} with {_settings(config)}: {error}."
            f"{_fitting_setting(config, env.spec, card.partners, stored)}"
        ) from None
    return Agent(jax.device_put(policy), config, env, card)


def _check_game(folder: Path, stored: EnvSpec, spec: EnvSpec) -> None:
    """Refuses a game of other sizes than the one the agent was trained in, even if the weights happened to fit."""
    keys = ("name", "scenario", "n_agents", "n_actions", "obs_dim", "state_dim")
    differing = [key for key in keys if getattr(stored, key) != getattr(spec, key)]
    if differing:
        shown = ", ".join(f"{key} {getattr(stored, key)} (now {getattr(spec, key)})" for key in differing)
        raise UserError(
            f"{folder}: the agent was made for another game than its env_args describe ({spec.name} {spec.scenario}): "
            f"{shown}."
        )


_INPUT_SETTINGS = ("obs_is_state", "obs_last_action", "obs_agent_id")


def _settings(config: Config) -> str:
    return ", ".join(f"{key}={getattr(config, key)}" for key in _INPUT_SETTINGS)


def _template(config: Config, spec: EnvSpec, partners: int) -> PyTree:
    """Shapes of the policy of a configuration."""
    return jax.eval_shape(lambda: build_mac(config, spec, jax.random.PRNGKey(0), partners))


def _fitting_setting(config: Config, spec: EnvSpec, partners: int, stored: _Stored) -> str:
    """A sentence that names the input setting under which the weights would fit, if there is one."""
    for key in _INPUT_SETTINGS:
        value = not getattr(config, key)
        try:
            check_leaves(_template(change_config(config, **{key: value}), spec, partners), stored)
        except ShapeMismatchError:
            continue
        return f" They were made with {key}={value}."
    return ""
