"""The networks of a planning player, and how it looks at positions with them (`search.Judge`).

A judge asks, for every position that enters a tree, the focal player's own network what it would do and how well it
will do; and for every position that gets a branch, the co-players' network what they do there. Kinds of judges differ
in what networks are told of the co-players: nothing (`Judgement`), the goal that each was given (`GoalJudge`), or the
subgoal that is inferred anew in every position (`SubgoalJudge`).

Most positions of a tree never get a branch, and nobody asks what the others would do there; and nobody looks behind the
end of a game, where many simulations lead. So the trees that do ask are gathered, and the networks run on parts of the
batch until all have an answer. On a GPU, where loops cost more than products, all trees are answered at once.

Letters in shapes: P sets of networks, J co-players in the order of their seats, B trees, b some of them, U actions,
G goals, D features of a subgoal, W width of the model's recurrent state; `embedded`: of an embedded view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import random_legal
from omg.envs.grid import GoalSet, GridGame
from omg.envs.grid.state import State
from omg.modules.opponent_models.base import ModelInputs, ModelSizes
from omg.modules.opponent_models.inferring import Inferring, new_inferring
from omg.modules.opponent_models.subgoal import SubgoalMemory, SubgoalModel
from omg.modules.planning import (
    CoPlayersNetwork,
    PlanningSizes,
    PolicyValueNetwork,
    each,
    light_trunks,
    multiplies_bfloat16,
    on_cpu,
    redrawn,
    spread_trunks,
)
from omg.planning.luck import drawn_deeds
from omg.types import PyTree

SMALLEST_PART = 16
"""Rows below which a product is not faster any more: reading the weights takes all of its time."""
PARTS_ON_CPU = 8
"""Into how many parts a batch is cut on a CPU, at most."""
MANY_TREES = 64
"""Trees of each set of networks from which on a search makes them ready first. On a GPU they are spread over the board:
their matrices are read in every simulation, and for few trees that is more than nine shifted copies of the maps. On a
CPU every one of them is compiled for itself."""
MANY_LIGHT_TREES = 16
"""The same on CPUs that multiply bfloat16, where networks that are made ready are in it (`light_trunks`)."""
Memory = TypeVar("Memory")
Rows = TypeVar("Rows")
Answer = TypeVar("Answer")
Networks = TypeVar("Networks")


class Minds(eqx.Module):
    """The networks of one focal player, or of P of them with a leading axis P on every leaf."""

    own: PolicyValueNetwork
    others: CoPlayersNetwork
    """What the co-players will do, in the order of their seats."""
    subgoals: Inferring | None = None
    """Infers what the co-players are heading for, without its prior; None for players that infer no subgoals."""


def network_sizes(
    game: GridGame[State], goal_dim: int, hidden_dim: int = 512, **changes: tuple[int, ...]
) -> PlanningSizes:
    """The sizes of a game's networks; `changes` are other fields of `PlanningSizes`, e.g. `filters`."""
    view = game.map_view
    return PlanningSizes(
        view.channels, view.height, view.width, view.actions, goal_dim, hidden_dim=hidden_dim, **changes
    )


def new_minds(
    sizes: PlanningSizes, players: int, key: Array, *, own_goal_dim: int = 0, subgoals: ModelSizes | None = None
) -> Minds:
    """Fresh networks of one focal player.

    Args:
        sizes: with the width of the co-players' goals.
        players: seats A.
        key: consumed.
        own_goal_dim: width of what the focal player's own network is told of the others' goals.
        subgoals: of the model that infers them, if there is one.
    """
    own_key, others_key = jax.random.split(key)
    own = PolicyValueNetwork(replace(sizes, goal_dim=own_goal_dim), key=own_key)
    others = CoPlayersNetwork(sizes, players - 1, key=others_key)
    if subgoals is None:
        return Minds(own, others)
    model_key = jax.random.fold_in(key, 2)
    return Minds(own, others, redrawn(new_inferring(subgoals, key=model_key), model_key))


class Question(NamedTuple, Generic[State, Memory]):
    """What the networks are asked about, leaves [b, ...]."""

    state: State
    seat: Array
    """[b] int32, focal seats."""
    legal: Array
    """[b, U] bool of the focal player, or [b, J, U] of its co-players."""
    memory: Memory
    keys: Array | None = None
    """[b] random keys, where something is drawn."""


class Judgement(Generic[State, Memory]):
    """A judge (`search.Judge`) whose networks are told nothing: memory is handed on as it is, only its axes matter."""

    def __init__(self, game: GridGame[State], minds: Minds, *, trees: int = 1, parts: int | None = None) -> None:
        """Holds the game and the networks.

        Args:
            game: the rules.
            minds: leaves [P, ...], one set for each focal seat or one for all of them.
            trees: that each set of them is asked about at once; for many it is made ready first (`MANY_TREES`).
            parts: into how many parts a batch is cut; 1 for all at once; None: `PARTS_ON_CPU` there, 1 elsewhere.
        """
        self.game, self.minds = game, minds
        self.sets = len(jax.tree.leaves(minds)[0])
        self.together = not on_cpu()
        light = not self.together and multiplies_bfloat16()
        self.large = trees >= (MANY_LIGHT_TREES if light else MANY_TREES)
        if self.large:
            view = game.map_view
            if self.together:
                self.minds = each(lambda mind: spread_trunks(mind, view.height, view.width), minds)
            elif light:
                self.minds = each(lambda mind: light_trunks(mind, view.width), minds)
        self.parts = parts or (1 if self.together else PARTS_ON_CPU)

    def own(
        self, keys: Array, state: State, seat: Array, legal: Array, memory: Memory, wanted: Array
    ) -> tuple[Array, Array, Memory]:
        """See `search.Judge.own`."""
        del keys

        def look(own: PolicyValueNetwork, asked: Question[State, Memory]) -> tuple[Array, Array]:
            return own(*self.game.sight(asked.state, asked.seat))

        nothing = (jnp.zeros(legal.shape), jnp.zeros(len(seat)))
        logits, value = self.ask(look, self.minds.own, Question(state, seat, legal, memory), wanted, nothing)
        return logits, value, memory

    def others(
        self, keys: Array, state: State, seat: Array, legal: Array, memory: Memory, wanted: Array, known: Array
    ) -> Array:
        """See `search.Judge.others`: each acts by its own network."""
        draws = known.shape[1] // legal.shape[1]

        def act(others: CoPlayersNetwork, asked: Question[State, Memory]) -> Array:
            logits = others(*self.game.sight(asked.state, asked.seat), self.told(asked))
            assert asked.keys is not None
            return jax.vmap(partial(drawn_deeds, draws=draws))(asked.keys, logits, asked.legal)

        return self.ask(act, self.minds.others, Question(state, seat, legal, memory, keys), wanted, known)

    def told(self, asked: Question[State, Memory]) -> Array | None:
        """The goal that the network of each co-player is told, [b, J] integers or [b, J, D]; None for nothing."""
        del asked
        return None

    def ask(
        self,
        answer: Callable[[Networks, Question[State, Memory]], Answer],
        networks: Networks,
        asked: Question[State, Memory],
        wanted: Array,
        known: Answer,
    ) -> Answer:
        """What each set of networks says of its trees.

        Args:
            answer: a set of networks, some trees -> what it says of them.
            networks: leaves [P, ...].
            asked: leaves [B, ...], the trees of each set one after the other.
            wanted: [B] bool, see `where_wanted`.
            known: leaves [B, ...], what is said of all other trees.
        """
        rows = len(wanted) // self.sets
        size = rows if self.parts == 1 else even_part(rows, max(-(-rows // self.parts), SMALLEST_PART))

        def of_one(network: Networks, asked: Question[State, Memory], wanted: Array, known: Answer) -> Answer:
            return where_wanted(lambda rows: answer(network, rows), asked, wanted, known, size)

        return self.by_set(of_one, networks, asked, wanted, known)

    def by_set(self, function: Callable[..., Answer], networks: PyTree, *given: PyTree) -> Answer:
        """`function(network, its rows of what is given)` for each of P: leaves [B, ...] -> [B, ...]."""
        own = jax.tree.map(lambda leaf: leaf.reshape(self.sets, -1, *leaf.shape[1:]), given)
        said = each(function, networks, *own, apart=self.large, together=self.together)
        whole: Answer = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), said)
        return whole


def even_part(rows: int, size: int) -> int:
    """Rows of a part where as few parts as possible, none above `size`, are as equal as possible: 20, 16 -> 10."""
    return -(-rows // -(-rows // size))


def where_wanted(answer: Callable[[Rows], Answer], given: Rows, wanted: Array, known: Answer, size: int) -> Answer:
    """Computes an answer only for the rows that want one, a part of them at a time.

    Args:
        answer: from some rows of `given` to their answers.
        given: leaves [B, ...].
        wanted: [B] bool.
        known: leaves [B, ...], the answers of all other rows.
        size: rows of a part; the whole batch is computed at once when it is no larger.

    Returns:
        leaves [B, ...].
    """
    rows = len(wanted)
    if size >= rows:
        everywhere: Answer = jax.tree.map(
            lambda new, old: jnp.where(wanted.reshape(-1, *(1,) * (old.ndim - 1)), new, old), answer(given), known
        )
        return everywhere
    count = jnp.sum(wanted)
    # Those that want an answer first; behind the last row there is room for a whole part.
    order = jnp.pad(jnp.argsort(~wanted), (0, size), constant_values=rows)

    def step(carry: tuple[Array, Answer]) -> tuple[Array, Answer]:
        begin, known = carry
        mine = jax.lax.dynamic_slice(order, (begin,), (size,))
        found = answer(jax.tree.map(lambda leaf: leaf[jnp.minimum(mine, rows - 1)], given))
        mine = jnp.where(begin + jnp.arange(size) < count, mine, rows)
        return begin + size, jax.tree.map(lambda old, new: old.at[mine].set(new, mode="drop"), known, found)

    return jax.lax.while_loop(lambda carry: carry[0] < count, step, (jnp.int32(0), known))[1]


class GoalJudge(Judgement[State, Array]):
    """HOP: each co-player acts for the goal it was given, the memory of a tree [B, J] int16 (`beliefs.sample_goals`).

    A co-player whose goal is gone, because it or somebody else reached it, goes on with another one that exists, all of
    them alike: its network has never seen a goal that is not there.
    """

    def __init__(
        self,
        game: GridGame[State],
        goals: GoalSet[State],
        minds: Minds,
        *,
        trees: int = 1,
        parts: int | None = None,
    ) -> None:
        """Arguments as for `Judgement`, and the goals of the game."""
        super().__init__(game, minds, trees=trees, parts=parts)
        self.goals = goals

    def own(
        self, keys: Array, state: State, seat: Array, legal: Array, memory: Array, wanted: Array
    ) -> tuple[Array, Array, Array]:
        """See `search.Judge.own`."""
        return super().own(keys, state, seat, legal, renewed(self.goals, keys, state, memory), wanted)

    def told(self, asked: Question[State, Array]) -> Array:
        """See `Judgement.told`."""
        return asked.memory.astype(jnp.int32)


def renewed(goals: GoalSet[State], keys: Array, state: State, codes: Array) -> Array:
    """Goals that are gone are replaced by any that exists: keys [B], codes [B, J] -> [B, J], as given if none does."""
    exists, all_codes = goals.exists(state), goals.codes(state)
    holds = jnp.any((codes[:, :, None] == all_codes[:, None]) & exists[:, None], axis=-1)
    choices = jnp.broadcast_to(exists[:, None], (*codes.shape, goals.count))
    number = jax.vmap(random_legal)(choices, keys)
    other = jnp.take_along_axis(all_codes, number, axis=1).astype(codes.dtype)
    return jnp.where(holds | ~jnp.any(exists, axis=-1, keepdims=True), codes, other)


class Trace(NamedTuple):
    """What HOP+ knows along a branch of B trees."""

    memory: SubgoalMemory
    """Of the model, [B, W] and [B, embedded]; before a root's own step what was known before it."""
    goal: Array
    """[B, J * D], or [B, J] int16 where that is a cell: what the co-players are heading for in this position; zeros, or
    no cell, before a root's own step."""
    seed: Array
    """[B] uint32, of the tree's noise."""


class SubgoalJudge(Judgement[State, Trace]):
    """HOP+: every position is one more step of the model that infers subgoals, which all networks are told."""

    def __init__(
        self,
        game: GridGame[State],
        minds: Minds,
        *,
        draws: bool,
        silent: bool,
        trees: int = 1,
        parts: int | None = None,
    ) -> None:
        """Arguments as for `Judgement`.

        Args:
            game: the rules.
            minds: with a model that infers subgoals.
            draws: whether subgoals are drawn; otherwise means.
            silent: whether all are zeros instead.
            trees: see `Judgement`.
            parts: see `Judgement`.
        """
        super().__init__(game, minds, trees=trees, parts=parts)
        self.draws, self.silent = draws, silent

    def own(
        self, keys: Array, state: State, seat: Array, legal: Array, memory: Trace, wanted: Array
    ) -> tuple[Array, Array, Trace]:
        """See `search.Judge.own`; infers the co-players' subgoals and looks at the position with them."""
        del keys

        def look(minds: Minds, asked: Question[State, Trace]) -> tuple[Array, Array, Trace]:
            sight = self.game.sight(asked.state, asked.seat)
            trace, _ = self._step(minds, asked, sight)
            logits, value = minds.own(*sight, self.own_told(trace))
            return logits, value, trace

        known = (jnp.zeros(legal.shape), jnp.zeros(len(seat)), memory)
        return self.ask(look, self.minds, Question(state, seat, legal, memory), wanted, known)

    def own_told(self, trace: Trace) -> Array | None:
        """What the focal player's own network is told, [b, J * D]; None for nothing."""
        return trace.goal

    def told(self, asked: Question[State, Trace]) -> Array:
        """See `Judgement.told`."""
        return asked.memory.goal.reshape(*asked.legal.shape[:2], -1)

    def follow(self, state: State, seat: Array, legal: Array, memory: Trace) -> tuple[Trace, dict[str, Array]]:
        """One step of the model for B positions, seat [B] and legal [B, U] as in `own`.

        Returns:
            what is known now, and mean and log variance of the subgoals, `infer_mu` and `infer_log_var` [B, J * D].
        """

        def step(minds: Minds, asked: Question[State, Trace]) -> tuple[Trace, dict[str, Array]]:
            return self._step(minds, asked, self.game.sight(asked.state, asked.seat))

        return self.by_set(step, self.minds, Question(state, seat, legal, memory))

    def _step(
        self, minds: Minds, asked: Question[State, Trace], sight: tuple[Array, Array]
    ) -> tuple[Trace, dict[str, Array]]:
        """The same for one set of networks."""
        model, (state, seat, legal, trace, _) = minds.subgoals, asked
        assert isinstance(model, SubgoalModel)
        view = self.game.view_of(state, seat, sight, legal)
        before = jax.tree.map(lambda leaf: leaf[:, None], trace.memory)
        found = model.infer(ModelInputs(view[:, None], state.last_action, seat[:, None]), before, None)
        mean, memory, record = jax.tree.map(lambda leaf: leaf[:, 0], found)
        goal = mean
        if self.silent:
            goal = jnp.zeros_like(mean)
        elif self.draws and model.sizes.inference == "cvae":
            noise = jax.vmap(lambda seed: jax.random.normal(jax.random.PRNGKey(seed), mean.shape[1:]))(trace.seed)
            goal = mean + jnp.exp(0.5 * record["infer_log_var"]) * noise
        return Trace(memory, goal, trace.seed), record
