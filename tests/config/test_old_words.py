"""Every word that a user of PyMARL knows works, is translated with one note, or is refused with the right hint."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from helpers.old_commands import COMMANDS, small_pool, words_of
from helpers.old_word_cases import REFUSED, TRANSLATED, WORKS, Seen
from helpers.processes import command, only_run
from omg.cli import main
from omg.components import selectors
from omg.config import adjust, resolve, translate
from omg.config.old_word_table import OLD_WORDS
from omg.config.schema import Config
from omg.errors import UserError
from omg.training.program import build_program


def test_every_word_of_the_table_is_looked_at():
    assert {*WORKS, *TRANSLATED, *REFUSED} == set(OLD_WORDS)
    assert len(OLD_WORDS) >= 60
    for old in OLD_WORDS.values():
        assert old.meant
        assert old.here.endswith(".")
        cases = {"works": {**WORKS, **REFUSED}, "translated": TRANSLATED, "refused": REFUSED}[old.fate]
        assert old.word in cases, old.word


@pytest.mark.parametrize("word", WORKS)
def test_words_that_work(word: str):
    words, holds = WORKS[word]
    seen = Seen(words)
    assert seen.said == ()
    assert holds(seen)
    assert word.partition(".")[0] in Config.model_fields


@pytest.mark.parametrize("word", TRANSLATED)
def test_words_that_are_translated(word: str):
    words, holds = TRANSLATED[word]
    seen = Seen(words)
    assert holds(seen)
    about = [note for note in seen.said if note.startswith(word)]
    assert len(about) == 1
    assert about[0].endswith(OLD_WORDS[word].here)


@pytest.mark.parametrize("word", REFUSED)
def test_words_that_are_refused(word: str):
    words, message = REFUSED[word]
    with pytest.raises(UserError, match=message):
        Seen(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hidden_dim=24 rnn_hidden_dim=16", "hidden_dim: stands for rnn_hidden_dim=24 here, but rnn_hidden_dim=16 is"),
        ("env_args.seed=5 seed=6", "env_args.seed: stands for seed=5 here, but seed=6 is given, too"),
        ("runner_log_interval=10 learner_log_interval=20", "stands for log_interval=20 here, but log_interval=10 is"),
        ("mixer=qtran_base learner=q_learner", "stands for learner=qtran_learner here, but learner=q_learner is given"),
        ("critic_train_reps=3", r"critic_train_reps: got 3, which there is not here\. Allowed: 1"),
        ("target_update_interval_or_tau=-1", r"target_update_interval_or_tau: got -1\. Allowed: whole numbers > 1"),
        ("agent_output_type=pi_logits", "the outputs of an agent are q"),
        ("buffer_cpu_only=True", "the buffer lies where the program runs"),
        ("standardise_returns=True", "learner=q_learner has no critic"),
        ("moa_update_time=3", "is a word of HOP's"),
        ("-l WARNING", "Allowed: info, debug, or --quiet"),
        ("-u tracker=sacred", "unobserved: stands for tracker="),
        ("mask_before_softmax=False", "learner=coma_learner would"),
        ("--config=iql_ns", "The nearest is: iql_idv"),
        ("--config=ia2c", "The nearest is: ippo"),
        ("print_dependencies", r"versions\.json"),
        ("-F", "-F: a value must follow"),
        ("t_max=1.5k5", "expected a whole number"),
        ("t_max=0.0005k", "expected a whole number"),
        ("double_q=maybe", "expected True or False"),
    ],
)
def test_what_contradicts_is_refused(words: str, message: str):
    with pytest.raises(UserError, match=message):
        Seen(words)


def test_values_as_people_type_them():
    seen = Seen("t_max=2.5M buffer_size=1k use_cuda=Yes double_q=off early_stop_patience=1k epsilon_anneal_time=50K")
    config = seen.config
    assert (config.t_max, config.buffer_size, config.early_stop_patience, config.epsilon_anneal_time) == (
        2_500_000,
        1000,
        1000,
        50_000,
    )
    assert (config.use_cuda, config.double_q) == (True, False)
    assert resolve("iql.yaml", "sc2.yaml").config == resolve("iql", "sc2").config
    assert len(resolve("iql.yaml", "sc2").notes) == 1


def test_the_python_api_knows_them_too():
    with pytest.raises(UserError, match="stands for rnn_hidden_dim=24 here"):
        omg.train("iql", "sc2", hidden_dim=24, rnn_hidden_dim=16)
    with pytest.raises(UserError, match="stands for seed=5 here"):
        omg.train("iql", "sc2", seed=6, env_args={"seed": 5})


# ------------------------------------------------------------------------------------------------ command lines


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_pool(tmp_path_factory.mktemp("pool"))


@pytest.mark.parametrize("line", COMMANDS)
def test_pasted_command_lines_make_a_run(line: str, pool: Path, tmp_path: Path):
    """Traced as far as the first chunk; `old_commands.py` runs them to their ends."""
    given = translate(words_of(line, tmp_path, pool))
    resolved = resolve(given.config, given.env_config, given.overrides)
    assert resolved.notes == ()
    program = build_program(adjust(resolved.config, has_gpu=False)[0])
    state = jax.eval_shape(program.init, jnp.array([1], jnp.uint32))
    assert program.spec.scenario == "8m"
    assert jax.tree.structure(jax.eval_shape(program.chunk, state)[0]) == jax.tree.structure(state)
    assert program.iterations == 1 or "--debug" not in line


def test_a_run_in_old_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COLUMNS", "300")
    results = tmp_path / "results"
    words = command(results, t_max="0.1k", test_interval=60)
    words += ["-d", "-p", "label=mine", "hidden_dim=8", "runner_log_interval=4", "buffer_cpu_only=False", "-n", "old"]
    words += ["save_replay=yes", "action_selector=softmax"]
    left_out = ("rnn_hidden_dim", "log_interval", "epsilon_anneal_time")  # The last is nothing to softmax.
    assert main([word for word in words if not word.startswith(left_out)]) == 0
    folder = only_run(results)
    assert folder is not None
    assert folder.name.startswith("old_foraging_4x4-2p-1f_seed1_mine_")
    log = (folder / "console.log").read_text()
    for note in (
        "hidden_dim=8 -> rnn_hidden_dim=8, critic_hidden_dim=8: Two keys here.",
        "runner_log_interval=4 -> log_interval=4: One interval for all.",
        "buffer_cpu_only=False: The buffer lies where the program runs.",
        "debug: every round is a chunk of its own",
        "replays: 4 recordings and pages in ",
    ):
        assert log.count(note) == 1, note
    shown = capsys.readouterr().out
    assert "Learning rate of the agent" in shown  # -p
    assert shown.count("t_env ") > 4  # Every round is shown.
    assert omg.load(folder).policy.agent.fc1.weight.shape[-1] == 8
    assert len(list((folder / "replays").glob("*.html"))) == len(list((folder / "replays").glob("*.omgrec"))) == 4


def test_print_config_shows_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "print_config", "--config=qmix", "with", f"local_results_path={tmp_path}", "lr=0.25"]) == 0
    assert "0.25" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["pretrain", "print_config"]) == 2


# ------------------------------------------------------------------------------------------------ late masks


def test_masks_after_the_softmax_are_those_of_pymarl():
    """Probabilities of all actions, floor included; the illegal ones are left out and the rest scaled up."""
    rng = np.random.default_rng(0)
    logits, avail = rng.normal(0, 2, (50, 6)), rng.random((50, 6)) < 0.6
    avail[:, 0] = True
    epsilon = 0.3
    plain = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = ((1 - epsilon) * plain + epsilon / 6) * avail
    expected /= expected.sum(1, keepdims=True)
    found = selectors.multinomial_log_probabilities(jnp.asarray(logits), jnp.asarray(avail), epsilon, late_mask=True)
    np.testing.assert_allclose(np.exp(found) * avail, expected, rtol=1e-5, atol=1e-7)
    # They differ from those of an early mask, and are the ones that actions are drawn with.
    early = selectors.multinomial_log_probabilities(jnp.asarray(logits), jnp.asarray(avail), epsilon)
    assert np.abs(np.exp(early) - np.exp(found)).max() > 0.01
    draws = 20_000
    many = [jnp.broadcast_to(jnp.asarray(values[0]), (draws, 6)) for values in (logits, avail)]
    drawn = selectors.multinomial_late_mask(*many, jax.random.PRNGKey(0), epsilon)
    np.testing.assert_allclose(np.bincount(np.asarray(drawn), minlength=6) / draws, expected[0], atol=0.015)


def test_commands_that_make_several_runs_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["pretrain", str(tmp_path), "hidden_dim=8"]) == 2
    assert "hidden_dim=8: Two keys here." in capsys.readouterr().err
    assert main(["pipeline", "quick", "train.hidden_dim=8", "train.t_max=soon", "-o", str(tmp_path / "out")]) == 2
    assert "train.hidden_dim=8: Two keys here." in capsys.readouterr().err
