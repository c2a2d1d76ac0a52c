"""A served model in memory, without a log: what the doors need, for tests of the doors alone."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf import DriftSurfClassifier
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.reading_options import Kind
from driftsurf.data.row_encoder import Task
from driftsurf.data.tables import Table
from driftsurf.errors import CapabilityError, IdempotencyError, LabelError, OptionError
from driftsurf.report.run_page import PageParts
from driftsurf.service.contract import (
    UNJUDGED,
    Answer,
    Event,
    Judgement,
    ModelStatus,
    Order,
    OrderReceipt,
    Phase,
    Receipt,
    Request,
    ServedColumn,
)
from driftsurf.service.model import ServedModel
from driftsurf.service.wire.rows import NumberRows
from driftsurf.session.label_counts import LabelCounts

COLUMNS: dict[str, Kind] = {"price": "number", "city": "text", "new": "boolean", "day": "date"}


@dataclass(frozen=True)
class MemorySnapshot:
    """A version of the model."""

    version: int
    columns: tuple[ServedColumn, ...]
    classes: tuple[Any, ...]
    encoder: TableEncoder
    model: Any
    slow: bool = False
    task: Task | None = "binary"

    def predict(self, table: Table) -> Answer:
        return self.answer(table)

    def answer(self, table: Table) -> Answer:
        rows = self.encoder.transform(table)
        if not self.version:
            return Answer(0, None)
        return Answer(self.version, self.model.predict(rows), self.classes, self.model.predict_proba(rows))

    def answer_numbers(self, numbers: Any) -> Answer | None:
        return None


def first_table(columns: Mapping[str, Kind]) -> Table:
    from driftsurf.data.formats._cells import make_column

    values: dict[Kind, list[Any]] = {
        "number": [1.0, 2.0],
        "boolean": [0.0, 1.0],
        "text": ["Rome", "Oslo"],
        "date": [np.datetime64("2026-01-01"), np.datetime64("2026-01-02")],
    }
    return Table({name: make_column(kind, values[kind]) for name, kind in columns.items()})


@dataclass
class MemoryModel(ServedModel):
    """A served model that keeps everything in memory and does everything at once."""

    name: str = "sales"
    kinds: Mapping[str, Kind] = field(default_factory=lambda: COLUMNS)
    slow: bool = False
    phase: Phase = "ready"
    folder: Path = Path("unused")
    events: list[Event] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    labels_given: dict[str, Any] = field(default_factory=dict)
    waiting: dict[str, Answer] = field(default_factory=dict)
    refuse: Exception | None = None
    """Raised by learn, label and order."""
    hold: threading.Event | None = None
    """Receipts wait for it."""

    def __post_init__(self) -> None:
        encoder = TableEncoder().fit(first_table(self.kinds))
        columns = tuple(ServedColumn(name, kind) for name, kind in self.kinds.items())
        self.model = DriftSurfClassifier()
        self.snapshot: Any = MemorySnapshot(0, columns, ("no", "yes"), encoder, self.model, self.slow)
        self.position = 0
        self.keys: dict[str, tuple[bytes, Any]] = {}

    @property
    def differs(self) -> bool:
        return False

    @property
    def place(self) -> tuple[int, int] | None:
        return None

    @property
    def journal_lines(self) -> int:
        return self.events[-1].line if self.events else 0

    @property
    def columns(self) -> tuple[ServedColumn, ...]:
        columns: tuple[ServedColumn, ...] = self.snapshot.columns
        return columns

    def predict(self, table: Table, ids: Sequence[str] | None = None, request: Request | None = None) -> Answer:
        predicted: Answer = self.snapshot.predict(table)
        if ids is None:
            return predicted

        def work() -> Answer:
            answer = replace(predicted, position=self._next())
            self.waiting |= dict.fromkeys(ids, answer)
            return answer

        answer: Answer = self._once(request, work)
        return answer

    def predict_logged(
        self, table: Table, ids: Sequence[str], request: Request | None = None
    ) -> Answer | Future[Answer]:
        return self.predict(table, ids, request)

    def learn(self, rows: Table | NumberRows, labels: Any, request: Request | None = None) -> Future[Receipt]:
        if self.refuse is not None:
            raise self.refuse
        for row, label in enumerate(labels):
            if label not in ("yes", "no"):
                raise LabelError(f"the label {label!r} is not one of 'no', 'yes'", row=row, value=label)
        table = rows if isinstance(rows, Table) else rows.table()
        encoded = self.snapshot.encoder.transform(table)

        def work() -> Receipt:
            self.model.partial_fit(encoded, np.asarray(labels), classes=["no", "yes"])
            self.tables.append(table)
            self.snapshot = replace(self.snapshot, version=self.snapshot.version + 1)
            self.events.append(Event(len(self.events) + 1, {"type": "step", "step": self.snapshot.version}))
            return Receipt(self._next(), len(table), 0.0)

        return self._future(self._once(request, work))

    def label(self, labels: Mapping[str, Any], request: Request | None = None) -> Future[Receipt]:
        if self.refuse is not None:
            raise self.refuse

        def work() -> Receipt:
            self.labels_given |= labels
            return Receipt(self._next(), len(labels), 0.0)

        return self._future(self._once(request, work))

    def order(self, order: Order, request: Request | None = None) -> Future[OrderReceipt]:
        if order.kind == "promote" and order.model != "trees":
            raise OptionError(f"there is no challenger {order.model!r}; challengers: 'trees'")
        done = order.kind != "rollback"
        self.events.append(Event(len(self.events) + 1, {"type": "order", "kind": order.kind}))
        receipt = OrderReceipt(self._next(), 1, 0.0, done=done, reason="" if done else "no-checkpoints", text="done")
        return self._future(receipt)

    def status(self) -> ModelStatus:
        nan = float("nan")
        version = self.snapshot.version
        return ModelStatus(
            name=self.name,
            phase=self.phase,
            failure="",
            model="driftsurf",
            task="binary",
            label="sold",
            version=version,
            steps=version,
            pinned=False,
            applied=self.position,
            logged=self.position,
            durable=self.position,
            lag_rows=0,
            lag_seconds=0.0,
            log_bytes=0,
            free_bytes=10**12,
            checkpoint=0,
            rows=sum(map(len, self.tables)),
            labels=LabelCounts(predicted=len(self.waiting)),
            early=0,
            last_label=None,
            error=0.25 if version else nan,
            error_rows=500 if version else 0,
            usual_error=0.5 if version else nan,
            trivial_error=nan,
            restore_points=(),
            challengers=(),
        )

    def judge(self) -> Judgement:
        return UNJUDGED

    def journal(self, since: int = 0, most: int = 1000) -> list[Event]:
        return [event for event in self.events if event.line > since][:most]

    def trace(self) -> str:
        return "step,model,error\n" + "".join(f"{step},driftsurf,0.5\n" for step in range(self.snapshot.version))

    def moves(self) -> str:
        return "step,column\n3,price\n"

    def explain(self, step: int | None = None, *, everything: bool = False) -> str:
        return f"Step {step}: nothing happened."

    def report(self) -> str:
        return "<!doctype html><title>report</title>"

    def parts(self) -> PageParts | None:
        return None

    def state(self) -> bytes:
        if not self.snapshot.version:
            raise CapabilityError(f"the model {self.name!r} has learned nothing yet")
        return bytes(self.model.to_bytes())

    def close(self) -> None:
        self.phase = "closed"

    def _next(self) -> int:
        self.position += 1
        return self.position - 1

    def _once(self, request: Request | None, work: Callable[[], Any]) -> Any:
        if request is None or not request.key:
            return work()
        assert len(request.digest) == hashlib.sha256().digest_size
        if request.key not in self.keys:
            self.keys[request.key] = request.digest, work()
            return self.keys[request.key][1]
        digest, found = self.keys[request.key]
        if digest != request.digest:
            raise IdempotencyError(f"the idempotency key {request.key!r} was used before with another body")
        return replace(found, repeated=True)

    def _future(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.hold is None:
            future.set_result(value)
        else:
            hold = self.hold

            def end() -> None:
                hold.wait()
                future.set_result(value)

            threading.Thread(target=end, daemon=True).start()
        return future
