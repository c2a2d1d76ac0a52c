"""A table as people have them, in every form that can be read, with labels that turn around half way."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

Row = dict[str, Any]


def mixed_rows(count: int, seed: int = 0) -> list[Row]:
    """Dates, categories of many names, gaps, numbers of any scale; what sells changes half way."""
    draw = np.random.default_rng(seed)
    start = datetime.datetime(2007, 1, 1)
    rows = []
    for i in range(count):
        price, city = 1e6 + 2e5 * draw.normal(), f"city {int(draw.zipf(1.4)) % 500}"
        wanted = price < 1e6 if i < count // 2 else price > 1e6
        rows.append(
            {
                "id": f"r{i:05d}",
                "when": (start + datetime.timedelta(minutes=7 * i)).isoformat(),
                "price": None if draw.random() < 0.05 else round(price, 2),
                "share": round(1e-4 * draw.random(), 9),
                "city": None if draw.random() < 0.02 else city,
                "member": bool(draw.random() < 0.5),
                "sold": "yes" if wanted != (draw.random() < 0.08) else "no",
            }
        )
    return rows


def cell(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def csv_text(rows: list[Row], columns: list[str] | None = None) -> str:
    names = list(rows[0]) if columns is None else columns
    return "\n".join([",".join(names), *(",".join(cell(row[name]) for name in names) for row in rows)]) + "\n"


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
