"""What other runs have saved: their settings, their steps, the agents and learners of any of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import yaml

from omg.components.counts import Count
from omg.components.files import ShapeMismatchError, fill_leaves
from omg.components.headers import DamagedFileError
from omg.config import Config, parse_config, read_yaml
from omg.envs import EnvSpec, make_stored_env
from omg.errors import UserError
from omg.learners.base import S
from omg.pools import Agent, AgentCard, agent_from_arrays
from omg.training.checkpoint import checkpoint_at, learner_arrays, saved_step, state_counters
from omg.training.state import RunState
from omg.types import PyTree

CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
_MAC = "mac."


def run_config(run: Path) -> Config:
    """The configuration that a run was started with.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    file = run / CONFIG
    if not file.is_file():
        reason = f"it has no {CONFIG}" if run.is_dir() else "there is no such folder"
        raise UserError(f"{run} is not a run folder: {reason}.")
    try:
        values = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} is damaged: it holds no keys.")
    return parse_config(values)


def kept_at(step: int) -> str:
    """What the agents of a step of `save_agents_at` are called, beside `best` and `last`."""
    return f"step_{step}"


def agent_at(run: Path, step: int, index: int = 0) -> Agent:
    """The agent of a run as it was at a saved step.

    Args:
        run: folder of the run.
        step: environment steps: that checkpoint, or the last one before it; 0 for the newest.
        index: of the seed among those of the run.

    Raises:
        UserError: there is no such run or step (names those that exist), or the run trained no agent.
    """
    config = run_config(run)
    if config.learner_part.watches:
        raise UserError(f"{run}: this run trained a prior, not an agent.")
    checkpoint = checkpoint_at(run / CHECKPOINTS, step)
    spec = make_stored_env(run / CONFIG, config.env, config.env_args).spec
    arrays = _learner_arrays(checkpoint)
    mac = {name.removeprefix(_MAC): values[index] for name, values in arrays.items() if name.startswith(_MAC)}
    algorithm, seed = config.train_alg or config.name, config.seed + index
    card = AgentCard(algorithm, seed, saved_step(checkpoint), config.model_dump(), spec)
    return agent_from_arrays(checkpoint, card, mac)


def _learner_arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    try:
        return learner_arrays(checkpoint)
    except (OSError, DamagedFileError) as error:
        raise UserError(f"{checkpoint} cannot be read: {error}.") from None


class Continued(NamedTuple):
    """What a new run has from another one."""

    learner: PyTree
    """State of the learner, [Z, ...]."""
    t_env: np.ndarray
    """[Z] int64."""
    episodes: np.ndarray
    """[] int32."""


def continued(config: Config, spec: EnvSpec, template: PyTree) -> Continued:
    """The learner in `checkpoint_path` at `load_step`, for a run of `config`.

    Args:
        config: of the new run.
        spec: its game.
        template: arrays or shapes of its learner's state, [Z, ...].

    Raises:
        UserError: the two runs do not fit; names what differs.
    """
    assert config.checkpoint_path is not None
    run = Path(config.checkpoint_path)
    other = run_config(run)
    there = make_stored_env(run / CONFIG, other.env, other.env_args).spec
    for key, given, stored in (
        ("env", spec.name, there.name),
        ("scenario", spec.scenario, there.scenario),
        ("obs_is_state", config.obs_is_state, other.obs_is_state),
        ("learner", config.learner, other.learner),
        ("seeds", config.seeds, other.seeds),
    ):
        if given != stored:
            raise UserError(f"checkpoint_path: {run} was trained with {key}={stored}, but this run has {key}={given}.")
    checkpoint = checkpoint_at(run / CHECKPOINTS, config.load_step)
    try:
        t_env, episodes = state_counters(checkpoint)
    except (OSError, DamagedFileError) as error:
        raise UserError(f"{checkpoint} cannot be read: {error}.") from None
    if not config.evaluate and int(t_env.min()) >= config.t_max:
        raise UserError(
            f"t_max: got {config.t_max}, but {run} is at step {int(t_env.min())} already. Allowed: more, or "
            f"evaluate=True."
        )
    try:
        learner = fill_leaves(template, _learner_arrays(checkpoint))
    except ShapeMismatchError as error:
        raise UserError(f"checkpoint_path: {run} does not fit this configuration: {error}.") from None
    return Continued(learner, t_env, episodes)


def take_over(state: RunState[S], config: Config, spec: EnvSpec) -> RunState[S]:
    """A fresh `RunState` with the learner and the counters of `checkpoint_path`; unchanged without one."""
    if config.checkpoint_path is None:
        return state
    found = continued(config, spec, state.learner)
    steps, episodes = Count.from_numpy(found.t_env), jnp.asarray(found.episodes)
    return state._replace(learner=found.learner, t_env=steps, episodes=episodes)
