"""The oracle of subgoals: it looks into the true future, which no player can, and so bounds what inference can give.

Before every step the game is played on for H steps from where it stands, with the same players, the agent acting on
what it infers itself. The states that come are encoded by the prior, and the subgoal is selected among them exactly as
the learner selects in hindsight. Then the step is taken with that subgoal, and the imagined future is thrown away.
Chance falls differently in the imagined future than in the real one; in games without chance the two agree as long as
the agent would have acted the same.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from omg.controllers.basic import BasicMAC
from omg.controllers.reading import pick_offset, state_value
from omg.controllers.team import TeamMemory, TeamPolicy
from omg.modules.opponent_models.subgoal import SubgoalModel

if TYPE_CHECKING:
    from omg.controllers.base import PlayerView, Policy
    from omg.controllers.basic import SeatMemory
    from omg.envs.base import Env, EnvState, Observation


Imagined = tuple["EnvState", "Observation", "TeamMemory", Array, Array]


def foresee(env: Env, policy: Policy, world: EnvState, seen: Observation, memory: TeamMemory, key: Array) -> TeamMemory:
    """The team's memory with the true subgoals for the coming step in it.

    Args:
        env: The game.
        policy: A `TeamPolicy` whose learning player has `foresight`.
        world: Where the B games stand.
        seen: What the seats see there.
        memory: The team's.
        key: Consumed.
    """
    assert isinstance(policy, TeamPolicy)
    main = policy.main
    assert isinstance(main, BasicMAC)
    settings, model = main.foresight, main.opponent_model
    assert settings is not None
    assert isinstance(model, SubgoalModel)
    play_key, pick_key = jax.random.split(key)
    blind = dataclasses.replace(policy, main=dataclasses.replace(main, foresight=None))
    alone = memory._replace(main=memory.main._replace(given=None))

    def look(seen: Observation, memory: TeamMemory) -> Array:
        """What the learning player's seats see, [B, m, O]."""
        return main.reading.step(policy.main_view(seen, memory)).model_inputs().seen

    def step(loop: Imagined, key: Array) -> tuple[Imagined, Array]:
        world, seen, memory, view, alive = loop
        act_key, env_key = jax.random.split(key)
        actions, memory, _ = blind.act(seen, memory, act_key, 0.0)
        world, seen, outcome = env.step(env_key, world, actions)
        # Behind the end of a game its last state repeats.
        view = jnp.where(alive[:, None, None], look(seen, memory), view)
        return (world, seen, memory, view, alive & ~(outcome.terminated | outcome.truncated)), view

    now = policy.main_view(seen, memory)
    start = (world, seen, alone, look(seen, memory), jnp.ones(now.seats.shape[0], bool))
    _, views = jax.lax.scan(step, start, jax.random.split(play_key, settings.horizon))
    goals, _ = model.prior.encode(jnp.moveaxis(views, 0, 1))
    q = try_goals(main, now, memory.main, goals)
    values = state_value(q, now.avail[:, None], settings.value)
    offset = pick_offset(settings.mode, values[:, None], (*now.seats[:, None].shape,), settings.horizon, pick_key)
    chosen = jnp.take_along_axis(goals, offset[:, 0, None, :, None] - 1, axis=1)[:, 0]
    return memory._replace(main=memory.main._replace(given=chosen))


def try_goals(player: BasicMAC, view: PlayerView, memory: SeatMemory, goals: Array) -> Array:
    """The agent's outputs in the coming step with subgoals that it might infer.

    Args:
        player: The learning player.
        view: What it knows now.
        memory: Its memory of the step before.
        goals: [N, H, m, F], H candidates.

    Returns:
        [N, H, m, U].
    """
    agent, views = player.agent, player.reading.step(view)
    features = player.reading.features(player.opponent_model, views, goals)
    seats, own_last = view.seats[:, None], jnp.broadcast_to(views.own_last[:, None], goals.shape[:-1])
    gates_in = agent.embed(views.model_inputs().seen[:, None], own_last, features, seats)
    return agent.head(agent.step(gates_in, memory.hidden[:, None], seats), seats)
