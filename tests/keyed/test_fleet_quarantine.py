"""Keys of a fleet in quarantine: bad rows and training that diverges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fleets import SMALL, calls, same, separate

from driftsurf import Fleet
from driftsurf.errors import (
    DivergenceError,
)

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("value", "label", "cause"),
    [(math.nan, 0, "not_finite"), (math.inf, 7, "not_finite"), (0.0, 7, "bad_label")],
)
def test_a_bad_row_quarantines_its_key_and_no_other(value: float, label: int, cause: str) -> None:
    many, healthy = Fleet(n_features=3, on_bad="quarantine", **SMALL), Fleet(n_features=3, **SMALL)
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
    assert table["quarantine"][place] == cause
    assert sorted(table["quarantine"])[:4] == [""] * 4
    again = Fleet.from_bytes(many.to_bytes())
    assert again.to_bytes() == many.to_bytes()
    for one in (many, again):
        one.readmit([2])
        one.observe([2], np.ones((1, 3)), [1])
    healthy.observe([2], np.ones((1, 3)), [1])
    same(many.session(2).state(), healthy.session(2).state())
    same(again.session(2).state(), healthy.session(2).state())


@pytest.mark.usefixtures("backend")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_key_whose_training_diverges_keeps_its_last_good_model() -> None:
    options = SMALL | {"step_size": 1e65, "l2": 0.0, "threshold": 0.0}
    good, X, y = [0] * 35 + [1] * 35, np.random.default_rng(0).normal(size=(70, 3)), np.tile([0, 1], 35)
    for on_bad in ("raise", "quarantine"):
        many, before = Fleet(n_features=3, on_bad=on_bad, **options), Fleet(n_features=3, **options)
        many.observe(good, X, y)
        before.observe(good[:30] + good[35:], np.delete(X, range(30, 35), axis=0), np.delete(y, range(30, 35)))
        huge = [0] * 10 + [1] * 10, np.vstack([np.full((10, 3), 1e38), X[:10]]), np.tile([0, 1], 10)
        if on_bad == "raise":
            with pytest.raises(DivergenceError, match=r"1 of 2 .*\(0\)"):
                many.observe(*huge)
        else:
            many.observe(*huge)
        before.observe([1] * 10, X[:10], huge[2][10:])
        # All rows of the batch that failed were refused, and those after them.
        same(many.session(0).state(), before.session(0).state())
        same(many.session(1).state(), before.session(1).state())
        assert many.table()["refused"].tolist() == [15, 0]
        assert many.table()["quarantine"].tolist() == ["diverged", ""]
        assert many.journal(0) == before.journal(0)
        np.testing.assert_array_equal(many.table()["error"], before.table()["error"])


@pytest.mark.usefixtures("backend")
def test_divergence_does_not_depend_on_calls_and_a_readmitted_key_learns_again() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    X[70:90] *= 1e37
    y = (X[:, 0] > 0).astype(int)
    states = set()
    for size in (96, 65, 32, 1):
        many = Fleet(n_features=2, step_size=1e70, l2=0.0, on_bad="quarantine")
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


@pytest.mark.usefixtures("backend")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_training_diverges_exactly_where_a_separate_model_diverges() -> None:
    options = SMALL | {"step_size": 1e65, "l2": 0.0, "threshold": 0.0}
    X, y = np.random.default_rng(0).normal(size=(45, 3)), np.tile([0, 1], 23)[:45]
    outcomes = set()
    for size in np.geomspace(1e33, 1e37, 25):
        many, model = Fleet(n_features=3, **options), separate(0, **options)
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
            model = separate(0, **options)
            model.test_then_train(X[:40], y[:40])
        else:
            many.observe([0] * 5, huge, y[:5])
        same(many.session(0).state(), model._session.state())
        assert many.journal(0) == model.journal_.transitions
        outcomes.add(diverged)
    assert outcomes == {False, True}
