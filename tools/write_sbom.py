"""Writes `sbom.cdx.json`: the packages of the tested environment as a CycloneDX bill of materials.

    python tools/write_sbom.py

It is made from `constraints.txt` and `pyproject.toml` alone, so the same two files make the same bytes. Licences of
packages are not in it: they stand in the packages.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "sbom.cdx.json"


def normalised(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Package -> version, of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {normalised(name): version for name, version in pairs}


def wanted(project: dict[str, Any]) -> dict[str, list[str]]:
    """Extra -> the packages that it names; those of the core under ''."""
    found = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: sorted({normalised(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines})
        for extra, lines in found.items()
    }


def component(name: str, version: str, kind: str = "library") -> dict[str, Any]:
    """One package."""
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill() -> dict[str, Any]:
    """The whole bill of materials."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = pinned()
    extras = wanted(project)
    parts = []
    for name, version in sorted(versions.items()):
        by = sorted(extra or "core" for extra, names in extras.items() if name in names)
        asked = [{"name": "omg:asked-for-by", "value": " ".join(by)}] if by else []
        parts.append({**component(name, version), **({"properties": asked} if asked else {})})
    own = component(project["name"], project["version"], "application")
    own["licenses"] = [{"license": {"id": project["license"]}}]
    direct = sorted({name for names in extras.values() for name in names if name in versions})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [f"pkg:pypi/{name}@{versions[name]}" for name in direct]}
        ],
    }


def text() -> str:
    """The file as it is written."""
    return json.dumps(bill(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
    print(f"{FILE.name}: {len(bill()['components'])} packages")
