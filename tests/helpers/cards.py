"""Changing files on disk and making their checksums right again, as a careful author of a hostile file would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omg.components.files import checksum, digest_of


def edit_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes the value of a JSON file."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def edit_card(folder: Path, change: Callable[[dict[str, Any]], Any], file: str = "agent.json") -> None:
    """Changes the card of an agent or a prior; its checksums are those of what is there then."""
    edit_json(folder / file, change)
    seal(folder, file)


def seal(folder: Path, file: str = "agent.json") -> None:
    """Writes the checksums that a card and its weights have now."""
    card = json.loads((folder / file).read_text())
    card.pop("card_sha256", None)
    card["sha256"] = checksum(folder / "weights.safetensors")
    (folder / file).write_text(json.dumps({**card, "card_sha256": digest_of(card)}))


def seal_member(pool: Path, name: str) -> None:
    """Writes the checksums that a member of a pool has now into its card and the pool's index."""
    folder = pool / "members" / name
    seal(folder)

    def note(index: dict[str, Any]) -> None:
        for member in index["members"]:
            if member["name"] == name:
                member["sha256"] = checksum(folder / "weights.safetensors")
                member["card_sha256"] = checksum(folder / "agent.json")

    edit_json(pool / "pool.json", note)
