"""A trained agent as a folder: `weights.safetensors` and `agent.json`, which holds all that is needed to rebuild it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.files import (
    ShapeMismatch,
    checksum,
    fill_leaves,
    load_arrays,
    name_leaves,
    new_folder,
    save_arrays,
    write_json,
)
from omg.config import Config, parse_config
from omg.controllers import build_mac
from omg.envs import Env, EnvSpec, Observation, make_env
from omg.errors import UserError

WEIGHTS, CARD = "weights.safetensors", "agent.json"


@dataclass(frozen=True)
class AgentCard:
    """What is written beside the weights."""

    algorithm: str
    seed: int
    t_env: int
    config: dict[str, Any]
    """The complete configuration the agent was trained with, environment included."""
    spec: dict[str, Any]
    """Sizes of the game it was trained in."""
    results: dict[str, float] = field(default_factory=dict)
    """Its newest test metrics."""


class Agent:
    """A trained policy for all seats of its game, ready to act.

    >>> agent = omg.load("results/my_run")            # doctest: +SKIP
    >>> actions, carry = agent.act(obs, avail, carry)  # doctest: +SKIP
    """

    def __init__(self, policy: Any, config: Config, env: Env, card: AgentCard) -> None:
        self.policy = policy
        self.config = config
        self.env = env
        self.card = card
        self._act = eqx.filter_jit(lambda policy, seen, carry, key: policy.act(seen, carry, key, jnp.float32(0.0)))

    @property
    def spec(self) -> EnvSpec:
        """The game the agent plays."""
        return self.env.spec

    def initial(self, batch: int = 1) -> Any:
        """What the agent remembers before the first step of `batch` games."""
        return self.policy.initial(batch)

    def act(
        self, obs: Any, avail: Any, carry: Any = None, *, state: Any = None, key: Array | None = None
    ) -> tuple[np.ndarray, Any]:
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
        obs, avail = jnp.asarray(obs, jnp.float32), jnp.asarray(avail, bool)
        single = obs.ndim == 2
        if state is None:
            if self.config.obs_is_state:
                raise UserError("state: this agent was trained with obs_is_state=True and needs the global state.")
            state = jnp.zeros((*obs.shape[:-2], self.spec.state_dim))
        seen = Observation(obs, jnp.asarray(state, jnp.float32), avail)
        if single:
            seen = jax.tree.map(lambda leaf: leaf[None], seen)
        self._check_shapes(seen)
        carry = self.initial(seen.obs.shape[0]) if carry is None else carry
        actions, carry, _ = self._act(self.policy, seen, carry, jax.random.PRNGKey(0) if key is None else key)
        return np.asarray(actions[0] if single else actions), carry

    def _check_shapes(self, seen: Observation) -> None:
        spec = self.spec
        for name, given, expected in (
            ("obs", seen.obs.shape[1:], (spec.n_agents, spec.obs_dim)),
            ("avail", seen.avail.shape[1:], (spec.n_agents, spec.n_actions)),
            ("state", seen.state.shape[1:], (spec.state_dim,)),
        ):
            if tuple(given) != expected:
                raise UserError(f"{name}: got shape {tuple(given)}, but this agent plays with {expected} ({self.where}).")

    @property
    def where(self) -> str:
        """The game in words: `sc2 8m`."""
        return f"{self.spec.name} {self.spec.scenario}"


def save_agent(folder: Path, policy: Any, card: AgentCard) -> Path:
    """Writes an agent atomically; an older one in the same place is replaced."""
    with new_folder(folder) as staging:
        arrays = {name: np.asarray(leaf) for name, leaf in name_leaves(policy).items()}
        digest = save_arrays(staging / WEIGHTS, arrays)
        write_json(staging / CARD, {"format": 1, "sha256": digest, **asdict(card)})
    return folder


def load_agent(path: str | Path) -> Agent:
    """Loads an agent folder, or the best (else the last) agent of the first seed of a run folder.

    Raises:
        UserError: nothing there, damaged, or made for other shapes.
    """
    folder = find_agent(Path(path))
    try:
        stored = json.loads((folder / CARD).read_text())
        digest = stored.pop("sha256")
        stored.pop("format")
        card = AgentCard(**stored)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / CARD} is damaged: {error}.") from None
    if not (folder / WEIGHTS).is_file() or checksum(folder / WEIGHTS) != digest:
        raise UserError(f"{folder / WEIGHTS} is damaged: its checksum does not match {CARD}.")
    config = parse_config(card.config)
    env = make_env(config.env, **config.env_args)
    template = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
    try:
        policy = fill_leaves(template, load_arrays(folder / WEIGHTS))
    except ShapeMismatch as error:
        raise UserError(
            f"{folder}: the weights do not fit {env.spec.name} {env.spec.scenario} with "
            f"obs_is_state={config.obs_is_state}: {error}."
        ) from None
    return Agent(jax.device_put(policy), config, env, card)


def find_agent(path: Path) -> Path:
    """The agent folder meant by `path`: itself, or inside a run folder the best, else the last agent."""
    if (path / CARD).is_file():
        return path
    for pattern in ("best", "last", "agents/seed_*/best", "agents/seed_*/last"):
        found = sorted(folder for folder in path.glob(pattern) if (folder / CARD).is_file())
        if found:
            return found[0]
    reason = "there is no agent in it" if path.is_dir() else "there is no such folder"
    raise UserError(f"{path}: {reason}. Expected a run folder or an agent folder with {CARD} and {WEIGHTS}.")
