"""Types of the main uses, checked by mypy in ``make check``; the functions also run, so that they stay true."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, RunResult, Trace, paper, prequential, recommended
from driftsurf.core.contracts import Detection, Learner, Strategy
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts
from driftsurf.core.frames import MatrixLike, TargetLike
from driftsurf.core.journal import Journal
from driftsurf.core.views import Experts, Transitions
from driftsurf.detectors import ADWIN, DDM
from driftsurf.estimators import AUEClassifier, AUERegressor, ResetOnDriftClassifier, SlidingWindowRegressor
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.learners.export import LinearModel
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import SEA

FloatArray = npt.NDArray[np.float64]
X, y = np.random.default_rng(0).normal(size=(60, 2)), np.array([0, 1] * 30)


def test_a_classifier() -> None:
    model = assert_type(DriftSurfClassifier(threshold=0.2, random_state=0), DriftSurfClassifier)
    assert_type(model.fit(X, y), DriftSurfClassifier)
    assert_type(model.partial_fit(X, y, classes=[0, 1]), DriftSurfClassifier)
    assert_type(model.test_then_train(X, y), npt.NDArray[Any])
    assert_type(model.observe(X, y, sample_weight=np.ones(60)), Observation)
    assert_type(model.predict(X), npt.NDArray[Any])
    assert_type(model.predict_proba(X), FloatArray)
    assert_type(model.decision_function(X), FloatArray)
    assert_type(model.score(X, y), float)
    assert_type(model.journal_, Journal)
    assert_type(model.get_params(), dict[str, Any])
    assert_type(model.set_params(threshold=0.1), DriftSurfClassifier)
    assert_type(model.threshold, float)
    assert_type(model.batch_size, int | None)
    assert_type(model.export(), LinearModel)
    assert_type(model.to_bytes(), bytes)
    assert_type(DriftSurfClassifier.from_bytes(model.to_bytes()), DriftSurfClassifier)


def test_a_regressor() -> None:
    model = DriftSurfRegressor(LinearRegression(loss="huber"), greedy=False, random_state=np.random.RandomState(0))
    assert_type(model.partial_fit(X, X[:, 0]), DriftSurfRegressor)
    assert_type(model.test_then_train(X, X[:, 0]), FloatArray)
    assert_type(SlidingWindowRegressor(window=30).fit(X, X[:, 0]), SlidingWindowRegressor)
    assert_type(AUERegressor(experts=3).experts, int)


def test_parameters_are_checked() -> None:
    with pytest.raises(TypeError, match="treshold"):
        DriftSurfClassifier(treshold=0.2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="classes"):
        AUERegressor(classes=[0, 1])  # type: ignore[call-arg]
    model = AUEClassifier(budget="half")  # type: ignore[arg-type]
    with pytest.raises(driftsurf.DriftsurfError, match="half"):
        model.fit(X, y)


def test_options_of_a_run_are_checked() -> None:
    with pytest.raises(TypeError, match="did you mean 'label'"):
        driftsurf.run("sales.csv", lable="sold")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="source"):
        driftsurf.run(label="sold")  # type: ignore[call-arg]
    with pytest.raises(driftsurf.DriftsurfError, match="mine"):
        driftsurf.run("sea0", variant="mine")  # type: ignore[arg-type]


@pytest.mark.parametrize("learner", [None, SoftmaxRegression(), DecisionTreeClassifier()])
def test_learners_and_detectors(learner: Any) -> None:
    model = ResetOnDriftClassifier(learner, detector=ADWIN(), classes=range(2))
    assert_type(model.partial_fit(X, y), ResetOnDriftClassifier)
    own: Learner = LogisticRegression()
    assert_type(AUEClassifier(own), AUEClassifier)


def test_rows_of_every_kind() -> None:
    frame, other = pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])
    pairs: list[tuple[MatrixLike, TargetLike]] = [
        (X, y),
        (X.tolist(), y.tolist()),
        (frame, pd.Series(y)),
        (other, pl.Series(y)),
        (sparse.csr_array(X), ["no", "yes"] * 30),
        (sparse.csc_matrix(X), tuple(y.tolist())),
    ]
    for rows, labels in pairs:
        assert_type(DriftSurfClassifier().fit(rows, labels).predict(rows), npt.NDArray[Any])


def test_ready_made_models() -> None:
    assert_type(recommended("linear"), DriftSurfClassifier)
    assert_type(recommended("linear", task="regression"), DriftSurfRegressor)
    assert_type(paper(step_size=1e-3, l2=1e-2), DriftSurfClassifier)


def test_sessions_and_evaluation() -> None:
    strategy: Strategy = DriftSurf(LogisticRegression())
    session = Session(strategy, classes=(0, 1), batch_size=30)
    assert_type(session.learn(X, y), tuple[Decision, ...])
    seen = assert_type(session.observe(X, y, weight=np.ones(60)), Observation)
    assert_type(seen.errors, int)
    assert_type(session.predict(X), npt.NDArray[Any])
    models = {"driftsurf": DriftSurfClassifier(), "aue": AUEClassifier(experts=2)}
    trace = assert_type(prequential(SEA(n_rows=400), models, batch_size=100), Trace)
    assert_type(trace.models, tuple[str, ...])
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert_type(prequential(models=AUEClassifier(experts=2), X=frame, y=y), Trace)


def test_runs_over_frames(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sold": y})
    polars, columns = pl.from_pandas(frame), {"a": X[:, 0], "sold": y}
    assert_type(driftsurf.run(polars, label="sold", model="driftsurf", out=tmp_path / "polars"), RunResult)
    assert_type(driftsurf.run(columns, label="sold", model="driftsurf", out=tmp_path / "columns"), RunResult)
    result = driftsurf.run(frame, label="sold", model="driftsurf", batch_size=20, out=tmp_path / "pandas")
    assert_type(result.drifts, Drifts)
    assert_type(result.drifts.to_frame(), pd.DataFrame)
    assert_type(result.transitions, Transitions)
    assert_type(result.transitions.to_frame(), pd.DataFrame)
    assert_type(result.experts, Experts)
    assert_type(result.explain(), str)
    assert_type(result.page, Path)
    if result.summary is not None:
        assert_type(result.summary.to_frame(), pd.DataFrame)
    assert_type(DriftSurfClassifier().fit(X, y).experts_, Experts)
    with pytest.raises(AttributeError, match="OnlineClassifier"):
        DriftSurfClassifier().learn_one({"a": 1.0}, 0)  # type: ignore[attr-defined]


def test_fleets_and_files(tmp_path: Path) -> None:
    fleet = assert_type(Fleet(n_features=2, step_size=0.1, l2=1e-3, batch_size=10), Fleet)
    assert_type(fleet.observe(np.arange(60) % 3, X, y), npt.NDArray[Any])
    detector = DDM()
    assert_type(detector.update([0, 1, 0]), Detection)
    driftsurf.save(detector, tmp_path / "detector.state")
    assert_type(driftsurf.load(tmp_path / "detector.state"), Any)
