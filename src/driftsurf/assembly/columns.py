"""What the columns of a table were taken for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from driftsurf.encoding import TableEncoder
from driftsurf.runtime.target import Target
from driftsurf.tables import Table

__all__ = ["TakenFor", "taken_for"]

MOST_CLASSES = 20
"""More classes are counted, not named."""


class TakenFor(TypedDict):
    """Columns by what they were taken for: plain values, ready for JSON."""

    numbers: list[str]
    booleans: list[str]
    dates: list[str]
    names: dict[str, int]
    """Text, with the number of its names in the first batch, each of which has a slot."""
    hashed: dict[str, int]
    """Text of more names, which share slots."""
    empty: list[str]
    """Without a value in the first batch: taken as text."""
    features: int
    """Sparse ones, beside the columns."""
    left_out: list[str]
    label: str
    task: str
    n_classes: int
    """0 for values."""
    classes: list[Any]


def taken_for(
    encoder: TableEncoder, table: Table, target: Target, y: npt.NDArray[Any], left_out: Iterable[str] = ()
) -> TakenFor:
    """What the columns of the first batch become, by the encoder that was fitted on them, and its labels.

    >>> from driftsurf.tables import read_table
    >>> from driftsurf.runtime.target import find_target
    >>> table = read_table({"price": [1.5, 2.5], "city": ["Rome", "Oslo"], "sold": [True, False]})
    >>> columns = table.without("sold")
    >>> target = find_target("sold", "auto", table)
    >>> taken = taken_for(TableEncoder().fit(columns), columns, target, target.read(table))
    >>> taken["numbers"], taken["names"], taken["classes"]
    (['price'], {'city': 2}, [False, True])
    """
    classes = [] if target.task == "regression" else np.unique(y).tolist()
    taken = TakenFor(
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
    for part in encoder.layout.parts:
        match part.kind:
            case "number":
                taken["numbers"].append(part.name)
            case "boolean":
                taken["booleans"].append(part.name)
            case "date":
                taken["dates"].append(part.name)
            case "text" if part.gaps:
                taken["empty"].append(part.name)
            case "text" if part.words:
                taken["names"][part.name] = len(part.words)
            case "text":
                taken["hashed"][part.name] = len(table[part.name].as_text().used())
    return taken
