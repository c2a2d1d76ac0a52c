"""What a served model shows and keeps of its history has a bounded size, however long it has learned."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx

from driftsurf.data.frames import read_table
from driftsurf.evaluation import scores
from driftsurf.runs import folder as run_folder
from driftsurf.runs.explanation import records
from driftsurf.runs.explanation.records import read_run
from driftsurf.service import served_run
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.contract import Order
from driftsurf.service.http import events
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.serve import Service
from driftsurf.service.settings import CHECKPOINTS, Keeping, ModelSettings, ServedOptions, ServiceOptions

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
SETTINGS = ModelSettings(label="sold", task="binary", model="driftsurf", batch_size=10, columns={"price": "number"})
SHOWN = 40
KEEPING = Keeping(
    least_free_bytes=0, checkpoint_seconds=1e9, checkpoint_rows=100, history_bytes=3000, journal_bytes=20_000,
    restore_points=4,
)  # fmt: skip
ADDRESSES = ("", "/report", "/page", "/trace", "/columns", "/explain", "/explain?all=1", "/journal?most=100")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show fewer steps, and learn fewer in these tests."""
    monkeypatch.setattr(records, "NEWEST", SHOWN)
    monkeypatch.setattr(events, "MOST_LINES", SHOWN)
    monkeypatch.setattr(scores, "LABELS_AGAIN", 10)
    monkeypatch.setattr(Keeping, "check", lambda keeping: None)  # smaller files than it allows
    newest = served_run.ServedRun.newest
    monkeypatch.setattr(served_run.ServedRun, "newest", lambda run, name, most=SHOWN: newest(run, name, most))
    assert run_folder.NEWEST == 5_000


def learn(model: ServedModel, steps: int, seed: int = 0) -> None:
    """Learn steps whose concept changes every ten of them, so that reactions never cease."""
    chance = np.random.default_rng(seed)
    for number in range(steps):
        price = chance.normal(size=10)
        labels = np.where((price > 0) == (number // 10 % 2 == 0), "yes", "no")
        model.learn(read_table({"price": price}), labels).result(60)
    while model.status().applied < model.status().logged:
        threading.Event().wait(0.01)


@contextlib.contextmanager
def client_of(folder: Path) -> Iterator[httpx.Client]:
    options = ServedOptions(label="sold", task="binary", model="driftsurf", batch_size=10)
    config = ServiceConfig(ServiceOptions(folder=folder, port=0), {"sales": ModelConfig(options)}, keeping=KEEPING)
    ready = threading.Event()
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


def sizes(folder: Path) -> dict[str, int]:
    """Return the size of each answer over HTTP."""
    found = dict[str, int]()
    with client_of(folder) as client:
        for address in ADDRESSES:
            answer = client.get(f"/v1/models/sales{address}")
            assert answer.status_code == 200, (address, answer.text)
            found[address] = len(answer.content)
        found["/metrics"] = len(client.get("/metrics").content)
        with client.stream("GET", "/v1/models/sales/events") as stream:
            lines = stream.iter_lines()
            found["/events"] = len(next(line for line in lines if line.startswith("data:")))
    return found


def kept(folder: Path) -> dict[str, int]:
    """Return how many bytes of each file of the history are kept."""
    names = "trace.csv", "scores.jsonl", "columns.csv", "journal.jsonl"
    return {name: sum(one.stat().st_size for one in (folder / CHECKPOINTS).glob(f"{name}*")) for name in names}


def test_answers_and_files_do_not_grow_with_the_age_of_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    with contextlib.closing(open_model(folder, SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model, 5 * SHOWN)
    young, young_files = sizes(tmp_path), kept(folder)
    with contextlib.closing(open_model(folder, None, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model, 9 * SHOWN, seed=1)
    old, old_files = sizes(tmp_path), kept(folder)
    for address, size in old.items():
        # Files are cut by size, which the digits of seconds change: an explanation may have the steps of one more.
        slack = 500 + 1.5 * KEEPING.history_bytes * address.startswith("/explain")
        assert size < 1.3 * young[address] + slack, address
    for name in ("trace.csv", "scores.jsonl", "columns.csv"):
        assert old_files[name] < young_files[name] + 2 * KEEPING.history_bytes, name  # a file more or less
        assert old_files[name] < 4 * (KEEPING.history_bytes + 10 * 700)


def test_the_newest_steps_keep_their_numbers_and_the_run_its_drifts(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    # Files of two full parts must have all steps that are shown, however many digits their seconds have.
    with contextlib.closing(open_model(folder, SETTINGS, replace(KEEPING, history_bytes=8000))) as model:
        assert model.wait_ready(60)
        learn(model, 3 * SHOWN)
        steps = [int(line.split(",")[0]) for line in model.trace().splitlines()[2:]]
        assert steps == list(range(2 * SHOWN, 3 * SHOWN))
        record = read_run(folder / CHECKPOINTS)
        assert record.trace is not None
        assert record.trace.columns["step"].tolist() == steps
        assert [one.step for one in record.decisions] == steps
        assert record.trace.warmup_steps == 0
        assert f"{2 * SHOWN:,} older ones are not shown" in model.report()
        assert f'"first":{2 * SHOWN}' in model.report()
        assert "step 3," in model.explain(step=3)
        assert record.scores is not None
        assert sorted(record.scores.labels) == ["no", "yes"]
        known = model.judge().drifts
        assert [one.number for one in record.drifts][-len(known) :] == [one.number for one in known]


def test_a_model_returns_to_a_restore_point_whose_files_were_removed(tmp_path: Path) -> None:
    now = [0.0]
    with contextlib.closing(open_model(tmp_path / "sales", SETTINGS, KEEPING, clock=lambda: now[0])) as model:
        assert model.wait_ready(60)
        learn(model, 20)
        now[0] = 3600.0  # so that a restore point of this moment stays for long
        learn(model, 6 * SHOWN, seed=1)
        oldest = model.status().restore_points[0]
        assert oldest.version <= 3 * SHOWN
        assert model.order(Order("rollback", to=oldest.position)).result(60).done
        assert model.status().version == oldest.version


def test_journal_is_read_at_any_line_and_never_as_a_whole(tmp_path: Path) -> None:
    with contextlib.closing(open_model(tmp_path / "sales", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model, 3 * SHOWN)
        whole = [one.record for one in model.journal(0, 10**6)]
        model.feed._last.clear()
        assert [one.record for one in model.journal(0, 10**6)] == whole
        assert [one.line for one in model.journal(50, 7)] == list(range(51, 58))
        assert [one.record for one in model.journal(50, 7)] == whole[50:57]
        assert [line for line, _ in model.feed.backwards()] == list(range(len(whole), 0, -1))


def test_documents_say_how_many_bytes_a_step_takes(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()
    (said,) = re.findall(r"about (\d+) bytes for each step of 100 rows of two columns", text)
    settings = ModelSettings(label="sold", task="binary", model="driftsurf", columns={"a": "number", "b": "number"})
    chance = np.random.default_rng(0)
    with contextlib.closing(open_model(tmp_path / "sales", settings, Keeping(least_free_bytes=0))) as model:
        assert model.wait_ready(60)
        for number in range(100):
            values = chance.normal(size=(100, 2))
            labels: Any = np.where((values[:, 0] > values[:, 1]) == (number < 50), "yes", "no")
            model.learn(read_table({"a": values[:, 0], "b": values[:, 1]}), labels).result(60)
        while model.status().applied < model.status().logged:
            threading.Event().wait(0.01)
        found = kept(tmp_path / "sales")
    del found["journal.jsonl"]
    assert sum(found.values()) / 100 == pytest.approx(int(said), rel=0.25)
