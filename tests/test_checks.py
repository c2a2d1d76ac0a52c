"""The public checks: everything that we ship passes, and what is broken is named."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from driftsurf import detectors, streams
from driftsurf.adapters import RiverDetector
from driftsurf.checks import check_detector, check_learner, check_strategy, check_stream, matrix
from driftsurf.detectors import ADWIN, DDM, MDDM
from driftsurf.errors import CheckError
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import DriftSurf, Oblivious
from driftsurf.streams import Drift

# ---------------------------------------------------------------------------- what we ship


@pytest.mark.parametrize("name", list(matrix.LEARNERS))
def test_our_learners_and_adapters_pass(name: str) -> None:
    if name not in matrix.installed():
        pytest.skip(f"{name.split()[0]} is not installed")
    check_learner(matrix.LEARNERS[name]())


@pytest.mark.parametrize("name", detectors.__all__)
def test_our_detectors_pass(name: str) -> None:
    check_detector(getattr(detectors, name)())


# river's EDDM is not among them: it signals where nothing drifts.
@pytest.mark.parametrize("name", ["ADWIN", "PageHinkley", "binary.DDM", "binary.FHDDM", "binary.HDDMA", "binary.HDDMW"])
def test_rivers_detectors_pass(name: str) -> None:
    kind: Any = pytest.importorskip("river.drift")
    for part in name.split("."):
        kind = getattr(kind, part)
    check_detector(RiverDetector(kind()))


PAIRS = [
    (cell.strategy, cell.learner)
    for cell in matrix.cells(["LogisticRegression", "SoftmaxRegression", "LinearRegression"])
    if (cell.task, cell.kind) in (("binary", "dense"), ("regression", "dense")) and not cell.missing
]


@pytest.mark.parametrize(("strategy", "learner"), PAIRS)
def test_our_strategies_pass(strategy: str, learner: str) -> None:
    check_strategy(matrix.STRATEGIES[strategy](matrix.LEARNERS[learner]()))


def test_a_strategy_around_a_learner_without_exact_state_passes() -> None:
    check_strategy(DriftSurf(matrix.LEARNERS["GaussianNB"]()))


STREAMS = [
    streams.SEA(n_rows=3_000),
    streams.Mixed(n_rows=3_000),
    streams.Circles(n_rows=3_000),
    streams.SINE1(n_rows=3_000),
    streams.Hyperplane(n_rows=3_000),
    streams.Friedman(n_rows=3_000),
    streams.ArrayStream(np.eye(40), np.tile([-1, 1], 20), name="own"),
]


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_our_streams_pass(stream: Any) -> None:
    check_stream(stream)


# ---------------------------------------------------------------------------- broken ones


class NoUndo(LogisticRegression):
    def update(self, samples: Any, new: Any, steps: int) -> Any:
        super().update(samples, new, steps)
        return lambda: None


class LiveScorer(LogisticRegression):
    def scorer(self) -> Any:
        return self.scores


class Wide(LogisticRegression):
    def losses(self, batch: Any) -> Any:
        return super().losses(batch)[:, None]


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
    capabilities = LogisticRegression.capabilities


class Vague(LogisticRegression):
    capabilities = "everything"  # type: ignore[assignment]


class Nested(LogisticRegression):
    def state(self) -> Any:
        return super().state() | {"more": {}}


@pytest.mark.parametrize(
    ("learner", "named"),
    [
        (NoUndo(), "undo_takes_it_back .*the scores are others"),
        (LiveScorer(), "scorer_is_frozen .*what was learnt later"),
        (Wide(), r"losses_are_of_rows .*shape of losses is \(120, 1\)"),
        (Forgetful(), "state_is_exact .*another"),
        (Idle(), "it_learns .*it went from 0.6931 to 0.6931"),
        (Generous(), "template_is_not_changed .*CapabilityError: LogisticRegression tells two classes apart"),
        (Lying(), "other_tasks_are_refused .*gave no CapabilityError"),
        (Vague(), "capabilities_are_named .*'everything'"),
        (Nested(), "state_is_exact .*a state is flat"),
        (object(), "capabilities_are_named .*AttributeError"),
    ],
)
def test_a_broken_learner_is_named(learner: Any, named: str) -> None:
    with pytest.raises(CheckError, match=f"(?s)fails {named}"):
        check_learner(learner)


class Inverted(MDDM):
    def update(self, values: Any) -> int:
        return super().update(1.0 - np.asarray(values))


class Greedy(DDM):
    def update(self, values: Any) -> int:
        super().update(values)
        return len(values)


class Blind(ADWIN):
    def update(self, values: Any) -> int:
        return super().update(np.nan_to_num(values, nan=1e9))


class Sticky(DDM):
    def reset(self) -> None:
        pass


class Nervous(DDM):
    def update(self, values: Any) -> int:
        return super().update(np.r_[np.zeros(40), np.ones(40)]) and len(values)


@pytest.mark.parametrize(
    ("detector", "named"),
    [
        (Inverted(), "more_errors_are_a_drift .*are its values errors"),
        (Greedy(), "it_stops_at_the_signal .*by the size of the pieces"),
        (Blind(), "gaps_say_nothing .*with one NaN"),
        (Sticky(), "reset_forgets .*still signals"),
        (Nervous(), "silent_without_errors .*it signalled at value 100"),
        (DDM(drift_level=-1.0), "options_are_checked .*OptionError: drift_level"),
    ],
)
def test_a_broken_detector_is_named(detector: Any, named: str) -> None:
    with pytest.raises(CheckError, match=f"(?s)fails {named}"):
        check_detector(detector)


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
    def restore(self, state: Any) -> None:
        super().restore(state)
        self._publish(replace(self._live, step=0))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Half, r"scores_are_of_rows .*scores of 80 rows has shape \(3,\)"),
        (Silent, "steps_are_decisions .*step.. returned None"),
        (Careless, "bad_rows_change_nothing .*a column too many"),
        (Amnesiac, "state_is_exact .*after 1 steps"),
    ],
)
def test_a_broken_strategy_is_named(kind: Any, named: str) -> None:
    with pytest.raises(CheckError, match=f"(?s)fails {named}"):
        check_strategy(kind(LogisticRegression()))


@dataclass
class Rows:
    """A stream in as few lines as it takes."""

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


def test_a_stream_of_ones_own_passes() -> None:
    check_stream(Rows())


@pytest.mark.parametrize(
    ("stream", "named"),
    [
        (Rows(name=""), "it_says_what_it_is .*its name is ''"),
        (Rows(drifts=(Drift(50, 50), Drift(20, 20))), "it_says_what_it_is .*not in order"),
        (Rows(broken="large"), r"batches_have_the_size_asked_for .*batch 0 of batches\(7\) has 14 rows"),
        (Rows(broken="seed"), "two_passes_are_the_same .*rows of batch 0 differ"),
        (Rows(broken="size"), "the_cut_does_not_matter"),
        (Rows(broken="gap"), "values_can_be_learnt .*batch 0 has values that are not finite"),
        (Rows(classes=(1,)), "it_says_what_it_is .*nothing to predict"),
        (Rows(classes=()), "values_can_be_learnt .*batch 0 has int64 to predict"),
        (Rows(broken="label"), r"values_can_be_learnt .*labels \[7\]"),
    ],
)
def test_a_broken_stream_is_named(stream: Any, named: str) -> None:
    with pytest.raises(CheckError, match=f"(?s)fails {named}"):
        check_stream(stream)
