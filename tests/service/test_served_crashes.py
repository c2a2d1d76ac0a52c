"""A served model after kills, faults and power losses: nothing acknowledged lost, the same bytes as undisturbed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.reliability import harness, served_kills, served_model
from tests.reliability.power import MemoryDisk, WatchedDisk

from driftsurf.core.disk import using


@pytest.fixture(autouse=True)
def _save_failures_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FAILURES", tmp_path / "failures")


def test_power_loss_at_any_moment_loses_nothing_durable() -> None:
    outcome = served_model.states(0, seed=1, count=60, whole=6)
    assert outcome.failed == 0
    assert outcome.figures["compared with an undisturbed model"] > 3


def test_fault_at_a_file_call_loses_nothing_acknowledged() -> None:
    outcome = served_model.file_calls(0, seed=1, stride=97, actions=20)
    assert outcome.failed == 0
    assert outcome.figures["ended Killed"] > 0


def test_kills_under_load_leave_the_bytes_of_an_undisturbed_model() -> None:
    outcome = served_kills.kills(0, seed=1, count=3)
    assert (outcome.failed, outcome.figures["kills"]) == (0, 3)
    assert outcome.figures["acknowledged"] > 0


@pytest.mark.parametrize("seed", range(3))
def test_model_does_not_depend_on_how_many_records_are_applied_at_a_time(seed: int) -> None:
    told = served_model.Told()
    with using(MemoryDisk()):
        served_model.tell(told, random.Random(seed), 100)
    digests, versions = served_model.undisturbed(told.tried)
    assert versions[-1] > 3
    for most in (300, 3000, 2**20):
        with using(MemoryDisk()), served_model.opened(lambda: 0.0) as model:
            for payload in told.tried:
                model.log.add(payload)
            while model.follower.apply(most):
                pass
            assert model.digest() == digests[-1]


def test_checkpoints_between_the_steps_of_records_continue_with_the_same_bytes() -> None:
    told = served_model.Told()
    with using(MemoryDisk()):
        served_model.tell(told, random.Random(0), 100)
    digests, _ = served_model.undisturbed(told.tried)
    disk, left = MemoryDisk(), list[MemoryDisk]()
    with using(disk), served_model.opened(lambda: 0.0) as model:
        for payload in told.tried:
            model.log.add(payload)

        def save() -> None:
            assert model.follower.checkpoint()
            assert model.follower.applied < model.follower.position
            left.append(disk.frozen())

        model.follower.on_pause = save
        while model.follower.apply():
            pass
    assert len(left) > 3
    for found in left:
        with using(found), served_model.opened(lambda: 0.0) as model:
            assert model.follower.run is not None
            assert model.follower.run.replayed.joiner.backlog >= model.follower.blueprint.batch_size
            model.catch_up()
            assert model.digest() == digests[-1]


def test_a_digest_notices_another_model() -> None:
    told = served_model.Told()
    with using(MemoryDisk()):
        served_model.tell(told, random.Random(1), 60)
    digests, _ = served_model.undisturbed(told.tried)
    other, _ = served_model.undisturbed([*told.tried[:-8], *told.tried[-7:]])
    assert digests[-1] != other[-1]


def test_changed_log_files_are_refused_or_read() -> None:
    outcome = served_model.fuzzed(0, seed=1, count=40)
    assert outcome.failed == 0, outcome.line()
    assert outcome.figures["refused"] > 0


def test_a_run_does_not_survive_a_power_loss_without_the_records_that_began_it() -> None:
    disk, told = WatchedDisk(), served_model.Told()
    with using(disk):
        served_model.tell(told, random.Random(4130176541), 45, disk)
    digests, _ = served_model.undisturbed(told.tried)
    for durable, copy in disk.copies[40:56]:
        with using(copy.after_power_loss(random.Random(0), 0.0, 0.0)):
            known = served_model.Told(told.tried, durable)
            assert not served_model.found(known, digests, power=True, whole=True)
