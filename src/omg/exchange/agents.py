"""What `omg import` and `omg export` do, as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from omg.components.files import new_folder, write_bytes, write_text
from omg.config import Config
from omg.errors import UserError, unknown_name
from omg.exchange.exporting import Files, belongs, check_free, networks_of, pymarl_files
from omg.exchange.importing import import_folder
from omg.exchange.inputs import interface
from omg.exchange.onnx_graph import onnx_bytes
from omg.exchange.torch_files import write_torch
from omg.exchange.torch_module import module_source, module_state
from omg.pools import (
    SETS,
    Agent,
    AgentCard,
    Member,
    Pool,
    PriorCard,
    Standing,
    is_pool,
    load_agent,
    load_learning,
    save_agent,
    save_learning,
    save_prior,
)
from omg.pools.cards import find_agent
from omg.tracking import RunFolder
from omg.training.checkpoint import newest_learner

FORMATS = ("pymarl", "torch", "onnx")


@dataclass(frozen=True)
class Written:
    """What a command has written, and what it has left out."""

    lines: list[str]
    notes: list[str]


def import_agent(
    folder: Path,
    config: Config,
    *,
    output: Path | None = None,
    pool: Path | None = None,
    pool_set: str = "training",
    prior: Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    measure: Callable[[Agent], Standing] | None = None,
) -> Written:
    """Makes an agent folder, a member of a pool, a prior, or several of them from a folder of checkpoints.

    Args:
        folder: Of PyMARL, EPyMARL or the old OMG code.
        config: The algorithm and the game that it was trained with.
        output: Where the agent goes; what else its learner had goes with it.
        pool: Pool that it becomes a member of; made if there is none.
        pool_set: Set of the pool.
        prior: Where the prior of `vae.th` goes.
        seed: Of its training, as it will be called.
        steps: Environment steps of its training; None: the folder's name if that is a number, as in PyMARL, else 0.
        measure: How good it is, for the pool.

    Raises:
        UserError: something cannot be read, does not fit, or is there already.
    """
    if output is None and pool is None and prior is None:
        raise UserError("--output: missing. Give --output AGENT, --pool POOL or --prior PRIOR.")
    if pool_set not in SETS:
        raise unknown_name("set (--set)", pool_set, SETS)
    for place in (output, prior):
        if place is not None:
            check_free(place)
    found = import_folder(folder, config)
    if found.policy is None and (output is not None or pool is not None):
        raise UserError(f"{folder}: there is no agent.th in it, so that it gives a prior only: --prior PRIOR.")
    if steps is None:
        steps = int(folder.name) if folder.name.isdecimal() else 0
    spec, notes, lines = found.spec, list(found.notes), []
    if prior is not None:
        if found.prior is None:
            raise UserError(f"--prior: there is no vae.th in {folder}.")
        width, dim = int(found.prior.statistics.mean.shape[0]), found.prior.subgoal_dim
        card = PriorCard(spec.name, spec.scenario, config.obs_is_state, width, dim, steps)
        lines.append(f"Prior: {save_prior(prior, found.prior, card)}")
    elif found.prior is not None and (found.policy is None or found.policy.opponent_model is None):
        notes.append("vae.th: left out; --prior PRIOR writes it as a prior")
    agent_card = AgentCard(config.name, seed, steps, config.model_dump(), spec)
    if output is not None:
        save_agent(output, found.policy, agent_card)
        if found.learner:
            save_learning(output, found.learner)
        lines.append(f"Agent: {output}")
        parts = sorted({name.partition(".")[0] for name in found.learner if "." in name})
        lines += [f"Its learner, for init_from and init_optimiser: {', '.join(parts)}"] if parts else []
    if pool is not None:
        with TemporaryDirectory() as scratch:
            made = save_agent(Path(scratch) / "agent", found.policy, agent_card)
            member = _add(made, config, pool, pool_set, measure)
        lines.append(f"Member: {member.name} in the set {member.set} of {pool}")
        if found.learner and output is None:
            notes.append("what only learning needs: left out, since members of a pool do not learn; see --output")
    return Written(lines, notes)


def _add(agent: Path, config: Config, pool: Path, pool_set: str, measure: Callable[[Agent], Standing] | None) -> Member:
    loaded = load_agent(agent)
    opened = Pool.open(pool) if is_pool(pool) else Pool.create(pool, config.env, config.env_args, loaded.spec)
    return opened.add(agent, pool_set, measured=None if measure is None else measure(loaded))


def export_agent(path: Path, to: str, output: Path, *, which: str = "last", seed: int | None = None) -> Written:
    """Writes an agent for other programs.

    Args:
        path: An agent folder or a run.
        to: `pymarl` (a folder with agent.th and what belongs to it), `torch` (a folder with agent.th and agent.py) or
            `onnx` (a file).
        output: The folder or file.
        which: Agent of a run, `last` or `best`.
        seed: Of a run; None: its first.

    Raises:
        UserError: there is no such agent, or the format has nothing like it.
    """
    if to not in FORMATS:
        raise unknown_name("format (--to)", to, FORMATS)
    folder = _agent_folder(path, which, seed)
    if to == "onnx":
        if output.is_dir():
            raise UserError(f"--output: '{output}' is a folder. Give a file, e.g. agent.onnx.")
    else:
        check_free(output)
    agent = load_agent(folder)
    agent.check_untold()
    try:
        if to == "onnx":
            data = onnx_bytes(interface(agent), networks_of(agent))
            output.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(output, data)
            return Written([f"Graph: {output}"], [])
        notes: list[str] = []
        files: Files
        if to == "torch":
            face = interface(agent)
            state = module_state(face, networks_of(agent))
            files, source = {"agent.th": state}, module_source(face, state)
        else:
            learner, notes = _learner_of(folder, agent)
            files, further = pymarl_files(agent, learner)
            notes, source = [*notes, *further] if learner is None else further, ""
        with new_folder(output) as staging:
            for name, value in files.items():
                write_torch(staging / name, value)
            if source:
                write_text(staging / "agent.py", source)
    except OSError as error:
        raise UserError(f"--output: cannot write '{output}': {error.strerror or error}.") from None
    names = [*files, *(["agent.py"] if source else [])]
    return Written([f"{output}: {', '.join(names)}"], notes)


def _agent_folder(path: Path, which: str, seed: int | None) -> Path:
    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    if not RunFolder(path).config_file.is_file():
        if seed is not None:
            raise UserError(f"--seed: {path} is no run, so that there is one agent only.")
        return find_agent(path)
    run = RunFolder.open(path)
    config = run.config()
    seeds = range(config.seed, config.seed + config.seeds)
    chosen = config.seed if seed is None else seed
    if chosen not in seeds:
        raise UserError(f"--seed: got {chosen}. The run {path} has: {', '.join(map(str, seeds))}.")
    return find_agent(run.agent(chosen, which))


def _learner_of(folder: Path, agent: Agent) -> tuple[dict[str, np.ndarray] | None, list[str]]:
    """The state of the learner that an agent had, if it is known, and notes."""
    kept = load_learning(folder)
    if kept is not None or len(folder.absolute().parents) < 3:
        return kept, []
    # RUN/agents/seed_N/last
    run = folder.absolute().parents[2]
    if folder.absolute().parents[1].name != "agents" or not RunFolder(run).config_file.is_file():
        return None, []
    opened = RunFolder.open(run)
    config = opened.config()
    index = agent.card.seed - config.seed
    learner = newest_learner(opened.checkpoints, index) if 0 <= index < config.seeds else None
    if learner is None or belongs(agent, learner):
        return learner, []
    return None, [f"the newest checkpoint of {run} is of another moment than this agent; --which last may have one"]
