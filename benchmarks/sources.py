"""Speed and memory of reading, encoding and learning a large generated CSV file.

``python -m benchmarks.sources`` makes 300 MB in a temporary folder, ``--megabytes 3000`` more. Each contender
runs in a process of its own, so that the peak of its memory is its own; the anchor is pyarrow's streaming
reader alone, which knows neither lines nor bad rows nor positions. A small file is run before anything is timed, so
that start-up does not count. ``--plain`` makes ten columns of numbers, one of text and a label. Everything runs on one
thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import machine
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.encoding import TableEncoder
from driftsurf.runs import run

BATCH_ROWS = 10_000
MAKE_ROWS = 50_000
HEADER = "when,price,size,weight,clicks,member,city,product,label\n"
PLAIN_HEADER = ",".join([*(f"x{k}" for k in range(10)), "city", "label"]) + "\n"


def make(path: Path, megabytes: int, *, spoil: float = 0.0) -> int:
    """Write dates, numbers of several scales, booleans, names and missing values; return the number of rows."""
    rng = np.random.default_rng(0)
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        while file.tell() < megabytes * 1_000_000:
            moments = (np.datetime64("2007-01-01T00:00:00") + rows + np.arange(MAKE_ROWS)).astype(str)
            price, size, weight = rng.normal(1e6, 1e5, MAKE_ROWS), rng.random(MAKE_ROWS), rng.normal(size=MAKE_ROWS)
            clicks, member = rng.integers(0, 50, MAKE_ROWS), rng.random(MAKE_ROWS) < 0.3
            city, product = rng.integers(0, 30, MAKE_ROWS), rng.integers(0, 100_000, MAKE_ROWS)
            label = (size + rng.random(MAKE_ROWS)) > 1
            gap = rng.random(MAKE_ROWS) < 0.05
            bad = rng.random(MAKE_ROWS) < spoil
            file.writelines(
                f"{moments[i]},{'oops' if bad[i] else f'{price[i]:.2f}'},{'' if gap[i] else f'{size[i]:.6f}'},"
                f"{weight[i]:.4f},{clicks[i]},{'true' if member[i] else 'false'},city {city[i]},"
                f"P{product[i]:06d},{int(label[i])}\n"
                for i in range(MAKE_ROWS)
            )
            rows += MAKE_ROWS
    return rows


def make_plain(path: Path, megabytes: int) -> int:
    """Write ten columns of numbers, one of text and a label; return the number of rows."""
    rng = np.random.default_rng(0)
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(PLAIN_HEADER)
        while file.tell() < megabytes * 1_000_000:
            numbers, city = rng.normal(size=(MAKE_ROWS, 10)).round(4), rng.integers(0, 40, MAKE_ROWS)
            odds = 1.2 * numbers[:, 0] - numbers[:, 1] + np.sin(city)
            label = rng.random(MAKE_ROWS) < 1 / (1 + np.exp(-odds))
            for cells, place, positive in zip(numbers.tolist(), city.tolist(), label.tolist(), strict=True):
                file.write(f"{','.join(map(repr, cells))},city {place},{int(positive)}\n")
            rows += MAKE_ROWS
    return rows


def bare(path: str) -> int:
    """Read the file with pyarrow alone."""
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=False, block_size=2**20)
    return sum(len(batch) for batch in csv.open_csv(path, read_options=options))


def reader(path: str) -> int:
    """Read the file as tables with kinds, missing values and positions."""
    return sum(
        len(table) for table, _ in FileSource(path, ReadingOptions(on_bad_row="skip"), batch_size=BATCH_ROWS).tables()
    )


def encoder(path: str) -> int:
    """Read the file and encode it as rows for a learner."""
    encode = TableEncoder()
    rows = 0
    for table, _ in FileSource(path, ReadingOptions(on_bad_row="skip"), batch_size=BATCH_ROWS).tables():
        features = table.without("label")
        rows += encode.partial_fit(features).transform(features).shape[0]
        table.labels("label")
    return rows


def whole(path: str) -> int:
    """Run logistic regression over the file: read, encode, predict, score, learn, and write the run folder."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        trace = run(path, label="label", learner="logistic", on_bad_row="skip", out=out).trace
    return int(trace.columns["rows"].sum())


def measured(run: Callable[[str], int], path: str) -> tuple[float, float, int]:
    """Return CPU seconds, peak memory in MB and rows of a contender in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (run, path))


def _measure(run: Callable[[str], int], path: str) -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory() as folder:  # compiled and imported beforehand
        small = Path(folder) / "small.csv"
        (make_plain if _is_plain(path) else make)(small, 1)
        run(str(small))
    start = time.process_time()
    rows = run(path)
    seconds = time.process_time() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows


def _is_plain(path: str) -> bool:
    with Path(path).open(encoding="utf-8") as file:
        return file.readline() == PLAIN_HEADER


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300, help="size of the file; 300 if not given")
    parser.add_argument("--rounds", type=int, default=3, help="3 if not given")
    parser.add_argument("--spoil", type=float, default=0.0, help="share of bad rows; 0 if not given")
    parser.add_argument("--plain", action="store_true", help="numbers, one column of text and a label")
    options = parser.parse_args()
    contenders = {"pyarrow alone": bare, "source": reader, "source and encoder": encoder, "whole run": whole}
    if options.spoil:
        del contenders["pyarrow alone"]  # it stops at the first bad cell
    about = machine()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        if options.plain:
            rows = make_plain(path, options.megabytes)
        else:
            rows = make(path, options.megabytes, spoil=options.spoil)
        size = path.stat().st_size / 1e6
        results: dict[str, list[tuple[float, float, int]]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, run in contenders.items():
                results[name].append(measured(run, str(path)))
    columns = (PLAIN_HEADER if options.plain else HEADER).count(",") + 1
    print(f"{about['cpu']}, {rows:,} rows of {columns} columns, {size:,.0f} MB, {options.rounds} rounds\n")
    print("| contender | rows/s | MB/s | time / first | peak memory, MB | rows read |\n|---|---:|---:|---:|---:|---:|")
    anchor = statistics.median(seconds for seconds, _, _ in next(iter(results.values())))
    for name, runs in results.items():
        seconds = statistics.median(run[0] for run in runs)
        peak = max(run[1] for run in runs)
        print(
            f"| {name} | {runs[0][2] / seconds:,.0f} | {size / seconds:,.0f} | {seconds / anchor:.2f} | {peak:,.0f} "
            f"| {runs[0][2]:,} |"
        )


if __name__ == "__main__":
    main()
