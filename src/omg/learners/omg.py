"""`omg_learner`: Q-learning of Q(s, g, a), where g is the subgoal that the opponent model infers.

What is selected and inferred is described in `omg.learners.subgoals`; here

- *selector*: V(s_t, g) is the mean (`omg_value`) of Q(s_t, g, a) over legal a;
- *Q*: y_t = r_t + gamma max_a Q'(s_{t+1}, g_t, a), the same g on both sides or the next step's (`omg_bootstrap`),
  everything else as in `q_learner`.

The recurrent state is carried along the subgoals that Q learns with; the selector's along the inferred ones, which are
the ones that were acted on. All H candidates of all steps, and Q of the next
states with the same g, start from it and are one evaluation of the recurrent cell each, not loops.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon, U actions.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from omg.components import EpisodeBatch, take_seats
from omg.controllers.basic import BasicMAC, Columns
from omg.learners.q import QLearner, QState
from omg.learners.subgoals import SubgoalLearner
from omg.modules.opponent_models.selection import state_value


class OMGLearner(SubgoalLearner, QLearner):
    """Q-learning with inferred subgoals."""

    def _candidate_values(
        self, state: QState, batch: EpisodeBatch, columns: Columns, inferred: Array, goals: Array, steps: int
    ) -> Array:
        horizon, mac = self.config.omg_horizon, state.mac
        x = mac.weigh(columns)
        hidden = mac.remember(
            columns, mac.agent.activate(x + mac.weigh_inferred(columns, inferred), columns.timed_seats)
        )
        start = jnp.zeros_like(hidden[:, :1])
        before = jnp.concatenate([start, hidden[:, : steps - 1]], axis=1)
        # The first layer's part of each slot's encoding is computed once; candidate k is the same array k slots later.
        weighed = mac.weigh_inferred(columns, goals)
        shifted = jnp.stack([weighed[:, k : k + steps] for k in range(1, horizon + 1)], axis=2)
        seats = None if columns.seats is None else columns.seats[:, None, None]
        gates_in = mac.agent.activate(x[:, :steps, None] + shifted, seats)
        q = mac.agent.head(mac.agent.step(gates_in, before[:, :, None], seats), seats)
        avail = batch.avail[:, :steps]
        if columns.seats is not None and avail.shape[2] != self.seats:
            avail = take_seats(avail, columns.seats)
        return state_value(q, avail[:, :, None], self.config.omg_value)

    def _values(self, mac: BasicMAC, columns: Columns, features: Array | None) -> tuple[Array, Array]:
        assert features is not None
        if self.config.omg_bootstrap == "next":
            return super()._values(mac, columns, features)
        x = mac.weigh(columns)
        weighed = mac.weigh_inferred(columns, features)
        seats = columns.timed_seats
        hidden = mac.remember(columns, mac.agent.activate(x + weighed, seats))
        # One step from the state behind (s_t, g_t), with what is seen next but the same subgoal; only targets use it.
        agent, x, weighed, before = lax.stop_gradient((mac.agent, x[:, 1:], weighed[:, :-1], hidden[:, :-1]))
        following = agent.head(agent.step(agent.activate(x + weighed, seats), before, seats), seats)
        return mac.values(columns, hidden), following
