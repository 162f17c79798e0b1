"""Networks and optimisers of PyMARL and EPyMARL in PyTorch, beside ours after an import and before an export."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.pool_members import ENV, settings
from helpers.tiny import tiny_config
from omg.components.files import fill_leaves, name_leaves
from omg.exchange import export_agent, import_agent
from omg.learners import build_learner
from omg.learners.optimisers import build_optimiser
from omg.pools import AgentCard, load_agent, load_learning, save_agent
from omg.tracking import RunFolder
from omg.training.checkpoint import save_checkpoint
from omg.training.program import Program

torch = pytest.importorskip("torch")
from helpers.torch_modules import (  # noqa: E402
    Critic,
    QMixer,
    QTranBase,
    RNNAgent,
    SeparateAgents,
    agent_inputs,
    stepped,
)

SPEC = ENV.spec
SEATS, ACTIONS, STATE, OBS = SPEC.n_agents, SPEC.n_actions, SPEC.state_dim, SPEC.obs_dim
INPUTS, HIDDEN = OBS + ACTIONS + SEATS, 5
RNG = np.random.default_rng(1)


def saved(folder: Path, **modules: Any) -> Path:
    """A folder with the `state_dict` of each module or optimiser."""
    folder.mkdir()
    for name, module in modules.items():
        torch.save(module.state_dict(), folder / f"{name}.th")
    return folder


def state_of(config: Any, agent: Path) -> Any:
    """A learner's state with everything that came along with an imported agent."""
    shapes = jax.eval_shape(build_learner(config, SPEC).init, jax.random.PRNGKey(0))
    kept = load_learning(agent) or {}
    zeros = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in name_leaves(shapes).items()}
    own = {f"mac.{name}": np.asarray(leaf) for name, leaf in name_leaves(load_agent(agent).policy).items()}
    return fill_leaves(shapes, zeros | own | kept)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["rnn", "mlp", "idv_rnn"])
def test_agents_say_the_same_over_an_episode(tmp_path: Path, kind: str):
    sizes = (INPUTS, HIDDEN, ACTIONS)
    theirs = SeparateAgents(SEATS, *sizes) if kind == "idv_rnn" else RNNAgent(*sizes, use_rnn=kind == "rnn")
    config = settings("iql", agent=kind, rnn_hidden_dim=HIDDEN)
    import_agent(saved(tmp_path / "in", agent=theirs), config, output=tmp_path / "agent")
    network = load_agent(tmp_path / "agent").policy.agent
    hidden, own = torch.zeros(3, SEATS, HIDDEN), network.initial(3)
    step = jax.jit(lambda obs, last, own: network.step(network.embed(obs, last), own))
    head = jax.jit(lambda own: network.head(own))
    last = np.full((3, SEATS), -1)
    for _ in range(SPEC.episode_limit):
        obs = some(3, SEATS, OBS)
        own = step(obs, last, own)
        with torch.no_grad():
            inputs = agent_inputs(obs, last, ACTIONS)
            if kind == "idv_rnn":
                q, hidden = theirs(inputs, hidden)
            else:
                flat = (values.reshape(-1, values.shape[-1]) for values in (inputs, hidden))
                q, hidden = (values.reshape(3, SEATS, -1) for values in theirs(*flat))
        np.testing.assert_allclose(head(own), q, atol=1e-5)
        np.testing.assert_allclose(own, hidden, atol=1e-5)
        last = q.argmax(-1).numpy()


@pytest.mark.parametrize("layers", [1, 2])
def test_qmix_mixes_alike(tmp_path: Path, layers: int):
    theirs = QMixer(SEATS, STATE, 7, layers, 6)
    config = settings("qmix", rnn_hidden_dim=HIDDEN, mixing_embed_dim=7, hypernet_layers=layers, hypernet_embed=6)
    folder = saved(tmp_path / "in", agent=RNNAgent(INPUTS, HIDDEN, ACTIONS), mixer=theirs)
    import_agent(folder, config, output=tmp_path / "agent")
    qs, state = some(4, SEATS), some(4, STATE)
    ours = state_of(config, tmp_path / "agent").target_mixer(qs, state)
    np.testing.assert_allclose(ours, theirs(torch.as_tensor(qs), torch.as_tensor(state)).detach(), atol=1e-5)


def test_qtran_values_alike(tmp_path: Path):
    theirs = QTranBase(STATE, HIDDEN, ACTIONS, 7)
    config = settings("qtran", rnn_hidden_dim=HIDDEN, mixing_embed_dim=7)
    folder = saved(tmp_path / "in", agent=RNNAgent(INPUTS, HIDDEN, ACTIONS), mixer=theirs)
    import_agent(folder, config, output=tmp_path / "agent")
    state, hidden, actions = some(4, STATE), some(4, SEATS, HIDDEN), RNG.integers(0, ACTIONS, (4, SEATS))
    mixer = state_of(config, tmp_path / "agent").mixer
    one_hot = torch.as_tensor(np.eye(ACTIONS, dtype=np.float32)[actions])
    q, v = theirs(torch.as_tensor(state), torch.as_tensor(hidden), one_hot)
    np.testing.assert_allclose(mixer.joint_value(state, hidden, actions), q.detach(), atol=1e-5)
    np.testing.assert_allclose(mixer.state_value(state), v.detach(), atol=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "changes", "parts", "outputs"),
    [
        ("coma", {}, (STATE, OBS, SEATS * ACTIONS, SEATS * ACTIONS, SEATS), ACTIONS),
        ("mappo", {"critic": "mlp"}, (STATE, SEATS), 1),
        ("ippo", {"critic": "mlp"}, (OBS, ACTIONS, SEATS), 1),
    ],
)
def test_critics_judge_alike_and_go_back(
    tmp_path: Path, algorithm: str, changes: dict[str, Any], parts: tuple[int, ...], outputs: int
):
    theirs, player = Critic(sum(parts), 6, outputs), RNNAgent(INPUTS, HIDDEN, ACTIONS)
    config = settings(algorithm, rnn_hidden_dim=HIDDEN, critic_hidden_dim=6, **changes)
    given = some(2, 3, SEATS, sum(parts))
    kind = torch.optim.RMSprop if config.optimizer == "rmsprop" else torch.optim.Adam
    inputs = torch.as_tensor(given)
    of_critic = stepped([theirs], lambda: theirs(inputs).square().mean(), kind, lr=0.001)
    of_agent = stepped([player], lambda: player(some_inputs(), torch.zeros(4, HIDDEN))[0].square().mean(), kind, lr=0.1)
    folder = saved(tmp_path / "in", agent=player, critic=theirs, agent_opt=of_agent, critic_opt=of_critic)
    assert import_agent(folder, config, output=tmp_path / "agent").notes == []
    critic = state_of(config, tmp_path / "agent").critic
    said = critic(jnp.split(given, np.cumsum(parts)[:-1], axis=-1))
    np.testing.assert_allclose(
        said, theirs(inputs).detach().squeeze(-1) if outputs == 1 else theirs(inputs).detach(), atol=1e-5
    )
    export_agent(tmp_path / "agent", "pymarl", tmp_path / "out")
    for name, module in (("critic", theirs), ("agent_opt", of_agent), ("critic_opt", of_critic)):
        back = torch.load(tmp_path / "out" / f"{name}.th", weights_only=True)
        wanted = module.state_dict()
        if name == "critic":
            assert all(torch.equal(back[key], value) for key, value in wanted.items())
        else:
            module.load_state_dict(back)
            for number, slots in wanted["state"].items():
                assert all(
                    torch.equal(torch.as_tensor(back["state"][number][key]), value) for key, value in slots.items()
                )


def some_inputs() -> Any:
    return torch.as_tensor(some(4, INPUTS))


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_the_next_step_of_an_imported_optimiser_is_pytorchs(tmp_path: Path, optimizer: str):
    player, mixer = RNNAgent(INPUTS, HIDDEN, ACTIONS), QMixer(SEATS, STATE, 7, 1)
    config = settings("qmix", rnn_hidden_dim=HIDDEN, mixing_embed_dim=7, hypernet_layers=1, optimizer=optimizer)
    kind, own = torch.optim.Adam, {"lr": config.lr}
    if optimizer == "rmsprop":
        kind, own = torch.optim.RMSprop, {**own, "alpha": config.optim_alpha, "eps": config.optim_eps}

    def loss() -> Any:
        return (
            player(some_inputs(), torch.zeros(4, HIDDEN))[0].square().mean()
            + mixer(torch.as_tensor(some(4, SEATS)), torch.as_tensor(some(4, STATE))).square().mean()
        )

    optimiser = stepped([player, mixer], loss, kind, **own)
    folder = saved(tmp_path / "in", agent=player, mixer=mixer, opt=optimiser)
    assert import_agent(folder, config, output=tmp_path / "before").notes == []
    optimiser.zero_grad()
    loss().backward()
    gradients = [copy.deepcopy(module) for module in (player, mixer)]
    for module, source in zip(gradients, (player, mixer), strict=True):
        for parameter, of in zip(module.parameters(), source.parameters(), strict=True):
            parameter.data = of.grad.clone()
    # The gradients come the way the weights come, as if they were weights.
    import_agent(saved(tmp_path / "g", agent=gradients[0], mixer=gradients[1]), config, output=tmp_path / "gradient")
    optimiser.step()
    import_agent(saved(tmp_path / "a", agent=player, mixer=mixer, opt=optimiser), config, output=tmp_path / "after")

    before, gradient, after = (state_of(config, tmp_path / name) for name in ("before", "gradient", "after"))
    update = jax.jit(build_optimiser(config).update)
    updates, opt_state = update((gradient.mac.agent, gradient.mixer), before.opt_state)
    learned = jax.tree.map(np.add, (before.mac.agent, before.mixer), updates)
    for ours, theirs in ((learned, (after.mac.agent, after.mixer)), (opt_state, after.opt_state)):
        for name, leaf in name_leaves(ours).items():
            np.testing.assert_allclose(leaf, name_leaves(theirs)[name], atol=1e-7, rtol=1e-4, err_msg=name)


def test_a_run_goes_to_pymarl_with_its_mixer_and_optimiser(tmp_path: Path):
    config = tiny_config(tmp_path, "qmix", seeds=2, mixing_embed_dim=4, hypernet_embed=4)
    program = Program(config)
    # Numbers drawn by NumPy: compiling the start of a run would take seconds.
    shapes = jax.eval_shape(program.init, jnp.array([config.seed, config.seed + 1], jnp.uint32))
    state = jax.tree.map(lambda leaf: (0.1 * RNG.random(leaf.shape)).astype(leaf.dtype), shapes)
    state = state._replace(learner=state.learner._replace(updates=np.array([7, 8])))
    run = RunFolder.create(config, program.spec)
    save_checkpoint(run.checkpoints, state, {}, with_buffer=False, keep=1)
    second = jax.tree.map(lambda leaf: leaf[1], state.learner)
    card = AgentCard("qmix", config.seed + 1, 100, config.model_dump(), program.spec)
    save_agent(run.agent(config.seed + 1, "last"), second.mac, card)
    moved = jax.tree.map(lambda leaf: leaf + 1, second.mac)
    save_agent(run.agent(config.seed + 1, "best"), moved, card)

    written = export_agent(run.path, "pymarl", tmp_path / "out", seed=config.seed + 1)
    assert written.lines == [f"{tmp_path / 'out'}: agent.th, mixer.th, opt.th"]
    files = {name: torch.load(tmp_path / "out" / f"{name}.th", weights_only=True) for name in ("agent", "mixer", "opt")}
    theirs = RNNAgent(INPUTS, config.rnn_hidden_dim, ACTIONS), QMixer(SEATS, STATE, 4, 2, 4)
    for module, name in zip(theirs, ("agent", "mixer"), strict=True):
        module.load_state_dict(files[name])
    optimiser = torch.optim.RMSprop([p for module in theirs for p in module.parameters()], lr=0.1)
    optimiser.load_state_dict(files["opt"])
    assert (optimiser.param_groups[0]["lr"], optimiser.param_groups[0]["alpha"]) == (config.lr, config.optim_alpha)
    square = optimiser.state[theirs[1].V[2].weight]
    np.testing.assert_array_equal(square["square_avg"].T, second.opt_state[0].nu[1].value.layers[1].weight)
    assert square["step"] == 8
    qs, seen = some(4, SEATS), some(4, STATE)
    np.testing.assert_allclose(
        second.mixer(qs, seen), theirs[1](torch.as_tensor(qs), torch.as_tensor(seen)).detach(), atol=1e-5
    )
    best = export_agent(run.path, "pymarl", tmp_path / "best", which="best", seed=config.seed + 1)
    assert best.lines == [f"{tmp_path / 'best'}: agent.th"]
    assert "of another moment" in best.notes[0]
