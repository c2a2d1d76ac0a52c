"""The rule of DriftSurf in the native core: the examples in its documentation, and missing evidence."""

from __future__ import annotations

import doctest
import math

import pytest

from driftsurf.native import rule

NOTHING = 0.0, 0.0, 0.0, math.nan, math.nan, math.nan, 0.0, 0.0, 0.0


def test_examples() -> None:
    assert not doctest.testmod(rule, extraglobs={"math": math}).failed


def test_a_risk_without_evidence_changes_nothing() -> None:
    assert rule.reference_risk(0.4, math.nan, 3, noisy=False) == 0.4
    assert rule.reference_risk(0.4, math.nan, 3, noisy=True) == 0.4
    assert rule.entering(math.nan, 0.1, math.nan, 0.1, 0.05) == 0
    assert not rule.challenger_predicts(math.nan, 0.1, greedy=True)
    assert not rule.switching(0.1, math.nan)
    assert repr(rule.contest_after(NOTHING, 0.3, math.nan, 10.0, 0.0)) == repr(NOTHING)
    assert all(map(math.isnan, rule.contest_risks(1.0, 2.0, 0.0)))
    assert rule.lead_error(NOTHING) == math.inf


def test_the_credit_is_limited() -> None:
    assert [rule.closed_credit(0.5, gain) for gain in (0.25, 2.0, -2.0, math.nan)] == [0.75, 1.0, -1.0, -1.0]


def test_a_contest_has_nine_fields() -> None:
    with pytest.raises(ValueError, match="9 fields"):
        rule.lead_error((0.0,))
