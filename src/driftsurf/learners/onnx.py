"""Conversion of a linear model to an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

OPSET, IR_VERSION = 17, 9
"""Versions old enough for all runtimes of recent years."""


def graph_of(
    weights: npt.NDArray[Any], intercept: npt.NDArray[Any], classes: npt.NDArray[Any] | None, probabilities: bool
) -> bytes:
    """Return the graph of X @ ``weights`` (columns, outputs) + ``intercept``: numbers, or a score for each class."""
    import onnx
    from onnx import helper, numpy_helper

    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    columns, width = weights.shape
    last = "value" if classes is None else "scores"
    constants = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(intercept, "intercept")]
    nodes = [
        helper.make_node("MatMul", ["X", "weights"], ["products"]),
        helper.make_node("Add", ["products", "intercept"], [last]),
    ]
    outputs = [helper.make_tensor_value_info(last, kind, [None, width])]
    if classes is not None:
        labels = classes.astype(object) if classes.dtype.kind == "U" else classes
        constants.append(numpy_helper.from_array(labels, "classes"))
        nodes.append(helper.make_node("ArgMax", ["scores"], ["code"], axis=1, keepdims=0))
        nodes.append(helper.make_node("Gather", ["classes", "code"], ["label"]))
        if probabilities:
            nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1))
            outputs = [helper.make_tensor_value_info("probabilities", kind, [None, width])]
        outputs.insert(0, helper.make_tensor_value_info("label", constants[-1].data_type, [None]))
    rows = helper.make_tensor_value_info("X", kind, [None, columns])
    graph = helper.make_graph(nodes, "driftsurf", [rows], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="driftsurf")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
