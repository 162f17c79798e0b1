"""Names from plans, pools, agents and runs of strangers: none of them becomes a path that leads elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.cards import edit_card
from helpers.jobs import run_jobs
from helpers.plans import PLAN, changed
from helpers.pool_members import ENV, agent, change_index, settings
from helpers.refusing import refusal
from helpers.tiny import SPEC, tiny_config
from omg.components.files import new_folder, write_text
from omg.config import resolve, write_yaml
from omg.config.layers import member_config
from omg.envs.adapters.smac import make_starcraft
from omg.envs.battle import BattleArgs
from omg.experiments.ledger import Ledger, Task
from omg.experiments.plan import STAGES, parse_plan, read_plan
from omg.experiments.pool import copy_pool
from omg.experiments.runs import known_runs
from omg.launchers import Job
from omg.names import LONGEST, check_links, file_name, inert, inside
from omg.pools import Pool, load_agent, load_prior
from omg.tracking import RunFolder
from omg.training.checkpoint import list_checkpoints

HOSTILE = (
    "/somewhere/x",
    "../../x",
    "..",
    ".",
    ".hidden",
    "-rf",
    "a/b",
    "a\\b",
    "a:b",
    "a b",
    "a\nb",
    "a\x1b[2Jb",
    "a\u202eb",
    "a\0b",
    "",
    "nul",
    "Con.txt",
    "a.",
    "x" * (LONGEST + 1),
    "\N{LATIN SMALL LETTER E WITH ACUTE}" * (LONGEST // 2 + 1),
    "\ud800",
)


@pytest.mark.parametrize("given", HOSTILE)
def test_what_is_no_file_name_is_refused_in_one_harmless_line(given: str) -> None:
    said = refusal(lambda: file_name("label", given))
    assert said.startswith("label: got '")
    assert inert(said) == said
    assert len(said) < 250


@pytest.mark.parametrize(
    "given", ["iql_s1", "7pool1iql_omg", "8m", "a.b+c-d", "_x", "x" * LONGEST, "\u00e9t\u00e9", "null"]
)
def test_file_names_are_taken_as_they_are(given: str) -> None:
    assert file_name("label", given) == given


# --------------------------------------------------------------------------------------------- plans and experiments


@pytest.mark.parametrize("given", HOSTILE)
def test_labels_of_a_plan_are_file_names(given: str) -> None:
    variants = {"adaptation": {"variants": {given: {"agent": "omg"}}}}
    for values, key in (
        ({**PLAN, "name": given}, "name: got"),
        ({**PLAN, "agents": {**PLAN["agents"], given: {"config": "d3qn"}}}, "agents: got"),
        ({**changed(), **variants}, "adaptation.variants: got"),
    ):
        assert refusal(lambda values=values: parse_plan(values)).startswith(key)


def make(folder: Path, name: str, *makes: Path) -> Task:
    return Task("train", name, {}, makes or (folder / "result",), lambda: write_text(folder / "result", "new"))


def test_the_records_of_an_experiment_stay_in_its_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "experiment", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("mine")
    for task in (
        make(folder, "../../../outside"),
        make(folder, "/outside"),
        make(folder, "omg", outside),
        make(folder, "omg", folder / ".." / "outside"),
    ):
        for act in (Ledger(folder).run, Ledger(folder).is_done, Ledger(folder).note):
            refusal(lambda task=task, act=act: act(task))
    assert outside.read_text() == "mine"
    assert not list(folder.rglob("*.json"))


@pytest.mark.parametrize("link", ["stages", "stages/train/omg.json", "runs/omg", ".lock", "pool/members/x"])
def test_links_out_of_an_experiment_are_refused(tmp_path: Path, link: str) -> None:
    folder, outside = tmp_path / "experiment", tmp_path / "outside"
    outside.mkdir()
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(outside)
    made = [entry for stage in STAGES.values() for entry in stage.entries]
    said = refusal(lambda: Ledger(folder, entries=made))
    assert said.startswith(f"{folder / link}: leads to {outside}, outside {folder}")
    # One that stays inside harms nobody, nor does a link to the folder itself, nor what is not the experiment's.
    (folder / "mine").symlink_to(outside)
    (folder / link).unlink()
    (folder / link).symlink_to(folder)
    (tmp_path / "linked").symlink_to(folder)
    Ledger(tmp_path / "linked", entries=made)


def test_the_plan_and_the_runs_of_an_experiment_are_its_own(tmp_path: Path) -> None:
    folder, run = tmp_path / "experiment", RunFolder.create(tiny_config(tmp_path / "elsewhere"), SPEC)
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: 1")
    (folder / "runs").mkdir(parents=True)
    (folder / "pipeline.yaml").symlink_to(secret)
    said = refusal(lambda: read_plan(folder))
    assert "leads to" in said
    assert "password" not in said
    (folder / "runs" / "mine").symlink_to(run.path)
    assert "leads to" in refusal(lambda: known_runs(folder / "runs"))


def test_logs_of_jobs_are_file_names(tmp_path: Path) -> None:
    jobs = iter([Job("../x", "omg.errors", ())])
    said = refusal(lambda: run_jobs(lambda: next(jobs, None), lambda *told: None, 1, tmp_path / "logs", print))
    assert said.startswith("job: got '../x'")
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------------- pools and agents


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    made = Pool.create(tmp_path / "pool", "foraging", settings().env_args, ENV.spec)
    made.add(agent(tmp_path / "agent"), "training", name="one")
    return made


@pytest.mark.parametrize("given", HOSTILE)
def test_names_in_a_pool_are_file_names(pool: Pool, given: str) -> None:
    change_index(pool, lambda index: index["members"][0].update(name=given))
    assert "member name: got" in refusal(lambda: Pool.open(pool.path))
    assert "got" in refusal(lambda: pool.folder(given))

    def rename(index: dict[str, Any]) -> None:
        index["members"][0].update(name="one", scenario=given)
        index["spec"]["scenario"] = given

    change_index(pool, rename)
    assert "scenario: got" in refusal(lambda: Pool.open(pool.path))


def test_an_agent_cannot_name_its_own_place_in_a_pool(pool: Pool, tmp_path: Path) -> None:
    folder = agent(tmp_path / "other", seed=2)
    edit_card(folder, lambda card: card.update(algorithm="../../../x"))
    assert "member name: got '../../../x_s2'" in refusal(lambda: pool.add(folder, "heldout"))


def lend(path: Path, elsewhere: Path) -> None:
    """Moves something elsewhere and leaves a link to it."""
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "what", ["members", "members/one", "members/one/agent.json", "members/one/weights.safetensors"]
)
def test_members_are_not_read_through_links(pool: Pool, tmp_path: Path, what: str) -> None:
    lend(pool.path / what, tmp_path / "elsewhere")
    for act in (lambda: pool.load("one"), pool.check, lambda: copy_pool(pool.path, tmp_path / "copy", prior=True)):
        assert "leads to" in refusal(act)
    assert not (tmp_path / "copy").exists()


def test_a_pool_is_not_written_through_links(pool: Pool, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (pool.path / ".lock").unlink()
    (pool.path / ".lock").symlink_to(precious)
    second = agent(tmp_path / "second", seed=2)
    assert "leads to" in refusal(lambda: pool.add(second, "training"))
    (pool.path / ".lock").unlink()
    # What was being written when a process ended may be a link as well: it is replaced, not followed.
    (pool.path / ".writing-pool.json").symlink_to(precious)
    (pool.path / "members" / ".writing-iql_s2").symlink_to(tmp_path)
    pool.add(second, "training")
    assert precious.read_text() == "mine"
    assert len(Pool.open(pool.path)) == 2
    lend(pool.path / "pool.json", tmp_path / "index")
    assert "leads to" in refusal(lambda: Pool.open(pool.path))


def test_agents_are_not_read_or_copied_through_links(pool: Pool, tmp_path: Path) -> None:
    alone = agent(tmp_path / "run" / "agents" / "seed_1" / "last")
    (alone / "notes").symlink_to(tmp_path)
    assert "leads to" in refusal(lambda: pool.add(alone, "heldout", name="two"))
    (alone / "notes").unlink()
    lend(alone, tmp_path / "elsewhere")
    assert "leads to" in refusal(lambda: load_agent(tmp_path / "run"))
    # The folder that a user names may itself be a link.
    assert load_agent(alone).card.seed == 1
    lend(tmp_path / "elsewhere" / "agent.json", tmp_path / "card")
    assert "leads to" in refusal(lambda: load_agent(alone))
    (tmp_path / "other" / "prior").mkdir(parents=True)
    (tmp_path / "other" / "prior" / "prior.json").symlink_to(tmp_path / "card")
    assert "leads to" in refusal(lambda: load_prior(tmp_path / "other"))


# ------------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("given", HOSTILE)
def test_names_of_runs_are_file_names(tmp_path: Path, given: str) -> None:
    assert refusal(lambda: resolve("iql", "foraging", {"name": given})).startswith("name: got")
    run = RunFolder.create(tiny_config(tmp_path), SPEC)
    run.config_file.write_text(
        write_yaml({**run.config().model_dump(), "name": given}), encoding="utf-8", errors="replace"
    )
    said = refusal(run.config)
    assert said.startswith("name: got") or "config.yaml cannot be read: text with characters that no file can" in said
    assert "got" in refusal(lambda: run.agent(1, given))


def test_a_folder_name_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    for scenario in ("../../x", "x" * 250):
        said = refusal(
            lambda scenario=scenario: RunFolder.create(tiny_config(tmp_path), replace(SPEC, scenario=scenario))
        )
        assert said.startswith(f"name, env and scenario (iql, foraging, {scenario}): got 'iql_foraging_")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["config.yaml", "checkpoints", "agents", ".lock", "status.json", "tensorboard"])
def test_a_run_is_not_opened_through_links(tmp_path: Path, what: str) -> None:
    run = RunFolder.create(tiny_config(tmp_path), SPEC)
    (tmp_path / "elsewhere").write_text("{}")
    (run.path / what).unlink(missing_ok=True)
    (run.path / what).symlink_to(tmp_path / "elsewhere")
    assert "leads to" in refusal(lambda: RunFolder.open(run.path))


def test_checkpoints_are_not_read_through_links(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    (folder / "000000000008").mkdir(parents=True)
    (folder / "000000000008" / "host.json").symlink_to(tmp_path / "elsewhere")
    assert "leads to" in refusal(lambda: list_checkpoints(folder))


def test_the_learning_algorithm_of_a_stored_run_names_no_file(tmp_path: Path) -> None:
    config = resolve("3iql1vdn", "foraging", {"env_args": {"players": 4}, "train_alg": "vdn"}).config
    stranger = config.model_copy(update={"train_alg": "../../../x"})
    assert "Unknown algorithm (train_alg) '../../../x'" in refusal(lambda: member_config(stranger, "iql"))


def test_the_replays_of_a_stored_run_are_file_names() -> None:
    for given in ("../../x", "/x"):
        args = BattleArgs(backend="starcraft", replay_prefix=given)
        said = refusal(lambda args=args: make_starcraft(args, None))
        assert said.startswith("env_args.replay_prefix: got '")


# ------------------------------------------------------------------------------------------------------------ links


def test_paths_that_are_not_there_yet_and_paths_that_cannot_be(tmp_path: Path) -> None:
    check_links(tmp_path / "nothing")
    assert inside(tmp_path, tmp_path / "new" / "file") == tmp_path / "new" / "file"
    assert "a\\x00b: cannot be followed" in refusal(lambda: inside(tmp_path, tmp_path / "a\0b"))


def test_a_folder_is_replaced_where_a_link_was(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (tmp_path / "place").symlink_to(outside)
    with new_folder(tmp_path / "place") as staging:
        (staging / "file").write_text("new")
    assert (outside / "file").read_text() == "mine"
    assert (tmp_path / "place" / "file").read_text() == "new"
    assert not (tmp_path / "place").is_symlink()
