"""The way into the log of a served model: everything is checked first, so that a record in the log can be applied."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.input import listed
from driftsurf.core.options import choice
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.log.contract import Log
from driftsurf.data.log.records import ColumnKind, Kinds, Record, RowBlock, block_of, decode, encode
from driftsurf.data.row_encoder import Task
from driftsurf.data.tables import Column, Table, empty_column, which_columns
from driftsurf.errors import (
    AnswerGoneError,
    CapabilityError,
    InputError,
    LabelError,
    LogError,
    NonFiniteError,
    Option,
    OptionError,
    SchemaError,
    ShapeError,
    ValueTypeError,
)
from driftsurf.runs.orders import MARKS
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.committer import GroupCommitter
from driftsurf.service.contract import ORDERS, Answer, Order, Receipt, Request
from driftsurf.service.replayed_state import KnownRequest, RequestKeys
from driftsurf.service.wire.rows import NumberRows

FEW = 20


def find_columns(table: Table, categorical: Collection[str]) -> tuple[ColumnKind, ...]:
    """Return the columns that the first rows have; SchemaError if the kind of one is not known.

    >>> from driftsurf.data.frames import read_table
    >>> find_columns(read_table({"price": [9.5], "city": ["Rome"]}), ())
    (ColumnKind(name='price', kind='number'), ColumnKind(name='city', kind='text'))
    """
    if table.features is not None or not table.columns:
        raise SchemaError("a served model needs rows with named columns")
    unknown = [name for name in categorical if name not in table.columns]
    if unknown:
        raise SchemaError(Option("categorical"), f" names {listed(unknown)}; {which_columns(unknown, table.columns)}")
    for name, column in table.columns.items():
        if column.missing().all() and name not in categorical:
            raise SchemaError(
                f"the column {name!r} has no value in the first rows, so that its kind is not known; say it with ",
                Option("columns"),
                column=name,
            )
    return tuple(
        ColumnKind(name, "text" if name in categorical else column.kind) for name, column in table.columns.items()
    )


def conform(table: Table, columns: Sequence[ColumnKind], categorical: Collection[str]) -> Table:
    """Return a table with exactly these columns, in this order and of these kinds; SchemaError if it has others."""
    if not len(table):
        raise ShapeError("there are no rows; send at least one")
    names = {one.name for one in columns}
    added = [name for name in table.columns if name not in names]
    removed = [one.name for one in columns if one.name not in table.columns]
    retyped: list[str] = []
    found: dict[str, Column] = {}
    for one in columns:
        column = table.columns.get(one.name)
        if column is None:
            continue
        if one.name in categorical:
            column = column.as_text()
        if column.kind != one.kind:
            if {column.kind, one.kind} == {"number", "boolean"}:
                column = Column(one.kind, column.values)
            elif column.missing().all():
                column = empty_column(one.kind, len(column))
            else:
                retyped.append(f"{one.name!r} from {one.kind} to {column.kind}")
        if one.kind == "number" and column.kind == "number" and _has_infinity(column.values):
            row = int(np.argmax(np.isinf(column.values)))
            raise NonFiniteError(
                f"the column {one.name!r} contains infinity (inf) in row {row}; correct it, or leave it out",
                row=row,
                column=one.name,
                value=float(column.values[row]),
            )
        found[one.name] = column
    faults = [f"added: {listed(added)}"] * bool(added) + [f"removed: {listed(removed)}"] * bool(removed)
    faults += [f"retyped: {', '.join(retyped)}"] * bool(retyped)
    if faults or table.features is not None:
        faults += ["sparse features"] * (table.features is not None)
        odd = next(iter([*added, *removed]), None)
        raise SchemaError(
            f"the columns differ from those of the model ({'; '.join(faults)}); the columns are "
            f"{', '.join(f'{one.name!r} ({one.kind})' for one in columns)}",
            column=odd,
        )
    return Table(found)


def _has_infinity(values: FloatArray) -> bool:
    """Return whether a number is infinite; for a few numbers the calls of numpy would take ten times as long."""
    return any(map(math.isinf, values.tolist())) if len(values) < FEW else bool(np.isinf(values).any())


LONGEST_ID = 500
LONGEST_NAME = 100
READ_BYTES = 2**22
"""Bytes of records that are read at a time."""
STATE_BYTES = 2**20
"""Bytes of a state in one record at most."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A record that is in the log."""

    position: int
    count: int
    time: float
    term: int
    """Term of the committer in which the record got its number."""
    repeated: bool = False

    def receipt(self) -> Receipt:
        """Return the acknowledgement, once the record is on the storage device."""
        return Receipt(self.position, self.count, self.time, repeated=self.repeated)


class Admission:
    """Checks rows, labels and orders, and appends them to the log.

    What is known (columns, classes, keys) is ahead of the model, which follows the log: it is what the model will know
    once it has applied all records so far.

    Parameters
    ----------
    blueprint
        Settings of the model.
    log, committer
        Where records go, and who makes them durable.
    clock
        Returns the seconds since 1970.
    """

    def __init__(self, blueprint: Blueprint, log: Log, committer: GroupCommitter, clock: Callable[[], float]) -> None:
        self.blueprint = blueprint
        self.log = log
        self.committer = committer
        self.clock = clock
        self.columns: tuple[ColumnKind, ...] = blueprint.columns
        self.task: Task | None = blueprint.task
        self.targets: ClassTargets | RegressionTargets | None = None
        self.keys: RequestKeys = RequestKeys(1)
        self.time: float = 0.0
        self.rows: int = 0
        self.bytes: int = 0
        """Rows and labels that were logged and that this process has to apply, and the bytes of their records."""
        self.challenged: set[str] = set()
        """Challengers that were ordered in these records, and may not be there yet."""
        self.lock: Any = threading.RLock()

    def begin(
        self,
        columns: tuple[ColumnKind, ...],
        task: Task | None,
        targets: ClassTargets | RegressionTargets | None,
        keys: RequestKeys,
        time: float,
        *,
        position: int,
        rows: int,
        size: int = 0,
    ) -> int:
        """Go on from what the model knows at a position of the log, and from the records that follow there.

        ``rows`` are rows and labels of earlier records that this process has applied, or is going to, and ``size`` are
        their bytes. Returns the number of the next record.
        """
        with self.lock:
            self.columns, self.task, self.targets, self.keys, self.time = columns, task, targets, keys.copy(), time
            self.rows, self.bytes, self.challenged = rows, size, set()
            while numbered := self.log.read(position, READ_BYTES):
                for number, payload in numbered:
                    self._know(decode(payload, self.columns), number, len(payload))
                    position = number + 1
            return position

    def _know(self, record: Record, number: int, size: int) -> None:
        """Take over what a record in the log says."""
        self.time = max(self.time, record.time)
        self.columns = record.columns or self.columns
        self.rows += record.count
        self.bytes += size
        self.keys.add(record, number)
        if record.kind == Kinds.ORDER and record.content["kind"] == "challenge":
            self.challenged.add(str(record.content["model"]))
        if record.kind in (Kinds.LEARN, Kinds.LABELS) and record.labels is not None:
            self.task = self.task or self.blueprint.task_of(record.labels)
            known = self.blueprint.targets(self.task) if self.targets is None else self.targets
            self.targets = known.read(record.labels, record.count)[0]

    # ------------------------------------------------------------------------ records

    def rows_with_ids(
        self, block: RowBlock, ids: Sequence[str], version: int, labels: Any, request: Request, term: int
    ) -> Admitted:
        """Log rows that were predicted, in the term in which their columns were checked."""
        record = self._record(
            Kinds.ROWS, block.count, request, rows=block, ids=tuple(ids), version=version, labels=labels
        )
        if not request.key:
            return self._append(record, term)
        with self.lock:  # the same request may have come twice at the same time
            known = self.keys.find(request, Kinds.ROWS)
            return self._append(record, term) if known is None else self.repeated(known)

    def answered_before(self, position: int, key: str) -> Answer:
        """Return the answer that was logged with rows, without probabilities; AnswerGoneError if it was dropped."""
        try:
            ((_, payload),) = self.log.read(position, 1)[:1]
        except LogError:
            if position >= self.log.first:
                raise
            raise AnswerGoneError(
                f"the rows were taken before under the idempotency key {key!r}, and the log no longer has the answer "
                "(retain-bytes in [keeping]); to predict them again, send them without ids, or with a new key",
                value=key,
            ) from None
        record = decode(payload, self.columns)
        return Answer(record.version, record.labels, position=position, repeated=True)

    def learn(self, rows: Table | NumberRows, labels: Any, request: Request) -> Admitted:
        """Log rows with their labels."""
        with self.lock:
            block = self._block(rows)
            known = self.keys.find(request, Kinds.LEARN)
            if known is not None:
                return self.repeated(known)
            targets, codes = self._read(labels, block.count)
            record = self._record(Kinds.LEARN, block.count, request, rows=block, labels=targets.decode(codes))
            return self._with_targets(record, targets)

    def label(self, labels: Mapping[str, Any], request: Request) -> Admitted:
        """Log labels by id."""
        if not labels:
            raise ShapeError("there are no labels; send at least one")
        ids = tuple(labels)
        check_ids(ids, len(ids))
        with self.lock:
            known = self.keys.find(request, Kinds.LABELS)
            if known is not None:
                return self.repeated(known)
            targets, codes = self._read(list(labels.values()), len(ids))
            record = self._record(Kinds.LABELS, len(ids), request, ids=ids, labels=targets.decode(codes))
            return self._with_targets(record, targets)

    def order(
        self,
        order: Order,
        request: Request,
        logged: Callable[[Admitted], object],
        check: Callable[[], object] = lambda: None,
        state: bytes = b"",
    ) -> Admitted:
        """Log an order; ``logged`` is called before another record can follow, unless the request is a repeated one.

        ``check`` is called before a new order is logged, and raises an error if it must not be. ``state`` is logged
        before an order that returns to it.
        """
        content: dict[str, Any] = {"kind": order.kind}
        choice("order", order.kind, ORDERS)
        if order.kind in ("promote", "warm", "challenge", "dismiss"):
            if (
                not order.model
                or len(order.model) > LONGEST_NAME
                or not order.model.isprintable()
                or "." in order.model
            ):
                raise OptionError(
                    f"model is {order.model[:LONGEST_NAME]!r}; name a challenger by at most {LONGEST_NAME} printable "
                    "characters without a dot"
                )
            content["model"] = order.model
        if order.kind == "challenge":
            try:
                self.blueprint.strategy(self.task or "multiclass", order.options)
            except CapabilityError as error:
                raise OptionError(f"{order.model} cannot be a challenger: ", *error.args) from error
            content["options"] = dict(order.options)
        if order.kind == "rollback":
            content["to"] = order.to
        if order.kind == "mark":
            choice("mark", order.mark, MARKS)
            content |= {"mark": order.mark, "drift": order.drift}
        if order.kind == "warm":
            content["from"] = self.log.first
        if request.by:
            content["by"] = request.by
        with self.lock:
            known = self.keys.find(request, Kinds.ORDER)
            if known is not None:
                return self.repeated(known)
            check()
            for start in range(0, len(state), STATE_BYTES):
                part = self._record(Kinds.STATE, 0, Request(), state=state[start : start + STATE_BYTES])
                content.setdefault("from", self._append(part).position)
            admitted = self._append(self._record(Kinds.ORDER, 0, request, content=content))
            if order.kind == "challenge":
                self.challenged.add(order.model)
            logged(admitted)
            return admitted

    def tick(self) -> None:
        """Log the time."""
        self._append(self._record(Kinds.TICK, 0, Request()))

    def digest(self, content: dict[str, Any]) -> None:
        """Log a digest of the state, for other replicas."""
        self._append(self._record(Kinds.DIGEST, 0, Request(), content=content))

    # ------------------------------------------------------------------------ checks

    def checked(self, table: Table) -> Table:
        """Return rows with the columns of the model, in order; the first rows decide the columns and log them."""
        categorical = self.blueprint.settings.categorical
        if not self.columns:
            with self.lock:
                if not self.columns:
                    found = find_columns(table, categorical)
                    conform(table, found, categorical)
                    self._append(Record(kind=Kinds.COLUMNS, time=self._now(), columns=found))
                    self.columns = found
        return conform(table, self.columns, categorical)

    def _block(self, rows: Table | NumberRows) -> RowBlock:
        """Return rows as a record holds them, after the same checks as those of a table."""
        if isinstance(rows, NumberRows):
            same = [(one.name, one.kind) for one in rows.columns] == list(self.columns)
            if same and len(rows) and not np.isinf(rows.values).any():
                return RowBlock(len(rows), rows.values.tobytes())
            rows = rows.table()
        return block_of(self.checked(rows), self.columns)

    def _read(self, labels: Any, count: int) -> tuple[Any, Any]:
        """Return the classes with those of new labels, and the codes of the labels; LabelError if they do not fit."""
        targets = self.targets
        if targets is None:
            array = np.asarray(labels)
            if not len(array):
                raise LabelError("there are no labels; send one for each row")
            targets = self.blueprint.targets(self.task or self.blueprint.task_of(array))
        try:
            return targets.read(labels, count)
        except LabelError as error:
            if error.row is None and error.value is not None:
                error.row = next((row for row, one in enumerate(labels) if one == error.value), None)
            raise self._in_words(error, labels, targets) from None
        except ValueTypeError:
            row, value = next(((row, one) for row, one in enumerate(labels) if isinstance(one, str)), (0, labels[0]))
            raise LabelError(
                f"the label {value!r} is not a number, and this model predicts numbers; pass a number, or serve a "
                "model of classes with ",
                Option("task", "multiclass"),
                " from a new folder",
                row=row,
                value=value,
            ) from None

    def _in_words(self, error: LabelError, labels: Sequence[Any], targets: Any) -> LabelError:
        """Return an error about labels in the words of a service, which knows no ``y``."""
        known = listed(targets.labels) if targets.labels else "two others"
        odd = _other_kind(labels, targets.labels[0] if targets.labels else labels[0])
        if odd is not None:
            rest = f"the classes of this model are {known}" if targets.labels else "others are not"
            text = f"the label {labels[odd]!r} is {_kind_of(labels[odd])}, and {rest}; send labels of one kind"
            return LabelError(text, row=odd, value=labels[odd])
        place: Any = {"row": error.row, "value": error.value, "reason": error.reason}
        if error.reason == "unknown":
            return LabelError(
                f"the label {error.value!r} is not one of the classes of this model, {known}; correct it, or serve a "
                "model that has it from a new folder",
                **place,
            )
        if error.reason != "too_many_classes":
            return error
        other = "serve a model" if self.blueprint.start is None else "serve from a new folder a run that was made"
        return LabelError(
            f"the label {error.value!r} would be a third class, after {known}, and this model tells two classes "
            f"apart. Correct the label, or {other} with ",
            Option("task", "multiclass"),
            " from a new folder" if self.blueprint.start is None else "",
            **place,
        )

    def _with_targets(self, record: Record, targets: Any) -> Admitted:
        """Log labels; from now on their classes are known, and with the first ones what is predicted."""
        admitted = self._append(record)
        self.targets, self.task = targets, self.task or self.blueprint.task_of(record.labels)
        return admitted

    # ------------------------------------------------------------------------ writing

    def _record(self, kind: Kinds, count: int, request: Request, **content: Any) -> Record:
        return Record(kind=kind, time=self._now(), count=count, key=request.key, digest=request.digest, **content)

    def _now(self) -> float:
        """Return the time, which never runs backwards."""
        self.time = now = max(self.time, self.clock())
        return now

    def repeated(self, known: KnownRequest) -> Admitted:
        """Return the record of a request that came before."""
        return Admitted(known.position, known.size, known.time, self.committer.term, repeated=True)

    def _append(self, record: Record, term: int | None = None) -> Admitted:
        payload, term = encode(record), self.committer.term if term is None else term
        position = self.committer.append(payload, term)
        with self.lock:
            if term == self.committer.term:  # otherwise `begin` has counted what is in the log, or is going to
                self.rows += record.count
                self.bytes += len(payload)
                self.keys.add(record, position)
        return Admitted(position, record.count, record.time, term)

    def when_durable(self, admitted: Admitted) -> Future[Receipt]:
        """Return a future of the acknowledgement, which ends when the record is on the storage device."""
        return self.committer.when_durable(admitted.position, admitted.receipt(), admitted.term)


def _kind_of(label: Any) -> str:
    return "text" if isinstance(label, str) else "a boolean" if isinstance(label, bool | np.bool_) else "a number"


def _other_kind(labels: Sequence[Any], known: Any) -> int | None:
    """Return the first label that is text where a known one is not, or the other way round; None if there is none."""
    return next((row for row, one in enumerate(labels) if isinstance(one, str) != isinstance(known, str)), None)


def check_ids(ids: Sequence[Any], count: int) -> None:
    """Raise InputError unless there is one usable id for each row, and no id twice."""
    if len(ids) != count:
        raise ShapeError(f"there are {len(ids)} ids for {count} rows; pass one id for each row")
    for row, id in enumerate(ids):
        if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
            raise InputError(
                f"the id of row {row} is {str(id)[:LONGEST_ID]!r}; ids are text of 1 to {LONGEST_ID} characters",
                row=row,
                column="id",
                value=id,
            )
    if len(set(ids)) < count:
        seen: set[str] = set()
        row = next(place for place, id in enumerate(ids) if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise InputError(f"the id {ids[row]!r} occurs twice; send each row once", row=row, column="id", value=ids[row])
