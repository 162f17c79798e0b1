"""Predator-prey: three slow predators, one fast prey and two round obstacles on a plane without walls.

The physics, the observation and the reward are those of MPE's `simple_tag`, to the letter: forces act one step late (a
step moves by the velocity of the step before), bodies push each other apart softly, and a touch pays *every* predator,
whoever made it. The prey pays for every predator that touches it, and for leaving the field.

Everything inside is batch-minor: arrays are `[bodies, B]`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.places import NumberPlace
from omg.envs.predator_prey.args import OBSTACLE_SIZE, PREDATOR_SIZE, PREY_SIZE, PredatorPreyArgs
from omg.envs.predator_prey.scene import predator_prey_scenery
from omg.envs.scenes import Scenery

STAY, WEST, EAST, SOUTH, NORTH = range(5)
N_ACTIONS = 5
X_STEP = np.array([0.0, -1.0, 1.0, 0.0, 0.0], np.float32)
Y_STEP = np.array([0.0, 0.0, 0.0, -1.0, 1.0], np.float32)
"""The direction in which an action pushes."""

PREDATOR_PUSH, PREY_PUSH = 3.0, 4.0
PREDATOR_SPEED, PREY_SPEED = 1.0, 1.3
SECONDS, DAMPING = 0.1, 0.25
"""Of a step; and the share of its velocity that a body loses in it."""
STIFFNESS, SOFTNESS = 100.0, 1e-3
"""Of bodies that touch: force per depth, and the distance over which it sets in."""
NEAR_EDGE, EDGE = 0.9, 1.0
"""Distances from the middle where the prey begins to pay, and where it pays as much as for being far out."""


class PredatorPreyState(NamedTuple):
    """All that a game needs to go on; bodies are the players in seat order, then the obstacles."""

    x: Array
    """[players + obstacles, B] float32."""
    y: Array
    """[players + obstacles, B] float32."""
    x_speed: Array
    """[players, B] float32."""
    y_speed: Array
    """[players, B] float32."""
    touches: Array
    """[B] int32, pairs of predator and prey that touched, summed over the steps so far."""
    steps: Array
    """[B] int32."""


class PredatorPrey:
    """The game of `PredatorPreyArgs` as a batched `omg.envs.base.Env`.

    Seats 0 to `predators - 1` are the predators, those behind them the prey. Observation of a seat: its velocity (x, y)
    and position, the positions of the obstacles and of all other players as seen from it, in seat order, and the
    velocities of the prey (other than itself); zeros fill up a prey's, which is shorter. The state has position and
    velocity of all players in seat order, then the positions of the obstacles.

    Games always last `episode_limit` steps, and are over then (`end_at_limit`): the field has no walls, and a player
    who reckons with what would follow learns to be far away, where nobody has ever been. Metrics: `touches` is the
    number of pairs of predator and prey that touched, summed over the steps; `predator_return` is what a predator has
    got so far.
    """

    def __init__(self, args: PredatorPreyArgs) -> None:
        self.args = args
        players = args.predators + args.prey
        self._size = _per_body(args, PREDATOR_SIZE, PREY_SIZE, OBSTACLE_SIZE)
        self._push = _per_body(args, PREDATOR_PUSH, PREY_PUSH)
        self._fastest = _per_body(args, PREDATOR_SPEED, PREY_SPEED)
        self.spec = EnvSpec(
            name="predator_prey",
            scenario=f"{args.predators}v{args.prey}-{args.obstacles}o",
            n_agents=players,
            n_actions=N_ACTIONS,
            obs_dim=4 + 2 * args.obstacles + 2 * (players - 1) + 2 * args.prey,
            state_dim=4 * players + 2 * args.obstacles,
            episode_limit=args.episode_limit,
            reward_per_agent=True,
            metrics=("touches", "predator_return"),
            success_metric="predator_return",
            learner_seats=tuple(range(args.predators)),
            seat_blocks=((0, 4),),
            seat_places=NumberPlace(x=0, y=1, y_scale=-1.0),
        )

    def reset(self, key: Array, num_envs: int) -> tuple[PredatorPreyState, Observation]:
        """Places players anywhere on the field and obstacles not quite at its edge; all are at rest.

        Args:
            key: random key; the only randomness of a game.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, A, O], state [B, S], avail [B, A, 5].
        """
        players, obstacles = self.spec.n_agents, self.args.obstacles
        reach = np.array([EDGE] * players + [NEAR_EDGE] * obstacles, np.float32)[:, None]
        x, y = reach * jax.random.uniform(key, (2, players + obstacles, num_envs), minval=-1.0, maxval=1.0)
        rest = jnp.zeros((players, num_envs))
        nothing = jnp.zeros(num_envs, jnp.int32)
        state = PredatorPreyState(x, y, rest, rest, nothing, nothing)
        return state, self._observe(state)

    def step(
        self, key: Array, state: PredatorPreyState, actions: Array
    ) -> tuple[PredatorPreyState, Observation, Outcome]:
        """Pushes the players, moves them, and pays for touches.

        Args:
            key: not used, the rules know no chance.
            state: from `reset` or `step`.
            actions: [B, A] integers.

        Returns:
            the next state, `Observation`, and `Outcome` with reward [B, A], everything else [B].
        """
        del key
        players = self.spec.n_agents
        action = actions.astype(jnp.int32).T
        x_force, y_force = self._contact(state)
        x_force += self._push * jnp.asarray(X_STEP)[action]
        y_force += self._push * jnp.asarray(Y_STEP)[action]
        x = state.x.at[:players].add(state.x_speed * SECONDS)
        y = state.y.at[:players].add(state.y_speed * SECONDS)
        x_speed = state.x_speed * (1.0 - DAMPING) + x_force * SECONDS
        y_speed = state.y_speed * (1.0 - DAMPING) + y_force * SECONDS
        speed = jnp.sqrt(x_speed**2 + y_speed**2)
        slower = jnp.where(speed > self._fastest, self._fastest / jnp.maximum(speed, 1e-9), 1.0)
        touching = self._touching(x, y)
        steps, touches = state.steps + 1, state.touches + touching.sum(axis=(0, 1))
        state = PredatorPreyState(x, y, x_speed * slower, y_speed * slower, touches, steps)
        metrics = {
            "touches": touches.astype(jnp.float32),
            "predator_return": touches.astype(jnp.float32) * self.args.catch_reward,
        }
        over = steps >= self.args.episode_limit
        ended = over & self.args.end_at_limit
        return state, self._observe(state), Outcome(self._reward(state, touching).T, ended, over & ~ended, metrics)

    def scenery(self) -> Scenery[PredatorPreyState]:
        """See `omg.envs.scenes.Shown`."""
        return predator_prey_scenery(self.args)

    def _contact(self, state: PredatorPreyState) -> tuple[Array, Array]:
        """Forces [players, B] by which bodies that touch push the players apart."""
        players = self.spec.n_agents
        x_apart = state.x[:players, None] - state.x  # [players, bodies, B]
        y_apart = state.y[:players, None] - state.y
        itself = np.eye(players, len(self._size), dtype=bool)[..., None]
        distance = jnp.sqrt(jnp.where(itself, 1.0, x_apart**2 + y_apart**2))
        gap = distance - (self._size[:players, None] + self._size)
        force = STIFFNESS * SOFTNESS * jax.nn.softplus(-gap / SOFTNESS) / jnp.maximum(distance, 1e-12)
        force = jnp.where(itself, 0.0, force)
        return (force * x_apart).sum(axis=1), (force * y_apart).sum(axis=1)

    def _touching(self, x: Array, y: Array) -> Array:
        """Whether a predator touches a prey, [predators, prey, B] bool."""
        hunters, players = self.args.predators, self.spec.n_agents
        distance = jnp.sqrt(
            (x[:hunters, None] - x[hunters:players]) ** 2 + (y[:hunters, None] - y[hunters:players]) ** 2
        )
        return distance < PREDATOR_SIZE + PREY_SIZE

    def _reward(self, state: PredatorPreyState, touching: Array) -> Array:
        """[players, B]."""
        hunters, players = self.args.predators, self.spec.n_agents
        caught = self.args.catch_reward * touching.sum(axis=(0, 1))
        out = sum(_leaving(jnp.abs(place[hunters:players])) for place in (state.x, state.y))
        prey = -self.args.catch_reward * touching.sum(axis=0) - out
        return jnp.concatenate([jnp.broadcast_to(caught.astype(jnp.float32), (hunters, *caught.shape)), prey])

    def _observe(self, state: PredatorPreyState) -> Observation:
        players, hunters = self.spec.n_agents, self.args.predators
        bodies = np.arange(len(self._size))
        rows = []
        for seat in range(players):
            others = np.concatenate([bodies[players:], np.delete(bodies[:players], seat)])
            own = jnp.stack([state.x_speed[seat], state.y_speed[seat], state.x[seat], state.y[seat]])
            prey = np.array([other for other in range(hunters, players) if other != seat], int)
            parts = [
                own,
                _pairs(state.x[others] - state.x[seat], state.y[others] - state.y[seat]),
                _pairs(state.x_speed[prey], state.y_speed[prey]),
            ]
            row = jnp.concatenate(parts)
            rows.append(jnp.pad(row, ((0, self.spec.obs_dim - row.shape[0]), (0, 0))))
        whole = [
            jnp.stack([state.x[:players], state.y[:players], state.x_speed, state.y_speed], axis=1).reshape(
                4 * players, -1
            ),
            _pairs(state.x[players:], state.y[players:]),
        ]
        games = state.steps.shape[0]
        return Observation(
            obs=jnp.stack(rows).transpose(2, 0, 1),
            state=jnp.concatenate(whole).T,
            avail=jnp.ones((games, players, N_ACTIONS), bool),
        )


def _per_body(args: PredatorPreyArgs, predator: float, prey: float, obstacle: float | None = None) -> np.ndarray:
    """A constant of every body, [bodies, 1]; of the players only where obstacles have none."""
    values = [predator] * args.predators + [prey] * args.prey
    values += [] if obstacle is None else [obstacle] * args.obstacles
    return np.array(values, np.float32)[:, None]


def _pairs(x: Array, y: Array) -> Array:
    """[n, B] each -> [2 n, B]: x and y of the first, of the second, ..."""
    return jnp.stack([x, y], axis=1).reshape(2 * x.shape[0], *x.shape[1:])


def _leaving(distance: Array) -> Array:
    """What a prey pays for its distance from the middle along one axis."""
    far_out = jnp.minimum(jnp.exp(2.0 * distance - 2.0), 10.0)
    return jnp.where(distance < NEAR_EDGE, 0.0, jnp.where(distance < EDGE, (distance - NEAR_EDGE) * 10.0, far_out))
