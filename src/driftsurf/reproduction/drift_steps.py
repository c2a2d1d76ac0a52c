"""The steps at which the streams of the evaluation drift. No data file is read for them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from driftsurf.data import catalogue
from driftsurf.data.datasets.known import DATASETS
from driftsurf.data.datasets.real import RealStream
from driftsurf.streams.base import Drift, Stream


@dataclass(frozen=True)
class Timeline:
    """The length of a stream in rows and steps, and its drifts."""

    dataset: str
    batch_size: int
    drifts: tuple[Drift, ...]
    """The drifts as row positions, each moved to the first row of its batch: there Aware resets."""
    n_rows: int

    @property
    def known(self) -> bool:
        """Whether the times of its drifts are known."""
        return bool(self.drifts) or self.dataset not in DATASETS

    @property
    def bounded(self) -> tuple[Drift, ...]:
        """The drifts that end before the stream does, so that a model can recover from them."""
        return tuple(drift for drift in self.drifts if drift.end < self.n_rows)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First and last step of each drift; the two are equal if it is abrupt."""
        size = self.batch_size
        return tuple((drift.start // size, drift.end // size) for drift in self.drifts)

    @property
    def aware_steps(self) -> tuple[int, ...]:
        """The steps at which Aware resets: both ends of each drift, except the ends of the stream."""
        last = self.n_rows // self.batch_size
        return tuple(sorted({step for span in self.spans for step in span if 0 < step < last}))


@functools.cache
def timeline(dataset: str) -> Timeline:
    """Return the timeline of a stream of the catalogue.

    >>> timeline("sea-gradual").spans
    ((40, 60),)
    >>> timeline("hyper-slow").aware_steps
    ()
    """
    entry = catalogue.get(dataset)
    size, n_rows = entry.batch_size, entry.n_rows
    # A real stream whose number of rows is given does not open its file.
    stream: Stream = RealStream(dataset, n_rows=n_rows) if dataset in DATASETS else entry.make(n_rows=n_rows)
    drifts = tuple(Drift(drift.start // size * size, drift.end // size * size) for drift in stream.drifts)
    return Timeline(dataset, size, drifts, n_rows)
