"""A battle of one number with SMAC's `StarCraft2Env` interface; crashes on purpose when told so by a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"3m": (3, 9, 30, 48, 60), "8m": (8, 14, 80, 168, 120)}
"""Map -> agents, actions, obs, state, limit."""


class StarCraft2Env:
    """Every seat that attacks takes a point from the enemy; the enemy has 12, and seat 0 dies after 3 steps."""

    def __init__(self, map_name: str = "8m", seed: int | None = None, replay_dir: str = "", **options: Any) -> None:
        self.n_agents, self.n_actions, self.obs_size, self.state_size, self.episode_limit = SIZES[map_name]
        self.map_name, self.given_seed, self.options = map_name, seed, options
        self.folder = Path(os.environ["SC2PATH"])
        self.replay_dir = Path(replay_dir or self.folder)
        self.timeouts = self.battles_won = self.episodes = 0
        self.game: subprocess.Popen[bytes] | None = None

    def reset(self) -> tuple[list[np.ndarray], np.ndarray]:
        if self.game is None:
            self.game = subprocess.Popen(["sleep", "300"])
        self.steps, self.enemy, self.restarted = 0, 12, False
        self.episodes += 1
        return self.get_obs(), self.get_state()

    def step(self, actions: list[int]) -> tuple[float, bool, dict[str, Any]]:
        avail = self.get_avail_actions()
        assert all(avail[seat][action] for seat, action in enumerate(actions)), "an illegal action"
        crash = self.folder / "crash"
        if self.steps == 2 and crash.exists():
            crash.unlink()
            self.reset()
            return 0, True, {}
        self.steps += 1
        hits = sum(action >= 6 for action in actions)
        self.enemy -= hits
        info = {"battle_won": False, "dead_allies": int(self.steps >= 3), "dead_enemies": int(self.enemy <= 0)}
        if self.enemy <= 0:
            info["battle_won"] = True
            return hits + 10.0, True, info
        if self.steps >= self.episode_limit:
            self.timeouts += 1
            return float(hits), True, info
        return float(hits), False, info

    def get_obs(self) -> list[np.ndarray]:
        return [np.full(self.obs_size, self.enemy / 12, np.float32) for _ in range(self.n_agents)]

    def get_state(self) -> np.ndarray:
        return np.full(self.state_size, self.steps, np.float32)

    def get_avail_actions(self) -> list[list[int]]:
        dead = [1] + [0] * (self.n_actions - 1)
        alive = [0, 1] + [0] * 4 + [1] * (self.n_actions - 6)
        return [dead if seat == 0 and self.steps >= 3 else alive for seat in range(self.n_agents)]

    def get_env_info(self) -> dict[str, int]:
        return {
            "state_shape": self.state_size,
            "obs_shape": self.obs_size,
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def save_replay(self) -> None:
        self.replay_dir.mkdir(exist_ok=True)
        (self.replay_dir / f"{self.map_name}_{os.getpid()}_{self.episodes}.SC2Replay").touch()

    def close(self) -> None:
        if self.game is not None:
            self.game.kill()
            self.game.wait()
