"""Which array of our networks is which tensor of PyMARL's and EPyMARL's modules.

A layer's weight is [in, out] here and [out, in] in PyTorch; the recurrent unit's gates stand in the same order (reset,
update, new) with two biases in both, so that nothing is lost either way. Tensors are listed in the order in which the
modules register them, which is the order of their optimiser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from omg.components.files import name_leaves
from omg.errors import UserError
from omg.modules.agents.conv import ConvAgent
from omg.modules.agents.dueling import DuelingAgent
from omg.modules.agents.individual import IndividualRNNAgent
from omg.modules.agents.mlp import MLPAgent
from omg.modules.agents.rnn import RNNAgent
from omg.modules.critics.coma import COMACritic
from omg.modules.critics.value import FeedForwardCritic
from omg.modules.mixers.qmix import Perceptron, QMixer
from omg.modules.mixers.qtran import QTranMixer
from omg.modules.mixers.vdn import VDNMixer
from omg.types import PyTree

StateDict: TypeAlias = Mapping[str, np.ndarray]
"""Tensors by PyTorch's names, in the order in which its modules register them."""


@runtime_checkable
class HasMixer(Protocol):
    """The state of a learner that may have a mixer."""

    @property
    def mixer(self) -> object:
        """None without one."""
        ...


@runtime_checkable
class HasCritic(Protocol):
    """The state of a learner that has a critic."""

    @property
    def critic(self) -> object:
        """The network."""
        ...


class Link(NamedTuple):
    """An array of ours and a tensor of theirs."""

    ours: str
    """Path in our module."""
    theirs: str
    """Name in the `state_dict`."""
    seat: int | None = None
    """Which row of our array it is, where all seats' networks are one array."""


def linear(ours: str, theirs: str) -> list[Link]:
    """A layer."""
    return [Link(f"{ours}.{part}", f"{theirs}.{part}") for part in ("weight", "bias")]


def recurrent(theirs: str = "rnn") -> list[Link]:
    """A recurrent unit, PyTorch's `GRUCell`."""
    parts = (("input_gates", "ih"), ("hidden_gates", "hh"))
    return [Link(f"{ours}.{part}", f"{theirs}.{part}_{end}") for part in ("weight", "bias") for ours, end in parts]


_RNN = [*linear("fc1", "fc1"), *recurrent(), *linear("fc2", "fc2")]
_MLP = [*linear("fc1", "fc1"), *linear("fc2", "rnn"), *linear("fc3", "fc2")]
"""EPyMARL's agent with `use_rnn: False` keeps the name `rnn` for the layer in the middle."""
_DUELING = [link for name in ("fc1", "fc2", "value", "advantage") for link in linear(name, name)]


def agent_links(agent: object) -> list[Link] | None:
    """Of an agent network (arrays or shapes); None where there is no such module elsewhere."""
    if isinstance(agent, RNNAgent):
        return _RNN
    if isinstance(agent, IndividualRNNAgent):
        return [
            Link(f"seats.{link.ours}", f"agents.{seat}.{link.theirs}", seat)
            for seat in range(agent.sizes.n_agents)
            for link in _RNN
        ]
    if isinstance(agent, MLPAgent) and not isinstance(agent, ConvAgent):
        return _MLP
    return _DUELING if isinstance(agent, DuelingAgent) else None


def mixer_links(mixer: object) -> list[Link] | None:
    """Of a mixer; none for a sum."""
    if isinstance(mixer, VDNMixer):
        return []
    if isinstance(mixer, QMixer):
        return [
            *_perceptron(mixer.hyper_w1, "hyper_w1", "hyper_w_1"),
            *_perceptron(mixer.hyper_w2, "hyper_w2", "hyper_w_final"),
            *linear("hyper_b1", "hyper_b_1"),
            *_perceptron(mixer.value, "value", "V"),
        ]
    if isinstance(mixer, QTranMixer):
        return [
            *_perceptron(mixer.joint, "joint", "Q"),
            *_perceptron(mixer.value, "value", "V"),
            *linear("encode_in", "action_encoding.0"),
            *linear("encode_out", "action_encoding.2"),
        ]
    return None


def critic_links(critic: object) -> list[Link] | None:
    """Of a critic: COMA's, or EPyMARL's feed-forward critics of the state (`cv_critic`) and of a view (`ac_critic`)."""
    known: dict[type, str] = {COMACritic: "actions", FeedForwardCritic: "value"}
    last = known.get(type(critic))
    return None if last is None else [*linear("fc1", "fc1"), *linear("fc2", "fc2"), *linear(last, "fc3")]


def _perceptron(network: Perceptron, ours: str, theirs: str) -> list[Link]:
    """Layers with ReLU between them: in PyTorch a bare layer, or a `Sequential` that counts the ReLUs too."""
    count = len(network.layers)
    names = [theirs] if count == 1 else [f"{theirs}.{2 * index}" for index in range(count)]
    return [link for index, name in enumerate(names) for link in linear(f"{ours}.layers.{index}", name)]


def to_theirs(links: Sequence[Link], arrays: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Tensors by PyTorch's names, from our arrays by path."""
    found = {}
    for link in links:
        array = np.asarray(arrays[link.ours], np.float32)
        found[link.theirs] = np.ascontiguousarray((array if link.seat is None else array[link.seat]).T)
    return found


def to_ours(links: Sequence[Link], shapes: PyTree, tensors: StateDict, where: str, hint: str) -> dict[str, np.ndarray]:
    """Our arrays by path, from tensors by PyTorch's names.

    Args:
        links: Which is which.
        shapes: Our module, arrays or shapes.
        tensors: The `state_dict`.
        where: The file, for messages.
        hint: What a message ends with.

    Raises:
        UserError: a tensor is missing, has another shape, is not finite or is left over.
    """
    wanted = name_leaves(shapes)
    found: dict[str, np.ndarray] = {}
    for link in links:
        shape = wanted[link.ours].shape if link.seat is None else wanted[link.ours].shape[1:]
        tensor = tensors.get(link.theirs)
        if tensor is None:
            raise UserError(f"{where}: there is no tensor '{link.theirs}' of shape {shape[::-1]} in it. {hint}")
        if tensor.shape != shape[::-1]:
            raise UserError(
                f"{where}: '{link.theirs}' has shape {tensor.shape}, expected {shape[::-1]} with these settings. {hint}"
            )
        check_finite(where, link.theirs, tensor)
        array = tensor.astype(np.float32).T
        if link.seat is None:
            found[link.ours] = array
        else:
            found.setdefault(link.ours, np.zeros(wanted[link.ours].shape, np.float32))[link.seat] = array
    unknown = sorted(set(tensors) - {link.theirs for link in links})
    if unknown:
        raise UserError(f"{where}: it holds '{unknown[0]}', which the network of these settings does not have. {hint}")
    return found


def check_finite(where: str, name: str, tensor: np.ndarray) -> None:
    """Refuses a tensor with infinite numbers or none at all in it.

    Raises:
        UserError: there are some.
    """
    if not np.isfinite(tensor).all():
        raise UserError(f"{where}: '{name}' holds numbers that are not finite.")
