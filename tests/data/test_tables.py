"""Tables from frames of several libraries, mappings and arrays."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from source_files import cells, rows

from driftsurf.data.frames import read_table
from driftsurf.data.reading_options import KINDS
from driftsurf.data.tables import Column, Table, empty_column
from driftsurf.errors import LabelError, NonFiniteError, SchemaError, ShapeError, ValueTypeError

MOMENT = datetime.datetime(2007, 1, 2, 3, 4, 5)
VALUES: dict[str, list[Any]] = {
    "whole": [1, 2, 3],
    "number": [1.5, None, -2.0],
    "flag": [True, False, None],
    "when": [MOMENT, None, MOMENT],
    "word": ["a", None, "b"],
}
KIND_OF = {"whole": "number", "number": "number", "flag": "boolean", "when": "date", "word": "text"}


def pandas_nullable(values: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(values).convert_dtypes()


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pandas_nullable, pl.DataFrame, pa.table, lambda v: pa.table(v).to_batches()[0]]
)
def test_every_kind_of_frame_gives_the_same_table(make: Callable[[Any], Any]) -> None:
    table = read_table(make(VALUES))
    assert {name: column.kind for name, column in table.columns.items()} == KIND_OF
    assert rows(table) == [(1.0, 1.5, 1.0, MOMENT, "a"), (2.0, None, 0.0, None, None), (3.0, -2.0, None, MOMENT, "b")]
    assert read_table(table) is table


def test_arrays_and_sparse_matrices_are_tables_too() -> None:
    assert list(read_table(np.ones((2, 3))).columns) == ["x0", "x1", "x2"]
    table = read_table(sparse.csr_array([[0.0, 2.0], [0.0, 0.0]]))
    assert rows(table) == [(((1, 2.0),),), ((),)]
    assert len(table) == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 2], np.uint8), [1.0, 2.0]),
        (np.array([90, 30], "timedelta64[s]"), [90.0, 30.0]),
        (np.array(["2007-01-01", "NaT"], "datetime64[D]"), [datetime.datetime(2007, 1, 1), None]),
        (np.ma.masked_array([1.0, 2.0], [False, True]), [1.0, None]),
        (np.array(["a", "b"]), ["a", "b"]),
        ([decimal.Decimal("1.5"), np.float32(2.5)], [1.5, 2.5]),
        ([datetime.date(2007, 1, 1), pd.NaT], [datetime.datetime(2007, 1, 1), None]),
        (
            [datetime.datetime(2007, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))],
            [datetime.datetime(2007, 1, 1)],
        ),
        (pd.Series(["a", None], dtype="category"), ["a", None]),
        (pd.Series(pd.to_datetime(["2007-01-01T02:00+02:00"])), [datetime.datetime(2007, 1, 1)]),
        (pd.Series([1, None], dtype="Int64"), [1.0, None]),
        (pl.Series([1, None]), [1.0, None]),
        (pl.Series(["x", None], dtype=pl.Categorical), ["x", None]),
        ([None, None], [None, None]),
        (Column("number", np.array([1.0])), [1.0]),
    ],
)
def test_columns_of_many_types(values: Any, expected: list[Any]) -> None:
    assert cells(read_table({"c": values})["c"]) == expected


@pytest.mark.parametrize(
    ("frame", "error", "named"),
    [
        ({}, ShapeError, "0 feature"),
        ({"a": [1, 2], "b": [1]}, ShapeError, "'a': 2, 'b': 1"),
        ({"a": ["x", 1]}, ValueTypeError, "'a'.*'int', 'str'"),
        ({"a": [1j]}, ValueTypeError, "1j.*'a'"),
        ({"a": [10**400]}, ValueTypeError, "000.*'a'"),
        ({"a": np.array([1j])}, ValueTypeError, "'a'.*complex128"),
        ({"a": [[1], [2]]}, ShapeError, r"'a'.*\(2, 1\)"),
        ({"a": [{}]}, ValueTypeError, "'a'.*'dict'"),
        ({"a": [1.0, np.inf]}, NonFiniteError, "'a'.*row 1"),
        (np.ones(3), ShapeError, "2D.*1D"),
        (pl.LazyFrame({"a": [1]}), ValueTypeError, "collect"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), SchemaError, "'a'"),
        (pa.table({"a": [[1]]}), ValueTypeError, "'a'.*list"),
    ],
)
def test_input_that_is_not_a_table_is_refused(frame: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        read_table(frame)


def test_labels_are_text_booleans_or_whole_numbers() -> None:
    table = read_table(
        {"n": [1.0, 2.0], "h": [1.5, 2], "b": [True, False], "t": ["u", "v"], "d": [MOMENT] * 2, "g": [1, None]}
    )
    assert table.labels("n").dtype == np.int64
    assert table.labels("h").tolist() == [1.5, 2.0]
    assert table.labels("b").tolist() == [True, False]
    assert table.labels("t").tolist() == ["u", "v"]
    for name, named in (("d", "'d'"), ("g", "'g'.*row 1")):
        with pytest.raises(LabelError, match=named):
            table.labels(name)
    with pytest.raises(SchemaError, match=r"'z'.*'n'"):
        table.labels("z")


def test_concatenated_parts_equal_the_whole_table() -> None:
    whole = read_table(pa.table(VALUES))
    parts = [whole.rows(0, 1), whole.rows(1, 1), read_table(pa.table(VALUES).slice(1))]
    assert rows(Table.concatenate(parts)) == rows(whole)
    rich = read_table(sparse.csr_array(np.diag([1.0, 2.0, 3.0])))
    assert rows(Table.concatenate([rich.rows(1, 3), rich.rows(0, 1)])) == [rows(rich)[i] for i in (1, 2, 0)]


def test_values_become_words() -> None:
    table = read_table(
        {"n": [1.0, 2.5, None, 1e300], "b": [True, False, None, True], "d": [MOMENT] * 3 + [None], "t": ["x"] * 4}
    )
    assert cells(table["n"].as_text()) == ["1", "2.5", None, "1e+300"]
    assert cells(table["b"].as_text()) == ["true", "false", None, "true"]
    assert cells(table["d"].as_text()) == ["2007-01-02T03:04:05"] * 3 + [None]
    assert table["t"].as_text() is table["t"]
    far = Column("date", np.array([2**62], "datetime64[us]"))
    assert len(cells(far.as_text())) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_column_has_only_missing_values(kind: Any) -> None:
    assert cells(empty_column(kind, 3)) == [None] * 3


def test_a_missing_value_may_be_an_entry_of_an_arrow_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None]))
    assert cells(read_table(pa.table({"c": array}))["c"]) == ["a", None, None]
