"""Keyed runs in one process: equal to separate learners, resumable, exact after kills."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keyed_rows import COLUMNS, OPTIONS, predictions, shops, write_rows
from tests.reliability import spark as cluster

import driftsurf
from driftsurf.core.files import FolderLock
from driftsurf.core.journal import read_lines
from driftsurf.data import ReadingOptions
from driftsurf.errors import ColumnWarning, InputError, LabelError, LockedError, OptionError, RunWarning, SourceError
from driftsurf.keyed import Columns, KeyedFolder, KeyedLearner, KeyedOptions, KeyRows, run_keyed
from driftsurf.keyed.local import LocalEngine
from driftsurf.keyed.run import KeyedJob
from driftsurf.spark.engine import SparkEngine


def visit_once(rows: Sequence[Sequence[Any]], key: str, learner: KeyedLearner) -> Any:
    own = [row for row in rows if row[0] == key]
    X = np.array([row[3:5] for row in own], np.float64)
    return learner.visit(key, None, KeyRows(np.array([row[1] for row in own]), X, [row[2] for row in own]))


def test_each_key_equals_a_single_visit(tmp_path: Path) -> None:
    rows = shops()
    source = write_rows(tmp_path / "shops.csv", rows)
    folder = run_keyed(str(source), tmp_path / "run", COLUMNS, OPTIONS, epoch=500)
    assert list(folder.epochs()) == [0, 1, 2]
    keys, predicted, journal = folder.keys(), predictions(folder), folder.read("journal")
    for key in ("s0", "s1", "s2", "s3"):
        visit = visit_once(rows, key, OPTIONS.learner(("price", "age")))
        assert keys[key]["digest"] == visit.summary.digest
        assert keys[key]["transitions"] == visit.summary.transitions > 0
        assert [predicted[key, at] for at in visit.sequence] == visit.predicted
        records = [text for own, text in zip(journal["key"], journal["record"], strict=True) if own == key]
        assert records == visit.decisions
        assert len(read_lines("".join(records))) == visit.summary.steps


def test_a_run_resumes_with_new_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "1.csv", shops(600))
    folder = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=400)
    before = predictions(folder)
    again = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=400)
    assert predictions(again) == before
    write_rows(tmp_path / "in" / "2.csv", shops(600, start=600))
    run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=400)
    whole = run_keyed(str(tmp_path / "in"), tmp_path / "whole", COLUMNS, OPTIONS, epoch=1000)
    assert predictions(folder) == predictions(whole)
    assert {key: entry["digest"] for key, entry in folder.keys().items()} == {
        key: entry["digest"] for key, entry in whole.keys().items()
    }


def test_duplicated_files_change_only_the_count_of_duplicates(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = shops(300)
    for name in ("1.csv", "2.csv"):
        write_rows(tmp_path / "in" / name, rows)
    doubled = run_keyed(str(tmp_path / "in"), tmp_path / "doubled", COLUMNS, OPTIONS)
    once = run_keyed(str(tmp_path / "in" / "1.csv"), tmp_path / "once", COLUMNS, OPTIONS)
    assert predictions(doubled) == predictions(once)
    assert sum(entry["duplicates"] for entry in doubled.keys().values()) == 300


def test_a_bad_row_quarantines_its_key_and_no_other(tmp_path: Path) -> None:
    rows = shops(400)
    next(row for row in rows if row[0] == "s1")[3] = ""
    strict = replace(OPTIONS, on_gap="quarantine")
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, strict)
    keys = folder.keys()
    assert (keys["s1"]["quarantine"], keys["s1"]["quarantine_column"]) == ("not_finite", "price")
    assert [key for key, entry in keys.items() if entry["quarantine"]] == ["s1"]
    assert keys["s1"]["refused"] == sum(row[0] == "s1" for row in rows)
    assert keys["s0"]["digest"] == visit_once(rows, "s0", strict.learner(("price", "age"))).summary.digest


def test_rows_without_key_or_sequence_or_readable_cells_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = shops(1500)
    rows[3][0], rows[4][1], rows[5][1], rows[1400][3] = "", "", 7.5, "oops"
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, OPTIONS, epoch=1200)
    assert folder.epochs() == {
        0: {"keys": 4, "late": 0, "rows": 1197, "unplaced": 3, "unreadable": 0},
        1: {"keys": 4, "late": 0, "rows": 299, "unplaced": 0, "unreadable": 1},
    }


def test_cells_of_unused_columns_do_not_matter(tmp_path: Path) -> None:
    rows = shops(200)
    rows[20][4] = math.inf
    whole = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "all", COLUMNS, KeyedOptions())
    assert whole.epochs()[0]["unreadable"] == 1
    one = KeyedOptions(features=("price",))
    folder = run_keyed(str(tmp_path / "a.csv"), tmp_path / "one", COLUMNS, one)
    assert (folder.epochs()[0]["unreadable"], folder.epochs()[0]["rows"]) == (0, 200)


def test_silent_keys_and_late_rows_are_dropped(tmp_path: Path) -> None:
    rows = [["a", at, at % 2, at % 2, 0.5, ""] for at in range(50)]
    rows += [["b", at, at % 2, at % 2, 0.5, ""] for at in range(50, 300)]
    rows += [["a", 60, 1, 1, 0.5, ""], ["a", 290, 1, 1, 0.5, ""]] + [["b", 300, 0, 0, 0.5, ""]] * 48
    source = write_rows(tmp_path / "a.csv", rows)
    epochs: list[tuple[int, Mapping[str, int]]] = []
    folder = run_keyed(
        str(source), tmp_path / "run", COLUMNS, OPTIONS, epoch=50, ttl=100, on_epoch=lambda *epoch: epochs.append(epoch)
    )
    table = folder.read("keys")
    entries = list(zip(table["key"], table["epoch"], table["rows"], table["expired"], strict=True))
    assert ("a", 4, 50, True) in entries
    assert entries[-2:] == [("a", 6, 1, False), ("b", 6, 251, False)]
    assert [counts["late"] for _, counts in epochs] == [0, 0, 0, 0, 0, 0, 1]


def test_keys_that_are_silent_at_the_end_are_dropped_once(tmp_path: Path) -> None:
    rows = [[7, 0, 1, 1, 0.5, ""], [8, 1000, 0, 0, 0.5, ""]]
    source = str(write_rows(tmp_path / "a.csv", rows))
    for _ in range(2):
        folder = run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, ttl=100)
        assert folder.keys()[7]["expired"]
        assert list(folder.epochs()) == [0, 1]


def test_a_run_that_was_killed_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops()))
    whole = run_keyed(source, tmp_path / "whole", COLUMNS, OPTIONS, epoch=100)
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from driftsurf.keyed.store import StateStore\n"
        "from driftsurf.keyed import run_keyed\n"
        "from keyed_rows import COLUMNS, OPTIONS\n"
        "keep, left = StateStore.keep, [int(sys.argv[3])]\n"
        "def dying(*given):\n"
        "    left[0] -= 1\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    keep(*given)\n"
        "    if left[0] == 1 and sys.argv[4] == 'after': os.kill(os.getpid(), signal.SIGKILL)\n"
        "StateStore.keep = dying\n"
        "run_keyed(sys.argv[1], Path(sys.argv[2]), COLUMNS, OPTIONS, epoch=100)\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    for epochs, when in ((1, "before"), (4, "after")):
        done = subprocess.run(
            [sys.executable, "-c", code, source, str(tmp_path / "run"), str(epochs), when],
            env={**os.environ, "PYTHONPATH": paths},
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
    folder = run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, epoch=100)
    assert predictions(folder) == predictions(whole)
    assert folder.read("keys") == whole.read("keys")


def test_late_labels_find_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rows = shops(200, n_keys=2)
    events = [[row[0], 2 * row[1], "", row[3], row[4], row[1]] for row in rows]
    events += [[row[0], 2 * row[1] + 21, row[2], "", "", row[1]] for row in rows]
    write_rows(path, sorted(events, key=lambda event: event[1]))
    columns = Columns("shop", "at", "bought", "note")
    options = KeyedOptions(classes=(0, 1), features=("price", "age"), batch_size=10, delay=50)
    folder = run_keyed(str(path), tmp_path / "run", columns, options, epoch=77)
    assert all(entry["waiting"] == 0 and entry["steps"] > 5 for entry in folder.keys().values())
    assert not any(entry["quarantine"] for entry in folder.keys().values())


def test_features_are_all_other_numeric_columns(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(30)))
    folder = run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions())
    assert folder.about()["learner"]["features"] == ["price", "age"]
    with pytest.raises(OptionError, match="features"):
        run_keyed(source, tmp_path / "other", Columns("price", "at", "bought", "age"), KeyedOptions())


def test_three_classes_are_learned_by_softmax_regression() -> None:
    about = KeyedOptions(classes=("a", "b", "c")).learner(("x",)).about()
    assert about["strategy"]["learner"].startswith("SoftmaxRegression")


def test_a_source_without_rows_is_an_error(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", []))
    with pytest.raises(SourceError):
        run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions())


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        (OPTIONS, {"engine": "flink"}, "local, spark"),
        (OPTIONS, {"master": "local"}, "'master'.*epoch"),
        (OPTIONS, {"engine": LocalEngine(), "epoch": 3}, "epoch"),
        (OPTIONS, {"epoch": 0}, "epoch"),
        (OPTIONS, {"ttl": -1}, "ttl"),
        (KeyedOptions(delay=3), {}, "ids"),
        (OPTIONS, {"engine": SparkEngine(), "reading": ReadingOptions(decimal=",")}, "decimal"),
        (OPTIONS, {"engine": SparkEngine(), "reading": ReadingOptions(date_formats=("%d.%m.%Y",))}, "date_formats"),
        (OPTIONS, {"engine": SparkEngine(partitions=0)}, "partitions"),
    ],
)
def test_invalid_options_are_named_before_anything_is_written(
    tmp_path: Path, options: KeyedOptions, more: dict[str, Any], message: str
) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(10)))
    with pytest.raises(OptionError, match=message):
        run_keyed(source, tmp_path / "run", COLUMNS, options, **more)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
def test_the_stream_of_the_cluster_proof_has_duplicates_and_a_bad_label(tmp_path: Path) -> None:
    n_rows = cluster.write_stream(tmp_path / "in", files=3, rows=200)
    columns = Columns("key", "at", "label")
    options = KeyedOptions(classes=(0, 1), batch_size=16)
    whole = run_keyed(str(tmp_path / "in"), tmp_path / "a", columns, options, epoch=10**6)
    parts = run_keyed(str(tmp_path / "in"), tmp_path / "b", columns, options, epoch=150)
    assert cluster.complete_epochs(tmp_path / "b") == len(parts.epochs()) > 3
    assert cluster.differences(parts, whole) == []
    assert len(predictions(whole)) == n_rows
    assert whole.keys()[cluster.POISONED]["quarantine"]
    seeded = run_keyed(str(tmp_path / "in"), tmp_path / "c", columns, KeyedOptions(classes=(0, 1), batch_size=8))
    assert len(cluster.differences(seeded, whole)) > 3


def test_the_cluster_proof_is_skipped_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    outcome = cluster.kills(0.1, 0)
    assert "is not installed" in outcome.skipped
    assert outcome.tried == 0


def test_a_run_that_fails_before_its_first_epoch_leaves_no_folder(tmp_path: Path) -> None:
    def fail(epoch: int, counts: Any) -> None:
        raise RuntimeError("stop")

    source = str(write_rows(tmp_path / "a.csv", shops(200)))
    with pytest.raises(RuntimeError):  # the first epoch is complete
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, on_epoch=fail)
    assert (tmp_path / "run").exists()
    with pytest.raises(MemoryError):
        run_keyed(source, tmp_path / "other", COLUMNS, OPTIONS, engine=FailingEngine())
    assert not (tmp_path / "other").exists()


def test_labels_that_come_late_in_the_first_rows_are_read_as_numbers(tmp_path: Path) -> None:
    rows = [["s0", i, "" if i < 1100 else i * 7 % 11 + 0.5, i * 7 % 11, 1.0, ""] for i in range(1200)]
    source, options = str(write_rows(tmp_path / "a.csv", rows)), KeyedOptions(features=("price", "age"))
    assert run_keyed(source, tmp_path / "run", COLUMNS, options).regression
    with pytest.raises(LabelError, match=r"'bought'.* 1,000 "):
        run_keyed(source, tmp_path / "other", COLUMNS, options, epoch=1000)
    assert not (tmp_path / "other").exists()
    folder = run_keyed(source, tmp_path / "other", COLUMNS, options, epoch=1000, task="regression")
    table = folder.read("predictions")
    labels = [(at, true) for at, true in zip(table["sequence"], table["true"], strict=True) if true is not None]
    assert labels == [(row[1], row[2]) for row in rows[1100:]]
    named = replace(options, classes=(0, 1))
    assert not run_keyed(source, tmp_path / "named", COLUMNS, named, epoch=1000).regression


def test_a_run_that_resumes_warns_of_files_that_it_passes_over(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "2.csv", shops(50))
    run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS)
    write_rows(tmp_path / "in" / "1.csv", shops(50, start=50))
    with pytest.warns(RunWarning, match=r"2\.csv"):
        folder = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS)
    assert len(predictions(folder)) == 50


def test_a_folder_that_another_process_has_made_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out, opened = str(write_rows(tmp_path / "a.csv", shops(50))), tmp_path / "run", KeyedFolder.open
    other: list[FolderLock] = []

    def late(self: KeyedFolder, *given: Any) -> bool:
        opened(self, *given)
        other.append(FolderLock(out))  # the other process was faster
        if failure is not None:
            raise failure
        return opened(self, *given)

    monkeypatch.setattr(KeyedFolder, "open", late)
    for failure in (None, MemoryError()):
        with pytest.raises(LockedError if failure is None else MemoryError):
            run_keyed(source, out, COLUMNS, OPTIONS)
        assert (out / "run.json").exists()
        other.pop().release()
        shutil.rmtree(out)


def test_a_run_that_learned_nothing_is_an_error_and_is_removed_under_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "a.csv", [["s0", 1e17 + i, i % 2, 0.5, 1.0, ""] for i in range(20)])
    run: dict[str, Any] = {"key": "shop", "sequence": "at", "label": "bought", "out": tmp_path / "run"}
    locks: list[FolderLock] = []

    def hold(folder: KeyedFolder) -> dict[Any, Any]:
        locks.append(FolderLock(folder.path))  # another process, once the run is over
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(KeyedFolder, "keys", hold)
        with pytest.raises(InputError, match="'at'"):
            driftsurf.run(source, **run)
    assert (tmp_path / "run").exists()
    locks.pop().release()
    with pytest.raises(InputError, match="'at'"):
        driftsurf.run(source, **run)
    assert not (tmp_path / "run").exists()


class FailingEngine(LocalEngine):
    """Fails after the folder was opened."""

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Open the folder and fail."""
        KeyedFolder(job.out).open("failing", job.learner, {})
        (job.out / "state").mkdir()
        (job.out / "state" / "part").write_text("x")
        raise MemoryError


def test_a_run_is_not_resumed_with_files_that_it_has_not_learned(tmp_path: Path) -> None:
    first, other = (str(write_rows(tmp_path / name, shops(200))) for name in ("a.csv", "b.csv"))
    run_keyed(first, tmp_path / "run", COLUMNS, OPTIONS)
    with pytest.raises(SourceError, match=r"a\.csv.*b\.csv"):
        run_keyed(other, tmp_path / "run", COLUMNS, OPTIONS)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(SourceError, match=r"a\.csv.*exists"):
        run_keyed(other, tmp_path / "run", COLUMNS, OPTIONS)


def test_a_column_that_gives_the_label_away_is_pointed_out(tmp_path: Path) -> None:
    rows = [
        f"s{i % 3},{i},{i * 37 % 11},{i * 7 % 5 > 1},{'no' if i * 7 % 5 > 1 else 'yes'},{i * 7 % 5 > 1:d}\n"
        for i in range(90)
    ]
    (tmp_path / "a.csv").write_text("k,t,x,leak,word,y\n" + "".join(rows))
    run: dict[str, Any] = {"key": "k", "sequence": "t", "label": "y"}
    with pytest.warns(ColumnWarning, match="'leak'.*drop"):
        driftsurf.run(tmp_path / "a.csv", **run, out=tmp_path / "run")
    with pytest.warns(ColumnWarning, match="'word'.*features"):
        driftsurf.run(tmp_path / "a.csv", **run, features=("x", "word"), out=tmp_path / "words")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        driftsurf.run(tmp_path / "a.csv", **run, drop=["leak"], out=tmp_path / "good")
