"""The paper's choice of hyperparameters: a grid search on each stream without its drift."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, ClassVar, Final

import numpy as np

from driftsurf.core.contracts import Segment
from driftsurf.core.input import read_rows, read_schema
from driftsurf.core.samples import Samples
from driftsurf.data import catalogue
from driftsurf.data.datasets.known import DATASETS
from driftsurf.data.datasets.real import load, permutation
from driftsurf.errors import DivergenceError
from driftsurf.learners import paper_learner
from driftsurf.reproduction.published import settings_of

L2S: Final = tuple(10.0**-a for a in range(1, 8))
STEP_SIZES: Final = tuple(sorted(b * 10.0**-c for b, c in product((1, 2, 5), range(1, 6))))
TRAINING_SHARE: Final = 0.8
STEPS_PER_ROW: Final = 2


def _plain(errors: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(error) else error for error in errors]


@dataclass(frozen=True)
class Tuning:
    """The errors on the grid for one stream, our choice and the paper's."""

    dataset: str
    errors: tuple[tuple[float, ...], ...]
    """By mu (10^-1 to 10^-7), then by eta (ascending); NaN if training diverged."""
    l2: float
    step_size: float
    error: float
    """Error of our choice."""
    paper_l2: float
    paper_step_size: float
    paper_error: float
    """Error of the paper's choice on the same rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, None for NaN."""
        return asdict(self) | {"errors": [_plain(row) for row in self.errors]}


@dataclass(frozen=True)
class GridLine:
    """The errors along one line of the grid: all eta for one mu."""

    errors: tuple[float, ...]
    """By eta (ascending); NaN if training diverged."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, None for NaN."""
        return {"errors": _plain(self.errors)}


@dataclass(frozen=True)
class GridTask:
    """One line of the grid on one stream. Lines are separate tasks, so that one stream can use several workers."""

    dataset: str
    l2: float
    seed: int = 0

    kind: ClassVar[str] = "tune"

    def perform(self) -> GridLine:
        """Train on 80 % of the permuted rows with 2 n steps of STRSAGA, and test on the other 20 %.

        Drift that the stream adds to its data is left out.
        """
        samples, held_out, truth = _split(self.dataset, self.seed)
        n = len(samples)
        errors = np.full(len(STEP_SIZES), np.nan)
        for j, step_size in enumerate(STEP_SIZES):
            model = paper_learner(step_size, self.l2).fresh(self.seed, samples.n_features, 2)
            try:
                model.update(samples, Segment(0, n), STEPS_PER_ROW * n)
            except DivergenceError:
                continue
            errors[j] = np.mean((model.scores(held_out) > 0.0) != truth)
        return GridLine(tuple(errors.tolist()))

    @staticmethod
    def decode(values: Mapping[str, Any]) -> GridLine:
        """Return the result whose ``to_dict`` gave ``values``."""
        return GridLine(tuple(math.nan if error is None else error for error in values["errors"]))


def tuned(dataset: str, lines: Iterable[GridLine]) -> Tuning:
    """Choose from the paper's grid: mu = 10^-1 .. 10^-7, one line each, and eta = {1, 2, 5} x 10^-1 .. 10^-5.

    Among equal errors the first in the grid is chosen: the largest mu, then the smallest eta.
    """
    errors = np.array([line.errors for line in lines])
    best_i, best_j = np.unravel_index(np.nanargmin(errors), errors.shape)
    paper = settings_of(dataset)
    place = _nearest(L2S, paper.l2), _nearest(STEP_SIZES, paper.printed_step_size)
    return Tuning(
        dataset,
        tuple(tuple(row) for row in errors.tolist()),
        L2S[best_i],
        STEP_SIZES[best_j],
        float(errors[best_i, best_j]),
        paper.l2,
        paper.printed_step_size,
        float(errors[place]),
    )


@functools.lru_cache(1)
def _split(dataset: str, seed: int) -> tuple[Samples, Any, Any]:
    """Return the training rows, the test rows, and whether each test row is of class +1; one split for a whole grid."""
    real = dataset in DATASETS
    stream = load(dataset, drift=False) if real else catalogue.get(dataset).make()
    X, y = stream.arrays()
    order = permutation(len(y), seed)
    cut = int(TRAINING_SHARE * len(y))
    schema = read_schema(X, "tune")
    training = read_rows(X[order[:cut]], schema, "float64")
    held_out = read_rows(X[order[cut:]], schema, "float64")
    positive = y[order] > 0
    samples = Samples(schema.n_features, sparse=schema.sparse)
    samples.append(training, positive[:cut].astype(np.float64))
    return samples, held_out, positive[cut:]


def _nearest(values: tuple[float, ...], value: float) -> int:
    return int(np.argmin(np.abs(np.log(values) - np.log(value))))
