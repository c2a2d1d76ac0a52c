"""The binary tensors of the Open Inference Protocol, written by hand and sent through a real socket."""

from __future__ import annotations

import http.client
import json
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from served_models import MemoryModel

pytest.importorskip("httptools")

from driftsurf.data.reading_options import Kind
from driftsurf.service.http.app import App
from driftsurf.service.http.server import HttpServer
from driftsurf.service.settings import Limits
from driftsurf.service.wire.formats import ModelFormats

WAIT = 120.0
INFER = "/v2/models/sales/infer"
ROWS = [
    {"price": 1.0, "city": "Rome", "new": True, "day": "2026-05-01"},
    {"price": 7.0, "city": "Oslo \u00f8", "new": False, "day": "2026-05-02"},
]
NUMBERS = {
    "FP64": "<f8",
    "FP32": "<f4",
    "FP16": "<f2",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
}


@contextmanager
def serving(kinds: Mapping[str, Kind] | None = None, *, learned: bool = True, **limits: Any) -> Iterator[int]:
    """Return the port of a server in a thread of its own, with a model that has learned some rows."""
    model = MemoryModel() if kinds is None else MemoryModel(kinds=kinds)
    app = App([(model, ModelFormats(label="sold"))], limits=Limits(**limits))
    server = HttpServer(app, port=0)
    opened = threading.Event()
    thread = threading.Thread(target=server.run, args=[opened.set])
    thread.start()
    try:
        assert opened.wait(WAIT)
        if learned:
            first = {"number": 1.0, "text": "Rome", "boolean": True, "date": "2026-05-01"}
            row = {name: first[kind] for name, kind in model.kinds.items()}
            rows = [{**row, next(iter(row)): float(i), "sold": "yes" if i > 3 else "no"} for i in range(8)]
            assert posted(server.port, "/v1/models/sales/learn", json.dumps({"rows": rows}).encode())[0] == 200
        yield server.port
    finally:
        server.stop()
        thread.join(WAIT)


def posted(port: int, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[int, Any, bytes]:
    """Return status, decoded JSON object and the bytes behind it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    try:
        connection.request("POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        data = response.read()
        length = int(response.headers.get("Inference-Header-Content-Length", len(data)))
        assert ("Inference-Header-Content-Length" in response.headers) == (
            response.headers["content-type"] == "application/octet-stream"
        )
        return response.status, json.loads(data[:length]), data[length:]
    finally:
        connection.close()


def texts(*values: str | bytes) -> bytes:
    """Return values of the type BYTES."""
    encoded = [one.encode() if isinstance(one, str) else one for one in values]
    return b"".join(struct.pack("<I", len(one)) + one for one in encoded)


def tensor(name: str, kind: str, shape: Sequence[Any], size: Any) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": size}}


def sent(port: int, head: Any, *data: bytes, length: str | None = None) -> tuple[int, Any, bytes]:
    """Send an object and bytes behind it."""
    written = json.dumps(head).encode()
    sizes = {"Inference-Header-Content-Length": str(len(written)) if length is None else length}
    return posted(port, INFER, written + b"".join(data), sizes)


PRICE = struct.pack("<2d", 1.0, 7.0)
END = struct.pack("<I", 2**32 - 1)
CITY, NEW, DAY = texts("Rome", "Oslo \u00f8"), b"\1\0", texts("2026-05-01", "2026-05-02")
INPUTS = [
    tensor("price", "FP64", [2], len(PRICE)),
    tensor("city", "BYTES", [2], len(CITY)),
    tensor("new", "BOOL", [2, 1], len(NEW)),
    tensor("day", "BYTES", [2], len(DAY)),
]


def test_binary_tensors_are_predicted_as_rows_are() -> None:
    with serving() as port:
        same = posted(port, "/v1/models/sales/predict", json.dumps({"rows": ROWS}).encode())[1]
        shares = same["probabilities"]
        status, answer, rest = sent(port, {"id": "42", "inputs": INPUTS}, PRICE, CITY, NEW, DAY)
        assert (status, answer["id"], rest) == (200, "42", b"")
        assert [one["data"] for one in answer["outputs"]] == [same["predictions"], shares]

        binary = {"inputs": INPUTS, "parameters": {"binary_data_output": True}}
        status, answer, rest = sent(port, binary, PRICE, CITY, NEW, DAY)
        labels, numbers = answer["outputs"]
        assert (labels["name"], labels["datatype"], labels["shape"]) == ("prediction", "BYTES", [2])
        assert "data" not in labels
        assert rest == texts(*same["predictions"]) + struct.pack("<2d", *shares)
        assert labels["parameters"]["binary_data_size"] == len(texts(*same["predictions"]))
        assert numbers["parameters"]["binary_data_size"] == 16

        asked = [{"name": "probability", "parameters": {"binary_data": True}}, {"name": "prediction"}]
        status, answer, rest = sent(port, {"inputs": INPUTS, "outputs": asked}, PRICE, CITY, NEW, DAY)
        assert [one["name"] for one in answer["outputs"]] == ["probability", "prediction"]
        assert answer["outputs"][1]["data"] == same["predictions"]
        assert rest == struct.pack("<2d", *shares)

        mixed = [{"name": "price", "datatype": "FP64", "shape": [2], "data": [1.0, 7.0]}, *INPUTS[1:]]
        other = {"inputs": mixed, "outputs": [{"name": "prediction", "parameters": {"binary_data": False}}]}
        status, answer, rest = sent(port, other | {"parameters": {"binary_data_output": True}}, CITY, NEW, DAY)
        assert (status, answer["outputs"][0]["data"], rest) == (200, same["predictions"], b"")


def test_every_type_of_numbers_means_the_same() -> None:
    with serving({"a": "number", "b": "number"}) as port:
        rows = [{"a": 1.0, "b": 2.0}, {"a": 7.0, "b": 3.0}]
        same = posted(port, "/v1/models/sales/predict", json.dumps({"rows": rows}).encode())[1]["probabilities"]
        for kind, code in NUMBERS.items():
            data = np.array([[1, 2], [7, 3]], code).tobytes()
            answer = sent(port, {"inputs": [tensor("rows", kind, [2, 2], len(data))]}, data)[1]
            assert answer["outputs"][1]["data"] == same, kind
        data = (np.array([[1, 2], [7, 3]], "<f4").view("<u4") >> 16).astype("<u2").tobytes()
        answer = sent(port, {"inputs": [tensor("rows", "BF16", [2, 2], len(data))]}, data)[1]
        assert answer["outputs"][1]["data"] == same


def test_nan_is_a_missing_number_and_infinity_is_refused() -> None:
    with serving({"a": "number", "b": "text"}) as port:
        rows = [{"a": None, "b": None}, {"a": 7.0, "b": "8"}]
        same = posted(port, "/v1/models/sales/predict", json.dumps({"rows": rows}).encode())[1]["probabilities"]
        inputs = [tensor("a", "FP64", [2], 16), tensor("b", "FP64", [2], 16)]
        nan, inf = float("nan"), float("inf")
        status, answer, _ = sent(port, {"inputs": inputs}, struct.pack("<4d", nan, 7.0, nan, 8.0))
        assert (status, answer["outputs"][1]["data"]) == (200, same)
        for place, (values, column) in enumerate([((nan, inf, nan, 8.0), "a"), ((nan, 7.0, nan, -inf), "b")]):
            status, answer, _ = sent(port, {"inputs": inputs}, struct.pack("<4d", *values))
            assert (status, answer["row"], answer["column"]) == (400, 1, column), place
            assert "too large" in answer["error"]


ALL = PRICE + CITY + NEW + DAY
CLASSES = {"name": "prediction", "parameters": {"classification": 1}}
MATRIX = tensor("m", "FP64", [2, 2], 32)
FAULTS: list[tuple[str, Any, bytes, str | None]] = [
    ("the header is missing", {"inputs": INPUTS}, b"", None),
    ("fewer bytes", {"inputs": [tensor("price", "FP64", [2], 16)]}, b"1234567", ""),
    ("size below the shape", {"inputs": [tensor("price", "FP64", [2], 8)]}, b"12345678", ""),
    ("size above the shape", {"inputs": [tensor("price", "FP64", [1], 16)]}, b"1" * 16, ""),
    ("more bytes than inputs", {"inputs": INPUTS}, ALL + b"x", ""),
    ("a size below zero", {"inputs": [tensor("price", "FP64", [1], -8)]}, b"1" * 8, ""),
    ("a size that is no number", {"inputs": [tensor("price", "FP64", [1], "8")]}, b"1" * 8, ""),
    ("a size that is true", {"inputs": [tensor("new", "BOOL", [1], True)]}, b"\1", ""),
    ("a size that is a fraction", {"inputs": [tensor("price", "FP64", [1], 8.0)]}, b"1" * 8, ""),
    ("a huge size", {"inputs": [tensor("price", "FP64", [1], 2**63 - 1)]}, b"1" * 8, ""),
    ("a huge shape of texts", {"inputs": [tensor("city", "BYTES", [2, 2**62], 8)]}, texts("ab", ""), ""),
    ("a huge shape of bytes", {"inputs": [tensor("new", "BOOL", [1, 2**62], 1)]}, b"\1", ""),
    ("a shape below zero", {"inputs": [tensor("price", "FP64", [-1], 8)]}, b"1" * 8, ""),
    ("no shape", {"inputs": [tensor("price", "FP64", [], 8)]}, b"1" * 8, ""),
    ("no rows", {"inputs": [tensor("price", "FP64", [0], 0)]}, b"", ""),
    ("three dimensions", {"inputs": [tensor("price", "FP64", [1, 1, 1], 8)]}, b"1" * 8, ""),
    ("an unknown type", {"inputs": [tensor("price", "FP8", [1], 1)]}, b"1", ""),
    ("a byte that is no BOOL", {"inputs": [tensor("new", "BOOL", [1], 1)]}, b"\2", ""),
    ("a length behind the end", {"inputs": [tensor("city", "BYTES", [1], 8)]}, END + b"Rome", ""),
    ("a cut length", {"inputs": [tensor("city", "BYTES", [2], 9)]}, struct.pack("<I", 3) + b"abc\0\0", ""),
    ("bytes behind the texts", {"inputs": [tensor("city", "BYTES", [1], 9)]}, texts("Rome") + b"x", ""),
    ("text that is no UTF-8", {"inputs": [tensor("city", "BYTES", [1], 6)]}, texts(b"\xff\xfe"), ""),
    ("text with NUL", {"inputs": INPUTS}, PRICE + texts("R\0me", "Oslo \u00f8") + NEW + DAY, ""),
    ("a text that is no date", {"inputs": INPUTS}, PRICE + CITY + NEW + texts("2026-05-01", "2026-13-02"), ""),
    ("both data and bytes", {"inputs": [tensor("price", "FP64", [1], 8) | {"data": [1.0]}]}, b"1" * 8, ""),
    ("neither data nor bytes", {"inputs": [{"name": "price", "datatype": "FP64", "shape": [1]}]}, b"", ""),
    ("an input twice", {"inputs": [INPUTS[0], INPUTS[0]]}, PRICE + PRICE, ""),
    ("a matrix of other columns", {"inputs": [MATRIX]}, b"1" * 32, ""),
    ("an unknown input", {"inputs": [*INPUTS, tensor("other", "INT8", [2], 2)]}, ALL + b"12", ""),
    ("a missing input", {"inputs": INPUTS[:3]}, PRICE + CITY + NEW, ""),
    ("inputs of two lengths", {"inputs": [INPUTS[0], tensor("city", "BYTES", [1], 8)]}, PRICE + texts("Rome"), ""),
    ("an output that is not there", {"inputs": INPUTS, "outputs": [{"name": "x"}]}, ALL, ""),
    ("an output twice", {"inputs": INPUTS, "outputs": [{"name": "prediction"}] * 2}, ALL, ""),
    ("a flag that is text", {"inputs": INPUTS, "parameters": {"binary_data_output": "true"}}, ALL, ""),
    ("shared memory", {"inputs": [INPUTS[0] | {"parameters": {"shared_memory_region": "r"}}]}, b"", ""),
    ("a class count", {"inputs": INPUTS, "outputs": [CLASSES]}, b"", ""),
    ("a length above the body", {"inputs": INPUTS}, b"", "99999"),
    ("a length below zero", {"inputs": INPUTS}, b"", "-1"),
    ("a length that is cut", {"inputs": INPUTS}, PRICE, "20"),
    ("a length of many digits", {"inputs": INPUTS}, b"", "9" * 5000),
    ("a length that is text", {"inputs": INPUTS}, b"", "ten"),
]  # fmt: skip


def test_faults_are_told_in_the_form_of_the_protocol() -> None:
    with serving() as port:
        for what, head, data, length in FAULTS:
            written = json.dumps(head).encode()
            if length is None:
                status, told, _ = posted(port, INFER, written + data)
            else:
                status, told, _ = sent(port, head, data, length=length or None)
            assert (status, told["status"]) == (400, 400), (what, told)
            assert isinstance(told["error"], str), what
            assert len(told["error"]) > 10, what
        good = sent(port, {"inputs": INPUTS}, PRICE, CITY, NEW, DAY)
        assert good[0] == 200


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_were_changed_are_predicted_or_refused(seed: int) -> None:
    random = np.random.default_rng(seed)
    head = json.dumps({"inputs": INPUTS, "parameters": {"binary_data_output": True}}).encode()
    whole = head + PRICE + CITY + NEW + DAY
    with serving() as port:
        for _ in range(150):
            body = bytearray(whole)
            for _ in range(random.integers(1, 4)):
                place = int(random.integers(len(body)))
                match random.integers(3):
                    case 0:
                        body[place] = random.integers(256)
                    case 1:
                        del body[place : place + int(random.integers(1, 9))]
                    case _:
                        body[place:place] = random.bytes(3)
            length = len(head) if random.random() < 0.7 else int(random.integers(len(body) + 9))
            status, told, _ = posted(port, INFER, bytes(body), {"Inference-Header-Content-Length": str(length)})
            assert status in (200, 400), told
            assert status == 200 or told["error"]


def test_limits_are_checked_before_values_are_made() -> None:
    with serving({"a": "number"}, rows=10, body_bytes=4096) as port:
        status, told, _ = sent(port, {"inputs": [tensor("a", "INT8", [11], 11)]}, b"1" * 11)
        assert (status, "10 rows" in told["error"]) == (413, True)
        # The rows are counted by the shape alone: its bytes are not even here.
        status, told, _ = sent(port, {"inputs": [tensor("a", "FP64", [2**40], 2**43)]})
        assert (status, "10 rows" in told["error"]) == (413, True)
        status, told, _ = sent(port, {"inputs": [tensor("a", "FP64", [600], 4800)]}, b"1" * 4800)
        assert (status, "4,096 bytes" in told["error"]) == (413, True)


def test_every_error_of_the_protocol_has_a_message_for_its_clients() -> None:
    with serving(learned=False) as port:
        for path, body, headers, expected in [
            ("/v2/models/none/infer", b"{}", {}, 404),
            ("/v2/models/sales/versions/1/infer", b"{}", {}, 404),
            ("/v2/repository/index", b"{}", {}, 404),
            ("/v2", b"", {}, 405),
            (INFER, b"", {}, 400),
            (INFER, b"{", {}, 400),
            (INFER, b'{"inputs": []}', {}, 400),
            (INFER, b"{}", {"Content-Encoding": "gzip"}, 415),
            (INFER, b"{}", {"Host": "evil.example"}, 403),
            (INFER, json.dumps({"inputs": INPUTS}).encode() + PRICE + CITY + NEW + DAY, {}, 400),
        ]:
            status, told, _ = posted(port, path, body, headers)
            assert (status, bool(told["error"])) == (expected, True), (path, told)
        status, told, _ = sent(port, {"inputs": INPUTS}, PRICE, CITY, NEW, DAY)
        assert (status, "learned nothing" in told["error"]) == (409, True)
