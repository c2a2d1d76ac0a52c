"""Stores of the models of keys: their protocol, and one with a cell for each key, served by one native loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.frames import TargetLike, unmasked
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import DivergenceError, InputError
from driftsurf.keyed.bank import Bank, Banks
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.layout import REASONS, Codes
from driftsurf.keyed.record import TransitionRecord
from driftsurf.keyed.rows import Slots, by_slot
from driftsurf.keyed.work import Batch, Work
from driftsurf.session.session import Session


class KeyStore(Protocol):
    """The models of all keys of a fleet. A key is known by its slot: 0, 1, 2 ... in order of appearance.

    :class:`~driftsurf.keyed.Fleet` reads rows and finds slots; a backend reads labels, predicts and learns. There are
    three: :class:`~driftsurf.keyed.cell_store.CellStore` serves DriftSurf around a linear learner in one native loop,
    :class:`~driftsurf.keyed.growing_store.GrowingStore` the same with classes that are not named, and
    :class:`~driftsurf.keyed.session_store.SessionStore` any model.
    """

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        ...

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        With ``weighted``, the rows that follow have weights.
        """
        ...

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        ...

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        ...

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[Any, Codes]:
        """Return labels as ``prepare`` takes them, and the reason why each cannot be learned, by code.

        The reasons are empty if there are none, or if ``prepare`` will find them.
        """
        ...

    def prepare(self, rows: DenseRows, labels: Any, bad: Codes, slots: Slots, weight: FloatArray | None = None) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        ``bad`` holds the reason why a row cannot be learned, 0 if it can; it is empty if all rows can. Returns the
        work, for ``learn``; nothing changes before. An error changes nothing.
        """
        ...

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        ...

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet.

        If this is broken off, calling it again completes it; on complete work it does nothing.
        """
        ...

    def predicted(self, work: Any) -> npt.NDArray[Any]:
        """Return the predicted label of each row of complete work."""
        ...

    def faults(self, work: Any) -> dict[int, Exception]:
        """Return why time steps of complete work failed, by slot; these keys are in quarantine."""
        ...

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label, or number, that the model of each row's key predicts."""
        ...

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last."""
        ...

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        ...

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        ...

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        ...

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        ...

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key.

        ``fresh`` is the session that this key began with; a backend may change and return it.
        """
        ...

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        ...

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``."""
        ...


class CellStore:
    """A cell for each key, served by a native loop on several threads, for a closed set of labels or for numbers.

    Implements :class:`~driftsurf.keyed.cell_store.KeyStore`.

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
        batch = Batch(rows, codes, weight, bad if len(bad) else None, True, predicted, None)
        return Work(self._banks, touched, starts, order, batch, self._threads, None)

    def _copied(self, rows: DenseRows) -> DenseRows:
        """Return a copy of rows, which several threads make."""
        made = np.empty_like(rows)
        self._threads.map(lambda part: np.copyto(made[part], rows[part]), self._threads.parts(len(rows)))
        return made

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        work.carry_out()
        self._record.add(work.transitions)

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

    def _use(self, blocks: Any) -> None:
        """Replace the cells of the first bank."""
        self._base.use(blocks)
        self._base.count = len(blocks)
        self._banks.reserve(len(blocks))
        self._base.complete(blocks)
