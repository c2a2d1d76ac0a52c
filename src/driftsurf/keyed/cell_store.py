"""Stores with a cell for each key of a fleet, served by one native loop; keys may learn classes of their own.

:class:`~driftsurf.keyed.Fleet` reads rows and finds slots; a store reads labels, predicts and learns. A key is known by
its slot: 0, 1, 2 ... in order of appearance. :class:`~driftsurf.keyed.session_store.SessionStore` has the same methods
for models that no cell holds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.fields import Array, Converted, Fields, misfit
from driftsurf.core.frames import TargetLike, unmasked
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import DivergenceError, InputError
from driftsurf.keyed.bank import Bank, Banks
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.labels import UNKNOWN, Coded, LabelSets
from driftsurf.keyed.layout import MOST_OWN, REASONS, TWO, Blocks, Codes
from driftsurf.keyed.record import TransitionRecord
from driftsurf.keyed.rows import Slots, by_slot
from driftsurf.keyed.session_store import SessionStore, joined, labels_of_rows, readable
from driftsurf.keyed.work import CallRows, Work
from driftsurf.session.session import Session


class CellStore:
    """A cell for each key, served by a native loop on several threads, for a closed set of labels or for numbers.

    Parameters
    ----------
    template
        What a key starts with, for which ``suits_cells`` is true; keys differ only in the seed.
    n_features
        Columns of every row.
    threads
        Threads to use.
    tolerant
        Whether a label that cannot be learned puts its key in quarantine; if not, it is an error.
    fills
        Whether rows are float64 with NaN for gaps, which are filled with the means of their key.
    """

    def __init__(
        self, template: Session, n_features: int, threads: Threads, *, tolerant: bool, fills: bool = False
    ) -> None:
        self._targets, self._tolerant = template.targets, tolerant
        self._banks = Banks(template, n_features, fills=fills)
        self._threads = threads
        self._record = TransitionRecord()

    @property
    def _base(self) -> Bank:
        return self._banks.base

    @property
    def _slots(self) -> IntArray:
        return np.arange(self._base.count)

    @property
    def bytes_per_key(self) -> int:
        """Mean of the bytes that a key takes; those that it takes at most, if there is none yet."""
        count = self._base.count
        return sum(bank.used for bank in self._banks.all) // count if count else self._base.shape.most_bytes

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        return sum(bank.blocks.nbytes for bank in self._banks.all)

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        Rows take memory for their weights once any of them has one (``weighted``).
        """
        self._banks.reserve(n_keys, weighted=weighted)

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        start, stop = self._base.count, self._base.count + len(seeds)
        if start < stop:
            self._base.begin(np.arange(start, stop), seeds)
            self._base.count = stop

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._base.count = n_keys

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the codes of labels, or numbers, and the reason why each is bad (empty if none is)."""
        labels = np.asarray(unmasked(y, "y"))
        known = self._targets.labels
        if len(known) == 2 and labels.shape == (n_rows,):  # two comparisons, the usual case
            first, second = labels == known[0], labels == known[1]
            if (first | second).all():
                return second.view(np.uint8), np.zeros(0, np.uint8)
        try:
            return self._targets.read(y, n_rows)[1].astype(self._base.shape.label_type), np.zeros(0, np.uint8)
        except InputError:
            if not self._tolerant or labels.shape != (n_rows,):
                raise
        codes, unknown = self._found(labels)
        return codes, unknown * np.uint8(REASONS.index("bad_label"))

    def _found(self, labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the codes of labels, or numbers, and which of them cannot be learned; these have the code 0."""
        shape = self._base.shape
        codes, unknown = np.zeros(len(labels), shape.label_type), np.ones(len(labels), np.bool_)
        for code, label in enumerate(self._targets.labels):
            own = labels == label
            codes[own], unknown = code, unknown & ~own
        if shape.valued:
            for place in range(len(labels)):
                try:
                    codes[place], unknown[place] = self._targets.read(labels[place : place + 1], 1)[1][0], False
                except InputError:
                    continue
        return codes, unknown

    def prepare(
        self, rows: DenseRows, codes: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None = None
    ) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        All memory is allocated here, before any thread starts, so that none can fail when others have learned.
        """
        touched, starts, order = by_slot(slots, self._base.count)
        # Threads may still read the rows when an exception has given the caller's array back to the caller.
        rows = self._copied(rows) if self._threads.shares(len(rows)) > 1 else rows
        predicted = np.empty(len(rows), self._base.shape.label_type)
        batch = CallRows(rows, codes, weight, bad if len(bad) else None, True, predicted, None)
        return Work(self._banks, touched, starts, order, batch, self._threads, None)

    def _copied(self, rows: DenseRows) -> DenseRows:
        """Return a copy of rows, which several threads make."""
        made = np.empty_like(rows)
        self._threads.map(lambda part: np.copyto(made[part], rows[part]), self._threads.parts(len(rows)))
        return made

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        work.carry_out()
        self._record.add(work.transition_entries)

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet."""
        begun: bool = work.finish()
        if begun:
            self.learn(work)
        return begun

    def predicted(self, work: Any) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        return self._targets.decode(work.batch.predicted)

    def faults(self, work: Any) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        return {int(slot): DivergenceError("training diverged") for slot in work.slots[work.failed]}

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        self._banks.write("quarantine", slots, 0)

    # -------------------------------------------------------------------- reading

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        return self._targets.decode(self._banks.predict(rows, slots))

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        bank, place = self._banks.find(slot)
        return bank.weights(place)

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        return self._banks.summary(self._slots)

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        return self._record.table(keys)

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        return [one.named(self._targets_of(slot).labels) for one in self._record.of_slot(slot)]

    def _targets_of(self, slot: int) -> Any:
        """Return the labels of a key, or what is known about numbers to predict."""
        return self._targets

    # -------------------------------------------------------------------- state

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key."""
        bank, place = self._banks.find(slot)
        fresh.restore(bank.session_state(place, self._targets_of(slot)))
        return fresh

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        return self._base.state(self._slots)

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        self._use(self._base.restored(state, seeds))

    def _use(self, blocks: Blocks) -> None:
        """Replace the cells of the first bank."""
        self._base.use(blocks)
        self._base.count = len(blocks)
        self._banks.reserve(len(blocks))
        self._base.complete(blocks)


class GrowingStore(CellStore):
    """A cell for each key; a key moves to a larger one at the time step that first learns a third or further class.

    The parameters are those of :class:`~driftsurf.keyed.cell_store.CellStore`.
    """

    def __init__(
        self, template: Session, n_features: int, threads: Threads, *, tolerant: bool, fills: bool = False
    ) -> None:
        super().__init__(template, n_features, threads, tolerant=tolerant, fills=fills)
        self._template, self._n_features, self._fills = template, n_features, fills
        assert isinstance(self._targets, ClassTargets)
        self._limit = self._targets.limit
        self._sets = self._no_sets()
        self._set_of: IntArray = np.zeros(0, np.int64)
        """The set of the classes of each slot."""

    def _no_sets(self) -> LabelSets:
        """Return sets of classes of which only the empty one is known; codes of classes are single bytes."""
        return LabelSets(ClassTargets(limit=min(self._limit or MOST_OWN, MOST_OWN)))

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing."""
        super().reserve(n_keys, weighted=weighted)
        missing = len(self._base.blocks) - len(self._set_of)
        if missing > 0:
            self._set_of = np.append(self._set_of, np.zeros(missing, np.int64))

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        start = self._base.count
        self._set_of[start : start + len(seeds)] = 0
        super().add(seeds)

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the labels as an array; each key reads its own."""
        return labels_of_rows(y, n_rows)

    def prepare(
        self, rows: DenseRows, labels: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None = None
    ) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        InputError for a label that its key cannot learn, unless that puts the key in quarantine.
        """
        sets, codes, bad = self._read(labels, bad, slots)
        if (self._sets.sizes[sets] > TWO).any():
            self._begin_with_all(sets, codes, bad, slots)
        for name, values in self._sets.counts(sets).items():
            self._banks.write(name, slots, values)
        work = super().prepare(rows, codes, bad, slots, weight)
        work.sets, work.rows = sets, slots
        work.targets_of = lambda _, row: self._sets.targets[int(sets[row])]
        return work

    def _begin_with_all(self, sets: IntArray, codes: Codes, bad: Codes, slots: Slots) -> None:
        """Let keys without rows begin with the classes of their first part of a time step, as a session does."""
        touched, starts, order = by_slot(slots, self._base.count)
        (fresh,) = np.nonzero(self._banks.read("next", touched) + self._banks.read("pending", touched) == 0)
        self._banks.move_back(touched[fresh])
        for number in fresh[self._sets.sizes[sets[order[starts[:-1][fresh]]]] > TWO].tolist():
            own = order[starts[number] : starts[number + 1]][: self._base.shape.batch_size]
            good = own[: int(np.argmax(bad[own] > 0))] if len(bad) and bad[own].any() else own
            known = int(codes[good].max(initial=0)) + 1
            if known > TWO:
                targets = self._sets.targets[int(sets[own[0]])]
                self._banks.begin_with(
                    int(touched[number]), dataclasses.replace(targets, labels=targets.labels[:known])
                )

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._banks.move_back(np.arange(n_keys, len(self._base.blocks)))
        super().truncate(n_keys)

    def learn(self, work: Work) -> None:
        """Carry out prepared work; doing it again changes nothing."""
        super().learn(work)
        self._set_of[work.rows] = work.sets
        failed = work.slots[work.failed]
        for slot, known in zip(failed.tolist(), self._banks.read("known", failed).tolist(), strict=True):
            self._set_of[slot] = self._sets.shortened(int(self._set_of[slot]), known)
        rows = self._banks.read("next", failed) + self._banks.read("pending", failed)
        self._banks.move_back(failed[rows == 0])
        if len(failed):  # a key whose first rows failed knows no class, and so predicts none
            work.sets = np.where(self._set_of[work.rows] == 0, 0, work.sets)

    # -------------------------------------------------------------------- labels

    def _read(self, labels: npt.NDArray[Any], bad: Codes, slots: Slots) -> tuple[IntArray, npt.NDArray[Any], Codes]:
        """Return the set of each row's key at the end of the call, the code of each label in it, and all bad rows."""
        usable = self._usable(bad, slots)
        sets, coded = self._set_of[slots], self._sets.columns_of(labels)
        if coded is None or not self._of_one_kind(coded, sets):
            return self._read_one_by_one(labels, bad, slots, usable)
        columns = coded.columns[coded.place]
        new = usable & (self._sets.codes[sets, columns] == UNKNOWN)
        if new.any():
            sets = self._sets.grown(slots, sets, columns, new)
            if (self._sets.sizes[sets] > self._sets.most).any():
                return self._read_one_by_one(labels, bad, slots, usable)
        codes = self._sets.codes[sets, columns]
        return sets, np.where(codes < 0, 0, codes).astype(np.uint8), bad

    def _usable(self, bad: Codes, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return which rows are learned, as far as that is known: not those of a key after its first bad row."""
        usable: npt.NDArray[np.bool_] = self._banks.read("quarantine", slots) == 0
        if len(bad) and bad.any():
            first = np.full(self._base.count, len(slots))
            (wrong,) = np.nonzero(bad)
            np.minimum.at(first, slots[wrong], wrong)
            usable &= np.arange(len(slots)) < first[slots]
        return usable

    def _of_one_kind(self, coded: Coded, sets: IntArray) -> bool:
        """Return whether labels and known classes are all text or all numbers."""
        text = {isinstance(value, str) for value in coded.values}
        used = np.flatnonzero(np.bincount(sets)).tolist()
        return len(text | {self._sets.is_text(number) for number in used} - {None}) <= 1

    def _read_one_by_one(
        self, labels: npt.NDArray[Any], bad: Codes, slots: Slots, usable: npt.NDArray[np.bool_]
    ) -> tuple[IntArray, npt.NDArray[Any], Codes]:
        """Read the labels of one key after the other, as sessions do."""
        sets, codes = self._set_of[slots], np.zeros(len(labels), np.uint8)
        bad = bad.copy() if len(bad) else np.zeros(len(labels), np.uint8)
        touched, starts, order = by_slot(slots, self._base.count)
        for place, slot in enumerate(touched.tolist()):
            own = order[starts[place] : starts[place + 1]]
            good = int(np.count_nonzero(usable[own]))  # the first ones
            if not good:
                continue
            known, y = self._sets.targets[int(self._set_of[slot])], labels[own]
            good_labels, reason = readable(known, y[:good], own, "", tolerant=self._tolerant)
            if good_labels < good:
                bad[own[good_labels]] = REASONS.index(reason)
            if good_labels:
                known, read = known.read(y[:good_labels], good_labels)
                sets[own], codes[own[:good_labels]] = self._sets.number_of(known), read.astype(np.uint8)
        return sets, codes, bad if bad.any() else bad[:0]

    def _targets_of(self, slot: int) -> ClassTargets:
        known = self._sets.targets[int(self._set_of[slot])]
        return known if known.limit == self._limit else dataclasses.replace(known, limit=self._limit)

    # -------------------------------------------------------------------- reading

    def predicted(self, work: Work) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        return self._decoded(work.sets, work.batch.predicted)

    def _decoded(self, sets: IntArray, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the label of each code in its set, None in a set without classes; of text and numbers, objects."""
        used = np.flatnonzero(np.bincount(sets))
        arrays = [self._sets.targets[number].array for number in used.tolist()]
        arrays = [array if len(array) else np.full(1, None) for array in arrays]
        starts, lengths = np.zeros(len(self._sets.targets), np.int64), [len(array) for array in arrays]
        starts[used] = np.cumsum([0, *lengths[:-1]]) if lengths else 0
        values = joined(arrays, np.arange(sum(lengths), dtype=np.int32)) if arrays else np.zeros(0, np.int64)
        labels: npt.NDArray[Any] = values[starts[sets] + codes]
        return labels

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        return self._decoded(self._set_of[slots], self._banks.predict(rows, slots))

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        slots = self._slots
        used, place = np.unique(self._set_of[slots], return_inverse=True)
        state = super().state() | {
            "classes.sets": json.dumps([self._sets.targets[number].labels for number in used.tolist()]),
            "classes.of": place.reshape(-1).astype(np.int64),
            "classes.learned": self._banks.read("learned", slots),
            "classes.moved": self._banks.moved(slots),
        }
        for bank, chosen, places in self._banks.by_bank(slots):
            if bank is not self._base:
                state |= nest(f"larger.{bank.shape.classes}", {"slots": chosen} | dict(bank.state(places)))
        return state

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        known, rest = FIELDS.take(state, n_keys=len(seeds))
        sets, of, moved = known["classes.sets"], known["classes.of"], known["classes.moved"]
        learned, sizes = known["classes.learned"].astype(np.int64), np.array([len(labels) for labels in sets] or [0])
        for name, good in (
            ("classes.of", (of < len(sizes)).all()),
            ("classes.sets", sizes.max() <= self._no_sets().most),
            ("classes.moved", (moved < len(seeds)).all() and (np.diff(moved) > 0).all()),
        ):
            if not good:
                raise misfit(state, name, "contradicts the other entries about classes")
        self._sets = self._no_sets()
        empty = self._sets.targets[0]
        numbers = np.array([self._sets.number_of(ClassTargets(labels, limit=empty.limit)) for labels in sets] or [0])
        own = {name: value for name, value in rest.items() if not name.startswith(("others.", "larger."))}
        blocks, here = self._base.restored(own, seeds), np.ones(len(seeds), np.int64)
        here[moved] = 0  # cells that are of no use any more know no classes
        self._base.set_classes(blocks, sizes[of] * here, learned * here, state)
        self._use(blocks)
        self.reserve(len(seeds))
        self._set_of[: len(seeds)] = numbers[of]
        self._restore_moved(state, seeds, moved, learned)
        for name, values in self._sets.counts(self._set_of[self._slots]).items():
            self._banks.write(name, self._slots, values)

    def _restore_moved(
        self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64], moved: IntArray, learned: IntArray
    ) -> None:
        """Put back the keys with more than two classes."""
        found = list[int]()
        for name in sorted({name.partition(".")[0] for name in pick("larger", state)}):
            own = dict(pick(f"larger.{name}", state))
            slots = np.asarray(own.pop("slots", np.zeros(0)))
            bank = self._banks.of(int(name)) if name.isdecimal() and len(name) <= 3 else None
            if bank is None or bank is self._base or slots.dtype != np.int64 or not np.isin(slots, moved).all():
                raise misfit(state, "classes.moved", f"contradicts the entries about {name!r} classes")
            blocks = bank.restored({"fleet": ""} | own, seeds[slots])
            bank.set_classes(blocks, self._sets.sizes[self._set_of[slots]], learned[slots], state)
            bank.use(blocks)
            bank.count = len(blocks)
            bank.complete(blocks)
            for place, slot in enumerate(slots.tolist()):
                self._banks.locate(slot, bank, place)
                bank.name_classes(place, self._targets_of(slot))
            found += slots.tolist()
        if pick("others", state):  # saved when keys with more than two classes had sessions
            self._restore_sessions(state, seeds, moved)
        elif sorted(found) != moved.tolist():
            raise misfit(state, "classes.moved", "contradicts the keys with more classes")

    def _restore_sessions(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64], moved: IntArray) -> None:
        """Put back keys that were saved as sessions."""
        others = SessionStore(self._template, self._n_features, tolerant=self._tolerant, fills=self._fills)
        old: State = {"fleet": ""}
        others.restore(old | pick("others", state), seeds[moved])
        for slot, (session, tally, means) in zip(moved.tolist(), others.with_counts(), strict=True):
            bank = self._banks.of(max(TWO, session.n_classes_learned))
            assert isinstance(session.targets, ClassTargets)
            self._set_of[slot] = self._sets.number_of(
                dataclasses.replace(session.targets, limit=self._sets.targets[0].limit)
            )
            place = slot if bank is self._base or bank is None else int(bank.take_slots(1)[0])
            if bank is None or not bank.put(place, session, means):
                raise misfit(state, "classes.moved", "is about a key whose models do not fit together")
            keys = bank.blocks.keys
            keys["known"][place], keys["learned"][place] = len(session.targets.labels), session.n_classes_learned
            for name, value in tally.counts().items():
                keys[name][place] = value
            bank.name_classes(place, session.targets)
            if bank is not self._base:
                self._banks.locate(slot, bank, place)


def _read_sets(text: str) -> list[tuple[Any, ...]]:
    """Return saved sets of classes; ValueError if they are not."""
    saved = [{"labels": json.dumps(labels), "closed": False, "limit": -1} for labels in json.loads(text)]
    return [ClassTargets.from_state(one).labels for one in saved]


FIELDS = Fields(
    {
        "classes.sets": Converted(_read_sets),
        "classes.of": Array(np.int64, ("n_keys",), least=0),
        "classes.learned": Array(np.uint8, ("n_keys",), most=MOST_OWN),
        "classes.moved": Array(np.int64, ("n_moved",), least=0),
    }
)
"""Saved entries of classes that are not named."""
