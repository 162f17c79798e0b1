"""HOP+: what each co-player is heading for is inferred from the history, and inferred anew in every position of a tree.

A co-player's goal is a subgoal, a vector in the space of the prior (`omg.modules.opponent_models`). The focal player's
model reads the view of every step and everybody's last actions and gives a distribution for each of its co-players.
Their networks are told the subgoal of that co-player, the focal player's own network is told all of them.

A search starts each tree with the memory that the model had before the present step. Every position that enters the
tree is then one more step of the model, on from the position before it: what the others are expected to do changes
with what has happened on the way there. Each tree has one draw of noise for all of its positions, so that it is about
one guess of what the others want, and trees differ from each other as goals sampled from a belief do.

Letters in shapes: N games, f seats that are planned for, K trees, B rows (trees, or seats of games), J co-players,
D features of a subgoal, H features of the model's recurrent state, E of an embedded view.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.modules.opponent_models.base import ModelInputs
from omg.modules.opponent_models.subgoal import EMBEDDING, SubgoalMemory
from omg.modules.planning import CoPlayersNetwork, each
from omg.planning.inference import ActionInference, InferenceSettings, Inferred, Moment, where_game
from omg.planning.minds import GoalJudge, Minds, draw_actions, seen_by, view_of


class Trace(NamedTuple):
    """What is known along a branch of B trees."""

    memory: SubgoalMemory
    """Of the model, [B, H] and [B, E]; before a root's own step what was known before it."""
    goal: Array
    """[B, J * D], what the co-players are heading for in this position; zeros before a root's own step."""
    seed: Array
    """[B] uint32, of the tree's noise."""


class SubgoalJudge(GoalJudge):
    """How HOP+ looks at positions (`search.Judge`): the memory of a tree is a `Trace`."""

    def __init__(
        self,
        env: GridGame,
        settings: InferenceSettings,
        minds: Minds,
        *,
        per_seat: bool = False,
        trees: int = 1,
        parts: int | None = None,
    ) -> None:
        """Holds the game and the networks; arguments as for `GoalJudge`."""
        super().__init__(env, None, minds, per_seat=per_seat, trees=trees, parts=parts)
        self.settings = settings

    def own(self, keys: Array, state: Any, seat: Array, memory: Any, wanted: Array) -> tuple[Array, Array, Any]:
        """See `search.Judge.own`; infers the co-players' subgoals and looks at the position with them."""
        del keys

        def look(minds: Minds, given: Any) -> tuple[Array, Array, Trace]:
            state, seat, memory = given
            trace, _ = self._step(minds, state, seat, memory)
            maps, time = seen_by(self.env, state, seat)
            logits, value = minds.own(maps, time, trace.goal)
            return logits, value, trace

        known = (*self._nothing(seat), memory)
        found: tuple[Array, Array, Trace] = self._ask(look, self.minds, (state, seat, memory), wanted, known)
        return found

    def follow(self, state: Any, seat: Array, memory: Trace) -> tuple[Trace, dict[str, Array]]:
        """One step of the model for B positions, in the order [f, N].

        Returns:
            what is known now, and mean and log variance of the subgoals, `infer_mu` and `infer_log_var` [B, J * D].
        """
        found = each(self._step, self.minds, *self._by_network((state, seat, memory)))
        whole: tuple[Trace, dict[str, Array]] = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)
        return whole

    def _step(self, minds: Minds, state: Any, seat: Array, trace: Trace) -> tuple[Trace, dict[str, Array]]:
        """The same for one set of networks."""
        model, settings = minds.subgoals, self.settings
        assert model is not None
        inputs = ModelInputs(view_of(self.env, state, seat)[:, None], state.last_action, seat[:, None])
        before = jax.tree.map(lambda leaf: leaf[:, None], trace.memory)
        mean, memory, record = jax.tree.map(lambda leaf: leaf[:, 0], model.infer(inputs, before, None))
        goal = mean
        if settings.features == "zero":
            goal = jnp.zeros_like(mean)
        elif settings.draws and model.sizes.inference == "cvae":
            noise = jax.vmap(lambda seed: jax.random.normal(jax.random.PRNGKey(seed), mean.shape[1:]))(trace.seed)
            goal = mean + jnp.exp(0.5 * record["infer_log_var"]) * noise
        return Trace(memory, goal, trace.seed), record

    def _act(self, network: CoPlayersNetwork, given: Any) -> Array:
        keys, state, seat, legal, memory = given
        maps, time = seen_by(self.env, state, seat)
        goal = memory.goal.reshape(*legal.shape[:2], -1)
        return draw_actions(keys, network(maps, time, goal), legal).astype(jnp.int8)


class SubgoalFollowing(ActionInference):
    """Inferred subgoals (`Inference`); every step of an episode is learned from, and there is no prior of outcomes."""

    turns = False
    """What would have been inferred from a turned history is another inference."""

    def __init__(self, game: GridGame, settings: InferenceSettings) -> None:
        super().__init__(game, settings)
        assert settings.subgoals is not None
        self.model_sizes = settings.subgoals
        self.goal_dim = settings.subgoals.feature_dim
        self.own_goal_dim = settings.subgoals.feature_dim * settings.subgoals.subgoals

    def initial(self, games: int, seats: int) -> SubgoalMemory:
        """See `Inference.initial`: zeros, [N, f, H] and [N, f, E]."""
        assert self.model_sizes is not None
        return SubgoalMemory(
            jnp.zeros((games, seats, self.model_sizes.hidden_dim)), jnp.zeros((games, seats, EMBEDDING))
        )

    def infer(self, minds: Minds, per_seat: bool, prior: Array, moment: Moment, memory: Any, key: Array) -> Inferred:
        """See `Inference.infer`; records `infer_mu` and `infer_log_var`, [N, f, J * D] each."""
        del prior
        games, seats = moment.seats.shape
        before = jax.tree.map(lambda leaf: where_game(moment.first, jnp.zeros_like(leaf), leaf), memory)
        rows = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), before)
        state = jax.tree.map(lambda leaf: jnp.tile(leaf, (seats, *(1,) * (leaf.ndim - 1))), moment.state)
        nothing = Trace(rows, jnp.zeros((seats * games, self.own_goal_dim)), jnp.zeros(seats * games, jnp.uint32))
        trace, record = self.judge(minds, per_seat, trees=0).follow(state, moment.seats.T.reshape(-1), nothing)

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

        seed = jax.random.bits(key, shape, jnp.uint32)
        return Trace(jax.tree.map(everywhere, before), jnp.zeros((*shape, self.own_goal_dim)), seed)

    def judge(self, minds: Minds, per_seat: bool, trees: int) -> SubgoalJudge:
        """See `Inference.judge`."""
        return SubgoalJudge(self.game, self.settings, minds, per_seat=per_seat, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, seen: tuple[Array, Array], legal: Array, state: Any, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: pi(a | s, g) for the mean of the inferred subgoals."""
        del state
        goal = record["infer_mu"].reshape(*legal.shape[:2], -1)
        goal = jnp.zeros_like(goal) if self.settings.features == "zero" else goal
        return legal_softmax(others(*seen, goal), legal)
