"""Power losses, simulated by a disk in memory that may lose, reorder or tear every write that was not flushed."""

from __future__ import annotations

import itertools
import random
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from tests.reliability.harness import Outcome
from tests.reliability.workload import Workload, state_digest

from driftsurf.core.disk import Disk, using
from driftsurf.errors import StateError
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.execute import RunLoop

EXTREMES = (0.0, 0.0), (1.0, 0.0), (1.0, 1.0)
KEEP, TEAR = (0.1, 0.5, 0.9), (0.0, 0.3, 1.0)
"""Share of unflushed writes that survive, and share of those that are torn. The extremes are tried first."""
STATES_OF_A_RUN = 10_000
"""Number of disk states to draw from one run; further new ones are increasingly rare."""


@dataclass(eq=False)
class Inode:
    """Content of a file: the flushed bytes, and the changes since the last flush."""

    safe: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Pairs of a position and the bytes written there, or None for a truncation at that position."""
    shown: bytes | None = None
    """After a failed flush: what the system shows in place of ``safe``, although it is not on the device."""

    def content(self) -> bytes:
        """Return the content that a running system sees."""
        return _applied(self.safe if self.shown is None else self.shown, self.pending)

    def flush(self) -> None:
        """Write the changes to the device."""
        if self.shown is not None:
            self.shown = self.content()
        self.safe, self.pending = _applied(self.safe, self.pending), []

    def fail(self) -> None:
        """Lose the changes as a failed flush does: the system shows them, and no later flush writes them."""
        self.shown, self.pending = self.content(), []


def _applied(data: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    for where, what in changes:
        rest = b"" if what is None else what + data[where + len(what) :]
        data = data.ljust(where, b"\0")[:where] + rest
    return data


class MemoryDisk(Disk):
    """Disk in memory that records which writes and names were flushed, as a real disk does."""

    def __init__(self) -> None:
        self.inodes: dict[Path, Inode] = {}
        self.safe_names: dict[Path, Inode] = {}
        self.pending: list[tuple[Path, Inode | None]] = []
        """Changes of names since their folder was flushed; None removes a name."""
        self.folders: set[Path] = set()
        self.handles: dict[int, Inode] = {}

    def _name(self, path: Path, inode: Inode | None) -> None:
        self.pending.append((path, inode))
        if inode is None:
            self.inodes.pop(path, None)
        else:
            self.inodes[path] = inode

    def _opened(self, inode: Inode) -> int:
        handle = len(self.handles) + 1
        self.handles[handle] = inode
        return handle

    def create(self, path: Path, shared: bool = False) -> int:
        """Create a file."""
        if path in self.inodes:
            raise FileExistsError(path)
        self._name(path, Inode())
        return self._opened(self.inodes[path])

    def append(self, path: Path, shared: bool = False) -> int:
        """Open or create a file."""
        if path not in self.inodes:
            self._name(path, Inode())
        return self._opened(self.inodes[path])

    def open(self, path: Path) -> int:
        """Open a file."""
        if path not in self.inodes:
            raise FileNotFoundError(2, "no such file", str(path))
        return self._opened(self.inodes[path])

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Append bytes."""
        return MemoryDisk.write_at(self, handle, data, self.size(handle))

    def write_at(self, handle: int, data: bytes | memoryview, place: int) -> int:
        """Write bytes at a place."""
        self.handles[handle].pending.append((place, bytes(data)))
        return len(data)

    def read_at(self, handle: int, size: int, place: int) -> bytes:
        """Return the bytes at a place."""
        return self.handles[handle].content()[place : place + size]

    def size(self, handle: int) -> int:
        """Return the number of bytes of a file."""
        return len(self.handles[handle].content())

    def truncate(self, handle: int, size: int) -> None:
        """Truncate a file."""
        if self.size(handle) != size:
            self.handles[handle].pending.append((size, None))

    def sync(self, handle: int) -> None:
        """Flush the content, but not the name."""
        self.handles[handle].flush()

    def sync_data(self, handle: int) -> None:
        """Flush the content, as ``sync`` does."""
        MemoryDisk.sync(self, handle)

    def close(self, handle: int) -> None:
        """Close a file, which flushes nothing."""

    def sync_folder(self, path: Path) -> None:
        """Flush the names of a folder."""
        for name, inode in self.pending:
            if name.parent == path:
                _set(self.safe_names, name, inode)
        self.pending = [change for change in self.pending if change[0].parent != path]

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file."""
        inode = self.inodes[old]
        self._name(new, inode)
        self._name(old, None)

    def link(self, old: Path, new: Path) -> None:
        """Create a hard link."""
        if new in self.inodes:
            raise FileExistsError(new)
        self._name(new, self.inodes[old])

    def remove(self, path: Path) -> None:
        """Remove a name."""
        if path in self.inodes:
            self._name(path, None)

    def make_folder(self, path: Path) -> None:
        """Create a folder; for simplicity it is flushed at once."""
        self.folders.update((path, *path.parents))

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        if path not in self.inodes:
            raise FileNotFoundError(2, "no such file", str(path))
        return self.inodes[path].content()

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder."""
        return [name.name for name in self.inodes if name.parent == path]

    def is_folder(self, path: Path) -> bool:
        """Return whether a path is a folder."""
        return path in self.folders

    def lock(self, path: Path, who: bytes) -> int:
        """Lock nothing: there is no other process."""
        return 0

    def unlock(self, handle: int) -> None:
        """Unlock nothing: there is no other process."""

    def frozen(self) -> MemoryDisk:
        """Return a copy of the disk as it is now."""
        copy = MemoryDisk()
        copies: dict[Inode, Inode] = {}

        def copied(inode: Inode) -> Inode:
            return copies.setdefault(inode, Inode(inode.safe, list(inode.pending), inode.shown))

        copy.inodes = {name: copied(inode) for name, inode in self.inodes.items()}
        copy.safe_names = {name: copied(inode) for name, inode in self.safe_names.items()}
        copy.pending = [(name, None if inode is None else copied(inode)) for name, inode in self.pending]
        copy.folders = set(self.folders)
        return copy

    def after_power_loss(self, chance: random.Random, keep: float, tear: float) -> MemoryDisk:
        """Return a disk as it may be found after a power loss.

        Each unflushed change survives with probability ``keep``, and then is torn with probability ``tear``.
        """
        found = MemoryDisk()
        found.folders = set(self.folders)
        names = dict(self.safe_names)
        for name, inode in self.pending:
            if chance.random() < keep:
                _set(names, name, inode)
        contents: dict[Inode, Inode] = {}
        for inode in names.values():
            if inode not in contents:
                kept: list[tuple[int, bytes | None]] = []
                for where, what in inode.pending:
                    if chance.random() >= keep:
                        continue
                    if what and chance.random() < tear:
                        cut = chance.randrange(len(what) + 1)
                        where, what = (where, what[:cut]) if chance.random() < 0.5 else (where + cut, what[cut:])
                    kept.append((where, what))
                contents[inode] = Inode(_applied(inode.safe, kept))
        found.inodes = {name: contents[inode] for name, inode in names.items()}
        found.safe_names = dict(found.inodes)
        return found

    def fingerprint(self) -> int:
        """Return a hash that is equal for disks with the same files."""
        return hash(frozenset((name, inode.safe) for name, inode in self.inodes.items()))


def _set(names: dict[Path, Inode], name: Path, inode: Inode | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode


class WatchedDisk(MemoryDisk):
    """Disk that keeps a copy of itself after every call, with the number of checkpoints finished by then."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[int, MemoryDisk]] = []
        self.finished = 0

    def keep(self) -> None:
        """Keep a copy of the disk as it is now."""
        self.copies.append((self.finished, self.frozen()))


CONTENT = "create", "append", "write", "write_at", "truncate", "sync", "sync_data"
NAMES = "sync_folder", "replace", "link", "remove"
for _name in (*CONTENT, *NAMES):

    def _watched(self, *arguments, _name=_name):  # type: ignore[no-untyped-def]
        answer = getattr(MemoryDisk, _name)(self, *arguments)
        self.keep()
        return answer

    setattr(WatchedDisk, _name, _watched)


def _moments(work: Workload, path: Path) -> tuple[list[tuple[int, MemoryDisk]], list[str], dict[str, str]]:
    """Return the disk at every moment of a run, the digests of the states that it saved, and its final digests."""
    disk = WatchedDisk()
    states: list[str] = []
    with using(disk), CheckpointFolder(path) as folder, work.run(folder) as run:
        write = folder._write

        def watched(state, outputs):  # type: ignore[no-untyped-def]
            states.append(state_digest(state))
            number = write(state, outputs)
            disk.finished = len(states)
            return number

        folder._write = watched  # type: ignore[method-assign]
        run.begin()
        RunLoop(run).run()
    with using(disk):
        expected = work.finish(path)
    return disk.copies, states, expected


def states(scale: float, seed: int, count: int | None = None, resumed: int = 200) -> Outcome:
    """Lose power at every moment of a run; the last finished checkpoint, or the one under way, is found."""
    outcome = Outcome("power loss", seed)
    wanted = round(100_000 * scale) if count is None else count
    outcome.figures = dict.fromkeys(("runs", "moments", "checkpoints", "drawn", "resumed to the end"), 0)
    while outcome.tried < wanted:
        part = min(STATES_OF_A_RUN, wanted - outcome.tried)
        run_seed = seed + 1_000 * outcome.figures["runs"]
        outcome.count("runs")
        _lose_power(outcome, run_seed, part, max(1, resumed * part // wanted))
    return outcome


def _lose_power(outcome: Outcome, seed: int, wanted: int, resumed: int) -> None:
    """Check ``wanted`` different states of the disk after a power loss, at all moments of one run."""
    chance = random.Random(seed)
    work, path = Workload(steps=40, rows=10, every=3, max_rows=40, seed=seed), Path("/run")
    moments, saved, expected = _moments(work, path)
    place = {digest: index + 1 for index, digest in enumerate(saved)}
    outcome.count("moments", len(moments))
    outcome.count("checkpoints", len(saved))
    seen: set[int] = set()
    for trial in itertools.count():
        keep, tear = EXTREMES[trial] if trial < len(EXTREMES) else (chance.choice(KEEP), chance.choice(TEAR))
        for moment, (finished, disk) in enumerate(moments):
            if len(seen) == wanted:
                return
            outcome.count("drawn")
            found = disk.after_power_loss(chance, keep, tear)
            mark = hash((finished, found.fingerprint()))
            if mark in seen:
                continue
            seen.add(mark)
            with using(found), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    checkpoint = CheckpointFolder(path).load()
                    got = 0 if checkpoint is None else place.get(state_digest(checkpoint.state), -1)
                    good = finished <= got <= finished + 1
                    if good and len(seen) % max(1, wanted // resumed) == 0:
                        outcome.count("resumed to the end")
                        good = work.finish(path) == expected
                except StateError as error:
                    got, good = str(error), False  # type: ignore[assignment]
            case = {"run": seed, "moment": moment, "trial": trial, "keep": keep, "tear": tear, "finished": finished}
            outcome.check(good, case | {"got": got})
