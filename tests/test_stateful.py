"""Learning, predicting, saving, loading, crashes and bad rows in any order, against a model without such trouble."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torture.faults import FaultyDisk, Kind

from driftsurf import DriftSurfClassifier
from driftsurf.errors import InputError
from driftsurf.runtime.disk import using

ROWS = st.integers(1, 30)


class Life(RuleBasedStateMachine):
    """``model`` lives through everything; the plain one only ever learns, from the batches that count."""

    @initialize(batch_size=st.sampled_from([None, 10]), max_rows=st.sampled_from([25, None]))
    def begin(self, batch_size: int | None, max_rows: int | None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "model.state"
        self.options = {"batch_size": batch_size, "max_rows": max_rows, "random_state": 0, "classes": (0, 1)}
        self.model = DriftSurfClassifier(**self.options)  # type: ignore[arg-type]
        self.learnt: list[tuple[int, int, bool]] = []
        self.saved: list[tuple[int, int, bool]] | None = None

    def rows(self, seed: int, count: int, turned: bool) -> tuple[np.ndarray, np.ndarray]:
        X = np.random.default_rng(seed).normal(size=(count, 3))
        return X, ((X[:, 0] > 0) != turned).astype(int)

    @rule(seed=st.integers(0, 50), count=ROWS, turned=st.booleans())
    def learn(self, seed: int, count: int, turned: bool) -> None:
        self.model.partial_fit(*self.rows(seed, count, turned))
        self.learnt.append((seed, count, turned))

    @precondition(lambda self: self.learnt)
    @rule(seed=st.integers(0, 50), count=ROWS)
    def predict(self, seed: int, count: int) -> None:
        self.model.predict(self.rows(seed, count, False)[0])

    @precondition(lambda self: self.learnt)
    @rule(seed=st.integers(0, 50), count=ROWS, value=st.sampled_from([np.nan, np.inf, -np.inf]))
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
    @rule(at=st.integers(0, 12), kind=st.sampled_from(["EIO", "ENOSPC"]))
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
            self.model = DriftSurfClassifier.load(self.path)
        assert self.saved is not None
        self.learnt = list(self.saved)

    @invariant()
    def same_as_plain(self) -> None:
        if not getattr(self, "learnt", None):
            return
        plain = DriftSurfClassifier(**self.options)  # type: ignore[arg-type]
        for seed, count, turned in self.learnt:
            plain.partial_fit(*self.rows(seed, count, turned))
        assert plain.to_bytes() == self.model.to_bytes()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
