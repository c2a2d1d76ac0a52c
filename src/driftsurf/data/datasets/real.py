"""Real data as a stream, prepared as in the paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.numeric import GAMMA, MASK, mixed
from driftsurf.core.options import truth, whole
from driftsurf.data.datasets import known as datasets
from driftsurf.data.datasets.known import DATASETS, Dataset
from driftsurf.errors import DriftsurfError, InputError, OptionError
from driftsurf.registry import register
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Block, DriftSpan, Stream
from driftsurf.streams.inject import rotate, swap_labels

ROTATED_COLUMNS = 0, 7
"""Elevation and Hillshade_Noon of CoverType, its features 1 and 8."""
ROTATION = 3.14


class RealStream(Stream):
    """A set of real data, read from its published file on first use.

    What is done with the file depends on the set. Electricity and PowerSupply stay in the order of time. CoverType and
    RCV1 are shuffled, and drift is injected: in rows 0.3 n to 0.6 n two columns are rotated by 3.14 rad, or the labels
    are swapped. The categories of Airline are one-hot. RCV1, Airline and their stand-ins are sparse streams.

    Parameters
    ----------
    dataset
        Name of the data set: a key of ``driftsurf.data.datasets.known.DATASETS``.
    path
        The file, plain or compressed. By default it is looked for in the folder that the environment variable
        DRIFTSURF_DATA names, and then in the cache of ``driftsurf datasets fetch``.
    seed
        Seed of the shuffle. The paper does not tell which permutation was used.
    n_rows
        Number of rows, the first of the prepared stream; None for all.
    drift
        Whether to inject drift, for data sets that have it injected.

    Notes
    -----
    A file with other rows is refused with InputError: the number of rows is known for all data sets, and a digest of
    the values for those that were available.

    Examples
    --------
    >>> stream = RealStream("electricity")
    >>> stream.name, stream.exact, stream.n_rows, stream.drift_steps(stream.entry.batch_size)
    ('Electricity', True, 45312, (20,))
    >>> RealStream("covertype-sample").name
    'CoverType (16 % sample)'

    References
    ----------
    Harries. SPLICE-2 comparative evaluation: electricity pricing. UNSW 1999.
    Lewis, Yang, Rose and Li. RCV1: a new benchmark collection for text categorization research. JMLR 5, 2004.
    """

    n_rows: int

    def __init__(
        self,
        dataset: str,
        path: str | os.PathLike[str] | None = None,
        *,
        seed: int = 0,
        n_rows: int | None = None,
        drift: bool = True,
    ) -> None:
        self.dataset = dataset
        self.path = path
        self.seed = seed
        self.drift = drift
        self.n_rows = self.entry.rows if n_rows is None else n_rows
        self._check()

    def _check(self) -> None:
        entry = self.entry
        whole("seed", self.seed, at_least=0, at_most=None)
        truth("drift", self.drift)
        if self.seed and not entry.shuffled:
            raise OptionError(f"seed must be 0 for {entry.name}, which is not shuffled; got {self.seed!r}")
        if whole("n_rows", self.n_rows, at_least=1) > entry.rows:
            raise OptionError(f"n_rows must be at most {entry.rows:,} for {entry.name}; got {self.n_rows!r}")

    @property
    def entry(self) -> Dataset:
        """Facts about the data set."""
        return datasets.get(self.dataset)

    @property
    def name(self) -> str:
        """Name as in the paper's tables; the names of stand-ins tell what they are."""
        return self.entry.label

    @property
    def exact(self) -> bool:
        """Whether these are the data of the paper."""
        return self.entry.exact

    @property
    def sparse(self) -> bool:
        """Whether rows are CSR matrices."""
        return self.entry.sparse

    @property
    def n_features(self) -> int:
        """Number of columns."""
        known = self.entry.columns
        return self._prepared.n_features if known is None else known

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Where drift was injected, or where Aware is reset in the paper."""
        entry = self.entry
        if entry.injected and not self.drift:
            return ()
        starts = _interval(entry) if entry.injected else [step * entry.batch_size for step in entry.aware_steps]
        return tuple(DriftSpan(start, start) for start in starts if start < self.n_rows)

    def blocks(self) -> Iterator[Block]:
        """Yield the prepared rows."""
        left = self.n_rows
        for X, y in self._prepared.blocks():
            if left < len(y):
                X, y = X[:left], y[:left]
            left -= len(y)
            yield X, y
            if not left:
                return

    @cached_property
    def _prepared(self) -> Stream:
        """Read the file, then shuffle, weight and inject drift, as the data set requires."""
        entry = self.entry
        X, y = self._read(Path(datasets.require(self.dataset) if self.path is None else self.path))
        if entry.shuffled:
            order = permutation(len(y), self.seed)
            X, y = X[order], y[order]
        if entry.tf_idf:
            X = tf_idf(X)
        stream: Stream = ArrayStream(X, y)
        if not self.drift:
            return stream
        if entry.injected == "swap_labels":
            return swap_labels(stream, *_interval(entry))
        if entry.injected == "rotate":
            return rotate(stream, *_interval(entry), columns=ROTATED_COLUMNS, angle=ROTATION)
        return stream

    def _read(self, path: Path) -> Block:
        remedy = datasets.how_to_get(self.entry)
        if not path.is_file():
            raise InputError(f"{path}: no such file; {remedy}")
        try:
            return read(self.entry, path)
        except InputError as error:
            raise InputError(f"{error}; move the file away, and {remedy}") from error


def read(entry: Dataset, path: Path) -> Block:
    """Return rows and labels as they are in the file; raise InputError if they are not those of the data set."""
    from driftsurf.data.datasets._readers import digest

    try:
        X, y = entry.read(path)
    except DriftsurfError as error:
        raise InputError(str(error)) from error
    if len(y) != entry.rows:
        raise InputError(f"{path} has {len(y):,} rows, expected {entry.rows:,}")
    found = digest(X, y) if entry.values else None
    if found != entry.values:
        values = f"the SHA-256 of the values is {found}, expected {entry.values}"
        raise InputError(f"{path} does not hold the rows of {entry.label} as published ({values})")
    return X, y


def load(dataset: str, **options: Any) -> RealStream:
    """Return the stream of a data set whose file is available; raise InputError that tells how to get it if not."""
    return RealStream(dataset, str(datasets.require(dataset)), **options)


for _dataset in DATASETS.values():
    register(
        "stream",
        _dataset.name,
        title=_dataset.label,
        tasks=("binary",),
        options={"dataset": _dataset.name, "n_rows": _dataset.batches * _dataset.batch_size},
        description=f"{_dataset.label}: {_dataset.description}",
    )(load)


def permutation(n: int, seed: int) -> IntArray:
    """Return a shuffle of n rows that is the same everywhere: rows are sorted by word k of the generator ``seed``.

    >>> permutation(5, seed=0)
    array([2, 4, 1, 0, 3])
    """
    counters = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(seed & MASK)
    return np.argsort(mixed(counters), kind="stable")


def tf_idf(counts: Any) -> Any:
    """Return weights (1 + ln count) ln(rows / rows with the word), each row of length 1, as in RCV1.

    ``counts`` is a CSR matrix. A word of every row has the weight 0, and a row without words stays empty.
    """
    from scipy.sparse import csr_array, diags_array

    n_rows, n_words = counts.shape
    rows_with = np.bincount(counts.indices, minlength=n_words)
    rarity = np.log(n_rows / np.maximum(rows_with, 1))
    weights = (1.0 + np.log(counts.data)) * rarity[counts.indices]
    weighted = csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
    weighted.eliminate_zeros()
    lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    return csr_array(diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ weighted)


def category_numbers(X: Any, entry: Dataset) -> FloatArray:
    """Return one-hot categories as one column each, followed by the other columns, as a dense array."""
    places = X.indices[X.indptr[:-1, None] + np.arange(entry.categories)]  # a row begins with a 1 for each category
    return np.hstack([places.astype(np.float64), X[:, -entry.numbers :].toarray()])


def _interval(entry: Dataset) -> tuple[int, int]:
    """Return rows 0.3 n to 0.6 n, rounded up as in the comparisons of the authors' code."""
    return -(-3 * entry.rows // 10), -(-6 * entry.rows // 10)
