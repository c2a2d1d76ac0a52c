"""Each rule fires on its own condition, and on nothing that is unknown."""

from __future__ import annotations

import math

import pytest

from driftsurf.errors import OptionError
from driftsurf.service.alerts import AlertOptions, Reading, read_alerts
from driftsurf.service.alerts.rules import conditions

FINE = {
    "error": 0.1,
    "usual_error": 0.1,
    "error_noise": 0.01,
    "trivial_error": 0.4,
    "label_age": 10.0,
    "lag_rows": 10,
    "disk_free": 1e12,
    "challengers": {"trees": (-0.01, 0.01)},
}


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("error-above-usual", {"error": 0.14}),
        ("worse-than-trivial", {"error": 0.5, "usual_error": 0.6}),
        ("label-silence", {"label_age": 4000.0}),
        ("lag", {"lag_rows": 200_000}),
        ("disk", {"disk_free": 1e6}),
        ("challenger-better", {"challengers": {"trees": (-0.03, -0.01)}}),
        ("learner-failed", {"failure": "no memory"}),
        ("connection-lost", {"cut_off": {"source 'orders'": "the messages 3 to 5 are gone"}}),
    ],
)
def test_each_condition_is_found_by_its_rule_alone(rule: str, values: dict[str, object]) -> None:
    assert conditions(Reading(model="sales", time=0.0, **FINE), AlertOptions()) == []  # type: ignore[arg-type]
    found = conditions(Reading(model="sales", time=0.0, **(FINE | values)), AlertOptions())  # type: ignore[arg-type]
    assert [condition.rule for condition in found] == [rule]


def test_unknown_numbers_raise_no_alert() -> None:
    assert conditions(Reading(model="sales", time=0.0), AlertOptions()) == []
    unknown_noise = Reading(model="sales", time=0.0, error=0.9, usual_error=0.1, error_noise=math.nan)
    assert conditions(unknown_noise, AlertOptions()) == []


def test_a_challenger_is_named() -> None:
    both = {"trees": (-0.03, -0.01), "linear": (-0.2, 0.1), "deep": (-0.5, -0.4)}
    found = conditions(Reading(model="sales", time=0.0, challengers=both), AlertOptions())
    assert [condition.subject for condition in found] == ["trees", "deep"]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"lag": 1}, "lag"),
        ({"lag-rows": 0}, "lag_rows"),
        ({"hold": -1}, "hold"),
        ({"channels": ["webhook"]}, "channels"),
        ({"channels": {"ops": {}}}, "kind"),
        ({"channels": {"ops": {"kind": "pager"}}}, "pager"),
        ({"channels": {"ops": {"kind": "webhook"}}}, "url"),
        ({"channels": {"ops": {"kind": "webhook", "url": "ftp://host"}}}, "url"),
        ({"channels": {"ops": {"kind": "webhook", "url": "https://me:hunter2@host"}}}, "url"),
        ({"channels": {"ops": {"kind": "webhook", "url": "https://host", "secret": "hunter2"}}}, "secret"),
        ({"channels": {"ops": {"kind": "webhook", "url": "https://host", "colour": 1}}}, "colour"),
        ({"channels": {"ops": {"kind": "mail", "host": "localhost", "sender": "a@b", "to": []}}}, "to"),
        ({"channels": {"ops": {"kind": "mail", "host": "localhost", "sender": "a@b", "to": ["x y@z"]}}}, "x y@z"),
        (
            {"channels": {"ops": {"kind": "mail", "host": "h", "sender": "a@b", "to": ["a@b"], "security": "ssl"}}},
            "ssl",
        ),
    ],
)
def test_bad_options_are_named_and_secrets_are_not(table: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_alerts(table)
    assert named in str(caught.value)
    assert "hunter2" not in str(caught.value)
