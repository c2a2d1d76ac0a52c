"""Checks for logs of served models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from driftsurf.checks._run import expect, expect_error, implements, run
from driftsurf.data.log.contract import Log
from driftsurf.errors import LogConflictError, LogError

__all__ = ["LogCase", "check_log"]


@dataclass(frozen=True)
class LogCase:
    """A log to check.

    Parameters
    ----------
    new
        Returns a function that opens one log, which is empty at first: another one for each call of ``new``.
    shared
        Whether several processes can have the log open at a time; ``open`` is then called again before a close.

    Examples
    --------
    >>> import tempfile
    >>> from functools import partial
    >>> from pathlib import Path
    >>> from driftsurf.data.log.file_log import FileLog
    >>> LogCase(new=lambda: partial(FileLog, Path(tempfile.mkdtemp()))).shared
    False
    """

    new: Callable[[], Callable[[], Log]]
    shared: bool = False


def check_log(case: LogCase) -> None:
    """Raise CheckError unless a class implements :class:`~driftsurf.data.log.contract.Log`.

    Examples
    --------
    >>> import tempfile
    >>> from functools import partial
    >>> from pathlib import Path
    >>> from driftsurf.checks import LogCase
    >>> from driftsurf.data.log.file_log import FileLog
    >>> check_log(LogCase(new=lambda: partial(FileLog, Path(tempfile.mkdtemp()))))
    """
    run(case, LOG)


def has_the_contract(case: LogCase) -> None:
    """Every member of the contract is there."""
    with closing(case.new()()) as log:
        implements(Log, "log")(log)


def keeps_records_in_order(case: LogCase) -> None:
    """Records get numbers from 0 without gaps, and are read as they were appended."""
    with closing(case.new()()) as log:
        expect((log.first, log.next, log.durable) == (0, 0, 0), "a new log has records")
        log.append([b"a", b""], 0)
        log.append([b"c" * 5_000], 2)
        expect(log.commit() == 3, "commit does not return the number below which records are durable")
        expect((log.next, log.durable) == (3, 3), f"next and durable are {log.next} and {log.durable}, not 3")
        expect(log.read(0, 2**20) == [(0, b"a"), (1, b""), (2, b"c" * 5_000)], "records are not read as appended")
        expect(log.read(2, 1) == [(2, b"c" * 5_000)], "a record that is larger than asked for is not read alone")
        expect(log.read(0, 1)[:1] == [(0, b"a")], "reading does not begin with the record that was asked for")
        expect(len(log.read(0, 10)) == 2, "more bytes are read than asked for")
        expect(log.read(3, 2**20) == [], "a record is read that does not exist")
        expect(log.size >= 5_000, "the size is less than that of the records")


def refuses_other_numbers(case: LogCase) -> None:
    """Records that are not the next ones are refused, and nothing changes."""
    with closing(case.new()()) as log:
        log.append([b"a"], 0)
        log.commit()
        expect_error(LogConflictError, lambda: log.append([b"b"], 0), "an append of a record that is there")
        expect_error(LogConflictError, lambda: log.append([b"b"], 2), "an append that leaves a gap")
        log.append([b"c"], 1)
        log.commit()
        expect(log.read(0, 2**20) == [(0, b"a"), (1, b"c")], "an append that was refused has changed the log")


def waits_for_records(case: LogCase) -> None:
    """Waiting ends when a record exists, after its time, and when the log is closed."""
    log = case.new()()
    expect(not log.wait(0, 0.01), "waiting for a record that does not exist says that it does")
    log.append([b"a"], 0)
    log.commit()
    expect(log.wait(0, None), "waiting for a record that exists says that it does not")
    log.close()
    log.close()
    expect(not log.wait(1, None), "waiting does not end when the log is closed")


def survives_closing(case: LogCase) -> None:
    """Committed records are there when the log is opened again, and the numbers go on."""
    open_again = case.new()
    for turn in range(3):
        with closing(open_again()) as log:
            expect(log.next == turn, f"{log.next} records are there, and not {turn}")
            log.append([str(turn).encode()], turn)
            log.commit()
    with closing(open_again()) as log:
        expect(log.read(0, 2**20) == [(turn, str(turn).encode()) for turn in range(3)], "records are lost")


def drops_what_it_may(case: LogCase) -> None:
    """Records at or above the number stay, and so do the last bytes; one that was dropped cannot be read."""
    with closing(case.new()()) as log:
        for number in range(40):
            log.append([bytes(1_000)], number)
        log.commit()
        log.truncate(30, spare_bytes=2**20)
        expect(log.first == 0, "records are dropped that are among the bytes to spare")
        log.truncate(30)
        expect(0 <= log.first <= 30, f"the first record is {log.first}, and 30 may be needed")
        expect(
            [number for number, _ in log.read(30, 2**20)] == list(range(30, 40)), "records are dropped at 30 or above"
        )
        if log.first:
            expect_error(LogError, lambda: log.read(0, 1), "reading a record that was dropped")
        log.append([b"next"], 40)
        expect(log.commit() == 41, "numbers do not go on after records were dropped")


def has_one_lease(case: LogCase) -> None:
    """One process has the lease at a time, and renews it."""
    open_again = case.new()
    with closing(open_again()) as log:
        lease = log.acquire(60.0, "http://one" if case.shared else "")
        expect(lease is not None, "nobody has the lease, and it cannot be had")
        assert lease is not None
        expect(lease.held and lease.renew(), "the lease is not held")
        if case.shared:
            with closing(open_again()) as other:
                expect(other.acquire(60.0) is None, "two processes have the lease")
                expect(other.leader() == "http://one", f"the process with the lease is at {other.leader()!r}")
        lease.release()
        lease.release()


def keeps_late_writers_out(case: LogCase) -> None:
    """A process cannot append once another one has, whatever it takes itself for."""
    if not case.shared:
        return
    open_again = case.new()
    with closing(open_again()) as late, closing(open_again()) as other:
        late.append([b"a"], 0)
        late.commit()
        other.append([b"b"], 1)
        other.commit()

        def write() -> None:
            late.append([b"c"], 1)
            late.commit()

        expect_error(LogConflictError, write, "an append after another process has written")
        expect(late.read(0, 2**20) == [(0, b"a"), (1, b"b")], "a late record is in the log")


LOG = (
    has_the_contract,
    keeps_records_in_order,
    refuses_other_numbers,
    waits_for_records,
    survives_closing,
    drops_what_it_may,
    has_one_lease,
    keeps_late_writers_out,
)
