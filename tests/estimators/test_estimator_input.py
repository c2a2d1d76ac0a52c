"""Rows that estimators accept and refuse: arrays, frames, sparse matrices, bad values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from estimator_checks import Batches, stream
from scipy import sparse
from sklearn.exceptions import NotFittedError

from driftsurf import DriftSurfClassifier
from driftsurf.errors import (
    InputError,
    LabelError,
    NonFiniteError,
    OptionError,
    SchemaError,
    ShapeError,
    SmallBatchWarning,
    ValueTypeError,
)
from driftsurf.learners import LogisticRegression

NAMES = ["a", "b", "c"]


def fed(batches: Batches, model: DriftSurfClassifier | None = None, **options: Any) -> DriftSurfClassifier:
    model = DriftSurfClassifier(random_state=0, **options) if model is None else model
    for X, y in batches:
        model.partial_fit(X, y)
    return model


# ---------------------------------------------------------------------------- input kinds


def as_frame(X: Any) -> Any:
    return pd.DataFrame(X, columns=NAMES)


KINDS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda X: X.tolist(),
    "fortran": np.asfortranarray,
    "read-only": lambda X: _read_only(X),
    "object": lambda X: X.astype(object),
    "pandas": as_frame,
    "pandas nullable": lambda X: as_frame(X).astype("Float64"),
    "pandas other order": lambda X: as_frame(X)[NAMES[::-1]],
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "polars other order": lambda X: pl.DataFrame(X, schema=NAMES).select(NAMES[::-1]),
}


def _read_only(X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    X = X.copy()
    X.setflags(write=False)
    return X


@pytest.mark.parametrize("kind", KINDS)
def test_every_dense_kind_gives_identical_bytes(kind: str) -> None:
    convert = KINDS[kind]
    frames = kind.startswith(("pandas", "polars"))
    first = as_frame if frames else (lambda X: X)
    batches = stream()
    plain, other = (DriftSurfClassifier(random_state=0) for _ in range(2))
    for step, (X, y) in enumerate(batches):
        plain.test_then_train(first(X), y)
        other.test_then_train(first(X) if step == 0 else convert(X), y)
    assert other.to_bytes() == plain.to_bytes()
    assert np.array_equal(other.predict_proba(convert(batches[0][0])), plain.predict_proba(batches[0][0]))


def test_array_and_frame_learn_the_same_model() -> None:
    batches = stream()
    array, frame = DriftSurfClassifier(random_state=0), DriftSurfClassifier(random_state=0)
    for X, y in batches:
        assert np.array_equal(array.test_then_train(X, y), frame.test_then_train(as_frame(X), y))
    assert frame.feature_names_in_.tolist() == NAMES
    assert array._session.strategy.state().keys() == frame._session.strategy.state().keys()
    from driftsurf.core.state import to_bytes

    assert to_bytes(array._session.strategy.state()) == to_bytes(frame._session.strategy.state())


def sparse_stream(steps: int = 20, m: int = 120, d: int = 30) -> Batches:
    rng = np.random.default_rng(4)
    batches = []
    for step in range(steps):
        X = np.where(rng.random((m, d)) < 0.2, rng.normal(size=(m, d)), 0.0)
        X[0] = 0.0  # an empty row
        y = np.where((X[:, :8].sum(axis=1) > 0) == (step < 10), 1, -1)
        batches.append((X, y))
    return batches


@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_sparse_rows_give_the_same_labels_and_decisions(convert: Callable[[Any], Any], offset: float) -> None:
    """Also where one column lies far from zero and is therefore centred."""
    dense, csr = DriftSurfClassifier(random_state=0), DriftSurfClassifier(random_state=0)
    for X, y in sparse_stream():
        X[:, 3] += offset
        assert np.array_equal(dense.test_then_train(X, y), csr.test_then_train(convert(X), y))
        assert np.allclose(dense.predict_proba(X), csr.predict_proba(convert(X)), rtol=0, atol=1e-9)
    happened = [[(t.kind, t.step) for t in model.journal_.transitions] for model in (dense, csr)]
    assert happened[0] == happened[1] != []


def test_the_first_batch_fixes_dense_or_sparse() -> None:
    (X, y), (X2, y2) = sparse_stream(2)
    pairs: list[Any] = [(X, sparse.csr_array(X2)), (sparse.csr_array(X), X2)]
    for first, second in pairs:
        model = DriftSurfClassifier(random_state=0).partial_fit(first, y).partial_fit(second, y2)
        same = DriftSurfClassifier(random_state=0)
        kind: Any = sparse.csr_array if sparse.issparse(first) else np.asarray
        same.partial_fit(kind(X), y).partial_fit(kind(X2), y2)
        assert model.to_bytes() == same.to_bytes()


def test_a_sparse_batch_too_large_for_a_dense_model_is_refused() -> None:
    wide = 2**17
    model = DriftSurfClassifier(random_state=0).partial_fit(np.ones((2, wide)), [0, 1])
    before = model.to_bytes()
    with pytest.raises(ShapeError, match="MiB"):
        model.partial_fit(sparse.csr_array((1000, wide)), np.zeros(1000))
    assert model.to_bytes() == before


def test_duplicate_and_unsorted_sparse_entries_are_summed() -> None:
    odd = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([2, 2, 0]), np.array([0, 3])), shape=(1, 3))
    plain = np.array([[5.0, 0.0, 3.0]])
    model = DriftSurfClassifier(random_state=0).partial_fit(sparse.csr_array(np.eye(3)), [0, 1, 1])
    assert model.decision_function(odd) == pytest.approx(model.decision_function(plain), abs=1e-12)


def test_float32_rows_take_half_the_memory_and_agree() -> None:
    batches = stream(60, flip=30)
    small, large = fed(batches, dtype="float32"), fed(batches)
    assert small.nbytes_ < 0.85 * large.nbytes_  # besides three values, a row has a label, a weight and two gradients
    X = batches[-1][0]
    assert np.allclose(small.predict_proba(X), large.predict_proba(X), atol=1e-4)


# ---------------------------------------------------------------------------- bad input


def csr_with_bad_column() -> Any:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices[1] = 7
    return matrix


def csr_with_bad_pointer() -> Any:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr[1] = 9
    return matrix


def coo_out_of_range() -> Any:
    matrix = sparse.coo_array((np.ones(1), (np.array([0]), np.array([1]))), shape=(1, 3))
    matrix.coords[1][0] = 9
    return matrix


GOOD = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])


def with_value(value: Any) -> Any:
    X = GOOD.astype(object)
    X[1, 2] = value
    return X


BAD_INPUT: dict[str, tuple[Any, Any, type[InputError], str]] = {
    "NaN": (
        with_value(np.nan),
        [-1, 1],
        NonFiniteError,
        r"row 1, column 'c'.*frames",
    ),
    "infinity": (with_value(np.inf), [-1, 1], NonFiniteError, r"inf.*row 1, column 'c'"),
    "minus infinity": (with_value(-np.inf), [-1, 1], NonFiniteError, r"inf.*row 1, column 'c'"),
    "None": (with_value(None), [-1, 1], InputError, r"row 1, column 'c'"),
    "too wide": (np.ones((2, 4)), [-1, 1], ShapeError, r"X has 4 features.* expecting 3"),
    "too narrow": (np.ones((2, 2)), [-1, 1], ShapeError, "X has 2 features.* expecting 3"),
    "unknown label": (GOOD, [-1, 7], LabelError, "7.*-1, 1"),
    "text label": (GOOD, ["a", "b"], LabelError, r"-1, 1"),
    "label NaN": (GOOD, [1.0, np.nan], LabelError, r"y\[1\] is nan"),
    "fractional label": (GOOD, [1.0, 0.5], LabelError, r"0\.5"),
    "label missing": (GOOD, None, LabelError, "None"),
    "one-dimensional": (np.ones(3), [1], ShapeError, "Reshape your data"),
    "three-dimensional": (np.ones((2, 3, 1)), [-1, 1], ShapeError, "Reshape your data"),
    "empty": (np.ones((0, 3)), [], ShapeError, "0 sample"),
    "no columns": (np.ones((2, 0)), [-1, 1], ShapeError, "0 feature"),
    "more labels": (GOOD, [-1, 1, 1], ShapeError, r"2 rows.* 3 "),
    "fewer labels": (GOOD, [-1], ShapeError, r"2 rows.* 1 "),
    "text": (with_value("twelve"), [-1, 1], ValueTypeError, r"'twelve' in row 1, column 'c'"),
    "dictionary": (with_value({}), [-1, 1], ValueTypeError, r"in row 1, column 'c'"),
    "all text": (np.array([["a", "b", "c"]]), [1], ValueTypeError, "'a' in row 0"),
    "complex": (GOOD + 1j, [-1, 1], ValueTypeError, "Complex data not supported"),
    "dates": (np.full((2, 3), np.datetime64("2020-01-01")), [-1, 1], ValueTypeError, r"2020-01-01"),
    "text column": (as_frame(GOOD).assign(b=["x", "y"]), [-1, 1], SchemaError, r"'b' from number to text"),
    "polars text": (
        pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [1.0, 2.0]}),
        [-1, 1],
        SchemaError,
        r"'b' from number to text",
    ),
    "renamed": (as_frame(GOOD).rename(columns={"b": "B"}), [-1, 1], SchemaError, r"'B'.*'b'"),
    "added": (as_frame(GOOD).assign(d=0.0), [-1, 1], SchemaError, "'d'"),
    "missing": (as_frame(GOOD)[["a", "c"]], [-1, 1], SchemaError, "'b'"),
    "polars missing": (pl.DataFrame(GOOD, schema=NAMES).drop("a"), [-1, 1], SchemaError, "'a'"),
    "doubled column": (pd.DataFrame(GOOD, columns=["a", "a", "c"]), [-1, 1], SchemaError, "'a'"),
    "sparse column out of range": (csr_with_bad_column(), [1, 1, 1], ShapeError, r"7.* 0 to 2"),
    "sparse pointer out of range": (csr_with_bad_pointer(), [1, 1, 1], ShapeError, "4"),
    "sparse NaN": (sparse.csr_array([[0.0, np.nan, 1.0]]), [1], NonFiniteError, r"row 0, column 1 .*frames"),
    "sparse triplets out of range": (coo_out_of_range(), [1], ShapeError, r"axis 1.* 0 to 2"),
    "sparse blocks": (sparse.bsr_array(np.eye(3)), [1, 1, 1], ValueTypeError, r"'bsr'.*tocsr"),
    "date column": (
        as_frame(GOOD).assign(b=pd.to_datetime(["2020-01-01", "2020-01-02"])),
        [-1, 1],
        SchemaError,
        r"'b' from number to date",
    ),
    "polars dates": (
        pl.DataFrame(GOOD, schema=NAMES).with_columns(b=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 2))),
        [-1, 1],
        SchemaError,
        "'b' from number to date",
    ),
    "complex column": (as_frame(GOOD).assign(b=[1j, 2j]), [-1, 1], ValueTypeError, "column 'b'"),
    "numbers as text": (as_frame(GOOD).assign(b=["1.5", "2.5"]), [-1, 1], SchemaError, "'b' from number to text"),
    "numbers as text in an array": (with_value("2.5"), [-1, 1], ValueTypeError, "'2.5' in row 1"),
    "a number beyond floats": (with_value(10**400), [-1, 1], ValueTypeError, "row 1, column 'c'"),
    "masked": (np.ma.masked_array(GOOD, GOOD == 0.6), [-1, 1], NonFiniteError, "row 1"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], [-1, 1], ShapeError, r"2"),
    "sparse too wide": (sparse.csr_array(np.eye(4)), [1, 1, 1, 1], ShapeError, "X has 4 features"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
@pytest.mark.parametrize("batch_size", [None, 64])
@pytest.mark.parametrize("method", ["partial_fit", "test_then_train"])
def test_bad_input_is_named_and_changes_nothing(case: str, batch_size: int | None, method: str) -> None:
    X, y, error, message = BAD_INPUT[case]
    model = DriftSurfClassifier(random_state=0, batch_size=batch_size)
    for part, labels in stream(14):
        model.partial_fit(as_frame(part), labels, classes=[-1, 1])
    before, steps = model.to_bytes(), len(model.journal_)
    with pytest.raises(error, match=message):
        getattr(model, method)(X, y)
    assert model.to_bytes() == before
    assert len(model.journal_) == steps


@pytest.mark.parametrize("case", [name for name, case in BAD_INPUT.items() if case[2] is not LabelError])
def test_predict_refuses_the_same_input(case: str) -> None:
    X, _, error, message = BAD_INPUT[case]
    if case in ("more labels", "fewer labels"):
        return
    model = DriftSurfClassifier(random_state=0)
    model.partial_fit(as_frame(stream(1)[0][0]), stream(1)[0][1])
    with pytest.raises(error, match=message):
        model.predict(X)


@pytest.mark.parametrize("case", ["NaN", "text", "one-dimensional", "sparse column out of range"])
def test_a_bad_first_batch_leaves_an_unfitted_model(case: str) -> None:
    X, y, error, _ = BAD_INPUT[case]
    model = DriftSurfClassifier(random_state=0)
    with pytest.raises(error):
        model.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(GOOD)
    model.partial_fit(np.ones((4, 7)), [0, 1, 0, 1])  # any other width may still come first
    assert model.n_features_in_ == 7


def test_a_failed_fit_leaves_the_former_model() -> None:
    model = fed(stream())
    before = model.to_bytes()
    with pytest.raises(NonFiniteError):
        model.fit(np.array([[np.nan, 1.0, 1.0]]), [1])
    assert model.to_bytes() == before


@pytest.mark.parametrize("bad", [[-1.0, 1.0], [np.nan, 1.0], [1.0], [[1.0], [1.0]], ["a", "b"]])
def test_bad_weights_are_refused(bad: Any) -> None:
    model = fed(stream(3))
    before = model.to_bytes()
    with pytest.raises(InputError, match=r"[Ww]eight"):
        model.partial_fit(GOOD, [-1, 1], sample_weight=bad)
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": -1}, r"threshold.*-1"),
        ({"batch_size": 0}, r"batch_size.* 0"),
        ({"guard": 0.5}, r"guard.*0\.5"),
        ({"max_rows": -1}, r"max_rows.*-1"),
        ({"learner": LogisticRegression}, "LogisticRegression"),
        ({"learner": "logistic"}, "'logistic'"),
        ({"learner": LogisticRegression(step_size=-1.0)}, r"step_size.*-1\.0"),
        ({"random_state": -5}, r"random_state.*-5"),
        ({"random_state": "five"}, r"random_state.*five"),
        ({"threshold": 10**400}, r"threshold.*1000.*401 characters"),
        ({"learner": LogisticRegression(l2=10**400)}, r"l2.*1000.*401 characters"),
    ],
)
def test_bad_parameters_are_refused_when_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DriftSurfClassifier(**options).partial_fit(GOOD, [0, 1])


@pytest.mark.parametrize("classes", [3, 0.5, None.__class__])
def test_classes_that_are_no_list_are_refused(classes: Any) -> None:
    with pytest.raises(LabelError, match="classes is"):
        DriftSurfClassifier(classes=classes).partial_fit(GOOD, [0, 1])


@pytest.mark.parametrize("change", [{"data": np.ones((3, 1))}, {"indices": np.arange(3.0)}, {"indptr": np.arange(4.0)}])
def test_sparse_rows_with_arrays_of_another_kind_are_refused(change: dict[str, Any]) -> None:
    matrix = sparse.csr_array(np.eye(3))
    for name, array in change.items():
        setattr(matrix, name, array)
    with pytest.raises(ShapeError, match="malformed"):
        DriftSurfClassifier().partial_fit(matrix, [0, 1, 0])


def test_labels_in_several_columns_are_refused() -> None:
    with pytest.raises(ShapeError, match="1d"):
        DriftSurfClassifier().partial_fit(GOOD, np.eye(2))


class Mine(DriftSurfClassifier):
    """A subclass with a parameter of its own."""

    def __init__(self, learner: Any = None, *, mine: int = 1, threshold: float = 0.1, random_state: Any = None) -> None:
        super().__init__(learner, threshold=threshold, random_state=random_state)
        self.mine = mine


def test_a_subclass_may_have_parameters_of_its_own() -> None:
    model = Mine(mine=3, random_state=0).partial_fit(GOOD, [0, 1])
    again = Mine.from_bytes(model.to_bytes())
    assert (again.mine, again.to_bytes()) == (3, model.to_bytes())


@pytest.mark.parametrize("value", [1e6, -1e6, 1e12, 1e300, -1e300])
@pytest.mark.parametrize("learner", [None, LogisticRegression(step_size=0.05), LogisticRegression(optimizer="sgd")])
@pytest.mark.parametrize("where", ["one cell", "whole row", "first batch"])
def test_one_absurd_row_does_not_ruin_the_model(value: float, learner: Any, where: str) -> None:
    """Accuracy 1,000 clean rows later is within one point of a run without it, and no model was lost."""
    batches = stream(40, flip=99)
    step = 0 if where == "first batch" else 25
    spoilt_batches = [(X.copy(), y.copy()) for X, y in batches]
    X, y = spoilt_batches[step]
    X[7, slice(None) if where == "whole row" else 1] = value
    y[7] = -y[7]
    clean, hit = fed(batches, learner=learner), fed(spoilt_batches, learner=learner)
    X, y = (np.concatenate(part) for part in zip(*stream(50, seed=77, flip=99), strict=True))
    assert abs(clean.score(X, y) - hit.score(X, y)) <= 0.01
    assert hit.score(X, y) > 0.9


def test_one_row_batches_constant_columns_and_one_class_batches_work() -> None:
    """Single rows work, but a risk over one row is noise: a warning says to buffer rows."""
    rng = np.random.default_rng(0)
    model = DriftSurfClassifier(random_state=0)
    for k in range(19):
        model.test_then_train([[rng.normal(), 5.0, 0.0]], [k % 2])
    with pytest.warns(SmallBatchWarning, match="batch_size"):
        model.test_then_train([[rng.normal(), 5.0, 0.0]], [1])
    X = np.column_stack([rng.normal(size=500), np.full(500, 5.0), np.zeros(500)])
    model.partial_fit(X, np.ones(500, int)).partial_fit(X[:1], [0])
    assert set(model.predict(X)) <= {0, 1}
    assert np.isfinite(model.predict_proba(X)).all()


def test_rows_one_by_one_through_the_buffer_are_learned() -> None:
    model = DriftSurfClassifier(random_state=0, batch_size=100)
    X, y = (np.concatenate(part) for part in zip(*stream(20, flip=99), strict=True))
    for x, label in zip(X, y, strict=True):
        model.partial_fit([x], [label])
    assert model.score(X, y) > 0.95
