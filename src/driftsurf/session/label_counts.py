"""Numbers of rows and labels, where labels come late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Numbers of rows and labels so far, by what became of them."""

    predicted: int = 0
    """Rows that arrived."""
    labelled: int = 0
    """Rows whose label arrived in time; they were learned."""
    scored: int = 0
    """Labelled rows that had a prediction; the first rows arrive before there is a model."""
    errors: int | None = 0
    """Scored rows whose stored prediction was wrong; None for regression."""
    expired: int = 0
    """Rows that were dropped: no label in time, or too many newer rows."""
    replaced: int = 0
    """Rows that another row with the same key replaced before their label arrived."""
    late: int = 0
    """Labels of rows that had been dropped or replaced."""
    duplicate: int = 0
    """Labels of rows that had a label already."""
    orphan: int = 0
    """Labels without a row so far. Those that are still held are learned when their row comes, and not counted then."""

    @property
    def error(self) -> float:
        """Share of wrong predictions among the scored rows; NaN before the first, and for regression."""
        return self.errors / self.scored if self.scored and self.errors is not None else float("nan")

    @property
    def waiting(self) -> int:
        """Rows whose label has not come, and which were neither dropped nor replaced.

        >>> LabelCounts(predicted=10, labelled=6, expired=1).waiting
        3
        """
        return self.predicted - self.labelled - self.expired - self.replaced

    def plus(self, **more: int) -> LabelCounts:
        """Return the counts, with some of them increased."""
        counted = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(self, **{name: value + more.get(name, 0) for name, value in counted.items()})

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> Self:
        """Return the counts that were saved as a dictionary; ValueError or TypeError if they are not valid."""
        if not all(
            type(count) is int and count >= 0 for name, count in saved.items() if name != "errors" or count is not None
        ):
            raise ValueError("counts must be integers of at least 0")
        return cls(**saved)


COUNTS: tuple[str, ...] = tuple(field.name for field in fields(LabelCounts))
