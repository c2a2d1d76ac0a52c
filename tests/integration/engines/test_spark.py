"""Keyed runs on real Spark: identical to one process, with kills, duplicated files and a bad label."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: run make test-engines")

from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.reliability.spark import (
    POISONED,
    command,
    differences,
    environment,
    kill,
    start,
    wait_for_epochs,
    write_stream,
)

from driftsurf.core.files import FENCE, FolderLock
from driftsurf.data import ReadingOptions
from driftsurf.data.reading_options import Kind
from driftsurf.data.row_encoder import Target
from driftsurf.errors import LockedError, OptionError, SchemaError, SourceError, StateError
from driftsurf.keyed import Columns, KeyedFolder, KeyedOptions, KeyRows, run_keyed
from driftsurf.keyed.grouping import DerivedColumns
from driftsurf.keyed.models import keyed_strategy
from driftsurf.keyed.outcomes import Outcomes
from driftsurf.spark import learn_keys, read_files, run_spark, session, table, with_derived

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
COLUMNS = Columns("key", "at", "label")
LEARNER = KeyedOptions(classes=(0, 1), batch_size=16, threshold=0.2, step_size=0.1).learner(("a", "b", "c"))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session("local[2]", partitions=2, **{"spark.ui.enabled": "false"})
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KeyedFolder]:
    """Return files, and the run of one process over them."""
    place = tmp_path_factory.mktemp("stream")
    write_stream(place / "in")
    subprocess.run(command(place / "in", place / "whole"), check=True, env=environment(), stdout=subprocess.DEVNULL)
    return place / "in", KeyedFolder(place / "whole")


def reading(spark: SparkSession, source: Path, files_per_epoch: int | None = 2) -> Any:
    names = [str(path) for path in source.glob("*")]
    return read_files(spark, str(source), names, files_per_epoch=files_per_epoch)


# ---------------------------------------------------------------------------- before the shared session


def test_the_driver_can_be_killed_at_any_time_and_resumed_with_other_workers(
    stream: tuple[Path, KeyedFolder], tmp_path: Path
) -> None:
    source, whole = stream
    chance, out, kills = random.Random(0), tmp_path / "run", 0
    options = ("--engine", "spark", "--partitions", "2", "--epoch", "1")
    for workers in (1, 3):  # a restart can have another number of workers
        process = start(command(source, out, *options, "--master", f"local[{workers}]"), tmp_path / "log")
        alive = wait_for_epochs(process, out, chance.randint(0, 2), chance.uniform(0.0, 1.0))
        kill(process)
        kills += alive
    subprocess.run(command(source, out, *options, "--master", "local[2]"), check=True, env=environment())
    assert kills == 2
    assert differences(KeyedFolder(out), whole) == []


# ---------------------------------------------------------------------------- with it


def test_spark_and_one_process_are_identical(
    spark: SparkSession, stream: tuple[Path, KeyedFolder], tmp_path: Path
) -> None:
    source, whole = stream
    (tmp_path / "in").mkdir()
    names = sorted(source.glob("*"))
    for name in names[:4]:
        shutil.copy2(name, tmp_path / "in")
    run_spark(reading(spark, tmp_path / "in"), tmp_path / "run", LEARNER, COLUMNS)
    for name in names[4:]:
        shutil.copy2(name, tmp_path / "in")
    folder = run_spark(reading(spark, tmp_path / "in"), tmp_path / "run", LEARNER, COLUMNS)
    assert differences(folder, whole) == []
    scores = Outcomes.read(folder).scores
    assert len(scores) > 10
    assert scores == Outcomes.read(whole).scores
    keys = folder.keys()
    assert [key for key, entry in keys.items() if entry["quarantine"]] == [POISONED]
    assert keys[POISONED]["refused"] > 0
    assert sum(entry["duplicates"] for entry in keys.values()) == 2 * 600
    assert sum(entry["transitions"] for entry in keys.values()) > 10
    before = folder.epochs()
    run_spark(reading(spark, tmp_path / "in"), tmp_path / "run", LEARNER, COLUMNS)
    assert folder.epochs() == before
    other = replace(LEARNER, seed=5)
    with pytest.raises(StateError, match=r"learner\.seed"):
        run_spark(reading(spark, tmp_path / "in"), tmp_path / "run", other, COLUMNS)


def test_a_run_whose_folder_is_locked_or_was_taken_over_writes_nothing(
    spark: SparkSession, stream: tuple[Path, KeyedFolder], tmp_path: Path
) -> None:
    source, whole = stream
    out = tmp_path / "run"

    def take_over(epoch: int, counts: Mapping[str, int]) -> None:
        # Network storage may hand out the lock a second time: the fencing number tells.
        fence = json.loads((out / FENCE).read_text())
        (out / FENCE).write_text(json.dumps(fence | {"number": fence["number"] + 1}))

    with pytest.raises(LockedError, match="taken over"):
        run_spark(reading(spark, source), out, LEARNER, COLUMNS, on_epoch=take_over)
    assert len(KeyedFolder(out).epochs()) == 1
    with FolderLock(out), pytest.raises(LockedError, match="locked"):
        run_spark(reading(spark, source), out, LEARNER, COLUMNS)
    assert len(KeyedFolder(out).epochs()) == 1
    assert differences(run_spark(reading(spark, source), out, LEARNER, COLUMNS), whole) == []


def test_a_run_is_identical_after_its_keys_were_regrouped_into_other_buckets(
    spark: SparkSession, stream: tuple[Path, KeyedFolder], tmp_path: Path
) -> None:
    source, whole = stream
    (tmp_path / "in").mkdir()
    names, out = sorted(source.glob("*")), tmp_path / "run"

    def resume(first: int, last: int, **options: Any) -> KeyedFolder:
        for name in names[first:last]:
            shutil.copy2(name, tmp_path / "in")
        return run_spark(reading(spark, tmp_path / "in", 1), out, LEARNER, COLUMNS, **options)

    def break_off(epoch: int, counts: Mapping[str, int]) -> None:
        raise RuntimeError("an end before Spark has committed the epoch")

    resume(0, 3, buckets=3)
    with pytest.raises(StateError, match=r"3 buckets.*rebucket=7"):
        resume(3, 3, buckets=7)
    with pytest.raises(StreamingQueryException, match="committed"):
        resume(3, 5, rebucket=7, on_epoch=break_off)
    assert len(list((out / "rebucketed").iterdir())) == 7
    with pytest.raises(StateError, match=r"rebucket=7.*changes to 2"):
        resume(5, 5, rebucket=2)
    folder = resume(5, 6, rebucket=7)
    assert folder.about()["buckets"] == {"number": 7, "generation": 1, "earlier": 0}
    assert not (out / "rebucketed").exists()
    folder = resume(6, 7, rebucket=2)
    assert folder.about()["buckets"] == {"number": 2, "generation": 2, "earlier": 0}
    states = spark.read.format("statestore").option("stateVarName", "bucket").load(str(out / "checkpoint"))
    assert states.count() == 2
    assert differences(resume(7, len(names)), whole) == []


def test_learning_with_another_number_of_buckets_is_refused(
    spark: SparkSession, stream: tuple[Path, KeyedFolder], tmp_path: Path
) -> None:
    source, _ = stream
    (tmp_path / "in").mkdir()
    names = sorted(source.glob("*"))
    for number, buckets in enumerate([4, 5]):
        shutil.copy2(names[number], tmp_path / "in")
        visits = learn_keys(reading(spark, tmp_path / "in"), LEARNER, COLUMNS, buckets=buckets)
        writer = visits.writeStream.outputMode("update").format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if number:
            with pytest.raises(StreamingQueryException, match=r"4 buckets.*5"):
                query.awaitTermination()
        else:
            query.awaitTermination()


def test_another_model_over_files_with_gaps_is_identical(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    for number in range(2):
        X = rng.normal(size=(300, 2)).round(3).astype(str)
        y = (X[:, 0].astype(float) > 0) == (number == 0)
        X[::9, 0] = rng.choice(["", "NA", "nan", "?"], size=len(X[::9]))
        X[50, 1], X[60, 1] = ("oops", "inf") if number else X[[50, 60], 1]
        lines = [f"k{i % 3};{300 * number + i};{int(y[i])};{X[i, 0]};{X[i, 1]}\n" for i in range(300)]
        path = tmp_path / "in" / f"{number}.csv"
        path.write_text("key;at;label;a;b\n" + "".join(lines))
        os.utime(path, (1.7e9 + number,) * 2)
    strategy = keyed_strategy("ddm", "sklearn.tree:DecisionTreeClassifier", "binary", {"max_depth": 3})
    options = KeyedOptions(strategy=strategy, classes=(0, 1), batch_size=20)
    whole = run_keyed(str(tmp_path / "in"), tmp_path / "whole", COLUMNS, options)
    names = [str(path) for path in (tmp_path / "in").glob("*")]
    with pytest.raises(SchemaError, match="delimiter"):
        run_spark(
            read_files(spark, str(tmp_path / "in"), names), tmp_path / "run", options.learner(("a", "b")), COLUMNS
        )
    reading = ReadingOptions(delimiter=";")
    kinds: dict[str, Kind] = {"label": "number", "a": "number", "b": "number"}
    frame = read_files(spark, str(tmp_path / "in"), names, files_per_epoch=1, kinds=kinds, reading=reading)
    folder = run_spark(frame, tmp_path / "run", options.learner(("a", "b")), COLUMNS)
    assert differences(folder, whole) == []
    assert [sum(entry[name] for entry in folder.keys().values()) for name in ("rows", "gaps")] == [598, 68]
    assert whole.epochs()[0]["unreadable"] == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("classes", [(0, 1), None])
def test_spark_reads_gaps_and_drops_rows_as_one_process_does(
    spark: SparkSession, tmp_path: Path, form: str, classes: tuple[int, ...] | None
) -> None:
    rng = np.random.default_rng(0)
    n = 900
    x = rng.normal(size=n)
    table = {
        "key": rng.integers(1, 4, size=n).astype(object),
        "at": np.arange(n).astype(object),
        "label": (x > 0).astype(float).astype(object),
        "x.y": x.astype(object),
        "open": np.where(rng.random(n) < 0.5, "true", "False").astype(object),
        "unused": np.full(n, 1.0).astype(object),
    }
    words = {"nan": "NAN", "gap": "NA", "what": "?"} if form == "csv" else dict.fromkeys(("nan", "gap", "what"))
    infinite: Any = "inf" if form == "csv" else np.inf
    table["x.y"][[5, 6, 7, 8]] = words["nan"], words["gap"], infinite, float("nan") if form == "parquet" else "oops"
    table["open"][::10], table["open"][3] = words["gap"], words["what"]
    table["label"][[50, 51, 52]] = words["gap"], float("nan"), infinite
    table["key"][60], table["at"][61] = words["gap"], words["what"]
    table["unused"][70] = infinite
    source = tmp_path / "in" / f"a[1].{form}"
    source.parent.mkdir()
    (source.parent / f"b.{form}").write_text("another file")
    if form == "csv":
        lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        source.write_text("\n".join([",".join(table), *lines]) + "\n")
    else:
        table["open"] = np.array([None if cell is None else cell == "true" for cell in table["open"]], object)
        parquet.write_table(pa.table({name: cells.tolist() for name, cells in table.items()}), source)
    options = KeyedOptions(features=("x.y", "open"), classes=classes, batch_size=16, step_size=0.1)
    whole = run_keyed(str(source), tmp_path / "whole", COLUMNS, options)
    kinds: dict[str, Kind] = {"key": "number", "at": "number", "label": "number", "x.y": "number", "open": "boolean"}
    frame = read_files(spark, str(source), [str(source)], kinds=kinds, whole=("key", "at"))
    folder = run_spark(frame, tmp_path / "run", options.learner(("x.y", "open")), COLUMNS)
    assert differences(folder, whole) == []
    dropped = 3 if form == "csv" else 2
    assert sum(entry["rows"] for entry in folder.keys().values()) == n - dropped - 2
    assert sum(entry["scored"] for entry in folder.keys().values()) > 200
    assert not any(entry["quarantine"] for entry in folder.keys().values())
    assert whole.epochs()[0]["unreadable"] == dropped
    assert {type(value) for value in folder.read("predictions")["true"]} == {int if classes else float, type(None)}


def test_a_csv_file_without_a_header_line_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.csv"
    source.write_text("".join(f"k{i % 2},{i},{i % 7 / 2},{i % 3 == 0:d}\n" for i in range(90)))
    columns = Columns("column_1", "column_2", "column_4")
    assert len(run_keyed(str(source), tmp_path / "local", columns, KeyedOptions()).keys()) == 2
    monkeypatch.setattr("driftsurf.spark.session", lambda *args, **options: Kept(spark))
    with pytest.raises(SourceError, match=r"a\.csv.*header.*engine='local'"):
        run_keyed(str(source), tmp_path / "run", columns, KeyedOptions(), engine="spark")
    assert not (tmp_path / "run").exists()


class Kept:
    """A session that other tests still need, so that it is not stopped."""

    def __init__(self, spark: SparkSession) -> None:
        self.read, self.readStream = spark.read, spark.readStream

    def stop(self) -> None:
        """Do nothing."""


def test_questions_and_text_are_derived_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in" / "a.csv"
    source.parent.mkdir()
    cities = "Rome", "Oslo", "", "Lima"
    lines = [f"k{i % 2},{i},{i % 7},{cities[i % 4]},{'' if i % 50 == 9 else (i % 4) - 1.5}" for i in range(300)]
    source.write_text("\n".join(["key,at,x,city,delay", *lines]) + "\n")
    columns, options = Columns("key", "at", "delay > 0"), KeyedOptions(features=("x", "city"), batch_size=16)
    whole = run_keyed(str(source), tmp_path / "whole", columns, options)
    derived = DerivedColumns("delay > 0", Target("delay", "binary", ">", "0"), {"city": ("Lima", "Oslo", "Rome")})
    kinds: dict[str, Kind] = {"key": "text", "at": "number", "x": "number", "city": "text", "delay": "number"}
    frame = read_files(spark, str(source), [str(source)], kinds=kinds, whole=("at",))
    learner = options.learner(derived.features(["x", "city"]))
    folder = run_spark(with_derived(frame, derived, kinds), tmp_path / "run", learner, columns)
    assert differences(folder, whole) == []
    assert {type(value) for value in folder.read("predictions")["true"]} == {bool, type(None)}


def test_regression_takes_any_numeric_type(spark: SparkSession) -> None:
    rows = [("k", at, at % 7, float(at % 7)) for at in range(60)]
    frame = spark.createDataFrame(rows, "key string, at bigint, label int, a double")
    learner = KeyedOptions(strategy=keyed_strategy(task="regression"), batch_size=10).learner(("a",))
    own = KeyRows(np.arange(60), np.array([[row[3]] for row in rows]), [row[2] for row in rows])
    visits = learn_keys(frame, learner, COLUMNS)
    visit = learner.visit("k", None, own)
    assert [row["prediction"] for row in table(visits, "predictions").collect()] == visit.predicted
    assert [row["digest"] for row in table(visits, "keys").collect()] == [visit.summary.digest]
    with pytest.raises(SchemaError, match="'key'"):
        learn_keys(frame, learner, Columns("key", "at", "key"))


def test_a_static_frame_is_one_visit(spark: SparkSession, stream: tuple[Path, KeyedFolder]) -> None:
    source, whole = stream
    visits = learn_keys(spark.read.parquet(str(source)), LEARNER, COLUMNS)
    found = {row["key"]: row["digest"] for row in table(visits, "keys").collect()}
    assert found == {key: entry["digest"] for key, entry in whole.keys().items()}
    assert table(visits, "journal").columns == ["key", "sequence", "transitions", "record"]
    with pytest.raises(OptionError, match="learn_keys"):
        run_spark(spark.read.parquet(str(source)), source, LEARNER, COLUMNS)


def test_late_labels_timestamps_and_integer_keys(spark: SparkSession) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    events: list[Any] = [(5, 1000 * (2 * i), i, X[i].tolist(), None) for i in range(80)]
    events += [(5, 1000 * (2 * i + 9), i, [None, None], bool(X[i, 0] > 0)) for i in range(80)]
    rows = [(key, at / 1e6, id_, *x, label) for key, at, id_, x, label in events]
    frame = spark.createDataFrame(rows, "k int, t double, i int, a double, b double, y boolean")
    frame = frame.withColumn("t", frame["t"].cast("timestamp"))
    learner = KeyedOptions(classes=(False, True), batch_size=10, delay=50_000).learner(("a", "b"))
    columns = Columns("k", "t", "y", "i")
    (entry,) = table(learn_keys(frame, learner, columns), "keys").collect()
    events.sort(key=lambda event: event[1])
    visit = learner.visit(
        5,
        None,
        KeyRows(
            np.array([event[1] for event in events]),
            np.array([event[3] for event in events], np.float64),
            [event[4] for event in events],
            [event[2] for event in events],
        ),
    )
    assert entry["digest"] == visit.summary.digest
    assert entry["steps"] == 8


@pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
@pytest.mark.parametrize("buckets", [1, 5])
def test_silent_keys_and_late_rows_are_dropped_as_in_one_process(
    spark: SparkSession, tmp_path: Path, buckets: int
) -> None:
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):
        keys = rng.integers(12, size=80) // (1 + number % 3)  # some keys are silent for two files
        at = 1_000 * number + np.sort(rng.choice(1_000, size=80, replace=False))
        at[7] -= 2_500 * (number > 3)  # late
        X = rng.normal(size=(80, 3))
        columns = {"key": keys, "at": at, "label": (X[:, 0] > 0).astype(int)} | dict(zip("abc", X.T, strict=True))
        path = tmp_path / "in" / f"{number}.parquet"
        parquet.write_table(pa.table(columns), path)
        os.utime(path, (1.7e9 + number,) * 2)
    options = KeyedOptions(classes=(0, 1), batch_size=8, features=("a", "b", "c"))
    whole = run_keyed(str(tmp_path / "in"), tmp_path / "whole", COLUMNS, options, ttl=1_500, epoch=80)
    learner = options.learner(("a", "b", "c"))
    for _ in range(2):  # the second run finds nothing new
        frame = reading(spark, tmp_path / "in", 1)
        folder = run_spark(frame, tmp_path / "run", learner, COLUMNS, ttl=1_500, buckets=buckets)
    assert differences(folder, whole) == []
    assert {entry["expired"] for entry in folder.keys().values()} == {True, False}
    late = [sum(epoch.get("late", 0) for epoch in run.epochs().values()) for run in (folder, whole)]
    assert late == [2, 2]


@pytest.mark.parametrize(
    ("columns", "features", "message"),
    [
        (Columns("none", "at", "label"), ("a",), "none"),
        (Columns("a", "at", "label"), ("a",), "'a'.*bigint or string"),
        (Columns("key", "a", "label"), ("a",), "'a'.*bigint or timestamp"),
        (Columns("key", "at", "label"), ("a", "key"), "'key'"),
    ],
)
def test_columns_of_the_wrong_type_are_named(
    spark: SparkSession, columns: Columns, features: tuple[str, ...], message: str
) -> None:
    frame = spark.createDataFrame([("k", 1, 0, 0.5)], "key string, at bigint, label int, a double")
    with pytest.raises(SchemaError, match=message):
        learn_keys(frame, KeyedOptions().learner(features), columns)


def test_files_that_spark_cannot_read_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"\.csv"):
        read_files(spark, str(tmp_path), ["a.arff"])


def test_the_example_in_the_documentation_runs(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (code,) = [block for block in blocks if "spark" in block]
    rows = [(f"s{i % 3}", i, float(i % 2), i % 2) for i in range(30)]
    frame = spark.createDataFrame(rows, "shop string, at bigint, price double, bought int")
    frame.write.parquet(str(tmp_path / "shops"))
    names: dict[str, Any] = {}
    exec(code.replace('"shops"', repr(str(tmp_path / "shops"))), names)
    assert names["predictions"].isStreaming
    assert names["keys"].columns[:3] == ["key", "rows", "steps"]
