"""HOP+: what each co-player is heading for is inferred from the history, and inferred anew in every position of a tree.

A co-player's goal is a subgoal, a vector in the space of the prior (`omg.modules.opponent_models`). The focal player's
model reads the view of every step and everybody's last actions and gives a distribution for each of its co-players.
Their networks are told the subgoal of that co-player, the focal player's own network is told all of them.

A search starts each tree with the memory that the model had before the present step. Every position that enters the
tree is then one more step of the model, on from the position before it: what the others are expected to do changes
with what has happened on the way there. Each tree has one draw of noise for all of its positions, so that it is about
one guess of what the others want, and trees differ from each other as goals sampled from a belief do.

Letters in shapes: N games, f seats that are planned for, K trees, B rows (trees, or seats of games), J co-players,
D features of a subgoal, W width of the model's recurrent state; `embedded`: of an embedded view.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.envs.grid.state import State
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import EMBEDDING, SubgoalMemory
from omg.modules.planning import CoPlayersNetwork
from omg.modules.told import Expectation, ExpectedViews, Whose
from omg.planning.inference import ActionInference, InferenceSettings, Inferred, Moment
from omg.planning.minds import Minds, SubgoalJudge, Trace


class SubgoalFollowing(ActionInference[State]):
    """Inferred subgoals (`Inference`); every step of an episode is learned from, and there are no achievements."""

    infers_subgoals: ClassVar[bool] = True
    turns = False
    """What would have been inferred from a turned history is another inference."""

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        super().__init__(game, settings)
        assert settings.subgoals is not None
        self.model_sizes = settings.subgoals
        self.goal_dim = settings.subgoals.feature_dim
        self.own_goal_dim = settings.subgoals.feature_dim * settings.subgoals.subgoals

    def nothing(self, *lead: int) -> Array:
        """What is known of all co-players before anything is inferred, [*lead, J * D]."""
        return jnp.zeros((*lead, self.own_goal_dim))

    def initial(self, games: int, seats: int) -> SubgoalMemory:
        """See `Inference.initial`: zeros, [N, f, W] and [N, f, embedded]."""
        assert self.model_sizes is not None
        return SubgoalMemory(
            jnp.zeros((games, seats, self.model_sizes.hidden_dim)), jnp.zeros((games, seats, EMBEDDING))
        )

    def infer(self, minds: Minds, outset: Array, moment: Moment[State], memory: SubgoalMemory, key: Array) -> Inferred:
        """See `Inference.infer`; records what `SubgoalJudge.follow` says, [N, f, ...] each."""
        del outset
        games, seats = moment.seats.shape
        begins = (moment.last_actions[:, 0] < 0)[:, None, None]
        before = jax.tree.map(lambda leaf: jnp.where(begins, jnp.zeros_like(leaf), leaf), memory)
        own_legal = jnp.take_along_axis(self.game.legal(moment.state), moment.seats[..., None], axis=1)
        rows, legal = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), (before, own_legal)
        )
        state = jax.tree.map(lambda leaf: jnp.tile(leaf, (seats, *(1,) * (leaf.ndim - 1))), moment.state)
        nothing = Trace(rows, self.nothing(seats * games), jnp.zeros(seats * games, jnp.uint32))
        trace, record = self.judge(minds, trees=0).follow(state, moment.seats.T.reshape(-1), legal, nothing)

        def by_game(leaf: Array) -> Array:
            return jnp.swapaxes(leaf.reshape(seats, games, *leaf.shape[1:]), 0, 1)

        return Inferred(jax.tree.map(by_game, trace.memory), self._trees(before, key), jax.tree.map(by_game, record))

    def _trees(self, before: SubgoalMemory, key: Array) -> Trace:
        """What the K trees of each seat start from, leaves [N, f, K, ...]; memory [N, f, ...]."""
        samples = self.settings.samples
        if self.settings.features == "shuffled":
            before = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), before)
        shape = (*before.hidden.shape[:2], samples)

        def everywhere(leaf: Array) -> Array:
            return jnp.broadcast_to(leaf[:, :, None], (*shape, leaf.shape[-1]))

        return Trace(jax.tree.map(everywhere, before), self.nothing(*shape), self.seeds(key, *shape[:2]))

    def seeds(self, key: Array, *lead: int) -> Array:
        """Of the noise of each decision's trees, [*lead, K] uint32; key is consumed."""
        return jax.random.bits(key, (*lead, self.settings.samples), jnp.uint32)

    def judge(self, minds: Minds, trees: int) -> SubgoalJudge[State]:
        """See `Inference.judge`."""
        silent = self.settings.features == "zero"
        return SubgoalJudge(self.game, minds, draws=self.settings.draws, silent=silent, trees=trees)

    def expects(self, records: dict[str, Array], prior: Prior | None) -> tuple[Expectation, ...]:
        """See `Inference.expects`: the views that the subgoals stand for."""
        if prior is None:
            return ()
        inferred = records["infer_mu"]
        subgoals = inferred.reshape(*inferred.shape[:-1], -1, self.goal_dim)
        return (ExpectedViews(prior.decode(subgoals), Whose.CO_PLAYERS, round_table=False),)

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: pi(a | s, g) for the mean of the inferred subgoals."""
        del state
        goal = record["infer_mu"].reshape(*legal.shape[:2], -1)
        goal = jnp.zeros_like(goal) if self.settings.features == "zero" else goal
        return legal_softmax(others(*sight, goal), legal)
