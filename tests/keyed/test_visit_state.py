"""Saved states of keys and options of keyed learners: exact, bounded, checked."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from keyed_rows import joined, late_rows, learner, part, rows, same_end, visits
from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier

from driftsurf.core.state import from_bytes, pick, to_bytes
from driftsurf.detectors import DDM
from driftsurf.errors import OptionError, StateError, StateVersionError
from driftsurf.keyed import KeyRows
from driftsurf.keyed.serving import packed, unpacked
from driftsurf.learners import LogisticRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.strategies import DriftSurf, ResetOnDrift

SMALL = {"max_bytes": 20_000}
"""Options of a learner that keeps no cells."""


def saved_entries(state: bytes) -> Any:
    """Return the entries of a key's model as they are saved."""
    return pick("model", from_bytes(state))


pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def test_a_state_does_not_grow_with_the_stream() -> None:
    sizes = [visit.summary.bytes for visit in visits(learner(), *[rows(100, 100 * k, k) for k in range(20)])]
    assert max(sizes) < 1.5 * sizes[1]


def test_a_summary_is_read_from_the_state() -> None:
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
def test_a_state_with_other_options_is_refused(other: dict[str, Any]) -> None:
    (visit,) = visits(learner(), rows())
    own = rows(10, 500)
    with pytest.raises(StateError, match=learner().options_digest):
        learner(**other).visit(7, visit.state, KeyRows(own.sequence, own.X, own.y, list(range(10))))


@pytest.mark.parametrize("rows_a_visit", [1, 4, 7, 25])
def test_the_strategy_is_saved_again_only_after_a_time_step(rows_a_visit: int) -> None:
    all_rows = rows(60)
    states: list[tuple[int, bytes]] = []
    kept = None
    for start in range(0, 60, rows_a_visit):
        visit = learner(**SMALL).visit(7, kept, part(all_rows, start, min(60, start + rows_a_visit)))
        kept = visit.state
        states.append((visit.summary.steps, saved_entries(kept)["strategy"].tobytes()))
        session = learner()._open(7, kept)[1].session
        assert packed(session.strategy.state()).tobytes() == states[-1][1]
    for (before, one), (after, two) in itertools.pairwise(states):
        assert (one == two) == (before == after)


def test_a_key_without_labels_has_a_state_without_amodel_entries() -> None:
    all_rows = rows()
    all_rows.y[:5] = [None] * 5
    done = visits(learner(**SMALL), part(all_rows, 0, 5), part(all_rows, 5, 200))
    assert unpacked(saved_entries(done[0].state)["strategy"]) == {}
    assert joined(done, "predicted")[:5] == [None] * 5
    same_end(done, visits(learner(**SMALL), all_rows))
    same_end(visits(learner(), part(all_rows, 0, 5), part(all_rows, 5, 200)), visits(learner(), all_rows))


@pytest.mark.parametrize("options", [{}, SMALL, {"delay": 100}])
def test_a_state_that_is_damaged_anywhere_is_refused(options: dict[str, Any]) -> None:
    given_learner, own = learner(**options), late_rows() if "delay" in options else rows()
    (visit,) = visits(given_learner, part(own, 0, 75))
    for place in range(0, len(visit.state), 97):
        bad = bytearray(visit.state)
        bad[place] ^= 1
        with pytest.raises(StateError):
            given_learner.visit(7, bytes(bad), part(own, 75, 80))


@pytest.mark.parametrize("entry", ["around", "strategy"])
@pytest.mark.parametrize("change", ["cut", "gone", "empty"])
def test_a_forged_state_is_refused(entry: str, change: str) -> None:
    (visit,) = visits(learner(**SMALL), rows())
    saved = from_bytes(visit.state)
    data: Any = saved.pop(f"model.{entry}")
    if change != "gone":
        saved[f"model.{entry}"] = data[:-3] if change == "cut" else packed({})
    with pytest.raises(StateError):
        learner().visit(7, to_bytes(saved), rows(10, 500))


def test_a_forged_cell_is_refused_or_learns_on() -> None:
    """Sizes and counts decide where compiled code reads and writes."""
    (visit,) = visits(learner(), rows(195))
    saved: dict[str, Any] = dict(from_bytes(visit.state))
    refused = 0
    for change in (lambda cell: cell[:-8], lambda cell: cell[:20], lambda cell: np.append(cell, np.zeros(8, np.uint8))):
        with pytest.raises(StateError, match="cell"):
            learner().visit(7, to_bytes(saved | {"cell": change(saved["cell"])}), rows(5, 500))
    for place in range(0, 600, 8):
        for value in (-1, 1, 2**40, 2**62):
            cell = saved["cell"].copy()
            cell[place : place + 8] = np.frombuffer(np.int64(value).tobytes(), np.uint8)
            try:
                learner().visit(7, to_bytes(saved | {"cell": cell}), rows(30, 500))
            except StateError:
                refused += 1
    assert refused > 100


def test_the_same_key_has_the_same_future_as_a_cell_and_as_a_session() -> None:
    as_cell, as_session = (visits(learner(**options), rows(75)) for options in ({}, SMALL))
    assert "cell" in from_bytes(as_cell[0].state)
    assert "cell" not in from_bytes(as_session[0].state)
    one, other = (learner().visit(7, done[0].state, rows(60, 75, 1)) for done in (as_cell, as_session))
    assert (one.state, one.predicted, one.decisions) == (other.state, other.predicted, other.decisions)
    small = learner(**SMALL).visit(7, as_cell[0].state, rows(60, 75, 1))
    assert (small.predicted, small.decisions) == (one.predicted, one.decisions)


def test_bytes_that_are_no_state_of_a_key_are_refused() -> None:
    (visit,) = visits(learner(), rows())
    with pytest.raises(StateError):
        learner().summary(visit.state[:-40] + bytes(40))
    with pytest.raises(StateError, match="summary"):
        learner().summary(to_bytes({"keyed": learner().options_digest}))
    later = visit.state[:7] + bytes([99]) + visit.state[8:]
    with pytest.raises((StateVersionError, StateError)):
        learner().summary(later)


def test_an_array_in_place_of_a_name_is_refused() -> None:
    (visit,) = visits(learner(), rows(20))
    with pytest.raises(StateError) as error:
        learner().visit(7, to_bytes(from_bytes(visit.state) | {"keyed": np.zeros(3)}), rows(5, 50))
    assert error.value.entry == "keyed"


def test_about_is_plain_json() -> None:
    about = json.loads(json.dumps(learner().about()))
    assert about["features"] == ["a", "b"]
    assert about["strategy"]["threshold"] == "0.1"
    assert "LogisticRegression(" in about["strategy"]["learner"]


def own_risk(y: Any, p: Any) -> Any:
    return p


def test_about_names_functions_and_detectors_without_addresses() -> None:
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
        ({"strategy": DriftSurf(SklearnLearner(DecisionTreeClassifier(max_depth=1j)), max_rows=30)}, "1j"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        learner(**options).check()


def test_valid_options_pass() -> None:
    learner().check()
    learner(delay=3.5).check()
