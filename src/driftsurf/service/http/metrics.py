"""Metrics of a service, as values and in the text format of Prometheus."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from driftsurf.runs.prometheus import DRIFTING, DRIFTS, family, label_text
from driftsurf.service.contract import ConnectionStatus, ModelStatus

if TYPE_CHECKING:
    from driftsurf.service.http.app import ServedEntry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
"""Upper bounds of the buckets of the time of requests, in seconds."""


Values: TypeAlias = list[tuple[dict[str, str], float]]


class Family(NamedTuple):
    """A metric with its values, each with its labels; without any before something was measured."""

    name: str
    kind: str
    """"counter" or "gauge"."""
    what: str
    values: Values


@dataclass(slots=True)
class _Times:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0


class ServiceMetrics:
    """Counts requests, and shows them with the state of all models."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.requests: Counter[tuple[str, int]] = Counter()
        """Number of requests by endpoint and status."""
        self._times: dict[str, _Times] = {}

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[endpoint, status] += 1
        times = self._times.get(endpoint)
        if times is None:
            times = self._times[endpoint] = _Times()
        times.counts[bisect_left(BOUNDS, seconds)] += 1
        times.total += seconds

    def text(self, families: Iterable[Family]) -> str:
        """Return metrics in the text format, with the times of requests."""
        lines = [line for one in families for line in _lines(one)]
        return "".join([*lines, *self._durations()])

    def families(self, entries: Iterable[ServedEntry], gauges: Mapping[str, tuple[str, float]]) -> Iterator[Family]:
        """Yield all metrics but the times of requests; ``gauges`` are those of the process, with what they mean."""
        kept = list(entries)
        yield from self._models([entry.served.status() for entry in kept])
        rows: Values = [
            ({"model": entry.served.name, "kind": kind}, float(count))
            for entry in kept
            for kind, count in sorted(entry.counts.items())
        ]
        yield Family("request_rows_total", "counter", "Rows of requests, by what became of them.", rows)
        requests: Values = [
            ({"endpoint": endpoint, "status": str(status)}, float(count))
            for (endpoint, status), count in sorted(self.requests.items())
        ]
        yield Family("http_requests_total", "counter", "Requests by endpoint and status.", requests)
        for name, (what, value) in gauges.items():
            yield Family(name, "gauge", what, [({}, value)])

    def _models(self, statuses: list[ModelStatus]) -> Iterator[Family]:
        now = self.clock()

        def each(value: Callable[[ModelStatus], float | None]) -> Values:
            found = [({"model": status.name}, value(status)) for status in statuses]
            return [(labels, float(one)) for labels, one in found if one is not None and not math.isnan(one)]

        for name, kind, what, value in _FAMILIES:
            yield Family(name, kind, what, each(value))
        ages = each(lambda status: None if status.last_label is None else max(0.0, now - status.last_label))
        yield Family("last_label_age_seconds", "gauge", "Seconds since the last label came.", ages)
        ages = each(lambda status: None if status.oldest_waiting is None else max(0.0, now - status.oldest_waiting))
        what = "Seconds since the oldest row that waits for its label came; absent if none waits."
        yield Family("oldest_waiting_age_seconds", "gauge", what, ages)
        differences: Values = [
            ({"model": status.name, "challenger": one.name}, one.difference)
            for status in statuses
            for one in status.challengers
            if not math.isnan(one.difference)
        ]
        what = "Error of a challenger minus that of the model."
        yield Family("challenger_difference", "gauge", what, differences)
        for name, kind, what, figure in _CONNECTIONS:
            found = [
                ({"model": status.name, "direction": one.direction, "name": one.name}, figure(one))
                for status in statuses
                for one in status.connections
            ]
            yield Family(name, kind, what, [(labels, float(value)) for labels, value in found if value is not None])

    def _durations(self) -> Iterator[str]:
        name = "driftsurf_http_request_seconds"
        if self._times:
            yield f"# HELP {name} Time of requests.\n# TYPE {name} histogram\n"
        for endpoint, times in sorted(self._times.items()):
            below = 0
            for bound, count in zip((*BOUNDS, math.inf), times.counts, strict=True):
                below += count
                text = "+Inf" if bound == math.inf else f"{bound:g}"
                yield f'{name}_bucket{{endpoint="{endpoint}",le="{text}"}} {below}\n'
            yield f'{name}_sum{{endpoint="{endpoint}"}} {times.total:.16g}\n'
            yield f'{name}_count{{endpoint="{endpoint}"}} {below}\n'


def _lines(one: Family) -> Iterable[str]:
    return family(one.name, one.kind, one.what, {label_text(labels): value for labels, value in one.values})


_UNIT = ": share of wrong rows, or root mean squared error."
_FAMILIES: tuple[tuple[str, str, str, Callable[[ModelStatus], float | None]], ...] = (
    ("ready", "gauge", "1 if the model takes rows and has applied its log, else 0.", lambda one: int(one.ready)),
    ("failed", "gauge", "1 if the model is read-only after a failure, else 0.", lambda one: one.phase == "failed"),
    ("error", "gauge", f"Error of the answers over the last steps{_UNIT}", lambda one: one.error),
    ("usual_error", "gauge", f"Error of the answers over all steps{_UNIT}", lambda one: one.usual_error),
    (
        "trivial_error",
        "gauge",
        f"Error of the most frequent class, or the mean, over the last steps{_UNIT}",
        lambda one: one.trivial_error,
    ),
    (
        "rare_class_recall",
        "gauge",
        "Share of the rare class that was found.",
        lambda one: None if one.rare is None else one.rare.recall,
    ),
    (
        "rare_class_precision",
        "gauge",
        "Share of the rows predicted as the rare class that are right.",
        lambda one: None if one.rare is None else one.rare.precision,
    ),
    (
        "rare_class_average_precision",
        "gauge",
        "Average precision of the rare class.",
        lambda one: None if one.rare is None else one.rare.average_precision,
    ),
    ("steps_total", "counter", "Steps taken.", lambda one: one.version),
    ("rows_total", "counter", "Rows learned.", lambda one: one.rows),
    (*DRIFTS, lambda one: one.drifts),
    (*DRIFTING, lambda one: one.drifting),
    ("pinned", "gauge", "1 if the model is pinned, else 0.", lambda one: one.pinned),
    ("lag_rows", "gauge", "Rows and labels that are logged and not applied yet.", lambda one: one.lag_rows),
    ("lag_seconds", "gauge", "Log time that is not applied yet.", lambda one: one.lag_seconds),
    ("log_records_total", "counter", "Records of the log.", lambda one: one.logged),
    ("durable_records_total", "counter", "Records that survive a power loss.", lambda one: one.durable),
    ("log_bytes", "gauge", "Bytes of the log.", lambda one: one.log_bytes),
    ("free_bytes", "gauge", "Free bytes of the disk.", lambda one: one.free_bytes),
    ("predicted_rows_total", "counter", "Rows with ids that were predicted.", lambda one: one.labels.predicted),
    ("labelled_rows_total", "counter", "Rows whose label came in time.", lambda one: one.labels.labelled),
    ("waiting_rows", "gauge", "Rows that wait for their label.", lambda one: one.labels.waiting),
    ("early_labels", "gauge", "Labels that wait for their row.", lambda one: one.early),
    ("expired_rows_total", "counter", "Rows that were dropped without a label.", lambda one: one.labels.expired),
    (
        "last_label_timestamp_seconds",
        "gauge",
        "When the last label came, in seconds since 1970.",
        lambda one: one.last_label,
    ),
)
"""Name, type, meaning and value of the metrics of a model."""

_UP = "running", "waiting"
_CONNECTIONS: tuple[tuple[str, str, str, Callable[[ConnectionStatus], float | None]], ...] = (
    ("connection_up", "gauge", "1 if a source or sink is connected, else 0.", lambda one: one.state in _UP),
    (
        "connection_rows_total",
        "counter",
        "Rows that were read from a source or written to a sink.",
        lambda one: one.rows,
    ),
    ("connection_bad_rows_total", "counter", "Messages of a source that were refused.", lambda one: one.bad_rows),
    ("connection_lag", "gauge", "Messages that were not read, or records that were not written.", lambda one: one.lag),
    ("connection_failures_total", "counter", "Attempts to reach a system that failed.", lambda one: one.reconnects),
)
"""Name, type, meaning and value of the metrics of sources and sinks."""
