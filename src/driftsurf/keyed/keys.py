"""Seeds of keys, slots of keys, and threads for native loops; fleets and engines share them."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray, State
from driftsurf.core.fields import Array, Choice, FieldEntry, FieldRule, Fields, misfit
from driftsurf.core.frames import Series, unmasked
from driftsurf.core.numeric import derive
from driftsurf.core.options import shown
from driftsurf.errors import InputError, ShapeError, ValueTypeError
from driftsurf.keyed.rows import Slots
from driftsurf.native.keys import add, find, seeds_of

ROWS_PER_THREAD = 4096
"""Fewer rows are not worth a thread."""
ROWS_PER_SHARE, SHARES = 32_768, 4
"""Rows of a share of learning, and shares of a thread, at most."""

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads:
    """At most ``count`` threads, as many as are worthwhile.

    >>> Threads(2).parts(10_000)
    [slice(0, 5000, None), slice(5000, 10000, None)]
    >>> Threads(2).map(lambda part: part.stop, Threads(2).parts(10_000))
    [5000, 10000]
    """

    count: int

    def worthwhile(self, n_rows: int) -> int:
        """Return how many threads pay off for this many rows."""
        return min(self.count, 1 + n_rows // ROWS_PER_THREAD)

    def shares(self, n_rows: int) -> int:
        """Return into how many shares the learning of rows is split.

        There are several for each thread, so that a thread which the system holds up leaves more of them to others.
        """
        threads = self.worthwhile(n_rows)
        return 1 if threads == 1 else max(threads, min(SHARES * threads, n_rows // ROWS_PER_SHARE))

    def parts(self, n_rows: int) -> list[slice]:
        """Split rows into equal parts, one per worthwhile thread."""
        count = self.worthwhile(n_rows)
        ends = [n_rows * k // count for k in range(count + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """Call ``work`` on all parts, as many at the same time as there are threads; return the results in order."""
        if len(parts) == 1:
            return [work(parts[0])]
        with ThreadPoolExecutor(min(self.count, len(parts))) as pool:
            return list(pool.map(work, parts))


ONE_THREAD = Threads(1)


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows do not have it
        return os.cpu_count() or 1


Key: TypeAlias = int | str
"""The name of one key."""
KeysLike: TypeAlias = npt.ArrayLike | Series
"""One key per row: integers, or text."""
Kind = Literal["", "numbers", "text"]
MOST = 2**31 - 1
"""Slots, and rows of a call, are int32: there can be no more of either."""
LEAST_ROOM = 64


def _is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8: a half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_seed(seed: int, key: Key) -> int:
    """Return the seed of one key. It depends on nothing but ``seed`` and the key.

    Examples
    --------
    >>> key_seed(0, 7) != key_seed(0, 8)
    True
    """
    if isinstance(key, str):
        return derive(seed, int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))
    return derive(seed, int(key))


# ---------------------------------------------------------------------------- the index


class Keys:
    """An index of keys, all integers or all text, that gives each a slot: 0, 1, 2 ... in order of appearance.

    >>> keys = Keys()
    >>> keys.add(keys.read(["b", "a", "b"])).tolist(), keys.labels()
    ([0, 1, 0], ['b', 'a'])
    """

    def __init__(self) -> None:
        self.kind: Kind = ""
        self._count = 0
        self._known = np.empty(LEAST_ROOM, np.int64)
        self._table = np.full(2 * LEAST_ROOM, -1, np.int32)
        self._slots: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts) if self.kind == "text" else self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the index of integer keys; Python's objects for text keys are not counted."""
        return self._known.nbytes + self._table.nbytes

    def labels(self) -> Sequence[Key]:
        """Return the keys by slot."""
        return list(self._texts) if self.kind == "text" else self._known[: self._count].tolist()

    def read(self, keys: KeysLike) -> IntArray | list[str]:
        """Check keys and return them as the index takes them: an array of integers, or a list of text."""
        array = np.asarray(unmasked(keys, "keys"))
        if array.ndim != 1:
            raise ShapeError(f"keys must be one-dimensional, one key per row; got shape {array.shape}.")
        if array.dtype.kind in "iu":
            if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
                raise ValueTypeError(f"the key {array.max()} is too large: keys are integers below 2**63, or text.")
            kind: Kind = "numbers"
            made: IntArray | list[str] = np.ascontiguousarray(array, np.int64)
        else:
            made = array.tolist() if array.dtype.kind in "UOT" else []
            if len(made) != len(array) or not all(isinstance(key, str) for key in made):
                raise ValueTypeError(f"keys have type {array.dtype}; they must be integers or text.")
            if broken := next((key for key in made if not key.isascii() and not _is_unicode(key)), None):
                raise InputError(f"the key {shown(broken)} holds half of a character, and cannot be saved; correct it.")
            kind = "text"
        if self.kind not in ("", kind):
            raise InputError(f"keys are {kind}, but those of earlier calls were {self.kind}: pass keys of one kind.")
        return made

    def find(self, keys: IntArray | list[str], threads: Threads = ONE_THREAD) -> Slots:
        """Return the slot of each key, -1 for an unknown key."""
        if isinstance(keys, list):
            get = self._slots.get
            return np.fromiter((get(key, -1) for key in keys), np.int32, len(keys))
        slots = np.empty(len(keys), np.int32)
        threads.map(lambda part: find(keys[part], self._table, self._known, slots[part]), threads.parts(len(keys)))
        return slots

    def add(self, keys: IntArray | list[str], threads: Threads = ONE_THREAD) -> Slots:
        """Return the slot of each key; unknown keys get the next slots. ``put_back`` undoes this from any point."""
        slots = self.find(keys, threads)
        self._check_room(keys, slots)
        if isinstance(keys, list):
            self.kind = "text"
            for i in np.flatnonzero(slots < 0).tolist():
                slots[i] = self._slots.setdefault(keys[i], len(self._texts))
                if slots[i] == len(self._texts):
                    self._texts.append(keys[i])
            return slots
        self.kind = "numbers"
        done = bool(slots.min() >= 0)
        while not done:
            count, done = add(keys, self._table, self._known, self._count, slots)
            self._count = count
            if not done:
                self._double()
        return slots

    def _check_room(self, keys: IntArray | list[str], slots: Slots) -> None:
        """Raise ShapeError if there are more rows, or would be more keys, than int32 can count."""
        if len(keys) > MOST:
            raise ShapeError(f"X has {len(keys):,} rows; the limit of a call is {MOST:,}: split it into several calls.")
        if len(self) + len(keys) > MOST:
            new = len(np.unique(np.asarray(keys)[slots < 0]))
            if len(self) + new > MOST:
                raise ShapeError(f"there are {len(self):,} keys and {new:,} new ones; the limit is {MOST:,} keys.")

    def seeds(self, seed: int, start: int) -> npt.NDArray[np.uint64]:
        """Return the seeds of the keys from slot ``start`` on."""
        if self.kind == "text":
            return np.array([key_seed(seed, key) for key in self._texts[start:]], np.uint64)
        seeds = np.empty(self._count - start, np.uint64)
        seeds_of(self._known[start : self._count], seed, seeds)
        return seeds

    def mark(self) -> tuple[int, Kind]:
        """Return where the index is now, for ``put_back``."""
        return len(self), self.kind

    def put_back(self, mark: tuple[int, Kind]) -> None:
        """Remove every key that was added since the mark; if this is broken off, calling it again completes it."""
        count, kind = mark
        numbers = 0 if kind == "text" else count
        while len(self._slots) > count - numbers:
            self._slots.popitem()
        del self._texts[count - numbers :]
        self._count = numbers
        self._fill_table()  # which may hold keys that were not counted yet
        self.kind = kind

    def _double(self) -> None:
        known, table = np.empty(2 * len(self._known), np.int64), np.empty(2 * len(self._table), np.int32)
        known[: self._count] = self._known[: self._count]
        self._known, self._table = known, table
        self._fill_table()

    def _fill_table(self) -> None:
        self._table.fill(-1)
        add(self._known[: self._count].copy(), self._table, self._known, 0, np.full(self._count, -1, np.int32))

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the keys as flat entries: integers as an array, text as UTF-8 with the length of each key."""
        if self.kind != "text":
            return {"kind": self.kind, "numbers": self._known[: self._count].copy()}
        coded = [key.encode() for key in self._texts]
        return {
            "kind": self.kind,
            "text": np.frombuffer(b"".join(coded), np.uint8),
            "lengths": np.array([len(key) for key in coded], np.int64),
        }

    @classmethod
    def from_state(cls, state: State) -> Keys:
        """Return the index that ``state()`` was taken from."""
        known = FIELDS.get(str(state.get("kind")), FIELDS[""]).read(state)
        index = cls()
        given: Any = known.get("numbers", [])
        if known["kind"] == "text":
            text, ends = known["text"], np.cumsum(known["lengths"]).tolist()
            try:
                given = [text[a:b].tobytes().decode() for a, b in zip([0, *ends], ends, strict=False)]
            except UnicodeDecodeError as error:
                raise misfit(state, "text", f"is not UTF-8 ({error})") from error
        if len(given) and not np.array_equal(index.add(index.read(given)), np.arange(len(given))):
            raise misfit(state, "numbers" if known["kind"] == "numbers" else "text", "has a key twice")
        if index.kind != known["kind"]:
            raise misfit(state, "kind", f"is {known['kind']!r}, but the keys are not of that kind")
        return index


_KIND: dict[str, FieldEntry] = {"kind": Choice(("", "numbers", "text"))}
FIELDS = {
    "": Fields(_KIND | {"numbers": Array(np.int64, (0,))}),
    "numbers": Fields(_KIND | {"numbers": Array(np.int64, ("*",))}),
    "text": Fields(
        _KIND | {"text": Array(np.uint8, ("bytes",)), "lengths": Array(np.int64, ("*",), least=0, most="bytes")},
        rules=[FieldRule("lengths", "must add up to the text", lambda known: known["lengths"].sum() == known["bytes"])],
    ),
}
"""Saved entries of an index, by the kind of its keys."""
