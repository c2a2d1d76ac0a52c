"""Runs that an earlier version began, kept in ``tests/golden``: they end as if they had never been stopped."""

from __future__ import annotations

from pathlib import Path

import golden_runs
import pytest

from driftsurf.core.state import FORMAT, OLDEST

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", golden_runs.RUNS)
@pytest.mark.parametrize("number", range(OLDEST, FORMAT + 1))
def test_a_golden_run_resumes_and_ends_with_the_same_files(name: str, number: int, tmp_path: Path) -> None:
    resumed, whole, half = tmp_path / "resumed", tmp_path / "whole", tmp_path / "half"
    for place in (resumed, whole, half):
        place.mkdir()
        golden_runs.write_sources(place)
    golden_runs.restore(name, number, resumed)
    golden_runs.stop(name, half)
    # Another processor or compiler may round otherwise; then the second half differs in its last digits, too.
    exact = golden_runs.checkpoint(name, half) == golden_runs.checkpoint(name, resumed)
    done: dict[Path, list[int]] = {}
    for place in (resumed, whole):
        done[place] = golden_runs.run(name, place)
    assert done[whole][0] == 0
    assert 0 < done[resumed][0] <= done[resumed][-1] == done[whole][-1]
    expected, found = golden_runs.results(name, whole), golden_runs.results(name, resumed)
    assert found.keys() == expected.keys()
    if not exact:
        pytest.skip("this processor or compiler rounds otherwise, so that the bytes cannot be compared")
    assert [one for one in found if found[one] != expected[one]] == []
