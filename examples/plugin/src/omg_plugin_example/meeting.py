"""Meeting: two players choose a place again and again, and are paid where they meet.

Each seat likes one place best and alone knows which. Whoever meets the other is paid 1, and `bonus` more at its own
favourite. So it pays to know the other: one that insists on its favourite has to be met there, and one that follows
can be led to one's own.

Letters in shapes: B games, K places.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from omg.envs.base import EnvSpec, GameArgs, Observation, Outcome


class MeetingArgs(GameArgs):
    """`env_args` of `meeting`."""

    places: int = Field(3, ge=2, le=100, description="places to choose from")
    rounds: int = Field(8, ge=1, le=10_000, description="rounds of a game")
    bonus: float = Field(1.0, ge=0, description="what meeting at the own favourite pays beyond 1")


class MeetingState(NamedTuple):
    """All that a game needs to go on."""

    favourite: Array
    """[B, 2] int32, the place that a seat likes best."""
    last: Array
    """[B, 2] int32, where the seats went in the round before; -1 before the first."""
    met: Array
    """[B] int32, rounds in which they met."""
    rounds: Array
    """[B] int32, rounds played."""


class Meeting:
    """The game of `MeetingArgs` as a batched `omg.envs.base.Env`.

    Observation of a seat, 3K + 1 numbers: its favourite, where it went last and where the other went last, each as K
    zeros and a one (all zeros before the first round), and the share of rounds played. The state, 4K + 1 numbers: both
    favourites, both last places, the share of rounds.

    Metric: `met`, the share of the rounds so far in which they met.
    """

    def __init__(self, args: MeetingArgs) -> None:
        self.args = args
        self.spec = EnvSpec(
            name="meeting",
            scenario=f"{args.places}places",
            n_agents=2,
            n_actions=args.places,
            obs_dim=3 * args.places + 1,
            state_dim=4 * args.places + 1,
            episode_limit=args.rounds,
            reward_per_agent=True,
            metrics=("met",),
            success_metric="met",
        )

    def reset(self, key: Array, num_envs: int) -> tuple[MeetingState, Observation]:
        """Draws a favourite for each seat: obs [B, 2, 3K+1], state [B, 4K+1], avail [B, 2, K]."""
        state = MeetingState(
            favourite=jax.random.randint(key, (num_envs, 2), 0, self.args.places),
            last=jnp.full((num_envs, 2), -1, jnp.int32),
            met=jnp.zeros(num_envs, jnp.int32),
            rounds=jnp.zeros(num_envs, jnp.int32),
        )
        return state, self._observe(state)

    def step(self, key: Array, state: MeetingState, actions: Array) -> tuple[MeetingState, Observation, Outcome]:
        """Both go to the places `actions` [B, 2]; reward [B, 2], everything else [B]. `key` is not used."""
        del key
        places = actions.astype(jnp.int32)
        meet = places[:, 0] == places[:, 1]
        reward = meet[:, None] * (1.0 + self.args.bonus * (places == state.favourite))
        rounds = state.rounds + 1
        state = MeetingState(state.favourite, places, state.met + meet, rounds)
        over = rounds >= self.args.rounds
        metrics = {"met": (state.met / rounds).astype(jnp.float32)}
        outcome = Outcome(reward.astype(jnp.float32), over, jnp.zeros_like(over), metrics)
        return state, self._observe(state), outcome

    def _observe(self, state: MeetingState) -> Observation:
        places, games = self.args.places, state.rounds.shape[0]
        favourite, last = jax.nn.one_hot(state.favourite, places), jax.nn.one_hot(state.last, places)
        played = (state.rounds / self.args.rounds).astype(jnp.float32)
        own = jnp.broadcast_to(played[:, None, None], (games, 2, 1))
        return Observation(
            obs=jnp.concatenate([favourite, last, last[:, ::-1], own], axis=-1),
            state=jnp.concatenate([favourite.reshape(games, -1), last.reshape(games, -1), played[:, None]], axis=-1),
            avail=jnp.ones((games, 2, places), bool),
        )
