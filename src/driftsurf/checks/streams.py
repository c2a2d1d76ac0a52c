"""Checks that every stream passes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import issparse

from driftsurf.checks._run import expect, expect_same, run

MOST_BATCHES = 20
"""Only this many batches of a long stream are looked at."""


def check_stream(stream: Any) -> None:
    """Raise CheckError unless a stream implements :class:`driftsurf.streams.base.Stream`.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> check_stream(SEA(n_rows=1_000))
    """
    run(stream, CHECKS)


def head(stream: Any, size: int) -> list[tuple[Any, Any]]:
    """Return the first batches of a stream, with dense rows."""
    return [(_dense(X), np.array(y)) for X, y in islice(stream.batches(size), MOST_BATCHES)]


def _dense(X: Any) -> Any:
    is_sparse: bool = issparse(X)
    return X.toarray() if is_sparse else np.array(X)


# ---------------------------------------------------------------------------- the checks


def facts_are_consistent(stream: Any) -> None:
    """A stream has a name, rows, columns, classes (none for regression), and drifts in ascending order."""
    expect(isinstance(stream.name, str) and bool(stream.name), f"name is {stream.name!r}")
    expect(stream.n_rows >= 1 and stream.n_features >= 1, f"n_rows {stream.n_rows}, n_features {stream.n_features}")
    expect(len(stream.classes) != 1, f"classes is {stream.classes!r}; there must be at least two, or none")
    places = [(drift.start, drift.end) for drift in stream.drifts]
    expect(places == sorted(places), f"the drifts are not in ascending order: {places}")


def batches_have_the_requested_size(stream: Any) -> None:
    """``batches(m)`` yields m rows each, the last batch at most m, with a label for each row."""
    for size in (7, 100):
        found = head(stream, size)
        expect(bool(found), "there is no batch")
        for place, (X, y) in enumerate(found):
            expect(X.shape == (len(y), stream.n_features), f"batch {place}: X has shape {X.shape}, y {y.shape}")
            least = 1 if place == len(found) - 1 else size
            expect(least <= len(y) <= size, f"batch {place} of batches({size}) has {len(y)} rows")


def iterations_are_equal(stream: Any) -> None:
    """Iterating twice, also with two iterators at once, yields the same rows."""
    first, other = head(stream, 50), head(stream, 50)
    expect(len(first) == len(other), f"{len(first)} and {len(other)} batches")
    for place, (one, two) in enumerate(zip(first, other, strict=True)):
        expect_same(one[0], two[0], f"the rows of batch {place} differ")
        expect_same(one[1], two[1], f"the labels of batch {place} differ")
    turns = [next(iter(stream.batches(50))) for _ in range(2)]
    expect_same(turns[0][1], turns[1][1], "two iterators at once affect each other")


def batch_size_does_not_matter(stream: Any) -> None:
    """The rows do not depend on the size of the batches."""
    small, large = head(stream, 10), head(stream, 100)
    ends = [np.concatenate([y for _, y in cut]) for cut in (small, large)]
    count = min(map(len, ends))
    expect_same(ends[0][:count], ends[1][:count], "the labels differ")


def rows_can_be_learned(stream: Any) -> None:
    """Rows are finite, and labels are among the classes, or finite numbers if there are no classes."""
    for place, (X, y) in enumerate(head(stream, 100)):
        expect(bool(np.isfinite(X).all()), f"batch {place} has cells that are not finite")
        if not stream.classes:
            expect(y.dtype.kind == "f" and bool(np.isfinite(y).all()), f"batch {place} has targets of type {y.dtype}")
            continue
        strange = set(y.tolist()) - set(stream.classes)
        expect(not strange, f"batch {place} has the labels {sorted(strange)}, not among {stream.classes}")


CHECKS = (
    facts_are_consistent,
    batches_have_the_requested_size,
    iterations_are_equal,
    batch_size_does_not_matter,
    rows_can_be_learned,
)
