"""The join of rows with late labels, against a slow twin that looks through lists of rows and labels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from driftsurf.core.state import resolved
from driftsurf.core.targets import ClassTargets
from driftsurf.data.frames import read_table
from driftsurf.data.log.records import ColumnKind, Kinds, Record, block_of, decode, encode
from driftsurf.errors import LogError
from driftsurf.service.joining import StepJoiner

COLUMNS = (ColumnKind("x", "number"),)


class Twin:
    """The same rules in plain lists."""

    def __init__(self, batch_size: int, most: int, timeout: float | None) -> None:
        self.batch_size, self.most, self.timeout = batch_size, most, timeout
        self.waiting: list[tuple[str, float, float]] = []
        self.early: list[tuple[str, str]] = []
        self.done: list[tuple[str, str]] = []
        self.joined: list[tuple[float, str]] = []
        self.counts = dict.fromkeys(("labelled", "expired", "replaced", "late", "duplicate", "orphan"), 0)

    def finish(self, id: str, what: str) -> None:
        self.done = [one for one in self.done if one[0] != id]
        self.done = [*self.done, (id, what)][-self.most :]

    def lose(self, lost: list[tuple[str, float, float]]) -> None:
        for one in lost:
            self.waiting.remove(one)
            self.counts["expired"] += 1
            self.finish(one[0], "lost")

    def take(self, time: float, rows: list[tuple[str, float]], labels: list[tuple[str, str]]) -> None:
        if self.timeout is not None:
            self.lose([one for one in self.waiting if one[2] < time - self.timeout])
        for id, x in rows:
            self.counts["replaced"] += any(one[0] == id for one in self.waiting)
            self.waiting = [one for one in self.waiting if one[0] != id]
            self.done = [one for one in self.done if one[0] != id]
            held = [label for key, label in self.early if key == id]
            if held:
                self.early = [one for one in self.early if one[0] != id]
                self.counts["orphan"] -= 1
                self.counts["labelled"] += 1
                self.finish(id, "learned")
                self.joined.append((x, held[0]))
            else:
                self.waiting.append((id, x, time))
                self.lose(self.waiting[: max(0, len(self.waiting) - self.most)])
        for id, label in labels:
            found = [one for one in self.waiting if one[0] == id]
            became = [what for key, what in self.done if key == id]
            if found:
                self.waiting.remove(found[0])
                self.counts["labelled"] += 1
                self.finish(id, "learned")
                self.joined.append((found[0][1], label))
            elif "learned" in became or any(key == id for key, _ in self.early):
                self.counts["duplicate"] += 1
            elif became:
                self.counts["late"] += 1
            else:
                self.counts["orphan"] += 1
                self.early = [*self.early, (id, label)][-self.most :]


def records(seed: int, count: int) -> list[tuple[Record, Any, list[tuple[str, str]]]]:
    """Return records with the rows and labels that they hold."""
    chance, found, time = random.Random(seed), list[Any](), 0.0
    for _ in range(count):
        time += chance.random()
        ids = chance.sample([f"i{k}" for k in range(30)], chance.randrange(1, 5))
        values = [chance.random() for _ in ids]
        labels = [chance.choice(("yes", "no")) for _ in ids]
        if chance.random() < 0.5:
            block = block_of(read_table({"x": values}), COLUMNS)
            record = Record(kind=Kinds.ROWS, time=time, count=len(ids), rows=block, ids=tuple(ids))
            found.append((record, list(zip(ids, values, strict=True)), []))
        else:
            record = Record(kind=Kinds.LABELS, time=time, count=len(ids), ids=tuple(ids), labels=np.array(labels))
            found.append((record, [], list(zip(ids, labels, strict=True))))
    return found


@pytest.mark.parametrize("timeout", [None, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_join_is_that_of_the_twin_however_records_are_gathered(seed: int, timeout: float | None) -> None:
    story, chance = records(seed, 150), random.Random(seed)
    twin = Twin(4, 6, timeout)
    joiner = StepJoiner(ClassTargets(), batch_size=4, max_pending=6, timeout=timeout)
    learned: list[tuple[float, str]] = []
    start = 0
    while start < len(story):
        stop = min(len(story), start + chance.randrange(1, 12))
        part = story[start:stop]
        for record, rows, labels in part:
            twin.take(record.time, rows, labels)
        values = [x for _, rows, _ in part for _, x in rows]
        for step in joiner.take([record for record, _, _ in part], np.array(values)[:, None] if values else None):
            learned += zip(step.X[:, 0].tolist(), step.y.tolist(), strict=True)
        counts = joiner.counts
        assert {name: getattr(counts, name) for name in twin.counts} == twin.counts
        assert list(joiner.labels.waiting) == [one[0] for one in twin.waiting]
        assert (joiner.early, joiner.waiting) == (len(twin.early), len(twin.waiting))
        assert len(learned) + joiner.in_step == len(twin.joined)
        if chance.random() < 0.3:
            other = StepJoiner(ClassTargets(), batch_size=4, max_pending=6, timeout=timeout)
            other.restore(resolved(joiner.state()))
            joiner = other
        start = stop
    assert learned == twin.joined[: len(learned)]
    assert len(learned) > 40


def test_rows_in_the_middle_are_dropped_once_they_are_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.service.joining.SPARE_ROWS", 10)
    joiner = StepJoiner(ClassTargets(), batch_size=3, max_pending=50)
    learned: list[float] = []

    def take(record: Record, values: list[float] | None) -> None:
        for step in joiner.take([record], None if values is None else np.array(values)[:, None]):
            learned.extend(step.X[:, 0].tolist())

    for k in range(40):
        ids = tuple(f"{k}-{place}" for place in range(3))
        values = [k + place / 10 for place in range(3)]
        block = block_of(read_table({"x": values}), COLUMNS)
        take(Record(kind=Kinds.ROWS, time=float(k), count=3, rows=block, ids=ids), values)
        if k:  # the first rows keep waiting
            take(Record(kind=Kinds.LABELS, time=float(k), count=3, ids=ids, labels=np.array(["a"] * 3)), None)
    assert joiner._rows is not None
    assert len(joiner._rows) < 40
    late = Record(kind=Kinds.LABELS, time=99.0, count=3, ids=("0-2", "0-0", "0-1"), labels=np.array(["b"] * 3))
    take(late, None)
    assert learned == [k + place / 10 for k in range(1, 40) for place in range(3)] + [0.2, 0.0, 0.1]


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_damaged_record_is_a_named_error(cut: int) -> None:
    block = block_of(read_table({"x": [1.0, 2.0]}), COLUMNS)
    whole = encode(Record(kind=Kinds.ROWS, time=1.0, count=2, rows=block, ids=("a", "b"), key="k", digest=bytes(32)))
    found = decode(whole, COLUMNS)
    assert (found.ids, found.key, found.count) == (("a", "b"), "k", 2)
    for payload in (whole[:-cut], whole + bytes(cut), b"\xff" + whole[1:]):
        with pytest.raises(LogError):
            decode(payload, COLUMNS)
