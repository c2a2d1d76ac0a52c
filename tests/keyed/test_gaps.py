"""Gaps in the rows of a key: filled with means, the same however its rows are spread over visits."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import COLUMNS, OPTIONS, late_rows, learner, part, rows, same_end, shops, visits, write_rows

from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import StateError, StateVersionError
from driftsurf.keyed import KeyRows, run_keyed
from driftsurf.keyed.rows import ColumnMeans

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def with_gaps(given_rows: KeyRows, share: float = 0.2, seed: int = 1) -> KeyRows:
    """Return the rows with some cells missing, but never all of a row."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(given_rows.X.shape) < share, np.nan, given_rows.X)
    X[:, 1] = np.where(np.isnan(X[:, 0]) & ~np.isnan(given_rows.X[:, 0]), given_rows.X[:, 1], X[:, 1])
    return KeyRows(given_rows.sequence, X, given_rows.y, given_rows.ids)


def filled_by_hand(X: Any) -> Any:
    """Fill each gap with the mean of the values before it, row by row."""
    totals, counts, filled = [0.0] * X.shape[1], [0] * X.shape[1], []
    for row in X.tolist():
        filled.append([totals[j] / max(counts[j], 1) if np.isnan(x) else x for j, x in enumerate(row)])
        for j, x in enumerate(row):
            if not np.isnan(x):
                totals[j] += x
                counts[j] += 1
    return np.array(filled)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=6), late=st.booleans(), size=st.sampled_from([10, 64]))
def test_filled_values_do_not_depend_on_visits(cuts: list[int], late: bool, size: int) -> None:
    own = with_gaps(late_rows() if late else rows())
    given_learner = learner(delay=100 if late else None, batch_size=size)
    parts = [own.take(np.arange(a, b)) for a, b in itertools.pairwise([0, *sorted(cuts), 200]) if b > a]
    whole = visits(given_learner, own)
    same_end(visits(given_learner, *parts), whole)
    assert whole[-1].summary.quarantine == ""
    alone = np.isnan(own.X).all(axis=1)
    assert whole[-1].summary.gaps == np.isnan(own.X[~alone]).sum() > 0


@pytest.mark.parametrize("batch_size", [10, None])
def test_a_gap_is_filled_with_the_mean_of_earlier_values(batch_size: int | None) -> None:
    own = with_gaps(rows())
    by_hand = KeyRows(own.sequence, filled_by_hand(own.X), own.y)
    (visit,), (expected,) = (visits(learner(batch_size=batch_size), given) for given in (own, by_hand))
    assert visit.predicted == expected.predicted
    assert visit.decisions == expected.decisions
    assert visit.summary.error == expected.summary.error is not None


def test_without_an_earlier_value_a_gap_is_zero_and_sums_that_overflow_are_too() -> None:
    means = ColumnMeans.empty(2)
    blank = KeyRows(np.arange(2), np.array([[np.nan, 1.0], [np.nan, np.nan]]), [0, 1])
    assert means.fill_as_they_come(blank, late=False).X.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    huge = means.after(np.full((3, 2), 1.7e308)).after(np.full((3, 2), -1.7e308))
    assert huge.fill(blank, late=False).X.tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_refused_rows_are_filled_with_the_last_good_means() -> None:
    own = rows()
    own.X[100:, 0] += 50.0
    own.X[100, 0] = np.inf
    own.X[150:, 1] = np.nan
    given_learner = learner()
    whole = visits(given_learner, own)
    same_end(visits(given_learner, part(own, 0, 100), part(own, 100, 170), part(own, 170, 200)), whole)
    (visit,) = whole
    assert (visit.summary.quarantined_at, visit.summary.gaps) == (100, 0)
    assert visit.predicted[100] is None
    assert None not in visit.predicted[150:]
    mean = filled_by_hand(np.vstack([own.X[:100, 1:], [[np.nan]]]))[-1, 0]
    filled = np.where(np.isnan(own.X[150:]), mean, own.X[150:])
    (before,) = visits(given_learner, part(own, 0, 100))
    after = given_learner.visit(7, before.state, KeyRows(own.sequence[150:], filled, [None] * 50))
    assert visit.predicted[150:] == after.predicted


def test_late_labels_and_rows_of_gaps_are_told_apart() -> None:
    X = np.array([[1.0, 2.0], [np.nan, np.nan], [np.nan, np.nan]])
    (visit,) = visits(learner(delay=50), KeyRows(np.arange(3), X, [None, None, 1], ["a", "b", "a"]))
    assert (visit.summary.gaps, visit.summary.waiting, visit.summary.quarantine) == (2, 1, "")


# ---------------------------------------------------------------------------- saved states


def test_a_state_with_another_on_gap_is_refused() -> None:
    (visit,) = visits(learner(on_gap="quarantine"), rows(20))
    with pytest.raises(StateError, match=learner().options_digest):
        learner().visit(7, visit.state, rows(5, 50))


@pytest.mark.parametrize("change", [{"means": np.zeros((2, 3))}, {"means": np.zeros((2, 2), int)}, {"means": None}])
def test_a_state_without_its_means_is_refused(change: dict[str, Any]) -> None:
    (visit,) = visits(learner(max_bytes=20_000), rows(20))  # which does not keep it as a cell
    saved = {name: value for name, value in (from_bytes(visit.state) | change).items() if value is not None}
    with pytest.raises(StateError) as error:
        learner().visit(7, to_bytes(saved), rows(5, 50))
    assert error.value.entry == "means"


def test_a_run_counts_gaps_and_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    given_rows = shops(300)
    for place in range(0, 300, 7):
        given_rows[place][3] = "NA" if place % 2 else ""
    write_rows(tmp_path / "in" / "1.csv", given_rows)
    folder = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=77)
    assert sum(entry["gaps"] for entry in folder.keys().values()) == len(range(0, 300, 7))
    assert not any(entry["quarantine"] for entry in folder.keys().values())
    (tmp_path / "run" / "run.json").write_text(json.dumps(folder.about() | {"format": 77}))
    with pytest.raises(StateVersionError, match="77"):
        run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=77)
