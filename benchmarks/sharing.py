"""Errors of keys that share a model: ``python -m benchmarks.sharing [--rows N] [--seeds N]`` (some minutes).

Made streams have a rule that is common to all keys to a planted share, and Zipf row counts. Of the real tables, the
airline table was looked at while the mechanism was chosen; the others chose nothing. All errors are over all rows from
the first time step of the shared model on, which is 200 rows; a row without a prediction counts as wrong. Intervals are
of 2,000 resamplings of keys.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from driftsurf.data import FileSource
from driftsurf.data.datasets.known import find_file
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.keyed import Columns, KeyedFolder, KeyedOptions, run_keyed

SKIPPED = 200
SHARES = "default", "light", "linear", "none"


def made(common: float, n_keys: int, rows: int, seed: int, columns: int = 10) -> dict[str, Any]:
    """Return rows of keys whose rules have a planted part in common."""
    rng = np.random.default_rng(seed)
    together, own = rng.normal(size=columns), rng.normal(size=(n_keys, columns))
    rule = np.sqrt(common) * together / np.linalg.norm(together)
    rule = rule + np.sqrt(1 - common) * own / np.linalg.norm(own, axis=1)[:, np.newaxis]
    rule /= np.linalg.norm(rule, axis=1)[:, np.newaxis]
    often = 1 / np.arange(1, n_keys + 1)
    keys, X = rng.choice(n_keys, size=rows, p=often / often.sum()), rng.normal(size=(rows, columns))
    y = rng.random(rows) < 1 / (1 + np.exp(-3 * (X * rule[keys]).sum(axis=1)))
    return {"key": keys, "at": np.arange(rows), "y": y} | {f"x{place}": X[:, place] for place in range(columns)}


def real() -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Yield real tables with a column of keys: name, columns, key and label."""
    airline, electricity, power, cover = (
        _columns(name) for name in ("airline_2007_first50482", "elec2", "powersupply", "covtype_sample92962")
    )
    yield "airline by carrier", airline, "UniqueCarrier", "ArrDelay > 0"
    yield "airline by airport", airline, "Origin", "ArrDelay > 0"
    yield "Electricity by weekday", electricity, "day", "class"
    half_hour = np.round(electricity["period"] * 47).astype(int)
    yield "Electricity by half hour", electricity | {"half hour": half_hour}, "half hour", "class"
    yield "PowerSupply by hour, number", power, "class", "attribute1"
    names = list(cover)
    soil = np.argmax([cover[name][:20_000] for name in names[14:54]], axis=0)
    kept = {name: cover[name][:20_000] for name in (*names[:14], names[54], "at")}
    yield "Covertype by soil, 7 classes", kept | {"soil": soil}, "soil", names[54]


def _columns(name: str) -> dict[str, Any]:
    path = find_file([f"{name}.csv.gz"])
    if path is None:
        raise SystemExit(f"there is no {name}.csv.gz in DRIFTSURF_DATA")
    table, _ = next(FileSource(str(path), ReadingOptions(), batch_size=10**6).tables())
    found = {
        name: column.values if column.kind != "text" else np.array(column.words)[column.values]
        for name, column in table.columns.items()
    }
    return found | {"at": np.arange(len(table))}


def run(columns: Mapping[str, Any], key: str, label: str, share: Any) -> tuple[KeyedFolder, float]:
    """Return the folder of a keyed run over these columns, and its CPU time."""
    place = Path(tempfile.mkdtemp())
    parquet.write_table(pa.table(dict(columns)), place / "rows.parquet")
    started = time.process_time()
    folder = run_keyed(str(place / "rows.parquet"), place / "run", Columns(key, "at", label), KeyedOptions(share=share))
    return folder, time.process_time() - started


def errors(folder: KeyedFolder) -> tuple[Any, Any, Any]:
    """Return the key of each row, its error, and that of the shared model alone, without the first rows."""
    found = folder.read("predictions")
    alone = found.get("shared", found["prediction"])
    scored = [at >= SKIPPED for at in found["sequence"]]
    true = found["true"]
    if folder.regression:
        wrong, plain = (np.abs(_numbers(values) - _numbers(true))[scored] for values in (found["prediction"], alone))
    else:
        wrong, plain = (
            np.array([value != label for value, label in zip(values, true, strict=True)], np.float64)[scored]
            for values in (found["prediction"], alone)
        )
    return np.array(found["key"])[scored], wrong, plain


def _numbers(values: Any) -> Any:
    """Return numbers; a key without a prediction predicts 0."""
    return np.array([0.0 if value is None else value for value in values], np.float64)


def interval(keys: Any, difference: Any) -> tuple[float, float]:
    """Return the interval of a mean over rows, over resamplings of keys."""
    codes = np.unique(keys, return_inverse=True)[1]
    totals, counts = np.bincount(codes, difference), np.bincount(codes)
    chosen = np.random.default_rng(0).integers(len(counts), size=(2000, len(counts)))
    low, high = np.quantile(totals[chosen].sum(axis=1) / counts[chosen].sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


def line(name: str, columns: Mapping[str, Any], key: str, label: str, shares: Any = SHARES) -> str:
    """Return a line of the table: errors of each choice, and of the shared model alone."""
    parts = [f"{name:34} {len(np.unique(columns[key])):6,} keys"]
    each: Any = None
    for share in reversed(shares):
        folder, seconds = run(columns, key, label, share)
        keys, wrong, plain = errors(folder)
        if share == "none":
            each = wrong
            parts.append(f"none {wrong.mean():.4f} ({seconds:.1f} s)")
            continue
        low, high = interval(keys, wrong - plain)
        parts.append(
            f"{share} {wrong.mean():.4f} ({seconds:.1f} s), one model {plain.mean():.4f}, "
            f"difference {wrong.mean() - plain.mean():+.4f} ({low:+.4f} to {high:+.4f})"
        )
        if each is not None and len(each) == len(wrong):
            low, high = interval(keys, wrong - each)
            parts.append(f"to none {wrong.mean() - each.mean():+.4f} ({low:+.4f} to {high:+.4f})")
    return "; ".join(parts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", choices=("made", "real"))
    given = parser.parse_args()
    if given.only != "real":
        for n_keys in (10, 100, 1_000, 10_000):
            for common in (0.0, 0.5, 0.9, 1.0):
                for seed in range(100, 100 + given.seeds):
                    columns = made(common, n_keys, given.rows, seed)
                    name = f"{common:.0%} common, seed {seed}"
                    print(line(name, columns, "key", "y", ("linear", "none")), flush=True)
    if given.only != "made":
        for name, columns, key, label in real():
            print(line(name, columns, key, label), flush=True)


if __name__ == "__main__":
    main()
