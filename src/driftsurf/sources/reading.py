"""How files are to be read, as one says it for a whole source: what ``driftsurf run`` and ``compare`` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from driftsurf.sources._base import MISSING, Dialect
from driftsurf.sources.source import Source
from driftsurf.tables import Kind

__all__ = ["Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is said of the files of a source; the command line has an option for each. None: as it is usual.

    >>> Reading(decimal=",", kind=(("zip", "text"),)).source_of("sales.csv", batch_size=500).kinds
    {'zip': 'text'}
    """

    categorical: tuple[str, ...] = ()
    """Columns whose numbers are names."""
    kind: tuple[tuple[str, Kind], ...] = ()
    """Columns that are not what they look like."""
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Cells that mean no value, beside the usual ones."""
    on_schema_change: Literal["fail", "ignore-added", "fill-removed"] = "fail"
    on_bad_row: Literal["fail", "skip"] | int = "fail"

    @property
    def dialect(self) -> Dialect:
        """How text is read."""
        return Dialect(
            delimiter=self.delimiter,
            encoding=self.encoding or "utf-8",
            decimal=self.decimal or ".",
            thousands=self.thousands,
            date_formats=self.date_format,
            missing=(*MISSING, *self.missing),
        )

    def source_of(self, path: str, **cut: Any) -> Source:
        """The source that is read so; ``cut`` are its other options."""
        options: dict[str, Any] = {
            "format": self.format,
            "kinds": dict(self.kind),
            "dialect": self.dialect,
            "on_bad_row": self.on_bad_row,
            "on_schema_change": self.on_schema_change,
        }
        return Source(path, **options | cut)
