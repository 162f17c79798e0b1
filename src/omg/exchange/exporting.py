"""From an agent of ours to the files of PyMARL and EPyMARL: `agent.th`, and where its learner is known what it had."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from omg.components.files import name_leaves
from omg.controllers.basic import BasicMAC
from omg.errors import UserError
from omg.exchange.importing import AGENT, CRITIC, MIXER
from omg.exchange.layers import HasCritic, HasMixer, Link, agent_links, critic_links, mixer_links, to_theirs
from omg.exchange.optimisers import optimiser_to_theirs
from omg.learners import build_learner
from omg.modules.agents.dueling import DuelingAgent
from omg.pools import Agent

Files = dict[str, object]
"""Name of a file -> what `write_torch` puts into it."""


def networks_of(agent: Agent) -> BasicMAC:
    """The policy of an agent that is made of networks alone.

    Raises:
        UserError: it is a planner.
    """
    policy = agent.policy
    if not isinstance(policy, BasicMAC):
        raise UserError(f"{agent.card.algorithm}: this player searches the game itself and cannot be exported.")
    return policy


def pymarl_files(agent: Agent, learner: Mapping[str, np.ndarray] | None) -> tuple[Files, list[str]]:
    """What PyMARL saves of an agent.

    Args:
        agent: The agent.
        learner: The state of its learner by path, at the same moment; None if it is not known.

    Returns:
        The files, and notes on what is left out.

    Raises:
        UserError: PyMARL and EPyMARL have no such agent.
    """
    policy, config = networks_of(agent), agent.config
    if policy.opponent_model is not None:
        raise UserError(
            f"--to pymarl: got am_model={config.am_model}, which PyMARL does not have; use --to torch or --to onnx."
        )
    links = agent_links(policy.agent)
    square = config.mlp_second_dim in (None, config.rnn_hidden_dim)
    if links is None or isinstance(policy.agent, DuelingAgent) or not square or config.obs_one_hot:
        raise UserError(
            f"--to pymarl: got an agent={config.agent} with obs_one_hot={config.obs_one_hot} and mlp_second_dim="
            f"{config.mlp_second_dim}. PyMARL and EPyMARL have rnn, idv_rnn and mlp with two equal layers; the others "
            f"can be exported with --to torch."
        )
    if policy.reading.all_last_actions:
        raise UserError("--to pymarl: obs_all_last_actions=True is no input of PyMARL's agents; use --to torch.")
    files: Files = {AGENT: to_theirs(links, name_leaves(policy.agent))}
    if config.mixer_part is not None and config.mixer_part.weightless:
        files[MIXER] = {}
    if learner is None:
        return files, ["only the agent is written: nothing is known of its learner (mixer, critic, optimiser)"]
    further, notes = _learner_files(agent, links, learner)
    return files | further, notes


def _learner_files(agent: Agent, links: list[Link], learner: Mapping[str, np.ndarray]) -> tuple[Files, list[str]]:
    config = agent.config
    shapes = jax.eval_shape(build_learner(config, agent.spec, None, agent.card.partners).init, jax.random.PRNGKey(0))
    files: Files = {}
    notes: list[str] = []
    parts: dict[str, list[Link]] = {}
    mixer = shapes.mixer if isinstance(shapes, HasMixer) else None
    critic = shapes.critic if isinstance(shapes, HasCritic) else None
    for file, name, module, found in (
        (MIXER, "mixer", mixer, mixer_links(mixer)),
        (CRITIC, "critic", critic, critic_links(critic)),
    ):
        if module is None:
            continue
        if found is None:
            notes.append(f"{file}: not written, since EPyMARL has no {name} like this one")
        elif any(f"{name}.{link.ours}" not in learner for link in found):
            notes.append(f"{file}: not written, since the agent's learner is not known")
        else:
            parts[name] = found
            files[file] = to_theirs(found, {link.ours: learner[f"{name}.{link.ours}"] for link in found})
    # Without a critic one optimiser has the agent and the mixer.
    both = [("0.", link) for link in links] + [("1.", link) for link in parts.get("mixer", ())]
    wanted: list[tuple[str, str, list[tuple[str, Link]], float]] = [("opt.th", "opt_state.0.", both, config.lr)]
    if isinstance(shapes, HasCritic):
        wanted = [("agent_opt.th", "opt_state.0.", [("", link) for link in links], config.lr)]
        if "critic" in parts:
            of_critic = [("", link) for link in parts["critic"]]
            wanted.append(("critic_opt.th", "critic_opt_state.0.", of_critic, config.critic_lr))
    for file, prefix, parameters, rate in wanted:
        if all(f"{prefix}nu.{module}{link.ours}" in learner for module, link in parameters):
            count = learner.get(f"{prefix}count", learner.get("updates", np.zeros(())))
            files[file] = optimiser_to_theirs(learner, parameters, prefix, config, rate, int(count))
        else:
            notes.append(f"{file}: not written, since the agent's optimiser is not known")
    return files, notes


def belongs(agent: Agent, learner: Mapping[str, np.ndarray]) -> bool:
    """Whether a learner's state is of the moment at which the agent was saved: its player is the agent."""
    own = name_leaves(agent.policy)
    return all(
        f"mac.{name}" in learner and np.array_equal(np.asarray(leaf), learner[f"mac.{name}"])
        for name, leaf in own.items()
    )


def check_free(output: Path) -> None:
    """Refuses a folder that exists and is not empty: what is written replaces it whole.

    Raises:
        UserError: there is something.
    """
    if output.is_file() or (output.is_dir() and any(output.iterdir())):
        raise UserError(f"--output: there is something at '{output}' already. Give a new folder.")
