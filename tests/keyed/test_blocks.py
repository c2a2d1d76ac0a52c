"""Many keys served in one call: the same as a visit to each of them, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import learner, part, rows

from driftsurf.keyed import KeyedLearner, KeyRows
from driftsurf.keyed.blocks import BlockServer, block, server
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import DriftSurf

FIELDS = "sequence", "predicted", "true", "decided_at", "decisions", "transitions", "state", "summary"


@pytest.fixture(autouse=True)
def _compile_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "WORTH_COMPILING", 0)
        yield


def surf(kind: Any = LogisticRegression, *, threshold: float = 0.1, **options: Any) -> DriftSurf:
    return DriftSurf(kind(step_size="auto"), threshold=threshold, max_rows=30, dtype="float32", **options)


LEARNERS = {
    "fixed step": learner(),
    "open classes": learner(strategy=surf(), classes=None),
    "float64, quarantine": learner(strategy=DriftSurf(LogisticRegression(), max_rows=25), on_gap="quarantine"),
    "prequential": learner(strategy=surf(judge="prequential", greedy=False), batch_size=12),
    "significance": learner(strategy=surf(significance=1.0)),
    "svm": learner(strategy=surf(LinearSVM, budget="divided")),
    "regression": learner(strategy=surf(LinearRegression, threshold=0.3), classes=None),
    "many rows": learner(strategy=DriftSurf(LogisticRegression(), max_rows=150, significance=1.0, reactive_length=3)),
    "few rows": learner(strategy=DriftSurf(LogisticRegression(steps_per_row=0.7), max_rows=5, reactive_length=2)),
}


def labels_of(kind: str, X: Any, flipped: bool, rng: Any) -> list[Any]:
    up = (np.nan_to_num(X[:, 0]) > 0) ^ flipped
    if kind == "numbers":
        return list((2.0 * up + rng.normal(size=len(up))).round(2).tolist())
    return [["no", "yes"][int(value)] if kind == "text" else int(value) for value in up]


def epochs_of(case: Any, given_learner: KeyedLearner) -> Iterator[dict[Any, KeyRows]]:
    """Yield the rows of keys, epoch by epoch, with the faults that a case asks for."""
    rng = np.random.default_rng(case["seed"])
    kind = "numbers" if given_learner.regression else "codes" if given_learner.classes else case["labels"]
    at, before = 0, dict[Any, KeyRows]()
    for number in range(case["epochs"]):
        own = dict[Any, KeyRows]()
        for key in [name for name in range(case["keys"]) if rng.random() < 0.8]:
            n = int(rng.integers(1, case["rows"]))
            X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(0, 3)
            X[rng.random(X.shape) < case["gaps"]] = np.nan
            y = labels_of(kind, X, number > case["epochs"] // 2, rng)
            sequence = np.arange(at, at + n)
            at += n
            if rng.random() < case["faults"]:
                place = int(rng.integers(n))
                fault = rng.integers(6)
                if fault == 0:
                    X[place, 0] = np.inf
                elif fault == 1:
                    y[place] = None
                elif fault == 2:
                    y[place] = "third" if kind == "text" else 1e300 if kind == "numbers" else 7
                elif fault == 3:
                    sequence = rng.permutation(sequence)
                elif fault == 4 and key in before:
                    old = before[key]
                    sequence, X = np.append(old.sequence, sequence), np.concatenate([old.X, X])
                    y = old.y + y
                elif fault == 5:
                    y[place] = True
            own[key] = KeyRows(sequence, X, y)
        before = own
        yield own


def same(one: Any, other: Any, name: str) -> bool:
    a, b = getattr(one, name), getattr(other, name)
    return bool(a == b) and repr(a) == repr(b)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(LEARNERS)),
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 10**6),
            "labels": st.sampled_from(["codes", "text"]),
            "epochs": st.integers(1, 14),
            "keys": st.integers(1, 6),
            "rows": st.sampled_from([2, 8, 40]),
            "gaps": st.sampled_from([0.0, 0.2]),
            "faults": st.sampled_from([0.0, 0.1]),
            "resumed": st.booleans(),
            "room": st.sampled_from([2**28, 0]),
        }
    ),
)
def test_a_block_of_keys_gives_what_visits_to_each_key_give(name: str, case: dict[str, Any]) -> None:
    given_learner = LEARNERS[name]
    alone = replace(given_learner)
    with pytest.MonkeyPatch.context() as patch:
        if not case["room"]:
            patch.setattr(block, "LEAST_SLOTS", 2)
        serving = BlockServer(given_learner, case["room"])
        states, expected = dict[Any, bytes](), dict[Any, bytes]()
        for number, own in enumerate(epochs_of(case, given_learner)):
            if number % 5 == 4:  # readmit every key in quarantine
                given_learner, alone = (replace(given_learner, readmit=dict.fromkeys(range(6), 10**9)) for _ in "12")
                serving = BlockServer(given_learner, case["room"])
            elif case["resumed"] and number % 3 == 2:
                serving = BlockServer(given_learner, case["room"])
            done = serving.serve(own, states.get)
            assert list(done) == list(own)
            for key, visit in done.items():
                other = alone.visit(key, expected.get(key), own[key])
                for field in FIELDS:
                    assert same(visit, other, field), (number, key, field)
                states[key], expected[key] = visit.state, other.state
            if number % 4 == 3 and states:  # a key expires
                key = min(states)
                serving.forget([key])
                del states[key], expected[key]


@pytest.mark.parametrize("closed", [True, False])
def test_a_class_that_a_new_model_lacks_is_named_as_in_a_visit(closed: bool) -> None:
    strategy = DriftSurf(LogisticRegression(), threshold=0.02, max_rows=300)
    given_learner = learner(strategy=strategy, classes=("no", "yes") if closed else None)
    alone, serving = replace(given_learner), BlockServer(given_learner, 2**28)
    rng, states, named = np.random.default_rng(0), dict[Any, bytes](), 0
    for number in range(40):
        X = rng.normal(size=(16, 2))
        absent = number % 8 >= 4
        X[:, 0] -= absent
        labels = ["yes" if value > 0 and not absent else "no" for value in X[:, 0]]
        own = {0: KeyRows(np.arange(16 * number, 16 * number + 16), X, labels)}
        visit, other = serving.serve(own, states.get)[0], alone.visit(0, states.get(0), own[0])
        for field in FIELDS:
            assert same(visit, other, field), (number, field)
        states[0] = visit.state
        named += sum("class 'yes' not yet seen" in line for line in visit.decisions)
    assert named
    used = next(block for block in serving._blocks if 0 in block)
    assert all(form is not None for form in used._strategies._forms.values())


def test_usual_keys_stay_open_and_are_not_read_again() -> None:
    given_learner, read = learner(), list[Any]()
    serving = BlockServer(given_learner)
    own = rows(60)
    for start in (0, 20, 40):
        serving.serve({key: part(own, start, start + 20) for key in "ab"}, lambda key: read.append(key))
    assert read == ["a", "b"]


def test_a_key_that_fails_is_served_on_its_own_and_opened_again() -> None:
    given_learner, states = learner(), dict[Any, bytes]()
    serving = BlockServer(given_learner)
    bad = part(rows(60), 20, 40)
    parts = [part(rows(60), 0, 20), replace(bad, y=[None, *bad.y[1:]]), part(rows(60), 40, 60)]
    for own in parts:
        states["a"] = serving.serve({"a": own}, states.get)["a"].state
    assert any("a" in block for block in serving._blocks)


@pytest.mark.parametrize(
    "other",
    [
        {"delay": 5.0},
        {"batch_size": None},
        {"batch_size": 9},
        {"guard": 2.0},
        {"max_bytes": 1000},
        {"strategy": DriftSurf(SoftmaxRegression(), max_rows=30)},
        {"strategy": DriftSurf(LogisticRegression(), risk="zero-one", max_rows=30)},
    ],
)
def test_options_that_do_not_suit_the_loop_leave_every_key_to_visits(other: dict[str, Any]) -> None:
    assert BlockServer(learner())._suits
    assert not BlockServer(learner(**other))._suits
