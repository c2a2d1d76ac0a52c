"""Each key of a fleet equals a separate model, to the bit."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fleets import SMALL, calls, same, separate, served

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.errors import (
    InputError,
    LabelError,
    NonFiniteError,
    OptionError,
    ShapeError,
    ValueTypeError,
)
from driftsurf.keyed import keys as _keys
from driftsurf.keyed.bank import Bank
from driftsurf.keyed.keys import Keys
from driftsurf.keyed.layout import Blocks
from driftsurf.native.store import Room

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")

# ---------------------------------------------------------------------------- identity


@pytest.mark.usefixtures("backend")
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
        {"step_size": "auto"},
        {"step_size": "auto", "start": "uniform", "l2": 0.01, "max_rows": 1000},
    ],
    ids=str,
)
def test_every_key_equals_a_separate_model(options: dict[str, Any]) -> None:
    options = SMALL | options
    many = Fleet(n_features=3, seed=7, **options)
    models = {key: separate(key, seed=7, **options) for key in range(5)}
    for keys, X, y in calls(40):
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


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("step_size", [0.1, "auto"])
def test_every_key_equals_a_separate_model_with_weights_and_columns_of_any_size(step_size: Any) -> None:
    options = SMALL | {"step_size": step_size}
    many, rng = Fleet(n_features=3, **options), np.random.default_rng(3)
    models = {key: separate(key, **options) for key in range(5)}
    sizes, centre = (np.ones(3), np.zeros(3)) if step_size == 0.1 else (np.array([1, 1e-3, 1e4]), np.array([0, 7, 1e6]))
    for number, (keys, X, y) in enumerate(calls(40)):
        X, weight = X * sizes + centre, None
        if number > 2 and number % 4:  # the first rows of all keys have no weights
            weight = rng.integers(3, size=len(y)) * 0.7
        predicted = many.observe(keys, X, y, sample_weight=weight)
        if number == 5:
            many = Fleet.from_bytes(many.to_bytes())
        for key, model in models.items():
            rows = [row for row, own in enumerate(keys) if own == key]
            if rows:
                own_weight = None if weight is None else weight[rows]
                expected = model.test_then_train(X[rows], y[rows], sample_weight=own_weight)
                np.testing.assert_array_equal(predicted[rows], expected)
    for key, model in models.items():
        same(many.session(key).state(), model._session.state())


@pytest.mark.usefixtures("backend")
def test_rows_without_any_weight_are_no_evidence() -> None:
    many, model = Fleet(n_features=3, **SMALL), separate(0, **SMALL)
    for keys, X, y in calls(10, keys=[0]):
        np.testing.assert_array_equal(
            many.observe(keys, X, y, sample_weight=0.0), model.test_then_train(X, y, sample_weight=np.zeros(len(y)))
        )
    same(many.session(0).state(), model._session.state())


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("weight", "error"), [([1.0], ShapeError), ([1.0, -1.0], NonFiniteError), (["a", "b"], ValueTypeError)]
)
def test_bad_weights_raise_and_change_nothing(weight: Any, error: type[Exception]) -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(5))
    before, size = many.to_bytes(), many.bytes_per_key
    with pytest.raises(error, match="sample_weight"):
        many.observe([0, 1], np.zeros((2, 3)), [0, 1], sample_weight=weight)
    assert (many.to_bytes(), many.bytes_per_key) == (before, size)


def coefficients(model: DriftSurfClassifier) -> npt.NDArray[np.float64]:
    """Return the weights of the model that predicts."""
    learner = model._session.strategy._live.predictor.learner  # type: ignore[attr-defined]
    return np.append(learner.coef, learner.intercept)


@pytest.mark.parametrize("d", [1, 2, 4, 7, 8, 10, 16, 17, 33, 130])
def test_keys_equal_separate_models_for_any_number_of_columns(d: int) -> None:
    many = Fleet(n_features=d, **(SMALL | {"step_size": 0.5 / (d + 1)}))
    model = separate("one", **(SMALL | {"step_size": 0.5 / (d + 1)}))
    for keys, X, y in calls(20, d, ["one"]):
        np.testing.assert_array_equal(many.observe(keys, X, y), model.test_then_train(X, y))
    same(many.session("one").state(), model._session.state())


@pytest.mark.usefixtures("backend")
def test_the_result_does_not_depend_on_how_rows_are_spread_over_calls() -> None:
    given = list(calls())
    keys = [key for part, _, _ in given for key in part]
    X, y = np.concatenate([X for _, X, _ in given]), np.concatenate([y for _, _, y in given])
    once, by_row = Fleet(n_features=3, **SMALL), Fleet(n_features=3, **SMALL)
    predicted = once.observe(keys, X, y)
    one_by_one = [by_row.observe(keys[i : i + 1], X[i : i + 1], y[i : i + 1])[0] for i in range(len(y))]
    assert predicted.tolist() == one_by_one
    assert once.to_bytes() == by_row.to_bytes() == served(Fleet(n_features=3, **SMALL), iter(given)).to_bytes()
    sorted_by_key = Fleet(n_features=3, **SMALL)
    for key in once.keys:
        rows = [row for row, own in enumerate(keys) if own == key]
        sorted_by_key.observe([key] * len(rows), X[rows], y[rows])
    assert sorted_by_key.to_bytes() == once.to_bytes()


def test_the_result_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keys, "ROWS_PER_THREAD", 5)
    monkeypatch.setattr(_keys, "ROWS_PER_SHARE", 2)  # more shares than threads
    one, three = (Fleet(n_features=3, threads=threads, **SMALL) for threads in (1, 3))
    for call in calls(keys=range(20)):
        np.testing.assert_array_equal(one.observe(*call), three.observe(*call))
    same(one.state() | {"fleet": ""}, three.state() | {"fleet": ""})
    for key in range(20):
        assert one.journal(key) == three.journal(key)


def test_a_fleet_that_is_restored_saves_the_same_bytes() -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(keys=range(20)))
    whole = many.to_bytes()
    assert Fleet.from_bytes(whole).to_bytes() == whole


@pytest.mark.usefixtures("backend")
def test_the_session_of_a_key_continues_as_the_key_does_in_the_fleet() -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(10))
    session = many.session(2)
    for keys, X, y in calls(20, seed=1):
        predicted = many.observe(keys, X, y)
        rows = np.flatnonzero(np.array(keys) == 2)
        if len(rows):
            np.testing.assert_array_equal(session.observe(X[rows], y[rows]).labels, predicted[rows])
    same(many.session(2).state(), session.state())


@pytest.mark.usefixtures("backend")
def test_keys_can_be_text_and_classes_any_two_labels() -> None:
    names = ["anna", "b", "", "ünïcode"]
    many = Fleet(n_features=3, classes=("no", "yes"), seed=1, **SMALL)
    models = {key: separate(key, seed=1, classes=("no", "yes"), **SMALL) for key in names}
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


@pytest.mark.usefixtures("backend")
def test_a_class_that_is_absent_for_a_while_is_named() -> None:
    names, options = ("no", "yes"), SMALL | {"max_rows": 200, "threshold": 0.02}
    many = Fleet(n_features=3, classes=names, **options)
    model = separate("a", classes=names, **options)
    rng = np.random.default_rng(0)
    for step in range(60):
        X = rng.normal(size=(10, 3))
        labels = np.array(names)[((X[:, 0] > 0) & (step % 12 < 8)).astype(int)]
        many.observe(["a"] * 10, X, labels)
        model.test_then_train(X, labels)
    assert many.journal("a") == model.journal_.transitions
    same(many.session("a").state(), model._session.state())
    given = [one.reason for one in many.journal("a") if one.absent >= 0]
    assert given
    assert set(given) == {"class 'yes' not yet seen by the new model"}
    assert (many.transitions()["absent"] == 1).sum() == len(given)


# ---------------------------------------------------------------------------- reading


@pytest.mark.usefixtures("backend")
def test_predict_changes_nothing_and_agrees_with_observe() -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(20))
    before = many.to_bytes()
    X = np.random.default_rng(5).normal(size=(5, 3))
    expected = many.predict([0, 1, 2, 3, 4], X)
    assert many.to_bytes() == before
    np.testing.assert_array_equal(many.observe([0, 1, 2, 3, 4], X, [0] * 5), expected)


@pytest.mark.usefixtures("backend")
def test_reading_a_key_that_was_never_observed_is_an_error() -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(2))
    with pytest.raises(InputError, match="99"):
        many.predict([0, 99], np.zeros((2, 3)))
    with pytest.raises(InputError, match="99"):
        many.session(99)
    with pytest.raises(InputError, match="1"):
        Fleet(n_features=3, **SMALL).readmit([1])
    with pytest.raises(ShapeError, match=r"1 .* 2 "):
        many.predict([0, 1], np.zeros((1, 3)))


@pytest.mark.usefixtures("backend")
def test_options_are_fixed_at_the_first_use() -> None:
    many, other = Fleet(n_features=3, seed=2**64 + 3, **SMALL), Fleet(n_features=3, seed=2**64 + 3, **SMALL)
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


@pytest.mark.usefixtures("backend")
def test_a_new_fleet_is_empty() -> None:
    many = Fleet(n_features=3, **SMALL)
    assert (len(many), many.keys, many.nbytes, 1 in many) == (0, [], 0, False)
    assert all(len(column) == 0 for column in many.table().values())
    assert all(len(column) == 0 for column in many.transitions().values())
    assert len(Fleet.from_bytes(many.to_bytes())) == 0


@pytest.mark.usefixtures("backend")
def test_the_table_agrees_with_predictions_and_journals() -> None:
    many, wrong, rows = Fleet(n_features=3, **SMALL), np.zeros(5), np.zeros(5)
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


def test_a_key_takes_the_documented_number_of_bytes() -> None:
    many = Fleet(n_features=10)
    assert many.bytes_per_key == 10944  # at most
    keys, sizes = np.arange(1000), list[int]()
    for number in range(161):
        many.observe(keys, np.zeros((1000, 10)), np.zeros(1000))
        sizes.append(many.bytes_per_key)
        assert 1000 * sizes[-1] < many.nbytes < 3 * 1000 * sizes[-1] + 200_000, number
    assert sorted(set(sizes)) == [1792 + 512, 1792 + 960, 1792 + 1856, 1792 + 3648, 1792 + 7296, 10944]
    assert (sizes[0], sizes[7], sizes[8], sizes[-1]) == (2304, 2304, 2752, 10944)
    many.observe(keys, np.zeros((1000, 10)), np.zeros(1000), sample_weight=2)
    assert many.bytes_per_key == 10944 + 8 * 160


# ---------------------------------------------------------------------------- what may not enter


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("keys", "X", "y", "error", "message"),
    [
        ([0, 1], [[0, 1, math.nan], [0, 0, 0]], [0, 1], NonFiniteError, "NaN.* 0"),
        ([0, 1], [[0, 1, 1e39], [0, 0, 0]], [0, 1], NonFiniteError, "inf"),
        ([0, 1], np.zeros((2, 3)), [0, 2], LabelError, "2"),
        ([0, 1], np.zeros((2, 3)), ["0", "1"], LabelError, "0"),
        ([0, 1], np.zeros((2, 3)), [0, math.nan], LabelError, "nan"),
        ([0, 1], np.zeros((2, 3)), [0], ShapeError, "2 .* 1 "),
        ([0, 1], np.zeros((2, 4)), [0, 1], ShapeError, "this fleet .* 3 "),
        ([0], np.zeros((2, 3)), [0, 1], ShapeError, " 2 .* 1 "),
        ([[0], [1]], np.zeros((2, 3)), [0, 1], ShapeError, r"\(2, 1\)"),
        (["a", "b"], np.zeros((2, 3)), [0, 1], InputError, "text.*numbers"),
        ([0.5, 1], np.zeros((2, 3)), [0, 1], ValueTypeError, "float64"),
        ([None, "a"], np.zeros((2, 3)), [0, 1], ValueTypeError, "object"),
        (np.array([2**63, 1], np.uint64), np.zeros((2, 3)), [0, 1], ValueTypeError, "9223372036854775808"),
        ([], np.zeros((0, 3)), [], ShapeError, " 0 "),
    ],
)
def test_bad_input_raises_and_changes_nothing(keys: Any, X: Any, y: Any, error: type[Exception], message: str) -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(5))
    before = many.to_bytes()
    with pytest.raises(error, match=message):
        many.observe(keys, X, y)
    assert many.to_bytes() == before


def test_failing_to_allocate_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Blocks:
        raise MemoryError

    for keys in (range(5), "abcde"):
        many = served(Fleet(n_features=3, **SMALL), calls(5, keys=keys))
        before = many.to_bytes()
        more = list(range(1000)) if keys == range(5) else [str(key) for key in range(1000)]
        with monkeypatch.context() as patch:
            patch.setattr(Blocks, "grown", fail)
            with pytest.raises(MemoryError):
                many.observe(more, np.zeros((1000, 3)), np.zeros(1000))
        assert many.to_bytes() == before
        many.observe(more, np.zeros((1000, 3)), np.zeros(1000))
        assert len(many) == 1000 if keys == range(5) else 1005
    first = Fleet(n_features=3, **SMALL)
    monkeypatch.setattr(Blocks, "grown", fail)
    with pytest.raises(MemoryError):
        first.observe(["a"], np.zeros((1, 3)), [0])
    monkeypatch.undo()
    first.observe([1], np.zeros((1, 3)), [0])


def test_failing_to_make_the_first_models_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    many = served(Fleet(n_features=3, **SMALL), calls(5))
    before = many.to_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Bank, "begin", fail)
        with pytest.raises(KeyboardInterrupt):
            many.observe([7, 8], np.zeros((2, 3)), np.zeros(2))
    assert many.to_bytes() == before
    many.observe([7, 8], np.zeros((2, 3)), np.zeros(2))
    assert len(many) == len(many.table()["rows"]) == 7


@pytest.mark.usefixtures("backend")
def test_failing_to_allocate_the_index_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(5))
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


def test_memory_of_all_threads_is_allocated_before_any_key_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    keys, X, y = rng.integers(50, size=20_000), rng.normal(size=(20_000, 3)), rng.integers(2, size=20_000)
    many = Fleet(n_features=3, **(SMALL | {"threads": 2}))
    many.observe(keys, X, y)
    before, made = many.to_bytes(), itertools.count()

    def fail(*given: Any) -> Any:
        if next(made):
            raise MemoryError
        return Room(*given)

    monkeypatch.setattr("driftsurf.keyed.work.Room", fail)
    with pytest.raises(MemoryError):
        many.observe(keys, X, y)
    assert next(made) == 2
    assert many.to_bytes() == before


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("keys", [range(5), "abcde"])
def test_more_rows_or_keys_than_int32_can_count_are_refused(monkeypatch: pytest.MonkeyPatch, keys: Any) -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(5, keys=keys))
    before = many.to_bytes()
    more = list(range(5, 12)) if keys == range(5) else list("fghijkl")
    monkeypatch.setattr("driftsurf.keyed.keys.MOST", 10)
    with pytest.raises(ShapeError, match=r"5 .* 7 .* 10 "):
        many.observe(more, np.zeros((7, 3)), np.zeros(7))
    with pytest.raises(ShapeError, match=r"11 .* 10"):
        many.observe([*keys] * 2 + [keys[0]], np.zeros((11, 3)), np.zeros(11))
    assert many.to_bytes() == before
    many.observe([more[0]] * 6, np.zeros((6, 3)), np.zeros(6))
    assert len(many) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "n_features.* 0"),
        ({"step_size": "fast"}, "step_size.*'fast'"),
        ({"step_size": 0}, "step_size.* 0"),
        ({"step_size": 1.0, "l2": 2.0}, r"step_size \* l2.* 2"),
        ({"batch_size": 0}, "batch_size.* 0"),
        ({"max_rows": None}, "max_rows.*None"),
        ({"reactive_length": 0}, "reactive_length.* 0"),
        ({"threshold": -1}, "threshold.*-1"),
        ({"on_bad": "ignore"}, "on_bad.*'ignore'.*'raise', 'quarantine'"),
        ({"threads": 0}, "threads.* 0"),
        ({"seed": -1}, "seed.*-1"),
        ({"start": "ones"}, "start.*'ones'"),
        ({"steps_per_row": 0}, "steps_per_row.* 0"),
        ({"classes": (1,)}, r"classes.*\(1,\)"),
        ({"classes": (1, 2, 3)}, "3"),
    ],
)
def test_invalid_options_are_named_at_the_first_use(options: dict[str, Any], message: str) -> None:
    many = Fleet(**({"n_features": 2, "step_size": 0.1} | options))
    with pytest.raises((OptionError, LabelError), match=message):
        many.observe([1], [[0.0, 0.0]], [0])


@pytest.mark.usefixtures("backend")
def test_threads_take_turns_and_lose_no_row() -> None:
    fleet = Fleet(n_features=2, step_size=0.1, batch_size=8, threads=2)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(64, 2))
    wrong = list[BaseException]()

    def work(first: int) -> None:
        try:
            for turn in range(15):
                fleet.observe((np.arange(64) + turn) % 5 + first, X, (X[:, 0] > 0).astype(int))
                fleet.predict([first], X[:1])
                Fleet.from_bytes(fleet.to_bytes())
        except BaseException as error:  # told in the main thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 3, 6, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert fleet.table()["rows"].sum() == 4 * 15 * 64
