"""Real data as a stream, prepared as the paper's authors prepare them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf._options import truth, whole
from driftsurf._random import GAMMA, MASK, MIX_1, MIX_2
from driftsurf.base import IntArray
from driftsurf.errors import InputError, OptionError
from driftsurf.streams import _tables, datasets
from driftsurf.streams._text import LineError
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Block, Drift, Stream
from driftsurf.streams.datasets import Dataset
from driftsurf.streams.inject import rotate, swap_labels

ROTATED_COLUMNS = 0, 7
"""Elevation and Hillshade_Noon of CoverType, features 1 and 8."""
ROTATION = 3.14


class RealStream(Stream):
    """A set of real data, read from its published file on first use.

    What is done to the file depends on the set. Electricity and PowerSupply stay in the order of time.
    CoverType and RCV1 are shuffled, and drift is injected: in rows 0.3 n to 0.6 n two columns are rotated
    by 3.14 rad, or the labels are swapped. Airline becomes one-hot. RCV1, Airline and their stand-ins are
    sparse streams.

    Parameters
    ----------
    dataset
        Its name: a key of ``driftsurf.streams.datasets.DATASETS``.
    path
        The file, plain or packed by gzip, bzip2 or zip. By default it is looked for in the folder that the
        environment variable DRIFTSURF_DATA names, and then where ``driftsurf datasets fetch`` puts it.
    seed
        Of the shuffle. The paper does not say which permutation it had.
    n_rows
        Give only so many rows, the first of the prepared stream; None for all of them.
    drift
        Whether to inject the drift, where the set is one that has it injected.

    Notes
    -----
    A file is refused with InputError if it does not have the right rows: their number is known for all sets,
    and for those that were at hand a digest of the values, whatever packs them.

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
        whole("seed", self.seed, at_least=0)
        truth("drift", self.drift)
        if self.seed and not entry.shuffled:
            raise OptionError(f"seed is {self.seed!r}, but {entry.name} is not shuffled; leave the seed out")
        if whole("n_rows", self.n_rows, at_least=1) > entry.rows:
            raise OptionError(f"n_rows is {self.n_rows!r}; {entry.name} has {entry.rows:,} rows")

    @property
    def entry(self) -> Dataset:
        """What is known of it."""
        return datasets.get(self.dataset)

    @property
    def name(self) -> str:
        """As in the paper's tables; stand-ins say what they are."""
        return self.entry.label

    @property
    def exact(self) -> bool:
        """Whether these are the data of the paper."""
        return self.entry.exact

    @property
    def sparse(self) -> bool:
        """Whether rows come as CSR matrices."""
        return self.entry.sparse

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        known = self.entry.columns
        return self._prepared.n_features if known is None else known

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Where drift was injected, or where the paper lets Aware start anew."""
        entry = self.entry
        if entry.injected and not self.drift:
            return ()
        starts = _interval(entry) if entry.injected else [step * entry.batch_size for step in entry.aware_steps]
        return tuple(Drift(start, start) for start in starts if start < self.n_rows)

    def blocks(self) -> Iterator[Block]:
        """The prepared rows."""
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
    """Rows and labels as they are in the file; InputError if they are not those of the dataset."""
    try:
        X, y = entry.read(path)
    except LineError as error:
        raise InputError(f"{path}, line {error.line}: {error}") from error
    if len(y) != entry.rows:
        raise InputError(f"{path}, line {len(y)}: {len(y):,} rows instead of {entry.rows:,}")
    found = _tables.digest(X, y) if entry.values else None
    if found != entry.values:
        values = f"SHA-256 of the values {found}, expected {entry.values}"
        raise InputError(f"{path}: these are not the rows of {entry.label} as published ({values})")
    return X, y


def load(dataset: str, **options: Any) -> RealStream:
    """The stream of a dataset whose file is at hand, else InputError that says how to get it."""
    return RealStream(dataset, str(datasets.require(dataset)), **options)


def permutation(n: int, seed: int) -> IntArray:
    """A shuffle of n rows that is the same everywhere: rows sorted by word k of the generator ``seed``.

    >>> permutation(5, seed=0)
    array([2, 4, 1, 0, 3])
    """
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(seed & MASK)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")


def tf_idf(counts: Any) -> Any:
    """Weights (1 + ln count) ln(rows / rows with the word), each row of length 1, as RCV1 has them.

    A CSR matrix of counts; a word of every row gets no weight, and a row without a word stays empty.
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


def _interval(entry: Dataset) -> tuple[int, int]:
    """Rows 0.3 n to 0.6 n, rounded up as the authors' comparisons round."""
    return -(-3 * entry.rows // 10), -(-6 * entry.rows // 10)
