"""`--to onnx`: one step of an agent as a graph that any ONNX runtime runs, in a robot or a web page."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from omg.components.files import name_leaves
from omg.controllers.basic import BasicMAC
from omg.errors import UserError
from omg.exchange.inputs import ILLEGAL, Interface
from omg.exchange.models import ModelFace, reading_plainly
from omg.modules.opponent_models.subgoal import SubgoalModel

if TYPE_CHECKING:
    from onnx import NodeProto

_OPSET = 17
_IR_VERSION = 8
"""Old enough for runtimes of 2022."""
Setting: TypeAlias = int | float | list[int]
"""Of a node."""


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: ModuleType, face: Interface, weights: dict[str, np.ndarray]) -> None:
        self.onnx = onnx
        self.face = face
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.own = self.history = self.before = ""
        """Memory: the agent's recurrent state, the model's, and the view that the model saw last; empty for none."""

    def node(self, kind: str, *inputs: str, outputs: tuple[str, ...] = (), **settings: Setting) -> str:
        """Adds a node; returns the name of its first output."""
        names = outputs or (f"{kind.lower()}_{len(self.nodes)}",)
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), list(names), **settings))
        return names[0]

    def constant(self, name: str, value: np.ndarray | np.float32) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def linear(self, x: str, layer: str) -> str:
        """A layer; where every seat has a network, that of the row's seat."""
        weight = self.constant(f"{layer}.weight", self.weights[f"{layer}.weight"])
        bias = self.constant(f"{layer}.bias", self.weights[f"{layer}.bias"])
        if self.weights[f"{layer}.weight"].ndim == 2:
            return self.node("Gemm", x, weight, bias)
        row = self.constant("axis_1", np.array([1], np.int64))
        product = self.node("MatMul", self.node("Unsqueeze", x, row), self.node("Gather", weight, "seat"))
        return self.node("Add", self.node("Squeeze", product, row), self.node("Gather", bias, "seat"))

    def one_hot(self, index: str, count: int) -> str:
        depth = self.constant(f"depth_{count}", np.array([count], np.int64))
        return self.node("OneHot", index, depth, self.constant("off_on", np.array([0, 1], np.float32)), axis=-1)

    def inputs(self) -> str:
        """[N, input_dim]."""
        face, parts = self.face, ["obs"]
        if face.one_hot:
            largest = face.one_hot
            limits = [self.constant(f"limit_{value}", np.float32(value)) for value in (-largest, largest)]
            numbers = self.node("Add", self.node("Clip", self.node("Round", "obs"), *limits), limits[1])
            hot = self.one_hot(self.node("Cast", numbers, to=self.onnx.TensorProto.INT64), 2 * largest + 1)
            parts = [self.node("Flatten", hot, axis=1)]
        if face.use_last_action:
            parts.append("last_action")
        if face.use_agent_id:
            parts.append(self.one_hot("seat", face.n_agents))
        if face.use_others:
            parts.append("others_last_actions")
        if face.model is not None:
            parts.append(self.features(face.model))
        return self.node("Concat", *parts, axis=-1)

    def split(self, x: str, widths: list[int]) -> list[str]:
        """[N, sum of widths] -> [N, width] each; parts of width 0 have no name."""
        kept = [width for width in widths if width]
        names = [f"part_{len(self.nodes)}_{k}" for k in range(len(kept))]
        if len(kept) > 1:
            cuts = self.constant(f"cuts_{len(self.nodes)}", np.array(kept, np.int64))
            self.node("Split", x, cuts, outputs=tuple(names), axis=-1)
        else:
            names = [x] * len(kept)
        found = iter(names)
        return [next(found) if width else "" for width in widths]

    def recurrent(self, x: str, hidden: str, width: int, prefix: str) -> str:
        """The recurrent unit: its next state."""
        given = [self.split(self.linear(x, f"{prefix}input_gates"), [width] * 3)]
        given.append(self.split(self.linear(hidden, f"{prefix}hidden_gates"), [width] * 3))
        reset, update = (self.node("Sigmoid", self.node("Add", given[0][k], given[1][k])) for k in (0, 1))
        new = self.node("Tanh", self.node("Add", given[0][2], self.node("Mul", reset, given[1][2])))
        return self.node("Add", new, self.node("Mul", update, self.node("Sub", hidden, new)))

    def remember(self) -> None:
        """Takes `hidden` apart: the agent's and the model's own."""
        model = self.face.model
        of_model = [0, 0]
        if model is not None and model.memory_dim:
            of_model = [model.hidden_dim, model.memory_dim - model.hidden_dim]
        own = self.face.hidden_dim if self.face.recurrent else 0
        self.own, self.history, self.before = self.split("hidden", [own, *of_model])

    def features(self, model: ModelFace) -> str:
        """[N, feature_dim], what the opponent model says."""
        if model.kind == "naive":
            return self._naive(model)
        if model.kind == "liam":
            x = self.node("Relu", self.linear(self.node("Concat", "obs", "last_action", axis=-1), "model.embed"))
            self.history = self.recurrent(x, self.history, model.hidden_dim, "model.")
            return self.linear(self.history, "model.encode")
        return self._subgoal(model)

    def _naive(self, model: ModelFace) -> str:
        x = self.node("Concat", "obs", "others_last_actions", "last_action", axis=-1)
        for layer in ("model.fc1", "model.fc2"):
            x = self.node("Relu", self.linear(x, layer))
        if not model.probabilities:
            return x
        shape = self.constant("by_other", np.array([0, model.n_agents - 1, model.n_actions], np.int64))
        chances = self.node("Softmax", self.node("Reshape", self.linear(x, "model.actions"), shape), axis=-1)
        return self.node("Flatten", chances, axis=1)

    def _subgoal(self, model: ModelFace) -> str:
        centre, spread = (self.constant(name, self.weights[f"model.{name}"]) for name in ("centre", "spread"))
        seen = self.node("Div", self.node("Sub", "obs", centre), spread)
        others = [] if model.reads_others == "none" else ["others_last_actions"]
        if model.reads_others == "counts":
            shape = self.constant("by_seat", np.array([0, model.n_agents, model.n_actions], np.int64))
            seats = self.constant("axis_1", np.array([1], np.int64))
            others = [self.node("ReduceSum", self.node("Reshape", others[0], shape), seats, keepdims=0)]
        x = self.node("Concat", self.before, *others, "last_action", axis=-1)
        self.history, self.before = self.recurrent(x, self.history, model.hidden_dim, "model."), seen
        both = self.node("Concat", self.node("Relu", self.linear(seen, "model.embed")), self.history, axis=-1)
        subgoal = self.linear(both, "model.mean_head")
        if not model.residual:
            return subgoal
        for layer in ("encoder.0", "encoder.1"):
            seen = self.node("LeakyRelu", self.linear(seen, f"model.prior.{layer}"), alpha=0.01)
        return self.node("Add", subgoal, self.linear(seen, "model.prior.mean_head"))

    def values(self, x: str) -> None:
        """Writes `values`, and `hidden_out` if there is memory."""
        form = self.face.form
        prefix = "seats." if self.face.individual else ""
        x = self.node("Relu", self.linear(x, f"{prefix}fc1"))
        if self.face.recurrent:
            self.own = self.recurrent(x, self.own, self.face.hidden_dim, prefix)
            said = self.linear(self.own, f"{prefix}fc2")
        else:
            x = self.node("Relu", self.linear(x, "fc2"))
            said = self.linear(x, "fc3" if form == "feed_forward" else "advantage")
        if form == "dueling":
            mean = self.node("ReduceMean", said, axes=[-1], keepdims=1)
            said = self.node("Add", self.linear(x, "value"), self.node("Sub", said, mean))
        self.node("Identity", said, outputs=("values",))
        if self.face.memory_dim:
            kept = [part for part in (self.own, self.history, self.before) if part]
            self.node("Concat", *kept, outputs=("hidden_out",), axis=-1)

    def action(self) -> None:
        """Writes `action`."""
        illegal = self.constant("illegal", np.float32(ILLEGAL))
        legal = self.node("Where", "avail", "values", illegal)
        self.node("ArgMax", legal, outputs=("action",), axis=-1, keepdims=0)


def onnx_bytes(face: Interface, policy: BasicMAC) -> bytes:
    """The file of a player; its inputs and outputs are those of `omg.exchange.inputs`.

    Raises:
        UserError: the package `onnx` is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise UserError("--to onnx: needs the package onnx. Install it with: pip install 'omg-marl[onnx]'.") from None
    weights = {name: np.asarray(leaf, np.float32) for name, leaf in name_leaves(policy.agent).items()}
    if face.model is not None:
        of_model = name_leaves(reading_plainly(policy.opponent_model))
        weights |= {f"model.{name}": np.asarray(leaf, np.float32) for name, leaf in of_model.items()}
        if isinstance(policy.opponent_model, SubgoalModel):
            scale = policy.opponent_model.seen_statistics.scale()
            weights["model.centre"], weights["model.spread"] = (np.asarray(part) for part in scale)
    graph = _Graph(onnx, face, weights)
    graph.remember()
    graph.values(graph.inputs())
    graph.action()
    kinds, tensor = onnx.TensorProto, onnx.helper.make_tensor_value_info
    others = face.n_agents * face.n_actions
    inputs = [
        tensor(name, kind, ["rows", *width])
        for name, used, kind, width in (
            ("obs", True, kinds.FLOAT, [face.obs_dim]),
            ("last_action", face.reads_last_action, kinds.FLOAT, [face.n_actions]),
            ("others_last_actions", face.reads_others, kinds.FLOAT, [others]),
            ("seat", face.reads_seat, kinds.INT64, []),
            ("hidden", face.memory_dim > 0, kinds.FLOAT, [face.memory_dim]),
            ("avail", True, kinds.BOOL, [face.n_actions]),
        )
        if used
    ]
    outputs = [tensor("values", kinds.FLOAT, ["rows", face.n_actions]), tensor("action", kinds.INT64, ["rows"])]
    if face.memory_dim:
        outputs.append(tensor("hidden_out", kinds.FLOAT, ["rows", face.memory_dim]))
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()]
    made = onnx.helper.make_graph(graph.nodes, "agent", inputs, outputs, stored)
    model = onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], producer_name="omg", ir_version=_IR_VERSION
    )
    model.doc_string = face.about
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
