"""What is published: the wheel, the bill of materials, the images."""

from __future__ import annotations

import email
import json
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import omg

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


# ------------------------------------------------------------------------------------------------ the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release is, unpacked as an installation is."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("*.whl")
    zipfile.ZipFile(file).extractall(out / "installed")
    return out / "installed"


def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    package = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "omg").rglob("*") if path.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    found = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    about = f"omg_marl-{omg.__version__}.dist-info"
    assert {name for name in found if not name.startswith(about)} == package
    assert {"omg/py.typed", "omg/config/default.yaml", "omg/experiments/presets/demo.yaml"} <= package
    assert any(name.startswith("omg/report/assets/") for name in package)
    assert f"{about}/licenses/LICENSE" in found
    assert "omg = omg.cli:main" in (wheel / about / "entry_points.txt").read_text()
    stated = email.message_from_string((wheel / about / "METADATA").read_text())
    assert (stated["Name"], stated["Version"], stated["License-Expression"]) == (
        PROJECT["name"],
        omg.__version__,
        PROJECT["license"],
    )
    assert set(stated.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_what_was_built_works_away_from_the_source(wheel: Path, tmp_path: Path) -> None:
    code = (
        "import omg; print(omg.__file__); from omg.cli import main;"
        "print([main(words.split()) for words in ('--version', 'pipeline', 'config --config=qmix --env-config=sc2')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(wheel), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[0]) == wheel / "omg" / "__init__.py"
    assert done.stdout.rstrip().endswith("[0, 0, 0]")
    presets = [path.stem for path in (ROOT / "src" / "omg" / "experiments" / "presets").glob("*.yaml")]
    assert [name for name in presets if not re.search(rf"^\s*{name}\s", done.stdout, re.MULTILINE)] == []


def test_every_extra_that_a_message_names_is_there() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src" / "omg").rglob("*.py"))
    named = set(re.findall(r"pip install 'omg-marl\[([a-z0-9]+)\]'", code))
    assert {"sacred", "hub", "sc2"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


# ------------------------------------------------------------------------------------------------ what was tested


def test_the_bill_of_materials_is_that_of_the_constraints() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "write_sbom.py"))
    written = (ROOT / "sbom.cdx.json").read_text()
    assert written == tool["text"](), "python tools/write_sbom.py"
    bill = json.loads(written)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    names = {one["bom-ref"]: one for one in bill["components"]}
    assert len(names) == len(lines) > 100
    assert all(one["purl"] == ref == f"pkg:pypi/{one['name']}@{one['version']}" for ref, one in names.items())
    assert {"pkg:pypi/omg-marl@" + omg.__version__} == {one["ref"] for one in bill["dependencies"]}
    (direct,) = (one["dependsOn"] for one in bill["dependencies"])
    assert set(direct) <= set(names)


def test_the_core_and_what_tests_need_are_pinned() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "write_sbom.py"))
    extras, versions = tool["wanted"](PROJECT), tool["pinned"]()
    for extra in ("", "sacred", "wandb", "mlflow", "aim", "hub", "ray", "slurm", "parquet", "envs", "dev"):
        missing = [name for name in extras[extra] if name not in versions and name != "omg-marl"]
        assert missing == [], extra


# ------------------------------------------------------------------------------------------------ the images


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, continued lines joined: FROM, RUN and so on, and what stands behind."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    pairs = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word.upper(), rest) for word, rest in pairs]


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Name of each stage -> what it is made from, and its instructions."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    lines: list[tuple[str, str]] = []
    for word, rest in instructions((ROOT / "Dockerfile").read_text()):
        if word == "FROM":
            base, keyword, name = rest.split()
            assert keyword.upper() == "AS"
            lines = []
            found[name] = (base, lines)
        else:
            lines.append((word, rest))
    return found


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path at home; the last line that fits decides."""
    result = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if pattern == "*" or path == pattern or path.startswith(f"{pattern}/"):
            result = not line.startswith("!")
    return result


def test_the_images_are_made_of_what_there_is() -> None:
    found = stages()
    assert list(found) == ["wheel", "base", "cuda", "cpu"], "the last is the one of a plain `docker build`"
    assert found["cpu"][0] == found["cuda"][0] == "base"
    (python,) = re.findall(r"^ARG PYTHON=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    tested = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    assert python in tested["python"]
    assert f"(Python {python}" in (ROOT / "constraints.txt").read_text().splitlines()[0]
    copied: list[str] = []
    for name, (base, lines) in found.items():
        assert base in found or base == "python:${PYTHON}-slim", name
        for word, rest in lines:
            assert word in ("WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"), "an ENV or ARG may hold a secret"
            if word == "COPY" and "--from=" not in rest:
                copied += rest.split()[:-1]
            elif word == "COPY":
                (origin,) = re.findall(r"--from=(\S+)", rest)
                assert origin in found
    assert [path for path in copied if not (ROOT / path).exists() or ignored(path)] == []
    needed = {"pyproject.toml", PROJECT["readme"], "LICENSE", "src", "constraints.txt"}
    assert set(copied) == needed, "what the wheel is built from, and the versions"
    assert all(ignored(path) for path in (".git/config", "results/x", "tests/conftest.py"))


def test_the_images_run_the_program_as_nobody_special() -> None:
    found = stages()
    base = dict(found["base"][1])
    assert json.loads(base["ENTRYPOINT"]) == list(PROJECT["scripts"])
    assert json.loads(base["CMD"]) == ["--help"]
    assert "useradd --create-home --uid 1000 omg" in base["RUN"]
    for name, extra in (("cuda", "cuda"), ("cpu", None)):
        run, user = found[name][1]
        assert user == ("USER", "omg")
        assert "--constraint /wheels/constraints.txt" in run[1]
        named = re.findall(r"\.whl\)\[(\w+)\]", run[1])
        assert named == ([extra] if extra else [])
        assert set(named) <= set(PROJECT["optional-dependencies"])
    (build,) = (rest for word, rest in found["wheel"][1] if word == "RUN")
    assert "python -m build --wheel --outdir /wheels" in build
    usage = re.findall(r"^# docker build --target (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(usage) == ["cpu", "cuda"]
