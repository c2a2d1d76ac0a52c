"""Rows of a table by key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf.data.frames import read_table
from driftsurf.errors import (
    OptionError,
    ValueTypeError,
)
from driftsurf.keyed import Columns, KeyedOptions
from driftsurf.keyed.grouping import by_key


def test_keys_can_be_integers_and_sequences_dates() -> None:
    learner = KeyedOptions(features=("x", "on"), batch_size=10).learner(("x", "on"))
    table = read_table(
        {
            "k": [3, 1, 3, None],
            "t": np.array(["2024-01-02", "2024-01-01", "NaT", "2024-01-01"], "datetime64[us]"),
            "x": [1.0, 2.0, 3.0, 4.0],
            "on": [True, False, True, True],
            "y": ["yes", None, "no", "no"],
        }
    )
    given = by_key(table, learner, Columns("k", "t", "y"), None)
    assert list(given.rows) == [1, 3]
    assert given.rows[1].y == [None]
    assert given.rows[3].X.tolist() == [[1.0, 1.0]]
    assert given.rows[3].sequence.tolist() == [1_704_153_600_000_000]
    assert given.types == ("int64", "string")
    assert given.counts == {"unplaced": 2, "late": 0}


@pytest.mark.parametrize(
    ("label", "classes", "kind", "values"),
    [
        ([True, None], None, "bool_", [True, None]),
        ([1, 2.5], None, "float64", [1, 2.5]),
        ([1, 2], (1, 2), "int64", [1, 2]),
        (np.array(["2024-01-02", "NaT"], "datetime64[us]"), None, "string", ["2024-01-02T00:00:00.000000", None]),
    ],
)
def test_labels_keep_their_kind(label: Any, classes: Any, kind: str, values: list[Any]) -> None:
    learner = KeyedOptions(classes=classes).learner(("x",))
    table = read_table({"k": ["a", "a"], "t": [0, 1], "x": [1.0, 2.0], "y": label})
    given = by_key(table, learner, Columns("k", "t", "y"), None)
    assert given.types == ("string", kind)
    assert given.rows["a"].y == values


@pytest.mark.parametrize(
    ("columns", "features", "message"),
    [
        (Columns("b", "t", "y"), ("x",), "'b'"),
        (Columns("k", "k", "y"), ("x",), "'k'"),
        (Columns("k", "t", "y"), ("k",), "'k'"),
    ],
)
def test_columns_of_the_wrong_kind_are_named(columns: Columns, features: tuple[str, ...], message: str) -> None:
    table = read_table({"k": ["a", "b"], "t": [0, 1], "x": [1.0, 2.0], "y": [0, 1], "b": [True, False]})
    with pytest.raises((ValueTypeError, OptionError), match=message):
        by_key(table, KeyedOptions().learner(features), columns, None)
