"""The Open Inference Protocol (V2) over REST: metadata, health and ``infer``."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from driftsurf.core.json_text import repeated_keys
from driftsurf.data.kinds import Kind
from driftsurf.data.tables import Table
from driftsurf.errors import InputError
from driftsurf.service.contract import Answer, ServedSnapshot
from driftsurf.service.http.entry import Entry
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.http.responses import Response, json_response

__all__ = ["InferRequest", "InferResponse", "ModelMetadata", "ServerMetadata", "Tensor", "infer", "metadata"]

DATATYPES: dict[Kind, str] = {"number": "FP64", "boolean": "BOOL", "date": "BYTES", "text": "BYTES"}


class Tensor(msgspec.Struct, omit_defaults=True):
    """A named tensor: a column, one value for each row, or a matrix of numbers."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class Output(msgspec.Struct):
    """A tensor that is asked for."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """Rows as tensors."""

    inputs: list[Tensor]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[Output] = []


class InferResponse(msgspec.Struct, omit_defaults=True):
    """Predictions as tensors: ``prediction``, and ``probability`` where the model has it."""

    model_name: str
    model_version: str
    outputs: list[Tensor]
    id: str = ""


class TensorMetadata(msgspec.Struct):
    """Name, type and shape of a tensor."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ServerMetadata(msgspec.Struct):
    """What the server is."""

    name: str
    version: str
    extensions: list[str]


_DECODER = msgspec.json.Decoder(InferRequest)


async def metadata(entry: Entry, request: HttpRequest) -> Response:
    """Describe the tensors of a model."""
    snapshot = entry.served.snapshot
    inputs = [TensorMetadata(one.name, DATATYPES[one.kind], [-1]) for one in snapshot.columns]
    predicted = "FP64" if snapshot.task == "regression" else _datatype(snapshot.classes)
    outputs = [TensorMetadata(name, predicted if name == "prediction" else "FP64", [-1])
               for name in _output_names(snapshot)]  # fmt: skip
    return json_response(ModelMetadata(entry.served.name, [str(snapshot.version)], "driftsurf", inputs, outputs))


def _output_names(snapshot: ServedSnapshot) -> list[str]:
    return ["prediction"] if snapshot.task == "regression" else ["prediction", "probability"]


def _datatype(classes: tuple[Any, ...]) -> str:
    if classes and all(isinstance(one, bool) for one in classes):
        return "BOOL"
    return "INT64" if classes and all(isinstance(one, int) for one in classes) else "BYTES"


async def infer(entry: Entry, request: HttpRequest) -> Response:
    """Predict rows that come as tensors; nothing of them is kept."""
    body = await request.body()
    try:
        asked = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HttpProblem("bad-input", f"the body is not an inference request: {error}") from None

    snapshot = entry.served.snapshot
    wanted = {one.name for one in asked.outputs}
    unknown = wanted.difference(_output_names(snapshot))
    if unknown:
        raise InputError(f"there is no output {min(unknown)!r}; choices: {', '.join(_output_names(snapshot))}")
    if not snapshot.columns:
        raise HttpProblem("not-yet", "the model has no columns yet; send it rows, or name them with --column")

    def work() -> Answer:
        twice = repeated_keys(body).anywhere
        if twice is not None:
            raise InputError(f"{twice!r} occurs more than once in an object of the request; pass each name once")
        return snapshot.predict(_table(entry, snapshot, asked, request.limits.rows))

    slow = len(body) > 2**18 or snapshot.slow
    answer = await entry.in_thread(work) if slow else work()
    request.rows = 0 if answer.labels is None else len(answer.labels)
    outputs = _outputs(answer, wanted)
    return json_response(InferResponse(entry.served.name, str(answer.version), outputs, asked.id))


def _table(entry: Entry, snapshot: ServedSnapshot, asked: InferRequest, most: int) -> Table:
    """Return the tensors as a table; values are checked as those of rows in JSON are."""
    columns = snapshot.columns
    values: dict[str, list[Any]] = {}
    for tensor in asked.inputs:
        if tensor.name in values:
            raise InputError(f"the input {tensor.name!r} occurs more than once; pass each once")
        flat = _flat(tensor)
        if len(tensor.shape) == 2 and tensor.shape[1] != 1:
            if tensor.shape[1] != len(columns) or len(asked.inputs) > 1:
                raise InputError(
                    f"the input {tensor.name!r} has the shape {tensor.shape}; pass one matrix with {len(columns)} "
                    "columns, or one input for each column"
                )
            values = {one.name: flat[place :: len(columns)] for place, one in enumerate(columns)}
        else:
            values[tensor.name] = flat
    lengths = {len(one) for one in values.values()}
    if len(lengths) != 1 or not max(lengths):
        raise InputError(f"the inputs must have the same number of rows, at least one; got {sorted(lengths)}")
    if max(lengths) > most:
        raise HttpProblem("too-large", f"the request has more than {most:,} rows; send several requests")
    rows = [dict(zip(values, record, strict=True)) for record in zip(*values.values(), strict=True)]
    return entry.formats.reader(snapshot, "predict", "json")(msgspec.json.encode({"rows": rows}), "fail", most).table


def _flat(tensor: Tensor) -> list[Any]:
    """Return the values of a tensor one after the other; InputError if they are not as many as its shape says."""
    if not 1 <= len(tensor.shape) <= 2 or any(size < 0 for size in tensor.shape):
        raise InputError(f"the input {tensor.name!r} has the shape {tensor.shape[:10]}; pass [rows] or [rows, columns]")
    data = tensor.data
    if data and isinstance(data[0], list):
        data = [value for row in data for value in (row if isinstance(row, list) else [row])]
    if len(data) != math.prod(tensor.shape):
        raise InputError(f"the input {tensor.name!r} has {len(data)} values, and its shape is {tensor.shape}")
    return data


def _outputs(answer: Answer, asked: set[str]) -> list[Tensor]:
    found: list[Tensor] = []
    if answer.labels is not None:
        found.append(_tensor("prediction", answer.labels))
    if answer.probabilities is not None:
        found.append(_tensor("probability", answer.probabilities.max(axis=1)))
    return [one for one in found if not asked or one.name in asked]


def _tensor(name: str, values: npt.NDArray[Any]) -> Tensor:
    datatype = {"f": "FP64", "i": "INT64", "b": "BOOL"}.get(np.asarray(values).dtype.kind, "BYTES")
    return Tensor(name, [len(values)], datatype, values.tolist())
