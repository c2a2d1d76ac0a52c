"""Advice about the label: spellings of the same class, whole numbers that may be classes, labels that identify rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.options import shown
from driftsurf.data.target import Target
from driftsurf.errors import Message, Option

__all__ = ["label_hints"]

LEAST_ROWS = 20
"""With fewer labels, all of them may differ by chance."""
FEW_CLASSES = 10
"""At most so many different whole numbers are usually classes, such as digits or grades."""
MOST_SPELLINGS = 5
"""Number of classes with several spellings that are pointed out."""
ROWS_PER_CLASS = 10
"""Whole numbers that occur at least this many times each on average may be classes, however many there are."""


def label_hints(target: Target, task: str, y: npt.NDArray[Any]) -> list[Message]:
    """Return advice about the first labels ``y`` of a target; ``task`` is what was asked for, such as "auto".

    >>> classes = np.arange(1000) % 40
    >>> print(*label_hints(Target("class", "regression"), "auto", classes.astype(float)))
    the label 'class' has 40 different whole numbers in the first 1,000 rows and is predicted as a number \
(task='regression'); if they are classes, pass task='multiclass'
    """
    rows = len(y)
    if target.test:
        return []
    spellings = list(_spelling_hints(target.column, y))
    if spellings or rows < LEAST_ROWS:
        return spellings
    distinct, number = len(np.unique(y)), y.dtype.kind in "if"
    whole = number and bool((y == np.floor(y)).all())
    regression = target.task == "regression"
    is_new = distinct == rows if regression else 2 * distinct > rows
    if is_new and (whole or not regression):
        return [_identifier_hint(target.column, distinct, rows)]
    if task != "auto" or not whole or not (regression or distinct > FEW_CLASSES):
        return []
    if regression and distinct * ROWS_PER_CLASS > rows:
        return []
    meant, other = ("a number", "classes") if regression else ("a class", "amounts, counts or grades")
    return [
        Message(
            f"the label {target.column!r} has {distinct:,} different whole numbers in the first {rows:,} rows and is "
            f"predicted as {meant} (",
            Option("task", target.task),
            f"); if they are {other}, pass ",
            Option("task", "multiclass" if regression else "regression"),
        )
    ]


def _spelling_hints(column: str, y: npt.NDArray[Any]) -> Iterator[Message]:
    """Yield a hint for labels that differ only in case or blanks, unless nearly all labels differ."""
    labels = np.unique(y).tolist() if y.dtype.kind == "U" else []
    alike = dict[str, list[str]]()
    for label in labels if 2 * len(labels) <= len(y) else ():
        alike.setdefault(" ".join(label.casefold().split()), []).append(label)
    for same in islice((same for same in alike.values() if len(same) > 1), MOST_SPELLINGS):
        yield Message(
            f"the label {column!r} has {' and '.join(map(shown, same))}, which differ only in case or blanks and are "
            "learned as different classes; if they mean the same, write them alike in the source"
        )


def _identifier_hint(column: str, distinct: int, rows: int) -> Message:
    return Message(
        f"the label {column!r} has {distinct:,} different values in the first {rows:,} rows; if it identifies the row, "
        "nothing can be learned: name the column to predict with ",
        Option("label"),
    )
