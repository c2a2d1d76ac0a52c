"""Any strategy for all keys of a fleet: a session per key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import LinearPredictor, SinglePredictor
from driftsurf.core.contracts import DenseRows, FloatArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.fields import Entry, Fields, Text, misfit
from driftsurf.core.frames import unmasked
from driftsurf.core.journal import Journal
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import TargetLike
from driftsurf.errors import CapabilityError, InputError, Message, RowIndex, ShapeError
from driftsurf.keyed.gaps import ColumnMeans
from driftsurf.keyed.key_session import (
    TALLY_FIELDS,
    KeyResult,
    KeySession,
    Places,
    SessionsWork,
    Tally,
    WorkOfKey,
    joined,
    predicted_by,
    restored_tallies,
    tallies_state,
)
from driftsurf.keyed.key_store import MEANS, REASONS, Codes
from driftsurf.keyed.keys import Slots, by_slot
from driftsurf.keyed.quarantine import Reason, label_fault
from driftsurf.keyed.record import SessionsRecord
from driftsurf.session.session import Session

__all__ = ["SessionStore"]

_ALWAYS: dict[str, Entry] = {"fleet": Text(), **TALLY_FIELDS}
FIELDS = Fields(_ALWAYS, parts=["keys", "sessions"])
WITH_MEANS = Fields(_ALWAYS | {"means": MEANS}, parts=["keys", "sessions"])
"""Saved entries of a fleet of sessions, without and with the means that fill gaps; its keys are declared by their
index."""


class SessionStore:
    """One session per key, one key after the other.

    Implements :class:`~driftsurf.keyed.key_store.KeyStore`.

    Parameters
    ----------
    template
        What a key starts with; keys differ only in the seed. It has a ``batch_size``.
    n_features
        Columns of every row; None if they are not known yet, as long as there are no keys.
    tolerant
        Whether a label that cannot be learned puts its key in quarantine; if not, it is an error.
    fills
        Whether rows are float64 with NaN for gaps, which are filled with the means of their key.
    """

    def __init__(self, template: Session, n_features: int | None, *, tolerant: bool, fills: bool = False) -> None:
        targets = template.targets
        closed = isinstance(targets, ClassTargets) and targets.closed
        self._template = KeySession(
            template.strategy.fresh(0),
            classes=targets.labels if closed else None,
            batch_size=template.batch_size,
            guard=template.guard_factor,
            journal=Journal(limit=0),
        )
        self._n_features = n_features
        self._tolerant = tolerant
        self._fills = fills
        self._means: list[ColumnMeans] = []
        """Means of the columns by slot; empty if gaps are not filled."""
        self._sessions: list[KeySession] = []
        self._tallies: list[Tally] = []
        self._record = SessionsRecord()

    @property
    def bytes_per_key(self) -> int:
        """Mean size of the rows and models of a key."""
        return self.nbytes // max(1, len(self._sessions))

    @property
    def nbytes(self) -> int:
        """Size of the rows and models of all keys."""
        return sum(session.nbytes for session in self._sessions)

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Check that rows can have weights."""
        if weighted:
            self._template.check_weights()

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the sessions of new keys, in the next slots."""
        made = [self._template.fresh(seed) for seed in seeds.tolist()]
        self._tallies += [Tally()] * len(made)
        if self._fills:
            self._means += [ColumnMeans.empty(self._n_features or 0)] * len(made)
        self._sessions += made

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        del self._sessions[n_keys:], self._tallies[n_keys:], self._means[n_keys:]

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the labels as an array; each key reads its own."""
        given: Any = unmasked(y, "y")
        labels = np.asarray(given)
        if labels.dtype.kind == "U" and isinstance(given, list | tuple):
            labels = np.asarray(given, object)  # numpy would convert numbers among text to text
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.shape != (n_rows,):
            got = f"{len(labels)} labels" if labels.ndim == 1 else f"shape {labels.shape}"
            raise ShapeError(f"X has {n_rows} rows and y has {got}; pass one label for each row.")
        return labels, np.zeros(0, np.uint8)

    def prepare(
        self,
        rows: DenseRows,
        labels: npt.NDArray[Any],
        bad: Codes,
        slots: Slots,
        weight: FloatArray | None = None,
    ) -> SessionsWork:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        InputError for a label that its key cannot learn, unless that puts the key in quarantine.
        """
        return SessionsWork(list(self._prepared(rows, labels, bad, slots, weight)), self._publish)

    def _publish(self, slot: int, result: KeyResult) -> None:
        """Replace the counts and means of a key; doing it again changes nothing."""
        self._tallies[slot] = result.tally
        if result.means is not None:
            self._means[slot] = result.means

    def _prepared(
        self, rows: DenseRows, labels: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None
    ) -> Iterator[WorkOfKey]:
        touched, starts, order = by_slot(slots, len(self._sessions))
        for place, slot in enumerate(touched.tolist()):
            own = order[starts[place] : starts[place + 1]]
            session, before = self._sessions[slot], self._tallies[slot]
            good, reason = len(own), before.quarantine
            if reason:
                good = 0
            elif len(bad) and bad[own].any():
                good = int(np.argmax(bad[own] > 0))
                reason = REASONS[bad[own[good]]]
            y = labels[own]
            if good:
                good, reason = self.readable(session.targets, y[:good], own, reason)
            own_weight = None if weight is None else weight[own]
            start, given, means = session.rows_taken, rows[own], self._means[slot] if self._fills else None
            X = given if means is None else self._filled(means, given, good)
            yield WorkOfKey(slot, session, before, own, X, y, own_weight, good, reason, start, given, means)

    def _filled(self, means: ColumnMeans, given: DenseRows, good: int) -> DenseRows:
        """Return rows without gaps, as models take them; only the first ``good`` of them count in the means."""
        parts = means.filled(given[:good]), means.after(given[:good]).filled_alike(given[good:])
        with np.errstate(over="ignore"):
            return np.concatenate(parts).astype(self._template.strategy.dtype)

    def readable(
        self, known: ClassTargets | RegressionTargets, y: npt.NDArray[Any], places: Places, reason: Reason
    ) -> tuple[int, Reason]:
        """Return how many labels come before the first one that cannot be learned, and why it cannot.

        Without such a label the reason is the given one.
        """
        try:
            known.read(y, len(y))
        except InputError as error:
            if not self._tolerant:
                raise _at_its_place(error, places) from None
            for place in range(len(y)):
                try:
                    known, _ = known.read(y[place : place + 1], 1)
                except InputError as found:
                    return place, label_fault(found, found.value, [place]).reason
        return len(y), reason

    def learn(self, work: SessionsWork) -> None:
        """Carry out prepared work."""
        work.finish()
        self._record.add(work.transitions)

    def complete(self, work: SessionsWork) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet."""
        if not work.begun:
            work.forget()
            return False
        self.learn(work)
        return True

    def predicted(self, work: SessionsWork) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        return work.predicted

    def faults(self, work: SessionsWork) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        return {key.slot: key.fault[0] for key in work.keys if key.fault is not None}

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        for slot in slots.tolist():
            self._tallies[slot] = self._tallies[slot]._replace(quarantine="")

    # -------------------------------------------------------------------- reading

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label, or number, that the model of each row's key predicts."""
        touched, starts, order = by_slot(slots, len(self._sessions))
        parts = [
            predicted_by(self._sessions[slot], self._read(slot, rows[order[starts[place] : starts[place + 1]]]))
            for place, slot in enumerate(touched.tolist())
        ]
        return joined(parts, order)

    def _read(self, slot: int, rows: DenseRows) -> DenseRows:
        """Return rows to be predicted, without gaps."""
        return self._filled(self._means[slot], rows, 0) if self._fills else rows

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        strategy = self._sessions[slot].strategy
        predicting: Any = None
        if self._sessions[slot].schema is not None and isinstance(strategy, SinglePredictor):
            predicting = strategy.predicting
        if not isinstance(predicting, LinearPredictor):
            raise CapabilityError(
                f"the model {strategy!r} has no weights: no single linear model predicts. "
                "session(key) returns the whole model of a key."
            )
        coef: Any = np.asarray(predicting.coef)
        return np.concatenate([coef, np.asarray(predicting.intercept)[..., np.newaxis]], axis=-1)

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        tallies = self._tallies
        rows = np.array([session.rows_taken for session in self._sessions], np.int64)
        errors = np.array([tally.errors + tally.waiting_errors for tally in tallies], np.float64)
        return {
            "rows": rows,
            "steps": np.array([session.steps for session in self._sessions], np.int64),
            "state": np.array([tally.state for tally in tallies], "U8"),
            "error": np.divide(errors, rows, out=np.full(len(rows), np.nan), where=rows > 0),
            "models": np.array([tally.models for tally in tallies], np.int64),
            "transitions": np.array([tally.transitions for tally in tallies], np.int64),
            "last_transition": np.array([tally.last_transition for tally in tallies], "U8"),
            "last_step": np.array([tally.last_step for tally in tallies], np.int64),
            "refused": np.array([tally.refused for tally in tallies], np.int64),
            "quarantine": np.array([tally.quarantine for tally in tallies], "U16"),
        }

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        return self._record.table(keys)

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        return self._record.of_slot(slot)

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a copy of the session of one key."""
        return self._sessions[slot].separate()

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        state = nest("key", tallies_state(self._tallies))
        if self._fills:
            totals = [means.totals for means in self._means]
            state["means"] = np.array(totals).reshape(len(totals), 2, self._n_features or 0)
        for slot, session in enumerate(self._sessions):
            own = session.state()  # its arrays are views, valid until the next step
            copied = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in own.items()}
            state |= nest(f"sessions.{slot}", copied)
        return state

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all sessions by those of ``state()``; StateError if the entries do not fit together."""
        sizes = {"n_keys": len(seeds), "n_features": self._n_features or 0}
        known, saved = (WITH_MEANS if self._fills else FIELDS).read(state, **sizes), pick("sessions", state)
        if surplus := [name for name in saved if name.partition(".")[0] not in map(str, range(len(seeds)))]:
            raise misfit(saved, surplus[0], f"is for another key than the {len(seeds)} of the fleet")
        sessions = []
        for slot, seed in enumerate(seeds.tolist()):
            session, own = self._template.fresh(seed), pick(str(slot), saved)
            session.restore(own)
            schema = session.schema
            if schema is not None and (schema.sparse or schema.n_features != self._n_features):
                raise misfit(own, "schema.n_features", f"must be {self._n_features}, as for all keys")
            sessions.append(session)
        self._sessions, self._tallies = sessions, restored_tallies(known)
        self._means = [ColumnMeans(totals.copy()) for totals in known["means"]] if self._fills else []


def _at_its_place(error: InputError, places: Places) -> InputError:
    """Return the error of the labels of one key, with rows counted in the whole call."""

    def spell(part: object) -> object:
        return RowIndex(part.array, int(places[part.row])) if isinstance(part, RowIndex) else part

    message = error.args[0]
    text = message.respelled(spell) if isinstance(message, Message) else message
    row = None if error.row is None else int(places[error.row])
    return type(error)(text, row=row, column=error.column, value=error.value, reason=error.reason)
