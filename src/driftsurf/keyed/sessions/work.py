"""The learning of one call of a fleet of sessions, key by key: completely or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray
from driftsurf.core.decisions import Transition
from driftsurf.core.targets import RegressionTargets
from driftsurf.errors import DivergenceError
from driftsurf.keyed.gaps import ColumnMeans
from driftsurf.keyed.quarantine import Reason
from driftsurf.keyed.sessions.session import KeySession, TakenPart
from driftsurf.keyed.sessions.tally import Tally

__all__ = ["KeyResult", "Places", "SessionsWork", "WorkOfKey", "joined", "predicted_by"]

Places = npt.NDArray[np.int32]
"""Numbers of rows in a call."""


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
