"""Which checkpoints of a served model stay as restore points: few, and further apart the older they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DAY", "RestorePoint", "spaced"]

MINUTE, DAY = 60.0, 86_400.0


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """An earlier state of the leading model to which "rollback" returns."""

    position: int
    version: int
    time: float
    """Log time of the last record that it has applied."""


def spaced(times: Sequence[float], now: float, number: int) -> list[int]:
    """Return the indices of the checkpoints to keep besides the newest one, which is being saved now.

    The newest of them always stays, so that two checkpoints can be used if one is damaged. The others are divided by
    age at limits that grow by the same factor, up to a day, and of each range the oldest stays: it moves on to the next
    range, whose own has then moved on as well. One that is older than a day stays until another one gets there.

    Parameters
    ----------
    times
        Log times of the checkpoints, oldest first.
    now
        Log time of the newest checkpoint.
    number
        How many checkpoints are kept at most, the newest one included; at least 2.

    Examples
    --------
    >>> times = [0.0, 3_600.0, 86_000.0, 86_340.0, 86_370.0]
    >>> [times[one] for one in spaced(times, now=86_400.0, number=4)]
    [3600.0, 86000.0, 86370.0]
    """
    if not times:
        return []
    ranges = max(0, number - 2)
    limits = [MINUTE * (DAY / MINUTE) ** (k / ranges) for k in range(1, ranges + 1)]
    oldest: dict[int, int] = {}
    expired: int | None = None
    for index, time in enumerate(times[:-1]):
        age = now - time
        place = sum(age >= limit for limit in limits)
        if place < ranges:
            oldest.setdefault(place, index)
        else:
            expired = index
    if ranges and expired is not None:
        oldest.setdefault(ranges - 1, expired)
    return sorted({*oldest.values(), len(times) - 1})
