"""Writes `src/omg/config/default.yaml` anew from the sections of the configuration."""

from __future__ import annotations

from pathlib import Path

import omg.config
from omg.config.defaults import default_yaml

if __name__ == "__main__":
    path = Path(omg.config.__file__).with_name("default.yaml")
    path.write_text(default_yaml(), encoding="utf-8")
    print(f"{path} is written.")
