"""Checks that every connector to a broker or database passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from driftsurf.checks._run import expect, run
from driftsurf.data.messages.contract import BrokerMessage, Inbox, Plan, Received, Seekable, Writer
from driftsurf.data.source import Position
from driftsurf.errors import SourceError

HOSTILE = (b"{", b"\x00", b"\xff\xfe{}", b'{"a": 1e999}', b"[" * 5_000, b'"' + b"x" * 2**20 + b'"')
"""Messages that a connector has to hand on as they are, among them one of a megabyte."""
PATIENCE = 10.0
"""Seconds in which messages that were sent have to arrive."""


@dataclass(frozen=True)
class SeekableCase:
    """An empty stream, and how to use it.

    Parameters
    ----------
    connect
        Makes a connector of the stream, as a new process would.
    send
        Appends messages to the stream.
    forget
        Removes the first messages of the stream, at least as many as asked for; None if the system cannot.

    Examples
    --------
    >>> messages = []
    >>> class Unfinished:
    ...     name = "orders"
    >>> case = SeekableCase(connect=Unfinished, send=messages.extend)
    >>> case.send([b'{"price": 1.5}'])
    >>> case.connect().name, messages
    ('orders', [b'{"price": 1.5}'])
    """

    connect: Callable[[], Seekable]
    send: Callable[[Sequence[bytes]], None]
    forget: Callable[[int], None] | None = None


def check_seekable(case: SeekableCase) -> None:
    """Raise CheckError unless a connector implements :class:`~driftsurf.data.messages.contract.Seekable`.

    Examples
    --------
    >>> from driftsurf.checks import SeekableCase
    >>> from driftsurf.data.messages.contract import BrokerMessage, Plan
    >>> class Topic:
    ...     name = "orders"
    ...     def open(self, position, *, bounded):
    ...         self.at = 0 if position is None else position
    ...         self.stop = len(messages) if bounded else None
    ...     def plan(self, most, seconds):
    ...         first, stop = self.at, len(messages) if self.stop is None else self.stop
    ...         self.at = min(first + most, stop)
    ...         return Plan([first, self.at], end=self.at) if self.at > first else None
    ...     def read(self, ranges):
    ...         first, self.at = ranges
    ...         return [BrokerMessage(f"offset {number}", messages[number]) for number in range(first, self.at)]
    ...     def lag(self):
    ...         return len(messages) - self.at
    ...     def committed(self, position):
    ...         pass
    ...     def close(self):
    ...         pass
    >>> messages = []
    >>> check_seekable(SeekableCase(connect=Topic, send=messages.extend))
    """
    run(case, SEEKABLE)


def follows_its_contract(case: SeekableCase) -> None:
    """Every member of the contract is there, and an empty stream has no plan."""
    connector = case.connect()
    expect(isinstance(connector, Seekable), "members of the contract are missing")
    connector.open(None, bounded=True)
    expect(connector.plan(10, 0.0) is None, "an empty stream has a plan")
    connector.close()
    connector.close()


def reads_everything_in_order(case: SeekableCase) -> None:
    """Plans cover all messages once; messages of one sender stay in their order."""
    sent = [json.dumps({"n": n}).encode() for n in range(100)]
    case.send(sent)
    found = [one.value for plan, messages in _plans(case.connect(), None, 7) for one in messages]
    expect(sorted(found) == sorted(sent), f"{len(found)} messages were read of the {len(sent)} that were sent")


def reads_the_same_from_any_position(case: SeekableCase) -> None:
    """The messages after a position, and those of a plan, are the same in another process."""
    parts = _plans(case.connect(), None, 7)
    expect(sum(len(messages) for _, messages in parts) >= 100, "the messages that were sent before are gone")
    whole = [messages for _, messages in parts]
    for place in (0, 3, len(parts) - 2):
        position = json.loads(json.dumps(parts[place][0].end))
        after = [one for _, messages in _plans(case.connect(), position, 7) for one in messages]
        expect(
            sorted(after) == sorted(one for messages in whole[place + 1 :] for one in messages),
            f"other messages follow the position {position!r} in another process",
        )
        again = case.connect()
        again.open(json.loads(json.dumps(parts[place - 1][0].end)) if place else None, bounded=True)
        read = list(again.read(json.loads(json.dumps(parts[place][0].ranges))))
        expect(read == whole[place], f"the plan {parts[place][0].ranges!r} has other messages in another process")
        following = again.plan(7, 0.0)
        more = [] if following is None else again.read(following.ranges)
        expect(not set(more) & set(read), "a plan after a repeated one has messages of it")
        again.close()


def tells_only_certain_plans_from_others(case: SeekableCase) -> None:
    """A plan that is called certain is made again in another process, also after more messages came."""
    connector = case.connect()
    connector.open(None, bounded=True)
    plan = connector.plan(7, 0.0)
    connector.close()
    assert plan is not None
    if plan.certain:
        case.send([b'{"n": -1}'] * 20)
        other = case.connect()
        other.open(None, bounded=True)
        expect(other.plan(7, 0.0) == plan, "a certain plan was made otherwise after more messages had come")
        other.close()


def hands_on_hostile_messages(case: SeekableCase) -> None:
    """Messages are handed on as they are: broken JSON, NUL, invalid UTF-8, a megabyte."""
    end = _end(case)
    case.send(HOSTILE)
    found = [one.value for _, messages in _plans(case.connect(), end, 100) for one in messages]
    expect(sorted(found) == sorted(HOSTILE), f"{len(found)} of {len(HOSTILE)} messages arrived as they were sent")


def waits_for_messages(case: SeekableCase) -> None:
    """A connector that is not bounded finds messages that are sent after it was opened, and counts them as lag."""
    end = _end(case)
    connector = case.connect()
    connector.open(end, bounded=False)
    expect(connector.plan(10, 0.0) is None, "there is a plan before a message was sent")
    case.send([b"1", b"2", b"3"])
    found = _until(connector, 3)
    expect(sorted(found) == [b"1", b"2", b"3"], f"of three messages {found!r} arrived")
    lag = connector.lag()
    expect(lag in (0, None), f"everything was read, and the lag is {lag}")
    case.send([b"4"])
    connector.committed(end)
    expect(_until(connector, 1) == [b"4"], "a message after a commit did not arrive")
    connector.close()


def ends_where_the_stream_ended(case: SeekableCase) -> None:
    """A bounded connector does not read messages that were sent after it was opened."""
    connector = case.connect()
    connector.open(_end(case), bounded=True)
    case.send([b"5"])
    expect(connector.plan(10, 0.0) is None, "a bounded connector planned a message that came later")
    connector.close()


def names_what_retention_lost(case: SeekableCase) -> None:
    """A position before messages that are gone is an error."""
    if case.forget is None:
        return
    parts = _plans(case.connect(), None, 7)
    case.forget(50)
    connector = case.connect()
    try:
        connector.open(parts[1][0].end, bounded=True)
        connector.read(parts[2][0].ranges)
    except SourceError:
        return
    finally:
        connector.close()
    raise AssertionError("messages that are gone were passed over")


SEEKABLE = (
    follows_its_contract,
    reads_everything_in_order,
    reads_the_same_from_any_position,
    tells_only_certain_plans_from_others,
    hands_on_hostile_messages,
    waits_for_messages,
    ends_where_the_stream_ended,
    names_what_retention_lost,
)


def _plans(connector: Seekable, position: Position, most: int) -> list[tuple[Plan, list[BrokerMessage]]]:
    """Return all plans after a position with their messages."""
    connector.open(position, bounded=True)
    found = []
    while (plan := connector.plan(most, 0.0)) is not None:
        messages = list(connector.read(plan.ranges))
        expect(0 < len(messages) <= most, f"a plan of at most {most} messages has {len(messages)}")
        found.append((plan, messages))
    connector.close()
    return found


def _end(case: SeekableCase) -> Position:
    """Return the position at the end of the stream."""
    parts = _plans(case.connect(), None, 1_000)
    return json.loads(json.dumps(parts[-1][0].end)) if parts else None


def _until(connector: Seekable, count: int) -> list[bytes]:
    """Return the values of the next ``count`` messages, or of those that arrive in time."""
    found = list[bytes]()
    for _ in range(round(PATIENCE / 0.5)):
        plan = connector.plan(count - len(found), 0.5)
        found += [] if plan is None else [one.value for one in connector.read(plan.ranges)]
        if len(found) >= count:
            break
    return found


# ---------------------------------------------------------------------------- inboxes


@dataclass(frozen=True)
class InboxCase:
    """An empty queue: how a process takes from it, and how messages are sent to it.

    Examples
    --------
    >>> from driftsurf.checks import check_inbox
    >>> class Unfinished:
    ...     name = "orders"
    >>> check_inbox(InboxCase(connect=Unfinished, send=[].extend))
    Traceback (most recent call last):
        ...
    driftsurf.errors.CheckError: InboxCase(...) fails takes_in_order: ... members of the contract are missing
    """

    connect: Callable[[], Inbox]
    send: Callable[[Sequence[bytes]], None]


def check_inbox(case: InboxCase) -> None:
    """Raise CheckError unless a connector implements :class:`~driftsurf.data.messages.contract.Inbox`.

    Examples
    --------
    >>> import itertools
    >>> from driftsurf.checks import InboxCase
    >>> from driftsurf.data.messages.contract import BrokerMessage, Received
    >>> class Queue:
    ...     name = "orders"
    ...     def open(self):
    ...         self.taken = set()
    ...     def take(self, most, seconds):
    ...         found = [number for number in messages if number not in self.taken][:most]
    ...         self.taken.update(found)
    ...         return [Received(number, BrokerMessage(f"message {number}", messages[number])) for number in found]
    ...     def waiting(self):
    ...         return len(messages) - len(self.taken)
    ...     def done(self, tokens):
    ...         for number in tokens:
    ...             del messages[number]
    ...         self.taken -= set(tokens)
    ...     def close(self):
    ...         pass
    >>> messages, numbers = {}, itertools.count()
    >>> check_inbox(InboxCase(connect=Queue, send=lambda values: messages.update(zip(numbers, values))))
    """
    run(case, INBOX)


def takes_in_order(case: InboxCase) -> None:
    """An empty inbox gives nothing; messages come in their order, hostile ones too."""
    inbox = case.connect()
    expect(isinstance(inbox, Inbox), "members of the contract are missing")
    inbox.open()
    expect(inbox.take(10, 0.1) == [], "an empty inbox gave a message")
    case.send([b"1", b"2", *HOSTILE])
    found = _received(inbox, 2 + len(HOSTILE))
    expect([one.message.value for one in found] == [b"1", b"2", *HOSTILE], "messages were changed or are out of order")
    inbox.done([one.token for one in found])
    inbox.close()
    inbox.close()


def gives_unacknowledged_messages_again(case: InboxCase) -> None:
    """Messages that were not acknowledged come again after a crash, and acknowledged ones do not."""
    inbox = case.connect()
    inbox.open()
    case.send([b"%d" % n for n in range(10)])
    found = _received(inbox, 10)
    inbox.done([one.token for one in found[:4]])
    inbox.close()
    other = case.connect()
    other.open()
    again = _received(other, 6)
    values = [one.message.value for one in again]
    expect(values == [b"%d" % n for n in range(4, 10)], f"after acknowledging four of ten messages came {values!r}")
    other.done([one.token for one in again])
    expect(other.take(10, 0.2) == [], "an acknowledged message came again")
    waiting = other.waiting()
    expect(waiting in (0, None), f"everything was taken, and {waiting} messages wait")
    other.close()


INBOX = takes_in_order, gives_unacknowledged_messages_again


def _received(inbox: Inbox, count: int) -> list[Received]:
    found = list[Received]()
    for _ in range(round(PATIENCE / 0.5)):
        found += inbox.take(count - len(found), 0.5)
        if len(found) >= count:
            break
    return found


# ---------------------------------------------------------------------------- writers


@dataclass(frozen=True)
class WriterCase:
    """An empty destination: how a process writes to it, and what it holds.

    ``held`` returns its rows as dictionaries, in order.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from driftsurf.connectors.sqlite import SqliteWriter
    >>> path = tempfile.mkdtemp() + "/predictions.sqlite"
    >>> def held():
    ...     with closing(sqlite3.connect(path)) as file:
    ...         file.row_factory = sqlite3.Row
    ...         return [dict(row) for row in file.execute("select * from predictions order by row")]
    >>> case = WriterCase(connect=lambda: SqliteWriter(path, {"row": "integer", "prediction": "text"}), held=held)
    >>> with closing(case.connect()) as writer:
    ...     first = writer.open()
    ...     writer.write(first, [{"row": 0, "prediction": "yes"}])
    ...     writer.flush()
    >>> case.held()
    [{'row': 0, 'prediction': 'yes'}]
    """

    connect: Callable[[], Writer]
    held: Callable[[], Sequence[dict[str, Any]]]


COLUMNS = {"row": "integer", "id": "text", "prediction": "text", "true": "text", "probability": "value"}
"""Columns of the rows that checks write; a writer is made with them."""


def check_writer(case: WriterCase) -> None:
    """Raise CheckError unless a connector implements :class:`~driftsurf.data.messages.contract.Writer`.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from driftsurf.checks import WriterCase
    >>> from driftsurf.checks.connectors import COLUMNS
    >>> from driftsurf.connectors.sqlite import SqliteWriter
    >>> path = tempfile.mkdtemp() + "/predictions.sqlite"
    >>> def held():
    ...     with closing(sqlite3.connect(path)) as file:
    ...         file.row_factory = sqlite3.Row
    ...         return [dict(row) for row in file.execute("select * from predictions order by row")]
    >>> check_writer(WriterCase(connect=lambda: SqliteWriter(path, COLUMNS), held=held))
    """
    run(case, WRITER)


def _row(number: int) -> dict[str, Any]:
    label = ("yes", "no", 'it\'s "x" \\ ü')[number % 3]
    known = None if number % 5 == 4 else label
    return {"row": number, "id": f"o-{number}", "prediction": label, "true": known, "probability": 0.5 + number / 1e4}


def writes_rows_and_counts_them(case: WriterCase) -> None:
    """Rows arrive as they are, in their order; another process counts them."""
    writer = case.connect()
    expect(isinstance(writer, Writer), "members of the contract are missing")
    expect(writer.open() == 0, "an empty destination holds rows")
    rows = [_row(n) for n in range(1_000)]
    writer.write(0, rows[:600])
    writer.write(600, rows[600:])
    writer.flush()
    writer.close()
    writer.close()
    held = list(case.held())
    expect(held == rows, f"1,000 rows were written, {len(held)} are there, or they differ")
    again = case.connect()
    there = again.open()
    expect(there == (1_000 if again.exact else 0), f"1,000 rows were written, and the destination counts {there}")
    again.close()


def writes_each_row_once(case: WriterCase) -> None:
    """A process that writes from where the destination is, after another one was killed, leaves each row once."""
    writer = case.connect()
    first = writer.open()
    if not writer.exact:
        writer.close()
        return
    writer.write(first, [_row(n) for n in range(first, first + 50)])
    writer.close()  # without flush, as if it was killed: any part of the rows may be there
    again = case.connect()
    there = again.open()
    expect(first <= there <= first + 50, f"of rows {first} to {first + 50} the destination counts {there}")
    again.write(there, [_row(n) for n in range(there, first + 80)])
    again.flush()
    again.close()
    numbers = [row["row"] for row in case.held()]
    expect(numbers == list(range(first + 80)), "a row is missing, doubled or out of order")


def can_be_cleared(case: WriterCase) -> None:
    """A destination that is cleared is empty, unless its system does not allow that."""
    writer = case.connect()
    writer.open()
    try:
        writer.clear()
    except SourceError:
        return
    finally:
        writer.close()
    again = case.connect()
    expect(again.open() == 0, "a destination that was cleared holds rows")
    again.close()


WRITER = writes_rows_and_counts_them, writes_each_row_once, can_be_cleared
