"""Players that need no training: a belief over known partners, and the best response to whom they believe in.

Before every step the belief is updated by what the others just did. Each partner in question says how likely it would
have been to do so in their place, seeing what they saw. `bayes` multiplies by that likelihood, with a floor; `plastic`
is the update of PLASTIC (Barrett, Rosenfeld, Kraus and Stone 2017), which bounds how much one step can say:
`1 - eta * (1 - likelihood)`. Then the response to the likeliest partner acts, or a mixture of all responses.

The hypothesis is a whole team: one partner in all the other seats.

Letters in shapes: N games, A seats, m seats of this player, K partners, U actions; written out: the players of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import multinomial
from omg.controllers.base import Memory, Player, PlayerView
from omg.controllers.likelihood import FLOOR, check_likely, floored, seat_rows, squad_chances, squad_memory
from omg.controllers.team import Squad, build_squad
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.envs.base import EnvSpec

ETA = 0.1
"""PLASTIC's: the most that one step can take from a partner's belief."""


class BeliefKind(NamedTuple):
    """A method that needs no training; see `BeliefPlayer`."""

    plastic: bool
    mixture: bool
    summary: str


BELIEFS: dict[str, BeliefKind] = {
    "plastic": BeliefKind(True, False, "PLASTIC: its update, and the best response to the likeliest partner"),
    "bayes": BeliefKind(False, False, "Bayes' rule, and the best response to the likeliest partner"),
    "belief_mixture": BeliefKind(False, True, "Bayes' rule, and all best responses weighted by the belief"),
}
"""Words of `--belief` and of `evaluation.beliefs`."""


class BeliefMemory(NamedTuple):
    """What is remembered between two steps; every leaf begins with the axis of games."""

    weights: Array
    """[N, K] float32, logarithms of the belief; they need not sum to anything."""
    expected: Array
    """[N, K, A, U] float32, what each partner would do in each seat in the step that was last seen."""
    partners: tuple[Memory, ...]
    """Per kind [N, A, players, ...], what the partners would remember in each seat."""
    responses: tuple[Memory, ...]
    """Per kind [N, players, ...]. All of them go along, so that whoever takes over knows what came before."""


class BeliefPlayer(eqx.Module):
    """Believes in one of K partners and answers it; satisfies `base.Player` and `base.Likely`."""

    partners: Squad
    responses: Squad
    order: tuple[int, ...] = eqx.field(static=True)
    """[K], numbers of the partners in their squad."""
    answers: tuple[int, ...] = eqx.field(static=True)
    """[K], numbers of their responses in the squad of responses."""
    agents: int = eqx.field(static=True)
    """A."""
    actions: int = eqx.field(static=True)
    """U."""
    plastic: bool = eqx.field(static=True, default=True)
    """Whether a step counts as PLASTIC has it; otherwise by Bayes' rule."""
    mixture: bool = eqx.field(static=True, default=False)
    """Whether all responses act, weighted by the belief; otherwise that of the likeliest partner."""
    eta: float = eqx.field(static=True, default=ETA)
    floor: float = eqx.field(static=True, default=FLOOR)
    """Of Bayes' rule: the share of a step that is thought to be any legal action, whoever acts."""

    @property
    def watches_others(self) -> bool:
        """See `base.WatchesOthers`."""
        return True

    def initial_seats(self, batch: int, seats: int) -> BeliefMemory:
        """Nobody is likelier than anybody else."""
        kinds = len(self.order)
        return BeliefMemory(
            weights=jnp.zeros((batch, kinds)),
            expected=jnp.zeros((batch, kinds, self.agents, self.actions)),
            partners=_by_game(squad_memory(self.partners, batch * self.agents, 1), batch),
            responses=_swapped(squad_memory(self.responses, batch, seats)),
        )

    def act_seats(
        self, view: PlayerView, memory: BeliefMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, BeliefMemory, dict[str, Array]]:
        """See `Player.act_seats`. Draws from `chances`, with a floor of epsilon; stores the belief [N, m, K]."""
        chances, memory = self.chances(view, memory)
        belief = jax.nn.softmax(memory.weights, axis=-1)
        record = {"belief": jnp.broadcast_to(belief[:, None], (*view.seats.shape, belief.shape[-1]))}
        return multinomial(jnp.log(chances), view.avail, key, epsilon), memory, record

    def chances(self, view: PlayerView, memory: BeliefMemory) -> tuple[Array, BeliefMemory]:
        """See `Likely.chances`."""
        weights = memory.weights + self.evidence(view, memory.expected)
        weights = weights - weights.max(axis=-1, keepdims=True)
        expected, partners = self._expected(view, memory.partners)
        each, responses = squad_chances(self.responses, view, _swapped(memory.responses))
        belief = jax.nn.softmax(weights, axis=-1)
        if not self.mixture:
            belief = jax.nn.one_hot(belief.argmax(axis=-1), belief.shape[-1])
        chances = jnp.einsum("nk,knmu->nmu", belief, each[jnp.asarray(self.answers)])
        return chances, BeliefMemory(weights, expected, partners, _swapped(responses))

    def evidence(self, view: PlayerView, expected: Array) -> Array:
        """What the others' last actions say for each partner, as logarithms [N, K]; nothing before the first step.

        Args:
            view: What is known now.
            expected: [N, K, A, U], what each partner would have done in the step before.
        """
        done = jnp.maximum(view.last_actions, 0)[:, None, :, None]
        likelihood = jnp.take_along_axis(expected, done, axis=-1)[..., 0]
        factor = 1.0 - self.eta * (1.0 - likelihood) if self.plastic else likelihood
        own = (jnp.arange(self.agents)[:, None] == view.seats[:, None, :]).any(axis=-1)
        counts = ~own & (view.last_actions >= 0)
        return jnp.where(counts[:, None], jnp.log(jnp.where(counts[:, None], factor, 1.0)), 0.0).sum(axis=-1)

    def _expected(self, view: PlayerView, memories: tuple[Memory, ...]) -> tuple[Array, tuple[Memory, ...]]:
        """What each partner would do now in each seat, [N, K, A, U], and what it then remembers."""
        assert view.all_obs is not None
        assert view.all_avail is not None
        games, agents = view.all_avail.shape[:2]
        seats = jnp.broadcast_to(jnp.arange(agents, dtype=jnp.int32), (games, agents))
        everyone = seat_rows(view.all_obs, view.state, view.all_avail, seats, view.last_actions)
        said, kept = squad_chances(self.partners, everyone, _by_row(memories))
        expected = said[jnp.asarray(self.order), :, 0]
        if not self.plastic:
            expected = floored(expected, everyone.avail[:, 0], self.floor)
        return jnp.moveaxis(expected.reshape(len(self.order), games, agents, -1), 0, 1), _by_game(kept, games)


def belief_player(
    spec: EnvSpec,
    partners: Sequence[Player],
    responses: Sequence[Player],
    *,
    plastic: bool = True,
    mixture: bool = False,
    eta: float = ETA,
    floor: float = FLOOR,
) -> BeliefPlayer:
    """A player that believes in one of some partners.

    Args:
        spec: The game.
        partners: K, in question; before any evidence the first counts as the likeliest.
        responses: K, the answer to each: a trained response, a member of a pool, a script.
        plastic: See `BeliefPlayer`.
        mixture: See `BeliefPlayer`.
        eta: Of PLASTIC's update, above 0 and below 1.
        floor: Of Bayes' rule, above 0 and below 1.

    Raises:
        UserError: somebody's chances are not known, or a number is out of range.
    """
    for name, value in (("eta", eta), ("floor", floor)):
        if not 0.0 < value < 1.0:
            raise UserError(f"{name}: got {value}, allowed: above 0 and below 1.")
    for index, (partner, response) in enumerate(zip(partners, responses, strict=True)):
        check_likely(partner, f"partner {index}")
        check_likely(response, f"response to partner {index}")
    believed, order = build_squad(partners)
    answering, answers = build_squad(responses)
    return BeliefPlayer(
        believed, answering, tuple(order), tuple(answers), spec.n_agents, spec.n_actions, plastic, mixture, eta, floor
    )


def _swapped(memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """[players, N, ...] <-> [N, players, ...]."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), memories)


def _by_game(memories: tuple[Memory, ...], games: int) -> tuple[Memory, ...]:
    """[players, N * A, ...] -> [N, A, players, ...]."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(games, -1, *_rest(leaf)), memories)


def _by_row(memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """[N, A, players, ...] -> [players, N * A, ...]."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(-1, *leaf.shape[2:]), 0, 1), memories)


def _rest(leaf: Array) -> tuple[int, ...]:
    """The shape behind the rows, players in front: that of [players, N * A, ...]."""
    return (leaf.shape[0], *leaf.shape[2:])
