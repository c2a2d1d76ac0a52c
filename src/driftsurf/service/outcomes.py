"""The outcome of an order, which waits for the storage device and for the model."""

from __future__ import annotations

from concurrent.futures import Future

from driftsurf.runs.orders import OrderRecord
from driftsurf.service.admission import Admitted
from driftsurf.service.contract import OrderReceipt, Receipt

__all__ = ["when_carried_out"]


def when_carried_out(
    admitted: Admitted, durable: Future[Receipt], outcome: Future[tuple[OrderRecord, int]]
) -> Future[OrderReceipt]:
    """Return a future that ends when an order is on the storage device and has been carried out.

    ``outcome`` is a future of what became of the order, with the line of the journal.
    """
    future: Future[OrderReceipt] = Future()

    def flushed(one: Future[Receipt]) -> None:
        if error := one.exception():
            _end(future, error)
        else:
            outcome.add_done_callback(carried_out)

    def carried_out(one: Future[tuple[OrderRecord, int]]) -> None:
        if error := one.exception():
            _end(future, error)
            return
        record, line = one.result()
        receipt = OrderReceipt(
            admitted.position, 0, admitted.time, repeated=admitted.repeated,
            done=record.outcome == "done", reason=record.reason, text=record.text, line=line,
        )  # fmt: skip
        _end(future, receipt)

    durable.add_done_callback(flushed)
    return future


def _end(future: Future[OrderReceipt], result: OrderReceipt | BaseException) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
