"""Rows per second of keyed learners on Spark, compared with a trivial function with as much state, and ``Fleet``."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._state import STATE
from benchmarks.fleet import N_FEATURES, STEP_SIZE, stream
from benchmarks.harness import Contender, Contest
from driftsurf import Fleet
from driftsurf.keyed import Columns, KeyedOptions, KeyRows

N_KEYS = 200, 10_000
ROWS_A_VISIT = 1, 10, 100, 500
FEATURES = tuple(f"x{column}" for column in range(N_FEATURES))
COLUMNS = Columns("key", "at", "label")
TOTALS = "key bigint, total double"
AS_FLEET: dict[str, Any] = {"threshold": 0.3, "reactive_length": 4, "significance": 0.0, "max_rows": 128}
"""Options with which a key is learned as a fleet learns it, which is measured beside."""
LEARNER = KeyedOptions(classes=(False, True), step_size=STEP_SIZE, **AS_FLEET).learner(FEATURES)


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each number of keys; a round is one epoch."""
    functions = {"keyed learners": _learners, "trivial": _rows}
    for n_keys, n_rows, on_spark in epochs_on_spark(functions, quick, note):
        contenders = [*on_spark, _visits(n_keys, n_rows), _fleet(n_keys, n_rows)]
        yield Contest(f"{n_keys:,} keys, {N_FEATURES} columns", "row", on_spark[1].name, contenders)


def state_api(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest of a trivial function with each of Spark's interfaces for state per key."""
    functions = {
        "applyInPandasWithState": _groups,
        "transformWithStateInPandas": _frames,
        "transformWithState (rows)": _rows,
    }
    for n_keys, _, on_spark in epochs_on_spark(functions, quick, note):
        yield Contest(f"{n_keys:,} keys, {len(STATE):,} bytes each", "row", on_spark[-1].name, on_spark)


def visit(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest of visits to keys without Spark, by the number of rows; the sample sets of the keys are full."""
    contenders = [_visits_of(rows, 20 if quick else 200) for rows in ROWS_A_VISIT]
    yield Contest(f"a visit to a key, {N_FEATURES} columns", "visit", contenders[0].name, contenders)


def _visits_of(rows: int, n_keys: int) -> Contender:
    states: dict[int, bytes] = {}
    at = itertools.count(step=1_000)

    def prepare() -> list[KeyRows]:
        first = next(at)
        sizes = rows if states else 8 * 32
        _, X, y = stream(n_keys, n_keys * sizes, first // 1_000)
        parts = zip(np.split(X.astype(np.float64), n_keys), np.split(y, n_keys), strict=True)
        given = [KeyRows(first + np.arange(sizes), own, labels.tolist()) for own, labels in parts]
        if states:
            return given
        run(given)
        return prepare()

    def run(given: list[KeyRows]) -> None:
        for key, own in enumerate(given):
            states[key] = LEARNER.visit(key, states.get(key), own).state

    def remark(_: None) -> str:
        return f"{np.mean([len(state) for state in states.values()]):,.0f} bytes a key"

    return Contender(f"{rows} row{'s' * (rows > 1)}", n_keys, prepare, run, remark)


def epochs_on_spark(
    functions: Mapping[str, Callable[[Any], Any]], quick: bool, note: Callable[[str], None]
) -> Iterator[tuple[int, int, list[Contender]]]:
    """Yield, for each number of keys, the number, the rows of an epoch, and a contender for each function."""
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing or shutil.which("java") is None:
        note(f"spark: skipped, {', '.join(missing) or 'Java'} is not installed (make test-engines sets it up).")
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)
    from driftsurf.spark import session

    spark = session("local[2]", partitions=2, **{"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as place:
        for n_keys in N_KEYS[: 1 if quick else 2]:
            n_rows = 2_000 if quick else 100_000
            folders = {name: Path(place) / f"{n_keys}-{number}" for number, name in enumerate(functions)}
            yield (
                n_keys,
                n_rows,
                [_spark(name, make, spark, folders[name], n_keys, n_rows) for name, make in functions.items()],
            )
    spark.stop()


def _epochs(n_keys: int, n_rows: int) -> Callable[[], Any]:
    rounds = iter(range(1_000_000))

    def prepare() -> Any:
        number = next(rounds)
        keys, X, y = stream(n_keys, n_rows, number)
        return number, keys, X.astype(np.float64), y, number * n_rows + np.arange(n_rows)

    return prepare


def _spark(name: str, stateful: Callable[[Any], Any], spark: Any, folder: Path, n_keys: int, n_rows: int) -> Contender:
    """Return a contender on two cores, with the CPU seconds of the driver, Java and the Python workers."""
    (folder / "in").mkdir(parents=True)
    cpu: dict[str, float] = {}
    clock: list[float] = []

    def run(epoch: Any) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        from driftsurf.spark import read_files

        number, keys, X, y, at = epoch
        columns = {"key": keys, "at": at, "label": y, **{name: X[:, i] for i, name in enumerate(FEATURES)}}
        parquet.write_table(pa.table(columns), folder / "in" / f"{number:06d}.parquet")
        frame = read_files(spark, str(folder / "in"), ["a.parquet"])
        writer = stateful(frame).writeStream.outputMode("update").format("noop")
        before = _cpu_by_kind()
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        clock.append(query.recentProgress[0]["durationMs"]["addBatch"] / 1e3)
        cpu.update({kind: seconds - before[kind] for kind, seconds in _cpu_by_kind().items()})

    def remark(_: None) -> str:
        seconds = statistics.median(clock[1:] or clock)  # as of all figures, the first does not count
        shares = ", ".join(f"{kind} {spent:.1f} s" for kind, spent in cpu.items())
        return f"{seconds:.1f} s an epoch, {n_rows / seconds:,.0f} rows/s by the clock; CPU of the last: {shares}"

    elsewhere = lambda: sum(_cpu_by_kind().values())  # noqa: E731
    return Contender(f"Spark, {name}", n_rows, _epochs(n_keys, n_rows), run, remark, elsewhere)


class Spent(NamedTuple):
    """CPU time of a process."""

    begun: str
    """Start time, which distinguishes it from later processes with the same number."""
    kind: str
    seconds: float


_SPENT: dict[tuple[int, str], Spent] = {}


def _cpu_by_kind() -> dict[str, float]:
    """Return the CPU seconds of all descendants of this process: Java and the Python workers.

    Spark ends workers that are idle for a minute. Their time still counts, as last measured.
    """
    parents, spent = dict[int, int](), dict[int, Spent]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended
        values = rest.split()
        process = int(folder.name)
        parents[process] = int(values[1])
        seconds = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
        spent[process] = Spent(values[19], "Java" if "java" in name else "Python", seconds)
    for process in parents:
        above = parents[process]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            _SPENT[process, spent[process].begun] = spent[process]
    return {kind: sum(one.seconds for one in _SPENT.values() if one.kind == kind) for kind in ("Java", "Python")}


def _learners(frame: Any) -> Any:
    from driftsurf.spark import learn_keys

    return learn_keys(frame, LEARNER, COLUMNS)


def _rows(frame: Any) -> Any:
    from benchmarks._trivial import InRows

    return _by_key(frame).transformWithState(InRows(), TOTALS, "Update", "None")


def _frames(frame: Any) -> Any:
    from benchmarks._trivial import InFrames

    return _by_key(frame).transformWithStateInPandas(InFrames(), TOTALS, "Update", "None")


def _groups(frame: Any) -> Any:
    from benchmarks._trivial import in_groups

    return _by_key(frame).applyInPandasWithState(in_groups, TOTALS, "bytes binary", "update", "NoTimeout")


def _by_key(frame: Any) -> Any:
    """Return the columns that a learner receives."""
    from pyspark.sql import functions as F

    given = frame.select("key", F.col("at").alias("sequence"), F.array(*FEATURES).alias("features"), "label")
    return given.groupBy("key")


def _visits(n_keys: int, n_rows: int) -> Contender:
    """Return the same step without Spark on one core, with the parts of its time."""
    states: dict[int, bytes] = {}
    parts = {"opening": 0.0, "learning": 0.0, "closing": 0.0}

    def run(epoch: Any) -> None:
        _, keys, X, y, at = epoch
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order], prepend=-1, append=-1))
        for a, b in itertools.pairwise(bounds):
            own = order[a:b]
            key = int(keys[own[0]])
            rows = KeyRows(at[own], X[own], y[own].tolist())
            begin = time.perf_counter()
            state = states.get(key)
            states[key] = LEARNER.visit(key, state, rows).state
            if state is not None and key % 50 == 0:
                whole = time.perf_counter() - begin
                begin = time.perf_counter()
                serving = LEARNER._open(key, state)[1]
                opening = time.perf_counter() - begin
                serving.take(rows, _served())
                parts["opening"] += opening
                parts["learning"] += time.perf_counter() - begin - opening
                parts["closing"] += whole - (time.perf_counter() - begin)

    def remark(_: float) -> str:
        total = sum(parts.values()) or 1.0
        shares = ", ".join(f"{name} {part / total:.0%}" for name, part in parts.items())
        sizes = [len(state) for state in states.values()]
        return f"{len(states):,} keys of {np.mean(sizes):,.0f} bytes; {shares}"

    return Contender("the keyed step alone, one core", n_rows, _epochs(n_keys, n_rows), run, remark)


def _served() -> Any:
    from driftsurf.keyed.serving import ServedRows

    return ServedRows()


def _fleet(n_keys: int, n_rows: int) -> Contender:
    fleet = Fleet(n_features=N_FEATURES, step_size=STEP_SIZE, classes=(False, True), threads=1)

    def run(epoch: Any) -> None:
        _, keys, X, y, _ = epoch
        fleet.observe(keys, X, y)

    return Contender("Fleet, one thread", n_rows, _epochs(n_keys, n_rows), run)
