"""Rows from one live source and labels from another: joined as they come, and in the same way when a run resumes."""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from memory_broker import MemoryConnector, MemoryTopic

import driftsurf
from driftsurf.data.messages.contract import Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.errors import OptionError
from driftsurf.runs import plan_tables
from driftsurf.runs.late import LiveBatches


class Killed(Exception):
    """Ends a run as kill -9 does: without another checkpoint."""


class Shop:
    """Orders and, later, whether they were sold, in two topics with two partitions each."""

    def __init__(self) -> None:
        self.topics = {"orders": MemoryTopic([[], []]), "outcomes": MemoryTopic([[], []])}
        self.closes_after: int | None = None
        """Number of batches of orders after which the process that reads them is killed."""

    def order(self, first: int, stop: int) -> None:
        self.topics["orders"].send([_json({"order": n, "price": n * 37 % 101 / 50 - 1}) for n in range(first, stop)])

    def sell(self, first: int, stop: int) -> None:
        sold = [_json({"order": n, "sold": "yes" if n * 37 % 101 > 50 else "no"}) for n in range(first, stop)]
        self.topics["outcomes"].send(sold)

    def source(self, location: str, reading: Any, **options: Any) -> Any:
        """Open a topic; any other location as usual."""
        if not location.startswith("memory://"):
            return driftsurf.data.open_source(location, reading, **options)
        topic = self.topics[location.rpartition("/")[2]]

        closes = self.closes_after if topic is self.topics["orders"] else None
        reads = itertools.count(1)

        class Connector(MemoryConnector):
            def read(self, ranges: Any) -> Any:
                if next(reads) == closes:
                    raise Killed
                return super().read(ranges)

        class Source(MessageSource):
            def connect(self, location: str) -> Seekable:
                return Connector(topic)

        return Source(location, reading, **options)


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop()
    monkeypatch.setattr(plan_tables, "open_source", made.source)
    return made


def run(folder: Path, *, dies_after: int | None = None, **options: Any) -> dict[str, bytes]:
    """Run from the last checkpoint on, for some steps or to the end; return the files of the run."""
    steps = itertools.count(1)

    def step(*_: object) -> None:
        if next(steps) == dies_after:
            raise Killed

    known: dict[str, Any] = {
        "labels": "memory://outcomes",
        "id": "order",
        "label": "sold",
        "model": "driftsurf",
        "batch_size": 20,
        "every": 4,
        "resume": True,
        "checkpoint": folder,
        "predictions": folder.with_suffix(".sqlite"),
        "on_step": step,
        "handle_signals": False,
    }
    driftsurf.run("memory://orders", **(known | options))
    names = "model.state", "journal.jsonl", "trace.csv"
    return {name: (folder / "result" / name).read_bytes() for name in names}


def predictions(folder: Path) -> list[Any]:
    file = sqlite3.connect(folder.with_suffix(".sqlite"))
    try:
        return list(file.execute("select * from predictions order by row"))
    finally:
        file.close()


def test_a_run_that_is_killed_joins_the_same_rows_and_labels(shop: Shop, tmp_path: Path) -> None:
    shop.order(0, 500)
    shop.sell(0, 400)
    whole = run(tmp_path / "whole")
    for dies_after in (3, 1, 7, 6):
        with pytest.raises(Killed):
            run(tmp_path / "killed", dies_after=dies_after)
    assert run(tmp_path / "killed") == whole
    assert predictions(tmp_path / "killed") == predictions(tmp_path / "whole")
    assert [row[1] for row in predictions(tmp_path / "whole")] != []


def test_what_came_meanwhile_does_not_change_the_steps_that_were_seen(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, taken = tmp_path / "run", list[list[Any]]()
    batches = LiveBatches.batches

    def recorded(self: LiveBatches, position: Any = None) -> Any:
        taken.append([])
        for arrived, come, after in batches(self, position):
            taken[-1].append((None if arrived is None else arrived.keys, [one.keys for one in come]))
            yield arrived, come, after

    monkeypatch.setattr(LiveBatches, "batches", recorded)
    shop.order(0, 130)
    shop.sell(0, 30)
    for first, closes_after in ((130, 7), (260, 12), (390, 19)):
        shop.closes_after = closes_after
        with pytest.raises(Killed):
            run(folder, every=1_000)  # every process begins with the first row
        shop.sell(first - 100, first + 30)  # labels that were not there when these steps were made
        shop.order(first, first + 130)
    shop.closes_after = None
    shop.sell(420, 520)
    run(folder, every=1_000)
    assert [len(one) for one in taken[:-1]] == sorted({len(one) for one in taken[:-1]})
    for earlier in taken[:-1]:
        assert earlier == taken[-1][: len(earlier)]
    assert sorted(int(key) for keys, _ in taken[-1] for key in keys or ()) == list(range(520))
    assert sorted(int(key) for _, come in taken[-1] for keys in come for key in keys) == list(range(520))
    assert [int(row[1]) for row in predictions(folder)] == [int(key) for keys, _ in taken[-1] for key in keys or ()]


def test_all_labels_are_learned_whichever_comes_first(shop: Shop, tmp_path: Path) -> None:
    shop.sell(0, 300)
    shop.order(0, 100)
    shop.order(100, 300)
    trace = run(tmp_path / "run")["trace.csv"].decode().splitlines()
    assert len(trace) > 10
    about = json.loads((tmp_path / "run" / "result" / "run.json").read_text())
    assert about["id"] == "order"


def test_labels_that_cannot_be_joined_are_refused(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="labels needs id"):
        run(tmp_path / "run", id=None)
    (tmp_path / "labels.csv").write_text("order,sold\n1,yes\n")
    with pytest.raises(OptionError, match="a growing file is read on its own"):
        run(tmp_path / "run", labels=tmp_path / "labels.csv", follow=True)
