"""Many keys served in one call: the same as a visit to each of them, to the bit."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_cases import CASES, LEARNERS, TYPES, epochs_of, kind_of
from keyed_rows import SavedStates, learner, part, rows

from driftsurf.errors import ShapeError
from driftsurf.keyed import KeyRows, key_cache, store
from driftsurf.keyed.key_cache import KeyCache
from driftsurf.keyed.results import Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.store import EpochProgress, StateStore
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import DriftSurf

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(LEARNERS)),
    st.fixed_dictionaries(
        {
            **CASES,
            "resumed": st.booleans(),
            "room": st.sampled_from([2**28, 0]),
            "span": st.sampled_from([1, 2, 5, 16]),
        }
    ),
)
def test_a_block_of_keys_gives_what_visits_to_each_key_give(name: str, case: dict[str, Any]) -> None:
    given_learner = LEARNERS[name]
    alone, types = replace(given_learner), TYPES[kind_of(case, given_learner)]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(store, "SPAN", case["span"])
        if not case["room"]:
            patch.setattr(key_cache, "LEAST_OPEN", 2)
        states, expected = StateStore(Path(folder) / "state.sqlite"), dict[Any, bytes]()
        serving = KeyCache(given_learner, case["room"])
        for number, own in enumerate(epochs_of(case, given_learner)):
            if number % 5 == 4:  # readmit every key in quarantine
                given_learner, alone = (replace(given_learner, readmit=dict.fromkeys(range(6), 10**9)) for _ in "12")
                serving = KeyCache(given_learner, case["room"])
            elif case["resumed"] and number % 3 == 2:
                states.close()
                states = StateStore(Path(folder) / "state.sqlite")
                serving = KeyCache(given_learner, case["room"])
            done = serving.serve(RowsByKey.of(own), states)
            visits = {key: alone.visit(key, expected.get(key), rows) for key, rows in own.items()}
            for table, other in Results(visits).tables(*types).items():
                assert done.tables(*types)[table].equals(other), (number, table)
            assert done.high_waters() == Results(visits).high_waters()
            expected |= {key: visit.state for key, visit in visits.items()}
            if number % 4 == 3 and (silent := expected.keys() - own.keys()):  # a key expires
                key = min(silent)
                last = serving.states([key], states)[key]
                assert last == expected.pop(key)
                done.visits[key] = alone.expire(key, last)
            serving.forget(done.visits.keys())
            whole = functools.partial(serving.states, states=states, served=done.parts)
            states.keep(done, EpochProgress(number + 1), whole)
        assert serving.states(expected.keys(), states) == expected
        assert KeyCache(given_learner).states(expected.keys(), states) == expected
        states.close()


def by_key(**rows: KeyRows) -> RowsByKey:
    return RowsByKey.of(rows)


@pytest.mark.parametrize("closed", [True, False])
def test_a_class_that_a_new_model_lacks_is_named_as_in_a_visit(closed: bool) -> None:
    strategy = DriftSurf(LogisticRegression(), threshold=0.02, max_rows=300)
    given_learner = learner(strategy=strategy, classes=("no", "yes") if closed else None)
    alone, serving = replace(given_learner), KeyCache(given_learner, 2**28)
    rng, state, named = np.random.default_rng(0), None, 0
    for number in range(40):
        X = rng.normal(size=(16, 2))
        absent = number % 8 >= 4
        X[:, 0] -= absent
        labels = ["yes" if value > 0 and not absent else "no" for value in X[:, 0]]
        own = {0: KeyRows(np.arange(16 * number, 16 * number + 16), X, labels)}
        done = serving.serve(RowsByKey.of(own), SavedStates({}.get)).tables("int64", "string")
        visit = alone.visit(0, state, own[0])
        for name, table in Results({0: visit}).tables("int64", "string").items():
            assert done[name].equals(table), (number, name)
        state = visit.state
        assert serving.states([0], SavedStates({}.get)) == {0: state}
        named += sum("class 'yes' not yet seen" in line for line in visit.decisions)
    assert named
    assert serving._cells is not None
    assert 0 in serving._cells


def test_usual_keys_stay_open_and_are_not_read_again() -> None:
    given_learner, read = learner(), list[Any]()
    serving = KeyCache(given_learner)
    own = rows(60)
    for start in (0, 20, 40):
        given = part(own, start, start + 20)
        serving.serve(by_key(a=given, b=given), SavedStates(lambda key: read.append(key)))
    assert sorted(read) == ["a", "b"]


def test_rows_that_are_read_only_are_served_in_blocks() -> None:
    given = by_key(a=rows(60))
    given.X.flags.writeable = False
    done = KeyCache(learner()).serve(given, SavedStates({}.get))
    assert [part.names for part in done.parts] == [["a"]]


def test_a_key_that_fails_is_served_on_its_own_and_opened_again() -> None:
    given_learner, saved = learner(), dict[Any, bytes]()
    serving = KeyCache(given_learner)
    bad = part(rows(60), 20, 40)
    parts = [part(rows(60), 0, 20), replace(bad, y=[9, *bad.y[1:]]), part(rows(60), 40, 60), part(rows(80), 60, 80)]
    for own, visited in zip(parts, (False, True, True, False), strict=True):
        done = serving.serve(by_key(a=own), SavedStates(saved.get))
        if own is parts[2]:  # readmit it
            given_learner = learner(readmit={"a": 100})
            state = given_learner.visit("a", saved["a"], part(rows(60), 0, 0)).state
            serving, saved = KeyCache(learner()), {"a": state}
            continue
        assert ("a" in done.visits) == visited
        saved |= {key: visit.state for key, visit in done.visits.items()}
    assert serving._cells is not None
    assert "a" in serving._cells


def test_rows_with_another_number_of_columns_are_refused() -> None:
    own = KeyRows(np.arange(20), np.zeros((20, 3)), [0, 1] * 10)
    with pytest.raises(ShapeError, match="3"):
        KeyCache(learner()).serve(by_key(a=own), SavedStates({}.get))


@pytest.mark.parametrize(
    "other",
    [
        {"delay": 5.0},
        {"batch_size": None},
        {"max_bytes": 1000},
        {"strategy": DriftSurf(LogisticRegression(), risk="zero-one", max_rows=30)},
    ],
)
def test_options_that_do_not_suit_the_loop_leave_every_key_to_visits(other: dict[str, Any]) -> None:
    assert KeyCache(learner())._suits
    assert not KeyCache(learner(**other))._suits
