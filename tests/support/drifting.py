"""Drifts as a model reports them, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from driftsurf.core.drifts import Drift
from driftsurf.runs.live import LiveRun

BEGAN = Drift(
    0,
    row=600,
    step=6,
    detected_at_row=790,
    kind="new rule",
    metric="error",
    error_before=0.07,
    error_peak=0.3,
    columns=("price", "distance"),
    evidence=3e5,
    cause="columns",
)
"""A drift as it is when it was detected."""
GREW = replace(BEGAN, error_peak=0.57)
OVER = replace(GREW, error_after=0.09, recovered_after_rows=800, ended_at_row=1400)
"""The same drift when it was over."""
UPDATES = {7: (BEGAN,), 9: (GREW,), 13: (OVER,)}
"""Updates of the drift, by the step of the model that reports them."""


def report_drifts(patch: pytest.MonkeyPatch, updates: Mapping[int, tuple[Drift, ...]] = UPDATES) -> None:
    """Let the leading model of every run report these drifts with its steps, and no others."""
    observed = LiveRun.observe_with

    def with_drifts(self: LiveRun, name: str, *rest: Any) -> Any:
        seen = observed(self, name, *rest)
        mine = updates if name == self.leading else {}
        return replace(seen, decisions=tuple(replace(one, drifts=mine.get(one.step, ())) for one in seen.decisions))

    patch.setattr(LiveRun, "observe_with", with_drifts)
