"""SINE1, Mixed and Circles: equal to the published rows, with the documented concepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_rows import Golden, equal, moa_bytes

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.data import catalogue
from driftsurf.data.datasets import authors
from driftsurf.data.datasets.authors import AuthorsFile
from driftsurf.streams import SINE1, Circles, Mixed, Stream, _balanced


def sine1_concept(X: FloatArray, concept: int) -> IntArray:
    return np.where(X[:, 1] <= np.sin(X[:, 0]), 1, -1) * (1 - 2 * (concept % 2))


def mixed_concept(X: FloatArray, concept: int) -> IntArray:
    votes = X[:, 0] + X[:, 1] + (X[:, 3] < 0.5 + 0.3 * np.sin(3 * np.pi * X[:, 2]))
    return np.where(votes >= 2, 1, -1) * (1 - 2 * (concept % 2))


def circles_concept(X: FloatArray, concept: int) -> IntArray:
    distance = np.hypot(X[:, 0] - 0.2 * (concept + 1), X[:, 1] - 0.5)
    return np.where(distance > 0.15 + 0.05 * concept, 1, -1)


CONCEPTS = {"sine1": sine1_concept, "mixed": mixed_concept, "circles": circles_concept}
PURE_AFTER = {"sine1": 50, "mixed": 50, "circles": 500}
SEGMENTS = {"sine1": 5, "mixed": 5, "circles": 4}


def shares(name: str, stream: Stream) -> list[tuple[float, float, float]]:
    """For the pure part of each segment: agreement with its concept, share of +1, share of changes."""
    X, y = stream.arrays()
    length = len(y) // SEGMENTS[name]
    found = []
    for k in range(SEGMENTS[name]):
        rows = slice(k * length + PURE_AFTER[name], (k + 1) * length)
        clean = CONCEPTS[name](X[rows], k)
        changes = np.mean(clean[1:] != clean[:-1])
        found.append((float(np.mean(clean == y[rows])), float(np.mean(clean == 1)), float(changes)))
    return found


@pytest.mark.parametrize("name", CONCEPTS)
def test_concepts_noise_and_balance(name: str) -> None:
    for agreement, positive, changes in shares(name, catalogue.get(name).make()):
        assert agreement == pytest.approx(0.9, abs=0.025)
        assert positive == pytest.approx(0.5, abs=0.04)
        assert changes == pytest.approx(0.5, abs=0.04)
    clean = catalogue.get(name).make(noise=0.0, seed=5)
    assert all(agreement > 0.995 for agreement, _, _ in shares(name, clean))  # values are rounded


@pytest.mark.parametrize("make", [SINE1, Mixed])
def test_concepts_overlap_for_fifty_rows(make: Callable[..., Stream]) -> None:
    name = make.__name__.lower()
    new = np.zeros(70)
    for seed in range(100):
        X, y = make(noise=0.0, seed=seed, n_rows=1_000).arrays()
        new += CONCEPTS[name](X[190:260], 1) == y[190:260]
    share = new / 100
    assert share[:10].max() < 0.03  # a rounded value may lie beyond the boundary
    assert share[10:60].mean() == pytest.approx(0.5, abs=0.03)
    assert share[10:20].mean() < 0.3 < 0.7 < share[50:60].mean()
    assert share[60:].min() > 0.97


def test_a_quarter_of_circles_begins_with_the_transition_to_the_next() -> None:
    X, y = Circles(noise=0.0, n_rows=100_000).arrays()
    for k in range(3):
        rows = slice(25_000 * k, 25_000 * k + 5_000)
        explained = [(CONCEPTS["circles"](X[rows], k + j) == y[rows]).reshape(5, -1).mean(axis=1) for j in (0, 1)]
        assert (np.diff(explained[0]) < 0).all()
        assert (np.diff(explained[1]) > 0).all()
    assert np.mean(CONCEPTS["circles"](X[75_000:], 3) == y[75_000:]) > 0.999


def test_the_truth_values_of_mixed_are_zero_and_one() -> None:
    X, _ = Mixed(n_rows=2_000).arrays()
    assert set(np.unique(X[:, :2])) == {0.0, 1.0}


AUTHORS = [
    Golden(SINE1(), "58edb5e544d49974", "aa33c32d4d462f60"),
    Golden(Mixed(), "eedc83b35ddb0097", "a5d9cf30d9e4b24c"),
    Golden(Circles(), "bfa7f80cf1fe3ea5", "760cfa7d0af5a20d"),
]


@pytest.mark.parametrize("case", AUTHORS, ids=lambda case: case.stream.name)
def test_all_rows_equal_those_that_the_authors_published(case: Golden) -> None:
    """The digests are those of the files; where the files are available, the rows are compared as well."""
    assert moa_bytes(case.stream) == (case.X, case.y)
    path = authors.find(case.stream.name)
    if path is not None:
        published = AuthorsFile(path)
        assert equal(published.arrays(), case.stream.arrays())
        assert published.drifts == case.stream.drifts


@given(
    kind=st.sampled_from([SINE1, Mixed, Circles]),
    noise=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**40),
    n_rows=st.integers(1, 400),
)
@settings(max_examples=30, deadline=None)
def test_balanced_streams_equal_their_twin(kind: Any, noise: float, seed: int, n_rows: int) -> None:
    stream = kind(noise=noise, seed=seed, n_rows=n_rows)
    assert equal(stream.arrays(), reference.tornado(stream.name, noise, seed, n_rows))


@pytest.mark.parametrize("words", [65, 101])
@pytest.mark.parametrize("kind", [Mixed, Circles])
def test_random_words_can_be_drawn_in_portions_of_any_size(
    kind: Any, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = kind(n_rows=500).arrays()
    monkeypatch.setattr(_balanced, "WORDS", words)
    assert equal(kind(n_rows=500).arrays(), expected)
