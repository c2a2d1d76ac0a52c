"""A session per key of a fleet, for models that no cell holds: its counts, and the learning of one call, key by key."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import LinearPredictor, SinglePredictor
from driftsurf.core.contracts import DenseRows, FloatArray, Rows, State
from driftsurf.core.decisions import Decision, StateName, Transition, TransitionKind
from driftsurf.core.fields import Array, FieldEntry, Fields, Text, misfit
from driftsurf.core.frames import TargetLike, unmasked
from driftsurf.core.input import Schema
from driftsurf.core.journal import Journal
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import CapabilityError, DivergenceError, InputError, Message, RowIndex, ShapeError
from driftsurf.keyed.layout import MEANS, REASONS, Codes
from driftsurf.keyed.quarantine import Reason, label_fault
from driftsurf.keyed.record import SessionsRecord
from driftsurf.keyed.results import next_state
from driftsurf.keyed.rows import ColumnMeans, Slots, by_slot
from driftsurf.session.session import Session
from driftsurf.session.snapshot import Snapshot
from driftsurf.strategies._cell_arrays import KINDS

Places = npt.NDArray[np.int32]
"""Numbers of rows in a call."""


class TakenPart(NamedTuple):
    """The result for rows that came in one call and are in one time step."""

    codes: FloatArray
    """The true labels by code, or numbers."""
    known: ClassTargets | RegressionTargets
    scores: FloatArray
    decisions: tuple[Decision, ...]


class KeySession(Session):
    """The session of one key, which records no journal.

    It notes the result for each part of a call before the part is published. If an exception comes right after that,
    ``rows_taken`` tells how many rows the session has, and ``parts`` holds the results for all of them.
    """

    _notes_parts = True
    parts: list[TakenPart] | None = None
    """Results since the list was set; None if nobody asks for them."""

    def fresh(self, seed: int) -> Self:
        """Return a session with the same options that has seen no row, and whose strategy has another seed."""
        made = super().fresh(seed)
        made.journal = self.journal  # which keeps nothing
        return made

    @property
    def rows_taken(self) -> int:
        """Rows of complete time steps, and rows in the buffer."""
        now, pending = self.standing()
        assert self.batch_size is not None
        return now.steps * self.batch_size + pending

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        if self.schema is None:
            return 0
        return self.strategy.nbytes + (0 if self._pending is None else self._pending.nbytes)

    def check_weights(self) -> None:
        """Raise CapabilityError if rows cannot have weights."""
        self._check_capabilities(Schema(1), True)

    def take(self, X: Any, y: Any, weight: FloatArray | None) -> None:
        """Predict and learn rows; the results go to ``parts``."""
        with self.lock:
            self._take(X, y, None, weight, predict=True)

    def _learned(self, X: Rows, y: FloatArray, *rest: Any) -> tuple[Snapshot, Any]:
        now, result = super()._learned(X, y, *rest)
        if self.parts is not None:
            known, scores, outcome = result
            assert scores is not None  # ``take`` asks for them
            decisions = () if outcome is None else (outcome.decision().named(now.targets.labels),)
            self.parts.append(TakenPart(y, known, scores, decisions))
        return now, result

    def take_back_pending(self) -> None:
        """Empty the buffer as if its rows had never come; on an empty buffer this does nothing."""

        def step(pending: Samples) -> tuple[Snapshot, None]:
            pending.truncate(pending.first_row)
            return self._now, None

        with self.lock:
            if self._pending is not None:
                self._change(step, self._pending)

    def separate(self) -> Session:
        """Return a copy that is an ordinary session, with a journal."""
        made = Session.__new__(Session)
        with self.lock:
            self.settle()
            own = {name: value for name, value in self._entries().items() if name not in ("parts", "journal")}
            vars(made).update(copy.deepcopy(own))
        made.journal = Journal()
        return made


# ---------------------------------------------------------------------------- counts

CODED: dict[str, tuple[str, ...]] = {
    "state": get_args(StateName),
    "last_transition": ("", *get_args(TransitionKind)),
    "quarantine": get_args(Reason),
}
"""Texts, which are saved by their place here."""


class Tally(NamedTuple):
    """Counts of one key, beside those of its session. A new one replaces it."""

    errors: float = 0.0
    """Errors of the rows of complete time steps: wrong predictions, or absolute errors of numbers."""
    waiting_errors: float = 0.0
    """Errors of the rows in the buffer, which are taken back if their time step fails."""
    refused: int = 0
    models: int = 1
    """Number of models made so far."""
    transitions: int = 0
    last_step: int = -1
    state: str = "stable"
    last_transition: str = ""
    quarantine: Reason = ""

    def counts(self) -> dict[str, float]:
        """Return the counts as they are counted of a cell."""
        reason = self.quarantine if self.quarantine in REASONS else "diverged"
        return {
            "errors": self.errors,
            "waiting": self.waiting_errors,
            "refused": self.refused,
            "transitions": self.transitions,
            "last_step": max(0, self.last_step),
            "last_kind": 1 + KINDS.index(self.last_transition) if self.last_transition else 0,
            "quarantine": REASONS.index(reason),
        }

    def after(self, part: TakenPart) -> Tally:
        """Return the counts after rows were taken."""
        waiting = self.waiting_errors
        for error in _errors(part):  # one by one, so that rounding does not depend on calls
            waiting += error
        made = self._replace(waiting_errors=waiting)
        for decision in part.decisions:
            made = made._decided(decision)
        return made

    def _decided(self, decision: Decision) -> Tally:
        """Return the counts after a time step."""
        changes = decision.transitions
        models = (*decision.models, *decision.others)
        made = [model.id for model in models] + [one.new for one in changes] + [decision.predicts_next]
        return self._replace(
            errors=self.errors + self.waiting_errors,
            waiting_errors=0.0,
            models=max(self.models, 1 + max(made)),
            state=next_state(decision),
            transitions=self.transitions + len(changes),
            last_transition=changes[-1].kind if changes else self.last_transition,
            last_step=changes[-1].step if changes else self.last_step,
        )


def _errors(part: TakenPart) -> list[float]:
    """Return the error of each row."""
    predicted = part.known.predicted(part.scores)
    numbers = predicted.dtype.kind == "f"
    errors: list[float] = (np.abs(predicted - part.codes) if numbers else predicted != part.codes).tolist()
    return errors


def tallies_state(tallies: Sequence[Tally]) -> State:
    """Return the counts of all keys as arrays."""
    columns = {name: [getattr(tally, name) for tally in tallies] for name in Tally._fields}
    for name, texts in CODED.items():
        columns[name] = [texts.index(text) for text in columns[name]]
    kinds = {name: np.float64 if name.endswith("errors") else np.int64 for name in columns}
    return {name: np.array(column, kinds[name]) for name, column in columns.items()}


def restored_tallies(known: Mapping[str, Any]) -> list[Tally]:
    """Return the counts that were saved, by slot."""
    columns = {name: known[f"key.{name}"].tolist() for name in Tally._fields}
    for name, texts in CODED.items():
        columns[name] = [texts[code] for code in columns[name]]
    return [Tally(*values) for values in zip(*columns.values(), strict=True)]


_COUNT = Array(np.int64, ("n_keys",), least=0, most=2**40)
_ERRORS = Array(np.float64, ("n_keys",), least=0)
TALLY_FIELDS: dict[str, FieldEntry] = {
    "key.errors": _ERRORS,
    "key.waiting_errors": _ERRORS,
    "key.refused": _COUNT,
    "key.models": Array(np.int64, ("n_keys",), least=1, most=2**40),
    "key.transitions": _COUNT,
    "key.last_step": Array(np.int64, ("n_keys",), least=-1, most=2**40),
    **{f"key.{name}": Array(np.int64, ("n_keys",), least=0, most=len(texts) - 1) for name, texts in CODED.items()},
}
"""Saved counts of the keys of a fleet."""


# ---------------------------------------------------------------------------- the rows of a call


class KeyResult(NamedTuple):
    """Predictions, counts and transitions from the rows of one key in a call."""

    labels: list[npt.NDArray[Any]]
    tally: Tally
    transitions: list[Transition]
    means: ColumnMeans | None


@dataclass(eq=False)
class WorkOfKey:
    """The rows of one key in a call."""

    slot: int
    session: KeySession
    before: Tally
    places: Places
    """Where the rows are in the call."""
    X: DenseRows
    """The rows, with gaps filled as they come up to the first bad row, and alike from there on."""
    y: npt.NDArray[Any]
    weight: FloatArray | None
    good: int
    """How many rows come before the first one that cannot be learned."""
    reason: Reason
    """Why the row after the good ones cannot be learned."""
    start: int
    """How many rows the session had."""
    given: DenseRows
    """The rows with gaps."""
    means: ColumnMeans | None
    """The means of the columns before these rows; None if gaps are not filled."""
    fault: tuple[Exception, int] | None = None
    """Why a time step failed, and how many rows of the call had been taken then."""
    result: KeyResult | None = None

    @property
    def taken(self) -> int:
        """How many rows of the call the session has taken."""
        return self.session.rows_taken - self.start if self.fault is None else self.fault[1]

    @property
    def begun(self) -> bool:
        """Whether anything has changed."""
        return self.result is not None or self.session.rows_taken != self.start

    def learn(self) -> None:
        """Learn the rows that are not learned yet.

        A time step that fails twice is the fault of its rows, unless memory is lacking. An exception that does not come
        again has come from outside, such as from a signal handler; it is raised once the rows are learned.
        """
        session, outside, where = self.session, None, -1
        while self.fault is None and (done := self.taken) < self.good:
            part, session.parts = slice(done, self.good), self._noted(done)
            try:
                session.take(self.X[part], self.y[part], None if self.weight is None else self.weight[part])
            except DivergenceError as error:
                self.fault = error, self.taken
            except Exception as error:
                now = self.taken
                if outside is not None and where == now:
                    if isinstance(error, MemoryError):
                        raise  # no row is at fault: the work is completed once there is memory again
                    outside, self.fault = None, (error, now)
                else:
                    outside, where = error, now
        if self.fault is not None:
            session.take_back_pending()  # one of these rows may be why the step failed
        if outside is not None:
            raise outside

    def _noted(self, taken: int) -> list[TakenPart]:
        """Return the results for the rows that were taken, without one that was noted but not published."""
        found, rows = list[TakenPart](), 0
        for part in self.session.parts or ():
            if rows == taken:
                break
            rows += len(part.codes)
            found.append(part)
        return found

    def settle(self) -> KeyResult:
        """Return the result, once all rows are learned; calling it again returns the same."""
        if self.result is None:
            self.result = self._worked_out()
        self.session.parts = None
        return self.result

    def _worked_out(self) -> KeyResult:
        taken, tally = self.taken, self.before
        labels, transitions = list[npt.NDArray[Any]](), list[Transition]()
        for part in self._noted(taken):
            tally = tally.after(part)
            labels.append(part.known.decode(part.known.predicted(part.scores)))
            transitions += [one for decision in part.decisions for one in decision.transitions]
        counted = self._counted(taken)
        means = None if self.means is None else self.means.after(self.given[:counted])
        if taken < len(self.places):
            labels.append(predicted_by(self.session, self.X[taken:counted]))
            rest = self.X[counted:] if means is None else means.filled_alike(self.given[counted:])
            labels.append(predicted_by(self.session, rest.astype(self.X.dtype, copy=False)))
        refused, reason = len(self.places) - taken, self.reason
        if self.fault is not None:
            assert self.session.batch_size is not None
            refused += (self.start + taken) % self.session.batch_size
            reason = "diverged" if isinstance(self.fault[0], DivergenceError) else "error"
            tally = tally._replace(waiting_errors=0.0)
        tally = tally._replace(refused=tally.refused + refused, quarantine=tally.quarantine or reason)
        return KeyResult(labels, tally, transitions, means)

    def _counted(self, taken: int) -> int:
        """Return how many rows of the call count in the means: those of a time step that failed do."""
        if self.fault is None:
            return taken
        assert self.session.batch_size is not None
        return taken + self.session.batch_size - (self.start + taken) % self.session.batch_size


class SessionsWork:
    """The learning of one call, key by key.

    A session takes a time step completely or not at all, and its rows tell how far it is. So if an exception breaks the
    work off, ``finish`` completes it.
    """

    def __init__(self, keys: list[WorkOfKey], publish: Callable[[int, KeyResult], None]) -> None:
        self.keys = keys
        self._publish = publish

    def finish(self) -> None:
        """Learn all rows that are not learned yet; if this is broken off, calling it again completes it."""
        for key in self.keys:
            if key.result is None:
                key.learn()
            self._publish(key.slot, key.settle())

    @property
    def begun(self) -> bool:
        """Whether any key has changed."""
        return any(key.begun for key in self.keys)

    def forget(self) -> None:
        """Drop notes of work that has not begun."""
        for key in self.keys:
            key.session.parts = None

    @functools.cached_property
    def transitions(self) -> list[tuple[int, Transition]]:
        """The slot of each transition, and the transition; the same object each time."""
        return [(key.slot, one) for key in self.keys for one in key.settle().transitions]

    @property
    def predicted(self) -> npt.NDArray[Any]:
        """The predicted label of each row."""
        labels = [part for key in self.keys for part in key.settle().labels]
        return joined(labels, np.concatenate([key.places for key in self.keys]))


def joined(parts: list[npt.NDArray[Any]], places: Places) -> npt.NDArray[Any]:
    """Put the labels of each key in their places; numbers and text together become objects."""
    kinds = {part.dtype.kind for part in parts}
    mixed = len(kinds) > 1 and ("U" in kinds or "O" in kinds)
    labels: npt.NDArray[Any] = np.concatenate([part.astype(object) for part in parts] if mixed else parts)
    placed = np.empty_like(labels)
    placed[places] = labels
    return placed


def predicted_by(session: KeySession, X: DenseRows) -> npt.NDArray[Any]:
    """Return the predictions of a session for rows that are not learned.

    A row with a value that is not finite is predicted as the first class, as every row is before the first one was
    taken; in a regression as NaN. Without any class, the prediction is None.
    """
    targets, good = session.targets, np.isfinite(X).all(axis=1)
    if isinstance(targets, RegressionTargets):
        labels: npt.NDArray[Any] = np.where(good, 0.0, np.nan)
    elif targets.labels:
        labels = np.repeat(targets.array[:1], len(X))
    else:
        labels = np.full(len(X), None)
    if session.schema is not None and good.any():
        labels[good] = session.predict(X[good])
    return labels


def labels_of_rows(y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
    """Return the labels as an array; reasons why any is bad are found later."""
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


def readable(
    known: ClassTargets | RegressionTargets, y: npt.NDArray[Any], places: Places, reason: Reason, *, tolerant: bool
) -> tuple[int, Reason]:
    """Return how many labels come before the first one that cannot be learned, and why it cannot.

    Without such a label the reason is the given one; unless ``tolerant``, it is an error.
    """
    try:
        known.read(y, len(y))
    except InputError as error:
        if not tolerant:
            raise _at_its_place(error, places) from None
        for place in range(len(y)):
            try:
                known, _ = known.read(y[place : place + 1], 1)
            except InputError as found:
                return place, label_fault(found, found.value, [place]).reason
    return len(y), reason


_ALWAYS: dict[str, FieldEntry] = {"fleet": Text(), **TALLY_FIELDS}
FIELDS = Fields(_ALWAYS, parts=["keys", "sessions"])
WITH_MEANS = Fields(_ALWAYS | {"means": MEANS}, parts=["keys", "sessions"])
"""Saved entries of a fleet of sessions, without and with the means that fill gaps; its keys are declared by their
index."""


class SessionStore:
    """One session per key, one key after the other.

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
        return labels_of_rows(y, n_rows)

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
                good, reason = readable(session.targets, y[:good], own, reason, tolerant=self._tolerant)
            own_weight = None if weight is None else weight[own]
            start, given, means = session.rows_taken, rows[own], self._means[slot] if self._fills else None
            X = given if means is None else self._filled(means, given, good)
            yield WorkOfKey(slot, session, before, own, X, y, own_weight, good, reason, start, given, means)

    def _filled(self, means: ColumnMeans, given: DenseRows, good: int) -> DenseRows:
        """Return rows without gaps, as models take them; only the first ``good`` of them count in the means."""
        parts = means.filled(given[:good]), means.after(given[:good]).filled_alike(given[good:])
        with np.errstate(over="ignore"):
            return np.concatenate(parts).astype(self._template.strategy.dtype)

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

    def with_counts(self) -> Iterator[tuple[KeySession, Tally, ColumnMeans | None]]:
        """Yield session, counts and means of each key."""
        for slot, session in enumerate(self._sessions):
            yield session, self._tallies[slot], self._means[slot] if self._fills else None

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
