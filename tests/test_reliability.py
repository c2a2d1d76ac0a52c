"""Small deterministic parts of every proof in ``tests.reliability``, which ``make test-reliability`` runs in full."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.reliability import (
    attack,
    bad_values,
    connectors,
    damage,
    endurance,
    faults,
    following,
    fuzz,
    harness,
    inputs,
    kills,
    ledger,
    memory,
    power,
    rows,
    state_changes,
    states,
)
from tests.reliability.__main__ import PROOFS
from tests.reliability.__main__ import _run as run_parts
from tests.reliability.harness import Outcome
from tests.reliability.values import CLASSES
from tests.reliability.workload import Workload

TINY = Workload(steps=4, rows=10, every=2, max_rows=20)


@pytest.fixture(autouse=True)
def _save_failures_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FAILURES", tmp_path / "failures")


def passed(outcome: Outcome) -> bool:
    assert outcome.tried > 0
    assert outcome.failed == 0, outcome.line()
    return True


def test_a_run_survives_faults_at_file_calls() -> None:
    assert passed(faults.file_calls(0, seed=1, work=TINY, stride=13))


def test_saving_survives_faults_at_file_calls() -> None:
    assert passed(faults.saving(0, seed=1, stride=3))


def test_a_run_survives_a_full_disk() -> None:
    assert passed(faults.full_disk(0, seed=1, steps=12))


def test_a_run_survives_kills() -> None:
    assert passed(kills.library(0, seed=1, kills=12))


def test_a_run_that_follows_a_growing_file_survives_kills() -> None:
    outcome = following.killed(0, seed=1, kills=8, commands=0)
    assert passed(outcome)
    assert outcome.figures["kills"] == 8


def test_a_part_of_a_followed_file_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = following._parts
    monkeypatch.setattr(following, "_parts", lambda content, chance: parts(content[:-500], chance))
    outcome = following.killed(0, seed=1, kills=1, commands=0)
    assert outcome.failed == 1


def test_a_state_of_which_everything_was_dropped_is_changed_no_further() -> None:
    for seed in range(300):
        state, what = state_changes.changed({"a.b": 1}, random.Random(seed))
        assert what or not state


def test_calls_survive_exceptions_from_outside() -> None:
    # In a process of its own: here the exception could come while pytest-cov holds a lock, which then stays locked.
    assert all(map(passed, run_parts([ledger.Part("outside", 0.002, 1)], processes=1, kept=False)))


FAILING = """
import dataclasses, json, signal, sys
from tests.reliability import calls, memory

name, ways, share, what = json.loads(sys.argv[1])
blocking = calls.CALLS[name]

def call(session):
    try:
        blocking.call(session)
    except MemoryError:
        session.lock.acquire() if what == "a lock that nobody releases" else signal.pause()
        raise

if what:
    calls.CALLS[name] = dataclasses.replace(blocking, call=call)
    memory.allocations_of, memory.PATIENCE, calls.PATIENCE = lambda *_: 1, 5, 0.2
print(json.dumps([memory.failing(name, way, share) for way in ways]))
"""


def failing(name: str, ways: Sequence[tuple[str, int]], share: int, what: str = "") -> list[list[tuple[int, str, str]]]:
    """Return what came of allocations that fail in each way, in one process, in which no other code lacks memory."""
    command = [sys.executable, "-W", "ignore", "-c", FAILING, json.dumps([name, ways, share, what])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=800)
    return [[(place, came, wrong) for place, came, wrong in one] for one in json.loads(done.stdout)]


@pytest.mark.parametrize("name", ["observe", "fleet", "fleet of sessions", "visit"])
def test_calls_survive_a_lack_of_memory(name: str) -> None:
    ways = [way for way in memory.WAYS if way[0] != "objects" or find_spec("_testcapi") is not None]
    for found in failing(name, ways, 8):
        assert len(found) >= 8
        assert [case for case in found if case[2]] == []
        assert any(came == "MemoryError" for _, came, _ in found)


@pytest.mark.parametrize("what", ["a lock that nobody releases", "a process that makes no progress"])
def test_a_lack_of_memory_that_blocks_a_call_is_found(what: str) -> None:
    (((_, _, wrong),),) = failing("observe", [("arrays", 1)], 1, what)
    assert wrong


@pytest.mark.filterwarnings("ignore")
def test_states_that_do_not_fit_together_are_refused_or_learn() -> None:
    ended: dict[str, int] = {}

    def report(case: int, name: str, how: str, changes: list[str], seconds: float) -> None:
        assert how in states.GOOD, (case, name, how, changes)
        ended[how] = ended.get(how, 0) + 1

    states.sample(1, 0, 400, report)
    assert ended["refused"] > 200
    assert ended["learned"] > 20


DYING = """
import os, sys
case, place = int(sys.argv[2]), sys.argv[4]
open(place, "wb").write(case.to_bytes(8, "little"))
if case < 3:
    os._exit(7)
print('{"counts": {"refused": 1}, "seconds": {"refused": 0.5, "all": 0.5}}')
"""


def test_workers_that_die_on_a_state_are_counted_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "COMMAND", ("-c", DYING))
    outcome = states.fuzzed(4 / states.COUNT, seed=1, processes=1)
    assert (outcome.tried, outcome.failed, outcome.figures["dead"], outcome.figures["refused"]) == (4, 3, 3, 1)


def test_a_run_survives_power_losses() -> None:
    assert passed(power.states(0, seed=1, count=400, resumed=8))


def test_the_disk_in_memory_loses_unflushed_writes() -> None:
    memory, path = power.MemoryDisk(), Path("/x/file")
    handle = memory.create(path)
    memory.write(handle, b"data")
    assert memory.after_power_loss(random.Random(0), 0.0, 0.0).inodes == {}
    memory.sync_folder(path.parent)
    assert memory.after_power_loss(random.Random(0), 0.0, 0.0).read(path) == b""
    memory.sync(handle)
    assert memory.after_power_loss(random.Random(0), 0.0, 0.0).read(path) == b"data"


def test_flipped_bits_are_detected_in_files_and_checkpoints() -> None:
    assert passed(damage.bit_flips(0, seed=1, count=300))
    assert passed(damage.checkpoint_flips(0, seed=1, count=60))


def test_damaged_and_foreign_files_are_refused() -> None:
    assert passed(damage.files(0, seed=1, count=50))


def test_hostile_files_are_refused() -> None:
    assert passed(fuzz.loader(0, seed=1, count=2_000))


def test_hostile_inputs_end_with_one_line() -> None:
    assert passed(inputs.hostile(0, seed=1, size=2**22, names=("blank lines, gzip",)))


def test_bad_values_do_no_lasting_damage() -> None:
    assert len(CLASSES) == 85
    assert passed(bad_values.ours(0, seed=1, names=list(CLASSES)[::6]))


def test_bad_values_delay_no_detector() -> None:
    assert passed(bad_values.detectors(0.4, seed=0))


def test_bursts_of_flipped_labels_cost_little() -> None:
    assert passed(attack.forced_resets(0, seed=1, count=1))


def test_bad_batches_are_refused_in_a_long_run() -> None:
    refused = endurance.soak(0, seed=1, rows=60_000).figures["bad batches refused"]
    assert refused == "6 of 6"


def test_results_do_not_depend_on_splits_and_restarts() -> None:
    assert passed(endurance.determinism(0, seed=1, processes=False))


def test_repeated_rows_have_to_begin_where_a_process_resumed(tmp_path: Path) -> None:
    rows = [{"row": n} for n in range(10)]
    (tmp_path / "run.notes").write_text("take 0\ntake 3\ntake 6\nresume 3\ntake 3\ntake 6\n")

    def wrong(numbers: list[int], broker_kills: int = 0) -> str:
        return connectors._wrong_repeats(tmp_path / "run", rows, [rows[n] for n in numbers], broker_kills)

    whole = list(range(10))
    assert not wrong(whole)
    assert not wrong([*range(5), *range(3, 10)])
    assert "missing" in wrong(whole[:-1])
    assert "no process resumed there" in wrong([*range(5), *range(4, 10)])
    assert "0 brokers" in wrong([*range(8), *range(6, 10)])
    assert not wrong([*range(8), *range(6, 10)], broker_kills=1)


def test_without_brokers_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        """A server that is not installed."""

        def __init__(self, folder: Path, options: str = "") -> None:
            pytest.skip("no broker is installed")

    usage = connectors.SYSTEMS["redis"][0]
    monkeypatch.setattr(connectors, "SYSTEMS", {"redis": (usage, Missing)})
    monkeypatch.setattr(connectors, "_warm", lambda place: None)
    before = signal.getsignal(signal.SIGTERM)
    try:
        outcome = connectors.killed(0, seed=1, kills=5)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "skipped" in outcome.line()


def test_a_failed_case_is_saved(tmp_path: Path) -> None:
    outcome = Outcome("a proof", seed=3)
    assert not outcome.check(False, {"bit": 7})
    assert '"bit": 7' in (tmp_path / "failures" / "a-proof-3-1.json").read_text()
    assert "FAILED" in outcome.line()


def test_the_goal_table_resumes_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RESULTS", tmp_path)
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger.jsonl")
    monkeypatch.setattr(ledger, "commit", lambda: "abc")
    parts = ledger.goal(["power", "bits"], seed=0)
    assert [part.proof for part in parts] == ["bits"] + ["power"] * 10
    assert len({part.seed for part in parts[1:]}) == 10
    assert ledger.finished() == {}
    first, second = Outcome("power loss", 0, 5, figures={"drawn": 7, "x": "y"}), Outcome("power loss", 1, 6, failed=1)
    ledger.keep(parts[1], first)
    with ledger.LEDGER.open("a") as file:
        file.write('{"commit": "abc", "pa')  # torn by a kill
    ledger.keep(parts[2], second)
    assert ledger.finished() == {parts[1]: first, parts[2]: second}
    (total,) = ledger.summed([first, Outcome("power loss", 2, 4, figures={"drawn": 3, "x": "z"})])
    assert (total.tried, total.figures) == (9, {"drawn": 10, "x": "z", "parts": 2})
    monkeypatch.setattr(ledger, "commit", lambda: "def")  # outcomes of other code do not count
    assert ledger.finished() == {}


def test_a_part_that_is_in_the_ledger_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RESULTS", tmp_path)
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger.jsonl")
    parts = [ledger.Part("full-disk", 0.005, seed) for seed in (0, 1)]
    ledger.keep(parts[0], Outcome("disk full", 0, tried=77))
    known, new = run_parts(parts, processes=1, kept=True)
    assert known.tried == 77
    assert (new.tried, new.failed) == (2, 0)
    assert ledger.finished().keys() == {*parts}


def test_every_proof_is_in_the_goal_table() -> None:
    assert ledger.GOAL.keys() == PROOFS.keys()


@pytest.mark.parametrize("learner", ["LinearSVM", "LinearRegression squared"])
def test_absurd_rows_do_no_lasting_damage_where_the_loss_is_quadratic(learner: str) -> None:
    make = bad_values.our_learners()[learner]
    for stream in (1, 8):
        usual = bad_values.usual_accuracy(make, stream)
        assert bad_values.verdict(make, "every other row: 1e6", stream, usual) == "taken"


def test_fuzzed_rows_are_accepted_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "A_FILE", 2_000)
    outcome = rows.fuzzed(scale=12 * 2_000 / rows.ROWS, seed=1)
    assert outcome.failed == 0
    assert outcome.figures["accepted"] > 12_000
    assert outcome.figures["skipped"] > 0


def test_a_command_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inputs, "LATE", 1.0)
    os.mkfifo(tmp_path / "silent.csv")
    ended = inputs.watched(["inspect", str(tmp_path / "silent.csv")], patience=0.02)
    assert ended.code == -signal.SIGKILL
