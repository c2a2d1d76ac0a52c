"""The log after cuts, flipped bits, faults and power losses: exactly what was promised, or a named error."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.reliability import harness, served_log
from tests.reliability.faults import FullDisk
from tests.reliability.power import Inode, MemoryDisk

from driftsurf.core import disk, files
from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.segments import HEAD
from driftsurf.errors import LogError

PLACE = served_log.PLACE


@pytest.fixture(autouse=True)
def _save_failures_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FAILURES", tmp_path / "failures")


class Written:
    """A small log on a disk in memory: where each record is, and what its frame says about the ones before."""

    def __init__(self, flushes: set[int], segment_bytes: int = 130) -> None:
        self.disk = MemoryDisk()
        self.payloads = [bytes([number]) * (3 * number % 17) for number in range(12)]
        self.claims: list[int] = []
        self.places: list[tuple[Path, int, int]] = []
        """Files of the records, and the bytes at which they begin and end."""
        with disk.using(self.disk):
            log = FileLog(PLACE, segment_bytes=segment_bytes)
            for number, payload in enumerate(self.payloads):
                self.claims.append(log.durable)
                log.add(payload)
                end = log._state[2]
                self.places.append((log._state[0][-1].path, end - len(payload) - HEAD.size, end))
                if number in flushes:
                    log.commit()

    def changed(self, path: Path, data: bytes) -> MemoryDisk:
        """Return the disk after a power loss that lost nothing, with another content of one file."""
        found = self.disk.after_power_loss(random.Random(0), 1.0, 0.0)
        found.inodes[path] = Inode(data)
        return found

    def expected(self, bad: int, gone: Path | None = None) -> list[bytes] | None:
        """Return what is left if record ``bad`` is not good, nor what follows in file ``gone``; None for an error."""
        later = zip(self.claims[bad + 1 :], self.places[bad + 1 :], strict=True)
        if any(claim > bad for claim, (path, _, _) in later if path != gone):
            return None
        return self.payloads[:bad]


def found_on(changed: MemoryDisk) -> list[bytes] | None:
    """Return the payloads of a log; None if it is refused."""
    with disk.using(changed):
        try:
            return served_log.content()[0]
        except LogError:
            return None


STORIES = {
    "never flushed": set[int](),
    "flushed once": {4},
    "flushed often": {1, 4, 7, 8},
    "each flushed": set(range(12)),
}


@pytest.mark.parametrize("flushes", STORIES.values(), ids=STORIES)
def test_a_flipped_bit_anywhere_is_an_error_or_an_unflushed_tail(flushes: set[int]) -> None:
    written = Written(flushes)
    for number, (path, begin, end) in enumerate(written.places):
        whole = written.disk.inodes[path].content()
        for place in range(begin, end):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            assert found_on(written.changed(path, bytes(data))) == written.expected(number)


@pytest.mark.parametrize("flushes", STORIES.values(), ids=STORIES)
def test_a_file_that_ends_early_is_an_error_or_an_unflushed_tail(flushes: set[int]) -> None:
    written = Written(flushes)
    for number, (path, begin, end) in enumerate(written.places):
        whole = written.disk.inodes[path].content()
        for cut in range(begin, end):
            for rest in (b"", b"\xff" * 100):
                assert found_on(written.changed(path, whole[:cut] + rest)) == written.expected(number, path)


def test_a_missing_file_is_an_error_or_an_unflushed_tail() -> None:
    for flushes in STORIES.values():
        written = Written(flushes)
        for path in {path for path, _, _ in written.places}:
            first = int(path.name[:20])
            changed = written.changed(path, b"")
            del changed.inodes[path]
            if first > 0:  # else it cannot be told from retention
                assert found_on(changed) == written.expected(first, path)


def test_a_checkpoint_tells_how_many_records_there_were() -> None:
    written = Written({11})
    path, begin, _ = written.places[11]
    changed = written.changed(path, written.disk.inodes[path].content()[:begin])
    with disk.using(changed.frozen()), FileLog(PLACE) as log:
        assert log.next == 11
    with disk.using(changed), pytest.raises(LogError, match="12"):
        FileLog(PLACE, known=12)
    with disk.using(MemoryDisk()), pytest.raises(LogError, match="12"):
        FileLog(PLACE, known=12)


def test_every_file_call_may_fail() -> None:
    outcome = served_log.file_calls(0, seed=1, stride=3)
    assert outcome.tried > 1_000
    assert outcome.failed == 0, outcome.line()


def test_power_may_be_lost_at_any_moment_and_again_while_the_log_is_opened() -> None:
    assert served_log.states(0, seed=1, count=1_500).failed == 0


def test_changed_files_are_refused_or_read() -> None:
    outcome = served_log.fuzzed(0, seed=1, count=1_500)
    assert outcome.failed == 0, outcome.line()
    assert min(outcome.figures["read"], outcome.figures["refused"]) > 200


def test_a_frame_that_does_not_fit_is_cut_back(tmp_path: Path) -> None:
    full = FullDisk(2**20)
    with disk.using(full), FileLog(tmp_path) as log:
        log.add(b"x" * 100)
        (file,) = tmp_path.glob("*.log")
        size, full.room = file.stat().st_size, 50
        with pytest.raises(OSError, match="disk full") as caught:
            log.add(b"y" * 100)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(file))
        assert (file.stat().st_size, log.next, log.commit()) == (size, 1, 1)
        full.room = 2**20
        assert log.add(b"z") == 1
        assert log.read(0) == [(0, b"x" * 100), (1, b"z")]
    with FileLog(tmp_path) as log:
        assert (log.next, log.cut) == (2, 0)


def test_a_log_that_cannot_be_cut_back_is_broken_until_it_is_opened_again(tmp_path: Path) -> None:
    class Stuck(FullDisk):
        def truncate(self, handle: int, size: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

    full = Stuck(2**20)
    with disk.using(full), FileLog(tmp_path) as log:
        log.add(b"x")
        full.room = 10
        with pytest.raises(OSError, match="disk full"):
            log.add(b"y" * 100)
        full.room = 2**20
        with pytest.raises(LogError, match="Input/output error"):
            log.add(b"z")
        with pytest.raises(LogError, match="Input/output error"):
            log.commit()
        assert log.read(0) == [(0, b"x")]
    with FileLog(tmp_path) as log:
        assert (log.next, log.cut) == (1, 10)


def test_a_process_that_lost_its_folder_promises_nothing_more(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    log.add(b"x")
    (tmp_path / files.FENCE).write_text('{"number": 99}')
    with pytest.raises(LogError, match="taken over"):
        log.commit()
    assert log.durable == 0
    log.close()


def test_other_files_are_left_alone_and_renamed_ones_are_refused(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        log.add(b"x")
    (tmp_path / "notes.txt").write_text("mine")
    (file,) = tmp_path.glob("*.log")
    empty = file.with_name(f"{0:020}-0123456789abcdef.log")
    empty.touch()  # as of a process that ended while it made a file
    with FileLog(tmp_path) as log:
        assert log.read(0) == [(0, b"x")]
    assert not empty.exists()
    for name in ("old.log", f"{0:020}.log", f"{2**63:020}-0123456789abcdef.log"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(LogError, match=name):
            FileLog(tmp_path)
        (tmp_path / name).unlink()
    empty.write_bytes(b"something")
    with pytest.raises(LogError, match="both begin with"):
        FileLog(tmp_path)
    empty.unlink()
    other = tmp_path / "elsewhere"
    file.rename(other)
    file.symlink_to(other)  # a file elsewhere must not be cut
    with pytest.raises(OSError, match=file.name):
        FileLog(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_exception_in_the_middle_of_an_append_leaves_the_log_whole(tmp_path: Path) -> None:
    class Interrupted(disk.Disk):
        armed = False

        def write_at(self, handle: int, data: bytes | memoryview, place: int) -> int:
            written = os.pwrite(handle, data, place)
            if self.armed:
                raise KeyboardInterrupt
            return written

    interrupted = Interrupted()
    with disk.using(interrupted), FileLog(tmp_path) as log:
        log.add(b"a")
        interrupted.armed = True
        with pytest.raises(KeyboardInterrupt):
            log.add(b"never acknowledged")
        interrupted.armed = False
        assert log.add(b"b") == 1
        log._recent.clear()
        assert log.read(0) == [(0, b"a"), (1, b"b")]
    with FileLog(tmp_path) as log:
        assert log.read(0) == [(0, b"a"), (1, b"b")]
        assert log.cut > 0


class Machine(RuleBasedStateMachine):
    """Any order of calls and crashes, compared with a list."""

    @initialize(segment_bytes=st.sampled_from([1, 90, 400]))
    def begin(self, segment_bytes: int) -> None:
        self.disk, self.segment_bytes = MemoryDisk(), segment_bytes
        self.records: list[bytes] = []
        self.durable = self.dropped = 0
        self._open()

    def _open(self) -> None:
        with disk.using(self.disk):
            self.log = FileLog(PLACE, segment_bytes=self.segment_bytes, known=self.durable)
        assert self.durable <= self.log.next <= len(self.records)
        del self.records[self.log.next :]
        assert self.log.durable == self.log.next
        self.durable = self.log.durable

    @rule(payload=st.binary(max_size=80))
    def append(self, payload: bytes) -> None:
        with disk.using(self.disk):
            assert self.log.add(payload) == len(self.records)
        self.records.append(payload)

    @rule()
    def sync(self) -> None:
        with disk.using(self.disk):
            self.durable = self.log.commit()
        assert self.durable == len(self.records)

    @rule(share=st.floats(0, 1), most=st.integers(0, 200), recent=st.booleans())
    def read(self, share: float, most: int, recent: bool) -> None:
        if not recent:
            self.log._recent.clear()
        start = self.log.first + round(share * (self.log.next - self.log.first))
        with disk.using(self.disk):
            found = self.log.read(start, most)
        assert found == list(enumerate(self.records))[start : start + len(found)]
        assert bool(found) == (start < len(self.records))
        size = sum(len(payload) for _, payload in found)
        assert len(found) < 2 or size <= most
        more = self.records[start + len(found) : start + len(found) + 1]
        assert not more or size + len(more[0]) > most

    @rule(share=st.floats(0, 1))
    def drop(self, share: float) -> None:
        number = round(share * len(self.records))
        self.dropped = max(self.dropped, number)
        with disk.using(self.disk):
            self.log.truncate(number)

    @rule()
    def close(self) -> None:
        with disk.using(self.disk):
            self.log.close()
        self.durable = len(self.records)
        self._open()

    @rule()
    def kill(self) -> None:
        self.disk, count = self.disk.frozen(), len(self.records)
        self._open()
        assert (self.log.next, self.log.cut) == (count, 0)

    @rule(seed=st.integers(0, 2**32), keep=st.sampled_from([0.0, 0.5, 1.0]), tear=st.sampled_from([0.0, 0.5]))
    def lose_power(self, seed: int, keep: float, tear: float) -> None:
        self.disk = self.disk.after_power_loss(random.Random(seed), keep, tear)
        self._open()

    @invariant()
    def _counts(self) -> None:
        if hasattr(self, "log"):
            assert self.log.first <= self.dropped
            assert (self.log.next, self.log.durable) == (len(self.records), self.durable)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
