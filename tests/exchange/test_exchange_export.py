"""`omg export`: PyTorch and ONNX runtimes say what our agents say, step by step, the recurrent state included."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.pool_members import ENV, agent, settings
from omg.cli import main
from omg.components.files import name_leaves
from omg.controllers.base import PlayerView
from omg.exchange import export_agent, import_agent, read_torch
from omg.exchange.exporting import belongs
from omg.exchange.inputs import interface
from omg.exchange.torch_module import module_source
from omg.modules.agents.feed_forward import FeedForwardAgent
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.pools import Agent, load_agent, load_learning, save_agent

GOLDEN = Path(__file__).parents[1] / "golden" / "pymarl"
STEPS, GAMES = 6, 3
SEATS, ACTIONS = ENV.spec.n_agents, ENV.spec.n_actions
MODEL = {"rnn_hidden_dim": 5, "am_hidden_dim": 4, "subgoal_dim": 3, "am_embed_dim": 3}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("qmix", {"rnn_hidden_dim": 5}),
    "idv_rnn": ("iql_idv", {"rnn_hidden_dim": 5}),
    "mlp": ("iql", {"agent": "mlp", "rnn_hidden_dim": 5, "mlp_second_dim": 3, "obs_agent_id": False}),
    "dueling": ("d3qn", {"rnn_hidden_dim": 6, "obs_one_hot": 2}),
    "naive": ("iql_am", {**MODEL, "agent": "mlp"}),
    "chances": ("iql_am", {**MODEL, "am_feature": "probabilities"}),
    "liam": ("iql_liam", {**MODEL, "agent": "idv_rnn"}),
    "omg": ("iql_omg", MODEL),
    "omg_point": ("iql_omg", {**MODEL, "omg_inference": "mlp", "omg_actions": "counts", "omg_residual": True}),
    "omg_mlp": ("iql_omg", {**MODEL, "agent": "mlp", "omg_actions": "none", "obs_all_last_actions": True}),
    "everyone": ("iql", {"obs_all_last_actions": True, "rnn_hidden_dim": 5, "obs_last_action": False}),
}


@pytest.fixture(scope="module", params=KINDS)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, Any]]]:
    """An agent folder of every kind, and what the agent says in some steps."""
    algorithm, changes = KINDS[request.param]
    folder = agent(tmp_path_factory.mktemp("exported") / request.param, settings(algorithm, **changes))
    loaded = load_agent(folder)
    if isinstance(loaded.policy.opponent_model, SubgoalModel):
        # Drawn like weights, the variances of views would be negative; one view is constant.
        variance = np.linspace(0.0, 4.0, ENV.spec.obs_dim, dtype=np.float32)
        model = loaded.policy.opponent_model
        prior = model.prior.with_statistics(model.prior.statistics._replace(variance=variance))
        save_agent(folder, loaded.policy.with_prior(prior), loaded.card)
    return folder, told(load_agent(folder))


def told(player: Agent, seed: int = 0) -> list[dict[str, Any]]:
    """What an agent reads and says at every step of made-up games: arrays with a row for every seat."""
    rng = np.random.default_rng(seed)
    policy = player.policy
    memory = policy.initial_seats(GAMES, SEATS)
    last = np.full((GAMES, SEATS), -1)
    seats = jnp.tile(jnp.arange(SEATS), (GAMES, 1))
    steps = []
    for _ in range(STEPS):
        obs = rng.integers(-1, 4, (GAMES, SEATS, ENV.spec.obs_dim)).astype(np.float32)
        avail = rng.random((GAMES, SEATS, ACTIONS)) < 0.6
        avail[..., 0] = True
        one_hot = np.eye(ACTIONS + 1, dtype=np.float32)[last][..., :-1]
        others = np.repeat(one_hot[:, None], SEATS, axis=1) * (1 - np.eye(SEATS, dtype=np.float32))[None, :, :, None]
        given = {"obs": obs, "avail": avail, "last_action": one_hot, "others_last_actions": others}
        rows = {name: value.reshape(GAMES * SEATS, -1) for name, value in given.items()}
        view = PlayerView(jnp.asarray(obs), jnp.zeros((GAMES, 1)), jnp.asarray(avail), seats, jnp.asarray(last))
        rows["hidden"] = remembered(policy, memory)
        last, memory, values = jax.tree.map(np.asarray, step(policy, view, memory))
        assert np.isfinite(values).all()
        rows |= {"seat": np.tile(np.arange(SEATS), GAMES), "action": last.reshape(-1)}
        steps.append({**rows, "values": values.reshape(-1, ACTIONS), "hidden_out": remembered(policy, memory)})
    return steps


@eqx.filter_jit
def step(policy: Any, view: PlayerView, memory: Any) -> tuple[Any, Any, Any]:
    """Actions, memory and values; agents without memory hand on what they embed, from which values are made too."""
    actions, memory, _ = policy.act_seats(view, memory, jax.random.PRNGKey(0), 0.0)
    return actions, memory, policy.agent.head(memory.hidden, view.seats)


def remembered(policy: Any, memory: Any) -> np.ndarray:
    """All that a player remembers, a row for every seat; agents without memory aside."""
    own = [] if isinstance(policy.agent, FeedForwardAgent) else [memory.hidden]
    rows = [np.asarray(part).reshape(GAMES * SEATS, -1) for part in (*own, *jax.tree.leaves(memory.model))]
    return np.concatenate(rows, axis=-1) if rows else np.zeros((GAMES * SEATS, 0), np.float32)


def test_pytorch_says_the_same_as_our_agents(exported: tuple[Path, list[dict[str, Any]]], tmp_path: Path):
    torch = pytest.importorskip("torch")
    folder, steps = exported
    output = tmp_path / "torch"
    assert export_agent(folder, "torch", output).lines == [f"{output}: agent.th, agent.py"]
    network = runpy.run_path(str(output / "agent.py"))["load"](output / "agent.th")
    face = interface(load_agent(folder))
    used = {"last_action": face.reads_last_action, "seat": face.reads_seat, "others_last_actions": face.reads_others}
    hidden = network.initial(GAMES * SEATS)
    for step in steps:
        given = [torch.as_tensor(step[name]) for name, is_used in used.items() if is_used]
        obs, avail = torch.as_tensor(step["obs"]), torch.as_tensor(step["avail"])
        with torch.no_grad():
            values, _ = network(obs, hidden, *given)
        action, hidden = network.act(obs, avail, hidden, *given)
        np.testing.assert_allclose(values, step["values"], atol=1e-5)
        np.testing.assert_array_equal(action, step["action"])
        np.testing.assert_allclose(hidden, step["hidden_out"], atol=1e-5)


def test_an_onnx_runtime_says_the_same_as_our_agents(exported: tuple[Path, list[dict[str, Any]]], tmp_path: Path):
    pytest.importorskip("onnx")
    folder, steps = exported
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "new" / "agent.onnx"
    export_agent(folder, "onnx", file)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    outputs = [entry.name for entry in session.get_outputs()]
    memory: dict[str, Any] = {}
    for step in steps:
        said = dict(zip(outputs, session.run(outputs, {name: step[name] for name in names} | memory), strict=True))
        for name in outputs:
            np.testing.assert_allclose(said[name], step[name], atol=1e-5, equal_nan=False)
        memory = {"hidden": said["hidden_out"]} if "hidden_out" in said else {}
    assert ("hidden" in names) == (interface(load_agent(folder)).memory_dim > 0)


def test_there_and_back_again_is_the_same(tmp_path: Path):
    config = settings("qmix", rnn_hidden_dim=4, mixing_embed_dim=4, hypernet_layers=1)
    import_agent(GOLDEN, config, output=tmp_path / "agent")
    written = export_agent(tmp_path / "agent", "pymarl", tmp_path / "out")
    assert written.lines == [f"{tmp_path / 'out'}: agent.th, mixer.th, opt.th"]
    assert written.notes == []
    for name in ("agent.th", "mixer.th"):
        given, back = read_torch(GOLDEN / name), read_torch(tmp_path / "out" / name)
        assert list(given) == list(back)
        for key, tensor in given.items():
            np.testing.assert_array_equal(back[key], tensor)
    given, back = read_torch(GOLDEN / "opt.th"), read_torch(tmp_path / "out" / "opt.th")
    assert back["param_groups"][0]["params"] == given["param_groups"][0]["params"]
    for number, state in given["state"].items():
        np.testing.assert_array_equal(back["state"][number]["square_avg"], state["square_avg"])
        assert back["state"][number]["step"] == state["step"] == 2
    import_agent(tmp_path / "out", config, output=tmp_path / "again")
    first, second = load_learning(tmp_path / "agent"), load_learning(tmp_path / "again")
    assert first is not None
    assert second is not None
    assert all(np.array_equal(first[name], second[name]) for name in first)


REFUSED = [
    ("iql_omg", {}, "pymarl", "got am_model=omg_am, which PyMARL does not have; use --to torch or --to onnx."),
    ("iql_omg", {"omg_feature": "view"}, "onnx", "Allowed for an export: omg_maps=False and omg_feature=code."),
    ("iql_omg", {"omg_q_input": "zero"}, "torch", "omg_q_input: got zero, a control"),
    ("d3qn", {}, "pymarl", "can be exported with --to torch"),
    ("iql", {"agent": "mlp", "mlp_second_dim": 3}, "pymarl", "mlp with two equal layers"),
    ("iql", {"obs_all_last_actions": True}, "pymarl", "obs_all_last_actions=True is no input of PyMARL's"),
    ("ippo", {"agent": "conv"}, "torch", "agent: got conv. Allowed for an export: rnn, idv_rnn, mlp, dueling."),
    ("iql", {}, "pymarll", "Unknown format (--to) 'pymarll'. Did you mean 'pymarl'?"),
]


@pytest.mark.parametrize(("algorithm", "changes", "to", "message"), REFUSED)
def test_agents_that_a_format_cannot_hold_are_refused(
    algorithm: str,
    changes: dict[str, Any],
    to: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    made = agent(tmp_path / "agent", settings(algorithm, rnn_hidden_dim=4, **changes))
    assert main(["export", str(made), "--to", to, "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_nothing_that_exists_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = agent(tmp_path / "agent", settings(rnn_hidden_dim=4))
    for words, message in (
        (["--to=torch", f"--output={tmp_path}"], "there is something at"),
        (["--to=onnx", f"--output={tmp_path}"], "is a folder. Give a file"),
        ([], "--output: missing."),
        ([f"--output={tmp_path / 'out'}", "--seed=2"], "is no run"),
        ([f"--output={tmp_path / 'out'}", "--which=first"], "Unknown agent (--which)"),
    ):
        assert main(["export", str(made), *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", str(tmp_path / "no"), f"--output={tmp_path / 'out'}"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent"]


def test_onnx_is_asked_for_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    made = agent(tmp_path / "agent", settings(rnn_hidden_dim=4))
    assert main(["export", str(made), "--to=onnx", f"--output={tmp_path / 'a.onnx'}"]) == 2
    assert not (tmp_path / "a.onnx").exists()


def test_a_strangers_card_cannot_write_code(tmp_path: Path):
    made = agent(tmp_path / "agent", settings(rnn_hidden_dim=4))
    loaded = load_agent(made)
    object.__setattr__(loaded.card, "algorithm", '"""\nimport os\nos.abort()\n"""')
    source = module_source(interface(loaded), {})
    assert "\nimport os" not in source
    assert source.count('"""') % 2 == 0
    compile(source, "agent.py", "exec")


def test_a_learner_of_another_moment_does_not_belong(tmp_path: Path):
    loaded = load_agent(agent(tmp_path / "agent", settings(rnn_hidden_dim=4)))
    state = {f"mac.{name}": np.array(leaf) for name, leaf in name_leaves(loaded.policy).items()}
    assert belongs(loaded, state)
    state["mac.agent.fc2.bias"][0] += 1
    assert not belongs(loaded, state)
    assert not belongs(loaded, {})


def test_without_a_learner_only_the_agent_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = agent(tmp_path / "agent", settings("vdn", rnn_hidden_dim=4))
    assert main(["export", str(made), "--to=pymarl", f"--output={tmp_path / 'out'}"]) == 0
    assert "note: only the agent is written" in capsys.readouterr().out
    # A sum has no weights, but PyMARL wants its file.
    assert read_torch(tmp_path / "out" / "mixer.th") == {}
    assert json.loads((made / "agent.json").read_text())["algorithm"] == "vdn"
