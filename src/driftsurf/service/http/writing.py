"""Endpoints that predict, learn, take labels and carry out orders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Literal

import msgspec

from driftsurf.core.json_text import repeated_keys
from driftsurf.errors import BadRowError, DriftsurfError, InputError, OptionError
from driftsurf.service.contract import ORDERS, Answer, Order, OrderKind, Receipt, Request, Served, ServedSnapshot
from driftsurf.service.http.answers import OrderAnswer, Taken, bad_rows
from driftsurf.service.http.entry import Entry
from driftsurf.service.http.formats import MEDIA, Format, Purpose, answer_format, body_format, encode_answer
from driftsurf.service.http.parts import PartReader, is_streamed
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.http.responses import Response, failure_response, json_response
from driftsurf.service.wire.format import NumberRows, OnBadRow, RowsRead
from driftsurf.service.wire.labels import read_labels
from driftsurf.session.model_names import imported_class

__all__ = ["OrderBody", "label", "learn", "order", "predict"]

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
    entry: Entry,
    request: HttpRequest,
    purpose: Purpose,
    format: Format,
    body: bytes,
    on_bad_row: OnBadRow,
    snapshot: ServedSnapshot | None = None,
) -> RowsRead:
    """Return the rows of a body; one without any is refused, unless all of them were bad and are skipped."""
    read = entry.formats.reader(entry.served.snapshot if snapshot is None else snapshot, purpose, format)
    rows = read(body, on_bad_row, request.limits.rows)
    if not len(rows) and not rows.n_skipped:
        raise InputError("the body has no rows; pass at least one")
    return rows


async def predict(entry: Entry, request: HttpRequest) -> Response:
    """Predict rows; those with ids are kept until their labels come."""
    format = body_format(request.headers.get("content-type", ""))
    wanted = answer_format(request.headers.get("accept", ""), format)
    all_classes = request.choice("probabilities", ("best", "all")) == "all"
    on_bad_row = _on_bad_row(request)
    body = await request.body()

    def work() -> tuple[bytes, int, int]:
        snapshot = entry.served.snapshot
        rows = _read(entry, request, "predict", format, body, on_bad_row, snapshot)
        found = _answer(entry.served, snapshot, rows, request, body)
        answer = encode_answer(entry.served.name, found, rows, wanted, all_classes=all_classes)
        return answer, len(rows), rows.n_skipped

    if len(body) < LARGE and not entry.served.snapshot.slow:
        data, taken, skipped = work()
    else:
        data, taken, skipped = await entry.in_thread(work)
    request.rows = taken
    entry.count("predicted", taken)
    entry.count("skipped", skipped)
    return Response(data, MEDIA[wanted], 200, {"x-rows-skipped": str(skipped)} if skipped else {})


def _answer(served: Served, snapshot: ServedSnapshot, rows: RowsRead, request: HttpRequest, body: bytes) -> Answer:
    """Return predictions; without ids nothing is logged, so an idempotency key has no effect.

    The rows were read as the columns of this snapshot, so they need no further check.
    """
    if not len(rows):
        return Answer(snapshot.version, None)
    if rows.ids is not None:
        return served.predict(rows.table, rows.ids, request.to_core(body))
    if not snapshot.columns:
        return snapshot.predict(rows.table)
    found = snapshot.answer_numbers(rows.rows.values) if isinstance(rows.rows, NumberRows) else None
    return snapshot.answer(rows.table) if found is None else found


# ---------------------------------------------------------------------------- learning


async def learn(entry: Entry, request: HttpRequest) -> Response:
    """Learn rows with their labels; a body that is too large for one record is learned in parts."""
    return await _given(entry, request, "learn")


async def label(entry: Entry, request: HttpRequest) -> Response:
    """Take labels of rows that were predicted, by their ids."""
    return await _given(entry, request, "label")


async def _given(entry: Entry, request: HttpRequest, purpose: Purpose) -> Response:
    """Take rows with labels, or labels by id, as a whole or in parts."""
    format = body_format(request.headers.get("content-type", ""))
    if is_streamed(request, format):
        return await _in_parts(entry, request, purpose, format)
    body = await request.body()
    with entry.under_way(request):
        rows, receipt = await _kept(entry, request, purpose, format, body, request.to_core(body))
    return json_response(_taken(entry, rows, receipt))


async def _kept(
    entry: Entry, request: HttpRequest, purpose: Purpose, format: Format, body: bytes, core: Request
) -> tuple[RowsRead, Receipt | None]:
    """Give the rows or labels of a body to the model, and wait until they are on the storage device."""
    rows, future = await entry.call(len(body), _take, entry, request, purpose, format, body, core)
    entry.count("skipped", rows.n_skipped)
    request.rows += len(rows)
    entry.count("learned" if purpose == "learn" else "labelled", len(rows))
    if future is None:
        return rows, None
    return rows, await entry.crossing.result(future)


def _take(
    entry: Entry, request: HttpRequest, purpose: Purpose, format: Format, body: bytes, core: Request
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


def _taken(entry: Entry, rows: RowsRead, receipt: Receipt | None) -> Taken:
    position, durability = (-1, "none") if receipt is None else (receipt.position, receipt.durability)
    repeated = receipt is not None and receipt.repeated
    return Taken(entry.served.name, len(rows), position, durability, repeated, 1, rows.n_skipped, bad_rows(rows.faults))


async def _in_parts(entry: Entry, request: HttpRequest, purpose: Purpose, format: Format) -> Response:
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
                faults += (bad_rows(rows.faults) or [])[: 100 - len(faults)]
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


async def order(entry: Entry, request: HttpRequest) -> Response:
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
            done = await asyncio.wait_for(entry.crossing.result(future), ORDER_SECONDS)
        except TimeoutError:
            text = f"the order {kind!r} is in the log, and is carried out later; the journal tells when"
            return json_response(OrderAnswer(entry.served.name, kind, done=False, reason="not-yet", text=text), 202)
    answer = OrderAnswer(entry.served.name, kind, done.done, done.reason, done.text, done.position, done.line)
    return json_response(answer, 200 if done.done else 409)
