"""Tables from whatever people have: frames of several libraries, mappings, arrays."""

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

from driftsurf.errors import LabelError, NonFiniteError, SchemaError, ShapeError, ValueTypeError
from driftsurf.tables import KINDS, Column, Table, empty_column, read_table
from source_files import cells, rows

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
    ("frame", "error", "message"),
    [
        ({}, ShapeError, "without columns"),
        ({"a": [1, 2], "b": [1]}, ShapeError, "different lengths"),
        ({"a": ["x", 1]}, ValueTypeError, "'a' holds 'int', 'str'"),
        ({"a": [1j]}, ValueTypeError, "no real number"),
        ({"a": [10**400]}, ValueTypeError, "usual size"),
        ({"a": np.array([1j])}, ValueTypeError, "type complex128"),
        ({"a": [[1], [2]]}, ShapeError, "shape"),
        ({"a": [{}]}, ValueTypeError, "holds 'dict'"),
        ({"a": [1.0, np.inf]}, NonFiniteError, "'a' contains infinity .* row 1"),
        (np.ones(3), ShapeError, "Expected 2D"),
        (pl.LazyFrame({"a": [1]}), ValueTypeError, "collect"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), SchemaError, "more than once"),
        (pa.table({"a": [[1]]}), ValueTypeError, "type list"),
    ],
)
def test_what_is_no_table_is_named(frame: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_table(frame)


def test_labels_are_text_booleans_or_whole_numbers() -> None:
    table = read_table(
        {"n": [1.0, 2.0], "h": [1.5, 2], "b": [True, False], "t": ["u", "v"], "d": [MOMENT] * 2, "g": [1, None]}
    )
    assert table.labels("n").dtype == np.int64
    assert table.labels("h").tolist() == [1.5, 2.0]
    assert table.labels("b").tolist() == [True, False]
    assert table.labels("t").tolist() == ["u", "v"]
    for name, message in (("d", "is a date"), ("g", "missing in row 1")):
        with pytest.raises(LabelError, match=message):
            table.labels(name)
    with pytest.raises(SchemaError, match="no column 'z'"):
        table.labels("z")


def test_parts_put_together_are_the_whole() -> None:
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
def test_an_empty_column_is_all_gaps(kind: Any) -> None:
    assert cells(empty_column(kind, 3)) == [None] * 3


def test_a_gap_may_be_a_word_of_a_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None]))
    assert cells(read_table(pa.table({"c": array}))["c"]) == ["a", None, None]
