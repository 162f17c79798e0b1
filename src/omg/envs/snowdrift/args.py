"""The arguments of the `snowdrift` environment, and what makes them impossible."""

from __future__ import annotations

from pydantic import Field, model_validator

from omg.envs.grid.args import GridArgs, check_room


class SnowdriftArgs(GridArgs):
    """`env_args` of `snowdrift`."""

    drifts: int = Field(6, ge=1, le=256, description="number of snowdrifts")
    benefit: float = Field(6.0, description="what everybody gets when a drift is removed")
    cost: float = Field(4.0, ge=0, description="what removing a drift costs, shared equally by those who shovel it")

    @model_validator(mode="after")
    def _possible(self) -> SnowdriftArgs:
        # `UserError` is no `ValueError`, so pydantic lets it through with its own message.
        check_room(self, {"drifts": self.drifts})
        return self
