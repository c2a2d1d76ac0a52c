"""The log on a real folder: records, segments, readers, threads, retention, and what opening it finds."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from driftsurf.data.log import file_log
from driftsurf.data.log.file_log import FileLog
from driftsurf.errors import InputError, LockedError, LogError, OptionError


def filled(folder: Path, count: int, **options: int) -> list[bytes]:
    """Write records of several lengths and return them."""
    records = [bytes([number % 251]) * (number % 40) for number in range(count)]
    with FileLog(folder, **options) as log:
        assert [log.add(record) for record in records] == list(range(count))
    return records


def all_of(log: FileLog, most_bytes: int = 100) -> list[bytes]:
    """Read the whole log in small parts."""
    found: list[tuple[int, bytes]] = []
    while part := log.read(log.first + len(found), most_bytes):
        found += part
    assert [number for number, _ in found] == list(range(log.first, log.next))
    return [payload for _, payload in found]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_records_come_back_in_order_after_opening_again(tmp_path: Path) -> None:
    records = filled(tmp_path / "new" / "log", 300, segment_bytes=500)
    assert len(files_of(tmp_path / "new" / "log")) > 10
    with FileLog(tmp_path / "new" / "log") as log:
        assert (log.first, log.next, log.durable, log.cut) == (0, 300, 300, 0)
        assert all_of(log) == records
        assert log.add(b"next") == 300
        assert log.read(299) == [(299, records[299]), (300, b"next")]


def test_an_empty_log_has_no_records(tmp_path: Path) -> None:
    for _ in range(2):
        with FileLog(tmp_path) as log:
            assert (log.first, log.next, log.durable, log.read(0)) == (0, 0, 0, [])
            assert not log.wait(0, 0.0)
            assert log.commit() == 0


def test_a_closed_log_takes_and_gives_nothing(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    log.add(b"x")
    log.close()
    log.close()
    assert log.durable == 1
    for call in (lambda: log.add(b"y"), lambda: log.read(0)):
        with pytest.raises(LogError, match="closed"):
            call()
    assert not log.wait(0, None)


def test_a_log_is_opened_by_one_process_at_a_time(tmp_path: Path) -> None:
    with FileLog(tmp_path), pytest.raises(LockedError):
        FileLog(tmp_path)
    FileLog(tmp_path).close()


def test_readers_get_at_least_one_record_and_no_more_bytes_than_asked(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        for length in (10, 50, 20, 20):
            log.add(b"." * length)
        for _ in range(2):
            assert [len(payload) for _, payload in log.read(0, 1)] == [10]
            assert [len(payload) for _, payload in log.read(1, 70)] == [50, 20]
            assert [len(payload) for _, payload in log.read(0)] == [10, 50, 20, 20]
            assert log.read(4) == []
            log._recent.clear()  # the second time from the file


def test_options_and_payloads_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="segment_bytes is 0"):
        FileLog(tmp_path, segment_bytes=0)

    class Long(bytes):
        def __len__(self) -> int:
            return 2**30 + 1

    with FileLog(tmp_path) as log:
        with pytest.raises(InputError, match=str(2**30 + 1)):
            log.add(Long())
        assert log.next == 0


def test_dropping_removes_whole_segments_and_never_the_last(tmp_path: Path) -> None:
    records = filled(tmp_path, 100, segment_bytes=400)
    with FileLog(tmp_path, segment_bytes=400) as log:
        second = int(files_of(tmp_path)[1].name[:20])
        log.truncate(second - 1)
        assert log.first == 0
        log.truncate(second)
        assert log.first == second
        assert all_of(log) == records[second:]
        with pytest.raises(LogError, match="record 0 "):
            log.read(0)
        log.truncate(10**9)
        assert len(files_of(tmp_path)) == 1
        kept = log.first
    with FileLog(tmp_path) as log:
        assert (log.first, log.next) == (kept, 100)
        assert all_of(log) == records[kept:]


def test_one_who_waits_is_woken_by_a_record_and_by_closing(tmp_path: Path) -> None:
    log, answers = FileLog(tmp_path), list[bool]()

    def wait() -> None:
        answers.append(log.wait(0, None))
        answers.append(log.wait(1, None))

    thread = threading.Thread(target=wait)
    thread.start()
    log.add(b"")
    while not answers:
        pass
    log.close()
    thread.join()
    assert answers == [True, False]


def test_many_readers_see_each_record_once_while_others_append_flush_and_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "RECENT", 3_000)
    count, writers, seen = 150, 4, [list[bytes]() for _ in range(3)]
    with FileLog(tmp_path, segment_bytes=2_000) as log:

        def write(name: int) -> None:
            for turn in range(count):
                log.add(f"{name} {turn}".encode().ljust(20 + turn))
                if turn % 50 == 0:
                    log.commit()

        def read(found: list[bytes], most_bytes: int) -> None:
            while len(found) < count * writers:
                if log.wait(len(found), 10.0):
                    found += [payload for _, payload in log.read(len(found), most_bytes)]

        threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
        threads += [threading.Thread(target=read, args=(found, 40**k)) for k, found in enumerate(seen, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen[0] == seen[1] == seen[2]
        log._recent.clear()
        assert all_of(log, 10**6) == seen[0]
        dropping = [threading.Thread(target=log.truncate, args=(log.next,)) for _ in range(3)]
        for thread in dropping:
            thread.start()
        for thread in dropping:
            thread.join()
        assert all_of(log) == seen[0][log.first :]
    for name in range(writers):
        own = [int(payload.split()[1]) for payload in seen[0] if payload.startswith(b"%d " % name)]
        assert own == list(range(count))
