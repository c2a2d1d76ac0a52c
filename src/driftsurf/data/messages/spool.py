"""Messages that a system hands out once, as a source: a log of our own keeps them before they are acknowledged."""

from __future__ import annotations

import json
import tempfile
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path

from driftsurf.data.log.file_log import FileLog
from driftsurf.data.messages.contract import BrokerMessage, Inbox, Plan, Ranges, Received, Seekable, Settling
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError

SEGMENT_BYTES = 8 * 2**20
"""Size of a file of the log, which is removed as a whole."""
REMEMBERED = 100_000
"""Number of the last messages whose identities are known, to recognise a second delivery."""
QUIET = 1.0
"""Seconds without a message after which a source ends that does not follow."""


class Spool:
    """The messages of an inbox in a log, from which they can be read again.

    A message is written to the log and flushed, then acknowledged, then planned and read. If the process is killed in
    between, it is delivered again: by the identity that its sender gave it, the second copy is recognised and dropped.
    Messages without an identity that were not acknowledged come twice then.

    Parameters
    ----------
    inbox
        Where messages come from.
    folder
        Folder of the log; None for a temporary one, which is removed at the end.
    keep
        How many checkpoints the run keeps, from each of which it may resume.
    """

    def __init__(self, inbox: Inbox, folder: Path | None = None, keep: int = 2) -> None:
        self.inbox = inbox
        self.folder = folder
        self.keep = keep
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._log: FileLog | None = None
        self._next = 0
        self._bounded = False
        self._commits: list[int] = []
        """Positions of the last checkpoints, oldest first."""
        self._known: dict[str, None] = {}
        """Identities of the last messages, oldest first."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.inbox.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Open log and inbox; reading begins at a record of the log, or with the first one that it has."""
        self.close()
        if self.folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="driftsurf-")
        folder = Path(self._temporary.name) if self._temporary is not None else self.folder
        assert folder is not None
        self._log = log = FileLog(folder, segment_bytes=SEGMENT_BYTES)
        self._next = log.first if position is None else int(str(position))
        self._bounded = bounded
        if not log.first <= self._next <= log.next:
            raise SourceError(
                f"{self.name}: the messages from {self._next:,} on are not in {str(folder)!r}, which holds those from "
                f"{log.first:,} to {log.next:,}. Restore the folder, or start a new run"
            )
        self._known.clear()
        start = max(log.first, log.next - REMEMBERED)
        while records := log.read(start):
            self._remember(_decoded(payload)[0] for _, payload in records)
            start = records[-1][0] + 1
        self.inbox.open()

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next messages of the log, after taking more of them from the inbox if there are too few."""
        log = self._opened
        wait = QUIET if self._bounded else seconds
        while (missing := most - (log.next - self._next)) > 0:
            received = self.inbox.take(missing, wait)
            if not received:
                if self._bounded and isinstance(self.inbox, Settling) and not self.inbox.settled():
                    continue
                break
            self._keep(received)
            wait = QUIET if self._bounded else 0.0  # the batch is taken as soon as no more messages are there
        first, stop = self._next, min(log.next, self._next + most)
        if first == stop:
            return None
        self._next = stop
        return Plan([[first, stop]], stop, certain=stop - first == most)

    def _keep(self, received: list[Received]) -> None:
        """Write messages to the log, then acknowledge them."""
        log = self._opened
        new = list[Received]()
        for one in received:
            if not one.id or not (one.id in self._known or any(one.id == other.id for other in new)):
                new.append(one)
        log.append([_encoded(one) for one in new], log.next)
        log.commit()
        self._remember(one.id for one in new)
        self.inbox.done([one.token for one in received])

    def _remember(self, ids: Iterable[str]) -> None:
        for one in ids:
            if one:
                self._known[one] = None
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    @property
    def _opened(self) -> FileLog:
        assert self._log is not None, "open() comes first"
        return self._log

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return messages of the log."""
        messages = list[BrokerMessage]()
        for first, stop in ranges:
            at = first
            while at < stop:
                records = self._opened.read(at)[: stop - at]
                if not records:
                    raise SourceError(f"{self.name}: message {at:,} is not in the log of messages; start a new run")
                messages += [_message(number, payload) for number, payload in records]
                at += len(records)
            self._next = stop
        return messages

    def committed(self, position: Position) -> None:
        """Remove messages that no checkpoint needs any more."""
        self._commits = [*self._commits, int(str(position))][-self.keep :]
        if len(self._commits) == self.keep and self._log is not None:
            self._log.truncate(self._commits[0])

    def lag(self) -> int | None:
        """Return how many messages wait in the log and in the system; None if the system does not tell."""
        waiting = self.inbox.waiting()
        return None if waiting is None else waiting + self._opened.next - self._next

    def close(self) -> None:
        """Disconnect, and close the log."""
        self.inbox.close()
        log, self._log = self._log, None
        if log is not None:
            log.close()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()


def _encoded(one: Received) -> bytes:
    return json.dumps([one.id, one.message.place]).encode() + b"\n" + one.message.value


def _decoded(payload: bytes) -> tuple[str, str, bytes]:
    """Return the identity of a message, where it came from, and its value."""
    head, _, value = payload.partition(b"\n")
    id, place = json.loads(head)
    return str(id), str(place), value


def _message(number: int, payload: bytes) -> BrokerMessage:
    _, place, value = _decoded(payload)
    return BrokerMessage(f"message {number}{', ' * bool(place)}{place}", value)


class InboxSource(MessageSource):
    """Messages of an inbox as tables.

    With checkpoints they are kept in a folder beside them: a new run there begins with the messages that it holds.
    Without, they are kept in a temporary folder, and those that were taken are gone if the process is killed.
    """

    @abstractmethod
    def inbox(self, location: str) -> Inbox:
        """Return the inbox of an address, which is not connected yet; OptionError if the address is wrong."""

    def connect(self, location: str) -> Seekable:
        """Return the log of an inbox."""
        return Spool(self.inbox(location))

    def keep_plans(self, folder: Path, *, keep: int, resumed: bool, name: str) -> None:
        """Keep plans and messages in a checkpoint folder."""
        super().keep_plans(folder, keep=keep, resumed=resumed, name=name)
        if isinstance(self.connector, Spool):
            self.connector.folder = folder / Path(name).stem.replace("plans", "messages")
            self.connector.keep = keep
