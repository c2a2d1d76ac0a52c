"""A process that is forked while another thread learns gets a clear error or a right answer, and never hangs."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier
from driftsurf.connectors.shared_log import Holder as LeaseHolder
from driftsurf.connectors.shared_log import LogEnds, SharedLog
from driftsurf.core.changes import ChangeLock, RenewedLock
from driftsurf.detectors import ADWIN
from driftsurf.errors import LogError, StepInProgressError
from driftsurf.session.session import Session

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


def in_child(call: Callable[[], object], seconds: float = 60.0) -> str:
    """Return what a call gives in a forked process, as text, or the name of its error; fail if it does not end."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
        child = os.fork()
    if child == 0:
        try:
            text = repr(call())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if os.waitpid(child, os.WNOHANG)[0]:
                return os.read(reading, 5000).decode()
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise AssertionError("the forked process hangs")
    finally:
        os.close(reading)


class Holder:
    """Thread that holds a lock as long as it is told to."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.held, self.go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self.lock:
            self.held.set()
            self.go.wait(60)

    def __enter__(self) -> None:
        self.thread.start()
        assert self.held.wait(60)

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.thread.join()


@pytest.fixture
def model() -> DriftSurfClassifier:
    return DriftSurfClassifier(random_state=0).partial_fit(X, Y, classes=[0, 1])


def session_of(model: DriftSurfClassifier) -> Session:
    fitted: Any = model._fitted
    session: Session = fitted.session
    return session


def test_a_model_that_another_thread_changes_predicts_and_refuses_the_rest(model: DriftSurfClassifier) -> None:
    expected = model.predict(X).tolist()
    with Holder(session_of(model).lock):
        assert in_child(lambda: model.predict(X).tolist()) == repr(expected)
        for call in (lambda: model.partial_fit(X, Y), lambda: model.test_then_train(X, Y)):
            found = in_child(call)
            assert found.startswith(StepInProgressError.__name__), found
            assert "spawn" in found
    model.partial_fit(X, Y)  # the parent goes on


def test_a_model_that_no_thread_changes_learns_in_a_forked_process(model: DriftSurfClassifier) -> None:
    def learned() -> Any:
        return model.partial_fit(X, Y).predict(X).tolist()

    other = DriftSurfClassifier(random_state=0).partial_fit(X, Y, classes=[0, 1])
    with Holder(session_of(other).lock):
        found = in_child(learned)
    assert found == repr(learned())


def test_a_fork_inside_the_own_step_is_no_fork_of_another_thread(model: DriftSurfClassifier) -> None:
    with session_of(model).lock:
        assert in_child(lambda: model.partial_fit(X, Y) is model) == "True"


@pytest.mark.parametrize("kind", ["registry", "cached predictions", "detector"])
def test_locks_that_a_thread_held_do_not_hang_a_forked_process(kind: str) -> None:
    from driftsurf import registry

    detector = ADWIN()
    locks: dict[str, Any] = {
        "registry": registry._lock,
        "cached predictions": RenewedLock(),
        "detector": detector.lock,
    }

    def take() -> str:
        with locks[kind]:
            return "free"

    with Holder(locks[kind]):
        found = in_child(take)
    assert found.startswith(StepInProgressError.__name__) if kind == "detector" else found == "'free'"


def test_all_locks_of_changing_objects_are_known_at_a_fork() -> None:
    """A lock that is made anywhere else would hang a forked process; threads of a service are not there at all."""
    allowed = {"registry/__init__.py", "core/disk.py", "runs/prometheus.py", "runs/output.py"}
    source = Path(__file__).parents[2] / "src" / "driftsurf"
    found = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        for line in file.read_text().splitlines()
        if "threading.RLock()" in line or "threading.Lock()" in line
    }
    kept = {one for one in found if not one.startswith(("service/", "data/log/"))}
    assert kept <= allowed | {"core/changes.py"}
    assert issubclass(ChangeLock, RenewedLock)


class ListLog(SharedLog):
    """A shared log in memory."""

    name = "list"

    def _make(self, about: str) -> str:
        self.records: list[bytes] = []
        self.connected = True
        return about

    def _ends(self) -> LogEnds:
        return LogEnds(next=len(self.records), total=sum(map(len, self.records)))

    def _append(self, payloads: Any, expected: int) -> None:
        self.records += payloads

    def _fetch(self, start: int, most_bytes: int) -> list[tuple[int, bytes]]:
        return list(enumerate(self.records))[start:]

    def _total_before(self, number: int) -> int:
        return sum(map(len, self.records[:number]))

    def _drop(self, before: int) -> None:
        pass

    def _take(self, seconds: float, holder: LeaseHolder) -> bool:
        return True

    def _holder(self) -> LeaseHolder | None:
        return None

    def _give_up(self) -> None:
        self.given_up = True

    def _leave(self) -> None:
        self.connected = False


@pytest.mark.parametrize("lock", ["_writing", "_reading", "_grown"])
def test_a_shared_log_belongs_to_the_process_that_opened_it(lock: str) -> None:
    log = ListLog("list://")
    lease = log.acquire(60.0)
    assert lease is not None
    log.append([b"one"], 0)
    calls: list[Callable[[], object]] = [
        lambda: log.append([b"two"], 1),
        lambda: log.read(5),
        lambda: log.truncate(1),
        lambda: log.acquire(60.0),
        log.leader,
    ]
    with Holder(getattr(log, lock)):
        for call in calls:
            found = in_child(call)
            assert found.startswith(LogError.__name__), found
            assert "forked" in found
        assert in_child(lambda: log.wait(5, None)) == "False"
        found = in_child(lambda: [lease.release(), log.close(), log.connected, "given_up" in vars(log)])  # type: ignore[func-returns-value]
        assert found == "[None, None, True, False]"
    log.append([b"two"], 1)  # the parent goes on
    assert log.read(0) == [(0, b"one"), (1, b"two")]
    log.close()


def test_a_served_model_belongs_to_the_process_that_opened_it(tmp_path: Path) -> None:
    from contextlib import closing

    from driftsurf.data.frames import read_table
    from driftsurf.service.model import open_model
    from driftsurf.service.settings import Keeping, ModelSettings

    settings = ModelSettings(label="sold", task="binary", model="driftsurf", columns={"price": "number"})
    with closing(open_model(tmp_path / "sales", settings, Keeping(least_free_bytes=0))) as model:
        assert model.wait_ready(60)
        table = read_table({"price": [1.0, 2.0]})
        found = in_child(lambda: model.learn(table, ["no", "yes"]).result(60))
        assert found.startswith("UnavailableError"), found
        assert "forked" in found
        model.learn(table, ["no", "yes"]).result(60)
