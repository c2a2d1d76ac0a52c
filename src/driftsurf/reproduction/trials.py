"""One trial: an algorithm on a stream with a seed, and when the streams drift. Trials are run and cached one by one."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.models import ALGORITHMS, Setting
from driftsurf.core.contracts import CSR, Batch, Strategy
from driftsurf.core.decisions import Decision
from driftsurf.core.input import read_rows, read_schema
from driftsurf.data import catalogue
from driftsurf.data.datasets.known import DATASETS
from driftsurf.data.datasets.real import RealStream
from driftsurf.learners import LogisticRegression, paper_learner
from driftsurf.reproduction.published import OPTIONS, Update, settings_of
from driftsurf.strategies import BudgetRule, Variant
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import DriftSpan, Stream


@dataclass(frozen=True)
class Timeline:
    """The length of a stream in rows and steps, and its drifts."""

    dataset: str
    batch_size: int
    drifts: tuple[DriftSpan, ...]
    """The drifts as row positions, each moved to the first row of its batch: there Aware resets."""
    n_rows: int

    @property
    def known(self) -> bool:
        """Whether the times of its drifts are known."""
        return bool(self.drifts) or self.dataset not in DATASETS

    @property
    def bounded(self) -> tuple[DriftSpan, ...]:
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
    drifts = tuple(DriftSpan(drift.start // size * size, drift.end // size * size) for drift in stream.drifts)
    return Timeline(dataset, size, drifts, n_rows)


@dataclass(frozen=True, order=True)
class Trial:
    """The parameters of a trial. Equal trials run once, however many experiments need them."""

    dataset: str
    algorithm: str
    variant: Variant = "algorithm-1"
    budget: BudgetRule = "each"
    steps_per_row: float = 2.0
    """rho / m: gradient steps for each row."""
    update: Update = "strsaga"
    options: tuple[tuple[str, float | bool | str], ...] = ()
    """Options of DriftSurf that differ from the paper's."""
    seed: int = 0

    kind: ClassVar[str] = "trial"

    def perform(self) -> TrialResult:
        """Run the trial."""
        stream, size, aware_steps = prepared(self.dataset)
        batches = encoded(stream, size)
        setting = Setting(aware_steps, size, self.budget, self.variant, self.seed, OPTIONS | dict(self.options))
        strategy = ALGORITHMS[self.algorithm].make(self.learner(), setting)
        begin = time.perf_counter()
        wrong, decisions = test_then_train(strategy, batches)
        seconds = time.perf_counter() - begin
        return TrialResult(
            np.array([errors / len(batch.y) for errors, batch in zip(wrong, batches, strict=True)]),
            np.array([decision.trained_from for decision in decisions], np.int64),
            tuple(tuple(one.kind for one in decision.transitions) for decision in decisions),
            np.array([decision.state == "reactive" for decision in decisions], bool),
            sum(decision.gradients for decision in decisions),
            round(seconds, 6),
        )

    @staticmethod
    def decode(values: Mapping[str, Any]) -> TrialResult:
        """Return the outcome whose ``to_dict`` gave ``values``."""
        return TrialResult.from_dict(values)

    def learner(self) -> LogisticRegression:
        """Make the paper's learner for this stream and this update process."""
        settings = settings_of(self.dataset)
        per_row = float(self.steps_per_row)
        return paper_learner(settings.step_size, settings.l2, optimizer=self.update, steps_per_row=per_row)


@dataclass(frozen=True, eq=False)
class TrialResult:
    """The result of a trial; arrays and tuples have one entry for each step."""

    error: npt.NDArray[np.float64]
    trained_from: npt.NDArray[np.int64]
    """The first row that the predicting model was trained on."""
    transitions: tuple[tuple[str, ...], ...]
    """The kinds of the transitions of each step."""
    reactive: npt.NDArray[np.bool_]
    """Whether the step was in the reactive state."""
    gradients: int
    seconds: float

    @property
    def mean_error(self) -> float:
        """Mean error over the steps: the number in the paper's tables."""
        return float(np.mean(self.error))

    def steps_with(self, kind: str) -> list[int]:
        """Return the steps with a transition of this kind."""
        return [step for step, kinds in enumerate(self.transitions) if kind in kinds]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "error": self.error.tolist(),
            "trained_from": self.trained_from.tolist(),
            "transitions": {str(step): list(kinds) for step, kinds in enumerate(self.transitions) if kinds},
            "reactive": np.flatnonzero(self.reactive).tolist(),
            "gradients": self.gradients,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the outcome whose ``to_dict`` gave ``values``."""
        error = np.array(values["error"], np.float64)
        reactive = np.zeros(len(error), bool)
        reactive[values["reactive"]] = True
        return cls(
            error,
            np.array(values["trained_from"], np.int64),
            tuple(tuple(values["transitions"].get(str(step), ())) for step in range(len(error))),
            reactive,
            int(values["gradients"]),
            float(values["seconds"]),
        )


def test_then_train(strategy: Strategy, batches: Sequence[Batch]) -> tuple[list[int], list[Decision]]:
    """Return the number of errors on each batch, predicted before it is learned, and the decisions.

    The rows were checked and encoded when the stream was read, once for all trials. So a trial needs no session, which
    would check each batch again, and keeps no metrics that no table has.
    """
    strategy.check()
    first = batches[0].X
    sparse = isinstance(first, CSR)
    strategy.begin(first.n_features if isinstance(first, CSR) else first.shape[1], sparse=sparse, n_classes=2)
    wrong, decisions = list[int](), list[Decision]()
    for batch in batches:
        scores = strategy.test_scores(batch)
        decisions.append(strategy.step(batch, scores))
        wrong.append(int(np.count_nonzero((scores > 0.0) != batch.y)))
    return wrong, decisions


@functools.lru_cache(maxsize=2)
def encoded(stream: ArrayStream, size: int) -> tuple[Batch, ...]:
    """Return the batches of a stream with labels -1 and +1, checked and encoded as strategies take them."""
    schema = read_schema(stream.arrays()[0], stream.name)
    return tuple(
        Batch(read_rows(rows, schema, "float64"), (labels > 0).astype(np.float64), np.ones(len(labels)))
        for rows, labels in stream.batches(size)
    )


@functools.lru_cache(maxsize=2)
def prepared(dataset: str) -> tuple[ArrayStream, int, tuple[int, ...]]:
    """Return a stream in memory, cut to whole batches; its batch size; and the steps at which Aware resets."""
    entry = catalogue.get(dataset)
    stream = entry.make()
    size = entry.batch_size
    n_rows = stream.n_rows // size * size
    X, y = stream.arrays()
    drifts = tuple(drift for drift in stream.drifts if drift.start < n_rows)
    return ArrayStream(X[:n_rows], y[:n_rows], drifts=drifts, name=dataset), size, stream.drift_steps(size)
