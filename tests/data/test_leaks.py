"""Columns that give the label away are pointed out; columns that are merely good, or rise, are not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from source_files import write

from driftsurf.data import FileSource
from driftsurf.data.advice import find_leaks
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import find_target

N = 1000
RNG = np.random.default_rng(0)
Y = RNG.random(N) < 0.3
NOISE = RNG.normal(size=N)
SUM = RNG.normal(size=N) * 50 + 200


def leaks(columns: dict[str, Any], y: Any, regression: bool = False) -> list[str]:
    return [leak.column for leak in find_leaks(read_table(columns), np.asarray(y), regression=regression)]


@pytest.mark.parametrize(
    ("column", "y", "leaks_label"),
    [
        (Y.astype(float), Y, True),
        (["returned" if y else f"kept {i % 3}" for i, y in enumerate(Y)], Y, True),
        ([5.0 if y else None for y in Y], Y, True),  # only where it is known
        (np.where(Y, 100, 0) + NOISE, Y, True),  # one threshold
        (np.where(Y, 100, 0) + NOISE + np.where(np.arange(N) % 250 == 0, 100, 0), Y, True),  # 4 rows do not fit
        (np.where(Y, 2.0, 0) + NOISE, Y, False),  # good, but far from perfect
        ([f"order {i}" for i in range(N)], Y, False),  # different in each row
        (np.arange(N), np.arange(N) > 700, False),  # a clock in a sorted file
        (NOISE, Y, False),
        (Y, np.arange(N) == 7, False),  # too few rows of the other class
        ([f"{y}" for y in range(N)], np.arange(N) % 4, False),
        (np.arange(N) % 4 * 10 + RNG.random(N), np.arange(N) % 4, True),
    ],
)
def test_a_column_that_tells_the_class_is_found(column: Any, y: Any, leaks_label: bool) -> None:
    assert leaks({"x": NOISE, "leak": column}, y) == ["leak"] * leaks_label


def test_a_column_that_tells_the_number_is_found() -> None:
    columns = {"same": SUM * 1.2 + 3, "near": SUM + RNG.normal(size=N) * 10, "flat": np.zeros(N)}
    columns["odd"] = np.where(np.arange(N) == 3, 1e9, 0.0)
    assert leaks(columns, SUM, regression=True) == ["same"]


def test_a_run_points_a_leak_out_with_the_remedy(tmp_path: Path) -> None:
    lines = [f"{NOISE[i]:.3f},{'r' if Y[i] else 'k'},{'yes' if Y[i] else 'no'}" for i in range(300)]
    path = write(tmp_path, "a.csv", "x,state,sold\n" + "\n".join(lines))
    result = invoke("run", path, "--label", "sold", "--batch-size", "100", "--out", tmp_path / "run")
    output = " ".join(result.output.split())
    assert "'state' alone tells the label in 100 of the first 100 rows" in output
    assert "--drop state" in output
    assert "'x'" not in output


LABELS = {
    "elec2.csv.gz": "class",
    "noaa_weather.csv.gz": "target",
    "airline_2007_first50482.csv.gz": "ArrDelay > 0",
    "covtype_sample92962.csv.gz": "Cover_Type",
    "insects_gradual_balanced.csv.gz": "class",
    "outdoor.csv.gz": "class",
    "phishing.csv.gz": "target",
    "powersupply.csv.gz": "class",
    "rialto.csv.gz": "class",
}


@pytest.mark.parametrize("name", LABELS)
def test_real_tables_raise_no_alarm(name: str) -> None:
    path = Path(os.environ.get("DRIFTSURF_DATA", "")) / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the folder DRIFTSURF_DATA")
    table, _ = next(FileSource(path).tables())
    target = find_target(LABELS[name], "auto", table)
    table = table.select(~target.missing(table))
    assert not list(find_leaks(table.without(target.column), target.read(table)))
