"""A frame as the source of a run."""

from __future__ import annotations

from typing import Any

from driftsurf.data.frames import is_table
from driftsurf.data.sources.frame import FrameRows
from driftsurf.errors import Option, OptionError
from driftsurf.runs.options import RunOptions

__all__ = ["read_frame"]


def read_frame(frame: Any, options: RunOptions) -> FrameRows:
    """Return the rows of a frame; OptionError if it is none, or if an option was given that a frame cannot have."""
    if not is_table(frame):
        raise OptionError(
            f"source is of the type {type(frame).__name__}; it must be a frame of pandas or polars, a table of "
            "pyarrow, a dictionary of columns, or the name of a stream or of a file. For arrays, use "
            "driftsurf.prequential, or an estimator, such as driftsurf.DriftSurfClassifier"
        )
    if options.is_keyed:
        raise OptionError(
            Option("key"),
            " with a frame needs ",
            Option("labels"),
            "; a learner for each key reads files, or learns frames as a driftsurf.Fleet",
        )
    for name in ("follow", "follow_for"):
        if name in options.given("tables"):
            raise OptionError(Option(name), " applies to a growing file, and a frame does not grow")
    # Ids and times are read all the same.
    drop = {*options.reading.drop} - {options.tables.time, options.key_columns.id, options.join_column}
    return FrameRows(frame, drop)
