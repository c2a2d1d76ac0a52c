"""``prequential`` over arrays and frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import SGDClassifier

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace, prequential
from driftsurf.errors import LabelError, OptionError, ShapeError, ValueTypeError
from driftsurf.learners import LinearRegression
from driftsurf.session.session import Session
from driftsurf.strategies import SlidingWindow
from driftsurf.streams import Mixed

ROWS = 600
X = np.random.default_rng(0).normal(size=(ROWS, 3))
LABELS = np.where((X[:, 0] > 0) == (np.arange(ROWS) < 300), "yes", "no")
FRAME = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(ROWS)[::-1] / 2)


def trace_of(rows: Any, labels: Any, **options: Any) -> Trace:
    return prequential(models=DriftSurfClassifier(random_state=0), X=rows, y=labels, batch_size=50, **options)


@pytest.fixture(scope="module")
def expected() -> Trace:
    model, errors = DriftSurfClassifier(random_state=0), list[float]()
    for start in range(0, ROWS, 50):
        part = slice(start, start + 50)
        predicted = model.test_then_train(X[part], LABELS[part], classes=["no", "yes"])
        errors.append(float(np.mean(predicted != LABELS[part])))
    trace = trace_of(X, LABELS)
    assert trace.of("model")["error"].tolist() == errors
    return trace


FORMS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "lists": lambda: (X.tolist(), LABELS.tolist()),
    "pandas": lambda: (FRAME, pd.Series(LABELS, index=FRAME.index)),
    "pandas categories": lambda: (FRAME, pd.Series(LABELS).astype("category")),
    "polars": lambda: (pl.from_pandas(FRAME), pl.Series(LABELS)),
    "pyarrow": lambda: (pa.Table.from_pandas(FRAME, preserve_index=False), pa.array(LABELS)),
    "dictionary": lambda: ({"a": X[:, 0].tolist(), "b": FRAME["b"], "c": pl.Series(X[:, 2])}, LABELS),
    "sparse": lambda: (csr_array(X), LABELS),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_form_are_evaluated_alike(form: str, expected: Trace) -> None:
    found = trace_of(*FORMS[form]())
    assert found.labels == ("no", "yes")
    np.testing.assert_allclose(found.columns["error"], expected.columns["error"], atol=0.021 * (form == "sparse"))
    assert (found.stream, found.batch_size) == ("rows", 50)


def test_models_of_scikit_learn_get_frames(expected: Trace) -> None:
    class Named(SGDClassifier):  # type: ignore[misc]
        def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
            assert list(X.columns) == ["a", "b", "c"]
            return super().partial_fit(X, y, classes, sample_weight)

    models: dict[str, Any] = {"ours": DriftSurfClassifier(random_state=0), "theirs": Named(random_state=0)}
    trace = prequential(models=models, X=FRAME, y=LABELS, batch_size=50)
    assert trace.of("ours")["error"].tolist() == expected.of("model")["error"].tolist()
    assert trace.of("theirs")["error"].mean() < 0.5


def test_models_decide_whether_labels_are_numbers() -> None:
    grades = np.arange(ROWS) % 5
    of_numbers = prequential(models=DriftSurfRegressor(random_state=0), X=X, y=grades)
    assert (of_numbers.labels, of_numbers.batch_size) == ((), 100)
    assert prequential(models=driftsurf.recommended("linear"), X=X, y=grades).labels == (0, 1, 2, 3, 4)
    assert prequential(models=Session(SlidingWindow(LinearRegression())), X=X, y=X[:, 0]).labels == ()
    with pytest.raises(OptionError, match="classifiers and regressors"):
        prequential(models={"a": DriftSurfRegressor(), "b": DriftSurfClassifier()}, X=X, y=grades)


def test_what_cannot_be_evaluated_is_refused() -> None:
    model: Any = DriftSurfClassifier(random_state=0)
    wrong: Any = prequential
    with pytest.raises(OptionError, match="y is missing"):
        wrong(models=model, X=X)
    with pytest.raises(OptionError, match="models is missing"):
        wrong(X=X, y=LABELS)
    with pytest.raises(OptionError, match="not both"):
        wrong(Mixed(n_rows=100), model, X=X, y=LABELS)
    with pytest.raises(OptionError, match=r"ndarray.*X=X, y=y"):
        wrong(X, model)
    with pytest.raises(ShapeError, match=r"600.*599"):
        wrong(models=model, X=X, y=LABELS[1:])
    with pytest.raises(LabelError, match="row 3"):
        wrong(models=model, X=X, y=[*LABELS[:3], None, *LABELS[4:]])
    with pytest.raises(ValueTypeError, match="collect"):
        wrong(models=model, X=pl.from_pandas(FRAME).lazy(), y=LABELS)
    assert model._fitted is None
