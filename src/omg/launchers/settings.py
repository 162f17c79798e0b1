"""Which launcher does the parts, and what it is told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MOST_JOBS = 1000
HERE = "local"
"""The launcher whose processes run on this machine."""


class LauncherSettings(BaseModel):
    """What the user says about who does the parts; it can be handed on to a process as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    launcher: str = Field(HERE, description="Who does the parts: a word of `LAUNCHERS`")
    jobs: int | None = Field(
        None, ge=1, le=MOST_JOBS, description="Most parts at once; here 1, on clusters as many as can be begun"
    )

    @property
    def at_once(self) -> bool:
        """Whether parts are done in processes of their own, here or elsewhere."""
        return self.launcher != HERE or (self.jobs or 1) > 1
