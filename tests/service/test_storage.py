"""A service whose disk is full or cannot be written says so, and opens its models by itself once it can be."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
import numpy as np

from driftsurf.core.disk import Disk, using
from driftsurf.data.frames import read_table
from driftsurf.service import opening
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.model import open_model
from driftsurf.service.serve import Service
from driftsurf.service.settings import Keeping, ModelSettings, ServedOptions, ServiceOptions

KEEPING = Keeping(least_free_bytes=0, checkpoint_rows=100)
SETTINGS = ModelSettings(label="sold", task="binary", model="driftsurf", batch_size=50, columns={"price": "number"})
ROWS = [{"price": place % 7, "sold": "yes" if place % 7 > 3 else "no"} for place in range(200)]


class BrokenDisk(Disk):
    """A disk on which every call that writes fails with this error, as long as there is one."""

    def __init__(self) -> None:
        self.fault: int | None = None

    def _check(self, path: Any = None) -> None:
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault), None if path is None else str(path))

    def create(self, path: Path, shared: bool = False) -> int:
        self._check(path)
        return super().create(path, shared)

    def append(self, path: Path, shared: bool = False) -> int:
        self._check(path)
        return super().append(path, shared)

    def write(self, handle: int, data: Any) -> int:
        self._check()
        return super().write(handle, data)

    def write_at(self, handle: int, data: Any, place: int) -> int:
        self._check()
        return super().write_at(handle, data, place)

    def lock(self, path: Path, who: bytes) -> int:
        if self.fault != errno.ENOSPC:
            self._check(path)
        return super().lock(path, who)


@contextlib.contextmanager
def running(folder: Path, ready: threading.Event) -> Iterator[httpx.Client]:
    options = ServedOptions(label="sold", task="binary", model="driftsurf", batch_size=50, columns={"price": "number"})
    config = ServiceConfig(ServiceOptions(folder=folder, port=0), {"sales": ModelConfig(options)}, keeping=KEEPING)
    with Service(config) as service:
        thread = threading.Thread(target=service.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            with httpx.Client(base_url=service.address, timeout=60) as client:
                yield client
        finally:
            service.stop()
            thread.join()


def wait_ready(client: httpx.Client) -> None:
    for _ in range(6000):
        if client.get("/readyz").status_code == 200:
            return
        threading.Event().wait(0.01)
    raise AssertionError(client.get("/readyz").text)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EROFS, "is read-only"),
        (errno.EACCES, "has no permission"),
        (errno.EDQUOT, "quota"),
    ],
)
def test_a_model_is_opened_once_its_disk_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, words: str
) -> None:
    monkeypatch.setattr(opening, "RETRY_SECONDS", 0.01)
    with contextlib.closing(open_model(tmp_path / "sales", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        model.learn(read_table({"price": np.arange(200.0)}), ["no", "yes"] * 100).result(60)
    disk, ready = BrokenDisk(), threading.Event()
    disk.fault = fault
    with using(disk), running(tmp_path, ready) as client:
        place = "/v1/models/sales"
        failure = client.get(place).json()["failure"]
        assert words in failure
        assert str(tmp_path / "sales") in failure
        assert "backup" in failure
        assert "Restore" not in failure
        assert client.get("/readyz").status_code == 503
        refused = client.post(f"{place}/learn", json={"rows": ROWS})
        assert (refused.status_code, words in refused.json()["detail"]) == (503, True)
        disk.fault = None
        wait_ready(client)
        assert client.get(place).json()["steps"] == 4
        assert client.get(place).json()["failure"] == ""
        assert client.post(f"{place}/learn", json={"rows": ROWS}).status_code == 200


def test_a_new_model_is_made_once_its_disk_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_SECONDS", 0.01)
    disk, ready = BrokenDisk(), threading.Event()
    disk.fault = errno.ENOSPC
    with using(disk), running(tmp_path, ready) as client:
        assert "is full" in client.get("/v1/models/sales").json()["failure"]
        disk.fault = None
        wait_ready(client)
        assert client.post("/v1/models/sales/learn", json={"rows": ROWS}).status_code == 200


def test_a_model_whose_checkpoint_did_not_fit_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_SECONDS", 0.01)
    disk, ready = BrokenDisk(), threading.Event()
    with using(disk), running(tmp_path, ready) as client:
        place = "/v1/models/sales"
        original = Disk.create

        def create(self: Disk, path: Path, shared: bool = False) -> int:
            if (path.name.startswith((".head", "head", ".room", "..room")) or "head-" in path.name) and full.is_set():
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return original(self, path, shared)

        full = threading.Event()
        monkeypatch.setattr(Disk, "create", create)
        full.set()
        assert client.post(f"{place}/learn", json={"rows": ROWS}).status_code == 200
        for _ in range(6000):
            if client.get(place).json()["phase"] == "failed":
                break
            threading.Event().wait(0.01)
        refused = client.post(f"{place}/learn", json={"rows": ROWS})
        assert "is full" in refused.json()["detail"]
        assert client.post(f"{place}/predict", json={"rows": [{"price": 1.0}]}).status_code == 200
        full.clear()
        wait_ready(client)
        for _ in range(6000):
            if client.get(place).json()["steps"] == 4:
                break
            threading.Event().wait(0.01)
        assert client.get(place).json()["steps"] == 4
        assert client.post(f"{place}/learn", json={"rows": ROWS}).status_code == 200
