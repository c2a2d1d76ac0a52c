"""Number of rows in a time step of a run over files, if the user names none."""

from __future__ import annotations

import copy

from driftsurf.data import Source
from driftsurf.data.source import STANDARD_INPUT
from driftsurf.data.sources.files import FileSource
from driftsurf.data.sources.frame import FrameSource
from driftsurf.errors import DriftsurfError
from driftsurf.session.step_rows import MOST_ROWS, STEPS, step_rows

READ_ROWS = 5_000
"""Rows that are read at a time to count them."""


def rows_of_small_files(source: Source) -> int | None:
    """Return the number of rows of files that are too small for time steps of the largest default size.

    None if there are more rows, or if their number cannot be known: a growing file, a pipe, a broker.
    """
    if type(source) is not FileSource or source.follow is not None or source.name == STANDARD_INPUT:
        return None
    if not source.seekable:
        return None
    count, enough = 0, STEPS * MOST_ROWS
    again = copy.copy(source)
    again.batch_size = READ_ROWS
    try:
        for table, _ in again.tables(on_skip=lambda bad: None):
            count += len(table)
            if count >= enough:
                return None
    except DriftsurfError:  # the run meets the same row, and says so where it does
        return count or None
    return count


def default_batch_rows(source: Source) -> int | None:
    """Return the number of rows in a time step that suits small files or a frame; None for the usual one."""
    count = len(source) if isinstance(source, FrameSource) else rows_of_small_files(source)
    return None if count is None else step_rows(count)
