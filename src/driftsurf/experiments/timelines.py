"""When the streams of the evaluation drift, in steps, without reading a file."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from driftsurf.streams import catalogue
from driftsurf.streams.base import Drift, Stream
from driftsurf.streams.datasets import DATASETS
from driftsurf.streams.real import RealStream

__all__ = ["Timeline", "timeline"]


@dataclass(frozen=True)
class Timeline:
    """The steps of a stream, and where it drifts."""

    dataset: str
    batch_size: int
    drifts: tuple[Drift, ...]
    """As rows, each at the first row of its batch: that is where Aware is told."""
    n_rows: int

    @property
    def known(self) -> bool:
        """Whether anybody can tell when it drifts."""
        return bool(self.drifts) or self.dataset not in DATASETS

    @property
    def bounded(self) -> tuple[Drift, ...]:
        """Those that end before the stream does: one can recover from them."""
        return tuple(drift for drift in self.drifts if drift.end < self.n_rows)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The first and the last step of each drift; of an abrupt one the same twice."""
        size = self.batch_size
        return tuple((drift.start // size, drift.end // size) for drift in self.drifts)

    @property
    def aware_steps(self) -> tuple[int, ...]:
        """Where Aware starts anew: both ends of each drift, but for those of the stream itself."""
        last = self.n_rows // self.batch_size
        return tuple(sorted({step for span in self.spans for step in span if 0 < step < last}))


@functools.cache
def timeline(dataset: str) -> Timeline:
    """Where a stream of the catalogue drifts.

    >>> timeline("sea-gradual").spans
    ((40, 60),)
    >>> timeline("hyper-slow").aware_steps
    ()
    """
    entry = catalogue.get(dataset)
    size, n_rows = entry.batch_size, entry.n_rows
    # With a number of rows no file is asked.
    stream: Stream = RealStream(dataset, n_rows=n_rows) if dataset in DATASETS else entry.make(n_rows=n_rows)
    drifts = tuple(Drift(drift.start // size * size, drift.end // size * size) for drift in stream.drifts)
    return Timeline(dataset, size, drifts, n_rows)
