"""Sinks of a served model: threads that write predictions or the journal to brokers and databases."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftsurf.connectors.sink import ConnectorSink
from driftsurf.data.log.records import ColumnKind, Kinds, decode
from driftsurf.errors import LogError, OptionError
from driftsurf.errors.visible import safe_address
from driftsurf.runs.output import JOURNAL_COLUMNS, OutputLines, journal_records
from driftsurf.runs.predictions import LabelType
from driftsurf.runs.sinks import SinkContext, open_sink
from driftsurf.service.broker_thread import Connection, Due, SinkOptions, read_state, write_state
from driftsurf.service.model import ServedModel

log: logging.Logger = logging.getLogger("driftsurf.service")
STATE = "position.json"
SAVE_SECONDS, SAVE_BATCHES = 1.0, 100
MOST_LINES = 1000
"""Lines of the journal that are written at a time."""
IDLE_SECONDS = 0.5
NOTHING = 2**62


class Shipper(Connection):
    """A sink. Rows are numbered from the first that was written to it, in the order of the log.

    After a crash the sink is asked how many rows it holds, and what follows is read again from the log of the model,
    or from its journal. A file of the log is kept until its predictions are written, unless the disk is nearly full.

    Parameters
    ----------
    name
        Name in the configuration.
    options
        What is written, and where to.
    folder
        Folder of the sink.
    """

    rows: int
    bad_rows: int

    def __init__(self, name: str, options: SinkOptions, folder: Path) -> None:
        self.options = options
        sink = self._open("integer")
        if not isinstance(sink, ConnectorSink):
            raise OptionError(
                f"the sink {name!r} of a model must be a broker or a database; {options.address!r} is none"
            )
        super().__init__(name, "sink", options.kind, options.address.partition("?")[0], folder)
        self._sink: ConnectorSink | None = None
        self._model: ServedModel | None = None
        saved = self._saved()
        self._position: int = 0 if saved is None else saved["position"]
        """Record of the log, or line of the journal, that is written next."""
        self._safe: int = self._position
        """Everything before it is durable in the sink."""
        self._due = Due(SAVE_SECONDS, SAVE_BATCHES)
        self._label_type: LabelType = "integer"
        self.lost: str = ""
        """Says how many predictions or lines were dropped before they could be written; empty if none were."""

    def needed(self) -> int:
        """Return the first record of the log that has not been written."""
        return self._safe if self.kind == "predictions" else NOTHING

    def lag(self) -> int | None:
        """Return how many records of the log, or lines of the journal, were not written yet."""
        model = self._model
        if model is None:
            return None
        return max(0, (model.log.next if self.kind == "predictions" else model.feed.lines) - self._position)

    # ------------------------------------------------------------------------ the thread

    def work(self, model: ServedModel) -> None:
        """Write until the service ends, and then what is left."""
        self._model = model
        while model.label_type is None or not model.wait_ready(IDLE_SECONDS):
            # Before the first labels it is not known what predictions look like.
            if self.stopping.wait(IDLE_SECONDS):
                return
        first = self._begin(model)
        self.connected()
        while True:
            stopping = self.stopping.is_set()  # read before the log: what was logged before it is written
            records, position = self._next(model)
            if records:
                found = OutputLines(self.rows, records)
                if len(rest := found.from_row(first)):
                    assert self._sink is not None
                    self._sink.take(rest)  # type: ignore[arg-type]  # records of any kind
                self.rows += len(found)
            advanced, self._position = position > self._position, position
            self._due.count(int(advanced))
            if self._due:
                self._save(model)
            self.going(self.lost)
            if not advanced:
                if stopping:
                    break
                self._wait(model)
        self._save(model)

    def disconnect(self) -> None:
        """Disconnect from the system."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _wait(self, model: ServedModel) -> None:
        if self.kind == "predictions":
            model.log.wait(self._position, IDLE_SECONDS)
        else:
            self.stopping.wait(IDLE_SECONDS)

    # ------------------------------------------------------------------------ what is saved

    def _saved(self) -> dict[str, Any] | None:
        names = {"address": str, "kind": str, "row": int, "position": int, "lost": int, "label_type": str}
        saved = read_state(self.folder / STATE, names)
        for name, now in (("address", self.address), ("kind", self.kind)):
            if saved is not None and safe_address(saved[name]) != now:
                raise OptionError(
                    f"the {name} of the sink {self.name!r} was {saved[name]} before, and is {now} now; give the new "
                    "sink another name"
                )
        return saved

    def _begin(self, model: ServedModel) -> int:
        """Connect, and go on where an earlier process or connection has ended; return the first row to write."""
        saved = self._saved()
        self._label_type = model.label_type or "integer"
        if saved is not None:
            self._label_type = saved["label_type"]
        sink = self._open(self._label_type)
        assert isinstance(sink, ConnectorSink)
        self._sink = sink
        if saved is None:
            sink.begin()
            self.rows, self._position = 0, model.log.first if self.kind == "predictions" else 0
            self._write_state()
            return 0
        self.rows, self._position, self.bad_rows = saved["row"], saved["position"], saved["lost"]
        return sink.resume(self.rows)

    def _save(self, model: ServedModel) -> None:
        assert self._sink is not None
        self._sink.flush()
        self._write_state()
        self._safe = self._position
        self._due.saved()

    def _write_state(self) -> None:
        state = {"address": self.address, "kind": self.kind, "row": self.rows, "position": self._position}
        write_state(self.folder / STATE, state | {"lost": self.bad_rows, "label_type": self._label_type})

    def _open(self, label_type: LabelType) -> object:
        columns: dict[str, LabelType] = JOURNAL_COLUMNS
        if self.options.kind == "predictions":
            columns = {"row": "integer", "id": "text", "prediction": label_type, "version": "integer"}
        context = SinkContext(
            label_type, overwrite=self.options.overwrite, option="address", other_columns=dict(columns)
        )
        return open_sink(self.options.address, context)

    # ------------------------------------------------------------------------ what is written

    def _next(self, model: ServedModel) -> tuple[list[Mapping[str, Any]], int]:
        """Return the next rows, and the position after them, once all that they depend on is on disk."""
        if self.kind == "journal":
            return self._lines(model)
        try:
            numbered = model.log.read(self._position)
        except LogError:
            if self._position >= model.log.first:
                raise
            self._lost(model.log.first, "records of the log")
            return [], model.log.first
        if not numbered:
            return [], self._position
        position = numbered[-1][0] + 1
        if position > model.log.durable:
            model.flush()
        columns = tuple(ColumnKind(one.name, one.kind) for one in model.columns)
        found = list[Mapping[str, Any]]()
        for _, payload in numbered:
            found += _predictions(payload, columns)
        return found, position

    def _lines(self, model: ServedModel) -> tuple[list[Mapping[str, Any]], int]:
        found = model.feed.texts(self._position, MOST_LINES)
        if not found:
            return [], self._position
        if found[0][0] > self._position + 1:
            self._lost(found[0][0] - 1, "lines of the journal")
        model.flush()  # the records that these lines follow from
        return list(journal_records("\n".join(text for _, text in found))), found[-1][0]

    def _lost(self, until: int, what: str) -> None:
        """Note that something was dropped before it could be written."""
        count = until - self._position
        self.bad_rows += count
        self.lost = f"{count:,} {what} were dropped before they could be written, from number {self._position:,} on"
        log.error("%s: %s", self.title, self.lost)


def _predictions(payload: bytes, columns: tuple[ColumnKind, ...]) -> list[Mapping[str, Any]]:
    """Return the answers that a record holds."""
    if payload[0] != Kinds.ROWS:  # the first byte is the kind: others need not be decoded
        return []
    record = decode(payload, columns)
    labels = [None] * record.count if record.labels is None else record.labels.tolist()
    return [
        {"id": id, "prediction": label, "version": record.version} for id, label in zip(record.ids, labels, strict=True)
    ]
