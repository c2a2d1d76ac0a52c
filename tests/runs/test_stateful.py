"""Learning, saving, checkpoints, crashes and bad rows in any order give the same model as learning alone."""

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
from tests.reliability.faults import FaultyDisk, Kind

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet
from driftsurf.core.disk import using
from driftsurf.core.state import resolved, to_bytes
from driftsurf.errors import InputError
from driftsurf.estimators.base import Fitted
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.runs.checkpoint import CheckpointFolder

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
Learned = list[tuple[int, int, bool]]


class Life(RuleBasedStateMachine):
    """``model`` goes through everything; a plain model only learns the batches that were not lost by a crash."""

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
        self.learned: Learned = []
        self.saved: Learned | None = None
        self.folder = CheckpointFolder(Path(self.place.name) / "checkpoints")
        self.folder.path.mkdir()
        self.kept: Learned | None = None
        self.followed = True

    def made(self) -> Any:
        if self.classes == 0:
            return DriftSurfRegressor(self.learner, **self.options)
        return DriftSurfClassifier(self.learner, **self.options, classes=range(self.classes))

    def rows(self, seed: int, count: int, turned: bool) -> tuple[Any, Any]:
        X = np.random.default_rng(seed).normal(size=(count, 3))
        z = -X[:, 0] if turned else X[:, 0]
        return X, z if self.classes == 0 else np.digitize(z, np.linspace(-0.5, 0.5, self.classes + 1)[1:-1])

    # -------------------------------------------------------------------- learning, saving and loading

    @rule(seed=SEEDS, count=ROWS, turned=st.booleans())
    def learn(self, seed: int, count: int, turned: bool) -> None:
        self.model.partial_fit(*self.rows(seed, count, turned))
        self.learned.append((seed, count, turned))

    @precondition(lambda self: self.learned)
    @rule(seed=SEEDS, count=ROWS)
    def predict(self, seed: int, count: int) -> None:
        self.model.predict(self.rows(seed, count, False)[0])

    @precondition(lambda self: self.learned)
    @rule(seed=SEEDS, count=ROWS, value=st.sampled_from([np.nan, np.inf, -np.inf]))
    def bad_row(self, seed: int, count: int, value: float) -> None:
        X, y = self.rows(seed, count, False)
        X[-1, -1] = value
        with pytest.raises(InputError):
            self.model.partial_fit(X, y)

    @precondition(lambda self: self.learned)
    @rule()
    def save(self) -> None:
        self.model.save(self.path)
        self.saved = list(self.learned)

    @precondition(lambda self: self.learned)
    @rule(at=FILE_CALLS, kind=FAULTS)
    def save_on_a_bad_disk(self, at: int, kind: Kind) -> None:
        new = self.model.to_bytes()
        try:
            with using(FaultyDisk(at, kind)):
                self.model.save(self.path)
        except OSError:
            if self.path.exists() and self.path.read_bytes() == new:  # the fault came after the rename
                self.saved = list(self.learned)
        else:
            self.saved = list(self.learned)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash_and_load(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.model = type(self.model).load(self.path, self.learner)
        assert self.saved is not None
        self.learned = list(self.saved)
        self.followed = False

    # -------------------------------------------------------------------- checkpoints

    @precondition(lambda self: self.learned)
    @rule()
    def checkpoint(self) -> None:
        self.follow()
        self.folder.save(self.model._session.incremental_state())
        self.kept = list(self.learned)

    @precondition(lambda self: self.learned)
    @rule(at=FILE_CALLS, kind=FAULTS)
    def checkpoint_on_a_bad_disk(self, at: int, kind: Kind) -> None:
        self.follow()
        new = to_bytes(resolved(self.model._session.incremental_state()))
        try:
            with using(FaultyDisk(at, kind)):
                self.folder.save(self.model._session.incremental_state())
        except OSError:
            self.folder, self.followed = CheckpointFolder(self.folder.path), False
            found = self.folder.load()
            if found is not None and to_bytes(found.state) == new:
                self.kept = list(self.learned)
        else:
            self.kept = list(self.learned)

    @precondition(lambda self: self.kept is not None)
    @rule()
    def crash_and_resume_from_the_checkpoint(self) -> None:
        self.folder = CheckpointFolder(self.folder.path)
        found = self.folder.load()
        assert found is not None
        assert self.kept is not None
        self.model = self.made()
        session, params = self.model._new_session(self.model._template())
        session.restore(found.state)
        self.model._publish(Fitted(session, params, None))
        self.folder.follow(found, session.incremental_state())
        self.learned, self.followed = list(self.kept), True

    def follow(self) -> None:
        """Clear the folder if the model was not restored from it, as a new run does."""
        if not self.followed:
            self.folder = CheckpointFolder(self.folder.path)
            self.folder.clear()
            self.kept, self.followed = None, True

    @invariant()
    def same_as_plain(self) -> None:
        if not getattr(self, "learned", None):
            return
        plain = self.made()
        for seed, count, turned in self.learned:
            plain.partial_fit(*self.rows(seed, count, turned))
        assert plain.to_bytes() == self.model.to_bytes()

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()


class FleetLife(RuleBasedStateMachine):
    """A fleet that is saved and loaded at any time equals a fleet that only learns."""

    @initialize()
    def begin(self) -> None:
        self.fleet = self.made()
        self.learned: list[tuple[int, int]] = []
        self.saved: tuple[bytes, list[tuple[int, int]]] | None = None

    def made(self) -> Fleet:
        return Fleet(n_features=3, step_size=0.1, l2=1e-3, batch_size=5, max_rows=20)

    def rows(self, seed: int, count: int) -> tuple[Any, Any, Any]:
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(count, 3))
        return generator.integers(0, 4, count), X, (X[:, 0] > 0).astype(int)

    @rule(seed=SEEDS, count=ROWS)
    def learn(self, seed: int, count: int) -> None:
        self.fleet.observe(*self.rows(seed, count))
        self.learned.append((seed, count))

    @precondition(lambda self: self.learned)
    @rule(seed=SEEDS, count=ROWS)
    def bad_row(self, seed: int, count: int) -> None:
        keys, X, y = self.rows(seed, count)
        X[-1, 0] = np.nan
        with pytest.raises(InputError):
            self.fleet.observe(keys, X, y)

    @rule()
    def save(self) -> None:
        self.saved = self.fleet.to_bytes(), list(self.learned)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash_and_load(self) -> None:
        assert self.saved is not None
        self.fleet, self.learned = Fleet.from_bytes(self.saved[0]), list(self.saved[1])

    @invariant()
    def same_as_plain(self) -> None:
        if not hasattr(self, "learned"):
            return
        plain = self.made()
        for seed, count in self.learned:
            plain.observe(*self.rows(seed, count))
        assert plain.to_bytes() == self.fleet.to_bytes()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestFleetLife = FleetLife.TestCase
TestFleetLife.settings = settings(max_examples=10, stateful_step_count=10, deadline=None)
