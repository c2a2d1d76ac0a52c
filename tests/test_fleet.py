"""Each key of a fleet is the model that it would be alone, to the bit."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config, types

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf import _kernels as core
from driftsurf._random import derive
from driftsurf.base import State
from driftsurf.errors import (
    DivergenceError,
    InputError,
    LabelError,
    NonFiniteError,
    OptionError,
    ShapeError,
    StateError,
    ValueTypeError,
)
from driftsurf.fleet import _native, _saved, _threads, key_seed
from driftsurf.fleet._keys import Keys, by_slot
from driftsurf.fleet._layout import TRANSITION, Store, scratch
from driftsurf.fleet._record import Record
from driftsurf.fleet._saved import KEY_FIELDS, MODEL_FIELDS
from driftsurf.learners import LogisticRegression

# As Python, uint64 products wrap with a warning of numpy's.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning"),
]

Call = tuple[list[Any], npt.NDArray[Any], npt.NDArray[Any]]
SMALL: dict[str, Any] = {"step_size": 0.1, "batch_size": 10, "max_rows": 25, "threshold": 0.1}
LEARNER = "step_size", "l2", "steps_per_row", "start"


def calls(
    n_calls: int = 30, d: int = 3, keys: Sequence[Any] = range(5), most: int = 60, seed: int = 0
) -> Iterator[Call]:
    """Rows of keys in any order; what the first column means turns around now and then, for each key at its time."""
    rng = np.random.default_rng(seed)
    for call in range(n_calls):
        n = int(rng.integers(1, most))
        chosen = rng.integers(len(keys), size=n)
        X = rng.normal(size=(n, d))
        y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0) == ((3 * call // n_calls + chosen) % 2 == 0)
        yield [keys[k] for k in chosen], X, y.astype(int)


def alone(key: Any, seed: int = 0, **options: Any) -> DriftSurfClassifier:
    """What a key is without a fleet."""
    learner = LogisticRegression(**{name: options.pop(name) for name in LEARNER if name in options})
    options = {"classes": (0, 1), "dtype": "float32", "guard": None, "random_state": key_seed(seed, key)} | options
    return DriftSurfClassifier(learner, **options)


def same(mine: State, theirs: State) -> None:
    assert sorted(mine) == sorted(theirs)
    for name, value in mine.items():
        other = theirs[name]
        np.testing.assert_array_equal(np.asarray(value), np.asarray(other), err_msg=name, strict=True)


def served(many: Fleet, given: Iterator[Call]) -> Fleet:
    for call in given:
        many.observe(*call)
    return many


# ---------------------------------------------------------------------------- identity


@pytest.mark.python_kernels
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"start": "uniform", "l2": 0.01},
        {"steps_per_row": 0.7},
        {"steps_per_row": 3.3, "stable_threshold": 0.3},
        {"max_rows": 4, "reactive_length": 3},
        {"max_rows": 1000, "reactive_length": 1},
        {"reactive_length": 6, "greedy": False},
        {"threshold": math.inf},
        {"batch_size": 1, "max_rows": 7},
    ],
    ids=str,
)
def test_every_key_is_the_model_that_it_would_be_alone(options: dict[str, Any]) -> None:
    options = SMALL | options
    n_calls = 10 if config.DISABLE_JIT else 40
    many = Fleet(3, seed=7, **options)
    models = {key: alone(key, seed=7, **options) for key in range(5)}
    for keys, X, y in calls(n_calls):
        predicted = many.observe(keys, X, y)
        for key, model in models.items():
            rows = [row for row, own in enumerate(keys) if own == key]
            if rows:
                np.testing.assert_array_equal(predicted[rows], model.test_then_train(X[rows], y[rows]))
    transitions = 0
    for key, model in models.items():
        same(many.session(key).state(), model._session.state())
        assert many.journal(key) == model.journal_.transitions
        transitions += len(many.journal(key))
        np.testing.assert_array_equal(many.weights(key), coefficients(model))
    assert transitions == 0 if options["threshold"] == math.inf else transitions > 5


def coefficients(model: DriftSurfClassifier) -> npt.NDArray[np.float64]:
    """The weights of the model that predicts."""
    learner = model._session.strategy._live.predictor.learner  # type: ignore[attr-defined]
    return np.append(learner.coef, learner.intercept)


@pytest.mark.parametrize("d", [1, 2, 4, 7, 8, 10, 16, 17, 33, 130])
def test_every_width_of_rows_is_computed_alike(d: int) -> None:
    many = Fleet(d, **(SMALL | {"step_size": 0.5 / (d + 1)}))
    model = alone("one", **(SMALL | {"step_size": 0.5 / (d + 1)}))
    for keys, X, y in calls(20, d, ["one"]):
        np.testing.assert_array_equal(many.observe(keys, X, y), model.test_then_train(X, y))
    same(many.session("one").state(), model._session.state())


def test_what_a_key_becomes_does_not_depend_on_how_rows_are_spread_over_calls() -> None:
    given = list(calls())
    keys = [key for part, _, _ in given for key in part]
    X, y = np.concatenate([X for _, X, _ in given]), np.concatenate([y for _, _, y in given])
    once, by_row = Fleet(3, **SMALL), Fleet(3, **SMALL)
    predicted = once.observe(keys, X, y)
    one_by_one = [by_row.observe(keys[i : i + 1], X[i : i + 1], y[i : i + 1])[0] for i in range(len(y))]
    assert predicted.tolist() == one_by_one
    assert once.to_bytes() == by_row.to_bytes() == served(Fleet(3, **SMALL), iter(given)).to_bytes()
    sorted_by_key = Fleet(3, **SMALL)
    for key in once.keys:
        rows = [row for row, own in enumerate(keys) if own == key]
        sorted_by_key.observe([key] * len(rows), X[rows], y[rows])
    assert sorted_by_key.to_bytes() == once.to_bytes()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "ROWS_A_THREAD", 5)
    one, three = (Fleet(3, threads=threads, **SMALL) for threads in (1, 3))
    for call in calls(keys=range(20)):
        np.testing.assert_array_equal(one.observe(*call), three.observe(*call))
    same(one.state() | {"fleet": ""}, three.state() | {"fleet": ""})
    for key in range(20):
        assert one.journal(key) == three.journal(key)


def test_a_fleet_is_saved_some_keys_at_a_time_and_comes_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    many = served(Fleet(3, **SMALL), calls(keys=range(20)))
    whole = many.to_bytes()
    monkeypatch.setattr(_saved, "KEYS_AT_ONCE", 3)
    assert many.to_bytes() == whole == Fleet.from_bytes(whole).to_bytes()


def test_a_key_taken_out_goes_on_as_it_would_have_in_the_fleet() -> None:
    many = served(Fleet(3, **SMALL), calls(10))
    session = many.session(2)
    for keys, X, y in calls(20, seed=1):
        predicted = many.observe(keys, X, y)
        rows = np.flatnonzero(np.array(keys) == 2)
        if len(rows):
            np.testing.assert_array_equal(session.observe(X[rows], y[rows]).labels, predicted[rows])
    same(many.session(2).state(), session.state())


@pytest.mark.python_kernels
def test_keys_may_be_text_and_classes_any_two_labels() -> None:
    names = ["anna", "b", "", "ünïcode"]
    many = Fleet(3, classes=("no", "yes"), seed=1, **SMALL)
    models = {key: alone(key, seed=1, classes=("no", "yes"), **SMALL) for key in names}
    for keys, X, y in calls(8, keys=names):
        labels = np.where(y == 1, "yes", "no")
        predicted = many.observe(np.array(keys, object), X, labels)
        for key, model in models.items():
            rows = [row for row, own in enumerate(keys) if own == key]
            if rows:
                assert predicted[rows].tolist() == model.test_then_train(X[rows], labels[rows]).tolist()
    assert sorted(many.keys) == sorted(names)
    assert "anna" in many
    assert "c" not in many
    same(many.session("ünïcode").state(), models["ünïcode"]._session.state())
    assert Fleet.from_bytes(many.to_bytes()).to_bytes() == many.to_bytes()


# ---------------------------------------------------------------------------- reading


@pytest.mark.python_kernels
def test_predicting_changes_nothing_and_foretells_what_observing_will_predict() -> None:
    many = served(Fleet(3, **SMALL), calls(20))
    before = many.to_bytes()
    X = np.random.default_rng(5).normal(size=(5, 3))
    foretold = many.predict([0, 1, 2, 3, 4], X)
    assert many.to_bytes() == before
    np.testing.assert_array_equal(many.observe([0, 1, 2, 3, 4], X, [0] * 5), foretold)


def test_a_key_that_was_never_observed_cannot_be_read() -> None:
    many = served(Fleet(3, **SMALL), calls(2))
    with pytest.raises(InputError, match="the key 99 has not been observed"):
        many.predict([0, 99], np.zeros((2, 3)))
    with pytest.raises(InputError, match="the key 99 has not been observed"):
        many.session(99)
    with pytest.raises(InputError, match="the key 1 has not been observed"):
        Fleet(3, **SMALL).readmit([1])
    with pytest.raises(ShapeError, match="1 rows and there are 2 keys"):
        many.predict([0, 1], np.zeros((1, 3)))


def test_options_stay_what_they_were_at_the_first_use() -> None:
    many, other = Fleet(3, seed=2**64 + 3, **SMALL), Fleet(3, seed=2**64 + 3, **SMALL)
    for number, call in enumerate(calls(20)):
        np.testing.assert_array_equal(many.observe(*call), other.observe(*call))
        if number == 5:
            other.threshold, other.start, other.seed, other.batch_size, other.on_bad = (
                9.0,
                "uniform",
                1,
                7,
                "quarantine",
            )
    assert many.to_bytes() == other.to_bytes()
    same(many.session(2).state(), other.session(2).state())


def test_a_fleet_that_has_seen_nothing_is_empty() -> None:
    many = Fleet(3, **SMALL)
    assert (len(many), many.keys, many.nbytes, 1 in many) == (0, [], 0, False)
    assert all(len(column) == 0 for column in many.table().values())
    assert all(len(column) == 0 for column in many.transitions().values())
    assert len(Fleet.from_bytes(many.to_bytes())) == 0


def test_the_table_says_how_each_key_fares() -> None:
    many, wrong, rows = Fleet(3, **SMALL), np.zeros(5), np.zeros(5)
    for keys, X, y in calls(30):
        predicted = many.observe(keys, X, y)
        np.add.at(wrong, keys, predicted != y)
        np.add.at(rows, keys, 1)
    table = many.table()
    order = table["key"]
    np.testing.assert_array_equal(table["rows"], rows[order])
    np.testing.assert_array_equal(table["steps"], rows[order] // 10)
    np.testing.assert_array_equal(table["error"], wrong[order] / rows[order])
    for place, key in enumerate(order):
        journal = many.journal(int(key))
        session = many.session(int(key))
        assert table["transitions"][place] == len(journal)
        assert table["last_transition"][place] == journal[-1].kind
        assert table["last_step"][place] == journal[-1].step
        assert (table["state"][place] == "reactive") == (session.state()["strategy.reactive_step"] != 0)
    transitions = many.transitions()
    assert len(transitions["key"]) == table["transitions"].sum()
    assert set(transitions["kind"]) == {"entered", "greedy", "switched", "kept"}


def test_a_key_takes_the_bytes_that_are_stated() -> None:
    many = Fleet(10, step_size=0.1)
    assert many.bytes_per_key == 9728
    keys = np.arange(1000)
    many.observe(keys, np.zeros((1000, 10)), np.zeros(1000))
    assert 2000 * 9728 <= many.nbytes < 2000 * 9728 + 1000 * 64


# ---------------------------------------------------------------------------- what may not enter


@pytest.mark.parametrize(
    ("keys", "X", "y", "error", "message"),
    [
        ([0, 1], [[0, 1, math.nan], [0, 0, 0]], [0, 1], NonFiniteError, "NaN in row 0"),
        ([0, 1], [[0, 1, 1e39], [0, 0, 0]], [0, 1], NonFiniteError, "infinity"),
        ([0, 1], np.zeros((2, 3)), [0, 2], LabelError, "the unknown label 2"),
        ([0, 1], np.zeros((2, 3)), ["0", "1"], LabelError, "Give labels of one kind"),
        ([0, 1], np.zeros((2, 3)), [0, math.nan], LabelError, "NaN"),
        ([0, 1], np.zeros((2, 3)), [0], ShapeError, "2 rows and y has 1"),
        ([0, 1], np.zeros((2, 4)), [0, 1], ShapeError, "this fleet is expecting 3"),
        ([0], np.zeros((2, 3)), [0, 1], ShapeError, "there are 1 keys"),
        ([[0], [1]], np.zeros((2, 3)), [0, 1], ShapeError, "one key for each row"),
        (["a", "b"], np.zeros((2, 3)), [0, 1], InputError, "keys are text, but this fleet has begun with numbers"),
        ([0.5, 1], np.zeros((2, 3)), [0, 1], ValueTypeError, "keys are of type float64"),
        ([None, "a"], np.zeros((2, 3)), [0, 1], ValueTypeError, "give whole numbers, or text"),
        (np.array([2**63, 1], np.uint64), np.zeros((2, 3)), [0, 1], ValueTypeError, "too large"),
        ([], np.zeros((0, 3)), [], ShapeError, "0 sample"),
    ],
)
def test_bad_input_is_an_error_that_changes_nothing(
    keys: Any, X: Any, y: Any, error: type[Exception], message: str
) -> None:
    many = served(Fleet(3, **SMALL), calls(5))
    before = many.to_bytes()
    with pytest.raises(error, match=message):
        many.observe(keys, X, y)
    assert many.to_bytes() == before


def test_memory_that_is_not_to_be_had_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Store:
        raise MemoryError

    for keys in (range(5), "abcde"):
        many = served(Fleet(3, **SMALL), calls(5, keys=keys))
        before = many.to_bytes()
        more = list(range(1000)) if keys == range(5) else [str(key) for key in range(1000)]
        with monkeypatch.context() as patch:
            patch.setattr(Store, "grown", fail)
            with pytest.raises(MemoryError):
                many.observe(more, np.zeros((1000, 3)), np.zeros(1000))
        assert many.to_bytes() == before
        many.observe(more, np.zeros((1000, 3)), np.zeros(1000))
        assert len(many) == 1000 if keys == range(5) else 1005
    first = Fleet(3, **SMALL)
    monkeypatch.setattr(Store, "grown", fail)
    with pytest.raises(MemoryError):
        first.observe(["a"], np.zeros((1, 3)), [0])
    monkeypatch.undo()
    first.observe([1], np.zeros((1, 3)), [0])


def test_memory_that_is_not_to_be_had_for_the_index_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    many = served(Fleet(3, **SMALL), calls(5))
    before, double, calls_of_it = many.to_bytes(), Keys._double, itertools.count()

    def fail(self: Keys) -> None:
        if next(calls_of_it):
            raise MemoryError
        double(self)

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "_double", fail)
        with pytest.raises(MemoryError):
            many.observe(np.arange(400), np.zeros((400, 3)), np.zeros(400))
    assert many.to_bytes() == before
    assert len(many.table()["key"]) == len(many) == 5
    many.observe(np.arange(400), np.zeros((400, 3)), np.zeros(400))
    assert len(many) == 400


def test_no_thread_fails_for_want_of_memory_when_others_have_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    keys, X, y = rng.integers(50, size=20_000), rng.normal(size=(20_000, 3)), rng.integers(2, size=20_000)
    many = Fleet(3, **(SMALL | {"threads": 2}))
    many.observe(keys, X, y)
    before, made = many.to_bytes(), itertools.count()

    def fail(*given: Any) -> Any:
        if next(made):
            raise MemoryError
        return scratch(*given)

    monkeypatch.setattr("driftsurf.fleet.fleet.scratch", fail)
    with pytest.raises(MemoryError):
        many.observe(keys, X, y)
    assert next(made) == 2
    assert many.to_bytes() == before


@pytest.mark.parametrize("keys", [range(5), "abcde"])
def test_more_rows_or_keys_than_there_are_numbers_for_are_refused(monkeypatch: pytest.MonkeyPatch, keys: Any) -> None:
    many = served(Fleet(3, **SMALL), calls(5, keys=keys))
    before = many.to_bytes()
    more = list(range(5, 12)) if keys == range(5) else list("fghijkl")
    monkeypatch.setattr("driftsurf.fleet._keys.MOST", 10)
    with pytest.raises(ShapeError, match="there are 5 keys, 7 would be new, and 10 are the most"):
        many.observe(more, np.zeros((7, 3)), np.zeros(7))
    with pytest.raises(ShapeError, match="X has 11 rows, and a call takes 10"):
        many.observe([*keys] * 2 + [keys[0]], np.zeros((11, 3)), np.zeros(11))
    assert many.to_bytes() == before
    many.observe([more[0]] * 6, np.zeros((6, 3)), np.zeros(6))
    assert len(many) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "n_features is 0"),
        ({"step_size": "auto"}, "step_size is 'auto'; give a number"),
        ({"step_size": 1.0, "l2": 2.0}, r"step_size \* l2 is 2"),
        ({"batch_size": None}, "batch_size is None"),
        ({"max_rows": None}, "max_rows is None"),
        ({"reactive_length": 0}, "reactive_length is 0"),
        ({"threshold": -1}, "threshold is -1"),
        ({"on_bad": "ignore"}, "on_bad is 'ignore'; choices: 'raise', 'quarantine'"),
        ({"threads": 0}, "threads is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"start": "ones"}, "start is 'ones'"),
        ({"steps_per_row": 0}, "steps_per_row is 0"),
        ({"classes": (1,)}, "classes is .1,.; give the two labels"),
        ({"classes": (1, 2, 3)}, "Only binary classification"),
    ],
)
def test_options_that_cannot_be_used_are_named_at_first_use(options: dict[str, Any], message: str) -> None:
    many = Fleet(**({"n_features": 2, "step_size": 0.1} | options))
    with pytest.raises((OptionError, LabelError), match=message):
        many.observe([1], [[0.0, 0.0]], [0])


# ---------------------------------------------------------------------------- quarantine


@pytest.mark.python_kernels
@pytest.mark.parametrize(
    ("value", "label", "cause"),
    [(math.nan, 0, "a value that is not finite"), (math.inf, 7, "a value that is not finite"), (0.0, 7, "an unknown")],
)
def test_a_poisoned_key_is_put_in_quarantine_and_others_go_on(value: float, label: int, cause: str) -> None:
    many, healthy = Fleet(3, on_bad="quarantine", **SMALL), Fleet(3, **SMALL)
    refused = 0
    for number, (keys, X, y) in enumerate(calls(8)):
        poisoned, labels = X.copy(), y.copy()
        spoilt = np.array(keys) == 2
        late = np.zeros(len(keys), bool)
        if number == 3:
            place = int(np.flatnonzero(spoilt)[1])
            poisoned[place, 1] = value if value != 0.0 else X[place, 1]
            labels[place] = label
            late = spoilt & (np.arange(len(keys)) >= place)
        elif number > 3:
            late = spoilt
        refused += int(late.sum())
        predicted = many.observe(keys, poisoned, labels)
        kept = np.flatnonzero(~late)
        np.testing.assert_array_equal(predicted[kept], healthy.observe(np.array(keys)[kept], X[kept], y[kept]))
    for key in range(5):
        same(many.session(key).state(), healthy.session(key).state())
    table = many.table()
    place = many.keys.index(2)
    assert table["refused"].sum() == table["refused"][place] == refused > 5
    assert table["quarantine"][place].startswith(cause)
    assert sorted(table["quarantine"])[:4] == [""] * 4
    again = Fleet.from_bytes(many.to_bytes())
    assert again.to_bytes() == many.to_bytes()
    for one in (many, again):
        one.readmit([2])
        one.observe([2], np.ones((1, 3)), [1])
    healthy.observe([2], np.ones((1, 3)), [1])
    same(many.session(2).state(), healthy.session(2).state())
    same(again.session(2).state(), healthy.session(2).state())


@pytest.mark.python_kernels
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_key_whose_training_diverges_keeps_its_last_good_model() -> None:
    options = SMALL | {"step_size": 1e65, "l2": 0.0, "threshold": 0.0}
    good, X, y = [0] * 35 + [1] * 35, np.random.default_rng(0).normal(size=(70, 3)), np.tile([0, 1], 35)
    for on_bad in ("raise", "quarantine"):
        many, before = Fleet(3, on_bad=on_bad, **options), Fleet(3, **options)
        many.observe(good, X, y)
        before.observe(good[:30] + good[35:], np.delete(X, range(30, 35), axis=0), np.delete(y, range(30, 35)))
        huge = [0] * 10 + [1] * 10, np.vstack([np.full((10, 3), 1e38), X[:10]]), np.tile([0, 1], 10)
        if on_bad == "raise":
            with pytest.raises(DivergenceError, match=r"diverged for 1 of 2 keys \(0\)"):
                many.observe(*huge)
        else:
            many.observe(*huge)
        before.observe([1] * 10, X[:10], huge[2][10:])
        # All rows of the batch that failed were refused, and those after them.
        same(many.session(0).state(), before.session(0).state())
        same(many.session(1).state(), before.session(1).state())
        assert many.table()["refused"].tolist() == [15, 0]
        assert many.table()["quarantine"].tolist() == ["training diverged", ""]
        assert many.journal(0) == before.journal(0)
        np.testing.assert_array_equal(many.table()["error"], before.table()["error"])


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_where_training_diverges_calls_do_not_matter_and_a_key_learns_on_once_it_is_readmitted() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    X[70:90] *= 1e37
    y = (X[:, 0] > 0).astype(int)
    states = set()
    for size in (96, 65, 32, 1):
        many = Fleet(2, step_size=1e70, l2=0.0, on_bad="quarantine")
        for start in range(0, 96, size):
            rows = slice(start, min(96, start + size))
            many.observe(np.zeros(len(X[rows]), int), X[rows], y[rows])
        table = many.table()
        assert [table[name][0] for name in ("rows", "steps", "refused")] == [64, 2, 32]
        assert table["error"][0] == 14 / 64
        states.add(many.to_bytes())
        many.readmit([0])
        many.observe(np.zeros(104, int), X[96:], y[96:])
        table = many.table()
        assert [table[name][0] for name in ("rows", "steps", "refused", "quarantine")] == [168, 5, 32, ""]
    assert len(states) == 1


@pytest.mark.python_kernels
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_training_diverges_exactly_where_it_would_alone() -> None:
    options = SMALL | {"step_size": 1e65, "l2": 0.0, "threshold": 0.0}
    X, y = np.random.default_rng(0).normal(size=(45, 3)), np.tile([0, 1], 23)[:45]
    outcomes = set()
    for size in np.geomspace(1e33, 1e37, 25):
        many, model = Fleet(3, **options), alone(0, **options)
        many.observe([0] * 45, X, y)
        model.test_then_train(X, y)
        huge = size * X[:5]
        diverged = False
        try:
            model.test_then_train(huge, y[:5])
        except DivergenceError:
            diverged = True
            with pytest.raises(DivergenceError):
                many.observe([0] * 5, huge, y[:5])
            model = alone(0, **options)
            model.test_then_train(X[:40], y[:40])
        else:
            many.observe([0] * 5, huge, y[:5])
        same(many.session(0).state(), model._session.state())
        assert many.journal(0) == model.journal_.transitions
        outcomes.add(diverged)
    assert outcomes == {False, True}


# ---------------------------------------------------------------------------- state


def test_a_saved_fleet_continues_as_if_there_had_been_no_break() -> None:
    given = list(calls(40))
    whole = served(Fleet(3, seed=3, **SMALL), iter(given))
    for cut in (0, 1, 7, 20, 39):
        first = served(Fleet(3, seed=3, **SMALL), iter(given[:cut]))
        data = first.to_bytes()
        second = Fleet.from_bytes(data)
        assert second.to_bytes() == data
        assert served(second, iter(given[cut:])).to_bytes() == whole.to_bytes()


def test_numpy_numbers_as_options_are_saved_as_numbers() -> None:
    options = SMALL | {"batch_size": np.int64(10), "step_size": np.float64(0.1)}
    many = served(Fleet(3, classes=np.array([1, 0]), **options), calls(5))
    assert many.to_bytes() == served(Fleet(3, classes=(0, 1), **SMALL), calls(5)).to_bytes()


COUNTS = [f"key.{name}" for name in KEY_FIELDS] + [f"model.{name}" for name in MODEL_FIELDS]
ENTRIES = ["fleet", "keys.kind", "keys.numbers", "weights", "sums", "rows", "labels", "tables", *COUNTS]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_state_without_one_of_its_entries_or_with_one_of_another_shape_is_refused(name: str) -> None:
    state = served(Fleet(3, **SMALL), calls(5)).state()
    assert sorted(state) == sorted(ENTRIES)
    for wrong in (None, "text", np.zeros((2, 2)), np.zeros(0, np.int64)):
        with pytest.raises(StateError):
            Fleet.from_state(state | {name: wrong})  # type: ignore[dict-item]
    del state[name]
    with pytest.raises(StateError):
        Fleet.from_state(state)


@pytest.mark.parametrize("value", [-2, 2, 5, 1_000, 2**50])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_do_not_fit_together_are_refused_or_harmless(name: str, value: int) -> None:
    many = served(Fleet(3, **SMALL), calls(20))
    for slot in range(5):
        state = many.state()
        array: Any = state[name]
        array[(slot, 0) if array.ndim == 2 else slot] = value
        try:
            forged = Fleet.from_state(state)
        except StateError:
            continue
        served(forged, calls(20, seed=1))
        forged.table()


def test_states_of_others_and_forged_ones_are_refused() -> None:
    many = served(Fleet(3, **SMALL), calls(20))
    state = many.state()
    with pytest.raises(StateError, match="a key stands twice"):
        Fleet.from_state(state | {"keys.numbers": np.zeros(5, np.int64)})
    with pytest.raises(StateError, match="neither the first nor the second class"):
        Fleet.from_state(state | {"labels": np.full_like(np.asarray(state["labels"]), 2)})
    with pytest.raises(StateError, match="no options of a fleet"):
        Fleet.from_state({"estimator": "DriftSurfClassifier"})
    settings_ = json.loads(str(state["fleet"]))
    for wrong in ({"batch_size": 0}, {"n_features": 4}, {"strange": 1}, {"classes": 3}):
        with pytest.raises(StateError):
            Fleet.from_state(state | {"fleet": json.dumps(settings_ | wrong)})
    text = served(Fleet(3, **SMALL), calls(5, keys="abc")).state()
    for lengths in ([1, 1, 5], [-1, 2, 2], [1, 1]):
        with pytest.raises(StateError):
            Fleet.from_state(text | {"keys.lengths": np.array(lengths)})
    with pytest.raises(StateError):
        Fleet.from_state(text | {"keys.text": np.full(3, 255, np.uint8)})


# ---------------------------------------------------------------------------- keys, record, addresses


@pytest.mark.python_kernels
@settings(deadline=None, max_examples=50)
@given(parts=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), min_size=1), max_size=6))
def test_numbers_find_their_slots(parts: list[list[int]]) -> None:
    keys, twin = Keys(), dict[int, int]()
    for part in parts:
        read = keys.read(np.array(part, np.int64))
        assert keys.find(read).tolist() == [twin.get(key, -1) for key in part]
        expected = [twin.setdefault(key, len(twin)) for key in part]
        assert keys.add(read).tolist() == expected
    assert keys.labels() == list(twin)
    if twin:
        assert keys.seeds(3, 0).tolist() == [key_seed(3, key) for key in twin]
        assert keys.seeds(3, len(twin)).tolist() == []
        keys.truncate(1)
        assert keys.labels() == list(twin)[:1]
        assert keys.find(keys.read(list(twin))).tolist() == [0] + [-1] * (len(twin) - 1)


@pytest.mark.python_kernels
def test_many_numbers_that_differ_in_high_bits_only_find_their_slots() -> None:
    keys = Keys()
    given = np.arange(2000) << 48
    assert keys.add(keys.read(given)).tolist() == list(range(2000))
    assert keys.find(keys.read(given[::-1])).tolist() == list(range(2000))[::-1]


@pytest.mark.python_kernels
@given(slots=st.lists(st.integers(0, 9), min_size=1), n_slots=st.sampled_from([10, 1000]))
@settings(deadline=None, max_examples=50)
def test_rows_by_slot_are_those_of_a_stable_sort(slots: list[int], n_slots: int) -> None:
    touched, starts, order = by_slot(np.array(slots, np.int32), n_slots)
    assert touched.tolist() == sorted(set(slots))
    assert order.tolist() == np.argsort(slots, kind="stable").tolist()
    assert [slots[order[a]] for a in starts[:-1]] == touched.tolist()
    assert starts[-1] == len(slots)


def test_the_record_keeps_the_last_transitions_by_whole_calls() -> None:
    record = Record(limit=5)
    for call in range(4):
        part = np.zeros(3, TRANSITION)
        part["kind"], part["step"] = 1, call
        record.add(part)
        record.add(part[:0])
    assert record.table([0])["step"].tolist() == [2, 2, 2, 3, 3, 3]
    assert len(record.of(0)) == 6


@pytest.mark.skipif(config.DISABLE_JIT, reason="there are no addresses without compiled code")
def test_compiled_code_calls_kernels_by_address_and_borrows_arrays() -> None:
    floats = types.Array(types.float64, 1, "C", readonly=True)
    remote = _native.Remote(core.weighted_sum, types.UniTuple(types.float64, 2)(floats, floats), np.float64)
    sum_at = remote.at

    @numba.njit(cache=False)  # type: ignore[untyped-decorator]
    def both(arrays: Any, address: Any) -> Any:
        (values, weights), scale = _native.borrowed(arrays)
        return scale * sum_at(address)(values[1:], weights[1:])[0]

    values, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 3.0, 4.0])
    assert both(((values, weights), 2.0), remote.address()) == 22.0
    assert _native.borrowed((values, 1)) == (values, 1)
    assert sum_at(core.weighted_sum) is core.weighted_sum


@pytest.mark.skipif(config.DISABLE_JIT, reason="there are no addresses without compiled code")
def test_a_kernel_with_another_signature_is_not_called() -> None:
    floats = types.Array(types.float64, 1, "C", readonly=True)
    remote = _native.Remote(core.weighted_sum, types.float64(floats, floats), np.float64)
    with pytest.raises(TypeError, match="weighted_sum is"):
        remote.address()


def test_seeds_of_keys_are_fixed_for_good() -> None:
    assert [key_seed(0, 1), key_seed(1, 1), key_seed(0, -1), key_seed(0, "1")] == [
        derive(0, 1),
        derive(1, 1),
        derive(0, -1),
        8263584012933098579,
    ]
