"""Summarise what the columns of a table were read as."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from driftsurf.data.encoding import TableEncoder
from driftsurf.data.tables import Table
from driftsurf.data.target import Target

MOST_CLASSES = 20
"""Largest number of classes that are listed; more are only counted."""


class ColumnSummary(TypedDict):
    """Columns by what they were read as: plain values, ready for JSON."""

    numbers: list[str]
    booleans: list[str]
    dates: list[str]
    names: dict[str, int]
    """Text columns with a slot for each word, and their number of words in the first batch."""
    hashed: dict[str, int]
    """Text columns with more words, which share slots."""
    empty: list[str]
    """Columns without a value in the first batch, which are treated as text."""
    features: int
    """Number of sparse features."""
    left_out: list[str]
    label: str
    task: str
    n_classes: int
    """Number of classes; 0 for regression."""
    classes: list[Any]


def summarise_columns(
    encoder: TableEncoder, table: Table, target: Target, y: npt.NDArray[Any], left_out: Iterable[str] = ()
) -> ColumnSummary:
    """Return what the columns of the first batch become, from the encoder that was fitted on it, and its labels.

    >>> from driftsurf.data.frames import read_table
    >>> from driftsurf.data.target import find_target
    >>> table = read_table({"price": [1.5, 2.5], "city": ["Rome", "Oslo"], "sold": [True, False]})
    >>> columns = table.without("sold")
    >>> target = find_target("sold", "auto", table)
    >>> summary = summarise_columns(TableEncoder().fit(columns), columns, target, target.read(table))
    >>> summary["numbers"], summary["names"], summary["classes"]
    (['price'], {'city': 2}, [False, True])
    """
    classes = [] if target.task == "regression" else np.unique(y).tolist()
    summary = ColumnSummary(
        numbers=[],
        booleans=[],
        dates=[],
        names={},
        hashed={},
        empty=[],
        features=0 if table.features is None else table.features.n_features,
        left_out=list(dict.fromkeys(left_out)),
        label=f"{target.column} {target.test} {target.value}".strip(),
        task=target.task,
        n_classes=len(classes),
        classes=classes[:MOST_CLASSES],
    )
    for slots in encoder.layout.columns:
        match slots.kind:
            case "number":
                summary["numbers"].append(slots.name)
            case "boolean":
                summary["booleans"].append(slots.name)
            case "date":
                summary["dates"].append(slots.name)
            case "text" if slots.gaps:
                summary["empty"].append(slots.name)
            case "text" if slots.words:
                summary["names"][slots.name] = len(slots.words)
            case "text":
                summary["hashed"][slots.name] = len(table[slots.name].as_text().used())
    return summary
