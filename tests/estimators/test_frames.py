"""Estimators that take frames as they come: text, categories, dates, booleans and missing values."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import driftsurf
from driftsurf import DriftSurfClassifier
from driftsurf.core.frames import number_matrix
from driftsurf.errors import LabelError, NonFiniteError, SchemaError, ValueTypeError
from driftsurf.estimators import estimator_class
from driftsurf.saving import dumps, loads

REGRESSOR = estimator_class("driftsurf", "regression")
COLUMNS = ["price", "city", "grade", "sold_on", "member"]


def sales(count: int = 300, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a frame with columns of every kind and gaps in all of them; city and price decide the label."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "price": rng.normal(size=count),
            "city": rng.choice(["Rome", "Oslo", "Lima"], count),
            "grade": pd.Categorical(rng.integers(1, 4, count)),
            "sold_on": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, count), unit="D"),
            "member": pd.array(rng.random(count) < 0.5, dtype="boolean"),
        }
    )
    labels = np.where((frame["city"] == "Rome") | (frame["price"] > 1), "yes", "no")
    for place, name in enumerate(frame.columns):
        frame.loc[frame.index % 29 == place, name] = None
    return frame, labels


def as_columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.DataFrame(as_columns(frame) | {"grade": words(frame)}),
    "pyarrow": lambda frame: pa.table(as_columns(frame) | {"grade": words(frame)}),
    "dictionary": lambda frame: as_columns(frame) | {"grade": words(frame)},
}


def words(frame: pd.DataFrame) -> list[str | None]:
    return [None if pd.isna(value) else str(value) for value in frame["grade"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_learned_and_predicted(kind: str) -> None:
    convert = KINDS[kind]
    model, same = DriftSurfClassifier(random_state=0), DriftSurfClassifier(random_state=0)
    for step in range(4):
        frame, y = sales(seed=step)
        assert np.array_equal(model.test_then_train(convert(frame), y), same.test_then_train(frame, y))
    frame, y = sales(seed=9)
    assert model.score(convert(frame), y) > 0.9
    assert model.to_bytes() == same.to_bytes()
    assert model.predict_proba(convert(frame)).shape == (len(frame), 2)
    assert model.decision_function(convert(frame)).shape == (len(frame),)
    assert model.observe(convert(frame), y).labels.tolist() == same.predict(frame).tolist()
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (5, COLUMNS)


@pytest.mark.parametrize("learner", ["portfolio", "light", "trees", "linear"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_recommended_models_take_frames(learner: Any, task: Any) -> None:
    if learner == "trees":
        pytest.importorskip("lightgbm")
    frame, labels = sales(400)
    y = labels if task == "classification" else np.where(labels == "yes", 10.0, 0.0)
    model = driftsurf.recommended(learner, task=task, random_state=0).fit(frame[:300], y[:300])
    assert model.score(frame[300:], y[300:]) > 0.7
    again = loads(dumps(model))
    assert np.array_equal(again.predict(frame), model.predict(frame))


COPIES: dict[str, Callable[[Any, Path], Any]] = {
    "bytes": lambda model, _: type(model).from_bytes(model.to_bytes()),
    "file": lambda model, folder: _through_file(model, folder / "model.state"),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "copy": lambda model, _: copy.deepcopy(model),
}


def _through_file(model: Any, path: Path) -> Any:
    driftsurf.save(model, path)
    return driftsurf.load(path)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", [DriftSurfClassifier, REGRESSOR, estimator_class("sliding-window")])
def test_the_encoding_is_saved_and_copied_with_the_model(way: str, kind: Any, tmp_path: Path) -> None:
    def y(seed: int) -> Any:
        labels = sales(seed=seed)[1]
        return (labels == "yes").astype(float) if kind is REGRESSOR else labels

    model = kind(random_state=0).partial_fit(sales(seed=0)[0], y(0))
    other = COPIES[way](model, tmp_path)
    for step in (1, 2):
        model.partial_fit(sales(seed=step)[0], y(step))
        other.partial_fit(sales(seed=step)[0], y(step))
    assert other.to_bytes() == model.to_bytes()
    assert other.feature_names_in_.tolist() == COLUMNS
    unfitted = clone(model)
    unfitted.partial_fit(np.zeros((2, 1)), y(0)[:2])  # a clone has no encoding
    assert unfitted.n_features_in_ == 1


def test_rows_of_numbers_are_learned_as_the_same_array() -> None:
    rng = np.random.default_rng(0)
    array, frame = DriftSurfClassifier(random_state=0), DriftSurfClassifier(random_state=0)
    for _ in range(5):
        X = rng.normal(size=(100, 2))
        y = X[:, 0] > 0
        frame.partial_fit(pd.DataFrame(X, columns=["a", "b"]), y)
        array.partial_fit(X, y)
        assert np.array_equal(frame.predict_proba(X), array.predict_proba(X))
    gaps = pd.DataFrame({"b": [np.nan, 1.0], "a": pd.array([1, pd.NA], dtype="Int64")})
    assert np.isfinite(frame.partial_fit(gaps, [True, False]).predict_proba(gaps)).all()
    with pytest.raises(NonFiniteError, match="'b'"):
        frame.predict([[0.0, np.nan]])  # arrays stay strict
    with pytest.raises(NonFiniteError):
        array.partial_fit(gaps[["a", "b"]], [True, False])  # and so does a model that has learned arrays


BAD: dict[str, tuple[Callable[[pd.DataFrame], Any], type[Exception], str]] = {
    "added": (lambda frame: frame.assign(colour="red"), SchemaError, "'colour'"),
    "removed": (lambda frame: frame.drop(columns="city"), SchemaError, "'city'"),
    "retyped": (lambda frame: frame.assign(price="high"), SchemaError, "'price' from number to text"),
    "infinite": (lambda frame: frame.assign(price=np.inf), NonFiniteError, "'price'"),
    "mixed": (lambda frame: frame.assign(city=[1, "b"] * (len(frame) // 2)), ValueTypeError, "'city'"),
    "array": (lambda frame: np.zeros((len(frame), 5)), SchemaError, "'price'.*ndarray"),
    "label": (lambda frame: frame, LabelError, "None"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("first", [True, False])
def test_a_bad_table_is_named_and_changes_nothing(case: str, first: bool) -> None:
    spoil, error, named = BAD[case]
    frame, y = sales(60)
    model = DriftSurfClassifier(random_state=0)
    if first and case not in ("infinite", "mixed", "label"):
        return
    if not first:
        model.partial_fit(frame, y)
    before = b"" if first else model.to_bytes()
    with pytest.raises(error, match=named):
        model.partial_fit(spoil(frame), None if case == "label" else y)  # type: ignore[arg-type]
    if first:
        assert "n_features_in_" not in vars(model)
        model.partial_fit(frame[["price"]], y)  # any other columns may still come first
        assert model.feature_names_in_.tolist() == ["price"]
    else:
        assert model.to_bytes() == before


def test_later_words_and_another_order_of_columns_are_known() -> None:
    frame, y = sales()
    model = DriftSurfClassifier(random_state=0).fit(frame, y)
    assert np.array_equal(model.predict(frame[COLUMNS[::-1]]), model.predict(frame))
    assert len(model.predict(frame.assign(city="Paris"))) == len(frame)


def test_numbers_that_are_categories_are_words() -> None:
    frame, y = sales()
    names = DriftSurfClassifier(random_state=0).fit(frame, y).export().columns
    assert names is not None
    assert {"grade=1", "grade=2", "grade=3"} <= set(names)


def test_rows_wait_in_the_buffer_as_they_are_encoded() -> None:
    frame, y = sales(400)
    whole = DriftSurfClassifier(random_state=0, batch_size=100)
    parts = DriftSurfClassifier(random_state=0, batch_size=100)
    whole.partial_fit(frame[:30], y[:30]).partial_fit(frame[30:], y[30:])
    for start in (0, 30, 31, 250):
        stop = {0: 30, 30: 31, 31: 250, 250: 400}[start]
        parts.partial_fit(frame[start:stop], y[start:stop])
    assert parts.to_bytes() == whole.to_bytes()


DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.5, 2.0], [[1.5, 1.0], [2.0, 2.0]]),
        ([1, 2], [[1.0, 1.0], [2.0, 2.0]]),
        ([1.5, None], None),
        ([np.inf, 1.5], None),
        (["1", "2"], None),
        (DATES, None),
        ([], None),
    ],
)
def test_a_table_of_finite_numbers_is_one_matrix(frame: Any, values: list[Any], found: Any) -> None:
    table = frame({"a": values, "b": [1.0, 2.0][: len(values)]})
    matrix = number_matrix(table, ["a", "b"])
    assert (None if matrix is None else matrix.tolist()) == found
    assert number_matrix(table, ["b", "a"]) is number_matrix(table, ["a"]) is None
    if matrix is not None:
        assert matrix.flags.c_contiguous


def test_what_is_no_table_is_no_matrix() -> None:
    for other in (np.zeros((2, 2)), [[1.0, 2.0]], {"a": [1.0], "b": [2.0]}, None, pd.Series([1.0])):
        assert number_matrix(other, ["a", "b"]) is None
