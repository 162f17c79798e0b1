"""`hop_plus_learner`: HOP whose goals are subgoals, inferred by a model that learns from the same episodes.

Everything comes from the round just played; nothing is ever played for learning alone.

1. *Subgoals*: models infer them, and learn as `omg.learners.hop_cells` or `omg.learners.hop_subgoals` says.
2. *Policies and value* (HOP, see `omg.learners.hop`), told the inferred subgoals, or with a chance that falls to zero
   the selected ones (`omg_q_input`).

Both start from what the networks that played infer and select. A subgoal cannot be turned like a position can, but a
whole episode can before anything is inferred from it: with `hop_symmetries` each is turned or mirrored at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from omg.components import EpisodeBatch, Number
from omg.controllers.draw import TeamDraw
from omg.controllers.hop import HOPMac
from omg.envs.grid.symmetry import symmetries
from omg.envs.grid.view import MapView
from omg.learners.hop import SEARCH_POLICY, HOPLearner
from omg.learners.hop_cells import CellsTraining
from omg.learners.hop_plus_measures import subgoal_measures, truth_measures
from omg.learners.hop_subgoals import SubgoalsTraining
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class HOPPlusState(NamedTuple):
    """Everything that learning changes."""

    mac: HOPMac
    opt_state: optax.OptState
    updates: Array
    """int32 scalar, updates so far."""
    model_opt_state: optax.OptState
    """Of the models that infer subgoals, and of the prior where it is learned along."""


class HOPPlusLearner(HOPLearner):
    """Learns a planning player that infers subgoals, in all seats or in those that a team leaves to it."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        team: TeamDraw | None = None,
        partners: int = 0,
        learns_prior: bool = False,
    ):
        super().__init__(config, spec, team, partners)
        self.training: SubgoalsTraining | CellsTraining
        if config.wants_prior:
            self.training = SubgoalsTraining(config, self.seats, self._rounds, learns_prior)
        else:
            self.training = CellsTraining(config, self.seats, self._rounds)
        self.controls = () if team is None else ("zero", "shuffled")

    def init(self, key: Array) -> PyTree:
        """New networks."""
        started = super().init(key)
        return HOPPlusState(*started, self.training.init(started.mac))

    def control(self, state: PyTree, name: str) -> HOPMac:
        """The tested player with its subgoals at `zero`, or its trees with `shuffled` histories."""
        return state.mac.tested().with_features(name)

    def examine(self, state: PyTree, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """How well the others were understood in test episodes: see `hop_measures` and `hop_plus_measures`."""
        measures = super().examine(state, batch, key)
        seats, partners = self._seats(batch), self.partners
        horizon = self.config.omg_horizon
        measures |= subgoal_measures(state.mac, batch, seats, horizon, partners)
        return measures | truth_measures(state.mac, batch, seats, horizon)

    def update(
        self, state: PyTree, batch: EpisodeBatch, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[PyTree, dict[str, Array]]:
        """`hop_epochs` passes of the models over the episodes just played, then as many of all other networks.

        Args:
            state: From `init` or the update before.
            batch: The episodes that the player in `state` has just played, with what its search found.
            episode: Not used.
            t_env: Environment steps so far, for the share of selected subgoals.
            key: Consumed.

        Returns:
            The new state and the metrics: those of `HOPLearner.update` and of `SubgoalsTraining.update`.
        """
        turn_key, *goal_keys, study_key = jax.random.split(key, 4)
        if self.config.hop_symmetries:
            batch = turned_episodes(state.mac.game.map_view, batch, turn_key)
        seats = self._seats(batch)
        changed = self.training.update(state.mac, state.model_opt_state, batch, seats, t_env, goal_keys)
        lessons, achievement = self._lessons(changed.mac, batch)
        lessons = lessons._replace(goal=changed.goals, likely=changed.likely)
        mac, opt_state, studied = self._study(changed.mac, state.opt_state, lessons, achievement, study_key)
        return HOPPlusState(mac, opt_state, state.updates + 1, changed.opt_state), changed.metrics | studied


def turned_episodes(view: MapView, batch: EpisodeBatch, key: Array) -> EpisodeBatch:
    """The same episodes on boards that are turned or mirrored, each in a way of its own.

    Args:
        view: Where things are in a state.
        batch: As a planner keeps it: states, actions and what the search found; without views and masks of seats.
        key: Consumed.
    """
    tables = symmetries(view.height, view.width, view.actions)
    way = jax.random.randint(key, batch.filled.shape[:1], 0, len(tables.cell_from))
    cell_from, action_from, action_to = (
        jnp.asarray(table)[way] for table in (tables.cell_from, tables.action_from, tables.action_to)
    )

    def actions_turned(by_action: Array) -> Array:
        return jnp.take_along_axis(by_action, action_from[:, None, None], axis=-1)

    maps, last = view.maps(batch.state), view.last_actions(batch.state)
    cells = maps.reshape(*maps.shape[:3], -1)
    state = [
        jnp.take_along_axis(cells, cell_from[:, None, None], axis=-1).reshape(*maps.shape[:2], -1),
        view.time(batch.state),
        actions_turned(last).reshape(*last.shape[:2], -1),
    ]
    actions = jnp.take_along_axis(action_to[:, None], batch.actions.astype(jnp.int32), axis=-1)
    return batch._replace(
        state=jnp.concatenate(state, axis=-1),
        actions=actions,
        records={**batch.records, SEARCH_POLICY: actions_turned(batch.records[SEARCH_POLICY])},
    )
