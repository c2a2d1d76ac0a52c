"""Checkpoints: a folder in which each one costs what is new, not what is there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
import warnings
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf._options import whole
from driftsurf.base import Growing, IntArray, Parts, State
from driftsurf.errors import StateError, StateVersionError, StateWarning
from driftsurf.runtime import files
from driftsurf.state import digest, from_bytes, nest, pick, to_bytes

__all__ = ["Checkpoint", "CheckpointFolder"]

HEAD, SEGMENT = "head", "segment"
_NAME = re.compile(r"(head|segment)-(\d{9})\.state")


@dataclass(slots=True)
class _Log:
    """How one growing array lies in the segments. Numbers are those of its first owner."""

    id: str
    owner: object
    shift: int = 0
    """What to add to the owner's numbers."""
    stop: int = 0
    """Entries before this one are saved."""
    version: int = 0
    patched: int = 0
    """Changed entries that were saved since the array was last saved whole."""
    pieces: deque[tuple[int, int]] = field(default_factory=deque)
    """(stop, segment) of each run of entries, oldest first."""

    def news(self, value: Growing, segment: int) -> State:
        """What a segment has to say of it; from now on that counts as saved."""
        first, stop = value.first + self.shift, value.stop + self.shift
        changed = value.changed(self.version)
        at = np.zeros(0, np.int64) if changed is None else np.unique(changed) + self.shift
        at = at[(at >= first) & (at < self.stop)]
        if changed is None or self.patched + len(at) > stop - first:
            self.pieces.clear()  # what is patched as often as it is long is better written anew
            self.patched, at, start = 0, at[:0], first
        else:
            start = max(first, self.stop)
        while self.pieces and self.pieces[0][0] <= first:
            self.pieces.popleft()
        if stop > start:
            self.pieces.append((stop, segment))
        self.stop, self.version, self.patched = stop, value.version, self.patched + len(at)
        news: State = {}
        if stop > start:
            news |= {"from": start, "new": value.read(start - self.shift, stop - self.shift)}
        if len(at):
            news |= {"at": at, "values": value.read(value.first, value.stop)[at - first]}
        return news

    def record(self, key: str, value: Growing) -> dict[str, Any]:
        """How the head speaks of it."""
        form = value.read(value.stop, value.stop)
        return {
            "key": key,
            "id": self.id,
            "first": value.first + self.shift,
            "stop": self.stop,
            "patched": self.patched,
            "dtype": form.dtype.str,
            "shape": list(form.shape[1:]),
            "ends": value.ends,
        }


class Checkpoint(NamedTuple):
    """A checkpoint that was read."""

    number: int
    state: State
    outputs: dict[str, tuple[int, str]]
    """Size and digest of the files that grow beside it."""
    logs: dict[str, tuple[dict[str, Any], deque[tuple[int, int]]]]
    """For each growing array what the head says of it, and in which segments it lies."""
    oldest: int
    """The first segment that it needs."""


class _Needs(NamedTuple):
    """What a head cannot do without."""

    segment: int
    """The first one."""
    outputs: frozenset[str]
    """The files that grow beside it."""


class CheckpointFolder:
    """Saves a state again and again at a cost that does not grow with it; the last good ones are kept.

    A checkpoint is a *head*, a small state file, which is written last and by one rename, and the
    *segments* it needs. A segment holds what was new in the growing arrays (rows, and the entries of
    gradient tables that changed) since the one before it, is written once and never changed, and
    names the digest of the one before. So a head that can be read, with the digests of its chain and
    of the files beside it right, is the whole state; else the head before it is taken, with a warning.

    Parameters
    ----------
    path
        The folder. As a context it is locked: a second process is refused, and told who holds it.
    keep
        How many checkpoints are kept, at least two.
    trust_pickle
        Whether models that only pickle can save are written, and read again, which runs code; else they are refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, CheckpointFolder(Path(place) / "run") as folder:
    ...     for step in range(3):
    ...         _ = folder.save({"step": step})
    ...     saved = folder.load()
    ...     print(saved.number, saved.state, folder.generations())
    3 {'step': 2} [2, 3]
    """

    def __init__(self, path: Path, *, keep: int = 2, trust_pickle: bool = False) -> None:
        self.path = path
        self.trust_pickle = trust_pickle
        self.keep = whole("keep", keep, at_least=2)
        self._logs: dict[int, _Log] = {}
        self._tip = -1, ""
        self._needs: dict[int, _Needs] = {}
        """Of each good head."""
        self._segments: deque[int] = deque()
        self._next = 1
        self._failed = False
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        files.make_folder(self.path)
        with contextlib.ExitStack() as undo:
            lock = files.FolderLock(self.path)
            undo.callback(lock.release)
            for name in files.names(self.path):
                if name.startswith((f".{HEAD}-", f".{SEGMENT}-")):  # of a process that was killed
                    files.remove(self.path / name)
            self._held = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def generations(self) -> list[int]:
        """The numbers of the checkpoints that are there, good or not, oldest first."""
        return self._numbers(HEAD) if files.is_folder(self.path) else []

    @property
    def outputs(self) -> frozenset[str]:
        """The names of the files beside it that a checkpoint which is kept counts on."""
        return frozenset().union(*(needs.outputs for needs in self._needs.values()))

    def _numbers(self, kind: str) -> list[int]:
        found = (_NAME.fullmatch(name) for name in files.names(self.path))
        return [int(match[2]) for match in found if match is not None and match[1] == kind]

    def file(self, kind: str, number: int) -> Path:
        """The file of a head or segment."""
        return self.path / f"{kind}-{number:09d}.state"

    # -------------------------------------------------------------------- reading

    def load(self, number: int | None = None) -> Checkpoint | None:
        """The newest good checkpoint, or that of this number; None if there is none at all.

        StateWarning if newer ones are damaged, StateError if all are.
        """
        heads = self.generations()
        if number is not None and number not in heads:
            raise StateError(f"{self.path} has no checkpoint {number}; choices: {', '.join(map(str, heads)) or 'none'}")
        reasons: list[str] = []
        for candidate in reversed(heads) if number is None else [number]:
            try:
                found = self._read(candidate)
            except StateVersionError:
                raise
            except (StateError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO):
                    raise
                reasons.append(f"checkpoint {candidate} cannot be used: {error}")
                continue
            if reasons:
                said = "; ".join(reasons)
                warnings.warn(f"{said}. Checkpoint {candidate}, before it, is used.", StateWarning, stacklevel=2)
            return found
        if reasons:
            raise StateError(f"no checkpoint in {self.path} can be used: {'; '.join(reasons)}")
        return None

    def _read(self, number: int) -> Checkpoint:
        head = self._read_file(HEAD, number)[0]
        try:
            logs, outputs = json.loads(head["logs"]), json.loads(head["outputs"])
            for name, (size, told) in outputs.items():
                self._check_output(name, size, told)
            segments = self._chain(int(head["segment"]), str(head["segment_digest"]), int(head["oldest"]))
            state, pieces = pick("state", head), {}
            for log in logs:
                state[log["key"]], where = _folded(log, segments)
                pieces[log["key"]] = log, where
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"its entries do not fit together ({error})") from error
        grown = {name: (size, told) for name, (size, told) in outputs.items()}
        return Checkpoint(number, state, grown, pieces, int(head["oldest"]))

    def _read_file(self, kind: str, number: int) -> tuple[dict[str, Any], str]:
        """The entries of a head or segment, and its digest; it must be what its name says."""
        data = files.read_bytes(self.file(kind, number))
        entries: dict[str, Any] = dict(from_bytes(data, trust_pickle=self.trust_pickle))
        if entries.get("kind") != kind or entries.get("number") != number:
            raise StateError(
                f"{self.file(kind, number).name} is not what its name says, but {entries.get('kind')} "
                f"{entries.get('number')}"
            )
        return entries, digest(data)

    def _chain(self, number: int, expected: str, oldest: int) -> list[tuple[int, dict[str, Any]]]:
        """The segments from ``oldest`` to ``number``, each checked against the digest that the next one names."""
        chain: list[tuple[int, dict[str, Any]]] = []
        while number >= max(oldest, 0):
            entries, found = self._read_file(SEGMENT, number)
            if found != expected:
                raise StateError(f"{self.file(SEGMENT, number).name} is not the one that belongs here")
            chain.append((number, entries))
            before = int(entries["previous"])
            if before >= number:
                raise StateError(f"{self.file(SEGMENT, number).name} names a later segment as the one before it")
            number, expected = before, str(entries["previous_digest"])
        return chain[::-1]

    def _check_output(self, name: str, size: int, told: str) -> None:
        if Path(name).name != name:
            raise StateError(f"{name!r} is no name of a file beside it")
        kept = files.read_bytes(self.path / name)[:size]
        if len(kept) < size or hashlib.sha256(kept).hexdigest() != told:
            raise StateError(f"{name} does not begin with the {size} bytes that were written to it")

    # -------------------------------------------------------------------- writing

    def clear(self) -> None:
        """Remove every checkpoint, to begin anew: the newest last, so that what is left is never an old one alone."""
        for kind in (HEAD, SEGMENT):
            for number in self._numbers(kind):
                files.remove(self.file(kind, number))
        files.sync_folder(self.path)

    def follow(self, checkpoint: Checkpoint, state: Parts) -> None:
        """Go on from a checkpoint: ``state`` is that of the objects that were made from it."""
        logs: dict[int, _Log] = {}
        for key, value in state.items():
            if isinstance(value, Growing) and key in checkpoint.logs:
                told, pieces = checkpoint.logs[key]
                shift = told["first"] - value.first
                logs[id(value.owner)] = _Log(
                    told["id"], value.owner, shift, told["stop"], value.version, told["patched"], deque(pieces)
                )
        head = self._read_file(HEAD, checkpoint.number)[0]
        self._logs, self._tip = logs, (int(head["segment"]), str(head["segment_digest"]))
        self._take_stock()

    def _take_stock(self) -> None:
        """Learn what is in the folder, as often as a run begins: what follows is known without looking."""
        heads, segments = self.generations(), self._numbers(SEGMENT)
        self._segments = deque(segments)
        self._next = max([0, *heads, *segments]) + 1
        self._needs = {}
        for number in heads:
            try:
                head = self._read_file(HEAD, number)[0]
                self._needs[number] = _Needs(int(head["oldest"]), frozenset(json.loads(head["outputs"])))
            except (StateError, OSError, KeyError, TypeError, ValueError):
                continue  # of no use to anybody: the next checkpoint removes it

    def save(
        self, state: Parts, outputs: Mapping[str, files.AppendedFile] | None = None, spare: Collection[int] = ()
    ) -> int:
        """Write a checkpoint, whole or not at all, and remove those that are not kept; returns its number.

        ``outputs`` are files in the folder that grow beside the state; ``spare`` are the numbers of
        checkpoints to keep as well. After an error nothing more is written: what an operating system
        reports of a failed flush it may not report again.
        """
        if self._failed:
            raise StateError(f"an earlier checkpoint in {self.path} failed; begin again from the last good one")
        if self._next == 1:
            self._take_stock()
        self._failed = True
        number = self._write(state, {} if outputs is None else outputs)
        self._failed = False
        self._collect(spare)
        return number

    def _write(self, state: Parts, outputs: Mapping[str, files.AppendedFile]) -> int:
        number = self._next
        for output in outputs.values():
            output.sync()
        small: State = {}
        segment: State = {}
        logs: dict[int, _Log] = {}
        records: list[dict[str, Any]] = []
        for key in sorted(state):
            value = state[key]
            if not isinstance(value, Growing):
                small[key] = value
                continue
            mark = id(value.owner)
            log = self._logs.get(mark) or _Log(f"{number}-{len(records)}", value.owner, stop=value.first)
            segment |= nest(log.id, log.news(value, number))
            records.append(log.record(key, value))
            logs[mark] = log
        if segment:
            tip = {"kind": SEGMENT, "number": number, "previous": self._tip[0], "previous_digest": self._tip[1]}
            data = to_bytes(segment | tip)
            files.write_bytes(self.file(SEGMENT, number), data)
            self._tip = number, digest(data)
            self._segments.append(number)
        oldest = min((log.pieces[0][1] for log in logs.values() if log.pieces), default=number)
        head: State = {
            "kind": HEAD,
            "number": number,
            "segment": self._tip[0],
            "segment_digest": self._tip[1],
            "oldest": oldest,
            "logs": json.dumps(records, separators=(",", ":")),
            "outputs": json.dumps({name: (file.size, file.digest) for name, file in outputs.items()}),
        }
        files.write_bytes(
            self.file(HEAD, number), to_bytes(head | nest("state", small), trust_pickle=self.trust_pickle)
        )
        files.sync_folder(self.path)
        self._logs, self._next = logs, number + 1
        self._needs[number] = _Needs(oldest, frozenset(outputs))
        return number

    def _collect(self, spare: Collection[int]) -> None:
        """Remove the heads that are not kept, then the segments that no kept one needs."""
        kept = {*sorted(self._needs)[-self.keep :], *spare}
        for number in [number for number in self._needs if number not in kept]:
            files.remove(self.file(HEAD, number))
            del self._needs[number]
        needed = min(needs.segment for needs in self._needs.values())
        while self._segments and self._segments[0] < needed:
            files.remove(self.file(SEGMENT, self._segments.popleft()))


def _folded(
    log: Mapping[str, Any], segments: list[tuple[int, dict[str, Any]]]
) -> tuple[npt.NDArray[Any], deque[tuple[int, int]]]:
    """An array from the segments that hold its pieces, and where these lie."""
    first, stop = int(log["first"]), int(log["stop"])
    known: IntArray = np.zeros(max(stop - first, 0), np.int64)
    pieces: deque[tuple[int, int]] = deque()
    entries: npt.NDArray[Any] | None = None
    for number, segment in segments:
        part = pick(str(log["id"]), segment)
        if "new" in part:
            start, new = int(_array(part, "from", 0)), _array(part, "new", None)
            if start <= first:  # all that is older was let go, or is written here anew
                pieces.clear()
            if entries is None:
                entries = np.zeros((len(known), *new.shape[1:]), new.dtype)
            a, b = max(start, first), min(start + len(new), stop)
            if a < b:
                entries[a - first : b - first] = new[a - start : b - start]
                known[a - first : b - first] += 1
            if start + len(new) > first:
                pieces.append((start + len(new), number))
        if "at" in part and entries is not None:
            at, values = _array(part, "at", 1), _array(part, "values", None)
            live = (at >= first) & (at < stop)
            entries[at[live] - first] = values[live]
    if entries is None:
        entries = np.zeros((len(known), *map(int, log["shape"])), np.dtype(str(log["dtype"])))
    if not known.all() or entries.dtype.str != log["dtype"] or list(entries.shape[1:]) != log["shape"]:
        raise StateError(f"the segments do not hold all of {log['key']}")
    return Growing(None, first, stop, lambda lo, hi: entries, ends=bool(log["ends"])).array(), pieces


def _array(part: Mapping[str, Any], name: str, dimensions: int | None) -> npt.NDArray[Any]:
    """An entry of a segment as an array with so many dimensions, or any number but 0."""
    array = np.asarray(part[name])
    if array.ndim != dimensions if dimensions is not None else array.ndim == 0:
        raise StateError(f"the entry {name!r} of a segment has {array.ndim} dimensions")
    if dimensions is not None and array.dtype.kind != "i":
        raise StateError(f"the entry {name!r} of a segment holds no whole numbers")
    return array
