"""Validation of rows, weights and labels; whole calls are tested with the estimators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, detectors, estimators, learners, streams
from driftsurf.core.contracts import CSR
from driftsurf.core.input import Schema, read_rows, read_schema, read_weights
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import (
    DriftsurfError,
    InputError,
    LabelError,
    NonFiniteError,
    SchemaError,
    ShapeError,
    ValueTypeError,
)
from driftsurf.learners import LogisticRegression
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf


def read(X: Any, **options: Any) -> Any:
    return read_rows(X, read_schema(X), **options)


@pytest.mark.parametrize(
    ("X", "error", "named"),
    [
        (np.array([["2020-01-01"]], "datetime64[D]"), ValueTypeError, r"2020.* row 0, column 0"),
        (np.array([[np.timedelta64(3, "s")]]), ValueTypeError, r"3.* row 0, column 0"),
        (pd.DataFrame(index=[0, 1]), ShapeError, r"\(2, 0\)"),
        (pd.DataFrame({"a": [{}, 1.0]}), ValueTypeError, r"\{\} in row 0, column 'a'"),
        (sparse.coo_array(np.ones(3)), ShapeError, "1D sparse"),
        (sparse.csr_array((2, 0)), ShapeError, r"\(2, 0\)"),
        (sparse.csr_array(np.array([[1j]])), ValueTypeError, None),
        ([["a"], ["b"]], ValueTypeError, "'a' in row 0, column 0"),
        ([[1.0, 2.0], [1.0]], ShapeError, None),
    ],
)
def test_invalid_rows_are_refused(X: Any, error: type[InputError], named: str | None) -> None:
    with pytest.raises(error, match=named):
        read(X)


def test_a_sparse_matrix_whose_index_pointer_is_too_long_is_refused() -> None:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr[-1] = 99
    with pytest.raises(ShapeError, match=r" 99,.* 3 "):
        read(matrix)


def test_values_that_overflow_float32_are_refused() -> None:
    assert read([[1e30]], dtype=np.float32).dtype == np.float32
    with pytest.raises(InputError, match="inf"):
        read([[1e300]], dtype=np.float32)


def test_integers_and_booleans_become_floats() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": pd.array([3, 4], dtype="Int64")})
    assert read(frame).tolist() == [[1.0, 1.0, 3.0], [2.0, 0.0, 4.0]]


def test_input_is_not_modified_and_contiguous_floats_are_not_copied() -> None:
    X = np.arange(6.0).reshape(2, 3)
    assert read(X) is X or np.shares_memory(read(X), X)
    unsorted = sparse.csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    rows = read(unsorted)
    assert isinstance(rows, CSR)
    assert unsorted.indices.tolist() == [2, 0]
    assert rows.indices.tolist() == [0, 2]


def test_columns_whose_names_are_not_text_are_taken_by_position() -> None:
    assert read_schema(pd.DataFrame(np.ones((1, 2)))).names is None
    assert read_schema(pd.DataFrame({"a": [1.0], 2: [1.0]})).names is None


@pytest.mark.parametrize("weight", [2.0, [2, 2], np.array([2.0, 2.0])])
def test_weights_may_be_a_scalar_a_list_or_an_array(weight: Any) -> None:
    assert read_weights(weight, 2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("y", "named"),
    [
        ([[1, 2], [3, 4]], r"\(2, 2\)"),
        ([object(), object()], "'object'"),
        ([1, "a"], r"'int', 'str'"),
        (np.array([1j, 2j]), "complex128"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        ([None, 1], r"y\[0\] is None"),
        (["a", float("nan")], r"y\[1\] is nan"),
        (np.array(["a", None], object), r"y\[1\] is None"),
    ],
)
def test_invalid_labels_are_refused(y: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        ClassTargets(limit=2).read(y, 2)


def test_labels_may_be_a_column_or_a_series_of_an_equivalent_type() -> None:
    classes, codes = ClassTargets().read(np.array([[3], [5]]), 2)
    assert (classes.labels, codes.tolist()) == ((3, 5), [0.0, 1.0])
    assert classes.read([5.0, 3.0], 2)[1].tolist() == [1.0, 0.0]
    assert classes.read(pd.Series([5, 3], dtype="Int64"), 2)[1].tolist() == [1.0, 0.0]
    assert ClassTargets().read(np.array(["a", "b"], object), 2)[0].labels == ("a", "b")
    assert ClassTargets().read(pd.Series(["x", "y"], dtype="category"), 2)[0].labels == ("x", "y")


def test_classes_must_not_be_empty() -> None:
    with pytest.raises(LabelError, match="classes"):
        ClassTargets.declared([])


def test_classes_and_schema_survive_a_round_trip() -> None:
    for classes in (ClassTargets(), ClassTargets.declared(["b", "a"], 2), ClassTargets((True, False))):
        again = ClassTargets.from_state(classes.state())
        assert again == classes
        assert [type(label) for label in again.labels] == [type(label) for label in classes.labels]
    for schema in (Schema(3), Schema(2, sparse=True), Schema(2, names=("ä", 'quote"'))):
        assert Schema.from_state(schema.state(), "this model") == schema


MASKED = np.ma.array([0, 1, 1], mask=[False, False, True])
ROWS = np.array([[0.0], [1.0], [2.0]])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: DriftSurfClassifier().partial_fit(ROWS, MASKED), "y[2]"),
        (lambda: DriftSurfClassifier().partial_fit(ROWS, MASKED.astype(str)), "y[2]"),
        (lambda: DriftSurfRegressor().partial_fit(ROWS, MASKED), "y[2]"),
        (lambda: DriftSurfClassifier().partial_fit(ROWS, [0, 1, 1], sample_weight=MASKED), "sample_weight[2]"),
        (
            lambda: Fleet(n_features=1, classes=(0, 1), step_size=0.1, l2=1e-3).observe(MASKED, ROWS, [0, 1, 1]),
            "keys[2]",
        ),
        (lambda: Fleet(n_features=1, classes=(0, 1), step_size=0.1, l2=1e-3).observe([0, 1, 2], ROWS, MASKED), "y[2]"),
        (lambda: DelayedLabels(Session(DriftSurf(LogisticRegression()))).predict(MASKED, ROWS), "keys[2]"),
        (lambda: DriftSurfClassifier().partial_fit(np.ma.array([[1], [2]], mask=[[False], [True]]), [0, 1]), "row 1"),
    ],
)
def test_masked_values_are_refused(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(NonFiniteError) as error:
        call()
    assert named in str(error.value)


def test_arrays_without_masked_values_are_taken() -> None:
    whole = np.ma.array([0, 1, 1])
    assert read_weights(whole, 3).tolist() == [0.0, 1.0, 1.0]
    assert DriftSurfClassifier().partial_fit(ROWS, whole).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: read_weights(np.ones(3) + 1j, 3), ValueTypeError, "complex"),
        (lambda: read_weights([10**400] * 3, 3), ValueTypeError, "sample_weight"),
        (lambda: read_rows([[1], [10**400]], Schema(1)), ValueTypeError, "row 1"),
        (lambda: read_rows([[10**5000]], Schema(1)), ValueTypeError, "16,610 bits"),
        (lambda: DriftSurfClassifier().partial_fit({"a": [1, 10**400]}, [0, 1]), ValueTypeError, "'a'"),
        (lambda: DriftSurfClassifier().partial_fit(ROWS, [10**400, 1, 1]), LabelError, "401"),
        (lambda: DriftSurfRegressor().partial_fit(ROWS, [10**400, 1, 1]), ValueTypeError, "y"),
    ],
)
def test_values_that_no_number_can_hold_are_refused(
    call: Callable[[], Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error) as found:
        call()
    assert named in str(found.value)
    assert len(str(found.value)) < 400


def test_frames_of_every_kind_are_taken_or_refused_by_name() -> None:
    pl, pa = (pytest.importorskip(name) for name in ("polars", "pyarrow"))
    columns = {"a": [1.0, 2.0], "b": [3, 4]}
    expected = [[1.0, 3.0], [2.0, 4.0]]
    for table in (pa.table(columns), pa.record_batch(columns), pd.DataFrame(columns), pl.DataFrame(columns)):
        schema = read_schema(table)
        assert schema.names == ("a", "b")
        assert np.asarray(read_rows(table, schema)).tolist() == expected
    lazy = pl.DataFrame(columns).lazy()
    refused: list[Callable[[], Any]] = [
        lambda: read_rows(lazy, Schema(2)),
        lambda: DriftSurfClassifier().partial_fit(expected, lazy),
    ]
    for call in refused:
        with pytest.raises(ValueTypeError, match="collect"):
            call()
    levels = pd.DataFrame(expected, columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    refused = [lambda: read_schema(levels), lambda: DriftSurfClassifier().partial_fit(levels, [0, 1])]
    for call in refused:
        with pytest.raises(SchemaError, match=r"\('a', 'x'\)"):
            call()


class Unspeakable:
    """A value whose class raises when it is shown."""

    def __repr__(self) -> str:
        raise KeyError("repr")


def _wrong_parameters() -> list[Any]:
    """Return every parameter of every estimator, learner, detector and stream that needs no argument."""
    found = []
    for module in (estimators, learners, detectors, streams):
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind) and not name.startswith("Adaptive"):
                parameters = inspect.signature(kind).parameters.values()
                if all(one.default is not one.empty for one in parameters):
                    found += [pytest.param(kind, one.name, id=f"{name}-{one.name}") for one in parameters]
    return found


def _use(kind: Any, **parameters: Any) -> None:
    """Make a part, and let it check its parameters."""
    part = kind(**parameters)
    if kind.__module__.startswith("driftsurf.streams"):
        next(iter(part.batches(10)))
    elif kind.__module__.startswith("driftsurf.detectors"):
        part.update(np.ones(5))
    elif kind.__module__.startswith("driftsurf.learners"):
        Session(DriftSurf(part)).observe(np.ones((4, 1)), [0, 1, 0, 1])
    else:
        part.partial_fit(np.ones((4, 1)), [0, 1, 0, 1])


@pytest.mark.parametrize(("kind", "parameter"), _wrong_parameters())
def test_a_parameter_that_cannot_be_shown_is_named_by_its_type(kind: Any, parameter: str) -> None:
    with pytest.raises(DriftsurfError, match="Unspeakable"):
        _use(kind, **{parameter: Unspeakable()})


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    for call in (
        lambda: read([[Unspeakable()]]),
        lambda: DriftSurfClassifier(random_state=Unspeakable()).partial_fit([[1.0]], [1]),  # type: ignore[arg-type]
        lambda: driftsurf.save(Unspeakable(), "x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DriftsurfError, match="Unspeakable"):
            call()


def test_a_column_of_polars_without_a_type_of_numpy_is_refused_by_name() -> None:
    large = pl.Series([1, 0], dtype=pl.Int128)
    for model in (DriftSurfClassifier(), DriftSurfRegressor()):
        for given, named in (
            ({"X": pl.DataFrame({"n": large}), "y": [1, 0]}, "'n'"),
            ({"X": [[1.0], [2.0]], "y": large}, "y"),
            ({"X": [[1.0], [2.0]], "y": [1, 0], "sample_weight": large}, "sample_weight"),
        ):
            with pytest.raises(ValueTypeError, match=rf"^(the column )?{named} .*128"):
                model.partial_fit(**given)  # type: ignore[arg-type]
