"""The ASGI application: finds the endpoint, checks who asks, answers, and turns errors into problem details."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from driftsurf import __version__
from driftsurf.core.disk import lower_priority
from driftsurf.core.input import listed
from driftsurf.errors import InputError, NotLeadingError, UnavailableError
from driftsurf.service.committer import LoopBridge
from driftsurf.service.contract import ModelStatus
from driftsurf.service.http import metrics as metrics_text
from driftsurf.service.http.answers import Models
from driftsurf.service.http.endpoints import EVENTS, MODEL_ROUTES, V2_ROUTES, ModelRoute, info
from driftsurf.service.http.events import EventStreams
from driftsurf.service.http.infer import ServerMetadata
from driftsurf.service.http.openapi import openapi
from driftsurf.service.http.passing import Passing
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.requests import (
    PIECE,
    ClientGoneError,
    HttpRequest,
    InFlight,
    Receive,
    Response,
    Scope,
    Send,
    failure_response,
    json_response,
    send_response,
    text_response,
)
from driftsurf.service.http.security import ApiKey, Gate
from driftsurf.service.page.content import LiveContent
from driftsurf.service.settings import Limits
from driftsurf.service.wire.formats import ModelFormats

if TYPE_CHECKING:
    from driftsurf.service.opening import Served


P = ParamSpec("P")
T = TypeVar("T")
LARGE = 2**16
"""Bytes from which on work is done in another thread."""


@dataclass(slots=True)
class ServedEntry:
    """A served model with its formats, the threads that work for it, and the requests under way."""

    served: Served
    formats: ModelFormats
    readers: ThreadPoolExecutor
    counts: dict[str, int] = field(default_factory=dict)
    """Rows predicted, learned, labelled and skipped since the process began, and requests refused for their content."""
    content: LiveContent = field(init=False)
    """What the live page shows of the model."""
    bridge: LoopBridge = field(default_factory=LoopBridge)
    """How results of the threads of the model reach the event loop."""
    refuse: Callable[[], object] | None = None
    """Raises the error that says why the model takes nothing, as long as it is not open; None once it is."""
    _keys: set[str] = field(default_factory=set)
    """Idempotency keys of requests under way."""

    def __post_init__(self) -> None:
        """Make what belongs to the model."""
        self.content = LiveContent(self.served)

    def serve(self, served: Served, formats: ModelFormats) -> None:
        """Serve a model that has been opened, in place of what stood for it."""
        self.content, self.formats, self.served = LiveContent(served), formats, served
        self.refuse = None

    @contextmanager
    def under_way(self, request: HttpRequest) -> Iterator[None]:
        """Context of a request that changes something; HttpProblem if its idempotency key is under way already."""
        key = request.headers.get("idempotency-key", "")
        if not key:
            yield
            return
        if key in self._keys:
            raise HttpProblem(
                "under-way", f"a request with the Idempotency-Key {key[:100]!r} is under way; wait for it"
            )
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)

    async def call(self, size: int, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function, in another thread if the body has many bytes."""
        if size < LARGE:
            return function(*arguments, **options)
        return await self.in_thread(function, *arguments, **options)

    async def in_thread(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function in another thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.readers, lambda: function(*arguments, **options))

    def count(self, what: str, rows: int) -> None:
        """Count rows, for the metrics."""
        if rows:
            self.counts[what] = self.counts.get(what, 0) + rows

    def columns(self) -> list[dict[str, str]]:
        """Return the columns of a row as plain values."""
        return [{"name": one.name, "kind": one.kind} for one in self.served.columns]

    def classes(self) -> list[Any]:
        """Return the classes that can be predicted."""
        return list(self.served.snapshot.classes)


READER_THREADS = 4
"""Threads for slow scorers, large bodies, and files."""
LOGIN_BYTES = 4096
"""Bytes of the body of a login: nobody is known yet, so that little memory is given."""
Page = Callable[["App", HttpRequest], Awaitable[Response]]
"""Answers a request that is no part of the API, such as the live page at /."""


class _Login(msgspec.Struct, forbid_unknown_fields=True):
    key: str


class App:
    """ASGI application that serves models.

    Parameters
    ----------
    models
        The models, with how the rows of each are read.
    keys
        Keys of clients; without any everybody who reaches the service may do everything.
    limits
        Limits of requests.
    pages
        Further addresses, such as "/", with what answers them.
    """

    def __init__(
        self,
        models: Iterable[tuple[Served, ModelFormats]],
        keys: Iterable[ApiKey] = (),
        limits: Limits | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self.limits: Limits = Limits() if limits is None else limits
        self.readers: ThreadPoolExecutor = ThreadPoolExecutor(
            READER_THREADS, thread_name_prefix="reader", initializer=lower_priority
        )
        self.entries: dict[str, ServedEntry] = {
            served.name: ServedEntry(served, formats, self.readers) for served, formats in models
        }
        self.passing: Passing = Passing()
        self.gate: Gate = Gate(tuple(keys))
        self.flight: InFlight = InFlight(self.limits.flight_bytes)
        self.answers: InFlight = InFlight(self.limits.flight_bytes)
        """Bytes of large answers that clients have not read yet."""
        self.metrics: metrics_text.ServiceMetrics = metrics_text.ServiceMetrics()
        self.events: EventStreams = EventStreams(self.limits.event_clients)
        self.pages: dict[str, Page] = dict(pages or {})
        self.connections: Callable[[], int] = lambda: 0
        """Returns the number of open connections; the server replaces it."""
        self.alerts: Callable[[], dict[str, Any]] = lambda: {"active": [], "channels": {}, "dropped": 0}
        """Returns active alerts and the state of their channels; the service replaces it."""
        self.record: Callable[[HttpRequest, str, int, float], None] | None = None
        """Called with each request, its endpoint, the status of its answer and the seconds that it took."""
        self.when_closing: Callable[[], None] = lambda: None
        """Called when the service begins to end; it returns at once."""
        self.closing: bool = False
        self._openapi: bytes | None = None

    def change(self, keys: Iterable[ApiKey], limits: Limits) -> None:
        """Use other keys and limits from now on."""
        self.gate.replace(tuple(keys))
        self.limits = limits
        self.flight.most = self.answers.most = limits.flight_bytes
        self.events.most = limits.event_clients

    def close(self) -> None:
        """Tell probes that the service ends, and end event streams; models are closed by who opened them."""
        self.closing = True
        self.when_closing()
        self.events.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        request = HttpRequest(scope, receive, send, self.limits, self.flight)
        endpoint, status = "other", 500
        try:
            endpoint, respond = self._found(request)
            place = None if request.entry is None else request.entry.served.place  # of the version that answers
            try:
                response = await respond
            except NotLeadingError as error:
                response = await self.passing.response(request, error.leader)
                place = None
            if place is not None and response is not None:
                at = {"driftsurf-position": str(place[0]), "driftsurf-lag": str(place[1])}
                response = response._replace(headers={**response.headers, **at})
            if response is not None:
                status = await self._send(send, response)
            else:
                status = 200
        except ClientGoneError:
            status = 499
        except Exception as error:
            if request.entry is not None and isinstance(error, InputError):
                request.entry.count("refused", 1)
            status = await self._refuse(send, failure_response(request, error))
        finally:
            request.release()
            seconds = time.perf_counter() - began
            self.metrics.count(endpoint, status, seconds)
            if self.record is not None:
                self.record(request, endpoint, status, seconds)

    async def _send(self, send: Send, response: Response) -> int:
        """Send an answer and return its status; a large one if not too many are in memory."""
        size = len(response.body)
        if size <= PIECE:
            await send_response(send, response)
            return response.status
        if not self.answers.add(size):
            raise HttpProblem("busy", "too many bytes of other answers are in memory; try again")
        try:
            await send_response(send, response)
        finally:
            self.answers.remove(size)
        return response.status

    async def _refuse(self, send: Send, response: Response) -> int:
        await send_response(send, response)
        return response.status

    # -------------------------------------------------------------------- routing

    def _found(self, request: HttpRequest) -> tuple[str, Awaitable[Response | None]]:
        """Return the name of an endpoint and its answer; HttpProblem if there is none, or it is not allowed."""
        path = request.path
        self.gate.check_host(request.headers)
        if path.startswith(("/v1/models/", "/v2/models/")):
            return self._model(request, path.split("/"))
        public = _PUBLIC.get(path)
        if public is not None:
            _require_method(request, "GET")
            if path in _CHECKED:
                request.check_query(())
            return path[1:], public(self, request)
        if path in ("/v1/login", "/v1/logout"):
            _require_method(request, "POST")
            request.check_query(())
            return path[4:], (self._log_in if path == "/v1/login" else self._log_out)(request)
        page = self.pages.get(path)
        if page is not None:
            _require_method(request, "GET")
            return "page", page(self, request)
        request.caller = self.gate.admit(request.headers, request.method)
        if path in _KEYED:
            _require_method(request, "GET")
            request.check_query(())
            return path.rpartition("/")[2], _KEYED[path](self, request)
        raise HttpProblem("not-found", f"there is nothing at {path[:200]!r}; /openapi.json lists all addresses")

    def _model(self, request: HttpRequest, parts: list[str]) -> tuple[str, Awaitable[Response | None]]:
        request.caller = self.gate.admit(request.headers, request.method)
        name, rest = parts[3], "/".join(parts[4:])
        if parts[1] == "v2" and rest == "ready":
            _require_method(request, "GET")
            return "v2-ready", self._model_ready(request, name)
        routes = MODEL_ROUTES if parts[1] == "v1" else V2_ROUTES
        route = routes.get(rest)
        if route is None:
            choices = ", ".join(one for one in routes if one)
            raise HttpProblem("not-found", f"a model has no {rest[:100]!r}; choices: {choices}")
        entry = self._entry(request, name, route)
        _require_method(request, route.method)
        request.check_query(route.query)
        label = f"{parts[1]}-{rest}" if parts[1] == "v2" else rest or "model"
        request.entry = entry
        if entry.served.differs and rest:
            raise UnavailableError("the model differs from that of other replicas and is built again; ask another one")
        if entry.refuse is not None and rest:  # only the state of a model is shown before it is open
            entry.refuse()
        if rest == EVENTS:
            if request.method == "HEAD":  # an event stream has no end that a HEAD request could wait for
                raise HttpProblem("no-method", "an event stream is read with GET", headers={"allow": "GET"})
            return label, self._events(entry, request)
        assert route.endpoint is not None
        return label, route.endpoint(entry, request)

    def _entry(self, request: HttpRequest, name: str, route: ModelRoute) -> ServedEntry:
        """Return a model; one that the key must not see is as unknown as one that does not exist."""
        entry = self.entries.get(name)
        if entry is None or not request.caller.sees(name):
            names = [one for one in self.entries if request.caller.sees(one)]
            raise HttpProblem("not-found", f"there is no model {name[:100]!r}; models: {listed(names)}")
        request.caller.require(route.scope, name)
        return entry

    async def _events(self, entry: ServedEntry, request: HttpRequest) -> None:
        await self.events.send(entry, request)

    # -------------------------------------------------------------------- the service

    async def _models(self, request: HttpRequest) -> Response:
        shown = [entry for name, entry in self.entries.items() if request.caller.allows("read", name)]
        scopes = {name: found for name in self.entries if (found := request.caller.scopes_for(name))}
        models = [await entry.in_thread(info, entry) for entry in shown]
        return json_response(Models(models, scopes))  # type: ignore[arg-type]

    async def _alerts(self, request: HttpRequest) -> Response:
        request.caller.require("read", None)
        found = self.alerts()
        active = [one for one in found["active"] if request.caller.allows("read", one["model"])]
        return json_response({**found, "active": active})

    async def _metrics(self, request: HttpRequest) -> Response:
        request.caller.require("read", None)
        shown = [entry for name, entry in self.entries.items() if request.caller.allows("read", name)]
        return text_response(self.metrics.text(self.families(shown)), metrics_text.CONTENT_TYPE)

    def families(self, entries: Iterable[ServedEntry]) -> Iterable[metrics_text.Family]:
        """Return the metrics of some models and of the process."""
        gauges = {
            "connections": ("Open connections.", float(self.connections())),
            "event_clients": ("Readers of event streams.", float(self.events.readers)),
            "body_bytes_in_flight": ("Bytes of bodies in memory.", float(self.flight.bytes)),
            "answer_bytes_in_flight": ("Bytes of large answers in memory.", float(self.answers.bytes)),
        }
        return self.metrics.families(entries, gauges)

    async def _describe(self, request: HttpRequest) -> Response:
        if self._openapi is None:
            self._openapi = msgspec.json.encode(openapi())
        return Response(self._openapi)

    async def _alive(self, request: HttpRequest) -> Response:
        return json_response({"alive": True})

    async def _ready(self, request: HttpRequest) -> Response:
        found = {name: entry.served.status() for name, entry in self.entries.items()}
        ready = not self.closing and all(one.ready for one in found.values())
        # Probes have no key, so names of models are not shown where keys are needed.
        shown = {} if self.gate.keys else {"models": {name: _progress(one) for name, one in found.items()}}
        return json_response({"ready": ready, **shown}, 200 if ready else 503)

    async def _model_ready(self, request: HttpRequest, name: str) -> Response:
        entry = self._entry(request, name, V2_ROUTES["infer"])
        ready = not self.closing and entry.served.status().ready
        return json_response({"ready": ready}, 200 if ready else 503)

    async def _server(self, request: HttpRequest) -> Response:
        return json_response(ServerMetadata("driftsurf", __version__, ["binary_tensor_data"]))

    async def _log_in(self, request: HttpRequest) -> Response:
        self.gate.check_origin(request.headers, request.method)
        try:
            key = msgspec.json.decode(await request.body(LOGIN_BYTES), type=_Login).key
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise HttpProblem("bad-input", 'pass {"key": KEY}') from None
        if not self.gate.keys:
            raise HttpProblem("bad-input", "this service has no keys, so nobody has to log in")
        secure = request.scope.get("scheme") == "https" or request.headers.get("x-forwarded-proto") == "https"
        caller, cookie = self.gate.log_in(key, secure=secure)
        assert caller.key is not None
        about = {"name": caller.name, "scopes": caller.key.scopes, "models": caller.key.models}
        return json_response(about, headers={"set-cookie": cookie})

    async def _log_out(self, request: HttpRequest) -> Response:
        self.gate.check_origin(request.headers, request.method)
        return json_response({"logged_in": False}, headers={"set-cookie": self.gate.log_out(request.headers)})


def _progress(status: ModelStatus) -> dict[str, Any]:
    """Return how far a model is in applying its log, or why it takes nothing."""
    shown = {"phase": status.phase, "applied": status.applied, "logged": status.logged}
    return {**shown, "failure": status.failure} if status.failure else shown


def _require_method(request: HttpRequest, method: str) -> None:
    allowed = ("GET", "HEAD") if method == "GET" else (method,)
    if request.method not in allowed:
        raise HttpProblem(
            "no-method",
            f"{request.path[:200]!r} has the method {method}, not {request.method[:20]!r}",
            headers={"allow": ", ".join(allowed)},
        )


_PUBLIC: dict[str, Callable[[App, HttpRequest], Awaitable[Response]]] = {
    "/openapi.json": App._describe,
    "/healthz": App._alive,
    "/readyz": App._ready,
    "/v2": App._server,
    "/v2/health/live": App._alive,
    "/v2/health/ready": App._ready,
}
"""Addresses that need no key."""
_CHECKED = "/openapi.json", "/v2"
"""Addresses without a key that refuse unknown query parameters; health probes accept any."""
_KEYED: dict[str, Callable[[App, HttpRequest], Awaitable[Response]]] = {
    "/v1/models": App._models,
    "/v1/alerts": App._alerts,
    "/metrics": App._metrics,
}
"""Addresses that need a key, if there are keys."""
