"""How the learners of many keys lie in memory: one array for each thing, one entry for each key.

A key has a *slot*. Its rows stand in a ring, ``rows[slot]``: those to train on, the oldest first, and behind them
those that wait for their time step to be full. It has two *sides*, each with a model: one is the predictive model,
the other the reactive one while there is a reactive state, else the stable one, if there has ever been a reactive
state. (A stable model ends when a reactive one begins, so there are never three.) The entry of a model's gradient
table that belongs to a row stands where the row stands.

Rows have numbers, from 0 in the order of arrival at their key. Every time step has ``batch_size`` rows, so that
many numbers follow from few: a model born at step s is trained from row s * batch_size on, and so forth. Row number r
has place r % n_rows of the ring, which holds a whole number of batches: none of them goes over its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["KEY", "MODEL", "TRANSITION", "Shape", "Store", "scratch"]

KEY = np.dtype(
    [
        ("seed", np.uint64),
        ("first", np.int64),  # the number of the oldest row
        ("step", np.int64),  # time steps learnt
        ("pending", np.int64),  # rows that wait for the next one to be full
        ("made", np.int64),  # models made so far
        ("reactive_step", np.int64),  # i: batches learnt in the current reactive state; 0 in the stable state
        ("predictive", np.int64),  # the side of the predictive model
        ("challenged", np.int64),  # 1 if the reactive model predicts
        ("errors", np.int64),  # rows predicted wrongly
        ("refused", np.int64),  # rows not learnt
        ("quarantine", np.int64),  # why the key is in quarantine; 0 if it is not
        ("transitions", np.int64),
        ("last_kind", np.int64),  # of the last transition
        ("last_step", np.int64),
    ],
    align=True,
)
MODEL = np.dtype(
    [
        ("number", np.int64),
        ("born", np.int64),  # the step at which it was made
        ("admitted", np.int64),  # the number of the first row that is not in its sample set; -1 before its first update
        ("words", np.int64),  # random words used
        ("gradients", np.int64),
        ("best", np.float64),  # R_b
    ],
    align=True,
)
TRANSITION = np.dtype(
    [
        ("slot", np.int64),
        ("kind", np.int64),
        ("step", np.int64),
        ("condition", np.int64),
        ("left", np.float64),
        ("right", np.float64),
        ("margin", np.float64),
        ("over", np.int64),
        ("old", np.int64),
        ("new", np.int64),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that are the same for all keys.

    >>> Shape(n_features=10, batch_size=32, max_rows=128, reactive_length=4).bytes_per_key
    9680
    """

    n_features: int
    batch_size: int
    max_rows: int
    reactive_length: int

    @property
    def n_rows(self) -> int:
        """Places for rows: for the sample set or the former batches of T, if these are more, and a batch."""
        former = max(math.ceil(self.max_rows / self.batch_size), self.reactive_length - 1)
        return (former + 1) * self.batch_size

    @property
    def bytes_per_key(self) -> int:
        """What one key takes, the index that finds it aside."""
        return Store.empty(1, self).nbytes


class Store(NamedTuple):
    """The arrays, with room for the same number of keys each."""

    rows: npt.NDArray[np.float32]
    labels: npt.NDArray[np.uint8]
    tables: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]
    """G of each model."""
    models: npt.NDArray[Any]
    keys: npt.NDArray[Any]

    @classmethod
    def empty(cls, n_keys: int, shape: Shape) -> Store:
        """Room for this many keys. Memory that is never written to is never taken."""
        n_features, n_rows, width = shape.n_features, shape.n_rows, shape.n_features + 1
        return cls(
            np.empty((n_keys, n_rows, n_features), np.float32),
            np.empty((n_keys, n_rows), np.uint8),
            np.empty((n_keys, 2, n_rows)),
            np.empty((n_keys, 2, width)),
            np.empty((n_keys, 2, width)),
            np.empty((n_keys, 2), MODEL),
            np.empty(n_keys, KEY),
        )

    def grown(self, n_keys: int, live: int) -> Store:
        """Room for ``n_keys``, the first ``live`` of them as they are here."""
        arrays: tuple[npt.NDArray[Any], ...] = self
        larger = [np.empty((n_keys, *array.shape[1:]), array.dtype) for array in arrays]
        for new, old in zip(larger, arrays, strict=True):
            new[:live] = old[:live]
        return Store(*larger)

    @property
    def nbytes(self) -> int:
        """Bytes of the room."""
        return sum(array.nbytes for array in self)


def scratch(shape: Shape, steps_per_row: float) -> tuple[Any, ...]:
    """What serving needs beside the store, for one thread: see ``_kernels.SCRATCH``."""
    n_rows, width = shape.n_rows, shape.n_features + 1
    most_steps = math.ceil(steps_per_row * shape.batch_size) + 1
    frame = np.ones(width), np.zeros(width), np.zeros(0, np.int64)
    labels, margins, ones, factor = np.empty(n_rows), np.empty(n_rows), np.ones(n_rows), np.ones(width)
    orders, losses = np.empty((2, most_steps), np.int64), np.empty(n_rows)
    kept_tables, kept_weights, kept_sums = np.empty((2, n_rows)), np.empty((2, width)), np.empty((2, width))
    kept = kept_tables, kept_weights, kept_sums, np.empty((1, 2), MODEL), np.empty(1, KEY)
    return labels, margins, ones, factor, orders, frame, *kept, losses
