"""What every stream has to do."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from driftsurf.checks._run import expect, expect_same, run

__all__ = ["check_stream"]

MOST_BATCHES = 20
"""Of a long stream only the first are looked at."""


def check_stream(stream: Any) -> None:
    """Raise CheckError unless ``stream`` does what :class:`driftsurf.streams.base.Stream` says.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> check_stream(SEA(n_rows=1_000))
    """
    run(stream, CHECKS)


def head(stream: Any, size: int) -> list[tuple[Any, Any]]:
    """The first batches, rows dense."""
    found = islice(stream.batches(size), MOST_BATCHES)
    return [(X.toarray() if hasattr(X, "toarray") else np.array(X), np.array(y)) for X, y in found]


def it_says_what_it_is(stream: Any) -> None:
    """it has a name, n_rows, n_features, classes (none for values), and drifts in order within its rows."""
    expect(isinstance(stream.name, str) and bool(stream.name), f"its name is {stream.name!r}")
    expect(stream.n_rows >= 1 and stream.n_features >= 1, f"n_rows {stream.n_rows}, n_features {stream.n_features}")
    expect(len(stream.classes) != 1, f"classes is {stream.classes!r}: there is nothing to predict")
    places = [(drift.start, drift.end) for drift in stream.drifts]
    expect(places == sorted(places), f"the drifts are not in order: {places}")


def batches_have_the_size_asked_for(stream: Any) -> None:
    """batches(m) gives m rows each, the last one fewer, with a label for each row."""
    for size in (7, 100):
        found = head(stream, size)
        expect(bool(found), "there is no batch")
        for place, (X, y) in enumerate(found):
            expect(X.shape == (len(y), stream.n_features), f"batch {place}: X has shape {X.shape}, y {y.shape}")
            least = 1 if place == len(found) - 1 else size
            expect(least <= len(y) <= size, f"batch {place} of batches({size}) has {len(y)} rows")


def two_passes_are_the_same(stream: Any) -> None:
    """iterating twice, and in two iterators at once, gives the same rows."""
    first, other = head(stream, 50), head(stream, 50)
    expect(len(first) == len(other), f"{len(first)} and {len(other)} batches")
    for place, (one, two) in enumerate(zip(first, other, strict=True)):
        expect_same(one[0], two[0], f"the rows of batch {place} differ")
        expect_same(one[1], two[1], f"the labels of batch {place} differ")
    turns = [next(iter(stream.batches(50))) for _ in range(2)]
    expect_same(turns[0][1], turns[1][1], "two iterators at once disturb each other")


def the_cut_does_not_matter(stream: Any) -> None:
    """the rows are the same however they are cut into batches."""
    small, large = head(stream, 10), head(stream, 100)
    ends = [np.concatenate([y for _, y in cut]) for cut in (small, large)]
    count = min(map(len, ends))
    expect_same(ends[0][:count], ends[1][:count], "the labels depend on the size of the batches")


def values_can_be_learnt(stream: Any) -> None:
    """rows are finite numbers, and labels are among its classes, or finite too where it has none."""
    for place, (X, y) in enumerate(head(stream, 100)):
        expect(bool(np.isfinite(X).all()), f"batch {place} has values that are not finite")
        if not stream.classes:
            expect(y.dtype.kind == "f" and bool(np.isfinite(y).all()), f"batch {place} has {y.dtype} to predict")
            continue
        strange = set(y.tolist()) - set(stream.classes)
        expect(not strange, f"batch {place} has the labels {sorted(strange)}, not among {stream.classes}")


CHECKS = (
    it_says_what_it_is,
    batches_have_the_size_asked_for,
    two_passes_are_the_same,
    the_cut_does_not_matter,
    values_can_be_learnt,
)
