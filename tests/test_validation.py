"""What may enter, piece by piece; whole calls are in test_estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from driftsurf.base import CSR
from driftsurf.errors import InputError, LabelError, ShapeError, ValueTypeError
from driftsurf.labels import Classes
from driftsurf.validation import Schema, read_rows, read_schema, read_weights


def read(X: Any, **options: Any) -> Any:
    return read_rows(X, read_schema(X), **options)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.array([["2020-01-01"]], "datetime64[D]"), ValueTypeError, "number|numeric"),
        (np.array([[np.timedelta64(3, "s")]]), ValueTypeError, "number|numeric"),
        (pd.DataFrame(index=[0, 1]), ShapeError, "0 feature"),
        (pd.DataFrame({"a": [{}, 1.0]}), ValueTypeError, r"\{\} in row 0, column 'a'"),
        (sparse.coo_array(np.ones(3)), ShapeError, "1D sparse"),
        (sparse.csr_array((2, 0)), ShapeError, "0 feature"),
        (sparse.csr_array(np.array([[1j]])), ValueTypeError, "Complex"),
        ([["a"], ["b"]], ValueTypeError, "'a' in row 0, column 0"),
        ([[1.0, 2.0], [1.0]], ShapeError, "rows of one length"),
    ],
)
def test_rows_that_may_not_enter(X: Any, error: type[InputError], message: str) -> None:
    with pytest.raises(error, match=message):
        read(X)


def test_a_sparse_pointer_beyond_its_values_is_refused() -> None:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr[-1] = 99
    with pytest.raises(ShapeError, match="ends at 99, beyond its 3 values"):
        read(matrix)


def test_values_that_float32_does_not_hold_are_refused() -> None:
    assert read([[1e30]], dtype=np.float32).dtype == np.float32
    with pytest.raises(InputError, match="inf"):
        read([[1e300]], dtype=np.float32)


def test_whole_numbers_and_truth_values_become_floats() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": pd.array([3, 4], dtype="Int64")})
    assert read(frame).tolist() == [[1.0, 1.0, 3.0], [2.0, 0.0, 4.0]]


def test_nothing_given_is_changed_and_contiguous_floats_are_not_copied() -> None:
    X = np.arange(6.0).reshape(2, 3)
    assert read(X) is X or np.shares_memory(read(X), X)
    unsorted = sparse.csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    rows = read(unsorted)
    assert isinstance(rows, CSR)
    assert unsorted.indices.tolist() == [2, 0]
    assert rows.indices.tolist() == [0, 2]


def test_columns_without_text_names_go_by_position() -> None:
    assert read_schema(pd.DataFrame(np.ones((1, 2)))).names is None
    assert read_schema(pd.DataFrame({"a": [1.0], 2: [1.0]})).names is None


@pytest.mark.parametrize("weight", [2.0, [2, 2], np.array([2.0, 2.0])])
def test_weights_of_any_kind(weight: Any) -> None:
    assert read_weights(weight, 2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[1, 2], [3, 4]], "has shape"),
        ([object(), object()], "y holds 'object'"),
        ([1, "a"], "y holds|labels"),
        (np.array([1j, 2j]), "Unknown label type"),
        (np.array(["2020-01-01"], "datetime64[D]"), "Unknown label type"),
        ([None, 1], "y holds"),
    ],
)
def test_labels_that_may_not_enter(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Classes(limit=2).read(y, 2)


def test_labels_in_one_column_and_of_kinds_that_agree() -> None:
    classes, codes = Classes().read(np.array([[3], [5]]), 2)
    assert (classes.labels, codes.tolist()) == ((3, 5), [0.0, 1.0])
    assert classes.read([5.0, 3.0], 2)[1].tolist() == [1.0, 0.0]
    assert classes.read(pd.Series([5, 3], dtype="Int64"), 2)[1].tolist() == [1.0, 0.0]
    assert Classes().read(np.array(["a", "b"], object), 2)[0].labels == ("a", "b")
    assert Classes().read(pd.Series(["x", "y"], dtype="category"), 2)[0].labels == ("x", "y")


def test_an_empty_set_of_classes_is_refused() -> None:
    with pytest.raises(LabelError, match="classes is empty"):
        Classes.given([])


def test_classes_and_schema_survive_saving() -> None:
    for classes in (Classes(), Classes.given(["b", "a"], 2), Classes((True, False))):
        again = Classes.from_state(classes.state())
        assert again == classes
        assert [type(label) for label in again.labels] == [type(label) for label in classes.labels]
    for schema in (Schema(3), Schema(2, sparse=True), Schema(2, names=("ä", 'quote"'))):
        assert Schema.from_state(schema.state(), "this model") == schema
