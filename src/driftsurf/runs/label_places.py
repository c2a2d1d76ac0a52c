"""Where a label that cannot be used stands, for errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.source import Position
from driftsurf.data.source_reader import SourceReader
from driftsurf.errors import InputError, Message, RowIndex

__all__ = ["LabelPlaces", "naming_labels"]


@dataclass(frozen=True, slots=True)
class LabelPlaces:
    """Where the labels of a table stand in its source."""

    reader: SourceReader
    before: Position
    """Position of the reader before the table."""
    labelled: npt.NDArray[np.bool_]
    """Which rows of the table have a label."""

    def of(self, label: int) -> str:
        """Return the place of a label, counted among the rows with a label."""
        return self.reader.place_of(self.before, int(np.flatnonzero(self.labelled)[label]))


@contextlib.contextmanager
def naming_labels(y: Any, places: LabelPlaces | None) -> Iterator[None]:
    """Context in which an error about one of the labels ``y`` names its place in the source."""
    try:
        yield
    except InputError as error:
        row, message = error.row, error.args[0]
        if row is None and error.reason in ("unknown", "too_many_classes"):
            row = next((place for place, label in enumerate(y) if label == error.value), None)
        if places is None or row is None or row >= len(y) or not isinstance(message, Message):
            raise
        place = places.of(row)
        named = message.respelled(lambda part: f"the label in {place}" if isinstance(part, RowIndex) else part)
        if named == message:
            error.add_note(Message(f"The label stands in {place}."))
        error.args = (named,)
        raise
