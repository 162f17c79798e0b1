"""`--to onnx`: one step of an agent as a graph that any ONNX runtime runs, in a robot or a web page."""

from __future__ import annotations

from typing import Any

import numpy as np

from omg.components.files import name_leaves
from omg.errors import UserError
from omg.exchange.inputs import ILLEGAL, Interface

_OPSET = 17
_IR_VERSION = 8
"""Old enough for runtimes of 2022."""


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: Any, face: Interface, weights: dict[str, np.ndarray]) -> None:
        self.onnx = onnx
        self.face = face
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, kind: str, *inputs: str, outputs: tuple[str, ...] = (), **settings: Any) -> str:
        """Adds a node; returns the name of its first output."""
        names = outputs or (f"{kind.lower()}_{len(self.nodes)}",)
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), list(names), **settings))
        return names[0]

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def linear(self, x: str, layer: str) -> str:
        """A layer; where every seat has a network, that of the row's seat."""
        weight = self.constant(f"{layer}.weight", self.weights[f"{layer}.weight"])
        bias = self.constant(f"{layer}.bias", self.weights[f"{layer}.bias"])
        if self.face.kind != "idv_rnn":
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
        return self.node("Concat", *parts, axis=-1)

    def recurrent(self, x: str, prefix: str) -> str:
        """The recurrent unit; writes `hidden_out`."""
        gates = [
            [self.node("Split", self.linear(given, f"{prefix}{layer}"), outputs=names, axis=-1), *names[1:]]
            for given, layer, names in (
                (x, "input_gates", ("in_reset", "in_update", "in_new")),
                ("hidden", "hidden_gates", ("hidden_reset", "hidden_update", "hidden_new")),
            )
        ]
        reset, update = (self.node("Sigmoid", self.node("Add", gates[0][k], gates[1][k])) for k in (0, 1))
        new = self.node("Tanh", self.node("Add", gates[0][2], self.node("Mul", reset, gates[1][2])))
        return self.node("Add", new, self.node("Mul", update, self.node("Sub", "hidden", new)), outputs=("hidden_out",))

    def values(self, x: str) -> None:
        """Writes `values`, and `hidden_out` if there is memory."""
        kind = self.face.kind
        prefix = "seats." if kind == "idv_rnn" else ""
        x = self.node("Relu", self.linear(x, f"{prefix}fc1"))
        if self.face.recurrent:
            said = self.linear(self.recurrent(x, prefix), f"{prefix}fc2")
        else:
            x = self.node("Relu", self.linear(x, "fc2"))
            said = self.linear(x, "fc3" if kind == "mlp" else "advantage")
        if kind == "dueling":
            mean = self.node("ReduceMean", said, axes=[-1], keepdims=1)
            said = self.node("Add", self.linear(x, "value"), self.node("Sub", said, mean))
        self.node("Identity", said, outputs=("values",))

    def action(self) -> None:
        """Writes `action`."""
        illegal = self.constant("illegal", np.float32(ILLEGAL))
        legal = self.node("Where", "avail", "values", illegal)
        self.node("ArgMax", legal, outputs=("action",), axis=-1, keepdims=0)


def onnx_bytes(face: Interface, network: Any) -> bytes:
    """The file; its inputs and outputs are those of `omg.exchange.inputs`.

    Raises:
        UserError: the package `onnx` is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise UserError("--to onnx: needs the package onnx. Install it with: pip install 'omg-marl[onnx]'.") from None
    weights = {name: np.asarray(leaf, np.float32) for name, leaf in name_leaves(network).items()}
    graph = _Graph(onnx, face, weights)
    graph.values(graph.inputs())
    graph.action()
    kinds, tensor = onnx.TensorProto, onnx.helper.make_tensor_value_info
    others = face.n_agents * face.n_actions
    inputs = [
        tensor(name, kind, ["rows", *width])
        for name, used, kind, width in (
            ("obs", True, kinds.FLOAT, [face.obs_dim]),
            ("last_action", face.use_last_action, kinds.FLOAT, [face.n_actions]),
            ("others_last_actions", face.use_others, kinds.FLOAT, [others]),
            ("seat", face.reads_seat, kinds.INT64, []),
            ("hidden", face.recurrent, kinds.FLOAT, [face.hidden_dim]),
            ("avail", True, kinds.BOOL, [face.n_actions]),
        )
        if used
    ]
    outputs = [tensor("values", kinds.FLOAT, ["rows", face.n_actions]), tensor("action", kinds.INT64, ["rows"])]
    if face.recurrent:
        outputs.append(tensor("hidden_out", kinds.FLOAT, ["rows", face.hidden_dim]))
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()]
    made = onnx.helper.make_graph(graph.nodes, "agent", inputs, outputs, stored)
    model = onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], producer_name="omg", ir_version=_IR_VERSION
    )
    model.doc_string = face.about
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
