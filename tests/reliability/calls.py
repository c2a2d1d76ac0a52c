"""Calls that must be complete or undone, whatever exception breaks them off, for the proofs about exceptions."""

from __future__ import annotations

import contextlib
import copy
import functools
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import driftsurf
from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.core.contracts import State
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.keyed import KeyedLearner, KeyRows
from driftsurf.keyed import keys as keyed_keys
from driftsurf.keyed.store import EpochProgress, StateStore
from driftsurf.learners import LinearSVM, LogisticRegression, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, Candor, DriftSurf, Portfolio

PATIENCE = 60.0
"""Seconds to wait for a lock."""
RNG = np.random.default_rng(5)
X = RNG.normal(size=(600, 3))
Y = np.where(np.arange(600) < 300, X[:, 0] > 0, X[:, 0] <= 0).astype(int)
SPARSE = csr_array(X * (RNG.random(X.shape) < 0.4))


@dataclass(frozen=True)
class Call:
    """A call that changes, saves or restores something."""

    make: Callable[[], Any]
    """Returns what is called, the same each time."""
    call: Callable[[Any], Any]
    look: Callable[[Any], bytes]
    """Returns everything that the call may change."""
    elsewhere: bool = True
    """Whether another thread may look."""

    def looked(self, subject: Any) -> bytes | None:
        """Return what another thread sees; None if it waits for ever, for a lock that nobody releases."""
        if not self.elsewhere:
            return self.look(subject)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(self.look(subject)), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        return found[0] if found else None


# ---------------------------------------------------------------------------- sessions


def learned(rows: Any, strategy: Any = None, **options: Any) -> Session:
    """Return a session that has learned four batches and is in a reactive state."""
    one = Session(strategy or DriftSurf(LogisticRegression(), max_rows=150), **options)
    for start in range(0, 400, 100):
        one.learn(rows[start : start + 100], Y[start : start + 100])
    return one


def compiled() -> Session:
    """Return a session that takes native steps, the next of which moves the rows to the front of their arrays."""
    one = Session(DriftSurf(LogisticRegression(), max_rows=50, seed=1))
    for start in range(0, 140, 20):
        one.learn(X[start : start + 20], Y[start : start + 20])
    return one


def softmax() -> Session:
    """Return a session for which the class 2 is new."""
    one = Session(DriftSurf(SoftmaxRegression()))
    one.learn(X[:100], Y[:100])
    return one


@functools.cache
def _other() -> State:
    """Return the state of another session."""
    return learned(X[200:]).state()


def portfolio(rows: int) -> Session:
    """Return a session with a portfolio that has learned rows one at a time."""
    experts = [DriftSurf(SoftmaxRegression()), SoftmaxRegression(), Perceptron(hidden=4), NaiveBayes()]
    one = Session(Portfolio(SoftmaxRegression(), experts=experts))
    for row in range(rows):
        one.learn(X[row : row + 1], Y[row : row + 1], classes=[0, 1])
    return one


def bytes_of(one: Session) -> bytes:
    """Return the whole state, as of one step."""
    with one.lock:
        return to_bytes(one.state())


def _copies(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that makes the same object again, as a copy, which is cheaper."""
    made = functools.cache(make)
    return lambda: copy.deepcopy(made())


def _session(make: Callable[[], Session], call: Callable[[Session], Any]) -> Call:
    return Call(_copies(make), call, bytes_of)


SESSIONS: dict[str, Call] = {
    "observe": _session(lambda: learned(X), lambda one: one.observe(X[400:500], Y[400:500])),
    # Not from a copy, whose next step would be its first compiled one.
    "compiled": Call(compiled, lambda one: one.observe(X[440:460], Y[440:460]), bytes_of),
    "compiled reset": Call(compiled, lambda one: one.reset("asked for"), bytes_of),
    "compiled new class": Call(compiled, lambda one: one.learn(X[440:460], Y[440:460] * 2), bytes_of),
    "first": _session(lambda: Session(DriftSurf(LogisticRegression())), lambda one: one.observe(X[:100], Y[:100])),
    "sparse": _session(lambda: learned(SPARSE), lambda one: one.learn(SPARSE[400:500], Y[400:500])),
    "ensemble": _session(
        lambda: learned(X, AUE(LogisticRegression(), experts=3)), lambda one: one.learn(X[400:500], Y[400:500])
    ),
    "experts that have learned": _session(
        lambda: learned(X, Candor(LogisticRegression(), experts=3)), lambda one: one.observe(X[400:500], Y[400:500])
    ),
    "new class": _session(softmax, lambda one: one.learn(X[100:200], Y[100:200] * 2)),
    "one call": _session(lambda: learned(X), lambda one: one.learn(X[400:420], Y[400:420], decided=False)),
    "one call, predicted": _session(lambda: learned(X), lambda one: one.observe(X[400:420], Y[400:420], decided=False)),
    "a row of a portfolio": _session(lambda: portfolio(65), lambda one: one.observe(X[65:66], Y[65:66], decided=False)),
    "gathered rows of a portfolio": _session(lambda: portfolio(95), lambda one: one.learn(X[95:96], Y[95:96])),
    "one row": _session(lambda: learned(X, batch_size=90), lambda one: one.learn(X[400:401], Y[400:401])),
    "buffer": _session(lambda: learned(X, batch_size=90), lambda one: one.observe(X[400:430], Y[400:430])),
    "flush": _session(lambda: learned(X, batch_size=90), lambda one: one.flush()),
    "drop": _session(lambda: learned(X, batch_size=90), lambda one: one.drop_pending()),
    "reset": _session(lambda: learned(X), lambda one: one.reset("asked for")),
    "restore": _session(lambda: learned(X), lambda one: one.restore(_other())),
    "save": _session(lambda: learned(X), lambda one: one.state()),
}

# ---------------------------------------------------------------------------- late labels


def delayed(rows: Any = X, **options: Any) -> DelayedLabels:
    """Return rows that wait for their labels, labels that wait for their rows, and a model that has learned some."""
    session = Session(DriftSurf(LogisticRegression(), max_rows=150), batch_size=90)
    one = DelayedLabels(session, max_pending=60, **options)
    one.label([410, 411, 412], Y[410:413], time=0.0)
    for start in range(0, 400, 50):
        one.predict(range(start, start + 50), rows[start : start + 50], time=float(start))
        own = [key for key in range(start + 49, start - 1, -1) if key % 7]
        one.label(own, Y[own], time=float(start))
    return one


def _late(call: Callable[[DelayedLabels], Any], rows: Any = X, **options: Any) -> Call:
    return Call(_copies(lambda: delayed(rows, **options)), call, lambda one: to_bytes(one.state()))


def _with_ready() -> DelayedLabels:
    """Return late labels of which some came before their rows, which are not learned yet."""
    one = delayed()
    one.predict(range(400, 440), X[400:440], time=400.0)
    return one


@functools.cache
def _saved_late() -> State:
    return from_bytes(to_bytes(_with_ready().state()))


NEXT = [364, *range(371, 399, 7), 411, 500, 501, 364, 1]
"""Keys of rows that wait, twice, of rows that have not come, and of one that was learned."""
LATE: dict[str, Call] = {
    "late rows": _late(lambda one: one.predict(range(390, 415), X[390:415], time=400.0)),
    "late rows that are sparse": _late(lambda one: one.predict(range(390, 415), SPARSE[390:415]), SPARSE),
    "late rows beyond the limit": _late(lambda one: one.predict(range(380, 445), X[380:445], time=400.0), timeout=30.0),
    "first late rows": Call(
        lambda: DelayedLabels(Session(DriftSurf(LogisticRegression()))),
        lambda one: one.predict(range(20), X[:20]),
        lambda one: to_bytes(one.state()),
    ),
    "late labels": _late(lambda one: one.label(NEXT, Y[NEXT], time=401.0)),
    "late labels and time": _late(lambda one: one.label(NEXT, Y[NEXT], time=375.0), timeout=20.0),
    "late labels that fill a step": Call(
        _copies(_with_ready),
        lambda one: one.label(range(413, 428), Y[413:428], time=401.0),
        lambda one: to_bytes(one.state()),
    ),
    "labels held for later": _late(lambda one: one.label(range(500, 570), Y[500:570])),
    "restore late labels": _late(lambda one: one.restore(_saved_late())),
    "save late labels": _late(lambda one: one.state()),
}

# ---------------------------------------------------------------------------- estimators


def _fitted() -> DriftSurfClassifier:
    model = DriftSurfClassifier(max_rows=150, random_state=1)
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100], Y[start : start + 100])
    return model


class Saved:
    """A model, and a file in which an earlier one is saved."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="driftsurf")
        weakref.finalize(self, folder.cleanup)
        self.path = Path(folder.name) / "model.state"
        self.model = _fitted()
        self.model.save(self.path)
        self.model.partial_fit(X[400:500], Y[400:500])

    def look(self) -> bytes:
        """Return what is saved now, and the model."""
        found: Any = driftsurf.load(self.path)
        return bytes(found.to_bytes() + self.model.to_bytes())


def _bytes_or_nothing(model: DriftSurfClassifier) -> bytes:
    return model.to_bytes() if model.__sklearn_is_fitted__() else b""


ESTIMATORS: dict[str, Call] = {
    "partial_fit": Call(
        _copies(_fitted), lambda model: model.partial_fit(X[400:500], Y[400:500]), lambda model: model.to_bytes()
    ),
    "first partial_fit": Call(
        lambda: DriftSurfClassifier(random_state=1),
        lambda model: model.partial_fit(X[:100], Y[:100]),
        _bytes_or_nothing,
    ),
    "test_then_train": Call(
        _copies(_fitted), lambda model: model.test_then_train(X[400:500], Y[400:500]), lambda model: model.to_bytes()
    ),
    "model file": Call(Saved, lambda one: one.model.save(one.path), Saved.look),
}

# ---------------------------------------------------------------------------- fleets

KEYS = np.arange(600) * 7 % 90
TEXTS = np.array([f"key {key}" for key in KEYS], object)


def _fleet(keys: Any = None, **options: Any) -> Fleet:
    """Return a fleet that has learned the first 300 rows, which are of fewer keys than there is room for."""
    fleet = Fleet(n_features=3, step_size=0.2, batch_size=4, max_rows=12, threshold=0.05, seed=2, **options)
    if keys is not None:
        fleet.observe(keys[:300], X[:300], Y[:300])
    return fleet


def _sessions(keys: Any = None, **options: Any) -> Fleet:
    """Return a fleet of sessions that has learned the first 300 rows."""
    model = DriftSurfClassifier(LinearSVM(), max_rows=12, threshold=0.05)
    fleet = Fleet(model, batch_size=4, seed=2, **options)
    if keys is not None:
        fleet.observe(keys[:300], X[:300], Y[:300])
    return fleet


def _fleet_bytes(fleet: Fleet) -> bytes:
    record = b"".join(np.asarray(column).astype(str).tobytes() for column in fleet.transitions().values())
    return fleet.to_bytes() + record


def _on_threads(fleet: Fleet) -> Any:
    """Let a fleet learn few rows on three threads."""
    usual, keyed_keys.ROWS_PER_THREAD = keyed_keys.ROWS_PER_THREAD, 50
    try:
        return fleet.observe(KEYS[300:], X[300:], Y[300:])
    finally:
        keyed_keys.ROWS_PER_THREAD = usual


def _in_quarantine() -> Fleet:
    fleet = _fleet(KEYS % 20, on_bad="quarantine")
    fleet.observe([1, 2, 3], [[np.nan] * 3] * 3, [0, 1, 0])
    return fleet


FLEETS: dict[str, Call] = {
    name: Call(_copies(make), call, _fleet_bytes)
    for name, make, call in (
        ("fleet", lambda: _fleet(KEYS % 40), lambda fleet: fleet.observe(KEYS[300:], X[300:], Y[300:])),
        ("first of a fleet", _fleet, lambda fleet: fleet.observe(KEYS, X, Y)),
        ("fleet with text keys", lambda: _fleet(TEXTS), lambda fleet: fleet.observe(TEXTS + "!", X, Y)),
        ("fleet on threads", lambda: _fleet(KEYS % 40, threads=3), _on_threads),
        (
            "fleet of sessions",
            lambda: _sessions(KEYS % 5),
            lambda fleet: fleet.observe(KEYS[300:] % 7, X[300:], Y[300:]),
        ),
        ("first of a fleet of sessions", _sessions, lambda fleet: fleet.observe(KEYS % 7, X, Y)),
        ("readmit", _in_quarantine, lambda fleet: fleet.readmit([1, 3])),
        ("save a fleet", lambda: _fleet(KEYS), lambda fleet: fleet.to_bytes()),
    )
}

# ---------------------------------------------------------------------------- keyed runs


def _learner(**options: Any) -> KeyedLearner:
    rule = DriftSurf(LogisticRegression(step_size=0.1), threshold=0.1, max_rows=30, dtype="float32")
    return KeyedLearner(strategy=rule, features=("a", "b", "c"), classes=(0, 1), batch_size=10, seed=3, **options)


def _rows(start: int, stop: int) -> KeyRows:
    return KeyRows(np.arange(start, stop), X[start:stop], Y[start:stop].tolist())


class Kept:
    """The bytes of a key, as an engine keeps them."""

    def __init__(self, learner: KeyedLearner, rows: KeyRows | None = None) -> None:
        self.learner = learner
        self.state: bytes | None = learner.visit("a", None, _rows(270, 295) if rows is None else rows).state

    def visit(self, rows: KeyRows) -> None:
        """Visit the key and keep its new bytes."""
        self.state = self.learner.visit("a", self.state, rows).state


def _late_rows(start: int, stop: int) -> KeyRows:
    """Return rows, each followed by the label, alone, of a row before."""
    places = [place for row in range(start, stop) for place in (row, row - 12)]
    alone = np.arange(len(places)) % 2 == 1
    values = np.where(alone[:, np.newaxis], np.nan, X[places])
    labels = [int(Y[place]) if late else None for place, late in zip(places, alone, strict=True)]
    return KeyRows(np.arange(2 * start, 2 * stop), values, labels, [f"i{place}" for place in places])


def _kept_late() -> Kept:
    return Kept(_learner(delay=1000.0), _late_rows(270, 320))


def _close(store: StateStore) -> None:
    with contextlib.suppress(sqlite3.ProgrammingError):  # the garbage collector may run in another thread
        store.close()


class Stored:
    """The states of keys in a file, as the local engine keeps them."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="driftsurf")
        weakref.finalize(self, folder.cleanup)
        self.store = StateStore(Path(folder.name) / "state.sqlite")
        weakref.finalize(self, _close, self.store)
        self.learner = _learner()
        self.store.keep({key: self.learner.visit(key, None, _rows(0, 30)) for key in "ab"}, EpochProgress(1, 30, 29))

    def epoch(self) -> None:
        """Visit two keys, and keep their states."""
        visits = {key: self.learner.visit(key, self.store.get(key), _rows(30, 50)) for key in "bc"}
        self.store.keep(visits, EpochProgress(2, 50, 49))

    def look(self) -> bytes:
        """Return everything that is stored."""
        return repr((self.store.progress(), [self.store.get(key) for key in "abc"])).encode()


def _bad_row() -> KeyRows:
    rows = _rows(295, 330)
    rows.y[20] = "neither"
    return rows


KEYED: dict[str, Call] = {
    "visit": Call(lambda: Kept(_learner()), lambda one: one.visit(_rows(295, 330)), lambda one: one.state),
    "visit with a bad row": Call(lambda: Kept(_learner()), lambda one: one.visit(_bad_row()), lambda one: one.state),
    "visit with late labels": Call(_kept_late, lambda one: one.visit(_late_rows(320, 340)), lambda one: one.state),
    "epoch": Call(Stored, Stored.epoch, Stored.look, elsewhere=False),
}

STARTING_THREADS = frozenset({"fleet on threads"})
"""Calls that start threads.

Python's ``Thread.start`` waits for ever if the new thread gets no memory, or gets an exception that was meant for the
old one.
"""
CALLS: dict[str, Call] = SESSIONS | LATE | ESTIMATORS | FLEETS | KEYED
