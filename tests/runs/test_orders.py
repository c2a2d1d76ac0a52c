"""Orders of an operator: pin, unpin, reset and rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_cases import STRATEGIES, WORK, Unflushed, batches
from live_runs import run_to_end

import driftsurf
from driftsurf.core import disk
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import OptionError, StateError
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import JOURNAL
from driftsurf.session.session import Session


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with disk.using(Unflushed()):
        yield


def test_orders_are_carried_out_once_and_journalled(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
        given = {4: ("pin", None), 6: ("unpin", None), 8: ("reset", None)}

        def order(step: int, model: str, error: float, decisions: object) -> None:
            if model == "aware" and step + 1 in given:
                orders.submit(path, *given[step + 1])

        run_to_end(run, order)
        lines = [json.loads(line) for line in run.text(JOURNAL).splitlines()]
        outcomes = [
            (line["order"], line["step"], line["outcome"], line["pinned"]) for line in lines if line["type"] == "order"
        ]
        assert outcomes == [("pin", 4, "done", True), ("unpin", 6, "done", False), ("reset", 8, "done", False)]
        steps = [line for line in lines if line["type"] == "step"]
        assert len(steps) == 10  # two were not learned
        fresh = next(line for line in steps if line["step"] == 6)
        assert fresh["models"][0]["age"] == 0
        assert fresh["trained_from"] == 6 * WORK.rows
    again = WORK.finish(path)
    assert again == WORK.finish(path)


def test_a_rollback_brings_back_an_earlier_model(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()

        def watch(step: int, model: str, error: float, decisions: Any) -> None:
            if (step, model) == (7, "aware"):
                orders.submit(path, "rollback", folder.generations()[0])
            if model == "driftsurf":
                seen.append((decisions[-1].step, run.models[model].steps))

        seen: list[tuple[int, int]] = []
        run_to_end(run, watch)
        assert seen == list(enumerate([1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]))  # rolled back
        (record,) = orders.read_records(run.text(JOURNAL))
        assert (record.kind, record.outcome, record.to) == ("rollback", "done", 3)


def test_orders_are_found_however_their_line_is_written() -> None:
    record = orders.OrderRecord(3, "pin", 7, "done", pinned=True, text='an "order" of an operator')
    step = json.dumps({"type": "step", "models": [{"name": "order"}]})
    line = json.dumps(dict(reversed(json.loads(record.line()).items())), indent=None)
    assert orders.read_records(f"{step}\n{line}\n{record.line()}") == [record, record]


def test_orders_before_the_first_batch(tmp_path: Path) -> None:
    path = tmp_path / "run"
    orders.submit(path, "pin")
    orders.submit(path, "reset")
    with CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
        run_to_end(run)
        pin, reset = orders.read_records(run.text(JOURNAL))
        assert (pin.outcome, pin.pinned) == ("done", True)
        assert (reset.outcome, reset.reason) == ("refused", "nothing-learned")
        assert len(run.text(JOURNAL).splitlines()) <= 4  # a pinned run learns its first batch
        assert len(run.text("trace.csv").splitlines()) == 2 + 2 * WORK.steps


def test_orders_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'dance'.*'pin'"):
        orders.submit(tmp_path, "dance")
    assert orders.submit(tmp_path, "pin") == orders.PendingOrder(1, "pin")
    (tmp_path / "orders" / "000002.json").write_text("{")
    with pytest.raises(StateError, match="2"):
        orders.waiting(tmp_path, 0)
    (tmp_path / "orders" / "000002.json").write_text('{"order": "rollback", "to": null}')
    with pytest.raises(StateError, match="None"):
        orders.waiting(tmp_path, 0)
    assert orders.waiting(tmp_path, 2) == []


def test_two_operators_at_once_give_two_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.submit(tmp_path, "pin")
    monkeypatch.setattr(orders, "_numbers", lambda place: [])
    assert orders.submit(tmp_path, "unpin").number == 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_can_be_reset(name: str) -> None:
    session = Session(STRATEGIES[name](), classes=(-1, 1))
    for X, y in batches(10):
        session.observe(X, y)
    change = session.reset("as asked")
    assert change is not None
    assert change.kind == "reset"
    assert change.step == 10
    state = session.state()
    for step, (X, y) in enumerate(batches(5), start=10):
        decision = session.observe(X, y).decisions[-1]
        assert decision.step == step
        assert decision.trained_from >= 200
    again = Session(STRATEGIES[name](), classes=(-1, 1))
    again.restore(from_bytes(to_bytes(state)))
    for X, y in batches(5):
        again.observe(X, y)
    assert to_bytes(again.state()) == to_bytes(session.state())


@pytest.mark.parametrize("text", ["", "x", "[]", '{"a":' * 100_000])
def test_an_order_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    orders.submit(tmp_path, "pin")
    (tmp_path / "orders" / "000001.json").write_text(text)
    with pytest.raises(StateError, match="order 1"):
        orders.waiting(tmp_path, 0)


def test_a_run_that_replaces_another_carries_out_none_of_its_orders(tmp_path: Path) -> None:
    given: dict[str, Any] = {"rows": 400, "batch_size": 100, "every": 1, "checkpoint": tmp_path / "run"}

    def order(*_: object) -> None:
        if not (tmp_path / "run" / orders.FOLDER).exists():
            orders.submit(tmp_path / "run", "pin")

    on_step: Any = order
    assert len(driftsurf.run("sea0", **given, progress=False, on_step=on_step).orders) == 1
    assert not driftsurf.run("sea0", **given, progress=False, overwrite=True).orders
