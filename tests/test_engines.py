"""Keyed runs in one process: tables of epochs, going on, and what the command line shows of them."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet
from torture import spark as torture_spark

from driftsurf.cli import main
from driftsurf.engines import Columns, KeyedFolder, KeyedLearner, KeyedOptions, KeyRows, run_keyed
from driftsurf.engines._rows import by_key
from driftsurf.engines.local import StateStore, run_local
from driftsurf.engines.tables import fitted
from driftsurf.errors import (
    LockedError,
    MissingExtraError,
    OptionError,
    RunFolderError,
    SourceError,
    StateError,
    ValueTypeError,
)
from driftsurf.journal import read_lines
from driftsurf.report import fleet as report
from driftsurf.runtime import disk, files
from driftsurf.runtime.files import FolderLock
from driftsurf.sources import Dialect, Source
from driftsurf.tables import read_table

COLUMNS = Columns("shop", "at", "bought")
OPTIONS = KeyedOptions(features=("price", "age"), classes=(0, 1), batch_size=10, step_size=0.1, threshold=0.2)


def write_rows(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["shop", "at", "bought", "price", "age", "note"], *rows])
    return path


def shops(n: int = 1200, n_keys: int = 4, start: int = 0) -> list[list[Any]]:
    """What the price means turns around half-way."""
    rng = np.random.default_rng(start)
    rows: list[list[Any]] = []
    for at in range(start, start + n):
        shop, price, age = int(rng.integers(n_keys)), round(rng.normal(), 3), round(rng.normal(), 3)
        rows.append([f"s{shop}", at, int((price > 0) == (at < start + n // 2)), price, age, "x"])
    return rows


def alone(rows: Sequence[Sequence[Any]], key: str, learner: KeyedLearner) -> Any:
    own = [row for row in rows if row[0] == key]
    X = np.array([row[3:5] for row in own], np.float64)
    return learner.visit(key, None, KeyRows(np.array([row[1] for row in own]), X, [row[2] for row in own]))


def predictions(folder: KeyedFolder) -> dict[tuple[Any, int], Any]:
    table = folder.read("predictions")
    found = list(zip(table["key"], table["sequence"], table["predicted"], strict=True))
    assert len({row[:2] for row in found}) == len(found), "a row was predicted twice"
    return {(key, at): label for key, at, label in found}


# ---------------------------------------------------------------------------- a run


def test_each_key_is_what_it_would_be_alone(tmp_path: Path) -> None:
    rows = shops()
    source = write_rows(tmp_path / "shops.csv", rows)
    folder = run_keyed(str(source), tmp_path / "run", COLUMNS, OPTIONS, epoch=500)
    assert list(folder.epochs()) == [0, 1, 2]
    keys, told, journal = folder.keys(), predictions(folder), folder.read("journal")
    for key in ("s0", "s1", "s2", "s3"):
        visit = alone(rows, key, OPTIONS.learner(("price", "age")))
        assert keys[key]["digest"] == visit.digest
        assert keys[key]["transitions"] == visit.summary.transitions > 0
        assert [told[key, at] for at in visit.sequence] == visit.predicted
        records = [text for own, text in zip(journal["key"], journal["record"], strict=True) if own == key]
        assert records == visit.decisions
        assert len(read_lines("".join(records))) == visit.summary.steps


def test_a_run_goes_on_with_what_is_new(tmp_path: Path) -> None:
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


def test_duplicated_files_change_nothing_but_the_count(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = shops(300)
    for name in ("1.csv", "2.csv"):
        write_rows(tmp_path / "in" / name, rows)
    doubled = run_keyed(str(tmp_path / "in"), tmp_path / "doubled", COLUMNS, OPTIONS)
    once = run_keyed(str(tmp_path / "in" / "1.csv"), tmp_path / "once", COLUMNS, OPTIONS)
    assert predictions(doubled) == predictions(once)
    assert sum(entry["duplicates"] for entry in doubled.keys().values()) == 300


def test_a_poisoned_key_is_alone_in_quarantine(tmp_path: Path) -> None:
    rows = shops(400)
    next(row for row in rows if row[0] == "s1")[3] = ""
    strict = replace(OPTIONS, on_gap="quarantine")
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, strict)
    keys = folder.keys()
    assert keys["s1"]["quarantine"].startswith("NonFiniteError")
    assert [key for key, entry in keys.items() if entry["quarantine"]] == ["s1"]
    assert keys["s1"]["refused"] == sum(row[0] == "s1" for row in rows)
    assert keys["s0"]["digest"] == alone(rows, "s0", strict.learner(("price", "age"))).digest


def test_rows_without_key_or_place_or_sense_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = shops(1500)
    rows[3][0], rows[4][1], rows[5][1], rows[1400][3] = "", "", 7.5, "oops"
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, OPTIONS, epoch=1200)
    assert folder.epochs() == {
        0: {"keys": 4, "late": 0, "rows": 1197, "unplaced": 3, "unreadable": 0},
        1: {"keys": 4, "late": 0, "rows": 299, "unplaced": 0, "unreadable": 1},
    }


def test_what_a_column_holds_that_is_not_used_does_not_matter(tmp_path: Path) -> None:
    rows = shops(200)
    rows[20][4] = math.inf
    whole = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "all", COLUMNS, KeyedOptions())
    assert whole.epochs()[0]["unreadable"] == 1
    one = KeyedOptions(features=("price",))
    folder = run_keyed(str(tmp_path / "a.csv"), tmp_path / "one", COLUMNS, one)
    assert (folder.epochs()[0]["unreadable"], folder.epochs()[0]["rows"]) == (0, 200)


def test_silent_keys_are_given_up_and_late_rows_dropped(tmp_path: Path) -> None:
    rows = [["a", at, at % 2, at % 2, 0.5, ""] for at in range(50)]
    rows += [["b", at, at % 2, at % 2, 0.5, ""] for at in range(50, 300)]
    rows += [["a", 60, 1, 1, 0.5, ""], ["a", 290, 1, 1, 0.5, ""]] + [["b", 300, 0, 0, 0.5, ""]] * 48
    source = write_rows(tmp_path / "a.csv", rows)
    epochs: list[tuple[int, Mapping[str, int]]] = []
    folder = run_keyed(
        str(source), tmp_path / "run", COLUMNS, OPTIONS, epoch=50, ttl=100, on_epoch=lambda *told: epochs.append(told)
    )
    table = folder.read("keys")
    entries = list(zip(table["key"], table["epoch"], table["rows"], table["expired"], strict=True))
    assert ("a", 4, 50, True) in entries
    assert entries[-2:] == [("a", 6, 1, False), ("b", 6, 251, False)]
    assert [counts["late"] for _, counts in epochs] == [0, 0, 0, 0, 0, 0, 1]


def test_keys_that_are_silent_at_the_end_are_given_up_once(tmp_path: Path) -> None:
    rows = [[7, 0, 1, 1, 0.5, ""], [8, 1000, 0, 0, 0.5, ""]]
    source = str(write_rows(tmp_path / "a.csv", rows))
    for _ in range(2):
        folder = run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, ttl=100)
        assert folder.keys()[7]["expired"]
        assert list(folder.epochs()) == [0, 1]


def test_killed_in_any_epoch_a_run_loses_and_doubles_nothing(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops()))
    whole = run_keyed(source, tmp_path / "whole", COLUMNS, OPTIONS, epoch=100)
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from driftsurf.engines.local import StateStore\n"
        "from driftsurf.engines import run_keyed\n"
        "from test_engines import COLUMNS, OPTIONS\n"
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


def test_late_labels_reach_their_rows(tmp_path: Path) -> None:
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


# ---------------------------------------------------------------------------- rows by key


def test_keys_may_be_numbers_and_places_may_be_dates() -> None:
    learner = KeyedOptions(features=("x", "on"), batch_size=5).learner(("x", "on"))
    table = read_table(
        {
            "k": [3, 1, 3, None],
            "t": np.array(["2024-01-02", "2024-01-01", "NaT", "2024-01-01"], "datetime64[us]"),
            "x": [1.0, 2.0, 3.0, 4.0],
            "on": [True, False, True, True],
            "y": ["yes", None, "no", "no"],
        }
    )
    given = by_key(table, learner, Columns("k", "t", "y"), None)
    assert list(given.rows) == [1, 3]
    assert given.rows[1].y == [None]
    assert given.rows[3].X.tolist() == [[1.0, 1.0]]
    assert given.rows[3].sequence.tolist() == [1_704_153_600_000_000]
    assert given.types == ("int64", "string")
    assert given.counts == {"unplaced": 2, "late": 0}


@pytest.mark.parametrize(
    ("label", "classes", "kind", "values"),
    [
        ([True, None], None, "bool_", [True, None]),
        ([1, 2.5], None, "float64", [1, 2.5]),
        ([1, 2], (1, 2), "int64", [1, 2]),
        (np.array(["2024-01-02", "NaT"], "datetime64[us]"), None, "string", ["2024-01-02T00:00:00.000000", None]),
    ],
)
def test_labels_keep_their_kind(label: Any, classes: Any, kind: str, values: list[Any]) -> None:
    learner = KeyedOptions(classes=classes).learner(("x",))
    table = read_table({"k": ["a", "a"], "t": [0, 1], "x": [1.0, 2.0], "y": label})
    given = by_key(table, learner, Columns("k", "t", "y"), None)
    assert given.types == ("string", kind)
    assert given.rows["a"].y == values


@pytest.mark.parametrize(
    ("columns", "features", "message"),
    [
        (Columns("b", "t", "y"), ("x",), "keys are whole numbers, or text"),
        (Columns("k", "k", "y"), ("x",), "sequence numbers are whole numbers"),
        (Columns("k", "t", "y"), ("k",), "the feature 'k' is text, and a learner for each key takes numbers"),
    ],
)
def test_columns_of_the_wrong_kind_are_told(columns: Columns, features: tuple[str, ...], message: str) -> None:
    table = read_table({"k": ["a", "b"], "t": [0, 1], "x": [1.0, 2.0], "y": [0, 1], "b": [True, False]})
    with pytest.raises((ValueTypeError, OptionError), match=message):
        by_key(table, KeyedOptions().learner(features), columns, None)


# ---------------------------------------------------------------------------- options and folders


def test_features_are_all_other_numbers(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(30)))
    folder = run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions())
    assert folder.about()["learner"]["features"] == ["price", "age"]
    with pytest.raises(OptionError, match="no column of numbers"):
        run_keyed(source, tmp_path / "other", Columns("price", "at", "bought", "age"), KeyedOptions())


def test_three_classes_are_learnt_by_softmax_regression() -> None:
    about = KeyedOptions(classes=("a", "b", "c")).learner(("x",)).about()
    assert about["strategy"]["learner"].startswith("SoftmaxRegression")


def test_a_source_without_rows_is_told(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", []))
    with pytest.raises(SourceError):
        run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions())


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        (OPTIONS, {"engine": "flink"}, "'local', 'spark'"),
        (OPTIONS, {"master": "local"}, "for the engine 'spark'"),
        (OPTIONS, {"epoch": 0}, "epoch"),
        (OPTIONS, {"ttl": -1}, "ttl"),
        (KeyedOptions(delay=3), {}, "by id"),
        (OPTIONS, {"engine": "spark", "dialect": Dialect(decimal=",")}, "decimal is for the engine 'local'"),
        (OPTIONS, {"engine": "spark", "dialect": Dialect(date_formats=("%d.%m.%Y",))}, "date_formats is for the"),
    ],
)
def test_bad_options_are_told(tmp_path: Path, options: KeyedOptions, more: dict[str, Any], message: str) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(10)))
    with pytest.raises(OptionError, match=message):
        run_keyed(source, tmp_path / "run", COLUMNS, options, **more)
    assert not (tmp_path / "run").exists()


def test_a_run_is_gone_on_with_by_the_same_options_only(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    with pytest.raises(StateError, match=r"learner\.batch_size was 10 and is 32"):
        run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions(features=("price", "age"), classes=(0, 1)))
    with pytest.raises(StateError, match=r"columns\.ttl was None and is 5"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, ttl=5)
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(told | {"format": 99}))
    with pytest.raises(StateError, match="format 99"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    with pytest.raises(RunFolderError, match="no keyed run"):
        run_keyed(source, tmp_path, COLUMNS, OPTIONS)


def test_one_process_at_a_time_works_on_a_run(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    lock = FolderLock(tmp_path / "run")
    with pytest.raises(LockedError):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    lock.release()


def test_an_epoch_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.sqlite")
    learner = OPTIONS.learner(("price", "age"))
    visit = learner.visit("a", None, KeyRows(np.arange(3), np.ones((3, 2)), [0, 1, 0]))
    store.keep({"a": visit}, store.progress())
    with pytest.raises(TypeError):
        store.keep({"b": visit}, store.progress()._replace(position=object()))
    assert store.get("b") is None
    assert store.get("a") == visit.state
    store.close()


def test_the_table_of_keys_is_kept_compact_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        write_rows(tmp_path / "in" / f"{number}.csv", shops(300, n_keys=4 - number, start=300 * number))
        folder = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=100)
        before = folder.keys()
        assert folder.compact() == before
        assert folder.keys() == before
    assert (before["s3"]["epoch"], before["s0"]["epoch"]) == (2, 5)
    (tmp_path / "run" / "keys.parquet").unlink()
    assert folder.keys() == before


def test_a_repeated_epoch_takes_the_place_of_what_was_shown_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path / "a.csv", shops(90))
    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "keep", _die)
        with pytest.raises(KeyboardInterrupt):
            run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    folder = KeyedFolder(tmp_path / "run")
    assert sum(entry["rows"] for entry in folder.compact().values()) == 90
    write_rows(path, shops(300))
    with monkeypatch.context() as patch:
        patch.setattr(KeyedFolder, "mark", _die)
        with pytest.raises(KeyboardInterrupt):
            run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    assert folder.epochs() == folder.keys() == {}
    run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    assert sum(entry["rows"] for entry in folder.keys().values()) == 300
    assert len(predictions(folder)) == 300


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


class _Names(disk.Disk):
    """Knows the folders with names that may not be on the medium."""

    def __init__(self) -> None:
        self.unsafe: set[Path] = set()

    def create(self, path: Path) -> int:
        self.unsafe.add(path.parent)
        return super().create(path)

    def remove(self, path: Path) -> None:
        self.unsafe.add(path.parent)
        super().remove(path)

    def replace(self, old: Path, new: Path) -> None:
        self.unsafe |= {old.parent, new.parent}
        super().replace(old, new)

    def make_folder(self, path: Path) -> None:
        self.unsafe |= {one.parent for one in (path, *path.parents) if not one.exists()}
        super().make_folder(path)

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.unsafe.discard(path)


def test_all_of_an_epoch_is_on_the_medium_before_its_mark_and_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(300)))
    keep, names, seen = StateStore.keep, _Names(), list[set[Path]]()
    write_text, out = files.write_text, tmp_path / "new" / "er" / "run"

    def marked(path: Path, text: str) -> None:
        seen.append(names.unsafe - {path.parent})
        write_text(path, text)

    def kept(*given: Any) -> None:
        seen.append(set(names.unsafe))
        keep(*given)

    monkeypatch.setattr(StateStore, "keep", kept)
    with disk.using(names):
        run_keyed(source, out, COLUMNS, OPTIONS, epoch=100)
        shutil.rmtree(out / "epochs")
        (out / "state.sqlite").unlink()
        (out / "journal" / "epoch=00000000" / ".part-0.parquet.half").touch()
        monkeypatch.setattr(files, "write_text", marked)
        folder = run_keyed(source, out, COLUMNS, OPTIONS, epoch=100)
    assert seen == [set()] * (3 + 6)
    assert len(folder.read("journal")["key"]) > 20
    assert [path.name for path in (out / "journal" / "epoch=00000000").iterdir()] == ["part-0.parquet"]


def test_a_store_that_cannot_be_opened_lets_go_of_the_folder(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    (tmp_path / "run" / "state.sqlite").write_bytes(b"something else" * 1000)
    for _ in range(2):
        with pytest.raises(StateError, match=r"state\.sqlite.*cannot be used"):
            run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)


def test_half_an_epoch_is_not_shown(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(100)))
    folder = run_local(Source(source, batch_size=50), tmp_path / "run", OPTIONS.learner(("price", "age")), COLUMNS)
    (tmp_path / "run" / "epochs" / "00000001.json").unlink()
    assert len(predictions(folder)) == 50


def test_tables_need_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visit = OPTIONS.learner(("price", "age")).visit("a", None, KeyRows(np.arange(1), np.ones((1, 2)), [0]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="tables of a keyed run need pyarrow"):
        KeyedFolder(tmp_path).write(0, {"a": visit}, ("string", "int64"), {})


def test_spark_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.delitem(sys.modules, "driftsurf.engines.spark", raising=False)
    source = str(write_rows(tmp_path / "a.csv", shops(10)))
    with pytest.raises(MissingExtraError, match=r"driftsurf\[spark\]"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, engine="spark")


# ---------------------------------------------------------------------------- command line and page


def invoke(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [(("low", "mid", "high"), "--classes low,mid,high"), ((0.5, 1.5, 2.5), "with --task regression")],
)
def test_a_run_that_learns_nothing_fails_and_says_what_to_do(
    tmp_path: Path, labels: tuple[Any, ...], remedy: str
) -> None:
    rows = [[f"s{i % 2}", i, float(i % 7), labels[i // 2 % 3]] for i in range(90)]
    source = tmp_path / "a.csv"
    source.write_text("shop,at,price,grade\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    columns = ("--key", "shop", "--sequence", "at", "--label", "grade")
    result = invoke("run", source, *columns, "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "all 2 keys are in quarantine" in result.stderr
    assert remedy in result.stderr
    assert "begin anew, with another --out" in result.stderr
    assert "error ," not in result.output
    if "--classes" in remedy:
        good = invoke("run", source, *columns, "--out", tmp_path / "other", "--classes", "low,mid,high")
        assert good.exit_code == 0
        assert "quarantine)" not in good.stderr


def test_the_command_runs_shows_and_draws(tmp_path: Path) -> None:
    rows = shops()
    rows[900][3] = ""
    source = write_rows(tmp_path / "a.csv", rows)
    out = tmp_path / "run"
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--features", "price, age")
    options = (
        "--on-gap",
        "quarantine",
        "--classes",
        "0,1",
        "--batch-size",
        10,
        "--step-size",
        "0.1",
        "--threshold",
        0.2,
        "--epoch",
        500,
    )
    result = invoke("run", source, *columns, *options, "--out", out)
    assert result.exit_code == 0, result.output
    assert "epoch 2: 4 keys, 200 rows" in result.output
    assert "4 keys, " in result.output
    assert "1 in quarantine" in result.output
    assert "warning: 1 of 4 keys learn no more (quarantine)" in result.stderr
    page = (out / "fleet.html").read_text()
    assert "Which keys drifted when" in page
    assert 'class="changed"' in page
    (out / "fleet.html").unlink()
    shown = invoke("fleet", out, "--limit", 2)
    assert "... and 2 more keys" in shown.output
    assert (out / "fleet.html").read_text() == page
    key, at = rows[900][0], rows[900][1]
    again = invoke("run", source, *columns, *options, "--out", out, "--readmit", f"{key}={at}", "--quiet")
    assert again.exit_code == 0
    assert "epoch 2" not in again.output


@pytest.mark.parametrize(("as_text", "known", "unknown"), [(True, "007", "7"), (False, "7", "007"), (True, "a=b", "a")])
def test_keys_are_readmitted_as_they_are_shown(tmp_path: Path, as_text: bool, known: str, unknown: str) -> None:
    key = known if as_text else int(known)
    frame = pa.table({"k": [key] * 40, "t": range(40), "x": [*([0.5] * 19), math.nan, *([0.5] * 20)], "y": [0, 1] * 20})
    (tmp_path / "in").mkdir()
    parquet.write_table(frame.slice(0, 30), tmp_path / "in" / "0.parquet")
    columns = ("--key", "k", "--sequence", "t", "--label", "y", "--on-gap", "quarantine")
    run = ("run", tmp_path / "in", *columns, "--out", tmp_path / "run")
    early = invoke(*run, "--readmit", f"{known}=19")
    assert early.exit_code != 0
    assert not (tmp_path / "run").exists()
    assert "--readmit" in invoke(*run).stderr  # its only key is in quarantine
    parquet.write_table(frame.slice(30), tmp_path / "in" / "1.parquet")
    wrong = invoke(*run, "--readmit", f"{unknown}=19")
    assert wrong.exit_code != 0
    assert f"has no key {unknown} to readmit" in wrong.output
    folder = KeyedFolder(tmp_path / "run")
    assert folder.keys()[key]["quarantined_at"] == 19
    assert invoke(*run, "--readmit", f"{known}=19").exit_code == 0
    assert (folder.keys()[key]["quarantine"], folder.keys()[key]["refused"]) == ("", 11 + 19)


def test_text_is_read_as_it_is_said_and_columns_are_told(tmp_path: Path) -> None:
    rows = [
        f"s{i % 2};{1 + i % 28:02d}.{1 + i // 28:02d}.2020;{i % 3 % 2};{str(i % 7 - 3.5).replace('.', ',')};t{i}"
        for i in range(90)
    ]
    rows[7] = "s1;08.01.2020;-;0,5;t7"
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["shop;at;bought;price;note", *rows]) + "\n")
    columns = ("run", source, "--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1")
    said = ("--decimal", ",", "--date-format", "%d.%m.%Y", "--missing", "-")
    told = invoke(*columns, *said, "--out", tmp_path / "run")
    assert told.exit_code == 0, told.output
    assert [line.split() for line in told.output.splitlines()[:3]] == [
        ["numbers", "price"],
        ["left", "out", "note"],
        ["label", "bought:", "0,", "1", "(binary)"],
    ]
    assert "warning" not in told.stderr  # a column that is left out need not be dropped
    entries = KeyedFolder(tmp_path / "run").keys()
    assert [entry["rows"] for entry in entries.values()] == [45, 45]
    assert sum(entry["scored"] for entry in entries.values()) == 89
    again = invoke(*columns, *said, "--out", tmp_path / "run")
    assert "numbers" not in again.output
    hinted = invoke(*columns, *said[2:], "--out", tmp_path / "other", "--features", "price")
    assert hinted.exit_code == 1
    assert "the feature 'price' is text" in hinted.stderr
    source.write_text(source.read_text().replace("note", "mark").replace(";t", ";1"))
    guessed = invoke(*columns, *said[2:], "--out", tmp_path / "guess")
    assert "the column 'price' was taken for text, and looks like numbers ('-3,5'): try --decimal ," in guessed.stderr


def test_keys_over_their_bound_are_told_what_to_do_and_then_learn_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "0.csv", shops(400, 1))
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1", "--quiet")
    run = ("run", tmp_path / "in", *columns, "--out", tmp_path / "run")
    told = invoke(*run, "--max-bytes", 100)
    assert told.exit_code == 1
    assert "Give a larger --max-bytes, and forgive keys with --readmit." in told.stderr
    write_rows(tmp_path / "in" / "1.csv", shops(400, 1, 400))
    assert invoke(*run, "--max-bytes", 10**6, "--readmit", "s0=31").exit_code == 0
    assert KeyedFolder(tmp_path / "run").keys()["s0"]["steps"] == 12


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--batch-size", "x"), "neither a number of rows nor 'epoch'"),
        (("--step-size", "x"), "neither a number nor 'auto'"),
        (("--readmit", "x"), "KEY=SEQUENCE"),
        (("--checkpoint", "live"), "--checkpoint is not for a learner for each key (--key); states are always kept"),
        (("--overwrite",), "--overwrite is not for a learner for each key (--key); give another --out"),
        (("--metrics", "90"), "--metrics is not for a learner for each key (--key); leave it out"),
        (("--set", "l2"), "give --set KEY=VALUE"),
        (("--master", "local[2]"), "--master and --partitions are for --engine spark"),
        (("--engine", "dask"), "'dask' is not one of 'local', 'spark'"),
    ],
)
def test_wrong_command_lines_are_told(tmp_path: Path, option: tuple[str, ...], message: str) -> None:
    args = ("--key", "k", "--sequence", "s", "--label", "y", "--out", tmp_path / "run")
    result = invoke("run", "x.csv", *args, *option)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.csv", "--engine", "spark"], "--engine is for a learner for each key; give --key COLUMN and --sequence"),
        (["x.csv", "--engine", "local"], "--engine is for a learner for each key; give --key COLUMN"),
        (["x.csv", "--master", "yarn"], "--master is for a learner for each key; give --key COLUMN"),
        (["x.csv", "--id", "i"], "--id is for a learner for each key; give --key COLUMN"),
        (["x.csv", "--batch-size", "epoch"], "--batch-size epoch is for a learner for each key"),
        (["x.csv", "--delay", "1.5"], "--delay in units of the sequence is for a learner for each key"),
        (
            ["x.csv", "--labels", "y.csv", "--key", "k", "--ttl", "5"],
            "--ttl is for a learner for each key; leave --lab",
        ),
        (["x.csv", "--key", "k"], "--key without --labels is a learner for each key; it needs --sequence too"),
        (["x.csv", "--key", "k", "--sequence", "s"], "it needs --label too"),
        (["x.csv", "--key", "k", "--sequence", "s", "--label", "y"], "it needs --out too"),
        (["-", "--key", "k", "--sequence", "s", "--label", "y", "--out", "o"], "--key reads files"),
        (["sea0", "--key", "k", "--sequence", "s"], "is for a file, a folder or standard input, not for 'sea0'"),
        (["sea0", "--batch-size", "epoch"], "--batch-size epoch is for a learner for each key"),
    ],
)
def test_options_of_a_run_by_key_need_its_key(arguments: list[str], message: str) -> None:
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_the_options_of_a_run_by_key_reach_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr("driftsurf.engines.run_keyed", lambda *args, **more: told.append((args, more)))

    def show(*args: Any) -> dict[Any, Any]:
        told.append(args)
        return {}

    monkeypatch.setattr("driftsurf.cli.keyed.show_keys", show)
    columns = (
        "--key",
        "k",
        "--sequence",
        "s",
        "--label",
        "y",
        "--id",
        "i",
        "--delay",
        "2.5",
        "--classes",
        "none,1,true",
    )
    engine = ("--engine", "spark", "--master", "local[2]", "--partitions", 3, "--epoch", 4, "--ttl", 9, "--quiet")
    learnt = ("--batch-size", 8, "--max-rows", 64, "--max-bytes", 4096, "--l2", 0.1, "--seed", 2, "--delimiter", ";")
    rest = ("--max-pending", 9, "--readmit", "a=b=7", "--out", "o")
    result = invoke("run", "x.csv", *columns, *engine, *learnt, *rest)
    assert result.exit_code == 0, result.output
    (args, more), shown = told
    assert callable(more.pop("on_columns"))
    assert args[:3] == ("x.csv", Path("o"), Columns("k", "s", "y", "i"))
    assert replace(args[3], strategy=None) == KeyedOptions(
        classes=("none", 1, True),
        batch_size=8,
        delay=2.5,
        max_pending=9,
        max_bytes=4096,
        seed=2,
        readmit={"a=b": 7},
    )
    assert (args[3].strategy.max_rows, args[3].strategy.learner.l2) == (64, 0.1)
    assert more == {
        "engine": "spark", "master": "local[2]", "partitions": 3, "epoch": 4, "ttl": 9.0, "on_epoch": None,
        "dialect": Dialect(delimiter=";")
    }  # fmt: skip
    assert shown == (Path("o"), 20)


def test_a_run_by_key_can_be_written_down(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(100))
    words = ("--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1", "--features", "price,age")
    out, config = tmp_path / "run", tmp_path / "shops.toml"
    for more in ((), ("--write-config", config)):
        result = invoke("run", source, *words, "--engine", "local", "--batch-size", "epoch", "--out", out, *more)
        assert result.exit_code == 0, result.output
    before = sorted((out / "epochs").iterdir())
    assert invoke("run", config).exit_code == 0  # the same options: it goes on, and there is nothing new
    assert sorted((out / "epochs").iterdir()) == before
    assert invoke("run", config, "--threshold", 0.5).exit_code == 1


def test_a_time_step_may_be_an_epoch(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(100))
    args = ("--key", "shop", "--sequence", "at", "--label", "bought", "--batch-size", "epoch", "--epoch", 25)
    result = invoke("run", source, *args, "--classes", "true,false", "--out", tmp_path / "run", "--quiet")
    assert result.exit_code == 0
    table = KeyedFolder(tmp_path / "run").read("predictions")
    assert set(table["predicted"]) <= {0, 1}  # as the labels are, whatever the classes were called


def test_what_is_no_keyed_run_is_told(tmp_path: Path) -> None:
    result = invoke("fleet", tmp_path)
    assert result.exit_code == 1
    assert "not the folder of a keyed run" in result.output
    (tmp_path / "run.json").write_text("{}")
    assert "no whole epoch" in invoke("fleet", tmp_path).output
    assert invoke("fleet", "--help").exit_code == 0


def entry(**more: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(("rows", "scored", "errors", "duplicates", "refused", "transitions", "bytes"), 10),
        "state": "stable",
        "quarantine": "",
        "expired": False,
        "error": 0.5,
        "high_water": 100,
        "last_transition": "",
        "last_transition_at": None,
        **more,
    }


def test_many_keys_share_lines_of_the_map() -> None:
    keys = {k: entry() for k in range(500)}
    changes = [report.Change(k, 50, "switched") for k in range(0, 500, 2)] + [report.Change(1, 90, "entered,greedy")]
    page = report.render("many", keys, [*changes, report.Change(2, 95, "greedy")])
    assert page.count('class="changed"') == 30 + 1  # and one in the legend
    assert page.count('class="entered"') == 1 + 1
    assert "+8" in page or "+7" in page


def test_a_map_without_changes_is_drawn_and_bad_names_are_escaped() -> None:
    keys = {"<b>": entry(error=None, scored=0, high_water=None), "c": entry(expired=True, scored=0)}
    page = report.render("<x>", keys, [])
    assert "<b>" not in page.replace("<b>2</b>", "").replace("<b>", "", page.count("</b>"))
    assert "expired" in page
    late = report.heat_map({1: entry(high_water=10**6)}, [report.Change(1, 10**6 - 5, "switched")])
    assert "999,995" in late


def test_the_proof_on_a_cluster_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    outcome = torture_spark.kills(0.1, 0)
    assert "is not installed" in outcome.skipped
    assert outcome.tried == 0


def test_the_stream_of_the_proof_is_doubled_and_poisoned_and_compared(tmp_path: Path) -> None:
    n_rows = torture_spark.write_stream(tmp_path / "in", files=3, rows=200)
    columns = Columns("key", "at", "label")
    options = KeyedOptions(classes=(0, 1), batch_size=16)
    whole = run_keyed(str(tmp_path / "in"), tmp_path / "a", columns, options, epoch=10**6)
    parts = run_keyed(str(tmp_path / "in"), tmp_path / "b", columns, options, epoch=150)
    assert torture_spark.marked(tmp_path / "b") == len(parts.epochs()) > 3
    assert torture_spark.differences(parts, whole) == []
    assert len(predictions(whole)) == n_rows
    assert whole.keys()[torture_spark.POISONED]["quarantine"]
    seeded = run_keyed(str(tmp_path / "in"), tmp_path / "c", columns, KeyedOptions(classes=(0, 1), batch_size=8))
    assert len(torture_spark.differences(seeded, whole)) > 3


def test_a_value_of_another_kind_is_none_in_a_table_never_a_near_one() -> None:
    assert fitted([True, np.int64(2), 2.0, 2.7, math.nan, "3", None], "int64") == [1, 2, 2, None, None, None, None]
    assert fitted([True, 0, 1.0, 0.5, "no", "", math.nan, None], "bool_") == [True, False, True] + [None] * 5
    assert fitted([True, 2, 0.5, math.inf, "0.5", None], "float64") == [1.0, 2.0, 0.5, math.inf, None, None]
    assert fitted(["a", None], "string") == ["a", None]


def test_times_are_dates_where_the_sequence_is(tmp_path: Path) -> None:
    days = np.datetime64("2025-06-29T10:00") + np.arange(400) * np.timedelta64(30, "m")
    lines = [
        f"{day},{'a-city-with-a-long-name' if i % 2 else 'b'},{i % 5},{int((i % 5 > 2) != (i > 200))}\n"
        for i, day in enumerate(days)
    ]
    (tmp_path / "a.csv").write_text("at,city,x,y\n" + "".join(lines))
    columns = ("--key", "city", "--sequence", "at", "--label", "y")
    result = invoke("run", tmp_path / "a.csv", *columns, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "2025-07-0" in result.output
    page = (tmp_path / "run" / "fleet.html").read_text()
    assert 'text-anchor="start">2025-06-29<' in page
    assert "a-city-with-a-long-..." in page
    assert ",000,000" not in page
    entry = {"high_water": int(days[3].astype("datetime64[us]").astype(np.int64))}
    assert ">2025-06-29 10:00<" in report.heat_map({"a": entry}, [], start=1751191200000000, dates=True)
    assert f"driftsurf fleet {tmp_path / 'run'}" in invoke("explain", tmp_path / "run").output
    (tmp_path / "journal.jsonl").write_text("")
    assert f"driftsurf explain {tmp_path}" in invoke("fleet", tmp_path).output
