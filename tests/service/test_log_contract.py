"""Logs behind the contract: files, and one in memory that acknowledges later, conflicts, and loses its lease."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_log import MemoryLog, MemoryStore

from driftsurf.checks import LogCase, check_log
from driftsurf.data.frames import read_table
from driftsurf.data.log.contract import Log
from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.records import ColumnKind, Kinds, decode
from driftsurf.data.tables import Table
from driftsurf.errors import CheckError, InputError, LogError, LogUnreachableError, NotLeadingError, UnavailableError
from driftsurf.service.committer import GroupCommitter
from driftsurf.service.contract import Answer, Request
from driftsurf.service.model import ServedModel, folder_blueprint
from driftsurf.service.replicas import set_aside
from driftsurf.service.settings import Keeping, ModelSettings

KEEPING = Keeping(least_free_bytes=0, digest_records=5)
SETTINGS = ModelSettings(label="sold", model="driftsurf", learner="logistic", batch_size=10, task="binary")


def test_files_and_memory_keep_the_contract(tmp_path: Path) -> None:
    numbers = iter(range(100))
    check_log(LogCase(new=lambda: partial(FileLog, tmp_path / str(next(numbers)), segment_bytes=5_000)))
    check_log(LogCase(new=lambda: partial(MemoryLog, MemoryStore()), shared=True))


class Careless(MemoryLog):
    """A log that takes records whatever number they expect."""

    def _check(self, expected: int) -> None:
        pass


def test_a_log_that_lets_late_writers_in_fails_the_checks() -> None:
    with pytest.raises(CheckError, match="refuses_other_numbers"):
        check_log(LogCase(new=lambda: partial(Careless, MemoryStore()), shared=True))


# ---------------------------------------------------------------------------- the committer


def test_records_that_wait_are_one_group_and_end_when_it_is_committed() -> None:
    log = MemoryLog(MemoryStore())
    log.permission = threading.Semaphore(0)
    with GroupCommitter(log) as committer:
        futures = [committer.when_durable(committer.append(b"first"), -1)]
        while log.store.changed and committer._queue:  # the thread has taken the first one
            pass
        numbers = [committer.append(b"x") for _ in range(5)]
        futures += [committer.when_durable(number, number) for number in numbers]
        assert numbers == [1, 2, 3, 4, 5]
        assert not any(future.done() for future in futures)
        assert log.next == 0
        log.permission.release(2)
        assert [future.result(30) for future in futures] == [-1, 1, 2, 3, 4, 5]
        assert log.groups == [1, 5]
        with pytest.raises(InputError, match="too large"):
            committer.append(bytes(2**21))
        log.permission.release(9)


@pytest.mark.parametrize("fault", ["another writer", "not known, kept", "not known, lost"])
def test_after_a_fault_all_of_the_group_fail_and_nothing_is_taken(fault: str) -> None:
    log, stopped = MemoryLog(MemoryStore()), threading.Event()
    log.permission = threading.Semaphore(0)
    with GroupCommitter(log, stopped.set) as committer:
        futures = [committer.when_durable(committer.append(b"x"), None) for _ in range(3)]
        if fault == "another writer":
            log.store.write(b"foreign", b"foreign")
        else:
            log.fault, log.keeps = LogError("timed out"), fault.endswith("kept")
        log.permission.release(9)
        assert all(isinstance(future.exception(30), UnavailableError) for future in futures)
        assert stopped.wait(30)
        with pytest.raises(UnavailableError):
            committer.append(b"y")
        with pytest.raises(UnavailableError):
            committer.when_durable(0, None)
        there = log.next
        committer.begin(there)
        assert committer.append(b"z") == there
        with pytest.raises(UnavailableError):  # a number of an earlier term, which is another record by now
            committer.when_durable(0, None, 0)
        assert committer.when_durable(there, "z", committer.term).result(30) == "z"
    assert log.read(there) == [(there, b"z")]


# ---------------------------------------------------------------------------- a served model


def rows(count: int, seed: int) -> tuple[Table, list[str]]:
    draws = np.random.default_rng(seed).normal(size=(count, 2))
    return read_table({"a": draws[:, 0], "b": draws[:, 1]}), ["yes" if one > 0 else "no" for one in draws[:, 0]]


def served(
    folder: Path,
    make_log: Callable[[int], Log] | None = None,
    settings: ModelSettings = SETTINGS,
    clock: Callable[[], float] = lambda: 5.0,
) -> ServedModel:
    return ServedModel(folder, folder_blueprint(folder, settings), Keeping(), clock=clock, make_log=make_log)


def settled(model: ServedModel) -> ServedModel:
    """Wait until everything in the log is applied."""
    assert model.wait_ready(60)
    model.flush()
    while (status := model.status()).applied < status.logged:
        assert status.phase in ("ready", "recovering"), status.failure
        model.log.wait(status.logged, 0.01)
    return model


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_model_is_the_same_on_files_and_in_memory(tmp_path: Path, store: MemoryStore) -> None:
    logs: list[Callable[[int], Log] | None] = [None, lambda known: MemoryLog(store)]
    states, records = list[bytes](), list[list[tuple[int, bytes]]]()
    for name, make in zip(("files", "memory"), logs, strict=True):
        folder = tmp_path / name / "sales"
        with closing(served(folder, make)) as model:
            assert model.wait_ready(60)
            model.learn(*rows(20, 0)).result(60)
            settled(model)
            for turn in range(30):
                table, labels = rows(1, turn)
                answer = model.predict(table, [f"id-{turn}"])
                assert answer.position is not None
                model.label({f"id-{turn}": labels[0]}).result(60)
                settled(model)
            states.append(model.state())
            records.append(model.log.read(0, 2**30))
    assert states[0] == states[1]
    assert records[0] == records[1]


def test_an_answer_comes_when_it_is_in_the_log_and_is_given_again(tmp_path: Path, store: MemoryStore) -> None:
    log = MemoryLog(store)
    with closing(served(tmp_path / "sales", lambda known: log)) as model:
        model.learn(*rows(20, 0)).result(60)
        settled(model)
        log.permission = threading.Semaphore(0)
        table, _ = rows(3, 1)
        request = Request("key", hashlib.sha256(b"body").digest())
        first = model.predict_logged(table, ["a", "b", "c"], request)
        again = model.predict_logged(table, ["a", "b", "c"], request)
        assert isinstance(first, Future)
        assert isinstance(again, Future)
        assert not first.done()
        assert not again.done()
        log.permission.release(99)
        one, other = first.result(60), again.result(60)
        assert one.labels is not None
        assert other.labels is not None
        assert (one.labels.tolist(), one.position) == (other.labels.tolist(), other.position)
        assert other.repeated
        later = model.predict_logged(table, ["a", "b", "c"], request)
        assert isinstance(later, Answer)


def test_after_a_conflict_the_model_follows_and_then_takes_rows_again(tmp_path: Path, store: MemoryStore) -> None:
    log, twin = MemoryLog(store), MemoryStore()
    with closing(served(tmp_path / "other" / "sales", lambda known: MemoryLog(twin))) as model:
        model.learn(*rows(15, 7)).result(60)
        foreign = [payload for _, payload in model.log.read(0, 2**30)]
    with closing(served(tmp_path / "sales", lambda known: log)) as model:
        model.learn(*rows(25, 0)).result(60)
        settled(model)
        acknowledged = 25
        for turn in range(5):
            log.permission = threading.Semaphore(0)
            failing = [model.learn(*rows(3, turn)) for _ in range(4)]
            table, _ = rows(1, turn)
            predicted: Any = model.predict_logged(table, [f"lost-{turn}"])
            store.write(*[one for one in foreign if one[0] != Kinds.COLUMNS])
            acknowledged += 15
            log.permission.release(999)
            for future in [*failing, predicted]:
                assert isinstance(future.exception(60), UnavailableError)
            while True:  # refused until it has followed to the end
                try:
                    model.learn(*rows(5, 100 + turn)).result(60)
                    break
                except UnavailableError:
                    model.wait_ready(0.01)
            acknowledged += 5
        settled(model)
        columns = ColumnKind("a", "number"), ColumnKind("b", "number")
        taken = [decode(payload, columns) for _, payload in log.read(0, 2**30)]
        assert sum(one.count for one in taken if one.kind == Kinds.LEARN) == acknowledged
        status = model.status()
        assert status.rows + status.in_step == acknowledged
        assert status.lag_rows == 0
        state = model.state()
    with closing(served(tmp_path / "again" / "sales", lambda known: MemoryLog(store))) as model:
        store.holder = None
        assert settled(model).state() == state


def test_the_time_is_not_logged_while_the_committer_takes_nothing(tmp_path: Path, store: MemoryStore) -> None:
    log, now, failing, followed = MemoryLog(store), [5.0], threading.Event(), threading.Event()

    def fail(_: object) -> None:  # in the thread of the committer, which takes nothing more
        failing.set()
        followed.wait(30)

    make_log, settings = lambda known: log, replace(SETTINGS, timeout=100.0)
    with closing(served(tmp_path / "sales", make_log, settings, lambda: now[0])) as model:
        model.learn(*rows(20, 0)).result(60)
        model.predict(rows(1, 1)[0], ["waits"])
        settled(model)
        log.permission, log.fault = threading.Semaphore(0), LogError("timed out")
        model.learn(*rows(3, 2)).add_done_callback(fail)
        log.permission.release(99)
        assert failing.wait(30)
        now[0] = 1_000.0
        assert model.status().phase == "ready"
        model._tick()
        followed.set()
        while model.status().labels.expired == 0:
            assert model.status().phase in ("ready", "recovering"), model.status().failure
            model.log.wait(model.log.next, 0.01)


def test_rows_that_a_term_leaves_behind_do_not_count(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(store)
    with closing(served(tmp_path / "sales", lambda known: log)) as model:
        model.learn(*rows(20, 0)).result(60)
        settled(model)
        committer, append = model._committer, model._committer.append

        def interrupted(payload: bytes, term: int | None = None) -> int:
            log.fault = LogError("timed out")
            number = append(payload, term)
            while committer.term == term or model.status().phase != "ready":
                log.wait(log.next, 0.01)
            return number

        with monkeypatch.context() as context:
            context.setattr(committer, "append", interrupted)
            with pytest.raises(UnavailableError):
                model.predict(rows(4, 1)[0], list("abcd"))
        model.learn(*rows(3, 2)).result(60)
        settled(model)
        assert model.status().lag_rows == 0


def test_a_model_takes_rows_only_under_the_lease(tmp_path: Path, store: MemoryStore) -> None:
    other = MemoryLog(store)
    assert other.acquire(1.0) is not None
    with closing(served(tmp_path / "sales", lambda known: MemoryLog(store))) as model:
        assert not model.wait_ready(0.05)
        with pytest.raises(UnavailableError):
            model.learn(*rows(3, 0))
        store.holder = None
        until_phase(model, "ready")
        model.learn(*rows(3, 0)).result(60)


def test_a_lease_that_is_lost_stops_the_committer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.service.committer.LEASE_SECONDS", 0.03)
    log, stopped = MemoryLog(MemoryStore()), threading.Event()
    lease = log.acquire(1.0)
    with GroupCommitter(log, stopped.set) as committer:
        committer.begin(0, lease)
        assert committer.when_durable(committer.append(b"x"), "kept").result(30) == "kept"
        log.store.holder = MemoryLog(log.store)
        assert stopped.wait(30)
        with pytest.raises(UnavailableError, match="lease"):
            committer.append(b"y")


def test_a_log_that_cannot_be_reached_is_read_again(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftsurf.service.follower.UNREACHED_SECONDS", 0.01)
    log = MemoryLog(store)
    read, failures = log.read, [LogUnreachableError("the broker is away")] * 5

    def failing(start: int, most_bytes: int = 2**20) -> list[tuple[int, bytes]]:
        if failures and threading.current_thread().name.startswith("follower"):
            raise failures.pop()
        return read(start, most_bytes)

    with closing(served(tmp_path / "sales", lambda known: log)) as model:
        model.learn(*rows(20, 0)).result(60)
        settled(model)
        monkeypatch.setattr(log, "read", failing)
        model.learn(*rows(20, 1)).result(60)
        settled(model)
        assert not failures
        assert model.status().rows == 40
        failures += [LogUnreachableError("away for good")] * 10**6
    assert model.status().phase == "closed"


# ---------------------------------------------------------------------------- replicas


def test_a_replica_follows_passes_on_and_takes_over(tmp_path: Path, store: MemoryStore) -> None:
    def opened(name: str) -> ServedModel:
        folder = tmp_path / name / "sales"
        make_log: Any = lambda known: MemoryLog(store)  # noqa: E731
        blueprint = folder_blueprint(folder, SETTINGS)
        return ServedModel(folder, blueprint, KEEPING, clock=lambda: 5.0, make_log=make_log, address=f"http://{name}")

    with closing(opened("one")) as one:
        one.learn(*rows(20, 0)).result(60)
        settled(one)
        with closing(opened("other")) as other:
            until_phase(other, "following")
            assert other.status().ready
            with pytest.raises(NotLeadingError, match="http://one") as caught:
                other.learn(*rows(1, 0))
            assert caught.value.leader == "http://one"
            one.learn(*rows(95, 1)).result(60)
            for _ in range(12):
                one.learn(*rows(5, 2)).result(60)
            settled(one)
            while other.status().applied < one.log.next:
                other.log.wait(one.log.next, 0.01)
            assert other.state() == one.state()
            assert other.place == (one.log.next, 0)
            assert other.predict(rows(3, 3)[0]).version == one.predict(rows(3, 3)[0]).version
            kinds = [payload[0] for _, payload in one.log.read(0, 2**30)]
            assert kinds.count(Kinds.DIGEST) > 1
            one.close()
            until_phase(other, "ready")
            other.learn(*rows(5, 4)).result(60)


def until_phase(model: ServedModel, phase: str) -> None:
    while model.status().phase != phase:
        assert model.status().phase != "failed", model.status().failure
        model.log.wait(2**40, 0.01)


def test_a_replica_that_differs_says_so_and_is_built_again(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(name: str) -> ServedModel:
        folder = tmp_path / name / "sales"
        blueprint = folder_blueprint(folder, SETTINGS)
        return ServedModel(folder, blueprint, KEEPING, clock=lambda: 5.0, make_log=lambda known: MemoryLog(store))

    with closing(opened("one")) as one:
        one.learn(*rows(20, 0)).result(60)
        settled(one)
        with closing(opened("other")) as other:
            until_phase(other, "following")
            run = other._follower.run
            assert run is not None
            run.replayed.errors = replace(run.replayed.errors, total=run.replayed.errors.total + 1e-9)
            for seed in range(12):
                one.learn(*rows(5, seed)).result(60)
            while not other.differs:
                assert one.status().phase == "ready"
                other.log.wait(2**40, 0.01)
            assert "differs" in other.status().failure
        set_aside(tmp_path / "other" / "sales")
        with closing(opened("other")) as other:
            until_phase(other, "following")
            while other.status().applied < one.log.next:
                other.log.wait(one.log.next, 0.01)
            assert other.state() == settled(one).state()
            assert not other.differs
