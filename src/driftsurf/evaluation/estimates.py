"""The estimated error of a trace beside the true one, and how many intervals held it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.wording import percent, significant
from driftsurf.evaluation.trace import ESTIMATE_COLUMNS, LATE_COLUMNS, Trace


class EstimatedErrors(NamedTuple):
    """Estimates of the error that were made before labels came, and the errors that were found when these came.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> result = driftsurf.run("sea0", rows=10_000, out=Path(tempfile.mkdtemp(), "run"), progress=False)
    >>> found = estimated_errors(result.trace, result.model)
    >>> found.judged, found.held > 80
    (99, True)
    """

    at: FloatArray
    """Number of the last step that each estimate is about."""
    value: FloatArray
    low: FloatArray
    high: FloatArray
    true: FloatArray
    """The errors that were found: shares of rows, or root mean squared errors."""

    @property
    def judged(self) -> int:
        """Number of estimates whose true error is known."""
        return len(self.at)

    @property
    def held(self) -> int:
        """Number of intervals that held the true error."""
        return int(np.count_nonzero((self.low <= self.true + 1e-12) & (self.true <= self.high + 1e-12)))

    @property
    def distance(self) -> float:
        """Mean distance of the estimates from the true errors; NaN without any."""
        return float(np.abs(self.value - self.true).mean()) if self.judged else float("nan")

    def describe(self, *, shares: bool) -> str:
        """Say how near the estimates came, and how many intervals held the true error; ``shares`` of rows or numbers.

        >>> one = np.array([0.1, 0.2])
        >>> EstimatedErrors(one, one + 0.02, one - 0.05, one + 0.05, one).describe(shares=True)
        'Before its labels came, the error was estimated to within 2 % on average; of 2 intervals, 2 held it.'
        """
        near = percent(self.distance) if shares else significant(self.distance)
        counts = f"of {self.judged:,} intervals, {self.held:,} held it"
        return f"Before its labels came, the error was estimated to within {near} on average; {counts}."


def estimated_errors(trace: Trace, model: str) -> EstimatedErrors | None:
    """Return the estimates of a model of a trace with the errors of the same rows; None if there are none."""
    columns = trace.of(model)
    if ESTIMATE_COLUMNS[0] not in columns:
        return None
    made = np.flatnonzero(~np.isnan(columns[ESTIMATE_COLUMNS[0]]) & (columns["rows"] > 0))
    if not len(made):
        return None
    rows = columns["rows"].astype(np.float64)
    losses = np.nan_to_num(columns["error" if trace.labels else "squared_error"]) * rows
    if LATE_COLUMNS[0] in columns:
        true = losses[made] / rows[made]
    else:  # steps of few rows are estimated together, from the one after the last estimate on
        first = np.concatenate([[min(trace.warmup_steps, made[0])], made[:-1] + 1])
        true = np.array([losses[a : b + 1].sum() / rows[a : b + 1].sum() for a, b in zip(first, made, strict=True)])
    value, low, high = (columns[name][made] for name in ESTIMATE_COLUMNS)
    return EstimatedErrors(made.astype(np.float64), value, low, high, true if trace.labels else np.sqrt(true))
