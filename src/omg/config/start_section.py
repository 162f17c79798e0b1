"""Keys of how a run begins, many of them PyMARL's."""

from __future__ import annotations

from pydantic import Field

from omg.config.sections import Section, Whole


class StartSection(Section):
    """How a run begins: its label, its checks, and what it has from another run (see also init_from)."""

    label: str | None = Field(
        None, pattern=r"^\w[\w.+-]*$", description="Further label in the name of the run's folder"
    )
    debug: bool = Field(
        False, description="Every round is a chunk of its own, searched for NaN and shown; no compilation cache"
    )
    checkpoint_path: str | None = Field(
        None, min_length=1, description="Run whose learner goes on here: networks, optimisers, steps; with a new buffer"
    )
    load_step: Whole = Field(
        0, ge=0, description="Step of the run in checkpoint_path or init_from: N, or the last saved before; 0: the last"
    )
    evaluate: bool = Field(False, description="With checkpoint_path: test once and stop")
