"""Texts as arrays, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["packed_texts", "unpacked_texts"]


def packed_texts(texts: Mapping[str, Any] | Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return texts as one array of bytes, and their lengths in characters.

    >>> unpacked_texts(*packed_texts(["a", "", "Köln"]))
    ['a', '', 'Köln']
    """
    blob = "".join(texts).encode("utf-8", "surrogatepass")
    return np.frombuffer(blob, np.uint8), np.fromiter(map(len, texts), np.int64, len(texts))


def unpacked_texts(blob: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> list[str]:
    """Return the texts that ``packed_texts`` packed; ValueError if they are damaged."""
    text = blob.tobytes().decode("utf-8", "surrogatepass")
    ends = list(accumulate(lengths.tolist(), initial=0))
    if ends[-1] != len(text):
        raise ValueError(f"there are {len(text)} characters for texts of {ends[-1]}")
    return [text[start:stop] for start, stop in pairwise(ends)]
