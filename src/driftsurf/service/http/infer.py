"""The Open Inference Protocol (V2) over REST: metadata, health and ``infer``, with its binary tensor data extension.

Tensors in JSON have ``data``. Those in bytes have the parameter ``binary_data_size``, and follow the JSON object one
after the other; the header ``Inference-Header-Content-Length`` says how long the object is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from driftsurf.core.files import repeated_keys
from driftsurf.core.options import shown
from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Table
from driftsurf.errors import InputError
from driftsurf.runs.predictions import label_text
from driftsurf.service.contract import Answer
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.requests import HttpRequest, Response, json_response
from driftsurf.service.versions import Version
from driftsurf.service.wire.tensors import DATATYPES, Values, from_bytes, to_bytes

if TYPE_CHECKING:
    from driftsurf.service.http.app import ServedEntry

HEAD_LENGTH = "inference-header-content-length"
"""Header with the length of the JSON object that is before the bytes of tensors."""
LONGEST_NUMBER = 16
BINARY = "application/octet-stream"
DATATYPE_OF: dict[Kind, str] = {"number": "FP64", "boolean": "BOOL", "date": "BYTES", "text": "BYTES"}


class Tensor(msgspec.Struct, omit_defaults=True):
    """A named tensor: a column, one value for each row, or a matrix of numbers."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    """The values; absent if they follow as bytes."""
    parameters: dict[str, Any] = {}
    """With ``binary_data_size``, the number of these bytes."""


class Output(msgspec.Struct):
    """A tensor that is asked for."""

    name: str
    parameters: dict[str, Any] = {}
    """With ``binary_data``, whether its values are answered as bytes."""


class InferRequest(msgspec.Struct):
    """Rows as tensors."""

    inputs: list[Tensor]
    id: str = ""
    parameters: dict[str, Any] = {}
    """With ``binary_data_output``, whether values are answered as bytes where ``outputs`` does not say it."""
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


async def metadata(entry: ServedEntry, request: HttpRequest) -> Response:
    """Describe the tensors of a model."""
    snapshot = entry.served.snapshot
    inputs = [TensorMetadata(one.name, DATATYPE_OF[one.kind], [-1]) for one in snapshot.columns]
    predicted = "FP64" if snapshot.task == "regression" else _datatype(snapshot.classes)
    outputs = [TensorMetadata(name, predicted if name == "prediction" else "FP64", [-1])
               for name in _output_names(snapshot)]  # fmt: skip
    return json_response(ModelMetadata(entry.served.name, [str(snapshot.version)], "driftsurf", inputs, outputs))


def _output_names(snapshot: Version) -> list[str]:
    return ["prediction"] if snapshot.task == "regression" else ["prediction", "probability"]


def _datatype(classes: tuple[Any, ...]) -> str:
    if classes and all(isinstance(one, bool) for one in classes):
        return "BOOL"
    return "INT64" if classes and all(isinstance(one, int) for one in classes) else "BYTES"


async def infer(entry: ServedEntry, request: HttpRequest) -> Response:
    """Predict rows that come as tensors; nothing of them is kept."""
    body = await request.body()
    head, rest = _divided(request, body)
    try:
        asked = _DECODER.decode(head)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HttpProblem("bad-input", f"the body is not an inference request: {error}") from None

    snapshot = entry.served.snapshot
    names = _output_names(snapshot)
    binary = _binary_outputs(asked, names)
    if not snapshot.columns:
        raise HttpProblem("not-yet", "the model has no columns yet; send it rows, or name them with --column")

    def work() -> tuple[InferResponse, bytes]:
        twice = repeated_keys(head).anywhere
        if twice is not None:
            raise InputError(f"{twice!r} occurs more than once in an object of the request; pass each name once")
        answer = snapshot.predict(_table(entry, snapshot, asked, rest, request.limits.rows))
        if answer.labels is None:
            raise HttpProblem("not-yet", "the model has learned nothing yet; send it rows with labels")
        request.rows = len(answer.labels)
        outputs, data = _outputs(answer, binary)
        return InferResponse(entry.served.name, str(answer.version), outputs, asked.id), data

    slow = len(body) > 2**18 or snapshot.slow
    answered, data = await entry.in_thread(work) if slow else work()
    if not any(binary.values()):
        return json_response(answered)
    written = msgspec.json.encode(answered)
    return Response(written + data, BINARY, 200, {HEAD_LENGTH: str(len(written))})


def _divided(request: HttpRequest, body: bytes) -> tuple[bytes, memoryview]:
    """Return the JSON object of a request, and the bytes of tensors that follow it."""
    text = request.headers.get(HEAD_LENGTH)
    if text is None:
        return body, memoryview(b"")
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER or int(text) > len(body):
        raise InputError(
            f"Inference-Header-Content-Length is {text[:100]!r}; pass the length of the JSON object, and the body has "
            f"{len(body):,} bytes"
        )
    return body[: int(text)], memoryview(body)[int(text) :]


def _binary_outputs(asked: InferRequest, names: list[str]) -> dict[str, bool]:
    """Return the outputs that are asked for, and whether each of them is answered as bytes."""
    usual = _flag(asked.parameters, "binary_data_output", default=False)
    if not asked.outputs:
        return dict.fromkeys(names, usual)
    found: dict[str, bool] = {}
    for one in asked.outputs:
        if one.name not in names:
            raise InputError(f"there is no output {one.name!r}; choices: {', '.join(names)}")
        if one.name in found:
            raise InputError(f"the output {one.name!r} occurs more than once; pass each once")
        _refuse_extensions(f"the output {one.name!r}", one.parameters)
        found[one.name] = _flag(one.parameters, "binary_data", default=usual)
    return found


def _flag(parameters: dict[str, Any], name: str, *, default: bool) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; pass true or false")
    return value


def _refuse_extensions(what: str, parameters: dict[str, Any]) -> None:
    """Raise InputError for parameters of extensions that would change what an answer means."""
    for name in ("shared_memory_region", "classification"):
        if name in parameters:
            raise InputError(f"{what} has the parameter {name!r}, an extension that this service does not have")


def _table(entry: ServedEntry, snapshot: Version, asked: InferRequest, rest: memoryview, most: int) -> Table:
    """Return the tensors as a table."""
    columns = snapshot.columns
    values: dict[str, Values] = {}
    for tensor in asked.inputs:
        if tensor.name in values:
            raise InputError(f"the input {tensor.name!r} occurs more than once; pass each once")
        _check(tensor, most)
        flat, rest = _flat(tensor, rest)
        if len(tensor.shape) == 2 and tensor.shape[1] != 1:
            if tensor.shape[1] != len(columns) or len(asked.inputs) > 1:
                raise InputError(
                    f"the input {tensor.name!r} has the shape {tensor.shape}; pass one matrix with {len(columns)} "
                    "columns, or one input for each column"
                )
            values = {one.name: flat[place :: len(columns)] for place, one in enumerate(columns)}
        else:
            values[tensor.name] = flat
    if len(rest):
        raise InputError(f"{len(rest):,} bytes follow the last input; binary_data_size must count all of them")
    lengths = {len(one) for one in values.values()}
    if len(lengths) != 1 or not max(lengths):
        raise InputError(f"the inputs must have the same number of rows, at least one; got {sorted(lengths)}")
    return entry.formats.tensors(snapshot).read(values).table


def _check(tensor: Tensor, most: int) -> None:
    """Raise an error for a tensor that cannot be rows, before anything is made of its values."""
    if not 1 <= len(tensor.shape) <= 2 or any(size < 0 for size in tensor.shape):
        raise InputError(f"the input {tensor.name!r} has the shape {tensor.shape[:10]}; pass [rows] or [rows, columns]")
    if tensor.datatype not in DATATYPES:
        choices = ", ".join(DATATYPES)
        raise InputError(f"the input {tensor.name!r} has the datatype {tensor.datatype[:100]!r}; choices: {choices}")
    if tensor.shape[0] > most:
        raise HttpProblem("too-large", f"the request has more than {most:,} rows; send several requests")
    _refuse_extensions(f"the input {tensor.name!r}", tensor.parameters)


def _flat(tensor: Tensor, rest: memoryview) -> tuple[Values, memoryview]:
    """Return the values of a tensor one after the other, and the bytes of the tensors behind it.

    InputError if the values are not as many as the shape says.
    """
    name, count, data = tensor.name, math.prod(tensor.shape), tensor.data
    if "binary_data_size" in tensor.parameters:
        size = tensor.parameters["binary_data_size"]
        if data is not None:
            raise InputError(f"the input {name!r} has both data and binary_data_size; pass one of them")
        if type(size) is not int or not 0 <= size <= len(rest):
            raise InputError(
                f"binary_data_size of the input {name!r} is {shown(size)}, and {len(rest):,} bytes are left; pass the "
                "size of its values, and the length of the JSON object as Inference-Header-Content-Length"
            )
        return from_bytes(name, tensor.datatype, count, rest[:size]), rest[size:]
    if data is None:
        raise InputError(f"the input {name!r} has no values; pass data, or bytes with binary_data_size")
    if data and isinstance(data[0], list):
        data = [value for row in data for value in (row if isinstance(row, list) else [row])]
    if len(data) != count:
        raise InputError(f"the input {name!r} has {len(data)} values, and its shape is {tensor.shape}")
    return data, rest


def _outputs(answer: Answer, binary: dict[str, bool]) -> tuple[list[Tensor], bytes]:
    """Return the outputs that are asked for, and the bytes of those that are answered as bytes."""
    found: dict[str, npt.NDArray[Any]] = {}
    if answer.labels is not None:
        found["prediction"] = answer.labels
    if answer.probabilities is not None:
        found["probability"] = answer.probabilities.max(axis=1)
    tensors: list[Tensor] = []
    written: list[bytes] = []
    for name in binary:
        if name not in found:
            continue
        datatype = {"f": "FP64", "i": "INT64", "b": "BOOL"}.get(np.asarray(found[name]).dtype.kind, "BYTES")
        tensor = Tensor(name, [len(found[name])], datatype)
        values = found[name].tolist()
        if datatype == "BYTES":
            values = [label_text(one) for one in values]
        if binary[name]:
            written.append(to_bytes(datatype, values))
            tensor.parameters = {"binary_data_size": len(written[-1])}
        else:
            tensor.data = values
        tensors.append(tensor)
    return tensors, b"".join(written)
