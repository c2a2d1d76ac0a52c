"""Public checks: every part of the package passes, and a broken part is reported by the name of the check."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from driftsurf import detectors, streams
from driftsurf.checks import check_detector, check_learner, check_strategy, check_stream, matrix
from driftsurf.core.contracts import Capabilities, Detection
from driftsurf.detectors import ADWIN, DDM, MDDM
from driftsurf.detectors.river import RiverDetector
from driftsurf.errors import CheckError
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import DriftSurf, Oblivious
from driftsurf.streams import Drift

# ---------------------------------------------------------------------------- parts of the package


STRATEGIES, LEARNERS = matrix.strategies(), matrix.learners()


@pytest.mark.parametrize("name", list(LEARNERS))
def test_learners_and_adapters_pass(name: str) -> None:
    if not LEARNERS[name].installed:
        pytest.skip(f"{LEARNERS[name].requires} is not installed")
    check_learner(LEARNERS[name].make())


@pytest.mark.parametrize("name", detectors.__all__)
def test_detectors_pass(name: str) -> None:
    check_detector(getattr(detectors, name)())


# EDDM of river is left out: it signals without a drift.
@pytest.mark.parametrize("name", ["ADWIN", "PageHinkley", "binary.DDM", "binary.FHDDM", "binary.HDDMA", "binary.HDDMW"])
def test_detectors_of_river_pass(name: str) -> None:
    kind: Any = pytest.importorskip("river.drift")
    for part in name.split("."):
        kind = getattr(kind, part)
    check_detector(RiverDetector(kind()))


PAIRS = [
    (cell.strategy.label, cell.learner.label)
    for cell in matrix.cells(["LogisticRegression", "SoftmaxRegression", "LinearRegression"])
    if (cell.task, cell.kind) in (("binary", "dense"), ("regression", "dense")) and not cell.missing
]


@pytest.mark.parametrize(("strategy", "learner"), PAIRS)
def test_strategies_pass(strategy: str, learner: str) -> None:
    check_strategy(STRATEGIES[strategy].make(LEARNERS[learner].make()))


def test_a_strategy_around_a_learner_without_exact_state_passes() -> None:
    check_strategy(DriftSurf(LEARNERS["GaussianNB"].make()))


STREAMS = [
    streams.SEA(n_rows=3_000),
    streams.Mixed(n_rows=3_000),
    streams.Circles(n_rows=3_000),
    streams.SINE1(n_rows=3_000),
    streams.Hyperplane(n_rows=3_000),
    streams.Friedman(n_rows=3_000),
    streams.Recurring(n_rows=3_000, period=500),
    streams.ArrayStream(np.eye(40), np.tile([-1, 1], 20), name="own"),
]


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_streams_pass(stream: Any) -> None:
    check_stream(stream)


# ---------------------------------------------------------------------------- broken parts


class NoUndo(LogisticRegression):
    def update(self, samples: Any, new: Any, steps: int) -> Any:
        super().update(samples, new, steps)
        return lambda: None


class LiveScorer(LogisticRegression):
    def scorer(self) -> Any:
        return self.scores


class Wide(LogisticRegression):
    def row_losses(self, scores: Any, y: Any) -> Any:
        return super().row_losses(scores, y)[:, None]


class Unanchored(LinearSVM):
    capabilities = LogisticRegression.capabilities


class SlowTogether(LogisticRegression):
    @classmethod
    def update_all(cls, models: Any, samples: Any, new: Any, steps: Any) -> Any:
        return super().update_all(models, samples, new, steps if len(models) == 1 else [1] * len(steps))


class ShapeBlind(LogisticRegression):
    def fits(self, n_features: int, n_classes: int) -> bool:
        return True


class Rounded(LogisticRegression):
    @property
    def coef(self) -> Any:
        return super().coef.round(1)


class Forgetful(LogisticRegression):
    @classmethod
    def from_state(cls, template: Any, state: Any) -> Any:
        made = super().from_state(template, state)
        made._fitted = copy.copy(made._fitted)
        object.__setattr__(made._fitted, "words", 0)
        return made


class Idle(LogisticRegression):
    def budget(self, new: Any) -> int:
        return 0


class Generous(LogisticRegression):
    capabilities = LinearRegression.capabilities


class Lying(SoftmaxRegression):
    capabilities = Capabilities()


class Vague(LogisticRegression):
    capabilities = "everything"  # type: ignore[assignment]


class Nested(LogisticRegression):
    def state(self) -> Any:
        return super().state() | {"more": {}}


@pytest.mark.parametrize(
    ("learner", "check", "value"),
    [
        (NoUndo(), "undo_reverts_an_update", ""),
        (LiveScorer(), "scorer_is_frozen", ""),
        (Wide(), "losses_are_per_row", "(120, 1)"),
        (Forgetful(), "state_is_exact", ""),
        (Idle(), "it_learns", "0.6931"),
        (Generous(), "template_is_not_changed", "CapabilityError: the learner Generous"),
        (Lying(), "other_tasks_are_refused", "fresh(n_classes=3)"),
        (Vague(), "capabilities_are_known", "'everything'"),
        (Nested(), "state_is_exact", "'more'"),
        (Unanchored(), "declared_abilities_exist", "anchored"),
        (SlowTogether(), "models_train_jointly", "model 0"),
        (ShapeBlind(), "shape_is_known", "fits(4, 2)"),
        (Rounded(), "weights_predict_linearly", "n_classes=2"),
        (object(), "has_every_member", "budget, capabilities"),
        (LogisticRegression, "has_every_member", "LogisticRegression"),
    ],
)
def test_a_broken_learner_is_named(learner: Any, check: str, value: str) -> None:
    with pytest.raises(CheckError) as error:
        check_learner(learner)
    assert f" {check}: " in str(error.value)
    assert value in str(error.value)


class Inverted(MDDM):
    def update(self, values: Any) -> Detection:
        return super().update(1.0 - np.asarray(values))


class Greedy(DDM):
    def update(self, values: Any) -> Detection:
        return Detection(np.size(values), super().update(values).drift)


class Blind(ADWIN):
    def update(self, values: Any) -> Detection:
        return super().update(np.nan_to_num(values, nan=1e9))


class Counting(DDM):
    def update(self, values: Any) -> Any:
        return super().update(values).consumed


class Sticky(DDM):
    def reset(self) -> None:
        pass


class Nervous(DDM):
    def update(self, values: Any) -> Detection:
        super().update(np.r_[np.zeros(40), np.ones(40)])
        return Detection(np.size(values), self.drift)


@pytest.mark.parametrize(
    ("detector", "check", "value"),
    [
        (Inverted(), "more_errors_are_a_drift", ""),
        (Greedy(), "update_stops_at_the_signal", "2000: 2000"),
        (Blind(), "missing_values_are_ignored", "NaN at 500"),
        (Counting(), "update_is_true_only_at_a_signal", "returned 1;"),
        (Sticky(), "reset_forgets", "True"),
        (Nervous(), "silent_without_errors", "value 100"),
        (DDM(drift_level=-1.0), "parameters_are_checked", "OptionError: drift_level"),
        (MDDM, "has_every_member", "MDDM"),
    ],
)
def test_a_broken_detector_is_named(detector: Any, check: str, value: str) -> None:
    with pytest.raises(CheckError) as error:
        check_detector(detector)
    assert f" {check}: " in str(error.value)
    assert value in str(error.value)


class Half(Oblivious):
    def scores(self, X: Any) -> Any:
        return super().scores(X)[:3]


class Silent(Oblivious):
    def step(self, batch: Any, tested: Any = None) -> Any:
        super().step(batch, tested)


class Careless(Oblivious):
    def step(self, batch: Any, tested: Any = None) -> Any:
        return super().step(batch._replace(X=np.ascontiguousarray(batch.X[:, :3])), tested)


class Amnesiac(Oblivious):
    def restore(self, state: Any, n_features: int, *, sparse: bool, n_classes: int) -> None:
        super().restore(state, n_features, sparse=sparse, n_classes=n_classes)
        self._publish(replace(self._live, step=0))


class ShapeBlindStrategy(Oblivious):
    def restore(self, state: Any, n_features: int, *, sparse: bool, n_classes: int) -> None:
        super().restore(state, state["pool.samples.n_features"], sparse=sparse, n_classes=n_classes)


class SameSeed(Oblivious):
    def fresh(self, seed: int) -> Any:
        return super().fresh(self.seed)


class SharedModels(DriftSurf):
    shared: ClassVar[dict[str, Any]] = {}

    def fresh(self, seed: int) -> Any:
        made = super().fresh(seed)
        vars(made)["models"] = self.shared
        return made


class WrongPredictor(DriftSurf):
    @property
    def predicting(self) -> Any:
        return self.learner.fresh(0, 3, 2)


@pytest.mark.parametrize(
    ("kind", "check", "value"),
    [
        (Half, "scores_are_per_row", "(3,)"),
        (Silent, "steps_are_decisions", "None"),
        (Careless, "failed_steps_change_nothing", "4 columns"),
        (Amnesiac, "state_is_exact", "1 steps"),
        (ShapeBlindStrategy, "state_of_other_rows_is_refused", "4 columns"),
        (SameSeed, "fresh_changes_only_the_seed", "fresh(12)"),
        (SharedModels, "fresh_strategies_are_independent", "models={}"),
        (WrongPredictor, "predicting_model_predicts", ""),
        (lambda learner: learner, "has_every_member", "begin, check"),
    ],
)
def test_a_broken_strategy_is_named(kind: Any, check: str, value: str) -> None:
    with pytest.raises(CheckError) as error:
        check_strategy(kind(LogisticRegression()))
    assert f" {check}: " in str(error.value)
    assert value in str(error.value)


@dataclass
class Rows:
    """A minimal stream."""

    name: str = "rows"
    n_rows: int = 100
    n_features: int = 2
    classes: tuple[int, ...] = (0, 1)
    drifts: tuple[Drift, ...] = ()
    broken: str = ""

    def batches(self, size: int) -> Any:
        seed = np.random.default_rng(None if self.broken == "seed" else 0)
        X = seed.normal(size=(self.n_rows, self.n_features))
        y = (X[:, 0] > 0).astype(int)
        if self.broken == "size":
            y = np.roll(y, size)
        if self.broken == "gap":
            X[17, 1] = np.nan
        if self.broken == "label":
            y[17] = 7
        step = 2 * size if self.broken == "large" else size
        return ((X[at : at + step], y[at : at + step]) for at in range(0, self.n_rows, step))


def test_a_minimal_stream_passes() -> None:
    check_stream(Rows())


@pytest.mark.parametrize(
    ("stream", "check", "value"),
    [
        (Rows(name=""), "facts_are_consistent", "name is ''"),
        (Rows(drifts=(Drift(50, 50), Drift(20, 20))), "facts_are_consistent", "[(50, 50), (20, 20)]"),
        (Rows(broken="large"), "batches_have_the_requested_size", "batches(7) has 14 rows"),
        (Rows(broken="seed"), "iterations_are_equal", "batch 0"),
        (Rows(broken="size"), "batch_size_does_not_matter", ""),
        (Rows(broken="gap"), "rows_can_be_learned", "batch 0"),
        (Rows(classes=(1,)), "facts_are_consistent", "(1,)"),
        (Rows(classes=()), "rows_can_be_learned", "int64"),
        (Rows(broken="label"), "rows_can_be_learned", "[7]"),
    ],
)
def test_a_broken_stream_is_named(stream: Any, check: str, value: str) -> None:
    with pytest.raises(CheckError) as error:
        check_stream(stream)
    assert f" {check}: " in str(error.value)
    assert value in str(error.value)
