"""The door: parts of other packages by entry points, by `omg.register`, and algorithms by the paths of their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

import omg
from helpers.plans import PLAN
from helpers.plugged import build_example, installed, write_package
from omg.cli import main
from omg.config import algorithm_names, change_config, config_fields, member_config, parse_config, resolve, team_parts
from omg.config.algorithms import remove_algorithm
from omg.envs import ENVS
from omg.errors import UserError
from omg.experiments import train_pool
from omg.experiments.plan import parse_plan
from omg.experiments.plan_check import check_plan
from omg.modules.mixers import MIXERS
from omg.registry import Entry, Keys, MixerTraits, Traits
from omg.registry.plugins import REGISTERED, complaints, kinds, look_again

SUM = Entry("omg.modules.mixers.vdn:VDNMixer", MixerTraits(weightless=True), "the sum again")
GAME = ("--env-config=foraging",)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_example(tmp_path_factory.mktemp("example"))


@pytest.fixture
def example(site: Path) -> Iterator[None]:
    with installed(site):
        yield


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command ends with."""
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0].removeprefix("error: ")


# Installed packages


def test_words_of_a_package_are_listed_with_it(example: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"iql_counts", "ippo_counts"} <= set(algorithm_names())
    assert main(["algs"]) == 0
    assert re.search(r"iql_counts +IQL with counts.*\[omg-plugin-example\]", capsys.readouterr().out)
    assert main(["algs", "iql_counts"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"am_model +'counts_am'", text)
    assert "docs/algorithms" not in text
    assert main(["envs"]) == 0
    assert re.search(r"meeting +meeting +Two players meet.*\[omg-plugin-example\]", capsys.readouterr().out)
    assert main(["envs", "meeting"]) == 0
    assert "places to choose from" in capsys.readouterr().out
    assert main(["config", "--config=iql_counts", "--env-config=meeting"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"counts_memory +0.95 +schema default", text)
    assert re.search(r"am_model +'counts_am' +omg_plugin_example.algs: iql_counts.yaml", text)


def test_suggestions_name_the_package(example: None, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(["config", "--config=iql_count"], capsys)
    assert "Did you mean 'iql_counts'?" in line
    assert "iql_counts (omg-plugin-example)" in line
    line = refused(["config", "--config=iql", "mixer=weighted_sun"], capsys)
    assert "Did you mean 'weighted_sum'? Allowed: None, qmix, qplex, vdn, weighted_sum (omg-plugin-example)." in line
    line = refused(["config", "--config=iql", "--env-config=meating"], capsys)
    assert "Did you mean 'meeting'?" in line


def test_keys_belong_to_configurations_that_choose_the_part(example: None) -> None:
    config = resolve("iql_counts", "meeting", {"counts_pseudo": 3}).config
    parts = ["am_model=counts_am: omg-plugin-example", "env=meeting: omg-plugin-example"]
    assert sorted(config.model_dump()["parts_from"]) == parts
    assert parse_config(config.model_dump()) == config
    assert parse_config(json.loads(config.model_dump_json())) == config
    assert "counts_pseudo" in config_fields()
    assert not [key for key in resolve("qmix").config.model_dump() if key.startswith(("counts", "parts"))]
    reader = r"no part of this configuration reads it, but am_model=counts_am \(omg-plugin-example\) does"
    with pytest.raises(UserError, match=f"counts_pseudo: {reader}"):
        resolve("qmix", "sc2", {"counts_pseudo": 3})
    with pytest.raises(UserError, match=r"counts_pseudo: got 0 \(a whole number\); expected a whole number >= 1"):
        resolve("iql_counts", "meeting", {"counts_pseudo": 0})
    other = change_config(config, am_model="none_am", env="foraging", env_args={})
    assert not [key for key in other.model_dump() if key.startswith(("counts", "parts"))]


def test_teams_are_made_of_a_packages_algorithms(example: None) -> None:
    resolved = resolve("1iql1iql_counts", "meeting")
    assert [part.algorithm for part in resolved.team] == ["iql", "iql_counts"]
    assert resolved.config.train_alg == "iql_counts"
    frozen = member_config(resolved.config, "iql")
    assert (frozen.am_model, frozen.name) == ("none_am", "iql")
    assert frozen.model_dump()["parts_from"] == ["env=meeting: omg-plugin-example"]


def test_what_is_stored_names_a_package_that_is_missing(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(site):
        stored = resolve("iql_counts", "meeting").config.model_dump()
    missing = "env: 'meeting' is a part of the package omg-plugin-example, which is not installed here."
    with pytest.raises(UserError, match=re.escape(missing)):
        parse_config(stored)
    (tmp_path / "config.yaml").write_text(omg.config.write_yaml(stored))
    assert refused(["resume", str(tmp_path)], capsys).endswith(missing)


def test_nobody_looks_at_what_is_installed_for_words_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked() -> Any:
        raise AssertionError("somebody looked")

    look_again()
    monkeypatch.setattr(metadata, "distributions", looked)
    config = resolve("7pool1iql_omg", "sc2", {"env_args.map_name": "8m", "tracker": "sacred"}).config
    assert parse_config(config.model_dump()) == config
    assert "vdn" in MIXERS
    with pytest.raises(AssertionError, match="somebody looked"):
        resolve("qmixx", "sc2")


# Packages that are wrong


def test_a_package_that_fails_takes_nothing_else_with_it(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = {
        "omg.mixer": {"broken_sum": "broken_parts:SUM", "qmix": "broken_parts:SUM"},
        "omg.alg": {"broken_iql": "broken_parts"},
        "omg.mixxer": {"odd": "broken_parts:SUM"},
    }
    wrong = write_package(tmp_path, "broken_parts", points, "raise RuntimeError('no\\nluck')\n")
    with installed(site, wrong):
        reason = "of the package broken_parts could not be loaded (RuntimeError: no luck). Everything else works."
        assert refused(["config", "--config=iql", "mixer=broken_sum"], capsys) == f"mixer: 'broken_sum' {reason}"
        assert refused(["config", "--config=broken_iql"], capsys) == f"alg: 'broken_iql' {reason}"
        assert "broken_sum" not in MIXERS
        assert "weighted_sum" in MIXERS
        assert resolve("qmix", "sc2").config.mixer == "qmix"
        assert main(["algs"]) == 0
        out, err = capsys.readouterr()
        assert "iql_counts" in out
        assert "broken_iql" not in out
        assert len(err.splitlines()) == len(complaints()) == 4
        assert f"warning: alg: 'broken_iql' {reason}" in err
        assert "broken_parts: mixer 'qmix' is left out, as omg has a mixer of that name." in err
        assert "broken_parts: Unknown kind of part 'mixxer'. Did you mean 'mixer'?" in err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("SUM = 3", "mixer: 'other_sum' is a int, expected an omg.registry.Entry"),
        (
            "from omg.registry import Entry, Traits\nSUM = Entry('a:b', Traits(), 'a line')",
            "mixer: 'other_sum' has Traits, expected MixerTraits. The package is one_part.",
        ),
        ("", "AttributeError: module 'one_part' has no attribute 'SUM'"),
    ],
)
def test_what_is_no_part_is_refused(code: str, said: str, tmp_path: Path) -> None:
    wrong = write_package(tmp_path, "one_part", {"omg.mixer": {"other_sum": "one_part:SUM"}}, code)
    with installed(wrong), pytest.raises(UserError, match=re.escape(said)):
        resolve("qmix", "sc2", {"mixer": "other_sum"})


def test_an_implementation_that_cannot_be_imported_names_its_package(tmp_path: Path) -> None:
    code = "from omg.registry import *\nSUM = Entry('one_part_gone:Sum', MixerTraits(), 'a line')"
    with installed(write_package(tmp_path, "one_part", {"omg.mixer": {"other_sum": "one_part:SUM"}}, code)):
        said = "mixer: 'other_sum' of the package one_part could not be loaded .ModuleNotFoundError: No module named"
        with pytest.raises(UserError, match=said):
            _ = MIXERS["other_sum"].build


def test_two_packages_with_the_same_part_are_both_named(tmp_path: Path) -> None:
    points = {"omg.mixer": {"other_sum": "one_part:SUM"}}
    sites = [write_package(tmp_path / name, name, points) for name in ("one_part", "two_part")]
    with installed(*sites), pytest.raises(UserError, match="'other_sum' is a part of one_part and two_part, so nobody"):
        resolve("qmix", "sc2", {"mixer": "other_sum"})


# omg.register


def test_register_adds_a_part_once(request: pytest.FixtureRequest) -> None:
    omg.register("mixer", "sum_again", SUM)
    request.addfinalizer(lambda: MIXERS.remove("sum_again"))
    config = resolve("vdn", "foraging", {"mixer": "sum_again"}).config
    assert config.model_dump()["parts_from"] == [f"mixer=sum_again: {REGISTERED}"]
    for name in ("sum_again", "qmix"):
        with pytest.raises(UserError, match=f"there is a mixer '{name}' already"):
            omg.register("mixer", name, SUM)


def test_register_refuses_what_is_no_part() -> None:
    with pytest.raises(
        UserError, match=r"Unknown kind of part 'mixr'. Did you mean 'mixer'\? Allowed: action_selector"
    ):
        omg.register("mixr", "mine", SUM)
    for name in ("4sums", "a-b", "", "x" * 101):
        with pytest.raises(UserError, match=r"mixer: got the name .* Allowed: a letter"):
            omg.register("mixer", name, SUM)
    with pytest.raises(UserError, match="script: 'mine' has MixerTraits, expected ScriptTraits"):
        omg.register("script", "mine", SUM)
    with pytest.raises(UserError, match="alg: 'mine' is a Entry, expected the path"):
        omg.register("alg", "mine", SUM)
    assert set(kinds()) >= {"am_model", "mixer", "env", "script", "tracker", "measure", "alg"}


def test_what_another_program_registered_is_named() -> None:
    stored = {
        **resolve("vdn", "foraging").config.model_dump(),
        "mixer": "mine",
        "parts_from": [f"mixer=mine: {REGISTERED}"],
    }
    with pytest.raises(UserError, match=r"mixer: 'mine' was added by omg.register in the program that stored this"):
        parse_config(stored)


def test_workers_do_not_know_what_was_registered(request: pytest.FixtureRequest) -> None:
    from omg.runners.worker import order_for

    omg.register("env", "gymma_again", ENVS["gymma"])
    request.addfinalizer(lambda: ENVS.remove("gymma_again"))
    with pytest.raises(UserError, match=r"env: 'gymma_again' was added by omg.register .* worker processes do not"):
        order_for(None, "gymma_again", {}, 1)  # type: ignore[arg-type]


def test_two_sections_with_the_same_key_are_refused(request: pytest.FixtureRequest) -> None:
    class First(Keys):
        """A section."""

        own_key: int = Field(1, description="A key")

    class Second(Keys):
        """Another."""

        own_key: int = Field(1, description="A key")

    omg.register("mixer", "first_sum", Entry("a:b", MixerTraits(sections=(First,)), "one"))
    request.addfinalizer(lambda: MIXERS.remove("first_sum"))
    omg.register("measure", "second", Entry("a:b", Traits(sections=(Second,)), "two"))
    request.addfinalizer(lambda: omg.registry.registry("measure").remove("second"))
    with pytest.raises(UserError, match="own_key: the section Second has a key that First has, too"):
        parse_config({"mixer": "first_sum", "measure": "second"})


# Algorithms by path


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "my_iql.yaml"
    path.write_text("# Mine\nlearner: q_learner\nmixer: null\nlr: 0.01\n")
    yield path
    _forget("my_iql")


def _forget(name: str) -> None:
    if name in algorithm_names():
        remove_algorithm(name)


def test_a_file_is_an_algorithm(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved = resolve(str(file), "foraging")
    assert (resolved.config.name, resolved.config.lr) == ("my_iql", 0.01)
    assert resolved.sources["lr"] == str(file)
    file.write_text("lr: 0.02\n")
    monkeypatch.chdir(file.parent)
    assert resolve("my_iql.yaml", "foraging").config.lr == 0.02
    assert resolve("./my_iql.yaml", "foraging", {"lr": 0.5}).config.lr == 0.5
    assert resolve("7pool1my_iql", "sc2", {"env_args.map_name": "8m"}).config.train_alg == "my_iql"
    assert main(["config", "--config=my_iql.yaml", *GAME]) == 0
    assert re.search(r"lr +0.02 +my_iql.yaml", capsys.readouterr().out)
    # A name of ours keeps its meaning, whatever lies around.
    (file.parent / "qmix.yaml").write_text("lr: 0.3\n")
    resolved = resolve("qmix.yaml", "foraging")
    assert (resolved.config.mixer, resolved.notes) == (
        "qmix",
        ("qmix.yaml -> qmix: configurations are named without the ending.",),
    )


def test_a_file_is_an_algorithm_of_plans_and_pools(file: Path, tmp_path: Path) -> None:
    plan = parse_plan({**PLAN, "agents": {**PLAN["agents"], "mine": {"config": str(file)}}})
    config = check_plan(plan, tmp_path / "out").agents["mine"]
    assert (config.train_alg, config.team, config.lr, config.name) == ("my_iql", "1pool1my_iql", 0.01, "mine")
    with pytest.raises(UserError, match="training: an algorithm is named twice, by its name and by its file"):
        train_pool(tmp_path / "pool", {"training": {"my_iql": 1, str(file): 1}}, "foraging")
    with pytest.raises(UserError, match=r"algorithm in the set heldout: 'my_iq'\. Did you mean 'my_iql'\?"):
        train_pool(tmp_path / "pool", {"heldout": {"my_iq": 1}}, "foraging")
    # What is stored is complete: a run goes on where nobody knows the file.
    stored = config.model_dump()
    remove_algorithm("my_iql")
    assert parse_config(stored) == config
    assert [part.algorithm for part in team_parts(str(config.team), config.train_alg)] == ["pool", "my_iql"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mine.yaml", "lerner: q_learner", "Unknown key 'lerner'. Did you mean 'learner'?"),
        ("mine.yaml", "lr: [1", "cannot be read as YAML"),
        ("mine.yaml", "lr: !!python/object/apply:os.system ['true']", "cannot be read as YAML"),
        ("mine.yaml", "- a\n- b", "got a list, expected lines of `key: value`"),
        ("mine.yaml", "name: other", "name: an algorithm is called by its file. Leave it out."),
        ("mine.yaml", None, "No such file or directory"),
        ("mine.txt", "lr: 1", "An algorithm's file ends in .yaml."),
        ("qmix.yaml", "lr: 1", "there is an algorithm 'qmix' already, and runs are named after the file"),
        ("pool.yaml", "lr: 1", "there is an algorithm 'pool' already"),
        ("4mine.yaml", "lr: 1", "got the name '4mine'. Allowed: a letter"),
    ],
)
def test_bad_files_end_in_one_line(
    name: str, text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    try:
        assert said in refused(["config", f"--config={path}", *GAME], capsys)
    finally:
        _forget("mine")


def test_a_binary_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00lr")
    assert "the file is no text in UTF-8" in refused(["config", f"--config={tmp_path / 'mine.yaml'}"], capsys)
