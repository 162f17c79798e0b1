"""`omg import`: checkpoints as PyTorch writes them become agents, learners, pool members and priors that say the same.

Values are compared along whole sequences, the recurrent state included.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.pool_members import ENV, settings
from helpers.tiny import GAME, tiny_config
from omg.cli import main
from omg.components.files import fill_leaves, name_leaves
from omg.errors import UserError
from omg.exchange import import_agent, read_torch, write_torch
from omg.learners import build_learner
from omg.modules.opponent_models.base import ModelInputs
from omg.pools import Pool, load_agent, load_learning, load_prior
from omg.training.program import Program

GOLDEN = Path(__file__).parents[1] / "golden" / "pymarl"
SMALL = {"rnn_hidden_dim": 4, "mixing_embed_dim": 4, "hypernet_layers": 1}
GAME_WORDS = ("--env-config=foraging", "with", *(f"env_args.{key}={value}" for key, value in GAME.items()))


def along(network: Any, obs: Any, last: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values [T, B, A, U] and the last recurrent state [B, A, H] for obs [T, B, A, O] and last actions [T, B, A]."""
    hidden, values = network.initial(obs.shape[1]), []
    step = jax.jit(lambda seen, before, hidden: network.step(network.embed(seen, before), hidden))
    for seen, before in zip(obs, last, strict=True):
        hidden = step(seen.astype(np.float32), before, hidden)
        values.append(network.head(hidden))
    return np.stack(values), np.asarray(hidden)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden checkpoint as an agent of ours."""
    output = tmp_path_factory.mktemp("imported") / "agent"
    written = import_agent(GOLDEN, settings("qmix", **SMALL), output=output, seed=3, steps=70)
    assert written.notes == []
    assert (
        written.lines[1] == "Its learner, for init_from and init_optimiser: mixer, opt_state, target_mac, target_mixer"
    )
    return output


def test_a_checkpoint_of_pytorch_says_the_same_here(imported: Path):
    said = json.loads((GOLDEN / "said.json").read_text())
    agent = load_agent(imported)
    values, hidden = along(agent.policy.agent, np.array(said["obs"]), np.array(said["last"]))
    np.testing.assert_allclose(values[:, 0], said["q"], atol=1e-6)
    np.testing.assert_allclose(hidden[0], said["hidden"], atol=1e-6)
    assert (agent.card.algorithm, agent.card.seed, agent.card.t_env) == ("qmix", 3, 70)


def test_mixer_and_optimiser_come_along(imported: Path):
    said = json.loads((GOLDEN / "said.json").read_text())
    kept = load_learning(imported)
    assert kept is not None
    config = settings("qmix", **SMALL)
    shapes = jax.eval_shape(build_learner(config, ENV.spec).init, jax.random.PRNGKey(0))
    for place in ("mixer", "target_mixer"):
        own = {name.removeprefix(f"{place}."): value for name, value in kept.items() if name.startswith(f"{place}.")}
        mixer: Any = fill_leaves(shapes.mixer, own)
        best = np.array(said["q"]).max(-1)
        np.testing.assert_allclose(mixer(best, np.array(said["states"], np.float32)), said["mixed"], atol=1e-6)
    np.testing.assert_allclose(kept["opt_state.0.nu.0.hidden_gates.weight"].T, said["square_avg"], rtol=1e-6)
    assert kept["updates"] == 2
    state = [name for name in name_leaves(shapes) if name.startswith(("opt_state.", "mixer.", "target_m"))]
    assert sorted(kept) == sorted([*state, "updates"])


def test_init_from_goes_on_with_what_the_learner_had(imported: Path, tmp_path: Path):
    changes: dict[str, Any] = {"init_from": str(imported), "init_optimiser": True, **SMALL}
    kept = load_learning(imported)
    assert kept is not None
    program = Program(tiny_config(tmp_path, "qmix", **changes))
    state = name_leaves(program.init(jnp.array([5], jnp.uint32)).learner)
    for name, value in kept.items():
        if name != "updates":
            np.testing.assert_array_equal(state[name][0], value)
    assert int(state["updates"][0]) == 0
    # Unless it is asked for, the optimiser starts anew.
    other = Program(tiny_config(tmp_path, "qmix", **{**changes, "init_optimiser": False}))
    assert {name.partition(".")[0] for name in other.learned or ()} == {"target_mac", "mixer", "target_mixer"}
    # Another mixer does not fit, nor does the optimiser that has it; the agent does.
    other = Program(tiny_config(tmp_path, "qmix", **{**changes, "mixing_embed_dim": 5, "init_optimiser": False}))
    assert {name.partition(".")[0] for name in other.learned or ()} == {"target_mac"}
    for change in ({"mixing_embed_dim": 5}, {"init_from": None}):
        with pytest.raises(UserError, match="brings no optimiser that fits this run"):
            Program(tiny_config(tmp_path, "qmix", **{**changes, **change}))
    shutil.copytree(imported, tmp_path / "damaged")
    (tmp_path / "damaged" / "learner" / "state.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="learner is damaged"):
        Program(tiny_config(tmp_path, "qmix", **{**changes, "init_from": str(tmp_path / "damaged")}))


def test_members_of_a_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "2050000"
    shutil.copytree(GOLDEN, folder)
    words = ["import", str(folder), "--config=qmix", *GAME_WORDS, *(f"{key}={value}" for key, value in SMALL.items())]
    assert main([*words, f"--pool={tmp_path / 'pool'}", "--set=heldout", "--seed=7"]) == 0
    out = capsys.readouterr().out
    assert "Member: qmix_s7 in the set heldout" in out
    assert "note: what only learning needs: left out" in out
    pool = Pool.open(tmp_path / "pool")
    pool.check()
    (member,) = pool.members("heldout")
    assert (member.seed, member.steps) == (7, 2050000)
    assert pool.load("qmix_s7").config.seed == 7  # type: ignore[union-attr]
    assert main([*words, f"--pool={tmp_path / 'pool'}", "--seed=7"]) == 2


FITS = "rnn_hidden_dim=4 mixing_embed_dim=4 hypernet_layers=1"
REFUSED = [
    ("--config=qmix", "shape (4, 17), expected (64, 17) with these settings. It fits with rnn_hidden_dim=4"),
    ("--config=qmix rnn_hidden_dim=4 obs_agent_id=False", "It fits with obs_agent_id=True."),
    ("--config=qmix rnn_hidden_dim=4 obs_last_action=False", "It fits with obs_last_action=True."),
    ("--config=qmix rnn_hidden_dim=4 agent=mlp", "It is a network of agent=rnn."),
    ("--config=iql_idv rnn_hidden_dim=4", "It is a network of agent=rnn."),
    ("--config=qmix rnn_hidden_dim=4", "mixer.th: there is no tensor 'hyper_w_1.0.weight'"),
    ("--config=qmix rnn_hidden_dim=4 hypernet_layers=1", "'hyper_w_1.weight' has shape (8, 9), expected (64, 9)"),
    ("--config=d3qn", "agent: got dueling. Allowed for agent.th: rnn, mlp (use_rnn: False), idv_rnn."),
    ("--config=iql_liam", "am_model: got liam_am, of which no files are known. Allowed: none_am, omg_am."),
    ("--config=1iql1qmix", "config: got the team '1iql1qmix'"),
    ("seed=1", "config: missing."),
    ("--config=qmix --set=best", "Unknown set (--set) 'best'"),
    ("--config=qmix --episodes=5", "--episodes: needs a pool"),
    ("--config=qmix --prior={there}", "there is something at"),
    (f"--config=qmix {FITS} --prior={{new}}", "--prior: there is no vae.th"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = words.format(there=GOLDEN, new=tmp_path / "new").split()
    output = tmp_path / "agent"
    assert main(["import", str(GOLDEN), *GAME_WORDS, f"--output={output}", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_folders_without_an_agent_are_refused(tmp_path: Path):
    config = settings("qmix", **SMALL)

    def refusal(folder: Path) -> str:
        with pytest.raises(UserError) as caught:
            import_agent(folder, config, output=tmp_path / "out")
        return str(caught.value)

    assert "there is no such folder" in refusal(tmp_path / "nothing")
    (tmp_path / "models" / "10000").mkdir(parents=True)
    assert "It holds the folders 10000: name one of them." in refusal(tmp_path / "models")
    (tmp_path / "hop").mkdir()
    (tmp_path / "hop" / "player_0_to_1.pth").touch()
    assert "HOP's files hold a whole network for every pair of players" in refusal(tmp_path / "hop")
    shutil.copytree(GOLDEN, tmp_path / "odd")
    shutil.copy(tmp_path / "odd" / "opt.th", tmp_path / "odd" / "agent.th")
    assert "it is no state_dict" in refusal(tmp_path / "odd")
    assert not (tmp_path / "out").exists()


def test_optimisers_that_do_not_fit_are_left_out_with_a_note(tmp_path: Path):
    (tmp_path / "alone").mkdir()
    for name in ("agent.th", "opt.th"):
        shutil.copy(GOLDEN / name, tmp_path / "alone")
    alone = import_agent(tmp_path / "alone", settings("iql", rnn_hidden_dim=4), output=tmp_path / "a")
    assert alone.notes == ["opt.th: left out: it is for 18 parameters, the networks have 8"]
    adam = import_agent(GOLDEN, settings("qmix", optimizer="adam", **SMALL), output=tmp_path / "b")
    assert adam.notes == ["opt.th: left out: it is no state of adam with one group of parameters"]
    mixed = import_agent(GOLDEN, settings("iql", rnn_hidden_dim=4), output=tmp_path / "c")
    assert mixed.notes[0] == "mixer.th: left out, since iql as it is set here has no such network"


def test_an_old_omg_folder_becomes_an_agent_and_a_prior(tmp_path: Path):
    """Its networks are recognised by shape: here under names that nobody could know."""
    config = settings("iql_omg", rnn_hidden_dim=4, subgoal_dim=3, am_hidden_dim=5)
    rng = np.random.default_rng(0)
    spec, actions = ENV.spec, ENV.spec.n_actions
    view, history = spec.obs_dim, spec.obs_dim + (spec.n_agents + 1) * actions

    def layers(*shapes: tuple[int, int]) -> dict[str, np.ndarray]:
        parts = [(f"x{k}", shape) for k, shape in enumerate(shapes)]
        drawn = {f"{n}.{p}": rng.normal(size=s[: 2 if p == "w" else 1]) for n, s in parts for p in ("w", "b")}
        return {name: value.astype(np.float32) for name, value in drawn.items()}

    inputs = view + actions + spec.n_agents + 3
    unit = {"a": (15, history), "b": (15, 5), "c": (15,), "d": (15,)}
    gates = {"rnn.weight_ih": (12, 4), "rnn.weight_hh": (12, 4), "rnn.bias_ih": (12,), "rnn.bias_hh": (12,)}
    agent = {"fc1.weight": (4, inputs), "fc1.bias": (4,), **gates, "fc2.weight": (actions, 4), "fc2.bias": (actions,)}
    vae = layers((128, view), (128, 128), (3, 128), (3, 128), (128, 3), (128, 128), (view, 128))
    files = {
        "vae": vae,
        "cvae": layers((3, 37), (3, 37), (32, 8)),
        "fc": layers((32, view)),
        **{
            name: {part: rng.normal(size=shape).astype(np.float32) for part, shape in shapes.items()}
            for name, shapes in (("cond_rnn", unit), ("agent", agent))
        },
    }
    folder = tmp_path / "old"
    folder.mkdir()
    for name, state in files.items():
        write_torch(folder / f"{name}.th", state)
    written = import_agent(folder, config, output=tmp_path / "agent", prior=tmp_path / "prior", steps=9)
    assert written.notes == []

    model = load_agent(tmp_path / "agent").policy.opponent_model
    seen = rng.normal(size=(1, 2, view)).astype(np.float32)
    last = jnp.array([[2, 4]])
    nothing = model.initial(1, 2)
    features, memory, _ = model.infer(ModelInputs(seen, last, jnp.arange(2)[None]), nothing, None)
    one = np.eye(actions, dtype=np.float32)
    seat = np.concatenate([np.zeros(view), np.zeros(actions), one[4], one[2]])  # The first seat's own entry is zero.
    w, cvae = files["cond_rnn"], files["cvae"]
    gate_in, gate_hidden = np.split(w["a"] @ seat + w["c"], 3), np.split(w["d"], 3)
    reset, update = (1 / (1 + np.exp(-(gate_in[k] + gate_hidden[k]))) for k in (0, 1))
    hidden = (1 - update) * np.tanh(gate_in[2] + reset * gate_hidden[2])
    np.testing.assert_allclose(memory.hidden[0, 0], hidden, atol=1e-5)
    x = np.maximum(files["fc"]["x0.w"] @ seen[0, 0] + files["fc"]["x0.b"], 0)
    np.testing.assert_allclose(
        features[0, 0], cvae["x0.w"] @ np.concatenate([x, hidden]) + cvae["x0.b"], rtol=1e-4, atol=1e-4
    )

    prior, card = load_prior(tmp_path / "prior")
    assert (card.env, card.features, card.subgoal_dim, card.t_env) == ("foraging", view, 3, 9)
    leaky = [vae[f"x{k}.w"] for k in range(7)], [vae[f"x{k}.b"] for k in range(7)]

    def through(value: np.ndarray, *numbers: int) -> np.ndarray:
        for k in numbers:
            value = leaky[0][k] @ value + leaky[1][k]
            value = np.where(value > 0, value, 0.01 * value)
        return value

    code = leaky[0][2] @ through(seen[0, 0], 0, 1) + leaky[1][2]
    np.testing.assert_allclose(prior.encode(seen[0, 0])[0], code, rtol=1e-4, atol=1e-3)
    small = code / 1000
    np.testing.assert_allclose(
        prior.decode(jnp.asarray(small)), leaky[0][6] @ through(small, 4, 5) + leaky[1][6], rtol=1e-3, atol=1e-3
    )

    write_torch(folder / "cvae.th", layers((3, 37), (3, 37), (9, 8)))
    with pytest.raises(UserError, match=r"cvae.th: 'x2.w' has shape \(9, 8\); .* expected here is \(32, 8\) \(decoder"):
        import_agent(folder, config, output=tmp_path / "other")
    (folder / "cvae.th").unlink()
    with pytest.raises(UserError, match=r"needs cvae.th besides agent.th"):
        import_agent(folder, config, output=tmp_path / "other")
    (folder / "agent.th").unlink()
    with pytest.raises(UserError, match="it gives a prior only"):
        import_agent(folder, config, output=tmp_path / "other")
    write_torch(folder / "vae.th", layers((128, view), (128, 128), (6, 128)))
    with pytest.raises(UserError, match=r"vae.th: it has 6 tensors of shapes"):
        import_agent(folder, config, prior=tmp_path / "other")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path):
    state = read_torch(GOLDEN / "agent.th")
    state["fc2.bias"][0] = np.nan
    write_torch(tmp_path / "agent.th", state)
    with pytest.raises(UserError, match=r"'fc2.bias' holds numbers that are not finite"):
        import_agent(tmp_path, settings("iql", rnn_hidden_dim=4), output=tmp_path / "agent")
