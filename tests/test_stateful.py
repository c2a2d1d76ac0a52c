"""Learning, predicting, saving, checkpoints, loading, crashes and bad rows in any order, against a model without such
trouble."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.tree import DecisionTreeClassifier
from torture.faults import FaultyDisk, Kind

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet
from driftsurf.adapters import SklearnLearner
from driftsurf.errors import InputError
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.disk import using
from driftsurf.state import resolved, to_bytes

ROWS = st.integers(1, 30)
SEEDS = st.integers(0, 50)
FILE_CALLS = st.integers(0, 14)
FAULTS = st.sampled_from(["EIO", "ENOSPC"])
LEARNERS: dict[str, tuple[Any, int]] = {
    "logistic": (LogisticRegression(), 2),
    "softmax": (SoftmaxRegression(), 3),
    "regression": (LinearRegression(), 0),
    "tree": (SklearnLearner(DecisionTreeClassifier(max_depth=2)), 3),
}
Learnt = list[tuple[int, int, bool]]


class Life(RuleBasedStateMachine):
    """``model`` lives through everything; the plain one only ever learns, from the batches that count."""

    @initialize(
        kind=st.sampled_from(sorted(LEARNERS)),
        batch_size=st.sampled_from([None, 10]),
        max_rows=st.sampled_from([25, None]),
    )
    def begin(self, kind: str, batch_size: int | None, max_rows: int | None) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.path = Path(self.place.name) / "model.state"
        self.learner, self.classes = LEARNERS[kind]
        self.options: dict[str, Any] = {"batch_size": batch_size, "max_rows": max_rows, "random_state": 0}
        self.model = self.made()
        self.learnt: Learnt = []
        self.saved: Learnt | None = None
        self.folder = CheckpointFolder(Path(self.place.name) / "checkpoints")
        self.folder.path.mkdir()
        self.kept: Learnt | None = None
        self.followed = True

    def made(self) -> Any:
        if self.classes == 0:
            return DriftSurfRegressor(self.learner, **self.options)
        return DriftSurfClassifier(self.learner, **self.options, classes=range(self.classes))

    def rows(self, seed: int, count: int, turned: bool) -> tuple[Any, Any]:
        X = np.random.default_rng(seed).normal(size=(count, 3))
        z = -X[:, 0] if turned else X[:, 0]
        return X, z if self.classes == 0 else np.digitize(z, np.linspace(-0.5, 0.5, self.classes + 1)[1:-1])

    # -------------------------------------------------------------------- what happens to it

    @rule(seed=SEEDS, count=ROWS, turned=st.booleans())
    def learn(self, seed: int, count: int, turned: bool) -> None:
        self.model.partial_fit(*self.rows(seed, count, turned))
        self.learnt.append((seed, count, turned))

    @precondition(lambda self: self.learnt)
    @rule(seed=SEEDS, count=ROWS)
    def predict(self, seed: int, count: int) -> None:
        self.model.predict(self.rows(seed, count, False)[0])

    @precondition(lambda self: self.learnt)
    @rule(seed=SEEDS, count=ROWS, value=st.sampled_from([np.nan, np.inf, -np.inf]))
    def bad_row(self, seed: int, count: int, value: float) -> None:
        X, y = self.rows(seed, count, False)
        X[-1, -1] = value
        with pytest.raises(InputError):
            self.model.partial_fit(X, y)

    @precondition(lambda self: self.learnt)
    @rule()
    def save(self) -> None:
        self.model.save(self.path)
        self.saved = list(self.learnt)

    @precondition(lambda self: self.learnt)
    @rule(at=FILE_CALLS, kind=FAULTS)
    def save_on_a_bad_disk(self, at: int, kind: Kind) -> None:
        new = self.model.to_bytes()
        try:
            with using(FaultyDisk(at, kind)):
                self.model.save(self.path)
        except OSError:
            if self.path.exists() and self.path.read_bytes() == new:  # it got as far as the rename
                self.saved = list(self.learnt)
        else:
            self.saved = list(self.learnt)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash_and_load(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.model = type(self.model).load(self.path, self.learner)
        assert self.saved is not None
        self.learnt = list(self.saved)
        self.followed = False

    # -------------------------------------------------------------------- checkpoints

    @precondition(lambda self: self.learnt)
    @rule()
    def checkpoint(self) -> None:
        self.follow()
        self.folder.save(self.model._session.parts())
        self.kept = list(self.learnt)

    @precondition(lambda self: self.learnt)
    @rule(at=FILE_CALLS, kind=FAULTS)
    def checkpoint_on_a_bad_disk(self, at: int, kind: Kind) -> None:
        self.follow()
        new = to_bytes(resolved(self.model._session.parts()))
        try:
            with using(FaultyDisk(at, kind)):
                self.folder.save(self.model._session.parts())
        except OSError:
            self.folder, self.followed = CheckpointFolder(self.folder.path), False
            found = self.folder.load()
            if found is not None and to_bytes(found.state) == new:
                self.kept = list(self.learnt)
        else:
            self.kept = list(self.learnt)

    @precondition(lambda self: self.kept is not None)
    @rule()
    def crash_and_go_on_from_the_checkpoint(self) -> None:
        self.folder = CheckpointFolder(self.folder.path)
        found = self.folder.load()
        assert found is not None
        assert self.kept is not None
        self.model = self.made()
        session, params = self.model._new_session()
        session.restore(found.state)
        self.model._publish(session, params)
        self.folder.follow(found, session.parts())
        self.learnt, self.followed = list(self.kept), True

    def follow(self) -> None:
        """A model that did not come from this folder begins it anew, as a run does."""
        if not self.followed:
            self.folder = CheckpointFolder(self.folder.path)
            self.folder.clear()
            self.kept, self.followed = None, True

    @invariant()
    def same_as_plain(self) -> None:
        if not getattr(self, "learnt", None):
            return
        plain = self.made()
        for seed, count, turned in self.learnt:
            plain.partial_fit(*self.rows(seed, count, turned))
        assert plain.to_bytes() == self.model.to_bytes()

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()


class FleetLife(RuleBasedStateMachine):
    """The same for a fleet: what its keys learn, in bytes that are read again at any time."""

    @initialize()
    def begin(self) -> None:
        self.fleet = self.made()
        self.learnt: list[tuple[int, int]] = []
        self.saved: tuple[bytes, list[tuple[int, int]]] | None = None

    def made(self) -> Fleet:
        return Fleet(3, step_size=0.1, l2=1e-3, batch_size=5, max_rows=20)

    def rows(self, seed: int, count: int) -> tuple[Any, Any, Any]:
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(count, 3))
        return generator.integers(0, 4, count), X, (X[:, 0] > 0).astype(int)

    @rule(seed=SEEDS, count=ROWS)
    def learn(self, seed: int, count: int) -> None:
        self.fleet.observe(*self.rows(seed, count))
        self.learnt.append((seed, count))

    @precondition(lambda self: self.learnt)
    @rule(seed=SEEDS, count=ROWS)
    def bad_row(self, seed: int, count: int) -> None:
        keys, X, y = self.rows(seed, count)
        X[-1, 0] = np.nan
        with pytest.raises(InputError):
            self.fleet.observe(keys, X, y)

    @rule()
    def save(self) -> None:
        self.saved = self.fleet.to_bytes(), list(self.learnt)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash_and_load(self) -> None:
        assert self.saved is not None
        self.fleet, self.learnt = Fleet.from_bytes(self.saved[0]), list(self.saved[1])

    @invariant()
    def same_as_plain(self) -> None:
        if not hasattr(self, "learnt"):
            return
        plain = self.made()
        for seed, count in self.learnt:
            plain.observe(*self.rows(seed, count))
        assert plain.to_bytes() == self.fleet.to_bytes()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestFleetLife = FleetLife.TestCase
TestFleetLife.settings = settings(max_examples=10, stateful_step_count=10, deadline=None)
