"""A table like those of users, in every format that can be read, with a drift in the middle."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from benchmarks.mixed import Row, csv_text, mixed_rows

__all__ = ["FORMS", "Row", "csv_text", "mixed_rows", "write_csv", "write_inverted"]


def write_csv(folder: Path, rows: list[Row]) -> Path:
    (folder / "sales.csv").write_text(csv_text(rows))
    return folder / "sales.csv"


def write_gzip(folder: Path, rows: list[Row]) -> Path:
    (folder / "sales.csv.gz").write_bytes(gzip.compress(csv_text(rows).encode(), mtime=0))
    return folder / "sales.csv.gz"


def write_jsonl(folder: Path, rows: list[Row]) -> Path:
    (folder / "sales.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "sales.jsonl"


def write_parquet(folder: Path, rows: list[Row]) -> Path:
    typed = [{**row, "when": datetime.datetime.fromisoformat(row["when"])} for row in rows]
    pa.parquet.write_table(pa.Table.from_pylist(typed), folder / "sales.parquet", row_group_size=170)
    return folder / "sales.parquet"


def write_folder(folder: Path, rows: list[Row]) -> Path:
    (folder / "parts").mkdir()
    for start in range(0, len(rows), 330):
        (folder / "parts" / f"{start:05d}.csv").write_text(csv_text(rows[start : start + 330]))
    return folder / "parts"


FORMS = {
    "csv": write_csv,
    "csv.gz": write_gzip,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "folder": write_folder,
}


def write_inverted(folder: Path) -> Path:
    """Write a file whose label is the sign of column a, and is inverted in the second half."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 600))
    labels = np.where((a > 0) == (np.arange(600) < 300), "up", "down")
    lines = [f'{{"a": {x}, "b": {y}, "label": "{z}"}}\n' for x, y, z in zip(a, b, labels, strict=True)]
    path = folder / "turning.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path
