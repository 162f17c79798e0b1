"""Agents that go to PyTorch and come from it, beside each other in whole episodes of sc2.

There: a trained agent is exported in every format; PyMARL's modules in PyTorch, the exported `agent.py` and the ONNX
graph each play the same episodes by themselves, from the same starts and with the same chances. Back: an agent, a mixer
and an optimiser that PyTorch has made and saved, in its present and in its old format, are imported and play beside
PyTorch. Every player keeps its own memory and its own last actions. Values and recurrent states are compared in every
step that a game goes on. Needs torch, onnx and onnxruntime.

    omg train --config=qmix --env-config=sc2 with env_args.map_name=3m t_max=20000
    python benchmarks/exchange_check.py RUN --output benchmarks/results/exchange_check.json
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import optax
import torch
from machine import machine

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.torch_modules import QMixer, RNNAgent, agent_inputs, stepped
from omg.components.files import fill_leaves, name_leaves
from omg.exchange import export_agent, import_agent
from omg.learners import build_learner
from omg.learners.optimisers import build_optimiser
from omg.pools import Agent, load_agent, load_learning

Step = Callable[[np.ndarray, np.ndarray, np.ndarray, Any], tuple[np.ndarray, np.ndarray]]
"""Views [B, A, O], legal actions, last actions [B, A] and memory [B, A, H] -> values [B, A, U] and the memory."""


def our_step(agent: Agent) -> Step:
    network = agent.policy.agent

    @jax.jit
    def step(obs: Any, last: Any, hidden: Any) -> tuple[Any, Any]:
        hidden = network.step(network.embed(obs, last), hidden)
        return network.head(hidden), hidden

    return lambda obs, avail, last, hidden: tuple(map(np.asarray, step(obs, last, hidden)))  # type: ignore[return-value]


def module_step(module: Any, actions: int) -> Step:
    def step(obs: np.ndarray, avail: np.ndarray, last: np.ndarray, hidden: Any) -> tuple[np.ndarray, np.ndarray]:
        shape = obs.shape[:2]
        with torch.no_grad():
            inputs = agent_inputs(obs, last, actions).flatten(0, 1)
            q, after = module(inputs, torch.as_tensor(hidden).flatten(0, 1))
        return q.reshape(*shape, -1).numpy(), after.reshape(*shape, -1).numpy()

    return step


def rows_of(obs: np.ndarray, last: np.ndarray, actions: int) -> dict[str, np.ndarray]:
    """The inputs of the exported network, a row for every seat."""
    games, seats = last.shape
    one_hot = np.eye(actions + 1, dtype=np.float32)[last][..., :-1]
    seat = np.tile(np.arange(seats), games)
    return {"obs": obs.reshape(games * seats, -1), "last_action": one_hot.reshape(-1, actions), "seat": seat}


def source_step(folder: Path, actions: int) -> Step:
    network = runpy.run_path(str(folder / "agent.py"))["load"](folder / "agent.th")

    def step(obs: np.ndarray, avail: np.ndarray, last: np.ndarray, hidden: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = {name: torch.tensor(value) for name, value in rows_of(obs, last, actions).items()}
        with torch.no_grad():
            q, after = network(rows["obs"], torch.as_tensor(hidden).flatten(0, 1), rows["last_action"], rows["seat"])
        return q.reshape(*last.shape, -1).numpy(), after.reshape(*last.shape, -1).numpy()

    return step


def onnx_step(file: Path, actions: int) -> Step:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def step(obs: np.ndarray, avail: np.ndarray, last: np.ndarray, hidden: Any) -> tuple[np.ndarray, np.ndarray]:
        given = {**rows_of(obs, last, actions), "avail": avail.reshape(-1, actions)}
        given["hidden"] = hidden.reshape(-1, hidden.shape[-1])
        q, after = session.run(["values", "hidden_out"], given)
        return q.reshape(*last.shape, -1), after.reshape(*last.shape, -1)

    return step


def beside(env: Any, ours: Step, theirs: Step, hidden_dim: int, episodes: int, seed: int) -> dict[str, Any]:
    """Both play the same games apart from each other."""
    spec = env.spec
    step_game = jax.jit(env.step)
    games = [env.reset(jax.random.PRNGKey(seed), episodes) for _ in range(2)]
    memory = [np.zeros((episodes, spec.n_agents, hidden_dim), np.float32) for _ in range(2)]
    last = [np.full((episodes, spec.n_agents), -1) for _ in range(2)]
    alive, won = np.ones(episodes, bool), np.zeros((2, episodes), bool)
    found = {"decisions": 0, "equal_actions": 0, "largest_value_difference": 0.0, "largest_memory_difference": 0.0}
    same, largest_value = np.ones(episodes, bool), 0.0
    for key in jax.random.split(jax.random.PRNGKey(seed + 1), spec.episode_limit):
        values = []
        for side, step in enumerate((ours, theirs)):
            obs, avail = (np.asarray(part) for part in (games[side][1].obs, games[side][1].avail))
            q, memory[side] = step(obs, avail, last[side], memory[side])
            last[side] = np.where(avail, q, -np.inf).argmax(-1)
            values.append(q)
        equal = last[0] == last[1]
        found["decisions"] += int(alive.sum()) * spec.n_agents
        found["equal_actions"] += int(equal[alive].sum())
        same &= equal.all(axis=-1) | ~alive
        for name, pair in (("value", values), ("memory", memory)):
            difference = float(np.abs(pair[0] - pair[1])[alive].max())
            found[f"largest_{name}_difference"] = max(found[f"largest_{name}_difference"], difference)
        largest_value = max(largest_value, float(np.abs(values[0])[alive].max()))
        over = np.zeros(episodes, bool)
        for side in range(2):
            world, seen, outcome = step_game(key, games[side][0], jnp.asarray(last[side]))
            games[side] = world, seen
            won[side] |= alive & np.asarray(outcome.metrics["battle_won"] > 0)
            over |= np.asarray(outcome.terminated | outcome.truncated)
        alive &= ~over
        if not alive.any():
            break
    return {
        "episodes": episodes,
        "episodes_with_equal_actions": int(same.sum()),
        **found,
        "largest_value": largest_value,
        "won": won.mean(axis=1).tolist(),
    }


def there(run: Path, scratch: Path, episodes: int) -> dict[str, Any]:
    notes = {}
    for to, name in (("pymarl", "pymarl"), ("torch", "torch"), ("onnx", "agent.onnx")):
        written = export_agent(run, to, scratch / name)
        notes[to] = [*(line.replace(f"{scratch}/", "") for line in written.lines), *written.notes]
    agent = load_agent(run / "agents" / "seed_1" / "last")
    spec, hidden = agent.spec, agent.config.rnn_hidden_dim
    module = RNNAgent(spec.obs_dim + spec.n_actions + spec.n_agents, hidden, spec.n_actions)
    module.load_state_dict(torch.load(scratch / "pymarl" / "agent.th", weights_only=True))
    players = {
        "pymarl": module_step(module, spec.n_actions),
        "torch": source_step(scratch / "torch", spec.n_actions),
        "onnx": onnx_step(scratch / "agent.onnx", spec.n_actions),
    }
    ours = our_step(agent)
    played = {name: beside(agent.env, ours, step, hidden, episodes, 0) for name, step in players.items()}
    return {"written": notes, "played": played}


def back(run: Path, scratch: Path, episodes: int) -> dict[str, Any]:
    like = load_agent(run / "agents" / "seed_1" / "last")
    config, spec = like.config, like.spec
    torch.manual_seed(3)
    hidden, inputs = config.rnn_hidden_dim, spec.obs_dim + spec.n_actions + spec.n_agents
    module = RNNAgent(inputs, hidden, spec.n_actions)
    mixer = QMixer(
        spec.n_agents, spec.state_dim, config.mixing_embed_dim, config.hypernet_layers, config.hypernet_embed
    )

    def loss() -> Any:
        q = module(torch.randn(64 * spec.n_agents, inputs), torch.randn(64 * spec.n_agents, hidden))[0].max(-1).values
        return (mixer(q.reshape(64, -1), torch.randn(64, spec.state_dim)) - 1).square().mean()

    rms = {"lr": config.lr, "alpha": config.optim_alpha, "eps": config.optim_eps}
    optimiser = stepped([module, mixer], loss, **rms)
    results = {}
    for name, new in (("zip", True), ("old", False)):
        folder = scratch / name
        folder.mkdir()
        for file, part in (("agent", module), ("mixer", mixer), ("opt", optimiser)):
            torch.save(part.state_dict(), folder / f"{file}.th", _use_new_zipfile_serialization=new)
        written = import_agent(folder, config, output=scratch / f"{name}_agent")
        agent = load_agent(scratch / f"{name}_agent")
        played = beside(agent.env, our_step(agent), module_step(module, spec.n_actions), hidden, episodes, 7)
        results[name] = {"notes": written.notes, "played": played}
    results["mixer_and_optimiser"] = learned_alike(like, scratch, module, mixer, optimiser)
    return results


def learned_alike(like: Agent, scratch: Path, module: Any, mixer: Any, optimiser: Any) -> dict[str, float]:
    """The largest differences of mixed values, and of all weights after one more step with the same gradients."""
    config, spec = like.config, like.spec
    shapes = jax.eval_shape(build_learner(config, spec).init, jax.random.PRNGKey(0))

    def state_of(folder: Path) -> Any:
        zeros = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in name_leaves(shapes).items()}
        own = {f"mac.{name}": np.asarray(leaf) for name, leaf in name_leaves(load_agent(folder).policy).items()}
        return fill_leaves(shapes, zeros | own | (load_learning(folder) or {}))

    def imported(name: str) -> Any:
        (scratch / name).mkdir()
        for file, part in (("agent", module), ("mixer", mixer)):
            torch.save(part.state_dict(), scratch / name / f"{file}.th")
        import_agent(scratch / name, config, output=scratch / f"{name}_agent")
        return state_of(scratch / f"{name}_agent")

    before = state_of(scratch / "zip_agent")
    qs, states = torch.randn(1000, spec.n_agents), torch.randn(1000, spec.state_dim)
    mixed = np.abs(np.asarray(before.mixer(qs.numpy(), states.numpy())) - mixer(qs, states).detach().numpy()).max()
    parameters = [p for part in (module, mixer) for p in part.parameters()]
    weights = [p.detach().clone() for p in parameters]
    for p in parameters:
        p.grad = torch.randn_like(p)
        p.data = p.grad.clone()
    gradient = imported("gradient")  # Gradients come the way weights come.
    for p, weight in zip(parameters, weights, strict=True):
        p.data = weight
    optimiser.step()
    after = imported("after")
    updates, _ = build_optimiser(config).update((gradient.mac.agent, gradient.mixer), before.opt_state)
    learned = name_leaves(optax.apply_updates((before.mac.agent, before.mixer), updates))
    theirs = name_leaves((after.mac.agent, after.mixer))
    step = max(float(np.abs(np.asarray(leaf) - theirs[name]).max()) for name, leaf in learned.items())
    return {"largest_mixed_value_difference": float(mixed), "largest_weight_difference_after_a_step": step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        found = {
            "game": load_agent(given.run).where,
            "there": there(given.run, scratch, given.episodes),
            "back": back(given.run, scratch, given.episodes),
            "command": "python benchmarks/exchange_check.py RUN --output benchmarks/results/exchange_check.json",
            "trained_with": " ".join(json.loads((given.run / "versions.json").read_text())["command"]),
            **machine(),
            "torch": torch.__version__,
            "onnxruntime": onnxruntime.__version__,
        }
    text = json.dumps(found, indent=2)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
