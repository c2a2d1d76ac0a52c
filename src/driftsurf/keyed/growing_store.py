"""A cell per key for classes that are not named: each key learns its own as they appear; a third needs a session."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.fields import Array, Converted, Fields, misfit
from driftsurf.core.frames import TargetLike
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import DivergenceError
from driftsurf.keyed.cell_store import CellStore, Work
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.labels import TWO, UNKNOWN, Coded, LabelSets
from driftsurf.keyed.layout import REASONS, Codes
from driftsurf.keyed.record import as_entries
from driftsurf.keyed.rows import ColumnMeans, Slots, by_slot
from driftsurf.keyed.session_store import SessionStore, SessionsWork, Tally, joined
from driftsurf.session.session import Session

_IN_LOOPS = -1


class GrowingWork:
    """The learning of one call: of keys in the loop, and of keys with a session each."""

    def __init__(
        self,
        compiled: Work | None,
        sessions: SessionsWork | None,
        rows: tuple[IntArray, IntArray],
        slots: Slots,
        sets: IntArray,
    ) -> None:
        self.compiled: Work | None = compiled
        self.sessions: SessionsWork | None = sessions
        self.rows = rows
        """The rows of either."""
        self.slots: Slots = slots
        self.sets: IntArray = sets
        """The slot of each row in the loop, and the set of the classes of its key at the end of the call."""
        self.transitions: npt.NDArray[Any] | None = None


class GrowingStore(CellStore):
    """One block of memory per key, as long as a key has two classes or fewer; a session for a key with more.

    Implements :class:`~driftsurf.keyed.cell_store.KeyStore`. The parameters are those of
    :class:`~driftsurf.keyed.cell_store.CellStore`.
    """

    growing = True

    def __init__(
        self, template: Session, n_features: int, threads: Threads, *, tolerant: bool, fills: bool = False
    ) -> None:
        assert isinstance(template.targets, ClassTargets)
        super().__init__(template, n_features, threads, tolerant=tolerant, fills=fills)
        self._others = SessionStore(template, n_features, tolerant=tolerant, fills=fills)
        self._owners: list[int] = []
        """The slot of each key that has a session."""
        self._sets = LabelSets(template.targets)
        self._set_of: IntArray = np.zeros(0, np.int64)
        """The set of the classes of each slot."""
        self._place: IntArray = np.zeros(0, np.int64)
        """The place among the sessions of each slot; -1 for one in the loop."""

    @property
    def bytes_per_key(self) -> int:
        """Mean of the bytes that a key takes."""
        return super().bytes_per_key + self._others.nbytes // max(1, self._n_keys)

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        return super().nbytes + self._others.nbytes

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing."""
        super().reserve(n_keys, weighted=weighted)
        n, known = len(self._blocks), len(self._set_of)
        if n > known:
            sets, places = np.zeros(n, np.int64), np.full(n, _IN_LOOPS)
            sets[:known], places[:known] = self._set_of, self._place
            self._set_of, self._place = sets, places

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        new = slice(self._n_keys, self._n_keys + len(seeds))
        self._set_of[new], self._place[new] = 0, _IN_LOOPS
        super().add(seeds)

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the labels as an array; each key reads its own."""
        return self._others.read_labels(y, n_rows)

    def prepare(
        self, rows: DenseRows, labels: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None = None
    ) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        InputError for a label that its key cannot learn, unless that puts the key in quarantine.
        """
        sets, codes, bad = self._read(labels, bad, slots)
        outgrown = np.unique(slots[(self._sets.sizes[sets] > TWO) & (self._place[slots] == _IN_LOOPS)])
        for slot in outgrown.tolist():
            self._move(slot)
        (own,) = np.nonzero(self._place[slots] == _IN_LOOPS)
        (rest,) = np.nonzero(self._place[slots] != _IN_LOOPS)
        compiled = others = None
        if len(own) or not len(rest):
            self._blocks.keys["total"][slots[own]] = self._sets.sizes[sets[own]]
            self._blocks.keys["against"][slots[own]] = self._sets.against[sets[own]]
            compiled = super().prepare(*_some(own, rows, codes, bad, slots, weight))
        if len(rest):
            others = self._others.prepare(*_some(rest, rows, labels, bad, self._place[slots].astype(np.int32), weight))
        return GrowingWork(compiled, others, (own, rest), slots[own], sets[own])

    def learn(self, work: Any) -> None:
        """Carry out prepared work; doing it again changes nothing."""
        if work.compiled is not None:
            work.compiled.carry_out(self._threads)
            self._set_of[work.slots] = work.sets
            failed = work.compiled.diverged
            for slot, known in zip(failed.tolist(), self._blocks.keys["known"][failed].tolist(), strict=True):
                self._set_of[slot] = self._sets.shortened(int(self._set_of[slot]), known)
            if len(failed):  # a key whose first rows failed knows no class, and so predicts none
                work.sets = np.where(self._set_of[work.slots] == 0, 0, work.sets)
        if work.sessions is not None:
            work.sessions.finish()
        if work.transitions is None:
            own = np.zeros(0) if work.compiled is None else work.compiled.transitions
            rest = [] if work.sessions is None else work.sessions.transitions
            work.transitions = as_entries(own, [(self._owners[place], one) for place, one in rest])
        self._record.add(work.transitions)

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet."""
        compiled, others = work.compiled, work.sessions
        if not ((compiled is not None and compiled.begun) or (others is not None and others.begun)):
            if others is not None:
                others.forget()
            return False
        self.learn(work)
        return True

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._place[n_keys:] = _IN_LOOPS
        super().truncate(n_keys)

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        super().readmit(slots)
        places = self._place[slots]
        self._others.readmit(places[places != _IN_LOOPS].astype(np.int32))

    def faults(self, work: GrowingWork) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        found: dict[int, Exception] = {}
        if work.compiled is not None:
            found |= {int(slot): DivergenceError("training diverged") for slot in work.compiled.diverged}
        if work.sessions is not None:
            failed = self._others.faults(work.sessions).items()
            found |= {self._owners[place]: error for place, error in failed}
        return found

    # -------------------------------------------------------------------- labels

    def _read(self, labels: npt.NDArray[Any], bad: Codes, slots: Slots) -> tuple[IntArray, npt.NDArray[Any], Codes]:
        """Return the set of each row's key at the end of the call, the code of each label in it, and all bad rows.

        The set of a key that has a session is not known here, and that of a key with too many classes may be any.
        """
        usable = self._usable(bad, slots)
        sets, coded = self._set_of[slots], self._sets.columns_of(labels)
        if coded is None or not self._of_one_kind(coded, sets):
            return self._read_one_by_one(labels, bad, slots, usable)
        columns = coded.columns[coded.place]
        new = usable & (self._sets.codes[sets, columns] == UNKNOWN)
        if new.any():
            sets = self._sets.grown(slots, sets, columns, new)
            limit = self._sets.targets[0].limit
            if limit is not None and (self._sets.sizes[sets] > limit).any():
                return self._read_one_by_one(labels, bad, slots, usable)
        codes = self._sets.codes[sets, columns]
        return sets, np.where(codes < 0, 0, codes).astype(np.uint8), bad

    def _usable(self, bad: Codes, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return which rows are learned, as far as that is known: not those of a key after its first bad row."""
        usable: npt.NDArray[np.bool_] = (self._blocks.keys["quarantine"][slots] == 0) & (
            self._place[slots] == _IN_LOOPS
        )
        if len(bad) and bad.any():
            first = np.full(self._n_keys, len(slots))
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
        touched, starts, order = by_slot(slots, self._n_keys)
        for place, slot in enumerate(touched.tolist()):
            own = order[starts[place] : starts[place + 1]]
            good = int(np.count_nonzero(usable[own]))  # the first ones
            if not good:
                continue
            known, y = self._sets.targets[int(self._set_of[slot])], labels[own]
            good_labels, reason = self._others.readable(known, y[:good], own, "")
            if good_labels < good:
                bad[own[good_labels]] = REASONS.index(reason)
            if good_labels:
                known, read = known.read(y[:good_labels], good_labels)
                sets[own] = self._sets.number_of(known)
                codes[own[:good_labels]] = read.astype(np.uint8) if len(known.labels) <= TWO else 0
        return sets, codes, bad if bad.any() else bad[:0]

    # -------------------------------------------------------------------- sessions

    def _move(self, slot: int) -> None:
        """Serve a key by a session from now on, with the same models: it has more classes than the loop take."""
        others, key = self._others, self._blocks.keys[slot]
        others.truncate(len(self._owners))  # what an exception may have left behind
        seed = self._blocks.counts["seed"][slot : slot + 1].copy()
        others.add(seed)
        if self._blocks.counts["next"][slot] + key["pending"] or key["known"]:
            others._sessions[-1].restore(self._session_state(slot))
        summary = {name: column.item() for name, column in self._summary(slice(slot, slot + 1)).items()}
        others._tallies[-1] = Tally(
            errors=float(key["errors"]),
            waiting_errors=float(key["waiting"]),
            refused=summary["refused"],
            models=max(1, summary["models"]),
            transitions=summary["transitions"],
            last_step=summary["last_step"],
            state=summary["state"],
            last_transition=summary["last_transition"],
            quarantine=summary["quarantine"],
        )
        if self._shape.filled:
            others._means[-1] = ColumnMeans(self._blocks.means[slot].copy())
        self._owners.append(slot)
        self._place[slot] = len(self._owners) - 1
        # The block is of no use any more, and is saved without rows.
        self._begin(np.array([slot]), seed)
        self._set_of[slot] = 0

    def _targets_of(self, slot: int) -> ClassTargets:
        return self._sets.targets[int(self._set_of[slot])]

    # -------------------------------------------------------------------- reading

    def predicted(self, work: GrowingWork) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        parts, places = list[npt.NDArray[Any]](), list[IntArray]()
        if work.compiled is not None:
            labels = self._decoded(work.sets, work.compiled.predicted)
            parts, places = [*parts, *labels], [*places, work.rows[0]]
        if work.sessions is not None:
            parts, places = [*parts, self._others.predicted(work.sessions)], [*places, work.rows[1]]
        return joined(parts, np.concatenate(places).astype(np.int32))

    def _decoded(self, sets: IntArray, codes: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the label of each code in its set, None in a set without classes, as arrays of few kinds."""
        used = np.flatnonzero(np.bincount(sets))
        arrays = [self._sets.targets[number].array for number in used.tolist()]
        arrays = [array if len(array) else np.full(1, None) for array in arrays]
        starts, lengths = np.zeros(len(self._sets.targets), np.int64), [len(array) for array in arrays]
        starts[used] = np.cumsum([0, *lengths[:-1]]) if lengths else 0
        return [joined(arrays, np.arange(sum(lengths), dtype=np.int32))[starts[sets] + codes]] if arrays else []

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        (own,) = np.nonzero(self._place[slots] == _IN_LOOPS)
        (rest,) = np.nonzero(self._place[slots] != _IN_LOOPS)
        parts = list[npt.NDArray[Any]]()
        if len(own) or not len(rest):
            parts += self._decoded(self._set_of[slots[own]], self._predicted_codes(rows[own], slots[own]))
        if len(rest):
            parts.append(self._others.predict(rows[rest], self._place[slots[rest]].astype(np.int32)))
        return joined(parts, np.concatenate([own, rest]).astype(np.int32))

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        place = int(self._place[slot])
        return super().weights(slot) if place == _IN_LOOPS else self._others.weights(place)

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        table, (moved,) = super().summary(), np.nonzero(self._place[: self._n_keys] != _IN_LOOPS)
        if len(moved):
            for name, column in self._others.summary().items():
                wide = np.promote_types(table[name].dtype, column.dtype)
                table[name] = table[name].astype(wide)
                table[name][moved] = column[self._place[moved]]
        return table

    def _labels_of(self, slot: int) -> tuple[Any, ...]:
        place = int(self._place[slot])
        targets = self._targets_of(slot) if place == _IN_LOOPS else self._others._sessions[place].targets
        return targets.labels

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key."""
        place = int(self._place[slot])
        return super().session(slot, fresh) if place == _IN_LOOPS else self._others.session(place, fresh)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        n, (moved,) = self._n_keys, np.nonzero(self._place[: self._n_keys] != _IN_LOOPS)
        used, place = np.unique(self._set_of[:n], return_inverse=True)
        state = super().state() | {
            "classes.sets": json.dumps([self._sets.targets[number].labels for number in used.tolist()]),
            "classes.of": place.reshape(-1).astype(np.int64),
            "classes.learned": self._blocks.keys["learned"][:n].copy(),
            "classes.moved": moved,
        }
        live = copy.copy(self._others)
        for name in ("_sessions", "_tallies", *(["_means"] if self._shape.filled else [])):
            setattr(live, name, [getattr(live, name)[place] for place in self._place[moved].tolist()])
        return state | nest("others", live.state())

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        known, rest = FIELDS.take(state, n_keys=len(seeds))
        sets, of, moved = known["classes.sets"], known["classes.of"], known["classes.moved"]
        sizes = np.array([len(labels) for labels in sets] or [0])
        for name, good in (
            ("classes.of", (of < len(sizes)).all()),
            ("classes.learned", (of < len(sizes)).all() and (known["classes.learned"] <= sizes[of]).all()),
            ("classes.moved", (moved < len(seeds)).all() and (np.diff(moved) > 0).all()),
        ):
            if not good:
                raise misfit(state, name, "contradicts the other entries about classes")
        empty = self._sets.targets[0]
        self._sets = LabelSets(empty)
        numbers = np.array([self._sets.number_of(ClassTargets(labels, limit=empty.limit)) for labels in sets] or [0])
        self._set_of, self._place = numbers[of], np.full(len(seeds), _IN_LOOPS)
        own = {name: value for name, value in rest.items() if not name.startswith("others.")}
        blocks = self._loaded(own, seeds)
        blocks.keys["known"], blocks.keys["learned"] = sizes[of], known["classes.learned"]
        blocks.keys["total"], blocks.keys["against"] = sizes[of], self._sets.against[self._set_of]
        self._take(blocks)
        fleet: State = {"fleet": ""}
        self._others.restore(fleet | pick("others", state), seeds[moved])
        self._owners, self._place[moved] = moved.tolist(), np.arange(len(moved))


def _some(
    chosen: IntArray, rows: DenseRows, labels: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None
) -> tuple[DenseRows, npt.NDArray[Any], Codes, Slots, FloatArray | None]:
    """Return some rows of a call; all of them as they are."""
    if len(chosen) == len(rows):
        return rows, labels, bad, slots, weight
    return (
        rows[chosen],
        labels[chosen],
        bad[chosen] if len(bad) else bad,
        slots[chosen],
        None if weight is None else weight[chosen],
    )


def _read_sets(text: str) -> list[tuple[Any, ...]]:
    """Return saved sets of at most two classes each; ValueError if they are not."""
    saved = [{"labels": json.dumps(labels), "closed": False, "limit": TWO} for labels in json.loads(text)]
    return [ClassTargets.from_state(one).labels for one in saved]


FIELDS = Fields(
    {
        "classes.sets": Converted(_read_sets),
        "classes.of": Array(np.int64, ("n_keys",), least=0),
        "classes.learned": Array(np.uint8, ("n_keys",), most=TWO),
        "classes.moved": Array(np.int64, ("n_moved",), least=0),
    }
)
"""Saved entries of classes that are not named."""
