"""Causes of a drift: the columns, classes and inputs that changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray
from driftsurf.core.drifts import DriftCause
from driftsurf.session.correction import Evidence, changed_columns, narrowed, telling_columns
from driftsurf.session.drift_evidence import (
    EvidenceBlock,
    Integers,
    Surroundings,
    classes_of,
    residuals_of,
    stacked,
    wide,
)

SHIFT, SURE_SHIFT = 0.3, 6.0
"""Least shift of a column in standard deviations, and in standard errors, to be a move of the inputs."""

SHARED = "another cell is missing"
"""Encoded column that many columns share."""

LEAST_CLASS = 0.02
"""Share of rows from which on a class is there."""

UNSURE_ROWS = 200
"""Rows before the estimated beginning of a drift that may already be new."""

CALENDAR = (
    *(" (days since 1970)", " (sine of the hour)", " (cosine of the hour)"),
    *(f" {day}" for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")),
)
"""Ends of the names of encoded columns of a date, whose values move by themselves."""


def causes_of(
    old: EvidenceBlock,
    new: EvidenceBlock,
    old_scores: FloatArray,
    new_scores: FloatArray,
    around: Surroundings,
    *,
    unit: float,
    regression: bool,
    resolved: bool,
    kind: str,
) -> dict[str, Any]:
    """Return the fields of a drift that say what changed, as far as the rows show it.

    Parameters
    ----------
    old, new
        Rows before the drift that the frozen model had not learned, and the rows since.
    old_scores, new_scores
        Scores of the frozen model for them.
    around
        Names of columns and classes.
    unit
        The residual that counts as one step of a score.
    regression
        Whether numbers are predicted.
    resolved
        Whether it is known that the rule is new.
    kind
        Kind of the drift; empty if it is not decided.
    """
    if min(len(old.y), len(new.y)) < 30:
        return {}
    known = list(around.columns())
    classes = () if regression else class_moves(old.y, new.y, around.classes)
    if any(one.startswith("new: ") for one in classes):
        kind = "new rule"  # whatever knows only old rows is wrong about a class that they do not have
    fields: dict[str, Any] = {"classes": classes} | ({"kind": kind} if kind else {})
    width = new.X.n_features if isinstance(new.X, CSR) else new.X.shape[1]
    label = [known[k] if k < len(known) else f"column {k}" for k in range(width)]
    parts = (old.y, old_scores), (new.y, new_scores)
    residuals = np.concatenate([residuals_of(y, scores, regression=regression) for y, scores in parts])
    both = stacked([old.X, new.X])
    columns = telling_columns(both, residuals)
    columns = columns[~only_counts(narrowed(both, columns))]
    columns = columns[[label[k] != SHARED for k in columns]]
    if not len(columns):
        return fields | {"cause": "classes" if classes else "unknown"}
    sources = list(dict.fromkeys(source_column(label[k]) for k in columns))
    groups = [sources.index(source_column(label[k])) for k in columns]
    tested = len(set(map(source_column, label)))
    sides = (
        Evidence(narrowed(old.X, columns), old.y, wide(old_scores, new_scores)),
        Evidence(narrowed(new.X, columns), new.y, wide(new_scores, old_scores)),
    )
    n_classes = classes_of(new_scores, regression=regression)
    found = [sources[k] for k in changed_columns(n_classes, unit, *sides, groups, tested, strict=not resolved)]
    moved = any(not label[columns[k]].endswith(CALENDAR) for k in moved_columns(sides[0].X, sides[1].X))
    cause: DriftCause = "classes" if classes else "columns" if found else "unknown"
    if kind == "harm" and not classes:  # no rule changed, so that no column did
        found, cause = [], "unknown"
    if moved and not classes and not found:
        cause = "inputs"
    return fields | {"columns": tuple(found), "cause": cause}


def source_column(name: str) -> str:
    """Return the column of a table that an encoded column was made of.

    >>> [source_column(name) for name in ("city=Rome", "city (hash 3)", "city is missing", "price")]
    ['city', 'city', 'city', 'price']
    >>> [source_column(name) for name in ("at Monday", "at (sine of the hour)", "at (days since 1970)")]
    ['at', 'at', 'at']
    """
    name = name.partition("=")[0].partition(" (hash ")[0]
    return next((name.removesuffix(end) for end in (" is missing", *CALENDAR) if name.endswith(end)), name)


def only_counts(X: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which columns only rise or only fall from row to row, as clocks and counters do."""
    steps = np.diff(X, axis=0)
    moving = (steps != 0.0).any(axis=0)
    return np.asarray(moving & ((steps >= 0.0).all(axis=0) | (steps <= 0.0).all(axis=0)))


def class_moves(old: FloatArray, new: FloatArray, labels: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes that came or went between old and new rows, such as "new: fraud" and "gone: spam"."""
    size = int(max(old.max(), new.max())) + 1
    sure = old[: max(len(old) - UNSURE_ROWS, len(old) // 2)]
    before, after = (np.bincount(one.astype(np.int64), minlength=size) for one in (sure, new))
    came = np.flatnonzero((before == 0) & (after >= np.maximum(3, LEAST_CLASS * len(new))))
    gone = np.flatnonzero((after == 0) & (before * (len(new) / max(len(sure), 1)) >= 10.0))
    return (*(f"new: {labels[k]}" for k in came.tolist()), *(f"gone: {labels[k]}" for k in gone.tolist()))


def moved_columns(old: FloatArray, new: FloatArray) -> Integers:
    """Return the columns whose means differ between old and new rows beyond chance and noticeably."""
    spread = np.sqrt(0.5 * (old.var(axis=0) + new.var(axis=0)))
    shift = np.abs(new.mean(axis=0) - old.mean(axis=0))
    noise = spread * math.sqrt(1.0 / len(old) + 1.0 / len(new))
    return np.flatnonzero((shift > SHIFT * spread) & (shift > SURE_SHIFT * noise))
