"""Keys in quarantine: why, since which row, and what they keep."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import joined, late_rows, learner, model_entries, part, rows, same_end, visits

from driftsurf.core.state import from_bytes, pick, to_bytes
from driftsurf.detectors import FHDDM
from driftsurf.keyed import KeyRows
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.strategies import DriftSurf, PairedLearners, ResetOnDrift

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@pytest.mark.parametrize(("X", "label"), [([np.inf, 0.0], None), ([0.0, 0.0], 5), ([np.nan, np.nan], None)])
def test_with_late_labels_a_bad_row_is_not_taken(X: list[float], label: Any) -> None:
    given_rows = KeyRows(np.arange(2), np.array([[1.0, 2.0], X]), [None, label], ["a", "b"])
    (visit,) = visits(learner(delay=5, on_gap="quarantine"), given_rows)
    assert visit.summary.quarantined_at == 1
    assert visit.summary.waiting == 1


@pytest.mark.parametrize("batch_size", [10, None])
@pytest.mark.parametrize(("value", "on_gap"), [(np.nan, "quarantine"), (np.inf, "fill")])
def test_a_value_that_is_not_finite_quarantines_the_key(value: float, on_gap: str, batch_size: int | None) -> None:
    all_rows = rows()
    all_rows.X[64, 1] = value
    given_learner = learner(batch_size=batch_size, on_gap=on_gap)
    first, second = visits(given_learner, part(all_rows, 0, 150), part(all_rows, 150, 200))
    clean = visits(given_learner, part(rows(), 0, 64))
    assert first.predicted[:64] == clean[0].predicted
    assert (first.summary.rows, first.summary.refused) == (64, 86)
    summary = first.summary
    assert (summary.quarantine, summary.quarantined_at) == ("not_finite", 64)
    assert (summary.quarantine_column, summary.quarantine_value) == ("b", str(value))
    assert all(word in summary.quarantine_message for word in ("64", "'b'", str(value)))
    assert first.predicted[64] is None
    assert None not in first.predicted[65:]
    assert second.summary.refused == 136
    assert second.summary.steps == first.summary.steps
    assert second.sequence == list(range(150, 200))
    assert second.true == [None] * 50


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cut", [0, 62, 64, 65])
def test_a_value_that_is_too_large_for_float32_quarantines_the_key(cut: int, late: bool) -> None:
    all_rows = late_rows() if late else rows()
    all_rows.X[64, 1] = 1e300  # float32 ends at 3e38
    done = visits(learner(delay=100 if late else None), part(all_rows, 0, cut), part(all_rows, cut, len(all_rows)))
    assert done[-1].summary.quarantined_at == int(np.sort(all_rows.sequence)[64])
    assert done[-1].summary.rows == 64
    assert joined(done, "predicted")[64] is None
    summary = done[-1].summary
    found = summary.quarantine, summary.quarantine_column, summary.quarantine_value
    assert found == ("out_of_range", "b", "1e+300")
    assert all(word in summary.quarantine_message for word in (str(summary.quarantined_at), "'b'", "float32"))


def test_a_value_out_of_range_is_noticed_when_its_row_comes_not_its_label() -> None:
    bare = KeyRows(np.arange(4), np.array([[1.0, 1.0], [1.0, 1e39], [1.0, 1.0], [1.0, 1.0]]), [None] * 4, [0, 1, 2, 3])
    (visit,) = visits(learner(delay=5), bare)
    assert (visit.summary.quarantined_at, visit.summary.rows, visit.summary.waiting) == (1, 1, 1)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("label", "strategy"),
    [(float("nan"), LinearRegression()), (0.5, LogisticRegression()), ("x", LogisticRegression())],
)
def test_the_fault_of_a_bad_label_does_not_depend_on_visits(label: Any, strategy: Any, late: bool) -> None:
    own = rows(40)
    own.y[27] = label
    ids = list(range(40)) if late else None
    given_rows = KeyRows(own.sequence, own.X, own.y, ids)
    given_learner = learner(strategy=DriftSurf(strategy, max_rows=30), classes=None, delay=5 if late else None)
    whole = visits(given_learner, given_rows)
    assert whole[0].summary.quarantined_at == 27
    summary = whole[0].summary
    reason = "continuous_label" if label == 0.5 else "bad_label"
    assert (summary.quarantine, summary.quarantine_value) == (reason, str(label))
    assert label == "x" or "27" in summary.quarantine_message
    assert "y[" not in summary.quarantine_message
    for cut in (22, 25, 27, 28):
        same_end(visits(given_learner, part(given_rows, 0, cut), part(given_rows, cut, 40)), whole)


def test_an_unknown_label_quarantines_the_key_after_the_rows_before_it() -> None:
    all_rows = rows()
    all_rows.y[64] = 9
    (visit,) = visits(learner(), all_rows)
    assert (visit.summary.quarantine, visit.summary.quarantine_value) == ("bad_label", "9")
    assert (visit.summary.rows, visit.summary.quarantined_at) == (64, 64)
    assert model_entries(visit.state)["pending.y"].shape == (4,)
    all_rows.y[0] = "x"
    (visit,) = visits(learner(), all_rows)
    assert (visit.summary.rows, visit.summary.quarantined_at) == (0, 0)
    assert set(visit.predicted) == {None}
    (visit,) = visits(learner(batch_size=None), all_rows)
    assert (visit.summary.rows, visit.summary.quarantined_at, visit.summary.quarantine) == (0, 0, "bad_label")


def test_training_that_diverges_quarantines_the_key() -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    (visit,) = visits(learner(strategy=wild, classes=None), KeyRows(own.sequence, own.X * 1e200, own.y))
    assert visit.summary.quarantine == "diverged"
    assert visit.summary.steps == 0


@pytest.mark.parametrize("options", [{}, {"batch_size": None}, {"delay": 5}])
def test_errors_of_the_machine_do_not_quarantine_the_key(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    own = rows(20)
    monkeypatch.setattr(DriftSurf, "observe", full)
    with pytest.raises(MemoryError):
        learner(**options).visit(7, None, KeyRows(own.sequence, own.X, own.y, list(range(20))))


def test_a_key_is_readmitted_for_faults_up_to_a_row() -> None:
    all_rows = rows()
    all_rows.X[64, 1] = np.inf
    (first,) = visits(learner(), part(all_rows, 0, 100))
    for forgiven, refused in ((63, 136), (64, 36 + 4)):  # four rows before it had started a time step
        again = learner(readmit={7: forgiven}).visit(7, first.state, part(all_rows, 100, 200))
        assert again.summary.refused == refused
        assert bool(again.summary.quarantine) == (forgiven == 63)


@pytest.mark.parametrize("late", [False, True])
def test_a_readmitted_key_learns_again_after_training_diverged(late: bool) -> None:
    own = rows(200)
    y = own.X[:, 0].tolist()
    y[43] = 1e120
    values = KeyRows(own.sequence, own.X, y, list(range(200)))
    options = {"strategy": DriftSurf(LinearRegression(), max_rows=30), "classes": None, "delay": 5 if late else None}
    (first,) = visits(learner(**options), part(values, 0, 100))
    assert first.summary.quarantine == "diverged"
    assert (first.summary.quarantined_at, first.summary.rows, first.summary.refused) == (49, 49, 51)
    again = learner(readmit={7: 49}, **options).visit(7, first.state, part(values, 100, 200))
    assert again.summary.quarantine == ""
    assert (again.summary.rows, again.summary.refused, again.summary.steps) == (140, 60, 14)
    assert learner(**options).visit(7, again.state, part(values, 0, 0)).summary.steps == 14


def test_a_state_above_max_bytes_quarantines_the_key() -> None:
    own = rows(100)
    (visit,) = visits(learner(max_bytes=20_000), part(own, 0, 20))
    limit = len(to_bytes(pick("model", from_bytes(visit.state)))) - 1
    first, second = visits(learner(max_bytes=limit), part(own, 0, 15), part(own, 15, 100))
    assert first.summary.quarantine == ""
    assert second.summary.quarantine == "too_large"
    assert f"{limit:,}" in second.summary.quarantine_message
    assert (second.summary.quarantined_at, second.summary.steps) == (19, 1)
    tight = visits(learner(max_bytes=100), own)[0]
    assert tight.summary.quarantine == "too_large"
    assert (tight.summary.quarantined_at, tight.summary.rows, tight.summary.refused) == (9, 9, 91)
    whole = visits(learner(max_bytes=100, batch_size=None), own)[0]
    assert (whole.summary.quarantined_at, whole.summary.steps, whole.decisions) == (0, 0, [])


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=5), limit=st.integers(2_000, 9_000), late=st.booleans())
def test_where_a_key_exceeds_max_bytes_does_not_depend_on_visits(cuts: list[int], limit: int, late: bool) -> None:
    own = late_rows() if late else rows()
    given_learner = learner(max_bytes=limit, delay=100 if late else None)
    parts = [own.take(np.arange(a, b)) for a, b in itertools.pairwise([0, *sorted(cuts), 200]) if b > a]
    whole = visits(given_learner, own)
    same_end(visits(given_learner, *parts), whole)
    (visit,) = whole
    saved = model_entries(visit.state)
    steps = saved["model.steps" if late else "steps"]
    assert visit.summary.steps == len(visit.decisions) == steps
    if visit.summary.quarantined_at is not None:
        at = visit.sequence.index(visit.summary.quarantined_at)
        (before,) = visits(learner(delay=100 if late else None), own.take(np.arange(at)))
        assert visit.predicted[:at] == before.predicted
        assert visit.decisions == before.decisions
        assert visit.summary.refused == 200 - at


@pytest.mark.parametrize(
    ("strategy", "n", "label"),
    [
        (ResetOnDrift(LogisticRegression(), FHDDM(window=20_000), max_rows=30), 16_000, None),
        (PairedLearners(LogisticRegression(), window=200_000, max_rows=30), 90_000, None),
        (DriftSurf(LogisticRegression(), max_rows=30), 20, "x" * 50_000),
    ],
)
def test_detectors_and_names_of_classes_count_towards_max_bytes(strategy: Any, n: int, label: str | None) -> None:
    own = rows(n)
    y = own.y if label is None else [f"{label}{value}" for value in own.y]
    given_learner = learner(strategy=strategy, classes=None, max_bytes=80_000, batch_size=n // 2)
    (visit,) = visits(given_learner, KeyRows(own.sequence, np.ones((n, 2)), y))
    assert visit.summary.quarantine == "too_large"
    assert "80,000" in visit.summary.quarantine_message


def test_waiting_rows_count_towards_max_bytes() -> None:
    bare = KeyRows(np.arange(100), np.ones((100, 2)), [None] * 100, list(range(100)))
    (visit,) = visits(learner(delay=1000, max_bytes=3_000), bare)
    assert visit.summary.quarantine == "too_large"
    assert visit.summary.waiting == visit.summary.rows == visit.summary.quarantined_at


@pytest.mark.parametrize("cut", [0, 3, 10])
def test_divergence_is_blamed_on_the_same_row_however_visits_are_cut(cut: int) -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    bad = KeyRows(own.sequence, own.X * 1e200, own.y)
    given_learner = learner(strategy=wild, classes=None)
    done = visits(given_learner, part(bad, 0, cut), part(bad, cut, 30))
    assert done[-1].summary.quarantined_at == 9
    same_end(done, visits(given_learner, bad))


def test_with_late_labels_a_failing_row_leaves_no_trace() -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    given_learner = learner(strategy=wild, delay=5)
    bad = KeyRows(own.sequence, own.X * 1e200, own.y, list(range(30)))
    visit, before = given_learner.visit(7, None, bad), given_learner.visit(7, None, part(bad, 0, 9))
    assert visit.summary.quarantined_at == 9
    assert visit.summary.waiting == 0
    assert model_entries(visit.state)["counts"] == model_entries(before.state)["counts"]
