"""The streams by the names the command line knows."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from driftsurf.errors import OptionError
from driftsurf.streams.authors import published
from driftsurf.streams.base import Stream
from driftsurf.streams.datasets import DATASETS, Dataset
from driftsurf.streams.friedman import Friedman, Kind
from driftsurf.streams.hyperplane import Hyperplane
from driftsurf.streams.real import load
from driftsurf.streams.sea import SEA


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream by name. ``make`` takes ``seed`` and ``n_rows``, both with the paper's value as default.

    Real data are made only where their file is found, and without ``n_rows`` as far as whole batches go.
    """

    name: str
    description: str
    make: Callable[..., Stream]
    n_rows: int
    n_features: int | None
    """None where only the file tells."""
    batch_size: int
    values: bool = False
    """Whether its labels are values to predict, not classes."""

    @property
    def dataset(self) -> Dataset | None:
        """What is known of real data; None for a stream that is generated."""
        return DATASETS.get(self.name)


def _generated(
    name: str, description: str, make: Callable[..., Stream], n_rows: int, n_features: int, *, values: bool = False
) -> Entry:
    return Entry(name, description, make, n_rows, n_features, n_rows // 100, values)


def _friedman(kind: Kind, description: str) -> Entry:
    name = "friedman" if kind == "abrupt" else f"friedman-{kind}"
    return _generated(name, f"Friedman, {description}; values", partial(Friedman, kind), 20_000, 10, values=True)


def _real(name: str) -> Entry:
    data = DATASETS[name]
    n_rows = data.batches * data.batch_size
    make = partial(load, name, n_rows=n_rows)
    return Entry(name, f"{data.label}: {data.description}", make, n_rows, data.columns, data.batch_size)


_ENTRIES = (
    _generated("sea0", "SEA, three abrupt drifts, no noise", partial(SEA, noise=0.0), 100_000, 3),
    _generated("sea10", "SEA, three abrupt drifts, 10 % noise", partial(SEA, noise=0.1), 100_000, 3),
    _generated("sea20", "SEA, three abrupt drifts, 20 % noise", partial(SEA, noise=0.2), 100_000, 3),
    _generated("sea30", "SEA, three abrupt drifts, 30 % noise", partial(SEA, noise=0.3), 100_000, 3),
    _generated("sea-gradual", "SEA, one gradual drift, 10 % noise", partial(SEA, noise=0.1, gradual=True), 100_000, 3),
    _generated(
        "hyper-slow", "Hyperplane, weights move by 0.001 a row", partial(Hyperplane, magnitude=0.001), 100_000, 10
    ),
    _generated("hyper-fast", "Hyperplane, weights move by 0.1 a row", partial(Hyperplane, magnitude=0.1), 100_000, 10),
    _generated("sine1", "SINE1, four reversals, 10 % noise", partial(published, "sine1"), 10_000, 2),
    _generated("mixed", "Mixed, four reversals, 10 % noise", partial(published, "mixed"), 100_000, 4),
    _generated("circles", "Circles, three gradual drifts, 10 % noise", partial(published, "circles"), 10_000, 2),
    *(_real(name) for name in DATASETS),
    _friedman("abrupt", "another concept for a quarter of the rows"),
    _friedman("gradual", "two gradual drifts"),
    _friedman("local", "corners that drift and grow"),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""The fifteen of the paper in the order of its tables, then what stands in for real data, then values to predict."""

CLASSES = tuple(name for name, entry in CATALOGUE.items() if not entry.values)
"""The names of those with classes, which the paper's experiments can run on."""
PAPER = tuple(name for name in CLASSES if (found := CATALOGUE[name].dataset) is None or found.exact)
"""The names of the paper's streams, in its order."""


def get(name: str) -> Entry:
    """The entry of this name.

    >>> get("sea10").make(n_rows=1_000)
    SEA(noise=0.1, gradual=False, seed=1, n_rows=1000)
    >>> get("sea-gradul")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no stream 'sea-gradul'; did you mean 'sea-gradual'? choices: sea0, ...
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"no stream {name!r}; {hint}choices: {', '.join(CATALOGUE)}")
    return entry
