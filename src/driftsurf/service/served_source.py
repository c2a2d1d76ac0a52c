"""Sources of a served model: threads that read messages and give them to the model, each exactly once."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from driftsurf.core import files
from driftsurf.data.formats._reader import RAW_LIMIT
from driftsurf.data.messages.contract import BrokerMessage
from driftsurf.data.messages.decoding import message_fault, one_line
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import Position, open_source
from driftsurf.errors import (
    AnswerGoneError,
    IdempotencyError,
    InputError,
    LabelError,
    OptionError,
    OverloadedError,
    SchemaError,
    SourceError,
    StorageFullError,
    UnavailableError,
)
from driftsurf.errors.visible import safe_address
from driftsurf.runs.folder import BAD_ROWS
from driftsurf.service.broker_thread import Connection, Due, SourceKind, SourceOptions, Stopped, read_state, write_state
from driftsurf.service.contract import Request, ServedColumn
from driftsurf.service.model import ServedModel
from driftsurf.service.wire.formats import Format, ModelFormats, Purpose
from driftsurf.service.wire.rows import RowsRead

MOST_BYTES = 16 * 2**20
"""Size from which on a new file is begun; the one before it is kept."""
OLDER = "bad_rows.older.jsonl"


class BadRowFile:
    """Bad messages, one line of JSON for each, which is on disk before the rest of its batch is given to the model.

    After a crash a batch may be read again, and the model may know more by then. Which of its messages are bad must
    stay as it was, because the rest may be learned already: ``decided`` tells it.

    Parameters
    ----------
    folder
        Folder of the source.
    size
        Bytes of the file when the position of the source was saved: what follows is of batches after it.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.path: Path = folder / BAD_ROWS
        data = files.read_bytes(self.path) if self.path.exists() else b""
        data = data[: data.rfind(b"\n") + 1]
        self.decided: dict[str, int] = {}
        """Messages of batches that are read again and are in the file already, each with the place of its line."""
        place = min(size, len(data))
        for line in data[place:].splitlines(keepends=True):
            self.decided[str(json.loads(line)["file"])] = place
            place += len(line)
        self._file = files.AppendedFile(self.path, len(data), hashlib.sha256(data).hexdigest())
        files.sync_folder(folder)

    @property
    def settled(self) -> int:
        """Bytes of the file that are about batches which have been given to the model."""
        return next(iter(self.decided.values()), self._file.size)

    def undecided(self, source: str, messages: Sequence[BrokerMessage]) -> list[BrokerMessage]:
        """Return the messages that are not in the file; what is there about the others is settled now."""
        return [one for one in messages if self.decided.pop(_place(source, one), None) is None]

    def add(self, source: str, bad: Iterable[tuple[BrokerMessage, str]]) -> None:
        """Write bad messages with the reason of each; return when they are on disk."""
        for message, reason in bad:
            raw = message.value[:RAW_LIMIT].decode("utf-8", "backslashreplace")
            self._file.write(json.dumps({"file": _place(source, message), "reason": reason, "raw": raw}) + "\n")
        self._file.sync()

    def roll(self) -> None:
        """Begin a new file if this one is large."""
        if self._file.size > MOST_BYTES and not self.decided:
            self._file.close()
            files.publish(self.path, self.path.with_name(OLDER))
            self._file = files.AppendedFile(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _place(source: str, message: BrokerMessage) -> str:
    return f"{source}, {message.place}"


Bad = tuple[BrokerMessage, str]
"""A message that cannot be used, and why."""
_FORMATS: dict[str, Format] = {"jsonl": "ndjson", "csv": "csv", "arrow": "arrow"}
MOST_ROWS = 1_000_000
"""Rows of one Arrow message at most."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The columns and classes that the next rows must have; they may be ahead of the newest version of the model."""

    columns: tuple[ServedColumn, ...]
    classes: tuple[Any, ...]


class MessageRows:
    """Reads the messages of a source.

    Parameters
    ----------
    options
        How messages are read.
    formats
        Readers of rows, for this source alone.
    """

    def __init__(self, options: SourceOptions, purpose: Purpose, formats: ModelFormats) -> None:
        self.purpose = purpose
        self.formats = formats
        self._format = options.format
        self._most_bytes = formats.reading.max_row_bytes
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(options.names)
        self._header = header.getvalue().encode() if options.format == "csv" else b""

    def read(
        self, served: ServedModel, messages: Sequence[BrokerMessage]
    ) -> tuple[RowsRead | None, list[BrokerMessage], list[Bad]]:
        """Return the rows of the messages that can be read, these messages, and the others."""
        known = _Known(tuple(served.columns), tuple(served.snapshot.classes))
        try:
            return self._rows(known, messages), list(messages), []
        except InputError:
            pass
        if not known.columns:
            known = self._first_columns(known, messages)
        good, bad, seen = list[BrokerMessage](), list[Bad](), set[str]()
        for one in messages:
            try:
                ids = self._rows(known, [one]).ids or []
                ids = [] if self.purpose == "learn" else ids
                _check_ids([*seen.intersection(ids), *ids])
            except InputError as error:
                bad.append((one, str(error)))
            else:
                seen.update(ids)
                good.append(one)
        if not good:
            return None, [], bad
        try:
            return self._rows(known, good), good, bad
        except InputError as error:  # each can be read, and all of them cannot
            return None, [], [*bad, *((one, str(error)) for one in good)]

    def _rows(self, known: _Known, messages: Sequence[BrokerMessage]) -> RowsRead:
        fault = next((one for one in map(self._plain_fault, messages) if one), "")
        if fault:
            raise InputError(fault)
        read = self.formats.reader(known, self.purpose, _FORMATS[self._format])
        body = messages[0].value
        if self._format != "arrow":
            body = self._header + b"\n".join(one_line(one.value) for one in messages) + b"\n"
        rows = read(body, "fail", MOST_ROWS)
        if self._format != "arrow" and len(rows) != len(messages):
            raise InputError("the message is not a row")
        if not len(rows):
            raise InputError("the message has no rows")
        if self.purpose == "predict" and rows.ids is None:
            raise InputError(f"the column {self.formats.id!r} is missing; rows that are predicted need an id")
        if self.purpose != "learn":
            _check_ids(rows.ids or [])
        return rows

    def _plain_fault(self, message: BrokerMessage) -> str:
        return message_fault(message.value, self._format, self._most_bytes)

    def _first_columns(self, known: _Known, messages: Sequence[BrokerMessage]) -> _Known:
        """Let the first message that can be read decide the columns, if all of them together cannot be read."""
        for one in messages:
            try:
                table = self._rows(known, [one]).table
            except InputError:
                continue
            found = tuple(ServedColumn(name, column.kind) for name, column in table.columns.items())
            return _Known(found, known.classes)
        return known


def _check_ids(ids: Sequence[str]) -> None:
    """Raise InputError if an id occurs twice."""
    if len(set(ids)) < len(ids):
        seen = set[str]()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise InputError(f"the id {twice!r} occurs twice in a batch; only the first is taken", value=twice)


log: logging.Logger = logging.getLogger("driftsurf.service")
POSITION, PLANS = "position.json", "plans.jsonl"
SAVE_SECONDS, SAVE_BATCHES = 1.0, 100
"""The position is saved when one of the two has passed: batches after it are read again after a crash, and dropped."""
LAG_SECONDS = 1.0
WAIT_SECONDS = 0.5
"""Time after which a model is asked again that takes nothing now."""


class Feeder(Connection):
    """A source. Each batch of messages becomes one record of the log of the model.

    Which messages a batch has is on disk before they are read, and the idempotency key of its record is made of the
    position at which it begins. So a batch that is read again after a crash is the same one, and is taken once. The
    position is saved after the records before it are on disk.

    Parameters
    ----------
    name
        Name in the configuration.
    options
        What is read, and how.
    folder
        Folder of the source.
    """

    rows: int
    bad_rows: int

    def __init__(self, name: str, options: SourceOptions, folder: Path) -> None:
        self.options = options
        kind: SourceKind = next(one for one in get_args(SourceKind) if one == options.kind)
        reading = ReadingOptions(
            format=options.format, names=options.names or None, batch_wait=options.batch_wait, on_bad_row="skip"
        )
        source = open_source(options.address, reading, batch_size=options.batch_size, follow=lambda: False)
        if not isinstance(source, MessageSource):
            raise OptionError(
                f"the source {name!r} of a model must be a broker or a database; {options.address!r} is none. Send "
                "its rows with the client"
            )
        source.check()
        self.source: MessageSource = source
        super().__init__(name, "source", kind, source.name, folder)
        self._purpose = kind
        self._reader: MessageRows | None = None
        self._at: Position = None
        self._life = ""
        """Tells batches of this source from those of an earlier one of the same name."""
        self._bad: BadRowFile | None = None
        self._due = Due(SAVE_SECONDS, SAVE_BATCHES)
        self._lag: int | None = None
        self._lag_at = 0.0

    def prepare(self, formats: ModelFormats) -> None:
        """Take over how rows of the model are read; OptionError if the model has no labels to learn from."""
        asked, kind = self.options, self._purpose
        id = formats.id if asked.id is None else asked.id
        label = formats.label if asked.label is None else asked.label
        drop, reading = (*asked.drop, *formats.drop), formats.reading
        if kind != "predict" and not label:
            raise OptionError(
                f"the source {self.name!r} gives labels, and the model has no column of labels; name it with label"
            )
        if kind == "label":  # a table of labels may have any other columns
            reading = replace(reading, on_schema_change="ignore-added")
        if kind == "learn":  # what has its label needs no id
            id, drop = "", (*drop, id)
        self._reader = MessageRows(asked, kind, ModelFormats(id, label, reading, drop, formats.hints))

    def lag(self) -> int | None:
        """Return how many messages were not read yet, as far as that is known."""
        return self._lag

    # ------------------------------------------------------------------------ the thread

    def work(self, model: ServedModel) -> None:
        """Read messages until the service ends."""
        if self._bad is None:
            self._load()
        self.source.choose_connector()
        self.source.connector.open(self._at, bounded=False)
        self.connected()
        while not self.stopping.is_set():
            plan = self.source.next_plan(self._at)
            if plan is not None:
                self._take(model, self.source.connector.read(plan.ranges))
                self._at = plan.end
            self.going()
            self._measure_lag()
            if self._due:
                self._save(model)
        self._save(model)

    def disconnect(self) -> None:
        """Disconnect from the system."""
        self.source.connector.close()
        if self.stopping.is_set() and self._bad is not None:
            self._bad.close()
            if self.source.plans is not None:
                self.source.plans.close()

    def _measure_lag(self) -> None:
        now = time.monotonic()
        if now - self._lag_at >= LAG_SECONDS:
            try:
                self._lag = self.source.connector.lag()
            except SourceError as error:  # if it concerns the rows, reading fails too
                log.info("the lag of %s is not known: %s", self.title, error)
                self._lag = None
            self._lag_at = time.monotonic()  # afterwards: where measuring takes long, reading has as long

    # ------------------------------------------------------------------------ what is saved

    def _load(self) -> None:
        """Go on where an earlier process ended."""
        path = self.folder / POSITION
        saved = read_state(path, {"address": str, "life": str, "rows": int, "bad_rows": int, "bad_bytes": int})
        if saved is None:
            saved = {"address": self.address, "life": secrets.token_hex(8), "at": None}
            saved |= {"rows": 0, "bad_rows": 0, "bad_bytes": 0}
            write_state(path, saved)
        if safe_address(saved["address"]) != self.address:
            raise OptionError(
                f"the source {self.name!r} read {saved['address']} before, and is {self.address} now; give the new "
                "one another name"
            )
        self._at, self._life, self.rows = saved["at"], saved["life"], saved["rows"]
        self.source.keep_plans(self.folder, keep=1, resumed=True, name=PLANS)
        self._bad = BadRowFile(self.folder, saved["bad_bytes"])
        self.bad_rows = saved["bad_rows"] + len(self._bad.decided)

    def _save(self, model: ServedModel) -> None:
        """Save the position, after everything before it."""
        assert self._bad is not None
        model.flush()
        self._bad.roll()
        state = {"address": self.address, "life": self._life, "at": self._at, "rows": self.rows}
        settled = {"bad_rows": self.bad_rows - len(self._bad.decided), "bad_bytes": self._bad.settled}
        write_state(self.folder / POSITION, state | settled)
        self._due.saved()
        if self.source.plans is not None:
            self.source.plans.committed(self._at)
        if self._at is not None:
            self.source.connector.committed(self._at)

    # ------------------------------------------------------------------------ batches

    def _take(self, model: ServedModel, messages: Sequence[BrokerMessage]) -> None:
        """Give messages to the model: as one record, or one for each message that has many rows."""
        parts = [[one] for one in messages] if self.options.format == "arrow" else [list(messages)]
        start = hashlib.sha256(json.dumps(self._at, sort_keys=True).encode()).hexdigest()[:32]
        for number, part in enumerate(parts):
            digest = hashlib.sha256()
            for one in part:
                digest.update(len(one.value).to_bytes(8, "little"))
                digest.update(one.value)
            key = f"source {self.name} {self._life} {start} {number}"
            self._give(model, part, Request(key, digest.digest(), by=self.name))
        self._due.count(len(parts))

    def _give(self, model: ServedModel, messages: list[BrokerMessage], request: Request) -> None:
        """Give the rows of messages to the model, without those that cannot be used."""
        assert self._bad is not None
        assert self._reader is not None
        wanted = self._bad.undecided(self.address, messages)
        while wanted:
            begun = bool(model.columns)
            rows, wanted, bad = self._reader.read(model, wanted)
            if bad:
                self._refuse(bad)
            if rows is None:
                return
            try:
                self._admit(model, rows, request)
            except InputError as error:
                if isinstance(error, IdempotencyError):
                    raise
                if isinstance(error, SchemaError) and not begun and model.columns:
                    continue  # the first rows of somebody else have decided the columns meanwhile
                refused = _refused(error, rows, len(wanted))
                self._refuse([(one, str(error)) for place, one in enumerate(wanted) if place in refused])
                wanted = [one for place, one in enumerate(wanted) if place not in refused]
            else:
                self.rows += len(rows)
                return

    def _refuse(self, bad: list[tuple[BrokerMessage, str]]) -> None:
        assert self._bad is not None
        self._bad.add(self.address, bad)
        self.bad_rows += len(bad)

    def _admit(self, model: ServedModel, rows: RowsRead, request: Request) -> None:
        """Call the model; wait as long as it takes nothing."""
        while True:
            try:
                return self._call(model, rows, request)
            except (OverloadedError, StorageFullError, UnavailableError) as error:
                if self.stopping.is_set():
                    raise Stopped from error
                self.wait(str(error), WAIT_SECONDS)

    def _call(self, model: ServedModel, rows: RowsRead, request: Request) -> None:
        labels: Any = rows.labels
        if self.kind != "predict":
            given = dict(zip(rows.ids or [], labels, strict=True)) if self.kind == "label" else {}
            logged = model.label(given, request) if given else model.learn(rows.table, labels, request)
            if not model.log.kept_at_append:  # otherwise it is flushed before the position is saved
                logged.result()
        else:
            # The answer of an earlier process may be gone; nobody asks for it again.
            with contextlib.suppress(AnswerGoneError):
                model.predict(rows.table, rows.ids, request)


def _refused(error: InputError, rows: RowsRead, count: int) -> set[int]:
    """Return the places of the messages that the model refused: those that the error names, otherwise all."""
    if error.row is None or count != len(rows) or not 0 <= error.row < count:
        return set(range(count))
    if isinstance(error, LabelError) and rows.labels is not None:  # the same label is refused everywhere
        value = rows.labels[error.row]
        return {place for place, one in enumerate(rows.labels) if one == value and type(one) is type(value)}
    return {error.row}
