"""The grid search for hyperparameters."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from driftsurf.reproduction import grid_search
from driftsurf.streams import SINE1

pytestmark = pytest.mark.usefixtures("generated_streams_only")


def test_the_grid_is_the_papers_and_the_choice_is_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(grid_search.L2S) * len(grid_search.STEP_SIZES) == 105
    assert (min(grid_search.STEP_SIZES), max(grid_search.STEP_SIZES)) == pytest.approx((1e-5, 0.5))
    monkeypatch.setattr(grid_search, "STEP_SIZES", (1e-5, 2e-1))
    lines = [grid_search.GridTask("circles", l2).perform() for l2 in grid_search.L2S]
    found = grid_search.tuned("circles", lines)
    errors = np.array(found.errors)
    assert errors.shape == (7, 2)
    assert found.error == np.nanmin(errors)
    assert found.paper_error == errors[2, 1]  # mu = 1e-3, and 0.1 is nearest to 0.2
    assert [grid_search.GridTask.decode(json.loads(json.dumps(line.to_dict()))) for line in lines] == lines


def test_a_grid_point_that_diverges_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge:
        def arrays(self) -> tuple[Any, Any]:
            X, y = SINE1(n_rows=500).arrays()
            return 1e95 * X, y

    monkeypatch.setattr("driftsurf.data.catalogue.get", lambda name: type("Entry", (), {"make": staticmethod(Huge)}))
    monkeypatch.setattr(grid_search, "L2S", (1e-7,))
    monkeypatch.setattr(grid_search, "STEP_SIZES", (1e-200, 1e6))
    monkeypatch.setattr(grid_search, "_split", grid_search._split.__wrapped__)  # the cache must not keep the huge rows
    line = grid_search.GridTask("sine1", 1e-7).perform()
    assert math.isnan(line.errors[1])
    assert line.to_dict()["errors"][1] is None
    found = grid_search.tuned("sine1", [line])
    assert found.step_size == 1e-200
