"""Threads for native loops, which run without holding Python's global lock."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["ONE_THREAD", "Threads", "available_processors"]

ROWS_PER_THREAD = 4096
"""Fewer rows are not worth a thread."""
ROWS_PER_SHARE, SHARES = 32_768, 4
"""Rows of a share of learning, and shares of a thread, at most."""

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads:
    """At most ``count`` threads, as many as are worthwhile.

    >>> Threads(2).parts(10_000)
    [slice(0, 5000, None), slice(5000, 10000, None)]
    >>> Threads(2).map(lambda part: part.stop, Threads(2).parts(10_000))
    [5000, 10000]
    """

    count: int

    def worthwhile(self, n_rows: int) -> int:
        """Return how many threads pay off for this many rows."""
        return min(self.count, 1 + n_rows // ROWS_PER_THREAD)

    def shares(self, n_rows: int) -> int:
        """Return into how many shares the learning of rows is split.

        There are several for each thread, so that a thread which the system holds up leaves more of them to others.
        """
        threads = self.worthwhile(n_rows)
        return 1 if threads == 1 else max(threads, min(SHARES * threads, n_rows // ROWS_PER_SHARE))

    def parts(self, n_rows: int) -> list[slice]:
        """Split rows into equal parts, one per worthwhile thread."""
        count = self.worthwhile(n_rows)
        ends = [n_rows * k // count for k in range(count + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """Call ``work`` on all parts, as many at the same time as there are threads; return the results in order."""
        if len(parts) == 1:
            return [work(parts[0])]
        with ThreadPoolExecutor(min(self.count, len(parts))) as pool:
            return list(pool.map(work, parts))


ONE_THREAD = Threads(1)


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows do not have it
        return os.cpu_count() or 1
