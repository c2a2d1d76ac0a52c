"""The range guard in compiled code does what a plain version in numpy does, batch after batch, dense and sparse."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_arrays import csr_view

from driftsurf.core.contracts import CSR
from driftsurf.learners._linear import usual_sizes
from driftsurf.native.guard import RangeGuard
from driftsurf.session.guard import guard_from_state

# The twin's floats overflow on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

Array = npt.NDArray[np.float64]


@dataclass
class PlainGuard:
    """The guard as its docstring describes it."""

    factor: float
    clips: bool
    total: Array
    mass: Array
    excess: Array
    recent: Array = field(default_factory=lambda: np.zeros(0))

    def admit(self, X: Array) -> tuple[Array, Array]:
        """Return the limited rows and their weights."""
        fade = 0.5 if (self.mass > 10_000).any() else 1.0
        total, mass = fade * self.total, fade * self.mass
        sizes = np.divide(total, mass, out=np.zeros_like(total), where=mass > 0.0)
        counted = np.isfinite(np.square(X).sum(axis=1))
        sums, counts = self._sums(X[counted], sizes)
        unknown, grown = mass == 0.0, np.zeros(len(mass))
        if self.clips:
            unit = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0.0)
            grown = np.where(unknown, 0.0, np.maximum(0.0, self.excess + unit * sums - 5 / 3 * counts))
        changed = grown > 100.0
        if changed.any() or (unknown & (counts > 0)).any():
            new = unknown | changed
            sizes = np.where(new, usual_sizes(X, counted.astype(np.float64)), sizes)
            total, mass, grown = np.where(new, 0.0, total), np.where(new, 0.0, mass), np.where(changed, 0.0, grown)
            sums, counts = self._sums(X[counted], sizes)
        unit = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0.0)
        norms = np.square(X * unit).sum(axis=1)
        self.total, self.mass, self.excess = total + sums, mass + counts, grown
        rows = np.clip(X, -6.0 * sizes, 6.0 * sizes) if self.clips and (np.abs(X * unit) > 6.0).any() else X
        known = np.concatenate([self.recent, norms[norms > 0.0]])
        self.recent = known[-1024:]
        if not len(known):
            return rows, np.ones(len(X))
        limit = self.factor**2 * np.sort(known)[math.floor(0.9 * (len(known) - 1))]
        if not math.isfinite(limit):
            return rows, np.isfinite(norms).astype(np.float64)
        return rows, np.divide(limit, norms, out=np.ones(len(X)), where=norms > limit)

    @staticmethod
    def _sums(X: Array, sizes: Array) -> tuple[Array, Array]:
        return np.minimum(np.abs(X), 3.0 * sizes).sum(axis=0), np.count_nonzero(X, axis=0).astype(np.float64)


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    sizes=st.lists(st.sampled_from([1, 3, 40, 700]), min_size=1, max_size=6),
    clips=st.booleans(),
    single=st.booleans(),
    mass=st.sampled_from([0.0, 11_000.0]),
)
@settings(max_examples=60)
def test_the_guard_agrees_with_a_plain_version(
    seed: int, d: int, sizes: list[int], clips: bool, single: bool, mass: float
) -> None:
    rng = np.random.default_rng(seed)
    guard = sparse = RangeGuard(2.0, clips=clips)
    plain = PlainGuard(2.0, clips, *np.zeros((3, d)))
    if mass:  # sums that are about to fade
        state = {"factor": 2.0, "recent": np.zeros(0), "total": np.full(d, mass), "mass": np.full(d, mass)}
        state |= {"excess": np.zeros(d)} if clips else {}
        guard = sparse = guard_from_state(state, d, clips=clips)
        plain.total, plain.mass = np.full((2, d), mass)
    scale = np.ones(d)
    for size in sizes:
        X = rng.standard_normal((size, d)) * scale * (rng.random((size, d)) > rng.choice([0.0, 0.5, 1.0]))
        wild = rng.random(size) < 0.1
        X[wild] *= 10.0 ** rng.integers(0, 200, (wild.sum(), 1))
        scale = scale * rng.choice([1.0, 1.0, 8.0], d)  # a new scale of a column from now on
        X = X.astype(np.float32).astype(np.float64) if single and np.abs(X).max() < 1e30 else X
        expected, weights = plain.admit(X)
        for one in (X.astype(np.float32), X) if single and np.abs(X).max() < 1e30 else (X,):
            rows, seen, after = guard.admit(one)
            assert isinstance(rows, np.ndarray)
            np.testing.assert_allclose(rows, expected, rtol=1e-6 if one.dtype == np.float32 else 1e-12)
            np.testing.assert_allclose(np.ones(size) if seen is None else seen, weights, rtol=1e-9)
        rows, seen, sparse = sparse.admit(csr_view(X))
        assert isinstance(rows, CSR)
        stored = rows.data[rows.indptr[0] : rows.indptr[-1]]
        np.testing.assert_allclose(stored, expected[X != 0.0], rtol=1e-12)
        np.testing.assert_allclose(np.ones(size) if seen is None else seen, weights, rtol=1e-9)
        guard = after
        for known in (guard, sparse):
            assert known.total is not None
            assert known.mass is not None
            np.testing.assert_allclose(known.total, plain.total, rtol=1e-12)
            np.testing.assert_allclose(known.mass, plain.mass, rtol=1e-12)
            np.testing.assert_allclose(known.recent, plain.recent, rtol=1e-12)
            if clips:
                assert known.excess is not None
                np.testing.assert_allclose(known.excess, plain.excess, rtol=1e-9, atol=1e-9)
