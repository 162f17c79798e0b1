"""HOP+ whose subgoals are cells: where each co-player will be some steps ahead (`omg_inference: cells`).

Each tree has a draw of its own: every co-player's cell is the one at which the summed chances of the cells reach a
number that was drawn for the tree and holds for all its positions. As the game in the tree goes on, the chances are
inferred anew, and the cell moves no further than they do. A co-player's network is told its cell as a row of its input,
as HOP's is told a goal. The focal player's own network is told nothing, as in HOP: what it learns from is the search
over all draws.

Letters in shapes: as in `omg.planning.subgoals`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.envs.grid.state import State
from omg.modules.opponent_models.base import ModelInputs
from omg.modules.opponent_models.cells import CellModel
from omg.modules.planning import CoPlayersNetwork
from omg.modules.planning.networks import weigh_goal
from omg.planning.inference import InferenceSettings
from omg.planning.minds import Minds, Question, SubgoalJudge, Trace
from omg.planning.subgoals import SubgoalFollowing

UNTOLD = -1
"""In place of a cell: the co-player's network is told nothing."""


class CellFollowing(SubgoalFollowing[State]):
    """Inferred cells (`Inference`); every step of an episode is learned from, and there are no achievements."""

    turns = True
    """A cell is known on boards that are turned or mirrored."""

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        super().__init__(game, settings)
        self.goal_dim = game.cells
        self.own_goal_dim = 0

    def nothing(self, *lead: int) -> Array:
        """See `SubgoalFollowing.nothing`: no cell for any co-player, [*lead, J] int16."""
        return jnp.full((*lead, self.game.spec.n_agents - 1), UNTOLD, jnp.int16)

    def judge(self, minds: Minds, trees: int) -> CellJudge[State]:
        """See `Inference.judge`."""
        silent = self.settings.features == "zero"
        return CellJudge(self.game, minds, draws=self.settings.draws, silent=silent, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: the sum over cells c of P(c) pi(a | s, c)."""
        del state
        chances = record["infer_cells"].reshape(*legal.shape[:2], self.game.cells)
        if self.settings.features == "zero":
            return legal_softmax(others(*sight, self.nothing(len(legal))), legal)
        return expected_actions(others, sight, legal, chances)

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`."""
        assert goal is not None
        moved = jnp.take_along_axis(cell_to, jnp.maximum(goal, 0), axis=-1)
        return jnp.where(goal >= 0, moved, goal)


def expected_actions(others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, chances: Array) -> Array:
    """What co-players do in M positions if each is heading for cells with these chances.

    Args:
        others: a seat's network for them.
        sight: maps [M, C, height, width] and time [M].
        legal: [M, J, U] bool.
        chances: [M, J, cells].

    Returns:
        [M, J, U].
    """
    weighed = others.trunk(*sight)[None]

    def add(total: Array, cell: Array) -> tuple[Array, None]:
        # A cell at a time: all of them together would take hundreds of numbers for each cell of each position.
        told = jnp.asarray(weigh_goal(jnp.swapaxes(others.goal, 0, 1).reshape(len(others.goal[0]), -1), cell))
        logits = others.say(weighed + told.reshape(len(others.bias), 1, -1))
        share = chances[..., cell][..., None]
        return total + share * legal_softmax(jnp.moveaxis(logits, 0, 1), legal), None

    expected, _ = jax.lax.scan(add, jnp.zeros(legal.shape), jnp.arange(chances.shape[-1]))
    return expected


class CellJudge(SubgoalJudge[State]):
    """Every position is one more step of the model that infers cells, which the co-players' networks are told."""

    def own_told(self, trace: Trace) -> Array | None:
        """See `SubgoalJudge.own_told`: nothing."""
        del trace
        return None

    def told(self, asked: Question[State, Trace]) -> Array:
        """See `Judgement.told`."""
        return asked.memory.goal.astype(jnp.int32)

    def _step(
        self, minds: Minds, asked: Question[State, Trace], sight: tuple[Array, Array]
    ) -> tuple[Trace, dict[str, Array]]:
        model, (state, seat, legal, trace, _) = minds.subgoals, asked
        assert isinstance(model, CellModel)
        view = self.game.view_of(state, seat, sight, legal)
        before = jax.tree.map(lambda leaf: leaf[:, None], trace.memory)
        logits, memory = model.infer(ModelInputs(view[:, None], state.last_action, seat[:, None]), before)
        chances = jax.nn.softmax(logits)
        if self.silent:
            cell = jnp.full(chances.shape[:-1], UNTOLD)
        elif self.draws:
            share = jax.vmap(lambda seed: jax.random.uniform(jax.random.PRNGKey(seed), chances.shape[1:2]))(trace.seed)
            cell = drawn_cell(chances, share)
        else:
            cell = jnp.argmax(chances, axis=-1)
        after = Trace(jax.tree.map(lambda leaf: leaf[:, 0], memory), cell.astype(jnp.int16), trace.seed)
        return after, {"infer_cells": chances.reshape(len(chances), -1)}


def drawn_cell(chances: Array, share: Array) -> Array:
    """The first cell at which the summed chances [..., cells] exceed a share [...] of all: [...] int32."""
    summed = jnp.cumsum(chances, axis=-1)
    passed = summed > (share * summed[..., -1])[..., None]
    return jnp.argmax(passed, axis=-1).astype(jnp.int32)
