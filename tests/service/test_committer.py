"""The committer: waiters end when their record is durable, together, and with an error if the log is broken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driftsurf.core import disk
from driftsurf.data.log.file_log import FileLog
from driftsurf.errors import InputError, LogError
from driftsurf.service.committer import GroupCommitter, in_turns


class Slow(disk.Disk):
    """Disk whose flushes wait for a permission each, and may fail."""

    def __init__(self) -> None:
        self.permission = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.flushes = 0
        self.fails = False

    def sync_data(self, handle: int) -> None:
        self.begun.release()
        self.permission.acquire()
        self.flushes += 1
        if self.fails:
            raise OSError(5, "Input/output error")


def test_records_that_come_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    slow = Slow()
    with disk.using(slow), FileLog(tmp_path) as log, GroupCommitter(log) as committer:
        first = committer.when_durable(committer.append(b"first"), "first")
        slow.begun.acquire()
        others = [committer.when_durable(committer.append(b"other"), place) for place in range(5)]
        gone = committer.when_durable(committer.append(b"of a client that went away"), "gone")
        assert gone.cancel()
        assert not first.done()
        slow.permission.release()
        assert first.result() == "first"
        assert log.durable == 1
        assert not any(other.done() for other in others)
        slow.permission.release()
        assert [other.result() for other in others] == [0, 1, 2, 3, 4]
        assert log.durable == 7
        assert slow.flushes == 2
        assert committer.when_durable(3, "known").result() == "known"
        with pytest.raises(InputError, match="record 7"):
            committer.when_durable(7, None)


def test_a_failed_flush_fails_all_who_wait_and_all_later_ones(tmp_path: Path) -> None:
    slow = Slow()
    with disk.using(slow), FileLog(tmp_path) as log, GroupCommitter(log) as committer:
        waiting = [committer.when_durable(committer.append(b"x"), None) for _ in range(3)]
        slow.fails = True
        slow.permission.release(2)
        for future in waiting:
            assert isinstance(future.exception(), LogError)
        assert log.durable == 0
        with pytest.raises(LogError, match="Input/output error"):
            log.add(b"y")
        assert isinstance(committer.when_durable(2, None).exception(), LogError)
    with FileLog(tmp_path) as log:
        assert log.next == 3


def test_closing_waits_for_those_who_wait(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        committer = GroupCommitter(log)
        futures = [committer.when_durable(committer.append(b"x"), None) for _ in range(50)]
        committer.close()
        committer.close()
        assert all(future.done() for future in futures)
        log.add(b"y")
        with pytest.raises(LogError, match="closed"):
            committer.when_durable(50, None)


def test_many_threads_get_numbers_without_gaps_and_fewer_flushes_than_records(tmp_path: Path) -> None:
    with FileLog(tmp_path, segment_bytes=2_000) as log, GroupCommitter(log) as committer:

        def client(name: int) -> list[int]:
            numbers = []
            for turn in range(20):
                number = committer.append(f"{name} {turn}".encode())
                assert committer.when_durable(number, number).result() == number
                assert log.durable > number
                numbers.append(number)
            return numbers

        with ThreadPoolExecutor(16) as pool:
            numbers = list(pool.map(client, range(16)))
        assert sorted(number for own in numbers for number in own) == list(range(320))
        found = dict(log.read(0, 2**30))
        log._recent.clear()
        assert dict(log.read(0, 2**30)) == found
        for name, own in enumerate(numbers):
            assert own == sorted(own)
            assert [found[number] for number in own] == [f"{name} {turn}".encode() for turn in range(20)]


def test_records_of_a_turn_of_an_event_loop_share_a_flush(tmp_path: Path) -> None:
    """They are flushed when the turn ends, and those of another thread at once."""
    slow, turn = Slow(), list[Callable[[], None]]()
    with disk.using(slow), FileLog(tmp_path) as log, GroupCommitter(log) as committer:
        with in_turns(turn.append):
            waiting = [committer.when_durable(committer.append(b"x"), place) for place in range(4)]
            assert len(turn) == 1
            assert not slow.begun.acquire(timeout=0.05)
            turn.pop()()
            slow.permission.release()
            assert [one.result(30) for one in waiting] == [0, 1, 2, 3]
            assert slow.flushes == 1
            later = committer.when_durable(committer.append(b"of the next turn"), "later")
            with ThreadPoolExecutor(1) as other:
                slow.permission.release()
                found = other.submit(lambda: committer.when_durable(committer.append(b"y"), "other").result(30))
                assert found.result(30) == "other"
            assert later.result(30) == "later"
        slow.permission.release(2)
        assert committer.when_durable(committer.append(b"z"), "no loop").result(30) == "no loop"
        assert len(turn) == 1
