"""What is pushed comes back byte by byte: through folders, archives, a web server, and the hub's own library."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants

import omg.sharing.hub as hub
from helpers.servers import SHA, Kept, file_server, hub_server
from helpers.tiny import weights
from omg import load
from omg.cli import main
from omg.errors import UserError
from omg.evaluation.rows import write_rows
from omg.evaluation.tables import ScoreRow
from omg.pools import Pool
from omg.sharing import pull, push
from omg.sharing.contents import MANIFEST, OWN
from security.hostile import Kit, make_kit

TOKEN = "hf_TokenOfNobodyAtAll"


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """An agent, a run, a pool and a prior, untrained."""
    return make_kit(tmp_path_factory.mktemp("kit"))


@pytest.fixture
def web() -> Iterator[Kept]:
    with file_server() as kept:
        yield kept


@pytest.fixture
def model_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    with hub_server() as kept:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, kept.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", kept.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield kept


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def own_files(folder: Path) -> dict[str, bytes]:
    """Without what a push adds, and without locks."""
    return {place: data for place, data in files(folder).items() if place not in (*OWN, ".lock")}


# ------------------------------------------------------------------------------------------------ there and back


@pytest.mark.parametrize("kind", ["agent", "run", "pool", "prior"])
def test_every_kind_comes_back_from_an_archive(kit: Kit, tmp_path: Path, kind: str) -> None:
    sent = push(kit.path(kind), str(tmp_path / "shared.zip"), "MIT")
    got = pull(str(tmp_path / "shared.zip"), tmp_path / "theirs", sha256=sent.manifest.digest)
    assert (got.manifest, got.ignored) == (sent.manifest, 0)
    assert (sent.manifest.kind, sent.manifest.licence) == (kind, "mit")
    expected = own_files(kit.path(kind))
    if kind == "run":
        assert sent.left_out == ("checkpoints/",)
        expected = {place: data for place, data in expected.items() if not place.startswith("checkpoints/")}
    assert own_files(got.folder) == expected
    assert set(OWN) - set(files(got.folder)) == {"scores.csv"}


def test_the_same_files_make_the_same_archive(kit: Kit, tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        push(kit.path("pool"), str(tmp_path / name), "cc0-1.0")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_came_is_used_and_passed_on(kit: Kit, tmp_path: Path) -> None:
    push(kit.path("agent"), f"file://{tmp_path}/first", "mit")
    first = pull(f"file://{tmp_path}/first", tmp_path / "mine")
    agent = load(first.folder)
    assert agent.card.seed == 1
    assert {name: value.tobytes() for name, value in weights(first.folder).items()} == {
        name: value.tobytes() for name, value in weights(kit.path("agent")).items()
    }
    again = push(first.folder, str(tmp_path / "second.zip"), "mit")
    assert again.manifest == first.manifest
    assert len(Pool.open(pull_of(kit, "pool", tmp_path)).members()) == 2


def pull_of(kit: Kit, kind: str, scratch: Path) -> Path:
    push(kit.path(kind), str(scratch / f"{kind}.zip"), "mit")
    return pull(str(scratch / f"{kind}.zip"), scratch / f"their_{kind}").folder


def test_over_the_web(kit: Kit, tmp_path: Path, web: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMG_WEB_TOKEN", "token-of-nobody")
    sent = push(kit.path("agent"), f"{web.url}/shelf/agent.zip", "mit")
    assert web.asked == [("PUT", "/shelf/agent.zip", "Bearer token-of-nobody")]
    assert b"token-of-nobody" not in web.files["/shelf/agent.zip"]
    web.redirects["/short.zip"] = f"{web.url}/shelf/agent.zip"
    got = pull(f"{web.url}/short.zip", tmp_path / "got", sha256=sent.manifest.digest.upper())
    assert own_files(got.folder) == own_files(kit.path("agent"))

    with file_server() as other:
        web.redirects["/elsewhere.zip"] = f"{other.url}/agent.zip"
        other.files["/agent.zip"] = web.files["/shelf/agent.zip"]
        pull(f"{web.url}/elsewhere.zip", tmp_path / "from_elsewhere")
        assert other.asked == [("GET", "/agent.zip", None)], "the token is for the first server"


def test_through_the_hubs_own_library(
    kit: Kit, tmp_path: Path, model_hub: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(kit.path("pool")), "hf://me/my-pool", "--licence", "apache-2.0"]) == 0
    told = capsys.readouterr().out
    assert f"to {model_hub.url}/me/thing/commit/{SHA}" in told
    assert model_hub.made == [{"name": "my-pool", "organization": "me", "visibility": "private"}]
    assert {"README.md", "config.json", MANIFEST, "pool.json"} <= set(model_hub.files)
    assert not any(TOKEN.encode() in data for data in model_hub.files.values())
    (digest,) = (line.split()[1] for line in told.splitlines() if line.startswith("sha256 "))

    # As the hub does; and people edit cards where they read them.
    model_hub.files |= {".gitattributes": b"*.bin filter=lfs\n", "README.md": b"---\nlicense: mit\n---\nedited\n"}
    words = ["pull", "hf://me/my-pool", "--output", str(tmp_path / "theirs"), "--sha256", digest]
    assert main(words) == 0
    assert "not taken over, as omg.json does not name them: 1 files" in capsys.readouterr().out
    assert own_files(tmp_path / "theirs") == own_files(kit.path("pool"))
    assert (tmp_path / "theirs" / "README.md").read_text().endswith("edited\n")
    read = {path for method, path, _ in model_hub.asked if "/resolve/" in path}
    assert {path.split("/resolve/")[1].partition("/")[0] for path in read} == {SHA}, "one commit, not a branch"

    model_hub.files["pool.json"] += b" "
    assert main([*words[:3], str(tmp_path / "second")]) == 2
    assert "'pool.json' does not match omg.json" in capsys.readouterr().err
    assert not (tmp_path / "second").exists()
    model_hub.made.clear()
    assert main(["pull", "hf://me/gone", "--output", str(tmp_path / "gone")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: hf://me/gone: the hub refuses or does not answer (RepositoryNotFoundError: ")
    assert message.count("\n") == 1


# ------------------------------------------------------------------------------------------------ the card


def test_the_card_is_one_of_the_hub_and_says_what_it_is(kit: Kit, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    shutil.copytree(kit.path("agent"), agent)
    scores = tmp_path / "scores.csv"
    columns = ("agent", "seed", "group", "team", "episodes", "metric", "mean")
    rows = [("iql", seed, "1_partner", "1xqmix|<b>", 10, "score", seed / 4) for seed in (1, 2)]
    write_rows(scores, [dict(zip(columns, row, strict=True)) for row in rows], ScoreRow.names())
    push(agent, str(tmp_path / "shared"), "cc-by-4.0", title="Forager *one* <script>", scores=scores)

    card = ModelCard.load(tmp_path / "shared" / "README.md")
    assert (card.data.license, card.data.library_name, card.data.pipeline_tag) == (
        "cc-by-4.0",
        "omg-marl",
        "reinforcement-learning",
    )
    assert {"iql", "foraging", "agent", "opponent-modelling"} <= set(card.data.tags)
    text = card.text
    assert r"# Forager \*one\* &lt;script&gt;" in text
    assert "| environment steps | 100 |" in text
    assert "0.375 | 2 |" in text
    assert "<b>" not in text
    manifest = json.loads((tmp_path / "shared" / MANIFEST).read_text())
    digest = manifest["files"]["weights.safetensors"]["sha256"]
    assert f"`weights.safetensors`: `{digest}`" in text
    config = json.loads((tmp_path / "shared" / "config.json").read_text())
    assert (config["kind"], config["algorithm"], config["env"]) == ("agent", "iql", "foraging")
    assert "scores.csv" in manifest["files"]


def test_results_are_listed_as_the_hub_lists_them(kit: Kit, tmp_path: Path) -> None:
    push(kit.path("run"), str(tmp_path / "shared"), "mit")
    card = ModelCard.load(tmp_path / "shared" / "README.md")
    (found,) = card.data.eval_results
    assert (found.metric_type, found.metric_value) == ("test_return_mean", 0.75)
    assert found.dataset_name == "foraging 4x4"
    pool = ModelCard.load(Path(push(kit.path("pool"), str(tmp_path / "pool"), "mit").where) / "README.md")
    assert "| iql_s11 | training | iql | 11 | 100 |" in pool.text.replace(r"\_", "_")


# ------------------------------------------------------------------------------------------------ refusals of push


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_what_cannot_be_pushed(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, target = str(kit.path("agent")), str(tmp_path / "x.zip")
    assert "--licence: missing" in refused(["push", agent, target], capsys)
    assert "Did you mean 'apache-2.0'?" in refused(["push", agent, target, "--licence", "apache2"], capsys)
    licensed = ["--licence", "mit"]
    assert "it holds none of these" in refused(["push", str(kit.victim), target, *licensed], capsys)
    assert "there is no such folder" in refused(["push", str(tmp_path / "gone"), target, *licensed], capsys)
    assert "Use https://" in refused(["push", agent, "http://example.org/x.zip", *licensed], capsys)
    assert "has a user or password" in refused(["push", agent, "https://me:x@example.org/x.zip", *licensed], capsys)
    assert "expected hf://OWNER/NAME" in refused(["push", agent, "hf://../x", *licensed], capsys)
    assert "Did you mean 'https'?" in refused(["push", agent, "htps://example.org/x.zip", *licensed], capsys)
    assert "lies in the folder" in refused(["push", agent, f"{agent}/x.zip", *licensed], capsys)
    assert "leave @main out" in refused(["push", agent, "hf://me/x@main", *licensed], capsys)
    (tmp_path / "x.zip").write_text("mine")
    assert "nothing is overwritten" in refused(["push", agent, target, *licensed], capsys)
    assert (tmp_path / "x.zip").read_text() == "mine"
    linked = tmp_path / "linked"
    shutil.copytree(kit.path("agent"), linked)
    (linked / "notes.txt").symlink_to(kit.victim / "precious")
    assert "leads to" in refused(["push", str(linked), str(tmp_path / "y.zip"), *licensed], capsys)
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    message = refused(["push", agent, "hf://me/x", *licensed], capsys)
    assert "need the package huggingface_hub, which is not installed. Install it with: pip install" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linked", "x.zip"]


def test_what_is_no_part_of_it_stays_at_home(kit: Kit, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(kit.path("run"), run)
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events.out").write_bytes(b"\0")
    (run / "replay.html").write_text("<script>")
    (run / ".env").write_text("SECRET=1")
    (run / "agent.pkl").write_bytes(b"\x80\x04.")
    sent = push(run, str(tmp_path / "run.zip"), "mit")
    assert sent.left_out == (".html", ".pkl", "checkpoints/", "tensorboard/")
    names = zipfile.ZipFile(tmp_path / "run.zip").namelist()
    assert [name for name in names if name.endswith((".html", ".pkl", ".env")) or "tensorboard" in name] == []


def test_a_whole_result_with_its_report(kit: Kit, tmp_path: Path) -> None:
    result = tmp_path / "result"
    shutil.copytree(kit.path("pool"), result / "pool")
    shutil.copytree(kit.path("run"), result / "runs" / "iql")
    shutil.copy(kit.path("plan"), result / "pipeline.yaml")
    (result / "evaluation").mkdir()
    (result / "evaluation" / "scores.csv").write_text("agent,mean\niql,0.5\n")
    (result / "report.md").write_text("# The answer\n\nYes.\n")
    (result / "report.html").write_text("<script>")
    sent = push(result, str(tmp_path / "result.zip"), "cc-by-4.0")
    got = pull(str(tmp_path / "result.zip"), tmp_path / "theirs")
    assert (got.manifest.kind, sent.left_out) == ("result", (".html", "checkpoints/"))
    assert "# The answer\n\nYes." in (got.folder / "README.md").read_text()
    assert (got.folder / "evaluation" / "scores.csv").read_text() == "agent,mean\niql,0.5\n"
    assert load(got.folder / "runs" / "iql").card.algorithm == "iql"

    member = result / "pool" / "members" / "iql_s11" / "weights.safetensors"
    data = bytearray(member.read_bytes())
    data[-1] ^= 1
    member.write_bytes(data)
    with pytest.raises(UserError, match=f"^{result}: .*iql_s11"):
        push(result, str(tmp_path / "damaged.zip"), "cc-by-4.0")
    assert not (tmp_path / "damaged.zip").exists()
