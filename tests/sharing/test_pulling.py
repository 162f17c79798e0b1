"""What strangers share: what is not what it claims is refused in one line, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omg.sharing.pulling as pulling
from helpers.cards import edit_card
from helpers.servers import file_server
from omg.cli import main
from omg.components.files import checksum, digest_of
from omg.disk import write_json
from omg.sharing import pull, push
from omg.sharing.contents import MANIFEST
from omg.sharing.manifest import SharedFile, read_manifest
from security.hostile import Kit, make_kit

WEIGHTS = "weights.safetensors"


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    """Honest folders; the victim's must stay as it is through all tests of this file."""
    made = make_kit(tmp_path_factory.mktemp("kit"))
    yield made
    assert {path.name: path.read_text() for path in made.victim.iterdir()} == {"precious": "precious"}


@pytest.fixture(scope="module")
def shared(kit: Kit) -> Path:
    """An agent as `push` lays it out."""
    push(kit.path("agent"), str(kit.home / "shared"), "mit")
    return kit.home / "shared"


def reseal(folder: Path, change: Callable[[dict[str, object]], object] = lambda manifest: None) -> None:
    """Makes the manifest fit the files again, as a hostile author would, and then changes it."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for place in manifest["files"]:
        if (folder / place).is_file():
            path = folder / place
            manifest["files"][place] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
    manifest.pop("sha256")
    change(manifest)
    write_json(folder / MANIFEST, {**manifest, "sha256": digest_of(manifest)})


def zipped(folder: Path, archive: Path, *extra: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    """A folder as an archive, with further entries of any kind."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            made.write(path, path.relative_to(folder).as_posix())
        for info, data in extra:
            made.writestr(info, data)
    return archive


def named(place: str, data: bytes = b"{}") -> Callable[[Path], None]:
    """A file that the manifest puts somewhere it should not."""

    def change(folder: Path) -> None:
        digest = SharedFile(len(data), "0" * 64)
        reseal(folder, lambda manifest: manifest["files"].update({place: vars(digest)}))

    return change


def added(place: str, data: bytes) -> Callable[[Path], None]:
    """A further file, and a manifest that has it."""

    def change(folder: Path) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(data)
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["files"][place] = {}
        (folder / MANIFEST).write_text(json.dumps(manifest))
        reseal(folder)

    return change


def in_manifest(**changes: object) -> Callable[[Path], None]:
    return lambda folder: reseal(folder, lambda manifest: manifest.update(changes))


def pickled_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(pickle.dumps({"a": os.getcwd}))
    reseal(folder)


def flipped(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (folder / WEIGHTS).write_bytes(data)


def other_weights(folder: Path) -> None:
    """Other weights under a manifest that fits, but with the agent's old card."""
    flipped(folder)
    reseal(folder)


def other_card(folder: Path) -> None:
    edit_card(folder, lambda card: card["config"].update(no_such_key=1))
    reseal(folder)


def claims(place: str, size: int) -> Callable[[Path], None]:
    """A manifest that gives a file another size, with a checksum of its own that is right."""

    def change(folder: Path) -> None:
        reseal(folder, lambda manifest: manifest["files"][place].update(bytes=size))

    return change


def gone(place: str) -> Callable[[Path], None]:
    return lambda folder: (folder / place).unlink()


def text(place: str, data: str) -> Callable[[Path], object]:
    return lambda folder: (folder / place).write_text(data)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a way up": (named("../../victim/canary.json"), r"a file's name: got '\.\.'"),
    "a way up inside": (named("a/../../x.json"), r"a file's name: got '\.\.'"),
    "from the root": (named("/etc/x.json"), "a file's name: got ''"),
    "of Windows": (named("..\\x.json"), "a file's name: got"),
    "a drive": (named("C:x.json"), "a file's name: got"),
    "a device": (named("nul.json"), "names a device"),
    "hidden": (named(".config/x.json"), "a file's name: got '.config'"),
    "deep": (named("a/" * 20 + "x.json"), "lies 21 folders deep"),
    "steers the terminal": (named("\x1b[2Jx.json"), "a file's name: got"),
    "a program": (named("run.py", b"import os"), "is of a kind that is not taken in"),
    "a pickle": (named("agent.th", pickle.dumps(1)), "is of a kind that is not taken in"),
    "a page": (named("report.html", b"<script>"), "is of a kind that is not taken in"),
    "itself": (named(MANIFEST), "it names omg.json"),
    "one file twice": (named("Agent.json"), "are one file on some systems"),
    "a file as a folder": (named("agent.json/x.json"), "is both a file and a folder"),
    "a pickle for weights": (pickled_weights, r"weights\.safetensors is damaged: its header"),
    "flipped bit": (flipped, "its checksum is another one"),
    "other weights": (other_weights, "weights.safetensors is damaged: its checksum does not match its card"),
    "another card": (other_card, "no_such_key"),
    "longer than it claims": (claims(WEIGHTS, 10), "expected 10"),
    "shorter than it claims": (claims(WEIGHTS, 10**6), "expected 1,000,000"),
    "larger than is allowed": (claims(WEIGHTS, 10**12), r"unpacked; allowed: 2,000,000,000 \(--most-gb\)"),
    "negative": (claims(WEIGHTS, -1), "greater than or equal to 0"),
    "a file that is gone": (gone("config.json"), "'config.json' does not match omg.json: it is not there"),
    "no manifest": (gone(MANIFEST), "has no omg.json"),
    "a list": (text(MANIFEST, "[]"), "omg.json is damaged"),
    "deep JSON": (text(MANIFEST, '{"a":' * 9999), "omg.json is damaged"),
    "another format": (in_manifest(format=7), "has format 7"),
    "another kind": (in_manifest(kind="pool"), "it claims to be a pool, but is a agent"),
    "no kind": (in_manifest(kind="virus"), "kind: Input should be"),
    "another key": (in_manifest(run="rm"), "its checksum does not match"),
    "no files": (in_manifest(files={}), "holds 0 files"),
    "a checksum that is none": (in_manifest(files={"a.json": {"bytes": 1, "sha256": "x"}}), "sha256: String should"),
    "changed after it was sealed": (text("config.json", "{}"), "'config.json' does not match omg.json"),
    "deep JSON inside": (added("more.json", b"[" * 5000), r"more\.json is damaged"),
    "no picture": (added("picture.png", b"<svg onload=x>"), r"picture\.png is damaged: it is no PNG"),
    "no text": (added("table.csv", b"\0"), r"table\.csv is damaged: it is no text"),
    "no recording": (added("game.omgrec", b"\x80\x04."), r"game\.omgrec"),
    "an endless card": (text("README.md", "x" * 2_000_001), "'README.md' has 2,000,001 bytes"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_a_stranger_is_refused_and_leaves_nothing(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, form: str
) -> None:
    change, expected = HOSTILE[case]
    theirs = tmp_path / "theirs"
    shutil.copytree(shared, theirs)
    change(theirs)
    source = theirs if form == "folder" else zipped(theirs, tmp_path / "theirs.zip")
    check_refused(source, tmp_path, capsys, expected)


def check_refused(source: object, scratch: Path, capsys: pytest.CaptureFixture[str], expected: str) -> None:
    before = sorted(scratch.iterdir())
    assert main(["pull", str(source), "--output", str(scratch / "mine")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert message[:-1].isprintable()
    assert re.search(expected, message), message
    assert ".writing-" not in message
    assert sorted(scratch.iterdir()) == before


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def link(path: Path, folder: Path) -> None:
    zipped(folder, path, (entry("learner.json", stat.S_IFLNK | 0o777), b"/etc/passwd"))


def twice(path: Path, folder: Path) -> None:
    zipped(folder, path, ("agent.json", b"{}"))


def inner_folder(path: Path, folder: Path) -> None:
    zipped(folder, path, (entry("learner/", stat.S_IFDIR | 0o755), b""))


def encrypted(path: Path, folder: Path) -> None:
    zipped(folder, path)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    path.write_bytes(data)


def other_packing(path: Path, folder: Path) -> None:
    info = entry("more.json")
    info.compress_type = zipfile.ZIP_LZMA
    zipped(folder, path, (info, b"{}"))


def bomb(path: Path, folder: Path) -> None:
    """A file that claims ten bytes in the manifest and in the table of contents, and unpacks to a hundred million."""
    (folder / "config.json").write_bytes(b" " * 100_000_000)
    reseal(folder, lambda manifest: manifest["files"]["config.json"].update(bytes=10))
    zipped(folder, path)
    data = path.read_bytes()
    assert len(data) < 300_000
    path.write_bytes(data.replace((100_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))


def cut(path: Path, folder: Path) -> None:
    zipped(folder, path)
    path.write_bytes(path.read_bytes()[:-40])


def damaged(path: Path, folder: Path) -> None:
    """The packed bytes of a file are no packed bytes."""
    zipped(folder, path)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x03\x04") + 30 + len("README.md")
    data[place : place + 20] = b"\xff" * 20
    path.write_bytes(data)


def many(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for number in range(20_010):
            made.writestr(f"{number}.json", b"")


ARCHIVES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "a link": (link, "'learner.json' is a link or a device"),
    "two of one name": (twice, "it has two files of one name"),
    "a folder": (inner_folder, "'learner/' is a folder"),
    "a password": (encrypted, "is encrypted"),
    "another packing": (other_packing, "packed in a way that is not read here"),
    "a bomb": (bomb, "is no archive of omg|'config.json' is longer|its checksum is another one"),
    "damaged": (damaged, "is no archive of omg, or damaged"),
    "cut": (cut, "it does not end as a ZIP of ours"),
    "too many files": (many, "it claims 20,010 files"),
    "empty": (lambda path, folder: path.write_bytes(b""), "it is too short"),
    "no archive": (lambda path, folder: path.write_bytes(b"x" * 1000), "it does not end as a ZIP of ours"),
}


@pytest.mark.parametrize("case", ARCHIVES)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_holds_nothing_but_files(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    make, expected = ARCHIVES[case]
    theirs = tmp_path / "theirs"
    shutil.copytree(shared, theirs)
    make(tmp_path / "theirs.zip", theirs)
    check_refused(tmp_path / "theirs.zip", tmp_path, capsys, expected)


def test_links_and_pipes_of_a_folder_are_not_read(
    shared: Path, kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(shared, theirs)
    (theirs / "config.json").unlink()
    (theirs / "config.json").symlink_to(kit.victim / "precious")
    check_refused(theirs, tmp_path, capsys, "'config.json' does not match omg.json: it is not there")
    (theirs / "config.json").unlink()
    os.mkfifo(theirs / "config.json")
    check_refused(theirs, tmp_path, capsys, "'config.json'")


def test_what_is_there_is_not_overwritten(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("precious")
    check_refused(shared, tmp_path, capsys, "nothing is overwritten. Give another folder with --output")
    assert (tmp_path / "mine" / "precious").read_text() == "precious"
    (tmp_path / "mine" / "precious").unlink()
    (tmp_path / "mine").rmdir()
    os.symlink(tmp_path / "nowhere", tmp_path / "mine")
    check_refused(shared, tmp_path, capsys, "nothing is overwritten")


def test_a_full_disk_and_a_signal_leave_nothing(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pulling.shutil, "disk_usage", lambda path: there._replace(free=100))
        check_refused(shared, tmp_path, capsys, "and the disk has 100 left")

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device", "x")

    archive = zipped(shared, tmp_path / "shared.zip")
    with monkeypatch.context() as patch:
        patch.setattr(pulling, "check_contents", full)
        check_refused(archive, tmp_path, capsys, "No space left on device")
    archive.unlink()

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(pulling, "check_contents", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pull(str(shared), tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


def test_servers_are_held_to_bounds(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").mkdir()
    archive = zipped(shared, tmp_path / "home" / "good.zip").read_bytes()
    with file_server() as web:
        web.files = {"/good.zip": archive, "/cut.zip": archive, "/page.zip": b"<html>not found</html>"}
        web.cut = {"/cut.zip"}
        web.redirects = {
            "/away.zip": "http://example.invalid/x.zip",
            "/file.zip": "file:///etc/passwd",
            "/loop.zip": "/loop.zip",
        }
        for name, expected in (
            ("gone", "the server answers 404"),
            ("cut", "ended after|connection broke"),
            ("page", "is no archive of omg"),
            ("away", r"leads to http://example\.invalid/x\.zip, which is no https address"),
            ("file", "cannot be reached|the server answers"),
            ("loop", "the server answers 302"),
        ):
            check_refused(f"{web.url}/{name}.zip", tmp_path, capsys, expected)
        with pytest.raises(Exception, match=r"has [\d,]+ bytes; allowed: 1,000 \(--most-gb\)"):
            pull(f"{web.url}/good.zip", tmp_path / "mine", most_bytes=1000)
        with pytest.raises(Exception, match=r"bytes unpacked; allowed: 1,000 \(--most-gb\)"):
            pull(str(shared), tmp_path / "mine", most_bytes=1000)
    check_refused(f"{web.url}/good.zip", tmp_path, capsys, "cannot be reached")
    check_refused("http://example.invalid/x.zip", tmp_path, capsys, "anybody on the way could change what comes")
    check_refused("https://example.invalid", tmp_path, capsys, "expected the address of an archive")
    check_refused("https://me:secret@example.invalid/x.zip", tmp_path, capsys, "has a user or password in it")
    check_refused("file://server/x.zip", tmp_path, capsys, "three slashes")
    check_refused("hf://../../x", tmp_path, capsys, "expected hf://OWNER/NAME")
    check_refused("https://[x/y.zip", tmp_path, capsys, "which is no address")
    check_refused(tmp_path / "gone.zip", tmp_path, capsys, "there is no such file")
    check_refused(tmp_path / "gone", tmp_path, capsys, "there is no such folder")


def test_a_checksum_pins_the_whole(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = read_manifest(shared / MANIFEST, "it").digest
    assert main(["pull", str(shared), "--output", str(tmp_path / "mine"), "--sha256", "0" * 64]) == 2
    assert f"has the checksum {digest}, not 000" in capsys.readouterr().err
    assert main(["pull", str(shared), "--output", str(tmp_path / "mine"), "--sha256", digest]) == 0
    theirs = tmp_path / "theirs"
    shutil.copytree(shared, theirs)
    reseal(theirs, lambda manifest: manifest.update(title="Another"))
    assert main(["pull", str(theirs), "--output", str(tmp_path / "again"), "--sha256", digest]) == 2


def test_a_game_of_a_stranger_still_needs_trust(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(kit.path("agent"), theirs)
    edit_card(theirs, lambda card: card["config"].update(env="gymma", env_args={"key": "subprocess:run"}))
    push(theirs, str(tmp_path / "theirs.zip"), "mit")
    assert main(["pull", str(tmp_path / "theirs.zip"), "--output", str(tmp_path / "mine")]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "mine"), "--episodes", "1"]) == 2
    assert "if you trust the author, add --trust" in capsys.readouterr().err
