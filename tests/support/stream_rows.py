"""Streams of tests: small arrays, digests of rows, and comparison with readable twins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.streams import Stream

Arrays = tuple[FloatArray, IntArray]


def equal(left: Arrays, right: Arrays) -> bool:
    return np.array_equal(left[0], right[0]) and np.array_equal(left[1], right[1])


def joined(parts: Iterator[Arrays]) -> Arrays:
    X, y = zip(*parts, strict=True)
    return np.concatenate(X), np.concatenate(y)


def digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def twin(rows: Iterator[tuple[list[float], int]], n: int) -> Arrays:
    X, y = zip(*islice(rows, n), strict=True)
    return np.array(X), np.array(y)


@dataclass(frozen=True)
class Golden:
    stream: Stream
    X: str
    y: str


def moa_bytes(stream: Stream) -> tuple[str, str]:
    """Digests of the rows as MOA writes them: its class 0 is the label +1."""
    X, y = stream.arrays()
    return digest(X.astype("<f8")), digest((y == -1).astype(np.uint8))


X_SMALL = np.arange(300.0).reshape(100, 3)

Y_SMALL = np.where(np.arange(100) % 3 == 0, 1, -1)
