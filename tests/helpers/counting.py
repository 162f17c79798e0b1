"""A game that tells whether it was traced again."""

from __future__ import annotations

import jax

from omg.envs import Env, EnvState, Observation, Outcome


class CountingEnv:
    """A game that counts how often JAX traces it."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.spec = env.spec
        self.traces = 0

    def reset(self, key: jax.Array, num_envs: int) -> tuple[EnvState, Observation]:
        self.traces += 1
        return self.env.reset(key, num_envs)

    def step(self, key: jax.Array, state: EnvState, actions: jax.Array) -> tuple[EnvState, Observation, Outcome]:
        self.traces += 1
        return self.env.step(key, state, actions)
