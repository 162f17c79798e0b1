"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from omg.components.files import new_folder, whole_folder


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path):
    path = tmp_path / "agent"

    def content() -> str:
        return (whole_folder(path) / "file").read_text()

    for text in ("first", "second"):
        with new_folder(path) as staging:
            (staging / "file").write_text(text)
        assert content() == text

    def fail() -> None:
        with new_folder(path) as staging:
            (staging / "file").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert content() == "second"
    assert [child.name for child in tmp_path.iterdir()] == ["agent"]
    # Killed between moving the old folder aside and moving the new one in.
    path.rename(tmp_path / ".old-agent")
    (tmp_path / ".writing-agent").mkdir()
    (tmp_path / ".writing-agent" / "file").write_text("third")
    assert content() == "second"
    with pytest.raises(RuntimeError):
        fail()
    assert content() == "second"
    with new_folder(path) as staging:
        (staging / "file").write_text("fourth")
    assert content() == "fourth"
    assert [child.name for child in tmp_path.iterdir()] == ["agent"]
