"""The log of a served model: a fault at every file call, power losses at every moment, and fuzzed files."""

from __future__ import annotations

import random
import resource
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.reliability.faults import KINDS, FaultyDisk, Kind
from tests.reliability.harness import Outcome
from tests.reliability.power import EXTREMES, KEEP, TEAR, Inode, MemoryDisk, WatchedDisk

from driftsurf.core.disk import using
from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.segments import CHECKED, HEAD, NAME
from driftsurf.errors import LogError

PLACE = Path("/served/log")
SMALL = 150
"""Bytes of a segment: a few records, so that a short story has many of them."""
MOST_MEMORY = 64 * 2**20


class Killed(BaseException):
    """The process ends here."""


class FaultyMemory(FaultyDisk, MemoryDisk):
    """Disk in memory on which a call fails; a kill is an exception that nothing catches."""

    def __init__(self, at: int = -1, kind: Kind = "EIO", *, lasting: bool = False) -> None:
        FaultyDisk.__init__(self, at, kind, lasting=lasting)
        MemoryDisk.__init__(self)

    def kill(self, name: str, arguments: tuple[Any, ...]) -> None:
        """End the process, in the middle of a write."""
        if name == "write_at":
            handle, data, place = arguments
            MemoryDisk.write_at(self, handle, data[: len(data) // 2], place)
        raise Killed

    def failed(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Lose what a flush should have written."""
        if name in ("sync", "sync_data"):
            self.handles[arguments[0]].fail()


@dataclass
class Told:
    """What the callers of a log were told: the records they may count on."""

    tried: list[bytes] = field(default_factory=list)
    """Records that were appended, and the one that was under way when the process ended."""
    written: int = 0
    durable: int = 0
    dropped: int = 0

    def fits(self, found: list[bytes], first: int, *, power: bool) -> bool:
        """Return whether a log that was opened again has what was promised, in its place, and nothing else."""
        least, end = self.durable if power else self.written, first + len(found)
        return first <= self.dropped and least <= end and found == self.tried[first:end]


def story(told: Told, chance: random.Random, disk: WatchedDisk | None = None) -> None:
    """Append, flush, drop, close and open again; record in ``told`` what was promised."""
    for _ in range(3):
        log = FileLog(PLACE, segment_bytes=SMALL)
        for _ in range(5):
            payload = chance.randbytes(chance.randrange(60))
            told.tried.append(payload)
            try:
                told.written = log.add(payload) + 1
            except OSError:
                told.tried.pop()
                raise
            if chance.random() < 0.4:
                told.durable = log.commit()
            if disk is not None:
                disk.finished = told.durable
            if chance.random() < 0.2:
                told.dropped = max(told.dropped, log.durable)
                log.truncate(log.durable)
            log.read(max(log.first, log.next - 3))
        log.close()
        told.durable = log.durable
    if disk is not None:
        disk.finished = told.durable


def content() -> tuple[list[bytes], int]:
    """Open the log and return its payloads and the number of the first."""
    with FileLog(PLACE, segment_bytes=SMALL) as log:
        return all_of(log), log.first


def all_of(log: FileLog) -> list[bytes]:
    """Read the files of a log, not its memory."""
    log._recent.clear()
    found: list[tuple[int, bytes]] = []
    while part := log.read(log.first + len(found), 100):
        found += part
    assert [number for number, _ in found] == list(range(log.first, log.next))
    return [payload for _, payload in found]


def file_calls(scale: float, seed: int, stride: int = 1) -> Outcome:
    """Let every file call fail, once and for good; then open the log again, at once and after power losses."""
    outcome = Outcome("a fault at every file call of a log", seed)
    counting = FaultyMemory()
    with using(counting):
        story(Told(), random.Random(seed))
    outcome.figures = {"file calls": counting.calls}
    chance = random.Random(seed)
    for kind, lasting in product(KINDS, (False, True)):
        for at in range(0, counting.calls, stride):
            told, disk, ended = Told(), FaultyMemory(at, kind, lasting=lasting), "whole"
            with using(disk):
                try:
                    story(told, random.Random(seed))
                except (OSError, Killed) as error:
                    ended = type(error).__name__
            outcome.count(f"ended {ended}")
            _open_again(outcome, disk, told, chance, {"at": at, "kind": kind, "lasting": lasting, "ended": ended})
    return outcome


def _open_again(outcome: Outcome, disk: MemoryDisk, told: Told, chance: random.Random, case: dict[str, Any]) -> None:
    """Open the log that a fault has left: after a power loss; at once; and after that one and a power loss."""
    lost = disk.after_power_loss(chance, chance.choice(KEEP), chance.choice(TEAR))
    outcome.check(_fits(lost, told, power=True), case | {"opened": "after a power loss"})
    shown = disk.frozen()
    outcome.check(_fits(shown, told, power=False), case | {"opened": "at once"})
    # What was shown once is durable, even if a failed flush had been the end.
    lost = shown.after_power_loss(chance, 0.0, 0.0)
    outcome.check(_fits(lost, told, power=False), case | {"opened": "again, after a power loss"})


def _fits(disk: MemoryDisk, told: Told, *, power: bool) -> bool:
    with using(disk):
        try:
            return told.fits(*content(), power=power)
        except LogError:
            return False


def states(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Lose power at every moment of many stories; all durable records are found, and others only in their place."""
    outcome = Outcome("power loss of a log", seed)
    wanted = round(100_000 * scale) if count is None else count
    chance = random.Random(seed)
    while outcome.tried < wanted:
        disk, told, own = WatchedDisk(), Told(), chance.randrange(2**32)
        with using(disk):
            story(told, random.Random(own), disk)
        outcome.count("stories")
        for keep, tear in (*EXTREMES, *((chance.choice(KEEP), chance.choice(TEAR)) for _ in range(8))):
            for moment, (durable, copy) in enumerate(disk.copies):
                lost = copy.after_power_loss(chance, keep, tear)
                # The second loss comes at any moment of opening the log again.
                with using(watched := _watched(lost)), FileLog(PLACE, segment_bytes=SMALL) as log:
                    opened = len(watched.copies)
                place = chance.randrange(opened)
                again = watched.copies[place][1].after_power_loss(chance, keep, tear)
                least = Told(told.tried, len(told.tried), log.next if place == opened - 1 else durable, told.dropped)
                case = {"story": own, "moment": moment, "keep": keep, "tear": tear, "second": place}
                outcome.check(_fits(again, least, power=True), case)
    return outcome


def _watched(disk: MemoryDisk) -> WatchedDisk:
    """Return the same disk, with a copy of each moment from now on."""
    found, copy = WatchedDisk(), disk.frozen()
    found.inodes, found.safe_names, found.pending, found.folders = (
        copy.inodes,
        copy.safe_names,
        copy.pending,
        copy.folders,
    )
    return found


def fuzzed(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Open logs whose files were changed, most with right checksums: refused, or read, extended and read again."""
    outcome = Outcome("fuzzed files of a log", seed)
    chance = random.Random(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for trial in range(round(200_000 * scale) if count is None else count):
        if trial % 100 == 0:
            disk = MemoryDisk()
            with using(disk):
                story(Told(), random.Random(chance.randrange(2**32)))
        changed = with_changes(disk, chance)
        with using(changed):
            try:
                ended = _used()
            except LogError:
                ended = "refused"
            except Exception as error:  # any other error is a finding
                ended = f"{type(error).__name__}: {error}"
        outcome.count(ended if ended in ("read", "refused") else "crashed")
        files = {str(path): inode.content().hex() for path, inode in changed.inodes.items()}
        outcome.check(ended in ("read", "refused"), {"trial": trial, "ended": ended, "files": files})
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    outcome.figures["MiB of memory grown"] = grown / 2**20
    outcome.check(grown < MOST_MEMORY, {"grown": grown})
    return outcome


def _used() -> str:
    """Read a log, add a record, open it again, and read the same."""
    with FileLog(PLACE, segment_bytes=SMALL) as log:
        found = all_of(log)
        found.append(b"new")
        log.add(b"new")
        assert all_of(log) == found
    with FileLog(PLACE, segment_bytes=SMALL) as log:
        assert all_of(log) == found
    return "read"


def with_changes(disk: MemoryDisk, chance: random.Random) -> MemoryDisk:
    """Return a disk with the log files changed in one to three places."""
    changed = disk.frozen()
    for _ in range(chance.randint(1, 3)):
        paths = [path for path in changed.inodes if path.suffix == ".log"]
        if not paths:
            break
        path = chance.choice(paths)
        data = bytearray(changed.inodes[path].content())
        match chance.randrange(7):
            case 0:
                data = data[: chance.randrange(len(data) + 1)]
            case 1:
                at = chance.randrange(len(data) + 1)
                data[at:at] = chance.choice((bytes(40), chance.randbytes(20), data[:60], bytes(path.name, "ascii")))
            case 2 if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 3:
                del changed.inodes[path]
                continue
            case 4:
                path = path.with_name(f"{chance.choice((0, 3, 2**63, 10**20 - 1)):020}{path.name[20:]}")
            case 5:
                other = changed.inodes[chance.choice(paths)].content()
                data += other[chance.randrange(len(other) + 1) :]
            case _:
                data = _forged(data, path.name, chance)
        changed.inodes[path] = Inode(bytes(data))
    return changed


def _forged(data: bytearray, name: str, chance: random.Random) -> bytearray:
    """Change a number of a frame and give it the right checksum."""
    known = NAME.fullmatch(name)
    salt = bytes.fromhex(known[2]) if known else b""
    at = data.find(salt[:4], chance.randrange(len(data) + 1))
    if known is None or at < 0 or at + HEAD.size > len(data):
        return data
    magic, length, _, number, durable = HEAD.unpack_from(data, at)
    odd = 0, 1, 2, number, number + 1, 2**32 - 1, 2**63, 2**64 - 1
    match chance.randrange(3):
        case 0:
            length = chance.choice((0, 1, length + 1, 2**31, 2**32 - 1))
        case 1:
            number = chance.choice(odd)
        case _:
            durable = chance.choice(odd)
    HEAD.pack_into(data, at, magic, length, 0, number, durable)
    seed = int.from_bytes(salt[4:], "little")
    checksum = crc32(data[at + CHECKED : at + HEAD.size + length], seed)
    HEAD.pack_into(data, at, magic, length, checksum, number, durable)
    return data
