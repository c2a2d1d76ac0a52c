"""The paper's bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from reproductions import outcome

from driftsurf.reproduction import bounds
from driftsurf.reproduction.reproduce import Reproduction

pytestmark = pytest.mark.usefixtures("generated_streams_only")


def test_the_smallest_risk_agrees_with_a_closed_form() -> None:
    # One row x = (1), label +1, with the constant: by symmetry w = (v, v), and v solves l2 v = sigmoid(-2 v).
    least, w = bounds.smallest_risk(np.ones((1, 1)), np.ones(1), 0.5, None)
    v = float(w[0])
    assert w[1] == pytest.approx(v)
    assert 0.5 * v == pytest.approx(1.0 / (1.0 + math.exp(2.0 * v)), abs=1e-6)
    assert least == pytest.approx(math.log1p(math.exp(-2.0 * v)) + 0.5 * v * v)


def test_the_bound_on_the_recovery_is_the_papers() -> None:
    entries, steps = bounds.recovery_bound(0.5, 0.5, 4)
    assert entries == pytest.approx(2.0 + math.sqrt(19.0 * 2.0))
    assert steps == pytest.approx(4 * entries + 4.0 * (math.log(20.0) + entries * math.log(2.0)))
    assert bounds.recovery_bound(0.0, 1.0, 4) == (math.inf, math.inf)


def test_bounds_are_estimated_from_the_states_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten rows a step; a drift at step 6; entered at 6, switched at 9, the new model predicting from 7 on already.
    # A false entry at 14, kept at 17.
    monkeypatch.setattr(bounds, "prepared", lambda dataset: (None, 10, (6,)))
    kinds: list[tuple[str, ...]] = [()] * 20
    kinds[6], kinds[9], kinds[14], kinds[17] = ("entered",), ("switched",), ("entered",), ("kept",)
    reactive = np.zeros(20, bool)
    reactive[6:10] = reactive[14:18] = True
    trained = np.array([0] * 7 + [60] * 13)
    run = outcome([0.1] * 20, transitions=tuple(kinds), reactive=reactive, trained_from=trained)
    found = bounds.bounds("sine1", [run])
    assert found.recovery == (4,)
    assert found.entries == (1,)
    assert (found.p, found.p_star) == (1.0, 1.0)
    assert found.false_entries == 1
    assert found.false_switches == ((8, False),)
    assert found.smallest_b == 0.0
    assert found.theta == pytest.approx(1 / 12)  # steps 0 to 5, 10 to 13, 18 and 19
    assert found.stable_share == pytest.approx(12 / 16)
    assert found.stable_share_bound == pytest.approx(1 / (1 + 4 / 12))
    assert found.large_sample_share == 1.0


def test_a_reaction_before_the_drift_is_not_a_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "prepared", lambda dataset: (None, 10, (6,)))
    kinds: list[tuple[str, ...]] = [()] * 12
    kinds[4], kinds[7] = ("entered",), ("switched",)  # the new model has rows of both concepts
    reactive = np.array([4 <= step < 8 for step in range(12)])
    run = outcome([0.1] * 12, transitions=tuple(kinds), reactive=reactive)
    found = bounds.bounds("sine1", [run])
    assert (found.recovery, found.entries) == ((None,), (0,))
    assert (found.p, found.p_star, found.recovery_bound) == (0.0, 0.0, math.inf)


def test_the_smallest_b_covers_the_switches_of_every_age() -> None:
    assert bounds._smallest_b([(4, True), (8, False)]) == pytest.approx(1.0 / (math.exp(-1) + math.exp(-2)))
    assert bounds._smallest_b([(4, False), (8, True)]) == pytest.approx(math.exp(2))


def test_driftsurf_competes_with_aware_within_the_bound(small: tuple[Path, Reproduction]) -> None:
    (found,) = small[1].competitions
    assert found.dataset == "sine1"
    assert found.ratios.tolist() == [ours / aware for ours, aware in zip(found.driftsurf, found.aware, strict=True)]
    assert np.median(found.aware[:3]) > 1e-6  # a few batches are not enough to reach the minimum
    assert found.share_within > 0.9
    decoded = bounds.CompetitionTask.decode(json.loads(json.dumps(found.to_dict())))
    assert decoded == found
