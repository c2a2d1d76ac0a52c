"""Serves the rows of keys that share a model, and keeps what they have learned open.

A key takes the same memory however many rows it has had: the weights by which it differs from the shared model, and how
certain they are (``native/c/difference.h``). Its saved bytes and the rows that came after them, with what the shared
model predicted for them, are its state, as for keys that learn alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import replace
from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.state import to_bytes
from driftsurf.data.tables import Table
from driftsurf.keyed.key_cache import SavedKeys, about_key
from driftsurf.keyed.quarantine import Fault
from driftsurf.keyed.results import (
    NEVER,
    NEW,
    KeyedPredictions,
    KeySummary,
    Results,
    ServedPart,
    Steps,
    Summaries,
    Visit,
)
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.sharing import WIDTHS, SharedModel, SharingLearner, widened

MOST_BYTES = 2**28
"""Memory for keys that stay open, roughly."""


class _Rows(NamedTuple):
    """Rows of keys that are new, key by key in order, and why they may not be learned."""

    order: IntArray
    """Places of the rows in the table."""
    starts: IntArray
    group: IntArray
    """The number of the key of each row."""
    refused: npt.NDArray[np.bool_]
    """Rows that are predicted only: a bad one, and those behind it."""
    duplicates: IntArray
    """Rows of each key that had come before."""
    faults: Mapping[int, tuple[int, Fault]]
    """For each key with a bad row, the sequence number of the first one, and what is wrong with it."""


class _Served(NamedTuple):
    """Results of rows, in their order."""

    predicted: FloatArray
    """Codes or numbers; NaN where there was nothing to predict with."""
    alone: FloatArray
    """Predictions of the shared model."""


class SharedKeys:
    """Keys that are open, and the model that they share.

    Parameters
    ----------
    learner
        How keys learn.
    key
        The name of the column of keys.
    hidden
        Columns that the shared model does not see.
    most_bytes
        Memory for keys that stay open, roughly.
    """

    def __init__(
        self, learner: SharingLearner, key: str, hidden: Collection[str] = (), most_bytes: int = MOST_BYTES
    ) -> None:
        self._learner = learner
        self._most_bytes = most_bytes
        self.model: SharedModel = SharedModel(learner, key, hidden)
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []
        self._held: dict[int, KeySummary] = {}
        """Summaries of keys in quarantine, by their slots."""
        self._summaries = Summaries()
        self._outputs = learner.outputs(0)
        self._loop = learner.differences(self._outputs)
        self._keys = np.zeros((0, self._loop.size), np.float32)

    # -------------------------------------------------------------------- serving

    def serve(self, table: Table, rows: RowsByKey, saved: SavedKeys) -> Results:
        """Predict the rows of an epoch, then let the shared model and their keys learn them.

        ``table`` has the rows at the places that ``rows`` names.
        """
        self.open(rows.names, saved)
        slots = self._slots_of(rows.names)
        new = self._new_rows(rows, slots)
        together = self._beside_shared(table, rows, new)
        self._widen(self.model.outputs)
        served = self._learn(together, slots, new.refused)
        self._count(new, served, slots, together)
        return self._results(rows, new, served, slots, together)

    def _new_rows(self, rows: RowsByKey, slots: IntArray) -> _Rows:
        """Return the rows above the high-water marks of their keys, in order, and what is wrong with them."""
        group = np.repeat(np.arange(len(rows)), rows.counts)
        order, sequence = np.asarray(rows.order, np.int64), rows.sequence[rows.order]
        sorting = np.lexsort((sequence, group))
        order, sequence = order[sorting], sequence[sorting]
        repeated = sequence <= self._summaries["high_water"][slots][group]
        repeated[1:] |= (sequence[1:] == sequence[:-1]) & (group[1:] == group[:-1])
        duplicates = np.bincount(group[repeated], minlength=len(rows))
        order, group, sequence = order[~repeated], group[~repeated], sequence[~repeated]
        faults = self._faults(rows, order, group, sequence)
        starts = np.append(0, np.cumsum(np.bincount(group, minlength=len(rows))))
        refused = np.zeros(len(order), np.bool_)
        for number, slot in enumerate(slots.tolist()):
            if slot in self._held:
                refused[starts[number] : starts[number + 1]] = True
                faults.pop(number, None)
        for number, (at, _) in faults.items():
            own = slice(starts[number], starts[number + 1])
            refused[own] = sequence[own] >= at
        return _Rows(order, starts, group, refused, duplicates, faults)

    def _faults(
        self, rows: RowsByKey, order: IntArray, group: IntArray, sequence: IntArray
    ) -> dict[int, tuple[int, Fault]]:
        """Return the first bad row of each key that has one."""
        X = rows.X[order]
        bad = np.isinf(X) if self._learner.on_gap == "fill" else ~np.isfinite(X)
        unread = self.model.label_faults(rows.words)
        wrong = bad.any(axis=1) | np.isin(rows.codes[order], list(unread))
        found: dict[int, tuple[int, Fault]] = {}
        for place in np.flatnonzero(wrong).tolist():
            at = int(sequence[place])
            if bad[place].any():
                column = int(np.argmax(bad[place]))
                name, value = self._learner.features[column], float(X[place, column])
                fault = Fault("not_finite", f"in row {at} the feature {name!r} is {value}", name, str(value))
            else:
                fault = self.model.label_faults([rows.words[rows.codes[order[place]]]], at)[0]
            found.setdefault(int(group[place]), (at, fault))
        return found

    def _beside_shared(self, table: Table, rows: RowsByKey, new: _Rows) -> RowsByKey:
        """Return rows as keys learn them, key by key: scaled columns, what the shared model predicts, and the target.

        The shared model takes the rows in the order of the source.
        """
        in_turn = np.sort(new.order)
        words = [*rows.words, None]
        refused = np.zeros(len(table), np.bool_)
        refused[new.order[new.refused]] = True
        codes = rows.codes[in_turn]
        learned = (codes >= 0) & ~refused[in_turn]
        encoded = self.model.encoded(table)[in_turn] if len(in_turn) else np.zeros((0, 0))
        y = [words[code] for code in codes.tolist()]
        scores = self.model.observe(encoded, y, learned, self._numbers(rows, new)[np.argsort(new.order)])
        columns = self.model.scaled(rows.X[in_turn], ~refused[in_turn])
        X = np.hstack([columns, scores, np.full((len(in_turn), 1), np.nan)])
        targets = self.model.codes(rows.words) if rows.words else np.zeros(0)
        X[codes >= 0, -1] = targets[codes[codes >= 0]]
        places = np.searchsorted(in_turn, new.order)
        return RowsByKey(
            rows.names,
            new.starts,
            np.arange(len(new.order)),
            sequence=rows.sequence[new.order],
            X=X[places],
            codes=rows.codes[new.order],
            words=rows.words,
        )

    def _numbers(self, rows: RowsByKey, new: _Rows) -> IntArray:
        """Return a number for the key of each row, the same in every epoch."""
        own = [name if isinstance(name, int) else zlib.crc32(str(name).encode()) for name in rows.names]
        return np.array(own, np.int64)[new.group]

    def _learn(self, rows: RowsByKey, slots: IntArray, refused: npt.NDArray[np.bool_] | None = None) -> _Served:
        """Predict rows that are beside the shared model's predictions, and let their keys learn them."""
        X, d = rows.X, len(self._learner.features)
        width = 2 if self._learner.regression else self._outputs
        scores, targets = widened(X[:, d:-1], width), X[:, -1].copy()
        made = ~np.isnan(scores[:, 0])
        targets[~made | (False if refused is None else refused)] = np.nan
        both = np.ascontiguousarray(np.hstack([X[:, :d], np.where(made[:, np.newaxis], scores, 0.0)]))
        predicted, alone = np.empty(len(X)), np.empty(len(X))
        order, starts = np.asarray(rows.order, np.int64), np.asarray(rows.starts, np.int64)
        self._loop.observe(self._keys, slots, starts, order, both, targets, None, predicted, alone)
        predicted[~made], alone[~made] = np.nan, np.nan
        return _Served(predicted, alone)

    def _count(self, new: _Rows, served: _Served, slots: IntArray, together: RowsByKey) -> None:
        """Add rows to the summaries of their keys."""
        n, group, taken = len(slots), new.group, ~new.refused
        true = together.X[:, -1]
        scored = taken & ~np.isnan(true) & ~np.isnan(served.predicted)
        wrong = scored & (served.predicted != true) & (not self._learner.regression)
        gaps = np.isnan(together.X[:, : len(self._learner.features)]) & taken[:, np.newaxis]

        def count(mask: npt.NDArray[np.bool_]) -> IntArray:
            return np.bincount(group[mask], minlength=n)

        counts = {
            "rows": count(taken),
            "steps": count(taken & ~np.isnan(true)),
            "scored": count(scored),
            "errors": count(wrong),
            "refused": count(~taken),
            "duplicates": new.duplicates,
            "gaps": np.bincount(group, weights=gaps.sum(axis=1), minlength=n).astype(np.int64),
        }
        deviation = None
        if self._learner.regression:
            deviation = self._summaries["deviation"][slots].copy()
            np.add.at(deviation, group[scored], np.abs(served.predicted[scored] - true[scored]))  # one by one
        high = self._summaries["high_water"][slots].copy()
        np.maximum.at(high, group, together.sequence)
        self._summaries.add(slots, counts, high, deviation)
        self._summaries["bytes"][slots] = 4 * self._loop.size
        for number, (at, fault) in new.faults.items():
            slot = int(slots[number])
            self._held[slot] = self._summaries.get(slot).quarantined(at, fault)

    def _results(self, rows: RowsByKey, new: _Rows, served: _Served, slots: IntArray, together: RowsByKey) -> Results:
        """Return what came of an epoch; keys with duplicates, bad rows or in quarantine are saved as a whole."""
        labels: list[Any] | FloatArray = list(self.model.labels)
        single = [n for n, slot in enumerate(slots.tolist()) if slot in self._held or new.duplicates[n]]
        alone = set(single)
        chosen = np.array([n for n in range(len(rows)) if n not in alone], np.int64)
        visits = {rows.names[n]: self._visit(rows.names[n], n, new, served, together) for n in single}
        if not len(chosen):
            return Results(visits)
        order, starts = together.places_of(chosen)
        part = ServedPart(
            together.only({together.names[n] for n in chosen.tolist()}),
            np.arange(len(chosen)),
            np.arange(len(order)),
            starts,
            self._predictions(served.predicted[order], labels),
            Steps([], [], [], [], []),
            self._summaries.columns(slots[chosen]),
            self._predictions(served.alone[order], labels),
        )
        return Results(visits, [part])

    def _predictions(self, predicted: FloatArray, labels: list[Any] | FloatArray) -> KeyedPredictions:
        missing = np.isnan(predicted)
        if self._learner.regression:
            return KeyedPredictions(predicted[~missing], np.where(missing, -1, np.cumsum(~missing) - 1))
        return KeyedPredictions(labels, np.where(missing, -1, np.where(missing, 0, predicted).astype(np.int64)))

    def _visit(self, name: Any, number: int, new: _Rows, served: _Served, together: RowsByKey) -> Visit:
        own = slice(int(new.starts[number]), int(new.starts[number + 1]))
        words = [*together.words, None]
        true = [
            None if refused else words[code]
            for refused, code in zip(new.refused[own].tolist(), together.codes[own].tolist(), strict=True)
        ]
        slot = self._slots[name]
        return Visit(
            self._bytes(slot),
            together.sequence[own].tolist(),
            self._values(served.predicted[own]),
            true,
            [],
            [],
            [],
            self._summary(slot),
            self._values(served.alone[own]),
        )

    def _values(self, predicted: FloatArray) -> list[Any]:
        """Return predictions as labels or numbers, None where there is none."""
        labels = self.model.labels
        return [
            None if value != value else value if self._learner.regression else labels[int(value)]
            for value in predicted.tolist()
        ]

    # -------------------------------------------------------------------- opening and closing

    def open(self, names: Collection[Any], saved: SavedKeys) -> None:
        """Open keys from their saved bytes and the rows that came after these; new ones start without rows."""
        self._widen(self.model.outputs)
        closed = [name for name in names if name not in self._slots]
        self._make_room(len(closed), set(names))
        states = {name: saved.get(name) for name in closed}
        self._take_slots(closed)
        for name, state in states.items():
            if state:
                self._load(name, state)
        for tail in saved.tails(closed):
            own = tail.only(states.keys())
            self._follow(own)

    def _follow(self, rows: RowsByKey) -> None:
        """Learn rows again that were served before."""
        slots = self._slots_of(rows.names)
        self._widen(rows.X.shape[1] - len(self._learner.features) - 1)
        group = np.repeat(np.arange(len(rows)), rows.counts)
        order = np.asarray(rows.order, np.int64)
        X = rows.X[order]
        whole = RowsByKey(
            rows.names, rows.starts, np.arange(len(order)), sequence=rows.sequence[order], X=X,
            codes=rows.codes[order], words=rows.words,
        )  # fmt: skip
        none = np.zeros(len(rows), np.int64)
        new = _Rows(np.arange(len(order)), rows.starts, group, np.zeros(len(order), np.bool_), none, {})
        self._count(new, self._learn(whole, slots), slots, whole)

    def _slots_of(self, names: Sequence[Any]) -> IntArray:
        return np.array([self._slots[name] for name in names], np.int64)

    def _make_room(self, count: int, wanted: Collection[Any]) -> None:
        """Close keys that are not wanted, if so many new ones need their memory."""
        most = max(1, self._most_bytes // (4 * self._loop.size))
        surplus = len(self._slots) + count - most
        if surplus > 0:
            self.forget([name for name in self._slots if name not in wanted][:surplus])

    def _take_slots(self, names: Sequence[Any]) -> None:
        """Give new keys a slot each."""
        missing = len(names) - len(self._free)
        if missing > 0:
            before = len(self._keys)
            room = before + max(missing, before)
            more = np.zeros((room - before, self._loop.size), np.float32)
            self._keys = np.concatenate([self._keys, more])
            self._summaries.grow(room)
            self._free += range(room - 1, before - 1, -1)
        slots = np.array([self._free.pop() for _ in names], np.int64)
        fresh = np.empty((len(slots), self._loop.size), np.float32)
        self._loop.begin(fresh)
        self._keys[slots] = fresh
        self._summaries.put(slots, NEW)
        self._slots.update(zip(names, slots.tolist(), strict=True))

    def forget(self, names: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        for name in names:
            slot = self._slots.pop(name, None)
            if slot is not None:
                self._held.pop(slot, None)
                self._free.append(slot)

    def _widen(self, outputs: int) -> None:
        """Give every key weights for more classes, all 0, which changes no prediction."""
        if self._learner.regression or outputs <= self._outputs:
            return
        if len(self._keys):
            self._keys = self._with_outputs(self._keys, self._outputs, outputs)
        self._outputs, self._loop = outputs, self._learner.differences(outputs)
        self._keys = self._keys.reshape(-1, self._loop.size)

    def _with_outputs(self, keys: npt.NDArray[np.float32], before: int, after: int) -> npt.NDArray[np.float32]:
        """Return keys with weights for more classes."""
        width = (len(self._learner.features) + 1) * before
        more = (len(self._learner.features) + 1) * (after - before)
        size = self._learner.differences(before).size
        parts = len(WIDTHS)
        record, rest = keys[:, : parts + 1], keys[:, parts + 1 :].reshape(len(keys), parts, -1)
        assert rest.shape[2] * parts + parts + 1 == size
        blank = np.zeros((len(keys), parts, more), np.float32)
        made = np.concatenate([rest[:, :, :width], blank, rest[:, :, width:]], axis=2)
        return np.ascontiguousarray(np.hstack([record, made.reshape(len(keys), -1)]))

    # -------------------------------------------------------------------- state

    def states(
        self, keys: Collection[Any], states: SavedKeys, served: Collection[ServedPart] = ()
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys with all rows that they have had, None for new keys.

        ``served`` are results whose rows are not in ``states`` yet.
        """
        closed = {key for key in keys if key not in self._slots}
        self.open(keys, states)
        for part in served:
            self._follow(part.rows.only(closed))
        return {key: self._bytes(slot) if self._has_rows(slot := self._slots[key]) else None for key in keys}

    def _has_rows(self, slot: int) -> bool:
        return bool(self._summaries["high_water"][slot] != NEVER)

    def _summary(self, slot: int) -> KeySummary:
        found, held = self._summaries.get(slot), self._held.get(slot)
        if held is None:
            return found
        return replace(
            found,
            **{name: value for name, value in vars(held).items() if name.startswith("quarantine")},
        )

    def _bytes(self, slot: int) -> bytes:
        """Return the bytes in which a key is saved."""
        own = {"difference": self._keys[slot].copy(), "outputs": self._outputs}
        return to_bytes(about_key(self._learner.options_digest, self._summary(slot)) | own)

    def _load(self, name: Any, state: bytes) -> None:
        summary, key, outputs = self._learner.read_key(state)
        self._widen(outputs)
        slot = self._slots[name]
        self._keys[slot] = self._with_outputs(key[np.newaxis], outputs, self._outputs)[0]
        forgiven = self._learner.readmitted.get(str(name))
        if summary.quarantined_at is not None and forgiven is not None and summary.quarantined_at <= forgiven:
            summary = summary.readmitted(0)
        if summary.quarantine:
            self._held[slot] = summary
        self._summaries.put(slot, summary)
