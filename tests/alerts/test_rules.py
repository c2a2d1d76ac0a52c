"""Each rule fires on its own condition, and on nothing that is unknown."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from drifting import BEGAN
from served_models import MemoryModel

from driftsurf.errors import DriftsurfWarning, OptionError
from driftsurf.runs.alerts import AlertOptions, Reading, read_alerts
from driftsurf.runs.alerts.rules import Lead, conditions, ending
from driftsurf.service.alert_readings import changes_of, reading_of
from driftsurf.service.contract import Event

FINE = {
    "error": 0.1,
    "error_noise": 0.01,
    "trivial_error": 0.4,
    "label_age": 10.0,
    "lag_rows": 10,
    "disk_free": 1e12,
    "challengers": {"trees": Lead(0.0, -0.01, 0.01, 0.1)},
}


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("worse-than-trivial", {"error": 0.5}),
        ("label-silence", {"label_age": 4000.0}),
        ("lag", {"lag_rows": 200_000}),
        ("disk", {"disk_free": 1e6}),
        ("challenger-better", {"challengers": {"trees": Lead(-0.02, -0.03, -0.01, 0.1)}}),
        ("learner-failed", {"failure": "no memory"}),
        ("connection-lost", {"cut_off": {"source 'orders'": "the messages 3 to 5 are gone"}}),
    ],
)
def test_each_condition_is_found_by_its_rule_alone(rule: str, values: dict[str, object]) -> None:
    assert conditions(Reading(model="sales", time=0.0, **FINE), AlertOptions()) == []  # type: ignore[arg-type]
    found = conditions(Reading(model="sales", time=0.0, **(FINE | values)), AlertOptions())  # type: ignore[arg-type]
    assert [condition.rule for condition in found] == [rule]
    now = ending(found[0], Reading(model="sales", time=0.0, **FINE), AlertOptions())  # type: ignore[arg-type]
    assert now not in ("", found[0].summary)


def test_unknown_numbers_raise_no_alert() -> None:
    assert conditions(Reading(model="sales", time=0.0), AlertOptions()) == []
    unknown_noise = Reading(model="sales", time=0.0, error=0.9, trivial_error=0.1, error_noise=math.nan)
    assert conditions(unknown_noise, AlertOptions()) == []


def test_a_challenger_is_named() -> None:
    all_three = {
        "trees": Lead(-0.02, -0.03, -0.01, 0.6),
        "linear": Lead(-0.05, -0.2, 0.1, 0.6),
        "deep": Lead(-0.45, -0.5, -0.4, 0.6),
    }
    found = conditions(Reading(model="sales", time=0.0, challengers=all_three), AlertOptions())
    assert [condition.subject for condition in found] == ["trees", "deep"]


@pytest.mark.parametrize(("difference", "fires"), [(-3e-5, False), (-0.0009, False), (-0.001, True), (-0.05, True)])
def test_a_certain_difference_that_does_not_matter_is_no_alert(difference: float, fires: bool) -> None:
    lead = Lead(difference, difference - 1e-6, difference + 1e-6, 0.1)
    found = conditions(Reading(model="sales", time=0.0, challengers={"trees": lead}), AlertOptions())
    assert bool(found) is fires


@pytest.mark.parametrize(
    ("last_label", "oldest", "age"),
    [(100.0, 951.0, 49.0), (980.0, 500.0, 20.0), (None, 400.0, 600.0), (100.0, None, None)],
)
def test_silence_begins_with_the_last_label_or_the_oldest_row_that_waits(
    last_label: float | None, oldest: float | None, age: float | None
) -> None:
    status = replace(MemoryModel().status(), last_label=last_label, oldest_waiting=oldest)
    found = reading_of(status, now=1000.0).label_age
    assert math.isnan(found) if age is None else found == age


def test_a_refused_order_is_told_as_refused() -> None:
    order = {"type": "order", "order": "rollback", "text": "there is no restore point 7"}
    lines = [
        order | {"outcome": "refused", "reason": "no-checkpoints"},
        {"type": "order", "order": "dismiss", "text": "lin failed", "outcome": "refused", "reason": "cannot-learn"},
        order | {"outcome": "done", "reason": ""},
    ]
    refused, failed, done = changes_of(Event(line, record) for line, record in enumerate(lines))
    assert "rollback was refused" in refused.text
    assert (failed.text, done.text) == ("lin failed", order["text"])


def test_lines_about_drifts_are_told_with_the_drift() -> None:
    (found,) = changes_of([Event(4, BEGAN.record(7))])
    assert (found.drift, found.text) == (BEGAN, BEGAN.describe())


def test_an_error_above_the_usual_one_alone_is_no_alert() -> None:
    """A limit that is read after every batch is crossed by chance; the evidence for a drift is not."""
    status = replace(MemoryModel().status(), error=0.3, error_rows=500, usual_error=0.1, trivial_error=0.4)
    assert conditions(reading_of(status, now=1000.0), AlertOptions(disk_free=0)) == []


def test_the_former_name_of_a_limit_is_read_with_a_warning() -> None:
    with pytest.warns(DriftsurfWarning, match="'error-noise'.*'trivial-noise'"):
        assert read_alerts({"error-noise": 5}).trivial_noise == 5
    with pytest.raises(OptionError, match="error-noise"):
        read_alerts({"error-noise": 5, "trivial-noise": 4})


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
