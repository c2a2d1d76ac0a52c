"""What a served model has acknowledged and not learned: its figure, its limit, its checkpoints, its restarts."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx

from driftsurf.data.frames import read_table
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.contract import Order, Request
from driftsurf.service.model import ServedModel, add_challengers, open_model
from driftsurf.service.serve import Service
from driftsurf.service.served_run import ServedRun
from driftsurf.service.settings import Keeping, ModelSettings, ServedOptions, ServiceOptions

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
SETTINGS = ModelSettings(label="sold", task="binary", model="driftsurf", batch_size=1, columns={"price": "number"})
STEPS, ALLOWED = 140, 30
"""Time steps of the record that waits, and how many of them are learned before the learner has to wait."""


class Gate:
    """Lets a number of time steps be learned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
        self.left = threading.Semaphore(steps)
        self.open = threading.Event()
        self.closed = threading.Event()
        """Set while a step waits."""
        take_step = ServedRun.take_step

        def gated(run: ServedRun, step: Any) -> None:
            while not self.open.is_set() and not self.left.acquire(timeout=0.01):
                self.closed.set()
            self.closed.clear()
            take_step(run, step)

        monkeypatch.setattr(ServedRun, "take_step", gated)


def wait_for(what: Any) -> None:
    for _ in range(6000):
        if what():
            return
        threading.Event().wait(0.01)
    raise AssertionError("waited for a minute")


def records(count: int) -> list[dict[str, Any]]:
    return [{"price": place % 7, "sold": "yes" if place % 7 > 3 else "no"} for place in range(count)]


@contextlib.contextmanager
def served(folder: Path, keeping: Keeping) -> Iterator[tuple[httpx.Client, Service]]:
    options = ServedOptions(label="sold", task="binary", model="driftsurf", batch_size=1, columns={"price": "number"})
    config = ServiceConfig(ServiceOptions(folder=folder, port=0), {"sales": ModelConfig(options)}, keeping=keeping)
    with Service(config) as service:
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            with httpx.Client(base_url=service.address, timeout=60) as client:
                wait_for(lambda: client.get("/readyz").status_code == 200)
                yield client, service
        finally:
            service.stop()
            thread.join()


def test_status_metric_and_limit_count_what_is_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, ALLOWED)
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=1e9, max_lag_rows=100)
    with served(tmp_path, keeping) as (client, _):
        try:
            place = "/v1/models/sales"
            assert client.post(f"{place}/learn", json={"rows": records(STEPS)}).status_code == 200
            wait_for(lambda: client.get(place).json()["steps"] == ALLOWED)
            left = STEPS - ALLOWED
            wait_for(lambda: client.get(place).json()["lag_rows"] == left)  # counted after the step is published
            state = client.get(place).json()
            assert (state["lag_rows"], state["in_step"]) == (left, 0)
            assert state["applied"] < state["logged"]
            (metric,) = re.findall(r'driftsurf_lag_rows\{model="sales"\} (\S+)', client.get("/metrics").text)
            assert float(metric) == left
            refused = client.post(f"{place}/learn", json={"rows": records(1)})
            assert refused.status_code == 429
            assert f"{left} rows and labels wait" in refused.json()["detail"]
            assert "retry-after" in refused.headers
        finally:
            gate.open.set()
        wait_for(lambda: client.get(place).json()["lag_rows"] == 0)
        assert client.get(place).json()["steps"] == STEPS
        assert client.post(f"{place}/learn", json={"rows": records(1)}).status_code == 200


def test_rows_that_wait_for_labels_or_for_their_step_are_no_lag(tmp_path: Path) -> None:
    settings = replace(SETTINGS, batch_size=10)
    with contextlib.closing(open_model(tmp_path / "sales", settings, Keeping(least_free_bytes=0))) as model:
        assert model.wait_ready(60)
        table = read_table({"price": [float(place) for place in range(20)]})
        model.learn(table, ["no", "yes"] * 10).result(60)
        model.predict(table, [f"o{place}" for place in range(20)])
        model.label({"o3": "yes", "early": "no"}).result(60)
        wait_for(lambda: model.status().applied == model.status().logged)
        state = model.status()
        assert (state.lag_rows, state.in_step, state.labels.waiting, state.early) == (0, 1, 19, 1)


@contextlib.contextmanager
def opened(gate: Gate, folder: Path, settings: ModelSettings | None, keeping: Keeping) -> Iterator[ServedModel]:
    with contextlib.closing(open_model(folder, settings, keeping)) as model:
        try:
            assert model.wait_ready(60)
            yield model
        finally:
            gate.open.set()


def copied(model: ServedModel, folder: Path) -> Path:
    """Return a copy of the folder of a model, as a kill would leave it."""
    shutil.copytree(model.folder, folder, ignore=shutil.ignore_patterns(".lock", "lock"))
    return folder


def test_a_restart_repeats_no_more_than_the_interval_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, 0)
    gate.open.set()
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=1e9, checkpoint_rows=10)
    rows = read_table({"price": [float(place % 7) for place in range(STEPS)]})
    labels = ["yes" if place % 7 > 3 else "no" for place in range(STEPS)]
    with opened(gate, tmp_path / "sales", SETTINGS, keeping) as model:
        model.learn(rows.rows(0, 1), labels[:1]).result(60)
        wait_for(lambda: model.status().applied == model.status().logged)
        gate.open.clear()
        for _ in range(ALLOWED):
            gate.left.release()
        model.learn(rows, labels).result(60)
        wait_for(lambda: model.status().steps == 1 + ALLOWED and gate.closed.is_set())
        killed = copied(model, tmp_path / "again" / "sales")
        gate.open.set()
        wait_for(lambda: model.status().lag_rows == 0)
        expected = model.state()
        trace = [line.split(",")[:-1] for line in model.trace().splitlines()]

    # Ready at once: what the killed process had not learned waits again, and the model takes records meanwhile.
    gate.open.clear()
    hurried = replace(keeping, checkpoint_seconds=1e-9, checkpoint_rows=10**9)
    gate.left.release()
    with opened(gate, killed, None, hurried) as again:
        state = again.status()
        assert 1 + ALLOWED - 10 <= state.steps <= 1 + ALLOWED + 1  # the checkpoint was made inside the record
        assert state.lag_rows == STEPS + 1 - state.steps
        again.label({"early": "yes"}).result(60)
        assert again.status().lag_rows >= STEPS - ALLOWED
        gate.open.set()
        wait_for(lambda: again.status().lag_rows == 0)
        assert again.status().steps == 1 + STEPS
        assert again.state() == expected
        assert [line.split(",")[:-1] for line in again.trace().splitlines()] == trace


def test_keys_and_challengers_in_the_log_are_known_before_it_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, 1)
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=1e9)
    rows, labels = read_table({"price": [1.0, 5.0, 6.0]}), ["no", "yes", "yes"]
    asked = Request("once", bytes(32))
    with opened(gate, tmp_path / "sales", SETTINGS, keeping) as model:
        model.learn(rows, labels).result(60)
        wait_for(lambda: model.status().steps == 1 and gate.closed.is_set())
        first = model.learn(rows, labels, asked).result(60)
        model.order(Order("challenge", "other"))
        killed = copied(model, tmp_path / "again" / "sales")
        gate.open.set()
    gate.open.clear()
    hurried = replace(keeping, checkpoint_seconds=1e-9)
    gate.left.release()
    with opened(gate, killed, None, hurried) as again:
        repeated = again.learn(rows, labels, asked).result(60)
        assert (repeated.position, repeated.repeated) == (first.position, True)
        logged = again.status().logged
        add_challengers(again, {"other": {}})
        assert again.status().logged == logged
        gate.open.set()
        wait_for(lambda: again.status().applied == again.status().logged)
        assert [one.name for one in again.status().challengers] == ["other"]
        assert again.status().steps == 6
