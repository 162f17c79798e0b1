"""From a folder of PyMARL, EPyMARL or the old OMG code to an agent of ours, its learner and its prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np

from omg.components.files import fill_leaves, name_leaves
from omg.config import Config, change_config
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.envs import EnvSpec, make_env
from omg.errors import UserError
from omg.exchange.layers import (
    HasCritic,
    HasMixer,
    Link,
    StateDict,
    agent_links,
    critic_links,
    mixer_links,
    to_ours,
)
from omg.exchange.old_omg import MODEL_FILES, VAE, model_arrays, prior_arrays
from omg.exchange.optimisers import UnusableError, optimiser_to_ours
from omg.exchange.torch_files import read_torch
from omg.learners import build_learner
from omg.modules.agents.dueling import DuelingAgent
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.registry import AgentTraits, ModelTraining
from omg.registry.table import names_with

AGENT, MIXER, CRITIC = "agent.th", "mixer.th", "critic.th"
OPTIMISERS = {"opt.th": "opt_state", "agent_opt.th": "opt_state", "critic_opt.th": "critic_opt_state"}
"""File -> our name of the optimiser's state."""
_INPUT_SETTINGS = ("obs_is_state", "obs_last_action", "obs_agent_id")


@dataclass
class Imported:
    """What a folder gave."""

    spec: EnvSpec
    policy: BasicMAC | None = None
    """None without `agent.th`."""
    learner: dict[str, np.ndarray] = field(default_factory=dict)
    """What else its learner had, by path in the state of ours."""
    prior: Prior | None = None
    """From `vae.th`."""
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""


def import_folder(folder: Path, config: Config) -> Imported:
    """Reads a folder of checkpoints.

    Args:
        folder: With `agent.th`, `vae.th` or both, and what else belongs to them.
        config: The algorithm and the game that they were trained with.

    Raises:
        UserError: a file cannot be read or does not fit the configuration; names both shapes.
    """
    files = _files(folder)
    if config.team is not None:
        raise UserError(f"config: got the team '{config.team}', but a folder holds one algorithm. Name that one.")
    spec = make_env(config.env, **config.env_args).spec
    found = Imported(spec)
    states = {name: _state(folder / name) for name in files if name not in OPTIMISERS}
    if VAE in states:
        found.prior = _read_prior(folder / VAE, states[VAE], config, spec)
    if AGENT in states:
        _read_agent(folder, states, config, found)
        _read_learner(folder, files, states, config, found)
    unused = [
        name for name in files if name in MODEL_FILES and config.model_part.training is not ModelTraining.SUBGOALS
    ]
    if unused:
        found.notes.append(f"{', '.join(unused)}: left out, since am_model={config.am_model} has no such networks")
    if AGENT not in states:
        found.notes += [f"{name}: left out, since there is no {AGENT}" for name in files if name != VAE]
    return found


def _files(folder: Path) -> list[str]:
    """The checkpoints in a folder."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder. Expected one with {AGENT}.")
    inside = sorted(path.name for path in folder.iterdir())
    models = [name for name in inside if name.startswith("player_") and name.endswith(".pth")]
    if models:
        raise UserError(
            f"{folder / models[0]}: HOP's files hold a whole network for every pair of players and no policy; the "
            f"players here look at the board through one network for all co-players, so that they cannot be taken over."
        )
    known = (AGENT, MIXER, CRITIC, *OPTIMISERS, VAE, *MODEL_FILES)
    files = [name for name in known if name in inside]
    if AGENT not in files and VAE not in files:
        steps = [name for name in inside if name.isdecimal() and (folder / name).is_dir()]
        hint = f" It holds the folders {', '.join(steps[:6])}: name one of them." if steps else ""
        raise UserError(f"{folder}: there is neither {AGENT} nor {VAE} in it.{hint}")
    return files


def _state(file: Path) -> StateDict:
    """A `state_dict`."""
    stored = read_torch(file)
    tensors = stored if isinstance(stored, dict) else {}
    found = {str(name): tensor for name, tensor in tensors.items() if isinstance(tensor, np.ndarray)}
    if not isinstance(stored, dict) or len(found) != len(stored):
        raise UserError(f"{file}: it is no state_dict, which holds tensors by name and nothing else.")
    return found


def _read_prior(file: Path, state: StateDict, config: Config, spec: EnvSpec) -> Prior:
    if config.omg_maps and spec.map_shape is not None:
        raise UserError(f"{file}: it reads views as plain numbers; set omg_maps=False.")
    width = spec.state_dim if config.obs_is_state else spec.obs_dim
    template = jax.eval_shape(lambda: Prior(width, config.subgoal_dim, key=jax.random.PRNGKey(0)))
    prior: Prior = fill_leaves(template, prior_arrays(state, template, file))
    return prior


def _template(config: Config, spec: EnvSpec) -> BasicMAC:
    mac = jax.eval_shape(lambda: build_mac(config, spec, jax.random.PRNGKey(0)))
    if not isinstance(mac, BasicMAC):
        raise UserError(f"config: got {config.name}, whose players search; PyMARL's agents are networks alone.")
    return mac


def _read_agent(folder: Path, states: Mapping[str, StateDict], config: Config, found: Imported) -> None:
    template, state = _template(config, found.spec), states[AGENT]
    model = template.opponent_model
    if model is not None and not isinstance(model, SubgoalModel):
        raise UserError(f"am_model: got {config.am_model}, of which no files are known. Allowed: none_am, omg_am.")
    links = agent_links(template.agent)
    if links is None or isinstance(template.agent, DuelingAgent):
        raise UserError(f"agent: got {config.agent}. Allowed for {AGENT}: rnn, mlp (use_rnn: False), idv_rnn.")
    arrays = to_ours(links, template.agent, state, str(folder / AGENT), _agent_hint(state, config, found.spec))
    arrays = {f"agent.{name}": array for name, array in arrays.items()}
    if model is not None:
        arrays |= _model(folder, states, model, found.prior)
    found.policy = fill_leaves(template, arrays)


def _model(
    folder: Path, states: Mapping[str, StateDict], model: SubgoalModel, prior: Prior | None
) -> dict[str, np.ndarray]:
    missing = [name for name in (VAE, *MODEL_FILES) if name not in states]
    if missing or prior is None:
        raise UserError(f"{folder}: an agent with am_model=omg_am needs {', '.join(missing)} besides {AGENT}.")
    arrays = model_arrays({name: states[name] for name in MODEL_FILES}, model, folder)
    arrays |= {f"prior.{name}": np.asarray(leaf) for name, leaf in name_leaves(prior).items()}
    return {f"opponent_model.{name}": array for name, array in arrays.items()}


def _agent_hint(state: StateDict, config: Config, spec: EnvSpec) -> str:
    """A sentence that names the setting under which an agent would fit, if there is one."""
    individual = any(name.startswith("agents.") for name in state)
    recurrent = individual or "rnn.weight" not in state
    if (individual, recurrent) != (config.agent_part.individual, config.agent_part.recurrent):
        fitting = names_with(
            "agent", AgentTraits, lambda one: (one.individual, one.recurrent) == (individual, recurrent)
        )
        return f"It is a network of agent={fitting.partition(',')[0]}."
    first = state.get("agents.0.fc1.weight" if individual else "fc1.weight")
    if first is None or first.ndim != 2:
        return ""
    hidden, inputs = first.shape
    if hidden != config.rnn_hidden_dim:
        return f"It fits with rnn_hidden_dim={hidden}."
    for key in _INPUT_SETTINGS:
        other = change_config(config, **{key: not getattr(config, key)})
        if _template(other, spec).agent.sizes.input_dim == inputs:
            return f"It fits with {key}={getattr(other, key)}."
    return f"The game is {spec.name} {spec.scenario} with {spec.obs_dim} numbers in a view."


def _read_learner(
    folder: Path, files: list[str], states: Mapping[str, StateDict], config: Config, found: Imported
) -> None:
    """The networks and optimisers that only learning needs."""
    shapes = jax.eval_shape(build_learner(config, found.spec).init, jax.random.PRNGKey(0))
    wanted = name_leaves(shapes)
    parts: dict[str, list[Link]] = {}
    mixer = shapes.mixer if isinstance(shapes, HasMixer) else None
    critic = shapes.critic if isinstance(shapes, HasCritic) else None
    sizes = "Its sizes are mixing_embed_dim, hypernet_layers, hypernet_embed, network_size."
    for file, name, module, links, hint in (
        (MIXER, "mixer", mixer, mixer_links(mixer), sizes),
        (CRITIC, "critic", critic, critic_links(critic), "Its size is critic_hidden_dim; EPyMARL's are of critic=mlp."),
    ):
        if file not in files:
            continue
        if links is None:
            found.notes.append(f"{file}: left out, since {config.name} as it is set here has no such network")
            continue
        parts[name] = links
        arrays = to_ours(links, module, states[file], str(folder / file), hint)
        # As in PyMARL, target networks start as the networks themselves.
        for place in (name, f"target_{name}"):
            found.learner |= {f"{place}.{path}": array for path, array in arrays.items() if f"{place}.{path}" in wanted}
    if found.learner:
        own = name_leaves(found.policy)
        found.learner |= {
            name: np.asarray(own[name.removeprefix("target_mac.")]) for name in wanted if name.startswith("target_mac.")
        }
    for file, place in OPTIMISERS.items():
        if file in files:
            _read_optimiser(folder / file, place, states, parts, config, wanted, found)


def _read_optimiser(
    file: Path,
    place: str,
    states: Mapping[str, StateDict],
    parts: Mapping[str, list[Link]],
    config: Config,
    wanted: Mapping[str, jax.ShapeDtypeStruct],
    found: Imported,
) -> None:
    assert found.policy is not None
    of_agent = agent_links(found.policy.agent)
    assert of_agent is not None
    try:
        if not any(name.startswith(f"{place}.") for name in wanted):
            raise UnusableError(f"{config.name} has no such optimiser")
        modules: list[tuple[str, str, list[Link]]] = [(AGENT, "", of_agent)]
        if place == "critic_opt_state":
            modules = [(CRITIC, "", parts.get("critic", []))]
        elif any(name.startswith(f"{place}.0.nu.0.") for name in wanted):
            # The learner's optimiser has the agent and the mixer, one behind the other.
            modules = [(AGENT, "0.", of_agent), (MIXER, "1.", parts.get("mixer", []))]
        parameters = []
        for name, prefix, links in modules:
            by_name = {link.theirs: link for link in links}
            # The order of a state_dict is the order of its module's parameters.
            parameters += [(prefix, by_name[theirs]) for theirs in states.get(name, ()) if theirs in by_name]
        found.learner |= optimiser_to_ours(read_torch(file), parameters, f"{place}.0.", wanted, config.optimizer)
    except UnusableError as error:
        found.notes.append(f"{file.name}: left out: {error}")
