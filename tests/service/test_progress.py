"""Lines while a service starts: they go on as long as something takes long."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("httptools")

from driftsurf.service import opening
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.serve import Service
from driftsurf.service.settings import ServedOptions, ServiceOptions


def test_lines_go_on_while_a_model_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, enough = list[str](), threading.Event()

    def note(text: str) -> None:
        lines.append(text)
        if sum(line.startswith("opening sales: ") for line in lines) >= 3:
            enough.set()

    monkeypatch.setattr(opening, "warm_up", lambda served: enough.wait(60))
    monkeypatch.setattr(opening, "SECONDS", 0.01)
    config = ServiceConfig(
        ServiceOptions(folder=tmp_path, port=0), {"sales": ModelConfig(ServedOptions(label="sold", task="binary"))}
    )
    with Service(config, note=note) as service:
        service.run(service.stop)
        count = len(lines)
    assert lines[0].startswith("making a new model 'sales'")
    assert lines[1].startswith("listening at http://")
    assert lines[2] == "opening sales"
    assert sum(line.startswith("opening sales: ") for line in lines) >= 3
    assert len(lines) == count
    assert not any(thread.name == "progress" for thread in threading.enumerate())
