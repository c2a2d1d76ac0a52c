"""Checkpoints: exact, cheap, kept in two generations, and never half of anything."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from torture.workload import Workload, digests, state_digest

from driftsurf._buffer import Touched
from driftsurf.base import Strategy
from driftsurf.detectors import DDM
from driftsurf.errors import LockedError, OptionError, StateError, StateVersionError, StateWarning
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.runtime import disk, files, orders
from driftsurf.runtime.checkpoint import HEAD, SEGMENT, CheckpointFolder
from driftsurf.runtime.run import JOURNAL, Run, Stopped
from driftsurf.runtime.session import Session
from driftsurf.runtime.source import StreamSource
from driftsurf.state import from_bytes, resolved, to_bytes
from driftsurf.strategies import (
    AUE,
    DWM,
    PERM,
    Aware,
    Candor,
    DriftSurf,
    LearnNSE,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
)
from driftsurf.streams import SEA

WORK = Workload(steps=12, rows=15, every=2, max_rows=60)


class Unflushed(disk.Disk):
    """Where nothing fails, waiting for the medium proves nothing."""

    def sync(self, handle: int) -> None: ...

    def sync_folder(self, path: Path) -> None: ...


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with disk.using(Unflushed()):
        yield


def batches(count: int, *, sparse: bool = False, rows: int = 20) -> Iterator[tuple[Any, Any]]:
    generator = np.random.default_rng(0)
    for step in range(count):
        X = generator.normal(size=(rows, 4)) * (generator.random((rows, 4)) < 0.6)
        y = np.where((X[:, 0] > 0) == (step // 8 % 2 == 0), 1, -1)
        yield (sp.csr_array(X) if sparse else X), y


LEARNER = LogisticRegression()
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "driftsurf": lambda: DriftSurf(LEARNER, max_rows=150),
    "authors": lambda: DriftSurf(LEARNER, max_rows=None, variant="authors"),
    "few steps": lambda: DriftSurf(LogisticRegression(steps_per_row=0.7), max_rows=90),
    "saga": lambda: DriftSurf(LogisticRegression(optimizer="saga"), max_rows=90),
    "float32": lambda: DriftSurf(LEARNER, max_rows=90, dtype="float32"),
    "aware": lambda: Aware(LEARNER, (8, 16), max_rows=100),
    "aue": lambda: AUE(LEARNER),
    "candor": lambda: Candor(LEARNER),
    "oblivious": lambda: Oblivious(LEARNER, max_rows=50),
    "one pass": lambda: OnePass(LEARNER),
    "reset": lambda: ResetOnDrift(LEARNER, DDM(), max_rows=100),
    "perm": lambda: PERM(LEARNER, window=60, permutations=19, significance=0.05),
    "window": lambda: SlidingWindow(LEARNER, window=70),
    "paired": lambda: PairedLearners(LEARNER, window=50),
    "dwm": lambda: DWM(LEARNER, period=5, experts=3),
    "learn++.nse": lambda: LearnNSE(LEARNER, experts=4),
    "softmax": lambda: DriftSurf(SoftmaxRegression(), max_rows=150),
    "prequential judge": lambda: DriftSurf(SoftmaxRegression(), max_rows=150, judge="prequential"),
    "svm": lambda: AUE(LinearSVM(), experts=3),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_loaded_is_what_was_saved_and_can_be_gone_on_from(name: str, sparse: bool, tmp_path: Path) -> None:
    session = Session(STRATEGIES[name](), classes=(-1, 1))
    writer = CheckpointFolder(tmp_path)
    for step, (X, y) in enumerate(batches(24, sparse=sparse)):
        session.observe(X, y)
        if step % 3 == 2:
            continue  # what is new may be several batches old
        writer.save(session.parts())
        found = CheckpointFolder(tmp_path).load()
        assert found is not None
        assert to_bytes(found.state) == to_bytes(session.state())
        if step % 5 == 0:  # go on in a new process
            session = Session(STRATEGIES[name](), classes=(-1, 1))
            session.restore(found.state)
            writer = CheckpointFolder(tmp_path)
            writer.follow(found, session.parts())


@pytest.mark.parametrize("learner", [SoftmaxRegression(), LinearRegression()], ids=["classes", "values"])
def test_classes_that_come_later_and_values_are_saved_as_they_grow(learner: Any, tmp_path: Path) -> None:
    session = Session(DriftSurf(learner, max_rows=150))
    writer = CheckpointFolder(tmp_path)
    for step, (X, y) in enumerate(batches(16)):
        targets = 1e3 + X[:, 0] * y if learner.capabilities.values else np.where(X[:, 1] > 2.5 - step / 8, "new", y)
        session.observe(X, targets)
        writer.save(session.parts())
        found = CheckpointFolder(tmp_path).load()
        assert found is not None
        assert to_bytes(found.state) == to_bytes(session.state())
        if step % 5 == 4:
            session = Session(DriftSurf(learner, max_rows=150))
            session.restore(found.state)
            writer = CheckpointFolder(tmp_path)
            writer.follow(found, session.parts())
    assert len(session.targets.labels) == (0 if learner.capabilities.values else 3)


def test_a_checkpoint_writes_what_is_new_and_drops_what_nobody_needs(tmp_path: Path) -> None:
    session = Session(Oblivious(LEARNER, max_rows=4_000), classes=(-1, 1))
    folder = CheckpointFolder(tmp_path)
    sizes = []
    for X, y in batches(300):
        session.observe(X, y)
        number = folder.save(session.parts())
        sizes.append(folder.file(SEGMENT, number).stat().st_size)
    whole = len(to_bytes(session.state()))
    assert np.median(sizes[-50:]) < 1.1 * np.median(sizes[50:100]) < whole / 50
    assert len(folder.generations()) == 2
    # Rows are written once; beside them lie their gradients, written anew as often as they have all changed.
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 3 * whole


def test_rows_that_leave_take_their_segments_along(tmp_path: Path) -> None:
    session = Session(Oblivious(LEARNER, max_rows=100), classes=(-1, 1))
    folder = CheckpointFolder(tmp_path, keep=3)
    for X, y in batches(60):
        session.observe(X, y)
        folder.save(session.parts())
    assert len(folder.generations()) == 3
    assert len(list(tmp_path.glob(f"{SEGMENT}-*"))) < 15


def test_changes_too_long_ago_are_not_told() -> None:
    touched = Touched()
    touched.add(np.arange(3), first=0, limit=5)
    touched.add(np.arange(4), first=10, limit=5)
    assert touched.since(0) is None
    first = touched.since(1)
    assert first is not None
    assert first.tolist() == [10, 11, 12, 13]
    assert touched.since(2).tolist() == []  # type: ignore[union-attr]


# ---------------------------------------------------------------------------- damage


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    WORK.finish(tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path, place: int = -50) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def newest(path: Path, kind: str = HEAD) -> Path:
    return max(path.glob(f"{kind}-*"))


def test_a_damaged_head_makes_room_for_the_one_before_and_says_so(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    last, number = folder.generations()
    before = folder.load(last)
    flip(folder.file(HEAD, number))
    with pytest.warns(
        StateWarning, match=rf"checkpoint {number} cannot be used: .*checksum.* Checkpoint {last}, before"
    ):
        found = folder.load()
    assert found is not None
    assert before is not None
    assert to_bytes(found.state) == to_bytes(before.state)


def test_a_run_goes_on_from_the_checkpoint_before_to_the_same_end(tmp_path: Path) -> None:
    expected = WORK.finish(tmp_path / "whole")
    with CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run:
        run.begin()
        for X, y, position in run.source.batches():
            run._take(X, y, None)
            run.step, run.position = run.step + 1, position
            if run.step % 2 == 0:
                run.checkpoint()
            if run.step == 8:
                break
    flip(newest(tmp_path / "run"))
    with pytest.warns(StateWarning, match="is used"):
        assert WORK.finish(tmp_path / "run") == expected


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda path: list(map(flip, path.glob("head-*"))), "no checkpoint in .* can be used.*checksum"),
        (lambda path: min(path.glob("segment-*")).unlink(), "No such file"),
        (lambda path: flip(path / JOURNAL, 3), "journal.jsonl does not begin with"),
        (lambda path: (path / JOURNAL).write_text("{"), "journal.jsonl does not begin with"),
        (lambda path: list(map(cut, path.glob("segment-*"))), "checksum"),
    ],
)
def test_damage_to_what_all_checkpoints_need_is_an_error(damage: Any, cause: str, saved: Path) -> None:
    damage(saved)
    with pytest.raises(StateError, match=cause):
        CheckpointFolder(saved).load()


def test_a_file_under_another_name_is_found_out(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    first, second = folder.generations()
    folder.file(HEAD, second).write_bytes(folder.file(HEAD, first).read_bytes())
    with pytest.warns(StateWarning, match="is not what its name says, but head"):
        folder.load()


def test_a_segment_of_another_run_is_found_out(saved: Path, tmp_path: Path) -> None:
    Workload(steps=12, rows=15, every=2, max_rows=60, seed=1).finish(tmp_path / "other")
    name = newest(saved, SEGMENT).name
    (saved / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(StateError, match="is not the one that belongs here"):
        CheckpointFolder(saved).load()


def test_a_later_format_is_refused_by_name_whatever_is_before_it(saved: Path) -> None:
    head = newest(saved)
    data = bytearray(head.read_bytes()[:-32])
    data[7] = 9
    head.write_bytes(bytes(data) + hashlib.sha256(data).digest())
    with pytest.raises(StateVersionError, match="has format 9"):
        CheckpointFolder(saved).load()


FORGERIES: dict[str, dict[str, Any]] = {
    "no logs": {"logs": "[]x"},
    "logs of nothing": {"logs": '[{"key":"a"}]'},
    "a log beyond the segments": {"logs": None, "stop": 10**6},
    "a shape of its own": {"logs": None, "shape": [7]},
    "a file above": {"outputs": '{"../secret": [1, "x"]}'},
    "no outputs": {"outputs": "3"},
    "no number": {"segment": "x"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_heads_are_refused(forgery: str, saved: Path) -> None:
    head = newest(saved)
    state: dict[str, Any] = dict(from_bytes(head.read_bytes()))
    changes = dict(FORGERIES[forgery])
    if changes.get("logs", "") is None:
        del changes["logs"]
        logs = json.loads(state["logs"])
        logs[0] |= changes
        changes = {"logs": json.dumps(logs)}
    head.write_bytes(to_bytes(state | changes))
    with pytest.raises(StateError):
        CheckpointFolder(saved).load(int(head.name[5:14]))


@pytest.mark.parametrize(
    "changes",
    [{"previous": 10**6}, {"new": 1.5}, {"from": "x"}, {"at": np.zeros((2, 2), np.int64)}, {"at": np.zeros(2)}],
)
def test_forged_segments_are_refused(changes: dict[str, Any], saved: Path) -> None:
    folder = CheckpointFolder(saved)
    segment = newest(saved, SEGMENT)
    state: dict[str, Any] = dict(from_bytes(segment.read_bytes()))
    log = next(name for name in state if name.endswith(".new")).removesuffix("new")
    parts = {"at": np.zeros(1, np.int64), "values": np.zeros(1)} | changes
    data = to_bytes(state | {name if name == "previous" else log + name: value for name, value in parts.items()})
    segment.write_bytes(data)
    for number in folder.generations():
        head: dict[str, Any] = dict(from_bytes(folder.file(HEAD, number).read_bytes()))
        folder.file(HEAD, number).write_bytes(to_bytes(head | {"segment_digest": data[-32:].hex()}))
    with pytest.raises(StateError):
        folder.load()


def test_there_is_no_checkpoint_where_there_is_none(tmp_path: Path) -> None:
    assert CheckpointFolder(tmp_path / "nowhere").load() is None
    with pytest.raises(StateError, match=r"has no checkpoint 3; choices: none"):
        CheckpointFolder(tmp_path / "nowhere").load(3)
    with pytest.raises(OptionError, match="keep is 1"):
        CheckpointFolder(tmp_path, keep=1)


def test_nothing_is_written_after_an_error(tmp_path: Path) -> None:
    class Broken(disk.Disk):
        def sync(self, handle: int) -> None:
            raise OSError(5, "made to fail")

    folder = CheckpointFolder(tmp_path)
    folder.save({"step": 1})
    with disk.using(Broken()), pytest.raises(OSError, match="made to fail"):
        folder.save({"step": 2})
    with pytest.raises(StateError, match=r"an earlier checkpoint .* failed"):
        folder.save({"step": 3})
    found = CheckpointFolder(tmp_path).load()
    assert found is not None
    assert found.state == {"step": 1}


def test_what_cannot_be_opened_is_no_damage(saved: Path) -> None:
    class Forbidden(disk.Disk):
        def read(self, path: Path) -> bytes:
            raise PermissionError(13, "not allowed")

    with disk.using(Forbidden()), pytest.raises(PermissionError):
        CheckpointFolder(saved).load()


def test_damaged_heads_are_removed_by_and_by(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    flip(folder.file(HEAD, folder.generations()[-1]))
    (saved / ".head-000000099.state.abc").write_text("half")
    with warnings.catch_warnings(), folder:
        warnings.simplefilter("ignore")
        found = folder.load()
        assert found is not None
        folder.follow(found, found.state)
        for step in range(3):
            folder.save({"step": step})
        assert len(list(saved.glob("head-*"))) <= 3
    assert not (saved / ".head-000000099.state.abc").exists()


# ---------------------------------------------------------------------------- one process at a time


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from driftsurf.runtime.checkpoint import CheckpointFolder
with CheckpointFolder(Path({str(tmp_path)!r})):
    print("held", flush=True)
    input()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        child.stdout.readline()
        with (
            pytest.raises(LockedError, match=rf"held by process {child.pid} on .+ since \d{{4}}-"),
            CheckpointFolder(tmp_path),
        ):
            pass
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert f"process {child.pid}" in files.holder(tmp_path)  # it could not take that back
    with CheckpointFolder(tmp_path):
        assert f"process {os.getpid()}" in files.holder(tmp_path)
    assert files.holder(tmp_path) == ""


# ---------------------------------------------------------------------------- runs


def test_a_run_resumed_at_every_checkpoint_ends_the_same(tmp_path: Path) -> None:
    expected, states = WORK.reference(tmp_path / "whole")
    assert len(states) == 8
    path = tmp_path / "run"

    class Enough(Exception):
        pass

    def stop(step: int, model: str, error: float, decisions: object) -> None:
        if step % 3 == 2:
            raise Enough

    got = None
    for _ in range(30):
        with CheckpointFolder(path) as folder, WORK.run(folder) as run:
            saved = folder.load()
            if saved is None:
                run.begin()
            else:
                run.resume(saved)
            try:
                run.go(stop if run.step % 3 != 2 else None)
            except Enough:
                continue
            got = digests(run)
            break
    assert got == expected
    assert WORK.finish(path) == expected  # there is nothing left to do


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_after_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    expected = WORK.finish(tmp_path / "whole")
    with CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run:
        run.begin()

        def ask(step: int, model: str, error: float, decisions: object) -> None:
            if step == 4 and model == "aware":
                os.kill(os.getpid(), number)

        before = signal.getsignal(number)
        with pytest.raises(Stopped, match=f"stopped by {number.name} before step 5") as stopped:
            run.go(ask)
        assert stopped.value.exit_code == 128 + number
        assert signal.getsignal(number) is before
        found = folder.load()
        assert found is not None
        assert found.state["step"] == 5
    assert WORK.finish(tmp_path / "run") == expected


def test_a_checkpoint_of_another_run_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    stream = SEA(n_rows=200)
    sessions = {"one": Session(Oblivious(LEARNER), classes=(-1, 1))}
    source, recorder = StreamSource(stream, 50), WORK.run(CheckpointFolder(tmp_path)).recorder
    with CheckpointFolder(tmp_path) as folder:
        with Run(source, sessions, recorder, tmp_path.joinpath, about='{"seed": 1}', folder=folder) as run:
            run.begin()
        saved = folder.load()
        assert saved is not None
        for about, cause in (('{"seed": 2}', "seed 1, not 2"), ("other", "something else")):
            with (
                Run(source, sessions, recorder, tmp_path.joinpath, about=about, folder=folder) as run,
                pytest.raises(StateError, match=f"another run: it has {cause}"),
            ):
                run.resume(saved)
        saved.state.pop("position")
        with (
            Run(source, sessions, recorder, tmp_path.joinpath, about='{"seed": 1}', folder=folder) as run,
            pytest.raises(StateError, match="not one of a run"),
        ):
            run.resume(saved)


@pytest.mark.parametrize("position", [-400, 100, 1_001, "400", 2.0])
def test_a_stream_goes_on_between_two_batches_only(position: Any) -> None:
    with pytest.raises(StateError, match="is no place between two batches"):
        next(StreamSource(SEA(n_rows=1_000), 400).batches(position))


def test_orders_are_carried_out_once_and_journalled(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
        given = {4: ("pin", None), 6: ("unpin", None), 8: ("reset", None)}

        def order(step: int, model: str, error: float, decisions: object) -> None:
            if model == "aware" and step + 1 in given:
                orders.give(path, *given[step + 1])

        run.go(order)
        told = [json.loads(line) for line in run.text(JOURNAL).splitlines()]
        said = [(line["order"], line["step"]) for line in told if line["type"] == "order"]
        assert said == [("pin", 4), ("unpin", 6), ("reset", 8)]
        steps = [line for line in told if line["type"] == "step"]
        assert len(steps) == 10  # two were not learnt
        assert "ordered by an operator: fresh model" in run.text(JOURNAL)
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
                orders.give(path, "rollback", folder.generations()[0])
            if model == "driftsurf":
                seen.append((decisions[-1].step, run.sessions[model].steps))

        seen: list[tuple[int, int]] = []
        run.go(watch)
        assert seen == list(enumerate([1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]))  # the run goes on, the model went back
        assert "is again as it was before step 4" in run.text(JOURNAL)


def test_orders_before_anything_was_learnt(tmp_path: Path) -> None:
    path = tmp_path / "run"
    orders.give(path, "pin")
    orders.give(path, "reset")
    with CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
        run.go()
        assert "has learnt nothing yet" in run.text(JOURNAL)
        assert len(run.text(JOURNAL).splitlines()) <= 4  # it learnt the first batch, to have a model at all
        assert len(run.text("trace.csv").splitlines()) == 2 + 2 * WORK.steps


def test_orders_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="order is 'dance'; choices: 'pin'"):
        orders.give(tmp_path, "dance")
    assert orders.give(tmp_path, "pin") == orders.Order(1, "pin")
    (tmp_path / "orders" / "000002.json").write_text("{")
    with pytest.raises(StateError, match=r"order 2 in .* cannot be read"):
        orders.waiting(tmp_path, 0)
    (tmp_path / "orders" / "000002.json").write_text('{"order": "rollback", "to": null}')
    with pytest.raises(StateError, match="is a rollback to None"):
        orders.waiting(tmp_path, 0)
    assert orders.waiting(tmp_path, 2) == []


def test_two_operators_at_once_give_two_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.give(tmp_path, "pin")
    monkeypatch.setattr(orders, "_numbers", lambda place: [])
    assert orders.give(tmp_path, "unpin").number == 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_can_be_made_to_begin_anew(name: str) -> None:
    session = Session(STRATEGIES[name](), classes=(-1, 1))
    for X, y in batches(10):
        session.observe(X, y)
    change = session.renew("as asked")
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


def test_judging_learns_nothing() -> None:
    session = Session(DriftSurf(LEARNER), classes=(-1, 1))
    first, second = batches(2)
    session.observe(*first)
    before = to_bytes(session.state())
    seen = session.judge(*second)
    assert seen.labels.tolist() == session.predict(second[0]).tolist()
    assert seen.decisions == ()
    assert to_bytes(session.state()) == before


def test_resolved_leaves_plain_entries_alone() -> None:
    assert resolved({"a": 1}) == {"a": 1}
    assert state_digest({"a": 1}) == state_digest(resolved({"a": 1}))
