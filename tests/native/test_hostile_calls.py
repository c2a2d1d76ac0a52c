"""Objects of the core that were never initialised, and calls with nonsense, raise an exception and never crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.native.test_key_loop import BATCH_SIZE, N_FEATURES, Keys, rows_of

from driftsurf.keyed.layout import StepLog
from driftsurf.native.guard import RangeGuard
from driftsurf.native.monitor import VALUES, Follower, Held, follower_of
from driftsurf.native.store import KeyLoop, Room
from driftsurf.session.drift_monitor import DriftMonitor

NUMBERS = bytes(8 * (VALUES + 6 + 4))


class Unable(Follower):
    """Has no memory for rows."""

    def allocated(self, *given: Any) -> Any:
        return None


SCRIPT = """
import faulthandler, importlib, inspect, pkgutil, sys
import numpy as np
import driftsurf.native

faulthandler.enable()
NONSENSE = None, 0, -1, 2**62, "x", (), {}, np.zeros(0), np.zeros((0, 0)), np.zeros((2, 2)), np.zeros(3, np.int64)
made, called = 0, 0
for module in pkgutil.iter_modules(driftsurf.native.__path__):
    core = importlib.import_module(f"driftsurf.native.{module.name}")
    for name, cls in vars(core).items():
        if not isinstance(cls, type) or cls.__module__ != core.__name__ or issubclass(cls, Exception):
            continue
        for count in range(8):
            for one in NONSENSE:
                try:
                    thing = cls.__new__(cls, *[one] * count)
                except (TypeError, ValueError, IndexError, OverflowError, AttributeError, MemoryError, KeyError):
                    continue
                made += 1
                for member in dir(cls):
                    if member.startswith("__") and member != "__reduce__":
                        continue
                    print(cls.__name__, member, count, repr(one)[:40], flush=True)
                    try:
                        method = getattr(thing, member)
                    except Exception:
                        continue
                    if not callable(method):
                        continue
                    for n in range(8):
                        for other in NONSENSE:
                            called += 1
                            try:
                                method(*[other] * n)
                            except Exception:
                                pass
                if not count:
                    break
print(made, called)
"""


def test_objects_that_were_never_initialised_raise_exceptions() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True)
    assert not done.returncode, done.stdout[-200:] + done.stderr[-2000:]
    made, called = map(int, done.stdout.splitlines()[-1].split())
    assert made > 2
    assert called > 100


def test_a_guard_of_no_columns_says_so() -> None:
    empty = RangeGuard.__new__(RangeGuard)
    assert empty.recent.shape == (0,)
    assert empty.total is None
    with pytest.raises(ValueError, match="expected 0 columns, got 2"):
        RangeGuard(total=np.zeros(0)).admit(np.zeros((1, 2)))


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: Held(np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((1, 4), np.int64)),
        lambda rows: Held(np.zeros((3, 2)), np.zeros(2), np.zeros(2), np.zeros((1, 4), np.int64)),
        lambda rows: Held(np.zeros((2, 2)), np.zeros(2), np.zeros(1), np.zeros((1, 4), np.int64)),
        lambda rows: Held(np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.zeros((1, 3), np.int64)),
        lambda rows: follower_of(DriftMonitor, (), {}, rows, NUMBERS, (0, 0, 0, 5)),
        lambda rows: follower_of(DriftMonitor, (), {}, None, NUMBERS, (0, 0, 0, 1)),
        lambda rows: Unable().hold(0, 0, 1, np.zeros((1, 2)), np.zeros(1), np.zeros(1), True),
    ],
)
def test_rows_that_do_not_fit_are_not_held(make: Callable[[Any], Any]) -> None:
    rows = np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.array([[0, 0, 1, 2]])
    with pytest.raises(ValueError, match="do not fit"):
        make(rows)


def test_a_loop_wants_its_own_working_memory_and_room_for_its_log() -> None:
    keys, other, (X, codes) = Keys(), Keys(), rows_of(2 * BATCH_SIZE)
    log = StepLog.of(1, every=True)
    keys.room = other.room
    with pytest.raises(ValueError, match="belongs to another loop"):
        keys.observe(X, codes, [0], [0, len(X)], range(len(X)), log)
    with pytest.raises(ValueError, match="no room for the steps"):
        other.observe(X, codes, [0], [0, len(X)], range(len(X)), log)
    assert log.length.tolist() == [1, 1]
    with pytest.raises(TypeError):
        other.loop.complete(other.blocks.memory, 0, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Room(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["means", "judged", "counts", "size", "batch_size"])
def test_a_layout_has_to_fit_into_its_block(name: str) -> None:
    keys = Keys()
    layout: dict[str, Any] = keys.shape.native
    assert layout["n_features"] == N_FEATURES
    rule, training = keys.parameters
    for wrong in (-1, 2**60):
        with pytest.raises(ValueError, match=r"has no room|no keys of these sizes"):
            KeyLoop(layout | {name: wrong}, rule, training, 1.0, -1, (4.0, False, 0.0, 0.01))


@pytest.mark.parametrize("part", range(8))
def test_a_layout_has_to_say_how_rows_are_stored(part: int) -> None:
    keys = Keys()
    layout, (rule, training) = keys.shape.native, keys.parameters
    for wrong in (-1, 2**60, 0 if part == 7 else 3):
        pieces = [*layout["rows"]]
        pieces[part] = wrong
        if tuple(pieces) == layout["rows"] or (part < 2 and wrong == 3):
            continue
        with pytest.raises(ValueError, match=r"pieces|element|parts|sizes"):
            KeyLoop(layout | {"rows": tuple(pieces)}, rule, training, 1.0, -1, (4.0, False, 0.0, 0.01))
