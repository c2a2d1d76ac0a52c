"""Work that is shared among threads: compiled loops, which let others run beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["ALONE", "Threads"]

ROWS_A_THREAD = 4096
"""Fewer are not worth a thread."""

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads:
    """At most ``count`` of them.

    >>> Threads(2).parts(10_000)
    [slice(0, 5000, None), slice(5000, 10000, None)]
    >>> Threads(2).each(lambda part: part.stop, Threads(2).parts(10_000))
    [5000, 10000]
    """

    count: int

    def worthwhile(self, n_rows: int) -> int:
        """As many as pay for this many rows."""
        return min(self.count, 1 + n_rows // ROWS_A_THREAD)

    def parts(self, n_rows: int) -> list[slice]:
        """The rows in equal parts, one for each thread that pays."""
        count = self.worthwhile(n_rows)
        ends = [n_rows * k // count for k in range(count + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def each(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """What the work gives for each part, all parts at the same time."""
        if len(parts) == 1:
            return [work(parts[0])]
        with ThreadPoolExecutor(len(parts)) as pool:
            return list(pool.map(work, parts))


ALONE = Threads(1)
