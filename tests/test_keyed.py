"""One key's rows in visits: in order, once, bounded, and the same however they are spread."""

from __future__ import annotations

import itertools
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier

from driftsurf import Fleet
from driftsurf.adapters import SklearnLearner
from driftsurf.detectors import DDM, FHDDM
from driftsurf.engines import KeyedLearner, KeyRows, Visit
from driftsurf.engines._packed import packed, unpacked
from driftsurf.errors import InputError, OptionError, ShapeError, StateError, StateVersionError
from driftsurf.fleet import key_seed
from driftsurf.journal import read_lines
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.runtime.session import Session
from driftsurf.state import from_bytes, nest, pick, to_bytes
from driftsurf.strategies import DriftSurf, Oblivious, PairedLearners, ResetOnDrift

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def learner(**options: Any) -> KeyedLearner:
    rule = DriftSurf(LogisticRegression(step_size=0.1), threshold=0.1, max_rows=30, dtype="float32")
    given: dict[str, Any] = {"strategy": rule, "features": ("a", "b"), "classes": (0, 1), "batch_size": 10, "seed": 3}
    return KeyedLearner(**(given | options))


def rows(n: int = 200, start: int = 0, seed: int = 0) -> KeyRows:
    """The meaning of the first column turns around half-way."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = ((X[:, 0] > 0) == (np.arange(n) < n // 2)).astype(int)
    return KeyRows(np.arange(start, start + n), X, y.tolist())


def part(given: KeyRows, *bounds: int) -> KeyRows:
    """The rows from the first to the second bound, then from the third to the fourth, and so on."""
    ranges = [np.arange(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
    return given.take(np.concatenate([np.zeros(0, np.int64), *ranges]))


def visits(given: KeyedLearner, *parts: KeyRows, key: Any = 7) -> list[Visit]:
    state, done = None, []
    for one in parts:
        done.append(given.visit(key, state, one))
        state = done[-1].state
    return done


def joined(done: list[Visit], name: str) -> list[Any]:
    return [value for visit in done for value in getattr(visit, name)]


def same_end(one: list[Visit], other: list[Visit]) -> None:
    for name in ("sequence", "predicted", "true", "decided_at", "decisions", "transitions"):
        assert joined(one, name) == joined(other, name), name
    assert one[-1].state == other[-1].state
    assert one[-1].summary == other[-1].summary


# ---------------------------------------------------------------------------- the same however it is spread


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=8), seed=st.integers(0, 10**6))
def test_the_result_does_not_depend_on_visits_nor_on_the_order_within_them(cuts: list[int], seed: int) -> None:
    all_rows, given_learner = rows(), learner()
    bounds = [0, *sorted(cuts), 200]
    rng = np.random.default_rng(seed)
    parts = [all_rows.take(rng.permutation(np.arange(a, b))) for a, b in itertools.pairwise(bounds) if b > a]
    same_end(visits(given_learner, *parts), visits(given_learner, all_rows))


@pytest.mark.parametrize(
    ("strategy", "labels"),
    [
        (DriftSurf(LogisticRegression(), max_rows=64), ["b", "a"]),
        (DriftSurf(SoftmaxRegression(), max_rows=64), ["b", "a", "c"]),
        (DriftSurf(SoftmaxRegression(), max_rows=64), [2, 1, 0]),
        (DriftSurf(LinearRegression(), max_rows=64), [0.5, 1.5]),
    ],
)
def test_nothing_is_predicted_before_the_first_time_step_unless_classes_are_given(
    strategy: DriftSurf, labels: list[Any]
) -> None:
    own, chance = rows(64), np.random.default_rng(0)
    y = [None if i in (3, 20) else labels[int(chance.integers(len(labels)))] for i in range(64)]
    given_rows, given_learner = KeyRows(own.sequence, own.X, y), learner(strategy=strategy, classes=None)
    whole = visits(given_learner, given_rows)
    assert [value is None for value in whole[0].predicted] == [True] * 11 + [False] * 53
    assert whole[0].summary.scored == 64 - 10 - 2
    for bounds in ([0, 1, 2, 3, 5, 64], [0, 10, 20, 33, 64], list(range(65))):
        parts = [part(given_rows, a, b) for a, b in itertools.pairwise(bounds)]
        same_end(visits(given_learner, *parts), whole)


def test_a_key_is_what_it_would_be_alone() -> None:
    all_rows, given_learner = rows(), learner()
    done = visits(given_learner, part(all_rows, 0, 77), part(all_rows, 77, 200))
    rule = DriftSurf(
        LogisticRegression(step_size=0.1), threshold=0.1, max_rows=30, dtype="float32", seed=key_seed(3, 7)
    )
    alone = Session(rule, classes=(0, 1), batch_size=10, guard=None)
    seen = alone.observe(all_rows.X, all_rows.y)
    assert joined(done, "predicted") == seen.labels.tolist()
    assert [read_lines(text)[0].transitions for text in joined(done, "decisions")] == [
        decision.transitions for decision in seen.decisions
    ]
    restored = given_learner.session(7)
    restored.restore(_model(done[-1].state))
    np.testing.assert_array_equal(restored.predict(all_rows.X), alone.predict(all_rows.X))
    assert done[-1].summary.errors == seen.errors
    assert done[-1].summary.transitions == sum(len(decision.transitions) for decision in seen.decisions) > 0


def _saved(state: bytes) -> Any:
    return pick("model", from_bytes(state))


def _model(state: bytes) -> Any:
    saved = _saved(state)
    if "late" in saved:
        return unpacked(saved["late"])
    return unpacked(saved["around"]) | nest("strategy", unpacked(saved["strategy"]))


def test_a_key_is_what_it_would_be_in_a_fleet() -> None:
    all_rows = rows()
    fleet = Fleet(2, step_size=0.1, threshold=0.1, max_rows=30, batch_size=10, seed=3)
    predicted = fleet.observe(np.full(200, 7), all_rows.X, all_rows.y)
    (visit,) = visits(learner(), all_rows)
    assert visit.predicted == predicted.tolist()
    table = fleet.table()
    assert (visit.summary.state, visit.summary.transitions) == (table["state"][0], table["transitions"][0])
    assert visit.summary.last_transition == table["last_transition"][0]
    assert visit.summary.last_transition_at == 10 * table["last_step"][0] + 9


def test_with_micro_batches_each_visit_is_a_time_step() -> None:
    all_rows, given_learner = rows(), learner(batch_size=None)
    parts = [part(all_rows, 50 * k, 50 * (k + 1)) for k in range(4)]
    done = visits(given_learner, *parts)
    assert [visit.summary.steps for visit in done] == [1, 2, 3, 4]
    assert [visit.decided_at for visit in done] == [[49], [99], [149], [199]]
    again = given_learner.visit(7, done[1].state, parts[2])
    assert (again.state, again.predicted) == (done[2].state, done[2].predicted)


def test_a_learner_travels_as_a_pickle() -> None:
    same_end(visits(pickle.loads(pickle.dumps(learner())), rows()), visits(learner(), rows()))


# ---------------------------------------------------------------------------- order and duplicates


def test_what_is_not_above_the_high_water_mark_is_dropped_and_counted() -> None:
    all_rows = rows()
    done = visits(
        learner(), part(all_rows, 0, 100), part(all_rows, 60, 150, 90, 100), part(all_rows, 150, 200, 150, 200)
    )
    clean = visits(learner(), all_rows)
    assert joined(done, "predicted") == joined(clean, "predicted")
    assert done[-1].summary.duplicates == 40 + 10 + 50
    assert done[-1].summary.high_water == 199
    assert done[-1].summary.rows == 200


def test_a_visit_of_duplicates_alone_changes_nothing_but_their_count() -> None:
    first, second = visits(learner(), rows(), part(rows(), 3, 9))
    assert second.sequence == second.predicted == second.decisions == []
    assert second.summary.duplicates == 6
    assert _model(second.state).keys() == _model(first.state).keys()


def test_of_rows_with_one_number_the_first_counts() -> None:
    given_rows = KeyRows(np.array([1, 1]), np.array([[1.0, 0.0], [5.0, 5.0]]), [1, 0])
    (visit,) = visits(learner(), given_rows)
    assert (visit.sequence, visit.true) == ([1], [1])


def test_sequence_numbers_are_whole() -> None:
    with pytest.raises(InputError, match="whole numbers"):
        learner().visit(7, None, KeyRows(np.array([0.5]), np.zeros((1, 2)), [0]))


# ---------------------------------------------------------------------------- labels that are missing or late


def test_rows_without_a_label_are_predicted_as_the_model_is_when_they_come() -> None:
    all_rows = rows()
    bare = [None if i % 7 == 3 else label for i, label in enumerate(all_rows.y)]
    given_rows = KeyRows(all_rows.sequence, all_rows.X, bare)
    whole = visits(learner(), given_rows)
    same_end(visits(learner(), part(given_rows, 0, 55), part(given_rows, 55, 200)), whole)
    assert whole[0].summary.scored == sum(label is not None for label in bare)
    assert whole[0].summary.rows == 200
    assert None not in whole[0].predicted


def test_with_micro_batches_such_rows_are_predicted_by_the_model_before() -> None:
    all_rows = rows(40)
    bare = KeyRows(all_rows.sequence, all_rows.X, [None, *all_rows.y[1:]])
    first, second = visits(learner(batch_size=None), bare, KeyRows(np.array([50]), np.ones((1, 2)), [None]))
    assert first.predicted[0] is None  # there is no model before the first labelled row
    assert second.predicted[0] in (0, 1)
    assert second.summary.steps == 1


def late_rows(n: int = 100, wait: int = 15) -> KeyRows:
    """A row at every even number; its label, alone, ``wait`` rows later at an odd one."""
    own = rows(n)
    events = [(2 * i, i, own.X[i], None) for i in range(n)]
    events += [(2 * (i + wait) + 1, i, np.full(2, np.nan), own.y[i]) for i in range(n)]
    events.sort(key=lambda event: event[0])
    sequence, ids, X, y = zip(*events, strict=True)
    return KeyRows(np.array(sequence), np.array(X), list(y), list(ids))


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=6))
def test_late_labels_find_their_rows_however_visits_are_cut(cuts: list[int]) -> None:
    events, given_learner = late_rows(), learner(delay=100)
    bounds = [0, *sorted(cuts), 200]
    parts = [events.take(np.arange(a, b)) for a, b in itertools.pairwise(bounds) if b > a]
    whole = visits(given_learner, events)
    same_end(visits(given_learner, *parts), whole)
    assert whole[0].summary.waiting == 0
    assert whole[0].summary.steps == 10
    assert whole[0].summary.scored == 100 - 25  # the first come before there is a model


def test_labels_that_come_too_late_are_not_learnt() -> None:
    (visit,) = visits(learner(delay=20), late_rows(wait=15))
    assert visit.summary.steps == visit.summary.scored == 0


def test_rows_wait_in_bounded_number() -> None:
    given_rows = KeyRows(np.arange(50), np.ones((50, 2)), [None] * 50, list(range(50)))
    (visit,) = visits(learner(delay=1000, max_pending=20), given_rows)
    assert visit.summary.waiting == 20


def test_a_label_may_come_with_its_row_where_labels_may_be_late() -> None:
    own = rows(20)
    (visit,) = visits(learner(delay=5), KeyRows(own.sequence, own.X, own.y, list(range(20))))
    assert visit.summary.steps == 2
    assert visit.true == own.y


def test_labels_that_come_late_need_ids() -> None:
    with pytest.raises(InputError, match="give ids"):
        learner(delay=5).visit(7, None, rows(3))


@pytest.mark.parametrize(("X", "label"), [([np.inf, 0.0], None), ([0.0, 0.0], 5), ([np.nan, np.nan], None)])
def test_a_bad_row_among_late_ones_is_not_taken(X: list[float], label: Any) -> None:
    given_rows = KeyRows(np.arange(2), np.array([[1.0, 2.0], X]), [None, label], ["a", "b"])
    (visit,) = visits(learner(delay=5, on_gap="quarantine"), given_rows)
    assert visit.summary.quarantined_at == 1
    assert visit.summary.waiting == 1


# ---------------------------------------------------------------------------- a poisoned key


@pytest.mark.parametrize("batch_size", [10, None])
@pytest.mark.parametrize(("value", "on_gap"), [(np.nan, "quarantine"), (np.inf, "fill")])
def test_a_value_that_is_not_finite_puts_the_key_in_quarantine(
    value: float, on_gap: str, batch_size: int | None
) -> None:
    all_rows = rows()
    all_rows.X[64, 1] = value
    given_learner = learner(batch_size=batch_size, on_gap=on_gap)
    first, second = visits(given_learner, part(all_rows, 0, 150), part(all_rows, 150, 200))
    clean = visits(given_learner, part(rows(), 0, 64))
    assert first.predicted[:64] == clean[0].predicted
    assert (first.summary.rows, first.summary.refused) == (64, 86)
    assert first.summary.quarantine == f"NonFiniteError: in the row 64 'b' is {value}"
    assert first.predicted[64] is None
    assert None not in first.predicted[65:]
    assert second.summary.refused == 136
    assert second.summary.steps == first.summary.steps
    assert second.sequence == list(range(150, 200))
    assert second.true == [None] * 50


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cut", [0, 62, 64, 65])
def test_a_value_that_has_no_room_in_the_type_of_the_rows_does_too(cut: int, late: bool) -> None:
    all_rows = late_rows() if late else rows()
    all_rows.X[64, 1] = 1e300  # float32 ends at 3e38
    done = visits(learner(delay=100 if late else None), part(all_rows, 0, cut), part(all_rows, cut, len(all_rows)))
    assert done[-1].summary.quarantined_at == int(np.sort(all_rows.sequence)[64])
    assert done[-1].summary.rows == 64
    assert joined(done, "predicted")[64] is None
    at = done[-1].summary.quarantined_at
    reason = f"NonFiniteError: in the row {at} 'b' is 1e+300, which has no room in float32"
    assert done[-1].summary.quarantine == reason


def test_a_value_without_room_is_noticed_when_its_row_comes_however_late_its_label() -> None:
    bare = KeyRows(np.arange(4), np.array([[1.0, 1.0], [1.0, 1e39], [1.0, 1.0], [1.0, 1.0]]), [None] * 4, [0, 1, 2, 3])
    (visit,) = visits(learner(delay=5), bare)
    assert (visit.summary.quarantined_at, visit.summary.rows, visit.summary.waiting) == (1, 1, 1)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("label", "strategy"),
    [(float("nan"), LinearRegression()), (0.5, LogisticRegression()), ("x", LogisticRegression())],
)
def test_what_is_said_of_a_bad_label_does_not_depend_on_visits(label: Any, strategy: Any, late: bool) -> None:
    own = rows(40)
    own.y[27] = label
    ids = list(range(40)) if late else None
    given_rows = KeyRows(own.sequence, own.X, own.y, ids)
    given_learner = learner(strategy=DriftSurf(strategy, max_rows=30), classes=None, delay=5 if late else None)
    whole = visits(given_learner, given_rows)
    assert whole[0].summary.quarantined_at == 27
    assert label == "x" or f"the label of the row 27 is {label}" in whole[0].summary.quarantine
    for cut in (22, 25, 27, 28):
        same_end(visits(given_learner, part(given_rows, 0, cut), part(given_rows, cut, 40)), whole)


def test_an_unknown_label_does_too_and_what_stands_before_it_is_learnt() -> None:
    all_rows = rows()
    all_rows.y[64] = 9
    (visit,) = visits(learner(), all_rows)
    assert visit.summary.quarantine.startswith("LabelError: y holds the unknown label 9")
    assert (visit.summary.rows, visit.summary.quarantined_at) == (64, 64)
    assert _model(visit.state)["pending.y"].shape == (4,)
    all_rows.y[0] = "x"
    (visit,) = visits(learner(), all_rows)
    assert (visit.summary.rows, visit.summary.quarantined_at) == (0, 0)
    assert set(visit.predicted) == {None}
    (visit,) = visits(learner(batch_size=None), all_rows)
    assert (visit.summary.rows, visit.summary.quarantined_at) == (0, 0)


def test_training_that_diverges_does_too() -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    (visit,) = visits(learner(strategy=wild, classes=None), KeyRows(own.sequence, own.X * 1e200, own.y))
    assert visit.summary.quarantine.startswith("DivergenceError")
    assert visit.summary.steps == 0


@pytest.mark.parametrize("options", [{}, {"batch_size": None}, {"delay": 5}])
def test_what_the_machine_does_wrong_is_not_the_keys_fault(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    own = rows(20)
    monkeypatch.setattr(DriftSurf, "step", full)
    with pytest.raises(MemoryError):
        learner(**options).visit(7, None, KeyRows(own.sequence, own.X, own.y, list(range(20))))


def test_a_key_is_readmitted_for_what_it_did_up_to_a_row() -> None:
    all_rows = rows()
    all_rows.X[64, 1] = np.inf
    (first,) = visits(learner(), part(all_rows, 0, 100))
    for forgiven, refused in ((63, 136), (64, 36 + 4)):  # four rows before it had begun a time step
        again = learner(readmit={7: forgiven}).visit(7, first.state, part(all_rows, 100, 200))
        assert again.summary.refused == refused
        assert bool(again.summary.quarantine) == (forgiven == 63)


@pytest.mark.parametrize("late", [False, True])
def test_a_key_whose_training_diverged_learns_on_once_it_is_readmitted(late: bool) -> None:
    own = rows(200)
    y = own.X[:, 0].tolist()
    y[43] = 1e120
    values = KeyRows(own.sequence, own.X, y, list(range(200)))
    options = {"strategy": DriftSurf(LinearRegression(), max_rows=30), "classes": None, "delay": 5 if late else None}
    (first,) = visits(learner(**options), part(values, 0, 100))
    assert first.summary.quarantine.startswith("DivergenceError")
    assert (first.summary.quarantined_at, first.summary.rows, first.summary.refused) == (49, 49, 51)
    again = learner(readmit={7: 49}, **options).visit(7, first.state, part(values, 100, 200))
    assert again.summary.quarantine == ""
    assert (again.summary.rows, again.summary.refused, again.summary.steps) == (140, 60, 14)
    assert learner(**options).visit(7, again.state, part(values, 0, 0)).summary.steps == 14


def test_the_state_of_a_key_is_bounded() -> None:
    own = rows(100)
    limit = len(to_bytes(_saved(visits(learner(), part(own, 0, 20))[0].state))) - 1
    first, second = visits(learner(max_bytes=limit), part(own, 0, 15), part(own, 15, 100))
    assert first.summary.quarantine == ""
    assert f"max_bytes is {limit:,}" in second.summary.quarantine
    assert (second.summary.quarantined_at, second.summary.steps) == (19, 1)
    tight = visits(learner(max_bytes=100), own)[0]
    assert "max_bytes is 100" in tight.summary.quarantine
    assert (tight.summary.quarantined_at, tight.summary.rows, tight.summary.refused) == (9, 9, 91)
    whole = visits(learner(max_bytes=100, batch_size=None), own)[0]
    assert (whole.summary.quarantined_at, whole.summary.steps, whole.decisions) == (0, 0, [])


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=5), limit=st.integers(2_000, 9_000), late=st.booleans())
def test_what_a_key_over_its_bound_has_learnt_does_not_depend_on_visits(
    cuts: list[int], limit: int, late: bool
) -> None:
    own = late_rows() if late else rows()
    given_learner = learner(max_bytes=limit, delay=100 if late else None)
    parts = [own.take(np.arange(a, b)) for a, b in itertools.pairwise([0, *sorted(cuts), 200]) if b > a]
    whole = visits(given_learner, own)
    same_end(visits(given_learner, *parts), whole)
    (told,) = whole
    saved = _model(told.state)
    steps = saved["model.steps" if late else "steps"]
    assert told.summary.steps == len(told.decisions) == steps
    if told.summary.quarantined_at is not None:
        at = told.sequence.index(told.summary.quarantined_at)
        (before,) = visits(learner(delay=100 if late else None), own.take(np.arange(at)))
        assert told.predicted[:at] == before.predicted
        assert told.decisions == before.decisions
        assert told.summary.refused == 200 - at


@pytest.mark.parametrize(
    ("strategy", "n", "label"),
    [
        (ResetOnDrift(LogisticRegression(), FHDDM(window=20_000), max_rows=30), 16_000, None),
        (PairedLearners(LogisticRegression(), window=200_000, max_rows=30), 90_000, None),
        (DriftSurf(LogisticRegression(), max_rows=30), 20, "x" * 50_000),
    ],
)
def test_what_detectors_remember_and_the_names_of_classes_are_bounded_too(
    strategy: Any, n: int, label: str | None
) -> None:
    own = rows(n)
    y = own.y if label is None else [f"{label}{value}" for value in own.y]
    given_learner = learner(strategy=strategy, classes=None, max_bytes=80_000, batch_size=n // 2)
    (visit,) = visits(given_learner, KeyRows(own.sequence, np.ones((n, 2)), y))
    assert "max_bytes is 80,000" in visit.summary.quarantine


def test_rows_that_wait_are_bounded_too() -> None:
    bare = KeyRows(np.arange(100), np.ones((100, 2)), [None] * 100, list(range(100)))
    (visit,) = visits(learner(delay=1000, max_bytes=3_000), bare)
    assert "max_bytes is 3,000" in visit.summary.quarantine
    assert visit.summary.waiting == visit.summary.rows == visit.summary.quarantined_at


@pytest.mark.parametrize("cut", [0, 3, 10])
def test_training_that_diverges_is_blamed_on_the_same_row_however_visits_are_cut(cut: int) -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    bad = KeyRows(own.sequence, own.X * 1e200, own.y)
    given_learner = learner(strategy=wild, classes=None)
    done = visits(given_learner, part(bad, 0, cut), part(bad, cut, 30))
    assert done[-1].summary.quarantined_at == 9
    same_end(done, visits(given_learner, bad))


def test_a_row_that_goes_wrong_while_labels_may_be_late_leaves_no_trace() -> None:
    wild = DriftSurf(LogisticRegression(step_size=1e3, l2=0.0), max_rows=30)
    own = rows(30)
    given_learner = learner(strategy=wild, delay=5)
    bad = KeyRows(own.sequence, own.X * 1e200, own.y, list(range(30)))
    told, before = given_learner.visit(7, None, bad), given_learner.visit(7, None, part(bad, 0, 9))
    assert told.summary.quarantined_at == 9
    assert told.summary.waiting == 0
    assert _model(told.state)["counts"] == _model(before.state)["counts"]


def test_a_state_does_not_grow_with_the_stream() -> None:
    sizes = [visit.summary.bytes for visit in visits(learner(), *[rows(100, 100 * k, k) for k in range(20)])]
    assert max(sizes) < 1.5 * sizes[1]


# ---------------------------------------------------------------------------- what is saved


def test_a_silent_key_is_given_up_and_says_so() -> None:
    (visit,) = visits(learner(), rows())
    gone = learner().expire(7, visit.state)
    assert (gone.state, gone.summary.expired, gone.summary.rows) == (b"", True, 200)
    same_end([learner().visit(7, gone.state, rows())], [visit])


def test_a_summary_is_read_from_the_bytes() -> None:
    (visit,) = visits(learner(), rows())
    assert learner().summary(visit.state) == visit.summary
    assert visit.summary.error == visit.summary.errors / 200
    assert learner().visit(7, None, part(rows())).summary.error is None


@pytest.mark.parametrize(
    "other",
    [
        {"features": ("a", "c")},
        {"batch_size": 20},
        {"seed": 4},
        {"classes": None},
        {"guard": 2.0},
        {"delay": 3},
        {"on_gap": "quarantine"},
    ],
    ids=str,
)
def test_a_state_of_other_options_is_refused(other: dict[str, Any]) -> None:
    (visit,) = visits(learner(), rows())
    own = rows(10, 500)
    with pytest.raises(StateError, match="other options"):
        learner(**other).visit(7, visit.state, KeyRows(own.sequence, own.X, own.y, list(range(10))))


@pytest.mark.parametrize("rows_a_visit", [1, 4, 7, 25])
def test_the_strategy_is_saved_anew_after_each_time_step_and_only_then(rows_a_visit: int) -> None:
    all_rows = rows(60)
    states: list[tuple[int, bytes]] = []
    kept = None
    for start in range(0, 60, rows_a_visit):
        visit = learner().visit(7, kept, part(all_rows, start, min(60, start + rows_a_visit)))
        kept = visit.state
        states.append((visit.summary.steps, _saved(kept)["strategy"].tobytes()))
        session = learner()._opened(7, kept)[1].session
        assert packed(session.strategy.state()).tobytes() == states[-1][1]
    for (before, one), (after, two) in itertools.pairwise(states):
        assert (one == two) == (before == after)


def test_a_key_without_a_label_so_far_has_a_state_without_a_model() -> None:
    all_rows = rows()
    all_rows.y[:5] = [None] * 5
    done = visits(learner(), part(all_rows, 0, 5), part(all_rows, 5, 200))
    assert unpacked(_saved(done[0].state)["strategy"]) == {}
    assert joined(done, "predicted")[:5] == [None] * 5
    same_end(done, visits(learner(), all_rows))


@pytest.mark.parametrize("options", [{}, {"delay": 100}])
def test_a_state_that_is_damaged_anywhere_is_named(options: dict[str, Any]) -> None:
    given_learner, own = learner(**options), late_rows() if options else rows()
    (visit,) = visits(given_learner, part(own, 0, 75))
    for place in range(0, len(visit.state), 97):
        bad = bytearray(visit.state)
        bad[place] ^= 1
        with pytest.raises(StateError):
            given_learner.visit(7, bytes(bad), part(own, 75, 80))


@pytest.mark.parametrize("entry", ["around", "strategy"])
@pytest.mark.parametrize("change", ["cut", "gone", "empty"])
def test_a_state_that_was_made_up_is_named(entry: str, change: str) -> None:
    (visit,) = visits(learner(), rows())
    saved = from_bytes(visit.state)
    data: Any = saved.pop(f"model.{entry}")
    if change != "gone":
        saved[f"model.{entry}"] = data[:-3] if change == "cut" else packed({})
    with pytest.raises(StateError):
        learner().visit(7, to_bytes(saved), rows(10, 500))


def test_damaged_and_strange_bytes_are_refused() -> None:
    (visit,) = visits(learner(), rows())
    with pytest.raises(StateError, match="checksum"):
        learner().summary(visit.state[:-40] + bytes(40))
    with pytest.raises(StateError, match="no summary"):
        learner().summary(to_bytes({"keyed": learner().options_digest}))
    later = visit.state[:7] + bytes([99]) + visit.state[8:]
    with pytest.raises((StateVersionError, StateError)):
        learner().summary(later)


def test_what_a_run_depends_on_is_plain() -> None:
    about = json.loads(json.dumps(learner().about()))
    assert about["features"] == ["a", "b"]
    assert about["strategy"]["threshold"] == "0.1"
    assert "LogisticRegression(" in about["strategy"]["learner"]


def own_risk(y: Any, p: Any) -> Any:
    return p


def test_options_are_told_by_name_so_that_another_process_goes_on() -> None:
    tree = SklearnLearner(DecisionTreeClassifier(max_depth=2), risk=own_risk)
    about = learner(strategy=DriftSurf(tree, max_rows=30)).about()
    assert "the function own_risk" in about["strategy"]["learner"]
    assert " at 0x" not in json.dumps(about)
    watched = learner(strategy=ResetOnDrift(LogisticRegression(), detector=DDM(drift_level=4.0), max_rows=30)).about()
    assert watched["strategy"]["detector"].startswith("DDM(")
    assert "4.0" in watched["strategy"]["detector"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ()}, "features"),
        ({"features": ["a"]}, "features"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_pending": 0}, "max_pending"),
        ({"seed": -1}, "seed"),
        ({"on_gap": "skip"}, "'fill', 'quarantine'"),
        ({"delay": 0}, "delay"),
        ({"delay": 5, "batch_size": None}, "batch_size"),
        ({"strategy": DriftSurf(LogisticRegression(), max_rows=None)}, "max_rows"),
        ({"strategy": DriftSurf(LogisticRegression(), threshold=-1)}, "threshold"),
        ({"strategy": DriftSurf(SklearnLearner(SGDClassifier()), max_rows=30)}, "exact_state"),
        ({"strategy": DriftSurf(SklearnLearner(DecisionTreeClassifier(max_depth=1j)), max_rows=30)}, "cannot be saved"),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        learner(**options).check()


def test_good_options_pass() -> None:
    learner().check()
    learner(delay=3.5).check()


def test_rows_fit_together_and_have_the_columns_that_are_named() -> None:
    with pytest.raises(ShapeError, match="as many of everything"):
        KeyRows(np.arange(3), np.zeros((3, 2)), [0, 1])
    with pytest.raises(ShapeError, match="3 columns"):
        learner().visit(7, None, KeyRows(np.arange(2), np.zeros((2, 3)), [0, 1]))


def test_other_strategies_and_values_can_be_learnt_too() -> None:
    own = rows(60)
    values = KeyRows(own.sequence, own.X, own.X[:, 0].tolist())
    strategy = Oblivious(LinearRegression(), max_rows=100)
    (visit,) = visits(learner(strategy=strategy, classes=None), values)
    assert visit.summary.quarantine == ""
    assert visit.summary.steps == 6
    assert all(isinstance(value, float) for value in visit.predicted[10:])
