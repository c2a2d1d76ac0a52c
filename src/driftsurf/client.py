"""A client of ``driftsurf serve``: predictions, late labels, learning, orders and events over HTTP.

It needs the extra ``client`` (httpx); for Arrow also pyarrow.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

from driftsurf.errors import DriftsurfError, MissingExtraError

try:
    import httpx
except ImportError as _missing:
    raise MissingExtraError(f"the client needs httpx ({_missing}): pip install 'driftsurf[client]'") from _missing

__all__ = ["Client", "ModelClient", "Predictions", "ServedEvent", "ServiceRefusal"]

ARROW = "application/vnd.apache.arrow.stream"
LATER = 408, 409, 429, 502, 503, 504
"""Statuses after which the same request may succeed."""
LONGEST_PAUSE = 10.0


class ServiceRefusal(DriftsurfError):
    """The service refused a request; ``problem`` has its kind, and the row, column and value if it is about one."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status = status
        self.problem: dict[str, Any] = dict(problem)

    @property
    def kind(self) -> str:
        """Kind of the problem, such as "bad-row"."""
        return str(self.problem.get("type", "")).rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions in the order of the rows."""

    predictions: list[Any]
    version: int
    """Number of time steps that the model had learned."""
    probabilities: list[float] | dict[str, list[float]] | None = None
    ids: list[str] | None = None
    skipped: int = 0
    bad_rows: list[dict[str, Any]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)


@dataclass(frozen=True, slots=True)
class ServedEvent:
    """A frame of an event stream."""

    line: int
    """Last line of the journal that the frame includes; pass it as ``since`` to go on from there."""
    kind: str
    """ "history" for the first frame, then "frame"."""
    data: dict[str, Any]


class Client:
    """Talks to a service; each request is repeated after a failure of the network, and carried out once all the same.

    Parameters
    ----------
    address
        Where the service is, such as "http://localhost:8470".
    key
        Key of the client, where the service needs one.
    retries
        How often a request is repeated.
    timeout
        Seconds to wait for an answer.
    transport
        Transport of httpx, for tests.

    Examples
    --------
    >>> sales = Client("http://localhost:8470").model("sales")  # doctest: +SKIP
    >>> sales.predict([{"id": "o-17", "price": 99, "city": "Rome"}]).predictions  # doctest: +SKIP
    ['yes']
    >>> sales.label({"o-17": "no"})  # doctest: +SKIP
    """

    def __init__(
        self,
        address: str = "http://localhost:8470",
        key: str | None = None,
        *,
        retries: int = 5,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.retries = retries
        self._sleep = sleep
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def model(self, name: str) -> ModelClient:
        """Return a client of one model."""
        return ModelClient(self, name)

    def models(self) -> list[dict[str, Any]]:
        """Return the state of all models."""
        found: list[dict[str, Any]] = self.request("GET", "/v1/models").json()["models"]
        return found

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        media: str = "application/json",
        accept: str = "application/json",
        key: str | None = None,
    ) -> httpx.Response:
        """Send a request until it is answered; ServiceRefusal if the answer is a problem.

        A request that changes something has an idempotency key, so that a repetition is not carried out twice.
        """
        headers = {"accept": accept}
        if content is not None:
            headers |= {"content-type": media, "idempotency-key": key or uuid.uuid4().hex}
        attempt = 0
        while True:
            try:
                answer = self._http.request(method, path, content=content, params=params, headers=headers)
            except httpx.TransportError:
                if attempt >= self.retries:
                    raise
                pause = 0.0
            else:
                if answer.is_success:
                    return answer
                if answer.status_code not in LATER or attempt >= self.retries:
                    raise _refusal(answer)
                pause = _seconds(answer.headers.get("retry-after"))
            attempt += 1
            self._sleep(min(LONGEST_PAUSE, max(pause, 0.1 * 2**attempt)))

    def stream(self, path: str, since: int | None) -> Iterator[ServedEvent]:
        """Yield events, over as many connections as it takes; nothing is lost or repeated between them."""
        failures = 0
        while True:
            headers = {"accept": "text/event-stream"} | ({} if since is None else {"last-event-id": str(since)})
            try:
                with self._http.stream("GET", path, headers=headers, timeout=httpx.Timeout(30.0)) as answer:
                    if not answer.is_success:
                        answer.read()
                        raise _refusal(answer)
                    for event in _events(answer.iter_lines()):
                        since, failures = event.line, 0
                        yield event
            except httpx.TransportError:
                failures += 1
                if failures > self.retries:
                    raise
            self._sleep(min(LONGEST_PAUSE, 0.1 * 2**failures))


class ModelClient:
    """A served model."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._path = f"/v1/models/{quote(name, safe='')}"

    def predict(
        self, rows: Any, *, on_bad_row: str = "fail", all_classes: bool = False, key: str | None = None
    ) -> Predictions:
        """Predict rows: a list of dictionaries, or a table of pyarrow, pandas or polars, which goes as Arrow.

        Rows with ids are kept by the service until :meth:`label` gives their labels.
        """
        content, media = _body(rows)
        params = {"on_bad_row": on_bad_row, "probabilities": "all" if all_classes else "best"}
        answer = self.client.request(
            "POST", f"{self._path}/predict", content=content, media=media, params=params, key=key
        ).json()
        return Predictions(
            answer["predictions"],
            answer["version"],
            answer.get("probabilities"),
            answer.get("ids"),
            answer.get("skipped", 0),
            answer.get("bad_rows") or [],
        )

    def learn(self, rows: Any, *, on_bad_row: str = "fail", key: str | None = None) -> dict[str, Any]:
        """Learn rows with their labels, as :meth:`predict` takes rows; returns when they are on the storage device."""
        content, media = _body(rows)
        return self._post("learn", content, media, on_bad_row, key)

    def label(self, labels: Mapping[str, Any], *, on_bad_row: str = "fail", key: str | None = None) -> dict[str, Any]:
        """Give labels of predicted rows by their ids; returns when they are on the storage device."""
        content = json.dumps({"labels": dict(labels)}, allow_nan=False).encode()
        return self._post("label", content, "application/json", on_bad_row, key)

    def _post(self, what: str, content: bytes, media: str, on_bad_row: str, key: str | None) -> dict[str, Any]:
        found: dict[str, Any] = self.client.request(
            "POST", f"{self._path}/{what}", content=content, media=media, params={"on_bad_row": on_bad_row}, key=key
        ).json()
        return found

    def order(self, kind: str, **details: Any) -> dict[str, Any]:
        """Give an order, such as ``order("rollback", to=1200)``; ServiceRefusal if the model refuses it."""
        content = json.dumps({"kind": kind, **details}).encode()
        found: dict[str, Any] = self.client.request("POST", f"{self._path}/orders", content=content).json()
        return found

    def status(self) -> dict[str, Any]:
        """Return the state of the model."""
        found: dict[str, Any] = self.client.request("GET", self._path).json()
        return found

    def explain(self, step: int | None = None) -> str:
        """Return a decision in words: that of a step, or the last change of the model."""
        params = {} if step is None else {"step": step}
        return str(self.client.request("GET", f"{self._path}/explain", params=params).json()["text"])

    def journal(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the lines of the journal after a line, each with its number and its record."""
        while True:
            page = self.client.request("GET", f"{self._path}/journal", params={"since": since}).json()
            if not page["events"]:
                return
            yield from page["events"]
            since = page["last"]

    def wait_applied(self, position: int, seconds: float = 60.0) -> None:
        """Wait until the model has learned a record, of which a receipt gives the position; TimeoutError otherwise."""
        end = time.monotonic() + seconds
        while self.status()["applied"] <= position:
            if time.monotonic() > end:
                raise TimeoutError(f"record {position} of {self.name!r} was not applied within {seconds:g} seconds")
            self.client._sleep(0.02)

    def state(self) -> bytes:
        """Return the model as bytes; written to a file, ``driftsurf.load`` reads them."""
        answer = self.client.request("GET", f"{self._path}/state", accept="application/octet-stream")
        return bytes(answer.content)

    def events(self, since: int | None = None) -> Iterator[ServedEvent]:
        """Yield the events of the model: its history, then a frame each second; without end."""
        return self.client.stream(f"{self._path}/events", since)


def _body(rows: Any) -> tuple[bytes, str]:
    """Return rows as a body and its media type; lists of dictionaries go as JSON, anything else as Arrow."""
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        return json.dumps({"rows": [dict(row) for row in rows]}, allow_nan=False).encode(), "application/json"
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("tables go as Arrow, which needs pyarrow: pip install 'driftsurf[sources]'") from error
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=50_000)
    return sink.getvalue().to_pybytes(), ARROW


def _refusal(answer: httpx.Response) -> ServiceRefusal:
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    return ServiceRefusal(answer.status_code, problem if isinstance(problem, dict) else {})


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0


def _events(lines: Iterable[str]) -> Iterator[ServedEvent]:
    """Yield the events of lines of ``text/event-stream``."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield ServedEvent(int(fields.get("id", 0)), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
