"""Estimators in CapyMOA's evaluation, and its streams as ours. Stand-ins replace CapyMOA where Java is not needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier, prequential
from driftsurf.checks import check_stream
from driftsurf.errors import OptionError
from driftsurf.estimators import ObliviousClassifier, ObliviousRegressor, SlidingWindowClassifier
from driftsurf.estimators.capymoa import CapyMOAClassifier, CapyMOARegressor, CapyMOAStream
from driftsurf.learners import LogisticRegression


@dataclass
class Schema:
    """The members of CapyMOA's schema that are used."""

    classes: int = 2
    nominal: dict[str, list[str]] = field(default_factory=dict)
    dataset_name: str = "rows"

    def get_num_attributes(self) -> int:
        return 2

    def get_nominal_attributes(self) -> dict[str, list[str]]:
        return self.nominal

    def get_moa_header(self) -> Any:
        return SimpleNamespace(attribute=lambda k: SimpleNamespace(name=lambda: "ab"[k]))

    def is_regression(self) -> bool:
        return self.classes == 0

    def is_classification(self) -> bool:
        return self.classes > 0

    def get_num_classes(self) -> int:
        return self.classes


@dataclass
class Source:
    """The members of CapyMOA's streams that are used."""

    schema: Schema = field(default_factory=Schema)
    rows: int = 500
    at: int = 0

    def __len__(self) -> int:
        return self.rows

    def restart(self) -> None:
        self.at = 0

    def get_schema(self) -> Schema:
        return self.schema

    def has_more_instances(self) -> bool:
        return self.at < self.rows

    def next_instance(self) -> Any:
        x = np.random.default_rng(self.at).normal(size=2)
        self.at += 1
        if self.schema.nominal:
            x[1] = self.at % 3
        return SimpleNamespace(x=x, y_index=int(x[0] > 0), y_value=100.0 + 3.0 * x[0])

    def get_drifts(self) -> list[Any]:
        return [SimpleNamespace(position=200, width=0), SimpleNamespace(position=300, width=100)]


def served(model: Any, source: Source) -> list[Any]:
    """Test then train, as ``prequential_evaluation`` does."""
    found = []
    source.restart()
    while source.has_more_instances():
        instance = source.next_instance()
        found.append((model.predict(instance), instance))
        model.train(instance)
    return found


def test_a_classifier_learns_in_time_steps() -> None:
    source = Source()
    model = CapyMOAClassifier(source.get_schema(), batch_size=50, random_seed=1)
    found = served(model, source)
    assert str(model) == "DriftSurfClassifier"
    assert all(predicted is None for predicted, _ in found[:50])
    assert model.predict_proba(found[0][1]) is not None
    assert np.mean([predicted == instance.y_index for predicted, instance in found[100:]]) > 0.9
    shares = model.predict_proba(found[-1][1])
    assert shares is not None
    assert (shares.shape, int(shares.argmax())) == ((2,), model.predict(found[-1][1]))
    assert len(model.journal) == 10
    again = CapyMOAClassifier(source.get_schema(), batch_size=50, random_seed=1)
    assert again.predict_proba(found[0][1]) is None
    assert [p for p, _ in served(again, source)] == [p for p, _ in found]


def test_nominal_values_are_one_hot_and_gaps_are_zero() -> None:
    source = Source(Schema(nominal={"b": ["x", "y", "z"]}))
    model = CapyMOAClassifier(source.get_schema(), ObliviousClassifier(LogisticRegression()), batch_size=2)
    for x in ([1.0, 2.0], [np.nan, np.nan]):
        model.train(SimpleNamespace(x=np.array(x), y_index=1))
    rows = [model._columns.row(x).tolist() for x in ([1.0, 2.0], [np.nan, np.nan])]
    assert rows == [[[1.0, 0.0, 0.0, 1.0]], [[0.0, 0.0, 0.0, 0.0]]]
    assert str(model) == "ObliviousClassifier"


def test_a_regressor_predicts_numbers() -> None:
    source = Source(Schema(classes=0))
    model = CapyMOARegressor(source.get_schema(), ObliviousRegressor(), batch_size=50)
    found = served(model, source)
    assert found[0][0] == 0.0
    assert np.mean([abs(predicted - instance.y_value) for predicted, instance in found[200:]]) < 0.5
    model.flush()  # nothing waits
    assert str(CapyMOARegressor(source.get_schema())) == "DriftSurfRegressor"


def test_rows_that_cannot_be_learned_are_dropped() -> None:
    model = CapyMOAClassifier(Schema(), SlidingWindowClassifier(window=3), batch_size=2)
    model.train(SimpleNamespace(x=np.array([1.0, 2.0]), y_index=1))
    strategy: Any = model.estimator._session.strategy
    strategy.step = strategy.observe = None  # fails
    with pytest.raises(TypeError):
        model.train(SimpleNamespace(x=np.array([1.0, 2.0]), y_index=0))
    assert model.estimator._session.rows_pending == 0


def test_unusable_arguments_are_refused() -> None:
    with pytest.raises(OptionError, match=r"numbers.*classes"):
        CapyMOARegressor(Schema())
    with pytest.raises(OptionError, match="LogisticRegression"):
        CapyMOAClassifier(Schema(), LogisticRegression())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="batch_size"):
        CapyMOAClassifier(Schema(), batch_size=0)
    with pytest.raises(OptionError, match="numbers"):
        CapyMOAStream(Source(Schema(classes=0)))
    endless: Any = SimpleNamespace(get_schema=Schema)
    with pytest.raises(OptionError, match="n_rows"):
        CapyMOAStream(endless)


def test_a_stream_of_capymoa_is_a_stream_of_driftsurf() -> None:
    stream = CapyMOAStream(Source())
    check_stream(stream)
    assert (stream.name, len(stream), stream.n_features) == ("rows", 500, 2)
    assert [(drift.start, drift.end) for drift in stream.drifts] == [(200, 200), (250, 350)]
    short = CapyMOAStream(Source(), 120, name="short")
    assert [len(y) for _, y in short.batches(50)] == [50, 50, 20]
    assert CapyMOAStream(Source(rows=30), 120).arrays()[1].shape == (30,)


# ---------------------------------------------------------------------------- with CapyMOA itself


@pytest.mark.filterwarnings("ignore")
def test_in_capymoas_own_evaluation() -> None:
    pytest.importorskip("capymoa", reason="capymoa is not installed: pip install 'driftsurf[capymoa]'")
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import NumpyStream
    from capymoa.stream.drift import AbruptDrift, DriftStream
    from capymoa.stream.generator import SEA, RandomTreeGenerator

    stream = DriftStream(stream=[SEA(function=1), AbruptDrift(position=3_000), SEA(function=3)])
    model = CapyMOAClassifier(stream.get_schema(), batch_size=100)
    result = prequential_evaluation(stream, model, max_instances=6_000)
    assert result.cumulative.accuracy() > 85.0
    X = np.random.default_rng(0).normal(size=(2_000, 2))
    values = NumpyStream(X, 100.0 + 3.0 * X[:, 0], target_type="numeric")
    result = prequential_evaluation(values, CapyMOARegressor(values.get_schema()), window_size=500)
    assert result.windowed.rmse()[-1] < 1.0
    mixed = RandomTreeGenerator(num_nominals=2, num_numerics=3, num_vals_per_nominal=4)
    result = prequential_evaluation(mixed, CapyMOAClassifier(mixed.get_schema()), max_instances=3_000)
    assert result.cumulative.accuracy() > 55.0
    check_stream(CapyMOAStream(mixed, 1_000))
    assert CapyMOAStream(mixed, 1_000).n_features == 2 * 4 + 3
    ours = CapyMOAStream(stream, 6_000)
    check_stream(ours)
    assert [drift.start for drift in ours.drifts] == [3_000]
    trace = prequential(ours, DriftSurfClassifier(random_state=0), batch_size=200)
    assert trace.columns["errors"].sum() / trace.columns["rows"].sum() < 0.2
