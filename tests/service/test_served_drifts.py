"""Drifts of a served model: its state, its verdict, its metrics, its alerts, and what a person says about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from drifting import BEGAN, report_drifts
from receivers import receiving

from driftsurf.data.tables import Column, Table
from driftsurf.errors import OptionError
from driftsurf.evaluation.summary import baselines, verdict_of
from driftsurf.runs.alerts import AlertThread, read_alerts
from driftsurf.runs.explanation.records import read_run
from driftsurf.service.alert_readings import ModelReadings
from driftsurf.service.contract import Order
from driftsurf.service.http.answers import model_info
from driftsurf.service.http.metrics import ServiceMetrics
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.replayed_state import ReplayedState
from driftsurf.service.served_run import ServedRun
from driftsurf.service.settings import Keeping, ModelSettings

ROWS = 100
SETTINGS = ModelSettings(
    label="sold", classes=("no", "yes"), model="driftsurf", batch_size=ROWS, columns={"price": "number"}
)
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)


def learn(model: ServedModel, steps: int = 1) -> None:
    price = np.random.default_rng(model.log.next).normal(size=steps * ROWS)
    model.learn(Table({"price": Column("number", price)}), np.where(price > 0, "yes", "no")).result(60)
    model.order(Order("unpin")).result(60)  # when it is carried out, the rows are learned


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedModel]:
    report_drifts(monkeypatch)
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as served:
        assert served.wait_ready(60)
        yield served


def test_the_state_begins_with_the_verdict_and_lists_the_drifts(model: ServedModel, tmp_path: Path) -> None:
    assert model.judge().verdict.status == "waiting"
    learn(model, 5)
    assert (model.judge().verdict.status, model.status().drifting) == ("fine", False)
    learn(model, 4)
    assert (model.judge().verdict.status, model.status().drifting, model.status().drifts) == ("drifting", True, 1)
    learn(model, 6)
    body = json.loads(msgspec.json.encode(model_info(model.status(), model.judge(), [], [], "")))
    assert body["verdict"]["status"] == "fine"
    assert body["verdict"]["text"].startswith("One drift: from row 600 (")
    assert " better than " in body["verdict"]["text"]
    (drift,) = body["drifts"]
    assert (drift["row"], drift["columns"], drift["error_after"]) == (600, ["price", "distance"], 0.09)
    assert drift["time"][:4].isdecimal()
    assert BEGAN.cause_sentence() in drift["text"]
    assert (body["changes"], model.status().drifting, model.status().drifts) == ([], False, 1)
    model.close()
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as again:
        assert again.wait_ready(60)
        assert again.judge() == model.judge()
        assert (again.status().drifts, again.status().drifting) == (1, False)


def test_metrics_of_runs_and_of_served_models_have_the_same_names(model: ServedModel) -> None:
    learn(model, 9)
    found = {one.name: one.values for one in ServiceMetrics()._models([model.status()])}
    assert (found["drifts_total"], found["drifting"]) == ([({"model": "m"}, 1.0)], [({"model": "m"}, 1.0)])


def test_a_mark_is_ordered_journalled_and_shown(model: ServedModel, tmp_path: Path) -> None:
    learn(model)
    refused = model.order(Order("mark", mark="false")).result(60)
    assert (refused.done, refused.reason) == (False, "no-such-drift")
    with pytest.raises(OptionError, match=r"'odd'.*'expected'"):
        model.order(Order("mark", mark="odd"))
    learn(model, 9)
    assert model.order(Order("mark", mark="expected", drift=1)).result(60).done
    assert [one.mark for one in model.judge().drifts] == ["expected"]
    learn(model, 5)  # the drift ends, and keeps its mark
    lines = [event.record for event in model.journal() if event.record["type"] == "drift"]
    assert [(line["mark"], line["ended_at_row"]) for line in lines] == [
        ("", None),
        ("", None),
        ("expected", None),
        ("expected", 1400),
    ]
    order = next(event.record for event in model.journal() if event.record.get("order") == "mark" and event.line > 5)
    assert (order["mark"], order["drift"], order["outcome"]) == ("expected", 1, "done")
    model.close()
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as again:
        assert again.wait_ready(60)
        assert [one.mark for one in again.judge().drifts] == ["expected"]


def test_a_drift_of_a_model_that_is_replaced_ends_with_it(model: ServedModel) -> None:
    learn(model, 9)
    model.order(Order("challenge", "aue", options={"model": "aue"})).result(60)
    learn(model)
    assert model.order(Order("promote", "aue")).result(60).done
    assert (model.status().drifts, model.status().drifting) == (1, False)
    assert "when the model was replaced" in model.judge().verdict.text


def test_a_webhook_hears_of_a_drift_twice_and_of_ten_thousand_rows_without_one_never(
    model: ServedModel, tmp_path: Path
) -> None:
    with receiving() as receiver:
        now = [0.0]
        table = {"hold": 0, "disk-free": 0, "channels": {"ops": {"kind": "webhook", "url": receiver.url}}}
        options = replace(read_alerts(table), address="http://127.0.0.1:8470")
        alerts = AlertThread(options, tmp_path / "alerts.json", ModelReadings({"m": model}), lambda: now[0])
        heard = []
        for steps in (0, 5, 4, 1, 6, 100):
            learn(model, steps) if steps else None
            now[0] += 5.0
            alerts.tick()
            heard.append(len(receiver.requests))
    assert heard == [0, 0, 1, 1, 2, 2]
    began, over = (body for _, _, body, _ in receiver.requests)
    assert (began["kind"], began["drift"]["news"], began["link"]) == ("firing", "began", "http://127.0.0.1:8470/#m")
    assert (over["kind"], over["drift"]["error_after"]) == ("resolved", 0.09)
    assert BEGAN.cause_sentence() in began["summary"]


def test_the_verdict_is_that_of_the_page_and_has_the_numbers_of_the_state(model: ServedModel) -> None:
    for steps in (1, 1, 6, 5, 20):
        learn(model, steps)
        status, judged = model.status(), model.judge()
        record = read_run(model.folder / "checkpoints")
        assert record.trace is not None
        name = record.trace.models[0]
        assert judged.verdict == verdict_of(record.trace, name, record.drifts, record.scores)
        run = model._follower.run
        assert run is not None
        found, expected = run.baselines(), baselines(record.trace, name, record.scores)
        assert (found.measure, found.learned, found.rare) == (expected.measure, expected.learned, expected.rare)
        assert found.own == pytest.approx(expected.own, nan_ok=True)
        assert found.own == pytest.approx(status.usual_error, nan_ok=True)
        if steps > 1:
            assert found.others == pytest.approx(expected.others)


def test_the_trace_is_read_only_when_a_drift_has_changed(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    newest = ServedRun.newest

    def counted(self: ServedRun, name: str, *most: int) -> str:
        read.append(name)
        return newest(self, name, *most)

    monkeypatch.setattr(ServedRun, "newest", counted)
    for steps, times in ((2, 0), (3, 0), (3, 1), (1, 1), (1, 2), (5, 3), (5, 3)):
        learn(model, steps)
        judged = model.judge()
        assert (len(read), len(judged.drifts)) == (times, int(times > 0))
        assert judged.verdict == model.judge().verdict


def test_a_state_without_errors_of_trivial_rules_is_completed_from_its_trace(
    model: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(model, 5)
    judged, saved = model.judge(), ReplayedState.state
    with monkeypatch.context() as patch:
        patch.setattr(ReplayedState, "state", lambda self: without_rules(saved(self)))
        model.close()
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as again:
        assert again.wait_ready(60)
        assert again.judge() == judged
        learn(again, 1)
        assert "better than" in again.judge().verdict.quality


def without_rules(state: Any) -> Any:
    """Return a state as version 0.2 saves it."""
    errors = json.loads(state["errors"])
    del errors["rules"]
    return state | {"errors": json.dumps(errors)}


@pytest.mark.parametrize("name", ["smallest_rise", "drift_risk"])
def test_a_model_that_exists_does_not_silently_keep_its_own_idea_of_a_drift(
    model: ServedModel, tmp_path: Path, name: str
) -> None:
    changed: dict[str, Any] = {name: 0.25}
    model.close()
    with pytest.raises(OptionError, match=r"0\.25"):
        open_model(tmp_path / "m", replace(SETTINGS, **changed), KEEPING)


def test_metrics_name_the_unit_of_each_error(model: ServedModel) -> None:
    learn(model, 2)
    found = {one.name: one for one in ServiceMetrics()._models([model.status()])}
    for name in ("error", "usual_error", "trivial_error"):
        assert "share of wrong rows, or root mean squared error" in found[name].what
