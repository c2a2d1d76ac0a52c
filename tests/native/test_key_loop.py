"""Tests of the native loop over keys that need no fleet: what it refuses, and that complete calls stay complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier
from driftsurf.keyed.bank import cell_models, key_loop, key_shape
from driftsurf.keyed.layout import KEY, Blocks, StepLog
from driftsurf.learners import LogisticRegression
from driftsurf.native.store import KeyLoop, Room
from driftsurf.strategies import DriftSurf

N_FEATURES, BATCH_SIZE, SLOTS = 3, 8, 4


class Keys:
    """Blocks of some keys, and the loop over them."""

    def __init__(self) -> None:
        model = DriftSurfClassifier(
            LogisticRegression(), max_rows=16, batch_size=BATCH_SIZE, classes=[0, 1], guard=None
        )
        template = model.make_session()
        strategy: Any = template.strategy
        self.shape = key_shape(template, N_FEATURES)
        models = cell_models(strategy, N_FEATURES, 2)
        self.blank = models._cell.judged.copy()
        self.parameters = models._rule, models._training
        self.loop: KeyLoop = key_loop(self.shape, strategy, models, None)
        self.room = Room(self.loop)
        self.blocks = Blocks(SLOTS, self.shape)
        self.loop.begin(self.blocks.bytes, np.arange(SLOTS), np.arange(SLOTS, dtype=np.uint64), self.blank, self.room)
        assert isinstance(strategy, DriftSurf)

    def observe(
        self,
        rows: Any,
        codes: Any,
        slots: Any,
        starts: Any,
        order: Any,
        log: StepLog,
        *,
        room: bool = True,
        **other: Any,
    ) -> Any:
        predicted = np.zeros(len(rows), np.uint8)
        batch = (
            rows,
            codes,
            other.get("weight"),
            other.get("bad"),
            other.get("checked", True),
            predicted,
            other.get("made"),
        )
        failed, left = np.zeros(len(slots), np.uint8), np.zeros(len(slots), np.int64)
        if room and max(slots) < SLOTS and min(slots) >= 0 and len(starts) == len(slots) + 1:
            self.blocks.make_room(self.loop, np.array(slots), np.array(starts))
        groups = (
            np.array(slots, np.int64),
            np.array(starts, np.int64),
            np.array(order, np.int32),
            failed,
            other.get("left", left),
            other.get("gaps"),
        )
        self.loop.observe(self.blocks.memory, batch, groups, log, self.room)
        return predicted


def rows_of(count: int) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(count, N_FEATURES)).astype(np.float32)
    return X, (X[:, 0] > 0).view(np.uint8)


def test_a_complete_call_is_not_repeated() -> None:
    keys, (X, codes) = Keys(), rows_of(20)
    log = StepLog.of(3, every=True)
    keys.observe(X, codes, [1], [0, 20], range(20), log)
    after = keys.blocks.bytes.copy()
    assert log.length.tolist() == [2, 1]
    assert log.place[:2].tolist() == [7, 15]
    keys.observe(X, codes, [1], [0, 20], range(20), log)
    assert (keys.blocks.bytes == after).all()
    assert keys.blocks.keys["pending"].tolist() == [0, 4, 0, 0]


def test_the_order_of_calls_does_not_matter() -> None:
    X, codes = rows_of(60)
    one, many = Keys(), Keys()
    one.observe(X, codes, [0, 2], [0, 30, 60], [*range(0, 60, 2), *range(1, 60, 2)], StepLog.of(6, every=False))
    for start in range(0, 60, 6):
        part = slice(start, start + 6)
        many.observe(X[part], codes[part], [2, 0], [0, 3, 6], [1, 3, 5, 0, 2, 4], StepLog.of(2, every=False))
    for name in KEY.names or ():
        assert (one.blocks.keys[name][:3] == many.blocks.keys[name][:3]).all(), name
    assert (one.blocks.raw[:3] == many.blocks.raw[:3]).all()


def test_a_value_that_is_not_finite_puts_a_key_in_quarantine() -> None:
    keys, (X, codes) = Keys(), rows_of(12)
    X[5, 1] = np.inf
    keys.observe(X, codes, [0, 3], [0, 6, 12], range(12), StepLog.of(2, every=False), checked=False)
    assert keys.blocks.keys["quarantine"].tolist() == [1, 0, 0, 0]
    assert keys.blocks.keys["pending"].tolist() == [5, 0, 0, 6]
    assert keys.blocks.keys["refused"].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"slots": [SLOTS]}, IndexError),
        ({"slots": [-1]}, IndexError),
        ({"order": [0, 1, 2, 9]}, IndexError),
        ({"order": [0, -1, 2, 3]}, IndexError),
        ({"starts": [0, 5]}, ValueError),
        ({"starts": [0]}, ValueError),
        ({"starts": [-1, 4]}, ValueError),
        ({"codes": np.zeros(3, np.uint8)}, ValueError),
        ({"codes": np.zeros(4)}, TypeError),
        ({"rows": np.zeros((4, 2), np.float32)}, ValueError),
        ({"rows": np.zeros((4, N_FEATURES), np.int64)}, TypeError),
        ({"weight": np.ones(3)}, ValueError),
        ({"bad": np.zeros(5, np.uint8)}, ValueError),
        ({"made": np.zeros(3, np.uint8)}, ValueError),
        ({"left": np.zeros(2, np.int64)}, ValueError),
        ({"gaps": np.zeros(0, np.int64)}, ValueError),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    keys, (X, codes) = Keys(), rows_of(4)
    before = keys.blocks.bytes.copy()
    given: dict[str, Any] = {"rows": X, "codes": codes, "slots": [0], "starts": [0, 4], "order": range(4)}
    with pytest.raises(error):
        keys.observe(**(given | changes), log=StepLog.of(1, every=False))
    assert (keys.blocks.bytes == before).all()


def test_slots_that_do_not_exist_are_refused() -> None:
    keys, (X, _) = Keys(), rows_of(2)
    predicted = np.zeros(2, np.uint8)
    with pytest.raises(IndexError):
        keys.loop.predict(keys.blocks.memory, X, np.array([0, SLOTS], np.int32), predicted, keys.room)
    with pytest.raises(IndexError):
        keys.loop.complete(keys.blocks.memory, SLOTS + 1, keys.room)
    with pytest.raises(IndexError):
        keys.loop.begin(keys.blocks.bytes, np.array([SLOTS]), np.zeros(1, np.uint64), keys.blank, keys.room)
    steps = np.zeros((3, 1), np.int64)
    with pytest.raises(IndexError):
        keys.loop.needed(keys.blocks.bytes, np.array([SLOTS]), np.array([0, 2]), *steps)
    with pytest.raises(ValueError, match="no room for the counts"):
        keys.loop.needed(keys.blocks.bytes, np.array([0]), np.array([0]), *steps)


def test_rows_without_memory_are_refused() -> None:
    keys, (X, codes) = Keys(), rows_of(6)
    with pytest.raises(ValueError, match="memory of keys has no room"):
        keys.observe(X, codes, [1], [0, 6], range(6), StepLog.of(1, every=False), room=False)
    assert keys.blocks.keys["pending"].tolist() == [0, 0, 0, 0]
    keys.observe(X, codes, [1], [0, 6], range(6), StepLog.of(1, every=False))
    for code in (-1, 5 * 256 + 1, 2**40, 2**62):
        keys.blocks.rows.codes[1] = code
        with pytest.raises(IndexError, match="no such memory"):
            keys.observe(X, codes, [1], [0, 1], range(1), StepLog.of(1, every=False), room=False)
    blocks = keys.blocks
    for wrong in ((blocks.bytes, blocks.rows.bytes, blocks.rows.codes[:2], *blocks.memory[3:]), blocks.memory[:4]):
        with pytest.raises(ValueError, match=r"no piece of memory|unpack"):
            keys.loop.complete(wrong, 1, keys.room)
