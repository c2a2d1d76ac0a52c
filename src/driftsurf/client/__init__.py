"""A client of ``driftsurf serve``: predictions, late labels, learning, orders and events over HTTP.

It needs the extra ``client`` (httpx); for Arrow also pyarrow.
"""

from __future__ import annotations

import datetime
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from driftsurf.client.answers import (
    Predictions,
    ServedEvent,
    ServiceRefusal,
    UnreachableError,
    read_events,
    refusal_of,
)
from driftsurf.errors import InputError, MissingExtraError, Option, OptionError
from driftsurf.errors._runs import warn_of_former_spelling

try:
    import httpx
except ImportError as _missing:
    raise MissingExtraError(f"the client needs httpx ({_missing}): pip install 'driftsurf[client]'") from _missing

__all__ = ["Client", "ModelClient", "Predictions", "ServedEvent", "ServiceRefusal", "UnreachableError"]

ARROW = "application/vnd.apache.arrow.stream"
LONGEST_PAUSE = 10.0
_NUMBERS = re.compile(r"__index_level_\d+__")
"""Names that pyarrow gives to an index of pandas without a name."""


class Client:
    """Client of a service; a request that the network loses is repeated, and the service carries it out only once.

    The client waits for a service that restarts.

    Parameters
    ----------
    address
        Where the service is, such as "http://localhost:8470".
    key
        Key of the client, where the service needs one.
    retry_seconds
        Seconds for which a request is repeated that the network has lost, or that the service may take later; then
        UnreachableError or ServiceRefusal. 0 repeats nothing.
    timeout
        Seconds to wait for an answer.
    transport
        Transport of httpx, for tests.

    Examples
    --------
    >>> import httpx
    >>> answer = {"predictions": ["yes"], "version": 12}
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))  # stands for the service
    >>> with Client("http://localhost:8470", transport=service) as client:
    ...     client.model("sales").predict([{"price": 99, "city": "Rome"}]).predictions
    ['yes']
    """

    def __init__(
        self,
        address: str | Sequence[str] = "http://localhost:8470",
        key: str | None = None,
        *,
        retry_seconds: float = 60.0,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience: float | None = None,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {_in_header('key', key.strip())}"}
        given = (address,) if isinstance(address, str) else tuple(address)
        if not given:
            raise OptionError(Option("address"), " has no address; pass one such as 'http://localhost:8470'")
        urls = [_checked_address(one) for one in given]
        self.addresses: tuple[str, ...] = tuple(
            str(url.copy_with(userinfo=b"")) if url.userinfo else one for one, url in zip(given, urls, strict=True)
        )
        """The addresses without passwords, for messages."""
        self._timeout = timeout
        self._at = 0
        """Number of the address that answered last."""
        if patience is not None:
            warn_of_former_spelling("patience is now retry_seconds, and the former name will be removed")
        self.retry_seconds: float = retry_seconds if patience is None else patience
        self._sleep = sleep
        self._https = [
            httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport) for url in urls
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for one in self._https:
            one.close()

    @property
    def address(self) -> str:
        """The address that is asked, without a password."""
        return self.addresses[self._at]

    def model(self, name: str) -> ModelClient:
        """Return a client of one model."""
        return ModelClient(self, name)

    def models(self) -> list[dict[str, Any]]:
        """Return the state of all models that the key may read; :meth:`scopes` has the others, too."""
        found: list[dict[str, Any]] = self.ask("GET", "/v1/models")["models"]
        return found

    def scopes(self) -> dict[str, list[str]]:
        """Return what the key may do with each model, such as ``{"sales": ["predict", "learn"]}``."""
        found: dict[str, list[str]] = self.ask("GET", "/v1/models")["scopes"]
        return found

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """Send a request, as :meth:`request` does, and return its answer as plain values."""
        answer = self.request(method, path, **options)
        try:
            return answer.json()
        except ValueError:
            text = f"what is at {self.address} answers {answer.text[:100]!r}, which is not JSON; is it driftsurf serve?"
            raise ServiceRefusal(answer.status_code, {"detail": text}) from None

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
        """Send a request until it is answered; ServiceRefusal if the answer is a problem, UnreachableError without one.

        A request that changes something has an idempotency key, so that a repetition is not carried out twice.
        """
        headers = {"accept": accept}
        if content is not None:
            headers |= {"content-type": media, "idempotency-key": _in_header("key", key or uuid.uuid4().hex)}
        pauses = _Pauses(self)
        while True:
            at, timeout = self._at, pauses.timeout(path)
            least = 0.0
            try:
                answer = self._https[at].request(
                    method, path, content=content, params=params, headers=headers, timeout=timeout
                )
            except httpx.TransportError as error:
                failure: Exception = error
            else:
                if answer.is_success:
                    return answer
                failure, least = refusal_of(answer), _seconds(answer.headers.get("retry-after"))
            pauses.switch(at, failure, least)

    def stream(self, path: str, since: int | None) -> Iterator[ServedEvent]:
        """Yield events, over as many connections as it takes; nothing is lost or repeated between them."""
        pauses = _Pauses(self)
        while True:
            headers = {"accept": "text/event-stream"} | ({} if since is None else {"last-event-id": str(since)})
            try:
                at = self._at
                with self._https[at].stream("GET", path, headers=headers, timeout=httpx.Timeout(30.0)) as answer:
                    if answer.is_success:
                        for event in read_events(answer.iter_lines()):
                            since, pauses = event.line, _Pauses(self)
                            yield event
                        failure: Exception = httpx.ReadError("the event stream ended")
                    else:
                        answer.read()
                        failure = refusal_of(answer)
            except httpx.TransportError as error:
                failure = error
            pauses.switch(at, failure)


SWITCH_SECONDS = {"predict": 0.1}, 8.0
"""Time in which a replica has to answer before another one is asked, for predictions and otherwise. It doubles in each
further round. A replica may have stopped without closing its connections."""


class _Pauses:
    """Pauses between the attempts of one request, which become longer, until ``retry_seconds`` are over."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waited = 0.0
        self._number = 0
        self._failed = 0
        """Attempts since the last pause."""

    def timeout(self, path: str) -> float:
        """Return the seconds for an attempt."""
        client, (special, usual) = self._client, SWITCH_SECONDS
        if len(client._https) == 1:
            return client._timeout
        return min(client._timeout, special.get(path.rpartition("/")[2], usual) * 2.0**self._number)

    def switch(self, at: int, failure: Exception, least: float = 0.0) -> None:
        """Go on with the address after the one that failed; wait if all have, or raise the failure if it will not pass.

        The number of addresses is one for most clients.
        """
        client = self._client
        self._failed += 1
        if client._at == at:  # another thread may have gone on before
            client._at = (at + 1) % len(client._https)
        passes = not isinstance(failure, ServiceRefusal) or failure.may_pass
        if self._failed < len(client._https) and passes:
            return
        self._failed = 0
        self.pause(failure, least)

    def pause(self, failure: Exception, least: float = 0.0) -> None:
        """Wait before the next attempt; raise the failure if there is to be none."""
        client, longest = self._client, self._client.retry_seconds
        left = longest - self._waited
        if isinstance(failure, ServiceRefusal):
            if left <= 0 or not failure.may_pass:
                raise failure
        elif left <= 0:
            raise UnreachableError(
                f"the service at {client.address} does not answer, even after {longest:g} seconds of waiting "
                f"({type(failure).__name__}: {failure}); start it, correct the address, or raise ",
                Option("retry_seconds"),
            ) from failure
        self._number += 1
        seconds = min(LONGEST_PAUSE, left, max(least, 0.1 * 2**self._number))
        self._waited += seconds
        client._sleep(seconds)


class ModelClient:
    """Client of one served model, as :meth:`Client.model` returns it.

    Examples
    --------
    >>> import httpx
    >>> from driftsurf.client import Client
    >>> answers = {"predict": {"predictions": ["yes"], "version": 12}, "label": {"position": 31}}
    >>> def answer(request):  # stands for the service
    ...     return httpx.Response(200, json=answers[request.url.path.split("/")[-1]])
    >>> sales = Client(transport=httpx.MockTransport(answer)).model("sales")
    >>> sales.predict([{"id": "o-17", "price": 99, "city": "Rome"}]).predictions
    ['yes']
    >>> sales.label({"o-17": "no"})
    {'position': 31}
    """

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
        answer = self.client.ask("POST", f"{self._path}/predict", content=content, media=media, params=params, key=key)
        return Predictions(
            answer["predictions"],
            answer["version"],
            answer.get("probabilities"),
            answer.get("ids"),
            answer.get("skipped", 0),
            answer.get("bad_rows") or [],
            answer.get("guess", False),
        )

    def learn(self, rows: Any, *, on_bad_row: str = "fail", key: str | None = None) -> dict[str, Any]:
        """Learn rows with their labels, as :meth:`predict` takes rows; returns when they are on the storage device."""
        content, media = _body(rows)
        return self._post("learn", content, media, on_bad_row, key)

    def label(self, labels: Mapping[str, Any], *, on_bad_row: str = "fail", key: str | None = None) -> dict[str, Any]:
        """Give labels of predicted rows by their ids; returns when they are on the storage device."""
        content = _json({"labels": dict(labels)})
        return self._post("label", content, "application/json", on_bad_row, key)

    def _post(self, what: str, content: bytes, media: str, on_bad_row: str, key: str | None) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ask(
            "POST", f"{self._path}/{what}", content=content, media=media, params={"on_bad_row": on_bad_row}, key=key
        )
        return found

    def order(self, kind: str, **details: Any) -> dict[str, Any]:
        """Give an order, such as ``order("rollback", to=1200)``; ServiceRefusal if the model refuses it."""
        content = _json({"kind": kind, **details})
        found: dict[str, Any] = self.client.ask("POST", f"{self._path}/orders", content=content)
        return found

    def status(self) -> dict[str, Any]:
        """Return the state of the model."""
        found: dict[str, Any] = self.client.ask("GET", self._path)
        return found

    def explain(self, step: int | None = None, *, everything: bool = False) -> str:
        """Return a decision in words: that of a step, the last change, or everything since the model began."""
        params = {"all": 1} if everything else {} if step is None else {"step": step}
        return str(self.client.ask("GET", f"{self._path}/explain", params=params)["text"])

    def journal(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the lines of the journal after a line, each with its number and its record."""
        while True:
            page = self.client.ask("GET", f"{self._path}/journal", params={"since": since})
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
        return _json({"rows": [dict(row) for row in rows]}), "application/json"
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("tables go as Arrow, which needs pyarrow: pip install pyarrow") from error
    try:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"rows of type {type(rows).__name__} cannot be sent ({error}); pass a list of dictionaries, or a table of "
            "pyarrow, pandas or polars"
        ) from error
    # Numbers of rows, which a frame of pandas has if some of its rows were left out, are no column of the model.
    table = table.drop_columns([name for name in table.column_names if _NUMBERS.fullmatch(name)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=50_000)
    return sink.getvalue().to_pybytes(), ARROW


def _json(value: Any) -> bytes:
    """Return a value as JSON; InputError if it holds something that JSON has not."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the request cannot be written as JSON ({error}); pass text, numbers, booleans and dates, and None for a "
            "value that is not known"
        ) from error


def _plain(value: object) -> object:
    """Return a number of numpy, or a date, as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no value of a row")


def _checked_address(address: str) -> httpx.URL:
    """Return the address of a service; OptionError if it is none."""
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError) as error:
        raise OptionError(Option("address"), f" is {address!r}, which is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise OptionError(Option("address"), f" is {address!r}; pass one such as 'http://localhost:8470'")
    return url


def _in_header(name: str, value: str) -> str:
    """Return a text for a header; OptionError, which does not repeat it, if it cannot stand there."""
    if not value or not (value.isascii() and value.isprintable()):
        raise OptionError(Option(name), " must be printable ASCII characters, at least one")
    return value


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
