"""Real data as tables: files, folders, growing files and standard input, in bounded memory, resumable anywhere."""

from driftsurf.sources._base import BadRow, Dialect
from driftsurf.sources._bytes import polling
from driftsurf.sources.hints import hints, number_hint
from driftsurf.sources.reading import Reading
from driftsurf.sources.source import Position, Source

__all__ = ["BadRow", "Dialect", "Position", "Reading", "Source", "hints", "number_hint", "polling"]
