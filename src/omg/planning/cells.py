"""HOP+ whose subgoals are cells: where each co-player will be some steps ahead (`omg_inference: cells`).

Each tree has a draw of its own: every co-player's cell is the one at which the summed chances of the cells reach a
number that was drawn for the tree and holds for all its positions. The K numbers of a decision's trees lie one in each
K-th of all chances, so that few trees stand for all that is likely. As the game in the tree goes on, the chances are
inferred anew, and the cell moves no further than they do. A co-player's network is told the *way* from where it is to
its cell, so many rows and columns, as a row of its input: what it does depends on where it has to go, wherever on the
board that begins. The focal player's own network is told nothing, as in HOP: what it learns from is the search
over all draws.

Letters in shapes: as in `omg.planning.subgoals`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.envs.grid.state import State
from omg.envs.grid.view import MapView
from omg.modules.opponent_models.base import ModelInputs
from omg.modules.opponent_models.cells import CellModel
from omg.modules.opponent_models.prior import Prior
from omg.modules.planning import CoPlayersNetwork
from omg.modules.planning.networks import weigh_goal
from omg.modules.told import Expectation, mean_cells
from omg.planning.inference import InferenceSettings
from omg.planning.minds import Minds, Question, SubgoalJudge, Trace
from omg.planning.search import own_order
from omg.planning.subgoals import SubgoalFollowing

UNTOLD = -1
"""In place of a cell: the co-player's network is told nothing."""


class Ways:
    """The ways between the cells of a board, numbered by the rows and columns they go."""

    def __init__(self, view: MapView) -> None:
        """Of the board that a view shows."""
        self.view = view
        height, width = view.height, view.width
        self.count = (2 * height - 1) * (2 * width - 1)
        down, right = np.divmod(np.arange(self.count), 2 * width - 1)
        down, right = down - (height - 1), right - (width - 1)
        begin = np.maximum(-down, 0) * width + np.maximum(-right, 0)
        self.ends = begin, begin + down * width + right
        """Two cells, [ways] each, that lie so; first where it begins."""

    def between(self, here: Array, there: Array) -> Array:
        """The numbers of the ways between cells, int32; `UNTOLD` where the second is."""
        width = self.view.width
        here, to = (jnp.asarray(cell, jnp.int32) for cell in (here, there))
        down = to // width - here // width + self.view.height - 1
        right = to % width - here % width + width - 1
        return jnp.where(to >= 0, down * (2 * width - 1) + right, UNTOLD)

    def standing(self, maps: Array) -> Array:
        """The cells of the co-players on maps [M, C, height, width], [M, J] int32; 0 for who has left."""
        pictures = maps[:, 1 : self.view.players].reshape(len(maps), self.view.players - 1, -1)
        return jnp.argmax(pictures, axis=-1).astype(jnp.int32)


class CellFollowing(SubgoalFollowing[State]):
    """Inferred cells (`Inference`); every step of an episode is learned from, and there are no achievements."""

    turns = True
    """A cell is known on boards that are turned or mirrored."""

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        super().__init__(game, settings)
        self.ways = Ways(game.map_view)
        self.goal_dim = self.ways.count
        self.own_goal_dim = 0

    def nothing(self, *lead: int) -> Array:
        """See `SubgoalFollowing.nothing`: no cell for any co-player, [*lead, J] int16."""
        return jnp.full((*lead, self.game.spec.n_agents - 1), UNTOLD, jnp.int16)

    def judge(self, minds: Minds, trees: int) -> CellJudge[State]:
        """See `Inference.judge`."""
        silent = self.settings.features == "zero"
        return CellJudge(
            self.game, minds, draws=self.settings.draws, silent=silent, trees=trees, samples=self.settings.samples
        )

    def seeds(self, key: Array, *lead: int) -> Array:
        """See `SubgoalFollowing.seeds`; the last bits number the trees of a decision (`shares_of`)."""
        samples = self.settings.samples
        # Half of all numbers, so that none of a decision's goes beyond the last one.
        together = (jax.random.bits(key, lead, jnp.uint32)[..., None] >> 1) // jnp.uint32(samples) * jnp.uint32(samples)
        return together + jnp.arange(samples, dtype=jnp.uint32)

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: the sum over cells c of P(c) pi(a | s, c)."""
        del state
        chances = record["infer_cells"].reshape(*legal.shape[:2], self.game.cells)
        if self.settings.features == "zero":
            return legal_softmax(others(*sight, self.nothing(len(legal))), legal)
        return expected_actions(others, sight, legal, chances, self.ways)

    def expects(self, records: dict[str, Array], prior: Prior | None) -> tuple[Expectation, ...]:
        """See `Inference.expects`: the mean of the cells that are likely."""
        del prior
        found = records["infer_cells"]
        chances = found.reshape(*found.shape[:-1], -1, self.game.cells)
        return (mean_cells(chances, self.game.board.width),)

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`."""
        assert goal is not None
        ends = (jnp.asarray(end)[jnp.maximum(goal, 0)] for end in self.ways.ends)
        begin, end = (jnp.take_along_axis(cell_to, cells, axis=-1) for cells in ends)
        return jnp.where(goal >= 0, self.ways.between(begin, end), goal)


def expected_actions(
    others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, chances: Array, ways: Ways
) -> Array:
    """What co-players do in M positions if each is heading for cells with these chances.

    Args:
        others: a seat's network for them.
        sight: maps [M, C, height, width] and time [M].
        legal: [M, J, U] bool.
        chances: [M, J, cells].
        ways: of the board.

    Returns:
        [M, J, U].
    """
    weighed = others.trunk(*sight)[None]
    here = ways.standing(sight[0])

    def add(total: Array, cell: Array) -> tuple[Array, None]:
        # A cell at a time: all of them together would take hundreds of numbers for each cell of each position.
        told = jax.vmap(weigh_goal)(jnp.asarray(others.goal), ways.between(here, cell).T)
        logits = others.say(weighed + jnp.asarray(told))
        share = chances[..., cell][..., None]
        return total + share * legal_softmax(jnp.moveaxis(logits, 0, 1), legal), None

    expected, _ = jax.lax.scan(add, jnp.zeros(legal.shape), jnp.arange(chances.shape[-1]))
    return expected


class CellJudge(SubgoalJudge[State]):
    """Every position is one more step of the model that infers cells; co-players' networks are told the ways there."""

    def __init__(
        self, game: GridGame[State], minds: Minds, *, draws: bool, silent: bool, samples: int, trees: int = 1
    ) -> None:
        """Arguments as for `SubgoalJudge`, and the number of trees of a decision."""
        super().__init__(game, minds, draws=draws, silent=silent, trees=trees)
        self.samples = samples

    @property
    def ways(self) -> Ways:
        """Of the game's board."""
        return Ways(self.game.map_view)

    def own_told(self, trace: Trace) -> Array | None:
        """See `SubgoalJudge.own_told`: nothing."""
        del trace
        return None

    def told(self, asked: Question[State, Trace]) -> Array:
        """See `Judgement.told`: the ways to the cells."""
        players = asked.state.player
        here = jnp.take_along_axis(players, own_order(asked.seat, players.shape[1])[:, 1:], axis=1)
        return self.ways.between(here, asked.memory.goal)

    def _step(
        self, minds: Minds, asked: Question[State, Trace], sight: tuple[Array, Array]
    ) -> tuple[Trace, dict[str, Array]]:
        model, (state, seat, legal, trace, _) = minds.subgoals, asked
        assert isinstance(model, CellModel)
        view = self.game.view_of(state, seat, sight, legal)
        before = jax.tree.map(lambda leaf: leaf[:, None], trace.memory)
        logits, memory = model.infer(ModelInputs(view[:, None], state.last_action, seat[:, None]), before)
        chances = jax.nn.softmax(logits[:, 0])
        if self.silent:
            cell = jnp.full(chances.shape[:-1], UNTOLD)
        elif self.draws:
            cell = drawn_cell(chances, shares_of(trace.seed, self.samples, chances.shape[1]))
        else:
            cell = jnp.argmax(chances, axis=-1)
        after = Trace(jax.tree.map(lambda leaf: leaf[:, 0], memory), cell.astype(jnp.int16), trace.seed)
        return after, {"infer_cells": chances.reshape(len(chances), -1)}


def shares_of(seed: Array, samples: int, others: int) -> Array:
    """Which share of all chances each tree stands for, for every co-player.

    Args:
        seed: [B] uint32, of `CellFollowing.seeds`: those of a decision's trees differ by less than `samples`.
        samples: K, trees of a decision.
        others: J.

    Returns:
        [B, J], for each co-player one of a decision's in each K-th of 0 to 1, in an order of its own.
    """

    def of_tree(seed: Array) -> Array:
        together, number = jnp.divmod(seed, jnp.uint32(samples))
        begin = jax.random.randint(jax.random.PRNGKey(together), (others,), 0, samples)
        part = (begin + number.astype(jnp.int32)) % samples
        return (part + jax.random.uniform(jax.random.PRNGKey(seed), (others,))) / samples

    return jax.vmap(of_tree)(seed)


def drawn_cell(chances: Array, share: Array) -> Array:
    """The first cell at which the summed chances [..., cells] exceed a share [...] of all: [...] int32."""
    summed = jnp.cumsum(chances, axis=-1)
    passed = summed > (share * summed[..., -1])[..., None]
    return jnp.argmax(passed, axis=-1).astype(jnp.int32)
