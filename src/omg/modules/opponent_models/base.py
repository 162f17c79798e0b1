"""What every opponent model provides: features about the other players, for the seats that have a model.

A model is used in two ways that give the same features: `infer` step by step while acting, `unroll` over whole played
sequences while learning. Letters in shapes: B episodes, T time slots, m seats that have a model, A seats of the game,
O what one seat sees (its observation, or the state), U actions, F features, D features of a subgoal, W width of a
recurrent state.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.maps import MapShape
from omg.modules.told import Expectation
from omg.registry.keys import Keys, KeysT, section_in
from omg.types import PyTree


class TellsCells(Protocol):
    """A game's cells, as a model uses them: `omg.envs.places.SeatCells`."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def rounds(self) -> int:
        """Of a game; 1: it is not played in rounds."""

    @property
    def cells(self) -> int:
        """How many there are, row by row."""

    def standing(self, views: Array, seats: int) -> Array:
        """Views [..., O] -> the cells on which everybody stands, [..., seats]."""

    def landing(self, cells: Array, actions: Array) -> Array:
        """Where actions lead from cells, both [...]: [...]."""

    def round_number(self, views: Array) -> Array:
        """Views [..., O] -> [...], from 0."""


class ModelSizes(NamedTuple):
    """All a model's shapes depend on; a constant of the compiled program."""

    seen_dim: int
    """Width of what a seat sees: its observation, or the state with `obs_is_state`."""
    obs_dim: int
    """Width of a seat's observation, which is what LIAM reconstructs of the others."""
    n_actions: int
    n_agents: int
    feature_dim: int
    """Width of the features (the subgoal of `omg_am`)."""
    hidden_dim: int
    """Width of the model's recurrent state."""
    inference: str = "cvae"
    """`omg_am`: a `cvae` or an `mlp`, or `cells`."""
    reconstruct: str = "embedding"
    """`omg_am`: what its decoder reconstructs, `embedding` or `input`."""
    actions: str = "each"
    """`omg_am`: what it reads of the others' last actions, `each`, `counts` or `none`."""
    residual: bool = False
    """`omg_am`: whether what is inferred is added to the prior's encoding of the present view."""
    subgoal_feature: str = "code"
    """`omg_am`: how the agent is shown a subgoal, as its `code`, as the `view` it stands for, or `both`."""
    others_dim: int | None = None
    """`omg_am`: width of what subgoals stand for, where that is what the others do; None: views, `seen_dim`."""
    others_places: bool = False
    """`omg_am`: whether that is where the others are, three numbers each (`subgoal_of: places`)."""
    map_shape: MapShape | None = None
    """`omg_am`: the binary map that views begin with, to be read by convolutions; None: all are plain numbers."""
    subgoals: int = 1
    """`omg_am`: subgoals that are inferred side by side, each `feature_dim` wide."""
    horizon: int = 5
    """`omg_am`: how many steps ahead a cell is that is inferred."""
    naive_feature: str = "embedding"
    """`base_am`: whether its feature is the `embedding` or the `probabilities` of the others' actions."""
    normalise: bool = False
    """`base_am`, `liam_am`, `meliba_am`: whether views are brought to mean 0 and deviation 1."""
    partners: int = 0
    """`identity_am`: number of different pool members."""
    cells: TellsCells | None = None
    """`recall_am`: how views tell on which cells everybody is."""
    own: tuple[Keys, ...] = ()
    """The sections of keys that its traits list."""

    def section(self, kind: type[KeysT]) -> KeysT:
        """The model's own settings of one kind, of those that its traits list."""
        return section_in(self.own, kind)


class ModelInputs(NamedTuple):
    """What a model may read, at one step or, with a time axis, at all steps."""

    seen: Array
    """[..., m, O]."""
    last_actions: Array
    """[..., A] integers, -1 before the first step."""
    seats: Array
    """Integers, broadcastable to [..., m]."""
    players: Array | None = None
    """[..., A] integers, the pool member in every seat (-1: the learning algorithm); None unless it is told."""
    concealed: Array | None = None
    """[..., m, A] truth values, whose last actions a seat is not to see; None: it sees all. Only for `omg_am`."""


class OpponentModel(eqx.Module):
    """A network, i.e. a pytree whose leaves are all float arrays, built as `Class(sizes, key=key)`."""

    sizes: ModelSizes = eqx.field(static=True)

    def __init__(self, sizes: ModelSizes, *, key: Array):
        self.sizes = sizes

    @property
    @abstractmethod
    def feature_dim(self) -> int:
        """Width F of the features."""

    @property
    def shown_dim(self) -> int:
        """Width of the features as the agent reads them."""
        return self.feature_dim

    def shown(self, features: Array) -> Array:
        """Features [..., F], inferred or tried, as the agent reads them, [..., `shown_dim`]; here as they are."""
        return features

    @abstractmethod
    def initial(self, batch: int, seats: int) -> PyTree:
        """Memory before the first step; every leaf has the leading axes [B, m]."""

    @abstractmethod
    def infer(self, inputs: ModelInputs, memory: PyTree, key: Array | None) -> tuple[Array, PyTree, dict[str, Array]]:
        """One step.

        Args:
            inputs: Of one step, [B, m, ...].
            memory: From `initial` or the call before.
            key: Randomness of models that sample; None: their mean.

        Returns:
            Features [B, m, F], the new memory, and what is to be stored with the step (name -> [B, m, ...]).
        """

    @abstractmethod
    def unroll(self, inputs: ModelInputs) -> PyTree:
        """The whole sequence at once: inputs [B, T, m, ...] -> the model's own pytree, [B, T, m, ...]."""

    @abstractmethod
    def features(self, inference: PyTree, key: Array | None) -> Array:
        """Features [B, T, m, F] of what `unroll` returned; drawn with a key, where the model draws, means without.

        They must be detached: the loss of the agent never trains the model.
        """

    def expects(self, features: Array) -> tuple[Expectation, ...]:
        """What features [..., m, F] say about the others, for people to look at; here nothing that can be shown."""
        return ()


class ModelTargets(NamedTuple):
    """What the others really saw and did, known after the episode."""

    obs: Array
    """[B, T, A, O] observations of all seats, with `stores_others`; else of the learning seats alone."""
    actions: Array
    """[B, T, A] integers."""
    seats: Array
    """[B, m]."""


class ActionTargets(NamedTuple):
    """What the others really did, known after the episode."""

    actions: Array
    """[B, T, A] integers."""
    seats: Array
    """[B, m]."""


class SupervisedModel(OpponentModel):
    """A model that learns by a loss of its own from what was played; `omg_am` needs the learner's selection besides."""

    targets: ClassVar[type[NamedTuple]]
    """A NamedTuple class whose fields name what of the played episodes the loss is given: any of `obs`, `avail`,
    `actions`, `reward` and `terminated` (of the T steps, as in an `EpisodeBatch`; the first two of all seats with
    `stores_others`, else of the learning seats alone), `players` [B, A], and `seats` [B, m], the seats that learn."""

    def counting(self, inputs: ModelInputs, targets: PyTree, viewed: Array, mask: Array) -> Self:
        """The model before it learns from these episodes, with what it counts rather than learns; here as it is.

        Args:
            inputs: Of the T+1 slots, as for `unroll`.
            targets: As for `loss`.
            viewed: [B, T+1] of ones where somebody saw something.
            mask: As for `loss`.
        """
        return self

    @abstractmethod
    def loss(self, inference: PyTree, targets: PyTree, mask: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        """What the model learns from.

        Args:
            inference: From `unroll`, cut to the T steps that were played.
            targets: Of those steps, as the class attribute `targets` declares them.
            mask: [B, T] of zeros and ones.
            key: Randomness of models that draw while they learn.

        Returns:
            The loss to be lowered, and metrics by name; float32 scalars.
        """


def own_action(last_actions: Array, seats: Array) -> Array:
    """Each seat's own entry of the joint action: [..., A] and seats broadcastable to [..., m] -> [..., m]."""
    seats = jnp.broadcast_to(seats, (*last_actions.shape[:-1], seats.shape[-1]))
    return jnp.take_along_axis(last_actions, seats, axis=-1)


def others_one_hot(actions: Array, seats: Array, n_actions: int) -> Array:
    """The joint action as ones and zeros, with a seat's own entry zeroed.

    Args:
        actions: [..., A] integers; negative ones give zeros.
        seats: Integers, broadcastable to [..., m].
        n_actions: U.

    Returns:
        [..., m, A * U] float32.
    """
    n_agents = actions.shape[-1]
    joint = jax.nn.one_hot(actions, n_actions)[..., None, :, :]
    other = jnp.arange(n_agents) != seats[..., None]
    return (joint * other[..., None]).reshape(*actions.shape[:-1], seats.shape[-1], n_agents * n_actions)


def others_of(values: Array, seats: Array) -> Array:
    """The others' columns in the order in which they follow the seat round the table.

    Args:
        values: [B, T, A, ...].
        seats: [B, m] integers.

    Returns:
        [B, T, m, A-1, ...].
    """
    n_agents = values.shape[2]
    index = (seats[..., None] + jnp.arange(1, n_agents)) % n_agents
    flat = index.reshape(index.shape[0], 1, -1, *(1,) * (values.ndim - 3))
    taken = jnp.take_along_axis(values, flat, axis=2)
    return taken.reshape(*values.shape[:2], seats.shape[1], n_agents - 1, *values.shape[3:])


def action_loss(logits: Array, actions: Array, mask: Array) -> tuple[Array, Array]:
    """Cross-entropy and accuracy of predicted actions.

    Args:
        logits: [B, T, m, A-1, U].
        actions: [B, T, m, A-1] integers.
        mask: [B, T] of zeros and ones.

    Returns:
        Both as means over the masked steps, seats and others.
    """
    log_probabilities = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_probabilities, actions[..., None], axis=-1)[..., 0]
    correct = (jnp.argmax(logits, axis=-1) == actions).astype(jnp.float32)
    return -mean_over(taken, mask), mean_over(correct, mask)


def mean_over(values: Array, mask: Array) -> Array:
    """Mean of values [B, T, ...] over the masked steps [B, T] and all further axes; 0 when nothing is masked in."""
    wide = mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))
    further = values.size // mask.size
    return (values * wide).sum() / jnp.maximum(mask.sum() * further, 1.0)


def sample(mean: Array, log_var: Array, key: Array) -> Array:
    """One draw each, differentiable by mean and log_var: [..., D] -> [..., D]."""
    return mean + jnp.exp(0.5 * log_var) * jax.random.normal(key, mean.shape)


def kl_to_standard(mean: Array, log_var: Array) -> Array:
    """KL(N(mean, var) || N(0, 1)) summed over the last axis: [..., D] -> [...]."""
    return 0.5 * (mean**2 + jnp.exp(log_var) - 1.0 - log_var).sum(axis=-1)


def kl_between(mean: Array, log_var: Array, other_mean: Array, other_log_var: Array) -> Array:
    """KL(N(mean, var) || N(other_mean, other_var)) summed over the last axis: [..., D] -> [...]."""
    spread = jnp.exp(log_var - other_log_var) + (mean - other_mean) ** 2 * jnp.exp(-other_log_var)
    return 0.5 * (spread - 1.0 + other_log_var - log_var).sum(axis=-1)
