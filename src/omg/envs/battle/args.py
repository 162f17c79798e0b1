"""The arguments of the `sc2` environment: SMAC's own names and defaults, and the few that only we have."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from omg.envs.base import GameArgs
from omg.envs.battle.maps import MAPS
from omg.errors import UserError, unknown_name


class BattleArgs(GameArgs):
    """`env_args` of `sc2`."""

    map_name: str = Field("8m", description="one of SMAC's 23 maps")
    backend: Literal["auto", "sim", "starcraft"] = Field(
        "auto", description="built-in simulator, the real game, or whichever is there"
    )
    start: Literal["standard", "random"] = Field(
        "standard", description="two facing blocks, or surrounded/reflected starts as in SMACv2"
    )
    episode_limit: int | None = Field(
        None, ge=1, le=30_000, description="steps until an episode is cut; the map's own if empty"
    )
    step_mul: int = Field(8, ge=1, le=64, description="game ticks per step")
    move_amount: float = Field(2.0, gt=0, description="how far a move order reaches, in cells")
    obs_all_health: bool = Field(True, description="the health of visible units is observed")
    obs_own_health: bool = Field(True, description="the unit's own health is observed")
    obs_last_action: bool = Field(False, description="visible allies' last actions are observed")
    obs_pathing_grid: bool = Field(False, description="eight bits: which nearby points can be walked on")
    obs_terrain_height: bool = Field(False, description="terrain height around the unit (real game only)")
    obs_timestep_number: bool = Field(False, description="the share of the episode that has passed is observed")
    obs_instead_of_state: bool = Field(False, description="the state is the concatenation of all observations")
    state_last_action: bool = Field(True, description="the state contains all last actions")
    state_timestep_number: bool = Field(False, description="the state contains the share of the episode passed")
    reward_sparse: bool = Field(False, description="+1 for a win, -1 for a defeat, nothing else")
    reward_only_positive: bool = Field(True, description="no penalty for own losses")
    reward_death_value: float = Field(10.0, description="reward of a kill, before scaling")
    reward_win: float = Field(200.0, description="reward of a win, before scaling")
    reward_defeat: float = Field(0.0, description="reward of a defeat, before scaling")
    reward_negative_scale: float = Field(0.5, description="weight of own losses")
    reward_scale: bool = Field(True, description="scale rewards so that the best return is reward_scale_rate")
    reward_scale_rate: float = Field(20.0, gt=0, description="the best possible return")
    heuristic_ai: bool = Field(False, description="the allies ignore their orders and fight like the enemy's script")
    difficulty: str = Field("7", description="level of the game's own AI (real game only)")
    game_version: str | None = Field(None, description="StarCraft II version (real game only)")
    continuing_episode: bool = Field(False, description="treat the time limit as a continuing episode (real game only)")
    heuristic_rest: bool = Field(False, description="SMAC's resting heuristic (real game only)")
    replay_dir: str = Field("", description="folder for game replays (real game only)")
    replay_prefix: str = Field("", description="prefix of game replays (real game only)")
    window_size_x: int = Field(1920, description="window width (real game only)")
    window_size_y: int = Field(1200, description="window height (real game only)")
    debug: bool = Field(False, description="SMAC's debug messages (real game only)")

    @model_validator(mode="before")
    @classmethod
    def _numbers_as_text(cls, values: object) -> object:
        # PyMARL users write difficulty=7 as often as difficulty="7".
        if isinstance(values, dict) and isinstance(values.get("difficulty"), int):
            values = {**values, "difficulty": str(values["difficulty"])}
        return values

    def doubt(self) -> str | None:
        """See `GameArgs`: the real game writes to this folder."""
        return f"env_args.replay_dir={self.replay_dir!r}, a folder that is written to" if self.replay_dir else None

    def on_host(self) -> bool:
        """See `GameArgs`: the real game is."""
        from omg.envs.adapters.smac import is_real

        return is_real(self)

    def check(self) -> None:
        """Refuses what the simulator cannot honour, with the option's name."""
        if self.map_name not in MAPS:
            raise unknown_name("map (env_args.map_name)", self.map_name, MAPS)
        if self.backend == "starcraft":
            raise UserError(
                "env_args.backend: got 'starcraft', but the real StarCraft II is not available here. "
                "Allowed: auto, sim (the built-in simulator)."
            )
        for name, default in _REAL_GAME_ONLY.items():
            given = getattr(self, name)
            if given != default:
                raise UserError(
                    f"env_args.{name}: got {given!r}, which the built-in simulator cannot honour. "
                    f"Allowed with backend sim: {default!r}."
                )


_REAL_GAME_ONLY = {
    name: BattleArgs.model_fields[name].default
    for name in (
        "obs_terrain_height",
        "difficulty",
        "game_version",
        "continuing_episode",
        "heuristic_rest",
        "replay_dir",
        "replay_prefix",
        "window_size_x",
        "window_size_y",
        "debug",
    )
}
