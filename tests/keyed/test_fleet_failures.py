"""Fleets of any model: a key that fails fails alone, and a state that does not fit is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from fleet_models import MODELS, SVM, TREE, UNBOUNDED, calls, two
from fleets import calls as binary_calls
from fleets import same, served
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, load, save
from driftsurf.errors import (
    CapabilityError,
    DivergenceError,
    InputError,
    LabelError,
    NonFiniteError,
    StateError,
)
from driftsurf.keyed.cell_store import CellStore
from driftsurf.keyed.session_store import KeySession, SessionStore
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.strategies import DriftSurf

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


# ---------------------------------------------------------------------------- what may not enter


@pytest.mark.parametrize(
    ("name", "label", "reason", "error"),
    [
        ("compiled growing, svm", 7, "bad_label", LabelError),
        ("compiled growing, svm", 0.5, "continuous_label", LabelError),
        ("compiled guard, softmax", "strange", "bad_label", LabelError),
        ("compiled guard, regression", np.nan, "bad_label", NonFiniteError),
        ("compiled guard, regression", 1e300, "bad_label", LabelError),
        ("tree", None, "bad_label", LabelError),
    ],
)
def test_a_label_that_cannot_be_learned_concerns_its_key_alone(
    name: str, label: Any, reason: str, error: type[InputError]
) -> None:
    model, labels = MODELS[name]
    strict, tolerant, healthy = (
        Fleet(model, batch_size=10, on_bad=on_bad) for on_bad in ("raise", "quarantine", "raise")
    )
    for number, (keys, X, y) in enumerate(calls(labels, 10)):
        wrong: Any = y if number != 5 else y.astype(object if isinstance(label, str) or label is None else float)
        kept = np.ones(len(y), bool)
        if number == 5:
            place = int(np.flatnonzero(keys == 2)[1])
            wrong[place] = label
            before = strict.to_bytes() if name != "tree" else b""
            with pytest.raises(error) as raised:
                strict.observe(keys, X, wrong)
            assert raised.value.row in (None, place)
            assert before == (strict.to_bytes() if name != "tree" else b"")
            kept = (keys != 2) | (np.arange(len(y)) < place)
        elif number > 5:
            kept = keys != 2
        strict.observe(keys, X, y)
        predicted = tolerant.observe(keys, X, wrong)
        np.testing.assert_array_equal(predicted[kept], healthy.observe(keys[kept], X[kept], y[kept]))
    table = tolerant.table()
    place = list(tolerant.keys).index(2)
    assert table["quarantine"][place] == reason
    assert np.count_nonzero(table["quarantine"] != "") == 1
    assert table["refused"][place] == table["refused"].sum() > 5
    for key in range(4):
        same(tolerant.session(key).state(), healthy.session(key).state())
    tolerant.readmit([2])
    for one in (tolerant, healthy):
        one.observe([2], X[:1], y[:1])
    same(tolerant.session(2).state(), healthy.session(2).state())


def test_a_key_whose_first_row_is_bad_is_predicted_without_a_model() -> None:
    for model, y, expected in (
        (SVM, [0, 1], [None, None]),
        (clone(SVM).set_params(classes=[3, 5]), [3, 5], [3, 3]),
        (MODELS["compiled guard, regression"][0], [1.0, 2.0], [np.nan, 0.0]),
    ):
        fleet = Fleet(model, on_bad="quarantine")
        np.testing.assert_array_equal(fleet.observe(["a", "a"], [[np.nan], [1.0]], y), expected)
        np.testing.assert_array_equal(fleet.predict(["a"], [[1.0]]), expected[1:])
        assert fleet.table()["quarantine"].tolist() == ["not_finite"]
        assert Fleet.from_bytes(fleet.to_bytes()).to_bytes() == fleet.to_bytes()


def test_weights_for_a_learner_without_them_change_nothing() -> None:
    model = DriftSurfClassifier(KNeighborsClassifier(), max_rows=40)
    fleet = served(Fleet(model, batch_size=10), binary_calls(5))
    before, n_keys = pickle.dumps(fleet.table()), len(fleet)
    with pytest.raises(CapabilityError, match="weights"):
        fleet.observe([77], [[0.0] * 3], [0], sample_weight=[2.0])
    assert (pickle.dumps(fleet.table()), len(fleet)) == (before, n_keys)


BAD_LABELS: dict[str, Any] = {
    "compiled svm": 7,
    "compiled softmax": "strange",
    "compiled regression without scale": 1e300,
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_native_loops_and_sessions_agree_on_rows_that_cannot_be_learned(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, labels = clone(MODELS[name][0]), MODELS[name][1]
    model.set_params(learner__step_size=0.1, learner__scale=False)
    given = list(calls(labels, 20, most=90, seed=1))
    for number, (keys, X, y) in enumerate(given):
        if number in (4, 8):  # a value or a label that cannot be learned
            X[keys == 1, 1] = [np.nan, -np.inf][number // 8]
            y = y.astype(object) if name == "compiled softmax" else y.astype(float)
            y[np.flatnonzero(keys == 2)[1:2]] = BAD_LABELS[name]
            given[number] = keys, X, y
        if number == 10:
            X[keys == 3] *= 1e200  # training diverges
    backends, reasons = [], set[str]()
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        fleet, predicted = Fleet(model, batch_size=10, on_bad="quarantine"), []
        for number, call in enumerate(given):
            predicted.append(fleet.observe(*call))
            reasons |= set(fleet.table()["quarantine"])
            if number in (6, 15):
                fleet.readmit([1, 3])
            if number == 9:
                fleet = Fleet.from_bytes(fleet.to_bytes())
        backends.append((fleet, predicted))
    (mine, own), (theirs, others) = backends
    assert (type(mine._backend), type(theirs._backend)) == (CellStore, SessionStore)
    for one, other in zip(own, others, strict=True):
        np.testing.assert_array_equal(one, other)
    for column, values in mine.table().items():
        if column != "models":  # a session counts a new stable model with its first decision
            np.testing.assert_array_equal(values, theirs.table()[column], err_msg=column)
    assert reasons == {"", "not_finite", "bad_label", "diverged"}
    for key in range(4):
        same(mine.session(key).state(), theirs.session(key).state())
        assert mine.journal(key) == theirs.journal(key)


def test_a_fleet_that_was_saved_with_sessions_is_continued_with_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    model, labels = MODELS["compiled svm"]
    compiled = served(Fleet(model, batch_size=10), calls(labels))  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        data = served(Fleet(model, batch_size=10), calls(labels)).to_bytes()  # type: ignore[arg-type]
    loaded = Fleet.from_bytes(data)
    assert loaded.to_bytes() == data
    for keys, X, y in calls(labels, seed=1):
        np.testing.assert_array_equal(loaded.observe(keys, X, y), compiled.observe(keys, X, y))


# ---------------------------------------------------------------------------- errors in the middle of a call


class Failing(DecisionTreeClassifier):  # type: ignore[misc]
    """A tree that cannot be fitted to rows with a large value."""

    def fit(self, X: Any, y: Any, *arguments: Any, **options: Any) -> Any:
        """Fit, or fail."""
        if np.max(X) > 50:
            raise ZeroDivisionError("a large value")
        return super().fit(X, y, *arguments, **options)


def test_a_key_whose_learner_fails_is_in_quarantine_alone() -> None:
    model = DriftSurfClassifier(Failing(max_depth=2), max_rows=40, guard=None)
    for on_bad in ("raise", "quarantine"):
        fleet, healthy = (Fleet(model, batch_size=10, on_bad=on_bad) for _ in range(2))
        given = list(calls(two, 12))
        for keys, X, y in given[:6]:
            np.testing.assert_array_equal(fleet.observe(keys, X, y), healthy.observe(keys, X, y))
        keys, X, y = given[6]
        pending, others = fleet.session(1).rows_pending, keys != 1
        place = np.flatnonzero(keys == 1)
        X[place[0]] = 99.0
        predicted = healthy.observe(keys[others], X[others], y[others])
        good = 0 if pending + len(place) >= 10 else len(place)
        if on_bad == "raise" and not good:
            with pytest.raises(ZeroDivisionError, match="a large value") as raised:
                fleet.observe(keys, X, y)
            assert "quarantine" in raised.value.__notes__[-1]
        else:
            np.testing.assert_array_equal(fleet.observe(keys, X, y)[others], predicted)
        while fleet.table()["quarantine"][list(fleet.keys).index(1)] == "":
            try:
                fleet.observe([1] * 10, X[:1].repeat(10, 0), y[:1].repeat(10))
            except ZeroDivisionError:
                assert on_bad == "raise"
        assert fleet.table()["quarantine"][list(fleet.keys).index(1)] == "error"
        assert fleet.session(1).rows_pending == 0
        for key in (0, 2, 3):
            same(fleet.session(key).state(), healthy.session(key).state())
        fleet.readmit([1])
        fleet.observe([1] * 10, np.zeros((10, 3)), [0, 1] * 5)
        assert fleet.table()["quarantine"].tolist() == [""] * 4


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("late", [False, True])
def test_an_exception_from_outside_is_raised_once_the_call_is_complete(
    kind: type[BaseException], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, take = list(binary_calls(20)), KeySession.take
    whole = served(Fleet(UNBOUNDED, batch_size=10), iter(given))
    for broken in range(1, 6):
        fleet, count = served(Fleet(UNBOUNDED, batch_size=10), iter(given[:-1])), 0

        def fail(self: KeySession, X: Any, y: Any, weight: Any, broken: int = broken) -> None:
            nonlocal count
            count += 1
            if late:
                take(self, X, y, weight)
            if count == broken:
                raise kind("from outside")
            if not late:
                take(self, X, y, weight)

        with monkeypatch.context() as patch:
            patch.setattr(KeySession, "take", fail)
            with pytest.raises(kind, match="from outside"):
                fleet.observe(*given[-1])
        if broken == 1 and not late and kind is KeyboardInterrupt:  # nothing was learned, so nothing has changed
            assert fleet.to_bytes() == served(Fleet(UNBOUNDED, batch_size=10), iter(given[:-1])).to_bytes()
            fleet.observe(*given[-1])
        assert fleet.to_bytes() == whole.to_bytes()
        assert [fleet.journal(key) for key in range(5)] == [whole.journal(key) for key in range(5)]
        assert all(session.parts is None for session in fleet._backend._sessions)  # type: ignore[union-attr]


def test_a_call_that_is_broken_off_twice_is_completed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    given, take = list(binary_calls(20)), KeySession.take
    whole = served(Fleet(UNBOUNDED, batch_size=10), iter(given))
    fleet, count = served(Fleet(UNBOUNDED, batch_size=10), iter(given[:-1])), 0

    def fail(self: KeySession, X: Any, y: Any, weight: Any) -> None:
        nonlocal count
        count += 1
        if count in (3, 4, 5):
            raise KeyboardInterrupt
        take(self, X, y, weight)

    monkeypatch.setattr(KeySession, "take", fail)
    with pytest.raises(KeyboardInterrupt):
        fleet.observe(*given[-1])
    with pytest.raises(KeyboardInterrupt):
        len(fleet)
    assert fleet.to_bytes() == whole.to_bytes()


# ---------------------------------------------------------------------------- saved fleets


def test_saved_models_of_another_library_need_their_learner(tmp_path: Any) -> None:
    model, labels = MODELS["tree"]
    fleet = served(Fleet(model, batch_size=10), calls(labels))  # type: ignore[arg-type]
    save(fleet, tmp_path / "fleet.state")
    with pytest.raises(StateError, match="learner="):
        load(tmp_path / "fleet.state")
    with pytest.raises(StateError, match="not DecisionTree"):
        load(tmp_path / "fleet.state", DecisionTreeClassifier(max_depth=1, random_state=0))
    again = load(tmp_path / "fleet.state", TREE)
    assert again.to_bytes() == fleet.to_bytes()
    online = served(Fleet(DriftSurfClassifier(GaussianNB(), max_rows=40), batch_size=10), binary_calls(20))
    with pytest.raises(CapabilityError, match="trust_pickle"):
        online.to_bytes()
    data = online.to_bytes(trust_pickle=True)
    with pytest.raises(StateError, match="trust_pickle"):
        Fleet.from_bytes(data, GaussianNB())
    loaded = Fleet.from_bytes(data, GaussianNB(), trust_pickle=True)
    for call in binary_calls(5, seed=1):
        np.testing.assert_array_equal(loaded.observe(*call), online.observe(*call))


def test_a_strategy_that_is_not_registered_cannot_be_saved() -> None:
    class Own(DriftSurf):
        """A strategy of a user."""

    fleet = served(Fleet(Own(LogisticRegression(), max_rows=40), classes=(0, 1), batch_size=10), binary_calls(10))
    with pytest.raises(CapabilityError, match="not registered"):
        fleet.to_bytes()
    assert pickle.dumps(fleet.table())


def test_a_state_of_sessions_with_a_missing_or_misshapen_entry_is_refused() -> None:
    fleet = served(Fleet(MODELS["aue"][0], batch_size=10), binary_calls(20))
    whole = fleet.state()
    assert Fleet.from_state(whole).to_bytes() == fleet.to_bytes()
    for name in whole:
        if name.startswith("sessions.") and not name.startswith("sessions.3."):
            continue
        for wrong in (None, "text", np.zeros((2, 2)), np.zeros(0, np.int64)):
            with pytest.raises(StateError):
                Fleet.from_state(whole | {name: wrong})  # type: ignore[dict-item]
        with pytest.raises(StateError):
            Fleet.from_state({entry: value for entry, value in whole.items() if entry != name})


def test_forged_states_of_sessions_are_refused() -> None:
    fleet = served(Fleet(MODELS["aue"][0], batch_size=10), binary_calls(20))
    state: dict[str, Any] = dict(fleet.state())
    for name, value in state.items():
        if name.startswith("key."):
            for number in (-2, 2**50):
                forged = value.copy()
                forged[1] = number
                if name.endswith("errors") and number > 0:
                    continue
                with pytest.raises(StateError) as error:
                    Fleet.from_state(state | {name: forged})
                assert error.value.entry == name
    more = {name.replace("sessions.3.", "sessions.5."): value for name, value in state.items() if ".3." in name}
    other = served(Fleet(MODELS["aue"][0], batch_size=10), ((k, X[:, :2], y) for k, X, y in binary_calls(20)))
    swapped = {name: value for name, value in other.state().items() if name.startswith("sessions.2.")}
    for forged in (state | more, state | swapped):
        with pytest.raises(StateError):
            Fleet.from_state(forged)
    for wrong in ('{"model": 3}', '{"model": {}}', "[]", "3", '{"model": {"strategy": "Oak"}}', "null", "\x00"):
        with pytest.raises(StateError) as error:
            Fleet.from_state(state | {"fleet": wrong})
    unknown = str(state["fleet"]).replace('"n_features": 3', '"n_features": null')
    with pytest.raises(StateError, match="columns"):
        Fleet.from_state(state | {"fleet": unknown})


def test_divergence_of_a_session_is_reported_as_that_of_a_native_key() -> None:
    fleet = Fleet(DriftSurfRegressor(LinearRegression(step_size=1e65, l2=0.0), guard=None), batch_size=10)
    X, y = np.random.default_rng(0).normal(size=(40, 2)) * 1e30, np.arange(40.0)
    with pytest.raises(DivergenceError, match=r"1 of 2 .*\('b'\)"):
        fleet.observe(["a"] * 5 + ["b"] * 35, X, y)
    assert fleet.table()["quarantine"].tolist() == ["", "diverged"]
    assert fleet.table()["refused"].tolist() == [0, 35]
