"""Checkpoints whose cost depends on what has changed since the last one, not on the size of the state.

The arrays of a state that grow with the rows (stored rows, gradient tables) are written in *segments*: each holds only
the entries that are new or changed. Everything else is small and is written as a whole to the *head* of a checkpoint.
This module stores any state; what the state of a run holds is decided by ``LiveRun.state`` in ``live.py``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.contracts import AppendOnlyArray, IncrementalState, IntArray, State
from driftsurf.core.fields import (
    UNREADABLE,
    AnyArray,
    Array,
    Choice,
    FieldMisfit,
    FieldRule,
    Fields,
    Json,
    Text,
    Truth,
    Values,
    Whole,
    misfit,
)
from driftsurf.core.options import whole
from driftsurf.core.state import DTYPES, digest, from_bytes, nest, pick, to_bytes
from driftsurf.errors import StateError, StateVersionError, StateWarning
from driftsurf.runs.orders import FOLDER as ORDERS


def assembled(
    log: Mapping[str, Any], segments: list[tuple[int, dict[str, Any]]]
) -> tuple[npt.NDArray[Any], deque[tuple[int, int]]]:
    """Return an array, put together from the segments, and which segments hold its pieces."""
    first, stop = log["first"], log["stop"]
    parts = [(number, PIECE_FIELDS.read(pick(log["id"], segment))) for number, segment in segments]
    if stop - first > sum(len(part["new"]) for _, part in parts if "new" in part):
        raise ValueError(f"the segments have fewer than {stop - first} entries")
    known: IntArray = np.zeros(stop - first, np.int64)
    pieces: deque[tuple[int, int]] = deque()
    entries = np.zeros((len(known), *log["shape"]), log["dtype"])
    for number, part in parts:
        if "new" in part:
            start, new = part["from"], part["new"]
            if start <= first:  # older entries were dropped, or are rewritten in this segment
                pieces.clear()
            if new.dtype != entries.dtype or new.shape[1:] != entries.shape[1:]:
                raise ValueError(f"segment {number} has entries of another type or shape")
            a, b = max(start, first), min(start + len(new), stop)
            if a < b:
                entries[a - first : b - first] = new[a - start : b - start]
                known[a - first : b - first] += 1
            if start + len(new) > first:
                pieces.append((start + len(new), number))
        if "at" in part:
            at, values = part["at"], part["values"]
            if values.dtype != entries.dtype or values.shape != (len(at), *entries.shape[1:]):
                raise ValueError(f"segment {number} has changed entries of another type or shape")
            live = (at >= first) & (at < stop)
            entries[at[live] - first] = values[live]
    if not known.all():
        raise ValueError("the segments do not hold all entries")
    return AppendOnlyArray(None, first, stop, lambda lo, hi: entries, ends=log["ends"]).array(), pieces


# ---------------------------------------------------------------------------- declarations


def _read_outputs(saved: Any) -> dict[str, tuple[int, str]]:
    """Return size and digest of each output file; ValueError if that is not what was saved."""
    outputs = {name: (size, expected) for name, (size, expected) in saved.items()}
    for name, (size, expected) in outputs.items():
        if not (
            Path(name).name == name and name not in ("", "..") and len(os.fsencode(name)) < 200 and "\0" not in name
        ):
            raise ValueError(f"{name!r} is not the name of a file in this folder")
        if type(size) is not int or not isinstance(expected, str):
            raise ValueError(f"{name!r} has no size and digest")
    return outputs


def _read_logs(saved: Any) -> list[dict[str, Any]]:
    """Return what is known of each growing array; StateError or ValueError if that is not what was saved."""
    logs = [LOG_FIELDS.read(log) for log in saved]
    if len({log["key"] for log in logs}) < len(logs):
        raise ValueError("two arrays have the same name")
    return logs


class _Sizes:
    """The shape of the entries of an array: a list of numbers."""

    def read(self, value: Any, known: Values) -> list[int]:
        """Return the list."""
        if not (
            isinstance(value, list)
            and len(value) <= 3
            and all(type(size) is int and 0 <= size < 2**31 for size in value)
        ):
            raise FieldMisfit("must be a list of sizes")
        return value


LOG_FIELDS = Fields(
    {
        "key": Text(),
        "id": Text(),
        "first": Whole(),
        "stop": Whole(),
        "patched": Whole(),
        "dtype": Choice(tuple(DTYPES)),
        "shape": _Sizes(),
        "ends": Truth(),
    },
    rules=[FieldRule("stop", "must be at least first", lambda known: known["first"] <= known["stop"])],
)
HEAD_FIELDS = Fields(
    {
        "kind": Text(),
        "number": Whole(),
        "segment": Whole(-1),
        "segment_digest": Text(),
        "oldest": Whole(),
        "logs": Json(_read_logs),
        "outputs": Json(_read_outputs),
    },
    parts=["state"],
)
SEGMENT_FIELDS = Fields(
    {"kind": Text(), "previous": Whole(-1, "number-1"), "previous_digest": Text(), "number": Whole()}, parts=["*"]
)
PIECE_FIELDS = Fields(
    {"from": Whole(), "new": AnyArray(), "at": Array(np.int64, ("*",), least=0), "values": AnyArray()},
    optional=["from", "new", "at", "values"],
    rules=[
        FieldRule("new", "must be there with from", lambda known: ("new" in known) == ("from" in known)),
        FieldRule("values", "must be there with at", lambda known: ("at" in known) == ("values" in known)),
    ],
)
"""Saved entries of a growing array in a head, of a head, of a segment, and of a growing array in a segment."""


HEAD, SEGMENT = "head", "segment"
OWNER = "owner"
"""Name of the file by which a folder recognises its own copy in a storage; it is not copied."""
_NAME = re.compile(r"(head|segment)-(\d{9})\.state")


@dataclass(slots=True)
class _Log:
    """Which entries of one growing array are saved, and in which segments.

    Entries are numbered as their first owner numbered them. An array that was restored from a checkpoint has a new
    owner, which may count from another number; ``shift`` translates.
    """

    id: str
    owner: object
    shift: int = 0
    """Difference between the numbers used here and those of the current owner."""
    stop: int = 0
    """Entries below this number are saved."""
    version: int = 0
    patched: int = 0
    """Number of changed entries that were saved since the array was last saved as a whole."""
    pieces: deque[tuple[int, int]] = field(default_factory=deque)
    """Pairs (stop, segment), oldest first: the entries up to ``stop`` are in that segment."""

    def take_unsaved(self, value: AppendOnlyArray, segment: int) -> State:
        """Return the entries that are new or changed, for this segment, and count them as saved."""
        first, stop = value.first + self.shift, value.stop + self.shift
        changed = value.changed(self.version)
        at = np.zeros(0, np.int64) if changed is None else np.unique(changed) + self.shift
        at = at[(at >= first) & (at < self.stop)]
        if changed is None or self.patched + len(at) > stop - first:
            # Rewrite the array once the patches are as long as the array itself, or if it is not known what changed. A
            # patch would otherwise keep all old segments alive, and reading would apply ever more patches. As a rewrite
            # follows at least as many patched entries, the cost per changed entry stays constant.
            self.pieces.clear()
            self.patched, at, start = 0, at[:0], first
        else:
            start = max(first, self.stop)
        # Entries that the owner has dropped need no segment any more.
        while self.pieces and self.pieces[0][0] <= first:
            self.pieces.popleft()
        if stop > start:
            self.pieces.append((stop, segment))
        self.stop, self.version, self.patched = stop, value.version, self.patched + len(at)
        unsaved: State = {}
        if stop > start:
            unsaved |= {"from": start, "new": value.read(start - self.shift, stop - self.shift)}
        if len(at):
            unsaved |= {"at": at, "values": value.read(value.first, value.stop)[at - first]}
        return unsaved

    def record(self, key: str, value: AppendOnlyArray) -> dict[str, Any]:
        """Return the entry of the array in the head of a checkpoint."""
        form = value.read(value.stop, value.stop)  # no entries, but their type and shape
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
    """A checkpoint as it was read from its folder."""

    number: int
    state: State
    outputs: dict[str, tuple[int, str]]
    """Size and digest of each output file (journal, trace, ...) at the time of the checkpoint."""
    logs: dict[str, tuple[dict[str, Any], deque[tuple[int, int]]]]
    """For each growing array its entry in the head, and the segments that hold its pieces."""
    oldest: int
    """Number of the first segment that it needs."""


class _Needs(NamedTuple):
    """Files without which a head cannot be used."""

    first: int
    """Number of the first segment."""
    last: int
    """Number of the last one."""
    outputs: frozenset[str]
    """Names of the output files."""


class CheckpointFolder:
    """A folder of checkpoints, in which each one costs only what has changed since the last; the newest are kept.

    A checkpoint is a *head*, a small state file, and the *segments* it needs. A segment holds the entries of the
    growing arrays (rows, gradient tables) that are new or changed since the segment before it. It is written once,
    never changed, and names the digest of the segment before it. The head is written last, by one rename, so that a
    checkpoint exists completely or not at all. A head is valid if it can be read and the digests of its chain of
    segments and of the output files agree. If the newest head is not valid, the one before it is used, with a warning.

    Parameters
    ----------
    path
        The folder. Used as a context it is locked; another process gets a LockedError that names the holder.
    keep
        Number of checkpoints to keep, at least two.
    trust_pickle
        Whether to write and read models that only pickle can save. Reading a pickle can run any code.

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

    def __init__(self, path: str | Path, *, keep: int = 2, trust_pickle: bool = False) -> None:
        self.path: Path = Path(path)
        self.trust_pickle = trust_pickle
        self.keep: int = whole("keep", keep, at_least=2)
        self._logs: dict[int, _Log] = {}
        self._tip = -1, ""
        self._needs: dict[int, _Needs] = {}
        """Needed files of each valid head, by its number."""
        self._segments: deque[int] = deque()
        self._next = 1
        self._failed = False
        self._held = contextlib.ExitStack()
        self.pinned: frozenset[int] = frozenset()
        """Numbers of checkpoints that another thread reads, which are kept until a save finds them here no more."""
        self.on_saved: list[Callable[[int], object]] = []
        """Called with the number of each checkpoint that is on disk."""
        self.check_held: Callable[[], None] = lambda: None
        """Raises LockedError if another process has taken the folder over since it was locked here."""

    def __enter__(self) -> Self:
        files.make_folder(self.path)
        with contextlib.ExitStack() as undo:
            lock = files.FolderLock(self.path)
            undo.callback(lock.release)
            self.check_held = lock.check
            for name in files.names(self.path):
                if name.startswith((f".{HEAD}-", f".{SEGMENT}-")):  # left by a process that was killed
                    files.remove(self.path / name)
            self._held = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def generations(self) -> list[int]:
        """Return the numbers of all checkpoints in the folder, valid or not, oldest first."""
        return self._numbers(HEAD) if files.is_folder(self.path) else []

    @property
    def outputs(self) -> frozenset[str]:
        """Names of the output files that the newest checkpoints need; a rollback to an older one needs none."""
        return frozenset().union(*(self._needs[number].outputs for number in sorted(self._needs)[-self.keep :]))

    def needed(self, number: int) -> dict[str, int | None]:
        """Return the files that a checkpoint needs, and of each how many bytes; None for the whole file.

        Files of others in the folder, such as logs of plans and of messages, are needed as they are. So is the last
        order that was carried out: the next one gets the number after it.
        """
        entries = self._read_file(HEAD, number)[0]
        head, done = HEAD_FIELDS.read(entries), f"{entries.get('state.orders_done', 0):06d}.json"
        first, last = max(head["oldest"], 0), head["segment"]
        found: dict[str, int | None] = {self.file(HEAD, number).name: None}
        for name in files.names(self.path):
            match = _NAME.fullmatch(name)
            if match is not None and match[1] == SEGMENT and first <= int(match[2]) <= last:
                found[name] = None
            elif name.startswith("messages") and files.is_folder(self.path / name):
                found |= {f"{name}/{one}": None for one in files.names(self.path / name) if one != files.LOCK}
            elif name == ORDERS and done in files.names(self.path / name):
                found[f"{name}/{done}"] = None
            elif match is None and not name.startswith(".") and name not in (files.LOCK, files.FENCE, OWNER):
                found |= {} if files.is_folder(self.path / name) else {name: None}
        return found | {name: size for name, (size, _) in head["outputs"].items()}

    def _numbers(self, kind: str) -> list[int]:
        found = (_NAME.fullmatch(name) for name in files.names(self.path))
        return [int(match[2]) for match in found if match is not None and match[1] == kind]

    def file(self, kind: str, number: int) -> Path:
        """Return the path of a head or segment."""
        return self.path / f"{kind}-{number:09d}.state"

    # -------------------------------------------------------------------- reading

    def load(self, number: int | None = None, *, outputs: bool = True) -> Checkpoint | None:
        """Return the newest valid checkpoint, or the one with this number; None if the folder has no checkpoint.

        Without ``outputs``, the output files need not be there: nothing can resume from it, but a model can return.

        Warns with StateWarning if newer checkpoints are damaged; raises StateError if all are.
        """
        heads = self.generations()
        if number is not None and number not in heads:
            raise StateError(f"{self.path} has no checkpoint {number}; choices: {', '.join(map(str, heads)) or 'none'}")
        reasons: list[str] = []
        for candidate in reversed(heads) if number is None else [number]:
            try:
                found = self._read(candidate, outputs=outputs)
            except StateVersionError:
                raise  # intact, but of another format: an older checkpoint would silently lose steps
            except (StateError, OSError) as error:
                # A missing file or an unreadable sector is damage. Any other failure, such as a missing permission,
                # says nothing about the checkpoint, so falling back to an older one would be wrong.
                if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO):
                    raise
                if number is not None:
                    raise StateError(f"checkpoint {number} in {self.path} cannot be used: {error}") from error
                reasons.append(f"checkpoint {candidate} cannot be used: {error}")
                continue
            if reasons:
                text = "; ".join(reasons)
                warnings.warn(f"{text}. Using checkpoint {candidate} instead.", StateWarning, stacklevel=2)
            return found
        if reasons:
            raise StateError(f"no checkpoint in {self.path} can be used: {'; '.join(reasons)}")
        return None

    def _read(self, number: int, *, outputs: bool = True) -> Checkpoint:
        head = self._read_file(HEAD, number)[0]
        known = HEAD_FIELDS.read(head)
        for name, (size, expected) in known["outputs"].items() if outputs else ():
            self._check_output(name, size, expected)
        segments = self._chain(known["segment"], known["segment_digest"], known["oldest"])
        state, pieces = pick("state", head), {}
        for log in known["logs"]:
            if log["key"] in state:
                raise misfit(head, "logs", f"has the entry {log['key']!r} twice")
            try:
                state[log["key"]], where = assembled(log, segments)
            except UNREADABLE as error:
                raise misfit(head, f"state.{log['key']}", f"cannot be put together ({error})") from error
            pieces[log["key"]] = log, where
        return Checkpoint(number, dict(state), known["outputs"], pieces, known["oldest"])

    def _read_file(self, kind: str, number: int) -> tuple[dict[str, Any], str]:
        """Return the entries and the digest of a head or segment; StateError if its name is that of another one."""
        data = files.read_bytes(self.file(kind, number))
        entries: dict[str, Any] = dict(from_bytes(data, trust_pickle=self.trust_pickle))
        if str(entries.get("kind")) != kind or repr(entries.get("number")) != repr(number):
            raise StateError(
                f"{self.file(kind, number).name} holds {entries.get('kind')} {entries.get('number')}, "
                "which is not what its name says"
            )
        return entries, digest(data)

    def _chain(self, number: int, expected: str, oldest: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the segments from ``oldest`` to ``number``, each checked against the digest in its successor."""
        chain: list[tuple[int, dict[str, Any]]] = []
        while number >= max(oldest, 0):
            entries, found = self._read_file(SEGMENT, number)
            if found != expected:
                raise StateError(f"{self.file(SEGMENT, number).name} does not have the expected digest")
            known = SEGMENT_FIELDS.read(entries, number=number)
            chain.append((number, entries))
            number, expected = known["previous"], known["previous_digest"]
        return chain[::-1]

    def _check_output(self, name: str, size: int, expected: str) -> None:
        kept = files.read_bytes(self.path / name)[:size]
        if len(kept) < size or hashlib.sha256(kept).hexdigest() != expected:
            raise StateError(f"the first {size} bytes of {name} are not those that were written")

    # -------------------------------------------------------------------- writing

    def clear(self) -> None:
        """Remove every checkpoint, oldest first, so that a run can start over.

        If the process is killed halfway, the newest checkpoints are left: resuming never returns to an old one.
        """
        for kind in (HEAD, SEGMENT):
            for number in self._numbers(kind):
                files.remove(self.file(kind, number))
        files.sync_folder(self.path)

    def follow(self, checkpoint: Checkpoint, state: IncrementalState) -> None:
        """Continue from a checkpoint, so that the next one saves only what changed since.

        ``state`` is the state of the objects that were restored from the checkpoint.
        """
        logs: dict[int, _Log] = {}
        for key, value in state.items():
            if isinstance(value, AppendOnlyArray) and key in checkpoint.logs:
                entry, pieces = checkpoint.logs[key]
                shift = entry["first"] - value.first
                logs[id(value.owner)] = _Log(
                    entry["id"], value.owner, shift, entry["stop"], value.version, entry["patched"], deque(pieces)
                )
        head = self._read_file(HEAD, checkpoint.number)[0]
        self._logs, self._tip = logs, (head["segment"], head["segment_digest"])
        self._scan()

    def _scan(self) -> None:
        """Read which heads and segments exist. Once per run is enough: nobody else changes a locked folder."""
        heads, segments = self.generations(), self._numbers(SEGMENT)
        self._segments = deque(segments)
        self._next = max([0, *heads, *segments]) + 1
        self._needs = {}
        for number in heads:
            try:
                head = self._read_file(HEAD, number)[0]
                self._needs[number] = _Needs(
                    int(head["oldest"]), int(head["segment"]), frozenset(json.loads(head["outputs"]))
                )
            except (StateError, OSError, KeyError, TypeError, ValueError):
                continue  # damaged: it is neither kept nor counted among the valid ones

    def save(
        self,
        state: IncrementalState,
        outputs: Mapping[str, files.AppendedFile] | None = None,
        spare: Collection[int] = (),
    ) -> int:
        """Write a checkpoint, completely or not at all, remove old ones, and return its number.

        ``outputs`` are the output files in the folder, ``spare`` the numbers of further checkpoints to keep. After an
        error nothing more is written: an operating system may report a failed flush only once, so that a later
        checkpoint could seem to succeed although data are lost.
        """
        if self._failed:
            raise StateError(f"an earlier checkpoint in {self.path} could not be saved; resume from the last valid one")
        if self._next == 1:
            self._scan()
        self.check_held()
        self._failed = True
        number = self._write(state, {} if outputs is None else outputs)
        self._failed = False
        self.check_held()
        self._collect(spare)
        for saved in self.on_saved:
            saved(number)
        return number

    def _write(self, state: IncrementalState, outputs: Mapping[str, files.AppendedFile]) -> int:
        number = self._next
        # Order matters: outputs, then the segment, then the head. Whenever a head exists, all that it needs is on disk.
        for output in outputs.values():
            output.sync()
        small: State = {}
        segment: State = {}
        logs: dict[int, _Log] = {}
        records: list[dict[str, Any]] = []
        for key in sorted(state):
            value = state[key]
            if not isinstance(value, AppendOnlyArray):
                small[key] = value
                continue
            mark = id(value.owner)  # cannot be reused by another object: the log keeps its owner alive
            log = self._logs.get(mark) or _Log(f"{number}-{len(records)}", value.owner, stop=value.first)
            segment |= nest(log.id, log.take_unsaved(value, number))
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
        self.check_held()
        files.write_bytes(
            self.file(HEAD, number), to_bytes(head | nest("state", small), trust_pickle=self.trust_pickle)
        )
        files.sync_folder(self.path)
        self._logs, self._next = logs, number + 1
        self._needs[number] = _Needs(oldest, self._tip[0], frozenset(outputs))
        return number

    def _collect(self, spare: Collection[int]) -> None:
        """Remove the heads that are not kept, then the segments that no kept head needs."""
        kept = {*sorted(self._needs)[-self.keep :], *spare, *self.pinned}
        for number in [number for number in self._needs if number not in kept]:
            files.remove(self.file(HEAD, number))
            del self._needs[number]
        # Old heads may be kept for long: the segments between those of one head and those of the next are not needed.
        unneeded = [
            number
            for number in self._segments
            if not any(needs.first <= number <= needs.last for needs in self._needs.values())
        ]
        for number in unneeded:
            files.remove(self.file(SEGMENT, number))
            self._segments.remove(number)
