"""The session of one key of a fleet, its counts, and the learning of one call, key by key: completely or not at all."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, Rows, State
from driftsurf.core.decisions import Decision, StateName, Transition, TransitionKind
from driftsurf.core.fields import Array, Entry
from driftsurf.core.input import Schema
from driftsurf.core.journal import Journal
from driftsurf.core.samples import Samples
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import DivergenceError
from driftsurf.keyed.gaps import ColumnMeans
from driftsurf.keyed.quarantine import Reason
from driftsurf.keyed.summary import next_state
from driftsurf.session.session import Session
from driftsurf.session.snapshot import Snapshot

__all__ = [
    "TALLY_FIELDS",
    "KeyResult",
    "KeySession",
    "Places",
    "SessionsWork",
    "TakenPart",
    "Tally",
    "WorkOfKey",
    "joined",
    "predicted_by",
    "restored_tallies",
    "tallies_state",
]

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

    def _has_room(self, pending: Samples, count: int) -> bool:
        return False  # every part goes through ``_learned``, which notes it

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
TALLY_FIELDS: dict[str, Entry] = {
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
