"""Seeds of keys, slots of keys, and rows grouped by slot; fleets and engines share them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray, State
from driftsurf.core.fields import Array, Choice, Entry, Fields, Rule, misfit
from driftsurf.core.frames import unmasked
from driftsurf.core.options import shown
from driftsurf.core.random import derive
from driftsurf.core.typing import Series
from driftsurf.errors import InputError, ShapeError, ValueTypeError
from driftsurf.keyed.threads import ONE_THREAD, Threads
from driftsurf.native.keys import add, count_rows, find, lay_out, seeds_of

__all__ = ["Key", "Keys", "KeysLike", "Slots", "by_slot", "key_seed"]

Key: TypeAlias = int | str
"""The name of one key."""
KeysLike: TypeAlias = npt.ArrayLike | Series
"""One key per row: integers, or text."""
Kind = Literal["", "numbers", "text"]
Slots = npt.NDArray[np.int32]
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


def by_slot(slots: Slots, n_slots: int) -> tuple[IntArray, IntArray, Slots]:
    """Group rows by slot, like a stable sort: return the slots with rows, where their rows start, and the rows.

    >>> by_slot(np.array([2, 0, 2], np.int32), 3)
    (array([0, 2]), array([0, 1, 3]), array([1, 0, 2], dtype=int32))
    """
    counts = np.zeros(n_slots, np.int32)
    count_rows(slots, counts)
    few = len(slots) < n_slots // 16  # then sorting them is cheaper than scanning all counts
    touched = np.unique(slots).astype(np.int64) if few else np.flatnonzero(counts)
    starts, order = np.empty(len(touched) + 1, np.int64), np.empty(len(slots), np.int32)
    lay_out(slots, counts, touched, starts, order)
    return touched, starts, order


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


_KIND: dict[str, Entry] = {"kind": Choice(("", "numbers", "text"))}
FIELDS = {
    "": Fields(_KIND | {"numbers": Array(np.int64, (0,))}),
    "numbers": Fields(_KIND | {"numbers": Array(np.int64, ("*",))}),
    "text": Fields(
        _KIND | {"text": Array(np.uint8, ("bytes",)), "lengths": Array(np.int64, ("*",), least=0, most="bytes")},
        rules=[Rule("lengths", "must add up to the text", lambda known: known["lengths"].sum() == known["bytes"])],
    ),
}
"""Saved entries of an index, by the kind of its keys."""
