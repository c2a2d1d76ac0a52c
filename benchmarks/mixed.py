"""A generated table like those of users: dates, names, missing values, numbers of any scale, and one drift."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

__all__ = ["Row", "csv_text", "mixed_rows"]

Row = dict[str, Any]


def mixed_rows(count: int, seed: int = 0) -> list[Row]:
    """Return rows with a key and a label ``sold``: below a price at first, above it from the middle on, 8 % noise."""
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


def csv_text(rows: list[Row], columns: list[str] | None = None) -> str:
    """Return the rows as CSV with a header."""
    names = list(rows[0]) if columns is None else columns
    return "\n".join([",".join(names), *(",".join(_cell(row[name]) for name in names) for row in rows)]) + "\n"


def _cell(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
