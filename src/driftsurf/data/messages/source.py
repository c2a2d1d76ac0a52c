"""The messages of a broker or the rows of a database as a source of tables."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from driftsurf.core import files
from driftsurf.core.options import whole
from driftsurf.data.formats._bytes import _Polling
from driftsurf.data.messages.contract import Plan, Seekable
from driftsurf.data.messages.decoding import MessageDecoder
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.source import Cells, Position
from driftsurf.data.sources.files import OnSkip, skip_row
from driftsurf.data.tables import Table
from driftsurf.errors import Option, OptionError, StateError

TRIMMED_BYTES = 2**20
"""Size from which on entries that no checkpoint needs are removed."""


class PlanLog:
    """Plans by the position at which they begin, in a file with a line for each.

    Messages of several partitions, and messages that are still arriving, do not come twice in the same batches. What a
    model has learned from a batch may already be seen elsewhere when the process is killed, so the batch must be the
    same when the run resumes: its plan is on disk before its first message is read.

    Parameters
    ----------
    path
        The file; it is made with the first plan.
    keep
        How many checkpoints the run keeps, from each of which it may resume.
    """

    def __init__(self, path: Path, keep: int = 2) -> None:
        self.path = path
        self.keep = keep
        self._plans: dict[str, Plan] = {}
        self._commits: list[str] = []
        """Positions of the last checkpoints, oldest first."""
        self._file: files.AppendedFile | None = None
        self._written: bytes = b""
        """Complete lines of the file, while it is not open."""

    def load(self) -> None:
        """Read the plans that an earlier process left behind; an incomplete last line was never acted on."""
        self.close()
        self._plans.clear()
        data = files.read_bytes(self.path) if self.path.exists() else b""
        self._written = data[: data.rfind(b"\n") + 1]
        for line in self._written.splitlines():
            try:
                start, ranges, end = json.loads(line)
            except ValueError as error:
                raise StateError(f"{str(self.path)!r} is damaged: {line[:80]!r} is no plan") from error
            self._plans[_key(start)] = Plan(ranges, end)

    def clear(self) -> None:
        """Forget all plans: a new run begins."""
        self.close()
        self._plans.clear()
        self._commits.clear()
        self._written = b""
        if self.path.exists():
            files.remove(self.path)

    def get(self, start: Position) -> Plan | None:
        """Return the plan that begins at a position, if one was logged."""
        return self._plans.get(_key(start))

    def add(self, start: Position, plan: Plan) -> None:
        """Write a plan, and return when it is on disk."""
        if self._file is None:
            known = self._written
            self._file = files.AppendedFile(self.path, len(known), hashlib.sha256(known).hexdigest())
            if not known:
                files.sync_folder(self.path.parent)
        self._file.write_bytes(_line(start, plan))
        self._file.sync()
        self._plans[_key(start)] = plan

    def committed(self, position: Position) -> None:
        """Note a checkpoint. Plans before the oldest one that is kept are removed once they fill a megabyte."""
        self._commits = [*self._commits, _key(position)][-self.keep :]
        size = 0 if self._file is None else self._file.size
        if size > TRIMMED_BYTES and len(self._commits) == self.keep:
            self._trim(self._commits[0])

    def _trim(self, oldest: str) -> None:
        """Keep only the plans from a position on, each of which begins where the one before it ends."""
        kept, at = dict[str, Plan](), oldest
        while at in self._plans and at not in kept:
            kept[at] = self._plans[at]
            at = _key(kept[at].end)
        self.close()
        self._written = b"".join(_line(json.loads(start), plan) for start, plan in kept.items())
        files.write_bytes(self.path, self._written)
        files.sync_folder(self.path.parent)
        self._plans = kept

    def close(self) -> None:
        """Close the file; the next plan opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._written = files.read_bytes(self.path)


def _key(position: Any) -> str:
    return json.dumps(position, sort_keys=True)


def _line(start: Position, plan: Plan) -> bytes:
    return json.dumps([start, plan.ranges, plan.end], sort_keys=True).encode() + b"\n"


class MessagePosition(TypedDict):
    """Position of a :class:`MessageSource`: plain values, ready for JSON."""

    at: Position
    """Position in the broker or database."""
    rows: int
    skipped: int
    columns: list[tuple[str, Kind]]


class MessageSource:
    """Messages as tables, in the order of their system, the same batches whenever they are read again.

    A subclass is registered as a source and provides the connector. A batch has ``batch_size`` messages, or fewer if no
    more came within ``reading.batch_wait`` seconds. Without ``follow``, the source ends where the stream ended when
    reading began.

    Parameters
    ----------
    location
        The address.
    reading
        How messages are read; "jsonl", "csv" and "arrow" are possible formats.
    batch_size
        Number of messages in a batch.
    batch_seconds, time
        Not possible here: batches are made by numbers of messages.
    follow
        Called when no message has come for a while: whether to wait on.
    """

    def __init__(
        self,
        location: str,
        reading: ReadingOptions | None = None,
        *,
        batch_size: int | None = 1000,
        batch_seconds: float | None = None,
        time: str | None = None,
        follow: Callable[[], bool] | None = None,
    ) -> None:
        self.location: str = str(location)
        self.reading: ReadingOptions = ReadingOptions() if reading is None else reading
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.follow = follow
        self.plans: PlanLog | None = None
        self.live: bool = False
        """Whether to yield a table without rows when nothing has come, instead of waiting on, and to log every plan."""
        self.connector: Seekable = self.connect(self.location)

    @abstractmethod
    def connect(self, location: str) -> Seekable:
        """Return the connector of an address, which is not connected yet; OptionError if the address is wrong."""

    def choose_connector(self) -> None:
        """Ask the system how it has to be read, if only the system knows; called before the connector is opened."""

    # -------------------------------------------------------------------- the contract of a source

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.connector.name

    @property
    def cells(self) -> Cells:
        """How values arrive: as JSON, as text or typed."""
        return self._decoder().cells

    @property
    def seekable(self) -> bool:
        """True: the system keeps its messages."""
        return True

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        if self.batch_seconds is not None:
            raise OptionError(
                Option("batch_seconds"),
                f" cuts files by time, not the messages of {self.name}; use ",
                Option("batch_size"),
            )
        whole("batch_size", self.batch_size, at_least=1)
        self._decoder().check()

    def describe(self, position: Position) -> str:
        """Return the address."""
        return self.name

    def tables(
        self, position: Position = None, *, on_skip: OnSkip | None = None
    ) -> Iterator[tuple[Table, MessagePosition]]:
        """Yield batches of rows from ``position`` on, each with the position after it."""
        self.check()
        start = _read_position(position)
        decoder = self._decoder()
        if start["columns"]:
            decoder.fix(start["columns"])
        return self._tables(start, decoder, on_skip)

    def _tables(
        self, start: MessagePosition, decoder: MessageDecoder, on_skip: OnSkip | None
    ) -> Iterator[tuple[Table, MessagePosition]]:
        at, rows, skipped = start["at"], start["rows"], start["skipped"]
        self.choose_connector()
        try:
            self.connector.open(at, bounded=self.follow is None)
            while self.reading.rows is None or rows < self.reading.rows:
                plan = self._plan_now(at)
                if plan is None:
                    if self.follow is None or not self.follow():
                        return
                    if self.live:
                        yield Table({}), MessagePosition(at=at, rows=rows, skipped=skipped, columns=decoder.columns)
                    continue
                table, bad = decoder.table(self.connector.read(plan.ranges))
                for one in bad:
                    skipped += 1
                    skip_row(one, skipped, self.reading, on_skip)
                at = plan.end
                if self.reading.rows is not None and rows + len(table) > self.reading.rows:
                    table = table.rows(0, self.reading.rows - rows)
                rows += len(table)
                if len(table):  # a batch of bad messages alone has nothing to learn
                    yield table, MessagePosition(at=at, rows=rows, skipped=skipped, columns=decoder.columns)
        finally:
            self.connector.close()

    def next_plan(self, at: Position) -> Plan | None:
        """Return the plan of the next batch: the logged one, or a new one, which is logged; None at the end."""
        while (plan := self._plan_now(at)) is None:
            if self.follow is None or not self.follow():
                return None
        return plan

    def _plan_now(self, at: Position) -> Plan | None:
        """Return the plan of the next batch; None if nothing came."""
        logged = None if self.plans is None else self.plans.get(at)
        if logged is not None:
            return logged
        most = whole("batch_size", self.batch_size, at_least=1)
        plan = self.connector.plan(most, 0.0 if self.follow is None else self.reading.batch_wait)
        if plan is None:
            return None
        if isinstance(self.follow, _Polling):
            self.follow.found()
        if self.plans is not None and (self.live or not plan.certain):
            self.plans.add(at, plan)
        return plan

    # -------------------------------------------------------------------- what a durable run needs

    def keep_plans(self, folder: Path, *, keep: int, resumed: bool, name: str) -> None:
        """Log plans in a checkpoint folder from now on; those of an earlier process are used again if it is resumed."""
        self.plans = PlanLog(folder / name, keep)
        if resumed:
            self.plans.load()
        else:
            self.plans.clear()

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        at = _read_position(position)["at"]
        if self.plans is not None:
            self.plans.committed(at)
        if at is not None:
            self.connector.committed(at)

    def lag(self) -> int | None:
        """Return how many messages have not been read yet; None if that is not known."""
        return self.connector.lag()

    def _decoder(self) -> MessageDecoder:
        return MessageDecoder(self.name, self.reading)


def _read_position(position: Any) -> MessagePosition:
    if position is None:
        return MessagePosition(at=None, rows=0, skipped=0, columns=[])
    if not isinstance(position, Mapping) or not MessagePosition.__required_keys__ <= position.keys():
        raise StateError(f"not a position of a stream of messages: {position!r}. Pass a position that tables() gave")
    columns = [(str(name), kind) for name, kind in position["columns"]]
    return MessagePosition(
        at=position["at"], rows=int(position["rows"]), skipped=int(position["skipped"]), columns=columns
    )
