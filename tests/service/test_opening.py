"""A service listens before its models are open, and one that cannot be opened does not stop the others."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx

from driftsurf.data.tables import Column, Table
from driftsurf.errors import OptionError, StateError, StateWarning
from driftsurf.service import opening
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.contract import Order
from driftsurf.service.follower import Follower
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.opening import Progress
from driftsurf.service.serve import Service
from driftsurf.service.settings import CHECKPOINTS, Keeping, ModelSettings, ServedOptions, ServiceOptions

ROWS = 50
SETTINGS = ModelSettings(
    label="sold", task="binary", model="driftsurf", batch_size=ROWS, columns={"price": "number", "size": "number"}
)
ROW = {"rows": [{"price": 1, "size": 2}]}


def learn(model: ServedModel, steps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        X = rng.normal(size=(ROWS, 2))
        table = Table({"price": Column("number", X[:, 0].copy()), "size": Column("number", X[:, 1].copy())})
        model.learn(table, np.where(X[:, 0] > 0, "yes", "no").tolist()).result(60)
    while model.status().applied < model.status().logged:
        pass


def damage(folder: Path) -> None:
    heads = list((folder / CHECKPOINTS).glob("head-*.state"))
    assert heads
    for head in heads:
        head.write_bytes(head.read_bytes()[:-20] + bytes(20))


def config(folder: Path, *names: str, **options: Any) -> ServiceConfig:
    known = ServedOptions(label="sold", task="binary", **options)
    return ServiceConfig(ServiceOptions(folder=folder, port=0), {name: ModelConfig(known) for name in names})


@contextlib.contextmanager
def running(config: ServiceConfig, ready: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Context of a client of a service that listens, as soon as it does."""
    listening = threading.Event()
    with Service(config, note=lambda text: listening.set() if text.startswith("listening") else None) as service:
        thread = threading.Thread(target=service.run, args=(ready,))
        thread.start()
        assert listening.wait(60)
        try:
            with httpx.Client(base_url=service.address, timeout=60) as client:
                yield client
        finally:
            service.stop()
            thread.join()


def test_probes_are_answered_while_a_model_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, ready = threading.Event(), threading.Event()
    monkeypatch.setattr(opening, "warm_up", lambda served: go.wait(60))
    with running(config(tmp_path, "sales"), ready.set) as client:
        try:
            assert client.get("/healthz").status_code == 200
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["models"] == {"sales": {"phase": "recovering", "applied": 0, "logged": 0}}
            refused = client.post("/v1/models/sales/predict", json=ROW)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["type"].endswith(":unavailable")
            assert client.get("/v1/models/sales/events").status_code == 503
            assert client.get("/v1/models/sales").json()["phase"] == "recovering"
            assert client.get("/v1/models").json()["models"][0]["phase"] == "recovering"
            assert client.get("/metrics").status_code == 200
            assert not ready.is_set()
        finally:
            go.set()
        assert ready.wait(60)
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/models/sales/predict", json=ROW).status_code == 200


def test_a_probe_says_how_much_of_the_log_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(open_model(tmp_path / "sales", SETTINGS, Keeping(checkpoint_seconds=1e9))) as model:
        model.wait_ready()
        learn(model, 3)
        monkeypatch.setattr(Follower, "checkpoint", lambda follower: False)
    monkeypatch.undo()
    go, apply, ready = threading.Event(), Follower.apply, threading.Event()

    def slow(follower: Follower, most: int = 2**20) -> int:
        if follower.position:
            go.wait(60)
        return apply(follower, 100)

    monkeypatch.setattr(Follower, "apply", slow)
    with running(config(tmp_path, "sales"), ready.set) as client:
        try:
            while not (found := client.get("/readyz").json())["models"]["sales"]["applied"]:
                pass
            assert found["models"]["sales"] == {"phase": "recovering", "applied": 1, "logged": 3}
            assert client.post("/v1/models/sales/learn", json=ROW).status_code in (422, 503)
        finally:
            go.set()
        assert ready.wait(60)
        assert client.get("/readyz").json()["models"]["sales"]["applied"] == 3


def test_a_service_ends_before_the_next_model_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, opened = threading.Event(), list[str]()
    service = Service(config(tmp_path, "rent", "sales"))

    def slow(served: Any) -> None:
        opened.append(served.name)
        began.set()
        while not service.app.closing:
            threading.Event().wait(0.01)
        threading.Event().wait(0.2)

    monkeypatch.setattr(opening, "warm_up", slow)
    with service:
        thread = threading.Thread(target=service.run)
        thread.start()
        assert began.wait(60)
        service.stop()
        thread.join(60)
        assert not thread.is_alive()
    assert len(opened) == 1


def test_a_wrong_option_ends_the_service(tmp_path: Path) -> None:
    with Service(config(tmp_path, "sales", learner="nothing")) as service, pytest.raises(OptionError, match="nothing"):
        service.run()


def test_a_model_that_is_gone_from_the_configuration_is_opened_as_it_was_asked_for(tmp_path: Path) -> None:
    asked, ready = config(tmp_path, "sales", columns={"price": "number", "size": "number"}), threading.Event()
    with Service(asked, lambda: replace(asked, models={})) as service:
        service._reload()  # before the model is open
        thread = threading.Thread(target=service.run, args=(ready.set,))
        thread.start()
        assert ready.wait(60)
        assert service.models["sales"].status().phase == "ready"
        service.stop()
        thread.join()


def test_a_model_with_damaged_checkpoints_is_rebuilt_from_its_log(tmp_path: Path) -> None:
    keeping = Keeping(checkpoint_seconds=1e9, checkpoint_rows=2 * ROWS, restore_points=3)
    folder = tmp_path / "sales"
    with contextlib.closing(open_model(folder, SETTINGS, keeping)) as model:
        model.wait_ready()
        learn(model, 6)
        model.order(Order("challenge", "other", options={"model": "aue"})).result(60)
        learn(model, 4, 1)
        targets = list[int]()
        for seed in range(2):
            targets.append(model.status().restore_points[-1].position)
            assert model.order(Order("rollback", to=targets[-1])).result(60).done
            learn(model, 7, seed + 2)
        state, before = model.state(), model.status()
        assert targets[0] > 0
    damage(folder)
    with contextlib.closing(open_model(folder, None, keeping)) as model:
        assert model.wait_ready()
        after = model.status()
        assert (after.applied, after.rows, after.error) == (before.applied, before.rows, before.error)
        assert [(one.name, one.steps) for one in after.challengers] == [
            (one.name, one.steps) for one in before.challengers
        ]
        assert model.state() == state


def test_a_restore_point_stays_until_no_recovery_needs_it(tmp_path: Path) -> None:
    keeping = Keeping(checkpoint_seconds=1e9, restore_points=2)
    folder, crashed = tmp_path / "sales", tmp_path / "crashed" / "sales"
    with contextlib.closing(open_model(folder, SETTINGS, keeping)) as model:
        model.wait_ready()
        learn(model, 3)
    for seed in (1, 2):
        with contextlib.closing(open_model(folder, None, keeping)) as model:
            model.wait_ready()
            point = model.status().restore_points[0].position
            learn(model, 2, seed)
            if seed == 2:
                assert model.order(Order("rollback", to=point)).result(60).done
                learn(model, 1, 3)
                model.flush()
                shutil.copytree(folder, crashed)  # as after a power loss: no checkpoint has the order behind it
    with contextlib.closing(open_model(crashed, None, keeping)) as model:
        assert model.wait_ready()
        learn(model, 1, 4)
    with contextlib.closing(open_model(crashed, None, keeping)) as model:
        assert model.wait_ready()
        state = model.state()
    heads = sorted((crashed / CHECKPOINTS).glob("head-*.state"))
    heads[-1].write_bytes(b"damaged")
    with pytest.warns(StateWarning):
        model = open_model(crashed, None, keeping)
    with contextlib.closing(model):
        assert model.wait_ready()
        assert model.state() == state


def test_a_model_without_checkpoints_does_not_begin_in_the_middle_of_its_log(tmp_path: Path) -> None:
    keeping = Keeping(checkpoint_seconds=1e9, checkpoint_rows=ROWS, restore_points=2, segment_bytes=1, retain_bytes=0)
    with contextlib.closing(open_model(tmp_path / "sales", SETTINGS, keeping)) as model:
        model.wait_ready()
        for seed in range(20):
            learn(model, 1, seed)
        assert model.log.first > 0
    shutil.rmtree(tmp_path / "sales" / CHECKPOINTS)
    with pytest.raises(StateError, match="cannot be rebuilt"):
        open_model(tmp_path / "sales", None, keeping)


def test_every_model_gets_its_challengers_whenever_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[str] = []

    class Slow:
        """A model that becomes ready just after somebody has waited for it."""

        def __init__(self, name: str) -> None:
            self.name, self.phase = name, "recovering"

        def wait_ready(self, seconds: float) -> bool:
            ready, self.phase = self.phase == "ready", "ready"
            return ready

        def status(self) -> Any:
            return SimpleNamespace(phase=self.phase, applied=1, logged=1)

    monkeypatch.setattr(opening, "add_challengers", lambda served, challengers: added.append(served.name))
    opener = opening.Opener(config(tmp_path, "a", "b"), [], lambda *_: None, lambda: None, lambda text: None)
    models: Any = [Slow("a"), Slow("b")]
    opener._wait_ready(models, Progress(lambda text: None))
    assert added == ["a", "b"]


def test_a_model_that_cannot_be_rebuilt_fails_alone(tmp_path: Path) -> None:
    keeping = Keeping(checkpoint_seconds=1e9, checkpoint_rows=ROWS, restore_points=2, segment_bytes=1, retain_bytes=0)
    for name in ("sales", "delays"):
        with contextlib.closing(open_model(tmp_path / name, SETTINGS, keeping)) as model:
            model.wait_ready()
            for seed in range(20):
                learn(model, 1, seed)
            assert model.log.first > 0
    damage(tmp_path / "sales")
    with pytest.raises(StateError, match="cannot be rebuilt"):
        open_model(tmp_path / "sales", None, keeping)
    ready = threading.Event()
    with running(config(tmp_path, "sales", "delays"), ready.set) as client:
        assert ready.wait(60)
        assert client.post("/v1/models/delays/predict", json=ROW).status_code == 200
        refused = client.post("/v1/models/sales/predict", json=ROW)
        assert refused.status_code == 503
        assert "backup" in refused.json()["detail"]
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["models"]["delays"]["phase"] == "ready"
        assert answer.json()["models"]["sales"]["phase"] == "failed"
        assert "cannot be rebuilt" in answer.json()["models"]["sales"]["failure"]
        assert client.get("/v1/models/sales").json()["failure"]
