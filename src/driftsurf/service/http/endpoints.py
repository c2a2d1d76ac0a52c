"""Endpoints of a model, and the table of their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

import msgspec

from driftsurf.core.files import repeated_keys
from driftsurf.errors import BadRowError, DriftsurfError, InputError, OptionError, UnavailableError
from driftsurf.service.contract import ORDERS, Answer, Order, OrderKind, Receipt, Request
from driftsurf.service.http import infer
from driftsurf.service.http.answers import ModelInfo, OrderAnswer, PredictionsAnswer, Taken, model_info
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.requests import (
    HttpRequest,
    PartReader,
    Response,
    failure_response,
    is_streamed,
    json_response,
    text_response,
)
from driftsurf.service.http.security import KeyScope
from driftsurf.service.page.content import PageContent
from driftsurf.service.versions import Version
from driftsurf.service.wire.formats import MEDIA, Format, Purpose, answer_format, body_format, encode_answer
from driftsurf.service.wire.rows import NumberRows, OnBadRow, RowsRead, read_labels
from driftsurf.session.model_names import imported_class

if TYPE_CHECKING:
    from driftsurf.service.http.app import ServedEntry
    from driftsurf.service.opening import Served


LARGE = 2**18
"""Bytes of a body from which on another thread reads it, so that other requests do not wait for it."""
ORDER_SECONDS = 5.0
"""How long an answer waits for an order to be carried out: one for a model that has learned nothing waits for rows."""
BAD_ROWS: tuple[OnBadRow, ...] = ("fail", "skip")


class OrderBody(msgspec.Struct, forbid_unknown_fields=True):
    """An order of an operator."""

    kind: OrderKind
    model: str = ""
    """For promote, warm, challenge and dismiss: the name of the challenger."""
    to: int | None = None
    """For rollback: the position of a restore point."""
    options: dict[str, str | bool | int | float | dict[str, Any] | None] = {}
    """For challenge: model, learner, parameters and seed, as of driftsurf run."""
    replace: bool = False
    """For challenge: whether it may take the place of a challenger of that name, whose comparison is then lost."""
    mark: Literal["", "expected", "false", "none"] = ""
    """For mark: what is said about a drift; none takes it back. It changes the record of the drift, nothing else."""
    drift: int | None = None
    """For mark: the number of the drift; null for the newest one."""


def _on_bad_row(request: HttpRequest) -> OnBadRow:
    return "skip" if request.choice("on_bad_row", BAD_ROWS) == "skip" else "fail"


def _read(
    entry: ServedEntry,
    request: HttpRequest,
    purpose: Purpose,
    format: Format,
    body: bytes,
    on_bad_row: OnBadRow,
    snapshot: Version | None = None,
) -> RowsRead:
    """Return the rows of a body; one without any is refused, unless all of them were bad and are skipped."""
    read = entry.formats.reader(entry.served.snapshot if snapshot is None else snapshot, purpose, format)
    rows = read(body, on_bad_row, request.limits.rows)
    if not len(rows) and not rows.n_skipped:
        raise InputError("the body has no rows; pass at least one")
    return rows


async def predict(entry: ServedEntry, request: HttpRequest) -> Response:
    """Predict rows; those with ids are kept until their labels come."""
    format = body_format(request.headers.get("content-type", ""))
    wanted = answer_format(request.headers.get("accept", ""), format)
    all_classes = request.choice("probabilities", ("best", "all")) == "all"
    on_bad_row = _on_bad_row(request)
    body = await request.body()

    def work() -> tuple[RowsRead, bytes | Future[Answer]]:
        snapshot = entry.served.snapshot
        rows = _read(entry, request, "predict", format, body, on_bad_row, snapshot)
        found = _answer(entry.served, snapshot, rows, request, body)
        return rows, found if isinstance(found, Future) else encoded(found, rows)

    def encoded(found: Answer, rows: RowsRead) -> bytes:
        return encode_answer(entry.served.name, found, rows, wanted, all_classes=all_classes)

    if len(body) < LARGE and not entry.served.snapshot.slow:
        rows, data = work()
    else:
        rows, data = await entry.in_thread(work)
    if isinstance(data, Future):
        data = encoded(await entry.bridge.result(data), rows)
    request.rows, skipped = len(rows), rows.n_skipped
    entry.count("predicted", len(rows))
    entry.count("skipped", skipped)
    return Response(data, MEDIA[wanted], 200, {"x-rows-skipped": str(skipped)} if skipped else {})


def _answer(
    served: Served, snapshot: Version, rows: RowsRead, request: HttpRequest, body: bytes
) -> Answer | Future[Answer]:
    """Return predictions; without ids nothing is logged, so an idempotency key has no effect.

    The rows were read as the columns of this snapshot, so they need no further check.
    """
    if not len(rows):
        return Answer(snapshot.version, None)
    if rows.ids is not None:
        return served.predict_logged(rows.table, rows.ids, request.to_core(body))
    if not snapshot.columns:
        return snapshot.predict(rows.table)
    found = snapshot.answer_numbers(rows.rows.values) if isinstance(rows.rows, NumberRows) else None
    return snapshot.answer(rows.table) if found is None else found


# ---------------------------------------------------------------------------- learning


async def learn(entry: ServedEntry, request: HttpRequest) -> Response:
    """Learn rows with their labels; a body that is too large for one record is learned in parts."""
    return await _given(entry, request, "learn")


async def label(entry: ServedEntry, request: HttpRequest) -> Response:
    """Take labels of rows that were predicted, by their ids."""
    return await _given(entry, request, "label")


async def _given(entry: ServedEntry, request: HttpRequest, purpose: Purpose) -> Response:
    """Take rows with labels, or labels by id, as a whole or in parts."""
    format = body_format(request.headers.get("content-type", ""))
    if is_streamed(request, format):
        return await _in_parts(entry, request, purpose, format)
    body = await request.body()
    with entry.under_way(request):
        rows, receipt = await _kept(entry, request, purpose, format, body, request.to_core(body))
    return json_response(_taken(entry, rows, receipt))


async def _kept(
    entry: ServedEntry, request: HttpRequest, purpose: Purpose, format: Format, body: bytes, core: Request
) -> tuple[RowsRead, Receipt | None]:
    """Give the rows or labels of a body to the model, and wait until they are on the storage device."""
    rows, future = await entry.call(len(body), _take, entry, request, purpose, format, body, core)
    entry.count("skipped", rows.n_skipped)
    request.rows += len(rows)
    entry.count("learned" if purpose == "learn" else "labelled", len(rows))
    if future is None:
        return rows, None
    return rows, await entry.bridge.result(future)


def _take(
    entry: ServedEntry, request: HttpRequest, purpose: Purpose, format: Format, body: bytes, core: Request
) -> tuple[RowsRead, Future[Receipt] | None]:
    """Give the rows or labels of a body to the model; no future if all of its rows were bad and are skipped."""
    on_bad_row = _on_bad_row(request)
    if purpose == "label" and format == "json":
        rows = read_labels(body, on_bad_row, request.limits.rows)
    else:
        rows = _read(entry, request, purpose, format, body, on_bad_row)
    if not len(rows):
        return rows, None
    assert rows.labels is not None
    if purpose == "learn":
        return rows, entry.served.learn(rows.rows, rows.labels, core)
    assert rows.ids is not None
    given = dict(zip(rows.ids, rows.labels, strict=True))
    if len(given) < len(rows.ids):
        seen: set[str] = set()
        twice = next(one for one in rows.ids if one in seen or seen.add(one))  # type: ignore[func-returns-value]
        raise BadRowError(f"the id {twice!r} has two labels; send each id once", value=twice)
    return rows, entry.served.label(given, core)


def _taken(entry: ServedEntry, rows: RowsRead, receipt: Receipt | None) -> Taken:
    position, durability = (-1, "none") if receipt is None else (receipt.position, receipt.durability)
    repeated = receipt is not None and receipt.repeated
    return Taken(
        entry.served.name, len(rows), position, durability, repeated, 1, rows.n_skipped, list(rows.faults) or None
    )


async def _in_parts(entry: ServedEntry, request: HttpRequest, purpose: Purpose, format: Format) -> Response:
    """Take a large body in parts, each of them all or nothing; memory holds two parts at most."""
    total = Taken(entry.served.name, 0, -1, "disk", parts=0)
    faults: list[Any] = []
    try:
        with entry.under_way(request):
            async for number, part in PartReader(request, format).parts():
                core = request.to_core(part)
                if core.key:
                    core = Request(f"{core.key}/{number}", core.digest, core.by)
                rows, receipt = await _kept(entry, request, purpose, format, part, core)
                total.count += len(rows)
                total.parts += 1
                total.skipped += rows.n_skipped
                faults += rows.faults[: 100 - len(faults)]
                if receipt is not None:
                    total.position, total.repeated = receipt.position, receipt.repeated
    except (DriftsurfError, OSError) as error:
        return failure_response(request, error, rows_taken=total.count)
    total.bad_rows = faults or None
    return json_response(total)


# ---------------------------------------------------------------------------- orders

_ORDER = msgspec.json.Decoder(OrderBody)


def _check_registered(options: Mapping[str, Any]) -> None:
    """Raise OptionError if a challenger names a class to import: a request could call any function in this way."""
    model, learner = (name if isinstance(name := options.get(one), str) else None for one in ("model", "learner"))
    foreign = imported_class(model, learner)
    if foreign:
        raise OptionError(
            f"the order names {foreign}, which is not part of driftsurf; only the configuration may name such a class, "
            "in [models.NAME.challengers.NAME]"
        )


async def order(entry: ServedEntry, request: HttpRequest) -> Response:
    """Carry out an order of an operator; the answer comes when it has been carried out or refused."""
    body = await request.body()
    try:
        asked = _ORDER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HttpProblem(
            "bad-input", f'the body is not an order: {error}; pass {{"kind": "pin"}}; kinds: {", ".join(ORDERS)}'
        ) from None
    twice = repeated_keys(body).anywhere
    if twice is not None:
        raise HttpProblem("bad-input", f"the order has {twice!r} more than once; pass each name once")
    kind: OrderKind = asked.kind
    _check_registered(asked.options)
    with entry.under_way(request):
        given = Order(kind, asked.model, asked.to, asked.options, asked.replace, asked.mark, asked.drift)
        future = await entry.call(LARGE, entry.served.order, given, request.to_core(body))
        try:
            done = await asyncio.wait_for(entry.bridge.result(future), ORDER_SECONDS)
        except TimeoutError:
            text = f"the order {kind!r} is in the log, and is carried out later; the journal tells when"
            return json_response(OrderAnswer(entry.served.name, kind, done=False, reason="not-yet", text=text), 202)
    answer = OrderAnswer(entry.served.name, kind, done.done, done.reason, done.text, done.position, done.line)
    return json_response(answer, 200 if done.done else 409)


P = ParamSpec("P")
T = TypeVar("T")
MOST_LINES = 10_000
"""Lines of the journal in one answer at most."""
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Explanation(msgspec.Struct):
    """A decision in words."""

    model: str
    text: str


class JournalLine(msgspec.Struct):
    """A line of the journal."""

    line: int
    record: dict[str, Any]


class JournalPage(msgspec.Struct):
    """Lines of the journal; ``since`` of the next request is ``last``."""

    model: str
    events: list[JournalLine]
    last: int


def info(entry: ServedEntry) -> ModelInfo:
    """Return the state of a model as plain values; it may take as long as reading the trace."""
    return model_info(entry.served.status(), entry.served.judge(), entry.columns(), entry.classes(), entry.formats.id)


async def _shown(entry: ServedEntry, show: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a model shows of itself; HttpProblem if it is ready and has learned nothing yet."""
    try:
        return await entry.in_thread(show, *arguments, **options)
    except UnavailableError as error:
        if entry.served.status().ready:
            raise HttpProblem("not-yet", *error.args) from error
        raise


async def status(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show the state of a model."""
    return json_response(await entry.in_thread(info, entry))


async def journal(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show lines of the journal: every decision and order, with all numbers."""
    since, most = request.whole("since", 0), request.whole("most", 1000, MOST_LINES)
    found = await entry.in_thread(entry.served.journal, since, most)
    lines = [JournalLine(one.line, dict(one.record)) for one in found]
    return json_response(JournalPage(entry.served.name, lines, lines[-1].line if lines else since))


async def trace(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show the error of every step as CSV."""
    return text_response(await entry.in_thread(entry.served.trace), "text/csv; charset=utf-8")


async def columns(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show which columns moved around each reaction as CSV."""
    return text_response(await entry.in_thread(entry.served.moves), "text/csv; charset=utf-8")


async def explain(entry: ServedEntry, request: HttpRequest) -> Response:
    """Explain a decision in words: that of a step, the last change of the model, or all of them."""
    step = request.whole("step", 0) if "step" in request.query else None
    everything = request.choice("all", ("0", "1")) == "1"
    if everything and step is not None:
        raise HttpProblem("bad-option", "step and all exclude each other; leave one out")
    text = await _shown(entry, entry.served.explain, step, everything=everything)
    if "text/plain" in request.headers.get("accept", ""):
        return text_response(text if text.endswith("\n") else text + "\n")
    return json_response(Explanation(entry.served.name, text))


async def report(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show the report page of the model so far."""
    page = await _shown(entry, entry.served.report)
    return Response(page.encode(), "text/html; charset=utf-8", 200, {"content-security-policy": PAGE_POLICY})


async def page(entry: ServedEntry, request: HttpRequest) -> Response:
    """Show the parts of the report page as data, as the live page needs them."""
    version, body = await entry.content.body(entry.in_thread)
    tag = f'"{version}"'
    if request.headers.get("if-none-match") == tag:
        return Response(b"", "application/json", 304, {"etag": tag})
    return Response(body, "application/json", 200, {"etag": tag})


async def state(entry: ServedEntry, request: HttpRequest) -> Response:
    """Download the model, as ``driftsurf.load`` reads it."""
    data = await _shown(entry, entry.served.state)
    attachment = {"content-disposition": 'attachment; filename="model.state"'}
    return Response(data, "application/octet-stream", 200, attachment)


Endpoint: TypeAlias = Callable[["ServedEntry", HttpRequest], Awaitable[Response]]
EVENTS = "events"
"""The endpoint of event streams, which do not end with one answer."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """What is at ``/v1/models/NAME/...``."""

    method: str
    scope: KeyScope
    endpoint: Endpoint | None
    """None for event streams, which the application sends itself."""
    summary: str
    answer: Any = None
    """Type of the answer in JSON; None for other formats."""
    media: str = "application/json"
    body: str = ""
    """What the body is: "rows", "learn", "labels", "order" or "infer"; empty for none."""
    query: tuple[str, ...] = ()
    """Parameters after the question mark; they are described in the OpenAPI document."""


_ROWS = ("on_bad_row",)
MODEL_ROUTES: Final[Mapping[str, ModelRoute]] = {
    "": ModelRoute("GET", "read", status, "Show the state of a model.", ModelInfo),
    "predict": ModelRoute(
        "POST",
        "predict",
        predict,
        "Predict rows; those with ids are kept until their labels come.",
        PredictionsAnswer,
        body="rows",
        query=(*_ROWS, "probabilities"),
    ),
    "learn": ModelRoute("POST", "learn", learn, "Learn rows with their labels.", Taken, body="learn", query=_ROWS),
    "label": ModelRoute(
        "POST", "learn", label, "Give labels of predicted rows, by id.", Taken, body="labels", query=_ROWS
    ),
    "explain": ModelRoute("GET", "read", explain, "Explain a decision in words.", Explanation, query=("step", "all")),
    "journal": ModelRoute(
        "GET",
        "read",
        journal,
        "Show every decision and order with its numbers.",
        JournalPage,
        query=("since", "most"),
    ),
    "trace": ModelRoute("GET", "read", trace, "Show the error of every step.", media="text/csv"),
    "columns": ModelRoute("GET", "read", columns, "Show which columns moved.", media="text/csv"),
    "report": ModelRoute("GET", "read", report, "Show the report page.", media="text/html"),
    "page": ModelRoute("GET", "read", page, "Show the parts of the report page as data.", PageContent),
    "state": ModelRoute("GET", "read", state, "Download the model.", media="application/octet-stream"),
    "orders": ModelRoute("POST", "operate", order, "Carry out an order of an operator.", OrderAnswer, body="order"),
    EVENTS: ModelRoute(
        "GET",
        "read",
        None,
        "Follow a model: its history, then a frame each second.",
        media="text/event-stream",
        query=("since",),
    ),
}
"""Endpoints of a model, by what follows its name in the address."""

V2_ROUTES: Final[Mapping[str, ModelRoute]] = {
    "": ModelRoute("GET", "predict", infer.metadata, "Describe the tensors of a model.", infer.ModelMetadata),
    "infer": ModelRoute("POST", "predict", infer.infer, "Predict tensors.", infer.InferResponse, body="infer"),
}
"""Endpoints of the Open Inference Protocol, by what follows ``/v2/models/NAME``."""
