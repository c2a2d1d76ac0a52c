"""Conversion of a linear model to an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

OPSET, IR_VERSION = 17, 9
"""Versions old enough for all runtimes of recent years."""


def graph_of(
    weights: npt.NDArray[Any],
    intercept: npt.NDArray[Any],
    classes: npt.NDArray[Any] | None,
    probabilities: bool,
    ranges: npt.NDArray[Any] | None = None,
    span: npt.NDArray[Any] | None = None,
) -> bytes:
    """Return the graph of X @ ``weights`` (columns, outputs) + ``intercept``: numbers, or a score for each class.

    ``ranges`` (2, columns) limit the values of X, and ``span`` (2,) limits the numbers.
    """
    import onnx
    from onnx import helper, numpy_helper

    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    columns, width = weights.shape
    last = "value" if classes is None else "scores"
    constants = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(intercept, "intercept")]
    nodes: list[Any] = []

    def limit(name: str, limits: npt.NDArray[Any] | None, out: str) -> str:
        """Add the nodes that limit a tensor, if there are limits; return the name of the result."""
        if limits is None:
            return name
        for operator, values, made in (("Max", limits[0], f"{name}_raised"), ("Min", limits[1], out)):
            constants.append(numpy_helper.from_array(values.reshape(-1), f"{made}_limit"))
            nodes.append(helper.make_node(operator, [name, f"{made}_limit"], [made]))
            name = made
        return name

    rows_in = limit("X", ranges, "limited")
    sums = last if span is None else "sums"
    nodes.append(helper.make_node("MatMul", [rows_in, "weights"], ["products"]))
    nodes.append(helper.make_node("Add", ["products", "intercept"], [sums]))
    limit(sums, span, last)
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
